// Keccak-f[1600] (FIPS 202, section 3.3), one thread a sponge, the state in registers.
//
// A round is 20 + 50 (theta), 48 (rho) and 50 (chi) instructions of a device's ALU, each on half a lane of the state,
// 10 for the rotations in theta, and 2 for iota: 180, and so 4320 a permutation. script/cuda counts them.
#pragma once

#include "platform.cuh"

namespace gabion {

// FIPS 202, section 3.2.5: the round constants, by the shift register that rc(t) describes.
struct RoundConstants {
    uint64_t of[24];
    constexpr RoundConstants() : of() {
        uint32_t r = 1;
        for (unsigned round = 0; round < 24; round++) {
            of[round] = 0;
            for (unsigned j = 0; j <= 6; j++) {
                of[round] |= static_cast<uint64_t>(r & 1) << ((1u << j) - 1);
                r = r << 1 ^ (r >> 7) * 0x171;
            }
        }
    }
};

#if defined(__CUDACC__)
__constant__ const RoundConstants DEVICE_ROUND_CONSTANTS;
#endif
static constexpr RoundConstants ROUND_CONSTANTS;

GABION_FN uint64_t round_constant(unsigned round) {
#if defined(__CUDA_ARCH__)
    return DEVICE_ROUND_CONSTANTS.of[round];
#else
    return ROUND_CONSTANTS.of[round];
#endif
}

// One round. Lane (x, y) is a[x + 5 y]. Rho and pi together go around a circle of 24 lanes.
GABION_FN void keccak_round(uint64_t (&a)[25], uint64_t constant) {
    uint64_t c[5], d[5], b[25];
#pragma unroll
    for (unsigned x = 0; x < 5; x++)
        c[x] = xor3(xor3(a[x], a[x + 5], a[x + 10]), a[x + 15], a[x + 20]);
#pragma unroll
    for (unsigned x = 0; x < 5; x++)
        d[x] = rotate<1>(c[(x + 1) % 5]);
#pragma unroll
    for (unsigned i = 0; i < 25; i++)
        a[i] = xor3(a[i], c[(i + 4) % 5], d[i % 5]);
    // b[y, 2 x + 3 y] = a[x, y] rotated (sections 3.2.2 and 3.2.3).
    b[0] = a[0];
    b[10] = rotate<1>(a[1]);
    b[20] = rotate<62>(a[2]);
    b[5] = rotate<28>(a[3]);
    b[15] = rotate<27>(a[4]);
    b[16] = rotate<36>(a[5]);
    b[1] = rotate<44>(a[6]);
    b[11] = rotate<6>(a[7]);
    b[21] = rotate<55>(a[8]);
    b[6] = rotate<20>(a[9]);
    b[7] = rotate<3>(a[10]);
    b[17] = rotate<10>(a[11]);
    b[2] = rotate<43>(a[12]);
    b[12] = rotate<25>(a[13]);
    b[22] = rotate<39>(a[14]);
    b[23] = rotate<41>(a[15]);
    b[8] = rotate<45>(a[16]);
    b[18] = rotate<15>(a[17]);
    b[3] = rotate<21>(a[18]);
    b[13] = rotate<8>(a[19]);
    b[14] = rotate<18>(a[20]);
    b[24] = rotate<2>(a[21]);
    b[9] = rotate<61>(a[22]);
    b[19] = rotate<56>(a[23]);
    b[4] = rotate<14>(a[24]);
#pragma unroll
    for (unsigned y = 0; y < 25; y += 5)
#pragma unroll
        for (unsigned x = 0; x < 5; x++)
            a[y + x] = chi(b[y + x], b[y + (x + 1) % 5], b[y + (x + 2) % 5]);
    a[0] ^= constant;
}

// The permutation. Rolled: its 24 rounds unrolled are 69 KB of code, more than an instruction cache holds.
GABION_FN void keccak_f(uint64_t (&a)[25]) {
#pragma unroll 1
    for (unsigned round = 0; round < 24; round += 2) {
        keccak_round(a, round_constant(round));
        keccak_round(a, round_constant(round + 1));
    }
}

} // namespace gabion
