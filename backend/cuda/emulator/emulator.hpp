// The kernels on a processor: block after block, and in a block step after step, each for all threads.
#pragma once

#include <stddef.h>
#include <stdint.h>

extern "C" {

// Runs a kernel by its name over so many blocks. 0; or -1 if there is no such kernel or `length` is not the size of its
// arguments, and then nothing ran.
int32_t gabion_emulator_launch(const char *kernel, const void *arguments, size_t length, uint32_t blocks);

// What a kernel is, by its number: its name, the size of its arguments, and the jobs of a block. Null after the last.
struct GabionEmulatorKernel {
    const char *name;
    size_t arguments;
    uint32_t jobs;
    void (*run)(const void *arguments, uint32_t blocks);
};
const GabionEmulatorKernel *gabion_emulator_kernel(size_t number);
}
