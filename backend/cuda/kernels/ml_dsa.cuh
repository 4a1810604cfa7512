// ML-DSA (FIPS 204): verification of a batch. Everything here is public, and time depends on it.
//
//   Hash (thread an op) -> SampleMatrix (thread a polynomial), Challenge (thread an op) -> Transform (warp a polynomial)
//   -> Row (warp a row of A) -> Finish (thread an op)
#pragma once

#include "frame.cuh"
#include "sponge.cuh"

namespace gabion {

static constexpr uint32_t DSA_Q = 8380417;
using DsaRoots = Roots<DSA_Q, 1753, 256>;

#if defined(__CUDACC__)
__device__ const DsaRoots DEVICE_DSA_ROOTS;
#endif
static constexpr DsaRoots DSA_ROOTS;
GABION_FN const DsaRoots &dsa_roots() {
#if defined(__CUDA_ARCH__)
    return DEVICE_DSA_ROOTS;
#else
    return DSA_ROOTS;
#endif
}

// FIPS 204, tables 1 and 2.
template <unsigned K_, unsigned L_, unsigned TAU_, unsigned BETA_, unsigned GAMMA1_BITS, unsigned GAMMA2_PARTS, unsigned OMEGA_,
          unsigned C_TILDE_>
struct DsaSet {
    static constexpr unsigned K = K_, L = L_, TAU = TAU_, OMEGA = OMEGA_, C_TILDE = C_TILDE_;
    static constexpr uint32_t BETA = BETA_, GAMMA1 = 1u << GAMMA1_BITS, GAMMA2 = (DSA_Q - 1) / GAMMA2_PARTS;
    static constexpr unsigned Z_BITS = GAMMA1_BITS + 1, W1_BITS = GAMMA2_PARTS == 88 ? 6 : 4;
    static constexpr uint32_t PK = 32 + 320 * K, SIG = C_TILDE + 32 * Z_BITS * L + OMEGA + K, W1 = 32 * W1_BITS * K;
    static constexpr uint32_t HINT = C_TILDE + 32 * Z_BITS * L; // where the hint begins in a signature
};
using MlDsa44 = DsaSet<4, 4, 39, 78, 17, 88, 80, 32>;
using MlDsa65 = DsaSet<6, 5, 49, 196, 19, 32, 55, 48>;
using MlDsa87 = DsaSet<8, 7, 60, 120, 19, 32, 75, 64>;

// Where a batch of `n` operations lies. Signatures and messages stand one after the other at any address; what else
// is an address is a multiple of 16.
struct DsaArguments {
    const uint8_t *pk;       // public keys
    const uint8_t *sig;      // signatures
    const uint8_t *messages; // formatted messages M'
    const uint64_t *spans;   // of each op where M' begins in `messages`, and its length; MU_GIVEN: `mu` is given
    uint8_t *mu;             // representatives, 64 bytes an op
    uint8_t *stream;         // SampleInBall's bytes, 136 an op
    uint32_t *matrix;        // A-hat, [op][row][column]
    uint32_t *vectors;       // z-hat, c-hat and t1-hat, [op][l + 1 + k]
    uint8_t *w1;             // w1', encoded
    uint32_t *valid;         // zero if a check failed
    uint32_t *status;        // a Verdict an op
    uint32_t n;
    uint32_t generation; // what the slot's owner tells its status words by
};
static constexpr uint64_t MU_GIVEN = ~static_cast<uint64_t>(0);

// --- Arithmetic -----------------------------------------------------------------------------------------------------

GABION_FN void load8(const uint32_t *poly, unsigned thread, uint32_t (&c)[LANE]) {
#pragma unroll
    for (unsigned i = 0; i < LANE; i++)
        c[i] = poly[LANE * thread + i];
}
GABION_FN void store8(uint32_t *poly, unsigned thread, const uint32_t (&c)[LANE]) {
#pragma unroll
    for (unsigned i = 0; i < LANE; i++)
        poly[LANE * thread + i] = c[i];
}

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
    DsaRoots::root(static_cast<uint32_t>((static_cast<uint64_t>(1) << 32) % DSA_Q * DsaRoots::power(256, DSA_Q - 2) % DSA_Q));

// Decompose and UseHint (Algorithms 36 and 40) of r below q.
template <class P> GABION_FN uint32_t dsa_use_hint(uint32_t r, bool hint) {
    constexpr uint32_t STEP = 2 * P::GAMMA2, PARTS = (DSA_Q - 1) / STEP;
    uint32_t high = r / STEP, low = r % STEP;
    const bool is_positive = low > 0 && low <= P::GAMMA2;
    if (low > P::GAMMA2)
        high++;
    // r - r0 = q - 1: then r1 = 0 and r0 is one less, which is not positive then either.
    if (high == PARTS)
        high = 0;
    if (!hint)
        return high;
    if (is_positive)
        return high + 1 == PARTS ? 0 : high + 1;
    return high == 0 ? PARTS - 1 : high - 1;
}

// --- Kernels --------------------------------------------------------------------------------------------------------

// Whether the hint is well formed (HintBitUnpack, Algorithm 21).
template <class P> GABION_FN bool dsa_hint_is_well_formed(const uint8_t *y) {
    unsigned index = 0;
#pragma unroll 1
    for (unsigned row = 0; row < P::K; row++) {
        const unsigned end = y[P::OMEGA + row];
        if (end < index || end > P::OMEGA)
            return false;
        for (unsigned i = index + 1; i < end; i++)
            if (y[i - 1] >= y[i])
                return false;
        index = end;
    }
    for (; index < P::OMEGA; index++)
        if (y[index] != 0)
            return false;
    return true;
}

// tr = H(pk) and mu = H(tr || M') (Algorithm 8, lines 6 and 7), and the form of the hint.
template <class P> struct DsaHash : PerThread<DsaHash<P>, DsaArguments> {
    static constexpr unsigned PER_OP = 1;
    static GABION_FN void run(const DsaArguments &a, uint32_t op, uint32_t) {
        a.valid[op] = dsa_hint_is_well_formed<P>(a.sig + P::SIG * static_cast<size_t>(op) + P::HINT) ? 1 : 0;
        const uint64_t length = a.spans[2 * static_cast<size_t>(op) + 1];
        if (length == MU_GIVEN)
            return;
        uint8_t *mu = a.mu + 64 * static_cast<size_t>(op);
        shake256<64>(Words{a.pk + P::PK * static_cast<size_t>(op), P::PK}, mu); // tr, where mu goes
        shake256<64>(TwoStrings{mu, 64, a.messages + a.spans[2 * static_cast<size_t>(op)], static_cast<uint32_t>(length)}, mu);
    }
};

// A-hat[r, s] = RejNTTPoly(rho || s || r) (Algorithms 30 and 32).
template <class P> struct DsaSampleMatrix : PerThread<DsaSampleMatrix<P>, DsaArguments> {
    static constexpr unsigned PER_OP = P::K * P::L;
    static GABION_FN void run(const DsaArguments &a, uint32_t op, uint32_t entry) {
        uint64_t s[25];
        const uint64_t row = entry / P::L, column = entry % P::L;
        absorb<RATE_SHAKE128>(s, Seeded{a.pk + P::PK * static_cast<size_t>(op), column | row << 8, 2}, SHAKE);
        uint32_t *poly = a.matrix + (static_cast<size_t>(op) * PER_OP + entry) * N;
        unsigned count = 0;
        while (true) {
#pragma unroll
            for (unsigned i = 0; i < RATE_SHAKE128 / 3; i++) {
                const unsigned bit = 24 * i, word = bit / 64, shift = bit % 64;
                uint64_t bits = s[word] >> shift;
                if (shift > 40)
                    bits |= s[word + 1] << (64 - shift);
                const uint32_t candidate = static_cast<uint32_t>(bits) & 0x7fffff;
                if (candidate < DSA_Q && count < N)
                    poly[count++] = candidate;
            }
            if (count == N)
                return;
            keccak_f(s);
        }
    }
};

// c = SampleInBall(c~) (Algorithm 29).
template <class P> struct DsaChallenge : PerThread<DsaChallenge<P>, DsaArguments> {
    static constexpr unsigned PER_OP = 1;
    static GABION_FN void run(const DsaArguments &a, uint32_t op, uint32_t) {
        uint64_t s[25];
        const uint8_t *c_tilde = a.sig + P::SIG * static_cast<size_t>(op);
        absorb<RATE_256>(s, TwoStrings{c_tilde, P::C_TILDE, c_tilde, 0}, SHAKE);
        uint8_t *stream = a.stream + RATE_256 * static_cast<size_t>(op);
        squeeze<RATE_256>(s, stream);
        uint32_t *c = a.vectors + (static_cast<size_t>(op) * (P::L + 1 + P::K) + P::L) * N;
#pragma unroll 1
        for (unsigned i = 0; i < N; i++)
            c[i] = 0;
        uint64_t signs = s[0];
        unsigned next = 8;
#pragma unroll 1
        for (unsigned i = N - P::TAU; i < N; i++) {
            unsigned j;
            do {
                if (next == RATE_256) {
                    keccak_f(s);
                    squeeze<RATE_256>(s, stream);
                    next = 0;
                }
                j = stream[next++];
            } while (j > i);
            c[i] = c[j];
            c[j] = signs & 1 ? DSA_Q - 1 : 1;
            signs >>= 1;
        }
    }
};

// z, c and t1 2^d in the NTT domain (Algorithm 8, lines 1, 2, 9 and 13: decoding, the norm of z, transforms).
template <class P> struct DsaTransform : PerWarp<DsaTransform<P>, DsaArguments> {
    static constexpr unsigned PER_OP = P::L + 1 + P::K, STEPS = 4;
    template <unsigned STEP>
    static GABION_FN void part(const DsaArguments &a, SharedPoly &shared, uint32_t op, uint32_t index, unsigned thread) {
        uint32_t *poly = a.vectors + (static_cast<size_t>(op) * PER_OP + index) * N;
        uint32_t c[LANE];
        if (STEP == 0) {
            decode(a, poly, op, index, thread, c);
            scatter<Arrangement::ALONG>(shared, thread, c);
        } else if (STEP == 1) {
            gather<Arrangement::ACROSS>(shared, thread, c);
            forward_layers<DSA_Q, 32>(c, thread, dsa_roots().forward);
            scatter<Arrangement::ACROSS>(shared, thread, c);
        } else if (STEP == 2) {
            gather<Arrangement::MIDDLE>(shared, thread, c);
            forward_layers<DSA_Q, 4>(c, coefficient<Arrangement::MIDDLE>(thread, 0), dsa_roots().forward);
            scatter<Arrangement::MIDDLE>(shared, thread, c);
        } else {
            gather<Arrangement::ALONG>(shared, thread, c);
            forward_layers<DSA_Q, 1, 2>(c, LANE * thread, dsa_roots().forward);
            // Below 17 q after eight layers.
#pragma unroll
            for (unsigned i = 0; i < LANE; i++)
                c[i] = reduce<DSA_Q>(c[i]);
            store8(poly, thread, c);
        }
    }

  private:
    static GABION_FN void decode(const DsaArguments &a, const uint32_t *poly, uint32_t op, uint32_t index, unsigned thread,
                                 uint32_t (&c)[LANE]) {
        if (index < P::L) {
            const uint8_t *z = a.sig + P::SIG * static_cast<size_t>(op) + P::C_TILDE;
            unpack8<P::Z_BITS>(z + P::Z_BITS * (WARP * index + thread), c);
            bool is_short = true;
#pragma unroll
            for (unsigned i = 0; i < LANE; i++) {
                // z = gamma1 - c, whose norm is to be below gamma1 - beta.
                is_short = is_short && c[i] > P::BETA && c[i] < 2 * P::GAMMA1 - P::BETA;
                const uint32_t value = P::GAMMA1 + DSA_Q - c[i];
                c[i] = minimum(value, value - DSA_Q);
            }
            if (!is_short)
                a.valid[op] = 0;
        } else if (index == P::L) {
            load8(poly, thread, c);
        } else {
            const uint8_t *t1 = a.pk + P::PK * static_cast<size_t>(op) + 32 + 320 * (index - P::L - 1);
            unpack8<10>(t1 + 10 * thread, c);
#pragma unroll
            for (unsigned i = 0; i < LANE; i++)
                c[i] <<= 13;
        }
    }
};

// A row of w1' = UseHint(h, A z - c t1 2^d), encoded (Algorithm 8, lines 9 and 10, and Algorithm 28).
template <class P> struct DsaRow : PerWarp<DsaRow<P>, DsaArguments> {
    static constexpr unsigned PER_OP = P::K, STEPS = 4;
    template <unsigned STEP>
    static GABION_FN void part(const DsaArguments &a, SharedPoly &shared, uint32_t op, uint32_t row, unsigned thread) {
        uint32_t c[LANE];
        if (STEP == 0) {
            product(a, op, row, thread, c);
            inverse_layers<DSA_Q, 1, DSA_OFFSET, 2>(c, LANE * thread, dsa_roots().inverse);
            scatter<Arrangement::ALONG>(shared, thread, c);
        } else if (STEP == 1) {
            gather<Arrangement::MIDDLE>(shared, thread, c);
            inverse_layers<DSA_Q, 4, DSA_OFFSET>(c, coefficient<Arrangement::MIDDLE>(thread, 0), dsa_roots().inverse);
            scatter<Arrangement::MIDDLE>(shared, thread, c);
        } else if (STEP == 2) {
            constexpr Root SCALE{DSA_SCALE.value, DSA_SCALE.quotient};
            gather<Arrangement::ACROSS>(shared, thread, c);
            inverse_layers<DSA_Q, 32, DSA_OFFSET>(c, thread, dsa_roots().inverse);
#pragma unroll
            for (unsigned i = 0; i < LANE; i++) {
                const uint32_t r = times<DSA_Q>(c[i], SCALE);
                c[i] = minimum(r, r - DSA_Q);
            }
            scatter<Arrangement::ACROSS>(shared, thread, c);
        } else {
            gather<Arrangement::ALONG>(shared, thread, c);
            const uint32_t hints = hint_bits(a.sig + P::SIG * static_cast<size_t>(op) + P::HINT, row, thread);
#pragma unroll
            for (unsigned i = 0; i < LANE; i++)
                c[i] = dsa_use_hint<P>(c[i], (hints >> i & 1) != 0);
            pack8<P::W1_BITS>(c, a.w1 + P::W1 * static_cast<size_t>(op) + P::W1_BITS * (WARP * row + thread));
        }
    }

  private:
    // Eight coefficients of the row, times 2^-32.
    static GABION_FN void product(const DsaArguments &a, uint32_t op, uint32_t row, unsigned thread, uint32_t (&c)[LANE]) {
        const uint32_t *vectors = a.vectors + static_cast<size_t>(op) * (P::L + 1 + P::K) * N;
        uint64_t sum[LANE];
        uint32_t x[LANE], y[LANE];
        load8(vectors + P::L * N, thread, x);
        load8(vectors + (P::L + 1 + row) * N, thread, y);
#pragma unroll
        for (unsigned i = 0; i < LANE; i++)
            sum[i] = static_cast<uint64_t>(DSA_Q - x[i]) * y[i];
#pragma unroll 1
        for (unsigned j = 0; j < P::L; j++) {
            load8(a.matrix + ((static_cast<size_t>(op) * P::K + row) * P::L + j) * N, thread, x);
            load8(vectors + j * N, thread, y);
#pragma unroll
            for (unsigned i = 0; i < LANE; i++)
                sum[i] += static_cast<uint64_t>(x[i]) * y[i];
        }
#pragma unroll
        for (unsigned i = 0; i < LANE; i++) {
            const uint32_t r = dsa_montgomery(sum[i]);
            c[i] = minimum(r, r - DSA_Q);
        }
    }

    // The hints of a thread's eight coefficients. A hint that is not well formed reads nothing beyond itself.
    static GABION_FN uint32_t hint_bits(const uint8_t *y, uint32_t row, unsigned thread) {
        const unsigned begin = row == 0 ? 0 : y[P::OMEGA + row - 1], end = y[P::OMEGA + row];
        uint32_t bits = 0;
#pragma unroll 1
        for (unsigned i = begin; i < end && i < P::OMEGA; i++)
            if (y[i] / LANE == thread)
                bits |= 1u << (y[i] % LANE);
        return bits;
    }
};

// c~' = H(mu || w1'), and whether it is c~ (Algorithm 8, lines 12 and 13).
template <class P> struct DsaFinish : PerThread<DsaFinish<P>, DsaArguments> {
    static constexpr unsigned PER_OP = 1;
    static GABION_FN void run(const DsaArguments &a, uint32_t op, uint32_t) {
        uint64_t s[25];
        absorb<RATE_256>(s, TwoWords{a.mu + 64 * static_cast<size_t>(op), 64, a.w1 + P::W1 * static_cast<size_t>(op), P::W1}, SHAKE);
        const uint8_t *c_tilde = a.sig + P::SIG * static_cast<size_t>(op);
        uint64_t difference = 0;
#pragma unroll
        for (unsigned word = 0; word < P::C_TILDE / 8; word++) {
            uint64_t expected = 0;
#pragma unroll
            for (unsigned i = 0; i < 8; i++)
                expected |= static_cast<uint64_t>(c_tilde[8 * word + i]) << (8 * i);
            difference |= s[word] ^ expected;
        }
        const bool is_good = a.valid[op] != 0 && difference == 0;
        a.status[op] = status_word(is_good ? OK : INVALID_SIGNATURE, a.generation);
    }
};

} // namespace gabion
