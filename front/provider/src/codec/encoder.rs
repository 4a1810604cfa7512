//! Encoders: keys of the algorithms that OpenSSL lacks, as SubjectPublicKeyInfo, PKCS#8 and text.
//!
//! Keys of algorithms that the default provider supports are written by its encoders, after export
//! to it, so all of its forms and options remain available. The exception is printing only the
//! parameters of a key, which these algorithms do not have: the default provider then prints the
//! public key (EVP_PKEY_print_params), and so does [`PARAMETERS`].
//!
//! If a cipher was requested, a private key is encrypted with PBES2 (RFC 8018, section 6.2) and
//! never written in the clear.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::fmt::{Display, Write};
use std::ptr::null_mut;

use gabion_engine::keys::{self, PrivateKey};
use gabion_engine::{Entropy, Kind, key_file};
use pkcs8::EncryptedPrivateKeyInfoRef;
use pkcs8::der::{Encode, asn1::OctetStringRef, pem::LineEnding};
use pkcs8::pkcs5::pbes2;
use zeroize::Zeroizing;

use super::decoder::{Structure, file_form};
use super::formats;
use crate::bio::CoreBio;
use crate::border::{TakesParams, border, borrow, free, hand_over, set_ctx_params};
use crate::error::Failure;
use crate::ffi::{Dispatch, Param, ParamsIn, entry, function, name, select};
use crate::key::Key;
use crate::provider::ProviderRef;

/// Rounds of PBKDF2. They cost about 50 ms at each loading of a password-protected key.
const ITERATIONS: u32 = 100_000;

/// Longest password, in bytes.
const PASSWORD_MAX: usize = 1024;

/// The output of an encoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// A SubjectPublicKeyInfo; PEM or DER.
    Public(Wrap),
    /// A PKCS#8 private key, encrypted if a cipher is set.
    Private(Wrap),
    /// A PKCS#8 private key, encrypted, for which a cipher must be set.
    Encrypted(Wrap),
    /// Text for people.
    Text,
    /// Text if no part of the key was selected.
    Parameters,
}

/// PEM or DER.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrap {
    /// DER without an envelope.
    Der,
    /// In base 64 between labels (RFC 7468).
    Pem,
}

/// All outputs: those of [`ENCODERS`] in order, followed by [`PARAMETERS`].
const OUTPUTS: [Output; 8] = [
    Output::Public(Wrap::Der),
    Output::Public(Wrap::Pem),
    Output::Private(Wrap::Der),
    Output::Private(Wrap::Pem),
    Output::Encrypted(Wrap::Der),
    Output::Encrypted(Wrap::Pem),
    Output::Text,
    Output::Parameters,
];

/// An encoder: what the core finds it by, and its functions. They serve every algorithm.
type Entry = (&'static CStr, [Dispatch; 7]);

/// Every encoder of an algorithm that the default provider lacks.
pub static ENCODERS: [Entry; 7] = [
    (c"provider=gabion,output=der,structure=SubjectPublicKeyInfo", table::<0>()),
    (c"provider=gabion,output=pem,structure=SubjectPublicKeyInfo", table::<1>()),
    (c"provider=gabion,output=der,structure=PrivateKeyInfo", table::<2>()),
    (c"provider=gabion,output=pem,structure=PrivateKeyInfo", table::<3>()),
    (c"provider=gabion,output=der,structure=EncryptedPrivateKeyInfo", table::<4>()),
    (c"provider=gabion,output=pem,structure=EncryptedPrivateKeyInfo", table::<5>()),
    (c"provider=gabion,output=text", table::<6>()),
];

/// The only encoder of an algorithm that the default provider has.
pub static PARAMETERS: Entry = (c"provider=gabion,output=text", table::<7>());

const fn table<const OUTPUT: usize>() -> [Dispatch; 7] {
    use function as f;
    [
        entry!(f::ENCODER_NEWCTX, new::<OUTPUT>, New),
        entry!(f::ENCODER_FREECTX, free::<Encoder>, Free),
        entry!(f::ENCODER_DOES_SELECTION, does_selection::<OUTPUT>, DoesSelection),
        entry!(f::ENCODER_SET_CTX_PARAMS, set_ctx_params::<Encoder>, SetParams),
        entry!(f::ENCODER_SETTABLE_CTX_PARAMS, settable_ctx_params, Settable),
        entry!(f::ENCODER_ENCODE, encode, EncodeKey),
        Dispatch::END,
    ]
}

type New = unsafe extern "C" fn(*mut c_void) -> *mut c_void;
type Free = unsafe extern "C" fn(*mut c_void);
type DoesSelection = unsafe extern "C" fn(*mut c_void, c_int) -> c_int;
type SetParams = unsafe extern "C" fn(*mut c_void, *const Param) -> c_int;
type Settable = unsafe extern "C" fn(*mut c_void) -> *const Param;
type EncodeKey = unsafe extern "C" fn(
    *mut c_void,
    *mut CoreBio,
    *const c_void,
    *const Param,
    c_int,
    Option<Password>,
    *mut c_void,
) -> c_int;
/// The core's password callback (OSSL_PASSPHRASE_CALLBACK).
pub type Password =
    unsafe extern "C" fn(*mut c_char, usize, *mut usize, *const Param, *mut c_void) -> c_int;

/// An encoding that was begun; used from one thread.
struct Encoder {
    provider: ProviderRef,
    output: Output,
    /// The cipher that encrypts private keys.
    cipher: Option<Cipher>,
    /// Whether a cipher was asked for that there is not: then nothing is written.
    refused: bool,
}

/// The ciphers of PBES2 that are written: AES in CBC mode.
#[derive(Clone, Copy)]
enum Cipher {
    Aes128,
    Aes192,
    Aes256,
}

impl Cipher {
    fn of(text: &[u8]) -> Result<Option<Self>, Failure> {
        let is = |known: &str| text.eq_ignore_ascii_case(known.as_bytes());
        Ok(Some(match () {
            () if text.is_empty() => return Ok(None),
            () if is("AES-128-CBC") => Cipher::Aes128,
            () if is("AES-192-CBC") => Cipher::Aes192,
            () if is("AES-256-CBC") => Cipher::Aes256,
            () => {
                let expected = "AES-128-CBC, AES-192-CBC or AES-256-CBC";
                return Err(Failure::Parameter { key: "cipher", expected });
            }
        }))
    }

    fn scheme(self, iv: [u8; 16]) -> pbes2::EncryptionScheme {
        match self {
            Cipher::Aes128 => pbes2::EncryptionScheme::Aes128Cbc { iv },
            Cipher::Aes192 => pbes2::EncryptionScheme::Aes192Cbc { iv },
            Cipher::Aes256 => pbes2::EncryptionScheme::Aes256Cbc { iv },
        }
    }
}

impl TakesParams for Encoder {
    fn provider(&self) -> ProviderRef {
        self.provider
    }

    fn set(&mut self, params: ParamsIn<'_>) -> Result<(), Failure> {
        if let Some(cipher) = params.text(name::CIPHER)? {
            self.refused = true;
            self.cipher = Cipher::of(cipher)?;
            self.refused = false;
        }
        Ok(())
    }
}

unsafe extern "C" fn new<const OUTPUT: usize>(context: *mut c_void) -> *mut c_void {
    // SAFETY: the core passes the context that this provider gave it.
    let provider = unsafe { ProviderRef::new(context) };
    border(Some(&provider), null_mut(), || {
        Ok(hand_over(Encoder { provider, output: OUTPUTS[OUTPUT], cipher: None, refused: false }))
    })
}

unsafe extern "C" fn does_selection<const OUTPUT: usize>(
    _: *mut c_void,
    selection: c_int,
) -> c_int {
    c_int::from(match OUTPUTS[OUTPUT] {
        Output::Public(_) => Structure::Public.serves(selection),
        Output::Private(_) | Output::Encrypted(_) => Structure::Private.serves(selection),
        Output::Text => true,
        Output::Parameters => selection & select::KEYPAIR == 0,
    })
}

unsafe extern "C" fn settable_ctx_params(_: *mut c_void) -> *const Param {
    static SETTABLE: [Param; 3] =
        [Param::takes_utf8(name::CIPHER), Param::takes_utf8(name::PROPERTIES), Param::END];
    SETTABLE.as_ptr()
}

unsafe extern "C" fn encode(
    encoder: *mut c_void,
    out: *mut CoreBio,
    key: *const c_void,
    abstract_key: *const Param,
    selection: c_int,
    password: Option<Password>,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: the core passes a context of new.
    let Ok(encoder) = (unsafe { borrow::<Encoder>(encoder) }) else {
        return 0;
    };
    border(Some(&encoder.provider), 0, || {
        if !abstract_key.is_null() {
            return Err(Failure::Misuse("only a key can be encoded, not a description of one"));
        }
        // SAFETY: the core passes a key of this provider, or null.
        let key = unsafe { borrow::<Key>(key) }?;
        // SAFETY: the core's source of passwords, with its argument.
        let password = || unsafe { ask(password, argument) };
        let bytes = encoder.encode(key, selection, password)?;
        // SAFETY: the core's BIO, for the call.
        unsafe { encoder.provider.bio.write_all(out, &bytes) }?;
        Ok(1)
    })
}

/// Asks for the password of a private key.
///
/// # Errors
/// The password could not be obtained.
///
/// # Safety
/// The core's callback, or null, with its argument.
pub unsafe fn ask(
    callback: Option<Password>,
    argument: *mut c_void,
) -> Result<Zeroizing<Vec<u8>>, Failure> {
    const NONE: Failure = Failure::Misuse("no password was given for the private key");
    let callback = callback.ok_or(NONE)?;
    let mut password = Zeroizing::new(vec![0u8; PASSWORD_MAX]);
    let mut len = 0;
    let params = [Param::END];
    // SAFETY: the core's callback; it writes no more than there is room for.
    let ok = unsafe {
        callback(password.as_mut_ptr().cast(), PASSWORD_MAX, &mut len, params.as_ptr(), argument)
    };
    if ok != 1 || len > PASSWORD_MAX {
        return Err(NONE);
    }
    password.truncate(len);
    Ok(password)
}

impl Encoder {
    fn encode(
        &self,
        key: &Key,
        selection: c_int,
        password: impl FnOnce() -> Result<Zeroizing<Vec<u8>>, Failure>,
    ) -> Result<Zeroizing<Vec<u8>>, Failure> {
        let missing =
            |part| Failure::MissingKey { algorithm: key.algorithm, part, operation: "encoding" };
        let material = key.material().ok_or(missing("public key"))?;
        if self.refused {
            return Err(Failure::Misuse("the requested cipher is not available"));
        }
        match self.output {
            Output::Text | Output::Parameters => text(key, material, selection),
            Output::Public(wrap) => public(key, material, wrap),
            Output::Private(wrap) | Output::Encrypted(wrap) => {
                key.check_stays(select::PRIVATE_KEY)?;
                let secret = material.private().ok_or(missing("private key"))?;
                match (self.cipher, self.output) {
                    (Some(cipher), _) => {
                        let clear = private(key, secret, Wrap::Der)?;
                        self.encrypt(cipher, &clear, &password()?, wrap)
                    }
                    (None, Output::Private(_)) => private(key, secret, wrap),
                    (None, _) => Err(Failure::Misuse("no cipher was set to encrypt with")),
                }
            }
        }
    }

    /// PBES2 (RFC 8018, section 6.2) with PBKDF2 and HMAC-SHA-256.
    fn encrypt(
        &self,
        cipher: Cipher,
        clear: &[u8],
        password: &[u8],
        wrap: Wrap,
    ) -> Result<Zeroizing<Vec<u8>>, Failure> {
        let mut drawn = [0; 32];
        self.provider.core.fill(&mut drawn).map_err(gabion_engine::Error::from)?;
        let [salt, iv]: [[u8; 16]; 2] = [0, 16].map(|at| std::array::from_fn(|i| drawn[at + i]));
        let kdf = pbes2::Pbkdf2Params::hmac_sha256(ITERATIONS, &salt)
            .map_err(|cause| unwritten("encrypted", &cause))?;
        let encryption = cipher.scheme(iv);
        let parameters = pbes2::Parameters { kdf: kdf.into(), encryption };
        let encrypted_data =
            parameters.encrypt(password, clear).map_err(|cause| unwritten("encrypted", &cause))?;
        let der = OctetStringRef::new(&encrypted_data).and_then(|encrypted_data| {
            let encryption_algorithm = pkcs8::pkcs5::EncryptionScheme::Pbes2(parameters);
            EncryptedPrivateKeyInfoRef { encryption_algorithm, encrypted_data }.to_der()
        });
        let der = der.map_err(|cause| unwritten("encoded", &cause))?;
        Ok(Zeroizing::new(match wrap {
            Wrap::Der => der,
            Wrap::Pem => {
                let label = "ENCRYPTED PRIVATE KEY";
                let pem = pkcs8::der::pem::encode_string(label, LineEnding::LF, &der);
                pem.map_err(|cause| unwritten("encoded", &cause))?.into_bytes()
            }
        }))
    }
}

/// Why an encrypted private key was not written.
fn unwritten(step: &str, cause: &dyn Display) -> Failure {
    let reason = format!("the encrypted private key could not be {step}: {cause}");
    gabion_engine::Error::KeyFile(reason).into()
}

fn form_of(key: &Key) -> Result<key_file::FileForm, Failure> {
    file_form(key.algorithm).ok_or(Failure::Misuse("keys of this algorithm have no file format"))
}

fn public(key: &Key, material: &keys::Key, wrap: Wrap) -> Result<Zeroizing<Vec<u8>>, Failure> {
    let bytes = key_file::encode_public(form_of(key)?, material.public_bytes(), wrap == Wrap::Der);
    bytes.map(Zeroizing::new).map_err(|reason| gabion_engine::Error::KeyFile(reason).into())
}

/// Seed and expanded key where both are there, as the default provider does, or what was chosen.
fn private(key: &Key, secret: &PrivateKey, wrap: Wrap) -> Result<Zeroizing<Vec<u8>>, Failure> {
    let form = form_of(key)?;
    let forms = formats::to_write(&key.provider, key.algorithm, secret.forms())?;
    let bytes = key_file::encode_private(form, &forms, wrap == Wrap::Der);
    bytes.map_err(|reason| gabion_engine::Error::KeyFile(reason).into())
}

/// The key in hexadecimal, laid out as the default provider does for ML-KEM, or else for ML-DSA:
/// without a heading where no part of it was asked for.
fn text(key: &Key, material: &keys::Key, selection: c_int) -> Result<Zeroizing<Vec<u8>>, Failure> {
    let private = (selection & select::PRIVATE_KEY != 0).then(|| material.private()).flatten();
    let (private, seed) = (private.map(PrivateKey::bytes), private.and_then(PrivateKey::seed));
    let is_kem = key.algorithm.info().kind == Kind::Kem;
    let (private_label, public_label) = if is_kem { ("dk", "ek") } else { ("priv", "pub") };
    let parts =
        [("seed", seed), (private_label, private), (public_label, Some(material.public_bytes()))];
    let len: usize = parts.iter().flat_map(|(_, part)| part.map(<[u8]>::len)).sum();
    let bytes_a_line = if key.provider.core.version >= (4, 0) { 16 } else { 15 };
    // Three characters a byte and 5 a line: reserved, so that no copy of a secret is left
    // where the text would have grown out of its place.
    let mut text = Zeroizing::new(String::with_capacity(len * 4 + 200));
    let what = if private.is_some() { "Private" } else { "Public" };
    if is_kem || selection & select::KEYPAIR != 0 {
        let _ = writeln!(text, "{} {what}-Key:", key.algorithm.name());
    }
    for (label, bytes) in parts {
        let Some(bytes) = bytes else { continue };
        let _ = write!(text, "{label}:");
        for (at, byte) in bytes.iter().enumerate() {
            let before = if at % bytes_a_line == 0 { "\n    " } else { "" };
            let after = if at + 1 == bytes.len() { "" } else { ":" };
            let _ = write!(text, "{before}{byte:02x}{after}");
        }
        text.push('\n');
    }
    Ok(Zeroizing::new(text.as_bytes().to_vec()))
}
