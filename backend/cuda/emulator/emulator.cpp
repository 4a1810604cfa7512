#include "emulator.hpp"

#include <string.h>

#include "hash.cuh"
#include "lms.cuh"
#include "ml_dsa_keys.cuh"
#include "ml_dsa_sign.cuh"
#include "ml_dsa_verify.cuh"
#include "ml_kem.cuh"
#include "slh_dsa.cuh"
#include "xmss.cuh"

namespace gabion {

template <class Kernel, unsigned STEP = 0>
void steps(const typename Kernel::Arguments &arguments, typename Kernel::Shared &shared, uint32_t block) {
    // The other way round in every second step: what a step leaves may not depend on which thread comes first.
    for (uint32_t i = 0; i < BLOCK; i++)
        Kernel::template step<STEP>(arguments, shared, Position{block, STEP % 2 == 0 ? i : BLOCK - 1 - i});
    if constexpr (STEP + 1 < Kernel::STEPS)
        steps<Kernel, STEP + 1>(arguments, shared, block);
}

template <class Kernel> void blocks(const void *given, uint32_t count) {
    typename Kernel::Arguments arguments;
    memcpy(&arguments, given, sizeof arguments);
    for (uint32_t block = 0; block < count; block++) {
        // As on a device: what is in shared memory at first is of no account.
        typename Kernel::Shared shared;
        steps<Kernel>(arguments, shared, block);
        volatile uint8_t *bytes = reinterpret_cast<volatile uint8_t *>(&shared);
        for (size_t i = 0; i < sizeof shared; i++)
            bytes[i] = 0;
    }
}

#define KERNEL(name, ...) {#name, sizeof(__VA_ARGS__::Arguments), __VA_ARGS__::JOBS, blocks<__VA_ARGS__>},
static const GabionEmulatorKernel KERNELS[] = {
#include "hash.inc"
#include "lms.inc"
#include "ml_dsa.inc"
#include "ml_kem.inc"
#include "slh_dsa.inc"
#include "xmss.inc"
};
#undef KERNEL

} // namespace gabion

const GabionEmulatorKernel *gabion_emulator_kernel(size_t number) {
    const size_t count = sizeof gabion::KERNELS / sizeof gabion::KERNELS[0];
    return number < count ? &gabion::KERNELS[number] : nullptr;
}

int32_t gabion_emulator_launch(const char *kernel, const void *arguments, size_t length, uint32_t blocks) {
    for (const GabionEmulatorKernel &each : gabion::KERNELS) {
        if (strcmp(each.name, kernel) != 0)
            continue;
        if (each.arguments != length)
            return -1;
        each.run(arguments, blocks);
        return 0;
    }
    return -1;
}
