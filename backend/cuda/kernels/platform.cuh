// What the kernels ask of the machine: device code where nvcc compiles it, the same code on a processor elsewhere.
//
// A kernel is a type with
//
//     using Arguments = ...;                      what a launch hands over, by value
//     struct Shared { ... };                      what the threads of a block share
//     static constexpr unsigned THREADS, STEPS;
//     template <unsigned STEP> static GABION_FN void step(const Arguments &, Shared &, Position);
//
// Between two steps stands a barrier of the block. A thread keeps nothing from one step to the next but what is in
// `Shared` or in global memory. So a device runs the steps one after the other with barriers between them, and a
// processor (emulator.cpp) runs each step for all threads of a block before the next one: same code, same order.
#pragma once

#include <stddef.h>
#include <stdint.h>

#if defined(__CUDACC__)
#define GABION_FN __host__ __device__ __forceinline__
#else
#define GABION_FN inline
#endif

// Tables that are the same for every launch: in the device's memory, or in the processor's. Indexes into them are public.
#if defined(__CUDA_ARCH__)
#define GABION_TABLE __device__ const
#else
#define GABION_TABLE static const
#endif

// Marks bytes as public for memcheck, at the line where the standard makes them so. Nothing elsewhere.
#if defined(GABION_TAINT) && !defined(__CUDA_ARCH__)
#include <valgrind/memcheck.h>
#define GABION_DECLASSIFY(pointer, bytes) ((void)VALGRIND_MAKE_MEM_DEFINED(pointer, bytes))
#else
#define GABION_DECLASSIFY(pointer, bytes) ((void)0)
#endif

namespace gabion {

// Where a thread stands in its launch.
struct Position {
    uint32_t block;
    uint32_t thread;
};

// What a lane's status word says in its high 8 bits; the low 24 are the generation of the slot. The host clears the words
// beforehand; the last kernel of a batch writes them, after every other output. So neither memory that was cleared or
// overwritten nor a batch that had the slot before says that a lane is done.
enum Verdict : uint32_t {
    OK = 0xa5000000,
    INVALID_KEY = 0x3c000000,
    INVALID_SIGNATURE = 0x69000000,
};
GABION_FN uint32_t status_word(Verdict verdict, uint32_t generation) { return verdict | (generation & 0xffffff); }

// The high half of the product.
GABION_FN uint32_t multiply_high(uint32_t a, uint32_t b) {
#if defined(__CUDA_ARCH__)
    return __umulhi(a, b);
#else
    return static_cast<uint32_t>((static_cast<uint64_t>(a) * b) >> 32);
#endif
}

// The smaller one, by an instruction and not by a branch: arguments may be secret.
GABION_FN uint32_t minimum(uint32_t a, uint32_t b) {
#if defined(__CUDA_ARCH__)
    return umin(a, b);
#else
    const uint64_t difference = static_cast<uint64_t>(a) - b;
    return b + (static_cast<uint32_t>(difference) & static_cast<uint32_t>(difference >> 32));
#endif
}

// All ones where `a` is zero, else zero.
GABION_FN uint32_t mask_if_zero(uint32_t a) {
    return static_cast<uint32_t>((static_cast<uint64_t>(a) - 1) >> 32);
}

// All ones where `a` is below `b`, else zero.
GABION_FN uint32_t mask_if_below(uint32_t a, uint32_t b) {
    return static_cast<uint32_t>((static_cast<uint64_t>(a) - b) >> 32);
}

// a ^ b ^ c and a ^ (~b & c), each one instruction a half of the word: nvcc makes two of the second one by itself.
GABION_FN uint64_t xor3(uint64_t a, uint64_t b, uint64_t c) {
#if defined(__CUDA_ARCH__)
    uint32_t low, high;
    asm("lop3.b32 %0, %1, %2, %3, 0x96;"
        : "=r"(low)
        : "r"(static_cast<uint32_t>(a)), "r"(static_cast<uint32_t>(b)), "r"(static_cast<uint32_t>(c)));
    asm("lop3.b32 %0, %1, %2, %3, 0x96;"
        : "=r"(high)
        : "r"(static_cast<uint32_t>(a >> 32)), "r"(static_cast<uint32_t>(b >> 32)), "r"(static_cast<uint32_t>(c >> 32)));
    return static_cast<uint64_t>(high) << 32 | low;
#else
    return a ^ b ^ c;
#endif
}

GABION_FN uint64_t chi(uint64_t a, uint64_t b, uint64_t c) {
#if defined(__CUDA_ARCH__)
    uint32_t low, high;
    asm("lop3.b32 %0, %1, %2, %3, 0xd2;"
        : "=r"(low)
        : "r"(static_cast<uint32_t>(a)), "r"(static_cast<uint32_t>(b)), "r"(static_cast<uint32_t>(c)));
    asm("lop3.b32 %0, %1, %2, %3, 0xd2;"
        : "=r"(high)
        : "r"(static_cast<uint32_t>(a >> 32)), "r"(static_cast<uint32_t>(b >> 32)), "r"(static_cast<uint32_t>(c >> 32)));
    return static_cast<uint64_t>(high) << 32 | low;
#else
    return a ^ (~b & c);
#endif
}

// Rotates to the left by `N` bits, 0 < N < 64: two funnel shifts on a device.
template <unsigned N> GABION_FN uint64_t rotate(uint64_t a) {
#if defined(__CUDA_ARCH__)
    const uint32_t low = static_cast<uint32_t>(a), high = static_cast<uint32_t>(a >> 32);
    const uint32_t from = N < 32 ? low : high, other = N < 32 ? high : low;
    return static_cast<uint64_t>(__funnelshift_l(from, other, N % 32)) << 32 | __funnelshift_l(other, from, N % 32);
#else
    return a << N | a >> (64 - N);
#endif
}

// Eight bytes, the first one the lowest, at an address that is a multiple of eight.
GABION_FN uint64_t load64(const uint8_t *bytes) {
#if defined(__CUDA_ARCH__)
    return *reinterpret_cast<const uint64_t *>(bytes);
#else
    uint64_t word = 0;
    for (unsigned i = 0; i < 8; i++)
        word |= static_cast<uint64_t>(bytes[i]) << (8 * i);
    return word;
#endif
}

GABION_FN void store64(uint8_t *bytes, uint64_t word) {
#if defined(__CUDA_ARCH__)
    *reinterpret_cast<uint64_t *>(bytes) = word;
#else
    for (unsigned i = 0; i < 8; i++)
        bytes[i] = static_cast<uint8_t>(word >> (8 * i));
#endif
}

// Sixteen bytes at an address that is a multiple of sixteen, in one access on a device.
struct Sixteen {
    uint64_t low, high;
};
GABION_FN Sixteen load128(const void *address) {
#if defined(__CUDA_ARCH__)
    const ulonglong2 words = *static_cast<const ulonglong2 *>(address);
    return Sixteen{words.x, words.y};
#else
    const uint8_t *bytes = static_cast<const uint8_t *>(address);
    return Sixteen{load64(bytes), load64(bytes + 8)};
#endif
}
GABION_FN void store128(void *address, Sixteen sixteen) {
#if defined(__CUDA_ARCH__)
    *static_cast<ulonglong2 *>(address) = make_ulonglong2(sixteen.low, sixteen.high);
#else
    uint8_t *bytes = static_cast<uint8_t *>(address);
    store64(bytes, sixteen.low);
    store64(bytes + 8, sixteen.high);
#endif
}

// Four and two bytes, likewise at a multiple of their number.
GABION_FN uint32_t load32(const uint8_t *bytes) {
#if defined(__CUDA_ARCH__)
    return *reinterpret_cast<const uint32_t *>(bytes);
#else
    return bytes[0] | static_cast<uint32_t>(bytes[1]) << 8 | static_cast<uint32_t>(bytes[2]) << 16 | static_cast<uint32_t>(bytes[3]) << 24;
#endif
}
GABION_FN void store32(uint8_t *bytes, uint32_t word) {
#if defined(__CUDA_ARCH__)
    *reinterpret_cast<uint32_t *>(bytes) = word;
#else
    for (unsigned i = 0; i < 4; i++)
        bytes[i] = static_cast<uint8_t>(word >> (8 * i));
#endif
}
GABION_FN uint32_t load16(const uint8_t *bytes) {
#if defined(__CUDA_ARCH__)
    return *reinterpret_cast<const uint16_t *>(bytes);
#else
    return bytes[0] | static_cast<uint32_t>(bytes[1]) << 8;
#endif
}
GABION_FN void store16(uint8_t *bytes, uint32_t half) {
#if defined(__CUDA_ARCH__)
    *reinterpret_cast<uint16_t *>(bytes) = static_cast<uint16_t>(half);
#else
    bytes[0] = static_cast<uint8_t>(half);
    bytes[1] = static_cast<uint8_t>(half >> 8);
#endif
}

// 32 bits from bit `N` of two words on, 0 <= N < 32.
template <unsigned N> GABION_FN uint32_t funnel(uint32_t low, uint32_t high) {
#if defined(__CUDA_ARCH__)
    return __funnelshift_r(low, high, N);
#else
    return static_cast<uint32_t>((static_cast<uint64_t>(high) << 32 | low) >> N);
#endif
}

} // namespace gabion
