//! What the provider registers, made from the table of algorithms.

use std::ffi::{CStr, CString};

use gabion_engine::Kind;

use crate::codec::{decoder, encoder};
use crate::ffi::AlgorithmEntry;
use crate::key_types::{SERVED, Served};
use crate::tables::{END, Names, Tables};
use crate::{exchange, kdf, kem, keymgmt, signature, store};

/// The property that fetches can ask for.
const PROPERTIES: &CStr = c"provider=gabion";

/// Makes the lists; those of key exchange are empty where they are not `exchanges`.
pub fn tables(exchanges: bool) -> Tables {
    let names: Vec<Names> = SERVED.into_iter().map(Names::of).collect();
    let list = |kind: Option<Kind>, table: fn(usize) -> *const crate::ffi::Dispatch| {
        let mut entries: Vec<AlgorithmEntry> = SERVED
            .iter()
            .zip(&names)
            .enumerate()
            .filter(|(_, (served, _))| served.is_built() && (exchanges || !served.is_exchange()))
            .filter(|(_, (served, _))| kind.is_none_or(|kind| kind == served.info().kind))
            .map(|(index, (_, names))| AlgorithmEntry {
                names: names.all.as_ptr(),
                properties: PROPERTIES.as_ptr(),
                implementation: table(index),
                description: names.description.as_ptr(),
            })
            .collect();
        entries.push(END);
        entries
    };
    let (decoders, encoders) = (decoders(&names, exchanges), encoders(&names));
    let has_stateful = SERVED.iter().any(|served| served.info().stateful && served.is_built());
    Tables {
        keymgmt: list(None, |index| keymgmt::TABLES[index].as_ptr()),
        kem: list(Some(Kind::Kem), |index| kem::TABLES[index].as_ptr()),
        exchange: list(Some(Kind::KeyExchange), |_| exchange::TABLE.as_ptr()),
        signature: list(Some(Kind::Signature), |index| signature::TABLES[index].as_ptr()),
        kdf: [kdf::entry(PROPERTIES), END],
        stores: has_stateful.then(|| store::entry(PROPERTIES)).into_iter().chain([END]).collect(),
        decoders,
        encoders,
        names,
    }
}

/// Decoders of everything that has a file format; of key exchange, where it is served at all.
fn decoders(names: &[Names], exchanges: bool) -> Vec<AlgorithmEntry> {
    const PUBLIC: &CStr = c"provider=gabion,input=der,structure=SubjectPublicKeyInfo";
    const PRIVATE: &CStr = c"provider=gabion,input=der,structure=PrivateKeyInfo";
    decoder::prepare();
    let mut entries = Vec::new();
    for (index, served) in SERVED.into_iter().enumerate() {
        let is_left_out = served.is_exchange() && !exchanges;
        if !served.is_built() || is_left_out || decoder::file_form(served).is_none() {
            continue;
        }
        for (properties, table) in
            [(PUBLIC, &decoder::PUBLIC_TABLES[index]), (PRIVATE, &decoder::PRIVATE_TABLES[index])]
        {
            entries.push(AlgorithmEntry {
                names: names[index].all.as_ptr(),
                properties: properties.as_ptr(),
                implementation: table.as_ptr(),
                description: names[index].description.as_ptr(),
            });
        }
    }
    entries.push(END);
    entries
}

/// Encoders of what has a file format: all of them, or the one for what the default provider's cannot
/// do where it has the others.
fn encoders(names: &[Names]) -> Vec<AlgorithmEntry> {
    let mut entries = Vec::new();
    for (served, names) in SERVED.into_iter().zip(names) {
        // Keys of a key exchange are the default provider's to write.
        let is_left_out = served.is_exchange() || decoder::file_form(served).is_none();
        if !served.is_built() || is_left_out {
            continue;
        }
        let encoders = match served.is_known_object() {
            true => std::slice::from_ref(&encoder::PARAMETERS),
            false => &encoder::ENCODERS[..],
        };
        entries.extend(encoders.iter().map(|(properties, table)| AlgorithmEntry {
            names: names.all.as_ptr(),
            properties: properties.as_ptr(),
            implementation: table.as_ptr(),
            description: names.description.as_ptr(),
        }));
    }
    entries.push(END);
    entries
}

impl Names {
    fn of(served: Served) -> Self {
        let mut names = served.names();
        let is_stateful = served.info().stateful;
        if served.hash.is_some() || is_stateful {
            // CMS looks for the first name of a key among OpenSSL's objects, which have this one.
            names.swap(0, 1);
        }
        let all = names.join(":");
        let description = format!("Gabion {served} ({})", served.info().standard);
        // The table holds no zero byte; a test holds it to that.
        let c = |text: String| CString::new(text).unwrap_or_default();
        let is_unknown = served.info().kind == Kind::Signature && !served.is_known_object();
        let object = served.oid().filter(|_| is_unknown).map(|oid| {
            let short = served.names().get(1).copied().unwrap_or(served.name());
            // OpenSSL 4.0 knows HSS by one name; XMSS, which no OpenSSL knows, is called by the same rule.
            let long = if is_stateful { short } else { served.name() };
            [oid, short, long].map(|text| c(text.to_owned()))
        });
        Names { all: c(all), description: c(description), object }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ffi::operation;

    #[test]
    fn texts_of_the_table_are_c_strings() {
        for served in SERVED {
            assert!(served.info().category.is_some() != served.is_exchange());
            let names = Names::of(served);
            assert!(!names.all.is_empty() && !names.description.is_empty());
            // A colon in a name would be two names.
            let count = names.all.to_bytes().split(|byte| *byte == b':').count();
            assert_eq!(count, served.names().len());
        }
    }

    #[test]
    fn lists_end_and_hold_only_their_kind() {
        let of = |kind: Kind| SERVED.iter().filter(|served| served.info().kind == kind).count();
        for exchanges in [true, false] {
            let made = tables(exchanges);
            let absent = if exchanges { 0 } else { of(Kind::KeyExchange) };
            for (operation, len) in [
                (operation::KEYMGMT, SERVED.len() - absent),
                (operation::KEM, of(Kind::Kem)),
                (operation::KEYEXCH, of(Kind::KeyExchange) - absent),
                (operation::SIGNATURE, of(Kind::Signature)),
            ] {
                let list = made.of(operation);
                // SAFETY: the list has len entries and an end.
                unsafe {
                    assert!((0..len).all(|index| !(*list.add(index)).names.is_null()));
                    assert!((*list.add(len)).names.is_null());
                }
            }
            assert!(made.of(1).is_null());
        }
    }
}
