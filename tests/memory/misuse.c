/* What tests/memory/asan-openssl has to be told of: one mistake.
 *
 * misuse libcrypto   lets libcrypto's own code read a byte past a buffer
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

int main(int argc, char **argv)
{
    const char *which = argc == 2 ? argv[1] : "";
    if (strcmp(which, "libcrypto") == 0) {
        return past_the_end_in_libcrypto();
    }
    if (strcmp(which, "leak") == 0) {
        return key_pair() == NULL;
    }
    fprintf(stderr, "expected misuse libcrypto or misuse leak\n");
    return 2;
}
