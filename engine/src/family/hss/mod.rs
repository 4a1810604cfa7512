//! HSS and LMS (RFC 8554), verified. Each signature changes the private key, so that no key here signs.

use std::sync::Arc;

use gabion_backend::{Batch, Hss, Operation};
use gabion_scheme::message::Message;
use gabion_scheme::{Algorithm, Status, lms};

use super::{VerifyLanes, VerifyPart};
use crate::error::Error;
use crate::memory;
use crate::route::Engine;

mod known_keys;
pub(crate) mod self_test;

/// A public key, which says what its sets are.
#[derive(Clone)]
pub(crate) struct VerifyKey(Arc<lms::VerifyKey>);

/// The message itself: HSS has neither a context nor a pre-hash.
fn plain<'a>(message: &Message<'a>) -> Option<&'a [u8]> {
    match *message {
        Message::Pure { context: [], message } => Some(message),
        _ => None,
    }
}

impl VerifyPart for VerifyKey {
    fn algorithm(&self) -> Algorithm {
        Algorithm::Hss
    }

    fn bytes(&self) -> &[u8] {
        self.0.bytes()
    }

    /// Nothing is computed, so that no backend is asked.
    fn decode(_: &Engine, _: Algorithm, bytes: &[u8]) -> Result<Self, Error> {
        Ok(VerifyKey(Arc::new(lms::VerifyKey::decode(bytes)?)))
    }

    /// What the key says; with several levels the lower sets stand in each signature, and this is what the longest have.
    fn signature_len_max(&self) -> usize {
        self.0.signature_len_max()
    }

    fn check_message(&self, message: &Message<'_>) -> Result<(), Error> {
        let operation = match message {
            Message::Pure { context: [], .. } => return Ok(()),
            Message::Pure { .. } => "sign with a context",
            Message::Prehash { .. } => "sign a digest",
            Message::Mu(_) => "sign a representative mu",
            Message::Internal(_) => "sign a formatted message",
        };
        let algorithm = self.algorithm().name();
        Err(Error::Input(gabion_scheme::Error::Unsupported { algorithm, operation }))
    }

    /// RFC 8554, Algorithm 6 and section 6.3, of the lanes whose message has a form that HSS knows; the others are
    /// refused.
    fn verify_many(engine: &Engine, keys: &[&Self], lanes: VerifyLanes<'_>) -> Result<(), Error> {
        let VerifyLanes { messages, signatures, lengths, status } = lanes;
        let n = keys.len();
        // Places are of one length; the signature has what is said of it.
        let place = signatures.len() / n.max(1);
        let mut known = memory::room::<&lms::VerifyKey>(n)?;
        let (mut texts, mut sigs) = (memory::room(n)?, memory::room(n)?);
        for (lane, text) in messages.iter().enumerate() {
            let Some(text) = plain(text) else { continue };
            known.push(&*keys[lane].0);
            texts.push(text);
            sigs.push(&signatures[lane * place..][..lengths[lane]]);
        }
        let run = |status: &mut [Status]| {
            let verify = Hss::Verify { keys: &known, messages: &texts, signatures: &sigs };
            engine.run(&mut Batch { operation: Operation::Hss(verify), status })
        };
        if known.len() == n {
            return run(status);
        }
        let mut verdicts = memory::filled(known.len(), Status::NotRun)?;
        run(&mut verdicts)?;
        let mut verdicts = verdicts.into_iter();
        for (status, message) in status.iter_mut().zip(messages) {
            let verdict = plain(message).and_then(|_| verdicts.next());
            *status = verdict.unwrap_or(Status::InvalidInput);
        }
        Ok(())
    }
}
