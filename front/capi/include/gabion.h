/* gabion.h: post-quantum cryptography, single operations and batches.
 *
 * CONVENTIONS
 *
 * Status. A function that can fail returns a gabion_status: GABION_OK (0) or a negative code, which
 *   gabion_status_text() describes. gabion_last_error() returns the message of the calling thread's
 *   last failure: what happened and what was expected. Messages contain no secrets.
 * Output after a failure. Output buffers are all zero and handles are NULL; for exceptions see
 *   Memory.
 * Algorithms are named by strings, ignoring case: any name that `gabion algorithms --json` lists,
 *   or an object identifier. Pre-standard names (KYBER512, DILITHIUM3) are rejected, because such a
 *   key may have the length of a standard key but is incompatible with it; gabion_last_error()
 *   names the successor. Names of algorithms that this build omits are rejected with the reason.
 *   The GABION_... macros below are the standard names. This interface supports KEMs and
 *   signatures. For key exchanges (X25519, ECDH) it reports sizes, but keys of them are
 *   GABION_E_ALGORITHM.
 * Keys are opaque handles. The caller owns each handle returned through a `**` and passes it to the
 *   matching gabion_..._free(), which wipes it; freeing NULL does nothing. A key is expanded when
 *   it is created, never changes, and may be used by any number of threads concurrently. The
 *   exception is a stateful key: it changes with each signature, threads sign one after the other,
 *   and it is closed with gabion_stateful_key_close(), which can fail.
 * Memory. All other memory belongs to the caller: the library neither returns nor keeps buffers.
 *   The output buffers of a call must not overlap each other or its inputs, including keys and
 *   strings. Otherwise the call fails with GABION_E_ARGUMENT and does not change the overlapping
 *   buffers. If memory cannot be allocated, the call fails with GABION_E_MEMORY. libgabion.so
 *   reserves 4 MiB, with which running calls complete; further calls fail while malloc() does. A
 *   batch of more than 64 lanes allocates its memory before it starts. If more than the reserve is
 *   needed at once, for example by many threads in the middle of a call, the process is ended by
 *   SIGABRT. libgabion.a has no reserve: there, a failed allocation ends the process except in such
 *   batches.
 * Lengths are in bytes and are checked: a wrong length is GABION_E_LENGTH, and the message states
 *   the expected one. A length passed by pointer is the size of the buffer on entry and the used
 *   length on return; if the buffer is NULL, only the required length is written.
 * Batches (..._many) take arrays of n lanes. The data of lane i starts at i times the item size.
 *   Each lane has a status, status[i]. The call returns GABION_OK if the batch ran, even if lanes
 *   failed; a failed lane does not affect the others, its output is all zero and its handle NULL. A
 *   batch returns the same results as n single calls. If n is 0, the batch does nothing and its
 *   arrays may be NULL. If n is too large for an array, the result is GABION_E_LENGTH and nothing
 *   is written.
 * Randomness comes from the operating system, drawn once per call, except in
 *   ..._with_randomness().
 * Threads. All functions may be called from any thread. Loading the library runs no code and
 *   starts no thread. The first use of an algorithm runs a self-test of the processor's
 *   implementation, on a separately mapped stack, because it may need more stack than the caller
 *   has. Keys of FN-DSA, Falcon, RSA and P-521 may use a separate stack too, and stateful keys
 *   always do when they are opened, signed with or closed. If a thread is cancelled
 *   (pthread_cancel, deferred type), it ends when the call returns.
 * Verification results. GABION_E_SIGNATURE means exactly that a signature does not verify. A
 *   modified ML-KEM ciphertext is not an error: decapsulation yields another secret (FIPS 203). A
 *   modified hybrid ciphertext may be an error: a share that is not a point of the curve, or is of
 *   small order, is GABION_E_INPUT.
 * Every function that computes may return GABION_E_FAULT or GABION_E_MEMORY; the lists of errors
 *   below omit them.
 */
#ifndef GABION_H
#define GABION_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__) || defined(__clang__)
#define GABION_MUST_CHECK __attribute__((warn_unused_result))
#else
#define GABION_MUST_CHECK
#endif

/* ----- Status ----- */

typedef int32_t gabion_status;

#define GABION_OK 0
#define GABION_E_NOT_RUN (-1)    /* the lane was not run */
#define GABION_E_ARGUMENT (-2)   /* an unexpected NULL, a misaligned pointer, overlapping buffers,
                                    or a string that is not UTF-8 (paths and passphrases may be any
                                    bytes) */
#define GABION_E_ALGORITHM (-3)  /* unknown algorithm, or unsupported operation */
#define GABION_E_LENGTH (-4)     /* wrong length */
#define GABION_E_KEY (-5)        /* the key fails the standard's checks; for a stateful key: the
                                    file is missing or not a key, or the passphrase is wrong */
#define GABION_E_INPUT (-6)      /* malformed ciphertext, context, digest or request id, a message
                                    form that the algorithm does not support, or reserve is 0 */
#define GABION_E_SIGNATURE (-7)  /* the signature does not verify */
#define GABION_E_RANDOMNESS (-8) /* the operating system returned no randomness */
#define GABION_E_FAULT (-9)      /* an internal check failed: the result must not be used */
#define GABION_E_BACKEND (-10)   /* no implementation passed its self-test */
#define GABION_E_MEMORY (-11)    /* out of memory or stack, for the call or its self-test; any call
                                    may return this, and may succeed later */
#define GABION_E_STATE (-12)     /* for a stateful key: used up, in use by another process, not safe
                                    to sign with, or its files cannot be read or written */

/* Returns the description of a status; never NULL, valid until the process ends. */
const char *gabion_status_text(gabion_status status);

/* Writes the message of the calling thread's last failure, truncated to `room` bytes including the
 * NUL, and returns its full length without the NUL; 0 if no call of this thread has failed yet. */
size_t gabion_last_error(char *text, size_t room);

/* Returns the version of the library, for example "0.1.0". */
const char *gabion_version(void);

/* The version of this interface. A program built with another GABION_ABI must not use it. */
#define GABION_ABI 1
uint32_t gabion_abi(void);

/* ----- Algorithms ----- */

/* Sizes of an algorithm in bytes; 0 if not applicable. */
typedef struct gabion_sizes {
    size_t public_key;
    size_t private_key;   /* the expanded form, in the standard encoding */
    size_t seed;          /* the seed form of the private key */
    size_t ciphertext;    /* of a KEM */
    size_t shared_secret; /* of a KEM */
    size_t signature;     /* the maximum, if lengths vary */
} gabion_sizes;

/* Return the number of algorithms, and the standard name of each (index from 0; NULL if out of
 * range). */
size_t gabion_algorithm_count(void);
const char *gabion_algorithm_name(size_t index);

/* Writes the sizes of an algorithm. Errors: ARGUMENT, ALGORITHM. */
gabion_status gabion_algorithm_sizes(const char *algorithm, gabion_sizes *sizes) GABION_MUST_CHECK;

/* Writes the name of the backend that runs this algorithm, for example "avx512". Runs its self-test
 * if this is the first use. Errors: ARGUMENT, ALGORITHM, LENGTH, BACKEND. */
gabion_status gabion_backend(const char *algorithm, char *name, size_t room) GABION_MUST_CHECK;

/* GPU usage of an algorithm. Self-tests are not counted. */
typedef struct gabion_gpu_counts {
    uint64_t operations; /* operations completed on a GPU */
    uint64_t batches;    /* their batches; a single operation is a batch */
    uint64_t declined;   /* batches that no GPU accepted */
    uint64_t lost;       /* batches lost to an error or timeout, and run on the processor */
} gabion_gpu_counts;

/* Writes the GPU usage of this algorithm in this process, over all functions below; all zero if no
 * GPU is used (docs/guide/gpu.md). Hybrids count as their component on the GPU: X25519MLKEM768 as
 * ML-KEM-768. A forked child inherits the counts of its parent. Errors: ARGUMENT, ALGORITHM,
 * BACKEND. */
gabion_status gabion_gpu_served(const char *algorithm, gabion_gpu_counts *counts) GABION_MUST_CHECK;

/* ----- Keys ----- */

typedef struct gabion_private_key gabion_private_key;
typedef struct gabion_public_key gabion_public_key;

/* Generates a key pair. Errors: ARGUMENT, ALGORITHM, RANDOMNESS, BACKEND. */
gabion_status gabion_private_key_generate(const char *algorithm, gabion_private_key **key)
    GABION_MUST_CHECK;

/* Generates n key pairs of one algorithm, in parallel lanes if the algorithm supports batches. Each
 * keys[i] is a separate handle and is freed separately; its previous value is overwritten and not
 * freed. Either all lanes succeed or, if the call fails, every handle is NULL. A key needs several
 * times the memory of its encoding, so limit n.
 * Errors: ARGUMENT, ALGORITHM, LENGTH, RANDOMNESS, BACKEND. */
gabion_status gabion_private_key_generate_many(const char *algorithm, size_t n,
                                               gabion_private_key **keys, gabion_status *status)
    GABION_MUST_CHECK;

/* Derives the key pair of a seed as the standard specifies.
 * Errors: ARGUMENT, ALGORITHM (no seed form), LENGTH, BACKEND. */
gabion_status gabion_private_key_from_seed(const char *algorithm, const uint8_t *seed,
                                           size_t seed_len, gabion_private_key **key)
    GABION_MUST_CHECK;

/* Decodes and checks a private key in the standard expanded form.
 * Errors: ARGUMENT, ALGORITHM, LENGTH, KEY, BACKEND. */
gabion_status gabion_private_key_import(const char *algorithm, const uint8_t *bytes, size_t len,
                                        gabion_private_key **key) GABION_MUST_CHECK;

/* Writes the expanded private key, which is secret. Errors: ARGUMENT, LENGTH. */
gabion_status gabion_private_key_export(const gabion_private_key *key, uint8_t *bytes, size_t *len)
    GABION_MUST_CHECK;

/* Writes the seed, which is secret. Errors: ARGUMENT, LENGTH, KEY (the seed is unknown). */
gabion_status gabion_private_key_seed(const gabion_private_key *key, uint8_t *seed, size_t *len)
    GABION_MUST_CHECK;

/* Returns the public key of a private key. Errors: ARGUMENT. */
gabion_status gabion_private_key_public(const gabion_private_key *key, gabion_public_key **out)
    GABION_MUST_CHECK;

/* Decodes and checks a public key. Errors: ARGUMENT, ALGORITHM, LENGTH, KEY, BACKEND. */
gabion_status gabion_public_key_import(const char *algorithm, const uint8_t *bytes, size_t len,
                                       gabion_public_key **key) GABION_MUST_CHECK;

/* Decodes and checks n consecutive public keys of len bytes each, in parallel lanes if the
 * algorithm supports batches. Each keys[i] is a separate handle, or NULL if status[i] states why
 * the key was rejected. Errors: ARGUMENT, ALGORITHM, LENGTH, BACKEND; of a lane: LENGTH, KEY. */
gabion_status gabion_public_key_import_many(const char *algorithm, const uint8_t *bytes,
                                            size_t len, size_t n, gabion_public_key **keys,
                                            gabion_status *status) GABION_MUST_CHECK;

/* Writes the encoded public key. Errors: ARGUMENT, LENGTH. */
gabion_status gabion_public_key_export(const gabion_public_key *key, uint8_t *bytes, size_t *len)
    GABION_MUST_CHECK;

/* Return the standard name of the key's algorithm; NULL for NULL. */
const char *gabion_private_key_algorithm(const gabion_private_key *key);
const char *gabion_public_key_algorithm(const gabion_public_key *key);

void gabion_private_key_free(gabion_private_key *key);
void gabion_public_key_free(gabion_public_key *key);

/* ----- Key encapsulation ----- */

/* Encapsulates to `key`: writes a ciphertext, and the secret that its owner will obtain from it.
 * Errors: ARGUMENT, ALGORITHM (not a KEM), LENGTH, KEY (a hybrid key with a share of small order),
 * RANDOMNESS, BACKEND. */
gabion_status gabion_encaps(const gabion_public_key *key, uint8_t *ciphertext,
                            size_t ciphertext_len, uint8_t *secret, size_t secret_len)
    GABION_MUST_CHECK;

/* Encapsulates with randomness of the caller: for ML-KEM the 32 bytes m (FIPS 203, Algorithm 17).
 * For callers with a random generator, and for test vectors. Randomness that is reused or known to
 * others reveals the secret. Errors: as for gabion_encaps; LENGTH also for the randomness. */
gabion_status gabion_encaps_with_randomness(const gabion_public_key *key,
                                            const uint8_t *randomness, size_t randomness_len,
                                            uint8_t *ciphertext, size_t ciphertext_len,
                                            uint8_t *secret, size_t secret_len)
    GABION_MUST_CHECK;

/* Decapsulates the secret of a ciphertext.
 * Errors: ARGUMENT, ALGORITHM, LENGTH, INPUT (a hybrid's share), BACKEND. */
gabion_status gabion_decaps(const gabion_private_key *key, const uint8_t *ciphertext,
                            size_t ciphertext_len, uint8_t *secret, size_t secret_len)
    GABION_MUST_CHECK;

/* Performs n encapsulations with keys of one algorithm; a key may be used in several lanes.
 * ciphertexts_len and secrets_len are the lengths of the whole arrays.
 * Errors: ARGUMENT, ALGORITHM, LENGTH, RANDOMNESS, BACKEND; of a lane: KEY. */
gabion_status gabion_encaps_many(const gabion_public_key *const *keys, size_t n,
                                 uint8_t *ciphertexts, size_t ciphertexts_len, uint8_t *secrets,
                                 size_t secrets_len, gabion_status *status) GABION_MUST_CHECK;

/* Performs n decapsulations, with the same layout. Errors: ARGUMENT, ALGORITHM, LENGTH, BACKEND; of
 * a lane: INPUT. */
gabion_status gabion_decaps_many(const gabion_private_key *const *keys, size_t n,
                                 const uint8_t *ciphertexts, size_t ciphertexts_len,
                                 uint8_t *secrets, size_t secrets_len, gabion_status *status)
    GABION_MUST_CHECK;

/* ----- Signatures ----- */

/* A message to sign or verify. Unused fields must be zero: `gabion_message m =
 * GABION_MESSAGE_INIT;` */
typedef struct gabion_message {
    const uint8_t *message; /* may be NULL if message_len is 0 */
    size_t message_len;
    const uint8_t *context; /* at most 255 bytes; may be NULL if context_len is 0 */
    size_t context_len;
    const char *prehash; /* NULL to sign the message itself; else `message` is a digest of this
                            hash, for example "SHA2-512" or "sha512", as on the command line; an
                            unknown name fails the whole call */
} gabion_message;

/* An initializer with all fields zero, for C and C++. */
#ifdef __cplusplus
#define GABION_MESSAGE_INIT {}
#else
#define GABION_MESSAGE_INIT {0}
#endif

/* A value of `prehash`: `message` is the message representative mu (FIPS 204, Algorithm 7, line 6),
 * computed by the caller. For ML-DSA and the FN-DSA draft. mu has 64 bytes, and `context` must be
 * empty, because mu covers it; otherwise the whole call fails. */
#define GABION_MU "mu"

/* Signs a message, hedged with fresh randomness if the algorithm supports it.
 * signature_len: the size of the buffer on entry, the length of the signature on return.
 * Errors: ARGUMENT, ALGORITHM, LENGTH, INPUT, RANDOMNESS, BACKEND. */
gabion_status gabion_sign(const gabion_private_key *key, const gabion_message *message,
                          uint8_t *signature, size_t *signature_len) GABION_MUST_CHECK;

/* Signs with randomness of the caller: for ML-DSA the 32 bytes rnd (FIPS 204, Algorithm 2), all
 * zero for the deterministic variant; for SLH-DSA the n bytes opt_rand (FIPS 205, Algorithm 22).
 * For callers with a random generator, and for test vectors.
 * Errors: as for gabion_sign; LENGTH also for the randomness. */
gabion_status gabion_sign_with_randomness(const gabion_private_key *key,
                                          const gabion_message *message,
                                          const uint8_t *randomness, size_t randomness_len,
                                          uint8_t *signature, size_t *signature_len)
    GABION_MUST_CHECK;

/* Verifies a signature: returns GABION_OK or GABION_E_SIGNATURE, the latter also for a signature of
 * the wrong length.
 * Errors: ARGUMENT, ALGORITHM, LENGTH (mu), INPUT, BACKEND. */
gabion_status gabion_verify(const gabion_public_key *key, const gabion_message *message,
                            const uint8_t *signature, size_t signature_len) GABION_MUST_CHECK;

/* Makes n signatures with keys of one algorithm; a key may be used in several lanes. signatures_len
 * is n times the algorithm's maximum signature length. The length of signature i is written to
 * signature_lens[i]; the rest of its slot is zero.
 * Errors: ARGUMENT, ALGORITHM, LENGTH, INPUT, RANDOMNESS, BACKEND; of a lane: INPUT. */
gabion_status gabion_sign_many(const gabion_private_key *const *keys,
                               const gabion_message *messages, size_t n, uint8_t *signatures,
                               size_t signatures_len, size_t *signature_lens,
                               gabion_status *status) GABION_MUST_CHECK;

/* Verifies n signatures with the same layout. signature_lens may be NULL if the algorithm's
 * signatures have a fixed length. If a length exceeds its slot, the lane fails with SIGNATURE and
 * is not read. For HSS and XMSS, whose signature length depends on the key, the caller chooses the
 * slot size: it is signatures_len / n bytes.
 * Errors: ARGUMENT, ALGORITHM, LENGTH, INPUT, BACKEND; of a lane: INPUT, SIGNATURE. */
gabion_status gabion_verify_many(const gabion_public_key *const *keys,
                                 const gabion_message *messages, size_t n,
                                 const uint8_t *signatures, size_t signatures_len,
                                 const size_t *signature_lens, gabion_status *status)
    GABION_MUST_CHECK;

/* ----- Stateful private keys: HSS and LMS, XMSS and XMSS^MT ----- */

/* `gabion hbs keygen` creates such a key as files: the secret, its state, and anchors elsewhere
 * that witness the state (docs/operate/state.md). No call exports or copies the secret. An index is
 * durably marked as used before its signature is released. A state that may be outdated is
 * rejected, and so is a process that was forked from the one that opened the key. Verify signatures
 * with gabion_verify() and a public key of "HSS", "XMSS" or "XMSSMT". */
typedef struct gabion_stateful_key gabion_stateful_key;

/* The status of a key. */
typedef struct gabion_stateful_status {
    uint64_t index;      /* the next index */
    uint64_t remaining;  /* remaining signatures */
    uint64_t burnt;      /* maximum number of indexes lost without a signature */
    uint64_t generation; /* of the state; increases with each reservation */
    uint32_t is_low;     /* 1: fewer signatures remain than the owner's warning threshold */
    uint32_t is_safe;    /* 1: state and anchors belong to this machine and agree. Opening the key
                            checks more, and whether it is in use; see also `remaining` */
} gabion_stateful_status;

/* Information about a signature. */
typedef struct gabion_stateful_signed {
    uint64_t index;       /* the index that signed */
    uint64_t remaining;   /* remaining signatures */
    uint32_t is_low;      /* as above */
    uint32_t is_repeated; /* 1: made earlier for the same request id; no index was used */
} gabion_stateful_signed;

/* Opens the private key file `path` for signing, and excludes other processes until it is closed.
 * Waits up to 30 s for another process that has it open.
 * path and passphrase: NUL-terminated, any bytes; passphrase is NULL if the key is not encrypted.
 * reserve: how many indexes are made durable at once. With 1, a crash loses only indexes in use;
 * more is faster. All handles of a key in one process share its state and use the largest reserve.
 * The limit is an eighth of the remaining indexes, and at least 64 for keys with 512 or more
 * indexes: a larger value fails with STATE. As the key is used up, less is reserved. A process that
 * ends without closing its last handle burns the reserved indexes.
 * Trees that are not cached next to the key are computed at the first signature: it may take long.
 * Errors: ARGUMENT, INPUT (reserve is 0), KEY (the file is missing or not a key, or the passphrase
 * is wrong), STATE, BACKEND. */
gabion_status gabion_stateful_key_open(const char *path, const char *passphrase, uint64_t reserve,
                                       gabion_stateful_key **key) GABION_MUST_CHECK;

/* Writes the public key, in the encoding of HSS or XMSS. Errors: ARGUMENT, LENGTH. */
gabion_status gabion_stateful_key_public(const gabion_stateful_key *key, uint8_t *bytes,
                                         size_t *len) GABION_MUST_CHECK;

/* Signs a message with a new index, in the encoding that the key was made for. Any number of
 * threads may sign with one key, one after the other.
 * request_id: NULL, or 1 to 128 printable ASCII characters. Repeating an id with the same message
 * returns the same signature and uses no index; an id with another message fails with STATE.
 * signature_len: the size of the buffer on entry, the length of the signature on return. If the
 * buffer is NULL or too small, no index is used. about: may be NULL.
 * Errors: ARGUMENT, LENGTH, INPUT (the request id), KEY (the secret does not match the public key),
 * STATE, BACKEND. After an error no signature is released, but an index may be lost. */
gabion_status gabion_stateful_key_sign(const gabion_stateful_key *key, const uint8_t *message,
                                       size_t message_len, const char *request_id,
                                       uint8_t *signature, size_t *signature_len,
                                       gabion_stateful_signed *about) GABION_MUST_CHECK;

/* Closes a key. The handle must not be used again, whatever the result. The last handle of a
 * process returns the reserved indexes that were not used. NULL does nothing.
 * Errors: STATE (the indexes could not be returned and are lost). */
gabion_status gabion_stateful_key_close(gabion_stateful_key *key);

/* Writes the status of the private key file `path` without changing anything. A reason that forbids
 * signing is not an error. If another process is signing, the status may be outdated.
 * Errors: ARGUMENT, STATE (its files cannot be read). */
gabion_status gabion_stateful_key_status(const char *path, gabion_stateful_status *status)
    GABION_MUST_CHECK;

/* ----- Names and sizes, one group per algorithm; generated from the library's table ----- */

/* sizes: begin */
#define GABION_ML_KEM_512 "ML-KEM-512"
#define GABION_ML_KEM_512_PUBLIC_KEY_BYTES 800
#define GABION_ML_KEM_512_PRIVATE_KEY_BYTES 1632
#define GABION_ML_KEM_512_SEED_BYTES 64
#define GABION_ML_KEM_512_CIPHERTEXT_BYTES 768
#define GABION_ML_KEM_512_SHARED_SECRET_BYTES 32

#define GABION_ML_KEM_768 "ML-KEM-768"
#define GABION_ML_KEM_768_PUBLIC_KEY_BYTES 1184
#define GABION_ML_KEM_768_PRIVATE_KEY_BYTES 2400
#define GABION_ML_KEM_768_SEED_BYTES 64
#define GABION_ML_KEM_768_CIPHERTEXT_BYTES 1088
#define GABION_ML_KEM_768_SHARED_SECRET_BYTES 32

#define GABION_ML_KEM_1024 "ML-KEM-1024"
#define GABION_ML_KEM_1024_PUBLIC_KEY_BYTES 1568
#define GABION_ML_KEM_1024_PRIVATE_KEY_BYTES 3168
#define GABION_ML_KEM_1024_SEED_BYTES 64
#define GABION_ML_KEM_1024_CIPHERTEXT_BYTES 1568
#define GABION_ML_KEM_1024_SHARED_SECRET_BYTES 32

#define GABION_ML_DSA_44 "ML-DSA-44"
#define GABION_ML_DSA_44_PUBLIC_KEY_BYTES 1312
#define GABION_ML_DSA_44_PRIVATE_KEY_BYTES 2560
#define GABION_ML_DSA_44_SEED_BYTES 32
#define GABION_ML_DSA_44_SIGNATURE_BYTES 2420

#define GABION_ML_DSA_65 "ML-DSA-65"
#define GABION_ML_DSA_65_PUBLIC_KEY_BYTES 1952
#define GABION_ML_DSA_65_PRIVATE_KEY_BYTES 4032
#define GABION_ML_DSA_65_SEED_BYTES 32
#define GABION_ML_DSA_65_SIGNATURE_BYTES 3309

#define GABION_ML_DSA_87 "ML-DSA-87"
#define GABION_ML_DSA_87_PUBLIC_KEY_BYTES 2592
#define GABION_ML_DSA_87_PRIVATE_KEY_BYTES 4896
#define GABION_ML_DSA_87_SEED_BYTES 32
#define GABION_ML_DSA_87_SIGNATURE_BYTES 4627

#define GABION_SLH_DSA_SHA2_128S "SLH-DSA-SHA2-128s"
#define GABION_SLH_DSA_SHA2_128S_PUBLIC_KEY_BYTES 32
#define GABION_SLH_DSA_SHA2_128S_PRIVATE_KEY_BYTES 64
#define GABION_SLH_DSA_SHA2_128S_SEED_BYTES 48
#define GABION_SLH_DSA_SHA2_128S_SIGNATURE_BYTES 7856

#define GABION_SLH_DSA_SHA2_128F "SLH-DSA-SHA2-128f"
#define GABION_SLH_DSA_SHA2_128F_PUBLIC_KEY_BYTES 32
#define GABION_SLH_DSA_SHA2_128F_PRIVATE_KEY_BYTES 64
#define GABION_SLH_DSA_SHA2_128F_SEED_BYTES 48
#define GABION_SLH_DSA_SHA2_128F_SIGNATURE_BYTES 17088

#define GABION_SLH_DSA_SHA2_192S "SLH-DSA-SHA2-192s"
#define GABION_SLH_DSA_SHA2_192S_PUBLIC_KEY_BYTES 48
#define GABION_SLH_DSA_SHA2_192S_PRIVATE_KEY_BYTES 96
#define GABION_SLH_DSA_SHA2_192S_SEED_BYTES 72
#define GABION_SLH_DSA_SHA2_192S_SIGNATURE_BYTES 16224

#define GABION_SLH_DSA_SHA2_192F "SLH-DSA-SHA2-192f"
#define GABION_SLH_DSA_SHA2_192F_PUBLIC_KEY_BYTES 48
#define GABION_SLH_DSA_SHA2_192F_PRIVATE_KEY_BYTES 96
#define GABION_SLH_DSA_SHA2_192F_SEED_BYTES 72
#define GABION_SLH_DSA_SHA2_192F_SIGNATURE_BYTES 35664

#define GABION_SLH_DSA_SHA2_256S "SLH-DSA-SHA2-256s"
#define GABION_SLH_DSA_SHA2_256S_PUBLIC_KEY_BYTES 64
#define GABION_SLH_DSA_SHA2_256S_PRIVATE_KEY_BYTES 128
#define GABION_SLH_DSA_SHA2_256S_SEED_BYTES 96
#define GABION_SLH_DSA_SHA2_256S_SIGNATURE_BYTES 29792

#define GABION_SLH_DSA_SHA2_256F "SLH-DSA-SHA2-256f"
#define GABION_SLH_DSA_SHA2_256F_PUBLIC_KEY_BYTES 64
#define GABION_SLH_DSA_SHA2_256F_PRIVATE_KEY_BYTES 128
#define GABION_SLH_DSA_SHA2_256F_SEED_BYTES 96
#define GABION_SLH_DSA_SHA2_256F_SIGNATURE_BYTES 49856

#define GABION_SLH_DSA_SHAKE_128S "SLH-DSA-SHAKE-128s"
#define GABION_SLH_DSA_SHAKE_128S_PUBLIC_KEY_BYTES 32
#define GABION_SLH_DSA_SHAKE_128S_PRIVATE_KEY_BYTES 64
#define GABION_SLH_DSA_SHAKE_128S_SEED_BYTES 48
#define GABION_SLH_DSA_SHAKE_128S_SIGNATURE_BYTES 7856

#define GABION_SLH_DSA_SHAKE_128F "SLH-DSA-SHAKE-128f"
#define GABION_SLH_DSA_SHAKE_128F_PUBLIC_KEY_BYTES 32
#define GABION_SLH_DSA_SHAKE_128F_PRIVATE_KEY_BYTES 64
#define GABION_SLH_DSA_SHAKE_128F_SEED_BYTES 48
#define GABION_SLH_DSA_SHAKE_128F_SIGNATURE_BYTES 17088

#define GABION_SLH_DSA_SHAKE_192S "SLH-DSA-SHAKE-192s"
#define GABION_SLH_DSA_SHAKE_192S_PUBLIC_KEY_BYTES 48
#define GABION_SLH_DSA_SHAKE_192S_PRIVATE_KEY_BYTES 96
#define GABION_SLH_DSA_SHAKE_192S_SEED_BYTES 72
#define GABION_SLH_DSA_SHAKE_192S_SIGNATURE_BYTES 16224

#define GABION_SLH_DSA_SHAKE_192F "SLH-DSA-SHAKE-192f"
#define GABION_SLH_DSA_SHAKE_192F_PUBLIC_KEY_BYTES 48
#define GABION_SLH_DSA_SHAKE_192F_PRIVATE_KEY_BYTES 96
#define GABION_SLH_DSA_SHAKE_192F_SEED_BYTES 72
#define GABION_SLH_DSA_SHAKE_192F_SIGNATURE_BYTES 35664

#define GABION_SLH_DSA_SHAKE_256S "SLH-DSA-SHAKE-256s"
#define GABION_SLH_DSA_SHAKE_256S_PUBLIC_KEY_BYTES 64
#define GABION_SLH_DSA_SHAKE_256S_PRIVATE_KEY_BYTES 128
#define GABION_SLH_DSA_SHAKE_256S_SEED_BYTES 96
#define GABION_SLH_DSA_SHAKE_256S_SIGNATURE_BYTES 29792

#define GABION_SLH_DSA_SHAKE_256F "SLH-DSA-SHAKE-256f"
#define GABION_SLH_DSA_SHAKE_256F_PUBLIC_KEY_BYTES 64
#define GABION_SLH_DSA_SHAKE_256F_PRIVATE_KEY_BYTES 128
#define GABION_SLH_DSA_SHAKE_256F_SEED_BYTES 96
#define GABION_SLH_DSA_SHAKE_256F_SIGNATURE_BYTES 49856

#define GABION_FN_DSA_512_DRAFT "FN-DSA-512-draft"
#define GABION_FN_DSA_512_DRAFT_PUBLIC_KEY_BYTES 897
#define GABION_FN_DSA_512_DRAFT_PRIVATE_KEY_BYTES 1345
#define GABION_FN_DSA_512_DRAFT_SIGNATURE_BYTES 666

#define GABION_FN_DSA_1024_DRAFT "FN-DSA-1024-draft"
#define GABION_FN_DSA_1024_DRAFT_PUBLIC_KEY_BYTES 1793
#define GABION_FN_DSA_1024_DRAFT_PRIVATE_KEY_BYTES 2369
#define GABION_FN_DSA_1024_DRAFT_SIGNATURE_BYTES 1280

#define GABION_FALCON_512 "Falcon-512"
#define GABION_FALCON_512_PUBLIC_KEY_BYTES 897
#define GABION_FALCON_512_PRIVATE_KEY_BYTES 1281
#define GABION_FALCON_512_SIGNATURE_BYTES 752

#define GABION_FALCON_1024 "Falcon-1024"
#define GABION_FALCON_1024_PUBLIC_KEY_BYTES 1793
#define GABION_FALCON_1024_PRIVATE_KEY_BYTES 2305
#define GABION_FALCON_1024_SIGNATURE_BYTES 1462

#define GABION_FALCON_PADDED_512 "Falcon-padded-512"
#define GABION_FALCON_PADDED_512_PUBLIC_KEY_BYTES 897
#define GABION_FALCON_PADDED_512_PRIVATE_KEY_BYTES 1281
#define GABION_FALCON_PADDED_512_SIGNATURE_BYTES 666

#define GABION_FALCON_PADDED_1024 "Falcon-padded-1024"
#define GABION_FALCON_PADDED_1024_PUBLIC_KEY_BYTES 1793
#define GABION_FALCON_PADDED_1024_PRIVATE_KEY_BYTES 2305
#define GABION_FALCON_PADDED_1024_SIGNATURE_BYTES 1280

#define GABION_ED25519 "Ed25519"
#define GABION_ED25519_PUBLIC_KEY_BYTES 32
#define GABION_ED25519_PRIVATE_KEY_BYTES 32
#define GABION_ED25519_SEED_BYTES 32
#define GABION_ED25519_SIGNATURE_BYTES 64

#define GABION_ED25519_ZIP215 "Ed25519-ZIP215"
#define GABION_ED25519_ZIP215_PUBLIC_KEY_BYTES 32
#define GABION_ED25519_ZIP215_PRIVATE_KEY_BYTES 32
#define GABION_ED25519_ZIP215_SEED_BYTES 32
#define GABION_ED25519_ZIP215_SIGNATURE_BYTES 64

#define GABION_ECDSA_P_256 "ECDSA-P-256"
#define GABION_ECDSA_P_256_PUBLIC_KEY_BYTES 65
#define GABION_ECDSA_P_256_PRIVATE_KEY_BYTES 32
#define GABION_ECDSA_P_256_SIGNATURE_BYTES 72

#define GABION_ECDSA_P_384 "ECDSA-P-384"
#define GABION_ECDSA_P_384_PUBLIC_KEY_BYTES 97
#define GABION_ECDSA_P_384_PRIVATE_KEY_BYTES 48
#define GABION_ECDSA_P_384_SIGNATURE_BYTES 104

#define GABION_ECDSA_P_521 "ECDSA-P-521"
#define GABION_ECDSA_P_521_PUBLIC_KEY_BYTES 133
#define GABION_ECDSA_P_521_PRIVATE_KEY_BYTES 66
#define GABION_ECDSA_P_521_SIGNATURE_BYTES 139

#define GABION_X25519MLKEM768 "X25519MLKEM768"
#define GABION_X25519MLKEM768_PUBLIC_KEY_BYTES 1216
#define GABION_X25519MLKEM768_PRIVATE_KEY_BYTES 2432
#define GABION_X25519MLKEM768_CIPHERTEXT_BYTES 1120
#define GABION_X25519MLKEM768_SHARED_SECRET_BYTES 64

#define GABION_SECP256R1MLKEM768 "SecP256r1MLKEM768"
#define GABION_SECP256R1MLKEM768_PUBLIC_KEY_BYTES 1249
#define GABION_SECP256R1MLKEM768_PRIVATE_KEY_BYTES 2432
#define GABION_SECP256R1MLKEM768_CIPHERTEXT_BYTES 1153
#define GABION_SECP256R1MLKEM768_SHARED_SECRET_BYTES 64

#define GABION_SECP384R1MLKEM1024 "SecP384r1MLKEM1024"
#define GABION_SECP384R1MLKEM1024_PUBLIC_KEY_BYTES 1665
#define GABION_SECP384R1MLKEM1024_PRIVATE_KEY_BYTES 3216
#define GABION_SECP384R1MLKEM1024_CIPHERTEXT_BYTES 1665
#define GABION_SECP384R1MLKEM1024_SHARED_SECRET_BYTES 80

#define GABION_SECP256R1MLKEM512 "SecP256r1MLKEM512"
#define GABION_SECP256R1MLKEM512_PUBLIC_KEY_BYTES 865
#define GABION_SECP256R1MLKEM512_PRIVATE_KEY_BYTES 1664
#define GABION_SECP256R1MLKEM512_CIPHERTEXT_BYTES 833
#define GABION_SECP256R1MLKEM512_SHARED_SECRET_BYTES 64

#define GABION_SECP384R1MLKEM768 "SecP384r1MLKEM768"
#define GABION_SECP384R1MLKEM768_PUBLIC_KEY_BYTES 1281
#define GABION_SECP384R1MLKEM768_PRIVATE_KEY_BYTES 2448
#define GABION_SECP384R1MLKEM768_CIPHERTEXT_BYTES 1185
#define GABION_SECP384R1MLKEM768_SHARED_SECRET_BYTES 80

#define GABION_SECP521R1MLKEM1024 "SecP521r1MLKEM1024"
#define GABION_SECP521R1MLKEM1024_PUBLIC_KEY_BYTES 1701
#define GABION_SECP521R1MLKEM1024_PRIVATE_KEY_BYTES 3234
#define GABION_SECP521R1MLKEM1024_CIPHERTEXT_BYTES 1701
#define GABION_SECP521R1MLKEM1024_SHARED_SECRET_BYTES 98

#define GABION_X_WING "X-Wing"
#define GABION_X_WING_PUBLIC_KEY_BYTES 1216
#define GABION_X_WING_PRIVATE_KEY_BYTES 32
#define GABION_X_WING_SEED_BYTES 32
#define GABION_X_WING_CIPHERTEXT_BYTES 1120
#define GABION_X_WING_SHARED_SECRET_BYTES 32

#define GABION_MLKEM512X25519 "MLKEM512X25519"
#define GABION_MLKEM512X25519_PUBLIC_KEY_BYTES 832
#define GABION_MLKEM512X25519_PRIVATE_KEY_BYTES 1664
#define GABION_MLKEM512X25519_CIPHERTEXT_BYTES 800
#define GABION_MLKEM512X25519_SHARED_SECRET_BYTES 64

#define GABION_MLDSA44_RSA2048_PSS_SHA256_DRAFT19 "MLDSA44-RSA2048-PSS-SHA256-draft19"
#define GABION_MLDSA44_RSA2048_PSS_SHA256_DRAFT19_PUBLIC_KEY_BYTES 1582
#define GABION_MLDSA44_RSA2048_PSS_SHA256_DRAFT19_PRIVATE_KEY_BYTES 1226
#define GABION_MLDSA44_RSA2048_PSS_SHA256_DRAFT19_SIGNATURE_BYTES 2676

#define GABION_MLDSA44_RSA2048_PKCS15_SHA256_DRAFT19 "MLDSA44-RSA2048-PKCS15-SHA256-draft19"
#define GABION_MLDSA44_RSA2048_PKCS15_SHA256_DRAFT19_PUBLIC_KEY_BYTES 1582
#define GABION_MLDSA44_RSA2048_PKCS15_SHA256_DRAFT19_PRIVATE_KEY_BYTES 1226
#define GABION_MLDSA44_RSA2048_PKCS15_SHA256_DRAFT19_SIGNATURE_BYTES 2676

#define GABION_MLDSA44_ED25519_SHA512_DRAFT19 "MLDSA44-Ed25519-SHA512-draft19"
#define GABION_MLDSA44_ED25519_SHA512_DRAFT19_PUBLIC_KEY_BYTES 1344
#define GABION_MLDSA44_ED25519_SHA512_DRAFT19_PRIVATE_KEY_BYTES 64
#define GABION_MLDSA44_ED25519_SHA512_DRAFT19_SIGNATURE_BYTES 2484

#define GABION_MLDSA44_ECDSA_P256_SHA256_DRAFT19 "MLDSA44-ECDSA-P256-SHA256-draft19"
#define GABION_MLDSA44_ECDSA_P256_SHA256_DRAFT19_PUBLIC_KEY_BYTES 1377
#define GABION_MLDSA44_ECDSA_P256_SHA256_DRAFT19_PRIVATE_KEY_BYTES 83
#define GABION_MLDSA44_ECDSA_P256_SHA256_DRAFT19_SIGNATURE_BYTES 2492

#define GABION_MLDSA65_RSA3072_PSS_SHA512_DRAFT19 "MLDSA65-RSA3072-PSS-SHA512-draft19"
#define GABION_MLDSA65_RSA3072_PSS_SHA512_DRAFT19_PUBLIC_KEY_BYTES 2350
#define GABION_MLDSA65_RSA3072_PSS_SHA512_DRAFT19_PRIVATE_KEY_BYTES 1802
#define GABION_MLDSA65_RSA3072_PSS_SHA512_DRAFT19_SIGNATURE_BYTES 3693

#define GABION_MLDSA65_RSA3072_PKCS15_SHA512_DRAFT19 "MLDSA65-RSA3072-PKCS15-SHA512-draft19"
#define GABION_MLDSA65_RSA3072_PKCS15_SHA512_DRAFT19_PUBLIC_KEY_BYTES 2350
#define GABION_MLDSA65_RSA3072_PKCS15_SHA512_DRAFT19_PRIVATE_KEY_BYTES 1802
#define GABION_MLDSA65_RSA3072_PKCS15_SHA512_DRAFT19_SIGNATURE_BYTES 3693

#define GABION_MLDSA65_RSA4096_PSS_SHA512_DRAFT19 "MLDSA65-RSA4096-PSS-SHA512-draft19"
#define GABION_MLDSA65_RSA4096_PSS_SHA512_DRAFT19_PUBLIC_KEY_BYTES 2478
#define GABION_MLDSA65_RSA4096_PSS_SHA512_DRAFT19_PRIVATE_KEY_BYTES 2383
#define GABION_MLDSA65_RSA4096_PSS_SHA512_DRAFT19_SIGNATURE_BYTES 3821

#define GABION_MLDSA65_RSA4096_PKCS15_SHA512_DRAFT19 "MLDSA65-RSA4096-PKCS15-SHA512-draft19"
#define GABION_MLDSA65_RSA4096_PKCS15_SHA512_DRAFT19_PUBLIC_KEY_BYTES 2478
#define GABION_MLDSA65_RSA4096_PKCS15_SHA512_DRAFT19_PRIVATE_KEY_BYTES 2383
#define GABION_MLDSA65_RSA4096_PKCS15_SHA512_DRAFT19_SIGNATURE_BYTES 3821

#define GABION_MLDSA65_ECDSA_P256_SHA512_DRAFT19 "MLDSA65-ECDSA-P256-SHA512-draft19"
#define GABION_MLDSA65_ECDSA_P256_SHA512_DRAFT19_PUBLIC_KEY_BYTES 2017
#define GABION_MLDSA65_ECDSA_P256_SHA512_DRAFT19_PRIVATE_KEY_BYTES 83
#define GABION_MLDSA65_ECDSA_P256_SHA512_DRAFT19_SIGNATURE_BYTES 3381

#define GABION_MLDSA65_ECDSA_P384_SHA512_DRAFT19 "MLDSA65-ECDSA-P384-SHA512-draft19"
#define GABION_MLDSA65_ECDSA_P384_SHA512_DRAFT19_PUBLIC_KEY_BYTES 2049
#define GABION_MLDSA65_ECDSA_P384_SHA512_DRAFT19_PRIVATE_KEY_BYTES 96
#define GABION_MLDSA65_ECDSA_P384_SHA512_DRAFT19_SIGNATURE_BYTES 3413

#define GABION_MLDSA65_ED25519_SHA512_DRAFT19 "MLDSA65-Ed25519-SHA512-draft19"
#define GABION_MLDSA65_ED25519_SHA512_DRAFT19_PUBLIC_KEY_BYTES 1984
#define GABION_MLDSA65_ED25519_SHA512_DRAFT19_PRIVATE_KEY_BYTES 64
#define GABION_MLDSA65_ED25519_SHA512_DRAFT19_SIGNATURE_BYTES 3373

#define GABION_MLDSA87_ECDSA_P384_SHA512_DRAFT19 "MLDSA87-ECDSA-P384-SHA512-draft19"
#define GABION_MLDSA87_ECDSA_P384_SHA512_DRAFT19_PUBLIC_KEY_BYTES 2689
#define GABION_MLDSA87_ECDSA_P384_SHA512_DRAFT19_PRIVATE_KEY_BYTES 96
#define GABION_MLDSA87_ECDSA_P384_SHA512_DRAFT19_SIGNATURE_BYTES 4731

#define GABION_MLDSA87_RSA3072_PSS_SHA512_DRAFT19 "MLDSA87-RSA3072-PSS-SHA512-draft19"
#define GABION_MLDSA87_RSA3072_PSS_SHA512_DRAFT19_PUBLIC_KEY_BYTES 2990
#define GABION_MLDSA87_RSA3072_PSS_SHA512_DRAFT19_PRIVATE_KEY_BYTES 1802
#define GABION_MLDSA87_RSA3072_PSS_SHA512_DRAFT19_SIGNATURE_BYTES 5011

#define GABION_MLDSA87_RSA4096_PSS_SHA512_DRAFT19 "MLDSA87-RSA4096-PSS-SHA512-draft19"
#define GABION_MLDSA87_RSA4096_PSS_SHA512_DRAFT19_PUBLIC_KEY_BYTES 3118
#define GABION_MLDSA87_RSA4096_PSS_SHA512_DRAFT19_PRIVATE_KEY_BYTES 2383
#define GABION_MLDSA87_RSA4096_PSS_SHA512_DRAFT19_SIGNATURE_BYTES 5139

#define GABION_MLDSA87_ECDSA_P521_SHA512_DRAFT19 "MLDSA87-ECDSA-P521-SHA512-draft19"
#define GABION_MLDSA87_ECDSA_P521_SHA512_DRAFT19_PUBLIC_KEY_BYTES 2725
#define GABION_MLDSA87_ECDSA_P521_SHA512_DRAFT19_PRIVATE_KEY_BYTES 114
#define GABION_MLDSA87_ECDSA_P521_SHA512_DRAFT19_SIGNATURE_BYTES 4766

#define GABION_HSS "HSS"
#define GABION_HSS_PUBLIC_KEY_BYTES 60
#define GABION_HSS_SIGNATURE_BYTES 74988

#define GABION_XMSS "XMSS"
#define GABION_XMSS_PUBLIC_KEY_BYTES 132
#define GABION_XMSS_SIGNATURE_BYTES 9732

#define GABION_XMSSMT "XMSSMT"
#define GABION_XMSSMT_PUBLIC_KEY_BYTES 132
#define GABION_XMSSMT_SIGNATURE_BYTES 104520
/* sizes: end */

#ifdef __cplusplus
}
#endif

#endif /* GABION_H */
