//go:build cgo && unix

// Finding libssl at run time, and what kind of libssl it is.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __linux__
#include <sys/auxv.h>
#else
#include <unistd.h>
#endif

#include "libssl_table.h"

static char ssl_file[1024], crypto_file[1024];

static int fail(char *text, size_t text_len, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, text_len, format, arguments);
    va_end(arguments);
    memset(&ossl, 0, sizeof(ossl));
    return 0;
}

// The first missing function that every supported version has, or null.
static const char *find_functions(void *handle) {
    const char *missing = NULL;
#define FIP_NEED(result, name, arguments)                  \
    *(void **)&ossl.name = dlsym(handle, #name);           \
    if (ossl.name == NULL && missing == NULL) missing = #name;
#define FIP_MAY(result, name, arguments) *(void **)&ossl.name = dlsym(handle, #name);
    FIP_FUNCTIONS(FIP_NEED, FIP_MAY)
#undef FIP_NEED
#undef FIP_MAY
    if (missing == NULL && ossl.SSL_get1_peer_certificate == NULL && ossl.SSL_get_peer_certificate == NULL)
        missing = "SSL_get1_peer_certificate";
    return missing;
}

// libssl says nowhere which version it is, libcrypto does. These functions came with a version of
// libssl, so they give away one that is newer or older than libcrypto.
static const char *mismatch(unsigned long version) {
    unsigned long minor = version >> 20; // 0x30500050 -> 0x305
    if (version < 0x30000000UL) return ossl.SSL_CTX_new_ex != NULL ? "3.0 or newer" : NULL;
    if (ossl.SSL_CTX_new_ex == NULL) return "1.1.1";
    if (minor < 0x400 && ossl.SSL_set1_ech_config_list != NULL) return "4.0 or newer";
    if (minor < 0x305 && ossl.SSL_set_quic_tls_cbs != NULL) return "3.5 or newer";
    if (minor < 0x304 && ossl.SSL_CTX_flush_sessions_ex != NULL) return "3.4 or newer";
    if (minor < 0x303 && ossl.SSL_poll != NULL) return "3.3 or newer";
    if (minor < 0x302 && ossl.SSL_get0_group_name != NULL) return "3.2 or newer";
    if (minor >= 0x304 && ossl.SSL_CTX_flush_sessions_ex == NULL) return "older than 3.4";
    if (minor >= 0x302 && ossl.SSL_get0_group_name == NULL) return "older than 3.2";
    return NULL;
}

static void file_of(const void *symbol, char *file, size_t len) {
    Dl_info found;
    file[0] = 0;
    if (dladdr(symbol, &found) && found.dli_fname != NULL) snprintf(file, len, "%s", found.dli_fname);
}

// Whether "OpenSSL 3.5.5 27 Jan 2026" is what "3.5" asks for. 3.50 is not, and 1.1.1w is a 1.1.1.
static int version_is(const char *full, const char *wanted) {
    const char *number = strchr(full, ' ');
    size_t len = strlen(wanted);
    if (number == NULL || strncmp(number + 1, wanted, len) != 0) return 0;
    char next = number[1 + len];
    return next < '0' || next > '9';
}

int fip_load(const char *ssl_path, const char *crypto_path, const char *wanted, char *text, size_t text_len) {
    // A library that lies beside libssl and has the name that libssl asks for is taken for it;
    // without this the dynamic linker would look in its own places and mix two versions.
    void *crypto = NULL;
    if (crypto_path != NULL) {
        crypto = dlopen(crypto_path, RTLD_NOW | RTLD_LOCAL);
        if (crypto == NULL) return fail(text, text_len, "%s", dlerror());
    }
    void *handle = dlopen(ssl_path, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        fail(text, text_len, "%s", dlerror());
        goto unload;
    }
    const char *missing = find_functions(handle);
    if (missing != NULL) {
        fail(text, text_len, "%s has no function %s; OpenSSL 1.1.1, 3.x or 4.x is needed", ssl_path,
             missing);
        goto unload;
    }
    unsigned long version = ossl.OpenSSL_version_num();
    if (version < 0x10101000UL || (version >= 0x20000000UL && version < 0x30000000UL) ||
        version >= 0x50000000UL) {
        fail(text, text_len, "%s goes with libcrypto %s; OpenSSL 1.1.1, 3.x or 4.x is needed", ssl_path,
             ossl.OpenSSL_version(0));
        goto unload;
    }
    file_of((const void *)ossl.SSL_new, ssl_file, sizeof(ssl_file));
    file_of((const void *)ossl.OpenSSL_version_num, crypto_file, sizeof(crypto_file));
    const char *other = mismatch(version);
    if (other != NULL) {
        fail(text, text_len, "%s is of version %s, but its libcrypto, %s, is %s", ssl_file, other,
             crypto_file, ossl.OpenSSL_version(0));
        goto unload;
    }
    if (wanted != NULL && !version_is(ossl.OpenSSL_version(0), wanted)) {
        char found[128];
        snprintf(found, sizeof(found), "%s", ossl.OpenSSL_version(0));
        fail(text, text_len, "%s is %s, not %s", ssl_file, found, wanted);
        goto unload;
    }
    // No handler at exit: other threads may still be inside libssl then. OPENSSL_INIT_NO_ATEXIT.
    if (ossl.OPENSSL_init_ssl(0x00080000UL, NULL) != 1 || !fip_bio_method_make()) {
        char why[256];
        fip_drain_errors(why, sizeof(why));
        fail(text, text_len, "%s does not initialise: %s", ssl_path, why);
        goto unload;
    }
    return 1; // the handles stay open as long as the process
unload:
    if (handle != NULL) dlclose(handle);
    if (crypto != NULL) dlclose(crypto);
    return 0;
}

int fip_is_privileged(void) {
#ifdef __linux__
    return getauxval(AT_SECURE) != 0;
#else
    return issetugid() != 0;
#endif
}

unsigned long fip_version_number(void) { return ossl.OpenSSL_version_num(); }

const char *fip_version_text(void) { return ossl.OpenSSL_version(0); }

const char *fip_directory(void) { return ossl.OpenSSL_version(4); } // OPENSSL_DIR

const char *fip_default_cert_file(void) { return ossl.X509_get_default_cert_file(); }

const char *fip_default_cert_dir(void) { return ossl.X509_get_default_cert_dir(); }

const char *fip_verify_text(long code) { return ossl.X509_verify_cert_error_string(code); }

void fip_paths(char *ssl, char *crypto, size_t len) {
    snprintf(ssl, len, "%s", ssl_file);
    snprintf(crypto, len, "%s", crypto_file);
}

int fip_capabilities(void) {
    int can = 0;
    if (ossl.SSL_CTX_new_ex && ossl.OSSL_LIB_CTX_new && ossl.OSSL_LIB_CTX_free && ossl.OSSL_PROVIDER_load &&
        ossl.OSSL_PROVIDER_available && ossl.OSSL_PROVIDER_get0_name && ossl.OSSL_PROVIDER_get_params &&
        ossl.OSSL_PROVIDER_do_all && ossl.EVP_set_default_properties && ossl.EVP_MD_fetch &&
        ossl.EVP_MD_free && ossl.EVP_MD_get0_provider && ossl.NCONF_new_ex && ossl.NCONF_free &&
        ossl.NCONF_load_bio && ossl.CONF_modules_load && ossl.X509_new_ex && ossl.X509_CRL_new_ex &&
        ossl.PEM_read_bio_PrivateKey_ex && ossl.d2i_AutoPrivateKey_ex)
        can |= FIP_CAN_LIBRARY_CONTEXT;
    if (ossl.OSSL_STORE_open_ex && ossl.OSSL_STORE_load && ossl.OSSL_STORE_eof && ossl.OSSL_STORE_error &&
        ossl.OSSL_STORE_close && ossl.OSSL_STORE_INFO_get_type && ossl.OSSL_STORE_INFO_get1_PKEY &&
        ossl.OSSL_STORE_INFO_get1_CERT && ossl.OSSL_STORE_INFO_free && ossl.UI_UTIL_wrap_read_pem_callback &&
        ossl.UI_destroy_method)
        can |= FIP_CAN_STORE;
    if (ossl.SSL_get0_group_name || ossl.SSL_group_to_name) can |= FIP_CAN_GROUP_NAME;
    if (ossl.SSL_get0_peer_signature_name) can |= FIP_CAN_SIGNATURE_NAME;
    if (ossl.FIPS_mode) can |= FIP_CAN_FIPS_MODE;
    return can;
}

struct names {
    char *text;
    size_t len;
};

static int add_name(PROVIDER *provider, void *argument) {
    struct names *names = argument;
    size_t used = strlen(names->text);
    snprintf(names->text + used, names->len - used, "%s%s", used ? " " : "",
             ossl.OSSL_PROVIDER_get0_name(provider));
    return 1;
}

void fip_providers(void *library, char *text, size_t len) {
    struct names names = {text, len};
    text[0] = 0;
    if (!(fip_capabilities() & FIP_CAN_LIBRARY_CONTEXT)) return;
    // Providers are loaded by the first fetch: ask for something that every one has.
    ossl.EVP_MD_free(ossl.EVP_MD_fetch(library, "SHA2-256", NULL));
    ossl.ERR_clear_error();
    ossl.OSSL_PROVIDER_do_all(library, add_name, &names);
}

// --- FIPS ------------------------------------------------------------------------------------------

// The provider says whether its self-tests passed when it was loaded and nothing has failed since. They
// are not run again (OSSL_PROVIDER_self_test): in 4.0 that disturbs other connections' use of the module.
static int is_running(const PROVIDER *provider) {
    int status = 0;
    PARAM asked[] = {{"status", 1, &status, sizeof(status), 0}, {NULL, 0, NULL, 0, 0}};
    return ossl.OSSL_PROVIDER_get_params(provider, asked) == 1 && status == 1;
}

int fip_fips_proven(void *library, char *text, size_t text_len) {
    if (!(fip_capabilities() & FIP_CAN_LIBRARY_CONTEXT)) {
        if (library == NULL && ossl.FIPS_mode != NULL && ossl.FIPS_mode() == 1) return 1;
        snprintf(text, text_len, "%s is not in FIPS mode", ossl.OpenSSL_version(0));
        return 0;
    }
    if (!ossl.OSSL_PROVIDER_available(library, "fips")) {
        snprintf(text, text_len, "the provider fips is not loaded");
        return 0;
    }
    // An approved algorithm has to come from the provider fips, and MD5 must not be found.
    void *approved = ossl.EVP_MD_fetch(library, "SHA2-256", "fips=yes");
    const PROVIDER *provider = approved ? ossl.EVP_MD_get0_provider(approved) : NULL;
    const char *name = provider ? ossl.OSSL_PROVIDER_get0_name(provider) : NULL;
    int is_fips = name != NULL && strcmp(name, "fips") == 0;
    int passes = is_fips && is_running(provider);
    void *unapproved = ossl.EVP_MD_fetch(library, "MD5", NULL);
    ossl.ERR_clear_error();
    if (!is_fips)
        snprintf(text, text_len, "SHA2-256 with fips=yes comes from %s, not from the provider fips",
                 name ? name : "no provider");
    else if (!passes)
        snprintf(text, text_len, "the provider fips is in its error state: a self-test failed");
    else if (unapproved != NULL)
        snprintf(text, text_len, "MD5 is found: fips=yes is not the default property");
    ossl.EVP_MD_free(approved);
    ossl.EVP_MD_free(unapproved);
    return is_fips && passes && unapproved == NULL;
}

static int load_configuration(LIBRARY *library, const char *config) {
    void *parsed = ossl.NCONF_new_ex(library, NULL);
    BIO *bio = ossl.BIO_new_mem_buf(config, -1);
    int ok = parsed != NULL && bio != NULL && ossl.NCONF_load_bio(parsed, bio, NULL) > 0 &&
             ossl.CONF_modules_load(parsed, NULL, 0) > 0;
    if (bio != NULL) ossl.BIO_free(bio);
    if (parsed != NULL) ossl.NCONF_free(parsed);
    return ok;
}

void *fip_fips_library(const char *config, char *text, size_t text_len) {
    if (!(fip_capabilities() & FIP_CAN_LIBRARY_CONTEXT)) {
        snprintf(text, text_len, "%s has no library contexts", ossl.OpenSSL_version(0));
        return NULL;
    }
    ossl.ERR_clear_error();
    LIBRARY *library = ossl.OSSL_LIB_CTX_new();
    if (library == NULL || (config != NULL && !load_configuration(library, config)) ||
        (config == NULL && (ossl.OSSL_PROVIDER_load(library, "fips") == NULL ||
                            ossl.OSSL_PROVIDER_load(library, "base") == NULL)) ||
        ossl.EVP_set_default_properties(library, "fips=yes") != 1) {
        fip_drain_errors(text, text_len);
        if (text[0] == 0) snprintf(text, text_len, "the provider fips did not load");
    } else if (fip_fips_proven(library, text, text_len)) {
        return library;
    }
    ossl.ERR_clear_error();
    if (library != NULL) ossl.OSSL_LIB_CTX_free(library);
    return NULL;
}
