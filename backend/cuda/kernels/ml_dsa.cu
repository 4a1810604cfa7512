// ML-DSA for a device.
#include "device.cuh"
#include "ml_dsa_keys.cuh"
#include "ml_dsa_sign.cuh"
#include "ml_dsa_verify.cuh"

namespace gabion {
#include "ml_dsa.inc"
} // namespace gabion
