// ML-DSA: key generation, and the expansion of encoded keys for their use on the device.
//
//   keygen    KeygenSeed (thread an op) -> KeygenSample (thread a polynomial) -> KeygenTransform (warp a polynomial)
//             -> KeyRow (warp a row) -> KeygenFinish (thread an op)
//   public    ExpandPublic (thread an op for tr, thread a polynomial of A-hat) -> PublicTransform (warp a polynomial)
//   private   ExpandPrivate (thread an op for its seeds, thread a polynomial of A-hat) -> PrivateTransform (warp a
//             polynomial) -> KeyRow (warp a row), ExpandFinish (thread an op) for the checks
//
// Constant time: no branch and no address depends on a secret. Public are rho, tr, t1, which half bytes ExpandS refuses
// (independent of those that it takes), and whether a private key passed its checks.
#pragma once

#include "ml_dsa.cuh"

namespace gabion {

// Where keys of a batch of `n` operations lie. Addresses are multiples of 16, and so are the lengths of keys.
struct DsaKeyArguments {
    const uint8_t *seeds; // keygen: xi, 32 bytes an op
    uint8_t *pk;          // public keys: made, or given; made again from private keys to check them
    uint8_t *sk;          // private keys: made, or given
    uint8_t *rho_prime;   // keygen: 64 bytes an op
    uint32_t *halves;     // keygen: s1 and s2, eight coefficients a word, [op][l + k]
    uint32_t *vectors;    // s1-hat, [op][l]
    const uint64_t *keys; // of each op, where its expanded key goes; keygen: where A-hat goes, in a key's place
    uint32_t *faults;     // private: checks that failed
    uint32_t *status;     // a Verdict an op
    uint32_t n;
    uint32_t generation; // what the slot's owner tells its status words by
    uint32_t encoded_at; // where the key that is given begins after the expanded one does; 0: it is in `pk` or `sk`
    uint32_t reserved;   // zero
};

template <class P> GABION_FN uint8_t *dsa_pk(const DsaKeyArguments &a, uint32_t op) {
    return a.pk + P::PK * static_cast<size_t>(op);
}
template <class P> GABION_FN uint8_t *dsa_given_pk(const DsaKeyArguments &a, uint32_t op) {
    return a.encoded_at != 0 ? reinterpret_cast<uint8_t *>(a.keys[op] + a.encoded_at) : dsa_pk<P>(a, op);
}
template <class P> GABION_FN uint8_t *dsa_sk(const DsaKeyArguments &a, uint32_t op) {
    return a.encoded_at != 0 ? reinterpret_cast<uint8_t *>(a.keys[op] + a.encoded_at)
                             : a.sk + P::SK * static_cast<size_t>(op);
}

// --- Key generation -------------------------------------------------------------------------------------------------

// (rho, rho', K) = H(xi || k || l, 128) (Algorithm 6, line 1).
template <class P> struct DsaKeygenSeed : PerThread<DsaKeygenSeed<P>, DsaKeyArguments> {
    static constexpr unsigned PER_OP = 1;
    static GABION_FN void run(const DsaKeyArguments &a, uint32_t op, uint32_t) {
        uint64_t s[25];
        absorb<RATE_256>(s, Seeded{a.seeds + 32 * static_cast<size_t>(op), P::K | P::L << 8, 2}, SHAKE);
        uint8_t *pk = dsa_pk<P>(a, op), *sk = dsa_sk<P>(a, op), *rho_prime = a.rho_prime + 64 * static_cast<size_t>(op);
#pragma unroll
        for (unsigned i = 0; i < 4; i++) {
            store64(pk + 8 * i, s[i]);
            store64(sk + 8 * i, s[i]);
            store64(sk + 32 + 8 * i, s[12 + i]);
        }
#pragma unroll
        for (unsigned i = 0; i < 8; i++)
            store64(rho_prime + 8 * i, s[4 + i]);
        GABION_DECLASSIFY(pk, 32); // rho is part of the public key.
    }
};

// RejBoundedPoly (Algorithm 31) to half bytes eta - s, as BitPack takes them.
template <class P> GABION_FN void dsa_sample_bounded(const uint8_t *rho_prime, uint32_t index, uint8_t *halves) {
    uint64_t s[25];
    absorb<RATE_256>(s, SeededLong{rho_prime, index}, SHAKE);
    uint64_t held = 0;
    unsigned count = 0;
    while (true) {
#pragma unroll
        for (unsigned word = 0; word < RATE_256 / 8; word++) {
            uint64_t bits = s[word];
#pragma unroll 1
            for (unsigned i = 0; i < 16; i++, bits >>= 4) {
                const uint32_t half = static_cast<uint32_t>(bits) & 15;
                // CoeffFromHalfByte (Algorithm 15): 2 - (b mod 5) of b < 15, or 4 - b of b < 9.
                uint32_t value = P::ETA == 2 ? half - 5 * (205 * half >> 10) : half;
                uint32_t accepted = mask_if_below(half, P::ETA == 2 ? 15 : 9);
                // Public: that a half byte was refused, which is independent of those that were not.
                GABION_DECLASSIFY(&accepted, sizeof accepted);
                if (accepted == 0 || count == N)
                    continue;
                held = held >> 4 | static_cast<uint64_t>(value) << 60;
                count++;
                if (count % 16 == 0)
                    store64(halves + count / 2 - 8, held);
            }
        }
        if (count == N)
            return;
        keccak_f(s);
    }
}

// s1 and s2 (ExpandS, Algorithm 33), and A-hat from rho.
template <class P> struct DsaKeygenSample : WithMatrix<P, DsaKeygenSample<P>, DsaKeyArguments> {
    static constexpr unsigned FIRST_PER_OP = P::L + P::K;
    static GABION_FN void first(const DsaKeyArguments &a, uint32_t op, uint32_t index) {
        uint32_t *halves = a.halves + (static_cast<size_t>(op) * FIRST_PER_OP + index) * WARP;
        dsa_sample_bounded<P>(a.rho_prime + 64 * static_cast<size_t>(op), index, reinterpret_cast<uint8_t *>(halves));
    }
    static GABION_FN const uint8_t *rho(const DsaKeyArguments &a, uint32_t op) { return dsa_pk<P>(a, op); }
};

// eta - s for each coefficient to s modulo q.
template <class P> GABION_FN void dsa_small_from_packed(uint32_t (&c)[LANE]) {
#pragma unroll
    for (unsigned i = 0; i < LANE; i++)
        c[i] = dsa_once(P::ETA + DSA_Q - c[i]);
}

// s1 and s2 encoded (Algorithm 24), and s1-hat (Algorithm 6, line 5).
template <class P> struct DsaKeygenTransform : PerWarp<DsaKeygenTransform<P>, DsaKeyArguments> {
    static constexpr unsigned PER_OP = P::L + P::K, STEPS = 4;
    template <unsigned STEP>
    static GABION_FN void part(const DsaKeyArguments &a, SharedPoly &shared, uint32_t op, uint32_t index,
                               unsigned thread) {
        uint32_t c[LANE];
        if (STEP == 0) {
            const uint32_t eight = a.halves[(static_cast<size_t>(op) * PER_OP + index) * WARP + thread];
#pragma unroll
            for (unsigned i = 0; i < LANE; i++)
                c[i] = eight >> (4 * i) & 15;
            uint8_t *packed = dsa_sk<P>(a, op) + P::S + P::ETA_BITS * (WARP * index + thread);
            pack_words<P::ETA_BITS, P::ETA_BITS == 4 ? 4 : 1>(c, packed);
            if (index >= P::L)
                return;
            dsa_small_from_packed<P>(c);
            scatter<Arrangement::ALONG>(shared, thread, c);
        } else if (index >= P::L) {
            return;
        } else if (STEP == 1) {
            dsa_ntt_across(shared, thread);
        } else if (STEP == 2) {
            dsa_ntt_middle(shared, thread);
        } else {
            dsa_ntt_along(shared, thread, c);
            store8(a.vectors + (static_cast<size_t>(op) * P::L + index) * N, thread, c);
        }
    }
};

// A row of t = A s1 + s2 and Power2Round of it (Algorithm 6, lines 5 and 6, and Algorithm 35): t1 into the public key;
// t0 into the private key, or compared with what is there.
template <class P, bool IS_NEW> struct DsaKeyRow : PerWarp<DsaKeyRow<P, IS_NEW>, DsaKeyArguments> {
    static constexpr unsigned PER_OP = P::K, STEPS = 4;
    template <unsigned STEP>
    static GABION_FN void part(const DsaKeyArguments &a, SharedPoly &shared, uint32_t op, uint32_t row,
                               unsigned thread) {
        uint32_t c[LANE];
        if (STEP == 0) {
            DsaSum sum;
            dsa_row_product<P>(DsaKey<P>(a.keys[op]), a.vectors + static_cast<size_t>(op) * P::L * N, row, thread, sum);
            sum.finish(c);
            dsa_inverse_along(shared, thread, c);
        } else if (STEP == 1) {
            dsa_inverse_middle(shared, thread);
        } else if (STEP == 2) {
            dsa_inverse_across(shared, thread);
        } else {
            gather<Arrangement::ALONG>(shared, thread, c);
            round(a, op, row, thread, c);
        }
    }

  private:
    static GABION_FN void round(const DsaKeyArguments &a, uint32_t op, uint32_t row, unsigned thread,
                                uint32_t (&c)[LANE]) {
        uint8_t *sk = dsa_sk<P>(a, op);
        uint32_t s2[LANE], low[LANE];
        unpack_words<P::ETA_BITS, P::ETA_BITS == 4 ? 4 : 1>(sk + P::S + P::ETA_BITS * (WARP * (P::L + row) + thread),
                                                            s2);
        dsa_small_from_packed<P>(s2);
#pragma unroll
        for (unsigned i = 0; i < LANE; i++) {
            const uint32_t t = dsa_once(c[i] + s2[i]);
            c[i] = (t + 4095) >> 13;
            low[i] = 4096 + (c[i] << 13) - t; // 2^(d-1) - t0
        }
        uint8_t *t1 = dsa_pk<P>(a, op) + 32 + 10 * (WARP * row + thread);
        pack_words<10, 2>(c, t1);
        GABION_DECLASSIFY(t1, 10); // t1 is published.
        uint8_t *t0 = sk + P::T0 + 13 * (WARP * row + thread);
        if (IS_NEW) {
            pack_words<13, 1>(low, t0);
        } else {
            uint32_t given[LANE], difference = 0;
            unpack_words<13, 1>(t0, given);
#pragma unroll
            for (unsigned i = 0; i < LANE; i++)
                difference |= given[i] ^ low[i];
            add_together(a.faults + op, 1 + mask_if_zero(difference));
        }
    }
};

// tr = H(pk, 64) (Algorithm 6, line 9), and the end of it.
template <class P> struct DsaKeygenFinish : PerThread<DsaKeygenFinish<P>, DsaKeyArguments> {
    static constexpr unsigned PER_OP = 1;
    static GABION_FN void run(const DsaKeyArguments &a, uint32_t op, uint32_t) {
        shake256<64>(Words{dsa_pk<P>(a, op), P::PK}, dsa_sk<P>(a, op) + 64);
        a.status[op] = status_word(OK, a.generation);
    }
};

// --- Expansion ------------------------------------------------------------------------------------------------------

// tr = H(pk) (Algorithm 8, line 6), and A-hat from rho.
template <class P> struct DsaExpandPublic : WithMatrix<P, DsaExpandPublic<P>, DsaKeyArguments> {
    static constexpr unsigned FIRST_PER_OP = 1;
    static GABION_FN void first(const DsaKeyArguments &a, uint32_t op, uint32_t) {
        const DsaKey<P> key(a.keys[op]);
        shake256<64>(Words{dsa_given_pk<P>(a, op), P::PK}, key.tr());
        *key.is_key() = 1;
    }
    static GABION_FN const uint8_t *rho(const DsaKeyArguments &a, uint32_t op) { return dsa_given_pk<P>(a, op); }
};

// t1 2^d in the NTT domain (Algorithm 8, line 9). It is the last kernel of an expansion.
template <class P> struct DsaPublicTransform : PerWarp<DsaPublicTransform<P>, DsaKeyArguments> {
    static constexpr unsigned PER_OP = P::K, STEPS = 4;
    template <unsigned STEP>
    static GABION_FN void part(const DsaKeyArguments &a, SharedPoly &shared, uint32_t op, uint32_t row,
                               unsigned thread) {
        uint32_t c[LANE];
        if (STEP == 0) {
            unpack_words<10, 2>(dsa_given_pk<P>(a, op) + 32 + 10 * (WARP * row + thread), c);
#pragma unroll
            for (unsigned i = 0; i < LANE; i++)
                c[i] <<= 13;
            scatter<Arrangement::ALONG>(shared, thread, c);
        } else if (STEP == 1) {
            dsa_ntt_across(shared, thread);
        } else if (STEP == 2) {
            dsa_ntt_middle(shared, thread);
        } else {
            dsa_ntt_along(shared, thread, c);
            store8(DsaKey<P>(a.keys[op]).poly(row), thread, c);
            if (row + 1 == P::K && thread == 0)
                a.status[op] = status_word(OK, a.generation);
        }
    }
};

// The seeds of a private key, and A-hat from rho.
template <class P> struct DsaExpandPrivate : WithMatrix<P, DsaExpandPrivate<P>, DsaKeyArguments> {
    static constexpr unsigned FIRST_PER_OP = 1;
    static GABION_FN void first(const DsaKeyArguments &a, uint32_t op, uint32_t) {
        const DsaKey<P> key(a.keys[op]);
        const uint8_t *sk = dsa_sk<P>(a, op);
        uint8_t *pk = dsa_pk<P>(a, op);
        GABION_DECLASSIFY(sk, 32); // rho and tr are public: one is part of the public key, the other a hash of it.
        GABION_DECLASSIFY(sk + 64, 64);
#pragma unroll
        for (unsigned i = 0; i < 32; i += 8) {
            store64(pk + i, load64(sk + i));
            store64(key.k_seed() + i, load64(sk + 32 + i));
        }
#pragma unroll
        for (unsigned i = 0; i < 64; i += 8)
            store64(key.tr() + i, load64(sk + 64 + i));
        a.faults[op] = 0;
    }
    static GABION_FN const uint8_t *rho(const DsaKeyArguments &a, uint32_t op) {
        GABION_DECLASSIFY(dsa_sk<P>(a, op), 32);
        return dsa_sk<P>(a, op);
    }
};

// s1-hat for the check; s1-hat and s2-hat in pairs and t0-hat for the expanded key (Algorithm 7, lines 2 to 4); whether
// s1 and s2 are in range (Algorithm 25, whose BitUnpack may give other values for bytes that no key has).
template <class P> struct DsaPrivateTransform : PerWarp<DsaPrivateTransform<P>, DsaKeyArguments> {
    // Where s2's pairs and t0 begin among the jobs.
    static constexpr unsigned S2 = P::L + P::S1_PAIRS, T0 = S2 + P::S2_PAIRS;
    static constexpr unsigned PER_OP = T0 + P::K, STEPS = 4;
    template <unsigned STEP>
    static GABION_FN void part(const DsaKeyArguments &a, SharedPoly &shared, uint32_t op, uint32_t index,
                               unsigned thread) {
        uint32_t c[LANE];
        if (STEP == 0) {
            decode(a, op, index, thread, c);
            scatter<Arrangement::ALONG>(shared, thread, c);
        } else if (STEP == 1) {
            dsa_ntt_across(shared, thread);
        } else if (STEP == 2) {
            dsa_ntt_middle(shared, thread);
        } else {
            dsa_ntt_along(shared, thread, c);
            uint32_t *poly = index < P::L ? a.vectors + (static_cast<size_t>(op) * P::L + index) * N
                                          : DsaKey<P>(a.keys[op]).poly(index - P::L);
            store8(poly, thread, c);
        }
    }

  private:
    static GABION_FN void decode(const DsaKeyArguments &a, uint32_t op, uint32_t index, unsigned thread,
                                 uint32_t (&c)[LANE]) {
        const uint8_t *sk = dsa_sk<P>(a, op);
        if (index >= T0) {
            unpack_words<13, 1>(sk + P::T0 + 13 * (WARP * (index - T0) + thread), c);
#pragma unroll
            for (unsigned i = 0; i < LANE; i++)
                c[i] = dsa_once(4096 + DSA_Q - c[i]);
            return;
        }
        // The polynomial itself, or the first of a pair; among those of s1 and s2.
        const uint32_t first = index < P::L ? index : index < S2 ? 2 * (index - P::L) : P::L + 2 * (index - S2);
        uint32_t out_of_range = small(sk, first, thread, c);
        if (index >= P::L && (index >= S2 || first + 1 < P::L)) {
            uint32_t second[LANE];
            out_of_range |= small(sk, first + 1, thread, second);
#pragma unroll
            for (unsigned i = 0; i < LANE; i++)
                c[i] = dsa_once(513 * P::ETA + DSA_Q - (c[i] + 512 * second[i]));
        } else {
            dsa_small_from_packed<P>(c);
        }
        add_together(a.faults + op, out_of_range);
    }

    // eta - s for eight coefficients of s1 or s2, and whether one is out of range.
    static GABION_FN uint32_t small(const uint8_t *sk, uint32_t index, unsigned thread, uint32_t (&c)[LANE]) {
        unpack_words<P::ETA_BITS, P::ETA_BITS == 4 ? 4 : 1>(sk + P::S + P::ETA_BITS * (WARP * index + thread), c);
        uint32_t above = 0;
#pragma unroll
        for (unsigned i = 0; i < LANE; i++)
            above |= mask_if_below(2 * P::ETA, c[i]);
        return above & 1;
    }
};

// Whether tr is the hash of the public key that follows from s1 and s2, and whether it is a key at all.
template <class P> struct DsaExpandFinish : PerThread<DsaExpandFinish<P>, DsaKeyArguments> {
    static constexpr unsigned PER_OP = 1;
    static GABION_FN void run(const DsaKeyArguments &a, uint32_t op, uint32_t) {
        const DsaKey<P> key(a.keys[op]);
        uint64_t s[25];
        absorb<RATE_256>(s, Words{dsa_pk<P>(a, op), P::PK}, SHAKE);
        uint64_t difference = 0;
#pragma unroll
        for (unsigned i = 0; i < 8; i++)
            difference |= s[i] ^ load64(key.tr() + 8 * i);
        // Whether a private key is one is public, and where it fails is not.
        uint32_t is_key = 0 - mask_if_zero(a.faults[op] | static_cast<uint32_t>(difference | difference >> 32));
        GABION_DECLASSIFY(&is_key, sizeof is_key);
        *key.is_key() = is_key;
        a.status[op] = status_word(is_key != 0 ? OK : INVALID_KEY, a.generation);
    }
};

} // namespace gabion
