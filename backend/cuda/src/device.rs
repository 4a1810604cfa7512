//! What is asked of a device.

use std::time::Duration;

/// Why a device did not do what it was asked for. Nobody can tell what its memory holds then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It has no memory for this.
    NoMemory,
    /// It refused, failed or is gone.
    Failed,
    /// It did not finish in time.
    TimedOut,
}

/// What a kernel is given: plain words, as the kernel's type in C++ has them.
///
/// # Safety
/// The type is `repr(C)`, has no padding and no pointers but addresses on the device.
pub unsafe trait Arguments: Copy {}

/// One kernel over some blocks.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// Its name, as in `kernels/*.inc`.
    pub kernel: &'a str,
    /// Its arguments' bytes.
    pub arguments: &'a [u8],
    /// How many blocks run.
    pub blocks: u32,
}

impl<'a> Launch<'a> {
    /// A kernel over `blocks` blocks.
    pub fn new<A: Arguments>(kernel: &'a str, arguments: &'a A, blocks: u32) -> Self {
        let start = std::ptr::from_ref(arguments).cast::<u8>();
        // SAFETY: as many bytes as the value has, all of them initialised since it has no padding.
        let arguments = unsafe { std::slice::from_raw_parts(start, size_of::<A>()) };
        Launch { kernel, arguments, blocks }
    }
}

/// A device: memory, copies and launches. What is asked for on one stream happens in order, and may happen later,
/// up to [`Device::finish`].
pub trait Device: Send + Sync {
    /// So many bytes of memory, all zero, at an address that is a multiple of 256 and not 0.
    ///
    /// # Errors
    /// A [`Fault`].
    fn allocate(&self, bytes: usize) -> Result<u64, Fault>;

    /// Copies bytes to the device; what they were can change afterwards.
    ///
    /// # Errors
    /// A [`Fault`].
    fn upload(&self, stream: usize, to: u64, bytes: &[u8]) -> Result<(), Fault>;

    /// Makes memory zero.
    ///
    /// # Errors
    /// A [`Fault`].
    fn clear(&self, stream: usize, address: u64, bytes: usize) -> Result<(), Fault>;

    /// Runs a kernel.
    ///
    /// # Safety
    /// The arguments are the kernel's, and every address in them is one of memory of this device that is as long as
    /// the kernel asks for.
    ///
    /// # Errors
    /// A [`Fault`].
    unsafe fn launch(&self, stream: usize, launch: &Launch<'_>) -> Result<(), Fault>;

    /// Waits for all that the stream was asked for.
    ///
    /// # Errors
    /// A [`Fault`]; [`Fault::TimedOut`] if that takes longer than `at_most`.
    fn finish(&self, stream: usize, at_most: Duration) -> Result<(), Fault>;

    /// Copies bytes from the device, after [`Device::finish`].
    ///
    /// # Errors
    /// A [`Fault`].
    fn download(&self, stream: usize, from: u64, bytes: &mut [u8]) -> Result<(), Fault>;

    /// Gives up all memory and all that was asked for, and begins anew. Nothing that was launched before writes to
    /// memory that is allocated afterwards.
    ///
    /// # Errors
    /// A [`Fault`], if the device is gone.
    fn restart(&self) -> Result<(), Fault>;
}
