//! A stream: what one chunk of a batch asks of the device, in order, and the memory that copies go through.
//!
//! ```text
//!   upload:    host's memory --copied at once--> staging --device--> device's memory
//!   download:  device's memory --device--> staging --copied by finish--> host's memory
//!              and without staging where the host's memory is locked
//! ```

use std::thread;
use std::time::{Duration, Instant};

use super::context::CurrentContext;
use super::gpu::{Gpu, try_register};
use super::library::{Handle, Refusal};
use crate::device::{Fault, Launch};
use crate::pages::Pages;

/// Staging begins with so many bytes, and each part of it at a multiple of so many.
const STAGING_LEAST: usize = 64 << 10;
const STAGING_ALIGNMENT: usize = 256;
/// The time for which a wait polls without a pause, and its pauses afterwards.
const SPIN: Duration = Duration::from_micros(20);
const PAUSE_LEAST: Duration = Duration::from_micros(20);
const PAUSE_MOST: Duration = Duration::from_micros(100);

/// A stream. Its memory outlives the contexts in which it is used.
#[derive(Default)]
pub(super) struct Stream {
    work: Option<Work>,
    staging: Vec<Slab>,
    /// Bytes that staging should have in one piece.
    wanted: usize,
    /// Downloads that are to be copied on.
    downloads: Vec<Download>,
    /// Whether anything was asked for since it finished, and whether that is a copy without staging.
    is_open: bool,
    is_direct: bool,
    timed: Vec<TimedLaunch>,
    /// Events with times, for the next launches.
    events: Vec<Handle>,
}

/// The stream's objects in a context.
#[derive(Clone, Copy)]
struct Work {
    generation: u64,
    stream: Handle,
    /// The event that signals that all work is done.
    done: Handle,
}

/// A part of staging.
struct Slab {
    pages: Pages,
    used: usize,
    /// The context in which the driver was asked to lock it, and the one in which it succeeded,
    /// or 0.
    asked: u64,
    locked: u64,
}

/// Bytes that are in staging once the device is done, and where they go. Both are addresses.
struct Download {
    from: usize,
    to: usize,
    bytes: usize,
}

/// A launch with the events before and after it, for its duration.
struct TimedLaunch {
    kernel: String,
    from: Handle,
    to: Handle,
}

/// The start of a part of the staging memory.
struct StagingPointer(*mut u8);

impl Stream {
    /// Copies to the device. Whether that went through staging.
    ///
    /// # Safety
    /// Fails like [`crate::Device::upload`].
    pub(super) unsafe fn upload(
        &mut self,
        gpu: &Gpu,
        to: u64,
        from: *const u8,
        bytes: usize,
    ) -> Result<bool, Fault> {
        self.ask(gpu, |stream, work, current| {
            if gpu.is_pinned(from, bytes, work.generation) {
                stream.is_direct = true;
                // SAFETY: the caller's, and `finish` keeps it.
                unsafe { current.upload(work.stream, to, from, bytes)? };
                return Ok(false);
            }
            let staged = stream.stage(current, bytes)?;
            // SAFETY: as many bytes as `from` has by the caller's word, in memory of the stream's own, which stays until
            // the context is past this or gone.
            unsafe {
                std::ptr::copy_nonoverlapping(from, staged.0, bytes);
                current.upload(work.stream, to, staged.0, bytes)?;
            }
            Ok(true)
        })
    }

    /// Copies from the device. Whether that goes through staging.
    ///
    /// # Safety
    /// Fails like [`crate::Device::download`].
    pub(super) unsafe fn download(
        &mut self,
        gpu: &Gpu,
        from: u64,
        to: *mut u8,
        bytes: usize,
    ) -> Result<bool, Fault> {
        self.ask(gpu, |stream, work, current| {
            if gpu.is_pinned(to, bytes, work.generation) {
                stream.is_direct = true;
                // SAFETY: the caller's, and `finish` keeps it.
                unsafe { current.download(work.stream, from, to, bytes)? };
                return Ok(false);
            }
            let staged = stream.stage(current, bytes)?;
            // SAFETY: memory of the stream's own, as above.
            unsafe { current.download(work.stream, from, staged.0, bytes)? };
            let download = Download { from: staged.0 as usize, to: to as usize, bytes };
            stream.downloads.push(download);
            Ok(true)
        })
    }

    /// Makes memory of the device zero.
    pub(super) fn clear(&mut self, gpu: &Gpu, address: u64, bytes: usize) -> Result<(), Fault> {
        self.ask(gpu, |_, work, current| current.clear(work.stream, address, bytes))
    }

    /// Runs a kernel, between two events if it is to be timed.
    ///
    /// # Safety
    /// Fails like [`crate::Device::launch`].
    pub(super) unsafe fn launch(
        &mut self,
        gpu: &Gpu,
        launch: &Launch<'_>,
        is_timed: bool,
    ) -> Result<(), Fault> {
        self.ask(gpu, |stream, work, current| {
            if !is_timed {
                // SAFETY: the caller's.
                return unsafe { current.launch(work.stream, launch) };
            }
            let (from, to) = (stream.event(current)?, stream.event(current)?);
            current.record(from, work.stream)?;
            // SAFETY: the caller's.
            unsafe { current.launch(work.stream, launch)? };
            current.record(to, work.stream)?;
            stream.timed.push(TimedLaunch { kernel: launch.kernel.to_owned(), from, to });
            Ok(())
        })
    }

    /// Waits for all that was asked for; afterwards neither the device nor this touches memory of a caller's for it.
    /// The launches that were timed, and their milliseconds.
    ///
    /// After an error the context is taken away. If the device copies from or to memory of a caller's by itself, this
    /// waits until the context is gone; else that may take longer than this.
    pub(super) fn finish(
        &mut self,
        gpu: &Gpu,
        at_most: Duration,
    ) -> Result<Vec<(String, f64)>, Fault> {
        let Some(work) = self.work.filter(|_| self.is_open) else {
            return if gpu.is_alive() { Ok(Vec::new()) } else { Err(Fault::Failed) };
        };
        let done = wait(gpu, work, at_most).and_then(|()| self.times(gpu, work));
        if done.is_ok() {
            for download in &self.downloads {
                let (from, to) = (download.from as *const u8, download.to as *mut u8);
                // SAFETY: staging that the device wrote, and what the caller of `download` promised.
                unsafe { std::ptr::copy_nonoverlapping(from, to, download.bytes) };
            }
            self.is_open = false;
            self.gather(gpu);
            self.wipe();
        } else {
            gpu.retire(work.generation);
            if gpu.is_quiet(if self.is_direct { None } else { Some(Duration::ZERO) }) {
                self.wipe();
            }
        }
        self.downloads.clear();
        (self.is_open, self.is_direct) = (false, false);
        done
    }

    /// Forgets its objects in earlier contexts, which are gone, and wipes their leftovers.
    pub(super) fn renew(&mut self) {
        if !self.is_open {
            self.work = None;
            self.timed.clear();
            self.events.clear();
            self.wipe();
        }
    }

    /// Returns whether a device copies from or to memory of a caller's for it.
    pub(super) fn is_direct(&self) -> bool {
        self.is_direct
    }

    /// Releases staging memory, unless a device may still write to it.
    pub(super) fn give_up(&mut self, gpu: &Gpu) {
        if !self.is_open {
            self.wipe();
            for slab in self.staging.drain(..) {
                gpu.give_up(slab.pages, slab.locked);
            }
        }
    }

    /// Leaks its staging memory, because a device may still use it.
    pub(super) fn abandon(&mut self) {
        std::mem::forget(std::mem::take(&mut self.staging));
    }

    /// Asks the driver, in order.
    fn ask<T>(
        &mut self,
        gpu: &Gpu,
        ask: impl FnOnce(&mut Self, Work, &CurrentContext<'_>) -> Result<T, Refusal>,
    ) -> Result<T, Fault> {
        if self.is_open {
            // Earlier operations of this stream ran in this context; if it is lost, so is this
            // operation.
            let work = self.work.ok_or(Fault::Failed)?;
            return gpu.with_the(work.generation, |current| ask(self, work, current));
        }
        gpu.with(|current| {
            let work = match self.work {
                Some(work) if work.generation == current.generation() => work,
                _ => {
                    self.renew();
                    let (stream, done) = (current.stream()?, current.event(false)?);
                    Work { generation: current.generation(), stream, done }
                }
            };
            self.work = Some(work);
            self.is_open = true;
            ask(self, work, current)
        })
    }

    /// A part of staging.
    fn stage(
        &mut self,
        current: &CurrentContext<'_>,
        bytes: usize,
    ) -> Result<StagingPointer, Refusal> {
        let fits = self.staging.last().is_some_and(|slab| bytes <= slab.pages.len() - slab.used);
        if !fits {
            let least = STAGING_LEAST.max(self.wanted).max(bytes);
            let size = least.checked_next_power_of_two().ok_or(Refusal::NO_HOST_MEMORY)?;
            let pages = Pages::new(size).ok_or(Refusal::NO_HOST_MEMORY)?;
            self.staging.push(Slab { pages, used: 0, asked: 0, locked: 0 });
        }
        let slab = self.staging.last_mut().ok_or(Refusal::NO_HOST_MEMORY)?;
        if slab.asked != current.generation() {
            slab.asked = current.generation();
            // SAFETY: the pages stay until the driver has unlocked them or the context is gone. If the driver does not
            // lock them it copies all the same, and slower.
            slab.locked = unsafe { try_register(current, slab.pages.start(), slab.pages.len()) };
        }
        // SAFETY: at most the end of the pages.
        let start = unsafe { slab.pages.start().add(slab.used) };
        let end = (slab.used + bytes).next_multiple_of(STAGING_ALIGNMENT);
        slab.used = end.min(slab.pages.len());
        Ok(StagingPointer(start))
    }

    /// Wipes the used part of staging memory, which devices no longer use.
    fn wipe(&mut self) {
        for slab in &mut self.staging {
            // SAFETY: as said.
            unsafe { slab.pages.wipe(slab.used) };
            slab.used = 0;
        }
    }

    /// Makes one piece of several, at next use.
    fn gather(&mut self, gpu: &Gpu) {
        if self.staging.len() > 1 {
            self.wanted = self.staging.iter().map(|slab| slab.used).sum();
            self.give_up(gpu);
        }
    }

    /// An event with a time.
    fn event(&mut self, current: &CurrentContext<'_>) -> Result<Handle, Refusal> {
        self.events.pop().map_or_else(|| current.event(true), Ok)
    }

    /// Returns how long each launch took that was timed.
    fn times(&mut self, gpu: &Gpu, work: Work) -> Result<Vec<(String, f64)>, Fault> {
        if self.timed.is_empty() {
            return Ok(Vec::new());
        }
        gpu.with_the(work.generation, |current| {
            let mut times = Vec::with_capacity(self.timed.len());
            for TimedLaunch { kernel, from, to } in self.timed.drain(..) {
                times.push((kernel, f64::from(current.elapsed_ms(from, to)?)));
                self.events.extend([from, to]);
            }
            Ok(times)
        })
    }
}

/// Waits until the stream has done all.
fn wait(gpu: &Gpu, work: Work, at_most: Duration) -> Result<(), Fault> {
    gpu.with_the(work.generation, |current| current.record(work.done, work.stream))?;
    let (begun, mut pause) = (Instant::now(), PAUSE_LEAST);
    loop {
        if gpu.with_the(work.generation, |current| current.is_past(work.done))? {
            return Ok(());
        }
        let waited = begun.elapsed();
        if waited >= at_most {
            return Err(Fault::TimedOut);
        }
        if waited < SPIN {
            std::hint::spin_loop();
        } else {
            thread::sleep(pause.min(at_most - waited));
            pause = (2 * pause).min(PAUSE_MOST);
        }
    }
}
