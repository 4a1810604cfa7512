//! The hash of a message (RFC 8554, section 4.5).

use sha2::Digest;
use sha3::digest::{ExtendableOutput, Update, XofReader};

use super::params::{LmOts, N_MAX};
use crate::hbs::checksum;
use crate::kernels::lms::{D_MESG, LmsFamily, prefix};

/// Q and its checksum (Algorithms 3 and 4b), n + 2 bytes and zeros: Q is
/// H(I || u32str(q) || u16str(D_MESG) || C || message).
pub(super) fn message_digest(
    ots: &LmOts,
    id: &[u8; 16],
    q: u32,
    randomizer: &[u8],
    message: &[u8],
) -> [u8; N_MAX + 2] {
    let prefix = prefix(id, q, D_MESG);
    let pieces = [&prefix[..], randomizer, message];
    let mut digest = [0; N_MAX + 2];
    match ots.family {
        LmsFamily::Sha256 => {
            let hash =
                pieces.iter().fold(sha2::Sha256::new(), |hash, piece| hash.chain_update(piece));
            digest[..ots.n].copy_from_slice(&hash.finalize()[..ots.n]);
        }
        LmsFamily::Shake256 => {
            let mut hash = sha3::Shake256::default();
            pieces.iter().for_each(|piece| hash.update(piece));
            hash.finalize_xof().read(&mut digest[..ots.n]);
        }
    }
    let sum = checksum(&digest[..ots.n], ots.w) << ots.shift();
    digest[ots.n..ots.n + 2].copy_from_slice(&(sum as u16).to_be_bytes());
    digest
}
