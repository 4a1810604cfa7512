/* What tests/memory/asan-openssl has to be told of: one mistake.
 *
 * misuse libcrypto   lets libcrypto's own code read a byte past a buffer
 * misuse provider    lets the provider's code do so
 * misuse leak        keeps no pointer to a key pair of the provider */
#include <openssl/bn.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static EVP_PKEY *key_pair(void)
{
    EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, "provider=gabion", "ML-KEM-768");
    if (key == NULL) {
        fprintf(stderr, "no key pair of ML-KEM-768 from the provider\n");
        exit(2);
    }
    return key;
}

static int past_the_end_in_libcrypto(void)
{
    unsigned char *bytes = malloc(32);
    memset(bytes, 1, 32);
    BIGNUM *number = BN_bin2bn(bytes, 33, NULL);
    BN_free(number);
    free(bytes);
    return 0;
}

/* The message goes into the hash as it lies there: nothing but the provider's own code reads it. */
static int past_the_end_in_the_provider(void)
{
    unsigned char *bytes = malloc(32), *signature = malloc(4096);
    size_t len = 4096;
    memset(bytes, 1, 32);
    EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, "provider=gabion", "ML-DSA-44");
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    int done = key != NULL &&
               EVP_DigestSignInit_ex(context, NULL, NULL, NULL, "provider=gabion", key, NULL) == 1 &&
               EVP_DigestSign(context, signature, &len, bytes, 33) == 1;
    EVP_MD_CTX_free(context);
    EVP_PKEY_free(key);
    free(signature);
    free(bytes);
    return !done;
}

int main(int argc, char **argv)
{
    const char *which = argc == 2 ? argv[1] : "";
    if (strcmp(which, "libcrypto") == 0) {
        return past_the_end_in_libcrypto();
    }
    if (strcmp(which, "provider") == 0) {
        return past_the_end_in_the_provider();
    }
    if (strcmp(which, "leak") == 0) {
        return key_pair() == NULL;
    }
    fprintf(stderr, "expected misuse libcrypto, misuse provider or misuse leak\n");
    return 2;
}
