//! A queue for many threads with single jobs: waiting jobs are run as a batch.
//!
//! ```text
//!   thread A --sign--> a role is free: runs at once, alone ------------------> its signature
//!   thread B --sign--> all roles taken: waits --+
//!   thread C --sign--> waits -------------------+--> A's role passes to B, who runs B, C and D as
//!   thread D --sign--> waits -------------------+    one batch; C and D wake up with theirs done
//!
//!   thread E --submit_sign--> a ticket; a worker thread takes the role instead
//! ```
//!
//! Threads that run single operations leave the lanes of a batch empty. A [`Queue`] fills them
//! without a timer and without additional threads. As long as fewer batches run than
//! [`Limits::leaders_max`] allows (by default the number of cores), a job runs immediately on its
//! caller's thread at the cost of a direct engine call. Jobs wait only if more threads want to run
//! than cores are available, and the waiting jobs fill the next batch.
//!
//! - **Fair.** Jobs start in order of arrival. A thread leads one batch, which starts with its job,
//!   and does not work for others after that.
//! - **Bounded.** [`Limits::depth`] jobs may wait for each algorithm and operation; further ones
//!   are rejected with [`Error::Busy`]. Waiting messages are copied. Messages above
//!   [`Limits::message_max`] bytes run immediately instead or, with a ticket, individually on a
//!   worker, limited to [`Limits::long_max`] bytes in total at a time.
//! - **Independent lanes.** An invalid key, ciphertext or signature fails only its job. If a batch
//!   fails as a whole, its jobs are run one by one, so that only the cause fails.
//! - **Asynchronous on request.** [`Queue::with_workers`] starts threads; `submit_*` then returns a
//!   [`Ticket`] immediately. [`Queue::shutdown`], and dropping the queue, complete every ticket
//!   first.
//! - **Forks.** A forked child must create a new queue: threads do not survive a fork, and a role
//!   held by another thread of the parent is never released. Submitting to a parent's workers fails
//!   with [`Error::Closed`].

mod board;
mod gate;
mod jobs;
mod line;
mod long;
#[cfg(all(test, loom))]
mod loom;
#[cfg(any(all(test, not(loom)), fuzzing))]
mod simulation;
mod ticket;

use std::num::NonZero;
use std::ops::Deref;
use std::sync::Arc;

use gabion_scheme::Algorithm;
use gabion_scheme::message::Message;

use crate::entropy::Entropy;
use crate::error::{Error, check_length};
use crate::keys::exchange::{ExchangePrivateKey, ExchangePublicKey, check_pair};
use crate::keys::kem::{KemPrivateKey, KemPublicKey, SharedSecret};
use crate::keys::signature::{SigningKey, VerifyKey};
use crate::memory;
use crate::route::Engine;
use board::Workers;
use gate::{Gate, Job, Refusal};
use jobs::{
    Decaps, Derive, Encaps, ExchangeGenerate, KemGenerate, OwnedMessage, QueueContext, Sign,
    SignatureGenerate, Verify, message_len,
};
use long::{Bytes, Claim};

#[cfg(fuzzing)]
pub use simulation::testing_only_schedule;
pub use ticket::Ticket;

/// The limits of a queue. Unless stated otherwise, each applies separately to every pair of
/// algorithm and operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of waiting jobs. Further ones are rejected with [`Error::Busy`].
    pub depth: usize,
    /// Maximum number of jobs in a batch.
    pub lanes_max: NonZero<usize>,
    /// Maximum number of concurrent batches. While fewer run, a job runs immediately.
    pub leaders_max: NonZero<usize>,
    /// Maximum length in bytes of a waiting message, which is copied. A job with a longer message
    /// runs immediately or, with a ticket, individually on a worker.
    pub message_max: usize,
    /// Maximum total length in bytes of the longer messages of tickets, over all algorithms.
    /// Further ones are rejected with [`Error::Busy`], but a single message may have any length.
    pub long_max: usize,
}

impl Default for Limits {
    /// Returns the default limits: 1024 jobs, batches of 64, as many at a time as the machine has
    /// cores, and messages of 16 KiB. Waiting messages take at most 16 MiB for each algorithm and
    /// operation, and longer messages 64 MiB.
    fn default() -> Self {
        const LANES_MAX: NonZero<usize> = NonZero::new(64).unwrap();
        let leaders_max = std::thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
        Limits {
            depth: 1024,
            lanes_max: LANES_MAX,
            leaders_max,
            message_max: 16 << 10,
            long_max: 64 << 20,
        }
    }
}

/// One line for each algorithm.
type Gates<J> = Vec<Arc<Gate<J>>>;

/// Single jobs of many threads, run together. Share it by reference or in an [`Arc`].
///
/// # Examples
/// ```
/// use gabion_engine::{Algorithm, Engine, Limits, Message, OsEntropy, Queue};
///
/// let queue = Queue::new(Engine::global()?, OsEntropy, Limits::default());
/// let key = queue.signature_generate(Algorithm::MlDsa44)?;
/// let message = Message::Pure { context: b"", message: b"text" };
/// std::thread::scope(|scope| {
///     for _ in 0..8 {
///         scope.spawn(|| {
///             let signature = queue.sign(&key, message)?;
///             queue.verify(&key.public(), message, &signature)
///         });
///     }
/// });
/// # Ok::<(), gabion_engine::Error>(())
/// ```
pub struct Queue {
    shared: Arc<QueueContext>,
    limits: Limits,
    kem_generate: Gates<KemGenerate>,
    encaps: Gates<Encaps>,
    decaps: Gates<Decaps>,
    signature_generate: Gates<SignatureGenerate>,
    sign: Gates<Sign>,
    verify: Gates<Verify>,
    exchange_generate: Gates<ExchangeGenerate>,
    derive: Gates<Derive>,
    /// Tickets with long messages, each of which is a separate batch.
    sign_long: Gates<Sign>,
    verify_long: Gates<Verify>,
    long: Bytes,
    workers: Option<Workers>,
}

impl From<Refusal> for Error {
    fn from(refused: Refusal) -> Error {
        match refused {
            Refusal::Busy => Error::Busy,
            Refusal::Closed => Error::Closed,
        }
    }
}

impl Queue {
    /// Returns a queue for an engine (`&'static Engine` or `Arc<Engine>`) and a source of
    /// randomness, which is called once per batch. Starts no thread.
    pub fn new(
        engine: impl Deref<Target = Engine> + Send + Sync + 'static,
        entropy: impl Entropy + Send + Sync + 'static,
        limits: Limits,
    ) -> Queue {
        let shared =
            Arc::new(QueueContext { engine: Box::new(engine), entropy: Box::new(entropy) });
        Queue {
            kem_generate: gates(&shared, limits),
            encaps: gates(&shared, limits),
            decaps: gates(&shared, limits),
            signature_generate: gates(&shared, limits),
            sign: gates(&shared, limits),
            verify: gates(&shared, limits),
            exchange_generate: gates(&shared, limits),
            derive: gates(&shared, limits),
            sign_long: gates(&shared, alone(limits)),
            verify_long: gates(&shared, alone(limits)),
            long: Bytes::default(),
            workers: None,
            shared,
            limits,
        }
    }

    /// Starts `count` worker threads, which run submitted jobs. Without workers, a job runs before
    /// `submit_*` returns.
    ///
    /// # Examples
    /// ```
    /// use std::num::NonZero;
    ///
    /// use gabion_engine::{Algorithm, Engine, Limits, OsEntropy, Queue};
    ///
    /// let queue = Queue::new(Engine::global()?, OsEntropy, Limits::default());
    /// let queue = queue.with_workers(NonZero::<usize>::MIN)?;
    /// let pair = queue.kem_generate(Algorithm::MlKem768)?;
    /// let tickets: Result<Vec<_>, _> =
    ///     (0..10).map(|_| queue.submit_encaps(&pair.public())).collect();
    /// for ticket in tickets? {
    ///     let (ciphertext, shared) = ticket.wait()?;
    ///     assert_eq!(queue.decaps(&pair, &ciphertext)?, shared);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If a thread cannot be started; threads that were started are stopped again.
    pub fn with_workers(mut self, count: NonZero<usize>) -> std::io::Result<Queue> {
        self.workers = Some(Workers::start(count.get())?);
        Ok(self)
    }

    /// Closes the queue: further calls fail with [`Error::Closed`]. Returns when every open ticket
    /// is complete and the workers have ended. When called from a callback, it only closes the
    /// queue, since a worker cannot wait for itself.
    pub fn shutdown(&self) {
        self.close();
        if let Some(workers) = &self.workers {
            workers.stop();
        }
    }

    /// Shuts down like [`Queue::shutdown`], but without waiting: the workers complete all tickets
    /// and end by themselves. For callers that hold a lock that threads need to start or to end,
    /// such as the loader's lock in a destructor that `dlclose` runs.
    pub fn detach(mut self) {
        self.close();
        if let Some(workers) = self.workers.take() {
            workers.detach();
        }
    }

    /// Closes the queue for further jobs.
    fn close(&self) {
        self.kem_generate.iter().for_each(|gate| gate.close());
        self.encaps.iter().for_each(|gate| gate.close());
        self.decaps.iter().for_each(|gate| gate.close());
        self.signature_generate.iter().for_each(|gate| gate.close());
        self.sign.iter().for_each(|gate| gate.close());
        self.verify.iter().for_each(|gate| gate.close());
        self.exchange_generate.iter().for_each(|gate| gate.close());
        self.derive.iter().for_each(|gate| gate.close());
        self.sign_long.iter().for_each(|gate| gate.close());
        self.verify_long.iter().for_each(|gate| gate.close());
    }

    /// Returns the number of waiting jobs, over all algorithms and operations.
    pub fn waiting(&self) -> usize {
        let keys = waiting(&self.kem_generate) + waiting(&self.signature_generate);
        let kem = waiting(&self.encaps) + waiting(&self.decaps);
        let exchange = waiting(&self.exchange_generate) + waiting(&self.derive);
        let signatures = waiting(&self.sign) + waiting(&self.verify);
        let long = waiting(&self.sign_long) + waiting(&self.verify_long);
        keys + kem + signatures + exchange + long
    }

    /// Generates a key, like [`Engine::kem_generate`].
    ///
    /// # Errors
    /// Those of [`Engine::kem_generate`]; [`Error::Busy`], [`Error::Closed`].
    pub fn kem_generate(&self, algorithm: Algorithm) -> Result<KemPrivateKey, Error> {
        let gate = &self.kem_generate[algorithm as usize];
        gate.call(
            |shared| shared.engine().kem_generate(algorithm, shared.entropy()),
            || KemGenerate { algorithm },
        )?
    }

    /// Encapsulates, like [`Engine::encaps`].
    ///
    /// # Errors
    /// Those of [`Engine::encaps`]; [`Error::Busy`], [`Error::Closed`].
    pub fn encaps(&self, key: &KemPublicKey) -> Result<(Vec<u8>, SharedSecret), Error> {
        let gate = &self.encaps[key.algorithm() as usize];
        gate.call(
            |shared| shared.engine().encaps(key, shared.entropy()),
            || Encaps { key: key.clone() },
        )?
    }

    /// Decapsulates, like [`Engine::decaps`].
    ///
    /// # Errors
    /// Those of [`Engine::decaps`]; [`Error::Busy`], [`Error::Closed`].
    pub fn decaps(&self, key: &KemPrivateKey, ciphertext: &[u8]) -> Result<SharedSecret, Error> {
        check_length("the ciphertext", key.algorithm().info().output.max(), ciphertext)?;
        let gate = &self.decaps[key.algorithm() as usize];
        gate.call(
            |shared| shared.engine().decaps(key, ciphertext),
            || Decaps { key: key.clone(), ct: ciphertext.to_vec() },
        )?
    }

    /// Generates a key, like [`Engine::signature_generate`].
    ///
    /// # Errors
    /// Those of [`Engine::signature_generate`]; [`Error::Busy`], [`Error::Closed`].
    pub fn signature_generate(&self, algorithm: Algorithm) -> Result<SigningKey, Error> {
        let gate = &self.signature_generate[algorithm as usize];
        gate.call(
            |shared| shared.engine().signature_generate(algorithm, shared.entropy()),
            || SignatureGenerate { algorithm },
        )?
    }

    /// Signs, like [`Engine::sign`].
    ///
    /// # Errors
    /// Those of [`Engine::sign`]; [`Error::Busy`], [`Error::Closed`].
    pub fn sign(&self, key: &SigningKey, message: Message<'_>) -> Result<Vec<u8>, Error> {
        message.check()?;
        let alone = |shared: &QueueContext| shared.engine().sign(key, message, shared.entropy());
        let gate = &self.sign[key.algorithm() as usize];
        if message_len(&message) > self.limits.message_max {
            gate.check_open()?;
            return alone(&self.shared);
        }
        gate.call(alone, || Sign { key: key.clone(), message: OwnedMessage::of(&message) })?
    }

    /// Verifies, like [`Engine::verify`].
    ///
    /// # Errors
    /// Those of [`Engine::verify`]; [`Error::Busy`], [`Error::Closed`].
    pub fn verify(
        &self,
        key: &VerifyKey,
        message: Message<'_>,
        signature: &[u8],
    ) -> Result<(), Error> {
        message.check()?;
        if signature.len() > key.signature_len_max() {
            // A message that the algorithm refuses comes first, as everywhere.
            key.check_message(&message)?;
            return Err(Error::BadSignature);
        }
        let alone = |shared: &QueueContext| shared.engine().verify(key, message, signature);
        let gate = &self.verify[key.algorithm() as usize];
        if message_len(&message) > self.limits.message_max {
            gate.check_open()?;
            return alone(&self.shared);
        }
        gate.call(alone, || Verify {
            key: key.clone(),
            message: OwnedMessage::of(&message),
            signature: signature.to_vec(),
        })?
    }

    /// Generates a key, like [`Engine::exchange_generate`].
    ///
    /// # Errors
    /// Those of [`Engine::exchange_generate`]; [`Error::Busy`], [`Error::Closed`].
    pub fn exchange_generate(&self, algorithm: Algorithm) -> Result<ExchangePrivateKey, Error> {
        let gate = &self.exchange_generate[algorithm as usize];
        gate.call(
            |shared| shared.engine().exchange_generate(algorithm, shared.entropy()),
            || ExchangeGenerate { algorithm },
        )?
    }

    /// Derives a secret, like [`Engine::derive`].
    ///
    /// # Examples
    /// ```
    /// use gabion_engine::{Algorithm, Engine, Limits, OsEntropy, Queue};
    ///
    /// let queue = Queue::new(Engine::global()?, OsEntropy, Limits::default());
    /// let ours = queue.exchange_generate(Algorithm::X25519)?;
    /// let theirs = queue.exchange_generate(Algorithm::X25519)?;
    /// let secret = queue.derive(&ours, &theirs.public())?;
    /// assert_eq!(queue.derive(&theirs, &ours.public())?, secret);
    /// # Ok::<(), gabion_engine::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Engine::derive`]; [`Error::Busy`], [`Error::Closed`].
    pub fn derive(
        &self,
        key: &ExchangePrivateKey,
        peer: &ExchangePublicKey,
    ) -> Result<SharedSecret, Error> {
        check_pair(key, peer)?;
        let gate = &self.derive[key.algorithm() as usize];
        gate.call(
            |shared| shared.engine().derive(key, peer),
            || Derive { key: key.clone(), peer: peer.clone() },
        )?
    }

    /// Runs [`Queue::kem_generate`] on a worker.
    ///
    /// # Errors
    /// [`Error::Busy`], [`Error::Closed`]; those of the operation come with the ticket.
    pub fn submit_kem_generate(
        &self,
        algorithm: Algorithm,
    ) -> Result<Ticket<KemPrivateKey>, Error> {
        self.submit(&self.kem_generate[algorithm as usize], KemGenerate { algorithm })
    }

    /// Runs [`Queue::encaps`] on a worker.
    ///
    /// # Errors
    /// [`Error::Busy`], [`Error::Closed`]; those of the operation come with the ticket.
    pub fn submit_encaps(
        &self,
        key: &KemPublicKey,
    ) -> Result<Ticket<(Vec<u8>, SharedSecret)>, Error> {
        self.submit(&self.encaps[key.algorithm() as usize], Encaps { key: key.clone() })
    }

    /// Runs [`Queue::decaps`] on a worker.
    ///
    /// # Errors
    /// A ciphertext of the wrong length; [`Error::Busy`], [`Error::Closed`]; others come with the
    /// ticket.
    pub fn submit_decaps(
        &self,
        key: &KemPrivateKey,
        ciphertext: &[u8],
    ) -> Result<Ticket<SharedSecret>, Error> {
        check_length("the ciphertext", key.algorithm().info().output.max(), ciphertext)?;
        let job = Decaps { key: key.clone(), ct: ciphertext.to_vec() };
        self.submit(&self.decaps[key.algorithm() as usize], job)
    }

    /// Runs [`Queue::signature_generate`] on a worker.
    ///
    /// # Errors
    /// [`Error::Busy`], [`Error::Closed`]; those of the operation come with the ticket.
    pub fn submit_signature_generate(
        &self,
        algorithm: Algorithm,
    ) -> Result<Ticket<SigningKey>, Error> {
        self.submit(&self.signature_generate[algorithm as usize], SignatureGenerate { algorithm })
    }

    /// Runs [`Queue::sign`] on a worker. A message above [`Limits::message_max`] is signed
    /// individually and counts towards [`Limits::long_max`].
    ///
    /// # Examples
    /// ```
    /// use std::num::NonZero;
    ///
    /// use gabion_engine::{Algorithm, Engine, Limits, Message, OsEntropy, Queue};
    ///
    /// # async fn signed() -> Result<(), Box<dyn std::error::Error>> {
    /// let queue = Queue::new(Engine::global()?, OsEntropy, Limits::default());
    /// let queue = queue.with_workers(NonZero::<usize>::MIN)?;
    /// let key = queue.signature_generate(Algorithm::MlDsa44)?;
    /// let message = Message::Pure { context: b"", message: b"text" };
    /// let ticket = queue.submit_sign(&key, message)?;
    /// let signature = ticket.await?;
    /// queue.verify(&key.public(), message, &signature)?;
    /// # Ok(())
    /// # }
    /// # let mut signed = std::pin::pin!(signed());
    /// # let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    /// # while std::future::Future::poll(signed.as_mut(), &mut context)?.is_pending() {
    /// #     std::thread::yield_now();
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// A message of the wrong form; [`Error::Busy`], [`Error::Closed`]; others come with the
    /// ticket.
    pub fn submit_sign(
        &self,
        key: &SigningKey,
        message: Message<'_>,
    ) -> Result<Ticket<Vec<u8>>, Error> {
        message.check()?;
        if self.workers.is_none() {
            return ready(self.sign(key, message));
        }
        let place = key.algorithm() as usize;
        let (short, long) = (&self.sign[place], &self.sign_long[place]);
        let (gate, message) = match self.claim(long, &message)? {
            None => (short, OwnedMessage::of(&message)),
            Some(claim) => (long, OwnedMessage::of(&message).with(claim)),
        };
        self.submit(gate, Sign { key: key.clone(), message })
    }

    /// Runs [`Queue::verify`] on a worker. A message above [`Limits::message_max`] is verified
    /// individually and counts towards [`Limits::long_max`].
    ///
    /// # Errors
    /// A message of the wrong form, a signature longer than any; [`Error::Busy`],
    /// [`Error::Closed`]; others come with the ticket.
    pub fn submit_verify(
        &self,
        key: &VerifyKey,
        message: Message<'_>,
        signature: &[u8],
    ) -> Result<Ticket<()>, Error> {
        message.check()?;
        if signature.len() > key.signature_len_max() {
            // A message that the algorithm refuses comes first, as everywhere.
            key.check_message(&message)?;
            return Err(Error::BadSignature);
        }
        if self.workers.is_none() {
            return ready(self.verify(key, message, signature));
        }
        let place = key.algorithm() as usize;
        let (short, long) = (&self.verify[place], &self.verify_long[place]);
        let (gate, message) = match self.claim(long, &message)? {
            None => (short, OwnedMessage::of(&message)),
            Some(claim) => (long, OwnedMessage::of(&message).with(claim)),
        };
        let job = Verify { key: key.clone(), message, signature: signature.to_vec() };
        self.submit(gate, job)
    }

    /// Runs [`Queue::exchange_generate`] on a worker.
    ///
    /// # Errors
    /// [`Error::Busy`], [`Error::Closed`]; those of the operation come with the ticket.
    pub fn submit_exchange_generate(
        &self,
        algorithm: Algorithm,
    ) -> Result<Ticket<ExchangePrivateKey>, Error> {
        self.submit(&self.exchange_generate[algorithm as usize], ExchangeGenerate { algorithm })
    }

    /// Runs [`Queue::derive`] on a worker.
    ///
    /// # Errors
    /// Keys of two algorithms; [`Error::Busy`], [`Error::Closed`]; others come with the ticket.
    pub fn submit_derive(
        &self,
        key: &ExchangePrivateKey,
        peer: &ExchangePublicKey,
    ) -> Result<Ticket<SharedSecret>, Error> {
        check_pair(key, peer)?;
        let job = Derive { key: key.clone(), peer: peer.clone() };
        self.submit(&self.derive[key.algorithm() as usize], job)
    }

    /// The room of a message that is too long to wait with others; none where it is not.
    fn claim<J: Job>(&self, gate: &Gate<J>, message: &Message<'_>) -> Result<Option<Claim>, Error> {
        let bytes = message_len(message);
        if bytes <= self.limits.message_max {
            return Ok(None);
        }
        // A forked child may not ask for a lock that its parent's threads hold.
        if self.workers.as_ref().is_none_or(|workers| !workers.board.is_of_this_process()) {
            return Err(Error::Closed);
        }
        gate.check_open()?;
        // It is copied next.
        memory::room::<u8>(bytes).map(drop)?;
        self.long.claim(bytes, self.limits.long_max).map(Some).ok_or(Error::Busy)
    }

    fn submit<J, T>(&self, gate: &Gate<J>, job: J) -> Result<Ticket<T>, Error>
    where
        J: Job<Output = Result<T, Error>, Context = QueueContext>,
        T: Send + 'static,
    {
        match &self.workers {
            Some(workers) => Ok(Ticket::new(gate.submit(&workers.board, job)?)),
            None => Ok(Ticket::ready(gate.run(job)?)),
        }
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        self.shutdown();
    }
}

fn gates<J: Job<Context = QueueContext>>(shared: &Arc<QueueContext>, limits: Limits) -> Gates<J> {
    Algorithm::all().map(|_| Gate::new(limits, Arc::clone(shared))).collect()
}

/// Returns a ticket of a job that ran before the call returns; an error if the queue rejected it.
fn ready<T>(result: Result<T, Error>) -> Result<Ticket<T>, Error> {
    match result {
        Err(refused @ (Error::Busy | Error::Closed)) => Err(refused),
        result => Ok(Ticket::ready(result)),
    }
}

/// The limits of jobs that share no batch.
fn alone(limits: Limits) -> Limits {
    Limits { lanes_max: NonZero::<usize>::MIN, ..limits }
}

fn waiting<J: Job>(gates: &Gates<J>) -> usize {
    gates.iter().map(|gate| gate.len()).sum()
}
