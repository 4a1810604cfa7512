//! From what a caller signs to the message representative mu (FIPS 204, Algorithm 7).

use super::params::MU_LEN;
use crate::ct;
use crate::kernels::{Sponge, Xof};
use crate::message::{Header, Message};

/// The sponge that computes mu = H(tr || M', 64) (Algorithm 7, line 6); none if mu was given,
/// which is then copied.
pub(super) fn mu_sponge<'a>(
    tr: &'a [u8; MU_LEN],
    message: &Message<'a>,
    header: &'a Header,
    mu: &'a mut [u8; MU_LEN],
) -> Option<Sponge<'a>> {
    match *message {
        Message::Pure { .. } | Message::Prehash { .. } | Message::Internal(_) => {
            let [a, b, c, d] = header.formatted(message);
            Some(Sponge::new(Xof::Shake256, [&tr[..], a, b, c, d], mu))
        }
        Message::Mu(given) => {
            *mu = *given;
            // A representative is a hash of public data, even if the caller computed it.
            ct::declassify(&mu[..]);
            None
        }
    }
}
