// Polynomials of 256 coefficients in a warp: eight coefficients a thread, in one of three arrangements.
//
//     across    t + 32 i                      layers whose halves are 128, 64 and 32 apart lie within a thread
//     middle    32 (t / 4) + t % 4 + 4 i      16, 8 and 4
//     along     8 t + i                       2 and 1; and what is packed into bytes, which are 8 coefficients
//
// A thread goes from one arrangement to the next through shared memory: it writes back the coefficients that it read,
// and reads others after a barrier. Nine words stand where eight coefficients do, so that the threads of a warp hit
// different banks in each arrangement.
#pragma once

#include "platform.cuh"

namespace gabion {

static constexpr unsigned WARP = 32, N = 256, LANE = N / WARP;

struct SharedPoly {
    uint32_t words[N + N / 8];
    GABION_FN uint32_t &at(unsigned coefficient) { return words[coefficient + coefficient / 8]; }
};

enum class Arrangement { ACROSS, MIDDLE, ALONG };

template <Arrangement A> GABION_FN unsigned coefficient(unsigned thread, unsigned i) {
    if (A == Arrangement::ACROSS)
        return thread + WARP * i;
    if (A == Arrangement::MIDDLE)
        return 32 * (thread / 4) + thread % 4 + 4 * i;
    return LANE * thread + i;
}

template <Arrangement A> GABION_FN void gather(SharedPoly &poly, unsigned thread, uint32_t (&c)[LANE]) {
#pragma unroll
    for (unsigned i = 0; i < LANE; i++)
        c[i] = poly.at(coefficient<A>(thread, i));
}

template <Arrangement A> GABION_FN void scatter(SharedPoly &poly, unsigned thread, const uint32_t (&c)[LANE]) {
#pragma unroll
    for (unsigned i = 0; i < LANE; i++)
        poly.at(coefficient<A>(thread, i)) = c[i];
}

// A root of unity w below q, and floor(w 2^32 / q), with which a product by it is reduced (Shoup).
struct alignas(8) Root {
    uint32_t value;
    uint32_t quotient;
};

// x w modulo q, below 2 q, for any x of 32 bits.
template <uint32_t Q> GABION_FN uint32_t times(uint32_t x, Root w) {
    return x * w.value - multiply_high(x, w.quotient) * Q;
}

// x modulo q for any x of 32 bits.
template <uint32_t Q> GABION_FN uint32_t reduce(uint32_t x) {
    constexpr uint32_t INVERSE = static_cast<uint32_t>((static_cast<uint64_t>(1) << 32) / Q);
    const uint32_t r = x - multiply_high(x, INVERSE) * Q;
    return minimum(r, r - Q);
}

// The roots of a number-theoretic transform: zeta^bitrev(i) for `LENGTH` numbers i (FIPS 203, appendix A; FIPS 204,
// appendix B), and their negatives, by which the inverse goes.
template <uint32_t Q, uint32_t ZETA, unsigned LENGTH> struct Roots {
    Root forward[LENGTH];
    Root inverse[LENGTH];

    static constexpr uint32_t power(uint32_t base, uint32_t exponent) {
        uint64_t result = 1, square = base;
        for (; exponent != 0; exponent >>= 1) {
            if (exponent & 1)
                result = result * square % Q;
            square = square * square % Q;
        }
        return static_cast<uint32_t>(result);
    }
    static constexpr Root root(uint32_t value) {
        return Root{value, static_cast<uint32_t>((static_cast<uint64_t>(value) << 32) / Q)};
    }
    constexpr Roots() : forward(), inverse() {
        for (unsigned i = 0; i < LENGTH; i++) {
            unsigned reversed = 0;
            for (unsigned bit = 1; bit < LENGTH; bit <<= 1)
                reversed = reversed << 1 | ((i & bit) != 0 ? 1u : 0u);
            const uint32_t value = power(ZETA, reversed);
            forward[i] = root(value);
            inverse[i] = root((Q - value) % Q);
        }
    }
};

// The layers of a forward transform whose halves are from `TOP` times `D` down to `D` apart, for a thread whose
// coefficient i is at `first + D i`. Coefficients grow by 2 q a layer.
//
// The layer with halves `len` apart begins at root N / (2 len) (FIPS 203, Algorithm 9; FIPS 204, Algorithm 41).
template <uint32_t Q, unsigned D, unsigned TOP = 4>
GABION_FN void forward_layers(uint32_t (&c)[LANE], unsigned first, const Root *roots) {
#pragma unroll
    for (unsigned half = TOP; half > 0; half /= 2) {
#pragma unroll
        for (unsigned i = 0; i < LANE; i++) {
            if (i & half)
                continue;
            const unsigned len = half * D, at = first + D * i;
            const uint32_t t = times<Q>(c[i + half], roots[N / (2 * len) + at / (2 * len)]);
            c[i + half] = c[i] + 2 * Q - t;
            c[i] += t;
        }
    }
}

// The layers of an inverse transform whose halves are from `D` up to `TOP` times `D` apart; sums double a layer. `OFFSET`
// is a multiple of q above every coefficient. The root of block b of a layer is the negative of the forward transform's
// last but b (FIPS 203, Algorithm 10, and FIPS 204, Algorithm 42: roots are taken from the last one down).
template <uint32_t Q, unsigned D, uint32_t OFFSET, unsigned TOP = 4>
GABION_FN void inverse_layers(uint32_t (&c)[LANE], unsigned first, const Root *negatives) {
#pragma unroll
    for (unsigned half = 1; half <= TOP; half *= 2) {
#pragma unroll
        for (unsigned i = 0; i < LANE; i++) {
            if (i & half)
                continue;
            const unsigned len = half * D, at = first + D * i;
            const unsigned root = N / len - 1 - at / (2 * len);
            const uint32_t a = c[i], b = c[i + half];
            c[i] = a + b;
            // zeta (b - a) as (-zeta) (a - b).
            c[i + half] = times<Q>(a + OFFSET - b, negatives[root]);
        }
    }
}

// Eight numbers of `BITS` bits each from `BITS` bytes, the lowest bit first (ByteDecode: FIPS 203, Algorithm 6).
template <unsigned BITS> GABION_FN void unpack8(const uint8_t *bytes, uint32_t (&c)[LANE]) {
    uint64_t held = 0;
    unsigned bits = 0, next = 0;
#pragma unroll
    for (unsigned i = 0; i < LANE; i++) {
#pragma unroll
        for (unsigned load = 0; load < 3; load++) {
            if (bits < BITS) {
                held |= static_cast<uint64_t>(bytes[next++]) << bits;
                bits += 8;
            }
        }
        c[i] = static_cast<uint32_t>(held) & ((1u << BITS) - 1);
        held >>= BITS;
        bits -= BITS;
    }
}

// The inverse (ByteEncode: FIPS 203, Algorithm 5).
template <unsigned BITS> GABION_FN void pack8(const uint32_t (&c)[LANE], uint8_t *bytes) {
    uint64_t held = 0;
    unsigned bits = 0, next = 0;
#pragma unroll
    for (unsigned i = 0; i < LANE; i++) {
        held |= static_cast<uint64_t>(c[i]) << bits;
        bits += BITS;
#pragma unroll
        for (unsigned store = 0; store < 3; store++) {
            if (bits >= 8) {
                bytes[next++] = static_cast<uint8_t>(held);
                held >>= 8;
                bits -= 8;
            }
        }
    }
}

// The same two, where the bytes stand at a multiple of four, if four divides `BITS`, or of two, if two does: in words.
template <unsigned BITS> GABION_FN void unpack_aligned8(const uint8_t *bytes, uint32_t (&c)[LANE]) {
    constexpr unsigned UNIT = BITS % 4 == 0 ? 4 : BITS % 2 == 0 ? 2 : 1;
    uint32_t words[BITS / 4 + 2];
#pragma unroll
    for (unsigned i = 0; i < BITS / 4 + 2; i++)
        words[i] = 0;
#pragma unroll
    for (unsigned i = 0; i < BITS / UNIT; i++) {
        const uint32_t unit = UNIT == 4 ? load32(bytes + 4 * i) : UNIT == 2 ? load16(bytes + 2 * i) : bytes[i];
        words[i * UNIT / 4] |= unit << (8 * (i * UNIT % 4));
    }
#pragma unroll
    for (unsigned i = 0; i < LANE; i++) {
        const unsigned word = BITS * i / 32, shift = BITS * i % 32;
        const uint64_t two = static_cast<uint64_t>(words[word + 1]) << 32 | words[word];
        c[i] = static_cast<uint32_t>(two >> shift) & ((1u << BITS) - 1);
    }
}
template <unsigned BITS> GABION_FN void pack_aligned8(const uint32_t (&c)[LANE], uint8_t *bytes) {
    constexpr unsigned UNIT = BITS % 4 == 0 ? 4 : BITS % 2 == 0 ? 2 : 1;
    uint32_t words[BITS / 4 + 2];
#pragma unroll
    for (unsigned i = 0; i < BITS / 4 + 2; i++)
        words[i] = 0;
#pragma unroll
    for (unsigned i = 0; i < LANE; i++) {
        const unsigned word = BITS * i / 32, shift = BITS * i % 32;
        words[word] |= c[i] << shift;
        if (shift + BITS > 32)
            words[word + 1] |= c[i] >> (32 - shift);
    }
#pragma unroll
    for (unsigned i = 0; i < BITS / UNIT; i++) {
        const uint32_t unit = words[i * UNIT / 4] >> (8 * (i * UNIT % 4));
        if (UNIT == 4)
            store32(bytes + 4 * i, unit);
        else if (UNIT == 2)
            store16(bytes + 2 * i, unit);
        else
            bytes[i] = static_cast<uint8_t>(unit);
    }
}

} // namespace gabion
