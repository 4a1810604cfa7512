// What LMS and XMSS have in common: hashes of words in registers, and kernels whose jobs are counted at run time.
//
// A value of n bytes is n / 4 words, each as its hash reads it: the highest byte first for SHA-2, the lowest first for
// SHAKE. Messages are whole words, or become so once they are shifted; all their lengths are known to the compiler.
#pragma once

#include "frame.cuh"
#include "sha256_fast.cuh"
#include "sponge.cuh"

namespace gabion {

// A kernel with a thread for each of `Kernel::jobs(arguments)` jobs.
template <class Kernel, class Of> struct PerJob {
    using Arguments = Of;
    using Shared = Nothing;
    static constexpr unsigned STEPS = 1, JOBS = BLOCK;
    template <unsigned STEP> static GABION_FN void step(const Of &arguments, Shared &, Position at) {
        const uint64_t job = static_cast<uint64_t>(at.block) * BLOCK + at.thread;
        if (job < Kernel::jobs(arguments))
            Kernel::run(arguments, static_cast<uint32_t>(job));
    }
};

// --- Hashes ---------------------------------------------------------------------------------------------------------

// SHA-256. `FAST` unrolls every round, where it runs often.
template <bool FAST> struct WordsSha256 {
    static constexpr bool IS_SHA256 = true, IS_BIG = true;
    // The byte that ends a message, as the first byte of a word.
    static constexpr uint32_t END = 0x80000000;
    using Fast = WordsSha256<true>;

    // The hash of `BYTES` bytes, which are `m` without the byte at its end that ends it, after whole blocks of `BEFORE`
    // bytes that came to `h`.
    template <unsigned BYTES, unsigned BEFORE = 0, unsigned WORDS, unsigned OUT>
    static GABION_FN void hash(const uint32_t (&m)[WORDS], uint32_t (&out)[OUT], Sha256State h = sha256_start()) {
        constexpr unsigned BLOCKS = (BYTES + 8) / 64 + 1, LENGTH = 8 * (BYTES + BEFORE);
        static_assert(WORDS <= 16 * BLOCKS - 2 && WORDS == BYTES / 4 + 1, "a message and its end");
        uint32_t padded[16 * BLOCKS];
#pragma unroll
        for (unsigned i = 0; i < 16 * BLOCKS; i++)
            padded[i] = i < WORDS ? m[i < WORDS ? i : 0] : i + 1 == 16 * BLOCKS ? LENGTH : 0;
        if (FAST) {
#pragma unroll
            for (unsigned block = 0; block < BLOCKS; block++) {
                uint32_t w[16];
#pragma unroll
                for (unsigned t = 0; t < 16; t++)
                    w[t] = padded[16 * block + t];
                sha256_block(h, w);
            }
        } else {
#pragma unroll 1
            for (unsigned block = 0; block < BLOCKS; block++) {
                uint32_t w[16];
#pragma unroll
                for (unsigned t = 0; t < 16; t++)
                    w[t] = padded[t];
                compress<Sha256>(h.of, w);
                // What follows moves up: registers have no index.
#pragma unroll
                for (unsigned i = 0; i + 16 < 16 * BLOCKS; i++)
                    padded[i] = padded[i + 16];
            }
        }
#pragma unroll
        for (unsigned i = 0; i < OUT; i++)
            out[i] = h.of[i];
    }

    // The hash of a string at any address, into 32 bytes.
    static GABION_FN void hash_string(const uint8_t *string, uint32_t length, uint8_t *out) {
        sha2<Sha256>(string, length, out);
    }

    // The hash of words that `word` gives, so many blocks of them with the end among them, and the length in bytes.
    template <unsigned OUT, class Word>
    static GABION_FN void hash_long(const Word &word, uint32_t length, uint32_t (&out)[OUT]) {
        Sha256State h = sha256_start();
        const uint32_t blocks = (length + 8) / 64 + 1;
#pragma unroll 1
        for (uint32_t block = 0; block < blocks; block++) {
            uint32_t w[16];
#pragma unroll
            for (unsigned t = 0; t < 16; t++)
                w[t] = word(16 * block + t);
            if (block + 1 == blocks)
                w[15] = 8 * length;
            compress<Sha256>(h.of, w);
        }
#pragma unroll
        for (unsigned i = 0; i < OUT; i++)
            out[i] = h.of[i];
    }
};

// SHA-512, of the same words.
struct WordsSha512 {
    static constexpr bool IS_SHA256 = false, IS_BIG = true;
    static constexpr uint32_t END = 0x80000000;
    using Fast = WordsSha512;

    template <unsigned BYTES, unsigned WORDS, unsigned OUT>
    static GABION_FN void hash(const uint32_t (&m)[WORDS], uint32_t (&out)[OUT]) {
        constexpr unsigned BLOCKS = (BYTES + 16) / 128 + 1;
        static_assert(WORDS <= 32 * BLOCKS - 4 && WORDS == BYTES / 4 + 1, "a message and its end");
        uint64_t padded[16 * BLOCKS], h[8];
#pragma unroll
        for (unsigned i = 0; i < 8; i++)
            h[i] = Sha512::h(i);
#pragma unroll
        for (unsigned i = 0; i < 16 * BLOCKS; i++) {
            const uint32_t high = 2 * i < WORDS ? m[2 * i < WORDS ? 2 * i : 0] : 0;
            const uint32_t low = 2 * i + 1 < WORDS ? m[2 * i + 1 < WORDS ? 2 * i + 1 : 0] : 0;
            padded[i] = i + 1 == 16 * BLOCKS ? 8 * BYTES : static_cast<uint64_t>(high) << 32 | low;
        }
#pragma unroll 1
        for (unsigned block = 0; block < BLOCKS; block++) {
            uint64_t w[16];
#pragma unroll
            for (unsigned t = 0; t < 16; t++)
                w[t] = padded[t];
            compress<Sha512>(h, w);
#pragma unroll
            for (unsigned i = 0; i + 16 < 16 * BLOCKS; i++)
                padded[i] = padded[i + 16];
        }
#pragma unroll
        for (unsigned i = 0; i < OUT; i++)
            out[i] = static_cast<uint32_t>(h[i / 2] >> (i % 2 == 0 ? 32 : 0));
    }

    static GABION_FN void hash_string(const uint8_t *string, uint32_t length, uint8_t *out) {
        sha2<Sha512>(string, length, out);
    }
};

// SHAKE128 or SHAKE256; what comes out is shorter than a block.
template <unsigned RATE> struct WordsShake {
    static constexpr bool IS_SHA256 = false, IS_BIG = false;
    static constexpr uint32_t END = SHAKE;
    using Fast = WordsShake<RATE>;

    template <unsigned BYTES, unsigned WORDS, unsigned OUT>
    static GABION_FN void hash(const uint32_t (&m)[WORDS], uint32_t (&out)[OUT]) {
        constexpr unsigned BLOCKS = BYTES / RATE + 1, LANES = RATE / 8;
        static_assert(WORDS == BYTES / 4 + 1, "a message and its end");
        uint64_t a[25];
#pragma unroll
        for (unsigned i = 0; i < 25; i++)
            a[i] = 0;
#pragma unroll
        for (unsigned block = 0; block < BLOCKS; block++) {
#pragma unroll
            for (unsigned i = 0; i < LANES; i++) {
                const unsigned at = 2 * (LANES * block + i);
                const uint32_t low = at < WORDS ? m[at < WORDS ? at : 0] : 0;
                const uint32_t high = at + 1 < WORDS ? m[at + 1 < WORDS ? at + 1 : 0] : 0;
                a[i] ^= static_cast<uint64_t>(high) << 32 | low;
            }
            if (block + 1 == BLOCKS)
                a[LANES - 1] ^= static_cast<uint64_t>(1) << 63;
            keccak_f(a);
        }
#pragma unroll
        for (unsigned i = 0; i < OUT; i++)
            out[i] = static_cast<uint32_t>(a[i / 2] >> (i % 2 == 0 ? 0 : 32));
    }

    // The first 64 bytes that come out; `out` is a multiple of eight.
    static GABION_FN void hash_string(const uint8_t *string, uint32_t length, uint8_t *out) {
        uint64_t a[25];
        absorb<RATE>(a, TwoStrings{string, length, string, 0}, SHAKE);
        squeeze<64>(a, out);
    }

    template <unsigned OUT, class Word>
    static GABION_FN void hash_long(const Word &word, uint32_t length, uint32_t (&out)[OUT]) {
        uint64_t a[25];
#pragma unroll
        for (unsigned i = 0; i < 25; i++)
            a[i] = 0;
        const uint32_t blocks = length / RATE + 1;
#pragma unroll 1
        for (uint32_t block = 0; block < blocks; block++) {
#pragma unroll
            for (unsigned i = 0; i < RATE / 8; i++) {
                const uint32_t low = word(RATE / 4 * block + 2 * i), high = word(RATE / 4 * block + 2 * i + 1);
                a[i] ^= static_cast<uint64_t>(high) << 32 | low;
            }
            if (block + 1 == blocks)
                a[RATE / 8 - 1] ^= static_cast<uint64_t>(1) << 63;
            keccak_f(a);
        }
#pragma unroll
        for (unsigned i = 0; i < OUT; i++)
            out[i] = static_cast<uint32_t>(a[i / 2] >> (i % 2 == 0 ? 0 : 32));
    }
};

// --- Values ---------------------------------------------------------------------------------------------------------

// A number of 32 bits as the hash reads it in four bytes, the highest first, as both standards write numbers.
template <class Hash> GABION_FN uint32_t number(uint32_t x) {
    if (Hash::IS_BIG)
        return x;
    return x << 24 | (x & 0xff00) << 8 | (x >> 8 & 0xff00) | x >> 24;
}

// A value from bytes at any address.
template <class Hash, unsigned WORDS> GABION_FN void from_bytes(const uint8_t *bytes, uint32_t (&value)[WORDS]) {
#pragma unroll
    for (unsigned i = 0; i < WORDS; i++) {
        value[i] = 0;
#pragma unroll
        for (unsigned byte = 0; byte < 4; byte++)
            value[i] |= static_cast<uint32_t>(bytes[4 * i + byte]) << (Hash::IS_BIG ? 24 - 8 * byte : 8 * byte);
    }
}

template <class Hash, unsigned WORDS> GABION_FN void to_bytes(const uint32_t (&value)[WORDS], uint8_t *bytes) {
#pragma unroll
    for (unsigned i = 0; i < WORDS; i++)
#pragma unroll
        for (unsigned byte = 0; byte < 4; byte++)
            bytes[4 * i + byte] = static_cast<uint8_t>(value[i] >> (Hash::IS_BIG ? 24 - 8 * byte : 8 * byte));
}

// Values in the kernels' own arrays, which are words at multiples of eight bytes.
template <unsigned WORDS> GABION_FN void load_value(const uint32_t *from, uint32_t (&value)[WORDS]) {
    static_assert(WORDS % 2 == 0, "pairs");
#pragma unroll
    for (unsigned i = 0; i < WORDS; i += 2) {
#if defined(__CUDA_ARCH__)
        const uint2 pair = *reinterpret_cast<const uint2 *>(from + i);
        value[i] = pair.x, value[i + 1] = pair.y;
#else
        value[i] = from[i], value[i + 1] = from[i + 1];
#endif
    }
}

template <unsigned WORDS> GABION_FN void store_value(uint32_t *to, const uint32_t (&value)[WORDS]) {
    static_assert(WORDS % 2 == 0, "pairs");
#pragma unroll
    for (unsigned i = 0; i < WORDS; i += 2) {
#if defined(__CUDA_ARCH__)
        *reinterpret_cast<uint2 *>(to + i) = uint2{value[i], value[i + 1]};
#else
        to[i] = value[i], to[i + 1] = value[i + 1];
#endif
    }
}

template <unsigned WORDS> GABION_FN void copy_value(const uint32_t (&from)[WORDS], uint32_t (&to)[WORDS]) {
#pragma unroll
    for (unsigned i = 0; i < WORDS; i++)
        to[i] = from[i];
}

// Whether a value is that of these bytes. Both are public.
template <class Hash, unsigned WORDS> GABION_FN bool is_of_bytes(const uint32_t (&value)[WORDS], const uint8_t *bytes) {
    uint32_t expected[WORDS], difference = 0;
    from_bytes<Hash>(bytes, expected);
#pragma unroll
    for (unsigned i = 0; i < WORDS; i++)
        difference |= value[i] ^ expected[i];
    return difference == 0;
}

// --- Digits (RFC 8554, sections 3.1.3 and 4.4; RFC 8391, section 2.6) -------------------------------------------------

// Digit i of `w` bits, 1, 2, 4 or 8, of a string.
GABION_FN uint32_t digit(const uint8_t *bytes, uint32_t i, uint32_t w) {
    const uint32_t of_byte = 8 / w, shift = 8 - w * (i % of_byte + 1);
    return bytes[i / of_byte] >> shift & ((1u << w) - 1);
}

// What the digits of n bytes lack of their greatest value, summed up.
GABION_FN uint32_t checksum(const uint8_t *bytes, uint32_t n, uint32_t w) {
    const uint32_t digits = 8 * n / w;
    uint32_t sum = 0;
#pragma unroll 1
    for (uint32_t i = 0; i < digits; i++)
        sum += (1u << w) - 1 - digit(bytes, i, w);
    return sum;
}

} // namespace gabion
