// ML-DSA (FIPS 204): the parameter sets, arithmetic, sampling and what keys look like on a device. Kernels are in
// ml_dsa_keys.cuh, ml_dsa_sign.cuh and ml_dsa_verify.cuh.
//
// One thread runs a sponge, and one warp a polynomial. Polynomials between kernels are words below q, in order.
#pragma once

#include "frame.cuh"
#include "memory.cuh"
#include "sponge.cuh"

namespace gabion {

static constexpr uint32_t DSA_Q = 8380417;
using DsaRoots = Roots<DSA_Q, 1753, 256>;

// The layers across take the same roots in all threads, which the constant cache gives away at once; the others don't.
#if defined(__CUDACC__)
__device__ const DsaRoots DEVICE_DSA_ROOTS;
__constant__ const DsaRoots DEVICE_DSA_ROOTS_ACROSS;
#endif
static constexpr DsaRoots DSA_ROOTS;
GABION_FN const DsaRoots &dsa_roots() {
#if defined(__CUDA_ARCH__)
    return DEVICE_DSA_ROOTS;
#else
    return DSA_ROOTS;
#endif
}
GABION_FN const DsaRoots &dsa_roots_across() {
#if defined(__CUDA_ARCH__)
    return DEVICE_DSA_ROOTS_ACROSS;
#else
    return DSA_ROOTS;
#endif
}

// FIPS 204, tables 1 and 2.
template <unsigned K_, unsigned L_, unsigned ETA_, unsigned TAU_, unsigned GAMMA1_BITS, unsigned GAMMA2_PARTS,
          unsigned OMEGA_, unsigned C_TILDE_>
struct DsaSet {
    static constexpr unsigned K = K_, L = L_, ETA = ETA_, TAU = TAU_, OMEGA = OMEGA_, C_TILDE = C_TILDE_;
    static constexpr uint32_t BETA = TAU * ETA, GAMMA1 = 1u << GAMMA1_BITS, GAMMA2 = (DSA_Q - 1) / GAMMA2_PARTS;
    static constexpr unsigned Z_BITS = GAMMA1_BITS + 1, W1_BITS = GAMMA2_PARTS == 88 ? 6 : 4,
        ETA_BITS = ETA == 2 ? 3 : 4;
    static constexpr uint32_t Z = 32 * Z_BITS, W1 = 32 * W1_BITS * K; // bytes of a polynomial of z, and of w1
    static constexpr uint32_t COMMITMENT = 64 + W1;                   // bytes of mu and w1
    static constexpr uint32_t HINT = C_TILDE + Z * L;                 // where the hint begins in a signature
    static constexpr uint32_t PK = 32 + 320 * K, SIG = HINT + OMEGA + K;
    // Where s1 and t0 begin in sk.
    static constexpr uint32_t S = 128, T0 = S + 32 * ETA_BITS * (L + K), SK = T0 + 416 * K;
    static constexpr unsigned S1_PAIRS = (L + 1) / 2, S2_PAIRS = K / 2;
};
using MlDsa44 = DsaSet<4, 4, 2, 39, 17, 88, 80, 32>;
using MlDsa65 = DsaSet<6, 5, 4, 49, 19, 32, 55, 48>;
using MlDsa87 = DsaSet<8, 7, 2, 60, 19, 32, 75, 64>;

// A key on the device, expanded, at an address that is a multiple of 16:
//
//   tr (64 bytes), K (32 bytes, private keys), whether it is a key (a word), zero up to 128 bytes
//   A-hat, [row][column]
//   public keys: t1-hat, [k], of t1 2^d
//   private keys: s1-hat and s2-hat in pairs, [(l + 1) / 2 + k / 2]; t0-hat, [k]
//
// A pair of small polynomials a and b is a + 2^9 b. Products by c have coefficients of beta < 2^8 at most, so those of
// both can be read from the one product (dsa_unpair): half as many inverse transforms.
template <class P> struct DsaKey {
    static constexpr size_t HEADER = 128, MATRIX = P::K * P::L * N * sizeof(uint32_t);
    uint8_t *bytes;
    GABION_FN explicit DsaKey(uint64_t address) : bytes(reinterpret_cast<uint8_t *>(address)) {}
    GABION_FN uint8_t *tr() const { return bytes; }
    GABION_FN uint8_t *k_seed() const { return bytes + 64; }
    GABION_FN uint32_t *is_key() const { return reinterpret_cast<uint32_t *>(bytes + 96); }
    GABION_FN uint32_t *matrix(uint32_t row, uint32_t column) const {
        return reinterpret_cast<uint32_t *>(bytes + HEADER) + (row * P::L + column) * N;
    }
    // The polynomials after A-hat.
    GABION_FN uint32_t *poly(uint32_t index) const { return reinterpret_cast<uint32_t *>(bytes + HEADER + MATRIX) + index * N; }
};

// --- Arithmetic -----------------------------------------------------------------------------------------------------

GABION_FN void load8(const uint32_t *poly, unsigned thread, uint32_t (&c)[LANE]) {
    uint32_t half[4];
#pragma unroll
    for (unsigned i = 0; i < LANE; i += 4) {
        load4(poly + LANE * thread + i, half);
        c[i] = half[0], c[i + 1] = half[1], c[i + 2] = half[2], c[i + 3] = half[3];
    }
}
GABION_FN void store8(uint32_t *poly, unsigned thread, const uint32_t (&c)[LANE]) {
#pragma unroll
    for (unsigned i = 0; i < LANE; i += 4)
        store4(poly + LANE * thread + i, c[i], c[i + 1], c[i + 2], c[i + 3]);
}

// Eight numbers of `BITS` bits from bytes at a multiple of `ALIGNMENT`, the lowest bit first (SimpleBitUnpack,
// Algorithm 18), and back (Algorithm 16).
template <unsigned BITS, unsigned ALIGNMENT> GABION_FN void unpack_words(const uint8_t *bytes, uint32_t (&c)[LANE]) {
    uint32_t words[(BITS + 3) / 4];
    load_aligned<BITS, ALIGNMENT>(bytes, words);
#pragma unroll
    for (unsigned i = 0; i < LANE; i++) {
        const unsigned word = BITS * i / 32, shift = BITS * i % 32;
        uint64_t two = words[word];
        if (shift + BITS > 32)
            two |= static_cast<uint64_t>(words[word + 1]) << 32;
        c[i] = static_cast<uint32_t>(two >> shift) & ((1u << BITS) - 1);
    }
}
template <unsigned BITS, unsigned ALIGNMENT> GABION_FN void pack_words(const uint32_t (&c)[LANE], uint8_t *bytes) {
    uint32_t words[(BITS + 3) / 4] = {};
#pragma unroll
    for (unsigned i = 0; i < LANE; i++) {
        const unsigned word = BITS * i / 32, shift = BITS * i % 32;
        words[word] |= c[i] << shift;
        if (shift + BITS > 32)
            words[word + 1] |= c[i] >> (32 - shift);
    }
    store_aligned<BITS, ALIGNMENT>(bytes, words);
}

// x modulo q for x below 2 q.
GABION_FN uint32_t dsa_once(uint32_t x) { return minimum(x, x - DSA_Q); }

// x 2^-32 modulo q, below 2 q, for x below 2^50 (Montgomery).
GABION_FN uint32_t dsa_montgomery(uint64_t x) {
    // -1 / q modulo 2^32, by Newton's steps, which double the bits that are right.
    constexpr uint32_t Q = DSA_Q, I0 = Q, I1 = I0 * (2 - Q * I0), I2 = I1 * (2 - Q * I1), I3 = I2 * (2 - Q * I2);
    constexpr uint32_t I4 = I3 * (2 - Q * I3), NEGATIVE = 0 - I4;
    static_assert(NEGATIVE * Q == 0xffffffff, "an inverse");
    const uint32_t m = static_cast<uint32_t>(x) * NEGATIVE;
    return static_cast<uint32_t>((x + static_cast<uint64_t>(m) * Q) >> 32);
}

static constexpr uint32_t DSA_OFFSET = 256 * DSA_Q;
// 2^32 / 256: what the inverse transform and the Montgomery reduction before it are short of.
static constexpr Root DSA_SCALE =
    DsaRoots::root(static_cast<uint32_t>(((static_cast<uint64_t>(1) << 32) % DSA_Q) * DsaRoots::power(256, DSA_Q - 2) %
                                         DSA_Q));

// The parts of a forward transform (Algorithm 41) of what stands in `poly`, along; it ends along, in `c`, below q.
// Coefficients are below q at first and so below 17 q after eight layers.
GABION_FN void dsa_ntt_across(SharedPoly &poly, unsigned thread) {
    uint32_t c[LANE];
    gather<Arrangement::ACROSS>(poly, thread, c);
    forward_layers<DSA_Q, 32>(c, 0, dsa_roots_across().forward); // a thread's number changes no root here
    scatter<Arrangement::ACROSS>(poly, thread, c);
}
GABION_FN void dsa_ntt_middle(SharedPoly &poly, unsigned thread) {
    uint32_t c[LANE];
    gather<Arrangement::MIDDLE>(poly, thread, c);
    forward_layers<DSA_Q, 4>(c, coefficient<Arrangement::MIDDLE>(thread, 0), dsa_roots().forward);
    scatter<Arrangement::MIDDLE>(poly, thread, c);
}
GABION_FN void dsa_ntt_along(SharedPoly &poly, unsigned thread, uint32_t (&c)[LANE]) {
    gather<Arrangement::ALONG>(poly, thread, c);
    forward_layers<DSA_Q, 1, 2>(c, LANE * thread, dsa_roots().forward);
#pragma unroll
    for (unsigned i = 0; i < LANE; i++)
        c[i] = reduce<DSA_Q>(c[i]);
}

// The parts of an inverse transform (Algorithm 42) of what `c` is times 2^-32, along and below q; the result is along
// in `poly`, below q. Sums are below 2^l q after l layers.
GABION_FN void dsa_inverse_along(SharedPoly &poly, unsigned thread, uint32_t (&c)[LANE]) {
    inverse_layers<DSA_Q, 1, DSA_OFFSET, 2>(c, LANE * thread, dsa_roots().inverse);
    scatter<Arrangement::ALONG>(poly, thread, c);
}
GABION_FN void dsa_inverse_middle(SharedPoly &poly, unsigned thread) {
    uint32_t c[LANE];
    gather<Arrangement::MIDDLE>(poly, thread, c);
    inverse_layers<DSA_Q, 4, DSA_OFFSET>(c, coefficient<Arrangement::MIDDLE>(thread, 0), dsa_roots().inverse);
    scatter<Arrangement::MIDDLE>(poly, thread, c);
}
GABION_FN void dsa_inverse_across(SharedPoly &poly, unsigned thread) {
    constexpr Root SCALE{DSA_SCALE.value, DSA_SCALE.quotient};
    uint32_t c[LANE];
    gather<Arrangement::ACROSS>(poly, thread, c);
    inverse_layers<DSA_Q, 32, DSA_OFFSET>(c, 0, dsa_roots_across().inverse);
#pragma unroll
    for (unsigned i = 0; i < LANE; i++)
        c[i] = dsa_once(times<DSA_Q>(c[i], SCALE));
    scatter<Arrangement::ACROSS>(poly, thread, c);
}

// Sums of products in the NTT domain, not reduced before the end: at most eight products below 2^46.
struct DsaSum {
    uint64_t of[LANE];
    GABION_FN DsaSum() {
#pragma unroll
        for (unsigned i = 0; i < LANE; i++)
            of[i] = 0;
    }
    GABION_FN void add(const uint32_t (&a)[LANE], const uint32_t (&b)[LANE]) {
#pragma unroll
        for (unsigned i = 0; i < LANE; i++)
            of[i] += static_cast<uint64_t>(a[i]) * b[i];
    }
    // Times 2^-32, below q.
    GABION_FN void finish(uint32_t (&c)[LANE]) const {
#pragma unroll
        for (unsigned i = 0; i < LANE; i++)
            c[i] = dsa_once(dsa_montgomery(of[i]));
    }
};

// Eight coefficients of the row of A-hat times the l polynomials at `vector`, times 2^-32.
template <class P>
GABION_FN void dsa_row_product(DsaKey<P> key, const uint32_t *vector, uint32_t row, unsigned thread, DsaSum &sum) {
#pragma unroll 1
    for (unsigned j = 0; j < P::L; j++) {
        uint32_t x[LANE], y[LANE];
        load8(key.matrix(row, j), thread, x);
        load8(vector + j * N, thread, y);
        sum.add(x, y);
    }
}

// r = r1 2 gamma2 + r0 (Decompose, Algorithm 36) of r below q, where it is secret, too.
template <class P> struct DsaDecomposed {
    static constexpr uint32_t STEP = 2 * P::GAMMA2, PARTS = (DSA_Q - 1) / STEP;
    uint32_t high;
    int32_t low;
    GABION_FN explicit DsaDecomposed(uint32_t r) {
        high = (r + P::GAMMA2 - 1) / STEP; // a constant: a product
        low = static_cast<int32_t>(r) - static_cast<int32_t>(high * STEP);
        // r - r0 = q - 1: then r1 = 0, and r0 is one less.
        const uint32_t is_last = mask_if_zero(high ^ PARTS);
        high &= ~is_last;
        low += static_cast<int32_t>(is_last);
    }
};

// Whether |x| >= bound, as 1 or 0, for |x| and bound below 2^31.
GABION_FN uint32_t dsa_is_long(int32_t x, uint32_t bound) {
    const uint32_t sign = static_cast<uint32_t>(x >> 31), norm = (static_cast<uint32_t>(x) ^ sign) - sign;
    return 1 + mask_if_below(norm, bound);
}

// x below q as a number from -(q - 1) / 2 to (q - 1) / 2.
GABION_FN int32_t dsa_centred(uint32_t x) {
    return static_cast<int32_t>(x - (DSA_Q & ~mask_if_below(x, DSA_Q / 2 + 1)));
}

// From x below q, which is a + 2^9 b with |a| and |b| at most beta.
template <class P> GABION_FN void dsa_unpair(uint32_t x, int32_t &a, int32_t &b) {
    static_assert(2 * P::BETA < 512, "nine bits");
    constexpr int32_t BETA = P::BETA;
    const uint32_t shifted = dsa_once(x + BETA * 513);
    a = static_cast<int32_t>(shifted & 511) - BETA;
    b = static_cast<int32_t>(shifted >> 9) - BETA;
}

// --- Sampling -------------------------------------------------------------------------------------------------------

// A string of 64 bytes and two bytes after it.
struct SeededLong {
    const uint8_t *seed;
    uint64_t tail;
    GABION_FN uint32_t size() const { return 66; }
    GABION_FN uint64_t word(uint32_t offset) const { return offset < 64 ? load64(seed + offset) : tail; }
};

// What a thread accepted of a block of SHAKE128 and has not stored yet: three coefficients of the block before, and 56.
struct SharedAccepted {
    uint32_t words[59][BLOCK]; // of each thread
};

// A-hat[r, s] = RejNTTPoly(rho || s || r) (Algorithms 30 and 32). Time depends on rho, which is public.
//
// A thread writes its own polynomial. So it collects four coefficients for a store, in shared memory, where those of
// all threads of a warp lie in different banks wherever each of them is.
GABION_FN void dsa_sample_ntt_vartime(const uint8_t *rho, uint32_t row, uint32_t column, SharedAccepted &shared,
                                      unsigned thread, uint32_t *poly) {
    uint64_t s[25];
    absorb<RATE_SHAKE128>(s, Seeded{rho, column | row << 8, 2}, SHAKE);
    uint32_t *const accepted = &shared.words[0][thread];
    uint32_t held = 0, stored = 0; // coefficients in shared memory, and those before
    while (true) {
        uint32_t *next = accepted + held * BLOCK;
#pragma unroll
        for (unsigned i = 0; i < RATE_SHAKE128 / 3; i++) {
            const unsigned bit = 24 * i, word = bit / 64, shift = bit % 64;
            uint64_t bits = s[word] >> shift;
            if (shift > 40)
                bits |= s[word + 1] << (64 - shift);
            const uint32_t candidate = static_cast<uint32_t>(bits) & 0x7fffff;
            if (candidate < DSA_Q) {
                *next = candidate;
                next += BLOCK;
            }
        }
        held = static_cast<uint32_t>(next - accepted) / BLOCK;
        uint32_t from = 0;
#pragma unroll 4
        for (; from + 4 <= held && stored < N; from += 4, stored += 4)
            store4(poly + stored, accepted[from * BLOCK], accepted[(from + 1) * BLOCK], accepted[(from + 2) * BLOCK],
                   accepted[(from + 3) * BLOCK]);
        if (stored == N)
            return;
        // At most three are left over.
#pragma unroll
        for (unsigned i = 0; i < 3; i++)
            if (from + i < held)
                accepted[i * BLOCK] = accepted[(from + i) * BLOCK];
        held -= from;
        keccak_f(s);
    }
}

// Two bits for each coefficient of a challenge: 0, 1, or 2 for -1.
static constexpr unsigned BALL_WORDS = N / 16;
struct SharedBall {
    uint32_t words[BALL_WORDS][BLOCK]; // of each thread
};

// c = SampleInBall(c~) (Algorithm 29) from the state that c~ was absorbed into, to sixteen words at `ball`. Time and
// addresses depend on c~, which is public.
template <class P>
GABION_FN void dsa_sample_in_ball_vartime(uint64_t (&s)[25], SharedBall &shared, unsigned thread, uint32_t *ball) {
#pragma unroll
    for (unsigned i = 0; i < BALL_WORDS; i++)
        shared.words[i][thread] = 0;
    uint64_t signs = s[0];
    bool is_first = true;
    unsigned i = N - P::TAU;
    while (true) {
#pragma unroll
        for (unsigned word = 0; word < RATE_256 / 8; word++) {
            if ((word == 0 && is_first) || i == N)
                continue;
            uint64_t bytes = s[word];
#pragma unroll 1
            for (unsigned byte = 0; byte < 8; byte++, bytes >>= 8) {
                const unsigned j = static_cast<unsigned>(bytes & 0xff);
                if (j > i || i == N)
                    continue;
                // c[i] = c[j], c[j] = (-1)^sign.
                const uint32_t held = shared.words[j / 16][thread], place = 2 * (j % 16);
                shared.words[j / 16][thread] = (held & ~(3u << place)) | ((1 + static_cast<uint32_t>(signs & 1)) << place);
                shared.words[i / 16][thread] |= (held >> place & 3) << (2 * (i % 16));
                signs >>= 1;
                i++;
            }
        }
        if (i == N)
            break;
        is_first = false;
        keccak_f(s);
    }
#pragma unroll
    for (unsigned word = 0; word < BALL_WORDS; word += 4)
        store4(ball + word, shared.words[word][thread], shared.words[word + 1][thread], shared.words[word + 2][thread],
               shared.words[word + 3][thread]);
}

// A thread's eight coefficients of such a challenge, along.
GABION_FN void dsa_load_ball(const uint32_t *ball, unsigned thread, uint32_t (&c)[LANE]) {
    const uint32_t bits = ball[thread / 2] >> (16 * (thread % 2));
#pragma unroll
    for (unsigned i = 0; i < LANE; i++)
        c[i] = (bits >> (2 * i) & 1) + (bits >> (2 * i + 1) & 1) * (DSA_Q - 1);
}

// --- Hashes ---------------------------------------------------------------------------------------------------------

// What stands for the length of a message whose mu is given.
static constexpr uint64_t MU_GIVEN = ~static_cast<uint64_t>(0);

// mu = H(tr || M') (Algorithm 7, line 6, and Algorithm 8, line 7), unless it is given. `span` is where M' begins in
// `messages`, a multiple of 8, and its length; zero bytes follow it up to a multiple of 8.
GABION_FN void dsa_represent(const uint8_t *tr, const uint8_t *messages, const uint64_t *span, const uint8_t *given,
                             uint8_t *mu) {
    if (span[1] != MU_GIVEN) {
        shake256<64>(TwoWords{tr, 64, messages + span[0], static_cast<uint32_t>(span[1])}, mu);
    } else if (mu != given) {
#pragma unroll 1
        for (unsigned i = 0; i < 64; i += 8)
            store64(mu + i, load64(given + i));
    }
}

// Goes on to H(c~) where the first words of the state are c~ and all others zero.
template <class P> GABION_FN void dsa_absorb_c_tilde(uint64_t (&s)[25]) {
    s[P::C_TILDE / 8] = SHAKE;
    s[RATE_256 / 8 - 1] = static_cast<uint64_t>(1) << 63;
    keccak_f(s);
}

// --- Frames ---------------------------------------------------------------------------------------------------------

// Blocks of threads for the jobs that `Kernel::first` does, and then blocks that make A-hat, a thread a polynomial, of
// the seed that `Kernel::rho` says.
template <class P, class Kernel, class Of> struct WithMatrix {
    using Arguments = Of;
    using Shared = SharedAccepted;
    static constexpr unsigned STEPS = 1, JOBS = BLOCK, ENTRIES = P::K * P::L;
    template <unsigned STEP> static GABION_FN void step(const Of &a, Shared &shared, Position at) {
        const uint64_t first = static_cast<uint64_t>(a.n) * Kernel::FIRST_PER_OP;
        const uint32_t blocks = static_cast<uint32_t>((first + BLOCK - 1) / BLOCK);
        if (at.block < blocks) {
            const uint64_t job = static_cast<uint64_t>(at.block) * BLOCK + at.thread;
            if (job < first)
                Kernel::first(a, static_cast<uint32_t>(job / Kernel::FIRST_PER_OP),
                              static_cast<uint32_t>(job % Kernel::FIRST_PER_OP));
        } else {
            const uint64_t job = static_cast<uint64_t>(at.block - blocks) * BLOCK + at.thread;
            if (job < static_cast<uint64_t>(a.n) * ENTRIES)
                sample(a, static_cast<uint32_t>(job / ENTRIES), static_cast<uint32_t>(job % ENTRIES), shared,
                       at.thread);
        }
    }

  private:
    static GABION_FN void sample(const Of &a, uint32_t op, uint32_t entry, SharedAccepted &shared, unsigned thread) {
        const uint32_t row = entry / P::L, column = entry % P::L;
        uint32_t *poly = DsaKey<P>(a.keys[op]).matrix(row, column);
        dsa_sample_ntt_vartime(Kernel::rho(a, op), row, column, shared, thread, poly);
    }
};

} // namespace gabion
