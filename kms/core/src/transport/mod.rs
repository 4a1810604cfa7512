//! Key transport: keys that are wrapped for a recipient's public key.
//!
//! ```text
//!   key, its place --Recipient--> X-Wing:  enc | ciphertext            HPKE (RFC 9180), base mode, one message
//!                             \--> RSA:     OAEP(AES key) | AES-KWP(key)  as Vault's Transit imports it
//! ```
//!
//! A key wrapped with X-Wing is bound to its tenant, name, algorithm and form. It does not unwrap
//! under another name, so that an attacker with a copy cannot import it as their own key. The RSA
//! form has no such binding.

mod hpke;
mod oaep;
mod offline;

use std::fmt;
use std::str::FromStr;

use base64ct::{Base64, Encoding};
use gabion_engine::key_file::{self, EncodedKey, FileForm};
use gabion_engine::keys::PublicKey;
use gabion_engine::{Algorithm, Engine, KemPublicKey, Kind};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use crate::error::Error;
use crate::model::{KeyAlgorithm, Label};
use crate::rsa::{self, Hash};

pub use hpke::open as open_by_x_wing;
pub(crate) use hpke::seal as wrap_by_x_wing;
pub use oaep::open as open_by_rsa;
pub use offline::{default_form, unwrap_key, wrap_key};

/// The maximum size of a wrapped key in bytes. PKCS#8 of the largest algorithm takes 7 KB.
pub const KEY_MAX: usize = 1 << 16;

/// The number of characters in a line of PEM (RFC 7468, section 2).
const PEM_LINE: usize = 64;

/// The method by which a key is wrapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrapMethod {
    /// HPKE (RFC 9180) with X-Wing, HKDF-SHA256 and AES-256-GCM: enc and ciphertext.
    XWing,
    /// An AES-256 key by RSAES-OAEP with this hash, followed by the key wrapped by AES-KWP (RFC
    /// 5649).
    RsaOaep(Hash),
}

/// The algorithm of a wrapping public key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrapper {
    /// X-Wing.
    XWing,
    /// RSA of 4096 bits.
    Rsa,
}

/// The form of a private key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// The bytes of a symmetric key; the seed of a private key, or its standard's encoding if it
    /// has no seed.
    Raw,
    /// A private key as unencrypted PKCS#8 DER.
    Pkcs8,
}

/// The place of a wrapped key, to which it is bound.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The tenant.
    pub tenant: &'a Label,
    /// The name.
    pub name: &'a Label,
    /// The algorithm.
    pub algorithm: KeyAlgorithm,
    /// The form of the key.
    pub form: Form,
}

/// A recipient of wrapped keys, identified by a public key.
#[derive(Clone)]
pub struct Recipient {
    key: RecipientKey,
    spki: Vec<u8>,
}

#[derive(Clone)]
enum RecipientKey {
    XWing(KemPublicKey),
    Rsa(Box<rsa::PublicKey>),
}

impl Form {
    /// Returns the default form of an algorithm's keys: PKCS#8 if a standard defines that.
    pub fn usual(algorithm: KeyAlgorithm) -> Self {
        let has_files = algorithm.algorithm().is_some_and(|it| FileForm::of(it).is_some());
        if has_files || algorithm.rsa().is_some() { Form::Pkcs8 } else { Form::Raw }
    }

    /// Returns the form's text.
    pub fn as_str(self) -> &'static str {
        match self {
            Form::Raw => "raw",
            Form::Pkcs8 => "pkcs8",
        }
    }
}

impl FromStr for Form {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        [Form::Raw, Form::Pkcs8]
            .into_iter()
            .find(|form| form.as_str() == text)
            .ok_or_else(|| Error::Parameter("unknown `form`; expected pkcs8 or raw".to_owned()))
    }
}

/// The hashes of OAEP, those that Vault supports.
const OAEP_HASHES: [Hash; 4] = [Hash::Sha224, Hash::Sha256, Hash::Sha384, Hash::Sha512];

impl fmt::Display for WrapMethod {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WrapMethod::XWing => out.write_str("x-wing"),
            WrapMethod::RsaOaep(hash) => {
                let name = hash.prehash().name().to_ascii_lowercase();
                write!(out, "rsa-oaep-{}", name.replacen("sha2-", "sha", 1))
            }
        }
    }
}

impl FromStr for WrapMethod {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let rsa = OAEP_HASHES.into_iter().map(WrapMethod::RsaOaep);
        std::iter::once(WrapMethod::XWing).chain(rsa).find(|it| it.to_string() == text).ok_or_else(
            || {
                Error::Parameter(
                    "unknown `wrapping`; expected x-wing, rsa-oaep-sha224, rsa-oaep-sha256, rsa-oaep-sha384 or rsa-oaep-sha512"
                        .to_owned(),
                )
            },
        )
    }
}

impl Place<'_> {
    /// Returns HPKE's `info`: the parts, each preceded by a zero byte, which no part contains.
    pub fn info(&self) -> Vec<u8> {
        let Place { tenant, name, algorithm, form } = self;
        format!("gabion-kms key 1\0{tenant}\0{name}\0{algorithm}\0{}", form.as_str()).into_bytes()
    }
}

impl Recipient {
    /// Creates a recipient from an X-Wing public key.
    ///
    /// # Errors
    /// Does not fail for valid keys.
    pub fn of_x_wing(key: KemPublicKey) -> Result<Self, Error> {
        let form = FileForm::of(Algorithm::XWing)
            .ok_or_else(|| Error::Unsupported("X-Wing has no key files here".to_owned()))?;
        let spki = key_file::encode_public(form, key.bytes(), true).map_err(Error::Parameter)?;
        Ok(Recipient { key: RecipientKey::XWing(key), spki })
    }

    /// Creates a recipient from an RSA public key.
    ///
    /// # Errors
    /// Does not fail for valid keys.
    pub fn of_rsa(key: rsa::PublicKey) -> Result<Self, Error> {
        let spki = key.spki()?;
        Ok(Recipient { key: RecipientKey::Rsa(Box::new(key)), spki })
    }

    /// Parses a DER-encoded SubjectPublicKeyInfo: X-Wing, or RSA of 2048, 3072 or 4096 bits.
    ///
    /// # Errors
    /// [`Error::Parameter`].
    pub fn of_spki(engine: &Engine, der: &[u8]) -> Result<Self, Error> {
        let refused = |why: &str| Error::Parameter(format!("the recipient's key: {why}"));
        let expected = "expected a SubjectPublicKeyInfo of X-Wing, or of RSA";
        if let Ok(key) = rsa::PublicKey::of_spki(der) {
            return Self::of_rsa(key);
        }
        let encoded = EncodedKey::from_der(der).map_err(|_| refused(expected))?;
        let of = key_file::of_identifier(encoded.identifier(), Kind::Kem);
        if of.map_err(|_| refused(expected))? != Some(Algorithm::XWing) {
            return Err(refused(expected));
        }
        match key_file::decode(engine, Algorithm::XWing, &encoded)?.public() {
            PublicKey::Kem(key) if matches!(encoded, EncodedKey::Public(_)) => {
                let recipient = Self::of_x_wing(key)?;
                match recipient.spki == der {
                    true => Ok(recipient),
                    false => Err(refused(expected)),
                }
            }
            _ => Err(refused("it is a private key; expected the public key")),
        }
    }

    /// Returns the public key as a SubjectPublicKeyInfo in DER.
    pub fn spki(&self) -> &[u8] {
        &self.spki
    }

    /// Returns the public key in PEM.
    pub fn pem(&self) -> String {
        let mut pem = String::from("-----BEGIN PUBLIC KEY-----\n");
        let text = Base64::encode_string(&self.spki);
        let mut rest = text.as_str();
        while !rest.is_empty() {
            let (line, more) = rest.split_at(rest.len().min(PEM_LINE));
            pem.push_str(line);
            pem.push('\n');
            rest = more;
        }
        pem.push_str("-----END PUBLIC KEY-----\n");
        pem
    }

    /// Returns the SHA-256 of the public key's DER in hexadecimal, which names the recipient in the
    /// audit log.
    pub fn sha256(&self) -> String {
        base16ct::lower::encode_string(&Sha256::digest(&self.spki))
    }

    /// Returns the X-Wing public key, if it is one.
    pub fn x_wing(&self) -> Option<&KemPublicKey> {
        match &self.key {
            RecipientKey::XWing(key) => Some(key),
            RecipientKey::Rsa(_) => None,
        }
    }

    /// Returns the default wrapping method for the recipient.
    pub fn wrapping(&self) -> WrapMethod {
        match self.key {
            RecipientKey::XWing(_) => WrapMethod::XWing,
            RecipientKey::Rsa(_) => WrapMethod::RsaOaep(Hash::Sha256),
        }
    }

    /// Wraps a key for the recipient.
    ///
    /// # Errors
    /// [`Error::TooLarge`]; no randomness.
    pub fn wrap(&self, engine: &Engine, place: &Place<'_>, key: &[u8]) -> Result<Vec<u8>, Error> {
        if key.len() > KEY_MAX {
            return Err(Error::TooLarge { what: "bytes of a key", most: KEY_MAX, got: key.len() });
        }
        match &self.key {
            RecipientKey::XWing(public) => hpke::seal(engine, public, &place.info(), key),
            RecipientKey::Rsa(public) => oaep::seal(public, Hash::Sha256, key),
        }
    }
}

/// An unwrapped key. It may be secret.
pub type UnwrappedKey = Zeroizing<Vec<u8>>;
