//! Converts the engine's errors to those of rustls, which determine the alert.

use std::sync::Arc;

use gabion_engine::{Engine, Error, InputError, Status};
use rustls::{OtherError, PeerMisbehaved};

/// Returns the engine, or the error of its start.
pub(crate) fn engine() -> Result<&'static Engine, rustls::Error> {
    Engine::global().map_err(own_error)
}

/// Converts an error that the peer did not cause: no memory, no randomness, no healthy backend, or
/// a local key.
pub(crate) fn own_error(error: Error) -> rustls::Error {
    rustls::Error::Other(OtherError(Arc::new(error)))
}

/// Converts the error of an exchange with a peer's key share. rustls sends `illegal_parameter` for
/// every such error; the result tells the caller whether the peer caused it.
pub(crate) fn share_error(error: Error) -> rustls::Error {
    match error {
        Error::Input(InputError::Length { .. } | InputError::PublicKey { .. })
        | Error::Lane { status: Status::InvalidKey | Status::InvalidInput, .. } => {
            PeerMisbehaved::InvalidKeyShare.into()
        }
        other => own_error(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gabion_engine::{Algorithm, Task};

    #[test]
    fn errors_blame_the_peer_for_its_own_input_only() {
        let lane = |status| Error::Lane {
            algorithm: Algorithm::X25519MlKem768,
            task: Task::Decaps,
            status,
        };
        let length = InputError::Length { what: "the ciphertext", expected: 1120, got: 3 };
        let algorithm = Algorithm::X25519MlKem768.name();
        let public = InputError::PublicKey { algorithm, reason: "it is no point" };
        let private = InputError::PrivateKey { algorithm, reason: "it is none" };
        let lanes = [Status::InvalidInput, Status::InvalidKey].map(lane);
        for blamed in lanes.into_iter().chain([Error::Input(length), Error::Input(public)]) {
            let expected = rustls::Error::PeerMisbehaved(PeerMisbehaved::InvalidKeyShare);
            assert_eq!(share_error(blamed), expected);
        }
        let lanes = [Status::Fault, Status::NotRun].map(lane);
        for own in lanes.into_iter().chain([Error::NoMemory("a key"), Error::Input(private)]) {
            let said = own.to_string();
            let rustls::Error::Other(error) = share_error(own) else { panic!("{said}") };
            assert_eq!(error.0.to_string(), said);
        }
    }
}
