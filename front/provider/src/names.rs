//! The names that the provider registers, generated from the table of algorithms.

use std::ffi::{CStr, CString};

use gabion_engine::Kind;

use crate::codec::{decoder, encoder};
use crate::ffi::AlgorithmEntry;
use crate::key_types::{KEY_TYPES, KeyType};
use crate::tables::{END, Names, Tables};
use crate::{exchange, kdf, kem, keymgmt, signature, store};

/// The property that fetches can ask for.
const PROPERTIES: &CStr = c"provider=gabion";

/// Makes the lists; those of key exchange are empty where they are not `exchanges`.
pub fn tables(exchanges: bool) -> Tables {
    let names: Vec<Names> = KEY_TYPES.into_iter().map(Names::of).collect();
    let list = |kind: Option<Kind>, table: fn(usize) -> *const crate::ffi::Dispatch| {
        let mut entries: Vec<AlgorithmEntry> = KEY_TYPES
            .iter()
            .zip(&names)
            .enumerate()
            .filter(|(_, (key_type, _))| {
                key_type.is_built() && (exchanges || !key_type.is_exchange())
            })
            .filter(|(_, (key_type, _))| kind.is_none_or(|kind| kind == key_type.info().kind))
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
    let has_stateful =
        KEY_TYPES.iter().any(|key_type| key_type.info().stateful && key_type.is_built());
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
    for (index, key_type) in KEY_TYPES.into_iter().enumerate() {
        let is_left_out = key_type.is_exchange() && !exchanges;
        if !key_type.is_built() || is_left_out || decoder::file_form(key_type).is_none() {
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

/// Encoders of what has a file format: all of them, or the one for what the default provider's
/// cannot do where it has the others.
fn encoders(names: &[Names]) -> Vec<AlgorithmEntry> {
    let mut entries = Vec::new();
    for (key_type, names) in KEY_TYPES.into_iter().zip(names) {
        // Keys of a key exchange are the default provider's to write.
        let is_left_out = key_type.is_exchange() || decoder::file_form(key_type).is_none();
        if !key_type.is_built() || is_left_out {
            continue;
        }
        let encoders = match key_type.is_known_object() {
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
    fn of(key_type: KeyType) -> Self {
        let mut names = key_type.names();
        let is_stateful = key_type.info().stateful;
        if key_type.hash.is_some() || is_stateful {
            // CMS looks for the first name of a key among OpenSSL's objects, which have this one.
            names.swap(0, 1);
        }
        let all = names.join(":");
        let description = format!("Gabion {key_type} ({})", key_type.info().standard);
        // The table holds no zero byte; a test holds it to that.
        let c = |text: String| CString::new(text).unwrap_or_default();
        let is_unknown = key_type.info().kind == Kind::Signature && !key_type.is_known_object();
        let object = key_type.oid().filter(|_| is_unknown).map(|oid| {
            let short = key_type.names().get(1).copied().unwrap_or(key_type.name());
            // OpenSSL 4.0 knows HSS by one name; XMSS, which no OpenSSL knows, is called by the
            // same rule.
            let long = if is_stateful { short } else { key_type.name() };
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
        for key_type in KEY_TYPES {
            assert!(key_type.info().category.is_some() != key_type.is_exchange());
            let names = Names::of(key_type);
            assert!(!names.all.is_empty() && !names.description.is_empty());
            // A colon in a name would be two names.
            let count = names.all.to_bytes().split(|byte| *byte == b':').count();
            assert_eq!(count, key_type.names().len());
        }
    }

    #[test]
    fn lists_end_and_hold_only_their_kind() {
        let of =
            |kind: Kind| KEY_TYPES.iter().filter(|key_type| key_type.info().kind == kind).count();
        for exchanges in [true, false] {
            let made = tables(exchanges);
            let absent = if exchanges { 0 } else { of(Kind::KeyExchange) };
            for (operation, len) in [
                (operation::KEYMGMT, KEY_TYPES.len() - absent),
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
