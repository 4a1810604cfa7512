//! Why no device can be used.

use std::fmt;

/// The reason why no device can be used, with the missing part.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Absent {
    /// `GABION_BACKEND=cuda` is not set.
    NotAsked,
    /// `GABION_GPU=off`.
    Forbidden,
    /// The program has more rights than its caller, whose environment tells the driver which code to load.
    MoreRights,
    /// The system has no device: nothing was loaded to find that out.
    NoDevice,
    /// The driver can't be loaded, is too old, sees no device that there are kernels for, or refuses something.
    Unusable(String),
}

impl fmt::Display for Absent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Absent::NotAsked => f.write_str("a GPU is used only if GABION_BACKEND=cuda asks for it"),
            Absent::Forbidden => f.write_str("GABION_GPU forbids it"),
            Absent::MoreRights => f.write_str(
                "this program has more rights than its caller, whose environment the driver follows",
            ),
            Absent::NoDevice => f.write_str("this system has no NVIDIA GPU, or its driver is not loaded"),
            Absent::Unusable(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Absent {}
