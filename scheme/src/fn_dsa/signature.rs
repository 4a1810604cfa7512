//! Signatures between their two endings, and those that are longer than padded ones.
//!
//! ```text
//!   stripped   header | nonce r (40) | s2, compressed |                at most 752 or 1462
//!   padded     header | nonce r (40) | s2, compressed | 0 .. 0         666 or 1280
//! ```
//!
//! The compressed s2 ends with a bit that is one and at most seven that are zero, so the last byte of
//! a stripped signature is never zero: zeros behind it are padding, and there is one way to take
//! them off. Both crates write and read padded signatures only.

use fn_dsa_comm::{DOMAIN_NONE, HASH_ID_ORIGINAL_FALCON, codec, hash_to_point, mq};

use super::params::{NONCE_LEN, Params};
use crate::error::Error;

/// Length of the head byte and nonce before the compressed s2.
pub(super) const HEAD_LEN: usize = 1 + NONCE_LEN;

/// Removes the padding of a signature: all zeros at its end.
pub fn strip(signature: &[u8]) -> &[u8] {
    let end = signature.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    &signature[..end]
}

/// Pads a stripped signature with zeros to the fixed length of its parameter set.
///
/// # Errors
/// [`Error::Signature`] if it ends with a zero, so is not stripped, or if it exceeds the fixed
/// length, as signatures of other implementations may.
pub fn pad(params: &Params, signature: &[u8]) -> Result<Vec<u8>, Error> {
    let refuse = |reason| Error::Signature { algorithm: params.algorithm.name(), reason };
    if signature.last().is_none_or(|&last| last == 0) {
        return Err(refuse("it ends with zeros already"));
    }
    if signature.len() > params.padded_len() {
        return Err(refuse("it is longer than a padded signature"));
    }
    let mut padded = signature.to_vec();
    padded.resize(params.padded_len(), 0);
    Ok(padded)
}

/// Verifies a stripped signature of Falcon (round 3, Algorithm 16) that is longer than a padded one.
///
/// Such a signature is rare from honest signers, and this crate never makes one. So this is
/// the portable arithmetic of the crate, put together as its own verification does. `public_key`
/// passed its checks.
pub(super) fn verify_long(
    params: &Params,
    public_key: &[u8],
    message: &[u8],
    signature: &[u8],
) -> bool {
    let (n, log_n) = (params.n(), params.log_n);
    if !(HEAD_LEN + 1..=params.sig_len_max()).contains(&signature.len())
        || signature[0] != params.sig_header()
        || signature.ends_with(&[0])
    {
        return false;
    }
    let (mut h, mut s2) = (vec![0u16; n], vec![0i16; n]);
    if codec::modq_decode(&public_key[1..], &mut h).is_none()
        || !codec::comp_decode(&signature[HEAD_LEN..], &mut s2)
    {
        return false;
    }
    mq::mqpoly_ext_to_int(log_n, &mut h);
    mq::mqpoly_int_to_NTT(log_n, &mut h);
    // c, the hash of nonce and message; the original mode uses neither key nor context.
    let mut c = vec![0u16; n];
    let nonce = &signature[1..HEAD_LEN];
    let (mode, context) = (&HASH_ID_ORIGINAL_FALCON, &DOMAIN_NONE);
    hash_to_point(nonce, &[0; 64], context, mode, message, &mut c);
    mq::mqpoly_ext_to_int(log_n, &mut c);
    // s1 = c - s2 * h mod q, centred.
    let mut product = vec![0u16; n];
    mq::mqpoly_signed_to_ext(log_n, &s2, &mut product);
    mq::mqpoly_ext_to_int(log_n, &mut product);
    mq::mqpoly_int_to_NTT(log_n, &mut product);
    mq::mqpoly_mul_ntt(log_n, &mut product, &h);
    mq::mqpoly_NTT_to_int(log_n, &mut product);
    mq::mqpoly_sub_int(log_n, &mut c, &product);
    mq::mqpoly_int_to_ext(log_n, &mut c);
    let (norm1, norm2) = (mq::mqpoly_sqnorm(log_n, &c), mq::signed_poly_sqnorm(log_n, &s2));
    u64::from(norm1) + u64::from(norm2) <= u64::from(mq::SQBETA[log_n as usize])
}
