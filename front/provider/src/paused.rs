//! Operations inside OpenSSL's asynchronous jobs (SSL_MODE_ASYNC): the job pauses, and what waits runs
//! together on another thread.
//!
//! ```text
//!   connection A: SSL_do_handshake --> encaps --> hands it in, pauses --+   SSL_ERROR_WANT_ASYNC
//!   connection B: SSL_do_handshake --> encaps --> hands it in, pauses --+-> one batch on a worker
//!        event loop: A's and B's eventfd are readable <-----------------+
//!   connection A: SSL_do_handshake --> goes on where it paused, with its result
//! ```
//!
//! A job's stack is 32 KiB and its program may never resume it, so nothing that the worker touches lies
//! there: inputs are copied into the queue, and the result and the descriptor belong to a [`Waiter`],
//! which the connection's wait context and the worker share.
//!
//! Pausing costs some 20 us, so an operation pauses only in company: when others are on their way, or, now
//! and then, to see whether others come meanwhile ([`Company`]). Where anything is missing, full or fails,
//! the operation runs where it is, as outside of a job.

use std::any::Any;
use std::ffi::{c_int, c_void};
use std::num::NonZero;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};

use gabion_engine::{
    Engine, Entropy, EntropyError, Error, KemPrivateKey, KemPublicKey, Limits, Message, Queue,
    SharedSecret, SigningKey, Ticket,
};
use zeroize::{Zeroize, Zeroizing};

use crate::fibre::{Fibres, WaitCtx};
use crate::process::{Inherited, PerProcess, Process, lock, without_signals};

/// Operations of one kind that run as one batch: lanes are full, and nobody waits for too many others.
const LANES_MAX: NonZero<usize> = NonZero::new(16).unwrap();

/// Bytes of randomness that may lie ready for the worker: those of 1000 hybrid encapsulations.
const DRAWN_MAX: usize = 64 << 10;

/// How often a job that is resumed before its result is there pauses again; then it waits.
const PAUSES_MAX: usize = 4;

/// Operations that run without a pause before the first one is tried, and at most between two tries.
const ALONE_FIRST: u32 = 16;
const ALONE_MAX: u32 = 255;

/// The paused operations of one loading of the provider.
pub struct PausedJobs {
    /// None where they are switched off, or libcrypto's functions were not found.
    fibres: Option<Fibres>,
    workshops: PerProcess<Workshop>,
}

impl PausedJobs {
    /// Nothing starts before an operation pauses.
    pub fn new(process: &Arc<Process>, fibres: Option<Fibres>) -> Self {
        PausedJobs { fibres, workshops: PerProcess::new(process) }
    }

    /// [`Engine::encaps`] in a job that pauses. None where the caller has to do it itself.
    pub fn encaps(
        &self,
        engine: &'static Engine,
        entropy: &dyn Entropy,
        key: &KemPublicKey,
    ) -> Option<Result<(Vec<u8>, SharedSecret), Error>> {
        // m of ML-KEM, and a scalar, which is as long as the curve's part of the shared secret.
        let randomness = key.algorithm().info().shared_secret;
        self.run(engine, entropy, randomness, |queue| queue.submit_encaps(key))
    }

    /// [`Engine::decaps`], likewise.
    pub fn decaps(
        &self,
        engine: &'static Engine,
        entropy: &dyn Entropy,
        key: &KemPrivateKey,
        ciphertext: &[u8],
    ) -> Option<Result<SharedSecret, Error>> {
        self.run(engine, entropy, 0, |queue| queue.submit_decaps(key, ciphertext))
    }

    /// [`Engine::sign`], likewise; `randomness` bytes are what a signature of this algorithm draws.
    pub fn sign(
        &self,
        engine: &'static Engine,
        entropy: &dyn Entropy,
        randomness: usize,
        key: &SigningKey,
        message: Message<'_>,
    ) -> Option<Result<Vec<u8>, Error>> {
        self.run(engine, entropy, randomness, |queue| queue.submit_sign(key, message))
    }

    /// Hands an operation in and pauses the job until its result is there.
    ///
    /// What is on the stack here may never be dropped, since a job may never be resumed: nothing on it
    /// may own anything from the moment of the first pause.
    fn run<T: Send + 'static>(
        &self,
        engine: &'static Engine,
        entropy: &dyn Entropy,
        randomness: usize,
        submit: impl FnOnce(&Queue) -> Result<Ticket<T>, Error>,
    ) -> Option<Result<T, Error>> {
        let fibres = self.fibres.as_ref()?;
        let context = fibres.current()?;
        let workshop = self.workshops.get(Workshop::new)?;
        if !workshop.company.wants_a_pause() {
            return None;
        }
        let queue = workshop.queue(engine)?;
        let waiter = waiter_of(fibres, context, workshop)?;
        let drawn = draw(entropy, randomness)?;
        if !workshop.randomness.put(drawn) {
            return None;
        }
        waiter.begin();
        let ticket = submit(queue);
        let Ok(ticket) = ticket else {
            workshop.randomness.take_back(randomness);
            waiter.reset();
            return None;
        };
        let before = workshop.company.enter();
        let worker = Delivery { waiter: waiter.share(), company: Arc::clone(&workshop.company) };
        ticket.then(move |result: Result<T, Error>| worker.deliver(Box::new(result)));
        let output = waiter.pause_until_done(fibres);
        workshop.company.leave(before);
        match output.downcast::<Result<T, Error>>().map(|result| *result) {
            // Nobody's input is to blame: it may succeed where it is, or says why not.
            Err(_)
            | Ok(Err(Error::Lost | Error::Closed | Error::Entropy(_) | Error::Panicked { .. })) => {
                None
            }
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

/// What one process needs to run operations together.
struct Workshop {
    /// Made with its thread at the first pause; none where the system starts no thread.
    queue: OnceLock<Option<Queue>>,
    randomness: Randomness,
    company: Arc<Company>,
}

/// A child makes its own. What it inherits has no thread.
impl Inherited for Workshop {}

impl Workshop {
    fn new() -> Self {
        Workshop {
            queue: OnceLock::new(),
            randomness: Randomness::new(),
            company: Arc::new(Company::new()),
        }
    }

    fn queue(&self, engine: &'static Engine) -> Option<&Queue> {
        let start = || {
            let limits = Limits {
                lanes_max: LANES_MAX,
                leaders_max: NonZero::<usize>::MIN,
                ..Limits::default()
            };
            let queue = Queue::new(engine, self.randomness.clone(), limits);
            without_signals(|| queue.with_workers(NonZero::<usize>::MIN)).ok()
        };
        self.queue.get_or_init(start).as_ref()
    }
}

/// Whether others are about: pausing alone only costs.
struct Company {
    /// Operations that were handed in and are not done.
    busy: AtomicUsize,
    /// How many were handed in while others were busy.
    joined: AtomicU64,
    /// Operations that will run without a pause from now on, and how many that were at first.
    skips: AtomicU32,
    skipped: AtomicU32,
}

impl Company {
    fn new() -> Self {
        Company {
            busy: AtomicUsize::new(0),
            joined: AtomicU64::new(0),
            skips: AtomicU32::new(ALONE_FIRST),
            skipped: AtomicU32::new(ALONE_FIRST),
        }
    }

    /// Whether an operation should pause: others are busy, or it is time to see whether others come.
    fn wants_a_pause(&self) -> bool {
        if self.busy.load(Ordering::Relaxed) > 0 {
            return true;
        }
        let less = |skips: u32| skips.checked_sub(1);
        self.skips.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_err()
    }

    /// An operation was handed in. Gives what [`Company::leave`] wants.
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

    /// Its job goes on. One that came alone, and that nobody joined, makes pauses rarer.
    fn leave(&self, before: u64) {
        let was_alone = before == self.joined.load(Ordering::Relaxed);
        let skips = match was_alone {
            true => (2 * self.skipped.load(Ordering::Relaxed) + 1).min(ALONE_MAX),
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
            // One scalar in 2^32 of P-256 and P-384 is none, and is drawn again.
            return Err(EntropyError("what was drawn is used up".into()));
        };
        out.copy_from_slice(&all[rest..]);
        all[rest..].zeroize();
        all.truncate(rest);
        Ok(())
    }
}

/// What a connection's wait context and the worker share: a descriptor, and the result of the one
/// operation that the connection can wait for.
struct Waiter {
    fd: OwnedFd,
    state: Mutex<State>,
    changed: Condvar,
    /// The company of the process that made it: a child writes to no descriptor that its parent reads.
    company: Arc<Company>,
}

enum State {
    Idle,
    Waiting,
    Done(Box<dyn Any + Send>),
}

/// The waiter of the job that runs, which lives as long as its wait context.
struct Waiting<'a>(&'a Waiter);

/// Names our descriptor in a wait context.
static KEY: u8 = 0;

fn key() -> *const c_void {
    (&raw const KEY).cast()
}

/// The waiter of a wait context, a new one where it has none. None where there is no descriptor, or the
/// one that there is is still waited for or another process's.
fn waiter_of<'a>(
    fibres: &Fibres,
    context: NonNull<WaitCtx>,
    workshop: &Workshop,
) -> Option<Waiting<'a>> {
    // SAFETY: the context of the job that runs; what `key` set is a waiter, and it stays as long as the
    // context, which stays as long as the job.
    if let Some(waiter) = unsafe { fibres.beside_fd(context, key()) } {
        // SAFETY: as above.
        let waiter = unsafe { waiter.cast::<Waiter>().as_ref() };
        let is_free = Arc::ptr_eq(&waiter.company, &workshop.company) && waiter.is_free();
        return is_free.then_some(Waiting(waiter));
    }
    // SAFETY: a new descriptor, which nobody else has.
    let fd = unsafe {
        let fd = libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC);
        if fd < 0 {
            return None;
        }
        OwnedFd::from_raw_fd(fd)
    };
    let (number, company) = (fd.as_raw_fd(), Arc::clone(&workshop.company));
    let state = Mutex::new(State::Idle);
    let waiter = Arc::new(Waiter { fd, state, changed: Condvar::new(), company });
    let raw = Arc::into_raw(waiter);
    // SAFETY: the context of the job that runs; `free` takes the reference that `raw` is.
    unsafe {
        if !fibres.set_fd(context, key(), number, raw.cast_mut().cast(), free) {
            drop(Arc::from_raw(raw));
            return None;
        }
        Some(Waiting(&*raw))
    }
}

/// The wait context is freed, perhaps before the result is there, perhaps after the provider was unloaded:
/// the module stays mapped (build.rs).
unsafe extern "C" fn free(_: *mut WaitCtx, _: *const c_void, _: c_int, waiter: *mut c_void) {
    // SAFETY: the reference that the context was given; its drop closes the descriptor, or the worker's.
    drop(unsafe { Arc::from_raw(waiter.cast_const().cast::<Waiter>()) });
}

impl Waiting<'_> {
    /// From now on a result is expected.
    fn begin(&self) {
        *lock(&self.0.state) = State::Waiting;
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

    /// Pauses until the result is there. A program that resumes the job too early, or that cannot pause
    /// it, waits here instead.
    fn pause_until_done(&self, fibres: &Fibres) -> Box<dyn Any + Send> {
        for _ in 0..PAUSES_MAX {
            if !fibres.pause() {
                break;
            }
            if let Some(output) = self.0.take() {
                return output;
            }
        }
        self.0.wait()
    }
}

impl Waiter {
    /// Whether no result is expected any more. One that nobody fetched is dropped.
    fn is_free(&self) -> bool {
        !matches!(*lock(&self.state), State::Waiting)
    }

    /// The result, if it is there.
    fn take(&self) -> Option<Box<dyn Any + Send>> {
        self.take_from(&mut lock(&self.state))
    }

    fn take_from(&self, state: &mut State) -> Option<Box<dyn Any + Send>> {
        match std::mem::replace(state, State::Idle) {
            State::Done(output) => {
                let mut count = 0u64;
                // SAFETY: room for the counter of an eventfd, which is then 0 again. It does not block.
                unsafe { libc::read(self.fd.as_raw_fd(), (&raw mut count).cast(), 8) };
                Some(output)
            }
            other => {
                *state = other;
                None
            }
        }
    }

    /// Blocks until the result is there.
    fn wait(&self) -> Box<dyn Any + Send> {
        let mut state = lock(&self.state);
        loop {
            if let Some(output) = self.take_from(&mut state) {
                return output;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// What the worker has of an operation.
struct Delivery {
    waiter: Arc<Waiter>,
    company: Arc<Company>,
}

impl Delivery {
    fn deliver(self, output: Box<dyn Any + Send>) {
        // First, or the connection's next operation would take this one for company.
        self.company.done();
        let mut state = lock(&self.waiter.state);
        *state = State::Done(output);
        let one = 1u64;
        // SAFETY: the eight bytes that an eventfd takes; it is ours as long as the waiter. Under the lock, so
        // that a result is never fetched before its descriptor is readable.
        unsafe { libc::write(self.waiter.fd.as_raw_fd(), (&raw const one).cast(), 8) };
        self.waiter.changed.notify_one();
    }
}
