/* Agrees on a secret with ML-KEM-768: what a client and a server each do.
 *
 * cc kem.c $(pkg-config --cflags --libs gabion) -o kem */
#include <gabion.h>
#include <stdio.h>
#include <string.h>

static int failed(const char *what, gabion_status status)
{
    char text[256];
    gabion_last_error(text, sizeof text);
    fprintf(stderr, "%s: %s: %s\n", what, gabion_status_text(status), text);
    return 1;
}

int main(void)
{
    uint8_t public_bytes[GABION_ML_KEM_768_PUBLIC_KEY_BYTES];
    uint8_t ciphertext[GABION_ML_KEM_768_CIPHERTEXT_BYTES];
    uint8_t servers[GABION_ML_KEM_768_SHARED_SECRET_BYTES];
    uint8_t clients[GABION_ML_KEM_768_SHARED_SECRET_BYTES];
    size_t public_len = sizeof public_bytes;
    gabion_private_key *private_key = NULL;
    gabion_public_key *public_key = NULL;
    gabion_public_key *received = NULL;
    gabion_status status;
    int result = 1;

    if (gabion_abi() != GABION_ABI) {
        fprintf(stderr, "libgabion has another interface than the gabion.h of this program\n");
        return 1;
    }

    /* The client makes a key pair and sends the public key. */
    status = gabion_private_key_generate(GABION_ML_KEM_768, &private_key);
    if (status != GABION_OK) { failed("generate", status); goto done; }
    status = gabion_private_key_public(private_key, &public_key);
    if (status != GABION_OK) { failed("public key", status); goto done; }
    status = gabion_public_key_export(public_key, public_bytes, &public_len);
    if (status != GABION_OK) { failed("export", status); goto done; }

    /* The server encapsulates to it and sends the ciphertext. */
    status = gabion_public_key_import(GABION_ML_KEM_768, public_bytes, public_len, &received);
    if (status != GABION_OK) { failed("import", status); goto done; }
    status = gabion_encaps(received, ciphertext, sizeof ciphertext, servers, sizeof servers);
    if (status != GABION_OK) { failed("encaps", status); goto done; }

    /* The client opens it. */
    status = gabion_decaps(private_key, ciphertext, sizeof ciphertext, clients, sizeof clients);
    if (status != GABION_OK) { failed("decaps", status); goto done; }

    if (memcmp(servers, clients, sizeof servers) != 0) {
        fprintf(stderr, "the secrets differ\n");
        goto done;
    }
    printf("both sides have the same %zu-byte secret\n", sizeof servers);
    result = 0;

done:
    gabion_public_key_free(received);
    gabion_public_key_free(public_key);
    gabion_private_key_free(private_key);
    return result;
}
