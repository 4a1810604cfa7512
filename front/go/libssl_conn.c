//go:build cgo && unix

// Connections: the step interface.

#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "libssl_table.h"

enum { // numbers of SSL_ctrl and SSL_get_error behind OpenSSL's macros
    CTRL_SET_TLSEXT_HOSTNAME = 55,
    CTRL_GET_PEER_SIGNATURE_NID = 108,
    CTRL_GET_EXTMS_SUPPORT = 122,
    CTRL_GET_PEER_TMP_KEY = 109,
    CTRL_GET_NEGOTIATED_GROUP = 134,
    ERROR_WANT_READ = 2,
    ERROR_ZERO_RETURN = 6,
    VERSION_TLS_1_3 = 0x0304,
};

// Names are looked for in subjectAltName only (RFC 9525); a wildcard is a whole label.
enum { HOST_FLAGS = 0x4 /* NO_PARTIAL_WILDCARDS */ | 0x20 /* NEVER_CHECK_SUBJECT */ };

// --- making and freeing ----------------------------------------------------------------------------

// Expects of the peer's certificate that it is for `name`, and asks for it by SNI; never by SNI for
// an address (RFC 6066, section 3).
static int set_name(fip_conn *conn, const char *name, int is_ip, int check) {
    SSL *ssl = conn->ssl;
    if (name == NULL) return 1;
    if (!is_ip && ossl.SSL_ctrl(ssl, CTRL_SET_TLSEXT_HOSTNAME, 0, (void *)name) != 1) return 0;
    if (!check) return 1;
    VERIFY_PARAM *param = ossl.SSL_get0_param(ssl);
    ossl.X509_VERIFY_PARAM_set_hostflags(param, HOST_FLAGS);
    if ((is_ip ? ossl.X509_VERIFY_PARAM_set1_ip_asc(param, name) : ossl.SSL_set1_host(ssl, name)) != 1) return 0;
    conn->check_name = strdup(name);
    conn->check_is_ip = is_ip;
    return conn->check_name != NULL;
}

fip_conn *fip_conn_new(fip_context *context, int is_server, const char *name, int is_ip, int check,
                       const unsigned char *alpn, size_t alpn_len, void *session, int64_t expires) {
    ossl.ERR_clear_error();
    fip_conn *conn = calloc(1, sizeof(*conn));
    if (conn == NULL) {
        if (session != NULL) fip_session_free(session);
        return NULL;
    }
    conn->offered = session;
    conn->expires = expires;
    fip_count(FIP_COUNT_CONN, 1);
    fip_context_retain(context);
    conn->context = context;
    conn->alert = -1;
    SSL *ssl = ossl.SSL_new(context->ctx);
    conn->ssl = ssl;
    BIO *bio = ssl == NULL ? NULL : ossl.BIO_new(fip_bio_method());
    if (bio == NULL) goto failed;
    ossl.BIO_set_data(bio, conn);
    ossl.BIO_set_init(bio, 1);
    ossl.SSL_set_bio(ssl, bio, bio);
    ossl.SSL_set_ex_data(ssl, 0, conn);
    if (is_server) {
        ossl.SSL_set_accept_state(ssl);
        return conn;
    }
    ossl.SSL_set_connect_state(ssl);
    if (!set_name(conn, name, is_ip, check)) goto failed;
    if (alpn_len > 0 && ossl.SSL_set_alpn_protos(ssl, alpn, (unsigned int)alpn_len) != 0) goto failed;
    // A session that can't be used costs a full handshake, nothing else.
    if (session != NULL) ossl.SSL_set_session(ssl, session);
    return conn;
failed:
    fip_conn_free(conn);
    return NULL;
}

void fip_conn_free(fip_conn *conn) {
    if (conn->ssl != NULL) {
        // A connection that is freed without close_notify would take its session out of use for all
        // its owners; fatal alerts have done so already. These bytes go to the spill, and nowhere.
        conn->in_used = conn->out_len = 0;
        ossl.SSL_shutdown(conn->ssl);
        ossl.SSL_free(conn->ssl);
    }
    ossl.ERR_clear_error();
    if (conn->session != NULL) fip_session_free(conn->session);
    if (conn->offered != NULL) fip_session_free(conn->offered);
    fip_context_free(conn->context);
    free(conn->spill);
    free(conn->keylog);
    free(conn->check_name);
    free(conn);
    fip_count(FIP_COUNT_CONN, -1);
}

// --- the step --------------------------------------------------------------------------------------

static X509 *peer_certificate(SSL *ssl) {
    return ossl.SSL_get1_peer_certificate ? ossl.SSL_get1_peer_certificate(ssl)
                                          : ossl.SSL_get_peer_certificate(ssl);
}

// A resumed handshake carries no certificate; the one in the session still has to be for the name.
static int resumed_name_matches(fip_conn *conn) {
    if (conn->check_name == NULL || !ossl.SSL_session_reused(conn->ssl)) return 1;
    X509 *cert = peer_certificate(conn->ssl);
    if (cert == NULL) return 0;
    int ok = conn->check_is_ip ? ossl.X509_check_ip_asc(cert, conn->check_name, 0)
                               : ossl.X509_check_host(cert, conn->check_name, 0, HOST_FLAGS, NULL);
    ossl.X509_free(cert);
    return ok == 1;
}

// libssl announces no session of a TLS 1.2 handshake that resumed one, though it may carry a new ticket.
static void keep_resumed(fip_conn *conn) {
    if (conn->offered == NULL || !ossl.SSL_session_reused(conn->ssl) ||
        ossl.SSL_version(conn->ssl) >= VERSION_TLS_1_3)
        return;
    SSL_SESSION *session = ossl.SSL_get1_session(conn->ssl);
    if (session != NULL && !fip_new_session(conn->ssl, session)) ossl.SSL_SESSION_free(session);
}

// Without the extended master secret (RFC 7627) the key derivation of TLS 1.2 is not approved, and two
// connections can be made to share their secrets. The provider leaves that to the application.
static int is_approved(fip_conn *conn) {
    return !conn->context->fips || ossl.SSL_version(conn->ssl) >= VERSION_TLS_1_3 ||
           ossl.SSL_ctrl(conn->ssl, CTRL_GET_EXTMS_SUPPORT, 0, NULL) == 1;
}

static int handshake(fip_conn *conn) {
    int result = ossl.SSL_do_handshake(conn->ssl);
    if (result == 1) keep_resumed(conn);
    if (result == 1 && !resumed_name_matches(conn)) {
        conn->status = FIP_FAILED;
        conn->refused = 1;
        conn->verify = conn->check_is_ip ? 64 : 62; // X509_V_ERR_IP_ADDRESS_MISMATCH, _HOSTNAME_MISMATCH
        snprintf(conn->text, sizeof(conn->text), "the resumed session's certificate is for another name");
    }
    if (result == 1 && !is_approved(conn)) {
        conn->status = FIP_FAILED;
        conn->code = 0;
        conn->refused = 0;
        snprintf(conn->text, sizeof(conn->text), "FIPS is required, and the peer has no extended master secret");
    }
    return result;
}

// Reads as many records as `in` holds and `buf` takes.
static int read_records(fip_conn *conn, unsigned char *buf, size_t len) {
    int result = 1;
    while (conn->n < len) {
        size_t got = 0;
        result = ossl.SSL_read_ex(conn->ssl, buf + conn->n, len - conn->n, &got);
        if (result != 1) break;
        conn->n += got;
        if (got > 0) conn->messages = 0;
        // Asking for more than there is costs as much as a small record does.
        if (conn->in_used == conn->in_len && ossl.SSL_pending(conn->ssl) == 0) break;
    }
    return result;
}

// While a renegotiation runs, SSL_write reads for it, and takes data that SSL_read has begun to give out
// for a mistake of the peer. That data has to be read first.
static int reading_comes_first(fip_conn *conn) {
    return conn->pending > 0 && (ossl.SSL_in_init(conn->ssl) || ossl.SSL_renegotiate_pending(conn->ssl));
}

static int write_records(fip_conn *conn, const unsigned char *buf, size_t len) {
    int result = 1;
    while (conn->n < len) {
        size_t put = 0;
        result = ossl.SSL_write_ex(conn->ssl, buf + conn->n, len - conn->n, &put);
        if (result != 1) break;
        conn->n += put;
        // What a renegotiation of ours brings between two of our writes is no flood, though the peer has no data.
        if (put > 0) conn->messages = 0;
    }
    return result;
}

static void describe_failure(fip_conn *conn) {
    enum { LIB_SSL = 20, ALERT_OFFSET = 1000 };
    unsigned long code = fip_drain_errors(conn->text, sizeof(conn->text));
    int is_1 = ossl.OpenSSL_version_num() < 0x30000000UL;
    unsigned long library = is_1 ? (code >> 24) & 0xFF : (code >> 23) & 0xFF;
    unsigned long reason = is_1 ? code & 0xFFF : code & 0x7FFFFF;
    conn->code = code;
    conn->status = FIP_FAILED;
    if (library == LIB_SSL && reason >= ALERT_OFFSET && reason < ALERT_OFFSET + 256)
        conn->alert = (int32_t)(reason - ALERT_OFFSET);
    conn->verify = (int32_t)ossl.SSL_get_verify_result(conn->ssl);
    // SSL_R_CERTIFICATE_VERIFY_FAILED
    conn->refused = library == LIB_SSL && reason == 134;
    if (fip_is_flooded(conn)) snprintf(conn->text, sizeof(conn->text), "the peer sends handshake messages without end and no data");
    if (conn->text[0] == 0) snprintf(conn->text, sizeof(conn->text), "libssl gives no reason");
}

int fip_step(fip_conn *conn, int op, const unsigned char *in, size_t in_len, unsigned char *out,
             size_t out_cap, unsigned char *buf, size_t buf_len) {
    conn->in = in;
    conn->in_len = in_len;
    conn->out = out;
    conn->out_cap = out_cap;
    conn->status = FIP_OK;
    conn->n = conn->in_used = conn->out_len = 0;
    // The queue belongs to the thread, and a goroutine may come back on another one: it is emptied,
    // used and read within this call.
    ossl.ERR_clear_error();
    int result = 1;
    switch (op) {
    case FIP_HANDSHAKE:
        result = handshake(conn);
        break;
    case FIP_READ:
        result = read_records(conn, buf, buf_len);
        break;
    case FIP_WRITE:
        if (reading_comes_first(conn))
            conn->status = FIP_WANT_READ;
        else
            result = write_records(conn, buf, buf_len);
        break;
    case FIP_SHUTDOWN: // 0: sent, and the peer's is not here yet
        result = ossl.SSL_shutdown(conn->ssl) >= 0 ? 1 : -1;
        break;
    }
    if (result != 1) {
        int error = ossl.SSL_get_error(conn->ssl, result);
        if (error == ERROR_WANT_READ)
            conn->status = FIP_WANT_READ;
        else if (error == ERROR_ZERO_RETURN)
            conn->status = FIP_CLOSED;
        else
            describe_failure(conn);
    }
    conn->pending = ossl.SSL_pending(conn->ssl);
    conn->in = NULL;
    conn->out = NULL;
    conn->in_len = conn->out_cap = 0;
    return conn->status;
}

void fip_conn_spill(fip_conn *conn, unsigned char *out) {
    memcpy(out, conn->spill, conn->spill_len);
    free(conn->spill);
    conn->spill = NULL;
    conn->spill_len = conn->spill_cap = 0;
}

void *fip_conn_session(fip_conn *conn) {
    void *session = conn->session;
    conn->session = NULL;
    conn->events &= ~FIP_NEW_SESSION;
    return session;
}

void fip_conn_keylog(fip_conn *conn, char *out) {
    memcpy(out, conn->keylog, conn->keylog_len);
    free(conn->keylog);
    conn->keylog = NULL;
    conn->keylog_len = 0;
    conn->events &= ~FIP_KEYLOG;
}

// --- what was negotiated ---------------------------------------------------------------------------

static void copy_text(char *out, size_t len, const char *text) {
    snprintf(out, len, "%s", text == NULL ? "" : text);
}

// 1.1.1 names no group; what is left is the kind and size of the peer's key.
static void group_by_key(SSL *ssl, char *out, size_t len) {
    EVP_PKEY *key = NULL;
    int (*id)(const EVP_PKEY *) = ossl.EVP_PKEY_get_id ? ossl.EVP_PKEY_get_id : ossl.EVP_PKEY_id;
    if (id == NULL || ossl.SSL_ctrl(ssl, CTRL_GET_PEER_TMP_KEY, 0, &key) != 1 || key == NULL) return;
    int type = id(key);
    if (type == 408 && ossl.EVP_PKEY_bits != NULL) // NID_X9_62_id_ecPublicKey
        snprintf(out, len, "P-%d", ossl.EVP_PKEY_bits(key));
    else
        copy_text(out, len, ossl.OBJ_nid2sn(type));
    ossl.EVP_PKEY_free(key);
}

static void group_name(SSL *ssl, char *out, size_t len) {
    const char *name = NULL;
    if (ossl.SSL_get0_group_name != NULL) {
        name = ossl.SSL_get0_group_name(ssl);
    } else if (ossl.SSL_group_to_name != NULL) {
        long id = ossl.SSL_ctrl(ssl, CTRL_GET_NEGOTIATED_GROUP, 0, NULL);
        if (id > 0) name = ossl.SSL_group_to_name(ssl, (int)id);
    }
    copy_text(out, len, name);
    if (name == NULL) group_by_key(ssl, out, len);
}

static void signature_name(SSL *ssl, char *out, size_t len) {
    const char *name = NULL;
    int type = 0, digest = 0;
    if (ossl.SSL_get0_peer_signature_name != NULL && ossl.SSL_get0_peer_signature_name(ssl, &name) == 1) {
        copy_text(out, len, name);
        return;
    }
    if (ossl.SSL_get_peer_signature_type_nid(ssl, &type) != 1) return;
    const char *kind = ossl.OBJ_nid2sn(type);
    if (kind != NULL && strncmp(kind, "id-ml-dsa-", 10) == 0) { // the name in TLS is mldsa65
        snprintf(out, len, "mldsa%s", kind + 10);
        return;
    }
    if (type == 408) kind = "ecdsa"; // NID_X9_62_id_ecPublicKey
    if (type == 912) kind = "rsa_pss_rsae"; // NID_rsassaPss
    if (type == 6) kind = "rsa_pkcs1"; // NID_rsaEncryption
    if (ossl.SSL_ctrl(ssl, CTRL_GET_PEER_SIGNATURE_NID, 0, &digest) == 1 && digest != 0)
        snprintf(out, len, "%s_%s", kind, ossl.OBJ_nid2sn(digest));
    else
        copy_text(out, len, kind);
}

void fip_conn_info(fip_conn *conn, fip_info *info) {
    SSL *ssl = conn->ssl;
    memset(info, 0, sizeof(*info));
    ossl.ERR_clear_error();
    info->version = ossl.SSL_version(ssl);
    info->resumed = ossl.SSL_session_reused(ssl);
    info->retried = conn->retried;
    const SSL_CIPHER *cipher = ossl.SSL_get_current_cipher(ssl);
    if (cipher != NULL) {
        info->cipher_id = ossl.SSL_CIPHER_get_protocol_id(cipher);
        copy_text(info->cipher, sizeof(info->cipher), ossl.SSL_CIPHER_get_name(cipher));
    }
    group_name(ssl, info->group, sizeof(info->group));
    if (!info->resumed) signature_name(ssl, info->signature, sizeof(info->signature));
    const unsigned char *alpn = NULL;
    unsigned int alpn_len = 0;
    ossl.SSL_get0_alpn_selected(ssl, &alpn, &alpn_len);
    if (alpn != NULL && alpn_len < sizeof(info->alpn)) {
        memcpy(info->alpn, alpn, alpn_len);
        info->alpn_len = alpn_len;
    }
    copy_text(info->server_name, sizeof(info->server_name), ossl.SSL_get_servername(ssl, 0));
    ossl.ERR_clear_error();
}

static size_t put_certificate(const X509 *cert, unsigned char *out, size_t at, size_t cap) {
    int len = ossl.i2d_X509(cert, NULL);
    if (len <= 0) return 0;
    if (at + 4 + (size_t)len <= cap) {
        unsigned char *here = out + at;
        *here++ = (unsigned char)(len >> 24);
        *here++ = (unsigned char)(len >> 16);
        *here++ = (unsigned char)(len >> 8);
        *here++ = (unsigned char)len;
        ossl.i2d_X509(cert, &here);
    }
    return 4 + (size_t)len;
}

size_t fip_conn_chain(fip_conn *conn, int verified, unsigned char *out, size_t cap) {
    size_t total = 0;
    STACK *chain = verified ? ossl.SSL_get0_verified_chain(conn->ssl) : ossl.SSL_get_peer_cert_chain(conn->ssl);
    int count = chain == NULL ? 0 : ossl.OPENSSL_sk_num(chain);
    // What a server sees as the chain leaves the client's own certificate out, and so does a
    // resumed session.
    if (!verified) {
        X509 *leaf = peer_certificate(conn->ssl);
        unsigned char *first_der = NULL, *leaf_der = NULL;
        int leaf_len = leaf ? ossl.i2d_X509(leaf, &leaf_der) : 0;
        int first_len = count > 0 ? ossl.i2d_X509(ossl.OPENSSL_sk_value(chain, 0), &first_der) : 0;
        if (leaf_len > 0 && (first_len != leaf_len || memcmp(leaf_der, first_der, (size_t)leaf_len) != 0))
            total += put_certificate(leaf, out, total, cap);
        ossl.CRYPTO_free(leaf_der, __FILE__, __LINE__);
        ossl.CRYPTO_free(first_der, __FILE__, __LINE__);
        ossl.X509_free(leaf);
    }
    for (int i = 0; i < count; i++) total += put_certificate(ossl.OPENSSL_sk_value(chain, i), out, total, cap);
    ossl.ERR_clear_error();
    return total;
}

int fip_conn_export(fip_conn *conn, unsigned char *out, size_t len, const char *label, size_t label_len,
                    const unsigned char *context, size_t context_len, int use_context) {
    int ok = ossl.SSL_export_keying_material(conn->ssl, out, len, label, label_len, context, context_len, use_context);
    ossl.ERR_clear_error();
    return ok == 1;
}

int fip_conn_key_update(fip_conn *conn, int request) {
    int ok = ossl.SSL_version(conn->ssl) == VERSION_TLS_1_3 && ossl.SSL_key_update(conn->ssl, request) == 1;
    ossl.ERR_clear_error();
    return ok;
}

// Refused while a handshake runs: libssl would remember half of the wish.
int fip_conn_renegotiate(fip_conn *conn) {
    int ok = ossl.SSL_version(conn->ssl) < VERSION_TLS_1_3 && !ossl.SSL_in_init(conn->ssl) &&
             !ossl.SSL_renegotiate_pending(conn->ssl) && ossl.SSL_renegotiate(conn->ssl) == 1;
    ossl.ERR_clear_error();
    return ok;
}
