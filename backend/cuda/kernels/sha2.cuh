// SHA-256 and SHA-512 (FIPS 180-4), one thread a message.
#pragma once

#include "platform.cuh"

namespace gabion {

// FIPS 180-4, sections 4.2.2, 4.2.3 and 5.3: the first bits of the fractional parts of roots of the first primes,
// by integer arithmetic at compile time.
struct Sha2Constants {
    uint64_t k[80];
    uint64_t h[8];

    // floor(sqrt(p) 2^64) modulo 2^64, bit by bit: the largest x with x^2 <= p 2^128.
    static constexpr uint64_t square_root(uint32_t p) {
        unsigned __int128 root = 0;
        for (int bit = 68; bit >= 0; bit--) {
            const unsigned __int128 x = root | static_cast<unsigned __int128>(1) << bit;
            if (!exceeds_square(x, p))
                root = x;
        }
        return static_cast<uint64_t>(root);
    }
    // floor(cbrt(p) 2^64) modulo 2^64: the largest x with x^3 <= p 2^192.
    static constexpr uint64_t cube_root(uint32_t p) {
        unsigned __int128 root = 0;
        for (int bit = 67; bit >= 0; bit--) {
            const unsigned __int128 x = root | static_cast<unsigned __int128>(1) << bit;
            if (!exceeds_cube(x, p))
                root = x;
        }
        return static_cast<uint64_t>(root);
    }

    constexpr Sha2Constants() : k(), h() {
        unsigned found = 0;
        for (uint32_t n = 2; found < 80; n++) {
            bool prime = true;
            for (uint32_t d = 2; d * d <= n; d++)
                prime = prime && n % d != 0;
            if (!prime)
                continue;
            if (found < 8)
                h[found] = square_root(n);
            k[found++] = cube_root(n);
        }
    }

  private:
    // Numbers of 32-bit limbs, the lowest first.
    struct Wide {
        uint32_t limb[8];
        constexpr Wide() : limb() {}
        constexpr explicit Wide(unsigned __int128 x) : limb() {
            for (unsigned i = 0; i < 4; i++)
                limb[i] = static_cast<uint32_t>(x >> (32 * i));
        }
        // By a number of three limbs at most, the product having seven at most.
        constexpr Wide times(const Wide &other) const {
            Wide product;
            for (unsigned i = 0; i < 5; i++) {
                uint64_t carry = 0;
                for (unsigned j = 0; j < 3; j++) {
                    carry += static_cast<uint64_t>(limb[i]) * other.limb[j] + product.limb[i + j];
                    product.limb[i + j] = static_cast<uint32_t>(carry);
                    carry >>= 32;
                }
                product.limb[i + 3] = static_cast<uint32_t>(carry);
            }
            return product;
        }
        // Whether it is above p 2^(32 shift).
        constexpr bool above(uint32_t p, unsigned shift) const {
            for (unsigned i = 8; i-- > 0;) {
                const uint32_t bound = i == shift ? p : 0;
                if (limb[i] != bound)
                    return limb[i] > bound;
            }
            return false;
        }
    };
    static constexpr bool exceeds_square(unsigned __int128 x, uint32_t p) {
        return Wide(x).times(Wide(x)).above(p, 4);
    }
    static constexpr bool exceeds_cube(unsigned __int128 x, uint32_t p) {
        return Wide(x).times(Wide(x)).times(Wide(x)).above(p, 6);
    }
};

static constexpr Sha2Constants SHA2_CONSTANTS;
#if defined(__CUDACC__)
__constant__ const Sha2Constants DEVICE_SHA2_CONSTANTS;
#endif

GABION_FN const Sha2Constants &sha2_constants() {
#if defined(__CUDA_ARCH__)
    return DEVICE_SHA2_CONSTANTS;
#else
    return SHA2_CONSTANTS;
#endif
}

// To the right by `N` bits, 0 < N < the word's width.
template <unsigned N> GABION_FN uint32_t rotate_right(uint32_t a) { return a >> N | a << (32 - N); }
template <unsigned N> GABION_FN uint64_t rotate_right(uint64_t a) { return rotate<64 - N>(a); }

// What differs between the two (FIPS 180-4, sections 4.1.2, 4.1.3, 6.2 and 6.4).
struct Sha256 {
    using Word = uint32_t;
    static constexpr unsigned ROUNDS = 64, BLOCK_BYTES = 64;
    GABION_FN static Word k(unsigned round) { return static_cast<Word>(sha2_constants().k[round] >> 32); }
    GABION_FN static Word h(unsigned i) { return static_cast<Word>(sha2_constants().h[i] >> 32); }
    GABION_FN static Word sum0(Word x) { return rotate_right<2>(x) ^ rotate_right<13>(x) ^ rotate_right<22>(x); }
    GABION_FN static Word sum1(Word x) { return rotate_right<6>(x) ^ rotate_right<11>(x) ^ rotate_right<25>(x); }
    GABION_FN static Word next0(Word x) { return rotate_right<7>(x) ^ rotate_right<18>(x) ^ x >> 3; }
    GABION_FN static Word next1(Word x) { return rotate_right<17>(x) ^ rotate_right<19>(x) ^ x >> 10; }
};
struct Sha512 {
    using Word = uint64_t;
    static constexpr unsigned ROUNDS = 80, BLOCK_BYTES = 128;
    GABION_FN static Word k(unsigned round) { return sha2_constants().k[round]; }
    GABION_FN static Word h(unsigned i) { return sha2_constants().h[i]; }
    GABION_FN static Word sum0(Word x) { return rotate_right<28>(x) ^ rotate_right<34>(x) ^ rotate_right<39>(x); }
    GABION_FN static Word sum1(Word x) { return rotate_right<14>(x) ^ rotate_right<18>(x) ^ rotate_right<41>(x); }
    GABION_FN static Word next0(Word x) { return rotate_right<1>(x) ^ rotate_right<8>(x) ^ x >> 7; }
    GABION_FN static Word next1(Word x) { return rotate_right<19>(x) ^ rotate_right<61>(x) ^ x >> 6; }
};

// The compression function. Sixteen words of the schedule are kept, in registers: the rounds are unrolled by sixteen.
template <class Hash> GABION_FN void compress(typename Hash::Word (&h)[8], typename Hash::Word (&w)[16]) {
    using Word = typename Hash::Word;
    Word a = h[0], b = h[1], c = h[2], d = h[3], e = h[4], f = h[5], g = h[6], i = h[7];
#pragma unroll 1
    for (unsigned base = 0; base < Hash::ROUNDS; base += 16) {
#pragma unroll
        for (unsigned t = 0; t < 16; t++) {
            const Word t1 = i + Hash::sum1(e) + ((e & f) ^ (~e & g)) + Hash::k(base + t) + w[t];
            const Word t2 = Hash::sum0(a) + ((a & b) ^ (a & c) ^ (b & c));
            i = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
            // The word sixteen rounds on; after the last sixteen rounds nobody reads it.
            w[t] += w[(t + 9) % 16] + Hash::next0(w[(t + 1) % 16]) + Hash::next1(w[(t + 14) % 16]);
        }
    }
    h[0] += a, h[1] += b, h[2] += c, h[3] += d, h[4] += e, h[5] += f, h[6] += g, h[7] += i;
}

// Hashes a string; `out` has eight words, the highest byte of each first.
template <class Hash> GABION_FN void sha2(const uint8_t *message, uint32_t length, uint8_t *out) {
    using Word = typename Hash::Word;
    constexpr unsigned WIDTH = sizeof(Word);
    Word h[8], w[16];
#pragma unroll
    for (unsigned i = 0; i < 8; i++)
        h[i] = Hash::h(i);
    // A one bit, zeros, and the length in bits in two words (section 5.1).
    const uint32_t blocks = (length + 2 * WIDTH) / Hash::BLOCK_BYTES + 1;
#pragma unroll 1
    for (uint32_t block = 0; block < blocks; block++) {
#pragma unroll
        for (unsigned t = 0; t < 16; t++) {
            w[t] = 0;
#pragma unroll
            for (unsigned i = 0; i < WIDTH; i++) {
                const uint32_t at = block * Hash::BLOCK_BYTES + t * WIDTH + i;
                const uint8_t byte = at < length ? message[at] : at == length ? 0x80 : 0;
                w[t] |= static_cast<Word>(byte) << (8 * (WIDTH - 1 - i));
            }
        }
        if (block + 1 == blocks) {
            const uint64_t bits = static_cast<uint64_t>(length) * 8;
            w[15] |= static_cast<Word>(bits);
            if (WIDTH == 4)
                w[14] |= static_cast<Word>(bits >> 32);
        }
        compress<Hash>(h, w);
    }
#pragma unroll
    for (unsigned t = 0; t < 8; t++)
#pragma unroll
        for (unsigned i = 0; i < WIDTH; i++)
            out[t * WIDTH + i] = static_cast<uint8_t>(h[t] >> (8 * (WIDTH - 1 - i)));
}

} // namespace gabion
