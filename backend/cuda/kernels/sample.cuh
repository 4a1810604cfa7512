// Uniform coefficients by rejection from a sponge (FIPS 203, Algorithm 7; FIPS 204, Algorithm 30), one thread a polynomial.
//
// What is accepted goes to a place that no compiler knows. So each candidate is written into a buffer of the thread's in
// shared memory, at a cursor that moves on if it is accepted; and after each block of the sponge whole pieces of sixteen
// bytes go from there to the polynomial. There is no branch a candidate, and no short store to global memory.
#pragma once

#include "sponge.cuh"
#include "transform.cuh"

namespace gabion {

// Candidates of one block of SHAKE128 beside a piece that is not whole: 240 bytes. Threads of a warp that access pieces at
// the same offset in their buffers hit different banks.
template <class Coefficient, unsigned BITS> struct Sieve {
    static constexpr unsigned PIECE = 16 / sizeof(Coefficient), CANDIDATES = 8 * RATE_SHAKE128 / BITS;
    alignas(16) Coefficient held[CANDIDATES + PIECE];
};

// Fills a polynomial with candidates of `BITS` bits, of which those in `MASK` count, below `Q`. `a` is the state of SHAKE128
// whose first block is there. Time depends on what the sponge gives, which is public.
template <uint32_t Q, uint32_t MASK, unsigned BITS, class Coefficient>
GABION_FN void sample_uniform_vartime(uint64_t (&a)[25], Sieve<Coefficient, BITS> &sieve, Coefficient *poly) {
    constexpr unsigned PIECE = Sieve<Coefficient, BITS>::PIECE;
    unsigned done = 0, held = 0;
    while (true) {
#pragma unroll
        for (unsigned i = 0; i < Sieve<Coefficient, BITS>::CANDIDATES; i++) {
            const unsigned bit = BITS * i, word = bit / 64, shift = bit % 64;
            uint64_t bits = a[word] >> shift;
            if (shift + BITS > 64)
                bits |= a[word + 1] << (64 - shift);
            const uint32_t candidate = static_cast<uint32_t>(bits) & MASK;
            sieve.held[held] = static_cast<Coefficient>(candidate);
            held += candidate < Q ? 1 : 0;
        }
        unsigned from = 0;
#pragma unroll 1
        for (; from + PIECE <= held && done < N; from += PIECE, done += PIECE)
            store128(poly + done, load128(sieve.held + from));
        if (done == N)
            return;
        store128(sieve.held, load128(sieve.held + from));
        held -= from;
        keccak_f(a);
    }
}

} // namespace gabion
