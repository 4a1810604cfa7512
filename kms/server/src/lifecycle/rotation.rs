//! Automatic rotation: a thread that rotates keys that are due, until it is dropped.
//!
//! It is separate from the thread of the audit log's checkpoints, because generating some keys
//! takes seconds.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use super::service_host::ServiceHost;
use crate::error::Error;

/// The interval at which it checks whether a key is due.
const TICK: Duration = Duration::from_secs(1);

/// How long the shutdown waits for it. A rotation that takes longer ends with the process, and the
/// next process repeats it.
const END: Duration = Duration::from_secs(1);

/// The thread.
pub struct Rotation {
    stops: Sender<()>,
    /// The mutex makes the receiver usable from several threads.
    ended: Mutex<Receiver<()>>,
}

impl Rotation {
    /// Starts the thread.
    ///
    /// # Errors
    /// The thread cannot be created.
    pub fn start(host: Arc<ServiceHost>) -> Result<Self, Error> {
        let (stops, stopped) = mpsc::channel();
        let (ends, ended) = mpsc::channel();
        let run = move || {
            while stopped.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                while host.maintenance.rotate_due() {
                    if stopped.try_recv() != Err(TryRecvError::Empty) {
                        let _ = ends.send(());
                        return;
                    }
                }
            }
            let _ = ends.send(());
        };
        let thread = thread::Builder::new().name("gabion-kms-rotation".to_owned()).spawn(run);
        thread.map_err(Error::system("start a thread"))?;
        Ok(Rotation { stops, ended: Mutex::new(ended) })
    }

    /// Stops the thread before its next rotation.
    pub fn stop(&self) {
        // Sending fails if the thread has ended already.
        let _ = self.stops.send(());
    }
}

impl Drop for Rotation {
    fn drop(&mut self) {
        self.stop();
        // The shutdown waits no longer than this.
        let ended = self.ended.get_mut().unwrap_or_else(PoisonError::into_inner);
        let _ = ended.recv_timeout(END);
    }
}
