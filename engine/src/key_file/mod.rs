//! Key files: the structures that programs exchange keys in, and the engine's keys in them.
//!
//! ```text
//!   DER --EncodedKey::from_der--> EncodedKey --of_identifier--> Algorithm --decode--> Key, checked
//!   PrivateKey --forms, FileForm::of--> encode_private--> DER or PEM
//!   public bytes ------FileForm::of---> encode_public---> DER or PEM
//! ```
//!
//! The structures of every algorithm: seed, expanded key or both (RFC 9881, RFC 9935), bytes (RFC
//! 9909, composites), ECPrivateKey (RFC 5915), and the format of Open Quantum Safe (Falcon). The
//! caller handles encryption and reads PEM. The content of a structure is a [`Key`], by the rule of
//! [`keys`](crate::keys) for halves that come together.
//!
//! # Examples
//! ```
//! use gabion_engine::key_file::{self, EncodedKey, FileForm};
//! use gabion_engine::keys::PrivateKey;
//! use gabion_engine::{Algorithm, Engine, Kind, OsEntropy};
//!
//! let engine = Engine::global()?;
//! let key = PrivateKey::generate(engine, Algorithm::MlDsa65, &OsEntropy)?;
//! let form = FileForm::of(key.algorithm()).ok_or("no file format")?;
//! let der = key_file::encode_private(form, &key.forms(), true)?;
//!
//! let encoded = EncodedKey::from_der(&der)?;
//! let of = key_file::of_identifier(encoded.identifier(), Kind::Signature)?.ok_or("not ours")?;
//! let again = key_file::decode(engine, of, &encoded)?;
//! assert_eq!(again.public_bytes(), key.public_bytes());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod der;

use std::borrow::Cow;

use crate::error::Error;
use crate::keys::{Key, PrivateKey, PublicKey};
use crate::route::Engine;
use gabion_scheme::Algorithm;
use gabion_scheme::algorithms::{AlgorithmInfo, Family, Kind};
use gabion_scheme::lms;
use pkcs8::der::Decode;
use pkcs8::der::asn1::OctetStringRef;

pub use crate::keys::Forms;
pub use der::{
    EncodedKey, FileForm, Identifier, OctetForm, Parameters, Private, Public, Reason, Shape,
    encode_private, encode_public,
};

/// Decodes the key of an algorithm from the content of a file.
///
/// # Errors
/// [`Error::KeyFile`] for a structure that is not the algorithm's; [`Error::Input`] for a key that
/// a check refuses, and for halves that do not belong together.
pub fn decode(engine: &Engine, algorithm: Algorithm, encoded: &EncodedKey) -> Result<Key, Error> {
    match encoded {
        EncodedKey::Private(key) => private(engine, algorithm, key).map(Key::Private),
        EncodedKey::Public(key) => {
            let bytes = of_old_form(algorithm, &key.bytes);
            PublicKey::import(engine, algorithm, &bytes).map(Key::Public)
        }
    }
}

/// Converts the content of the BIT STRING of older public keys to the form of RFC 9802: keys in an
/// OCTET STRING (RFC 8708 for HSS, Botan and BouncyCastle for XMSS), and the LMS key of a single
/// tree without the level count. These forms are only read. They differ in length; an OCTET STRING
/// starts with 4, and an XMSS set number with three zeros.
pub fn of_old_form(algorithm: Algorithm, bytes: &[u8]) -> Cow<'_, [u8]> {
    let family = algorithm.info().family;
    if !matches!(family, Family::Hss | Family::Xmss) {
        return Cow::Borrowed(bytes);
    }
    let wrapped = <&OctetStringRef>::from_der(bytes).map(|octets| octets.as_bytes());
    let bytes = wrapped.unwrap_or(bytes);
    if family == Family::Hss { lms::with_levels(bytes) } else { Cow::Borrowed(bytes) }
}

/// Returns the algorithm of an identifier, of the wanted kind if there is one: a point on P-256 can
/// be a key of ECDH or ECDSA. Only identifiers are accepted, so a file cannot select an algorithm
/// by name.
///
/// # Errors
/// Parameters that are invalid for the identifier.
pub fn of_identifier(identifier: &Identifier, kind: Kind) -> Result<Option<Algorithm>, String> {
    let is_named = |info: &AlgorithmInfo| {
        let oid = Some(identifier.oid.as_str());
        info.oid == oid || info.oid_before == oid
    };
    let of_oid = || Algorithm::all().filter(|algorithm| is_named(algorithm.info()));
    let fits =
        |algorithm: &Algorithm| match (algorithm.info().parameters_oid, &identifier.parameters) {
            (None, Parameters::Absent) => true,
            (Some(curve), Parameters::Named(named)) => curve == named,
            _ => false,
        };
    let found = of_oid().filter(fits).find(|algorithm| algorithm.info().kind == kind);
    if let Some(algorithm) = found.or_else(|| of_oid().find(fits)) {
        return Ok(Some(algorithm));
    }
    match (of_oid().next(), &identifier.parameters) {
        (None, _) => Ok(None),
        (Some(curve), parameters) if curve.info().parameters_oid.is_some() => Err(format!(
            "an elliptic-curve key {}; expected the named curve P-256, P-384 or P-521",
            match parameters {
                Parameters::Named(named) => format!("on another curve ({named})"),
                _ => "without the name of its curve".to_owned(),
            }
        )),
        (Some(algorithm), _) => {
            Err(format!("the {algorithm} identifier has parameters; the standard allows none"))
        }
    }
}

impl FileForm {
    /// Returns the format of an algorithm's key files; `None` if no standard gives its keys an
    /// object identifier, as for the TLS hybrids.
    pub fn of(algorithm: Algorithm) -> Option<FileForm> {
        let info = algorithm.info();
        let octet_form = match info.family {
            // Of HSS and XMSS there are only public keys.
            Family::SlhDsa | Family::Hss | Family::Xmss | Family::Composite | Family::Hybrid => {
                OctetForm::Bytes
            }
            Family::FnDsa => OctetForm::WithPublic(info.private_key.max()),
            Family::MlKem | Family::MlDsa | Family::Ed25519 | Family::Ecdh | Family::Ecdsa => {
                info.parameters_oid.map_or(OctetForm::Choice, OctetForm::Curve)
            }
        };
        Some(FileForm { oid: info.oid?, parameters: info.parameters_oid, octet_form })
    }
}

fn private(engine: &Engine, algorithm: Algorithm, key: &Private) -> Result<PrivateKey, Error> {
    let refused = |reason: String| Error::KeyFile(reason);
    let form = FileForm::of(algorithm)
        .ok_or_else(|| refused(format!("{algorithm} keys have no file format")))?;
    let forms = forms_of(algorithm, form.octet_form, &key.octets)
        .map_err(|reason| refused(format!("the file {reason}")))?;
    let made = PrivateKey::import(engine, algorithm, &forms)?;
    // Version 2 of PKCS#8 can contain the public key after the octets, which may contain it too.
    made.check_public(key.public.as_deref())?;
    Ok(made)
}

/// Parses the formats of a private key inside its OCTET STRING: those of the standard, and for
/// ML-KEM and ML-DSA also those that OpenSSL reads, distinguished by their lengths.
///
/// # Errors
/// Any other structure, including a format of another length. The reason depends on the length
/// alone.
fn forms_of(
    algorithm: Algorithm,
    octet_form: OctetForm,
    octets: &[u8],
) -> Result<Forms<'_>, Reason> {
    let info = algorithm.info();
    let read = Forms::from_octets(octet_form, octets);
    // The CHOICE of forms is RFC 9881's and RFC 9935's; RFC 8410 has an OCTET STRING in its place.
    let has_choice = matches!(info.family, Family::MlKem | Family::MlDsa);
    let fits = |forms: &Forms<'_>| match octet_form {
        OctetForm::Choice | OctetForm::Curve(_) => {
            let seed = forms.seed.is_none_or(|seed| has_choice && Some(seed.len()) == info.seed);
            seed && forms.expanded.is_none_or(|expanded| expanded.len() == info.private_key.max())
        }
        OctetForm::Bytes | OctetForm::WithPublic(_) => true,
    };
    match &read {
        Ok(forms) if fits(forms) => return read,
        Err(_) if !matches!(octet_form, OctetForm::Choice) => return read,
        _ => {}
    }
    if has_choice && let Some(forms) = read_foreign(algorithm, octets) {
        return Ok(forms);
    }
    let len = octets.len();
    Err(match octet_form {
        OctetForm::Curve(_) => {
            "holds a private key that is not an ECPrivateKey of its curve (RFC 5915)".to_owned()
        }
        _ if has_choice => format!(
            "holds {len} bytes for an {algorithm} private key, in no form that there is; expected seed, \
             expandedKey or both (RFC 9881, RFC 9935)"
        ),
        _ => format!(
            "holds {len} bytes for an {algorithm} private key; expected an OCTET STRING of {} (RFC 8410)",
            info.private_key.max()
        ),
    })
}

/// A private key of ML-KEM or ML-DSA in a form that no standard has: its seed or its bytes alone,
/// without a structure, or both keys in an OCTET STRING, as Open Quantum Safe's provider wrote
/// them. OpenSSL calls them `bare-seed`, `bare-priv` and `oqskeypair`.
fn read_foreign(algorithm: Algorithm, octets: &[u8]) -> Option<Forms<'_>> {
    let info = algorithm.info();
    if Some(octets.len()) == info.seed {
        return Some(Forms { seed: Some(octets), ..Forms::default() });
    }
    if octets.len() == info.private_key.max() {
        return Some(Forms { expanded: Some(octets), ..Forms::default() });
    }
    let both = Forms::from_octets(OctetForm::WithPublic(info.private_key.max()), octets).ok()?;
    both.public.is_some_and(|public| public.len() == info.public_key.max()).then_some(both)
}

#[cfg(all(test, not(loom)))]
#[allow(clippy::expect_used, clippy::unwrap_used)] // A panic is how a test fails.
mod tests {
    use super::*;
    use crate::entropy::OsEntropy;

    /// A structure with a short or a long length, as DER has it.
    fn tlv(tag: u8, content: &[u8]) -> Vec<u8> {
        let len = content.len();
        let head = match len {
            0..0x80 => vec![tag, len as u8],
            0x80..0x100 => vec![tag, 0x81, len as u8],
            _ => [&[tag, 0x82][..], &(len as u16).to_be_bytes()].concat(),
        };
        [&head, content].concat()
    }

    /// Returns the AlgorithmIdentifier of an algorithm, cut out of an encoded key.
    fn identifier(algorithm: Algorithm) -> Vec<u8> {
        let form = FileForm::of(algorithm).unwrap();
        let file = encode_public(form, &[7; 20], true).unwrap();
        file[2..2 + 2 + usize::from(file[3])].to_vec()
    }

    /// Returns a PKCS#8 structure of these octets, followed by `behind`.
    fn pkcs8(algorithm: Algorithm, version: u8, octets: &[u8], behind: &[u8]) -> Vec<u8> {
        let fields = [&[2, 1, version], &identifier(algorithm)[..], &tlv(4, octets), behind];
        tlv(0x30, &fields.concat())
    }

    fn read(algorithm: Algorithm, der: &[u8]) -> Result<Key, String> {
        let encoded = EncodedKey::from_der(der)?;
        decode(Engine::global().unwrap(), algorithm, &encoded).map_err(|e| e.to_string())
    }

    /// The non-standard forms that OpenSSL reads, and those that it rejects.
    #[test]
    fn forms_of_no_standard_are_read_as_openssl_reads_them() {
        let engine = Engine::global().unwrap();
        for algorithm in [Algorithm::MlKem512, Algorithm::MlKem768, Algorithm::MlDsa44] {
            let seed = vec![9; algorithm.info().seed.unwrap()];
            let make = |seed: &[u8]| {
                let forms = Forms { seed: Some(seed), ..Forms::default() };
                PrivateKey::import(engine, algorithm, &forms).unwrap()
            };
            let (key, other) = (make(&seed), make(&vec![8; seed.len()]));
            let (bytes, public) = (key.bytes(), key.public_bytes());
            let pair = tlv(4, &[bytes, public].concat());
            for octets in [&seed[..], bytes, &pair] {
                let made = read(algorithm, &pkcs8(algorithm, 0, octets, b"")).unwrap();
                assert_eq!(made.private().unwrap().bytes(), bytes, "{algorithm}");
            }
            let apart = tlv(4, &[bytes, other.public_bytes()].concat());
            for octets in [&apart, &pair[1..], &seed[1..], &bytes[1..], &tlv(0x80, &seed[1..])] {
                let refused = read(algorithm, &pkcs8(algorithm, 0, octets, b""));
                assert!(refused.is_err(), "{algorithm}: {} bytes", octets.len());
            }
            // The seed of one and the expanded key of another.
            let both = [tlv(4, &seed), tlv(4, other.bytes())].concat();
            assert!(read(algorithm, &pkcs8(algorithm, 0, &tlv(0x30, &both), b"")).is_err());
        }
        // Of others there are no such forms.
        let file = pkcs8(Algorithm::Ed25519, 0, &[7; 32], b"");
        assert!(read(Algorithm::Ed25519, &file).is_err());
        assert!(
            read(Algorithm::Ed25519, &pkcs8(Algorithm::Ed25519, 0, &tlv(4, &[7; 32]), b"")).is_ok()
        );
    }

    /// RFC 5958, section 2: attributes are a SET OF Attribute, and the public key is optional in
    /// version 2 and belongs into no other.
    #[test]
    fn pkcs8_trailing_fields_follow_rfc_5958() {
        let algorithm = Algorithm::MlDsa44;
        let key = Engine::global().unwrap().signature_from_seed(algorithm, &[9; 32]).unwrap();
        let octets = tlv(0x80, &[9; 32]);
        let public = tlv(0x81, &[&[0], key.public_bytes()].concat());
        let attribute =
            tlv(0x30, &[&b"\x06\x03\x55\x04\x03"[..], &tlv(0x31, b"\x0c\x01x")].concat());
        let attributes = |content: &[u8]| tlv(0xa0, content);
        let two = attributes(&[&attribute[..], &attribute].concat());
        let cases: [(u8, &[u8], bool); 19] = [
            (0, b"", true),
            (1, b"", true),
            (2, b"", false),
            (1, &public, true),
            (0, &public, false),
            (0, &attributes(b""), true),
            (0, &two, true),
            (1, &[&two[..], &public].concat(), true),
            (1, &[&public[..], &two].concat(), false),
            (0, &[&two[..], &two].concat(), false),
            (0, &attributes(b"\x30\x03\x02\x01\x01"), false),
            (0, &attributes(b"\x02\x01\x01"), false),
            (0, &attributes(&attribute[..attribute.len() - 1]), false),
            (0, &attributes(&tlv(0x30, b"\x06\x03\x55\x04\x03")), false),
            (0, &attributes(&tlv(0x30, b"\x06\x03\x55\x04\x03\x30\x00")), false),
            (0, &tlv(0x80, &attribute), false),
            (0, b"\x05\x00", false),
            (0, b"\xa2\x00", false),
            (1, &tlv(0x81, &[&[3], key.public_bytes()].concat()), false),
        ];
        for (at, (version, behind, is_read)) in cases.into_iter().enumerate() {
            let made = read(algorithm, &pkcs8(algorithm, version, &octets, behind));
            assert_eq!(made.is_ok(), is_read, "case {at}: {:?}", made.err());
        }
    }

    #[test]
    fn ber_and_truncated_keys_are_refused_by_name() {
        let algorithm = Algorithm::MlDsa44;
        let file = pkcs8(algorithm, 0, &tlv(0x80, &[9; 32]), b"");
        let says = |der: &[u8]| read(algorithm, der).err().unwrap();
        assert!(says(&[&file[..], &[0]].concat()).contains("bytes behind the private key"));
        // A length in more bytes than it takes, at the whole and at a field, and one that is not
        // said.
        let longer = [&[0x30, 0x81, file[1]], &file[2..]].concat();
        let inner = [&file[2..5], &[0x30, 0x81, file[6]], &file[7..]].concat();
        let open = [&[0x30, 0x80], &file[2..], &[0, 0]].concat();
        for ber in [longer, tlv(0x30, &inner), open] {
            assert!(says(&ber).contains("is BER"), "{}", says(&ber));
        }
        for len in 3..file.len() {
            let text = says(&file[..len]);
            assert!(text.contains("cut short") || text.contains("holds no key"), "{len}: {text}");
        }
    }

    /// An ECPrivateKey that stands alone (RFC 5915, section 3), with these parameters.
    fn sec1(parameters: &[u8], key: &PrivateKey, public: &[u8]) -> Vec<u8> {
        let public = tlv(0xa1, &tlv(3, &[&[0], public].concat()));
        let fields = [&[2, 1, 1], &tlv(4, key.bytes())[..], &tlv(0xa0, parameters), &public];
        tlv(0x30, &fields.concat())
    }

    /// The public key of an ECPrivateKey may be a compressed or hybrid point, as `openssl ec
    /// -conv_form` writes it. It has to be the private key's all the same.
    #[test]
    fn public_keys_of_ec_private_keys_are_points_in_any_form() {
        let engine = Engine::global().unwrap();
        let curves = [Algorithm::EcdsaP256, Algorithm::EcdsaP384, Algorithm::EcdsaP521];
        for algorithm in curves.into_iter().chain([Algorithm::EcdhP256]) {
            let make = |()| PrivateKey::generate(engine, algorithm, &OsEntropy).unwrap();
            let [own, other] = [(); 2].map(make);
            let (point, form) = (own.public_bytes(), FileForm::of(algorithm).unwrap());
            let parity = point[point.len() - 1] & 1;
            let [x, others] = [point, other.public_bytes()].map(|it| &it[1..=it.len() / 2]);
            let named = identifier(algorithm)[2 + 9..].to_vec();
            let cases = [
                (point.to_vec(), true),
                ([&[2 | parity], x].concat(), true),
                ([&[6 | parity], &point[1..]].concat(), true),
                ([&[3 - parity], x].concat(), false),
                ([&[7 - parity], &point[1..]].concat(), false),
                ([&[2 | parity], others].concat(), false),
                ([&[6 | parity], &other.public_bytes()[1..]].concat(), false),
                ([&[2 | parity], &point[1..]].concat(), false),
                ([&[6 | parity], x].concat(), false),
                ([&[4], x].concat(), false),
                ([&[5], &point[1..]].concat(), false),
                (vec![2 | parity], false),
                (vec![0], false),
                (vec![], false),
            ];
            for (public, is_own) in cases {
                let forms = Forms { public: Some(&public), ..own.forms() };
                let octets = forms.to_octets(form.octet_form).unwrap();
                let mut files = vec![pkcs8(algorithm, 0, &octets, b"")];
                if algorithm.info().kind == Kind::Signature {
                    files.push(sec1(&named, &own, &public));
                }
                for file in files {
                    let made = read(algorithm, &file);
                    assert_eq!(made.is_ok(), is_own, "{algorithm} {public:02x?}");
                    if let Ok(made) = made {
                        assert_eq!(made.public_bytes(), point, "{algorithm}");
                    } else {
                        assert!(made.err().unwrap().contains("belong"), "{algorithm}");
                    }
                }
            }
        }
    }

    /// Keys with explicit curve parameters are refused, also those of a named curve (RFC 5480,
    /// section 2.1.1), and the error says so.
    #[test]
    fn explicit_curve_parameters_are_refused() {
        let engine = Engine::global().unwrap();
        let explicit = tlv(0x30, &[2, 1, 1]);
        for algorithm in [Algorithm::EcdsaP256, Algorithm::EcdsaP384, Algorithm::EcdsaP521] {
            let key = PrivateKey::generate(engine, algorithm, &OsEntropy).unwrap();
            let alone = sec1(&explicit, &key, key.public_bytes());
            let octets =
                key.forms().to_octets(FileForm::of(algorithm).unwrap().octet_form).unwrap();
            let ec_public_key = &identifier(algorithm)[2..2 + 9];
            let outer = tlv(0x30, &[ec_public_key, &explicit].concat());
            let pkcs8 = tlv(0x30, &[&[2, 1, 0], &outer[..], &tlv(4, &octets)].concat());
            for file in [alone, pkcs8] {
                let encoded = EncodedKey::from_der(&file).unwrap();
                let refused = of_identifier(encoded.identifier(), Kind::Signature).unwrap_err();
                assert!(refused.contains("without the name of its curve"), "{refused}");
            }
        }
    }

    /// Error messages never quote the private key: for octets of one length there is a single
    /// message, and a damaged structure has one of a few.
    #[test]
    fn error_messages_never_quote_private_keys() {
        let lens = [1, 2, 16, 31, 33, 34, 40, 47, 50, 65, 67, 100, 130, 140, 1000, 1633, 2561];
        for algorithm in Algorithm::all() {
            let Some(FileForm { octet_form, .. }) = FileForm::of(algorithm) else { continue };
            for len in lens.into_iter().filter(|_| octet_form != OctetForm::Bytes) {
                let filled = |head: &[u8]| {
                    let mut octets = vec![42; len];
                    octets[..head.len().min(len)].copy_from_slice(&head[..head.len().min(len)]);
                    octets
                };
                let short = (len as u8).wrapping_sub(2);
                let texts: std::collections::BTreeSet<_> = [
                    &[][..],
                    &[0; 9],
                    &[4, short],
                    &[0x80, short],
                    &[0x30, short],
                    &[0x30, short, 4, 5],
                    &[0x30, short, 4, 5, 1, 2, 3, 4, 5, 4, short.wrapping_sub(9)],
                    &[0x30, short, 2, 1, 1, 4, 5],
                    &[0x30, short, 2, 1, 42],
                    &[0x47, short],
                ]
                .into_iter()
                .filter_map(|head| read(algorithm, &pkcs8(algorithm, 0, &filled(head), b"")).err())
                .collect();
                let is_one = texts.len() == 1 || matches!(octet_form, OctetForm::WithPublic(_));
                assert!(is_one, "{algorithm}, {len} bytes: {texts:#?}");
                let text = texts.into_iter().collect::<String>();
                assert!(!text.contains("42") && !text.contains('['), "{text}");
            }
        }
        let files = [
            pkcs8(Algorithm::MlDsa44, 0, &tlv(0x80, &[9; 32]), b""),
            tlv(0x30, &[&[2, 1, 1][..], &tlv(4, &[9; 32])].concat()),
        ];
        let mut texts = std::collections::BTreeSet::new();
        for file in &files {
            for (at, byte) in
                (0..file.len()).flat_map(|at| [0, 1, 2, 4, 42, 0x80, 0xff].map(|b| (at, b)))
            {
                let mut damaged = file.clone();
                damaged[at] = byte;
                texts.extend(EncodedKey::from_der(&damaged).err());
            }
        }
        assert!((3..8).contains(&texts.len()), "{texts:#?}");
    }

    #[test]
    fn every_form_leads_back_to_its_algorithm() {
        for algorithm in Algorithm::all() {
            let Some(form) = FileForm::of(algorithm) else {
                assert!(algorithm.info().oid.is_none(), "{algorithm}");
                continue;
            };
            let parameters = form.parameters.map(str::to_owned);
            let parameters = parameters.map_or(Parameters::Absent, Parameters::Named);
            let identifier = Identifier { oid: form.oid.to_owned(), parameters };
            let found = of_identifier(&identifier, algorithm.info().kind);
            assert_eq!(found, Ok(Some(algorithm)));
        }
    }

    /// Found by fuzzing: a seed in the tag that ML-DSA has for it was taken for an Ed25519 key.
    #[test]
    fn only_algorithms_that_have_a_seed_form_take_one() {
        let engine = Engine::global().unwrap();
        for (algorithm, takes) in [(Algorithm::MlDsa44, true), (Algorithm::Ed25519, false)] {
            let form = FileForm::of(algorithm).unwrap();
            let forms = Forms { seed: Some(&[7; 32]), ..Forms::default() };
            let file = encode_private(form, &forms, true).unwrap();
            let encoded = EncodedKey::from_der(&file).unwrap();
            let key = decode(engine, algorithm, &encoded);
            assert_eq!(key.is_ok(), takes, "{algorithm}");
        }
    }

    /// The combinations of parts of two keys, and whether all parts belong to one key.
    fn mixtures<'a>(own: Forms<'a>, other: Forms<'a>) -> Vec<(Forms<'a>, bool)> {
        let expanded = Forms { seed: None, ..own };
        let apart = |forms| Forms { public: other.public, ..forms };
        let mut came = vec![(expanded, true), (apart(expanded), false)];
        if own.seed.is_some() {
            let seed = Forms { expanded: None, ..own };
            came.extend([(own, true), (seed, true), (apart(own), false), (apart(seed), false)]);
            came.push((Forms { expanded: other.expanded, public: None, ..own }, false));
            came.push((Forms { expanded: other.expanded, ..own }, false));
        }
        came
    }

    /// All entry points apply the same rule: the library functions, and files that contain the
    /// public key next to or within the private one.
    #[test]
    fn halves_of_two_keys_are_refused_by_every_way_in() {
        let engine = Engine::global().unwrap();
        for algorithm in [
            Algorithm::MlKem512,
            Algorithm::X25519MlKem768,
            Algorithm::XWing,
            Algorithm::MlDsa44,
            Algorithm::SlhDsaShake128f,
            Algorithm::Ed25519,
            Algorithm::Falcon512,
            Algorithm::EcdsaP256,
            Algorithm::MlDsa44EcdsaP256Sha256,
            Algorithm::X25519,
            Algorithm::EcdhP256,
        ] {
            let make = |()| PrivateKey::generate(engine, algorithm, &OsEntropy).unwrap();
            let [own, other] = [(); 2].map(make);
            for (at, (forms, is_one)) in
                mixtures(own.forms(), other.forms()).into_iter().enumerate()
            {
                let mut ways = vec![
                    PrivateKey::import(engine, algorithm, &forms).map(drop),
                    PrivateKey::import_untested(engine, algorithm, &forms).map(drop),
                    Key::import(engine, algorithm, &forms).map(drop),
                ];
                let file = FileForm::of(algorithm);
                // Of what has no choice of forms, a file holds the expanded one.
                let file = file.filter(|file| forms.seed.is_none() || has_choice(file, algorithm));
                if let (Some(file), Some(public)) = (file, forms.public) {
                    let octets = forms.to_octets(file.octet_form).unwrap();
                    let within = EncodedKey::from_der(&pkcs8(algorithm, 0, &octets, b"")).unwrap();
                    if matches!(file.octet_form, OctetForm::Curve(_) | OctetForm::WithPublic(_)) {
                        ways.push(decode(engine, algorithm, &within).map(drop));
                    }
                    let of_own = Forms { public: own.forms().public, ..forms };
                    let octets = of_own.to_octets(file.octet_form).unwrap();
                    let beside = tlv(0x81, &[&[0], public].concat());
                    let beside = pkcs8(algorithm, 1, &octets, &beside);
                    let beside = EncodedKey::from_der(&beside).unwrap();
                    ways.push(decode(engine, algorithm, &beside).map(drop));
                }
                for (way, outcome) in ways.into_iter().enumerate() {
                    assert_eq!(outcome.is_ok(), is_one, "{algorithm} {at} {way}: {outcome:?}");
                    let says = |error: Error| error.to_string().contains("belong");
                    assert!(outcome.err().is_none_or(says), "{algorithm} {at} {way}");
                }
            }
        }
    }

    fn has_choice(file: &FileForm, algorithm: Algorithm) -> bool {
        file.octet_form == OctetForm::Choice && algorithm.info().family != Family::Ed25519
    }
}
