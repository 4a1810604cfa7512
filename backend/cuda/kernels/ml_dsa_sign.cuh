// ML-DSA: signing by expanded private keys (ml_dsa_keys.cuh). Algorithm 7's loop is a queue on the device:
//
//   SignHash (thread an op): mu, rho'', the op into the queue
//   a round: SignMask (thread a polynomial of y) -> SignMaskTransform (warp a polynomial) -> SignRow (warp a row of w)
//            -> SignChallenge (thread an attempt) -> SignChallengeTransform (warp an attempt)
//            -> SignLow (warp two rows: r0) -> SignResponse (warp two polynomials of z) -> SignHint (warp a row)
//            -> SignSelect (warp an op): the signature, or the op into the queue again
//
// The queue is a ring of operations. A round takes some from its front, gives each one attempt or several, and the
// first of an operation's attempts that is good, by kappa, is its signature, as in the standard's loop: so neither the
// order of the queue nor the number of attempts at once changes a signature. Ops that have none go to the queue's end.
// The host asks for a number of rounds without waiting; a round that finds less work than it has threads does less, and
// one that finds none does nothing.
//
// Each kernel of a round counts what it did for each attempt, and only an attempt for which all of it was done can be a
// signature: a launch that a device leaves out must not pass, since a mask that serves twice, or a check that was not
// made, gives the private key away.
//
// Constant time: no branch and no address depends on a secret. Public are, as in the CPU backends, c~ of every attempt
// (SampleInBall runs in variable time on it: it is a hash of w1, which hides y as it does in a signature) and whether
// an attempt is accepted, and at which of the checks r0, z, hint it fails (the distribution of a rejected coefficient
// is the same for every key: Dilithium, round 3 specification, section 5.5). z and the hint are public once they are
// accepted.
#pragma once

#include "ml_dsa.cuh"

namespace gabion {

// The work of a round: operations from `head` of the ring on, `live` in all, of which the first `active` get 2^`width`
// attempts each.
struct DsaRound {
    uint32_t head, live, active, width;
};

// Where a batch of `n` operations lies, and the attempts of a round. Signatures stand one after the other; what else is
// an address is a multiple of 16.
struct DsaSignArguments {
    const uint64_t *keys;    // of each op, where its expanded private key is
    const uint8_t *messages; // formatted messages M', zero up to multiples of 8
    const uint64_t *spans;   // of each op where M' begins in `messages`, and its length, as dsa_represent takes them
    uint8_t *mu;             // representatives, 64 bytes an op: made, or given
    const uint8_t *rnd;      // 32 bytes an op
    uint8_t *rho;            // rho'', 64 bytes an op
    uint32_t *tried;         // attempts that failed, of each op
    uint32_t *ring;          // the queue, `ring_size` ops
    DsaRound *rounds;        // before the first round, and of each
    uint32_t *appended;      // how many ops went into the queue before the first round, and in each; zero before
    uint8_t *y;              // y and then z, encoded, [attempt][l]
    uint32_t *y_hat;         // [attempt][l]
    uint32_t *w;             // w and then w - c s2, [attempt][k]
    uint8_t *commitments;    // mu and w1, encoded
    uint8_t *c_tilde;        // 64 bytes an attempt
    uint32_t *balls;         // challenges, sixteen words an attempt
    uint32_t *c_hat;         // a polynomial an attempt
    uint32_t *hints;         // a bit for each coefficient, [attempt][k][8]
    uint32_t *verdicts;      // of each attempt: 2^16 for each check that failed, and how many ones its hint has
    uint32_t *done;          // of each attempt, the jobs that were done for it in this round; zero before the first one
    uint8_t *sig;            // signatures
    uint32_t *status;        // a Verdict an op
    uint32_t n;
    uint32_t generation; // what the slot's owner tells its status words by
    uint32_t round;      // counts from 0
    uint32_t limit;      // attempts of this round, at most
    uint32_t target;     // an op gets several attempts where all of these are no more than this; at most `limit`
    uint32_t ring_size;  // at least `n` and the largest `limit` together: a round puts none where it takes others from
};

// Attempts of one op in a round, at most: 2^this.
static constexpr uint32_t DSA_WIDTH = 4;
static constexpr uint32_t DSA_REJECTED = 1 << 16;

// What round `a.round` does, from what the one before it left.
GABION_FN DsaRound dsa_next_round(const DsaSignArguments &a) {
    const DsaRound before = a.rounds[a.round];
    DsaRound round;
    round.head = before.head + before.active;
    if (round.head >= a.ring_size)
        round.head -= a.ring_size;
    round.live = before.live - before.active + a.appended[a.round];
    round.active = minimum(round.live, a.limit);
    round.width = 0;
#pragma unroll
    for (uint32_t width = 1; width <= DSA_WIDTH; width++)
        if (round.active << width <= a.target && round.active > 0)
            round.width = width;
    return round;
}
GABION_FN const DsaRound &dsa_this_round(const DsaSignArguments &a) { return a.rounds[a.round + 1]; }

// A place in the queue, `at` after its front, which is less than two rings after it.
GABION_FN uint32_t *dsa_queued(const DsaSignArguments &a, const DsaRound &round, uint32_t at) {
    uint32_t place = round.head + at;
    if (place >= a.ring_size)
        place -= a.ring_size;
    return a.ring + (place >= a.ring_size ? place - a.ring_size : place);
}
GABION_FN uint32_t dsa_op(const DsaSignArguments &a, const DsaRound &round, uint32_t attempt) {
    return *dsa_queued(a, round, attempt >> round.width);
}

// Whether an attempt failed already.
GABION_FN bool dsa_is_rejected(const DsaSignArguments &a, uint32_t attempt) {
    // Public, see above.
    GABION_DECLASSIFY(a.verdicts + attempt, sizeof(uint32_t));
    return a.verdicts[attempt] >= DSA_REJECTED;
}

// A kernel with a warp for `PER_ATTEMPT` jobs of each attempt of the round.
template <class Kernel> struct PerAttempt {
    using Arguments = DsaSignArguments;
    struct Shared {
        SharedPoly poly[WARPS];
    };
    static constexpr unsigned JOBS = WARPS;
    static constexpr bool WARPS_ARE_APART = true;
    template <unsigned STEP> static GABION_FN void step(const Arguments &a, Shared &shared, Position at) {
        const uint64_t job = static_cast<uint64_t>(at.block) * WARPS + at.thread / WARP;
        const DsaRound &round = dsa_this_round(a);
        if (job >= static_cast<uint64_t>(round.active << round.width) * Kernel::PER_ATTEMPT)
            return;
        const uint32_t attempt = static_cast<uint32_t>(job / Kernel::PER_ATTEMPT);
        Kernel::template part<STEP>(a, shared.poly[at.thread / WARP], attempt,
                                    static_cast<uint32_t>(job % Kernel::PER_ATTEMPT), at.thread % WARP);
        if (STEP + 1 == Kernel::STEPS && at.thread % WARP == 0)
            add_together(a.done + attempt, 1);
    }
};

// K || rnd || mu.
struct DsaMaskSeed {
    const uint8_t *k_seed, *rnd, *mu;
    GABION_FN uint32_t size() const { return 128; }
    GABION_FN uint64_t word(uint32_t offset) const {
        return load64(offset < 32 ? k_seed + offset : offset < 64 ? rnd + (offset - 32) : mu + (offset - 64));
    }
};

// mu, rho'' = H(K || rnd || mu, 64) (Algorithm 7, lines 6 and 7), and the op into the queue if its key is one.
template <class P> struct DsaSignHash : PerThread<DsaSignHash<P>, DsaSignArguments> {
    static constexpr unsigned PER_OP = 1;
    static GABION_FN void run(const DsaSignArguments &a, uint32_t op, uint32_t) {
        const DsaKey<P> key(a.keys[op]);
        if (*key.is_key() == 0) {
            a.status[op] = status_word(INVALID_KEY, a.generation);
            return;
        }
        uint8_t *mu = a.mu + 64 * static_cast<size_t>(op);
        dsa_represent(key.tr(), a.messages, a.spans + 2 * static_cast<size_t>(op), mu, mu);
        shake256<64>(DsaMaskSeed{key.k_seed(), a.rnd + 32 * static_cast<size_t>(op), mu},
                     a.rho + 64 * static_cast<size_t>(op));
        a.tried[op] = 0;
        a.ring[add_together(a.appended, 1)] = op;
    }
};

// The bytes of y[r] = H(rho'' || kappa + r) (ExpandMask, Algorithm 34, lines 2 to 4).
template <class P> struct DsaSignMask {
    using Arguments = DsaSignArguments;
    using Shared = Nothing;
    static constexpr unsigned STEPS = 1, JOBS = BLOCK, PER_ATTEMPT = P::L;
    template <unsigned STEP> static GABION_FN void step(const Arguments &a, Shared &, Position at) {
        const DsaRound round = dsa_next_round(a);
        if (at.block == 0 && at.thread == 0)
            a.rounds[a.round + 1] = round;
        const uint64_t job = static_cast<uint64_t>(at.block) * BLOCK + at.thread;
        if (job >= static_cast<uint64_t>(round.active << round.width) * P::L)
            return;
        const uint32_t attempt = static_cast<uint32_t>(job / P::L), r = static_cast<uint32_t>(job % P::L);
        const uint32_t op = dsa_op(a, round, attempt), number = a.tried[op] + (attempt & ((1u << round.width) - 1));
        squeeze_mask(a.rho + 64 * static_cast<size_t>(op), (number * P::L + r) & 0xffff, a.y + job * P::Z);
        add_together(a.done + attempt, 1);
    }

  private:
    static GABION_FN void squeeze_mask(const uint8_t *rho, uint32_t kappa, uint8_t *y) {
        constexpr unsigned WORDS = P::Z / 8, BLOCK_WORDS = RATE_256 / 8;
        uint64_t s[25], odd = 0; // the first of two words that are stored together
        absorb<RATE_256>(s, SeededLong{rho, kappa}, SHAKE);
#pragma unroll
        for (unsigned first = 0; first < WORDS; first += BLOCK_WORDS) {
            if (first > 0)
                keccak_f(s);
#pragma unroll
            for (unsigned i = 0; i < BLOCK_WORDS; i++) {
                if (first + i >= WORDS)
                    continue;
                if ((first + i) % 2 == 0)
                    odd = s[i];
                else
                    store_two(y + 8 * (first + i - 1), odd, s[i]);
            }
        }
    }
    static GABION_FN void store_two(uint8_t *bytes, uint64_t a, uint64_t b) {
        store4(reinterpret_cast<uint32_t *>(bytes), static_cast<uint32_t>(a), static_cast<uint32_t>(a >> 32),
               static_cast<uint32_t>(b), static_cast<uint32_t>(b >> 32));
    }
};

// y-hat (Algorithm 34, line 5, and Algorithm 7, line 12).
template <class P> struct DsaSignMaskTransform : PerAttempt<DsaSignMaskTransform<P>> {
    static constexpr unsigned PER_ATTEMPT = P::L, STEPS = 4;
    template <unsigned STEP>
    static GABION_FN void part(const DsaSignArguments &a, SharedPoly &shared, uint32_t attempt, uint32_t r,
                               unsigned thread) {
        const size_t poly = static_cast<size_t>(attempt) * P::L + r;
        uint32_t c[LANE];
        if (STEP == 0) {
            unpack_words<P::Z_BITS, P::Z_BITS == 20 ? 4 : 2>(a.y + poly * P::Z + P::Z_BITS * thread, c);
#pragma unroll
            for (unsigned i = 0; i < LANE; i++)
                c[i] = dsa_once(P::GAMMA1 + DSA_Q - c[i]);
            scatter<Arrangement::ALONG>(shared, thread, c);
        } else if (STEP == 1) {
            dsa_ntt_across(shared, thread);
        } else if (STEP == 2) {
            dsa_ntt_middle(shared, thread);
        } else {
            dsa_ntt_along(shared, thread, c);
            store8(a.y_hat + poly * N, thread, c);
        }
    }
};

// A row of w = A y, and of w1 = HighBits(w), encoded (Algorithm 7, lines 12 to 14).
template <class P> struct DsaSignRow : PerAttempt<DsaSignRow<P>> {
    static constexpr unsigned PER_ATTEMPT = P::K, STEPS = 4;
    template <unsigned STEP>
    static GABION_FN void part(const DsaSignArguments &a, SharedPoly &shared, uint32_t attempt, uint32_t row,
                               unsigned thread) {
        uint32_t c[LANE];
        if (STEP == 0) {
            const uint32_t op = dsa_op(a, dsa_this_round(a), attempt);
            DsaSum sum;
            dsa_row_product<P>(DsaKey<P>(a.keys[op]), a.y_hat + static_cast<size_t>(attempt) * P::L * N, row, thread,
                               sum);
            sum.finish(c);
            dsa_inverse_along(shared, thread, c);
        } else if (STEP == 1) {
            dsa_inverse_middle(shared, thread);
        } else if (STEP == 2) {
            dsa_inverse_across(shared, thread);
        } else {
            gather<Arrangement::ALONG>(shared, thread, c);
            store8(a.w + (static_cast<size_t>(attempt) * P::K + row) * N, thread, c);
#pragma unroll
            for (unsigned i = 0; i < LANE; i++)
                c[i] = DsaDecomposed<P>(c[i]).high;
            uint8_t *commitment = a.commitments + P::COMMITMENT * static_cast<size_t>(attempt);
            pack_words<P::W1_BITS, P::W1_BITS == 4 ? 4 : 2>(c, commitment + 64 + P::W1_BITS * (WARP * row + thread));
            if (row == 0 && thread < 8) {
                const uint32_t op = dsa_op(a, dsa_this_round(a), attempt);
                store64(commitment + 8 * thread, load64(a.mu + 64 * static_cast<size_t>(op) + 8 * thread));
            }
        }
    }
};

// c~ = H(mu || w1) and c = SampleInBall(c~) (Algorithm 7, lines 15 and 16).
template <class P> struct DsaSignChallenge {
    using Arguments = DsaSignArguments;
    using Shared = SharedBall;
    static constexpr unsigned STEPS = 1, JOBS = BLOCK, PER_ATTEMPT = 1;
    template <unsigned STEP> static GABION_FN void step(const Arguments &a, Shared &shared, Position at) {
        const DsaRound &round = dsa_this_round(a);
        const uint32_t attempt = at.block * BLOCK + at.thread;
        if (attempt >= round.active << round.width)
            return;
        uint64_t s[25];
        absorb<RATE_256>(s, Words{a.commitments + P::COMMITMENT * static_cast<size_t>(attempt), P::COMMITMENT}, SHAKE);
        GABION_DECLASSIFY(s, P::C_TILDE); // Public, see above.
        squeeze<P::C_TILDE>(s, a.c_tilde + 64 * static_cast<size_t>(attempt));
#pragma unroll
        for (unsigned i = P::C_TILDE / 8; i < 25; i++)
            s[i] = 0;
        dsa_absorb_c_tilde<P>(s);
        dsa_sample_in_ball_vartime<P>(s, shared, at.thread, a.balls + BALL_WORDS * static_cast<size_t>(attempt));
        a.verdicts[attempt] = 0;
        add_together(a.done + attempt, 1);
    }
};

// c-hat (Algorithm 7, line 17).
template <class P> struct DsaSignChallengeTransform : PerAttempt<DsaSignChallengeTransform<P>> {
    static constexpr unsigned PER_ATTEMPT = 1, STEPS = 4;
    template <unsigned STEP>
    static GABION_FN void part(const DsaSignArguments &a, SharedPoly &shared, uint32_t attempt, uint32_t,
                               unsigned thread) {
        uint32_t c[LANE];
        if (STEP == 0) {
            dsa_load_ball(a.balls + BALL_WORDS * static_cast<size_t>(attempt), thread, c);
            scatter<Arrangement::ALONG>(shared, thread, c);
        } else if (STEP == 1) {
            dsa_ntt_across(shared, thread);
        } else if (STEP == 2) {
            dsa_ntt_middle(shared, thread);
        } else {
            dsa_ntt_along(shared, thread, c);
            store8(a.c_hat + static_cast<size_t>(attempt) * N, thread, c);
        }
    }
};

// The product of c and a polynomial of the key, after steps 0 to 2 along in `shared`.
template <class P, unsigned STEP>
GABION_FN void dsa_times_challenge(const DsaSignArguments &a, SharedPoly &shared, uint32_t attempt, uint32_t index,
                                   unsigned thread) {
    if (STEP == 0) {
        const uint32_t op = dsa_op(a, dsa_this_round(a), attempt);
        uint32_t x[LANE], y[LANE];
        load8(a.c_hat + static_cast<size_t>(attempt) * N, thread, x);
        load8(DsaKey<P>(a.keys[op]).poly(index), thread, y);
        DsaSum sum;
        sum.add(x, y);
        sum.finish(x);
        dsa_inverse_along(shared, thread, x);
    } else if (STEP == 1) {
        dsa_inverse_middle(shared, thread);
    } else if (STEP == 2) {
        dsa_inverse_across(shared, thread);
    }
}

// Two rows of w - c s2, and whether r0 = LowBits of it is short enough (Algorithm 7, lines 19, 21 and 23). w0 - c s2 is
// r0 where it is short, and where it is not, r0 is neither.
template <class P> struct DsaSignLow : PerAttempt<DsaSignLow<P>> {
    static constexpr unsigned PER_ATTEMPT = P::S2_PAIRS, STEPS = 4;
    template <unsigned STEP>
    static GABION_FN void part(const DsaSignArguments &a, SharedPoly &shared, uint32_t attempt, uint32_t pair,
                               unsigned thread) {
        if (STEP < 3) {
            dsa_times_challenge<P, STEP>(a, shared, attempt, P::S1_PAIRS + pair, thread);
            return;
        }
        uint32_t c[LANE], first[LANE], second[LANE];
        gather<Arrangement::ALONG>(shared, thread, c);
        uint32_t *w = a.w + (static_cast<size_t>(attempt) * P::K + 2 * pair) * N;
        load8(w, thread, first);
        load8(w + N, thread, second);
        uint32_t is_long = 0;
#pragma unroll
        for (unsigned i = 0; i < LANE; i++) {
            int32_t x, y;
            dsa_unpair<P>(c[i], x, y);
            is_long |= subtract(first[i], x) | subtract(second[i], y);
        }
        store8(w, thread, first);
        store8(w + N, thread, second);
        add_together(a.verdicts + attempt, is_long * DSA_REJECTED);
    }

  private:
    static GABION_FN uint32_t subtract(uint32_t &w, int32_t product) {
        const uint32_t is_long = dsa_is_long(DsaDecomposed<P>(w).low - product, P::GAMMA2 - P::BETA);
        w = reduce<DSA_Q>(w + DSA_Q - static_cast<uint32_t>(product));
        return is_long;
    }
};

// Two polynomials of z = y + c s1, encoded where y was, and whether they are short enough (Algorithm 7, lines 18, 20
// and 23).
template <class P> struct DsaSignResponse : PerAttempt<DsaSignResponse<P>> {
    static constexpr unsigned PER_ATTEMPT = P::S1_PAIRS, STEPS = 4;
    template <unsigned STEP>
    static GABION_FN void part(const DsaSignArguments &a, SharedPoly &shared, uint32_t attempt, uint32_t pair,
                               unsigned thread) {
        if (dsa_is_rejected(a, attempt))
            return;
        if (STEP < 3) {
            dsa_times_challenge<P, STEP>(a, shared, attempt, pair, thread);
            return;
        }
        uint32_t c[LANE];
        int32_t x[LANE], y[LANE];
        gather<Arrangement::ALONG>(shared, thread, c);
#pragma unroll
        for (unsigned i = 0; i < LANE; i++)
            dsa_unpair<P>(c[i], x[i], y[i]);
        uint8_t *z = a.y + (static_cast<size_t>(attempt) * P::L + 2 * pair) * P::Z + P::Z_BITS * thread;
        uint32_t is_long = add(z, x);
        if (2 * pair + 1 < P::L)
            is_long |= add(z + P::Z, y);
        add_together(a.verdicts + attempt, is_long * DSA_REJECTED);
    }

  private:
    static GABION_FN uint32_t add(uint8_t *z, const int32_t (&product)[LANE]) {
        constexpr unsigned ALIGNMENT = P::Z_BITS == 20 ? 4 : 2;
        uint32_t c[LANE], is_long = 0;
        unpack_words<P::Z_BITS, ALIGNMENT>(z, c);
#pragma unroll
        for (unsigned i = 0; i < LANE; i++) {
            // gamma1 - y, and so gamma1 - z.
            c[i] -= static_cast<uint32_t>(product[i]);
            is_long |= dsa_is_long(static_cast<int32_t>(P::GAMMA1 - c[i]), P::GAMMA1 - P::BETA);
            c[i] &= (1u << P::Z_BITS) - 1;
        }
        pack_words<P::Z_BITS, ALIGNMENT>(c, z);
        return is_long;
    }
};

// A row of the hint that carries w - c s2 + c t0 back to w1, and how many ones it has (Algorithm 7, lines 25 to 28, and
// Algorithm 39).
template <class P> struct DsaSignHint : PerAttempt<DsaSignHint<P>> {
    static constexpr unsigned PER_ATTEMPT = P::K, STEPS = 4;
    template <unsigned STEP>
    static GABION_FN void part(const DsaSignArguments &a, SharedPoly &shared, uint32_t attempt, uint32_t row,
                               unsigned thread) {
        if (dsa_is_rejected(a, attempt))
            return;
        if (STEP < 3) {
            dsa_times_challenge<P, STEP>(a, shared, attempt, P::S1_PAIRS + P::S2_PAIRS + row, thread);
            return;
        }
        uint32_t c[LANE], w[LANE];
        gather<Arrangement::ALONG>(shared, thread, c);
        load8(a.w + (static_cast<size_t>(attempt) * P::K + row) * N, thread, w);
        uint32_t is_long = 0, bits = 0;
#pragma unroll
        for (unsigned i = 0; i < LANE; i++) {
            is_long |= dsa_is_long(dsa_centred(c[i]), P::GAMMA2);
            const uint32_t other = DsaDecomposed<P>(dsa_once(w[i] + c[i])).high ^ DsaDecomposed<P>(w[i]).high;
            bits |= (1 + mask_if_zero(other)) << i;
        }
        uint8_t *hints = reinterpret_cast<uint8_t *>(a.hints + (static_cast<size_t>(attempt) * P::K + row) * (N / 32));
        hints[thread] = static_cast<uint8_t>(bits);
        add_together(a.verdicts + attempt, is_long * DSA_REJECTED + count_ones(bits));
    }
};

// The signature of the first attempt that is good (sigEncode, Algorithm 26); or the op into the queue again.
template <class P> struct DsaSignSelect {
    using Arguments = DsaSignArguments;
    using Shared = Nothing;
    static constexpr unsigned STEPS = 2, JOBS = WARPS, PER_ATTEMPT = 1; // of ops, which are no more than attempts
    static constexpr bool WARPS_ARE_APART = true;
    // Of an attempt that is not rejected on the way: the jobs of all kernels from SignMask to SignHint.
    static constexpr uint32_t ALL = 2 * P::L + 2 * P::K + 2 + P::S1_PAIRS + P::S2_PAIRS;
    template <unsigned STEP> static GABION_FN void step(const Arguments &a, Shared &, Position at) {
        const DsaRound &round = dsa_this_round(a);
        const uint32_t place = at.block * WARPS + at.thread / WARP;
        if (place >= round.active)
            return;
        const uint32_t op = *dsa_queued(a, round, place), first = place << round.width,
            end = (place + 1) << round.width;
        if (STEP == 1) {
            // For the next round; no more attempts than threads.
            if (first + at.thread % WARP < end)
                a.done[first + at.thread % WARP] = 0;
            return;
        }
        uint32_t attempt = first;
        while (attempt < end && !is_good(a, attempt))
            attempt++;
        if (attempt < end) {
            write(a, op, attempt, at.thread % WARP);
        } else if (at.thread % WARP == 0) {
            a.tried[op] += end - first;
            *dsa_queued(a, round, round.live + add_together(a.appended + a.round + 1, 1)) = op;
        }
    }

  private:
    static GABION_FN bool is_good(const Arguments &a, uint32_t attempt) {
        GABION_DECLASSIFY(a.verdicts + attempt, sizeof(uint32_t)); // Public, see above.
        return a.verdicts[attempt] <= P::OMEGA && a.done[attempt] == ALL;
    }

    static GABION_FN void write(const Arguments &a, uint32_t op, uint32_t attempt, unsigned thread) {
        uint8_t *sig = a.sig + P::SIG * static_cast<size_t>(op);
        const uint8_t *c_tilde = a.c_tilde + 64 * static_cast<size_t>(attempt),
            *z = a.y + P::L * P::Z * static_cast<size_t>(attempt);
        const uint32_t *hints = a.hints + static_cast<size_t>(attempt) * P::K * (N / 32);
        GABION_DECLASSIFY(z, P::L * P::Z); // The signature.
        GABION_DECLASSIFY(hints, P::K * N / 8);
        for (unsigned i = thread; i < P::C_TILDE; i += WARP)
            sig[i] = c_tilde[i];
#pragma unroll 4
        for (unsigned i = thread; i < P::L * P::Z; i += WARP)
            sig[P::C_TILDE + i] = z[i];
        write_hint(hints, sig + P::HINT, thread);
        if (thread == 0)
            a.status[op] = status_word(OK, a.generation);
    }

    // HintBitPack (Algorithm 20). Each thread writes the positions in its words of 32 coefficients, and all count.
    static GABION_FN void write_hint(const uint32_t *hints, uint8_t *y, unsigned thread) {
        unsigned count = 0;
#pragma unroll 1
        for (unsigned word = 0; word < P::K * (N / 32); word++) {
            uint32_t bits = hints[word];
            if (word % WARP == thread) {
                unsigned index = count;
                for (unsigned j = 32 * (word % (N / 32)); bits != 0; j++, bits >>= 1)
                    if (bits & 1)
                        y[index++] = static_cast<uint8_t>(j);
            }
            count += count_ones(hints[word]);
            if (thread == 0 && word % (N / 32) == N / 32 - 1)
                y[P::OMEGA + word / (N / 32)] = static_cast<uint8_t>(count);
        }
        for (unsigned index = count + thread; index < P::OMEGA; index += WARP)
            y[index] = 0;
    }
};

} // namespace gabion
