/* What a caller may do at the edges of the interface: one variable for two lengths, a length that no memory
 * has, and what a copy of a context leaves on the stack. */
#define _GNU_SOURCE
#include <openssl/core_names.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>

#include "operations.h"

static void one_length(void) {
    what = "one variable for both lengths";
    EVP_PKEY *key = generate("ML-KEM-768");
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_pkey(NULL, key, OURS);
    unsigned char ct[1088], secret[1088], got[32];
    size_t len = 5, got_len = sizeof got;
    if (EVP_PKEY_encapsulate_init(context, NULL) != 1 ||
        EVP_PKEY_encapsulate(context, NULL, &len, NULL, &len) != 1 || len != 32) wrong("asked");
    len = sizeof ct;
    if (EVP_PKEY_encapsulate(context, ct, &len, secret, &len) != 1 || len != 32) wrong("made");
    if (EVP_PKEY_decapsulate_init(context, NULL) != 1 ||
        EVP_PKEY_decapsulate(context, got, &got_len, ct, sizeof ct) != 1 ||
        memcmp(got, secret, 32) != 0) wrong("another secret");
    EVP_PKEY_CTX_free(context);
    EVP_PKEY_free(key);
}

static unsigned char traffic_secret[48];

static EVP_KDF_CTX *schedule(void) {
    static char label[] = "key", prefix[] = "tls13 ", digest[] = "SHA384";
    int mode = EVP_KDF_HKDF_MODE_EXPAND_ONLY;
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_int(OSSL_KDF_PARAM_MODE, &mode),
        OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, digest, 0),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, traffic_secret, sizeof traffic_secret),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_PREFIX, prefix, 6),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_LABEL, label, 3),
        OSSL_PARAM_construct_end(),
    };
    for (size_t i = 0; i < sizeof traffic_secret; i++) traffic_secret[i] = (unsigned char)(17 + 5 * i);
    EVP_KDF *kdf = EVP_KDF_fetch(NULL, "TLS13-KDF", OURS);
    EVP_KDF_CTX *context = EVP_KDF_CTX_new(kdf);
    if (EVP_KDF_CTX_set_params(context, params) != 1) wrong("no schedule");
    EVP_KDF_free(kdf);
    return context;
}

static void no_such_length(EVP_KDF_CTX *context) {
    what = "a length that no memory has";
    unsigned char out[32];
    const size_t lens[] = {SIZE_MAX, (size_t)PTRDIFF_MAX + 1};
    for (size_t i = 0; i < 2; i++) {
        if (EVP_KDF_derive(context, out, lens[i], NULL) != 0) wrong("derived");
        (void)none("no reason");
    }
    EVP_PKEY *key = generate("ML-KEM-768");
    EVP_PKEY_CTX *kem = EVP_PKEY_CTX_new_from_pkey(NULL, key, OURS);
    size_t len = sizeof out;
    if (EVP_PKEY_decapsulate_init(kem, NULL) != 1 ||
        EVP_PKEY_decapsulate(kem, out, &len, out, SIZE_MAX) == 1) wrong("opened");
    (void)none("no reason");
    EVP_PKEY_CTX_free(kem);
    EVP_PKEY_free(key);
}

static void *copy(void *context) {
    EVP_KDF_CTX *made = EVP_KDF_CTX_dup(context);
    unsigned char one[32], other[32];
    if (made == NULL || EVP_KDF_derive(made, one, 32, NULL) != 1 ||
        EVP_KDF_derive(context, other, 32, NULL) != 1 || memcmp(one, other, 32) != 0)
        wrong("a copy derives something else");
    EVP_KDF_CTX_free(made);
    return NULL;
}

static void *copy_alone(void *context) {
    EVP_KDF_CTX_free(EVP_KDF_CTX_dup(context));
    return NULL;
}

static void copies(EVP_KDF_CTX *context) {
    what = "a copy of a context";
    enum { STACK = 1 << 20 };
    unsigned char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_attr_t attributes;
    pthread_t thread;
    (void)copy(context);
    pthread_attr_init(&attributes);
    if (stack == MAP_FAILED || pthread_attr_setstack(&attributes, stack, STACK) != 0 ||
        pthread_create(&thread, &attributes, copy_alone, context) != 0) wrong("no thread");
    pthread_join(thread, NULL);
    for (size_t at = 0; at + 16 <= sizeof traffic_secret; at += 16)
        if (memmem(stack, STACK, traffic_secret + at, 16) != NULL) wrong("the secret is on the stack");
}

int main(void) {
    OPENSSL_init_crypto(OPENSSL_INIT_LOAD_CONFIG, NULL);
    where = "edges";
    EVP_KDF_CTX *context = schedule();
    one_length();
    no_such_length(context);
    copies(context);
    EVP_KDF_CTX_free(context);
    return 0;
}
