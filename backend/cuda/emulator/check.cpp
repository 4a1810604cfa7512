// Runs the kernels on a processor for tools that watch memory: AddressSanitizer and UndefinedBehaviorSanitizer, which
// see what goes beyond an array, and valgrind's memcheck, which sees a branch or an address that depends on a secret.
// Every array is an allocation of its own, as long as it has to be and no longer. What the kernels compute is compared
// with the portable backend by tests/kem.rs; here a secret only has to come out as it went in.
//
//   check         all of it; ends with 0 if it is right
//   check branch  a branch on a secret, which memcheck has to report
//   check lookup  a table at a secret index, likewise
//   check beyond  a kernel whose array is too short, which AddressSanitizer has to report

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <initializer_list>

#include "hash.cuh"
#include "emulator.hpp"
#include "lms.cuh"
#include "ml_dsa_keys.cuh"
#include "ml_dsa_sign.cuh"
#include "ml_dsa_verify.cuh"
#include "ml_kem.cuh"
#include "slh_dsa.cuh"
#include "xmss.cuh"

#if defined(GABION_TAINT)
#define SECRET(pointer, bytes) ((void)VALGRIND_MAKE_MEM_UNDEFINED(pointer, bytes))
#else
#define SECRET(pointer, bytes) ((void)0)
#endif

using namespace gabion;

static unsigned failures;

static void fail(const char *what, const char *set, unsigned n) {
    printf("%s: %u operations: %s\n", set, n, what);
    failures++;
}

// Bytes that look random and are the same in every run.
static uint64_t state = 0x9e3779b97f4a7c15;
static uint8_t next_byte() {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return static_cast<uint8_t>(state >> 56);
}

template <class T = uint8_t> struct Array {
    T *items;
    size_t count;
    explicit Array(size_t n) : items(static_cast<T *>(calloc(n, sizeof(T)))), count(n) {}
    ~Array() { free(items); }
    Array(const Array &) = delete;
    void operator=(const Array &) = delete;
    void fill() {
        for (size_t i = 0; i < count; i++)
            items[i] = next_byte();
    }
    void publish() { GABION_DECLASSIFY(items, count * sizeof(T)); }
};

static const char *set_name;
template <class Arguments> static void launch(const char *step, const Arguments &arguments, unsigned jobs, bool warps) {
    char name[64];
    snprintf(name, sizeof name, "gabion_%s_%s", set_name, step);
    const unsigned of_block = warps ? WARPS : BLOCK;
    const uint32_t blocks = (arguments.n * jobs + of_block - 1) / of_block;
    if (gabion_emulator_launch(name, &arguments, sizeof arguments, blocks) != 0)
        fail(name, set_name, arguments.n);
}

static void statuses(const Array<uint32_t> &status, const KemArguments &a, const char *task) {
    for (uint32_t i = 0; i < a.n; i++)
        if (status.items[i] != status_word(OK, a.generation))
            fail(task, set_name, a.n);
    memset(status.items, 0, status.count * sizeof(uint32_t));
}

template <class P> static void check(const char *name, uint32_t n) {
    set_name = name;
    constexpr unsigned K = P::K;
    Array<> seeds(64 * n), ek(P::EK * n), dk(P::DK * n), message(32 * n), ct(P::CT * n), again(P::CT * n), shared(32 * n),
        pairs(64 * n), rejected(32 * n), first(32 * n);
    Array<uint16_t> matrix(K * K * N * n), hat(K * N * n), noise(K * N * n);
    Array<> prf((2 * K + 1) * P::PRF * n);
    Array<uint32_t> valid(n), status(n);
    KemArguments a{};
    a.seeds = seeds.items, a.ek = ek.items, a.dk = dk.items, a.message = message.items, a.ct = ct.items;
    a.again = again.items, a.shared = shared.items, a.pairs = pairs.items, a.rejected = rejected.items;
    a.matrix = matrix.items, a.hat = hat.items, a.noise = noise.items, a.prf = prf.items, a.valid = valid.items, a.status = status.items;
    a.ek_stride = P::EK, a.n = n, a.generation = 0x123456;

    seeds.fill();
    SECRET(seeds.items, seeds.count);
    launch("seed", a, 1, false);
    launch("sample_matrix", a, K * K, false);
    launch("keygen_noise", a, 2 * K, false);
    launch("transform_all", a, 2 * K, true);
    launch("keygen_row", a, K, true);
    launch("keygen_finish", a, 1, false);
    statuses(status, a, "keygen");

    message.fill();
    SECRET(message.items, message.count);
    launch("encaps_hash", a, 1, false);
    launch("sample_matrix", a, K * K, false);
    launch("noise", a, 2 * K + 1, false);
    launch("transform", a, K, true);
    launch("encrypt_row", a, K + 1, true);
    launch("encaps_finish", a, 1, false);
    statuses(status, a, "encaps");
    ct.publish(); // A ciphertext is sent.
    memcpy(first.items, shared.items, shared.count);

    // Decapsulation of the ciphertexts, all but the first one changed.
    for (uint32_t i = 1; i < n; i++)
        ct.items[P::CT * i + i % P::CT] ^= 1;
    a.ek = dk.items + 384 * K, a.ek_stride = P::DK;
    launch("decaps_unpack", a, K, true);
    launch("decaps_message", a, 1, true);
    launch("decaps_hash", a, 1, false);
    launch("sample_matrix", a, K * K, false);
    launch("noise", a, 2 * K + 1, false);
    launch("transform", a, K, true);
    launch("encrypt_row_again", a, K + 1, true);
    launch("decaps_finish", a, 1, false);
    statuses(status, a, "decaps");

    // From here on the test looks at secrets.
    first.publish(), shared.publish();
    for (uint32_t i = 0; i < n; i++)
        if ((memcmp(first.items + 32 * i, shared.items + 32 * i, 32) == 0) != (i == 0))
            fail("another secret", name, n);
}

// Every value of compression and decompression (FIPS 203, section 4.2.1) by the definition: rounding to the nearest.
template <unsigned D> static void check_compression() {
    for (uint32_t x = 0; x < KEM_Q; x++)
        if (kem_compress<D>(x) != ((2 * (x << D) + KEM_Q) / (2 * KEM_Q)) % (1u << D))
            fail("compression", "bits", D);
    for (uint32_t y = 0; y < 1u << D; y++)
        if (kem_decompress<D>(y) != (2 * y * KEM_Q + (1u << D)) / (2u << D))
            fail("decompression", "bits", D);
}

static void check_hashes() {
    const char *const kernels[] = {"gabion_sha3_256", "gabion_sha3_512", "gabion_shake128", "gabion_shake256",
                                   "gabion_sha256",   "gabion_sha512"};
    for (const char *kernel : kernels)
        for (uint32_t length : {0u, 1u, 111u, 135u, 136u, 137u, 300u}) {
            const uint32_t n = 3;
            Array<> messages(length * n + 1), out(64 * n);
            messages.fill();
            SECRET(messages.items, messages.count);
            const HashArguments a{messages.items, out.items, length, n};
            if (gabion_emulator_launch(kernel, &a, sizeof a, 1) != 0)
                fail(kernel, "hash", length);
        }
}

// --- ML-DSA ---

static void launch_blocks(const char *step, const void *arguments, size_t length, uint32_t blocks) {
    char name[64];
    snprintf(name, sizeof name, "gabion_%s_%s", set_name, step);
    if (gabion_emulator_launch(name, arguments, length, blocks) != 0)
        fail(name, set_name, blocks);
}

// Blocks of a kernel that makes A-hat, and has `first` jobs besides.
template <class P> static uint32_t with_matrix(uint32_t n, uint32_t first) {
    return (n * first + BLOCK - 1) / BLOCK + (n * P::K * P::L + BLOCK - 1) / BLOCK;
}

// What every lane's status word has to be.
static void expect_status(const Array<uint32_t> &status, const Array<uint32_t> &expected, const char *task) {
    for (uint32_t i = 0; i < status.count; i++)
        if (status.items[i] != status_word(static_cast<Verdict>(expected.items[i]), 0x123456))
            fail(task, set_name, i);
    memset(status.items, 0, status.count * sizeof(uint32_t));
}

// Arrays of keys, expanded: each an allocation of its own, with their addresses.
struct DsaKeys {
    Array<uint64_t> at;
    DsaKeys(uint32_t n, size_t bytes) : at(n) {
        for (uint32_t i = 0; i < n; i++)
            at.items[i] = reinterpret_cast<uint64_t>(calloc(bytes, 1));
    }
    ~DsaKeys() {
        for (size_t i = 0; i < at.count; i++)
            free(reinterpret_cast<void *>(at.items[i]));
    }
};

template <class P> struct DsaLanes {
    static constexpr unsigned K = P::K, L = P::L;
    static constexpr size_t MATRIX = 128 + 1024 * K * L;
    uint32_t n;
    Array<> pk, sk, seeds, rnd, messages, mu, sig;
    Array<uint64_t> spans;
    Array<uint32_t> status;
    DsaKeys public_keys, private_keys;
    explicit DsaLanes(uint32_t lanes)
        : n(lanes), pk(P::PK * n), sk(P::SK * n), seeds(32 * n), rnd(32 * n), messages(104), mu(64 * n), sig(P::SIG * n),
          spans(2 * n), status(n), public_keys(n, MATRIX + 1024 * K),
          private_keys(n, MATRIX + 1024 * (P::S1_PAIRS + P::S2_PAIRS + K)) {
        seeds.fill(), rnd.fill(), messages.fill(), mu.fill();
        SECRET(seeds.items, seeds.count), SECRET(rnd.items, rnd.count);
        memset(messages.items + 100, 0, 4);
        for (uint32_t i = 0; i < n; i++)
            spans.items[2 * i] = 8 * (i % 13), spans.items[2 * i + 1] = i == 2 ? MU_GIVEN : 100 - 8 * (i % 13);
    }
    void all(const char *task, Verdict verdict = OK) const {
        Array<uint32_t> expected(n);
        for (uint32_t i = 0; i < n; i++)
            expected.items[i] = verdict;
        expect_status(status, expected, task);
    }

    void keygen() {
        Array<> rho_prime(64 * n);
        Array<uint32_t> halves((L + K) * WARP * n), vectors(L * N * n);
        DsaKeys matrices(n, MATRIX);
        DsaKeyArguments a{};
        a.seeds = seeds.items, a.pk = pk.items, a.sk = sk.items, a.rho_prime = rho_prime.items, a.halves = halves.items;
        a.vectors = vectors.items, a.keys = matrices.at.items, a.status = status.items, a.n = n;
        a.generation = 0x123456;
        launch("keygen_seed", a, 1, false);
        launch_blocks("keygen_sample", &a, sizeof a, with_matrix<P>(n, L + K));
        launch("keygen_transform", a, L + K, true);
        launch("keygen_row", a, K, true);
        launch("keygen_finish", a, 1, false);
        all("keygen");
    }

    // Of private keys and of public ones; `verdict` of the former.
    void expand(Verdict verdict) {
        Array<> again(P::PK * n);
        Array<uint32_t> vectors(L * N * n), faults(n);
        DsaKeyArguments a{};
        a.pk = again.items, a.sk = sk.items, a.vectors = vectors.items, a.keys = private_keys.at.items;
        a.faults = faults.items, a.status = status.items, a.n = n, a.generation = 0x123456;
        launch_blocks("expand_private", &a, sizeof a, with_matrix<P>(n, 1));
        launch("private_transform", a, L + P::S1_PAIRS + P::S2_PAIRS + K, true);
        launch("private_row", a, K, true);
        launch("expand_finish", a, 1, false);
        all("private keys", verdict);
        if (verdict == OK && memcmp(again.items, pk.items, pk.count) != 0)
            fail("another public key", set_name, n);
        a.pk = pk.items, a.keys = public_keys.at.items;
        launch_blocks("expand_public", &a, sizeof a, with_matrix<P>(n, 1));
        launch("public_transform", a, K, true);
        all("public keys");
    }

    // z = y + c s1 of all coefficients by the definition, which the kernel leaves once it finds one too long.
    void respond(uint32_t op, const uint32_t *ball, const uint8_t *masks, uint8_t *z) const {
        const auto bits = [](const uint8_t *bytes, unsigned count, unsigned at) {
            uint32_t value = 0;
            for (unsigned i = 0; i < count; i++)
                value |= static_cast<uint32_t>(bytes[(count * at + i) / 8] >> ((count * at + i) % 8) & 1) << i;
            return value;
        };
        memset(z, 0, P::Z * L);
        for (unsigned at = 0; at < N * L; at++) {
            // gamma1 - z.
            uint32_t value = bits(masks, P::Z_BITS, at);
            for (unsigned j = 0; j < N; j++) {
                const uint32_t c = ball[j / 16] >> (2 * (j % 16)) & 3;
                if (c == 0)
                    continue;
                const unsigned i = (at + N - j) % N; // X^256 = -1.
                const uint32_t s1 = P::ETA - bits(sk.items + P::SK * op + P::S, P::ETA_BITS, at / N * N + i);
                value += (c == 1) == (j <= at % N) ? 0 - s1 : s1;
            }
            for (unsigned i = 0; i < P::Z_BITS; i++) {
                const unsigned place = P::Z_BITS * at + i;
                z[place / 8] = static_cast<uint8_t>(z[place / 8] | (value >> i & 1) << (place % 8));
            }
        }
    }

    // In rounds of at most `limit` attempts, `target` of them where there are few operations. Says how many rounds it
    // took. With `verdicts_of` an attempt that fails for z alone passes, and these are what verification has to say.
    uint32_t sign(uint32_t limit, uint32_t target, Array<uint32_t> *verdicts_of = nullptr) {
        const uint32_t rounds_max = 400, size = n + limit;
        Array<> rho(64 * n), y(P::Z * L * limit), commitments(P::COMMITMENT * limit), c_tilde(64 * limit);
        Array<uint32_t> tried(n), ring(size), appended(rounds_max + 1), y_hat(L * N * limit), w(K * N * limit),
            balls(BALL_WORDS * limit), c_hat(N * limit), hints(K * N / 32 * limit), verdicts(limit), done(limit);
        Array<DsaRound> rounds(rounds_max + 1);
        DsaSignArguments a{};
        a.keys = private_keys.at.items, a.messages = messages.items, a.spans = spans.items, a.mu = mu.items;
        a.rnd = rnd.items;
        a.rho = rho.items, a.tried = tried.items, a.ring = ring.items, a.rounds = rounds.items;
        a.appended = appended.items;
        a.y = y.items, a.y_hat = y_hat.items, a.w = w.items, a.commitments = commitments.items;
        a.c_tilde = c_tilde.items, a.balls = balls.items;
        a.c_hat = c_hat.items, a.hints = hints.items, a.verdicts = verdicts.items, a.done = done.items, a.sig = sig.items;
        a.status = status.items;
        a.n = n, a.generation = 0x123456, a.limit = limit, a.target = target, a.ring_size = size;
        launch("sign_hash", a, 1, false);
        for (; a.round < rounds_max; a.round++) {
            const uint32_t r = a.round;
            if (rounds.items[r].live - rounds.items[r].active + appended.items[r] == 0)
                break;
            const auto step = [&](const char *name, uint32_t jobs, uint32_t of_block) {
                launch_blocks(name, &a, sizeof a, (limit * jobs + of_block - 1) / of_block);
            };
            step("sign_mask", L, BLOCK);
            step("sign_mask_transform", L, WARPS);
            step("sign_row", K, WARPS);
            step("sign_challenge", 1, BLOCK);
            step("sign_challenge_transform", 1, WARPS);
            step("sign_low", P::S2_PAIRS, WARPS);
            Array<> is_long(limit), masks(y.count);
            verdicts.publish(); // as the next kernel does
            for (uint32_t i = 0; i < limit; i++)
                is_long.items[i] = verdicts.items[i] == 0;
            memcpy(masks.items, y.items, y.count);
            step("sign_response", P::S1_PAIRS, WARPS);
            verdicts.publish();
            const DsaRound &round = rounds.items[r + 1];
            const uint32_t attempts = verdicts_of == nullptr ? 0 : round.active << round.width;
            for (uint32_t i = 0; i < attempts; i++)
                if ((is_long.items[i] &= verdicts.items[i] != 0) != 0) {
                    const uint32_t op = ring.items[(round.head + (i >> round.width)) % size];
                    respond(op, balls.items + BALL_WORDS * i, masks.items + P::Z * L * i, y.items + P::Z * L * i);
                    verdicts.items[i] = 0;
                }
            step("sign_hint", K, WARPS);
            step("sign_select", 1, WARPS);
            verdicts.publish();
            for (uint32_t i = 0; i < attempts; i++) {
                const uint32_t op = ring.items[(round.head + (i >> round.width)) % size];
                if (verdicts.items[i] <= P::OMEGA && verdicts_of->items[op] == 0)
                    verdicts_of->items[op] = is_long.items[i] ? INVALID_SIGNATURE : OK;
            }
        }
        return a.round;
    }

    void verify(const Array<uint32_t> &expected) {
        Array<> commitments(P::COMMITMENT * n);
        Array<uint32_t> balls(BALL_WORDS * n), vectors((L + 1) * N * n), valid(n);
        DsaVerifyArguments a{};
        a.keys = public_keys.at.items, a.sig = sig.items, a.messages = messages.items, a.spans = spans.items;
        a.mu = mu.items;
        a.balls = balls.items, a.vectors = vectors.items, a.commitments = commitments.items, a.valid = valid.items;
        a.status = status.items;
        a.n = n, a.generation = 0x123456;
        launch("verify_hash", a, 1, false);
        launch("verify_transform", a, L + 1, true);
        launch("verify_row", a, K, true);
        launch("verify_finish", a, 1, false);
        expect_status(status, expected, "verify");
    }
};

// Keys, signatures by several attempts at once and by one, and verification of them: all good, and then each with a bit
// changed. The arrays of attempts are as small as may be, and operations more than them.
template <class P> static void check_dsa(const char *name, uint32_t n) {
    set_name = name;
    DsaLanes<P> lanes(n);
    lanes.keygen();
    lanes.pk.publish();
    lanes.expand(OK);
    Array<uint32_t> good(n), bad(n);
    for (uint32_t i = 0; i < n; i++)
        good.items[i] = OK, bad.items[i] = INVALID_SIGNATURE;
    const uint32_t slow = lanes.sign(2, 1);
    lanes.all("sign");
    Array<> first(P::SIG * n);
    lanes.sig.publish();
    memcpy(first.items, lanes.sig.items, first.count);
    memset(lanes.sig.items, 0, first.count);
    const uint32_t fast = lanes.sign(4 * n, 4 * n);
    lanes.all("sign");
    lanes.sig.publish();
    if (memcmp(first.items, lanes.sig.items, first.count) != 0)
        fail("several attempts at once change a signature", name, n);
    if (fast >= slow)
        fail("several attempts at once are no faster", name, n);
    lanes.verify(good);
    for (uint32_t i = 0; i < n; i++)
        lanes.sig.items[P::SIG * i + i * (P::SIG - 1) / n] ^= 1;
    lanes.verify(bad);
    // Not even hints are well formed then.
    lanes.sig.fill();
    lanes.verify(bad);

    // z that is too long and nothing else.
    Array<uint32_t> long_or_good(n);
    lanes.sign(n, n, &long_or_good);
    lanes.all("sign");
    lanes.sig.publish();
    lanes.verify(long_or_good);
    uint32_t count = 0;
    for (uint32_t i = 0; i < n; i++)
        count += long_or_good.items[i] == INVALID_SIGNATURE;
    if (count == 0)
        fail("no z is too long", name, n);

    // No private key: tr, s1, t0 changed in turns.
    for (uint32_t i = 0; i < n; i++)
        lanes.sk.items[P::SK * i + (i % 3 == 0 ? 64 : i % 3 == 1 ? P::S + 5 : P::T0 + 7)] ^= 1;
    lanes.expand(INVALID_KEY);
    lanes.sign(2 * n, 2 * n);
    lanes.all("keys that are none", INVALID_KEY);
}

// The arithmetic of two small polynomials in one, and of decomposition, by their definitions.
template <class P> static void check_dsa_arithmetic(const char *name) {
    const int32_t beta = P::BETA, step = 2 * P::GAMMA2;
    for (int32_t a = -beta; a <= beta; a++)
        for (int32_t b = -beta; b <= beta; b++) {
            int32_t x, y;
            dsa_unpair<P>(static_cast<uint32_t>(a + 512 * b + (a + 512 * b < 0 ? static_cast<int32_t>(DSA_Q) : 0)), x, y);
            if (x != a || y != b)
                fail("a pair", name, static_cast<unsigned>(a));
        }
    for (uint32_t r = 0; r < DSA_Q; r++) {
        const int32_t value = static_cast<int32_t>(r);
        int32_t low = value % step;
        low -= low > step / 2 ? step : 0;
        uint32_t high = static_cast<uint32_t>((value - low) / step);
        if (value - low == static_cast<int32_t>(DSA_Q) - 1)
            high = 0, low--;
        const DsaDecomposed<P> d(r);
        if (d.low != low || d.high != high)
            fail("decomposition", name, r);
    }
}

template <class Arguments> static void launch_jobs(const char *step, const Arguments &arguments, uint64_t jobs) {
    char name[64];
    snprintf(name, sizeof name, "gabion_%s_%s", set_name, step);
    if (gabion_emulator_launch(name, &arguments, sizeof arguments, static_cast<uint32_t>((jobs + BLOCK - 1) / BLOCK)) != 0)
        fail(name, set_name, arguments.n);
}

template <class Arguments> static void verdicts(const Array<uint32_t> &status, const Arguments &a, Verdict verdict) {
    for (uint32_t i = 0; i < a.n; i++)
        if (status.items[i] != status_word(verdict, a.generation))
            fail("verdict", set_name, a.n);
}

template <class P> static void l_trees(XmssArguments &a, uint32_t leaves) {
    a.level = 0;
    for (uint32_t count = P::CHAINS; count > 1; count = (count + 1) / 2, a.level++)
        launch_jobs("l_tree", a, leaves * static_cast<uint64_t>(count / 2));
}

// Two nodes of four leaves and the canary's, from secrets.
template <class P> static void check_xmss_nodes(const char *name) {
    set_name = name;
    constexpr uint32_t N = P::BYTES, NODES = 3, LOW = 2, LEAVES = (2 << LOW) + 1;
    Array<> keys(4 * N), secrets(2 * N), out(NODES * N);
    Array<uint32_t> states(32), values(LEAVES * P::CHAINS * P::WORDS), status(NODES);
    keys.fill(), secrets.fill();
    SECRET(secrets.items, secrets.count);
    XmssArguments a{};
    a.keys = keys.items, a.secrets = secrets.items, a.states = states.items, a.values = values.items;
    a.out = out.items, a.status = status.items;
    a.tree = 5, a.layer = 1, a.first = 4, a.low = LOW, a.n = NODES, a.generation = 0x123456;
    launch_jobs("begin", a, 2);
    launch_jobs("secrets", a, LEAVES * P::CHAINS);
    launch_jobs("chains", a, LEAVES * P::CHAINS);
    l_trees<P>(a, LEAVES);
    for (a.level = 0; a.level < LOW; a.level++)
        launch_jobs("tree", a, (2 << (LOW - a.level - 1)) + 1);
    launch_jobs("finish", a, NODES);
    // Nodes are public.
    for (size_t i = 0; i < out.count; i++)
        if (out.items[i] == 0 && i % N < 3 && out.items[i + 1] == 0 && out.items[i + 2] == 0)
            fail("a node of zeros", name, NODES);
    verdicts(status, a, OK);
}

// Signatures that are none: random bytes, of trees of two heights and of one layer and two.
template <class P> static void check_xmss(const char *name) {
    set_name = name;
    constexpr uint32_t N = P::BYTES, OPS = 3, MESSAGE = 100, LAYER = (P::CHAINS + 3) * N;
    Array<> keys(OPS * 2 * N), input(OPS * (2 * LAYER + MESSAGE)), signed_(OPS * 64);
    Array<uint32_t> states(OPS * 16), values(OPS * P::CHAINS * P::WORDS), status(OPS);
    Array<XmssLane> lanes(OPS);
    keys.fill(), input.fill();
    uint64_t end = input.count;
    for (uint32_t i = 0; i < OPS; i++) {
        XmssLane &lane = lanes.items[i];
        lane.height = 2 + i % 2, lane.depth = 1 + i % 2, lane.index = 3, lane.message_length = MESSAGE - i;
        // Up to the last byte.
        end -= lane.message_length, lane.message = end;
        end -= lane.depth * (P::CHAINS + lane.height) * N, lane.layers = end;
    }
    XmssArguments a{};
    a.keys = keys.items, a.input = input.items, a.lanes = lanes.items, a.states = states.items, a.signed_ = signed_.items;
    a.values = values.items, a.status = status.items, a.n = OPS, a.generation = 0x123456;
    launch_jobs("begin", a, OPS);
    for (a.layer = 0; a.layer < 2; a.layer++) {
        launch_jobs("chains", a, OPS * P::CHAINS);
        l_trees<P>(a, OPS);
        launch_jobs("climb", a, OPS);
    }
    launch_jobs("check", a, OPS);
    verdicts(status, a, INVALID_SIGNATURE);
}

// The same of LMS: nodes from a seed, and signatures that are none.
template <class P> static void check_lms(const char *name, uint32_t w, uint32_t chains, uint32_t shift) {
    set_name = name;
    constexpr uint32_t N = P::BYTES, NODES = 3, LOW = 2, LEAVES = (2 << LOW) + 1;
    Array<> keys(2 * (16 + N)), out(NODES * N);
    Array<uint32_t> values(LEAVES * chains * P::WORDS), nodes(LEAVES * P::WORDS), status(NODES);
    keys.fill();
    SECRET(keys.items + 16, N);
    SECRET(keys.items + 16 + N + 16, N);
    LmsArguments a{};
    a.keys = keys.items, a.values = values.items, a.nodes = nodes.items, a.out = out.items, a.status = status.items;
    a.w = w, a.chains = chains, a.shift = shift, a.first = 4, a.base = 32, a.low = LOW, a.n = NODES, a.generation = 0x123456;
    launch_jobs("chains", a, LEAVES * chains);
    launch_jobs("leaf", a, LEAVES);
    for (a.level = 0; a.level < LOW; a.level++)
        launch_jobs("tree", a, (2 << (LOW - a.level - 1)) + 1);
    launch_jobs("finish", a, NODES);
    verdicts(status, a, OK);

    constexpr uint32_t OPS = 3, MESSAGE = 100;
    Array<> public_(OPS * (16 + N)), input(OPS * ((chains + 3) * N + MESSAGE)), digests(OPS * 64);
    Array<uint32_t> ends(OPS * chains * P::WORDS), leaves(OPS * P::WORDS);
    Array<LmsPart> parts(OPS);
    public_.fill(), input.fill();
    uint64_t end = input.count;
    for (uint32_t i = 0; i < OPS; i++) {
        LmsPart &part = parts.items[i];
        part.height = 2 + i % 2, part.q = 3, part.message_length = MESSAGE - i;
        end -= part.message_length, part.message = end;
        end -= part.height * N, part.path = end;
        end -= chains * N, part.values = end;
    }
    a.keys = public_.items, a.input = input.items, a.parts = parts.items, a.digests = digests.items, a.values = ends.items;
    a.nodes = leaves.items, a.n = OPS;
    launch_jobs("digest", a, OPS);
    launch_jobs("chains", a, OPS * chains);
    launch_jobs("leaf", a, OPS);
    launch_jobs("climb", a, OPS);
    verdicts(status, a, INVALID_SIGNATURE);
}

static void check_hbs() {
    check_xmss_nodes<XmssSha256n24>("xmss_sha256_n24");
    check_xmss_nodes<XmssSha256n32>("xmss_sha256_n32");
    check_xmss_nodes<XmssShake256n24>("xmss_shake256_n24");
    check_xmss_nodes<XmssShake256n32>("xmss_shake256_n32");
    check_xmss<XmssSha256n24>("xmss_sha256_n24");
    check_xmss<XmssSha256n32>("xmss_sha256_n32");
    check_xmss<XmssSha512n64>("xmss_sha512_n64");
    check_xmss<XmssShake128n32>("xmss_shake128_n32");
    check_xmss<XmssShake256n24>("xmss_shake256_n24");
    check_xmss<XmssShake256n32>("xmss_shake256_n32");
    check_xmss<XmssShake256n64>("xmss_shake256_n64");
    check_lms<LmsSha256n24>("lms_sha256_n24", 1, 200, 8);
    check_lms<LmsSha256n32>("lms_sha256_n32", 2, 133, 6);
    check_lms<LmsShake256n24>("lms_shake256_n24", 4, 51, 4);
    check_lms<LmsShake256n32>("lms_shake256_n32", 8, 34, 0);
}

// A key, signatures and their verification, with trees that are a few nodes high: memory and secrets are those of any set.
template <class F> static void check_slh(const char *name, uint32_t n, bool is_hedged) {
    set_name = name;
    SlhArguments a{};
    a.d = 3, a.h_prime = 2, a.a = 3, a.k = 5, a.n = n, a.generation = 0x123456, a.of_walk = 3;
    a.key_stride = 4 * F::BYTES, a.pk_offset = 2 * F::BYTES;
    const uint32_t leaves = n << a.h_prime;
    const size_t sig_bytes = slh_sig_bytes<F>(a), tree = (2u << a.h_prime) - 1, fors_tree = (2u << a.a) - 1;
    // Two layers at a time, and three trees of FORS.
    Array<> keys(4 * F::BYTES * n), opt_rand(F::BYTES * n), messages(300), sig(sig_bytes * n), context(F::CONTEXT * n + 1);
    Array<> room(SLH_ROOM * n), roots((a.d + 1) * F::BYTES * n), fors_roots(a.k * F::BYTES * n), walk(F::BYTES * n);
    Array<> nodes(2 * tree * F::BYTES * n), fors_nodes(3 * fors_tree * F::BYTES * n);
    Array<> ends(2 * leaves * F::LEN * F::BYTES), table(2 * 16 * F::LEN * F::BYTES * n), walk_ends(F::LEN * F::BYTES * n);
    Array<uint64_t> spans(2 * n);
    Array<uint32_t> indices(SLH_INDICES * n), status(n);
    keys.fill(), opt_rand.fill(), messages.fill();
    for (uint32_t i = 0; i < n; i++)
        spans.items[2 * i] = i, spans.items[2 * i + 1] = i == 1 ? 0 : 300 - i;
    a.keys = keys.items, a.opt_rand = is_hedged ? opt_rand.items : nullptr, a.messages = messages.items, a.spans = spans.items;
    a.sig = sig.items, a.context = context.items, a.room = room.items, a.indices = indices.items, a.roots = roots.items;
    a.fors_roots = fors_roots.items, a.walk = walk.items, a.status = status.items;
    // PK.seed and PK.root are made public by the kernels.
    SECRET(keys.items, keys.count);
    SECRET(opt_rand.items, opt_rand.count);

    const auto statuses_are = [&](Verdict verdict, const char *task) {
        for (uint32_t i = 0; i < n; i++)
            if (status.items[i] != status_word(verdict, a.generation))
                fail(task, name, n);
        memset(status.items, 0, status.count * sizeof(uint32_t));
    };
    const auto levels = [&](uint32_t height) {
        for (a.level = 1; a.level <= height; a.level++)
            launch("level", a, a.count << (height - a.level), false);
    };
    const auto hypertree = [&] {
        a.kind = SLH_HYPERTREE, a.nodes = nodes.items, a.ends = ends.items;
        launch("chains", a, (a.count << a.h_prime) * F::LEN, false);
        launch("compress", a, a.count << a.h_prime, false);
        levels(a.h_prime);
    };
    const auto walk_up = [&] {
        a.kind = SLH_WALK, a.ends = walk_ends.items;
        launch("walk_fors", a, a.k, false);
        launch("compress", a, 1, false);
        for (a.first = 0; a.first < a.d; a.first++) {
            char kernel[64];
            snprintf(kernel, sizeof kernel, "gabion_%s_walk_layer", name);
            if (gabion_emulator_launch(kernel, &a, sizeof a, (n + a.of_walk - 1) / a.of_walk) != 0)
                fail(kernel, name, n);
        }
        launch("finish", a, 1, false);
    };

    a.task = SLH_KEYGEN, a.first = a.d - 1, a.count = 1;
    launch("begin", a, 1, false);
    hypertree();
    launch("finish", a, 1, false);
    statuses_are(OK, "keygen");
    for (uint32_t i = 0; i < n; i++)
        memcpy(keys.items + F::BYTES * (4 * i + 3), slh_root<F>(a, i, a.d), F::BYTES);

    a.task = SLH_SIGN;
    launch("begin", a, 1, false);
    a.kind = SLH_FORS, a.nodes = fors_nodes.items;
    for (a.first = 0; a.first < a.k; a.first += 3) {
        a.count = a.k - a.first < 3 ? a.k - a.first : 3;
        launch("fors_leaves", a, a.count << a.a, false);
        levels(a.a);
    }
    launch("compress", a, 1, false);
    a.table = table.items;
    for (a.first = 0; a.first < a.d; a.first += 2) {
        a.count = a.d - a.first < 2 ? a.d - a.first : 2;
        hypertree();
        launch("reveal", a, a.count * F::LEN, false);
    }
    walk_up();
    statuses_are(OK, "sign");

    // What a verifier has: a signature, which is public by now, and the public key.
    a.task = SLH_VERIFY, a.keys = keys.items + 2 * F::BYTES, a.pk_offset = 0;
    launch("begin", a, 1, false);
    walk_up();
    statuses_are(OK, "verify");
    for (uint32_t i = 0; i < n; i++)
        sig.items[sig_bytes * i + (i + 1) * (sig_bytes - 1) / n] ^= 0x10;
    launch("begin", a, 1, false);
    walk_up();
    statuses_are(INVALID_SIGNATURE, "verify");
}

static void branch() {
    Array<> secret(1);
    secret.fill();
    SECRET(secret.items, secret.count);
    if (secret.items[0] & 1)
        printf("odd\n");
}

static const volatile uint8_t TABLE[256] = {1, 2, 3};
static void lookup() {
    Array<> secret(2);
    secret.fill();
    SECRET(secret.items, secret.count);
    secret.items[1] = TABLE[secret.items[0]];
}

static void beyond() {
    Array<> messages(3 * 100 - 1), out(32 * 3);
    const HashArguments a{messages.items, out.items, 100, 3};
    gabion_emulator_launch("gabion_sha3_256", &a, sizeof a, 1);
}

int main(int count, char **arguments) {
    if (count > 1) {
        if (strcmp(arguments[1], "branch") == 0)
            branch();
        else if (strcmp(arguments[1], "lookup") == 0)
            lookup();
        else if (strcmp(arguments[1], "beyond") == 0)
            beyond();
        else
            return 2;
        return 0;
    }
    check_compression<1>();
    check_compression<4>();
    check_compression<5>();
    check_compression<10>();
    check_compression<11>();
    check_hashes();
    for (uint32_t n : {1u, 5u}) {
        check<MlKem512>("kem512", n);
        check<MlKem768>("kem768", n);
        check<MlKem1024>("kem1024", n);
    }
    // More than a block of threads.
    check<MlKem512>("kem512", 130);
    check_dsa_arithmetic<MlDsa44>("dsa44");
    check_dsa_arithmetic<MlDsa65>("dsa65");
    check_dsa_arithmetic<MlDsa87>("dsa87");
    check_dsa<MlDsa44>("dsa44", 5);
    check_dsa<MlDsa65>("dsa65", 5);
    check_dsa<MlDsa87>("dsa87", 5);
    check_hbs();
    for (uint32_t n : {2u, 17u}) {
        check_slh<SlhSha2<16>>("slh_sha2_128", n, n == 2);
        check_slh<SlhShake<16>>("slh_shake_128", n, n == 2);
    }
    check_slh<SlhSha2<24>>("slh_sha2_192", 2, true);
    check_slh<SlhSha2<32>>("slh_sha2_256", 2, false);
    check_slh<SlhShake<24>>("slh_shake_192", 2, true);
    check_slh<SlhShake<32>>("slh_shake_256", 2, false);
    printf("%u failures\n", failures);
    return failures != 0;
}
