/* One side of a TLS 1.3 connection for tests/interop/tls.sh, over whatever libssl it is linked to.
 *
 * peer server PORT CERT KEY GROUPS [CA]
 *                     answers connections one after another, each with a line of what it negotiated;
 *                     asks for a certificate that CA has signed
 * peer client PORT CA GROUPS [CERT KEY]
 *                     sends a line, and prints what it negotiated and the first line of the answer;
 *                     the key share is of the first group alone
 *
 * What was negotiated is the group, the server's signature scheme, the scheme that the other side of a
 * server's connection has proved itself by, if it did, and "retried" after a HelloRetryRequest. The chain
 * and the name localhost are verified. Exits 1 when a connection of the client fails.
 * PEER_KEYLOG names a file for the secrets of every connection, PEER_SECONDS how long a side waits for
 * the other (20). */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

static int failed(const char *what)
{
    fprintf(stderr, "%s failed\n", what);
    ERR_print_errors_fp(stderr);
    return 1;
}

static FILE *keylog;

static void leave_secrets(const SSL *ssl, const char *line)
{
    (void)ssl;
    fprintf(keylog, "%s\n", line);
    fflush(keylog);
}

static void limit_waiting(int s)
{
    const char *seconds = getenv("PEER_SECONDS");
    struct timeval limit = {.tv_sec = seconds == NULL ? 20 : atoi(seconds)};
    setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(s, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

/* How many times a ClientHello was sent or received in the connection that is under way. */
static int hellos;

static void count_hellos(int is_write, int version, int type, const void *message, size_t length,
                         SSL *ssl, void *argument)
{
    (void)is_write, (void)version, (void)ssl, (void)argument;
    if (type == SSL3_RT_HANDSHAKE && length > 0 &&
        *(const unsigned char *)message == SSL3_MT_CLIENT_HELLO) {
        hellos++;
    }
}

/* "GROUP SCHEME[ CLIENT-SCHEME][ retried]\n" of this connection into `line`. */
static void negotiated(SSL *ssl, int is_server, char line[256])
{
    const char *scheme = NULL;
    const char *client_scheme = NULL;
    if (is_server) {
        SSL_get0_signature_name(ssl, &scheme);
        if (SSL_get0_peer_certificate(ssl) != NULL) {
            SSL_get0_peer_signature_name(ssl, &client_scheme);
        }
    } else {
        SSL_get0_peer_signature_name(ssl, &scheme);
    }
    const char *group = SSL_get0_group_name(ssl);
    snprintf(line, 256, "%s %s%s%s%s\n", group == NULL ? "-" : group, scheme == NULL ? "-" : scheme,
             client_scheme == NULL ? "" : " ", client_scheme == NULL ? "" : client_scheme,
             hellos > 1 ? " retried" : "");
}

/* Answers whatever comes first; a browser gets it as a page. */
static void serve(SSL *ssl)
{
    char question[4096];
    char answer[256];
    char page[512];
    if (SSL_accept(ssl) != 1) {
        failed("SSL_accept");
        return;
    }
    int n = SSL_read(ssl, question, sizeof question);
    negotiated(ssl, 1, answer);
    if (n >= 4 && memcmp(question, "GET ", 4) == 0) {
        snprintf(page, sizeof page,
                 "HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %zu\r\n\r\n%s",
                 strlen(answer), answer);
    } else {
        snprintf(page, sizeof page, "%s", answer);
    }
    if (n > 0) {
        SSL_write(ssl, page, (int)strlen(page));
    }
    SSL_shutdown(ssl);
    /* Waits for the other side, so that closing does not reset what it has still to read. */
    SSL_read(ssl, question, sizeof question);
}

static int server(SSL_CTX *context, int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int one = 1;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(listener, 16) != 0) {
        perror("listen");
        return 3;
    }
    for (;;) {
        int s = accept(listener, NULL, NULL);
        if (s < 0) {
            perror("accept");
            return 1;
        }
        limit_waiting(s);
        SSL *ssl = SSL_new(context);
        hellos = 0;
        if (ssl != NULL && SSL_set_fd(ssl, s) == 1) {
            serve(ssl);
        }
        ERR_clear_error();
        SSL_free(ssl);
        close(s);
    }
}

static int client(SSL_CTX *context, int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    char line[256];
    char answer[256];
    int s = socket(AF_INET, SOCK_STREAM, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    limit_waiting(s);
    if (connect(s, (struct sockaddr *)&address, sizeof address) != 0) {
        perror("connect");
        return 1;
    }
    SSL *ssl = SSL_new(context);
    if (ssl == NULL || SSL_set_fd(ssl, s) != 1 || SSL_set1_host(ssl, "localhost") != 1 ||
        SSL_set_tlsext_host_name(ssl, "localhost") != 1) {
        return failed("SSL_new");
    }
    if (SSL_connect(ssl) != 1) {
        return failed("SSL_connect");
    }
    if (SSL_write(ssl, "hello\n", 6) != 6) {
        return failed("SSL_write");
    }
    int n = SSL_read(ssl, answer, sizeof answer - 1);
    if (n <= 0) {
        return failed("SSL_read");
    }
    answer[n] = '\0';
    answer[strcspn(answer, "\r\n")] = '\0';
    negotiated(ssl, 0, line);
    printf("%s%s\n", line, answer);
    SSL_shutdown(ssl);
    SSL_free(ssl);
    close(s);
    return 0;
}

static int prove_by(SSL_CTX *context, const char *certificate, const char *key)
{
    return SSL_CTX_use_certificate_chain_file(context, certificate) == 1 &&
           SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) == 1;
}

int main(int argc, char **argv)
{
    int is_server = (argc == 6 || argc == 7) && strcmp(argv[1], "server") == 0;
    const char *secrets = getenv("PEER_KEYLOG");
    if (!is_server && !((argc == 5 || argc == 7) && strcmp(argv[1], "client") == 0)) {
        fprintf(stderr, "expected peer server PORT CERT KEY GROUPS [CA], or "
                        "peer client PORT CA GROUPS [CERT KEY]\n");
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    SSL_CTX *context = SSL_CTX_new(is_server ? TLS_server_method() : TLS_client_method());
    if (context == NULL || SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) != 1 ||
        SSL_CTX_set1_groups_list(context, is_server ? argv[5] : argv[4]) != 1) {
        return failed("SSL_CTX_new");
    }
    SSL_CTX_set_msg_callback(context, count_hellos);
    if (secrets != NULL) {
        keylog = fopen(secrets, "w");
        if (keylog == NULL) {
            return failed("opening PEER_KEYLOG");
        }
        SSL_CTX_set_keylog_callback(context, leave_secrets);
    }
    if (is_server) {
        if (argc == 7) {
            if (SSL_CTX_load_verify_file(context, argv[6]) != 1) {
                return failed("reading the clients' root");
            }
            SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
        }
        if (!prove_by(context, argv[3], argv[4])) {
            return failed("reading certificate and key");
        }
        return server(context, atoi(argv[2]));
    }
    if (SSL_CTX_load_verify_file(context, argv[3]) != 1) {
        return failed("reading the root");
    }
    if (argc == 7 && !prove_by(context, argv[5], argv[6])) {
        return failed("reading certificate and key");
    }
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    int status = client(context, atoi(argv[2]));
    SSL_CTX_free(context);
    return status;
}
