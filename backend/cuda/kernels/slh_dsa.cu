// SLH-DSA for a device.
#include "device.cuh"
#include "slh_dsa.cuh"

namespace gabion {
#include "slh_dsa.inc"
} // namespace gabion
