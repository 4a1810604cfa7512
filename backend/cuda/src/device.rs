//! The interface of a device.

use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::time::Duration;

use gabion_scheme::ct;

use crate::pages::{PageOwner, Pages};

/// The reason why a device call failed. The contents of the device's memory are undefined
/// afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The device has not enough memory.
    NoMemory,
    /// The device refused, failed or is gone.
    Failed,
    /// The device did not finish in time.
    TimedOut,
}

/// The arguments of a kernel: plain words, as the kernel's type in C++ declares them.
///
/// # Safety
/// The type is `repr(C)`, has no padding and no pointers but addresses on the device.
pub unsafe trait Arguments: Copy {}

/// One kernel over some blocks.
#[derive(Clone, Copy, Debug)]
pub struct Launch<'a> {
    /// The kernel's name, as in `kernels/*.inc`.
    pub kernel: &'a str,
    /// The bytes of the arguments.
    pub arguments: &'a [u8],
    /// The number of blocks.
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

/// Page-aligned host memory that a device can copy from and to directly, wiped when they are dropped. A forked child sees
/// zeros.
pub struct PinnedBuffer {
    pages: ManuallyDrop<Pages>,
    /// The driver that knows of them.
    owner: Option<Arc<dyn PageOwner>>,
}

impl PinnedBuffer {
    /// So many bytes, all zero, that no driver knows.
    ///
    /// # Errors
    /// [`Fault::NoMemory`].
    pub fn new(bytes: usize) -> Result<Self, Fault> {
        let pages = Pages::new(bytes).ok_or(Fault::NoMemory)?;
        Ok(PinnedBuffer { pages: ManuallyDrop::new(pages), owner: None })
    }

    /// Pages that a driver knows, and takes back.
    pub(crate) fn of(pages: Pages, owner: Arc<dyn PageOwner>) -> Self {
        PinnedBuffer { pages: ManuallyDrop::new(pages), owner: Some(owner) }
    }
}

impl Deref for PinnedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: its own memory, initialised with zeros.
        unsafe { std::slice::from_raw_parts(self.pages.start(), self.pages.len()) }
    }
}

impl DerefMut for PinnedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.pages.start(), self.pages.len()) }
    }
}

impl Drop for PinnedBuffer {
    fn drop(&mut self) {
        ct::wipe(self);
        // SAFETY: `pages` is not used afterwards.
        let pages = unsafe { ManuallyDrop::take(&mut self.pages) };
        match &self.owner {
            Some(owner) => owner.take_back(pages),
            None => drop(pages),
        }
    }
}

/// A device: memory, copies and launches. Operations on one stream run in order, and possibly late,
/// but before [`Device::finish`] returns.
pub trait Device: Send + Sync {
    /// So many bytes of memory, all zero, at an address that is a multiple of 256 and not 0.
    ///
    /// # Errors
    /// A [`Fault`].
    fn allocate(&self, bytes: usize) -> Result<u64, Fault>;

    /// Memory of the host from and to which the device copies by itself, all zero. Copies between other memory and
    /// the device go by way of memory of the device's driver.
    ///
    /// # Errors
    /// A [`Fault`].
    fn pin(&self, bytes: usize) -> Result<PinnedBuffer, Fault>;

    /// Copies bytes to the device.
    ///
    /// # Safety
    /// `from` has `bytes` bytes, which stay and do not change until [`Device::finish`] of this stream returned.
    ///
    /// # Errors
    /// A [`Fault`].
    unsafe fn upload(
        &self,
        stream: usize,
        to: u64,
        from: *const u8,
        bytes: usize,
    ) -> Result<(), Fault>;

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

    /// Copies bytes from the device. They are there once [`Device::finish`] returned without an error.
    ///
    /// # Safety
    /// `to` has room for `bytes` bytes, which are not read or written elsewhere until
    /// [`Device::finish`] of this stream returned.
    ///
    /// # Errors
    /// A [`Fault`].
    unsafe fn download(
        &self,
        stream: usize,
        from: u64,
        to: *mut u8,
        bytes: usize,
    ) -> Result<(), Fault>;

    /// Waits for all that the stream was asked for. Afterwards no memory of the host is read or written for it, error
    /// or not.
    ///
    /// # Errors
    /// A [`Fault`]; [`Fault::TimedOut`] if that takes longer than `at_most`.
    fn finish(&self, stream: usize, at_most: Duration) -> Result<(), Fault>;

    /// Discards all memory and all pending work, and restarts. Nothing that was launched before
    /// writes to memory that is allocated afterwards. Pinned memory stays, and may become slower.
    ///
    /// # Errors
    /// A [`Fault`], if the device is gone.
    fn restart(&self) -> Result<(), Fault>;
}

/// Methods of [`Device`] as the device in a field does them, for a device that is that one but for the rest.
///
/// ```
/// use gabion_cuda::{Device, Fault, Launch, forward_device};
///
/// /// Launches nothing.
/// struct Idle<D> {
///     device: D,
/// }
///
/// impl<D: Device> Device for Idle<D> {
///     forward_device!(device: allocate, pin, upload, clear, download, finish, restart);
///     unsafe fn launch(&self, _stream: usize, _launch: &Launch<'_>) -> Result<(), Fault> {
///         Ok(())
///     }
/// }
/// ```
#[macro_export]
macro_rules! forward_device {
    ($field:ident: $($method:ident),+ $(,)?) => {
        $($crate::forward_device!(@ $method $field);)+
    };
    (@ allocate $field:ident) => {
        fn allocate(&self, bytes: usize) -> Result<u64, $crate::Fault> {
            $crate::Device::allocate(&self.$field, bytes)
        }
    };
    (@ pin $field:ident) => {
        fn pin(&self, bytes: usize) -> Result<$crate::PinnedBuffer, $crate::Fault> {
            $crate::Device::pin(&self.$field, bytes)
        }
    };
    (@ upload $field:ident) => {
        unsafe fn upload(
            &self,
            stream: usize,
            to: u64,
            from: *const u8,
            bytes: usize,
        ) -> Result<(), $crate::Fault> {
            // SAFETY: the caller's.
            unsafe { $crate::Device::upload(&self.$field, stream, to, from, bytes) }
        }
    };
    (@ clear $field:ident) => {
        fn clear(&self, stream: usize, address: u64, bytes: usize) -> Result<(), $crate::Fault> {
            $crate::Device::clear(&self.$field, stream, address, bytes)
        }
    };
    (@ launch $field:ident) => {
        unsafe fn launch(
            &self,
            stream: usize,
            launch: &$crate::Launch<'_>,
        ) -> Result<(), $crate::Fault> {
            // SAFETY: the caller's.
            unsafe { $crate::Device::launch(&self.$field, stream, launch) }
        }
    };
    (@ download $field:ident) => {
        unsafe fn download(
            &self,
            stream: usize,
            from: u64,
            to: *mut u8,
            bytes: usize,
        ) -> Result<(), $crate::Fault> {
            // SAFETY: the caller's.
            unsafe { $crate::Device::download(&self.$field, stream, from, to, bytes) }
        }
    };
    (@ finish $field:ident) => {
        fn finish(
            &self,
            stream: usize,
            at_most: std::time::Duration,
        ) -> Result<(), $crate::Fault> {
            $crate::Device::finish(&self.$field, stream, at_most)
        }
    };
    (@ restart $field:ident) => {
        fn restart(&self) -> Result<(), $crate::Fault> {
            $crate::Device::restart(&self.$field)
        }
    };
}
