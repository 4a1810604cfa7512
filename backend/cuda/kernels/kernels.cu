// All kernels for a device. script/cuda can compile one family alone.
#include "hash.cu"
#include "lms.cu"
#include "ml_dsa.cu"
#include "ml_kem.cu"
#include "slh_dsa.cu"
#include "xmss.cu"
