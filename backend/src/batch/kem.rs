//! The operations of ML-KEM.

use gabion_scheme::ml_kem::{DecapsKey, EncapsKey, Params, SECRET_LEN, SEED_LEN};
use gabion_scheme::{Algorithm, ct};

use super::outputs::wipe;
use super::split::halves;
use super::{Keys, Task};

/// An operation of ML-KEM. `n` is the number of lanes.
pub enum Kem<'a> {
    /// Key pairs from seeds, encoded: `ek[n][ek_len]`, `dk[n][dk_len]`.
    Keygen {
        /// The parameter set.
        params: &'static Params,
        /// Seeds (d, z).
        seeds: &'a [[u8; SEED_LEN]],
        /// Encapsulation keys.
        ek: &'a mut [u8],
        /// Decapsulation keys.
        dk: &'a mut [u8],
    },
    /// The public half alone of key pairs whose seeds are kept as the private half (FIPS 203, section 3.3): `ek[n][ek_len]`.
    Publish {
        /// The parameter set.
        params: &'static Params,
        /// Seeds (d, z).
        seeds: &'a [[u8; SEED_LEN]],
        /// Encapsulation keys.
        ek: &'a mut [u8],
    },
    /// Key pairs from seeds, expanded for use.
    Generate {
        /// The parameter set.
        params: &'static Params,
        /// Seeds (d, z).
        seeds: &'a [[u8; SEED_LEN]],
        /// The output keys; blank before.
        keys: &'a mut [DecapsKey],
    },
    /// Encapsulation keys, decoded, checked and expanded for use.
    DecodePublic {
        /// The parameter set.
        params: &'static Params,
        /// Encoded keys `[n][ek_len]`.
        bytes: &'a [u8],
        /// The output keys; blank before.
        keys: &'a mut [EncapsKey],
    },
    /// Decapsulation keys, decoded, checked and expanded for use.
    DecodePrivate {
        /// The parameter set.
        params: &'static Params,
        /// Encoded keys `[n][dk_len]`.
        bytes: &'a [u8],
        /// The output keys; blank before.
        keys: &'a mut [DecapsKey],
    },
    /// Encapsulation: `ct[n][ct_len]`, `shared[n]`.
    Encaps {
        /// The parameter set.
        params: &'static Params,
        /// Encapsulation keys.
        keys: Keys<'a, EncapsKey>,
        /// Randomness m.
        m: &'a [[u8; SECRET_LEN]],
        /// Ciphertexts.
        ct: &'a mut [u8],
        /// Shared secrets.
        shared: &'a mut [[u8; SECRET_LEN]],
    },
    /// Decapsulation of `ct[n][ct_len]` into `shared[n]`.
    Decaps {
        /// The parameter set.
        params: &'static Params,
        /// Decapsulation keys.
        keys: Keys<'a, DecapsKey>,
        /// Ciphertexts.
        ct: &'a [u8],
        /// Shared secrets.
        shared: &'a mut [[u8; SECRET_LEN]],
    },
}

impl<'a> Kem<'a> {
    fn params(&self) -> &'static Params {
        match self {
            Kem::Keygen { params, .. }
            | Kem::Publish { params, .. }
            | Kem::Generate { params, .. }
            | Kem::DecodePublic { params, .. }
            | Kem::DecodePrivate { params, .. }
            | Kem::Encaps { params, .. }
            | Kem::Decaps { params, .. } => params,
        }
    }

    /// The parameter set.
    pub(super) fn algorithm(&self) -> Algorithm {
        self.params().algorithm
    }

    /// Returns the task, for messages.
    pub(super) fn task(&self) -> Task {
        match self {
            Kem::Keygen { .. } | Kem::Publish { .. } | Kem::Generate { .. } => Task::Keygen,
            Kem::DecodePublic { .. } => Task::DecodePublic,
            Kem::DecodePrivate { .. } => Task::DecodePrivate,
            Kem::Encaps { .. } => Task::Encaps,
            Kem::Decaps { .. } => Task::Decaps,
        }
    }

    /// Returns whether the arrays are those of `n` lanes, and known keys are keys.
    pub(super) fn fits(&self, n: usize) -> bool {
        match self {
            Kem::Keygen { params: p, seeds, ek, dk } => {
                seeds.len() == n && ek.len() == n * p.ek_len() && dk.len() == n * p.dk_len()
            }
            Kem::Publish { params: p, seeds, ek } => seeds.len() == n && ek.len() == n * p.ek_len(),
            Kem::Generate { params: p, seeds, keys } => {
                seeds.len() == n && keys.len() == n && keys.iter().all(|key| key.params() == *p)
            }
            Kem::DecodePublic { params: p, bytes, keys } => {
                bytes.len() == n * p.ek_len()
                    && keys.len() == n
                    && keys.iter().all(|key| key.params() == *p)
            }
            Kem::DecodePrivate { params: p, bytes, keys } => {
                bytes.len() == n * p.dk_len()
                    && keys.len() == n
                    && keys.iter().all(|key| key.params() == *p)
            }
            Kem::Encaps { params: p, keys, m, ct, shared } => {
                keys.fit(n, p.ek_len(), |key| key.is_expanded() && key.params() == *p)
                    && m.len() == n
                    && ct.len() == n * p.ct_len()
                    && shared.len() == n
            }
            Kem::Decaps { params: p, keys, ct, shared } => {
                keys.fit(n, p.dk_len(), |key| key.is_expanded() && key.params() == *p)
                    && ct.len() == n * p.ct_len()
                    && shared.len() == n
            }
        }
    }

    /// Clears the output of one lane.
    pub(super) fn clear(&mut self, lane: usize) {
        match self {
            Kem::Keygen { params, ek, dk, .. } => {
                wipe(ek, lane, params.ek_len());
                wipe(dk, lane, params.dk_len());
            }
            Kem::Publish { params, ek, .. } => wipe(ek, lane, params.ek_len()),
            Kem::Generate { params, keys, .. } | Kem::DecodePrivate { params, keys, .. } => {
                keys[lane] = DecapsKey::blank(params);
            }
            Kem::DecodePublic { params, keys, .. } => keys[lane] = EncapsKey::blank(params),
            Kem::Encaps { params, ct, shared, .. } => {
                wipe(ct, lane, params.ct_len());
                ct::wipe(&mut shared[lane]);
            }
            Kem::Decaps { shared, .. } => ct::wipe(&mut shared[lane]),
        }
    }

    /// The operation for the lanes before `lane`, and for those from there on.
    pub(super) fn split_at(self, lane: usize) -> (Self, Self) {
        match self {
            Kem::Keygen { params, seeds, ek, dk } => halves!(lane, Kem::Keygen { params;
                each seeds, bytes_mut ek[ek_len], bytes_mut dk[dk_len] }),
            Kem::Publish { params, seeds, ek } => {
                halves!(lane, Kem::Publish { params; each seeds, bytes_mut ek[ek_len] })
            }
            Kem::Generate { params, seeds, keys } => {
                halves!(lane, Kem::Generate { params; each seeds, each_mut keys })
            }
            Kem::DecodePublic { params, bytes, keys } => {
                halves!(lane, Kem::DecodePublic { params; bytes bytes[ek_len], each_mut keys })
            }
            Kem::DecodePrivate { params, bytes, keys } => {
                halves!(lane, Kem::DecodePrivate { params; bytes bytes[dk_len], each_mut keys })
            }
            Kem::Encaps { params, keys, m, ct, shared } => halves!(lane, Kem::Encaps { params;
                keys keys[ek_len], each m, bytes_mut ct[ct_len], each_mut shared }),
            Kem::Decaps { params, keys, ct, shared } => halves!(lane, Kem::Decaps { params;
                keys keys[dk_len], bytes ct[ct_len], each_mut shared }),
        }
    }

    /// Reborrows the operation for a shorter lifetime.
    pub(super) fn reborrow(&mut self) -> Kem<'_> {
        match self {
            Kem::Keygen { params, seeds, ek, dk } => Kem::Keygen { params, seeds, ek, dk },
            Kem::Publish { params, seeds, ek } => Kem::Publish { params, seeds, ek },
            Kem::Generate { params, seeds, keys } => Kem::Generate { params, seeds, keys },
            Kem::DecodePublic { params, bytes, keys } => Kem::DecodePublic { params, bytes, keys },
            Kem::DecodePrivate { params, bytes, keys } => {
                Kem::DecodePrivate { params, bytes, keys }
            }
            Kem::Encaps { params, keys, m, ct, shared } => {
                Kem::Encaps { params, keys: keys.reborrow(), m, ct, shared }
            }
            Kem::Decaps { params, keys, ct, shared } => {
                Kem::Decaps { params, keys: keys.reborrow(), ct, shared }
            }
        }
    }
}
