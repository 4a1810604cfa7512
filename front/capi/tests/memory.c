/* libgabion.so where memory can't be had: each call gives the right answer or GABION_E_MEMORY, whichever
 * allocation fails, alone or with all behind it, and the right answer when there is memory again. A batch that
 * no memory has room for is refused, too. And the text of a failure at the program's exit. */
#include <errno.h>
#include <gabion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t), *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

static long seen, first_failed = -1, last_failed = -1;

static int fails(void) {
    if (first_failed < 0) return 0;
    seen++;
    if (seen < first_failed || seen > last_failed) return 0;
    errno = ENOMEM;
    return 1;
}

void *malloc(size_t n) { return fails() ? NULL : __libc_malloc(n); }
void *calloc(size_t n, size_t m) { return fails() ? NULL : __libc_calloc(n, m); }
void *realloc(void *p, size_t n) { return fails() ? NULL : __libc_realloc(p, n); }
void free(void *p) { __libc_free(p); }
int posix_memalign(void **p, size_t a, size_t n) {
    void *made = fails() ? NULL : __libc_memalign(a, n);
    if (made != NULL) *p = made;
    return made == NULL ? ENOMEM : 0;
}

static void expect(const char *what, int is_so) {
    if (is_so) return;
    char text[200];
    gabion_last_error(text, sizeof text);
    fprintf(stderr, "%s, allocation %ld to %ld: %s\n", what, first_failed, last_failed, text);
    fflush(NULL);
    _Exit(1);
}

/* Whether it was done, or memory lacked. */
static int done(const char *what, gabion_status status) {
    expect(what, status == GABION_OK || status == GABION_E_MEMORY);
    return status == GABION_OK;
}

static int all_zero(const unsigned char *bytes, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (bytes[i] != 0) return 0;
    return 1;
}

static int kem(void) {
    static unsigned char ct[GABION_ML_KEM_768_CIPHERTEXT_BYTES], sent[32], got[32];
    gabion_private_key *key = NULL;
    gabion_public_key *public = NULL;
    int ok = done("generate", gabion_private_key_generate(GABION_ML_KEM_768, &key));
    expect("a handle", ok == (key != NULL));
    ok = ok && done("public", gabion_private_key_public(key, &public));
    memset(ct, 7, sizeof ct);
    if (ok) {
        ok = done("encaps", gabion_encaps(public, ct, sizeof ct, sent, sizeof sent));
        expect("nothing comes out", ok || (all_zero(ct, sizeof ct) && all_zero(sent, sizeof sent)));
    }
    ok = ok && done("decaps", gabion_decaps(key, ct, sizeof ct, got, sizeof got));
    expect("one secret", !ok || memcmp(sent, got, sizeof got) == 0);
    gabion_public_key_free(public);
    gabion_private_key_free(key);
    return ok;
}

static int sign(void) {
    static unsigned char sig[GABION_ML_DSA_65_SIGNATURE_BYTES];
    gabion_message message = {NULL, 0, NULL, 0, NULL};
    gabion_private_key *key = NULL;
    gabion_public_key *public = NULL;
    size_t len = sizeof sig;
    message.message = (const uint8_t *)"m";
    message.message_len = 1;
    int ok = done("generate", gabion_private_key_generate(GABION_ML_DSA_65, &key));
    ok = ok && done("public", gabion_private_key_public(key, &public));
    if (ok) {
        ok = done("sign", gabion_sign(key, &message, sig, &len));
        expect("no signature comes out", ok || all_zero(sig, sizeof sig));
    }
    ok = ok && done("verify", gabion_verify(public, &message, sig, len));
    gabion_public_key_free(public);
    gabion_private_key_free(key);
    return ok;
}

static void every(int (*work)(void), int on) {
    long right = 0, refused = 0;
    expect("before", work());
    for (long n = 1;; n++) {
        seen = 0;
        last_failed = on ? 1L << 60 : n;
        first_failed = n;
        int ok = work();
        first_failed = -1;
        ok ? right++ : refused++;
        if (seen < n) break;
        expect("with memory again", n % 10 != 0 || work());
    }
    expect("with memory again", work());
    expect("some of each", right > 0 && (refused > 0 || !on));
}

static void large(void) {
    enum { N = 200000 };
    static gabion_private_key *keys[N];
    static gabion_status status[N];
    struct rlimit old, limit;
    getrlimit(RLIMIT_AS, &old);
    limit = old;
    limit.rlim_cur = (rlim_t)1 << 30;
    expect("a limit", setrlimit(RLIMIT_AS, &limit) == 0);
    gabion_status code = gabion_private_key_generate_many(GABION_ML_DSA_65, N, keys, status);
    setrlimit(RLIMIT_AS, &old);
    expect("a large batch", code == GABION_E_MEMORY);
    expect("no keys", keys[0] == NULL && keys[N - 1] == NULL && status[0] == GABION_E_NOT_RUN);
}

static void at_exit(void) {
    char text[200];
    expect("at exit", kem() && sign());
    expect("a refusal", gabion_private_key_generate("none", NULL) != GABION_OK);
    if (gabion_last_error(text, sizeof text) == 0) _Exit(1);
    puts("every allocation was done without");
    fflush(NULL);
}

int main(void) {
    if (atexit(at_exit) != 0) return 1;
    for (int on = 0; on < 2; on++) {
        every(kem, on);
        every(sign, on);
    }
    large();
    return 0;
}
