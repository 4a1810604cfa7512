//! NVIDIA's driver: a [`Device`] over `libcuda.so.1`, which is loaded when a device is asked for. Nothing of NVIDIA's is
//! needed to build this, and a system without the library is one without a device.
//!
//! ```text
//!   Nvidia --> Stream: staging, order --> Gpu: the context, memory that is locked --> Context --> Api: libcuda
//! ```
//!
//! - Each device has a separate context. Each call makes it the thread's current one and afterwards
//!   restores the previous one: other code in the process may use CUDA too.
//! - An error other than lack of memory takes the context away, and every call fails until [`Device::restart`].
//! - A device copies by itself only from and to memory that it was given for that, staging or [`Device::pin`]'s. After a
//!   time-out it may still write to staging; pinned memory is not given back before the context is gone.
//! - A forked child calls nothing, and sees zeros in staging and in pinned memory.

mod context;
mod devices;
mod energy;
mod error;
mod gpu;
mod kernels;
mod library;
mod stream;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

pub use devices::DeviceInfo;
pub use energy::Energy;
pub use error::NoDevice;
pub use library::{Api, Code, Handle};

use crate::device::{Device, Fault, Launch, PinnedBuffer};
use crate::pages::{PageOwner, Pages};
use gpu::Gpu;
use stream::Stream;

/// The time limit for clearing allocated memory, and for the end of pending work.
const CLEARED_AT_MOST: Duration = Duration::from_secs(10);
const ENDED_AT_MOST: Duration = Duration::from_secs(2);
/// Streams of a device, at most.
const STREAMS_MAX: usize = 1024;

/// All GPUs that the driver sees, those too that it can't use: [`DeviceInfo::serves`] says which.
///
/// # Errors
/// [`NoDevice`]: there is no driver, it fails, or it sees no GPU.
pub fn devices() -> Result<Vec<DeviceInfo>, NoDevice> {
    devices::all(library::load()?)
}

/// Loads the driver and asks its version, and nothing else: a child that is forked afterwards can use devices.
///
/// # Errors
/// [`NoDevice::NoLibrary`], [`NoDevice::NoFunction`], [`NoDevice::OldDriver`].
pub fn check() -> Result<(), NoDevice> {
    check_over(library::load()?)
}

/// [`check`] of another library.
///
/// # Errors
/// Fails like [`check`].
#[doc(hidden)]
pub fn check_over(api: &'static Api) -> Result<(), NoDevice> {
    devices::check(api)
}

/// [`devices`] of another library.
///
/// # Errors
/// Fails like [`devices`].
#[doc(hidden)]
pub fn devices_over(api: &'static Api) -> Result<Vec<DeviceInfo>, NoDevice> {
    devices::all(api)
}

/// Returns the unpacked kernels: while a test holds them, its contexts do not unpack them again.
#[doc(hidden)]
pub fn held_kernels() -> Option<Arc<Vec<u8>>> {
    kernels::unpack().ok()
}

/// Opens each of these that there are kernels for and whose driver takes them. The kernels are unpacked once for all of them.
pub(crate) fn open_all(devices: &[DeviceInfo]) -> Vec<Result<Nvidia, NoDevice>> {
    // Held until the last one has its kernels; damaged ones are each device's own error.
    let _held = devices.iter().any(|info| info.serves().is_ok()).then(kernels::unpack);
    let open = |info: &DeviceInfo| info.serves().and_then(|()| Nvidia::open(info.ordinal));
    devices.iter().map(open).collect()
}

/// A GPU of NVIDIA's.
pub struct Nvidia {
    gpu: Arc<Gpu>,
    info: DeviceInfo,
    streams: RwLock<Vec<Arc<Mutex<Stream>>>>,
    /// The stream that clears allocated memory.
    own: Mutex<Stream>,
    counters: [AtomicU64; COUNTERS],
    is_timed: AtomicBool,
    times: Mutex<BTreeMap<String, (u64, f64)>>,
}

/// The calls of a device since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Kernels that were launched.
    pub launches: u64,
    /// Bytes that were copied to the device.
    pub uploaded: u64,
    /// Bytes that were copied from the device.
    pub downloaded: u64,
    /// Bytes of both that went through staging.
    pub staged: u64,
    /// The number of restarts.
    pub restarts: u64,
}

const COUNTERS: usize = 5;
const LAUNCHES: usize = 0;
const UPLOADED: usize = 1;
const DOWNLOADED: usize = 2;
const STAGED: usize = 3;
const RESTARTS: usize = 4;

impl Nvidia {
    /// A GPU by its number, which [`DeviceInfo::ordinal`] is.
    ///
    /// # Errors
    /// [`NoDevice`].
    pub fn open(ordinal: u32) -> Result<Self, NoDevice> {
        Self::over(library::load()?, ordinal)
    }

    /// [`Self::open`] with another library.
    ///
    /// # Errors
    /// Fails like [`Self::open`].
    #[doc(hidden)]
    pub fn over(api: &'static Api, ordinal: u32) -> Result<Self, NoDevice> {
        let (device, info) = devices::one(api, ordinal)?;
        info.serves()?;
        Ok(Nvidia {
            gpu: Gpu::open(api, device)?,
            info,
            streams: RwLock::default(),
            own: Mutex::default(),
            counters: Default::default(),
            is_timed: AtomicBool::new(false),
            times: Mutex::default(),
        })
    }

    /// Returns the driver's information about the device.
    pub fn info(&self) -> &DeviceInfo {
        &self.info
    }

    /// Returns the bytes of free memory.
    ///
    /// # Errors
    /// A [`Fault`].
    pub fn free_bytes(&self) -> Result<u64, Fault> {
        self.gpu.with(|current| current.free_bytes()).map(|bytes| bytes as u64)
    }

    /// Returns the call counters.
    pub fn counters(&self) -> Counters {
        let of = |number: usize| self.counters[number].load(Ordering::Relaxed);
        Counters {
            launches: of(LAUNCHES),
            uploaded: of(UPLOADED),
            downloaded: of(DOWNLOADED),
            staged: of(STAGED),
            restarts: of(RESTARTS),
        }
    }

    /// Switches the timing of later launches on or off and resets [`Self::times`]. Each timed
    /// launch has two events, which take some microseconds more.
    pub fn profile(&self, is_timed: bool) {
        self.is_timed.store(is_timed, Ordering::Relaxed);
        lock(&self.times).clear();
    }

    /// Returns for each timed kernel its name, the number of launches, and the sum of their
    /// durations in milliseconds of the device. Kernels that run concurrently in several streams
    /// count separately.
    pub fn times(&self) -> Vec<(String, u64, f64)> {
        let times = lock(&self.times);
        times.iter().map(|(name, &(launches, ms))| (name.clone(), launches, ms)).collect()
    }

    fn count(&self, number: usize, more: usize) {
        self.counters[number].fetch_add(more as u64, Ordering::Relaxed);
    }

    /// A stream, in the process that has them.
    fn stream(&self, number: usize) -> Result<Arc<Mutex<Stream>>, Fault> {
        if !self.gpu.is_here() || number >= STREAMS_MAX {
            return Err(Fault::Failed);
        }
        let streams = self.streams.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(stream) = streams.get(number) {
            return Ok(Arc::clone(stream));
        }
        drop(streams);
        let mut streams = self.streams.write().unwrap_or_else(PoisonError::into_inner);
        while streams.len() <= number {
            streams.push(Arc::default());
        }
        Ok(Arc::clone(&streams[number]))
    }

    fn all_streams(&self) -> Vec<Arc<Mutex<Stream>>> {
        self.streams.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Device for Nvidia {
    fn allocate(&self, bytes: usize) -> Result<u64, Fault> {
        if !self.gpu.is_here() {
            return Err(Fault::Failed);
        }
        let address = self.gpu.with(|current| current.allocate(bytes.max(1)))?;
        let mut own = lock(&self.own);
        let cleared = own.clear(&self.gpu, address, bytes.max(1));
        let finished = own.finish(&self.gpu, CLEARED_AT_MOST);
        cleared.and(finished).map(|_| address)
    }

    fn pin(&self, bytes: usize) -> Result<PinnedBuffer, Fault> {
        let pages = Pages::new(bytes).ok_or(Fault::NoMemory)?;
        // SAFETY: the pages come back to `take_back` before they go.
        unsafe { self.gpu.pin(pages.start(), pages.len()) };
        Ok(PinnedBuffer::of(pages, Arc::clone(&self.gpu) as Arc<dyn PageOwner>))
    }

    unsafe fn upload(
        &self,
        stream: usize,
        to: u64,
        from: *const u8,
        bytes: usize,
    ) -> Result<(), Fault> {
        if bytes == 0 {
            return Ok(());
        }
        let stream = self.stream(stream)?;
        // SAFETY: the caller's.
        let is_staged = unsafe { lock(&stream).upload(&self.gpu, to, from, bytes)? };
        self.count(UPLOADED, bytes);
        self.count(STAGED, if is_staged { bytes } else { 0 });
        Ok(())
    }

    fn clear(&self, stream: usize, address: u64, bytes: usize) -> Result<(), Fault> {
        if bytes == 0 {
            return Ok(());
        }
        let stream = self.stream(stream)?;
        lock(&stream).clear(&self.gpu, address, bytes)
    }

    unsafe fn launch(&self, stream: usize, launch: &Launch<'_>) -> Result<(), Fault> {
        if launch.blocks == 0 {
            return Ok(());
        }
        let stream = self.stream(stream)?;
        let is_timed = self.is_timed.load(Ordering::Relaxed);
        // SAFETY: the caller's.
        unsafe { lock(&stream).launch(&self.gpu, launch, is_timed)? };
        self.count(LAUNCHES, 1);
        Ok(())
    }

    unsafe fn download(
        &self,
        stream: usize,
        from: u64,
        to: *mut u8,
        bytes: usize,
    ) -> Result<(), Fault> {
        if bytes == 0 {
            return Ok(());
        }
        let stream = self.stream(stream)?;
        // SAFETY: the caller's.
        let is_staged = unsafe { lock(&stream).download(&self.gpu, from, to, bytes)? };
        self.count(DOWNLOADED, bytes);
        self.count(STAGED, if is_staged { bytes } else { 0 });
        Ok(())
    }

    fn finish(&self, stream: usize, at_most: Duration) -> Result<(), Fault> {
        let stream = self.stream(stream)?;
        let timed = lock(&stream).finish(&self.gpu, at_most)?;
        if !timed.is_empty() {
            let mut times = lock(&self.times);
            for (kernel, ms) in timed {
                let sum = times.entry(kernel).or_default();
                *sum = (sum.0 + 1, sum.1 + ms);
            }
        }
        Ok(())
    }

    fn restart(&self) -> Result<(), Fault> {
        let restarted = self.gpu.restart();
        if self.gpu.is_here() && self.gpu.is_quiet(Some(Duration::ZERO)) {
            for stream in self.all_streams() {
                lock(&stream).renew();
            }
            lock(&self.own).renew();
        }
        if restarted.is_ok() {
            self.count(RESTARTS, 1);
        }
        restarted
    }
}

impl PageOwner for Gpu {
    fn take_back(&self, pages: Pages) {
        self.unpin(pages);
    }
}

impl Drop for Nvidia {
    fn drop(&mut self) {
        // A forked child has no device, and a lock may be one of a thread that it does not have.
        if !self.gpu.is_here() {
            return;
        }
        let streams = self.all_streams();
        for stream in &streams {
            lock(stream).give_up(&self.gpu);
        }
        let is_direct = streams.iter().any(|stream| lock(stream).is_direct());
        if !self.gpu.close(if is_direct { None } else { Some(ENDED_AT_MOST) }) {
            for stream in &streams {
                lock(stream).abandon();
            }
        }
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
