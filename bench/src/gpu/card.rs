//! A device under measurement: counts the traffic over its bus, and queries its properties.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use gabion_cuda::{Device, Fault, Launch, forward_device};
use gabion_rows::gpu;

/// The time of the kernels with one name, by the device's events.
#[derive(Clone, Debug, PartialEq)]
pub struct Time {
    /// The kernel.
    pub kernel: String,
    /// The number of launches.
    pub launches: u64,
    /// Nanoseconds of all launches.
    pub ns: f64,
}

/// A device with a description and timers.
pub trait Card: Device {
    /// Returns the device's description.
    fn describe(&self) -> gpu::Device;

    /// Turns timing of kernels on or off, and discards earlier times.
    fn profile(&self, is_on: bool);

    /// Returns the times of kernels since timing was turned on.
    fn times(&self) -> Vec<Time>;

    /// Millijoules since the driver was loaded; none where it does not count them.
    fn energy_mj(&self) -> Option<u64>;
}

/// The time limit of a timed kernel.
const AT_MOST: Duration = Duration::from_secs(60);

/// A card that counts its copies and runs its kernels one after the other while they are timed: events around a
/// kernel that shares the device with another one say nothing of either.
pub struct InstrumentedCard<D> {
    device: D,
    is_timed: AtomicBool,
    to: AtomicU64,
    from: AtomicU64,
}

impl<D: Card> InstrumentedCard<D> {
    /// A device of which nothing is counted yet.
    pub fn new(device: D) -> Self {
        InstrumentedCard {
            device,
            is_timed: AtomicBool::new(false),
            to: AtomicU64::new(0),
            from: AtomicU64::new(0),
        }
    }

    /// The device itself.
    pub fn card(&self) -> &D {
        &self.device
    }

    /// Turns timing of kernels on or off, while one thread uses the device, and discards earlier
    /// times.
    pub fn profile(&self, is_on: bool) {
        self.is_timed.store(is_on, Ordering::Relaxed);
        self.device.profile(is_on);
    }

    /// Bytes to the device and from it so far.
    pub fn bytes(&self) -> [u64; 2] {
        [self.to.load(Ordering::Relaxed), self.from.load(Ordering::Relaxed)]
    }
}

impl<D: Card> Device for InstrumentedCard<D> {
    forward_device!(device: allocate, pin, clear, finish, restart);

    unsafe fn upload(
        &self,
        stream: usize,
        to: u64,
        from: *const u8,
        bytes: usize,
    ) -> Result<(), Fault> {
        self.to.fetch_add(bytes as u64, Ordering::Relaxed);
        // SAFETY: the caller's.
        unsafe { self.device.upload(stream, to, from, bytes) }
    }

    unsafe fn launch(&self, stream: usize, launch: &Launch<'_>) -> Result<(), Fault> {
        // SAFETY: the caller's.
        unsafe { self.device.launch(stream, launch)? };
        if self.is_timed.load(Ordering::Relaxed) {
            self.device.finish(stream, AT_MOST)
        } else {
            Ok(())
        }
    }

    unsafe fn download(
        &self,
        stream: usize,
        from: u64,
        to: *mut u8,
        bytes: usize,
    ) -> Result<(), Fault> {
        self.from.fetch_add(bytes as u64, Ordering::Relaxed);
        // SAFETY: the caller's.
        unsafe { self.device.download(stream, from, to, bytes) }
    }
}
