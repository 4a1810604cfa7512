// SHA-3 and SHAKE (FIPS 202, section 6) over messages that are read word by word.
//
// A state in registers can't be indexed by a variable. So a block is absorbed by code that is unrolled over the words
// of the rate, each of which asks the message for its eight bytes at an offset that is public.
#pragma once

#include "keccak.cuh"

namespace gabion {

// Domain bits with the first bit of the padding (FIPS 202, sections 6.1, 6.2 and B.2).
static constexpr uint64_t SHA3 = 0x06, SHAKE = 0x1f;
static constexpr unsigned RATE_SHAKE128 = 168, RATE_256 = 136, RATE_SHA3_512 = 72;

// One string of whole words, at an address that is a multiple of eight.
struct Words {
    const uint8_t *bytes;
    uint32_t length;
    GABION_FN uint32_t size() const { return length; }
    GABION_FN uint64_t word(uint32_t offset) const { return load64(bytes + offset); }
};

// Two such strings, one after the other.
struct TwoWords {
    const uint8_t *first;
    uint32_t first_length;
    const uint8_t *second;
    uint32_t second_length;
    GABION_FN uint32_t size() const { return first_length + second_length; }
    GABION_FN uint64_t word(uint32_t offset) const {
        return load64(offset < first_length ? first + offset : second + (offset - first_length));
    }
};

// A string of 32 bytes and a few bytes after it, which are the low ones of `tail`.
struct Seeded {
    const uint8_t *seed;
    uint64_t tail;
    uint32_t tail_length;
    GABION_FN uint32_t size() const { return 32 + tail_length; }
    GABION_FN uint64_t word(uint32_t offset) const { return offset < 32 ? load64(seed + offset) : tail; }
};

// Two strings of any lengths at any addresses.
struct TwoStrings {
    const uint8_t *first;
    uint32_t first_length;
    const uint8_t *second;
    uint32_t second_length;
    GABION_FN uint32_t size() const { return first_length + second_length; }
    GABION_FN uint64_t word(uint32_t offset) const {
        uint64_t word = 0;
#pragma unroll 1
        for (uint32_t i = 0; i < 8 && offset + i < size(); i++) {
            const uint32_t at = offset + i;
            const uint8_t byte = at < first_length ? first[at] : second[at - first_length];
            word |= static_cast<uint64_t>(byte) << (8 * i);
        }
        return word;
    }
};

// The word at `offset` of a message with its padding, but for the last bit of the last block. A message gives zero for
// the bytes beyond its end within a word.
template <class Message> GABION_FN uint64_t padded_word(const Message &message, uint64_t domain, uint32_t offset) {
    const uint32_t size = message.size();
    uint64_t word = offset < size ? message.word(offset) : 0;
    if (size >= offset && size - offset < 8)
        word |= domain << (8 * (size - offset));
    return word;
}

// Absorbs a whole message with its padding; afterwards the state's first `RATE` bytes are the first output.
template <unsigned RATE, class Message>
GABION_FN void absorb(uint64_t (&a)[25], const Message &message, uint64_t domain) {
#pragma unroll
    for (unsigned i = 0; i < 25; i++)
        a[i] = 0;
    const uint32_t blocks = message.size() / RATE + 1;
#pragma unroll 1
    for (uint32_t block = 0; block < blocks; block++) {
#pragma unroll
        for (unsigned i = 0; i < RATE / 8; i++)
            a[i] ^= padded_word(message, domain, block * RATE + 8 * i);
        if (block + 1 == blocks)
            a[RATE / 8 - 1] ^= static_cast<uint64_t>(1) << 63;
        keccak_f(a);
    }
}

// The first `LENGTH` bytes of a state: whole words, no more than the rate.
template <unsigned LENGTH> GABION_FN void squeeze(const uint64_t (&a)[25], uint8_t *out) {
#pragma unroll
    for (unsigned i = 0; i < LENGTH / 8; i++)
        store64(out + 8 * i, a[i]);
}

template <class Message> GABION_FN void sha3_256(const Message &message, uint8_t *out) {
    uint64_t a[25];
    absorb<RATE_256>(a, message, SHA3);
    squeeze<32>(a, out);
}

template <class Message> GABION_FN void sha3_512(const Message &message, uint8_t *out) {
    uint64_t a[25];
    absorb<RATE_SHA3_512>(a, message, SHA3);
    squeeze<64>(a, out);
}

template <unsigned LENGTH, class Message> GABION_FN void shake256(const Message &message, uint8_t *out) {
    static_assert(LENGTH <= RATE_256 && LENGTH % 8 == 0, "one block of whole words");
    uint64_t a[25];
    absorb<RATE_256>(a, message, SHAKE);
    squeeze<LENGTH>(a, out);
}

} // namespace gabion
