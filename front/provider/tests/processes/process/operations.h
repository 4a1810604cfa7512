/* What the programs of this folder do with the provider: one operation of each kind, whose outcome is the
 * right answer, or none and a reason in OpenSSL's error queue. */
#ifndef OPERATIONS_H
#define OPERATIONS_H

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/provider.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OURS "provider=gabion"

static const char *const ALGORITHMS[] = {
    "ML-KEM-768", "X25519MLKEM768", "SecP384r1MLKEM1024", "SecP521r1MLKEM1024", "ML-DSA-65",
    "SLH-DSA-SHA2-128f", "Falcon-512", "MLDSA65-ECDSA-P384-SHA512-draft19",
    "MLDSA87-ECDSA-P521-SHA512-draft19",
};
#define COUNT (sizeof ALGORITHMS / sizeof *ALGORITHMS)

static const char *where = "", *what = "";

/* Ends the program where an outcome is neither. */
static void wrong(const char *outcome) {
    fprintf(stderr, "%s, %s: %s\n", where, what, outcome);
    ERR_print_errors_fp(stderr);
    fflush(NULL);
    _Exit(1);
}

/* None, and a reason for it. */
static int none(const char *step) {
    /* libcrypto's oldest entry is blank where it had no memory for that one's text. */
    if (ERR_peek_error() == 0 && ERR_peek_last_error() == 0) wrong(step);
    ERR_clear_error();
    return 0;
}

static inline int is_kem(const char *name) { return strstr(name, "KEM") != NULL; }

/* Encapsulates and opens, with an implicit rejection of what was changed. */
static inline int kem(EVP_PKEY *key) {
    unsigned char ct[4000], sent[200], got[200];
    size_t ct_len = sizeof ct, sent_len = sizeof sent, got_len = sizeof got;
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_pkey(NULL, key, OURS);
    int done = context != NULL && EVP_PKEY_encapsulate_init(context, NULL) == 1 &&
               EVP_PKEY_encapsulate(context, ct, &ct_len, sent, &sent_len) == 1 &&
               EVP_PKEY_decapsulate_init(context, NULL) == 1 &&
               EVP_PKEY_decapsulate(context, got, &got_len, ct, ct_len) == 1;
    if (done && (got_len != sent_len || memcmp(sent, got, got_len) != 0)) wrong("another secret");
    EVP_PKEY_CTX_free(context);
    return done ? 1 : none("no secret, and no reason");
}

/* Signs, verifies, and does not verify another message. */
static inline int signature(EVP_PKEY *key) {
    static unsigned char sig[60000];
    const unsigned char one[] = "one", two[] = "two";
    size_t len = sizeof sig;
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    int done = context != NULL &&
               EVP_DigestSignInit_ex(context, NULL, NULL, NULL, OURS, key, NULL) == 1 &&
               EVP_DigestSign(context, sig, &len, one, 3) == 1;
    EVP_MD_CTX_free(context);
    for (int good = 1; done && good >= 0; good--) {
        context = EVP_MD_CTX_new();
        if (context == NULL ||
            EVP_DigestVerifyInit_ex(context, NULL, NULL, NULL, OURS, key, NULL) != 1) {
            done = 0;
        } else {
            ERR_clear_error();
            int verifies = EVP_DigestVerify(context, sig, len, good ? one : two, 3) == 1;
            if (verifies && !good) wrong("another message verifies");
            /* A verdict has no reason, but for one of libcrypto's own. */
            if (!verifies && good) done = none("a good signature does not verify"), good = -1;
        }
        EVP_MD_CTX_free(context);
    }
    return done ? 1 : (ERR_clear_error(), 0);
}

static EVP_PKEY *generate(const char *name) {
    EVP_PKEY *key = NULL;
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_name(NULL, name, OURS);
    if (context != NULL && EVP_PKEY_keygen_init(context) == 1) EVP_PKEY_generate(context, &key);
    EVP_PKEY_CTX_free(context);
    if (key == NULL) none("no key, and no reason");
    return key;
}

static inline int use(const char *name, EVP_PKEY *key) { return is_kem(name) ? kem(key) : signature(key); }

/* A new key, and its use. */
static inline int operate(const char *name) {
    what = name;
    EVP_PKEY *key = generate(name);
    int done = key != NULL && use(name, key);
    EVP_PKEY_free(key);
    return done;
}

#endif
