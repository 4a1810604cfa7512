/* New TLS 1.3 connections to an HTTP server, one request each, as many as one machine makes: the
 * load of bench/servers and tests/servers. Nothing is resumed; chain and name are verified; an
 * answer counts when its status is 200 and Content-Length bytes of it came.
 *
 * load --port N --ca FILE [--name NAME] [--group G] [--sigalgs S] [--threads T]
 *      [--cert FILE --key FILE] [--count N | --seconds S]
 *
 * Prints one JSON object. Exits 1 when a connection failed, with the first reasons on stderr.
 *
 * cc -O2 -I PREFIX/include load.c -L PREFIX/lib -lssl -lcrypto -lpthread -o load */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* Reasons that are printed; the rest is counted. */
enum { REASONS_MAX = 5, THREADS_MAX = 64 };

static struct {
    int port, threads;
    long count; /* 0: until the seconds are over */
    double seconds;
    const char *ca, *name, *group, *sigalgs, *cert, *key;
    SSL_CTX *context;
} options = {.threads = 1, .seconds = 1, .name = "localhost"};

static atomic_long begun, done, failed;
/* What the last good handshake negotiated; written under the lock. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char group_seen[64], signature_seen[64], cipher_seen[64];

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Counts a connection that failed in `stage`, and says why. */
static int lost(const char *stage)
{
    const char *reason = strerror(errno);
    char text[256];
    unsigned long error = ERR_get_error();
    if (error != 0) {
        ERR_error_string_n(error, text, sizeof text);
        reason = text;
    }
    if (atomic_fetch_add(&failed, 1) < REASONS_MAX) {
        fprintf(stderr, "connection failed in %s: %s\n", stage, reason);
    }
    ERR_clear_error();
    return 0;
}

static int connect_to_server(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)options.port)};
    struct timeval limit = {.tv_sec = 20};
    int one = 1;
    int s = socket(AF_INET, SOCK_STREAM, 0);
    if (s < 0) {
        return -1;
    }
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    /* A reset at the end, so that ten thousands of connections leave no port waiting. */
    struct linger linger = {.l_onoff = 1, .l_linger = 0};
    setsockopt(s, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(s, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(s, (struct sockaddr *)&address, sizeof address) != 0) {
        close(s);
        return -1;
    }
    return s;
}

/* True when `answer` is a whole 200 of HTTP/1. */
static int is_whole(const char *answer, size_t length)
{
    const char *body = strstr(answer, "\r\n\r\n");
    const char *announced = strcasestr(answer, "\r\ncontent-length:");
    if (strncmp(answer, "HTTP/1.", 7) != 0 || strncmp(answer + 8, " 200", 4) != 0 || body == NULL ||
        announced == NULL || announced > body) {
        return 0;
    }
    return length - (size_t)(body + 4 - answer) == strtoul(announced + 17, NULL, 10);
}

static int request(SSL *ssl)
{
    char answer[16384];
    size_t have = 0;
    char text[256];
    int length = snprintf(text, sizeof text, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n",
                          options.name);
    if (SSL_write(ssl, text, length) != length) {
        return lost("the request");
    }
    for (;;) {
        int n = SSL_read(ssl, answer + have, (int)(sizeof answer - 1 - have));
        if (n <= 0) {
            break;
        }
        have += (size_t)n;
        answer[have] = '\0';
        if (is_whole(answer, have)) {
            return 1;
        }
    }
    return lost("the answer");
}

static void remember(SSL *ssl)
{
    const char *signature = NULL;
    pthread_mutex_lock(&lock);
    snprintf(group_seen, sizeof group_seen, "%s", SSL_get0_group_name(ssl));
    snprintf(cipher_seen, sizeof cipher_seen, "%s", SSL_get_cipher_name(ssl));
#if OPENSSL_VERSION_NUMBER >= 0x30500000L
    SSL_get0_peer_signature_name(ssl, &signature);
#endif
    snprintf(signature_seen, sizeof signature_seen, "%s", signature == NULL ? "" : signature);
    pthread_mutex_unlock(&lock);
}

static int connection(int is_first)
{
    int good = 0;
    int s = connect_to_server();
    if (s < 0) {
        return lost("connect");
    }
    SSL *ssl = SSL_new(options.context);
    if (ssl == NULL || SSL_set_fd(ssl, s) != 1 || SSL_set1_host(ssl, options.name) != 1 ||
        SSL_set_tlsext_host_name(ssl, options.name) != 1) {
        lost("SSL_new");
    } else if (SSL_connect(ssl) != 1) {
        lost("the handshake");
    } else {
        if (is_first) {
            remember(ssl);
        }
        good = request(ssl);
        SSL_shutdown(ssl);
    }
    SSL_free(ssl);
    close(s);
    return good;
}

static void *work(void *end_pointer)
{
    double end = *(const double *)end_pointer;
    for (;;) {
        long number = atomic_fetch_add(&begun, 1);
        if (options.count > 0 ? number >= options.count : now() >= end) {
            return NULL;
        }
        if (connection(number == 0)) {
            atomic_fetch_add(&done, 1);
        }
    }
}

static int usage(const char *what)
{
    fprintf(stderr, "error: %s; expected load --port N --ca FILE [--name NAME] [--group G] "
                    "[--sigalgs S] [--threads T] [--cert FILE --key FILE] "
                    "[--count N | --seconds S]\n", what);
    return 2;
}

static int read_options(int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        const char *key = argv[i];
        const char *value = argv[i + 1];
        if (strcmp(key, "--port") == 0) options.port = atoi(value);
        else if (strcmp(key, "--ca") == 0) options.ca = value;
        else if (strcmp(key, "--name") == 0) options.name = value;
        else if (strcmp(key, "--group") == 0) options.group = value;
        else if (strcmp(key, "--sigalgs") == 0) options.sigalgs = value;
        else if (strcmp(key, "--cert") == 0) options.cert = value;
        else if (strcmp(key, "--key") == 0) options.key = value;
        else if (strcmp(key, "--threads") == 0) options.threads = atoi(value);
        else if (strcmp(key, "--count") == 0) options.count = atol(value);
        else if (strcmp(key, "--seconds") == 0) options.seconds = atof(value);
        else return usage(key);
    }
    if (argc % 2 == 0) {
        return usage("an option has no value");
    }
    if (options.port <= 0 || options.port > 65535 || options.ca == NULL) {
        return usage("--port and --ca are needed");
    }
    if (options.threads < 1 || options.threads > THREADS_MAX) {
        return usage("--threads takes 1 to 64");
    }
    return 0;
}

static int make_context(void)
{
    options.context = SSL_CTX_new(TLS_client_method());
    if (options.context == NULL ||
        SSL_CTX_set_min_proto_version(options.context, TLS1_3_VERSION) != 1 ||
        SSL_CTX_load_verify_file(options.context, options.ca) != 1 ||
        (options.group != NULL && SSL_CTX_set1_groups_list(options.context, options.group) != 1) ||
        (options.sigalgs != NULL &&
         SSL_CTX_set1_sigalgs_list(options.context, options.sigalgs) != 1) ||
        (options.cert != NULL &&
         (options.key == NULL || SSL_CTX_use_certificate_chain_file(options.context, options.cert) != 1 ||
          SSL_CTX_use_PrivateKey_file(options.context, options.key, SSL_FILETYPE_PEM) != 1))) {
        ERR_print_errors_fp(stderr);
        return 0;
    }
    SSL_CTX_set_verify(options.context, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_session_cache_mode(options.context, SSL_SESS_CACHE_OFF);
    return 1;
}

int main(int argc, char **argv)
{
    pthread_t threads[THREADS_MAX];
    struct rusage used;
    int status = read_options(argc, argv);
    if (status != 0) {
        return status;
    }
    /* A server that closes early is a failed connection, not the end. */
    signal(SIGPIPE, SIG_IGN);
    if (!make_context()) {
        return 3;
    }
    double start = now();
    double end = start + options.seconds;
    for (int i = 0; i < options.threads; i++) {
        if (pthread_create(&threads[i], NULL, work, &end) != 0) {
            perror("pthread_create");
            return 3;
        }
    }
    for (int i = 0; i < options.threads; i++) {
        pthread_join(threads[i], NULL);
    }
    double seconds = now() - start;
    getrusage(RUSAGE_SELF, &used);
    double cpu = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                 (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
    printf("{\"connections\":%ld,\"failed\":%ld,\"seconds\":%.4f,\"client_cpu_s\":%.4f,"
           "\"group\":\"%s\",\"signature\":\"%s\",\"cipher\":\"%s\"}\n",
           atomic_load(&done), atomic_load(&failed), seconds, cpu, group_seen, signature_seen,
           cipher_seen);
    SSL_CTX_free(options.context);
    return atomic_load(&failed) == 0 && atomic_load(&done) > 0 ? 0 : 1;
}
