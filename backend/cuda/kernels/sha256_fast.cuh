// SHA-256 (FIPS 180-4, section 6.2) with all 64 rounds unrolled: for one-block messages whose words are in registers.
//
// A round is 10 instructions of a device's ALU (6 rotations, 4 functions of three words), a word of the schedule 8:
// 64 * 10 + 48 * 8 = 1024 a block. The sums, 64 * 7 + 48 * 3 + 8, are multiplications by one: those go through another
// pipe, which is as fast as the ALU and otherwise idle. With sums of the ALU a block is 1384. Constants are part of
// instructions. What a compiler knows of a block it works out beforehand: words that are zero, or all of a block of
// padding. The code is 25 KB a block, so it stands where it runs often, and sha2.cuh's, which is rolled, everywhere else.
#pragma once

#include "sha2.cuh"

namespace gabion {

// One. No compiler knows, since whoever launches a kernel could change it: else products by it would be sums of the ALU.
#if defined(__CUDACC__)
__constant__ uint32_t DEVICE_ONE = 1;
#endif

// Sums by way of a device's pipe for products.
GABION_FN uint32_t sum_by_products(uint32_t a) { return a; }
template <class... More> GABION_FN uint32_t sum_by_products(uint32_t a, uint32_t b, More... more) {
#if defined(__CUDA_ARCH__)
    return sum_by_products(a * DEVICE_ONE + b, more...);
#else
    return sum_by_products(a + b, more...);
#endif
}

// The working variables a to h between two rounds, or a hash value.
struct Sha256State {
    uint32_t of[8];
};

// The value before the first block (section 5.3.3).
GABION_FN Sha256State sha256_start() {
    constexpr uint32_t H0 = SHA2_CONSTANTS.h[0] >> 32, H1 = SHA2_CONSTANTS.h[1] >> 32, H2 = SHA2_CONSTANTS.h[2] >> 32,
                       H3 = SHA2_CONSTANTS.h[3] >> 32, H4 = SHA2_CONSTANTS.h[4] >> 32, H5 = SHA2_CONSTANTS.h[5] >> 32,
                       H6 = SHA2_CONSTANTS.h[6] >> 32, H7 = SHA2_CONSTANTS.h[7] >> 32;
    return Sha256State{{H0, H1, H2, H3, H4, H5, H6, H7}};
}

// Rounds `FROM` to `TO` - 1. Before round t of the first sixteen, w[t] is the block's word; from then on w has the last
// sixteen words of the schedule. So rounds whose words are known early can run early, and others go on from there.
template <unsigned FROM, unsigned TO> GABION_FN void sha256_rounds(Sha256State &s, uint32_t (&w)[16]) {
    static_assert(FROM <= TO && TO <= 64, "rounds");
    if constexpr (FROM < TO) {
        constexpr uint32_t K = SHA2_CONSTANTS.k[FROM] >> 32;
        constexpr unsigned T = FROM % 16;
        if constexpr (FROM >= 16)
            w[T] = sum_by_products(w[T], w[(T + 9) % 16], Sha256::next0(w[(T + 1) % 16]), Sha256::next1(w[(T + 14) % 16]));
        const uint32_t a = s.of[0], b = s.of[1], c = s.of[2], e = s.of[4], f = s.of[5], g = s.of[6];
        const uint32_t t1 = sum_by_products(w[T], K, s.of[7], (e & f) ^ (~e & g), Sha256::sum1(e));
        const uint32_t t2 = sum_by_products(Sha256::sum0(a), (a & b) ^ (a & c) ^ (b & c));
        s = Sha256State{{sum_by_products(t1, t2), a, b, c, sum_by_products(s.of[3], t1), e, f, g}};
        sha256_rounds<FROM + 1, TO>(s, w);
    }
}

// Adds the value before a block to what its rounds came to (section 6.2.2, step 4).
GABION_FN void sha256_add(Sha256State &s, const Sha256State &before) {
#pragma unroll
    for (unsigned i = 0; i < 8; i++)
        s.of[i] += before.of[i];
}

// The hash value after a block. `w` is used up.
GABION_FN void sha256_block(Sha256State &h, uint32_t (&w)[16]) {
    const Sha256State before = h;
    sha256_rounds<0, 64>(h, w);
    sha256_add(h, before);
}

} // namespace gabion
