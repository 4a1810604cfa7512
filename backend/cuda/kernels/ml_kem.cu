// ML-KEM for a device.
#include "device.cuh"
#include "ml_kem.cuh"

namespace gabion {
#include "ml_kem.inc"
} // namespace gabion
