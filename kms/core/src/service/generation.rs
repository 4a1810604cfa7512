//! The generation of a service: the time between unsealing and sealing.
//!
//! ```text
//!   unseal --> generation 1 open --seal--> closed permanently     every check of generation 1 fails from here on
//!   unseal --> generation 2 open                                  a request admitted under 1 does not run under 2
//! ```
//!
//! A server takes a handle before it waits for anything that a client, a lock or a disk controls,
//! and checks it afterwards. It writes answers inside [`Generation::while_open`], so that no byte
//! of an answer follows the end of [`Generation::close`].

use std::sync::{Arc, PoisonError, RwLock};

use crate::error::Error;

/// A handle to one opening of the seal. It keeps neither the service nor its keys in memory.
#[derive(Clone, Debug, Default)]
pub struct Generation {
    is_closed: Arc<RwLock<bool>>,
}

impl Generation {
    /// Fails if the service was sealed.
    ///
    /// # Errors
    /// [`Error::Sealed`].
    pub fn check(&self) -> Result<(), Error> {
        self.while_open(|| ())
    }

    /// Runs a function that must not overlap with sealing: [`Self::close`] waits for it.
    ///
    /// # Errors
    /// [`Error::Sealed`] if the service was sealed. Then the function was not run.
    pub fn while_open<T>(&self, act: impl FnOnce() -> T) -> Result<T, Error> {
        let is_closed = self.is_closed.read().unwrap_or_else(PoisonError::into_inner);
        if *is_closed { Err(Error::Sealed) } else { Ok(act()) }
    }

    /// Closes the generation permanently. Waits for functions that [`Self::while_open`] runs.
    pub fn close(&self) {
        *self.is_closed.write().unwrap_or_else(PoisonError::into_inner) = true;
    }

    /// Returns whether two handles belong to the same generation.
    pub fn is(&self, other: &Generation) -> bool {
        Arc::ptr_eq(&self.is_closed, &other.is_closed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn closed_generation_refuses_calls() {
        let (one, other) = (Generation::default(), Generation::default());
        let same = one.clone();
        assert_eq!(one.while_open(|| 7), Ok(7));
        same.close();
        assert_eq!((one.check(), one.while_open(|| 7)), (Err(Error::Sealed), Err(Error::Sealed)));
        assert_eq!(other.check(), Ok(()));
        assert!(one.is(&same) && !one.is(&other));
    }
}
