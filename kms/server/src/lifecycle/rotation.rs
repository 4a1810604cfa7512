//! Rotation by the clock: a thread that has keys rotated that are due, until it is dropped.
//!
//! It is another one than that of the audit log's checkpoints: some keys take seconds to make.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use super::service_host::ServiceHost;
use crate::error::Error;

/// How often it looks whether a key is due.
const TICK: Duration = Duration::from_secs(1);

/// How long its end is waited for. One that makes a key then ends with the process: that key is made by the next one.
const END: Duration = Duration::from_secs(1);

/// The thread.
pub struct Rotation {
    stops: Sender<()>,
    /// Alone it would keep a server from being used by several threads.
    ended: Mutex<Receiver<()>>,
}

impl Rotation {
    /// Starts it.
    ///
    /// # Errors
    /// No thread is to be had.
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

    /// Has it begin no other rotation.
    pub fn stop(&self) {
        // One that has ended hears of nothing.
        let _ = self.stops.send(());
    }
}

impl Drop for Rotation {
    fn drop(&mut self) {
        self.stop();
        // Longer than this nobody waits for it.
        let ended = self.ended.get_mut().unwrap_or_else(PoisonError::into_inner);
        let _ = ended.recv_timeout(END);
    }
}
