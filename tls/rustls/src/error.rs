//! The engine's errors as those of rustls, which chooses the alert by them.

use std::sync::Arc;

use gabion_engine::{Engine, Error, InputError, Status};
use rustls::{OtherError, PeerMisbehaved};

/// The engine, or why there is none.
pub(crate) fn engine() -> Result<&'static Engine, rustls::Error> {
    Engine::global().map_err(own_error)
}

/// Converts an error that the peer did not cause: no memory, no randomness, no healthy backend, an own key.
pub(crate) fn own_error(error: Error) -> rustls::Error {
    rustls::Error::Other(OtherError(Arc::new(error)))
}

/// Converts the error of an exchange with a peer's key share. rustls sends `illegal_parameter` for every error of an exchange; whether
/// the peer is to blame is what its caller reads.
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
