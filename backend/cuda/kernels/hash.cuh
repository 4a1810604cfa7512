// Hashes by themselves, one thread a message: what they are tested and measured by.
#pragma once

#include "frame.cuh"
#include "sha2.cuh"
#include "sponge.cuh"

namespace gabion {

// Messages of one length, one after the other; outputs likewise.
struct HashArguments {
    const uint8_t *messages; // or states of Keccak, 200 bytes each, which change in place
    uint8_t *out;
    uint32_t length;
    uint32_t n;
};

// Keccak-f[1600] of states in memory. With its loads and stores this is the kernel whose instructions are counted.
struct KeccakF : PerThread<KeccakF, HashArguments> {
    static constexpr unsigned PER_OP = 1;
    static GABION_FN void run(const HashArguments &arguments, uint32_t op, uint32_t) {
        uint64_t a[25];
#pragma unroll
        for (unsigned i = 0; i < 25; i++)
            a[i] = load64(arguments.messages + 200 * static_cast<size_t>(op) + 8 * i);
        keccak_f(a);
#pragma unroll
        for (unsigned i = 0; i < 25; i++)
            store64(arguments.out + 200 * static_cast<size_t>(op) + 8 * i, a[i]);
    }
};

// `length` permutations of each state, one after the other: what the arithmetic alone takes, with 400 bytes of memory a state.
struct KeccakRepeated : PerThread<KeccakRepeated, HashArguments> {
    static constexpr unsigned PER_OP = 1;
    static GABION_FN void run(const HashArguments &arguments, uint32_t op, uint32_t) {
        uint64_t a[25];
#pragma unroll
        for (unsigned i = 0; i < 25; i++)
            a[i] = load64(arguments.messages + 200 * static_cast<size_t>(op) + 8 * i);
#pragma unroll 1
        for (uint32_t i = 0; i < arguments.length; i++)
            keccak_f(a);
#pragma unroll
        for (unsigned i = 0; i < 25; i++)
            store64(arguments.out + 200 * static_cast<size_t>(op) + 8 * i, a[i]);
    }
};

// `length` compressions of SHA-256 of a state of 32 bytes, each one of the block that is the state twice, words as they lie
// in memory. Likewise.
struct Sha256Repeated : PerThread<Sha256Repeated, HashArguments> {
    static constexpr unsigned PER_OP = 1;
    static GABION_FN void run(const HashArguments &arguments, uint32_t op, uint32_t) {
        uint32_t h[8], w[16];
#pragma unroll
        for (unsigned i = 0; i < 8; i += 2) {
            const uint64_t both = load64(arguments.messages + 32 * static_cast<size_t>(op) + 4 * i);
            h[i] = static_cast<uint32_t>(both), h[i + 1] = static_cast<uint32_t>(both >> 32);
        }
#pragma unroll 1
        for (uint32_t i = 0; i < arguments.length; i++) {
#pragma unroll
            for (unsigned t = 0; t < 16; t++)
                w[t] = h[t % 8];
            compress<Sha256>(h, w);
        }
#pragma unroll
        for (unsigned i = 0; i < 8; i += 2)
            store64(arguments.out + 32 * static_cast<size_t>(op) + 4 * i, static_cast<uint64_t>(h[i + 1]) << 32 | h[i]);
    }
};

// SHA3-256, SHA3-512, SHAKE128 and SHAKE256 with 32 or 64 bytes of output.
template <unsigned RATE, uint64_t DOMAIN_BITS, unsigned LENGTH>
struct HashSponge : PerThread<HashSponge<RATE, DOMAIN_BITS, LENGTH>, HashArguments> {
    static constexpr unsigned PER_OP = 1;
    static GABION_FN void run(const HashArguments &arguments, uint32_t op, uint32_t) {
        const uint8_t *message = arguments.messages + arguments.length * static_cast<size_t>(op);
        uint64_t a[25];
        absorb<RATE>(a, TwoStrings{message, arguments.length, message, 0}, DOMAIN_BITS);
        squeeze<LENGTH>(a, arguments.out + LENGTH * static_cast<size_t>(op));
    }
};

template <class Hash> struct HashSha2 : PerThread<HashSha2<Hash>, HashArguments> {
    static constexpr unsigned PER_OP = 1;
    static GABION_FN void run(const HashArguments &arguments, uint32_t op, uint32_t) {
        sha2<Hash>(arguments.messages + arguments.length * static_cast<size_t>(op), arguments.length,
                   arguments.out + 8 * sizeof(typename Hash::Word) * static_cast<size_t>(op));
    }
};

} // namespace gabion
