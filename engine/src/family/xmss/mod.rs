//! XMSS and XMSS^MT (RFC 8391), verified. Each signature changes the private key, so that no key
//! here signs.

use std::sync::Arc;

use gabion_backend::{Batch, Operation, Xmss};
use gabion_scheme::message::Message;
use gabion_scheme::{Algorithm, xmss};

use super::{VerifyLanes, VerifyPart, plain};
use crate::error::Error;
use crate::memory;
use crate::route::Engine;

pub(crate) mod self_test;

/// A public key, which contains its parameter set; the scheme is needed to interpret it.
#[derive(Clone)]
pub(crate) struct VerifyKey {
    scheme: xmss::Scheme,
    key: Arc<xmss::VerifyKey>,
}

impl VerifyPart for VerifyKey {
    fn algorithm(&self) -> Algorithm {
        self.scheme.into()
    }

    fn bytes(&self) -> &[u8] {
        self.key.bytes()
    }

    /// Two blocks of a hash at most, so that no backend is asked.
    fn decode(_: &Engine, algorithm: Algorithm, bytes: &[u8]) -> Result<Self, Error> {
        let scheme = algorithm.xmss().ok_or(Error::NotBuilt(algorithm))?;
        let key = Arc::new(xmss::VerifyKey::decode(scheme, bytes)?);
        Ok(VerifyKey { scheme, key })
    }

    /// Depends on the key, and is exact.
    fn signature_len_max(&self) -> usize {
        self.key.signature_len()
    }

    fn check_message(&self, message: &Message<'_>) -> Result<(), Error> {
        plain::check(self.algorithm(), message)
    }

    /// RFC 8391, Algorithms 14 and 17, of the lanes whose message has a form that XMSS knows; the
    /// others are refused.
    fn verify_many(engine: &Engine, keys: &[&Self], lanes: VerifyLanes<'_>) -> Result<(), Error> {
        let VerifyLanes { messages, signatures, lengths, status } = lanes;
        let Some(&&VerifyKey { scheme, .. }) = keys.first() else { return Ok(()) };
        // Places are of one length; the signature has what is said of it.
        let place = signatures.len() / keys.len();
        plain::each(messages, status, |lanes, messages, status| {
            let (mut known, mut sigs) = (memory::room(lanes.len())?, memory::room(lanes.len())?);
            for &lane in lanes {
                known.push(&*keys[lane].key);
                sigs.push(&signatures[lane * place..][..lengths[lane]]);
            }
            let verify = Xmss::Verify { scheme, keys: &known, messages, signatures: &sigs };
            engine.run(&mut Batch { operation: Operation::Xmss(verify), status })
        })
    }
}
