/* What happens on mistakes: every call below is wrong, says so, and leaves nothing behind. */
#include <gabion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int wrong;

static void expect(const char *what, gabion_status got, gabion_status expected)
{
    char text[256];
    if (got == expected) {
        return;
    }
    gabion_last_error(text, sizeof text);
    fprintf(stderr, "%s: %d (%s), expected %d: %s\n", what, (int)got, gabion_status_text(got),
            (int)expected, text);
    wrong = 1;
}

static void is_true(const char *what, int truth)
{
    if (!truth) {
        fprintf(stderr, "%s does not hold\n", what);
        wrong = 1;
    }
}

/* Whether the text of the last failure has these words. */
static void says(const char *what, const char *words)
{
    char text[256];
    gabion_last_error(text, sizeof text);
    if (strstr(text, words) == NULL) {
        fprintf(stderr, "%s: no `%s` in: %s\n", what, words, text);
        wrong = 1;
    }
}

static int all_zero(const uint8_t *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (bytes[i] != 0) {
            return 0;
        }
    }
    return 1;
}

static void keys(void)
{
    uint8_t seed[32] = {1};
    uint8_t bytes[64];
    size_t len = sizeof bytes;
    char text[8];
    gabion_private_key *key = (gabion_private_key *)&wrong;
    gabion_public_key *public_key = NULL;
    gabion_sizes sizes;
    gabion_gpu_counts counts;

    expect("no name", gabion_private_key_generate(NULL, &key), GABION_E_ARGUMENT);
    is_true("the handle is NULL after a failure", key == NULL);
    expect("no place", gabion_private_key_generate(GABION_ML_DSA_44, NULL), GABION_E_ARGUMENT);
    expect("unknown", gabion_private_key_generate("ML-DSA-45", &key), GABION_E_ALGORITHM);
    says("unknown", "unknown algorithm `ML-DSA-45`");
    expect("an old name", gabion_private_key_generate("KYBER512", &key), GABION_E_ALGORITHM);
    says("an old name", "ML-KEM-512 followed");
    expect("an old name", gabion_private_key_import("dilithium3", bytes, 64, &key),
           GABION_E_ALGORITHM);
    says("an old name", "ML-DSA-65 followed");
    expect("a dead name", gabion_private_key_generate("KYBER_90S_LEVEL1", &key),
           GABION_E_ALGORITHM);
    says("a dead name", "nothing followed");
    expect("a curve that is not there",
           gabion_private_key_generate("id-MLDSA87-Ed448-SHAKE256", &key), GABION_E_ALGORITHM);
    says("a curve that is not there", "because Ed448 is not");
    is_true("the text is cut to its room",
            gabion_last_error(text, sizeof text) > sizeof text && strlen(text) == 7);
    expect("unknown sizes", gabion_algorithm_sizes("x", &sizes), GABION_E_ALGORITHM);
    expect("short seed", gabion_private_key_from_seed(GABION_ML_DSA_44, seed, 31, &key),
           GABION_E_LENGTH);
    expect("no seed", gabion_private_key_from_seed(GABION_ML_DSA_44, NULL, 32, &key),
           GABION_E_ARGUMENT);
    expect("short key", gabion_public_key_import(GABION_ML_KEM_768, seed, 32, &public_key),
           GABION_E_LENGTH);
    expect("seed", gabion_private_key_from_seed("ml-dsa-44", seed, 32, &key), GABION_OK);
    expect("room", gabion_private_key_export(key, bytes, &len), GABION_E_LENGTH);
    expect("length", gabion_private_key_export(key, NULL, &len), GABION_OK);
    is_true("the length is the standard's", len == GABION_ML_DSA_44_PRIVATE_KEY_BYTES);
    expect("decaps with a signing key", gabion_decaps(key, bytes, 1, bytes + 1, 1),
           GABION_E_ALGORITHM);
    expect("backend without room", gabion_backend(GABION_ML_DSA_44, text, 1), GABION_E_LENGTH);
    counts.lost = 7;
    expect("GPU's work of nothing", gabion_gpu_served("x", &counts), GABION_E_ALGORITHM);
    is_true("counts are zero after a failure", counts.lost == 0);
    expect("GPU's work to nowhere", gabion_gpu_served(GABION_ML_DSA_44, NULL), GABION_E_ARGUMENT);
    expect("GPU's work", gabion_gpu_served(GABION_ML_DSA_44, &counts), GABION_OK);
    gabion_private_key_free(key);
    gabion_private_key_free(NULL);
    gabion_public_key_free(NULL);
    is_true("no name beyond the last", gabion_algorithm_name(gabion_algorithm_count()) == NULL);
}

/* A batch of keys that is refused: no handle, no lane that was run. */
static void refused(const char *what, const char *algorithm, gabion_status expected)
{
    gabion_private_key *made[3];
    gabion_status status[3] = {0, 0, 0};

    for (int i = 0; i < 3; i++) {
        made[i] = (gabion_private_key *)&wrong;
    }
    expect(what, gabion_private_key_generate_many(algorithm, 3, made, status), expected);
    for (int i = 0; i < 3; i++) {
        is_true("every handle is NULL after a failure", made[i] == NULL);
        is_true("no lane was run", status[i] == GABION_E_NOT_RUN);
    }
}

static void many_keys(void)
{
    /* One lane more than there can be handles of, and where products begin to wrap. */
    const size_t absurd[] = {PTRDIFF_MAX / sizeof(void *) + 1, SIZE_MAX / sizeof(void *) + 1,
                             SIZE_MAX / sizeof(gabion_status) + 1, SIZE_MAX / 2, SIZE_MAX};
    static const uint8_t zeros[GABION_ML_KEM_512_PUBLIC_KEY_BYTES];
    gabion_private_key *made[2] = {(gabion_private_key *)&wrong, NULL};
    gabion_public_key *imported[2] = {(gabion_public_key *)&wrong, NULL};
    gabion_status status[2] = {7, 7};
    gabion_private_key **crooked = (gabion_private_key **)(void *)((char *)made + 1);
    gabion_status *crooked_status = (gabion_status *)(void *)((char *)status + 1);

    refused("no name", NULL, GABION_E_ARGUMENT);
    refused("no such name", "ML-KEM-769", GABION_E_ALGORITHM);
    refused("a name that is not UTF-8", "\xff", GABION_E_ARGUMENT);
    refused("keys of an exchange", "X25519", GABION_E_ALGORITHM);
    expect("no keys", gabion_private_key_generate_many(GABION_ML_KEM_512, 0, NULL, NULL),
           GABION_OK);
    expect("no keys of no algorithm", gabion_private_key_generate_many("none", 0, NULL, NULL),
           GABION_E_ALGORITHM);
    expect("no place", gabion_private_key_generate_many(GABION_ML_KEM_512, 2, NULL, status),
           GABION_E_ARGUMENT);
    is_true("the lanes say so too", status[0] == GABION_E_NOT_RUN && status[1] == status[0]);
    expect("no status", gabion_private_key_generate_many(GABION_ML_KEM_512, 2, made, NULL),
           GABION_E_ARGUMENT);
    is_true("no handle without a status", made[0] == NULL && made[1] == NULL);
    expect("a crooked place",
           gabion_private_key_generate_many(GABION_ML_KEM_512, 1, crooked, status),
           GABION_E_ARGUMENT);
    expect("a crooked status",
           gabion_private_key_generate_many(GABION_ML_KEM_512, 1, made, crooked_status),
           GABION_E_ARGUMENT);
    for (size_t i = 0; i < sizeof absurd / sizeof absurd[0]; i++) {
        status[0] = 7;
        expect("absurdly many keys",
               gabion_private_key_generate_many(GABION_ML_KEM_512, absurd[i], made, status),
               GABION_E_LENGTH);
        is_true("nothing is written beyond what can be there", status[0] == 7);
        expect("absurdly many public keys",
               gabion_public_key_import_many(GABION_ML_KEM_512, zeros, sizeof zeros, absurd[i],
                                             imported, status),
               GABION_E_LENGTH);
        is_true("nothing is written beyond it here either", status[0] == 7);
    }
    expect("absurdly long public keys",
           gabion_public_key_import_many(GABION_ML_KEM_512, zeros, SIZE_MAX / 2, 2, imported, status),
           GABION_E_LENGTH);
    expect("no public keys", gabion_public_key_import_many(GABION_ML_KEM_512, NULL, 0, 0, NULL, NULL),
           GABION_OK);
    expect("no bytes of public keys",
           gabion_public_key_import_many(GABION_ML_KEM_512, NULL, sizeof zeros, 2, imported, status),
           GABION_E_ARGUMENT);
    is_true("nothing is imported without bytes", imported[0] == NULL && imported[1] == NULL);
}

static void kem(void)
{
    static uint8_t public_bytes[GABION_ML_KEM_768_PUBLIC_KEY_BYTES];
    static uint8_t ciphertexts[2 * GABION_ML_KEM_768_CIPHERTEXT_BYTES];
    uint8_t secrets[64];
    gabion_private_key *private_key = NULL;
    gabion_public_key *public_key = NULL;
    gabion_public_key *bad = NULL;
    gabion_status status[2];

    memset(public_bytes, 0xff, sizeof public_bytes);
    expect("coefficients out of range",
           gabion_public_key_import(GABION_ML_KEM_768, public_bytes, sizeof public_bytes, &bad),
           GABION_E_KEY);
    is_true("no handle of a refused key", bad == NULL);
    expect("generate", gabion_private_key_generate(GABION_ML_KEM_768, &private_key), GABION_OK);
    expect("public", gabion_private_key_public(private_key, &public_key), GABION_OK);
    memset(secrets, 0xaa, sizeof secrets);
    expect("short ciphertext",
           gabion_encaps(public_key, ciphertexts, 1000, secrets, 32), GABION_E_LENGTH);
    is_true("nothing is left in the secret", all_zero(secrets, 32));
    expect("no key", gabion_encaps(NULL, ciphertexts, 1088, secrets, 32), GABION_E_ARGUMENT);
    {
        const gabion_public_key *keys[2];
        keys[0] = public_key;
        keys[1] = NULL;
        expect("a lane without a key",
               gabion_encaps_many(keys, 2, ciphertexts, sizeof ciphertexts, secrets, 64, status),
               GABION_E_ARGUMENT);
        is_true("no lane was run", status[0] == GABION_E_NOT_RUN && status[1] == GABION_E_NOT_RUN);
        expect("no lanes", gabion_encaps_many(keys, 0, NULL, 0, NULL, 0, NULL), GABION_OK);
        expect("too many lanes",
               gabion_encaps_many(keys, SIZE_MAX / 2, ciphertexts, 1, secrets, 1, status),
               GABION_E_LENGTH);
        /* So few that there could be codes of them, and too many for handles. */
        expect("more lanes than handles",
               gabion_encaps_many(keys, SIZE_MAX / 16 + 1, ciphertexts, 1, secrets, 1, status),
               GABION_E_LENGTH);
    }
    gabion_public_key_free(public_key);
    gabion_private_key_free(private_key);
}

static void signatures(void)
{
    static uint8_t signature[GABION_ML_DSA_44_SIGNATURE_BYTES];
    static const uint8_t context[256];
    gabion_private_key *private_key = NULL;
    gabion_public_key *public_key = NULL;
    gabion_message message = GABION_MESSAGE_INIT;
    static gabion_message crooked[2]; /* room for one that begins in the middle of one */
    size_t len = sizeof signature;

    expect("generate", gabion_private_key_generate(GABION_ML_DSA_44, &private_key), GABION_OK);
    expect("public", gabion_private_key_public(private_key, &public_key), GABION_OK);
    message.context = context;
    message.context_len = 256;
    expect("long context", gabion_sign(private_key, &message, signature, &len), GABION_E_INPUT);
    is_true("no signature is left", all_zero(signature, sizeof signature));
    message.context_len = 0;
    message.prehash = "MD5";
    expect("unknown hash", gabion_sign(private_key, &message, signature, &len), GABION_E_INPUT);
    message.prehash = "SHA2-512";
    expect("no digest", gabion_sign(private_key, &message, signature, &len), GABION_E_INPUT);
    message.prehash = NULL;
    len = 100;
    expect("room", gabion_sign(private_key, &message, signature, &len), GABION_E_LENGTH);
    len = sizeof signature;
    expect("an empty message", gabion_sign(private_key, &message, signature, &len), GABION_OK);
    expect("its signature", gabion_verify(public_key, &message, signature, len), GABION_OK);
    expect("cut", gabion_verify(public_key, &message, signature, len - 1), GABION_E_SIGNATURE);
    expect("none", gabion_verify(public_key, &message, NULL, 0), GABION_E_SIGNATURE);
    expect("a crooked message",
           gabion_verify(public_key,
                         (const gabion_message *)(const void *)((char *)crooked + 1), signature,
                         len),
           GABION_E_ARGUMENT);
    expect("a crooked length",
           gabion_sign(private_key, &message, signature,
                       (size_t *)(void *)((char *)crooked + 1)),
           GABION_E_ARGUMENT);
    expect("its signature as before", gabion_verify(public_key, &message, signature, len),
           GABION_OK);
    signature[7] ^= 1;
    expect("changed", gabion_verify(public_key, &message, signature, len), GABION_E_SIGNATURE);
    gabion_public_key_free(public_key);
    gabion_private_key_free(private_key);
}

/* Lengths that no place has, of good signatures: what a peer sent is refused in its own lane, and what is
 * behind the array is not read. */
static void long_signatures(void)
{
    static const char *const algorithms[] = {"Falcon-512", GABION_ML_DSA_44, "Ed25519"};
    for (size_t i = 0; i < sizeof algorithms / sizeof *algorithms; i++) {
        gabion_private_key *private_key = NULL;
        gabion_public_key *public_key = NULL;
        gabion_sizes sizes;
        gabion_message message = GABION_MESSAGE_INIT;
        expect("sizes", gabion_algorithm_sizes(algorithms[i], &sizes), GABION_OK);
        expect("generate", gabion_private_key_generate(algorithms[i], &private_key), GABION_OK);
        expect("public", gabion_private_key_public(private_key, &public_key), GABION_OK);
        const size_t room = sizes.signature, most[2] = {room + 1, SIZE_MAX};
        const gabion_private_key *private_keys[3] = {private_key, private_key, private_key};
        const gabion_public_key *public_keys[3] = {public_key, public_key, public_key};
        const gabion_message messages[3] = {message, message, message};
        gabion_status status[3] = {7, 7, 7};
        size_t lens[3] = {0, 0, 0};
        uint8_t *signatures = malloc(3 * room);
        expect("sign", gabion_sign_many(private_keys, messages, 3, signatures, 3 * room, lens, status),
               GABION_OK);
        for (size_t j = 0; j < 2; j++) {
            lens[2] = most[j];
            expect("a long signature in a batch",
                   gabion_verify_many(public_keys, messages, 3, signatures, 3 * room, lens, status),
                   GABION_OK);
            expect("its lane", status[2], GABION_E_SIGNATURE);
            expect("a neighbour", status[0], GABION_OK);
            expect("another", status[1], GABION_OK);
        }
        free(signatures);
        gabion_public_key_free(public_key);
        gabion_private_key_free(private_key);
    }
}

/* Batches of which there can be no arrays, and arrays that begin in the middle of an item. */
static void absurd_batches(void)
{
    const size_t n = SIZE_MAX / 16 + 1;
    const gabion_private_key *private_keys[2] = {NULL, NULL};
    const gabion_public_key *public_keys[2] = {NULL, NULL};
    static gabion_message messages[2];
    gabion_status status[2] = {7, 7};
    gabion_status *crooked = (gabion_status *)(void *)((char *)status + 2);
    size_t lens[2] = {7, 7};
    uint8_t bytes[8] = {1};

    expect("decaps", gabion_decaps_many(private_keys, n, bytes, 4, bytes + 4, 4, status),
           GABION_E_LENGTH);
    expect("sign", gabion_sign_many(private_keys, messages, n, bytes, 8, lens, status),
           GABION_E_LENGTH);
    expect("verify", gabion_verify_many(public_keys, messages, n, bytes, 8, lens, status),
           GABION_E_LENGTH);
    is_true("nothing was written", status[0] == 7 && lens[0] == 7 && bytes[0] == 1);
    expect("a crooked status",
           gabion_verify_many(public_keys, messages, 1, bytes, 8, lens, crooked),
           GABION_E_ARGUMENT);
    expect("a crooked key",
           gabion_verify((const gabion_public_key *)(const void *)((char *)lens + 1), messages,
                         bytes, 8),
           GABION_E_ARGUMENT);
}

/* Outputs that lie over each other or over what is read: nothing is signed, opened or lost. */
static void overlaps_of_one(void)
{
    static uint8_t bytes[GABION_ML_DSA_44_SIGNATURE_BYTES + 8];
    static uint8_t ciphertext[GABION_ML_KEM_512_CIPHERTEXT_BYTES + 32];
    union {
        size_t len;
        uint8_t bytes[GABION_ML_DSA_44_SIGNATURE_BYTES];
    } shared = {0};
    uint8_t secret[32];
    char name[32] = GABION_ML_KEM_512;
    gabion_private_key *signer = NULL;
    gabion_private_key *opener = NULL;
    gabion_public_key *public_key = NULL;
    gabion_message message = GABION_MESSAGE_INIT;
    size_t len = GABION_ML_DSA_44_SIGNATURE_BYTES;

    expect("generate", gabion_private_key_generate(GABION_ML_DSA_44, &signer), GABION_OK);
    expect("generate", gabion_private_key_generate(GABION_ML_KEM_512, &opener), GABION_OK);
    expect("public", gabion_private_key_public(opener, &public_key), GABION_OK);

    memcpy(bytes, "payment", 8);
    message.message = bytes;
    message.message_len = 7;
    expect("sign in place", gabion_sign(signer, &message, bytes, &len), GABION_E_ARGUMENT);
    is_true("the message is still there", memcmp(bytes, "payment", 8) == 0);
    expect("sign behind the first byte", gabion_sign(signer, &message, bytes + 6, &len),
           GABION_E_ARGUMENT);
    expect("sign behind the message", gabion_sign(signer, &message, bytes + 7, &len), GABION_OK);
    message.context = bytes + 8;
    message.context_len = 1;
    expect("sign over the context", gabion_sign(signer, &message, bytes + 7, &len),
           GABION_E_ARGUMENT);
    message.context_len = 0;
    shared.len = sizeof shared.bytes;
    expect("sign over the length", gabion_sign(signer, &message, shared.bytes, &shared.len),
           GABION_E_ARGUMENT);
    is_true("the length is still there", shared.len == sizeof shared.bytes);
    expect("sign over the randomness",
           gabion_sign_with_randomness(signer, &message, bytes + 7, 32, bytes + 7, &len),
           GABION_E_ARGUMENT);

    expect("encaps", gabion_encaps(public_key, ciphertext, 768, secret, 32), GABION_OK);
    expect("decaps in place", gabion_decaps(opener, ciphertext, 768, ciphertext, 32),
           GABION_E_ARGUMENT);
    expect("decaps over the last byte", gabion_decaps(opener, ciphertext, 768, ciphertext + 767, 32),
           GABION_E_ARGUMENT);
    expect("decaps behind it", gabion_decaps(opener, ciphertext, 768, ciphertext + 768, 32),
           GABION_OK);
    is_true("the ciphertext was left alone", memcmp(ciphertext + 768, secret, 32) == 0);
    expect("a secret in the ciphertext", gabion_encaps(public_key, ciphertext, 768, ciphertext, 32),
           GABION_E_ARGUMENT);
    memset(secret, 0xaa, sizeof secret);
    expect("a ciphertext over the randomness",
           gabion_encaps_with_randomness(public_key, ciphertext, 32, ciphertext, 768, secret, 32),
           GABION_E_ARGUMENT);
    is_true("what lies apart is zero", all_zero(secret, 32) && !all_zero(ciphertext, 32));
    len = 1;
    expect("a key over itself",
           gabion_public_key_export(public_key, (uint8_t *)public_key, &len), GABION_E_ARGUMENT);
    expect("a name over itself", gabion_backend(name, name, sizeof name), GABION_E_ARGUMENT);
    is_true("the name is still there", strcmp(name, GABION_ML_KEM_512) == 0);
    gabion_public_key_free(public_key);
    gabion_private_key_free(opener);
    gabion_private_key_free(signer);
}

/* The same in batches, where only a later lane is in the way. */
static void overlaps_of_many(void)
{
    static uint8_t bytes[2 * GABION_ML_DSA_44_SIGNATURE_BYTES];
    static uint8_t ciphertexts[2 * GABION_ML_KEM_512_CIPHERTEXT_BYTES];
    union {
        gabion_status codes[2];
        uint8_t bytes[64];
    } secrets;
    gabion_private_key *signers[2] = {NULL, NULL};
    gabion_private_key *openers[2] = {NULL, NULL};
    gabion_public_key *publics[2] = {NULL, NULL};
    gabion_message messages[2] = {GABION_MESSAGE_INIT, GABION_MESSAGE_INIT};
    size_t lens[2] = {7, 7};
    gabion_status status[2] = {7, 7};
    const gabion_private_key *const *signing = (const gabion_private_key *const *)signers;
    const gabion_private_key *const *opening = (const gabion_private_key *const *)openers;
    const gabion_public_key *const *sending = (const gabion_public_key *const *)publics;

    expect("generate", gabion_private_key_generate_many(GABION_ML_DSA_44, 2, signers, status),
           GABION_OK);
    expect("generate", gabion_private_key_generate_many(GABION_ML_KEM_512, 2, openers, status),
           GABION_OK);
    for (int i = 0; i < 2; i++) {
        expect("public", gabion_private_key_public(openers[i], &publics[i]), GABION_OK);
    }

    bytes[sizeof bytes - 1] = 1;
    messages[1].message = bytes + sizeof bytes - 1;
    messages[1].message_len = 1;
    expect("a message in a signature's place",
           gabion_sign_many(signing, messages, 2, bytes, sizeof bytes, lens, status),
           GABION_E_ARGUMENT);
    is_true("the message is still there", bytes[sizeof bytes - 1] == 1);
    is_true("what lies apart is blank", lens[1] == 0 && status[1] == GABION_E_NOT_RUN);
    messages[1].message_len = 0;
    expect("signatures over the messages",
           gabion_sign_many(signing, messages, 2, (uint8_t *)messages, sizeof messages, lens, status),
           GABION_E_ARGUMENT);
    expect("lengths over the keys",
           gabion_sign_many(signing, messages, 2, bytes, sizeof bytes, (size_t *)signers, status),
           GABION_E_ARGUMENT);
    expect("codes over the lengths",
           gabion_sign_many(signing, messages, 2, bytes, sizeof bytes, lens,
                            (gabion_status *)(void *)&lens[1]),
           GABION_E_ARGUMENT);
    expect("codes over the signatures",
           gabion_verify_many(sending, messages, 2, (uint8_t *)status, sizeof status, lens, status),
           GABION_E_ARGUMENT);

    expect("encaps",
           gabion_encaps_many(sending, 2, ciphertexts, sizeof ciphertexts, secrets.bytes, 64, status),
           GABION_OK);
    expect("secrets over the last ciphertext",
           gabion_decaps_many(opening, 2, ciphertexts, sizeof ciphertexts,
                              ciphertexts + sizeof ciphertexts - 64, 64, status),
           GABION_E_ARGUMENT);
    expect("secrets in the ciphertexts",
           gabion_encaps_many(sending, 2, ciphertexts, sizeof ciphertexts, ciphertexts + 768, 64,
                              status),
           GABION_E_ARGUMENT);
    expect("codes over the secrets",
           gabion_encaps_many(sending, 2, ciphertexts, sizeof ciphertexts, secrets.bytes, 64,
                              secrets.codes),
           GABION_E_ARGUMENT);
    expect("handles over the bytes",
           gabion_public_key_import_many(GABION_ML_KEM_512, (uint8_t *)publics, 8, 2, publics, status),
           GABION_E_ARGUMENT);
    is_true("the handles are still there", publics[0] != NULL && publics[1] != NULL);
    for (int i = 0; i < 2; i++) {
        gabion_public_key_free(publics[i]);
        gabion_private_key_free(openers[i]);
        gabion_private_key_free(signers[i]);
    }
}

int main(void)
{
    overlaps_of_one();
    overlaps_of_many();
    absurd_batches();
    many_keys();
    keys();
    kem();
    signatures();
    long_signatures();
    if (!wrong) {
        printf("every misuse was refused\n");
    }
    return wrong;
}
