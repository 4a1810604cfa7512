/* Verifies 64 ML-DSA-65 signatures in one call, as a node or a gateway would, one of them forged.
 *
 * cc verify_many.c $(pkg-config --cflags --libs gabion) -o verify_many */
#include <gabion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LANES = 64, FORGED = 41 };

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

int main(void)
{
    static uint8_t signatures[LANES * GABION_ML_DSA_65_SIGNATURE_BYTES];
    static char texts[LANES][32];
    const gabion_private_key *signers[LANES];
    const gabion_public_key *verifiers[LANES];
    gabion_message messages[LANES];
    gabion_status status[LANES];
    size_t lens[LANES];
    gabion_private_key *private_key;
    gabion_public_key *public_key;
    char backend[32];
    int good = 0;

    check("generate", gabion_private_key_generate(GABION_ML_DSA_65, &private_key));
    check("public key", gabion_private_key_public(private_key, &public_key));
    memset(messages, 0, sizeof messages);
    for (int i = 0; i < LANES; i++) {
        snprintf(texts[i], sizeof texts[i], "transaction %d", i);
        messages[i].message = (const uint8_t *)texts[i];
        messages[i].message_len = strlen(texts[i]);
        signers[i] = private_key; /* expanded once, used in every lane */
        verifiers[i] = public_key;
    }
    check("sign", gabion_sign_many(signers, messages, LANES, signatures, sizeof signatures, lens,
                                   status));
    for (int i = 0; i < LANES; i++) {
        check("sign, a lane", status[i]);
    }

    signatures[FORGED * GABION_ML_DSA_65_SIGNATURE_BYTES] ^= 1;
    check("verify", gabion_verify_many(verifiers, messages, LANES, signatures, sizeof signatures,
                                       lens, status));
    for (int i = 0; i < LANES; i++) {
        if (status[i] == GABION_OK) {
            good++;
        } else {
            printf("lane %d: %s\n", i, gabion_status_text(status[i]));
        }
    }
    check("backend", gabion_backend(GABION_ML_DSA_65, backend, sizeof backend));
    printf("%d of %d signatures verify (%s)\n", good, LANES, backend);

    gabion_public_key_free(public_key);
    gabion_private_key_free(private_key);
    return good == LANES - 1 && status[FORGED] == GABION_E_SIGNATURE ? 0 : 1;
}
