//! A batch taken apart, for several threads: contiguous lanes, outputs where they are.

use super::{Batch, Keys, Operation};

impl Batch<'_> {
    /// The batch in pieces of `lanes` lanes, the last one shorter; in one piece where its family
    /// can't be split.
    ///
    /// # Panics
    /// If `lanes` is zero, or the batch was not checked.
    pub fn pieces(&mut self, lanes: usize) -> Vec<Batch<'_>> {
        assert!(lanes > 0, "a piece has a lane");
        let mut status = &mut *self.status;
        let mut rest = self.operation.reborrow();
        let mut pieces = Vec::with_capacity(status.len() / lanes + 1);
        while status.len() > lanes {
            let (first, others) = match rest.split_at(lanes) {
                Ok(halves) => halves,
                Err(whole) => {
                    rest = whole;
                    break;
                }
            };
            let (of_first, of_others) = status.split_at_mut(lanes);
            pieces.push(Batch { operation: first, status: of_first });
            (rest, status) = (others, of_others);
        }
        pieces.push(Batch { operation: rest, status });
        pieces
    }
}

impl<'a, T> Keys<'a, T> {
    /// The keys of the lanes before `lane`, and those from there on; `len` bytes each where encoded.
    pub(super) fn split_at(self, lane: usize, len: usize) -> (Self, Self) {
        match self {
            Keys::Fresh(bytes) => {
                let (first, others) = bytes.split_at(lane * len);
                (Keys::Fresh(first), Keys::Fresh(others))
            }
            Keys::Known(keys) => {
                let (first, others) = keys.split_at(lane);
                (Keys::Known(first), Keys::Known(others))
            }
        }
    }

    pub(super) fn reborrow(&self) -> Keys<'_, T> {
        match self {
            Keys::Fresh(bytes) => Keys::Fresh(bytes),
            Keys::Known(keys) => Keys::Known(keys),
        }
    }
}

/// Rebuilds a variant twice: from the halves of each of its arrays. `a` arrays have one element a
/// lane, `b` arrays `len` bytes a lane; `mut` marks outputs, `keys` is [`Keys`].
macro_rules! halves {
    ($lane:ident, $variant:ident { $params:ident;
        $($kind:tt $field:ident $([$len:ident])?),* }) => {{
        $(let $field = halves!(@ $kind $field, $lane $(, $params.$len())?);)*
        Ok((
            Operation::$variant { params: $params, $($field: $field.0),* },
            Operation::$variant { params: $params, $($field: $field.1),* },
        ))
    }};
    (@ each $field:ident, $lane:ident) => { $field.split_at($lane) };
    (@ each_mut $field:ident, $lane:ident) => { $field.split_at_mut($lane) };
    (@ bytes $field:ident, $lane:ident, $len:expr) => { $field.split_at($lane * $len) };
    (@ bytes_mut $field:ident, $lane:ident, $len:expr) => { $field.split_at_mut($lane * $len) };
    (@ keys $field:ident, $lane:ident, $len:expr) => { $field.split_at($lane, $len) };
}

impl<'a> Operation<'a> {
    /// The operation for the lanes before `lane`, and for those from there on; itself where its
    /// family can't be split.
    fn split_at(self, lane: usize) -> Result<(Self, Self), Self> {
        match self {
            Operation::KemKeygen { params, seeds, ek, dk } => halves!(lane, KemKeygen { params;
                each seeds, bytes_mut ek[ek_len], bytes_mut dk[dk_len] }),
            Operation::KemGenerate { params, seeds, keys } => halves!(lane, KemGenerate { params;
                each seeds, each_mut keys }),
            Operation::KemDecodePublic { params, bytes, keys } => {
                halves!(lane, KemDecodePublic { params; bytes bytes[ek_len], each_mut keys })
            }
            Operation::KemDecodePrivate { params, bytes, keys } => {
                halves!(lane, KemDecodePrivate { params; bytes bytes[dk_len], each_mut keys })
            }
            Operation::KemEncaps { params, keys, m, ct, shared } => {
                halves!(lane, KemEncaps { params;
                keys keys[ek_len], each m, bytes_mut ct[ct_len], each_mut shared })
            }
            Operation::KemDecaps { params, keys, ct, shared } => halves!(lane, KemDecaps { params;
                keys keys[dk_len], bytes ct[ct_len], each_mut shared }),
            Operation::DsaKeygen { params, seeds, pk, sk } => halves!(lane, DsaKeygen { params;
                each seeds, bytes_mut pk[pk_len], bytes_mut sk[sk_len] }),
            Operation::DsaGenerate { params, seeds, keys } => halves!(lane, DsaGenerate { params;
                each seeds, each_mut keys }),
            Operation::DsaDecodePublic { params, bytes, keys } => {
                halves!(lane, DsaDecodePublic { params; bytes bytes[pk_len], each_mut keys })
            }
            Operation::DsaDecodePrivate { params, bytes, keys } => {
                halves!(lane, DsaDecodePrivate { params; bytes bytes[sk_len], each_mut keys })
            }
            Operation::DsaSign { params, keys, messages, rnd, sig } => {
                halves!(lane, DsaSign { params;
                keys keys[sk_len], each messages, each rnd, bytes_mut sig[sig_len] })
            }
            Operation::DsaVerify { params, keys, messages, sig } => {
                halves!(lane, DsaVerify { params;
                keys keys[pk_len], each messages, bytes sig[sig_len] })
            }
            Operation::Slh(operation) => {
                let (first, others) = operation.split_at(lane);
                Ok((Operation::Slh(first), Operation::Slh(others)))
            }
            Operation::Ed25519(operation) => {
                let (first, others) = operation.split_at(lane);
                Ok((Operation::Ed25519(first), Operation::Ed25519(others)))
            }
            Operation::FnDsa(operation) => {
                let (first, others) = operation.split_at(lane);
                Ok((Operation::FnDsa(first), Operation::FnDsa(others)))
            }
            Operation::X25519(operation) => {
                let (first, others) = operation.split_at(lane);
                Ok((Operation::X25519(first), Operation::X25519(others)))
            }
        }
    }

    /// The same operation for a shorter time.
    fn reborrow(&mut self) -> Operation<'_> {
        match self {
            Operation::KemKeygen { params, seeds, ek, dk } => {
                Operation::KemKeygen { params, seeds, ek, dk }
            }
            Operation::KemGenerate { params, seeds, keys } => {
                Operation::KemGenerate { params, seeds, keys }
            }
            Operation::KemDecodePublic { params, bytes, keys } => {
                Operation::KemDecodePublic { params, bytes, keys }
            }
            Operation::KemDecodePrivate { params, bytes, keys } => {
                Operation::KemDecodePrivate { params, bytes, keys }
            }
            Operation::KemEncaps { params, keys, m, ct, shared } => {
                Operation::KemEncaps { params, keys: keys.reborrow(), m, ct, shared }
            }
            Operation::KemDecaps { params, keys, ct, shared } => {
                Operation::KemDecaps { params, keys: keys.reborrow(), ct, shared }
            }
            Operation::DsaKeygen { params, seeds, pk, sk } => {
                Operation::DsaKeygen { params, seeds, pk, sk }
            }
            Operation::DsaGenerate { params, seeds, keys } => {
                Operation::DsaGenerate { params, seeds, keys }
            }
            Operation::DsaDecodePublic { params, bytes, keys } => {
                Operation::DsaDecodePublic { params, bytes, keys }
            }
            Operation::DsaDecodePrivate { params, bytes, keys } => {
                Operation::DsaDecodePrivate { params, bytes, keys }
            }
            Operation::DsaSign { params, keys, messages, rnd, sig } => {
                Operation::DsaSign { params, keys: keys.reborrow(), messages, rnd, sig }
            }
            Operation::DsaVerify { params, keys, messages, sig } => {
                Operation::DsaVerify { params, keys: keys.reborrow(), messages, sig }
            }
            Operation::Slh(operation) => Operation::Slh(operation.reborrow()),
            Operation::Ed25519(operation) => Operation::Ed25519(operation.reborrow()),
            Operation::FnDsa(operation) => Operation::FnDsa(operation.reborrow()),
            Operation::X25519(operation) => Operation::X25519(operation.reborrow()),
        }
    }
}
