//! Where devices come from.

use crate::device::Device;

use super::absent::Absent;

/// A device's name, capability, memory and driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceDescription {
    /// The device's name.
    pub name: String,
    /// A unique identifier.
    pub uuid: String,
    /// The compute capability: major and minor.
    pub capability: (u32, u32),
    /// The size of its memory in bytes.
    pub memory_bytes: u64,
    /// The driver's version.
    pub driver: String,
}

/// A source of devices.
pub trait Source: Send + Sync + 'static {
    /// The type of its devices.
    type Device: Device + 'static;

    /// Returns whether there may be a device: a look at the file system that loads nothing.
    fn may_be_there(&self) -> bool;

    /// Rejects systems on which devices certainly do not work, without any state that a forked
    /// child could not use.
    ///
    /// # Errors
    /// The reason.
    fn check(&self) -> Result<(), Absent>;

    /// Opens all devices that there are kernels for. This takes a good part of a second, and a child that is forked
    /// afterwards can use none of them.
    ///
    /// # Errors
    /// The reason why there is no device.
    fn open(&self) -> Result<Vec<(DeviceDescription, Self::Device)>, Absent>;
}
