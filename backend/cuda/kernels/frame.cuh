// The two shapes of a kernel: a thread for each job, or a warp. Jobs beyond those of `n` operations do nothing.
#pragma once

#include "transform.cuh"

namespace gabion {

// Threads of a block of every kernel; warps of it.
static constexpr unsigned BLOCK = 128, WARPS = BLOCK / WARP;

struct Nothing {};

// Whether a warp of a kernel shares nothing with the others, so that its steps need no barrier of the block: a kernel that
// says so has `WARPS_ARE_APART`.
template <class Kernel, class = void> struct WarpsAreApart {
    static constexpr bool VALUE = false;
};
template <class Kernel> struct WarpsAreApart<Kernel, decltype(void(Kernel::WARPS_ARE_APART))> {
    static constexpr bool VALUE = Kernel::WARPS_ARE_APART;
};

// A kernel with a thread for each of `Kernel::jobs` jobs, which `Kernel::run` does.
template <class Kernel, class Of> struct PerThread {
    using Arguments = Of;
    using Shared = Nothing;
    static constexpr unsigned STEPS = 1, JOBS = BLOCK;
    template <unsigned STEP> static GABION_FN void step(const Of &arguments, Shared &, Position at) {
        const uint64_t job = static_cast<uint64_t>(at.block) * BLOCK + at.thread;
        if (job < static_cast<uint64_t>(arguments.n) * Kernel::PER_OP)
            Kernel::run(arguments, static_cast<uint32_t>(job / Kernel::PER_OP), static_cast<uint32_t>(job % Kernel::PER_OP));
    }
};

// A kernel with a thread for each job, and a `Buffer` in shared memory for each thread.
template <class Kernel, class Of, class Buffer> struct PerThreadWith {
    using Arguments = Of;
    struct Shared {
        Buffer buffer[BLOCK];
    };
    static constexpr unsigned STEPS = 1, JOBS = BLOCK;
    template <unsigned STEP> static GABION_FN void step(const Of &arguments, Shared &shared, Position at) {
        const uint64_t job = static_cast<uint64_t>(at.block) * BLOCK + at.thread;
        if (job < static_cast<uint64_t>(arguments.n) * Kernel::PER_OP)
            Kernel::run(arguments, static_cast<uint32_t>(job / Kernel::PER_OP), static_cast<uint32_t>(job % Kernel::PER_OP),
                        shared.buffer[at.thread]);
    }
};

// A kernel with a warp for each job, and a polynomial in shared memory for each warp.
template <class Kernel, class Of> struct PerWarp {
    using Arguments = Of;
    struct Shared {
        SharedPoly poly[WARPS];
    };
    static constexpr unsigned JOBS = WARPS;
    static constexpr bool WARPS_ARE_APART = true;
    template <unsigned STEP> static GABION_FN void step(const Of &arguments, Shared &shared, Position at) {
        const uint64_t job = static_cast<uint64_t>(at.block) * WARPS + at.thread / WARP;
        if (job < static_cast<uint64_t>(arguments.n) * Kernel::PER_OP)
            Kernel::template part<STEP>(arguments, shared.poly[at.thread / WARP], static_cast<uint32_t>(job / Kernel::PER_OP),
                                        static_cast<uint32_t>(job % Kernel::PER_OP), at.thread % WARP);
    }
};

} // namespace gabion
