//! The configured formats for writing and reading private keys.
//!
//! The default provider has two settings each for ML-DSA and ML-KEM: `output_formats`, of which it
//! writes the first that the key supports, and `input_formats`, which lists all formats that it
//! reads. HashML-DSA keys are ML-DSA keys with another identifier, which the default provider
//! lacks: here they use the settings of ML-DSA.

use std::ffi::CStr;

use gabion_engine::Family;
use gabion_engine::key_file::{Forms, OctetForm, Private};

use crate::error::Failure;
use crate::key_types::KeyType;
use crate::provider::Provider;

/// A form of private key, by OpenSSL's name and in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    /// Seed and expanded key.
    SeedPriv,
    /// The expanded key.
    PrivOnly,
    /// The seed.
    SeedOnly,
    /// One that no standard has, and that is for keys of the default provider alone.
    Foreign,
}

/// The format names of OpenSSL. Without a setting, the first format that the key supports is
/// written.
const FORMATS: [(&str, Format); 6] = [
    ("seed-priv", Format::SeedPriv),
    ("priv-only", Format::PrivOnly),
    ("oqskeypair", Format::Foreign),
    ("seed-only", Format::SeedOnly),
    ("bare-priv", Format::Foreign),
    ("bare-seed", Format::Foreign),
];

/// The provider's parameter that lists what is written.
const OUTPUT: &CStr = c"ml-dsa.output_formats";

/// The provider's parameter that lists what is read.
const INPUT: &CStr = c"ml-dsa.input_formats";

/// Returns whether the lists are for keys of this algorithm: they have several forms, and no
/// encoder or decoder of the default provider, which would follow the lists itself.
fn is_listed(key_type: KeyType) -> bool {
    key_type.info().family == Family::MlDsa && !key_type.is_known_object()
}

/// The formats that a list names, in its order. As OpenSSL reads it: names end at spaces, tabs and
/// commas, case does not count, the beginning of a name stands for the first that has it and was
/// not named yet, and what means nothing is passed over.
fn named(list: &[u8]) -> Vec<Format> {
    let mut left = FORMATS.to_vec();
    let mut formats = Vec::new();
    for word in list.split(|byte| b" \t,".contains(byte)).filter(|word| !word.is_empty()) {
        let begins = |name: &str| {
            name.as_bytes().get(..word.len()).is_some_and(|head| head.eq_ignore_ascii_case(word))
        };
        if let Some(at) = left.iter().position(|(name, _)| begins(name)) {
            formats.push(left.remove(at).1);
        }
    }
    formats
}

/// Returns the configured formats, or all of them without a setting.
fn chosen(provider: &Provider, setting: &'static CStr) -> Vec<Format> {
    match provider.core.setting(setting) {
        Some(list) => named(list.to_bytes()),
        None => FORMATS.map(|(_, format)| format).to_vec(),
    }
}

/// Chooses the format to write: the first configured one among the available forms.
///
/// # Errors
/// None of the configured formats is available.
pub fn to_write<'a>(
    provider: &Provider,
    algorithm: KeyType,
    forms: Forms<'a>,
) -> Result<Forms<'a>, Failure> {
    if !is_listed(algorithm) {
        return Ok(Forms { seed: None, ..forms });
    }
    pick(&chosen(provider, OUTPUT), forms).ok_or_else(|| refusal(algorithm, OUTPUT))
}

fn pick<'a>(formats: &[Format], forms: Forms<'a>) -> Option<Forms<'a>> {
    formats.iter().find_map(|format| match (format, forms.seed) {
        (Format::SeedPriv, Some(_)) => Some(forms),
        (Format::SeedOnly, Some(_)) => Some(Forms { expanded: None, ..forms }),
        (Format::PrivOnly, _) => Some(Forms { seed: None, ..forms }),
        _ => None,
    })
}

/// Returns whether an ML-DSA private key has a form outside its standard (RFC 9881). If the default
/// provider supports the algorithm, its other forms are allowed.
pub fn is_foreign(algorithm: KeyType, key: &Private) -> bool {
    let is_standard = |forms: Forms<'_>| {
        forms.expanded.is_none_or(|expanded| expanded.len() == algorithm.info().private_key.max())
    };
    is_listed(algorithm)
        && !Forms::from_octets(OctetForm::Choice, &key.octets).is_ok_and(is_standard)
}

/// Checks that a private key in this form may be read. A key in an unknown form is accepted here,
/// so that its reader can report the error.
///
/// # Errors
/// The configuration excludes this format.
pub fn may_read(provider: &Provider, algorithm: KeyType, key: &Private) -> Result<(), Failure> {
    if !is_listed(algorithm) {
        return Ok(());
    }
    let format = match Forms::from_octets(OctetForm::Choice, &key.octets) {
        Ok(Forms { seed: Some(_), expanded: Some(_), .. }) => Format::SeedPriv,
        Ok(Forms { seed: Some(_), .. }) => Format::SeedOnly,
        Ok(_) => Format::PrivOnly,
        Err(_) => return Ok(()),
    };
    match chosen(provider, INPUT).contains(&format) {
        true => Ok(()),
        false => Err(refusal(algorithm, INPUT)),
    }
}

fn refusal(algorithm: KeyType, list: &'static CStr) -> Failure {
    Failure::NoFormat { algorithm, list: list.to_str().unwrap_or_default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key_types::KEY_TYPES;

    #[test]
    fn a_list_is_read_as_openssl_reads_it() {
        use Format::{Foreign, PrivOnly, SeedOnly, SeedPriv};
        for (list, expected) in [
            ("", &[][..]),
            (" \t,", &[]),
            ("seed-only", &[SeedOnly]),
            ("seed-only,seed-only", &[SeedOnly]),
            ("PRIV-ONLY ,\tSeed-Priv", &[PrivOnly, SeedPriv]),
            ("nonsense, seed-only, seed-only-and-more", &[SeedOnly]),
            // The beginning of a name: the first that is left.
            ("seed", &[SeedPriv]),
            ("seed seed seed", &[SeedPriv, SeedOnly]),
            ("oqskeypair bare-seed priv-only", &[Foreign, Foreign, PrivOnly]),
        ] {
            assert_eq!(named(list.as_bytes()), expected, "{list:?}");
        }
    }

    #[test]
    fn the_first_format_that_the_key_can_have_is_written() {
        let whole = Forms { seed: Some(&[1]), expanded: Some(&[2]), public: Some(&[3]) };
        let seedless = Forms { seed: None, ..whole };
        let written = |list: &str, forms| {
            let forms = pick(&named(list.as_bytes()), forms)?;
            assert_eq!(forms.public, Some(&[3][..]));
            Some((forms.seed.is_some(), forms.expanded.is_some()))
        };
        assert_eq!(written("seed-priv", whole), Some((true, true)));
        assert_eq!(written("seed-only,priv-only", whole), Some((true, false)));
        assert_eq!(written("priv-only,seed-only", whole), Some((false, true)));
        assert_eq!(written("bare-seed,seed-only", whole), Some((true, false)));
        assert_eq!(written("seed-only,priv-only", seedless), Some((false, true)));
        assert_eq!(written("seed-only,seed-priv", seedless), None);
        assert_eq!(written("oqskeypair", whole), None);
        assert_eq!(written("", whole), None);
    }

    #[test]
    fn the_lists_are_for_the_pre_hash_variants_of_ml_dsa() {
        let listed = KEY_TYPES.into_iter().filter(|key_type| is_listed(*key_type));
        let names: Vec<_> = listed.map(KeyType::name).collect();
        assert_eq!(names, [44, 65, 87].map(|set| format!("HashML-DSA-{set}-with-SHA512")));
    }
}
