// The functions of libssl and libcrypto that are used, one row each: NEED for what every supported
// version has (1.1.1, 3.x, 4.x), MAY for what some lack. Names, arguments and results are those of
// OpenSSL's manual pages; its types are opaque.
//
// The files behind this need each other one way: table <- bio, callbacks <- load <- context <- conn.

#ifndef FIPSTLS_LIBSSL_TABLE_H
#define FIPSTLS_LIBSSL_TABLE_H

#include "libssl.h"

typedef struct ssl_st SSL;
typedef struct ssl_ctx_st SSL_CTX;
typedef struct ssl_session_st SSL_SESSION;
typedef struct ssl_cipher_st SSL_CIPHER;
typedef struct bio_st BIO;
typedef struct bio_method_st BIO_METHOD;
typedef struct x509_st X509;
typedef struct X509_crl_st X509_CRL;
typedef struct x509_store_st X509_STORE;
typedef struct x509_store_ctx_st STORE_CTX;
typedef struct evp_pkey_st EVP_PKEY;
typedef struct verify_param_st VERIFY_PARAM;
typedef struct stack_st STACK;
typedef struct library_st LIBRARY;
typedef struct provider_st PROVIDER;

// OSSL_PARAM(3): a value that a provider is asked for.
typedef struct {
    const char *key;
    unsigned int type; // 1 is a signed integer
    void *data;
    size_t size, returned;
} PARAM;

typedef int (*new_session_fn)(SSL *, SSL_SESSION *);
typedef int (*alpn_fn)(SSL *, const unsigned char **, unsigned char *, const unsigned char *,
                       unsigned int, void *);
typedef void (*keylog_fn)(const SSL *, const char *);
typedef int (*verify_fn)(STORE_CTX *, void *);
typedef int (*ticket_made_fn)(SSL *, void *);
typedef int (*ticket_read_fn)(SSL *, SSL_SESSION *, const unsigned char *, size_t, int, void *);
typedef void (*message_fn)(int, int, int, const void *, size_t, SSL *, void *);

#define FIP_FUNCTIONS(NEED, MAY)                                                                    \
    /* libcrypto: version, errors */                                                                \
    NEED(unsigned long, OpenSSL_version_num, (void))                                                \
    NEED(const char *, OpenSSL_version, (int))                                                      \
    NEED(unsigned long, ERR_get_error, (void))                                                      \
    NEED(void, ERR_clear_error, (void))                                                             \
    NEED(const char *, ERR_reason_error_string, (unsigned long))                                    \
    NEED(const char *, ERR_lib_error_string, (unsigned long))                                       \
    NEED(void, CRYPTO_free, (void *, const char *, int))                                            \
    /* libcrypto: BIO */                                                                            \
    NEED(BIO_METHOD *, BIO_meth_new, (int, const char *))                                           \
    NEED(int, BIO_meth_set_read, (BIO_METHOD *, int (*)(BIO *, char *, int)))                       \
    NEED(int, BIO_meth_set_write, (BIO_METHOD *, int (*)(BIO *, const char *, int)))                \
    NEED(int, BIO_meth_set_ctrl, (BIO_METHOD *, long (*)(BIO *, int, long, void *)))                \
    NEED(BIO *, BIO_new, (const BIO_METHOD *))                                                      \
    NEED(BIO *, BIO_new_mem_buf, (const void *, int))                                               \
    NEED(int, BIO_free, (BIO *))                                                                    \
    NEED(void, BIO_set_data, (BIO *, void *))                                                       \
    NEED(void *, BIO_get_data, (BIO *))                                                             \
    NEED(void, BIO_set_init, (BIO *, int))                                                          \
    NEED(void, BIO_set_flags, (BIO *, int))                                                         \
    NEED(void, BIO_clear_flags, (BIO *, int))                                                       \
    /* libcrypto: certificates and keys */                                                          \
    NEED(X509 *, d2i_X509, (X509 **, const unsigned char **, long))                                 \
    NEED(int, i2d_X509, (const X509 *, unsigned char **))                                           \
    NEED(void, X509_free, (X509 *))                                                                 \
    NEED(X509 *, d2i_X509_AUX, (X509 **, const unsigned char **, long))                             \
    NEED(const void *, X509_get0_notAfter, (const X509 *))                                          \
    NEED(int, ASN1_TIME_diff, (int *, int *, const void *, const void *))                           \
    NEED(int, X509_verify_cert, (STORE_CTX *))                                                      \
    NEED(STACK *, X509_STORE_CTX_get0_chain, (const STORE_CTX *))                                   \
    NEED(void *, X509_STORE_CTX_get_ex_data, (const STORE_CTX *, int))                              \
    NEED(int, SSL_get_ex_data_X509_STORE_CTX_idx, (void))                                           \
    NEED(int, X509_check_host, (X509 *, const char *, size_t, unsigned int, char **))               \
    NEED(int, X509_check_ip_asc, (X509 *, const char *, unsigned int))                              \
    NEED(X509_CRL *, d2i_X509_CRL, (X509_CRL **, const unsigned char **, long))                     \
    NEED(void, X509_CRL_free, (X509_CRL *))                                                         \
    NEED(int, X509_STORE_add_cert, (X509_STORE *, X509 *))                                          \
    NEED(int, X509_STORE_add_crl, (X509_STORE *, X509_CRL *))                                       \
    NEED(int, X509_STORE_set_flags, (X509_STORE *, unsigned long))                                  \
    NEED(int, X509_VERIFY_PARAM_set1_ip_asc, (VERIFY_PARAM *, const char *))                        \
    NEED(void, X509_VERIFY_PARAM_set_hostflags, (VERIFY_PARAM *, unsigned int))                     \
    NEED(const char *, X509_verify_cert_error_string, (long))                                       \
    NEED(const char *, X509_get_default_cert_file, (void))                                          \
    NEED(const char *, X509_get_default_cert_dir, (void))                                           \
    NEED(EVP_PKEY *, PEM_read_bio_PrivateKey, (BIO *, EVP_PKEY **, void *, void *))                 \
    NEED(EVP_PKEY *, d2i_AutoPrivateKey, (EVP_PKEY **, const unsigned char **, long))               \
    NEED(void, EVP_PKEY_free, (EVP_PKEY *))                                                         \
    NEED(int, OPENSSL_sk_num, (const STACK *))                                                      \
    NEED(void *, OPENSSL_sk_value, (const STACK *, int))                                            \
    NEED(const char *, OBJ_nid2sn, (int))                                                           \
    /* libssl: contexts */                                                                          \
    NEED(int, OPENSSL_init_ssl, (uint64_t, const void *))                                           \
    NEED(const void *, TLS_method, (void))                                                          \
    NEED(SSL_CTX *, SSL_CTX_new, (const void *))                                                    \
    NEED(void, SSL_CTX_free, (SSL_CTX *))                                                           \
    NEED(long, SSL_CTX_ctrl, (SSL_CTX *, int, long, void *))                                        \
    NEED(uint64_t, SSL_CTX_set_options, (SSL_CTX *, uint64_t))                                      \
    NEED(void, SSL_CTX_set_verify, (SSL_CTX *, int, void *))                                        \
    NEED(X509_STORE *, SSL_CTX_get_cert_store, (const SSL_CTX *))                                   \
    NEED(int, SSL_CTX_set_default_verify_paths, (SSL_CTX *))                                        \
    NEED(int, SSL_CTX_load_verify_locations, (SSL_CTX *, const char *, const char *))               \
    NEED(int, SSL_CTX_set_cipher_list, (SSL_CTX *, const char *))                                   \
    NEED(int, SSL_CTX_set_ciphersuites, (SSL_CTX *, const char *))                                  \
    NEED(STACK *, SSL_CTX_get_ciphers, (const SSL_CTX *))                                           \
    NEED(int, SSL_CTX_use_certificate, (SSL_CTX *, X509 *))                                         \
    NEED(int, SSL_CTX_use_PrivateKey, (SSL_CTX *, EVP_PKEY *))                                      \
    NEED(int, SSL_CTX_check_private_key, (const SSL_CTX *))                                         \
    NEED(int, SSL_CTX_add_client_CA, (SSL_CTX *, X509 *))                                           \
    NEED(int, SSL_CTX_set_num_tickets, (SSL_CTX *, size_t))                                         \
    NEED(void, SSL_CTX_sess_set_new_cb, (SSL_CTX *, new_session_fn))                                \
    NEED(int, SSL_CTX_set_session_id_context, (SSL_CTX *, const unsigned char *, unsigned int))     \
    NEED(void, SSL_CTX_set_alpn_select_cb, (SSL_CTX *, alpn_fn, void *))                            \
    NEED(void, SSL_CTX_set_keylog_callback, (SSL_CTX *, keylog_fn))                                 \
    NEED(void, SSL_CTX_set_msg_callback, (SSL_CTX *, message_fn))                                   \
    NEED(void, SSL_CTX_set_cert_verify_callback, (SSL_CTX *, verify_fn, void *))                    \
    NEED(int, SSL_CTX_set_session_ticket_cb, (SSL_CTX *, ticket_made_fn, ticket_read_fn, void *))   \
    /* libssl: connections */                                                                       \
    NEED(SSL *, SSL_new, (SSL_CTX *))                                                               \
    NEED(void, SSL_free, (SSL *))                                                                   \
    NEED(void, SSL_set_bio, (SSL *, BIO *, BIO *))                                                  \
    NEED(void, SSL_set_connect_state, (SSL *))                                                      \
    NEED(void, SSL_set_accept_state, (SSL *))                                                       \
    NEED(int, SSL_do_handshake, (SSL *))                                                            \
    NEED(int, SSL_read_ex, (SSL *, void *, size_t, size_t *))                                       \
    NEED(int, SSL_write_ex, (SSL *, const void *, size_t, size_t *))                                \
    NEED(int, SSL_shutdown, (SSL *))                                                                \
    NEED(int, SSL_get_error, (const SSL *, int))                                                    \
    NEED(int, SSL_pending, (const SSL *))                                                           \
    NEED(long, SSL_ctrl, (SSL *, int, long, void *))                                                \
    NEED(int, SSL_set_ex_data, (SSL *, int, void *))                                                \
    NEED(void *, SSL_get_ex_data, (const SSL *, int))                                               \
    NEED(int, SSL_set1_host, (SSL *, const char *))                                                 \
    NEED(VERIFY_PARAM *, SSL_get0_param, (SSL *))                                                   \
    NEED(int, SSL_set_alpn_protos, (SSL *, const unsigned char *, unsigned int))                    \
    NEED(void, SSL_get0_alpn_selected, (const SSL *, const unsigned char **, unsigned int *))       \
    NEED(long, SSL_get_verify_result, (const SSL *))                                                \
    NEED(int, SSL_version, (const SSL *))                                                           \
    NEED(const SSL_CIPHER *, SSL_get_current_cipher, (const SSL *))                                 \
    NEED(const char *, SSL_CIPHER_get_name, (const SSL_CIPHER *))                                   \
    NEED(uint16_t, SSL_CIPHER_get_protocol_id, (const SSL_CIPHER *))                                \
    NEED(int, SSL_CIPHER_get_kx_nid, (const SSL_CIPHER *))                                          \
    NEED(int, SSL_session_reused, (const SSL *))                                                    \
    NEED(STACK *, SSL_get_peer_cert_chain, (const SSL *))                                           \
    NEED(STACK *, SSL_get0_verified_chain, (const SSL *))                                           \
    NEED(int, SSL_set_session, (SSL *, SSL_SESSION *))                                              \
    NEED(SSL_SESSION *, SSL_get1_session, (SSL *))                                                  \
    NEED(void, SSL_SESSION_free, (SSL_SESSION *))                                                   \
    NEED(SSL_SESSION *, SSL_get_session, (const SSL *))                                             \
    NEED(long, SSL_SESSION_get_timeout, (const SSL_SESSION *))                                      \
    NEED(long, SSL_SESSION_set_timeout, (SSL_SESSION *, long))                                      \
    NEED(int, SSL_SESSION_set1_ticket_appdata, (SSL_SESSION *, const void *, size_t))               \
    NEED(int, SSL_SESSION_get0_ticket_appdata, (SSL_SESSION *, void **, size_t *))                  \
    NEED(const char *, SSL_get_servername, (const SSL *, int))                                      \
    NEED(int, SSL_get_peer_signature_type_nid, (const SSL *, int *))                                \
    NEED(int, SSL_export_keying_material, (SSL *, unsigned char *, size_t, const char *, size_t,    \
                                           const unsigned char *, size_t, int))                     \
    NEED(int, SSL_key_update, (SSL *, int))                                                         \
    NEED(int, SSL_renegotiate, (SSL *))                                                             \
    NEED(int, SSL_renegotiate_pending, (const SSL *))                                               \
    NEED(int, SSL_in_init, (const SSL *))                                                           \
    /* since 3.0, or until then */                                                                  \
    MAY(X509 *, SSL_get1_peer_certificate, (const SSL *))                                           \
    MAY(X509 *, SSL_get_peer_certificate, (const SSL *))                                            \
    MAY(SSL_CTX *, SSL_CTX_new_ex, (LIBRARY *, const char *, const void *))                         \
    MAY(const char *, SSL_group_to_name, (SSL *, int))                                              \
    MAY(const char *, SSL_get0_group_name, (SSL *))                                                 \
    MAY(int, SSL_get0_peer_signature_name, (const SSL *, const char **))                            \
    MAY(int, EVP_PKEY_get_id, (const EVP_PKEY *))                                                   \
    MAY(int, EVP_PKEY_id, (const EVP_PKEY *))                                                       \
    MAY(int, EVP_PKEY_bits, (const EVP_PKEY *))                                                     \
    MAY(EVP_PKEY *, PEM_read_bio_PrivateKey_ex,                                                     \
        (BIO *, EVP_PKEY **, void *, void *, LIBRARY *, const char *))                              \
    MAY(EVP_PKEY *, d2i_AutoPrivateKey_ex,                                                          \
        (EVP_PKEY **, const unsigned char **, long, LIBRARY *, const char *))                       \
    MAY(X509 *, X509_new_ex, (LIBRARY *, const char *))                                             \
    MAY(X509_CRL *, X509_CRL_new_ex, (LIBRARY *, const char *))                                     \
    MAY(LIBRARY *, OSSL_LIB_CTX_new, (void))                                                        \
    MAY(void, OSSL_LIB_CTX_free, (LIBRARY *))                                                       \
    MAY(PROVIDER *, OSSL_PROVIDER_load, (LIBRARY *, const char *))                                  \
    MAY(int, OSSL_PROVIDER_available, (LIBRARY *, const char *))                                    \
    MAY(const char *, OSSL_PROVIDER_get0_name, (const PROVIDER *))                                  \
    MAY(int, OSSL_PROVIDER_get_params, (const PROVIDER *, PARAM *))                                 \
    MAY(int, OSSL_PROVIDER_do_all, (LIBRARY *, int (*)(PROVIDER *, void *), void *))                \
    MAY(int, EVP_set_default_properties, (LIBRARY *, const char *))                                 \
    MAY(void *, EVP_MD_fetch, (LIBRARY *, const char *, const char *))                              \
    MAY(void, EVP_MD_free, (void *))                                                                \
    MAY(const PROVIDER *, EVP_MD_get0_provider, (const void *))                                     \
    MAY(void *, NCONF_new_ex, (LIBRARY *, void *))                                                  \
    MAY(void, NCONF_free, (void *))                                                                 \
    MAY(int, NCONF_load_bio, (void *, BIO *, long *))                                               \
    MAY(int, CONF_modules_load, (const void *, const char *, unsigned long))                        \
    MAY(void *, OSSL_STORE_open_ex,                                                                 \
        (const char *, LIBRARY *, const char *, const void *, void *, const void *, void *, void *)) \
    MAY(void *, OSSL_STORE_load, (void *))                                                          \
    MAY(int, OSSL_STORE_eof, (void *))                                                              \
    MAY(int, OSSL_STORE_error, (void *))                                                            \
    MAY(int, OSSL_STORE_close, (void *))                                                            \
    MAY(int, OSSL_STORE_INFO_get_type, (const void *))                                              \
    MAY(void *, OSSL_STORE_INFO_get1_PKEY, (const void *))                                          \
    MAY(void *, OSSL_STORE_INFO_get1_CERT, (const void *))                                          \
    MAY(void, OSSL_STORE_INFO_free, (void *))                                                       \
    MAY(void *, UI_UTIL_wrap_read_pem_callback, (int (*)(char *, int, int, void *), int))           \
    MAY(void, UI_destroy_method, (void *))                                                          \
    MAY(int, FIPS_mode, (void))                                                                     \
    /* only asked for, to tell versions of libssl apart */                                          \
    MAY(void, SSL_poll, (void))                                                                     \
    MAY(void, SSL_CTX_flush_sessions_ex, (void))                                                    \
    MAY(void, SSL_set_quic_tls_cbs, (void))                                                         \
    MAY(void, SSL_set1_ech_config_list, (void))

struct fip_functions {
#define FIP_FIELD(result, name, arguments) result(*name) arguments;
    FIP_FUNCTIONS(FIP_FIELD, FIP_FIELD)
#undef FIP_FIELD
};

// Filled by fip_load; until then nothing else is called.
extern struct fip_functions ossl;

struct fip_context {
    SSL_CTX *ctx;
    LIBRARY *library; // null is the process's own
    const char *properties;
    int fips; // what FIPS 140 does not approve of is refused, where libssl would not
    int64_t references; // one for the configuration, one for each connection
    unsigned char *alpn;
    size_t alpn_len;
};

// A peer that sends nothing but messages to be answered (KeyUpdate, HelloRequest) or kept (tickets) would
// have us fill memory. The BIO then fails both ways, which ends libssl's loop over such messages.
static inline int fip_is_flooded(const fip_conn *conn) { return conn->messages > FIP_MESSAGES_MAX; }

// Empties the error queue into words, oldest entry first. Returns the oldest entry's code.
unsigned long fip_drain_errors(char *text, size_t text_len);
void fip_context_retain(fip_context *context);
int fip_new_session(SSL *ssl, SSL_SESSION *session);
void fip_keylog_line(const SSL *ssl, const char *line);
int fip_verify_chain(STORE_CTX *store, void *argument);
int fip_ticket_made(SSL *ssl, void *argument);
int fip_ticket_read(SSL *ssl, SSL_SESSION *session, const unsigned char *name, size_t name_len, int status, void *argument);
void fip_message(int is_sent, int version, int type, const void *bytes, size_t len, SSL *ssl, void *argument);
const BIO_METHOD *fip_bio_method(void);
int fip_bio_method_make(void);
void fip_count(int which, int64_t by);
enum fip_counted { FIP_COUNT_CONN, FIP_COUNT_CONTEXT, FIP_COUNT_SESSION };

#endif
