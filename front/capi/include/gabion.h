/* gabion.h: post-quantum cryptography, one operation or many at once.
 *
 * CONVENTIONS
 *
 * Status. A function that can fail returns a gabion_status: GABION_OK (0), or a negative code whose
 *   meaning gabion_status_text() gives. gabion_last_error() has the sentence for the calling
 *   thread's last failure: what happened, what was expected. No text holds a secret.
 * Output after a failure. Buffers that were to be filled are all zero, handles are NULL; but see Memory.
 * Algorithms are named by text, in any case: any name of `gabion algorithms --json`, or an object
 *   identifier. Names before the standards (KYBER512, DILITHIUM3) are refused, since a key of those may be
 *   as long as one of the standard and is another; gabion_last_error() says what followed. So are names of
 *   what is left out, with the reason. The GABION_... macros below hold the standards' names. This
 *   interface has KEMs and signatures; key exchanges (X25519, ECDH) have sizes and no keys:
 *   GABION_E_ALGORITHM.
 * Keys are opaque handles. What a function hands out through a `**` belongs to the caller, who gives
 *   it to the matching gabion_..._free(); freeing wipes it, and freeing NULL does nothing. A key is
 *   expanded when it is made, never changes, and may be used by any number of threads at once. But a key
 *   that signing uses up changes with each signature, which threads make one after the other, and is given
 *   to gabion_stateful_key_close(), which can fail.
 * Memory. Everything else is the caller's: no buffer is allocated for the caller, none is kept.
 *   Buffers that one call fills overlap neither each other nor what it reads, keys and texts included:
 *   that is GABION_E_ARGUMENT, and a buffer that overlaps something is left as it was.
 *   Memory that can't be had is GABION_E_MEMORY: libgabion.so has 4 MiB in reserve, by which what has
 *   begun comes to its end, and refuses the next call while malloc gives nothing; a batch of more than 64
 *   lanes asks for its memory first. What needs more than that at once, as many threads in the middle of a
 *   call do, ends the process by SIGABRT. libgabion.a has no reserve: there all but such batches do.
 * Lengths are in bytes and are checked: one that does not fit is GABION_E_LENGTH, and the text says
 *   what would have. Where a length is passed by pointer, it is the room on the way in and what was
 *   used on the way out; with a NULL buffer only the length needed is written.
 * Batches (..._many) take arrays over n lanes. Lane i has its bytes at i times the stated size. Each
 *   lane ends with its own status[i], and the call returns GABION_OK when it ran, whatever the lanes
 *   say; a bad lane never fails its neighbours, and its output is all zero, its handle NULL. A batch
 *   and n single calls give the same verdicts. With n = 0 a batch does nothing, and its arrays may
 *   be NULL; an n of which there can be no array is GABION_E_LENGTH, and nothing is written.
 * Randomness is the operating system's, drawn once a call, but for ..._with_randomness().
 * Threads. All functions may be called from any thread. Nothing runs at load, and no thread is started. The
 *   first use of an algorithm tests the processor's implementation with known answers, on a stack that is
 *   mapped for it: the test may need more than the caller has. So may keys of FN-DSA, Falcon, RSA and P-521,
 *   and so does a key that signing uses up whenever it is opened, signed with or closed.
 *   A thread that is cancelled (pthread_cancel, of the deferred type) ends when the call is over.
 * Verdicts. A signature that does not verify is GABION_E_SIGNATURE and nothing else is. A ciphertext of
 *   ML-KEM that was tampered with is no error: decapsulation gives another secret (FIPS 203). A hybrid's
 *   may be one: a share that is no point of the curve, or of small order, is GABION_E_INPUT.
 * Any function that computes may return GABION_E_FAULT or GABION_E_MEMORY; the lists of errors below leave
 *   them out.
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
#define GABION_E_ARGUMENT (-2)   /* NULL where there must be something, a pointer that is not aligned
                                    for its type, buffers that overlap, or a text that is not UTF-8,
                                    which paths and passphrases need not be */
#define GABION_E_ALGORITHM (-3)  /* no such algorithm, or one that has no such operation */
#define GABION_E_LENGTH (-4)     /* a length that does not fit */
#define GABION_E_KEY (-5)        /* a key that the standard's checks refuse; of a key that signing uses up, a
                                    file that is not there or holds none, or another passphrase */
#define GABION_E_INPUT (-6)      /* a ciphertext, context, digest or request id of the wrong form, a form of
                                    message that the algorithm does not have, or nothing to reserve */
#define GABION_E_SIGNATURE (-7)  /* the signature does not verify */
#define GABION_E_RANDOMNESS (-8) /* the operating system gave none */
#define GABION_E_FAULT (-9)      /* a check of our own failed: nothing of the result may be used */
#define GABION_E_BACKEND (-10)   /* no implementation that passed its self-test */
#define GABION_E_MEMORY (-11)    /* no memory, or no stack, which is memory too, for a call or for the
                                    self-test before it: any call may say so, and succeed later */
#define GABION_E_STATE (-12)     /* of a key that signing uses up: it is used up, in use elsewhere, not safe to
                                    sign with, or its files can't be read or written */

/* A text for a status; never NULL, valid for ever. */
const char *gabion_status_text(gabion_status status);

/* Writes the calling thread's last error text, cut to `room` with its NUL, and returns its full
 * length without the NUL; 0 if no call of this thread has failed yet. */
size_t gabion_last_error(char *text, size_t room);

/* The library's version, for example "0.1.0". */
const char *gabion_version(void);

/* The version of this interface. A program that was built with another GABION_ABI must not go on. */
#define GABION_ABI 1
uint32_t gabion_abi(void);

/* ----- Algorithms ----- */

/* Sizes of an algorithm in bytes; 0 where it has no such thing. */
typedef struct gabion_sizes {
    size_t public_key;
    size_t private_key;   /* the expanded form, as the standard encodes it */
    size_t seed;          /* the seed form of the private key */
    size_t ciphertext;    /* of a KEM */
    size_t shared_secret; /* of a KEM */
    size_t signature;     /* the longest, where lengths vary */
} gabion_sizes;

/* The number of algorithms, and the standard's name of each (index from 0); NULL beyond the last. */
size_t gabion_algorithm_count(void);
const char *gabion_algorithm_name(size_t index);

/* The sizes of the algorithm with this name. Errors: ARGUMENT, ALGORITHM. */
gabion_status gabion_algorithm_sizes(const char *algorithm, gabion_sizes *sizes) GABION_MUST_CHECK;

/* Writes the name of what runs this algorithm here, for example "avx512". Tests it, if this is its
 * first use. Errors: ARGUMENT, ALGORITHM, LENGTH, BACKEND. */
gabion_status gabion_backend(const char *algorithm, char *name, size_t room) GABION_MUST_CHECK;

/* What GPUs did of an algorithm. Self-tests are not counted. */
typedef struct gabion_gpu_counts {
    uint64_t operations; /* that ran there to their end */
    uint64_t batches;    /* that these came in; an operation alone is a batch */
    uint64_t declined;   /* batches that no GPU took */
    uint64_t lost;       /* batches that were lost, by an error or by time; the processor did them */
} gabion_gpu_counts;

/* Writes what GPUs did of this algorithm for this process so far, by all functions below; all zero where none is
 * used (docs/guide/gpu.md). A hybrid is counted as what ran there: X25519MLKEM768 as ML-KEM-768. A forked child has its
 * parent's counts, too. Errors: ARGUMENT, ALGORITHM, BACKEND. */
gabion_status gabion_gpu_served(const char *algorithm, gabion_gpu_counts *counts) GABION_MUST_CHECK;

/* ----- Keys ----- */

typedef struct gabion_private_key gabion_private_key;
typedef struct gabion_public_key gabion_public_key;

/* Makes a fresh key pair. Errors: ARGUMENT, ALGORITHM, RANDOMNESS, BACKEND. */
gabion_status gabion_private_key_generate(const char *algorithm, gabion_private_key **key)
    GABION_MUST_CHECK;

/* Makes n fresh key pairs of one algorithm, in the lanes of the processor where the algorithm has
 * batches. keys[i] is a handle of its own, to be freed like any other; what stood there before is
 * overwritten and not freed. All lanes succeed or none does: where the call fails, every handle is
 * NULL. A key takes some times the memory of its encoding: bound n.
 * Errors: ARGUMENT, ALGORITHM, LENGTH, RANDOMNESS, BACKEND. */
gabion_status gabion_private_key_generate_many(const char *algorithm, size_t n,
                                               gabion_private_key **keys, gabion_status *status)
    GABION_MUST_CHECK;

/* The key pair of a seed, as the standard derives it.
 * Errors: ARGUMENT, ALGORITHM (it has no seeds), LENGTH, BACKEND. */
gabion_status gabion_private_key_from_seed(const char *algorithm, const uint8_t *seed,
                                           size_t seed_len, gabion_private_key **key)
    GABION_MUST_CHECK;

/* Decodes and checks a private key in the standard's expanded form.
 * Errors: ARGUMENT, ALGORITHM, LENGTH, KEY, BACKEND. */
gabion_status gabion_private_key_import(const char *algorithm, const uint8_t *bytes, size_t len,
                                        gabion_private_key **key) GABION_MUST_CHECK;

/* Writes the expanded form; secret. Errors: ARGUMENT, LENGTH. */
gabion_status gabion_private_key_export(const gabion_private_key *key, uint8_t *bytes, size_t *len)
    GABION_MUST_CHECK;

/* Writes the seed, where it is known; secret. Errors: ARGUMENT, LENGTH; KEY where it is unknown. */
gabion_status gabion_private_key_seed(const gabion_private_key *key, uint8_t *seed, size_t *len)
    GABION_MUST_CHECK;

/* The public key that belongs to it. Errors: ARGUMENT. */
gabion_status gabion_private_key_public(const gabion_private_key *key, gabion_public_key **out)
    GABION_MUST_CHECK;

/* Decodes and checks a public key. Errors: ARGUMENT, ALGORITHM, LENGTH, KEY, BACKEND. */
gabion_status gabion_public_key_import(const char *algorithm, const uint8_t *bytes, size_t len,
                                       gabion_public_key **key) GABION_MUST_CHECK;

/* Decodes and checks n public keys of len bytes each, one behind the other, in the lanes of the
 * processor where the algorithm has batches. keys[i] is a handle of its own, or NULL where status[i]
 * says why that key was refused. Errors: ARGUMENT, ALGORITHM, LENGTH, BACKEND; of a lane: LENGTH, KEY. */
gabion_status gabion_public_key_import_many(const char *algorithm, const uint8_t *bytes,
                                            size_t len, size_t n, gabion_public_key **keys,
                                            gabion_status *status) GABION_MUST_CHECK;

/* Writes the encoded public key. Errors: ARGUMENT, LENGTH. */
gabion_status gabion_public_key_export(const gabion_public_key *key, uint8_t *bytes, size_t *len)
    GABION_MUST_CHECK;

/* The standard's name of the key's algorithm; NULL for NULL. */
const char *gabion_private_key_algorithm(const gabion_private_key *key);
const char *gabion_public_key_algorithm(const gabion_public_key *key);

void gabion_private_key_free(gabion_private_key *key);
void gabion_public_key_free(gabion_public_key *key);

/* ----- Key encapsulation ----- */

/* Encapsulates to `key`: a ciphertext and the secret that its owner will get.
 * Errors: ARGUMENT, ALGORITHM (not a KEM), LENGTH, KEY (a hybrid's, with a share of small order, with
 * which there is no secret), RANDOMNESS, BACKEND. */
gabion_status gabion_encaps(const gabion_public_key *key, uint8_t *ciphertext,
                            size_t ciphertext_len, uint8_t *secret, size_t secret_len)
    GABION_MUST_CHECK;

/* Encapsulates with the caller's randomness: of ML-KEM the 32 bytes m (FIPS 203, Algorithm 17). For
 * callers with a generator of their own, and for test vectors: bytes that are used twice, or that
 * others know, give the secret away. Errors: as gabion_encaps; LENGTH where the algorithm takes
 * another number of bytes. */
gabion_status gabion_encaps_with_randomness(const gabion_public_key *key,
                                            const uint8_t *randomness, size_t randomness_len,
                                            uint8_t *ciphertext, size_t ciphertext_len,
                                            uint8_t *secret, size_t secret_len)
    GABION_MUST_CHECK;

/* The secret of a ciphertext.
 * Errors: ARGUMENT, ALGORITHM, LENGTH, INPUT (a hybrid's share), BACKEND. */
gabion_status gabion_decaps(const gabion_private_key *key, const uint8_t *ciphertext,
                            size_t ciphertext_len, uint8_t *secret, size_t secret_len)
    GABION_MUST_CHECK;

/* n encapsulations; keys of one algorithm, the same one may stand in many lanes. ciphertexts_len
 * and secrets_len are those of the whole arrays.
 * Errors: ARGUMENT, ALGORITHM, LENGTH, RANDOMNESS, BACKEND; of a lane: KEY. */
gabion_status gabion_encaps_many(const gabion_public_key *const *keys, size_t n,
                                 uint8_t *ciphertexts, size_t ciphertexts_len, uint8_t *secrets,
                                 size_t secrets_len, gabion_status *status) GABION_MUST_CHECK;

/* n decapsulations, likewise. Errors: ARGUMENT, ALGORITHM, LENGTH, BACKEND; of a lane: INPUT. */
gabion_status gabion_decaps_many(const gabion_private_key *const *keys, size_t n,
                                 const uint8_t *ciphertexts, size_t ciphertexts_len,
                                 uint8_t *secrets, size_t secrets_len, gabion_status *status)
    GABION_MUST_CHECK;

/* ----- Signatures ----- */

/* What is signed. Zero everything that is not used: `gabion_message m = GABION_MESSAGE_INIT;` */
typedef struct gabion_message {
    const uint8_t *message; /* may be NULL if message_len is 0 */
    size_t message_len;
    const uint8_t *context; /* at most 255 bytes; may be NULL if context_len is 0 */
    size_t context_len;
    const char *prehash; /* NULL for the pure variant; else the hash whose digest `message` is, for
                            example "SHA2-512" or "sha512", as on the command line; a name that is
                            none fails the whole call */
} gabion_message;

/* All zero, in either language. */
#ifdef __cplusplus
#define GABION_MESSAGE_INIT {}
#else
#define GABION_MESSAGE_INIT {0}
#endif

/* As `prehash`: `message` is the representative mu of the message, which was computed elsewhere
 * (FIPS 204, Algorithm 7, line 6). ML-DSA, and FN-DSA as drafted. It has 64 bytes, and no context
 * stands beside it, since mu has that in it: all else fails the whole call. */
#define GABION_MU "mu"

/* Signs, hedged with fresh randomness where the algorithm has that.
 * signature_len: the room on the way in, the signature's length on the way out.
 * Errors: ARGUMENT, ALGORITHM, LENGTH, INPUT, RANDOMNESS, BACKEND. */
gabion_status gabion_sign(const gabion_private_key *key, const gabion_message *message,
                          uint8_t *signature, size_t *signature_len) GABION_MUST_CHECK;

/* Signs with the caller's randomness: of ML-DSA the 32 bytes rnd (FIPS 204, Algorithm 2), all zero
 * for the deterministic variant; of SLH-DSA the n bytes opt_rand (FIPS 205, Algorithm 22). For
 * callers with a generator of their own, and for test vectors.
 * Errors: as gabion_sign; LENGTH where the algorithm takes another number of bytes. */
gabion_status gabion_sign_with_randomness(const gabion_private_key *key,
                                          const gabion_message *message,
                                          const uint8_t *randomness, size_t randomness_len,
                                          uint8_t *signature, size_t *signature_len)
    GABION_MUST_CHECK;

/* Verifies: GABION_OK or GABION_E_SIGNATURE, a signature of the wrong length included.
 * Errors: ARGUMENT, ALGORITHM, LENGTH (mu), INPUT, BACKEND. */
gabion_status gabion_verify(const gabion_public_key *key, const gabion_message *message,
                            const uint8_t *signature, size_t signature_len) GABION_MUST_CHECK;

/* n signatures by keys of one algorithm; the same one may stand in many lanes. `signatures` has n
 * times the algorithm's longest signature, and signatures_len is that product; the length of lane
 * i's goes to signature_lens[i], and zeros follow it in its place.
 * Errors: ARGUMENT, ALGORITHM, LENGTH, INPUT, RANDOMNESS, BACKEND; of a lane: INPUT. */
gabion_status gabion_sign_many(const gabion_private_key *const *keys,
                               const gabion_message *messages, size_t n, uint8_t *signatures,
                               size_t signatures_len, size_t *signature_lens,
                               gabion_status *status) GABION_MUST_CHECK;

/* n verifications of signatures laid out the same way. signature_lens may be NULL where lengths do
 * not vary; one that is longer than a place is no signature, and nothing of its lane is read. Of HSS and XMSS, whose
 * keys say how long signatures are, a place has signatures_len / n bytes, as many as suit the caller's keys.
 * Errors: ARGUMENT, ALGORITHM, LENGTH, INPUT, BACKEND; of a lane: INPUT, SIGNATURE. */
gabion_status gabion_verify_many(const gabion_public_key *const *keys,
                                 const gabion_message *messages, size_t n,
                                 const uint8_t *signatures, size_t signatures_len,
                                 const size_t *signature_lens, gabion_status *status)
    GABION_MUST_CHECK;

/* ----- Private keys that signing uses up: HSS and LMS ----- */

/* `gabion hbs keygen` makes such a key in files: what is secret, its state, and a witness of it elsewhere
 * (docs/operate/state.md). No call exports or copies the secret. An index is durably used before its signature is
 * released; a state that may not be the newest one is refused, and so is a process that was forked from the
 * one that opened the key. Verify with gabion_verify() and a public key of "HSS". */
typedef struct gabion_stateful_key gabion_stateful_key;

/* What is known of a key. */
typedef struct gabion_stateful_status {
    uint64_t index;      /* the next one */
    uint64_t remaining;  /* signatures that are left */
    uint64_t burnt;      /* indexes that signed nothing and never will, at most */
    uint64_t generation; /* of the state: one more with each reservation */
    uint32_t is_low;     /* 1: fewer are left than its owner wants to be warned at */
    uint32_t is_safe;    /* 1: state and anchors are this machine's and agree. Opening checks more, and says
                            who has the key; `remaining` says whether it can sign at all */
} gabion_stateful_status;

/* What is told of a signature. */
typedef struct gabion_stateful_signed {
    uint64_t index;       /* the one that signed */
    uint64_t remaining;   /* signatures that are left */
    uint32_t is_low;      /* as above */
    uint32_t is_repeated; /* 1: made before, for the same request id; no index was used */
} gabion_stateful_signed;

/* Opens the private key in the file `path` for signing, and keeps other processes out until it is closed;
 * waits 30 s for one that has it. path and passphrase: any bytes, with a NUL behind them; a passphrase is NULL
 * where the key is not encrypted. reserve: how many indexes are made durable at once; with 1 a crash loses none
 * that was not being used, more are quicker. Handles of one key in one process share its state, and the largest
 * reserve of them counts. More than an eighth of what is left (64 in any case of a key with 512 indexes or more)
 * is STATE, and as the key is used up less is reserved. A process that ends without closing its last handle burns what it had reserved and not
 * used. The trees that are not kept beside the key are made at the first signature, which may take long then.
 * Errors: ARGUMENT, INPUT (reserve is 0), KEY (no such file, or no key, or another passphrase), STATE, BACKEND. */
gabion_status gabion_stateful_key_open(const char *path, const char *passphrase, uint64_t reserve,
                                       gabion_stateful_key **key) GABION_MUST_CHECK;

/* Writes the public key, in HSS's encoding. Errors: ARGUMENT, LENGTH. */
gabion_status gabion_stateful_key_public(const gabion_stateful_key *key, uint8_t *bytes,
                                         size_t *len) GABION_MUST_CHECK;

/* Signs a message, in the encoding that the key was made for, with an index of its own. Any number of
 * threads may sign with one key, one after the other.
 * request_id: NULL, or 1 to 128 printable characters of ASCII. Asked again, the same id and message get the
 * same signature, and no index is used; the same id with another message is STATE.
 * signature_len: the room on the way in, the signature's length on the way out. Where there is too little
 * room, and with a NULL buffer, no index is used. about: may be NULL.
 * Errors: ARGUMENT, LENGTH, INPUT (the request id), KEY (the secret does not lead to the public key), STATE,
 * BACKEND. After an error nothing is released; an index may be lost. */
gabion_status gabion_stateful_key_sign(const gabion_stateful_key *key, const uint8_t *message,
                                       size_t message_len, const char *request_id,
                                       uint8_t *signature, size_t *signature_len,
                                       gabion_stateful_signed *about) GABION_MUST_CHECK;

/* Ends a key, which is not used again, whatever the answer. The last handle of a process gives back what was
 * reserved and not used. NULL does nothing. Errors: STATE (then what was to be given back is lost). */
gabion_status gabion_stateful_key_close(gabion_stateful_key *key);

/* Looks at the key in the file `path`, and changes nothing. What forbids signing is no error. Beside a process
 * that signs, the answer may be out of date.
 * Errors: ARGUMENT, STATE (its files can't be read). */
gabion_status gabion_stateful_key_status(const char *path, gabion_stateful_status *status)
    GABION_MUST_CHECK;

/* ----- Names and sizes, one group an algorithm; made from the library's table ----- */

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
