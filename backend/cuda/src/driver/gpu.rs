//! A device with the context that it has at present, and the host's memory that is locked for it.
//!
//! ```text
//!   Context n --a fault--> none: every call fails --restart--> Context n + 1
//!                            |
//!                            +--> a thread that destroys it, which may take as long as its kernels do
//! ```

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread;
use std::time::Duration;

use gabion_backend::forks;

use super::context::{Context, CurrentContext, RetiredContext};
use super::error::NoDevice;
use super::kernels;
use super::library::{Api, Refusal};
use crate::device::Fault;
use crate::pages::Pages;

/// The maximum wait of a restart for the previous context to be destroyed.
const RETIRE_AT_MOST: Duration = Duration::from_secs(2);

/// A device.
pub(super) struct Gpu {
    api: &'static Api,
    device: c_int,
    /// The process that opened it; a forked child has no device, and calls nothing.
    process: Option<u64>,
    context: RwLock<Option<Context>>,
    /// The number of contexts so far.
    contexts: AtomicU64,
    retiring: Arc<RetiringContexts>,
    /// Held by a restart.
    restart: Mutex<()>,
    /// Memory that its owners have locked, by address.
    pins: RwLock<BTreeMap<usize, Pin>>,
    /// Memory that came back while there was no context to unlock it in.
    orphans: Mutex<Vec<Pages>>,
}

/// Host memory that is owned elsewhere.
#[derive(Clone, Copy)]
struct Pin {
    bytes: usize,
    /// The context that it is locked in; 0 for none.
    generation: u64,
}

impl Gpu {
    /// A device with a context.
    ///
    /// # Errors
    /// [`NoDevice`].
    pub(super) fn open(api: &'static Api, device: c_int) -> Result<Arc<Self>, NoDevice> {
        let image = kernels::unpack()?;
        let context =
            Context::new(api, device, 1, &image).map_err(|refusal| api.no_device(refusal))?;
        Ok(Arc::new(Gpu {
            api,
            device,
            process: forks::token(),
            context: RwLock::new(Some(context)),
            contexts: AtomicU64::new(1),
            retiring: Arc::default(),
            restart: Mutex::default(),
            pins: RwLock::default(),
            orphans: Mutex::default(),
        }))
    }

    /// Returns whether this is the process that opened it.
    pub(super) fn is_here(&self) -> bool {
        self.process == forks::token()
    }

    /// Asks the driver in the context of the device.
    ///
    /// # Errors
    /// [`Fault::NoMemory`] if the allocation fails; [`Fault::Failed`] for every other error, after
    /// which there is no context before a restart.
    pub(super) fn with<T>(
        &self,
        ask: impl FnOnce(&CurrentContext<'_>) -> Result<T, Refusal>,
    ) -> Result<T, Fault> {
        self.with_any(|_| true, ask)
    }

    /// Calls the driver like [`Self::with`], but in one context only; [`Fault::Failed`] if the
    /// device has another one now.
    pub(super) fn with_the<T>(
        &self,
        generation: u64,
        ask: impl FnOnce(&CurrentContext<'_>) -> Result<T, Refusal>,
    ) -> Result<T, Fault> {
        self.with_any(|context| context.generation() == generation, ask)
    }

    fn with_any<T>(
        &self,
        is_it: impl FnOnce(&Context) -> bool,
        ask: impl FnOnce(&CurrentContext<'_>) -> Result<T, Refusal>,
    ) -> Result<T, Fault> {
        if !self.is_here() {
            return Err(Fault::Failed);
        }
        let now = self.context.read().unwrap_or_else(PoisonError::into_inner);
        let context = now.as_ref().filter(|context| is_it(context)).ok_or(Fault::Failed)?;
        let (answer, generation) = (context.with(ask), context.generation());
        drop(now);
        answer.map_err(|refusal| {
            if refusal.is_of_memory() {
                return Fault::NoMemory;
            }
            self.retire(generation);
            Fault::Failed
        })
    }

    /// Returns whether there is a context.
    pub(super) fn is_alive(&self) -> bool {
        self.is_here() && self.context.read().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Takes a context away, if it is still the device's current one, and has a thread destroy it.
    pub(super) fn retire(&self, generation: u64) {
        if !self.is_here() {
            return;
        }
        let mut now = self.context.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(context) = now.take_if(|context| context.generation() == generation) {
            // Before other threads can see that it is gone.
            self.retiring.begin();
            drop(now);
            let (retired, retiring) = (context.retire(), Arc::clone(&self.retiring));
            RetiringContexts::run(retiring, retired);
        }
    }

    /// Waits until no context is left that was taken away, and so nothing that it was asked for: as long as that
    /// takes, or `at_most`. Whether that is so.
    pub(super) fn is_quiet(&self, at_most: Option<Duration>) -> bool {
        // A forked child has no threads of its parent and no device.
        !self.is_here() || self.retiring.wait(at_most)
    }

    /// Creates a new context of the device.
    ///
    /// # Errors
    /// [`Fault::TimedOut`] if the previous context is not destroyed yet; [`Fault::Failed`] if the
    /// device is gone.
    pub(super) fn restart(&self) -> Result<(), Fault> {
        if !self.is_here() {
            return Err(Fault::Failed);
        }
        let _alone = self.restart.lock().unwrap_or_else(PoisonError::into_inner);
        self.retire(self.contexts.load(Ordering::Relaxed));
        if !self.is_quiet(Some(RETIRE_AT_MOST)) {
            return Err(Fault::TimedOut);
        }
        let image = kernels::unpack().map_err(|_| Fault::Failed)?;
        let generation = self.contexts.fetch_add(1, Ordering::Relaxed) + 1;
        let context =
            Context::new(self.api, self.device, generation, &image).map_err(|_| Fault::Failed)?;
        let locked = context.with(|current| {
            for pages in lock(&self.orphans).drain(..) {
                // Whatever the driver still knows of them.
                let _ = current.unregister(pages.start());
            }
            let mut pins = self.pins.write().unwrap_or_else(PoisonError::into_inner);
            for (&start, pin) in pins.iter_mut() {
                let start = start as *mut u8;
                let _ = current.unregister(start);
                // SAFETY: the owner of the memory calls `unpin` before releasing it.
                let done = unsafe { current.register(start, pin.bytes) };
                pin.generation = if done.is_ok() { generation } else { 0 };
            }
            Ok(())
        });
        if locked.is_err() {
            self.retiring.begin();
            RetiringContexts::run(Arc::clone(&self.retiring), context.retire());
            return Err(Fault::Failed);
        }
        *self.context.write().unwrap_or_else(PoisonError::into_inner) = Some(context);
        Ok(())
    }

    /// Locks memory, if the driver does that now; a restart tries again. It is to be given back to [`Self::unpin`].
    ///
    /// # Safety
    /// The memory stays mapped until then.
    pub(super) unsafe fn pin(&self, start: *mut u8, bytes: usize) {
        // SAFETY: the caller's.
        let locked = self.with(|current| unsafe { Ok(try_register(current, start, bytes)) });
        let pin = Pin { bytes, generation: locked.unwrap_or(0) };
        self.pins.write().unwrap_or_else(PoisonError::into_inner).insert(start as usize, pin);
    }

    /// Unlocks memory that was given to [`Self::pin`], and gives it up.
    pub(super) fn unpin(&self, pages: Pages) {
        if !self.is_here() {
            return;
        }
        let mut pins = self.pins.write().unwrap_or_else(PoisonError::into_inner);
        let pin = pins.remove(&(pages.start() as usize));
        drop(pins);
        self.give_up(pages, pin.map_or(0, |pin| pin.generation));
    }

    /// Returns whether bytes of the host lie in memory that is locked in a context.
    pub(super) fn is_pinned(&self, start: *const u8, bytes: usize, generation: u64) -> bool {
        let pins = self.pins.read().unwrap_or_else(PoisonError::into_inner);
        let before = pins.range(..=start as usize).next_back();
        before.is_some_and(|(&from, pin)| {
            let offset = start as usize - from;
            pin.generation == generation && offset <= pin.bytes && bytes <= pin.bytes - offset
        })
    }

    /// Unlocks memory that is locked in a context, or not locked if `generation` is 0, and releases
    /// it; without a context, at the next restart.
    pub(super) fn give_up(&self, pages: Pages, generation: u64) {
        if generation == 0 || !self.is_here() {
            return;
        }
        let unlocked = self.with(|current| {
            let done = current.unregister(pages.start());
            // A later context may know nothing of it.
            Ok(done.is_ok() || current.generation() != generation)
        });
        if unlocked != Ok(true) {
            lock(&self.orphans).push(pages);
        }
    }

    /// Ends the context, in which nothing is to run any more; waits for that as long as it takes, or `at_most`. Whether
    /// it is gone.
    pub(super) fn close(&self, at_most: Option<Duration>) -> bool {
        let unlocked = self.with(|current| {
            let mut pins = self.pins.write().unwrap_or_else(PoisonError::into_inner);
            for (&start, pin) in pins.iter_mut().filter(|(_, pin)| pin.generation != 0) {
                let _ = current.unregister(start as *mut u8);
                pin.generation = 0;
            }
            Ok(())
        });
        // An error took the context away already.
        let _ = unlocked;
        self.retire(self.contexts.load(Ordering::Relaxed));
        self.is_quiet(at_most)
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        if !self.close(Some(RETIRE_AT_MOST)) {
            // Running operations may still write to this memory.
            std::mem::forget(std::mem::take(&mut *lock(&self.orphans)));
        }
    }
}

/// Locks memory for the device. Returns the generation of the context that it is locked in, or 0 if the driver refuses.
///
/// # Safety
/// The requirements of [`CurrentContext::register`].
pub(super) unsafe fn try_register(
    current: &CurrentContext<'_>,
    start: *mut u8,
    bytes: usize,
) -> u64 {
    // SAFETY: the caller's.
    let done = unsafe { current.register(start, bytes) };
    if done.is_ok() { current.generation() } else { 0 }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The number of contexts that are being destroyed. The driver waits for their pending work,
/// possibly for ever.
#[derive(Default)]
struct RetiringContexts {
    count: Mutex<usize>,
    is_less: Condvar,
}

impl RetiringContexts {
    fn begin(&self) {
        *lock(&self.count) += 1;
    }

    /// Destroys a context on a separate thread, or on this one if no thread can be started.
    fn run(retiring: Arc<Self>, retired: RetiredContext) {
        let destroy = move || {
            retired.destroy();
            *lock(&retiring.count) -= 1;
            retiring.is_less.notify_all();
        };
        let named = thread::Builder::new().name("gabion-cuda-end".to_owned());
        if named.spawn(destroy.clone()).is_err() {
            destroy();
        }
    }

    fn wait(&self, at_most: Option<Duration>) -> bool {
        let count = lock(&self.count);
        match at_most {
            Some(at_most) => {
                let waited = self.is_less.wait_timeout_while(count, at_most, |count| *count > 0);
                *waited.unwrap_or_else(PoisonError::into_inner).0 == 0
            }
            None => {
                let waited = self.is_less.wait_while(count, |count| *count > 0);
                *waited.unwrap_or_else(PoisonError::into_inner) == 0
            }
        }
    }
}
