//go:build cgo && unix

// Callbacks of libssl, which only leave something for the step's caller.

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "libssl_table.h"

void fip_session_free(void *session) {
    ossl.SSL_SESSION_free(session);
    fip_count(FIP_COUNT_SESSION, -1);
}

int fip_new_session(SSL *ssl, SSL_SESSION *session) {
    fip_conn *conn = ossl.SSL_get_ex_data(ssl, 0);
    if (conn == NULL) return 0;
    if (conn->session != NULL) fip_session_free(conn->session);
    conn->session = session; // returning 1 keeps libssl's reference
    conn->events |= FIP_NEW_SESSION;
    fip_count(FIP_COUNT_SESSION, 1);
    return 1;
}

void fip_keylog_line(const SSL *ssl, const char *line) {
    fip_conn *conn = ossl.SSL_get_ex_data(ssl, 0);
    size_t len = strlen(line);
    char *grown = conn == NULL ? NULL : realloc(conn->keylog, conn->keylog_len + len + 1);
    if (grown == NULL) return;
    memcpy(grown + conn->keylog_len, line, len);
    grown[conn->keylog_len + len] = '\n';
    conn->keylog = grown;
    conn->keylog_len += len + 1;
    conn->events |= FIP_KEYLOG;
}

// Whether a handshake message is a HelloRetryRequest: a ServerHello with the random of RFC 8446, section
// 4.1.3, which is behind the message's type and length (4 bytes) and the version (2).
static int is_retry_request(const unsigned char *message, size_t len) {
    static const unsigned char random[32] = {
        0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91,
        0xc2, 0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
    };
    enum { SERVER_HELLO = 2, RANDOM_AT = 6 };
    return len >= RANDOM_AT + sizeof(random) && message[0] == SERVER_HELLO &&
           memcmp(message + RANDOM_AT, random, sizeof(random)) == 0;
}

void fip_message(int is_sent, int version, int type, const void *bytes, size_t len, SSL *ssl, void *argument) {
    enum { HANDSHAKE = 22 };
    (void)version, (void)argument;
    if (type != HANDSHAKE) return;
    fip_conn *conn = ossl.SSL_get_ex_data(ssl, 0);
    if (conn == NULL) return;
    if (is_retry_request(bytes, len)) conn->retried = 1;
    if (!is_sent && !fip_is_flooded(conn)) conn->messages++;
}

// --- how long a session may stand for a certificate -------------------------------------------------

static int64_t end_of(const X509 *cert) {
    int days = 0, seconds = 0;
    if (ossl.ASN1_TIME_diff(&days, &seconds, NULL, ossl.X509_get0_notAfter(cert)) != 1) return 1;
    return (int64_t)time(NULL) + (int64_t)days * 86400 + seconds;
}

// Verifies as libssl does by itself, and notes when the first certificate of the chain ends. A session is
// resumed without certificates, so it must not outlive them: a client's cache keeps the date beside it, a
// server's ticket inside, and a server's session cache as its timeout.
int fip_verify_chain(STORE_CTX *store, void *argument) {
    (void)argument;
    int ok = ossl.X509_verify_cert(store);
    SSL *ssl = ossl.X509_STORE_CTX_get_ex_data(store, ossl.SSL_get_ex_data_X509_STORE_CTX_idx());
    fip_conn *conn = ssl == NULL ? NULL : ossl.SSL_get_ex_data(ssl, 0);
    if (ok != 1 || conn == NULL) return ok;
    STACK *chain = ossl.X509_STORE_CTX_get0_chain(store);
    int count = chain == NULL ? 0 : ossl.OPENSSL_sk_num(chain);
    conn->expires = 0;
    for (int i = 0; i < count; i++) {
        int64_t end = end_of(ossl.OPENSSL_sk_value(chain, i));
        if (conn->expires == 0 || end < conn->expires) conn->expires = end;
    }
    SSL_SESSION *session = ossl.SSL_get_session(ssl);
    int64_t left = conn->expires - (int64_t)time(NULL);
    if (count > 0 && session != NULL && left < ossl.SSL_SESSION_get_timeout(session))
        ossl.SSL_SESSION_set_timeout(session, left > 0 ? (long)left : 1);
    return ok;
}

int fip_ticket_made(SSL *ssl, void *argument) {
    (void)argument;
    fip_conn *conn = ossl.SSL_get_ex_data(ssl, 0);
    SSL_SESSION *session = ossl.SSL_get_session(ssl);
    if (conn == NULL || session == NULL || conn->expires == 0) return 1;
    return ossl.SSL_SESSION_set1_ticket_appdata(session, &conn->expires, sizeof(conn->expires));
}

// SSL_CTX_set_session_ticket_cb(3): a ticket whose certificate has ended is as good as none.
int fip_ticket_read(SSL *ssl, SSL_SESSION *session, const unsigned char *name, size_t name_len, int status, void *argument) {
    enum { SUCCESS = 5, SUCCESS_RENEW = 6, IGNORE_RENEW = 2, USE = 3, USE_RENEW = 4 };
    (void)name, (void)name_len, (void)argument;
    fip_conn *conn = ossl.SSL_get_ex_data(ssl, 0);
    if (conn == NULL || session == NULL || (status != SUCCESS && status != SUCCESS_RENEW)) return IGNORE_RENEW;
    void *data = NULL;
    size_t len = 0;
    int64_t expires = 0;
    if (ossl.SSL_SESSION_get0_ticket_appdata(session, &data, &len) == 1 && len == sizeof(expires))
        memcpy(&expires, data, sizeof(expires));
    if (expires != 0 && expires < (int64_t)time(NULL)) return IGNORE_RENEW;
    conn->expires = expires;
    return status == SUCCESS ? USE : USE_RENEW;
}
