// XMSS for a device.
#include "device.cuh"
#include "xmss.cuh"

namespace gabion {
#include "xmss.inc"
} // namespace gabion
