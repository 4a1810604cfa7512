//! Reads the key files of `openssl` 3.5 and converts them to keys of the engine.
//!
//! [`gabion_engine::key_file`] knows the structures and algorithms, [`der`] the encodings around
//! them, and [`passin`] the sources of passwords. This module checks that a file holds the key that
//! a command needs.

pub mod der;
pub mod passin;

use std::path::{Path, PathBuf};

use clap::Args;
use gabion_engine::key_file;
use gabion_engine::keys::{Forms, Key, PrivateKey, PublicKey};
use gabion_engine::{
    Algorithm, Engine, ExchangePrivateKey, ExchangePublicKey, Family, KemPrivateKey, KemPublicKey,
    Kind, OLD_NAMES, OldName, SigningKey, UnknownAlgorithm, VerifyKey,
};

use gabion_state::Sets;

pub use gabion_engine::key_file::of_identifier;

use crate::failure::Failure;
use crate::files;
use der::{EncodedKey, FileForm, Half};
use passin::PassIn;

/// The options `--key`, `--algorithm` and `--passin` of all commands that take a key.
#[derive(Args)]
pub struct KeyArgs {
    /// Key file, PEM or DER, or raw bytes with --algorithm; `-` is standard input
    #[arg(long, value_name = "KEY")]
    pub key: PathBuf,
    /// Algorithm of a raw key file, which does not name it
    #[arg(long, value_name = "ALG")]
    pub algorithm: Option<String>,
    /// Password of an encrypted key: pass:TEXT, env:NAME, file:PATH, fd:NUMBER or stdin
    #[arg(long, value_name = "SOURCE")]
    pub passin: Option<PassIn>,
    /// The default algorithm of raw keys, for commands that support only one.
    #[arg(skip)]
    pub raw: Option<Algorithm>,
}

/// Returns the engine of this process.
///
/// # Errors
/// [`Failure::NotReady`] if `GABION_BACKEND` names a backend that this machine lacks.
pub fn engine() -> Result<&'static Engine, Failure> {
    Engine::global().map_err(Failure::from)
}

/// Finds an algorithm by any of its names. An old name is accepted with a note on stderr.
///
/// # Errors
/// [`Failure::Usage`] for an unknown name.
pub fn algorithm(name: &str) -> Result<Algorithm, Failure> {
    match Algorithm::lookup(name) {
        Some((algorithm, None)) => Ok(algorithm),
        Some((algorithm, Some(old))) => {
            let standard = if algorithm.info().draft { "" } else { "the standard " };
            eprintln!(
                "note: {old} is the old name; {standard}{algorithm} is used; keys and signatures of \
                 the draft are not compatible"
            );
            Ok(algorithm)
        }
        None => Err(Failure::Usage(match OldName::lookup(name) {
            Some(OldName { name, successor: None, .. }) => {
                format!("{name} has no successor; `gabion algorithms` lists all algorithms")
            }
            Some(OldName { name, successor: Some(successor), .. }) => format!(
                "{successor}, the successor of {name}, is not available; `gabion algorithms` lists \
                 the available algorithms"
            ),
            None => match similar(name).as_slice() {
                [] => UnknownAlgorithm(name.to_owned()).to_string(),
                [close] => format!("unknown algorithm `{name}`; is {close} meant?"),
                close => {
                    let close: Vec<&str> = close.iter().map(|algorithm| algorithm.name()).collect();
                    format!("unknown algorithm `{name}`; there are {}", close.join(", "))
                }
            },
        })),
    }
}

/// Rejects stateful algorithms, which have their own commands.
///
/// # Errors
/// [`Failure::Usage`], naming those commands.
pub fn check_stateless(name: &str) -> Result<(), Failure> {
    let is_hss = |(algorithm, _): (Algorithm, _)| algorithm.info().family == Family::Hss;
    let is_stateful = Algorithm::lookup(name).is_some_and(is_hss)
        || name.eq_ignore_ascii_case("LMS")
        || name.parse::<Sets>().is_ok();
    if is_stateful {
        return Err(Failure::Usage(format!(
            "each signature of a {name} key uses up an index, which must be recorded next to the key; \
             use `gabion hbs keygen` and `gabion hbs sign`"
        )));
    }
    Ok(())
}

/// Returns the algorithms whose name differs from `name` only in case and punctuation or, without
/// such matches, those whose name contains it.
fn similar(name: &str) -> Vec<Algorithm> {
    let plain = |text: &str| -> String {
        text.chars().filter(char::is_ascii_alphanumeric).flat_map(char::to_lowercase).collect()
    };
    let wanted = plain(name);
    let is_same = |algorithm: &Algorithm| {
        algorithm.info().names().any(|known| plain(known) == wanted)
            || plain(algorithm.name()).strip_suffix("draft") == Some(&wanted)
    };
    let same: Vec<Algorithm> = Algorithm::all().filter(is_same).collect();
    if !same.is_empty() || wanted.len() < 3 {
        return same;
    }
    Algorithm::all().filter(|algorithm| plain(algorithm.name()).contains(&wanted)).collect()
}

/// Prints a note to stderr if an algorithm is not standardized yet.
pub fn note_draft(algorithm: Algorithm) {
    let info = algorithm.info();
    if info.draft {
        eprintln!(
            "note: {algorithm} ({}) is not standardized; its keys and signatures may not be compatible with the \
             final standard",
            info.standard
        );
    }
}

/// Finds the algorithm of a raw key. Old names are rejected: draft keys may have the length of
/// standard keys and would be misinterpreted.
fn algorithm_of_raw(name: &str) -> Result<Algorithm, Failure> {
    match Algorithm::lookup(name) {
        Some((algorithm, Some(old))) => Err(Failure::Usage(format!(
            "a raw key of {old} is not a key of {algorithm}, even if it has the same length; use --algorithm {algorithm} if it is one"
        ))),
        _ => algorithm(name),
    }
}

/// Describes the kind of key that a command needs.
fn needed_kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Kem => "the key of a KEM, such as ML-KEM-768",
        Kind::Signature => "the key of a signature algorithm, such as ML-DSA-65",
        Kind::KeyExchange => "the key of a key exchange, such as X25519",
    }
}

/// Describes a key of an algorithm, with an article.
fn with_article(algorithm: Algorithm) -> String {
    format!("an {algorithm} key")
}

/// Returns the name of the key file for messages.
fn name_of(path: &Path) -> String {
    files::shown(path, "standard input")
}

/// Returns the signature verification key in a PEM text, or `None` if it holds no such key.
#[cfg(feature = "kms")]
pub fn verify_key_of_pem(pem: &str) -> Option<VerifyKey> {
    let encoded = der::decode(pem.as_bytes(), Half::Public, || Err(())).ok()?.ok()?;
    let algorithm = of_identifier(encoded.identifier(), Kind::Signature).ok()??;
    match key_file::decode(engine().ok()?, algorithm, &encoded).ok()?.public() {
        PublicKey::Signature(key) => Some(key),
        PublicKey::Kem(_) | PublicKey::Exchange(_) => None,
    }
}

impl KeyArgs {
    /// Returns the files that are read, with the options that name them.
    pub fn inputs(&self) -> Vec<(&'static str, &Path)> {
        let password = self.passin.as_ref().and_then(PassIn::file);
        let key = [("--key", self.key.as_path())];
        key.into_iter().chain(password.map(|path| ("--passin", path))).collect()
    }

    /// Fails if more than one of the key, the password and the other inputs is standard input.
    ///
    /// # Errors
    /// [`Failure::Usage`], naming the options.
    pub fn check_standard_input(&self, others: &[(&'static str, &Path)]) -> Result<(), Failure> {
        let is_passin = self.passin.as_ref().is_some_and(PassIn::is_stdin);
        let mut inputs =
            vec![("--key", files::is_standard_input(&self.key)), ("--passin", is_passin)];
        inputs.extend(others.iter().map(|(name, path)| (*name, files::is_standard_input(path))));
        files::one_standard_input(&inputs)
    }

    /// Reads a key of the required kind for the purpose `what`.
    ///
    /// # Errors
    /// [`Failure::Usage`] if the file cannot be read, holds another kind of key, or its key is
    /// invalid.
    fn load(
        &self,
        engine: &Engine,
        what: &str,
        (kind, half): (Kind, Half),
    ) -> Result<Key, Failure> {
        let claimed = self.algorithm.as_deref().map(algorithm_of_raw).transpose()?;
        self.check_standard_input(&[])?;
        let file = name_of(&self.key);
        let bytes = files::read(&self.key, files::SMALL_MAX)?;
        let is_structure = der::is_structure(&bytes);
        if let Some(claimed) = claimed.or(self.raw).filter(|_| !is_structure) {
            return self.load_raw(engine, &bytes, claimed, what, (kind, half));
        }
        let password = || match &self.passin {
            Some(source) => source.password(),
            None => Err(Failure::Usage(format!(
                "{file} is encrypted; give its password with --passin (pass:TEXT, env:NAME, \
                 file:PATH, fd:NUMBER or stdin)"
            ))),
        };
        let encoded = der::decode(&bytes, half, password)?.map_err(|reason| {
            let raw = if is_structure { "" } else { "; raw bytes need --algorithm" };
            Failure::Usage(format!("{file} {reason}{raw}"))
        })?;
        let of_file = |failure| match failure {
            Failure::Usage(text) => Failure::Usage(format!("{file}: {text}")),
            other => other,
        };
        let identifier = encoded.identifier();
        let algorithm =
            match of_identifier(identifier, kind).map_err(Failure::Usage).map_err(of_file)? {
                Some(algorithm) if algorithm.info().kind == kind => algorithm,
                Some(other) => return Err(self.wrong(&with_article(other), what, kind)),
                None => return Err(self.wrong(&foreign(&identifier.oid), what, kind)),
            };
        if let Some(claimed) = claimed.filter(|claimed| *claimed != algorithm) {
            return Err(Failure::Usage(format!(
                "{file} says itself that it holds an {algorithm} key, and --algorithm {claimed} is something \
                 else; leave --algorithm out, it is for raw bytes"
            )));
        }
        note_draft(algorithm);
        let key = key_file::decode(engine, algorithm, &encoded).map_err(Failure::from);
        let key = key.map_err(of_file)?;
        if matches!(&encoded, EncodedKey::Public(key) if key.from_certificate) {
            eprintln!(
                "note: only the public key is taken from the certificate {file}; its signature \
                 and validity are not checked"
            );
        }
        Ok(key)
    }

    /// Reads a raw key of the algorithm given on the command line.
    fn load_raw(
        &self,
        engine: &Engine,
        bytes: &[u8],
        algorithm: Algorithm,
        what: &str,
        (kind, half): (Kind, Half),
    ) -> Result<Key, Failure> {
        let file = name_of(&self.key);
        let info = algorithm.info();
        if info.kind != kind {
            return Err(self.wrong(&with_article(algorithm), what, kind));
        }
        if self.passin.is_some() {
            return Err(Failure::Usage(format!(
                "{file} is not encrypted, as no raw key is; leave --passin out"
            )));
        }
        // The table has the maximum length; the engine checks the form.
        let varies = info.private_key.varies();
        let len = bytes.len();
        let fits_private =
            len == info.private_key.max() || (varies && len < info.private_key.max());
        // Equal lengths are told apart by what the command needs. Keys that name their own sets
        // vary in length; for HSS and XMSS, only public keys exist here.
        let fits_public = info.public_key.exact().is_none_or(|exact| len == exact);
        let is_private = fits_private && (half == Half::Private || !fits_public);
        if !is_private && (half == Half::Private || !fits_public) {
            let at_most = if varies { "at most " } else { "" };
            let or_private = match half {
                Half::Private if fits_public => {
                    return Err(self.not_private(algorithm, what));
                }
                Half::Private => format!("the private key has {at_most}{}", info.private_key.max()),
                Half::Public => format!(
                    "the public key has {}, the private key {at_most}{}",
                    info.public_key.max(),
                    info.private_key.max()
                ),
            };
            return Err(Failure::Usage(format!(
                "{file} has {len} bytes and is neither PEM nor DER; of {algorithm}, {or_private}"
            )));
        }
        note_draft(algorithm);
        let public = key_file::of_old_form(algorithm, bytes);
        let forms = match is_private {
            true => Forms { expanded: Some(bytes), ..Forms::default() },
            false => Forms { public: Some(&public), ..Forms::default() },
        };
        Key::import(engine, algorithm, &forms).map_err(|error| match Failure::from(error) {
            Failure::Usage(text) => Failure::Usage(format!("{file}: {text}")),
            other => other,
        })
    }

    /// Reads a verification key.
    ///
    /// # Errors
    /// Fails like [`Self::load`], and for a key that cannot verify.
    pub fn verify_key(&self, engine: &Engine) -> Result<VerifyKey, Failure> {
        match self.public(engine, "verifying", Kind::Signature)? {
            PublicKey::Signature(key) => Ok(key),
            other @ (PublicKey::Kem(_) | PublicKey::Exchange(_)) => {
                Err(self.wrong(&with_article(other.algorithm()), "verifying", Kind::Signature))
            }
        }
    }

    /// Reads a signing key.
    ///
    /// # Errors
    /// Fails like [`Self::load`], and for a key that cannot sign.
    pub fn signing_key(&self, engine: &Engine) -> Result<SigningKey, Failure> {
        match self.private(engine, "signing", Kind::Signature)? {
            PrivateKey::Signature(key) => Ok(key),
            other @ (PrivateKey::Kem(_) | PrivateKey::Exchange(_)) => {
                Err(self.wrong(&with_article(other.algorithm()), "signing", Kind::Signature))
            }
        }
    }

    /// Reads an encapsulation key.
    ///
    /// # Errors
    /// Fails like [`Self::load`], and for a key that cannot encapsulate.
    pub fn encaps_key(&self, engine: &Engine) -> Result<KemPublicKey, Failure> {
        match self.public(engine, "encapsulating", Kind::Kem)? {
            PublicKey::Kem(key) => Ok(key),
            other @ (PublicKey::Signature(_) | PublicKey::Exchange(_)) => {
                Err(self.wrong(&with_article(other.algorithm()), "encapsulating", Kind::Kem))
            }
        }
    }

    /// Reads a decapsulation key.
    ///
    /// # Errors
    /// Fails like [`Self::load`], and for a key that cannot decapsulate.
    pub fn decaps_key(&self, engine: &Engine) -> Result<KemPrivateKey, Failure> {
        match self.private(engine, "decapsulating", Kind::Kem)? {
            PrivateKey::Kem(key) => Ok(key),
            other @ (PrivateKey::Signature(_) | PrivateKey::Exchange(_)) => {
                Err(self.wrong(&with_article(other.algorithm()), "decapsulating", Kind::Kem))
            }
        }
    }

    /// Reads the private key of a key exchange.
    ///
    /// # Errors
    /// Fails like [`Self::load`], and for a key that cannot derive a secret.
    pub fn exchange_key(&self, engine: &Engine) -> Result<ExchangePrivateKey, Failure> {
        match self.private(engine, "deriving", Kind::KeyExchange)? {
            PrivateKey::Exchange(key) => Ok(key),
            other @ (PrivateKey::Kem(_) | PrivateKey::Signature(_)) => {
                Err(self.wrong(&with_article(other.algorithm()), "deriving", Kind::KeyExchange))
            }
        }
    }

    /// Reads the peer's public key of a key exchange.
    ///
    /// # Errors
    /// Fails like [`Self::load`].
    pub fn peer_key(&self, engine: &Engine) -> Result<ExchangePublicKey, Failure> {
        match self.public(engine, "deriving", Kind::KeyExchange)? {
            PublicKey::Exchange(key) => Ok(key),
            other @ (PublicKey::Kem(_) | PublicKey::Signature(_)) => {
                Err(self.wrong(&with_article(other.algorithm()), "deriving", Kind::KeyExchange))
            }
        }
    }

    /// Reads a private key for the purpose `what`.
    ///
    /// # Errors
    /// Fails like [`Self::load`], and for a public key.
    pub fn private(&self, engine: &Engine, what: &str, kind: Kind) -> Result<PrivateKey, Failure> {
        match self.load(engine, what, (kind, Half::Private))? {
            Key::Private(key) => Ok(key),
            Key::Public(key) => Err(self.not_private(key.algorithm(), what)),
        }
    }

    /// Reads a public key, or the public half of a private key.
    ///
    /// # Errors
    /// Fails like [`Self::load`].
    pub fn public(&self, engine: &Engine, what: &str, kind: Kind) -> Result<PublicKey, Failure> {
        self.load(engine, what, (kind, Half::Public)).map(|key| key.public())
    }

    /// Returns the failure for a key of the wrong kind; `found` describes it, with an article.
    fn wrong(&self, found: &str, what: &str, kind: Kind) -> Failure {
        let (file, needed) = (name_of(&self.key), needed_kind(kind));
        Failure::Usage(format!("{file} holds {found}; {what} needs {needed}"))
    }

    fn not_private(&self, algorithm: Algorithm, what: &str) -> Failure {
        Failure::Usage(format!(
            "{} holds an {algorithm} public key; {what} needs the private key",
            name_of(&self.key)
        ))
    }
}

/// Returns the file format of an algorithm's keys.
///
/// # Errors
/// [`Failure::Usage`] if the algorithm has only raw keys.
pub fn file_form(algorithm: Algorithm) -> Result<FileForm, Failure> {
    FileForm::of(algorithm).ok_or_else(|| {
        Failure::Usage(format!(
            "{algorithm} keys have no file format, since no standard gives them an object \
             identifier; write their bytes with --format raw, and read those with --algorithm {algorithm}"
        ))
    })
}

/// Describes a key of an unsupported algorithm, with an article.
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

/// Returns the name of an unsupported algorithm that users may have keys of, by object identifier.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_names_are_accepted_and_unknown_ones_refused_with_a_hint() {
        assert_eq!(algorithm("dilithium_level3").unwrap(), Algorithm::MlDsa65);
        assert_eq!(algorithm("mlkem768").unwrap(), Algorithm::MlKem768);
        let refused = |name| match algorithm(name) {
            Err(Failure::Usage(text)) => text,
            _ => panic!("{name} was accepted"),
        };
        for (name, expected) in [
            ("ML-DSA-66", "unknown algorithm `ML-DSA-66`; `gabion algorithms` lists"),
            ("Kyber_90s_level1", "KYBER_90S_LEVEL1 has no successor"),
            ("fn-dsa-512", "unknown algorithm `fn-dsa-512`; is FN-DSA-512-draft meant?"),
            ("ecdsa p256", "unknown algorithm `ecdsa p256`; is ECDSA-P-256 meant?"),
            ("falcon", "unknown algorithm `falcon`; there are Falcon-512, Falcon-1024, Falcon-pad"),
            ("MLDSA87-Ed448-SHAKE256", "`MLDSA87-Ed448-SHAKE256` is not supported, because Ed448"),
        ] {
            let text = refused(name);
            assert!(text.starts_with(expected), "{text}");
        }
    }

    #[test]
    fn an_algorithm_without_a_file_form_says_how_its_keys_are_written() {
        let without: Vec<String> = Algorithm::all()
            .filter_map(|algorithm| file_form(algorithm).err())
            .map(|failure| failure.to_string())
            .collect();
        assert_eq!(without.len(), 10);
        assert!(without.iter().all(|text| text.contains("--format raw")), "{without:?}");
    }

    #[test]
    fn raw_bytes_of_a_draft_are_not_taken_for_those_of_its_successor() {
        assert_eq!(algorithm_of_raw("mlkem768").unwrap(), Algorithm::MlKem768);
        let text = algorithm_of_raw("KYBER768").unwrap_err().to_string();
        assert!(text.contains("KYBER_LEVEL3 is not a key of ML-KEM-768"), "{text}");
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
}
