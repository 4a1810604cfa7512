//! HSS and LMS (RFC 8554), verified. Each signature changes the private key, so that no key here
//! signs.

use std::sync::Arc;

use gabion_backend::{Batch, Hss, Operation};
use gabion_scheme::message::Message;
use gabion_scheme::{Algorithm, lms};

use super::{VerifyLanes, VerifyPart, plain};
use crate::error::Error;
use crate::memory;
use crate::route::Engine;

mod known_keys;
pub(crate) mod self_test;

/// A public key, which contains its parameter sets.
#[derive(Clone)]
pub(crate) struct VerifyKey(Arc<lms::VerifyKey>);

impl VerifyPart for VerifyKey {
    fn algorithm(&self) -> Algorithm {
        Algorithm::Hss
    }

    fn bytes(&self) -> &[u8] {
        self.0.bytes()
    }

    /// Decodes without computing anything, so that no backend is used.
    fn decode(_: &Engine, _: Algorithm, bytes: &[u8]) -> Result<Self, Error> {
        Ok(VerifyKey(Arc::new(lms::VerifyKey::decode(bytes)?)))
    }

    /// Depends on the key. With several levels, the lower sets are stated in each signature, so
    /// this is the maximum.
    fn signature_len_max(&self) -> usize {
        self.0.signature_len_max()
    }

    fn check_message(&self, message: &Message<'_>) -> Result<(), Error> {
        plain::check(self.algorithm(), message)
    }

    /// RFC 8554, Algorithm 6 and section 6.3, of the lanes whose message has a form that HSS knows;
    /// the others are refused.
    fn verify_many(engine: &Engine, keys: &[&Self], lanes: VerifyLanes<'_>) -> Result<(), Error> {
        let VerifyLanes { messages, signatures, lengths, status } = lanes;
        // Places are of one length; the signature has what is said of it.
        let place = signatures.len() / keys.len().max(1);
        plain::each(messages, status, |lanes, messages, status| {
            let (mut known, mut sigs) = (memory::room(lanes.len())?, memory::room(lanes.len())?);
            for &lane in lanes {
                known.push(&*keys[lane].0);
                sigs.push(&signatures[lane * place..][..lengths[lane]]);
            }
            let verify = Hss::Verify { keys: &known, messages, signatures: &sigs };
            engine.run(&mut Batch { operation: Operation::Hss(verify), status })
        })
    }
}
