/* Makes 64 ML-KEM-768 key pairs in one call, as a client with many connections to open would, and
 * agrees on a secret with each, whose public keys came as bytes: every step is one call for all.
 *
 * cc keys_many.c $(pkg-config --cflags --libs gabion) -o keys_many */
#include <gabion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LANES = 64, SECRET = GABION_ML_KEM_768_SHARED_SECRET_BYTES,
       PUBLIC = GABION_ML_KEM_768_PUBLIC_KEY_BYTES };

static void check(const char *what, gabion_status status)
{
    char text[256];
    if (status == GABION_OK) {
        return;
    }
    gabion_last_error(text, sizeof text);
    fprintf(stderr, "%s: %s: %s\n", what, gabion_status_text(status), text);
    exit(1);
}

static void check_lanes(const char *what, const gabion_status *status)
{
    for (int i = 0; i < LANES; i++) {
        check(what, status[i]);
    }
}

int main(void)
{
    static uint8_t ciphertexts[LANES * GABION_ML_KEM_768_CIPHERTEXT_BYTES];
    static uint8_t sent[LANES * SECRET];
    static uint8_t received[LANES * SECRET];
    static uint8_t encoded[LANES * PUBLIC];
    gabion_private_key *made[LANES];
    gabion_public_key *imported[LANES];
    const gabion_private_key *private_keys[LANES];
    const gabion_public_key *public_keys[LANES];
    gabion_status status[LANES];
    char backend[32];
    int agreed = 0;

    check("generate", gabion_private_key_generate_many(GABION_ML_KEM_768, LANES, made, status));
    check_lanes("generate, a lane", status);
    for (int i = 0; i < LANES; i++) {
        gabion_public_key *key = NULL;
        size_t len = PUBLIC;
        check("public key", gabion_private_key_public(made[i], &key));
        check("encoded", gabion_public_key_export(key, encoded + i * PUBLIC, &len));
        gabion_public_key_free(key);
        private_keys[i] = made[i];
    }
    check("import", gabion_public_key_import_many(GABION_ML_KEM_768, encoded, PUBLIC, LANES,
                                                  imported, status));
    check_lanes("import, a lane", status);
    for (int i = 0; i < LANES; i++) {
        public_keys[i] = imported[i];
    }
    check("encaps", gabion_encaps_many(public_keys, LANES, ciphertexts, sizeof ciphertexts, sent,
                                       sizeof sent, status));
    check_lanes("encaps, a lane", status);
    check("decaps", gabion_decaps_many(private_keys, LANES, ciphertexts, sizeof ciphertexts,
                                       received, sizeof received, status));
    check_lanes("decaps, a lane", status);
    for (int i = 0; i < LANES; i++) {
        agreed += memcmp(sent + i * SECRET, received + i * SECRET, SECRET) == 0;
    }
    check("backend", gabion_backend(GABION_ML_KEM_768, backend, sizeof backend));
    printf("%d of %d key pairs agree on a secret (%s)\n", agreed, LANES, backend);

    for (int i = 0; i < LANES; i++) {
        gabion_public_key_free(imported[i]);
        gabion_private_key_free(made[i]); /* one by one: each is a handle of its own */
    }
    return agreed == LANES ? 0 : 1;
}
