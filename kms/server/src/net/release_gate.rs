//! The release of answers: after the service is sealed, no byte of an answer of its generation
//! reaches the socket.

use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use gabion_kms::service::Generation;

/// The generation of the answers that a connection has not written completely. It belongs to one
/// connection, whose answers are written in order.
#[derive(Clone, Debug, Default)]
pub struct ReleaseGate(Arc<Mutex<Option<Generation>>>);

impl ReleaseGate {
    /// Registers an answer that is about to be written.
    pub fn take(&self, generation: &Generation) {
        let mut unwritten = self.unwritten();
        // If an earlier answer of a closed generation is not written yet, the connection ends.
        if unwritten.as_ref().is_none_or(|before| before.check().is_ok()) {
            *unwritten = Some(generation.clone());
        }
    }

    /// Writes to the socket, unless the service was sealed. Sealing waits for the write, which does
    /// not block.
    pub fn pass<T>(&self, write: impl FnOnce() -> Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        match &*self.unwritten() {
            None => write(),
            Some(generation) => generation
                .while_open(write)
                .unwrap_or_else(|_| Poll::Ready(Err(ErrorKind::ConnectionAborted.into()))),
        }
    }

    /// Notes that everything was written to the socket.
    pub fn flushed(&self) {
        *self.unwritten() = None;
    }

    fn unwritten(&self) -> MutexGuard<'_, Option<Generation>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
