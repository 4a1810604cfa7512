/* Operations whose n-th allocation fails, for every n: it alone, and all from it on. Whatever comes of it is
 * the right answer, or none with a reason; and with memory there again, the right answer. Allocations of the
 * dynamic loader count, too, as do libcrypto's.
 *
 *   memory each|on ALGORITHM...        key generation and use, after a first use
 *   memory first ALGORITHM...          the first use in the process, with its self-test; some n
 *   memory new-thread ALGORITHM...     after a first use, in a thread that has used nothing yet
 *   memory files ALGORITHM...          its keys written and read, each and on
 *   memory load NAME                   the provider loaded again by that name, each and on
 */
#include <errno.h>
#include <openssl/x509.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "operations.h"

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t), *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

static _Atomic long seen, first_failed = -1, last_failed = -1;

static int fails(void) {
    long from = first_failed;
    if (from < 0) return 0;
    long number = ++seen;
    return number >= from && number <= last_failed;
}

static void *out_of_memory(void) {
    errno = ENOMEM;
    return NULL;
}

void *malloc(size_t n) { return fails() ? out_of_memory() : __libc_malloc(n); }
void *calloc(size_t n, size_t m) { return fails() ? out_of_memory() : __libc_calloc(n, m); }
void *realloc(void *p, size_t n) { return fails() ? out_of_memory() : __libc_realloc(p, n); }
void free(void *p) { __libc_free(p); }
void *memalign(size_t a, size_t n) { return fails() ? out_of_memory() : __libc_memalign(a, n); }
void *aligned_alloc(size_t a, size_t n) { return memalign(a, n); }
int posix_memalign(void **p, size_t a, size_t n) {
    void *made = memalign(a, n);
    if (made != NULL) *p = made;
    return made == NULL ? ENOMEM : 0;
}

/* Fails the allocations from one to another of what follows. */
static void fail(long from, long to) {
    seen = 0;
    last_failed = to;
    first_failed = from;
}

static long fail_none(void) {
    first_failed = -1;
    return seen;
}

/* Counts of outcomes. */
static long right, refused;

static int (*work)(const char *) = operate;

static int with_failing(const char *name, long from, long to) {
    fail(from, to);
    int done = work(name);
    long allocations = fail_none();
    ERR_clear_error();
    done ? right++ : refused++;
    return allocations >= from;
}

static void every(const char *name, int on) {
    static char text[100];
    what = name;
    if (!work(name)) wrong("no answer before");
    long n = 1;
    /* Every one at first, then one in seven. */
    for (int more = 1; more; n += n < 100 ? 1 : 7) {
        snprintf(text, sizeof text, "allocation %ld%s", n, on ? " and all behind it" : "");
        where = text;
        more = with_failing(name, n, on ? 1L << 60 : n);
        if (more && (n < 20 || n % 50 == 0) && !work(name)) wrong("no answer with memory again");
    }
    if (!work(name)) wrong("no answer with memory again");
    printf("%s: %ld allocations, %ld right, %ld refused\n", name, n - 2, right, refused);
    right = refused = 0;
}

/* The first use, in a child of a process that has loaded the provider and used nothing. */
static void first(const char *name) {
    static char text[100];
    /* What libcrypto did not find for lack of memory it says for ever that there is not. */
    EVP_KEYMGMT *loaded = EVP_KEYMGMT_fetch(NULL, name, OURS);
    EVP_KEM *kem = is_kem(name) ? EVP_KEM_fetch(NULL, name, OURS) : NULL;
    EVP_SIGNATURE *signature = is_kem(name) ? NULL : EVP_SIGNATURE_fetch(NULL, name, OURS);
    if (loaded == NULL || (kem == NULL && signature == NULL)) wrong("not loaded");
    int more = 1;
    for (long n = 1; more; n += 1 + n / 2) {
        pid_t child = fork();
        if (child == 0) {
            alarm(60); /* No child has its parent's. */
            snprintf(text, sizeof text, "first use, allocation %ld and all behind it", n);
            where = text;
            more = with_failing(name, n, 1L << 60);
            if (!operate(name)) wrong("no answer with memory again");
            _exit(more ? 3 : 4);
        }
        int status;
        waitpid(child, &status, 0);
        if (!WIFEXITED(status) || (WEXITSTATUS(status) != 3 && WEXITSTATUS(status) != 4)) {
            fprintf(stderr, "%s: first use, allocation %ld: status %d\n", name, n, status);
            exit(1);
        }
        more = WEXITSTATUS(status) == 3;
    }
    printf("%s: first use\n", name);
    EVP_KEYMGMT_free(loaded);
    EVP_KEM_free(kem);
    EVP_SIGNATURE_free(signature);
}

static long failing_from;

static void *in_thread(void *name) {
    /* The error queue is libcrypto's own to make. */
    ERR_clear_error();
    void *more = with_failing(name, failing_from, 1L << 60) ? name : NULL;
    if (!operate(name)) wrong("no answer with memory again");
    return more;
}

static void new_thread(const char *name) {
    if (!operate(name)) wrong("no answer before");
    void *more = (void *)name;
    for (failing_from = 1; more != NULL; failing_from += 1 + failing_from / 4) {
        static char text[100];
        snprintf(text, sizeof text, "a new thread, allocation %ld and all behind it", failing_from);
        where = text;
        pthread_t thread;
        if (pthread_create(&thread, NULL, in_thread, (void *)name) != 0) wrong("no thread");
        pthread_join(thread, &more);
    }
    printf("%s: new thread\n", name);
}

static EVP_PKEY *key_of_files;

/* Writes and reads the private and the public key. */
static int files(const char *name) {
    (void)name;
    unsigned char *der = NULL;
    EVP_PKEY *key = NULL, *public = NULL;
    long len = i2d_PrivateKey(key_of_files, &der);
    const unsigned char *at = der;
    if (len > 0) key = d2i_AutoPrivateKey_ex(NULL, &at, len, NULL, "?" OURS);
    if (key != NULL && EVP_PKEY_eq(key, key_of_files) == 0) wrong("another key");
    OPENSSL_free(der);
    der = NULL;
    if (key != NULL && (len = i2d_PUBKEY(key, &der)) > 0) {
        at = der;
        public = d2i_PUBKEY_ex(NULL, &at, len, NULL, "?" OURS);
    }
    OPENSSL_free(der);
    int done = public != NULL;
    EVP_PKEY_free(public);
    EVP_PKEY_free(key);
    return done ? 1 : none("no key, and no reason");
}

static int load(const char *name) {
    OSSL_LIB_CTX *library = OSSL_LIB_CTX_new();
    OSSL_PROVIDER *provider = library == NULL ? NULL : OSSL_PROVIDER_load(library, name);
    int done = provider != NULL;
    if (done) OSSL_PROVIDER_unload(provider);
    OSSL_LIB_CTX_free(library);
    ERR_clear_error();
    return done;
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    OPENSSL_init_crypto(OPENSSL_INIT_LOAD_CONFIG, NULL);
    const char *how = argv[1];
    for (int i = 2; i < argc; i++) {
        if (strcmp(how, "first") == 0) first(argv[i]);
        else if (strcmp(how, "new-thread") == 0) new_thread(argv[i]);
        else if (strcmp(how, "each") == 0 || strcmp(how, "on") == 0) every(argv[i], *how == 'o');
        else {
            int is_load = strcmp(how, "load") == 0;
            if (!is_load) key_of_files = generate(argv[i]);
            work = is_load ? load : files;
            every(argv[i], 0);
            every(argv[i], 1);
            EVP_PKEY_free(key_of_files);
            key_of_files = NULL;
        }
    }
    return 0;
}
