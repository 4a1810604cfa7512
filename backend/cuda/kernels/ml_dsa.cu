// ML-DSA for a device.
#include "device.cuh"
#include "ml_dsa.cuh"

namespace gabion {
#include "ml_dsa.inc"
} // namespace gabion
