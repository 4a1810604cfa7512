// ML-KEM (FIPS 203) over a batch, split into kernels by what a thread has to do.
//
//   keygen   Seed (thread an op) -> SampleMatrix, Noise (thread a polynomial) -> Transform (warp a polynomial)
//            -> KeygenRow (warp a row) -> KeygenFinish (thread an op)
//   encaps   EncapsHash (thread an op) -> SampleMatrix, Noise -> Transform -> EncryptRow (warp a row)
//            -> EncapsFinish (thread an op)
//   decaps   DecapsUnpack (warp a polynomial) -> DecapsMessage (warp an op) -> DecapsHash (thread an op)
//            -> SampleMatrix, Noise -> Transform -> EncryptRow -> DecapsFinish (thread an op)
//
// One thread runs a sponge by itself: an operation's hashes follow each other, so a warp that shared one operation
// would mostly wait. Polynomials between kernels are 16-bit coefficients below q, in order;
// those that are short stay as the bytes that they are sampled from, which are a quarter of that, until a warp loads them.
//
// Constant time: no branch and no address depends on a secret. What is sampled from rho is public, and so is whether a
// key passed its checks.
#pragma once

#include "frame.cuh"
#include "sample.cuh"

namespace gabion {

static constexpr uint32_t KEM_Q = 3329;
using KemRoots = Roots<KEM_Q, 17, 128>;
static constexpr Root KEM_SCALE = KemRoots::root(KemRoots::power(128, KEM_Q - 2)); // 1/128

#if defined(__CUDACC__)
__device__ const KemRoots DEVICE_KEM_ROOTS;
#endif
static constexpr KemRoots KEM_ROOTS;
GABION_FN const KemRoots &kem_roots() {
#if defined(__CUDA_ARCH__)
    return DEVICE_KEM_ROOTS;
#else
    return KEM_ROOTS;
#endif
}

// FIPS 203, table 2.
template <unsigned K_, unsigned ETA1_, unsigned DU_, unsigned DV_> struct KemSet {
    static constexpr unsigned K = K_, ETA1 = ETA1_, ETA2 = 2, DU = DU_, DV = DV_;
    static constexpr uint32_t EK = 384 * K + 32, DK = 768 * K + 96, CT = 32 * (DU * K + DV);
    static constexpr uint32_t PRF = 64 * ETA1; // a polynomial's part of `prf`
};
using MlKem512 = KemSet<2, 3, 10, 4>;
using MlKem768 = KemSet<3, 2, 10, 4>;
using MlKem1024 = KemSet<4, 2, 11, 5>;

// Where a batch of `n` operations lies. Addresses are multiples of 16, and so are all lengths.
struct KemArguments {
    const uint8_t *seeds; // keygen: d || z, 64 bytes an op
    uint8_t *ek;          // encapsulation keys; in decaps those within `dk`
    uint8_t *dk;          // decapsulation keys; none in keygen if seeds are the keys
    uint8_t *message;     // m, 32 bytes an op: given in encaps, made in decaps
    uint8_t *ct;          // ciphertexts
    uint8_t *again;       // decaps: ciphertexts, encrypted again
    uint8_t *shared;      // K, 32 bytes an op
    uint8_t *pairs;       // what G gave: rho || sigma, or K || r; 64 bytes an op
    uint8_t *rejected;    // decaps: K-bar, 32 bytes an op
    uint16_t *matrix;     // A-hat, [op][row][column]
    uint16_t *hat;        // s or y, or u of a ciphertext, [op][k]
    uint16_t *noise;      // keygen: e, [op][k]
    uint8_t *prf;         // what s and e, or y, e1 and e2 are sampled from, [op][2 k + 1][64 eta_1]
    const uint64_t *keys; // the address of each op's resident key (below); none: keys are in `ek` or `dk`
    uint32_t *valid;      // whether the key passed its checks: all ones, or zero
    uint32_t *status;     // a Verdict an op
    uint32_t ek_stride;   // from one `ek` to the next, or in a resident key from its begin
    uint32_t n;
    uint32_t generation; // what the slot's owner tells its status words by
    uint32_t reserved;   // zero
};

// A resident key: A-hat, then the encoded key, which passed its checks, then H(ek) if it is an encapsulation key. Where `keys`
// is given, that is where a kernel finds an op's key and A-hat.
template <class P> static constexpr uint32_t KEM_MATRIX = 2 * P::K * P::K * N;

template <class P> GABION_FN uint16_t *kem_matrix(const KemArguments &a, uint32_t op) {
    return a.keys != nullptr ? reinterpret_cast<uint16_t *>(a.keys[op]) : a.matrix + static_cast<size_t>(op) * P::K * P::K * N;
}
template <class P> GABION_FN uint8_t *kem_dk(const KemArguments &a, uint32_t op) {
    return a.keys != nullptr ? reinterpret_cast<uint8_t *>(a.keys[op]) + KEM_MATRIX<P> : a.dk + P::DK * static_cast<size_t>(op);
}
// `ek_stride` of a resident key is where `ek` begins in it.
GABION_FN uint8_t *kem_ek(const KemArguments &a, uint32_t op) {
    return a.keys != nullptr ? reinterpret_cast<uint8_t *>(a.keys[op]) + a.ek_stride : a.ek + a.ek_stride * static_cast<size_t>(op);
}

// --- Arithmetic -----------------------------------------------------------------------------------------------------

// The parts of a forward transform (FIPS 203, Algorithm 9) of what stands in `poly`, along; it ends along, in `c`, below
// q. Coefficients are below q at first and so below 15 q after seven layers.
GABION_FN void kem_ntt_across(SharedPoly &poly, unsigned thread) {
    uint32_t c[LANE];
    gather<Arrangement::ACROSS>(poly, thread, c);
    forward_layers<KEM_Q, 32>(c, thread, kem_roots().forward);
    scatter<Arrangement::ACROSS>(poly, thread, c);
}
GABION_FN void kem_ntt_middle(SharedPoly &poly, unsigned thread) {
    uint32_t c[LANE];
    gather<Arrangement::MIDDLE>(poly, thread, c);
    forward_layers<KEM_Q, 4>(c, coefficient<Arrangement::MIDDLE>(thread, 0), kem_roots().forward);
    scatter<Arrangement::MIDDLE>(poly, thread, c);
}
GABION_FN void kem_ntt_along(SharedPoly &poly, unsigned thread, uint32_t (&c)[LANE]) {
    gather<Arrangement::ALONG>(poly, thread, c);
#pragma unroll
    for (unsigned i = 0; i < LANE; i++) {
        if (i & 2)
            continue;
        const uint32_t t = times<KEM_Q>(c[i + 2], kem_roots().forward[64 + (LANE * thread + i) / 4]);
        c[i + 2] = reduce<KEM_Q>(c[i] + 2 * KEM_Q - t);
        c[i] = reduce<KEM_Q>(c[i] + t);
    }
}

// The parts of an inverse transform (Algorithm 10), from `c`, along and below q, to across in `poly`, times 1/128.
// Sums are below 2^l q after l layers; an offset of 256 q is above all of them.
static constexpr uint32_t KEM_OFFSET = 256 * KEM_Q;
GABION_FN void kem_inverse_along(SharedPoly &poly, unsigned thread, uint32_t (&c)[LANE]) {
#pragma unroll
    for (unsigned i = 0; i < LANE; i++) {
        if (i & 2)
            continue;
        const uint32_t a = c[i], b = c[i + 2];
        c[i] = a + b;
        c[i + 2] = times<KEM_Q>(a + KEM_OFFSET - b, kem_roots().inverse[127 - (LANE * thread + i) / 4]);
    }
    scatter<Arrangement::ALONG>(poly, thread, c);
}
GABION_FN void kem_inverse_middle(SharedPoly &poly, unsigned thread) {
    uint32_t c[LANE];
    gather<Arrangement::MIDDLE>(poly, thread, c);
    inverse_layers<KEM_Q, 4, KEM_OFFSET>(c, coefficient<Arrangement::MIDDLE>(thread, 0), kem_roots().inverse);
    scatter<Arrangement::MIDDLE>(poly, thread, c);
}
GABION_FN void kem_inverse_across(SharedPoly &poly, unsigned thread) {
    constexpr Root SCALE{KEM_SCALE.value, KEM_SCALE.quotient};
    uint32_t c[LANE];
    gather<Arrangement::ACROSS>(poly, thread, c);
    inverse_layers<KEM_Q, 32, KEM_OFFSET>(c, thread, kem_roots().inverse);
#pragma unroll
    for (unsigned i = 0; i < LANE; i++) {
        const uint32_t r = times<KEM_Q>(c[i], SCALE);
        c[i] = minimum(r, r - KEM_Q);
    }
    scatter<Arrangement::ACROSS>(poly, thread, c);
}

// Eight coefficients of a polynomial in global memory, along: sixteen bytes.
GABION_FN void load8(const uint16_t *poly, unsigned thread, uint32_t (&c)[LANE]) {
    const uint8_t *bytes = reinterpret_cast<const uint8_t *>(poly + LANE * thread);
    const uint64_t words[2] = {load64(bytes), load64(bytes + 8)};
#pragma unroll
    for (unsigned i = 0; i < LANE; i++)
        c[i] = static_cast<uint32_t>(words[i / 4] >> (16 * (i % 4))) & 0xffff;
}
GABION_FN void store8(uint16_t *poly, unsigned thread, const uint32_t (&c)[LANE]) {
    uint8_t *bytes = reinterpret_cast<uint8_t *>(poly + LANE * thread);
#pragma unroll
    for (unsigned half = 0; half < 2; half++) {
        uint64_t word = 0;
#pragma unroll
        for (unsigned i = 0; i < 4; i++)
            word |= static_cast<uint64_t>(c[4 * half + i]) << (16 * i);
        store64(bytes + 8 * half, word);
    }
}

// Sums of products in the NTT domain, not reduced before the end: four products below 2^24 and one more.
struct KemSum {
    uint32_t low[LANE / 2];   // a0 b0
    uint32_t high[LANE / 2];  // a1 b1, which gamma is still missing from
    uint32_t mixed[LANE / 2]; // a0 b1 + a1 b0
    GABION_FN KemSum() {
#pragma unroll
        for (unsigned i = 0; i < LANE / 2; i++)
            low[i] = high[i] = mixed[i] = 0;
    }
    GABION_FN void add(const uint32_t (&a)[LANE], const uint32_t (&b)[LANE]) {
#pragma unroll
        for (unsigned i = 0; i < LANE / 2; i++) {
            low[i] += a[2 * i] * b[2 * i];
            high[i] += a[2 * i + 1] * b[2 * i + 1];
            mixed[i] += a[2 * i] * b[2 * i + 1] + a[2 * i + 1] * b[2 * i];
        }
    }
    // MultiplyNTTs (Algorithms 11 and 12), below q. gamma of pair i is zeta^(2 bitrev(i) + 1): of pairs 2 j and 2 j + 1
    // the root 64 + j and its negative.
    GABION_FN void finish(unsigned thread, uint32_t (&c)[LANE]) const {
#pragma unroll
        for (unsigned i = 0; i < LANE / 2; i++) {
            const unsigned pair = LANE / 2 * thread + i;
            const Root gamma = pair % 2 == 0 ? kem_roots().forward[64 + pair / 2] : kem_roots().inverse[64 + pair / 2];
            c[2 * i] = reduce<KEM_Q>(low[i] + times<KEM_Q>(high[i], gamma));
            c[2 * i + 1] = reduce<KEM_Q>(mixed[i]);
        }
    }
};

// Compress_d (FIPS 203, equation 4.7) of x below q: the division by q is a product, corrected once, without a branch.
template <unsigned D> GABION_FN uint32_t kem_compress(uint32_t x) {
    const uint32_t scaled = (x << D) + (KEM_Q - 1) / 2;
    constexpr uint32_t INVERSE = static_cast<uint32_t>((static_cast<uint64_t>(1) << 32) / KEM_Q);
    const uint32_t quotient = multiply_high(scaled, INVERSE);
    const uint32_t rest = scaled - quotient * KEM_Q;
    return (quotient + 1 + mask_if_below(rest, KEM_Q)) & ((1u << D) - 1);
}

// Decompress_d (equation 4.8).
template <unsigned D> GABION_FN uint32_t kem_decompress(uint32_t y) {
    return (y * KEM_Q + (1u << (D - 1))) >> D;
}

// --- Sampling -------------------------------------------------------------------------------------------------------

using KemSieve = Sieve<uint16_t, 12>;

// SampleNTT (Algorithm 7) from rho and two index bytes. Time depends on rho, which is public.
GABION_FN void kem_sample_ntt_vartime(const uint8_t *rho, uint32_t first, uint32_t second, KemSieve &sieve, uint16_t *poly) {
    uint64_t a[25];
    absorb<RATE_SHAKE128>(a, Seeded{rho, first | second << 8, 2}, SHAKE);
    sample_uniform_vartime<KEM_Q, 0xfff>(a, sieve, poly);
}

// PRF_eta(seed, index) (equation 4.3), 64 eta bytes.
template <unsigned ETA> GABION_FN void kem_prf(const uint8_t *seed, uint32_t index, uint8_t *out) {
    static_assert(ETA == 2 || ETA == 3, "the standard has these two");
    uint64_t a[25];
    absorb<RATE_256>(a, Seeded{seed, index, 1}, SHAKE);
#pragma unroll
    for (unsigned i = 0; i < 8; i++)
        store128(out + 16 * i, Sixteen{a[2 * i], a[2 * i + 1]});
    if constexpr (ETA == 3) {
        // Eight words more: the last one of this block, and seven of the next.
        const uint64_t last = a[16];
        keccak_f(a);
        store128(out + 128, Sixteen{last, a[0]});
#pragma unroll
        for (unsigned i = 0; i < 3; i++)
            store128(out + 144 + 16 * i, Sixteen{a[2 * i + 1], a[2 * i + 2]});
    }
}

// A coefficient of a centred binomial distribution: `plus` ones less `minus` ones, modulo q.
GABION_FN uint32_t kem_centred(uint32_t plus, uint32_t minus) {
    const uint32_t value = plus + KEM_Q - minus;
    return minimum(value, value - KEM_Q);
}

// A thread's eight coefficients of SamplePolyCBD_eta (Algorithm 8), along, of the 64 eta bytes that PRF_eta gave.
template <unsigned ETA> GABION_FN void kem_sample_cbd8(const uint8_t *prf, unsigned thread, uint32_t (&c)[LANE]) {
    if constexpr (ETA == 2) {
        const uint32_t bits = load32(prf + 4 * thread);
        // Sums of two bits, in each two bits.
        const uint32_t sums = (bits & 0x55555555) + (bits >> 1 & 0x55555555);
#pragma unroll
        for (unsigned i = 0; i < LANE; i++)
            c[i] = kem_centred(sums >> (4 * i) & 3, sums >> (4 * i + 2) & 3);
    } else {
        const uint32_t halves[3] = {load16(prf + 6 * thread), load16(prf + 6 * thread + 2), load16(prf + 6 * thread + 4)};
        const uint32_t groups[2] = {(halves[0] | halves[1] << 16) & 0xffffff, halves[1] >> 8 | halves[2] << 8};
#pragma unroll
        for (unsigned i = 0; i < LANE; i++) {
            // Sums of three bits, in each three bits.
            const uint32_t group = groups[i / 4];
            const uint32_t sums = (group & 0x249249) + (group >> 1 & 0x249249) + (group >> 2 & 0x249249);
            c[i] = kem_centred(sums >> (6 * (i % 4)) & 7, sums >> (6 * (i % 4) + 3) & 7);
        }
    }
}

// --- Kernels --------------------------------------------------------------------------------------------------------

// K-PKE.KeyGen, line 1 (Algorithm 13): rho || sigma = G(d || k).
template <class P> struct KemSeed : PerThread<KemSeed<P>, KemArguments> {
    static constexpr unsigned PER_OP = 1;
    static GABION_FN void run(const KemArguments &a, uint32_t op, uint32_t) {
        uint8_t *pair = a.pairs + 64 * static_cast<size_t>(op);
        sha3_512(Seeded{a.seeds + 64 * static_cast<size_t>(op), P::K, 1}, pair);
        GABION_DECLASSIFY(pair, 32); // rho is part of the public key.
        uint8_t *ek = a.ek + a.ek_stride * static_cast<size_t>(op);
        for (unsigned i = 0; i < 32; i += 8)
            store64(ek + 384 * P::K + i, load64(pair + i));
        a.valid[op] = ~0u;
    }
};

// A-hat[i, j] from rho, which ends every encapsulation key (Algorithm 13, lines 3 to 7).
template <class P> struct KemSampleMatrix : PerThreadWith<KemSampleMatrix<P>, KemArguments, KemSieve> {
    static constexpr unsigned PER_OP = P::K * P::K;
    static GABION_FN void run(const KemArguments &a, uint32_t op, uint32_t entry, KemSieve &sieve) {
        const uint8_t *rho = kem_ek(a, op) + 384 * P::K;
        kem_sample_ntt_vartime(rho, entry % P::K, entry / P::K, sieve, kem_matrix<P>(a, op) + entry * N);
    }
};

// What s and e are sampled from (Algorithm 13, lines 8 to 15), or y, e1 and e2 (Algorithm 14, lines 9 to 17).
template <class P, bool KEYGEN> struct KemNoise : PerThread<KemNoise<P, KEYGEN>, KemArguments> {
    static constexpr unsigned PER_OP = KEYGEN ? 2 * P::K : 2 * P::K + 1;
    static GABION_FN void run(const KemArguments &a, uint32_t op, uint32_t index) {
        const uint8_t *seed = a.pairs + 64 * static_cast<size_t>(op) + 32;
        uint8_t *out = a.prf + (static_cast<size_t>(op) * (2 * P::K + 1) + index) * P::PRF;
        if (KEYGEN || index < P::K)
            kem_prf<P::ETA1>(seed, index, out);
        else
            kem_prf<P::ETA2>(seed, index, out);
    }
};

// NTT of s or y into `hat`, and with `NOISE` of e into `noise`.
template <class P, bool NOISE> struct KemTransform : PerWarp<KemTransform<P, NOISE>, KemArguments> {
    static constexpr unsigned PER_OP = NOISE ? 2 * P::K : P::K, STEPS = 4;
    template <unsigned STEP>
    static GABION_FN void part(const KemArguments &a, SharedPoly &shared, uint32_t op, uint32_t index, unsigned thread) {
        uint32_t c[LANE];
        if (STEP == 0) {
            kem_sample_cbd8<P::ETA1>(a.prf + (static_cast<size_t>(op) * (2 * P::K + 1) + index) * P::PRF, thread, c);
            scatter<Arrangement::ALONG>(shared, thread, c);
        } else if (STEP == 1) {
            kem_ntt_across(shared, thread);
        } else if (STEP == 2) {
            kem_ntt_middle(shared, thread);
        } else {
            kem_ntt_along(shared, thread, c);
            uint16_t *poly = index < P::K ? a.hat + (static_cast<size_t>(op) * P::K + index) * N
                                          : a.noise + (static_cast<size_t>(op) * P::K + index - P::K) * N;
            store8(poly, thread, c);
        }
    }
};

// t-hat = A s-hat + e-hat, encoded, and s-hat, encoded (Algorithm 13, lines 18 to 20), and the first of these once more
// within the decapsulation key. Without `dk` the key is its seed.
template <class P> struct KemKeygenRow : PerWarp<KemKeygenRow<P>, KemArguments> {
    static constexpr unsigned PER_OP = P::K, STEPS = 1;
    template <unsigned STEP>
    static GABION_FN void part(const KemArguments &a, SharedPoly &, uint32_t op, uint32_t row, unsigned thread) {
        uint32_t s[LANE], entry[LANE], t[LANE];
        KemSum sum;
#pragma unroll
        for (unsigned j = 0; j < P::K; j++) {
            load8(kem_matrix<P>(a, op) + (row * P::K + j) * N, thread, entry);
            load8(a.hat + (static_cast<size_t>(op) * P::K + j) * N, thread, s);
            sum.add(entry, s);
        }
        sum.finish(thread, t);
        load8(a.noise + (static_cast<size_t>(op) * P::K + row) * N, thread, entry);
#pragma unroll
        for (unsigned i = 0; i < LANE; i++) {
            const uint32_t value = t[i] + entry[i];
            t[i] = minimum(value, value - KEM_Q);
        }
        GABION_DECLASSIFY(t, sizeof t); // The public key.
        const unsigned at = 384 * row + 12 * thread;
        pack_aligned8<12>(t, a.ek + a.ek_stride * static_cast<size_t>(op) + at);
        if (a.dk == nullptr)
            return;
        uint8_t *dk = a.dk + P::DK * static_cast<size_t>(op);
        pack_aligned8<12>(t, dk + 384 * P::K + at);
        load8(a.hat + (static_cast<size_t>(op) * P::K + row) * N, thread, s);
        pack_aligned8<12>(s, dk + at);
    }
};

// The rest of the decapsulation key: rho, H(ek) and z (Algorithm 16, line 3).
template <class P> struct KemKeygenFinish : PerThread<KemKeygenFinish<P>, KemArguments> {
    static constexpr unsigned PER_OP = 1;
    static GABION_FN void run(const KemArguments &a, uint32_t op, uint32_t) {
        a.status[op] = status_word(OK, a.generation);
        if (a.dk == nullptr)
            return;
        const uint8_t *ek = a.ek + a.ek_stride * static_cast<size_t>(op);
        uint8_t *rest = a.dk + P::DK * static_cast<size_t>(op) + P::DK - 96;
        sha3_256(Words{ek, P::EK}, rest + 32);
        for (unsigned i = 0; i < 32; i += 8) {
            store64(rest + i, load64(ek + 384 * P::K + i));
            store64(rest + 64 + i, load64(a.seeds + 64 * static_cast<size_t>(op) + 32 + i));
        }
    }
};

// All ones if every 12-bit number of 384 k bytes is below q, else zero (the modulus check, FIPS 203, section 7.2).
template <class P> GABION_FN uint32_t kem_all_below_q(const uint8_t *bytes) {
    uint32_t below = ~0u;
#pragma unroll 1
    for (unsigned at = 0; at < 384 * P::K; at += 24) {
        const uint64_t words[3] = {load64(bytes + at), load64(bytes + at + 8), load64(bytes + at + 16)};
#pragma unroll
        for (unsigned i = 0; i < 16; i++) {
            const unsigned shift = 12 * i % 64;
            uint64_t value = words[12 * i / 64] >> shift;
            if (shift > 52)
                value |= words[12 * i / 64 + 1] << (64 - shift);
            below &= mask_if_below(static_cast<uint32_t>(value) & 0xfff, KEM_Q);
        }
    }
    return below;
}

// The check of the key, and K || r = G(m || H(ek)) (Algorithm 17, line 1).
template <class P> struct KemEncapsHash : PerThread<KemEncapsHash<P>, KemArguments> {
    static constexpr unsigned PER_OP = 1;
    static GABION_FN void run(const KemArguments &a, uint32_t op, uint32_t) {
        const uint8_t *ek = kem_ek(a, op);
        // H(ek) stands where G's output goes afterwards.
        uint8_t *pair = a.pairs + 64 * static_cast<size_t>(op);
        const uint8_t *hash = pair;
        if (a.keys != nullptr)
            hash = ek + P::EK;
        else
            sha3_256(Words{ek, P::EK}, pair);
        sha3_512(TwoWords{a.message + 32 * static_cast<size_t>(op), 32, hash, 32}, pair);
        a.valid[op] = a.keys != nullptr ? ~0u : kem_all_below_q<P>(ek);
    }
};

// H(ek) of encapsulation keys that become resident.
template <class P> struct KemResidentHash : PerThread<KemResidentHash<P>, KemArguments> {
    static constexpr unsigned PER_OP = 1;
    static GABION_FN void run(const KemArguments &a, uint32_t op, uint32_t) {
        uint8_t *ek = kem_ek(a, op);
        sha3_256(Words{ek, P::EK}, ek + P::EK);
    }
};

// Row `row` of a ciphertext: u = NTT^-1(A^T y) + e1, or v = NTT^-1(t^T y) + e2 + mu, compressed and encoded
// (Algorithm 14, lines 18 to 24). In decaps it goes to `again`.
template <class P, bool AGAIN> struct KemEncryptRow : PerWarp<KemEncryptRow<P, AGAIN>, KemArguments> {
    static constexpr unsigned PER_OP = P::K + 1, STEPS = 4;
    template <unsigned STEP>
    static GABION_FN void part(const KemArguments &a, SharedPoly &shared, uint32_t op, uint32_t row, unsigned thread) {
        uint32_t c[LANE];
        if (STEP == 0) {
            uint32_t y[LANE];
            KemSum sum;
#pragma unroll
            for (unsigned j = 0; j < P::K; j++) {
                if (row < P::K)
                    load8(kem_matrix<P>(a, op) + (j * P::K + row) * N, thread, c);
                else
                    unpack_aligned8<12>(kem_ek(a, op) + 384 * j + 12 * thread, c);
                load8(a.hat + (static_cast<size_t>(op) * P::K + j) * N, thread, y);
                sum.add(c, y);
            }
            sum.finish(thread, c);
            kem_inverse_along(shared, thread, c);
        } else if (STEP == 1) {
            kem_inverse_middle(shared, thread);
        } else if (STEP == 2) {
            kem_inverse_across(shared, thread);
        } else {
            finish(a, shared, op, row, thread);
        }
    }

  private:
    static GABION_FN void finish(const KemArguments &a, SharedPoly &shared, uint32_t op, uint32_t row, unsigned thread) {
        uint32_t c[LANE], e[LANE];
        gather<Arrangement::ALONG>(shared, thread, c);
        kem_sample_cbd8<P::ETA2>(a.prf + (static_cast<size_t>(op) * (2 * P::K + 1) + P::K + row) * P::PRF, thread, e);
        uint8_t *ct = (AGAIN ? a.again : a.ct) + P::CT * static_cast<size_t>(op);
        // Eight coefficients of v take eight bits of m.
        const uint32_t bits = row == P::K ? a.message[32 * static_cast<size_t>(op) + thread] : 0;
#pragma unroll
        for (unsigned i = 0; i < LANE; i++) {
            const uint32_t mu = kem_decompress<1>(bits >> i & 1);
            c[i] = reduce<KEM_Q>(c[i] + e[i] + mu);
        }
        if (row < P::K) {
#pragma unroll
            for (unsigned i = 0; i < LANE; i++)
                c[i] = kem_compress<P::DU>(c[i]);
            pack_aligned8<P::DU>(c, ct + 32 * P::DU * row + P::DU * thread);
        } else {
#pragma unroll
            for (unsigned i = 0; i < LANE; i++)
                c[i] = kem_compress<P::DV>(c[i]);
            pack_aligned8<P::DV>(c, ct + 32 * P::DU * P::K + P::DV * thread);
        }
    }
};

// The shared secret and the verdict; a lane whose key was refused gets zeros.
template <class P> struct KemEncapsFinish : PerThread<KemEncapsFinish<P>, KemArguments> {
    static constexpr unsigned PER_OP = 1;
    static GABION_FN void run(const KemArguments &a, uint32_t op, uint32_t) {
        const uint32_t valid = a.valid[op];
        const uint64_t mask = static_cast<uint64_t>(valid) << 32 | valid;
        for (unsigned i = 0; i < 32; i += 8)
            store64(a.shared + 32 * static_cast<size_t>(op) + i, load64(a.pairs + 64 * static_cast<size_t>(op) + i) & mask);
        if (valid == 0) {
            uint8_t *ct = a.ct + P::CT * static_cast<size_t>(op);
#pragma unroll 1
            for (unsigned i = 0; i < P::CT; i += 8)
                store64(ct + i, 0);
        }
        a.status[op] = status_word(valid == 0 ? INVALID_KEY : OK, a.generation);
    }
};

// u of a ciphertext in the NTT domain (Algorithm 15, lines 1, 3 and 6).
template <class P> struct KemDecapsUnpack : PerWarp<KemDecapsUnpack<P>, KemArguments> {
    static constexpr unsigned PER_OP = P::K, STEPS = 4;
    template <unsigned STEP>
    static GABION_FN void part(const KemArguments &a, SharedPoly &shared, uint32_t op, uint32_t index, unsigned thread) {
        uint32_t c[LANE];
        if (STEP == 0) {
            unpack_aligned8<P::DU>(a.ct + P::CT * static_cast<size_t>(op) + 32 * P::DU * index + P::DU * thread, c);
#pragma unroll
            for (unsigned i = 0; i < LANE; i++)
                c[i] = kem_decompress<P::DU>(c[i]);
            scatter<Arrangement::ALONG>(shared, thread, c);
        } else if (STEP == 1) {
            kem_ntt_across(shared, thread);
        } else if (STEP == 2) {
            kem_ntt_middle(shared, thread);
        } else {
            kem_ntt_along(shared, thread, c);
            store8(a.hat + (static_cast<size_t>(op) * P::K + index) * N, thread, c);
        }
    }
};

// m' = Compress_1(v - NTT^-1(s-hat^T u-hat)) (Algorithm 15, lines 4 to 7).
template <class P> struct KemDecapsMessage : PerWarp<KemDecapsMessage<P>, KemArguments> {
    static constexpr unsigned PER_OP = 1, STEPS = 4;
    template <unsigned STEP>
    static GABION_FN void part(const KemArguments &a, SharedPoly &shared, uint32_t op, uint32_t, unsigned thread) {
        uint32_t c[LANE];
        if (STEP == 0) {
            uint32_t s[LANE];
            KemSum sum;
#pragma unroll
            for (unsigned j = 0; j < P::K; j++) {
                unpack_aligned8<12>(kem_dk<P>(a, op) + 384 * j + 12 * thread, s);
                load8(a.hat + (static_cast<size_t>(op) * P::K + j) * N, thread, c);
                sum.add(s, c);
            }
            sum.finish(thread, c);
            kem_inverse_along(shared, thread, c);
        } else if (STEP == 1) {
            kem_inverse_middle(shared, thread);
        } else if (STEP == 2) {
            kem_inverse_across(shared, thread);
        } else {
            uint32_t v[LANE], byte = 0;
            gather<Arrangement::ALONG>(shared, thread, c);
            unpack_aligned8<P::DV>(a.ct + P::CT * static_cast<size_t>(op) + 32 * P::DU * P::K + P::DV * thread, v);
#pragma unroll
            for (unsigned i = 0; i < LANE; i++)
                byte |= kem_compress<1>(reduce<KEM_Q>(kem_decompress<P::DV>(v[i]) + KEM_Q - c[i])) << i;
            a.message[32 * static_cast<size_t>(op) + thread] = static_cast<uint8_t>(byte);
        }
    }
};

// The checks of the key (FIPS 203, section 7.3), K' || r' = G(m' || h) and K-bar = J(z || c) (Algorithm 18, lines 6
// and 7). Coefficients of s-hat are checked too: 12 bits at or above q are no key.
template <class P> struct KemDecapsHash : PerThread<KemDecapsHash<P>, KemArguments> {
    static constexpr unsigned PER_OP = 1;
    static GABION_FN void run(const KemArguments &a, uint32_t op, uint32_t) {
        const uint8_t *dk = kem_dk<P>(a, op), *hash = dk + P::DK - 64;
        uint8_t *pair = a.pairs + 64 * static_cast<size_t>(op);
        a.valid[op] = a.keys != nullptr ? ~0u : check(dk, hash, pair);
        sha3_512(TwoWords{a.message + 32 * static_cast<size_t>(op), 32, hash, 32}, pair);
        shake256<32>(TwoWords{dk + P::DK - 32, 32, a.ct + P::CT * static_cast<size_t>(op), P::CT},
                     a.rejected + 32 * static_cast<size_t>(op));
    }

  private:
    // `made` has room for 32 bytes.
    static GABION_FN uint32_t check(const uint8_t *dk, const uint8_t *hash, uint8_t *made) {
        const uint8_t *ek = dk + 384 * P::K;
        sha3_256(Words{ek, P::EK}, made);
        uint64_t difference = 0;
#pragma unroll
        for (unsigned i = 0; i < 32; i += 8)
            difference |= load64(made + i) ^ load64(hash + i);
        uint32_t valid = mask_if_zero(static_cast<uint32_t>(difference) | static_cast<uint32_t>(difference >> 32));
        valid &= kem_all_below_q<P>(dk) & kem_all_below_q<P>(ek);
        GABION_DECLASSIFY(&valid, sizeof valid); // A refused key is reported.
        return valid;
    }
};

// Implicit rejection: K' where the ciphertext is the same again, K-bar where it is not, by masks (Algorithm 18, lines 9
// to 11). A lane whose key was refused gets zeros.
template <class P> struct KemDecapsFinish : PerThread<KemDecapsFinish<P>, KemArguments> {
    static constexpr unsigned PER_OP = 1;
    static GABION_FN void run(const KemArguments &a, uint32_t op, uint32_t) {
        const uint8_t *ct = a.ct + P::CT * static_cast<size_t>(op), *again = a.again + P::CT * static_cast<size_t>(op);
        uint64_t difference = 0;
#pragma unroll 1
        for (unsigned i = 0; i < P::CT; i += 8)
            difference |= load64(ct + i) ^ load64(again + i);
        const uint32_t same = mask_if_zero(static_cast<uint32_t>(difference) | static_cast<uint32_t>(difference >> 32));
        const uint64_t accept = static_cast<uint64_t>(same) << 32 | same;
        const uint32_t valid = a.valid[op];
        const uint64_t mask = static_cast<uint64_t>(valid) << 32 | valid;
#pragma unroll
        for (unsigned i = 0; i < 32; i += 8) {
            const uint64_t made = load64(a.pairs + 64 * static_cast<size_t>(op) + i);
            const uint64_t rejected = load64(a.rejected + 32 * static_cast<size_t>(op) + i);
            store64(a.shared + 32 * static_cast<size_t>(op) + i, ((made & accept) | (rejected & ~accept)) & mask);
        }
        a.status[op] = status_word(valid == 0 ? INVALID_KEY : OK, a.generation);
    }
};

} // namespace gabion
