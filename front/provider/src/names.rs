//! What the provider registers, made from the table of algorithms.

use std::ffi::{CStr, CString, c_int};
use std::ptr;

use gabion_engine::{ALGORITHMS, Algorithm, AlgorithmInfo, Kind};

use crate::ffi::{AlgorithmEntry, operation};
use crate::{kem, keymgmt, signature};

/// The list of what the provider serves: one line an algorithm. The lists that the core gets, the
/// dispatch tables and the counters follow from it.
macro_rules! served {
    ($($algorithm:ident,)*) => {
        /// The rows of the table of algorithms that the provider serves, in the order of its own
        /// tables.
        pub const SERVED: [Algorithm; [$(Algorithm::$algorithm),*].len()] =
            [$(Algorithm::$algorithm),*];

        /// Calls a `const fn` for each of [`SERVED`], with the algorithm's place in the table of
        /// algorithms as its const argument, and makes an array of what it gives.
        macro_rules! for_each_served {
            ($function:ident) => {
                [$($function::<{ Algorithm::$algorithm as usize }>()),*]
            };
        }
        pub(crate) use for_each_served;
    };
}

served! {
    MlKem512,
    MlKem768,
    MlKem1024,
    MlDsa44,
    MlDsa65,
    MlDsa87,
}

/// The algorithm at a place of the table of algorithms: what a const argument stands for.
pub fn at<const PLACE: usize>() -> Algorithm {
    ALGORITHMS[PLACE].algorithm
}

/// The place of an algorithm in [`SERVED`]; none where it is not served.
pub fn served(algorithm: Algorithm) -> Option<usize> {
    const NONE: u8 = u8::MAX;
    const PLACES: [u8; ALGORITHMS.len()] = {
        assert!(SERVED.len() < NONE as usize);
        let mut places = [NONE; ALGORITHMS.len()];
        let mut index = 0;
        while index < SERVED.len() {
            places[SERVED[index] as usize] = index as u8;
            index += 1;
        }
        places
    };
    Some(PLACES[algorithm as usize]).filter(|&place| place != NONE).map(usize::from)
}

/// The property that fetches can ask for.
const PROPERTIES: &CStr = c"provider=gabion";

/// The names of one algorithm as C has them.
struct Names {
    /// All of them, the main one first, separated by colons.
    all: CString,
    description: CString,
}

/// The lists that the core asks for, and the strings that they point into. Immutable once made.
pub struct Tables {
    keymgmt: Vec<AlgorithmEntry>,
    kem: Vec<AlgorithmEntry>,
    signature: Vec<AlgorithmEntry>,
    _names: Vec<Names>,
}

impl Tables {
    /// Makes the lists.
    pub fn new() -> Self {
        let names: Vec<Names> = SERVED.iter().map(|served| Names::of(served.info())).collect();
        let list = |kind: Option<Kind>, table: fn(usize) -> *const crate::ffi::Dispatch| {
            let mut entries: Vec<AlgorithmEntry> = SERVED
                .iter()
                .zip(&names)
                .enumerate()
                .filter(|(_, (served, _))| kind.is_none_or(|kind| kind == served.info().kind))
                .map(|(index, (_, names))| AlgorithmEntry {
                    names: names.all.as_ptr(),
                    properties: PROPERTIES.as_ptr(),
                    implementation: table(index),
                    description: names.description.as_ptr(),
                })
                .collect();
            entries.push(AlgorithmEntry {
                names: ptr::null(),
                properties: ptr::null(),
                implementation: ptr::null(),
                description: ptr::null(),
            });
            entries
        };
        Tables {
            keymgmt: list(None, |index| keymgmt::TABLES[index].as_ptr()),
            kem: list(Some(Kind::Kem), |index| kem::TABLES[index].as_ptr()),
            signature: list(Some(Kind::Signature), |index| signature::TABLES[index].as_ptr()),
            _names: names,
        }
    }

    /// The list of an operation; null where the provider has nothing for it.
    pub fn of(&self, operation: c_int) -> *const AlgorithmEntry {
        match operation {
            operation::KEYMGMT => self.keymgmt.as_ptr(),
            operation::KEM => self.kem.as_ptr(),
            operation::SIGNATURE => self.signature.as_ptr(),
            _ => ptr::null(),
        }
    }
}

impl Names {
    fn of(info: &AlgorithmInfo) -> Self {
        let all = all_names(info).join(":");
        let description = format!("Gabion {} ({})", info.name, info.standard);
        // The table holds no zero byte; a test holds it to that.
        let c = |text: String| CString::new(text).unwrap_or_default();
        Names { all: c(all), description: c(description) }
    }
}

/// The names that an algorithm is fetched by: those of the default provider where it has the
/// algorithm, else the standard's and those that wolfSSL and Open Quantum Safe gave it; then its
/// object identifier.
fn all_names(info: &AlgorithmInfo) -> Vec<&'static str> {
    let mut names = info.openssl.to_vec();
    if names.is_empty() {
        let others = [Some(info.name), info.oid_name, info.wolfssl, info.oqs];
        for name in others.into_iter().flatten() {
            // OpenSSL's names do not mind case.
            if !names.iter().any(|known: &&str| known.eq_ignore_ascii_case(name)) {
                names.push(name);
            }
        }
    }
    names.into_iter().chain(info.oid).collect()
}

/// The DER encoding of an AlgorithmIdentifier without parameters (RFC 9881, section 2), as
/// certificates carry it: SEQUENCE { OBJECT IDENTIFIER }.
pub fn algorithm_identifier(info: &AlgorithmInfo) -> Vec<u8> {
    let mut arcs =
        info.oid.unwrap_or_default().split('.').map(|arc| arc.parse::<u64>().unwrap_or(0));
    let first = arcs.next().unwrap_or(0) * 40 + arcs.next().unwrap_or(0);
    let mut oid: Vec<u8> = Vec::new();
    for arc in std::iter::once(first).chain(arcs) {
        let mut digits = vec![(arc & 0x7f) as u8];
        let mut rest = arc >> 7;
        while rest > 0 {
            digits.push(0x80 | (rest & 0x7f) as u8);
            rest >>= 7;
        }
        oid.extend(digits.iter().rev());
    }
    let mut der = vec![0x30, oid.len() as u8 + 2, 0x06, oid.len() as u8];
    der.extend(oid);
    der
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_default_provider() {
        let names = |algorithm: Algorithm| Names::of(algorithm.info()).all;
        assert_eq!(
            names(Algorithm::MlKem768).to_str(),
            Ok("ML-KEM-768:MLKEM768:id-alg-ml-kem-768:2.16.840.1.101.3.4.4.2")
        );
        assert_eq!(
            names(Algorithm::MlDsa65).to_str(),
            Ok("ML-DSA-65:MLDSA65:id-ml-dsa-65:2.16.840.1.101.3.4.3.18")
        );
    }

    #[test]
    fn texts_of_the_table_are_c_strings() {
        for info in SERVED.map(Algorithm::info) {
            assert_eq!(all_names(info)[0], info.name);
            assert!(info.category.is_some(), "{}", info.name);
            assert!(!Names::of(info).all.is_empty() && !Names::of(info).description.is_empty());
            let c_names = Names::of(info).all;
            // A colon in a name would be two names.
            assert_eq!(c_names.to_bytes().split(|b| *b == b':').count(), all_names(info).len());
        }
    }

    #[test]
    fn places_lead_back_to_the_list() {
        for (index, algorithm) in SERVED.into_iter().enumerate() {
            assert_eq!(served(algorithm), Some(index), "{algorithm}");
        }
        assert_eq!(served(Algorithm::EcdhP521), None);
        assert_eq!(at::<{ Algorithm::MlDsa65 as usize }>(), Algorithm::MlDsa65);
    }

    #[test]
    fn algorithm_identifier_is_der() {
        let der = algorithm_identifier(Algorithm::MlDsa65.info());
        assert_eq!(der, b"\x30\x0b\x06\x09\x60\x86\x48\x01\x65\x03\x04\x03\x12");
    }

    #[test]
    fn lists_end_and_hold_only_their_kind() {
        let tables = Tables::new();
        let of = |kind: Kind| SERVED.iter().filter(|served| served.info().kind == kind).count();
        for (operation, len) in [
            (operation::KEYMGMT, SERVED.len()),
            (operation::KEM, of(Kind::Kem)),
            (operation::SIGNATURE, of(Kind::Signature)),
        ] {
            assert!(len >= 3);
            let list = tables.of(operation);
            // SAFETY: the list has len entries and an end.
            unsafe {
                assert!((0..len).all(|index| !(*list.add(index)).names.is_null()));
                assert!((*list.add(len)).names.is_null());
            }
        }
        assert!(tables.of(1).is_null());
    }
}
