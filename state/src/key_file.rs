//! KEY: the private key file, which never changes.
//!
//! ```text
//!   PEM of   magic | kind | encoding | protection | sets | public key | secret | SHA-256        lengths in front
//!                                                                        |
//!                         protection 0: as Secret::encode gives it     <-+->  1: in EncryptedPrivateKeyInfo (PBES2)
//! ```
//!
//! No standard defines a format for such a key. In PKCS#8, programs that keep no state would sign
//! with it. Therefore it has a private format with a separate PEM label. Sets and public key are
//! not encrypted: finding the signature length and the key's state needs no passphrase.

use std::fmt;
use std::path::Path;

use gabion_disk::Disk;
use gabion_engine::key_file::{FileForm, encode_public};
use gabion_engine::keys::stateful::digest_of;
use gabion_engine::keys::stateful::hss::HssSecret;
use gabion_engine::keys::stateful::xmss::XmssSecret;
use gabion_engine::{Algorithm, Entropy, Error};
use pkcs8::EncryptedPrivateKeyInfoRef;
use pkcs8::der::asn1::OctetStringRef;
use pkcs8::der::pem::{self, LineEnding};
use pkcs8::der::{Decode, Encode};
use pkcs8::pkcs5::EncryptionScheme;
use pkcs8::pkcs5::pbes2::Parameters;
use zeroize::Zeroizing;

use crate::files::{KeyIdentity, read_file};
use crate::record::Reader;
use crate::sets::{Encoding, Sets};

/// The label of the PEM block.
pub const LABEL: &str = "GABION STATEFUL PRIVATE KEY";
/// The digits are the format version.
const MAGIC: [u8; 8] = *b"gabkey01";
/// PBKDF2 iterations for new files, about 100 ms.
const ROUNDS: u32 = 600_000;
/// Maximum number of PBKDF2 iterations accepted (RFC 8018, section 4.2).
const ROUNDS_MAX: u32 = 10_000_000;
/// Maximum size of a private key file in bytes.
pub(crate) const FILE_MAX: u64 = 16 << 10;

/// The secret of a private key, by kind.
pub enum Secret {
    /// HSS, or LMS as HSS of one level.
    Hss(HssSecret),
    /// XMSS or XMSS^MT.
    Xmss(XmssSecret),
}

/// A private key file: the unencrypted fields, and the secret, which may need a passphrase.
pub struct KeyFile {
    sets: Sets,
    encoding: Encoding,
    pub(crate) public: Vec<u8>,
    is_encrypted: bool,
    secret: Zeroizing<Vec<u8>>,
}

impl Secret {
    /// Returns the sets.
    pub fn sets(&self) -> Sets {
        match self {
            Secret::Hss(secret) => Sets::Hss(secret.levels().clone()),
            Secret::Xmss(secret) => Sets::Xmss(secret.set()),
        }
    }

    /// Encodes the secret for the file. Cached trees are authenticated with the same bytes.
    pub(crate) fn encode(&self) -> Zeroizing<Vec<u8>> {
        match self {
            Secret::Hss(secret) => secret.encode(),
            Secret::Xmss(secret) => secret.encode(),
        }
    }
}

impl KeyFile {
    /// Reads a private key file.
    ///
    /// # Errors
    /// [`Error::KeyFile`] if it cannot be read, is damaged or is another type of file.
    pub fn read(disk: &dyn Disk, path: &Path) -> Result<Self, Error> {
        let refused = |reason: &str| Error::KeyFile(format!("{}: {reason}", path.display()));
        let bytes = read_file(disk, path, FILE_MAX).map_err(|error| refused(&error.to_string()))?;
        let file = KeyFile::decode(&bytes).map_err(refused)?;
        match file.sets.is_whole() {
            true => Ok(file),
            false => Err(refused("it belongs to an unfinished sector")),
        }
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, &'static str> {
        let no_key = "it is not a private key of `gabion hbs keygen`";
        let begins = format!("-----BEGIN {LABEL}-----");
        if !bytes.starts_with(begins.as_bytes()) {
            return Err(no_key);
        }
        let decoded = pem::decode_vec(bytes).map_err(|_| "its PEM is damaged or cut short")?;
        let inside = Zeroizing::new(decoded.1);
        let said = inside.len().checked_sub(32).ok_or("it is cut short")?;
        let (said, sum) = inside.split_at(said);
        if digest_of(said) != sum {
            return Err("it is damaged");
        }
        let mut reader = Reader(said);
        if reader.array() != Some(MAGIC) {
            return Err("its version is not supported");
        }
        KeyFile::fields(&mut reader).ok_or("its type is not supported")
    }

    fn fields(reader: &mut Reader<'_>) -> Option<Self> {
        let [kind, encoding, protection] = reader.array()?;
        let encoding = match encoding {
            0 => Encoding::Hss,
            1 => Encoding::Lms,
            _ => return None,
        };
        let is_encrypted = match protection {
            0 => false,
            1 => true,
            _ => return None,
        };
        let mut field = || {
            let len = usize::try_from(u32::from_be_bytes(reader.array()?)).ok()?;
            reader.bytes(len)
        };
        let sets = Sets::decode(kind, field()?)?;
        let (public, secret) = (field()?.to_vec(), Zeroizing::new(field()?.to_vec()));
        let is_whole = reader.0.is_empty() && sets.has(encoding);
        is_whole.then_some(KeyFile { sets, encoding, public, is_encrypted, secret })
    }

    /// Encodes a private key file.
    ///
    /// # Errors
    /// [`Error::Entropy`]; [`Error::KeyFile`] if encryption fails.
    pub(crate) fn encode(
        secret: &Secret,
        public: &[u8],
        encoding: Encoding,
        passphrase: Option<&[u8]>,
        entropy: &dyn Entropy,
    ) -> Result<Zeroizing<Vec<u8>>, Error> {
        let clear = secret.encode();
        let held = match passphrase {
            None => clear,
            Some(passphrase) => encrypt(&clear, passphrase, entropy)?,
        };
        let encoding = match encoding {
            Encoding::Hss => 0,
            Encoding::Lms => 1,
        };
        let mut bytes = Zeroizing::new(Vec::with_capacity(FILE_MAX as usize));
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&[secret.sets().kind(), encoding, u8::from(passphrase.is_some())]);
        for field in [&secret.sets().encode()[..], public, &held] {
            bytes.extend_from_slice(&(field.len() as u32).to_be_bytes());
            bytes.extend_from_slice(field);
        }
        let sum = digest_of(&bytes);
        bytes.extend_from_slice(&sum);
        let text = pem::encode_string(LABEL, LineEnding::LF, &bytes);
        let text =
            text.map_err(|cause| Error::KeyFile(format!("cannot write the key: {cause}")))?;
        Ok(Zeroizing::new(text.into_bytes()))
    }

    /// Returns the sets.
    pub fn sets(&self) -> &Sets {
        &self.sets
    }

    /// Returns the encoding of its signatures.
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Returns the public key in the encoding of HSS or XMSS, which identifies the key's state.
    pub fn public(&self) -> &[u8] {
        &self.public
    }

    /// Returns the identity that the state of this key must match.
    pub fn identity(&self) -> KeyIdentity {
        KeyIdentity { public: self.public.clone(), indexes: self.sets.indexes() }
    }

    /// Returns the public key as SubjectPublicKeyInfo (RFC 9802), in DER or PEM.
    ///
    /// # Errors
    /// Does not fail for keys with these sets.
    pub fn spki(&self, as_der: bool) -> Result<Vec<u8>, Error> {
        spki(self.sets.algorithm(), &self.public, as_der)
    }

    /// Returns the length of its signatures in bytes.
    pub fn signature_len(&self) -> usize {
        self.sets.signature_len(self.encoding)
    }

    /// Returns whether the secret needs a passphrase.
    pub fn is_encrypted(&self) -> bool {
        self.is_encrypted
    }

    /// Returns the secret.
    ///
    /// # Errors
    /// [`Error::KeyFile`] if the passphrase is wrong or missing, or the secret does not match the
    /// sets.
    pub fn unlock(&self, passphrase: Option<&[u8]>) -> Result<Secret, Error> {
        let refused = |reason: &str| Error::KeyFile(reason.to_owned());
        let decrypted;
        let clear = match (self.is_encrypted, passphrase) {
            (false, _) => &self.secret,
            (true, None) => return Err(refused("it is encrypted, and needs its password")),
            (true, Some(passphrase)) => {
                decrypted = decrypt(&self.secret, passphrase)?;
                &decrypted
            }
        };
        match self.secret_of(clear) {
            // One of 256 wrong passwords yields valid padding (RFC 8018, section 6.1.1).
            Err(_) if self.is_encrypted => Err(refused(DOES_NOT_OPEN)),
            secret => secret,
        }
    }

    fn secret_of(&self, clear: &[u8]) -> Result<Secret, Error> {
        let secret = match &self.sets {
            Sets::Hss(levels) => Secret::Hss(HssSecret::decode(clear)?.in_sector(levels.clone())?),
            Sets::Xmss(set) => Secret::Xmss(XmssSecret::decode(set.scheme, clear)?),
        };
        let other = || Error::KeyFile("its secret is not of the sets that it names".to_owned());
        if secret.sets() == self.sets { Ok(secret) } else { Err(other()) }
    }
}

impl fmt::Debug for KeyFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyFile of {}", self.sets)
    }
}

const DOES_NOT_OPEN: &str = "it does not open with this password, or is damaged";

/// Encodes a public key as SubjectPublicKeyInfo.
pub(crate) fn spki(algorithm: Algorithm, public: &[u8], as_der: bool) -> Result<Vec<u8>, Error> {
    let form = FileForm::of(algorithm);
    let form =
        form.ok_or_else(|| Error::KeyFile(format!("{algorithm} keys have no file format")))?;
    encode_public(form, public, as_der).map_err(Error::KeyFile)
}

fn encrypt(
    clear: &[u8],
    passphrase: &[u8],
    entropy: &dyn Entropy,
) -> Result<Zeroizing<Vec<u8>>, Error> {
    let (mut salt, mut iv) = ([0; 16], [0; 16]);
    entropy.fill(&mut salt)?;
    entropy.fill(&mut iv)?;
    let made = || {
        let parameters = Parameters::generate_pbkdf2_sha256_aes256cbc(ROUNDS, &salt, iv)?;
        let encrypted_data = parameters.encrypt(passphrase, clear)?;
        let encryption_algorithm = EncryptionScheme::Pbes2(parameters);
        let encrypted_data = OctetStringRef::new(&encrypted_data)?;
        Ok(EncryptedPrivateKeyInfoRef { encryption_algorithm, encrypted_data }.to_der()?)
    };
    let made: Result<Vec<u8>, pkcs8::Error> = made();
    let made = made.map_err(|cause| Error::KeyFile(format!("cannot encrypt the key: {cause}")))?;
    Ok(Zeroizing::new(made))
}

fn decrypt(encrypted: &[u8], passphrase: &[u8]) -> Result<Zeroizing<Vec<u8>>, Error> {
    let refused = |reason: &str| Error::KeyFile(reason.to_owned());
    let info = EncryptedPrivateKeyInfoRef::from_der(encrypted)
        .map_err(|_| refused("it is encrypted with an unsupported method"))?;
    let scheme = info.encryption_algorithm.pbes2();
    let rounds = scheme.and_then(|scheme| scheme.kdf.pbkdf2()).map(|kdf| kdf.iteration_count);
    if rounds.is_none_or(|rounds| rounds > ROUNDS_MAX) {
        return Err(refused("its key derivation costs exceed the limit"));
    }
    let clear = info.encryption_algorithm.decrypt(passphrase, info.encrypted_data.as_bytes());
    let wrong = |_| refused(DOES_NOT_OPEN);
    clear.map(Zeroizing::new).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gabion_engine::OsEntropy;
    use gabion_engine::keys::stateful::hss::Levels;
    use gabion_engine::lms::{LM_OTS, LMS};

    fn secret() -> Secret {
        let levels = Levels::new(&[(&LMS[0], &LM_OTS[3]), (&LMS[1], &LM_OTS[2])]).unwrap();
        Secret::Hss(HssSecret::new(levels, [3; 16], &[7; 32]).unwrap())
    }

    #[test]
    fn a_key_comes_back_from_its_file_with_its_passphrase_alone() {
        for passphrase in [None, Some(&b"pass"[..])] {
            let file = KeyFile::encode(&secret(), b"public", Encoding::Hss, passphrase, &OsEntropy);
            let read = KeyFile::decode(&file.unwrap()).unwrap();
            assert_eq!(read.is_encrypted(), passphrase.is_some());
            assert_eq!((read.public(), read.sets()), (&b"public"[..], &secret().sets()));
            let back = read.unlock(passphrase).unwrap();
            assert_eq!(*back.encode(), *secret().encode());
            let wrong = [None, Some(&b"Pass"[..])];
            let opens = wrong.iter().filter(|wrong| read.unlock(**wrong).is_ok()).count();
            assert_eq!(opens, if passphrase.is_some() { 0 } else { 2 });
        }
    }

    #[test]
    fn a_password_that_opens_nonsense_is_a_wrong_one() {
        let pass = Some(&b"pass"[..]);
        let file = KeyFile::encode(&secret(), b"public", Encoding::Hss, pass, &OsEntropy).unwrap();
        let mut read = KeyFile::decode(&file).unwrap();
        read.secret = encrypt(b"nonsense with an end", b"pass", &OsEntropy).unwrap();
        let refused = read.unlock(pass).err().unwrap();
        assert!(refused.to_string().contains("password"), "{refused}");
    }

    #[test]
    fn a_damaged_file_is_refused() {
        let file = KeyFile::encode(&secret(), b"public", Encoding::Hss, None, &OsEntropy).unwrap();
        for len in 0..file.len() - 1 {
            assert!(KeyFile::decode(&file[..len]).is_err(), "{len} bytes");
        }
        for at in 0..file.len() - 1 {
            let mut bad = file.to_vec();
            bad[at] ^= 2;
            assert!(KeyFile::decode(&bad).is_err(), "byte {at}");
        }
        // Only one-level signatures can omit the leading word.
        let lms = KeyFile::encode(&secret(), b"public", Encoding::Lms, None, &OsEntropy).unwrap();
        assert!(KeyFile::decode(&lms).is_err());
    }
}
