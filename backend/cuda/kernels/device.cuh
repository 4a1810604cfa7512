// How a kernel's steps become one kernel of a device, with its name as it stands in *.inc, without C++'s additions.
#pragma once

#include "frame.cuh"

namespace gabion {

template <class Kernel, unsigned STEP = 0>
__device__ __forceinline__ void steps(const typename Kernel::Arguments &arguments, typename Kernel::Shared &shared, Position at) {
    Kernel::template step<STEP>(arguments, shared, at);
    if constexpr (STEP + 1 < Kernel::STEPS) {
        if constexpr (WarpsAreApart<Kernel>::VALUE)
            __syncwarp();
        else
            __syncthreads();
        steps<Kernel, STEP + 1>(arguments, shared, at);
    }
}

// Shared memory keeps what a block left in it; polynomials in it may be secret.
template <class Shared> __device__ __forceinline__ void wipe(Shared &shared) {
    if constexpr (sizeof(Shared) > sizeof(uint32_t)) {
        __syncthreads();
        volatile uint32_t *words = reinterpret_cast<volatile uint32_t *>(&shared);
        for (unsigned i = threadIdx.x; i < sizeof(Shared) / sizeof(uint32_t); i += BLOCK)
            words[i] = 0;
    }
}

#define KERNEL(name, ...)                                                                                              \
    extern "C" __global__ void __launch_bounds__(BLOCK) name(const __VA_ARGS__::Arguments arguments) {                 \
        using Kernel = __VA_ARGS__;                                                                                    \
        __shared__ Kernel::Shared shared;                                                                              \
        steps<Kernel>(arguments, shared, Position{blockIdx.x, threadIdx.x});                                           \
        wipe(shared);                                                                                                  \
    }

} // namespace gabion
