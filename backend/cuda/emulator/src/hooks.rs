//! An emulator with hooks, in which tests count, fail, skip or change calls.

use std::time::Duration;

use gabion_cuda::{Device, Fault, Launch, PinnedBuffer};

use crate::Emulator;

/// A call that a device is about to get.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Call<'a> {
    /// [`Device::allocate`] of so many bytes.
    Allocate(usize),
    /// [`Device::pin`] of so many bytes.
    Pin(usize),
    /// [`Device::upload`] of bytes.
    Upload {
        /// Where to.
        to: u64,
        /// The source on the host.
        from: &'a [u8],
    },
    /// [`Device::clear`] of so many bytes.
    Clear(usize),
    /// [`Device::launch`].
    Launch(&'a Launch<'a>),
    /// [`Device::download`] of so many bytes.
    Download(usize),
    /// [`Device::finish`].
    Finish,
    /// [`Device::restart`].
    Restart,
}

/// A hook's decision about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The call is passed to the device.
    Pass,
    /// The call is reported as done without being passed to the device. Calls that return data are passed on regardless.
    Skip,
}

/// Callbacks around the calls of a device.
pub trait Hook: Send + Sync {
    /// Before a call of `device`.
    ///
    /// # Errors
    /// The call's, which the device does not get then.
    fn before(&self, device: &Emulator, call: Call<'_>) -> Result<Action, Fault>;

    /// After memory was allocated.
    fn allocated(&self, _address: u64, _bytes: usize) {}

    /// After bytes were copied from the device.
    ///
    /// # Errors
    /// The call's.
    fn downloaded(&self, _device: &Emulator, _bytes: &mut [u8]) -> Result<(), Fault> {
        Ok(())
    }
}

/// An [`Emulator`] whose calls go through a hook.
#[derive(Default)]
pub struct HookedDevice<H> {
    /// The device behind it.
    pub device: Emulator,
    /// The hook, which is called first.
    pub hook: H,
}

impl<H> HookedDevice<H> {
    /// A new device with this hook.
    pub fn new(hook: H) -> Self {
        HookedDevice { device: Emulator::new(), hook }
    }
}

impl<H: Hook> HookedDevice<H> {
    /// Returns whether the device gets a call.
    fn passes(&self, call: Call<'_>) -> Result<bool, Fault> {
        Ok(self.hook.before(&self.device, call)? == Action::Pass)
    }
}

impl<H: Hook> Device for HookedDevice<H> {
    fn allocate(&self, bytes: usize) -> Result<u64, Fault> {
        self.passes(Call::Allocate(bytes))?;
        let address = self.device.allocate(bytes)?;
        self.hook.allocated(address, bytes);
        Ok(address)
    }

    fn pin(&self, bytes: usize) -> Result<PinnedBuffer, Fault> {
        self.passes(Call::Pin(bytes))?;
        self.device.pin(bytes)
    }

    unsafe fn upload(
        &self,
        stream: usize,
        to: u64,
        from: *const u8,
        bytes: usize,
    ) -> Result<(), Fault> {
        // SAFETY: the caller's: so many bytes, which do not change before this stream is finished.
        let sent = unsafe { std::slice::from_raw_parts(from, bytes) };
        if !self.passes(Call::Upload { to, from: sent })? {
            return Ok(());
        }
        // SAFETY: the caller's.
        unsafe { self.device.upload(stream, to, from, bytes) }
    }

    fn clear(&self, stream: usize, address: u64, bytes: usize) -> Result<(), Fault> {
        if self.passes(Call::Clear(bytes))? {
            self.device.clear(stream, address, bytes)
        } else {
            Ok(())
        }
    }

    unsafe fn launch(&self, stream: usize, launch: &Launch<'_>) -> Result<(), Fault> {
        if !self.passes(Call::Launch(launch))? {
            return Ok(());
        }
        // SAFETY: the caller's.
        unsafe { self.device.launch(stream, launch) }
    }

    unsafe fn download(
        &self,
        stream: usize,
        from: u64,
        to: *mut u8,
        bytes: usize,
    ) -> Result<(), Fault> {
        if !self.passes(Call::Download(bytes))? {
            return Ok(());
        }
        // SAFETY: the caller's.
        unsafe { self.device.download(stream, from, to, bytes)? };
        // SAFETY: the caller's memory, which this device has written already.
        let bytes = unsafe { std::slice::from_raw_parts_mut(to, bytes) };
        self.hook.downloaded(&self.device, bytes)
    }

    fn finish(&self, stream: usize, at_most: Duration) -> Result<(), Fault> {
        if self.passes(Call::Finish)? { self.device.finish(stream, at_most) } else { Ok(()) }
    }

    fn restart(&self) -> Result<(), Fault> {
        if self.passes(Call::Restart)? { self.device.restart() } else { Ok(()) }
    }
}
