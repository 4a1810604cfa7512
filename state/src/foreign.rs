//! Imports private keys of Cisco's hash-sigs and wolfSSL, which share a format.
//!
//! ```text
//!   u64str(next index) || a byte a level, 0xff up to 8 || SEED, n bytes || I, 16 bytes
//!                         (type << 4) + otstype, the low 8 bits of it
//! ```
//!
//! Both libraries derive keys as in appendix A of the standard, as does Gabion, so the imported key
//! makes the same signatures. For hash-sigs this requires `SECRET_METHOD` 2, the default; its other
//! methods have keys of 48 bytes.

use gabion_engine::keys::stateful::hss::{HssSecret, Levels};
use gabion_engine::lms::{LM_OTS, LMS, LmOts, Lms};

use crate::key_file::Secret;
use crate::record::Reader;

/// A private key of another library.
pub struct Foreign {
    /// The secret.
    pub secret: Secret,
    /// The next index that it records.
    pub next: u64,
}

impl Foreign {
    /// Decodes a private key.
    ///
    /// # Errors
    /// The problem, and the expected form.
    pub fn decode(bytes: &[u8]) -> Result<Self, String> {
        let expected = "expected 64 bytes of hash-sigs or wolfSSL, or 56 of wolfSSL where n is 24";
        match bytes.len() {
            56 | 64 => {}
            48 => {
                return Err("48 bytes are a key of hash-sigs whose SECRET_METHOD is not 2: it derives its one-time keys \
                            in another way, which is not served"
                    .to_owned());
            }
            len => return Err(format!("{len} bytes are no key; {expected}")),
        }
        let mut reader = Reader(bytes);
        let none = || expected.to_owned();
        let next = reader.u64().ok_or_else(none)?;
        let codes: [u8; 8] = reader.array().ok_or_else(none)?;
        let count = codes.iter().position(|code| *code == 0xff).unwrap_or(8);
        let n = reader.0.len() - 16;
        let sets = codes[..count].iter().map(|code| {
            pair(*code, n).ok_or_else(|| format!("the set {code:#04x} is unknown where n is {n}"))
        });
        let sets = sets.collect::<Result<Vec<_>, _>>()?;
        if count == 0 || codes[count..].iter().any(|code| *code != 0xff) {
            return Err(format!("its list of parameter sets is invalid; {expected}"));
        }
        let levels = Levels::new(&sets).map_err(|error| error.to_string())?;
        let (seed, id) = (reader.bytes(n).ok_or_else(none)?, reader.array().ok_or_else(none)?);
        if next > levels.signatures() {
            return Err(format!("index {next} is beyond its {} signatures", levels.signatures()));
        }
        let secret = HssSecret::new(levels, id, seed).map_err(|error| error.to_string())?;
        Ok(Foreign { secret: Secret::Hss(secret), next })
    }
}

/// Returns the sets for a code byte. The key length determines n, so each code stands for one pair.
fn pair(code: u8, n: usize) -> Option<(&'static Lms, &'static LmOts)> {
    LMS.iter().filter(|lms| lms.n == n).find_map(|lms| {
        let fits = |ots: &&LmOts| {
            let sum = (lms.typecode << 4) + ots.typecode;
            (ots.family, ots.n) == (lms.family, lms.n) && sum & 0xff == u32::from(code)
        };
        LM_OTS.iter().find(fits).map(|ots| (lms, ots))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn key(codes: &[u8], seed: usize) -> Vec<u8> {
        let mut sets = [0xff; 8];
        sets[..codes.len()].copy_from_slice(codes);
        [&7u64.to_be_bytes()[..], &sets, &vec![3; seed], &[4; 16]].concat()
    }

    #[test]
    fn each_pair_of_sets_has_a_byte_of_its_own() {
        for n in [24, 32] {
            let pairs = (0..=u8::MAX).filter_map(|code| pair(code, n));
            let pairs: HashSet<_> = pairs.map(|(lms, ots)| (lms.typecode, ots.typecode)).collect();
            // Ten trees, each with four matching one-time signature sets.
            assert_eq!(pairs.len(), 40);
        }
    }

    #[test]
    fn keys_of_both_libraries_are_read_and_others_refused() {
        let read = |bytes: &[u8]| {
            Foreign::decode(bytes).map(|key| (key.secret.sets().to_string(), key.next))
        };
        let name = "LMS_SHA256_M32_H5:LMOTS_SHA256_N32_W8";
        assert_eq!(read(&key(&[0x54], 32)), Ok((name.to_owned(), 7)));
        assert_eq!(read(&key(&[0x54, 0x54], 32)), Ok((format!("{name},{name}"), 7)));
        let name = "LMS_SHA256_M24_H5:LMOTS_SHA256_N24_W8".to_owned();
        assert_eq!(read(&key(&[0xa8], 24)), Ok((name, 7)));
        let refused = |bytes: &[u8], says: &str| {
            let reason = read(bytes).unwrap_err();
            assert!(reason.contains(says), "{says}: {reason}");
        };
        refused(&key(&[0x54], 16), "SECRET_METHOD");
        refused(&key(&[0x54], 31), "63 bytes");
        refused(&key(&[0x50], 32), "0x50 is unknown");
        refused(&key(&[], 32), "list of parameter sets");
        refused(&key(&[0xff, 0x54], 32), "list of parameter sets");
        let mut used = key(&[0x54], 32);
        used[7] = 33;
        refused(&used, "beyond its 32");
    }
}
