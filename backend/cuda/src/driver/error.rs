//! Why there is no device.

use std::fmt;

/// The reason why no device can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NoDevice {
    /// libcuda.so.1 is missing or cannot be loaded, so NVIDIA's driver is not installed. With the
    /// loader's message.
    NoLibrary(String),
    /// libcuda lacks a function: the driver is too old, or the library is not NVIDIA's.
    NoFunction(&'static str),
    /// A function of libcuda failed.
    Refused {
        /// The function's name.
        call: &'static str,
        /// The result, a number of `CUresult`.
        number: i32,
        /// The number's name.
        name: String,
    },
    /// The driver sees no GPU.
    NoGpu,
    /// There is no GPU with this number.
    NoSuchGpu {
        /// The number that was asked for; the first one is 0.
        ordinal: u32,
        /// The number of GPUs.
        count: u32,
    },
    /// The driver is older than the kernels require.
    OldDriver {
        /// The version of CUDA that the driver supports: major and minor.
        version: (u32, u32),
        /// The required version.
        least: (u32, u32),
    },
    /// The GPU is older than the oldest that there are kernels for.
    OldGpu {
        /// The GPU's name.
        name: String,
        /// The compute capability: major and minor.
        capability: (u32, u32),
        /// The capability that is needed.
        least: (u32, u32),
    },
    /// The kernels that this program carries can't be unpacked.
    Damaged(String),
}

impl fmt::Display for NoDevice {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoDevice::NoLibrary(reason) => write!(to, "no NVIDIA driver: {reason}"),
            NoDevice::NoFunction(name) => {
                write!(to, "libcuda.so.1 has no function {name}: the NVIDIA driver is too old")
            }
            NoDevice::Refused { call, number, name } => {
                write!(to, "the NVIDIA driver refused {call}: {name} ({number})")
            }
            NoDevice::NoGpu => write!(to, "the NVIDIA driver sees no GPU"),
            NoDevice::NoSuchGpu { ordinal, count } => {
                write!(to, "there is no GPU {ordinal}: the NVIDIA driver sees {count}, from 0 on")
            }
            NoDevice::OldDriver { version, least } => write!(
                to,
                "the NVIDIA driver is for CUDA {}.{}; CUDA {}.{} or later is needed",
                version.0, version.1, least.0, least.1
            ),
            NoDevice::OldGpu { name, capability, least } => write!(
                to,
                "{name} has compute capability {}.{}; {}.{} or later is needed",
                capability.0, capability.1, least.0, least.1
            ),
            NoDevice::Damaged(reason) => {
                write!(to, "the kernels in this program are damaged: {reason}")
            }
        }
    }
}

impl std::error::Error for NoDevice {}
