//go:build cgo && unix

// SSL_CTX: built once for each configuration, shared by its connections.

#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libssl_table.h"

enum { // numbers of SSL_CTX_ctrl behind OpenSSL's macros
    CTRL_MODE = 33,
    CTRL_SESSION_CACHE_MODE = 44,
    CTRL_CHAIN_CERT = 89,
    CTRL_SET_GROUPS_LIST = 92,
    CTRL_SET_SIGALGS_LIST = 98,
    CTRL_SET_DH_AUTO = 118,
    CTRL_SET_MIN_PROTO_VERSION = 123,
    CTRL_SET_MAX_PROTO_VERSION = 124,
    CTRL_GET_MIN_PROTO_VERSION = 130,
    VERSION_TLS_1_2 = 0x0303,
};

static int refuse(const char *what, char *text, size_t text_len) {
    char why[320];
    fip_drain_errors(why, sizeof(why));
    snprintf(text, text_len, "%s%s%s", what, why[0] ? ": " : "", why);
    return 0;
}

fip_context *fip_context_new(void *library, int fips, int is_server, char *text, size_t text_len) {
    ossl.ERR_clear_error();
    fip_context *context = calloc(1, sizeof(*context));
    if (context == NULL) {
        refuse("no memory for a context", text, text_len);
        return NULL;
    }
    context->library = library;
    context->properties = fips && library != NULL ? "fips=yes" : NULL;
    context->references = 1;
    context->fips = fips;
    context->ctx = library != NULL ? ossl.SSL_CTX_new_ex(library, context->properties, ossl.TLS_method())
                                   : ossl.SSL_CTX_new(ossl.TLS_method());
    if (context->ctx == NULL) {
        refuse("SSL_CTX_new", text, text_len);
        free(context);
        return NULL;
    }
    fip_count(FIP_COUNT_CONTEXT, 1);
    // Partial writes and a buffer that may move: a write that is interrupted is taken up with
    // another slice. No certificate that happens to be trusted is sent behind the configured chain.
    // A server's idle connections give their record buffers back (34 KiB each), since it may have very
    // many; a client has few, and for it that is a twentieth of a small request.
    ossl.SSL_CTX_ctrl(context->ctx, CTRL_MODE, 0x1 | 0x2 | 0x8 | (is_server ? 0x10 : 0), NULL);
    ossl.SSL_CTX_ctrl(context->ctx, CTRL_SET_DH_AUTO, 1, NULL);
    ossl.SSL_CTX_set_msg_callback(context->ctx, fip_message);
    ossl.SSL_CTX_set_cert_verify_callback(context->ctx, fip_verify_chain, NULL);
    if (is_server) ossl.SSL_CTX_set_session_ticket_cb(context->ctx, fip_ticket_made, fip_ticket_read, NULL);
    ossl.SSL_CTX_set_session_id_context(context->ctx, (const unsigned char *)"fipstls", 7);
    return context;
}

void fip_context_retain(fip_context *context) {
    __atomic_add_fetch(&context->references, 1, __ATOMIC_RELAXED);
}

void fip_context_free(fip_context *context) {
    if (__atomic_sub_fetch(&context->references, 1, __ATOMIC_ACQ_REL) > 0) return;
    ossl.SSL_CTX_free(context->ctx);
    free(context->alpn);
    free(context);
    fip_count(FIP_COUNT_CONTEXT, -1);
}

// 0 for min is TLS 1.2, or what the system's policy in openssl.cnf sets above it; 0 for max leaves it.
int fip_context_versions(fip_context *context, int min, int max) {
    if (min == 0) {
        long set = ossl.SSL_CTX_ctrl(context->ctx, CTRL_GET_MIN_PROTO_VERSION, 0, NULL);
        min = set > VERSION_TLS_1_2 ? (int)set : VERSION_TLS_1_2;
    }
    return ossl.SSL_CTX_ctrl(context->ctx, CTRL_SET_MIN_PROTO_VERSION, min, NULL) == 1 &&
           (max == 0 || ossl.SSL_CTX_ctrl(context->ctx, CTRL_SET_MAX_PROTO_VERSION, max, NULL) == 1);
}

int fip_context_options(fip_context *context, uint64_t options) {
    return (ossl.SSL_CTX_set_options(context->ctx, options) & options) == options;
}

int fip_context_text(fip_context *context, int what, const char *value, char *text, size_t text_len) {
    int ok = 0;
    ossl.ERR_clear_error();
    switch (what) {
    case FIP_CIPHERS_12:
        ok = ossl.SSL_CTX_set_cipher_list(context->ctx, value);
        break;
    case FIP_CIPHERS_13:
        ok = ossl.SSL_CTX_set_ciphersuites(context->ctx, value);
        break;
    case FIP_GROUPS:
        ok = (int)ossl.SSL_CTX_ctrl(context->ctx, CTRL_SET_GROUPS_LIST, 0, (void *)value);
        break;
    case FIP_SIGNATURES:
        ok = (int)ossl.SSL_CTX_ctrl(context->ctx, CTRL_SET_SIGALGS_LIST, 0, (void *)value);
        break;
    case FIP_CA_FILE:
        ok = ossl.SSL_CTX_load_verify_locations(context->ctx, value, NULL);
        break;
    case FIP_CA_PATH:
        ok = ossl.SSL_CTX_load_verify_locations(context->ctx, NULL, value);
        break;
    }
    return ok == 1 ? 1 : refuse("libssl refuses it", text, text_len);
}

int fip_context_approved_ciphers(fip_context *context, char *text, size_t text_len) {
    enum { KX_RSA = 1037, KX_RSA_PSK = 1041, KX_ANY = 1063 }; // NID_kx_*; any is TLS 1.3's
    STACK *ciphers = ossl.SSL_CTX_get_ciphers(context->ctx);
    int count = ciphers == NULL ? 0 : ossl.OPENSSL_sk_num(ciphers), dropped = 0;
    char names[8192] = "";
    size_t used = 0;
    for (int i = 0; i < count; i++) {
        const SSL_CIPHER *cipher = ossl.OPENSSL_sk_value(ciphers, i);
        int exchange = ossl.SSL_CIPHER_get_kx_nid(cipher);
        if (exchange == KX_RSA || exchange == KX_RSA_PSK) dropped++;
        if (exchange == KX_RSA || exchange == KX_RSA_PSK || exchange == KX_ANY) continue;
        int wrote = snprintf(names + used, sizeof(names) - used, "%s%s", used ? ":" : "", ossl.SSL_CIPHER_get_name(cipher));
        if (wrote < 0 || (size_t)wrote >= sizeof(names) - used) return refuse("the list is too long", text, text_len);
        used += (size_t)wrote;
    }
    if (dropped == 0) return 1;
    ossl.ERR_clear_error();
    if (used == 0) return refuse("all have RSA key transport, which is not approved", text, text_len);
    return ossl.SSL_CTX_set_cipher_list(context->ctx, names) == 1 ? 1 : refuse("libssl refuses the approved ones", text, text_len);
}

int fip_context_default_trust(fip_context *context, char *text, size_t text_len) {
    int ok = ossl.SSL_CTX_set_default_verify_paths(context->ctx) == 1;
    return ok ? 1 : refuse("SSL_CTX_set_default_verify_paths", text, text_len);
}

static int add_crl(fip_context *context, const unsigned char *der, size_t len) {
    X509_CRL *crl = context->library ? ossl.X509_CRL_new_ex(context->library, context->properties) : NULL;
    X509_CRL *read = ossl.d2i_X509_CRL(crl ? &crl : NULL, &der, (long)len);
    if (read == NULL) return 0; // d2i has freed what it was given
    int ok = ossl.X509_STORE_add_crl(ossl.SSL_CTX_get_cert_store(context->ctx), read);
    ossl.X509_CRL_free(read);
    return ok;
}

int fip_context_add(fip_context *context, int what, const unsigned char *der, size_t len, char *text,
                    size_t text_len) {
    ossl.ERR_clear_error();
    if (what == FIP_CRL) return add_crl(context, der, len) ? 1 : refuse("CRL", text, text_len);
    X509 *fresh = context->library ? ossl.X509_new_ex(context->library, context->properties) : NULL;
    const unsigned char *const end = der + len;
    // A TRUSTED CERTIFICATE says behind the certificate what it is trusted and rejected for.
    X509 *cert = what == FIP_TRUST_AUX ? ossl.d2i_X509_AUX(fresh ? &fresh : NULL, &der, (long)len)
                                       : ossl.d2i_X509(fresh ? &fresh : NULL, &der, (long)len);
    if (cert == NULL) return refuse("certificate", text, text_len);
    if (der != end) {
        ossl.X509_free(cert);
        return refuse("there are bytes behind the certificate", text, text_len);
    }
    int ok = 0;
    switch (what) {
    case FIP_TRUST:
    case FIP_TRUST_AUX:
        ok = ossl.X509_STORE_add_cert(ossl.SSL_CTX_get_cert_store(context->ctx), cert);
        break;
    case FIP_CERTIFICATE:
        ok = ossl.SSL_CTX_use_certificate(context->ctx, cert);
        break;
    case FIP_CHAIN: // 1: the context takes a reference of its own
        ok = (int)ossl.SSL_CTX_ctrl(context->ctx, CTRL_CHAIN_CERT, 1, cert);
        break;
    case FIP_CLIENT_CA:
        ok = ossl.SSL_CTX_add_client_CA(context->ctx, cert);
        break;
    }
    ossl.X509_free(cert);
    return ok == 1 ? 1 : refuse("certificate", text, text_len);
}

static int use_key(fip_context *context, EVP_PKEY *key, char *text, size_t text_len) {
    if (key == NULL) return refuse("private key", text, text_len);
    int ok = ossl.SSL_CTX_use_PrivateKey(context->ctx, key);
    ossl.EVP_PKEY_free(key);
    return ok == 1 ? 1 : refuse("private key", text, text_len);
}

int fip_context_key(fip_context *context, const unsigned char *bytes, size_t len, int is_pem,
                    const char *passphrase, char *text, size_t text_len) {
    EVP_PKEY *key = NULL;
    ossl.ERR_clear_error();
    if (passphrase == NULL) passphrase = ""; // never null, which would ask the terminal
    if (is_pem) {
        BIO *bio = ossl.BIO_new_mem_buf(bytes, (int)len);
        if (bio == NULL) return refuse("private key", text, text_len);
        // Without a callback the last argument is the passphrase.
        key = context->library ? ossl.PEM_read_bio_PrivateKey_ex(bio, NULL, NULL, (void *)passphrase,
                                                                 context->library, context->properties)
                               : ossl.PEM_read_bio_PrivateKey(bio, NULL, NULL, (void *)passphrase);
        ossl.BIO_free(bio);
    } else {
        key = context->library ? ossl.d2i_AutoPrivateKey_ex(NULL, &bytes, (long)len, context->library,
                                                            context->properties)
                               : ossl.d2i_AutoPrivateKey(NULL, &bytes, (long)len);
    }
    return use_key(context, key, text, text_len);
}

static int give_passphrase(char *buf, int size, int for_writing, void *passphrase) {
    (void)for_writing;
    int len = (int)strlen(passphrase);
    if (len > size) return -1;
    memcpy(buf, passphrase, (size_t)len);
    return len;
}

int fip_context_store(fip_context *context, const char *uri, int want_key, const char *passphrase,
                      char *text, size_t text_len) {
    enum { INFO_PKEY = 4, INFO_CERT = 5 };
    if (!(fip_capabilities() & FIP_CAN_STORE)) {
        snprintf(text, text_len, "%s has no OSSL_STORE for URIs; 3.0 or newer has", ossl.OpenSSL_version(0));
        return 0;
    }
    ossl.ERR_clear_error();
    if (passphrase == NULL) passphrase = "";
    void *ui = ossl.UI_UTIL_wrap_read_pem_callback(give_passphrase, 0);
    // No property query: a key in a token lives in its own provider, not in fips.
    void *store = ossl.OSSL_STORE_open_ex(uri, context->library, NULL, ui, (void *)passphrase, NULL, NULL, NULL);
    int found = 0, ok = 0;
    while (store != NULL && !ok && !ossl.OSSL_STORE_eof(store) && !ossl.OSSL_STORE_error(store)) {
        void *info = ossl.OSSL_STORE_load(store);
        if (info == NULL) continue;
        int type = ossl.OSSL_STORE_INFO_get_type(info);
        if (want_key && type == INFO_PKEY) {
            found = 1;
            ok = use_key(context, ossl.OSSL_STORE_INFO_get1_PKEY(info), text, text_len);
        } else if (!want_key && type == INFO_CERT) {
            X509 *cert = ossl.OSSL_STORE_INFO_get1_CERT(info);
            found = 1;
            ok = cert != NULL && ossl.SSL_CTX_use_certificate(context->ctx, cert) == 1;
            ossl.X509_free(cert);
        }
        ossl.OSSL_STORE_INFO_free(info);
        if (found) break;
    }
    if (!ok && !(found && want_key))
        refuse(found ? "certificate" : want_key ? "no private key is found there" : "no certificate is found there",
               text, text_len);
    ossl.ERR_clear_error();
    if (store != NULL) ossl.OSSL_STORE_close(store);
    if (ui != NULL) ossl.UI_destroy_method(ui);
    return ok;
}

int fip_context_check_key(fip_context *context, char *text, size_t text_len) {
    ossl.ERR_clear_error();
    if (ossl.SSL_CTX_check_private_key(context->ctx) == 1) return 1;
    return refuse("the private key does not go with the certificate", text, text_len);
}

void fip_context_verify(fip_context *context, int mode) { ossl.SSL_CTX_set_verify(context->ctx, mode, NULL); }

void fip_context_store_flags(fip_context *context, unsigned long flags) {
    ossl.X509_STORE_set_flags(ossl.SSL_CTX_get_cert_store(context->ctx), flags);
}

// Clients keep sessions in Go, where they are found by name; servers in libssl or in tickets.
void fip_context_sessions(fip_context *context, int client, int server) {
    enum { CLIENT = 1, SERVER = 2, NO_INTERNAL_STORE = 0x200 };
    long mode = (client ? CLIENT | NO_INTERNAL_STORE : 0) | (server ? SERVER : 0);
    ossl.SSL_CTX_ctrl(context->ctx, CTRL_SESSION_CACHE_MODE, mode, NULL);
    if (client) ossl.SSL_CTX_sess_set_new_cb(context->ctx, fip_new_session);
    // Without this a TLS 1.3 server sends tickets that name a session in its cache.
    if (!client && !server) ossl.SSL_CTX_set_num_tickets(context->ctx, 0);
}

void fip_context_keylog(fip_context *context) {
    ossl.SSL_CTX_set_keylog_callback(context->ctx, fip_keylog_line);
}

// The first of the server's protocols that the client offers. None in common ends the handshake with
// the alert no_application_protocol (RFC 7301, section 3.2).
static int choose_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                       const unsigned char *offered, unsigned int offered_len, void *argument) {
    fip_context *context = argument;
    (void)ssl;
    for (size_t i = 0; i < context->alpn_len; i += 1 + context->alpn[i]) {
        size_t ours = context->alpn[i];
        for (size_t j = 0; j < offered_len; j += 1 + offered[j]) {
            if (offered[j] == ours && j + 1 + ours <= offered_len &&
                memcmp(offered + j + 1, context->alpn + i + 1, ours) == 0) {
                *out = offered + j + 1;
                *out_len = offered[j];
                return 0; // SSL_TLSEXT_ERR_OK
            }
        }
    }
    return 2; // SSL_TLSEXT_ERR_ALERT_FATAL
}

int fip_context_alpn(fip_context *context, const unsigned char *wire, size_t len) {
    context->alpn = malloc(len);
    if (context->alpn == NULL) return 0;
    memcpy(context->alpn, wire, len);
    context->alpn_len = len;
    ossl.SSL_CTX_set_alpn_select_cb(context->ctx, choose_alpn, context);
    return 1;
}
