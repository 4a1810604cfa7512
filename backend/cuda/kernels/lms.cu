// LMS for a device.
#include "device.cuh"
#include "lms.cuh"

namespace gabion {
#include "lms.inc"
} // namespace gabion
