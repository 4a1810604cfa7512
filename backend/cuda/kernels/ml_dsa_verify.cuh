// ML-DSA: verification of a batch by expanded public keys (ml_dsa_keys.cuh). Everything here is public, and time
// depends on it.
//
//   VerifyHash (thread an op: mu, and the challenge) -> VerifyTransform (warp a polynomial)
//   -> VerifyRow (warp a row) -> VerifyFinish (thread an op)
#pragma once

#include "ml_dsa.cuh"

namespace gabion {

// Where a batch of `n` operations lies. Signatures stand one after the other at any address; what else is an address is
// a multiple of 16.
struct DsaVerifyArguments {
    const uint64_t *keys;    // of each op, where its expanded public key is
    const uint8_t *sig;      // signatures
    const uint8_t *messages; // formatted messages M', zero up to multiples of 8
    const uint64_t *spans;   // of each op where M' begins in `messages`, and its length, as dsa_represent takes them
    const uint8_t *mu;       // representatives that are given, 64 bytes an op
    uint32_t *balls;         // challenges, sixteen words an op
    uint32_t *vectors;       // z-hat and c-hat, [op][l + 1]
    uint8_t *commitments;    // mu and w1', encoded
    uint32_t *valid;         // zero if a check failed
    uint32_t *status;        // a Verdict an op
    uint32_t n;
    uint32_t generation; // what the slot's owner tells its status words by
};

template <class P> GABION_FN const uint8_t *dsa_signature(const DsaVerifyArguments &a, uint32_t op) {
    return a.sig + P::SIG * static_cast<size_t>(op);
}

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

// The form of the hint, mu, and c = SampleInBall(c~) (Algorithm 8, lines 4 to 8).
template <class P> struct DsaVerifyHash {
    using Arguments = DsaVerifyArguments;
    using Shared = SharedBall;
    static constexpr unsigned STEPS = 1, JOBS = BLOCK;
    template <unsigned STEP> static GABION_FN void step(const Arguments &a, Shared &shared, Position at) {
        const uint32_t op = at.block * BLOCK + at.thread;
        if (op >= a.n)
            return;
        const uint8_t *sig = dsa_signature<P>(a, op);
        a.valid[op] = dsa_hint_is_well_formed<P>(sig + P::HINT) ? 1 : 0;
        dsa_represent(DsaKey<P>(a.keys[op]).tr(), a.messages, a.spans + 2 * static_cast<size_t>(op),
                      a.mu + 64 * static_cast<size_t>(op), a.commitments + P::COMMITMENT * static_cast<size_t>(op));
        uint32_t c_tilde[P::C_TILDE / 4];
        load_bytes<P::C_TILDE>(sig, c_tilde);
        uint64_t s[25];
#pragma unroll
        for (unsigned i = 0; i < 25; i++)
            s[i] = i < P::C_TILDE / 8 ? c_tilde[2 * i] | static_cast<uint64_t>(c_tilde[2 * i + 1]) << 32 : 0;
        dsa_absorb_c_tilde<P>(s);
        dsa_sample_in_ball_vartime<P>(s, shared, at.thread, a.balls + BALL_WORDS * static_cast<size_t>(op));
    }
};

// z and c in the NTT domain (Algorithm 8, lines 1, 9 and 13: decoding, transforms, the norm of z).
template <class P> struct DsaVerifyTransform : PerWarp<DsaVerifyTransform<P>, DsaVerifyArguments> {
    static constexpr unsigned PER_OP = P::L + 1, STEPS = 4;
    template <unsigned STEP>
    static GABION_FN void part(const DsaVerifyArguments &a, SharedPoly &shared, uint32_t op, uint32_t index,
                               unsigned thread) {
        uint32_t c[LANE];
        if (STEP == 0) {
            if (index < P::L)
                decode(a, op, index, thread, c);
            else
                dsa_load_ball(a.balls + BALL_WORDS * static_cast<size_t>(op), thread, c);
            scatter<Arrangement::ALONG>(shared, thread, c);
        } else if (STEP == 1) {
            dsa_ntt_across(shared, thread);
        } else if (STEP == 2) {
            dsa_ntt_middle(shared, thread);
        } else {
            dsa_ntt_along(shared, thread, c);
            store8(a.vectors + (static_cast<size_t>(op) * PER_OP + index) * N, thread, c);
        }
    }

  private:
    static GABION_FN void decode(const DsaVerifyArguments &a, uint32_t op, uint32_t index, unsigned thread,
                                 uint32_t (&c)[LANE]) {
        unpack_words<P::Z_BITS, 1>(dsa_signature<P>(a, op) + P::C_TILDE + P::Z_BITS * (WARP * index + thread), c);
        uint32_t is_long = 0;
#pragma unroll
        for (unsigned i = 0; i < LANE; i++) {
            // z = gamma1 - c, whose norm is to be below gamma1 - beta.
            is_long |= ~mask_if_below(c[i] - (P::BETA + 1), 2 * (P::GAMMA1 - P::BETA) - 1);
            c[i] = dsa_once(P::GAMMA1 + DSA_Q - c[i]);
        }
        if (is_long != 0)
            a.valid[op] = 0;
    }
};

// A row of w1' = UseHint(h, A z - c t1 2^d), encoded (Algorithm 8, lines 9 and 10, and Algorithms 28 and 40).
template <class P> struct DsaVerifyRow {
    using Arguments = DsaVerifyArguments;
    struct Shared {
        SharedPoly poly[WARPS];
        uint32_t hints[WARPS][N / 4]; // a byte for each coefficient
    };
    static constexpr unsigned STEPS = 4, JOBS = WARPS, PER_OP = P::K;
    static constexpr bool WARPS_ARE_APART = true;
    template <unsigned STEP> static GABION_FN void step(const Arguments &a, Shared &shared, Position at) {
        const uint64_t job = static_cast<uint64_t>(at.block) * WARPS + at.thread / WARP;
        if (job < static_cast<uint64_t>(a.n) * PER_OP)
            part<STEP>(a, shared.poly[at.thread / WARP], shared.hints[at.thread / WARP],
                       static_cast<uint32_t>(job / PER_OP),
                       static_cast<uint32_t>(job % PER_OP), at.thread % WARP);
    }

  private:
    template <unsigned STEP>
    static GABION_FN void part(const Arguments &a, SharedPoly &shared, uint32_t (&hints)[N / 4], uint32_t op,
                               uint32_t row, unsigned thread) {
        uint32_t c[LANE];
        if (STEP == 0) {
            hints[2 * thread] = 0, hints[2 * thread + 1] = 0;
            product(a, op, row, thread, c);
            dsa_inverse_along(shared, thread, c);
        } else if (STEP == 1) {
            mark(dsa_signature<P>(a, op) + P::HINT, row, thread, reinterpret_cast<uint8_t *>(hints));
            dsa_inverse_middle(shared, thread);
        } else if (STEP == 2) {
            dsa_inverse_across(shared, thread);
        } else {
            gather<Arrangement::ALONG>(shared, thread, c);
#pragma unroll
            for (unsigned i = 0; i < LANE; i++)
                c[i] = use_hint(c[i], hints[2 * thread + i / 4] >> (8 * (i % 4)) & 1);
            uint8_t *w1 = a.commitments + P::COMMITMENT * static_cast<size_t>(op) + 64;
            pack_words<P::W1_BITS, P::W1_BITS == 4 ? 4 : 2>(c, w1 + P::W1_BITS * (WARP * row + thread));
        }
    }

    // Eight coefficients of the row, times 2^-32.
    static GABION_FN void product(const Arguments &a, uint32_t op, uint32_t row, unsigned thread, uint32_t (&c)[LANE]) {
        const DsaKey<P> key(a.keys[op]);
        const uint32_t *vectors = a.vectors + static_cast<size_t>(op) * (P::L + 1) * N;
        uint32_t x[LANE], y[LANE];
        load8(vectors + P::L * N, thread, x);
        load8(key.poly(row), thread, y);
#pragma unroll
        for (unsigned i = 0; i < LANE; i++)
            x[i] = DSA_Q - x[i];
        DsaSum sum;
        sum.add(x, y);
        dsa_row_product<P>(key, vectors, row, thread, sum);
        sum.finish(c);
    }

    // A byte for each hint of the row, whose positions differ. A hint that is not well formed reads nothing beyond it.
    static GABION_FN void mark(const uint8_t *y, uint32_t row, unsigned thread, uint8_t *hints) {
        const unsigned begin = row == 0 ? 0 : y[P::OMEGA + row - 1], end = minimum(y[P::OMEGA + row], P::OMEGA);
#pragma unroll 1
        for (unsigned i = begin + thread; i < end; i += WARP)
            hints[y[i]] = 1;
    }

    static GABION_FN uint32_t use_hint(uint32_t r, uint32_t hint) {
        const DsaDecomposed<P> d(r);
        constexpr uint32_t PARTS = DsaDecomposed<P>::PARTS;
        // One up where r0 is positive, one down elsewhere.
        const uint32_t moved = d.high + (d.low > 0 ? hint : 0 - hint);
        if (PARTS == 16)
            return moved & 15;
        return moved == PARTS ? 0 : minimum(moved, moved + PARTS);
    }
};

// c~' = H(mu || w1'), and whether it is c~ (Algorithm 8, lines 12 and 13).
template <class P> struct DsaVerifyFinish : PerThread<DsaVerifyFinish<P>, DsaVerifyArguments> {
    static constexpr unsigned PER_OP = 1;
    static GABION_FN void run(const DsaVerifyArguments &a, uint32_t op, uint32_t) {
        uint64_t s[25];
        absorb<RATE_256>(s, Words{a.commitments + P::COMMITMENT * static_cast<size_t>(op), P::COMMITMENT}, SHAKE);
        const uint8_t *c_tilde = dsa_signature<P>(a, op);
        uint32_t difference = 0;
#pragma unroll
        for (unsigned i = 0; i < P::C_TILDE / 8; i++) {
            uint32_t words[2];
            load_bytes<8>(c_tilde + 8 * i, words);
            difference |= (words[0] ^ static_cast<uint32_t>(s[i])) | (words[1] ^ static_cast<uint32_t>(s[i] >> 32));
        }
        const bool is_good = a.valid[op] != 0 && difference == 0;
        a.status[op] = status_word(is_good ? OK : INVALID_SIGNATURE, a.generation);
    }
};

} // namespace gabion
