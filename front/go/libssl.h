// What the Go side sees of libssl: a table of functions found at run time, a context for each
// configuration, and a connection that is driven by one call an operation. No header of OpenSSL is
// needed: its types are opaque here, its functions and numbers are written down below.
//
//   Go  --fip_step(conn, op, in, out, buf)-->  SSL_read/SSL_write/SSL_do_handshake
//                                                 |            ^
//                                     BIO write: to `out`   BIO read: from `in`
//
// Bytes go straight between Go's buffers and libssl's records. C code never calls into Go, never
// touches a socket and keeps no pointer to Go's memory after a call returns.

#ifndef FIPSTLS_LIBSSL_H
#define FIPSTLS_LIBSSL_H

#include <stddef.h>
#include <stdint.h>

typedef struct fip_context fip_context;

// What a step reports. Go reads these fields in place, under the connection's lock.
enum fip_status {
    FIP_OK = 0,
    FIP_WANT_READ = 1, // needs bytes from the peer
    FIP_CLOSED = 2,    // the peer sent close_notify
    FIP_FAILED = 3,    // `code` and `text` say why
};

// How many handshake messages a peer may send with no data between them: a handshake has a dozen, a
// server gives out a few tickets. crypto/tls stops at 16 records.
enum { FIP_MESSAGES_MAX = 64 };

enum fip_op { FIP_HANDSHAKE = 0, FIP_READ = 1, FIP_WRITE = 2, FIP_SHUTDOWN = 3 };

enum fip_event {
    FIP_NEW_SESSION = 1, // fip_conn_session has one
    FIP_KEYLOG = 2,      // fip_conn_keylog has lines
};

typedef struct fip_conn {
    void *ssl;
    fip_context *context;

    // The buffers of the step that is running; null between steps.
    const unsigned char *in;
    size_t in_len;
    unsigned char *out;
    size_t out_cap;

    // Results of the last step.
    int32_t status;
    int32_t events;       // enum fip_event, until they are fetched
    uint64_t n;           // plaintext bytes read or written
    uint64_t in_used;     // of `in`
    uint64_t out_len;     // in `out`
    uint64_t spill_len;   // what did not fit in `out`: fip_conn_spill
    int32_t pending;      // decrypted bytes wait in libssl
    int32_t verify;       // X509_V_*; 0 is OK
    int32_t refused;      // the failure is that the peer's certificate was not accepted
    uint64_t code;        // first entry of the error queue
    int32_t alert;        // received alert, or -1
    int32_t messages;     // handshake messages received since the last data
    int32_t retried;      // whether a HelloRetryRequest was sent or received
    char text[240];       // the error queue in words

    unsigned char *spill;
    size_t spill_cap;
    void *session; // newest SSL_SESSION that libssl gave out
    void *offered; // SSL_SESSION that this handshake tries to resume
    char *keylog;
    size_t keylog_len;
    int64_t expires;  // when the first certificate of the peer's verified chain ends, since 1970; 0: none does
    char *check_name; // for resumed handshakes, whose certificate libssl does not check again
    int check_is_ip;
} fip_conn;

// What a handshake agreed on.
typedef struct {
    int32_t version;
    uint16_t cipher_id;
    int32_t resumed;
    int32_t retried; // whether there was a HelloRetryRequest
    char cipher[64];
    char group[64];
    char signature[64];
    char alpn[256]; // any bytes
    uint32_t alpn_len;
    char server_name[256];
} fip_info;

// What this libssl can do; a capability whose functions are missing is off.
enum fip_capability {
    FIP_CAN_LIBRARY_CONTEXT = 1,
    FIP_CAN_STORE = 2,
    FIP_CAN_GROUP_NAME = 4,
    FIP_CAN_SIGNATURE_NAME = 8,
    FIP_CAN_FIPS_MODE = 16,
};

// Loading. 1 for success, 0 with the reason in `text`. `wanted` is the start of the version that it has
// to be, or null; a library of another version is let go again.
int fip_load(const char *ssl_path, const char *crypto_path, const char *wanted, char *text, size_t text_len);
// Whether the process has rights that whoever started it lacks (setuid, setgid, capabilities of the file).
int fip_is_privileged(void);
unsigned long fip_version_number(void);
const char *fip_version_text(void);
const char *fip_directory(void);
int fip_capabilities(void);
void fip_paths(char *ssl, char *crypto, size_t len);
void fip_providers(void *library, char *names, size_t len);
const char *fip_default_cert_file(void);
const char *fip_default_cert_dir(void);
const char *fip_verify_text(long code);

// A library context of its own in which only approved algorithms are found. `config` is the text of
// an OpenSSL configuration, or null to load the provider without one. Null when it is not proven;
// `text` says why.
void *fip_fips_library(const char *config, char *text, size_t text_len);
// Whether the default library context (null) or another one finds approved algorithms only: 1, or 0
// with the reason in `text`.
int fip_fips_proven(void *library, char *text, size_t text_len);

// A text that is empty is null. Contexts. Functions that return int: 1 for success, 0 with the reason in `text`.
fip_context *fip_context_new(void *library, int fips, int is_server, char *text, size_t text_len);
void fip_context_free(fip_context *context);
int fip_context_versions(fip_context *context, int min, int max);
int fip_context_options(fip_context *context, uint64_t options);
int fip_context_text(fip_context *context, int what, const char *value, char *text, size_t text_len);
enum fip_text { FIP_CIPHERS_12, FIP_CIPHERS_13, FIP_GROUPS, FIP_SIGNATURES, FIP_CA_FILE, FIP_CA_PATH };
// Drops the suites of TLS 1.2 with RSA key transport, which SP 800-131A allows no more.
int fip_context_approved_ciphers(fip_context *context, char *text, size_t text_len);
int fip_context_default_trust(fip_context *context, char *text, size_t text_len);
int fip_context_add(fip_context *context, int what, const unsigned char *der, size_t len, char *text,
                    size_t text_len);
enum fip_add { FIP_TRUST, FIP_TRUST_AUX, FIP_CRL, FIP_CERTIFICATE, FIP_CHAIN, FIP_CLIENT_CA };
int fip_context_key(fip_context *context, const unsigned char *key, size_t len, int is_pem,
                    const char *passphrase, char *text, size_t text_len);
int fip_context_store(fip_context *context, const char *uri, int want_key, const char *passphrase,
                      char *text, size_t text_len);
int fip_context_check_key(fip_context *context, char *text, size_t text_len);
void fip_context_verify(fip_context *context, int mode);
void fip_context_store_flags(fip_context *context, unsigned long flags);
void fip_context_sessions(fip_context *context, int client, int server);
void fip_context_keylog(fip_context *context);
int fip_context_alpn(fip_context *context, const unsigned char *wire, size_t len);

// Connections. A new one takes over `session`, also when it is not made; `expires` is that session's.
fip_conn *fip_conn_new(fip_context *context, int is_server, const char *name, int is_ip, int check,
                       const unsigned char *alpn, size_t alpn_len, void *session, int64_t expires);
void fip_conn_free(fip_conn *conn);
int fip_step(fip_conn *conn, int op, const unsigned char *in, size_t in_len, unsigned char *out,
             size_t out_cap, unsigned char *buf, size_t buf_len);
void fip_conn_spill(fip_conn *conn, unsigned char *out);
void *fip_conn_session(fip_conn *conn);
void fip_conn_keylog(fip_conn *conn, char *out);
void fip_conn_info(fip_conn *conn, fip_info *info);
// Certificates as DER one after the other, each behind its length in 4 bytes, big endian. Returns the
// length of all; writes only when `cap` is enough.
size_t fip_conn_chain(fip_conn *conn, int verified, unsigned char *out, size_t cap);
int fip_conn_export(fip_conn *conn, unsigned char *out, size_t len, const char *label, size_t label_len,
                    const unsigned char *context, size_t context_len, int use_context);
int fip_conn_key_update(fip_conn *conn, int request);
int fip_conn_renegotiate(fip_conn *conn);
void fip_session_free(void *session);
// How many connections, contexts and sessions exist: nothing may be left when everything is closed.
void fip_counters(int64_t *conns, int64_t *contexts, int64_t *sessions);

#endif
