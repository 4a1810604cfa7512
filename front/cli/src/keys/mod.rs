//! Key files: what `openssl` 3.5 reads and writes, as keys of the engine.
//!
//! [`der`] knows the structures, this module the algorithms, [`passin`] where passwords come from.

pub mod der;
pub mod passin;

use std::path::{Path, PathBuf};

use clap::Args;
use gabion_engine::{
    Algorithm, Engine, Family, KemPrivateKey, KemPublicKey, Kind, OLD_NAMES, OldName, OsEntropy,
    SigningKey, VerifyKey,
};

use crate::failure::Failure;
use crate::files;
use der::{Encoded, Forms, Inside, Private, Public};
use passin::PassIn;

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
}

/// `--key` and `--passin`: the same for every command that takes a key.
#[derive(Args)]
pub struct KeyArgs {
    /// Key file, PEM or DER; `-` is standard input
    #[arg(long, value_name = "KEY")]
    pub key: PathBuf,
    /// Password of an encrypted key: pass:TEXT, env:NAME, file:PATH, fd:NUMBER or stdin
    #[arg(long, value_name = "SOURCE")]
    pub passin: Option<PassIn>,
}

/// The engine of this process.
///
/// # Errors
/// [`Failure::NotReady`] when `GABION_BACKEND` names a backend that this machine lacks.
pub fn engine() -> Result<&'static Engine, Failure> {
    Engine::global().map_err(Failure::from)
}

/// Finds an algorithm by any of its names; an old name is accepted with a note on stderr.
///
/// # Errors
/// [`Failure::Usage`] for a name that is in no row of the table.
pub fn algorithm(name: &str) -> Result<Algorithm, Failure> {
    match Algorithm::lookup(name) {
        Some((algorithm, None)) => Ok(algorithm),
        Some((algorithm, Some(old))) => {
            eprintln!(
                "note: {old} is the old name; the standard {algorithm} is used; keys and \
                 signatures of the draft are not compatible"
            );
            Ok(algorithm)
        }
        None => {
            let known = names(|_| true);
            Err(Failure::Usage(match OldName::lookup(name) {
                Some(OldName { name, successor: None, .. }) => {
                    format!("{name} has no successor; expected one of {known}")
                }
                Some(OldName { name, successor: Some(successor), .. }) => {
                    format!(
                        "{successor}, which followed {name}, is not there; expected one of {known}"
                    )
                }
                None => format!("unknown algorithm `{name}`; expected one of {known}"),
            }))
        }
    }
}

/// The names of the algorithms that `wanted` picks, as a list for a sentence.
pub fn names(wanted: impl Fn(Kind) -> bool) -> String {
    let all: Vec<&str> = Algorithm::all()
        .filter(|algorithm| wanted(algorithm.info().kind))
        .map(Algorithm::name)
        .collect();
    match all.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => all.join(", "),
    }
}

/// The file that holds the key and what to call it in messages.
fn name_of(path: &Path) -> String {
    files::shown(path, "standard input")
}

impl KeyArgs {
    /// Reads a key of the wanted kind; `what` is what it is wanted for.
    ///
    /// # Errors
    /// [`Failure::Usage`] when the file cannot be read or holds no such key, or one that fails a
    /// check.
    fn load(&self, engine: &Engine, what: &str, kind: Kind) -> Result<Key, Failure> {
        let passin_is_stdin = self.passin.as_ref().is_some_and(PassIn::is_stdin);
        files::one_standard_input(&[
            ("--key", files::is_standard(&self.key)),
            ("--passin", passin_is_stdin),
        ])?;
        let file = name_of(&self.key);
        let bytes = files::read(&self.key, files::SMALL_MAX)?;
        let password = || match &self.passin {
            Some(source) => source.password(),
            None => Err(Failure::Usage(format!(
                "{file} is encrypted; give its password with --passin (pass:TEXT, env:NAME, \
                 file:PATH, fd:NUMBER or stdin)"
            ))),
        };
        let encoded = der::decode(&bytes, password)?
            .map_err(|reason| Failure::Usage(format!("{file} {reason}")))?;
        let of_file = |failure| match failure {
            Failure::Usage(text) => Failure::Usage(format!("{file}: {text}")),
            other => other,
        };
        let (oid, has_parameters) = match &encoded {
            Encoded::Private(key) => (&key.oid, key.has_parameters),
            Encoded::Public(key) => (&key.oid, key.has_parameters),
        };
        let algorithm = match of_oid(oid) {
            Some(algorithm) if algorithm.info().kind == kind => algorithm,
            Some(other) => return Err(self.wrong(&format!("an {other} key"), what, kind)),
            None => return Err(self.wrong(&foreign(oid), what, kind)),
        };
        if has_parameters {
            return Err(Failure::Usage(format!(
                "{file}: parameters stand beside the {algorithm} identifier; the standard has \
                 none there"
            )));
        }
        match encoded {
            Encoded::Private(key) => private(engine, algorithm, &key).map_err(of_file),
            Encoded::Public(encoded) => {
                let key = public(engine, algorithm, &encoded).map_err(of_file)?;
                if encoded.from_certificate {
                    eprintln!(
                        "note: only the public key is taken from the certificate {file}; its \
                         signature and validity are not checked"
                    );
                }
                Ok(key)
            }
        }
    }

    /// The key, for verifying.
    ///
    /// # Errors
    /// As [`Self::load`], and a key that does not verify.
    pub fn verify_key(&self, engine: &Engine) -> Result<VerifyKey, Failure> {
        match self.load(engine, "verifying", Kind::Signature)? {
            Key::Verify(key) => Ok(key),
            Key::Signing(key) => Ok(key.public()),
            other => Err(self.wrong(
                &format!("an {} key", other.algorithm()),
                "verifying",
                Kind::Signature,
            )),
        }
    }

    /// The key, for signing.
    ///
    /// # Errors
    /// As [`Self::load`], and a key that does not sign.
    pub fn signing_key(&self, engine: &Engine) -> Result<SigningKey, Failure> {
        match self.load(engine, "signing", Kind::Signature)? {
            Key::Signing(key) => Ok(key),
            Key::Verify(key) => Err(self.not_private(key.algorithm(), "signing")),
            other => Err(self.wrong(
                &format!("an {} key", other.algorithm()),
                "signing",
                Kind::Signature,
            )),
        }
    }

    /// The key, for encapsulating.
    ///
    /// # Errors
    /// As [`Self::load`], and a key that does not encapsulate.
    pub fn encaps_key(&self, engine: &Engine) -> Result<KemPublicKey, Failure> {
        match self.load(engine, "encapsulating", Kind::Kem)? {
            Key::KemPublic(key) => Ok(key),
            Key::KemPrivate(key) => Ok(key.public()),
            other => Err(self.wrong(
                &format!("an {} key", other.algorithm()),
                "encapsulating",
                Kind::Kem,
            )),
        }
    }

    /// The key, for decapsulating.
    ///
    /// # Errors
    /// As [`Self::load`], and a key that does not decapsulate.
    pub fn decaps_key(&self, engine: &Engine) -> Result<KemPrivateKey, Failure> {
        match self.load(engine, "decapsulating", Kind::Kem)? {
            Key::KemPrivate(key) => Ok(key),
            Key::KemPublic(key) => Err(self.not_private(key.algorithm(), "decapsulating")),
            other => Err(self.wrong(
                &format!("an {} key", other.algorithm()),
                "decapsulating",
                Kind::Kem,
            )),
        }
    }

    /// `found` is a key of another kind, with its article.
    fn wrong(&self, found: &str, what: &str, kind: Kind) -> Failure {
        let (file, needed) = (name_of(&self.key), names(|of| of == kind));
        Failure::Usage(format!("{file} holds {found}; {what} needs {needed}"))
    }

    fn not_private(&self, algorithm: Algorithm, what: &str) -> Failure {
        Failure::Usage(format!(
            "{} holds an {algorithm} public key; {what} needs the private key",
            name_of(&self.key)
        ))
    }
}

impl Key {
    /// The parameter set.
    pub fn algorithm(&self) -> Algorithm {
        match self {
            Key::KemPrivate(key) => key.algorithm(),
            Key::KemPublic(key) => key.algorithm(),
            Key::Signing(key) => key.algorithm(),
            Key::Verify(key) => key.algorithm(),
        }
    }

    /// The encoded public key.
    pub fn public_bytes(&self) -> Vec<u8> {
        match self {
            Key::KemPrivate(key) => key.public().bytes().to_vec(),
            Key::KemPublic(key) => key.bytes().to_vec(),
            Key::Signing(key) => key.public().bytes().to_vec(),
            Key::Verify(key) => key.bytes().to_vec(),
        }
    }

    /// The forms of the private key; none where it is a public key.
    pub fn forms(&self) -> Option<Forms<'_>> {
        match self {
            Key::KemPrivate(key) => Some(Forms { seed: key.seed(), expanded: Some(key.bytes()) }),
            // RFC 8410, section 7: there is one form, an OCTET STRING that holds the seed.
            Key::Signing(key) if key.algorithm().info().family == Family::Ed25519 => {
                Some(Forms { seed: None, expanded: Some(key.bytes()) })
            }
            Key::Signing(key) => Some(Forms { seed: key.seed(), expanded: Some(key.bytes()) }),
            Key::KemPublic(_) | Key::Verify(_) => None,
        }
    }
}

/// The algorithm of an object identifier; only identifiers count here, so that a name can't come in
/// by a file.
fn of_oid(oid: &str) -> Option<Algorithm> {
    Algorithm::all().find(|algorithm| {
        let info = algorithm.info();
        info.oid == Some(oid) && info.parameters_oid.is_none()
    })
}

/// The object identifier that key files of an algorithm have.
///
/// # Errors
/// [`Failure::Usage`] for an algorithm whose keys have no file format here.
pub fn file_oid(algorithm: Algorithm) -> Result<&'static str, Failure> {
    let info = algorithm.info();
    match (info.family, info.oid) {
        (Family::MlKem | Family::MlDsa | Family::SlhDsa | Family::Ed25519, Some(oid)) => Ok(oid),
        _ => Err(Failure::Usage(format!("there is no file format for {algorithm} keys here"))),
    }
}

/// A key of an algorithm that is not ours, with its article.
fn foreign(oid: &str) -> String {
    match foreign_name(oid) {
        Some(name) if name == "DSA" || OldName::lookup(name).is_some() => {
            format!("a {name} key ({oid})")
        }
        Some(name @ "HashML-DSA") => {
            format!("a {name} key ({oid}; use a plain ML-DSA key with --prehash)")
        }
        Some(name @ "HashSLH-DSA") => {
            format!("a {name} key ({oid}; use a plain SLH-DSA key with --prehash)")
        }
        Some(name) => format!("an {name} key ({oid})"),
        None => format!("a key of an unknown algorithm ({oid})"),
    }
}

/// Algorithms that a user may have keys of and that are not ours, by object identifier.
fn foreign_name(oid: &str) -> Option<&'static str> {
    const SIGS: &str = "2.16.840.1.101.3.4.3.";
    if let Some(last) = oid.strip_prefix(SIGS).and_then(|last| last.parse::<u32>().ok()) {
        return match last {
            32..=34 => Some("HashML-DSA"),
            35..=46 => Some("HashSLH-DSA"),
            _ => None,
        };
    }
    Some(match oid {
        "1.2.840.113549.1.1.1" => "RSA",
        "1.2.840.113549.1.1.10" => "RSA-PSS",
        "1.2.840.10045.2.1" => "EC",
        "1.2.840.10040.4.1" => "DSA",
        "1.3.101.110" => "X25519",
        "1.3.101.111" => "X448",
        "1.3.101.112" => "Ed25519",
        "1.3.101.113" => "Ed448",
        "1.2.840.113549.1.9.16.3.17" => "HSS/LMS",
        _ => return OLD_NAMES.iter().find(|old| old.oid == Some(oid)).map(|old| old.name),
    })
}

/// What stands inside the OCTET STRING of an algorithm's private keys.
pub fn inside(algorithm: Algorithm) -> Inside {
    match algorithm.info().family {
        Family::SlhDsa => Inside::Bytes,
        _ => Inside::Choice,
    }
}

fn private(engine: &Engine, algorithm: Algorithm, key: &Private) -> Result<Key, Failure> {
    let forms = Forms::from_octets(inside(algorithm), &key.octets)
        .map_err(|reason| Failure::Usage(format!("the file {reason}")))?;
    let made = match (algorithm.info().kind, forms.seed, forms.expanded) {
        (Kind::Kem, Some(seed), None) => engine.kem_from_seed(algorithm, seed).map(Key::KemPrivate),
        (Kind::Kem, Some(seed), Some(expanded)) => {
            engine.kem_private_both(algorithm, seed, expanded).map(Key::KemPrivate)
        }
        (Kind::Kem, None, expanded) => {
            let key = engine.kem_private(algorithm, expanded.unwrap_or_default())?;
            agrees_with_itself(engine, &key)?;
            Ok(Key::KemPrivate(key))
        }
        (_, Some(seed), None) => engine.dsa_from_seed(algorithm, seed).map(Key::Signing),
        (_, Some(seed), Some(expanded)) => {
            engine.dsa_private_both(algorithm, seed, expanded).map(Key::Signing)
        }
        (_, None, expanded) => {
            engine.dsa_private(algorithm, expanded.unwrap_or_default()).map(Key::Signing)
        }
    }?;
    match &key.public {
        Some(public) if *public != made.public_bytes() => Err(Failure::Usage(
            "the public key beside the private one does not belong to it".to_owned(),
        )),
        _ => Ok(made),
    }
}

/// Encapsulates to the public part and decapsulates with the private one.
///
/// The checks of FIPS 203, section 7.3 don't see a secret vector that belongs to another public
/// key (RFC 9935, appendix C, has such a key); nobody could ever agree on a secret with it.
fn agrees_with_itself(engine: &Engine, key: &KemPrivateKey) -> Result<(), Failure> {
    let (ciphertext, sent) = engine.encaps(&key.public(), &OsEntropy)?;
    if engine.decaps(key, &ciphertext)? == sent {
        return Ok(());
    }
    Err(Failure::Usage(format!(
        "invalid {} private key: its private and public parts do not belong together",
        key.algorithm()
    )))
}

fn public(engine: &Engine, algorithm: Algorithm, key: &Public) -> Result<Key, Failure> {
    Ok(match algorithm.info().kind {
        Kind::Kem => Key::KemPublic(engine.kem_public(algorithm, &key.bytes)?),
        _ => Key::Verify(engine.dsa_public(algorithm, &key.bytes)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_names_are_accepted_and_unknown_ones_refused_with_the_list() {
        assert_eq!(algorithm("dilithium_level3").unwrap(), Algorithm::MlDsa65);
        assert_eq!(algorithm("mlkem768").unwrap(), Algorithm::MlKem768);
        let Err(Failure::Usage(text)) = algorithm("ML-DSA-66") else { panic!("accepted") };
        assert!(text.contains("ML-KEM-512") && text.contains("ML-DSA-87"), "{text}");
        let Err(Failure::Usage(text)) = algorithm("Kyber_90s_level1") else { panic!("accepted") };
        assert!(text.starts_with("KYBER_90S_LEVEL1 has no successor"), "{text}");
    }

    #[test]
    fn foreign_algorithms_are_named() {
        assert_eq!(foreign_name("1.3.101.112"), Some("Ed25519"));
        assert_eq!(foreign_name("2.16.840.1.101.3.4.3.35"), Some("HashSLH-DSA"));
        assert_eq!(foreign_name("1.3.6.1.4.1.2.267.7.6.5"), Some("DILITHIUM_LEVEL3"));
        assert_eq!(foreign_name("1.2.3"), None);
        assert_eq!(foreign("1.2.840.113549.1.1.1"), "an RSA key (1.2.840.113549.1.1.1)");
        assert_eq!(foreign("1.2.840.10040.4.1"), "a DSA key (1.2.840.10040.4.1)");
        assert_eq!(foreign("1.2.3"), "a key of an unknown algorithm (1.2.3)");
    }

    #[test]
    fn lists_read_as_a_sentence() {
        let text = names(|kind| kind == Kind::Kem);
        assert!(text.starts_with("ML-KEM-512, ML-KEM-768, ML-KEM-1024, "), "{text}");
        assert!(text.ends_with(" or X-Wing") && !text.contains("ML-DSA"), "{text}");
    }
}
