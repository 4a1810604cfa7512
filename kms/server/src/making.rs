//! The service's RSA key, which takes seconds to make and on a busy machine longer than a client waits: it is made aside, by a
//! thread that nobody has to wait for, and whoever asked is told to come again.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use gabion_engine::Error as EngineError;
use gabion_kms::Error;
use gabion_kms::operations::Kms;
use gabion_kms::rsa::PrivateKey;
use gabion_kms::service::Service;
use gabion_kms::transport::Recipient;

use crate::problem::Problem;

/// How long whoever asks for it waits: less than clients do.
const PATIENCE: Duration = Duration::from_secs(20);

/// Most that wait, each of which has a thread.
const WAITING_MAX: usize = 8;

/// In how many seconds it is worth asking again.
const AGAIN_S: u64 = 5;

/// Whether the key is being made.
#[derive(Default)]
pub struct Making {
    now: Mutex<Now>,
    ended: Condvar,
}

#[derive(Default)]
struct Now {
    is_under_way: bool,
    waiting: usize,
    /// Why the last one did not come about.
    failed: Option<Error>,
}

impl Making {
    /// The key, if it is there soon.
    ///
    /// # Errors
    /// `busy`: it is being made. The engine's, the store's.
    pub fn rsa(self: &Arc<Self>, service: &Arc<Service>) -> Result<Recipient, Problem> {
        // It keeps no service from its end.
        let of = Arc::downgrade(service);
        self.rsa_by(service, PATIENCE, move || keep(&of, &PrivateKey::drawn(Kms::RSA_BITS)?))
    }

    fn rsa_by(
        self: &Arc<Self>,
        service: &Arc<Service>,
        patience: Duration,
        make: impl FnOnce() -> Result<(), Error> + Send + 'static,
    ) -> Result<Recipient, Problem> {
        if let Some(key) = service.kms().made_rsa_wrapping_key()? {
            return Ok(key);
        }
        let mut now = self.now();
        if !now.is_under_way {
            self.begin(make)?;
            (now.is_under_way, now.failed) = (true, None);
        }
        if now.waiting >= WAITING_MAX {
            return Err(soon());
        }
        now.waiting += 1;
        let waited = self.ended.wait_timeout_while(now, patience, |now| now.is_under_way);
        now = waited.unwrap_or_else(PoisonError::into_inner).0;
        now.waiting -= 1;
        match (now.is_under_way, &now.failed) {
            (true, _) => return Err(soon()),
            (false, Some(error)) => return Err(error.clone().into()),
            (false, None) => {}
        }
        drop(now);
        // None where the seal was closed meanwhile.
        service.kms().made_rsa_wrapping_key()?.ok_or_else(soon)
    }

    /// Has it made on a thread of its own.
    fn begin(
        self: &Arc<Self>,
        make: impl FnOnce() -> Result<(), Error> + Send + 'static,
    ) -> Result<(), Problem> {
        let me = self.clone();
        let make = move || {
            // Nobody waits for ever for one that panics, wherever it does.
            let made = catch_unwind(AssertUnwindSafe(make));
            let made = made.unwrap_or(Err(Error::Engine(EngineError::Lost)));
            let mut now = me.now();
            (now.is_under_way, now.failed) = (false, made.err());
            drop(now);
            me.ended.notify_all();
        };
        let thread = thread::Builder::new().name("gabion-kms-rsa".to_owned()).spawn(make);
        thread.map(drop).map_err(|_| soon())
    }

    fn now(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps a pair, if there still is a service for it.
fn keep(service: &Weak<Service>, pair: &PrivateKey) -> Result<(), Error> {
    match service.upgrade() {
        Some(service) => {
            service.generation().check()?;
            service.kms().keep_wrapping_key(pair)
        }
        None => Ok(()),
    }
}

fn soon() -> Problem {
    Problem::busy("the service's RSA key is being made, which takes seconds", AGAIN_S)
        .hint("ask again; keys are wrapped for X-Wing's at once")
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::keeper::Keeper;

    fn service() -> Arc<Service> {
        let (keeper, _) = Keeper::in_memory().unwrap();
        keeper.service().unwrap()
    }

    #[test]
    fn who_asks_for_a_key_that_takes_long_is_told_to_come_again() {
        let (service, making) = (service(), Arc::new(Making::default()));
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
        assert_eq!(soon(making.rsa_by(&service, short, draw)), Some(AGAIN_S));
        // Nobody makes a second one meanwhile.
        let second = || panic!("a second one");
        assert_eq!(soon(making.rsa_by(&service, short, second)), Some(AGAIN_S));
        // What went wrong is told, and begun anew by who asks again.
        let waits = {
            let (making, service) = (making.clone(), service.clone());
            thread::spawn(move || making.rsa_by(&service, PATIENCE, || panic!("a second one")))
        };
        while making.now().waiting == 0 {
            thread::sleep(Duration::from_millis(1));
        }
        end.send(()).unwrap();
        assert_eq!(soon(waits.join().unwrap()), None);
        // A thread that panics leaves nobody waiting.
        let panics = || panic!("planted");
        let problem = making.rsa_by(&service, PATIENCE, panics).err().unwrap();
        assert_eq!(problem.code, "internal");
        // One of another size is none, and kept nowhere.
        let of = Arc::downgrade(&service);
        let short = move || keep(&of, &PrivateKey::testing_only_of_seed(2048, [1; 32])?);
        let problem = making.rsa_by(&service, PATIENCE, short).err().unwrap();
        assert_eq!(problem.code, "bad_request");
        assert!(service.kms().made_rsa_wrapping_key().unwrap().is_none());
    }
}
