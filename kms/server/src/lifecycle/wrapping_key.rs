//! Generation of the service's own keys. The RSA key takes seconds to generate, and on a busy
//! machine longer than a client waits. So a background thread generates it, and requests for it
//! meanwhile get `busy`. A server that stays unsealed for half a minute generates all missing keys
//! by itself.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use gabion_engine::Error as EngineError;
use gabion_kms::Error;
use gabion_kms::operations::{Kms, OwnKey};
use gabion_kms::rsa::PrivateKey;
use gabion_kms::service::Service;
use gabion_kms::transport::Recipient;

use crate::problem::Problem;

/// How long a request waits for the key: less than clients do.
const WAIT_MAX: Duration = Duration::from_secs(20);

/// The maximum number of waiting requests. Each takes a thread.
const WAITING_MAX: usize = 8;

/// The number of seconds after which to retry.
const AGAIN_S: u64 = 5;

/// The number of seconds after unsealing, after which missing keys are generated without a request.
const UNASKED_S: u32 = 30;

/// Generates the service's RSA wrapping key on a background thread.
#[derive(Default)]
pub struct WrappingKeyJob {
    now: Mutex<JobState>,
    ended: Condvar,
    /// The number of seconds since the last check for missing keys.
    quiet_s: AtomicU32,
}

/// The state of a [`WrappingKeyJob`].
#[derive(Default)]
struct JobState {
    is_running: bool,
    waiting: usize,
    /// The error of the last attempt.
    failed: Option<Error>,
}

impl WrappingKeyJob {
    /// Returns the key, if it is available soon.
    ///
    /// # Errors
    /// `busy` while it is being generated; errors of the engine and of the store.
    pub fn rsa(self: &Arc<Self>, service: &Arc<Service>) -> Result<Recipient, Problem> {
        self.rsa_within(service, WAIT_MAX, draw(service))
    }

    /// Generates missing keys some time after unsealing, and retries later if that failed. Called
    /// each second.
    pub fn tick(self: &Arc<Self>, service: &Arc<Service>) {
        if self.quiet_s.fetch_add(1, Ordering::Relaxed) < UNASKED_S {
            return;
        }
        self.quiet_s.store(0, Ordering::Relaxed);
        for key in [OwnKey::WrappingXWing, OwnKey::Attestation] {
            // A later request for the key reports the error.
            let _ = service.make_own(key);
        }
        if service.kms().has_own(OwnKey::WrappingRsa) == Ok(false) {
            let _ = self.start(&mut self.now(), draw(service));
        }
    }

    fn rsa_within(
        self: &Arc<Self>,
        service: &Arc<Service>,
        wait: Duration,
        make: impl FnOnce() -> Result<(), Error> + Send + 'static,
    ) -> Result<Recipient, Problem> {
        if let Some(key) = service.kms().made_rsa_wrapping_key()? {
            return Ok(key);
        }
        let mut now = self.now();
        self.start(&mut now, make)?;
        if now.waiting >= WAITING_MAX {
            return Err(busy());
        }
        now.waiting += 1;
        let waited = self.ended.wait_timeout_while(now, wait, |now| now.is_running);
        now = waited.unwrap_or_else(PoisonError::into_inner).0;
        now.waiting -= 1;
        match (now.is_running, &now.failed) {
            (true, _) => return Err(busy()),
            (false, Some(error)) => return Err(error.clone().into()),
            (false, None) => {}
        }
        drop(now);
        // `None` if the service was sealed meanwhile.
        service.kms().made_rsa_wrapping_key()?.ok_or_else(busy)
    }

    /// Starts a background thread that generates the key, unless one is running.
    fn start(
        self: &Arc<Self>,
        now: &mut JobState,
        make: impl FnOnce() -> Result<(), Error> + Send + 'static,
    ) -> Result<(), Problem> {
        if now.is_running {
            return Ok(());
        }
        let me = self.clone();
        let make = move || {
            // If the thread panics anywhere, waiting requests must not wait forever.
            let made = catch_unwind(AssertUnwindSafe(make));
            let made = made.unwrap_or(Err(Error::Engine(EngineError::Lost)));
            let mut now = me.now();
            (now.is_running, now.failed) = (false, made.err());
            drop(now);
            me.ended.notify_all();
        };
        let thread = thread::Builder::new().name("gabion-kms-rsa".to_owned()).spawn(make);
        thread.map_err(|_| busy())?;
        (now.is_running, now.failed) = (true, None);
        Ok(())
    }

    fn now(&self) -> MutexGuard<'_, JobState> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns a function that generates a key pair and stores it. It does not keep the service alive.
fn draw(service: &Arc<Service>) -> impl FnOnce() -> Result<(), Error> + Send + use<> {
    let of = Arc::downgrade(service);
    move || keep(&of, &PrivateKey::drawn(Kms::RSA_BITS)?)
}

/// Stores a key pair, if the service still exists.
fn keep(service: &Weak<Service>, pair: &PrivateKey) -> Result<(), Error> {
    match service.upgrade() {
        Some(service) => {
            service.generation().check()?;
            service.keep_own_rsa(pair)
        }
        None => Ok(()),
    }
}

fn busy() -> Problem {
    Problem::busy("the service's RSA key is being generated, which takes seconds", AGAIN_S)
        .hint("retry later, or wrap keys for the X-Wing key, which is available at once")
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::lifecycle::service_host::ServiceHost;

    fn service() -> Arc<Service> {
        let (host, _) = ServiceHost::in_memory().unwrap();
        host.seal.service().unwrap()
    }

    #[test]
    fn keys_are_made_when_the_seal_was_open_for_a_while() {
        let (service, job) = (service(), Arc::new(WrappingKeyJob::default()));
        let has = |key| service.kms().has_own(key).unwrap();
        // This test generates no RSA key.
        job.now().is_running = true;
        for _ in 0..UNASKED_S {
            job.tick(&service);
        }
        assert!(!has(OwnKey::WrappingXWing) && !has(OwnKey::Attestation));
        job.tick(&service);
        assert!(has(OwnKey::WrappingXWing) && has(OwnKey::Attestation));
        assert_eq!(job.quiet_s.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn slow_wrapping_key_generation_answers_retry_after() {
        let (service, job) = (service(), Arc::new(WrappingKeyJob::default()));
        let (end, ended) = mpsc::channel::<()>();
        let draw = move || {
            ended.recv().unwrap();
            Err(Error::Engine(EngineError::Busy))
        };
        let soon = |begun: Result<Recipient, Problem>| {
            let problem = begun.err().unwrap();
            assert_eq!((problem.code, problem.is_retryable), ("busy", true));
            problem.retry_after_s
        };
        let short = Duration::from_millis(10);
        assert_eq!(soon(job.rsa_within(&service, short, draw)), Some(AGAIN_S));
        // No second thread starts meanwhile.
        let second = || panic!("a second one");
        assert_eq!(soon(job.rsa_within(&service, short, second)), Some(AGAIN_S));
        // The error is reported, and the next request starts another attempt.
        let waits = {
            let (job, service) = (job.clone(), service.clone());
            thread::spawn(move || job.rsa_within(&service, WAIT_MAX, || panic!("a second one")))
        };
        while job.now().waiting == 0 {
            thread::sleep(Duration::from_millis(1));
        }
        end.send(()).unwrap();
        assert_eq!(soon(waits.join().unwrap()), None);
        // If the thread panics, waiting requests return.
        let panics = || panic!("planted");
        let problem = job.rsa_within(&service, WAIT_MAX, panics).err().unwrap();
        assert_eq!(problem.code, "internal");
        // A key of another size is rejected, and not stored.
        let of = Arc::downgrade(&service);
        let short = move || keep(&of, &PrivateKey::testing_only_of_seed(2048, [1; 32])?);
        let problem = job.rsa_within(&service, WAIT_MAX, short).err().unwrap();
        assert_eq!(problem.code, "bad_request");
        assert!(service.kms().made_rsa_wrapping_key().unwrap().is_none());
    }
}
