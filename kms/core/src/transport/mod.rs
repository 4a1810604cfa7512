//! Keys on their way: wrapped for a public key, so that nobody between its owners sees them.
//!
//! ```text
//!   key, where it belongs --Recipient--> X-Wing:  enc | ciphertext            HPKE (RFC 9180), base mode, one message
//!                                   \--> RSA:     OAEP(AES key) | AES-KWP(key)  as Vault's Transit imports it
//! ```
//!
//! What X-Wing wraps says where it belongs: whose key, which name, which algorithm, which form. Under another name it does
//! not unwrap, so that who gets hold of a wrapped key can't import it as their own. RSA's form has no room for that.

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

/// Most bytes of a key that is wrapped: PKCS#8 of the largest algorithm is 7 KB.
pub const KEY_MAX: usize = 1 << 16;

/// Characters of a line of PEM (RFC 7468, section 2).
const PEM_LINE: usize = 64;

/// The method by which a key is wrapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrapMethod {
    /// HPKE (RFC 9180) with X-Wing, HKDF-SHA256 and AES-256-GCM: enc and ciphertext.
    XWing,
    /// An AES-256 key by RSAES-OAEP of this hash, and behind it the key by AES-KWP (RFC 5649).
    RsaOaep(Hash),
}

/// Whose public key a wrapping is for.
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
    /// The bytes of a symmetric key; the seed of a private key, or its standard's encoding where it was made without.
    Raw,
    /// A private key as DER of PKCS#8, not encrypted.
    Pkcs8,
}

/// Where a wrapped key belongs.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// Whose.
    pub tenant: &'a Label,
    /// What they call it.
    pub name: &'a Label,
    /// What it does.
    pub algorithm: KeyAlgorithm,
    /// Its form.
    pub form: Form,
}

/// Somebody for whom keys are wrapped.
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
    /// The form in which an algorithm's keys go where nothing is said: PKCS#8 where a standard has that.
    pub fn usual(algorithm: KeyAlgorithm) -> Self {
        let has_files = algorithm.algorithm().is_some_and(|it| FileForm::of(it).is_some());
        if has_files || algorithm.rsa().is_some() { Form::Pkcs8 } else { Form::Raw }
    }

    /// How it is written.
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

/// The hashes of OAEP, which are Vault's.
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
    /// What HPKE's `info` says: each part behind a zero, which none of them has.
    pub fn info(&self) -> Vec<u8> {
        let Place { tenant, name, algorithm, form } = self;
        format!("gabion-kms key 1\0{tenant}\0{name}\0{algorithm}\0{}", form.as_str()).into_bytes()
    }
}

impl Recipient {
    /// Whoever has the private half of a public key of X-Wing.
    ///
    /// # Errors
    /// None that happens.
    pub fn of_x_wing(key: KemPublicKey) -> Result<Self, Error> {
        let form = FileForm::of(Algorithm::XWing)
            .ok_or_else(|| Error::Unsupported("X-Wing has no key files here".to_owned()))?;
        let spki = key_file::encode_public(form, key.bytes(), true).map_err(Error::Parameter)?;
        Ok(Recipient { key: RecipientKey::XWing(key), spki })
    }

    /// Whoever has the private half of an RSA key.
    ///
    /// # Errors
    /// None that happens.
    pub fn of_rsa(key: rsa::PublicKey) -> Result<Self, Error> {
        let spki = key.spki()?;
        Ok(Recipient { key: RecipientKey::Rsa(Box::new(key)), spki })
    }

    /// Reads a SubjectPublicKeyInfo as DER: X-Wing's, or RSA's of 2048, 3072 or 4096 bits.
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
            _ => Err(refused("that is a private key; expected the public half")),
        }
    }

    /// The public key, as DER of a SubjectPublicKeyInfo.
    pub fn spki(&self) -> &[u8] {
        &self.spki
    }

    /// The same as PEM.
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

    /// The SHA-256 of the public key's DER, in hexadecimal: how the audit log names them.
    pub fn sha256(&self) -> String {
        base16ct::lower::encode_string(&Sha256::digest(&self.spki))
    }

    /// The public key of X-Wing, if it is one.
    pub fn x_wing(&self) -> Option<&KemPublicKey> {
        match &self.key {
            RecipientKey::XWing(key) => Some(key),
            RecipientKey::Rsa(_) => None,
        }
    }

    /// How keys are wrapped for them, where no hash of OAEP is asked for.
    pub fn wrapping(&self) -> WrapMethod {
        match self.key {
            RecipientKey::XWing(_) => WrapMethod::XWing,
            RecipientKey::Rsa(_) => WrapMethod::RsaOaep(Hash::Sha256),
        }
    }

    /// Wraps a key for them.
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
