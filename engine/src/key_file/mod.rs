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
//! let key = Key::Signing(engine.dsa_generate(Algorithm::MlDsa65, &OsEntropy)?);
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

use crate::dsa::{SigningKey, VerifyKey};
use crate::error::Error;
use crate::exchange::{ExchangePrivateKey, ExchangePublicKey};
use crate::kem::{KemPrivateKey, KemPublicKey};
use crate::route::Engine;
use gabion_scheme::Algorithm;
use gabion_scheme::algorithms::{Family, Kind};

pub use der::{
    Encoded, FileForm, Forms, Identifier, Inside, Parameters, Private, Public, Reason, Shape,
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
            Kind::Signature => Key::Verify(engine.dsa_public(algorithm, bytes)?),
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
    let forms = Forms::from_octets(form.inside, &key.octets)
        .map_err(|reason| refused(format!("the file {reason}")))?;
    // The CHOICE of forms is RFC 9881's and RFC 9935's; RFC 8410 has an OCTET STRING in its place.
    if forms.seed.is_some() && !matches!(algorithm.info().family, Family::MlKem | Family::MlDsa) {
        return Err(refused(format!("{algorithm} private keys have no seed form")));
    }
    let made = of_forms(engine, algorithm, &forms)?;
    let beside = [forms.public, key.public.as_deref()];
    if beside.into_iter().flatten().any(|public| public != made.public_bytes()) {
        let reason = "the public key in the file does not belong to it";
        return Err(crate::error::private_key(algorithm, reason));
    }
    Ok(made)
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
            engine.dsa_from_seed(algorithm, seed).map(Key::Signing)
        }
        (Kind::Signature, Some(seed), Some(expanded)) => {
            engine.dsa_private_both(algorithm, seed, expanded).map(Key::Signing)
        }
        (Kind::Signature, None, _) => engine.dsa_private(algorithm, expanded).map(Key::Signing),
        _ => engine.exchange_private(algorithm, expanded).map(Key::ExchangePrivate),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::entropy::OsEntropy;

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
        let keys = [(); 2].map(|()| engine.dsa_generate(algorithm, &OsEntropy).unwrap());
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
