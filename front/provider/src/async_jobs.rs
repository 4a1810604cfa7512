//! Operations inside OpenSSL's asynchronous jobs (SSL_MODE_ASYNC): the job pauses, and what waits
//! runs together on another thread.
//!
//! ```text
//!   connection A: SSL_do_handshake --> encaps --> hands it in, pauses --+   SSL_ERROR_WANT_ASYNC
//!   connection B: SSL_do_handshake --> encaps --> hands it in, pauses --+-> one batch on a worker
//!        event loop: A's and B's eventfd are readable <-----------------+
//!   connection A: SSL_do_handshake --> goes on where it paused, with its result
//! ```
//!
//! A job's stack is 32 KiB and its program may never resume it, so nothing that the worker touches
//! lies there: inputs are copied into the queue, and the result and the descriptor belong to a
//! [`Waiter`], which the connection's wait context and the worker share. The descriptor is the wait
//! context's: it is closed with that, and a worker that comes later writes nowhere.
//!
//! Pausing takes two changes of thread, so an operation pauses only when others are on their way,
//! or, now and then, to see whether others come meanwhile ([`PausePolicy`]). If anything is
//! missing, full or fails, the operation runs where it is, as outside of a job.

use std::any::Any;
use std::ffi::{c_int, c_void};
use std::num::NonZero;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError, TryLockError};
use std::time::Duration;

use gabion_engine::host::CancellationGuard;
use gabion_engine::{
    Engine, Entropy, EntropyError, Error, KemPrivateKey, KemPublicKey, Limits, Message, Queue,
    SharedSecret, SigningKey, Ticket,
};
use zeroize::{Zeroize, Zeroizing};

use crate::fibre::{Fibres, WaitCtx};
use crate::process::{ForkAware, PerProcess, Process, lock};

/// Maximum number of operations in a batch: enough to fill the lanes, while no operation waits for
/// too many others.
const LANES_MAX: NonZero<usize> = NonZero::new(16).unwrap();

/// Bytes of randomness that may lie ready for the worker: those of 1000 hybrid encapsulations.
const DRAWN_MAX: usize = 64 << 10;

/// How often a job that is resumed before its result is there pauses again; then it waits, no
/// longer than this: the worker may need what the caller holds, the loader's lock in a constructor.
const PAUSES_MAX: usize = 4;
const WAIT_MAX: Duration = Duration::from_millis(100);

/// Operations that run without a pause before the first one is tried, and at most between two
/// tries.
const SKIPS_FIRST: u32 = 16;
const SKIPS_MAX: u32 = 255;

/// The operations that paused an asynchronous job, of one loading of the provider.
pub struct AsyncJobs {
    process: Arc<Process>,
    /// None where they are switched off, or libcrypto's functions were not found.
    fibres: Option<Fibres>,
    workers: PerProcess<Worker>,
}

impl AsyncJobs {
    /// Returns the jobs of a process. No thread is started before an operation pauses.
    pub fn new(process: &Arc<Process>, fibres: Option<Fibres>) -> Self {
        let workers = PerProcess::new(process);
        AsyncJobs { process: Arc::clone(process), fibres, workers }
    }

    /// Runs [`Engine::encaps`] in a job that pauses. Returns `None` if the caller must run it
    /// directly. While the job is paused, the thread is not `held`.
    pub fn encaps(
        &self,
        held: &CancellationGuard,
        engine: &'static Engine,
        entropy: &dyn Entropy,
        key: &KemPublicKey,
    ) -> Option<Result<(Vec<u8>, SharedSecret), Error>> {
        // m of ML-KEM, and a scalar, which is as long as the curve's part of the shared secret.
        let randomness = key.algorithm().info().shared_secret;
        self.run(held, engine, entropy, randomness, |queue| queue.submit_encaps(key))
    }

    /// Runs [`Engine::decaps`] in the same way.
    pub fn decaps(
        &self,
        held: &CancellationGuard,
        engine: &'static Engine,
        entropy: &dyn Entropy,
        key: &KemPrivateKey,
        ciphertext: &[u8],
    ) -> Option<Result<SharedSecret, Error>> {
        self.run(held, engine, entropy, 0, |queue| queue.submit_decaps(key, ciphertext))
    }

    /// Runs [`Engine::sign`] in the same way; a signature of this algorithm draws `randomness`
    /// bytes.
    pub fn sign(
        &self,
        held: &CancellationGuard,
        engine: &'static Engine,
        entropy: &dyn Entropy,
        randomness: usize,
        key: &SigningKey,
        message: Message<'_>,
    ) -> Option<Result<Vec<u8>, Error>> {
        self.run(held, engine, entropy, randomness, |queue| queue.submit_sign(key, message))
    }

    /// Submits an operation and pauses the job until its result is available.
    ///
    /// A job may never be resumed, so values on this stack may never be dropped: from the first
    /// pause on, none of them may own anything.
    fn run<T: Send + 'static>(
        &self,
        held: &CancellationGuard,
        engine: &'static Engine,
        entropy: &dyn Entropy,
        randomness: usize,
        submit: impl FnOnce(&Queue) -> Result<Ticket<T>, Error>,
    ) -> Option<Result<T, Error>> {
        let fibres = self.fibres.as_ref()?;
        let context = fibres.current()?;
        // A worker calls nothing of the program's, which would wait for ever.
        // SAFETY: the context of the job that runs.
        if unsafe { fibres.has_callback(context) } {
            return None;
        }
        let worker = self.workers.get(Worker::new)?;
        if !worker.policy.wants_a_pause() {
            return None;
        }
        let queue = worker.queue(engine)?;
        let waiter = waiter_of(fibres, context, &self.process)?;
        let drawn = draw(entropy, randomness)?;
        if !worker.randomness.put(drawn) {
            return None;
        }
        waiter.begin();
        let ticket = submit(queue);
        let Ok(ticket) = ticket else {
            worker.randomness.take_back(randomness);
            waiter.reset();
            return None;
        };
        let before = worker.policy.enter();
        let delivery = Delivery { waiter: waiter.share(), policy: Arc::clone(&worker.policy) };
        ticket.then(move |result: Result<T, Error>| delivery.deliver(Box::new(result)));
        let output = waiter.pause_until_done(fibres, held)?;
        worker.policy.leave(before);
        match output.downcast::<Result<T, Error>>().map(|result| *result) {
            // The input is not at fault: the operation may succeed on the calling thread, or report
            // the reason there.
            Err(_)
            | Ok(Err(
                Error::Lost
                | Error::Closed
                | Error::Entropy(_)
                | Error::Panicked { .. }
                | Error::BackendUnavailable { .. },
            )) => None,
            Ok(result) => Some(result),
        }
    }
}

/// Draws on the thread of the caller, inside its call of the core: the worker never calls OpenSSL.
fn draw(entropy: &dyn Entropy, len: usize) -> Option<Zeroizing<Vec<u8>>> {
    let mut bytes = Zeroizing::new(vec![0; len]);
    entropy.fill(&mut bytes).ok()?;
    Some(bytes)
}

/// The state that a process needs to run operations in batches.
struct Worker {
    /// Created with its thread at the first pause, by one caller. A forked child creates a new
    /// worker, so it never waits for an inherited lock.
    queue: OnceLock<Queue>,
    is_starting: AtomicBool,
    randomness: Randomness,
    policy: Arc<PausePolicy>,
}

/// A child creates a new worker, because the inherited one has no thread.
impl ForkAware for Worker {}

impl Worker {
    fn new() -> Self {
        Worker {
            queue: OnceLock::new(),
            is_starting: AtomicBool::new(false),
            randomness: Randomness::new(),
            policy: Arc::new(PausePolicy::new()),
        }
    }

    /// Returns the queue. `None` if the system cannot start a thread, or another caller is creating
    /// the queue: waiting for it is not possible, since starting a thread may take the loader's
    /// lock (pool.rs).
    fn queue(&self, engine: &'static Engine) -> Option<&Queue> {
        if let Some(queue) = self.queue.get() {
            return Some(queue);
        }
        if self.is_starting.swap(true, Ordering::Acquire) {
            return None;
        }
        let limits = Limits {
            lanes_max: LANES_MAX,
            leaders_max: NonZero::<usize>::MIN,
            ..Limits::default()
        };
        let queue = Queue::new(engine, self.randomness.clone(), limits);
        match queue.with_workers(NonZero::<usize>::MIN) {
            // If another caller has set the queue first, that one is kept and this one is dropped.
            Ok(queue) => self.queue.set(queue).unwrap_or_else(Queue::detach),
            Err(_) => self.policy.is_not_served(),
        }
        self.is_starting.store(false, Ordering::Release);
        self.queue.get()
    }
}

impl Drop for Worker {
    /// The worker ends by itself, after what was handed in: the caller may hold the loader's lock,
    /// and the module stays mapped (build.rs).
    fn drop(&mut self) {
        if let Some(queue) = self.queue.take() {
            queue.detach();
        }
    }
}

/// Decides when an operation pauses. Pausing pays only if others are under way: alone it only
/// costs.
struct PausePolicy {
    /// Operations that were handed in and are not done.
    busy: AtomicUsize,
    /// How many were handed in while others were busy.
    joined: AtomicU64,
    /// Operations that will run without a pause from now on, and how many that were at first.
    skips: AtomicU32,
    skipped: AtomicU32,
}

impl PausePolicy {
    fn new() -> Self {
        PausePolicy {
            busy: AtomicUsize::new(0),
            joined: AtomicU64::new(0),
            skips: AtomicU32::new(SKIPS_FIRST),
            skipped: AtomicU32::new(SKIPS_FIRST),
        }
    }

    /// Returns whether an operation should pause: others are busy, or it is time to see whether
    /// others come.
    fn wants_a_pause(&self) -> bool {
        if self.busy.load(Ordering::Relaxed) > 0 {
            return true;
        }
        let less = |skips: u32| skips.checked_sub(1);
        self.skips.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_err()
    }

    /// An operation was handed in. Gives what [`PausePolicy::leave`] wants.
    fn enter(&self) -> u64 {
        if self.busy.fetch_add(1, Ordering::Relaxed) > 0 {
            self.joined.fetch_add(1, Ordering::Relaxed);
            return u64::MAX;
        }
        self.joined.load(Ordering::Relaxed)
    }

    /// Its result is there; its job may be gone.
    fn done(&self) {
        self.busy.fetch_sub(1, Ordering::Relaxed);
    }

    /// There was no thread for an operation that wanted to pause: the next one that asks comes
    /// late.
    fn is_not_served(&self) {
        self.skips.store(SKIPS_MAX, Ordering::Relaxed);
    }

    /// The operation continues. A job that ran alone in its batch makes pauses less frequent.
    fn leave(&self, before: u64) {
        let was_alone = before == self.joined.load(Ordering::Relaxed);
        let skips = match was_alone {
            true => (2 * self.skipped.load(Ordering::Relaxed) + 1).min(SKIPS_MAX),
            false => 0,
        };
        self.skipped.store(skips, Ordering::Relaxed);
        self.skips.store(skips, Ordering::Relaxed);
    }
}

/// Randomness that callers drew, for a worker that must not. Every byte is given once.
#[derive(Clone)]
struct Randomness(Arc<Mutex<Zeroizing<Vec<u8>>>>);

impl Randomness {
    fn new() -> Self {
        // Never grows, so that no copy of it stays anywhere.
        Randomness(Arc::new(Mutex::new(Zeroizing::new(Vec::with_capacity(DRAWN_MAX)))))
    }

    /// Adds bytes, if there is room.
    fn put(&self, bytes: Zeroizing<Vec<u8>>) -> bool {
        let mut all = lock(&self.0);
        let fits = all.len() + bytes.len() <= DRAWN_MAX;
        if fits {
            all.extend_from_slice(&bytes);
        }
        fits
    }

    /// Wipes as many bytes as an operation would have used that was not handed in.
    fn take_back(&self, len: usize) {
        let _ = self.fill(&mut Zeroizing::new(vec![0; len]));
    }
}

impl Entropy for Randomness {
    fn fill(&self, out: &mut [u8]) -> Result<(), EntropyError> {
        let mut all = lock(&self.0);
        let Some(rest) = all.len().checked_sub(out.len()) else {
            // One in 2^32 random strings is not a valid P-256 or P-384 scalar; it is drawn again.
            return Err(EntropyError("the drawn randomness is used up".into()));
        };
        out.copy_from_slice(&all[rest..]);
        all[rest..].zeroize();
        all.truncate(rest);
        Ok(())
    }
}

/// The state shared by a connection's wait context and the worker: a descriptor, and the result of
/// the operation that the connection waits for.
struct Waiter {
    /// An eventfd. The wait context's, which closes it; open as long as the state is not
    /// [`State::Closed`].
    fd: c_int,
    state: Mutex<State>,
    changed: Condvar,
    process: Arc<Process>,
    /// The process that made it. A child has a copy that no worker serves and whose lock may be
    /// held for ever, and writes to no descriptor that its parent reads.
    token: Option<u64>,
}

enum State {
    Idle,
    Waiting,
    Done(Box<dyn Any + Send>),
    /// The operation was run where it is instead; the worker's result will be dropped.
    Abandoned,
    /// The wait context was freed, and the descriptor closed with it.
    Closed,
}

/// The waiter of the current job. It lives as long as its wait context.
struct ActiveWaiter<'a>(&'a Waiter);

/// Names our descriptor in a wait context.
static KEY: u8 = 0;

fn key() -> *const c_void {
    (&raw const KEY).cast()
}

/// Returns the waiter of a wait context, which is created if it is missing. Returns `None` if no
/// descriptor can be created, or if the waiter is in use or belongs to another process.
fn waiter_of<'a>(
    fibres: &Fibres,
    context: NonNull<WaitCtx>,
    process: &Arc<Process>,
) -> Option<ActiveWaiter<'a>> {
    // SAFETY: the context of the job that runs; what `key` set is a waiter, and it stays as long as
    // the context, which stays as long as the job.
    if let Some(waiter) = unsafe { fibres.beside_fd(context, key()) } {
        // SAFETY: as above.
        let waiter = unsafe { waiter.cast::<Waiter>().as_ref() };
        return (waiter.is_of_this_process() && waiter.is_free()).then_some(ActiveWaiter(waiter));
    }
    // SAFETY: no pointer is passed.
    let fd = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
    if fd < 0 {
        return None;
    }
    let raw = Arc::into_raw(Arc::new(Waiter::new(fd, process)));
    // SAFETY: the context of the job that runs; `free` takes the reference that `raw` is. Without
    // it, the descriptor has no other owner.
    unsafe {
        if !fibres.set_fd(context, key(), fd, raw.cast_mut().cast(), free) {
            drop(Arc::from_raw(raw));
            libc::close(fd);
            return None;
        }
        Some(ActiveWaiter(&*raw))
    }
}

/// The wait context is freed, perhaps before the result is there, perhaps after the provider was
/// unloaded: the module stays mapped (build.rs).
unsafe extern "C" fn free(_: *mut WaitCtx, _: *const c_void, _: c_int, waiter: *mut c_void) {
    let _held = CancellationGuard::hold();
    // SAFETY: the reference that the context was given.
    let waiter = unsafe { Arc::from_raw(waiter.cast_const().cast::<Waiter>()) };
    waiter.leave();
    if !waiter.is_of_this_process()
        && matches!(waiter.state.try_lock(), Err(TryLockError::WouldBlock))
    {
        // A value that a thread of the parent was writing at the fork is left alone.
        std::mem::forget(waiter);
    }
}

impl ActiveWaiter<'_> {
    /// From now on a result is expected.
    fn begin(&self) {
        let mut state = lock(&self.0.state);
        // A result that was not fetched is dropped.
        self.0.take_from(&mut state);
        *state = State::Waiting;
    }

    /// None is.
    fn reset(&self) {
        *lock(&self.0.state) = State::Idle;
    }

    /// The worker's reference.
    fn share(&self) -> Arc<Waiter> {
        // SAFETY: made by `Arc::into_raw` in `waiter_of`; the wait context holds one reference.
        unsafe {
            Arc::increment_strong_count(self.0);
            Arc::from_raw(self.0)
        }
    }

    /// Pauses until the result is there. A program that resumes the job too early, or that cannot
    /// pause it, waits here instead, for a while. None where the result does not come then, and in
    /// a child that was forked meanwhile, whose parent has the worker.
    fn pause_until_done(
        &self,
        fibres: &Fibres,
        held: &CancellationGuard,
    ) -> Option<Box<dyn Any + Send>> {
        for _ in 0..PAUSES_MAX {
            let has_paused = held.suspend(|| fibres.pause());
            if !self.0.is_of_this_process() {
                return None;
            }
            if let Some(output) = self.0.take() {
                return Some(output);
            }
            if !has_paused {
                break;
            }
        }
        self.0.wait(WAIT_MAX)
    }
}

impl Waiter {
    fn new(fd: c_int, process: &Arc<Process>) -> Self {
        let (state, changed) = (Mutex::new(State::Idle), Condvar::new());
        Waiter { fd, state, changed, process: Arc::clone(process), token: process.token() }
    }

    fn is_of_this_process(&self) -> bool {
        self.token == self.process.token()
    }

    /// Closes the descriptor. Nothing writes to it afterwards, since its number may be reused
    /// immediately.
    fn leave(&self) {
        // Only the worker also takes this lock, and it never blocks while holding it.
        let state = self.is_of_this_process().then(|| lock(&self.state));
        // SAFETY: room for the counter; open, and closed once. Read first: the object behind a copy
        // of the descriptor (in a child, or made by dup) must not stay readable, or an event loop
        // would be notified forever. A child has a separate descriptor, but the object is shared.
        unsafe {
            if state.is_some() {
                self.empty();
            }
            libc::close(self.fd);
        }
        if let Some(mut state) = state {
            let left = std::mem::replace(&mut *state, State::Closed);
            drop(state);
            drop(left);
        }
    }

    /// Makes the descriptor unreadable.
    ///
    /// # Safety
    /// It is open.
    unsafe fn empty(&self) {
        let mut count = 0u64;
        // SAFETY: room for the counter of an eventfd, which is then 0 again. It does not block.
        unsafe { libc::read(self.fd, (&raw mut count).cast(), 8) };
    }

    /// Returns whether no result is expected any more.
    fn is_free(&self) -> bool {
        matches!(*lock(&self.state), State::Idle | State::Done(_))
    }

    /// The result, if it is there.
    fn take(&self) -> Option<Box<dyn Any + Send>> {
        self.take_from(&mut lock(&self.state))
    }

    fn take_from(&self, state: &mut State) -> Option<Box<dyn Any + Send>> {
        match std::mem::replace(state, State::Idle) {
            State::Done(output) => {
                // SAFETY: the state says so.
                unsafe { self.empty() };
                Some(output)
            }
            other => {
                *state = other;
                None
            }
        }
    }

    /// Blocks until the result is there, or gives it up.
    fn wait(&self, longest: Duration) -> Option<Box<dyn Any + Send>> {
        let waits = |state: &mut State| matches!(state, State::Waiting);
        let waited = self.changed.wait_timeout_while(lock(&self.state), longest, waits);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        let output = self.take_from(&mut state);
        if output.is_none() {
            *state = State::Abandoned;
        }
        output
    }

    /// Leaves the result. Under the lock, so that a result is never fetched before its descriptor
    /// is readable, and that one that is closed is not written to.
    fn deliver(&self, output: Box<dyn Any + Send>) {
        let mut state = lock(&self.state);
        if !matches!(*state, State::Waiting) {
            if matches!(*state, State::Abandoned) {
                *state = State::Idle;
            }
            drop(state);
            return drop(output);
        }
        *state = State::Done(output);
        let one = 1u64;
        // SAFETY: the eight bytes that an eventfd takes; the state says that it is open.
        unsafe { libc::write(self.fd, (&raw const one).cast(), 8) };
        self.changed.notify_one();
    }
}

/// The worker's part of an operation.
struct Delivery {
    waiter: Arc<Waiter>,
    policy: Arc<PausePolicy>,
}

impl Delivery {
    fn deliver(self, output: Box<dyn Any + Send>) {
        // First, or the connection's next operation would take this one for another.
        self.policy.done();
        self.waiter.deliver(output);
    }
}

#[cfg(all(test, not(loom)))]
#[allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.
mod tests {
    use super::*;

    /// A waiter, and a copy of its descriptor as an event loop or a child may have one.
    fn waiter() -> (Waiter, c_int) {
        let process = Arc::new(Process::new());
        // SAFETY: no pointer is passed; each descriptor is closed once, or ends with the test.
        unsafe {
            let fd = libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC);
            (Waiter::new(fd, &process), libc::dup(fd))
        }
    }

    fn is_readable(fd: c_int) -> bool {
        let mut asked = libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry.
        unsafe { libc::poll(&mut asked, 1, 0) > 0 }
    }

    fn is_open(fd: c_int) -> bool {
        // SAFETY: no pointer is passed.
        unsafe { libc::fcntl(fd, libc::F_GETFD) >= 0 }
    }

    #[test]
    fn a_descriptor_that_was_left_is_closed_and_never_written_to() {
        for is_delivered_first in [false, true] {
            let (waiter, copy) = waiter();
            ActiveWaiter(&waiter).begin();
            if is_delivered_first {
                waiter.deliver(Box::new(1));
                assert!(is_readable(copy));
            }
            waiter.leave();
            assert!(!is_open(waiter.fd) && !is_readable(copy));
            // The number is the next one's who opens anything.
            // SAFETY: as in `waiter`.
            let next = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
            waiter.deliver(Box::new(2));
            assert!(!is_readable(next) && !is_readable(copy), "first: {is_delivered_first}");
        }
    }

    #[test]
    fn a_result_that_nobody_waits_for_any_more_is_dropped() {
        let (waiter, copy) = waiter();
        ActiveWaiter(&waiter).begin();
        assert!(waiter.wait(Duration::ZERO).is_none());
        assert!(!waiter.is_free(), "the next operation may not take this one's result");
        waiter.deliver(Box::new(1));
        assert!(waiter.is_free() && !is_readable(copy) && waiter.take().is_none());
        ActiveWaiter(&waiter).begin();
        waiter.deliver(Box::new(2));
        assert!(is_readable(copy));
        let output = waiter.wait(Duration::ZERO).unwrap();
        assert_eq!(output.downcast_ref(), Some(&2));
        assert!(!is_readable(copy));
        waiter.leave();
    }

    /// A waiter whose lock another thread of the parent held at the fork, possibly in the middle of
    /// a change.
    #[test]
    fn a_child_leaves_a_waiter_whose_lock_is_held() {
        let (waiter, _) = waiter();
        let waiter = Arc::new(waiter);
        let held = lock(&waiter.state);
        // SAFETY: the child frees its copy and ends by _exit.
        let status = unsafe {
            let child = libc::fork();
            if child == 0 {
                libc::alarm(10);
                let raw = Arc::into_raw(Arc::clone(&waiter)).cast_mut().cast();
                free(std::ptr::null_mut(), key(), waiter.fd, raw);
                libc::_exit(i32::from(is_open(waiter.fd)));
            }
            let mut status = -1;
            assert_eq!(libc::waitpid(child, &mut status, 0), child);
            status
        };
        assert_eq!(status, 0);
        drop(held);
        assert!(is_open(waiter.fd), "this process's own stays");
        waiter.leave();
    }
}
