// Hashes for a device.
#include "device.cuh"
#include "hash.cuh"

namespace gabion {
#include "hash.inc"
} // namespace gabion
