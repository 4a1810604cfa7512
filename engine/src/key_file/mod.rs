//! Key files: the structures that programs exchange keys in, and the engine's keys in them.
//!
//! ```text
//!   DER --Encoded::from_der--> Encoded --of_identifier--> Algorithm --Key::decode--> Key, checked
//!   Key --forms, FileForm::of--> encode_private, encode_public--> DER or PEM
//! ```
//!
//! The structures of every algorithm: seed, expanded key or both (RFC 9881, RFC 9935), bytes (RFC
//! 9909, composites), ECPrivateKey (RFC 5915), what Open Quantum Safe writes (Falcon). Encryption and
//! reading PEM are the caller's.
//!
//! # Examples
//! ```
//! use gabion_engine::key_file::{Encoded, FileForm, Key, encode_private, of_identifier};
//! use gabion_engine::{Algorithm, Engine, Kind, OsEntropy};
//!
//! let engine = Engine::global()?;
//! let key = Key::Signing(engine.signature_generate(Algorithm::MlDsa65, &OsEntropy)?);
//! let form = FileForm::of(key.algorithm()).ok_or("no file format")?;
//! let der = encode_private(form, &key.forms().ok_or("a public key")?, true)?;
//!
//! let encoded = Encoded::from_der(&der)?;
//! let algorithm = of_identifier(encoded.identifier(), Kind::Signature)?.ok_or("none of ours")?;
//! let again = Key::decode(engine, algorithm, &encoded)?;
//! assert_eq!(again.public_bytes(), key.public_bytes());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod der;

use crate::error::Error;
use crate::keys::exchange::{ExchangePrivateKey, ExchangePublicKey};
use crate::keys::kem::{KemPrivateKey, KemPublicKey};
use crate::keys::signature::{SigningKey, VerifyKey};
use crate::route::Engine;
use gabion_scheme::Algorithm;
use gabion_scheme::algorithms::{Family, Kind};

pub use crate::keys::Forms;
pub use der::{
    Encoded, FileForm, Identifier, Inside, Parameters, Private, Public, Reason, Shape,
    encode_private, encode_public,
};

/// A key out of a file.
pub enum Key {
    /// A decapsulation key.
    KemPrivate(KemPrivateKey),
    /// An encapsulation key.
    KemPublic(KemPublicKey),
    /// A signing key.
    Signing(SigningKey),
    /// A verification key.
    Verify(VerifyKey),
    /// A private key of a key exchange.
    ExchangePrivate(ExchangePrivateKey),
    /// A public key of a key exchange.
    ExchangePublic(ExchangePublicKey),
}

impl Key {
    /// The key of an algorithm that a file's structure carries.
    ///
    /// # Errors
    /// [`Error::KeyFile`] for a structure that is not the algorithm's, and for parts that do not
    /// belong together; [`Error::Input`] for a key that a check refuses.
    pub fn decode(engine: &Engine, algorithm: Algorithm, encoded: &Encoded) -> Result<Key, Error> {
        match encoded {
            Encoded::Private(key) => private(engine, algorithm, key),
            Encoded::Public(key) => Key::from_public_bytes(engine, algorithm, &key.bytes),
        }
    }

    /// The private key of an algorithm from its bytes alone, as the standard's expanded form or the draft has
    /// them: what a file holds that has no structure.
    ///
    /// # Examples
    /// ```
    /// use gabion_engine::key_file::Key;
    /// use gabion_engine::{Algorithm, Engine, OsEntropy};
    ///
    /// let engine = Engine::global()?;
    /// let pair = engine.kem_generate(Algorithm::X25519MlKem768, &OsEntropy)?;
    /// let key = Key::from_private_bytes(engine, pair.algorithm(), pair.bytes())?;
    /// assert_eq!(key.public_bytes(), pair.public_bytes());
    /// # Ok::<(), gabion_engine::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Input`] for bytes that are not such a key.
    pub fn from_private_bytes(
        engine: &Engine,
        algorithm: Algorithm,
        bytes: &[u8],
    ) -> Result<Key, Error> {
        let forms = Forms { expanded: Some(bytes), ..Forms::default() };
        of_forms(engine, algorithm, &forms)
    }

    /// The public key of an algorithm from its bytes alone.
    ///
    /// # Errors
    /// [`Error::Input`] for bytes that are not such a key.
    pub fn from_public_bytes(
        engine: &Engine,
        algorithm: Algorithm,
        bytes: &[u8],
    ) -> Result<Key, Error> {
        Ok(match algorithm.info().kind {
            Kind::Kem => Key::KemPublic(engine.kem_public(algorithm, bytes)?),
            Kind::Signature => Key::Verify(engine.signature_public(algorithm, bytes)?),
            _ => Key::ExchangePublic(engine.exchange_public(algorithm, bytes)?),
        })
    }

    /// The private key as [`Key::from_private_bytes`] takes it; none where it is a public key.
    pub fn private_bytes(&self) -> Option<&[u8]> {
        match self {
            Key::KemPrivate(key) => Some(key.bytes()),
            Key::Signing(key) => Some(key.bytes()),
            Key::ExchangePrivate(key) => Some(key.bytes()),
            Key::KemPublic(_) | Key::Verify(_) | Key::ExchangePublic(_) => None,
        }
    }

    /// The parameter set.
    pub fn algorithm(&self) -> Algorithm {
        match self {
            Key::KemPrivate(key) => key.algorithm(),
            Key::KemPublic(key) => key.algorithm(),
            Key::Signing(key) => key.algorithm(),
            Key::Verify(key) => key.algorithm(),
            Key::ExchangePrivate(key) => key.algorithm(),
            Key::ExchangePublic(key) => key.algorithm(),
        }
    }

    /// The encoded public key.
    pub fn public_bytes(&self) -> &[u8] {
        match self {
            Key::KemPrivate(key) => key.public_bytes(),
            Key::KemPublic(key) => key.bytes(),
            Key::Signing(key) => key.public_bytes(),
            Key::Verify(key) => key.bytes(),
            Key::ExchangePrivate(key) => key.public_bytes(),
            Key::ExchangePublic(key) => key.bytes(),
        }
    }

    /// The forms of the private key; none where it is a public key.
    pub fn forms(&self) -> Option<Forms<'_>> {
        let (seed, bytes) = match self {
            Key::KemPrivate(key) => (key.seed(), key.bytes()),
            // RFC 8410, section 7: there is one form, an OCTET STRING that holds the seed.
            Key::Signing(key) if key.algorithm().info().family == Family::Ed25519 => {
                (None, key.bytes())
            }
            Key::Signing(key) => (key.seed(), key.bytes()),
            Key::ExchangePrivate(key) => (None, key.bytes()),
            Key::KemPublic(_) | Key::Verify(_) | Key::ExchangePublic(_) => return None,
        };
        Some(Forms { seed, expanded: Some(bytes), public: Some(self.public_bytes()) })
    }
}

/// The algorithm of an identifier, of the wanted kind if there is one: a point on P-256 is a key of
/// ECDH and of ECDSA. Only identifiers count here, so that a name can't come in by a file.
///
/// # Errors
/// Parameters that do not belong beside the identifier.
pub fn of_identifier(identifier: &Identifier, kind: Kind) -> Result<Option<Algorithm>, String> {
    let of_oid = || Algorithm::all().filter(|a| a.info().oid == Some(&identifier.oid));
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
        (Some(algorithm), _) => Err(format!(
            "parameters stand beside the {algorithm} identifier; the standard has none there"
        )),
    }
}

impl FileForm {
    /// How key files of an algorithm look; none where no standard gives its keys an object
    /// identifier, as with the hybrids of TLS.
    pub fn of(algorithm: Algorithm) -> Option<FileForm> {
        let info = algorithm.info();
        let inside = match (info.family, info.parameters_oid) {
            (_, Some(curve)) => Inside::Curve(curve),
            (Family::SlhDsa | Family::Composite | Family::Hybrid, None) => Inside::Bytes,
            (Family::FnDsa, None) => Inside::WithPublic(info.private_key),
            _ => Inside::Choice,
        };
        Some(FileForm { oid: info.oid?, parameters: info.parameters_oid, inside })
    }
}

fn private(engine: &Engine, algorithm: Algorithm, key: &Private) -> Result<Key, Error> {
    let refused = |reason: String| Error::KeyFile(reason);
    let form = FileForm::of(algorithm)
        .ok_or_else(|| refused(format!("{algorithm} keys have no file format")))?;
    let forms = forms_of(algorithm, form.inside, &key.octets)
        .map_err(|reason| refused(format!("the file {reason}")))?;
    let made = of_forms(engine, algorithm, &forms)?;
    let beside = [forms.public, key.public.as_deref()];
    if beside.into_iter().flatten().any(|public| public != made.public_bytes()) {
        let reason = "the public key in the file does not belong to it";
        return Err(crate::error::private_key(algorithm, reason));
    }
    Ok(made)
}

/// The forms of a private key that stand inside its OCTET STRING: those of the standard, and of ML-KEM and
/// ML-DSA what OpenSSL reads besides, told apart by their lengths.
///
/// # Errors
/// Any other structure, a form of another length included. What is said depends on the length alone.
fn forms_of(algorithm: Algorithm, inside: Inside, octets: &[u8]) -> Result<Forms<'_>, Reason> {
    let info = algorithm.info();
    let read = Forms::from_octets(inside, octets);
    // The CHOICE of forms is RFC 9881's and RFC 9935's; RFC 8410 has an OCTET STRING in its place.
    let has_choice = matches!(info.family, Family::MlKem | Family::MlDsa);
    let fits = |forms: &Forms<'_>| match inside {
        Inside::Choice | Inside::Curve(_) => {
            let seed = forms.seed.is_none_or(|seed| has_choice && Some(seed.len()) == info.seed);
            seed && forms.expanded.is_none_or(|expanded| expanded.len() == info.private_key)
        }
        Inside::Bytes | Inside::WithPublic(_) => true,
    };
    match &read {
        Ok(forms) if fits(forms) => return read,
        Err(_) if !matches!(inside, Inside::Choice) => return read,
        _ => {}
    }
    if has_choice && let Some(forms) = read_foreign(algorithm, octets) {
        return Ok(forms);
    }
    let len = octets.len();
    Err(match inside {
        Inside::Curve(_) => {
            "holds a private key that is no ECPrivateKey of its curve (RFC 5915)".to_owned()
        }
        _ if has_choice => format!(
            "holds {len} bytes for an {algorithm} private key, in no form that there is; expected seed, \
             expandedKey or both (RFC 9881, RFC 9935)"
        ),
        _ => format!(
            "holds {len} bytes for an {algorithm} private key; expected an OCTET STRING of {} (RFC 8410)",
            info.private_key
        ),
    })
}

/// A private key of ML-KEM or ML-DSA in a form that no standard has: its seed or its bytes alone, without a
/// structure, or both keys in an OCTET STRING, as Open Quantum Safe's provider wrote them. OpenSSL calls
/// them `bare-seed`, `bare-priv` and `oqskeypair`.
fn read_foreign(algorithm: Algorithm, octets: &[u8]) -> Option<Forms<'_>> {
    let info = algorithm.info();
    if Some(octets.len()) == info.seed {
        return Some(Forms { seed: Some(octets), ..Forms::default() });
    }
    if octets.len() == info.private_key {
        return Some(Forms { expanded: Some(octets), ..Forms::default() });
    }
    let both = Forms::from_octets(Inside::WithPublic(info.private_key), octets).ok()?;
    both.public.is_some_and(|public| public.len() == info.public_key).then_some(both)
}

/// The private key of what a file holds, the public key beside it left aside.
fn of_forms(engine: &Engine, algorithm: Algorithm, forms: &Forms<'_>) -> Result<Key, Error> {
    let expanded = forms.expanded.unwrap_or_default();
    match (algorithm.info().kind, forms.seed, forms.expanded) {
        (Kind::Kem, Some(seed), None) => engine.kem_from_seed(algorithm, seed).map(Key::KemPrivate),
        (Kind::Kem, Some(seed), Some(expanded)) => {
            engine.kem_private_both(algorithm, seed, expanded).map(Key::KemPrivate)
        }
        (Kind::Kem, None, _) => engine.kem_private(algorithm, expanded).map(Key::KemPrivate),
        (Kind::Signature, Some(seed), None) => {
            engine.signature_from_seed(algorithm, seed).map(Key::Signing)
        }
        (Kind::Signature, Some(seed), Some(expanded)) => {
            engine.signature_private_both(algorithm, seed, expanded).map(Key::Signing)
        }
        (Kind::Signature, None, _) => {
            engine.signature_private(algorithm, expanded).map(Key::Signing)
        }
        _ => engine.exchange_private(algorithm, expanded).map(Key::ExchangePrivate),
    }
}

#[cfg(all(test, not(loom)))]
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

    /// The AlgorithmIdentifier of an algorithm, cut out of what is written.
    fn identifier(algorithm: Algorithm) -> Vec<u8> {
        let form = FileForm::of(algorithm).unwrap();
        let file = encode_public(form, &[7; 20], true).unwrap();
        file[2..2 + 2 + usize::from(file[3])].to_vec()
    }

    /// A PKCS#8 structure of these octets, with what stands behind them.
    fn pkcs8(algorithm: Algorithm, version: u8, octets: &[u8], behind: &[u8]) -> Vec<u8> {
        let fields = [&[2, 1, version], &identifier(algorithm)[..], &tlv(4, octets), behind];
        tlv(0x30, &fields.concat())
    }

    fn read(algorithm: Algorithm, der: &[u8]) -> Result<Key, String> {
        let encoded = Encoded::from_der(der)?;
        Key::decode(Engine::global().unwrap(), algorithm, &encoded).map_err(|e| e.to_string())
    }

    /// What OpenSSL reads besides the forms of the standard, and what it does not.
    #[test]
    fn forms_of_no_standard_are_read_as_openssl_reads_them() {
        let engine = Engine::global().unwrap();
        for algorithm in [Algorithm::MlKem512, Algorithm::MlKem768, Algorithm::MlDsa44] {
            let seed = vec![9; algorithm.info().seed.unwrap()];
            let make = |seed: &[u8]| match algorithm.info().kind {
                Kind::Kem => Key::KemPrivate(engine.kem_from_seed(algorithm, seed).unwrap()),
                _ => Key::Signing(engine.signature_from_seed(algorithm, seed).unwrap()),
            };
            let (key, other) = (make(&seed), make(&vec![8; seed.len()]));
            let (bytes, public) = (key.private_bytes().unwrap(), key.public_bytes());
            let pair = tlv(4, &[bytes, public].concat());
            for octets in [&seed[..], bytes, &pair] {
                let made = read(algorithm, &pkcs8(algorithm, 0, octets, b"")).unwrap();
                assert_eq!(made.private_bytes(), Some(bytes), "{algorithm}");
            }
            let apart = tlv(4, &[bytes, other.public_bytes()].concat());
            for octets in [&apart, &pair[1..], &seed[1..], &bytes[1..], &tlv(0x80, &seed[1..])] {
                let refused = read(algorithm, &pkcs8(algorithm, 0, octets, b""));
                assert!(refused.is_err(), "{algorithm}: {} bytes", octets.len());
            }
            // The seed of one and the expanded key of another.
            let both = [tlv(4, &seed), tlv(4, other.private_bytes().unwrap())].concat();
            assert!(read(algorithm, &pkcs8(algorithm, 0, &tlv(0x30, &both), b"")).is_err());
        }
        // Of others there are no such forms.
        let file = pkcs8(Algorithm::Ed25519, 0, &[7; 32], b"");
        assert!(read(Algorithm::Ed25519, &file).is_err());
        assert!(
            read(Algorithm::Ed25519, &pkcs8(Algorithm::Ed25519, 0, &tlv(4, &[7; 32]), b"")).is_ok()
        );
    }

    /// RFC 5958, section 2: attributes are a SET OF Attribute, and the public key is optional in version 2
    /// and belongs into no other.
    #[test]
    fn what_stands_behind_the_private_key_is_what_the_standard_has() {
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
    fn what_openssl_reads_and_we_do_not_is_named() {
        let algorithm = Algorithm::MlDsa44;
        let file = pkcs8(algorithm, 0, &tlv(0x80, &[9; 32]), b"");
        let says = |der: &[u8]| read(algorithm, der).err().unwrap();
        assert!(says(&[&file[..], &[0]].concat()).contains("bytes behind the private key"));
        // A length in more bytes than it takes, at the whole and at a field, and one that is not said.
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

    /// What stands where a private key should is never quoted: for octets of one length there is one text,
    /// whatever they are, and a damaged structure has one of a few.
    #[test]
    fn no_text_says_what_a_private_key_holds() {
        let lens = [1, 2, 16, 31, 33, 34, 40, 47, 50, 65, 67, 100, 130, 140, 1000, 1633, 2561];
        for algorithm in Algorithm::all() {
            let Some(FileForm { inside, .. }) = FileForm::of(algorithm) else { continue };
            for len in lens.into_iter().filter(|_| inside != Inside::Bytes) {
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
                let is_one = texts.len() == 1 || matches!(inside, Inside::WithPublic(_));
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
                texts.extend(Encoded::from_der(&damaged).err());
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
            let encoded = Encoded::from_der(&file).unwrap();
            let key = Key::decode(engine, algorithm, &encoded);
            assert_eq!(key.is_ok(), takes, "{algorithm}");
        }
    }

    #[test]
    fn a_public_key_of_another_private_key_is_refused() {
        let engine = Engine::global().unwrap();
        let algorithm = Algorithm::Falcon512;
        let keys = [(); 2].map(|()| engine.signature_generate(algorithm, &OsEntropy).unwrap());
        let form = FileForm::of(algorithm).unwrap();
        for (public, fits) in [(0, true), (1, false)] {
            let public = Some(keys[public].public_bytes());
            let forms = Forms { expanded: Some(keys[0].bytes()), public, seed: None };
            let file = encode_private(form, &forms, true).unwrap();
            let encoded = Encoded::from_der(&file).unwrap();
            let key = Key::decode(engine, algorithm, &encoded);
            assert_eq!(key.is_ok(), fits);
        }
    }
}
