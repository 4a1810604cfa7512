// Words of memory: sixteen bytes at once, strings at any address, and numbers that many threads add to.
//
// A device loads whole words and shifts them, and so reads up to three bytes before and after a string, within words
// that hold a part of it. A processor reads the string's bytes and no others.
#pragma once

#include "platform.cuh"

namespace gabion {

// Four words at an address that is a multiple of 16.
GABION_FN void load4(const uint32_t *words, uint32_t (&out)[4]) {
#if defined(__CUDA_ARCH__)
    const uint4 all = *reinterpret_cast<const uint4 *>(words);
    out[0] = all.x, out[1] = all.y, out[2] = all.z, out[3] = all.w;
#else
    for (unsigned i = 0; i < 4; i++)
        out[i] = words[i];
#endif
}
GABION_FN void store4(uint32_t *words, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
#if defined(__CUDA_ARCH__)
    *reinterpret_cast<uint4 *>(words) = make_uint4(a, b, c, d);
#else
    words[0] = a, words[1] = b, words[2] = c, words[3] = d;
#endif
}

// `BYTES` bytes at any address as words, the first byte the lowest; what fills the last word is of no account.
template <unsigned BYTES> GABION_FN void load_bytes(const uint8_t *bytes, uint32_t (&out)[(BYTES + 3) / 4]) {
    constexpr unsigned WORDS = (BYTES + 3) / 4;
#if defined(__CUDA_ARCH__)
    const unsigned before = static_cast<unsigned>(reinterpret_cast<uint64_t>(bytes) & 3);
    const uint32_t *words = reinterpret_cast<const uint32_t *>(bytes - before);
    uint32_t held[WORDS + 1];
#pragma unroll
    for (unsigned i = 0; i < WORDS; i++)
        held[i] = words[i];
    held[WORDS] = words[(before + BYTES - 1) / 4];
#pragma unroll
    for (unsigned i = 0; i < WORDS; i++)
        out[i] = __funnelshift_r(held[i], held[i + 1], 8 * before);
#else
    for (unsigned i = 0; i < WORDS; i++) {
        out[i] = 0;
        for (unsigned j = 4 * i; j < 4 * i + 4 && j < BYTES; j++)
            out[i] |= static_cast<uint32_t>(bytes[j]) << (8 * (j % 4));
    }
#endif
}

// The same at an address that is a multiple of `ALIGNMENT`, a power of two.
template <unsigned BYTES, unsigned ALIGNMENT>
GABION_FN void load_aligned(const uint8_t *bytes, uint32_t (&out)[(BYTES + 3) / 4]) {
#if defined(__CUDA_ARCH__)
    if constexpr (ALIGNMENT >= 4 && BYTES % 4 == 0) {
#pragma unroll
        for (unsigned i = 0; i < BYTES / 4; i++)
            out[i] = reinterpret_cast<const uint32_t *>(bytes)[i];
        return;
    }
#endif
    load_bytes<BYTES>(bytes, out);
}

// The words' bytes to an address that is a multiple of `ALIGNMENT`.
template <unsigned BYTES, unsigned ALIGNMENT>
GABION_FN void store_aligned(uint8_t *bytes, const uint32_t (&words)[(BYTES + 3) / 4]) {
    constexpr unsigned STEP = ALIGNMENT >= 4 && BYTES % 4 == 0 ? 4 : ALIGNMENT >= 2 && BYTES % 2 == 0 ? 2 : 1;
#pragma unroll
    for (unsigned i = 0; i < BYTES; i += STEP) {
        const uint32_t part = words[i / 4] >> (8 * (i % 4));
#if defined(__CUDA_ARCH__)
        if constexpr (STEP == 4)
            *reinterpret_cast<uint32_t *>(bytes + i) = part;
        else if constexpr (STEP == 2)
            *reinterpret_cast<uint16_t *>(bytes + i) = static_cast<uint16_t>(part);
        else
            bytes[i] = static_cast<uint8_t>(part);
#else
        for (unsigned j = 0; j < STEP; j++)
            bytes[i + j] = static_cast<uint8_t>(part >> (8 * j));
#endif
    }
}

// Adds to a number that other threads add to as well, and says what it was.
GABION_FN uint32_t add_together(uint32_t *number, uint32_t more) {
#if defined(__CUDA_ARCH__)
    return atomicAdd(number, more);
#else
    const uint32_t before = *number;
    *number = before + more;
    return before;
#endif
}

// Bits that are one.
GABION_FN uint32_t count_ones(uint32_t word) {
#if defined(__CUDA_ARCH__)
    return static_cast<uint32_t>(__popc(word));
#else
    // By sums of neighbours, without a table: the word may be secret.
    word = word - (word >> 1 & 0x55555555);
    word = (word & 0x33333333) + (word >> 2 & 0x33333333);
    return ((word + (word >> 4)) & 0x0f0f0f0f) * 0x01010101 >> 24;
#endif
}

} // namespace gabion
