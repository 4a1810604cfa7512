//! Decoders: from the DER of a SubjectPublicKeyInfo or a PKCS#8 private key to a key of ours.
//!
//! OpenSSL unwraps PEM, decrypts encrypted structures, and passes the resulting DER to a decoder. A
//! decoder that does not recognise its bytes does nothing, and the next one is called; one that
//! recognises them and finds them invalid ends the search with an error.
//!
//! A client decodes the keys of a chain with every connection. The bytes before a public key are
//! the same for all keys of an algorithm, so a known key is decoded by comparing that prefix and
//! finding the key in the cache.

use std::ffi::{CStr, CString, c_int, c_void};
use std::ptr::null_mut;

use gabion_engine::host::CancellationGuard;
use gabion_engine::key_file::{self, EncodedKey, FileForm, Private, Public};
use gabion_engine::{Error, Family, keys};
use once_cell::race::OnceBox;

use super::formats;
use crate::bio::CoreBio;
use crate::border::{border, borrow, counted, free, hand_over, take_back};
use crate::core::engine;
use crate::error::Failure;
use crate::ffi::{Callback, Dispatch, Param, entry, function, name, select};
use crate::key::{self, Key};
use crate::key_types::{KEY_TYPES, KeyType, at, for_each_key_type};
use crate::provider::{Provider, ProviderRef};
use crate::stats::{self, Operation};
use crate::transfer;

/// The structure that a decoder reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Structure {
    /// SubjectPublicKeyInfo (RFC 5280, section 4.1.2.7).
    Public,
    /// PrivateKeyInfo or OneAsymmetricKey (RFC 5958).
    Private,
}

/// The dispatch tables for SubjectPublicKeyInfo, in the order of [`KEY_TYPES`].
pub static PUBLIC_TABLES: [[Dispatch; 6]; KEY_TYPES.len()] = for_each_key_type!(public_table);

/// The dispatch tables for PrivateKeyInfo, in the order of [`KEY_TYPES`].
pub static PRIVATE_TABLES: [[Dispatch; 6]; KEY_TYPES.len()] = for_each_key_type!(private_table);

const fn public_table<const PLACE: usize>() -> [Dispatch; 6] {
    use function as f;
    [
        entry!(f::DECODER_NEWCTX, new_public::<PLACE>, New),
        entry!(f::DECODER_FREECTX, free::<Decoder>, Free),
        entry!(f::DECODER_DOES_SELECTION, serves_public, DoesSelection),
        entry!(f::DECODER_DECODE, decode, Decode),
        entry!(f::DECODER_EXPORT_OBJECT, export_object, ExportObject),
        Dispatch::END,
    ]
}

const fn private_table<const PLACE: usize>() -> [Dispatch; 6] {
    use function as f;
    [
        entry!(f::DECODER_NEWCTX, new_private::<PLACE>, New),
        entry!(f::DECODER_FREECTX, free::<Decoder>, Free),
        entry!(f::DECODER_DOES_SELECTION, serves_private, DoesSelection),
        entry!(f::DECODER_DECODE, decode, Decode),
        entry!(f::DECODER_EXPORT_OBJECT, export_object, ExportObject),
        Dispatch::END,
    ]
}

type New = unsafe extern "C" fn(*mut c_void) -> *mut c_void;
type Free = unsafe extern "C" fn(*mut c_void);
type DoesSelection = unsafe extern "C" fn(*mut c_void, c_int) -> c_int;
/// The last two are a source of passwords, which nothing here needs.
type Decode = unsafe extern "C" fn(
    *mut c_void,
    *mut CoreBio,
    c_int,
    Option<Callback>,
    *mut c_void,
    *mut c_void,
    *mut c_void,
) -> c_int;
type ExportObject =
    unsafe extern "C" fn(*mut c_void, *const c_void, usize, Option<Callback>, *mut c_void) -> c_int;

/// A decoder of one structure of one algorithm.
struct Decoder {
    provider: ProviderRef,
    key_type: KeyType,
    structure: Structure,
}

unsafe extern "C" fn new_public<const PLACE: usize>(context: *mut c_void) -> *mut c_void {
    // SAFETY: the core passes the context that this provider gave it.
    unsafe { new(context, at::<PLACE>(), Structure::Public) }
}

unsafe extern "C" fn new_private<const PLACE: usize>(context: *mut c_void) -> *mut c_void {
    // SAFETY: the core passes the context that this provider gave it.
    unsafe { new(context, at::<PLACE>(), Structure::Private) }
}

unsafe fn new(context: *mut c_void, key_type: KeyType, structure: Structure) -> *mut c_void {
    // SAFETY: as the caller vouches.
    let provider = unsafe { ProviderRef::new(context) };
    border(Some(&provider), null_mut(), || Ok(hand_over(Decoder { provider, key_type, structure })))
}

unsafe extern "C" fn serves_public(_: *mut c_void, selection: c_int) -> c_int {
    c_int::from(Structure::Public.serves(selection))
}

unsafe extern "C" fn serves_private(_: *mut c_void, selection: c_int) -> c_int {
    c_int::from(Structure::Private.serves(selection))
}

impl Structure {
    /// Returns whether the structure satisfies a selection. If a private key is selected, possibly
    /// with other parts, a public key does not. An empty selection accepts anything.
    pub fn serves(self, selection: c_int) -> bool {
        match (selection & select::PRIVATE_KEY != 0, selection & select::PUBLIC_KEY != 0) {
            (true, _) => self == Structure::Private,
            (false, true) => self == Structure::Public,
            (false, false) => selection == 0,
        }
    }
}

unsafe extern "C" fn decode(
    decoder: *mut c_void,
    input: *mut CoreBio,
    selection: c_int,
    callback: Option<Callback>,
    argument: *mut c_void,
    _password: *mut c_void,
    _password_argument: *mut c_void,
) -> c_int {
    // Over all of it: what is between the borders here owns something.
    let _held = CancellationGuard::hold();
    // SAFETY: the core passes a context of new.
    let Ok(decoder) = (unsafe { borrow::<Decoder>(decoder) }) else {
        return 0;
    };
    let (provider, key_type) = (decoder.provider, decoder.key_type);
    let known = border(Some(&provider), None, || {
        let (Some(callback), true) = (callback, decoder.structure.serves(selection)) else {
            return Ok(None);
        };
        if decoder.is_left_to_default() {
            return Ok(None);
        }
        // SAFETY: the core passes a valid BIO for the call.
        let der = unsafe { provider.bio.read_sequence(input) };
        Ok(der.and_then(|der| decoder.recognise(&der)).map(|known| (known, callback)))
    });
    // Nothing of ours: the next decoder is asked.
    let Some((known, callback)) = known else { return 1 };
    // The default provider reads more forms of the keys that it has, and a fault of ours does not
    // keep it from them: OpenSSL then forgets our error, which is counted and told all the same.
    let mut goes_on = false;
    let key = counted(&provider, stats::counter(key_type, Operation::Import), None, |_| {
        let made = known.material(&provider, key_type).inspect_err(|failure| {
            goes_on = key_type.is_known_object() && failure.is_others_business();
        });
        Ok(Some(Key::with(provider, key_type, made?)))
    });
    match key {
        None => c_int::from(goes_on),
        // SAFETY: the core's callback and its argument.
        Some(key) => unsafe { hand_to_core(key, callback, argument) },
    }
}

/// Passes a key to the core, which loads it by `load`, exports it, or ignores it.
///
/// # Safety
/// The core's callback, with its argument.
pub unsafe fn hand_to_core(key: Key, callback: Callback, argument: *mut c_void) -> c_int {
    let provider = key.provider;
    let key_type = key.algorithm;
    border(Some(&provider), 0, || {
        let data_type = &data_types()[key_type.index()];
        let mut key = hand_over(key);
        let place = &raw mut key;
        let params = [
            Param::int(name::OBJECT_TYPE, &OBJECT_PKEY),
            Param::utf8(name::OBJECT_DATA_TYPE, data_type),
            Param::reference(name::OBJECT_REFERENCE, place),
            Param::END,
        ];
        // SAFETY: the core's callback; the list is terminated, and the data it points to stays
        // valid.
        let answer = unsafe { callback(params.as_ptr(), argument) };
        // SAFETY: `load` took the key and left null in its place, or the key is still ours.
        unsafe { take_back::<Key>(place.read()) };
        Ok(answer)
    })
}

/// OSSL_OBJECT_PKEY: the decoded object is a key.
static OBJECT_PKEY: c_int = 2;

/// The main names as C strings, in the order of [`KEY_TYPES`]. Racing threads each build it and one
/// result is kept, so that a forked child never waits.
fn data_types() -> &'static [CString] {
    static TYPES: OnceBox<Vec<CString>> = OnceBox::new();
    let name = |key_type: &KeyType| CString::new(key_type.name()).unwrap_or_default();
    TYPES.get_or_init(|| Box::new(KEY_TYPES.iter().map(name).collect()))
}

/// Initializes the shared tables of decoders, when the provider is loaded.
pub fn prepare() {
    data_types();
    prefixes();
}

unsafe extern "C" fn export_object(
    decoder: *mut c_void,
    reference: *const c_void,
    len: usize,
    callback: Option<Callback>,
    argument: *mut c_void,
) -> c_int {
    // SAFETY: the core passes a context of new.
    let Ok(decoder) = (unsafe { borrow::<Decoder>(decoder) }) else {
        return 0;
    };
    if reference.is_null() || len != size_of::<*mut c_void>() {
        return 0;
    }
    let selection = match decoder.structure {
        Structure::Public => select::PUBLIC_KEY,
        Structure::Private => select::KEYPAIR,
    };
    // SAFETY: as in `transfer::load`; the key stays where it is.
    unsafe { transfer::export(*reference.cast::<*mut c_void>(), selection, callback, argument) }
}

/// A key of the decoder's algorithm, decoded from its structure.
enum DecodedKey {
    /// The bytes of a public key.
    Public(Vec<u8>),
    /// A private key.
    Private(Private),
    /// Something else stands where the key should be.
    Damaged(String),
}

/// The settings of the default provider for reading private keys.
const READING: [(Family, &[&CStr]); 2] = [
    (
        Family::MlKem,
        &[
            c"ml-kem.input_formats",
            c"ml-kem.prefer_seed",
            c"ml-kem.retain_seed",
            c"ml-kem.import_pct_type",
        ],
    ),
    (Family::MlDsa, &[c"ml-dsa.input_formats", c"ml-dsa.prefer_seed", c"ml-dsa.retain_seed"]),
];

impl Decoder {
    /// Returns whether the configuration sets how the default provider reads private keys of this
    /// family. It then reads them, and the keys are exported to this provider.
    fn is_left_to_default(&self) -> bool {
        let family = self.key_type.info().family;
        let is_told = |name: &&'static CStr| self.provider.core.setting(name).is_some();
        self.structure == Structure::Private
            && self.key_type.is_known_object()
            && READING.iter().any(|(of, names)| *of == family && names.iter().any(is_told))
    }

    /// Returns whether this is an identifier of its public keys.
    fn names(&self, oid: &str) -> bool {
        [self.key_type.oid(), self.key_type.oid_before()].contains(&Some(oid))
    }

    /// The structure, if it carries a key of this decoder's algorithm.
    fn recognise(&self, der: &[u8]) -> Option<DecodedKey> {
        let form = file_form(self.key_type)?;
        match self.structure {
            Structure::Public => {
                let prefix = &prefixes()[self.key_type.index()];
                if let Some(key) = prefix.as_ref().and_then(|prefix| prefix.key(der)) {
                    return Some(DecodedKey::Public(key.to_vec()));
                }
                match Public::from_der(der) {
                    Ok(key) if self.names(&key.identifier.oid) => {
                        Some(DecodedKey::public(key, self.key_type))
                    }
                    Ok(_) => None,
                    // The prefix of a damaged key still names its algorithm.
                    Err(reason) => {
                        let ours = prefix.as_ref().is_some_and(|prefix| prefix.is_head_of(der));
                        ours.then_some(DecodedKey::Damaged(reason))
                    }
                }
            }
            Structure::Private => {
                let key = Private::from_der(der).ok()?;
                (key.identifier.oid == form.oid).then_some(DecodedKey::Private(key))
            }
        }
    }
}

impl DecodedKey {
    fn public(key: Public, key_type: KeyType) -> DecodedKey {
        match key.identifier.parameters {
            key_file::Parameters::Absent => {
                let bytes = key_file::of_old_form(key_type.algorithm, &key.bytes);
                DecodedKey::Public(bytes.into_owned())
            }
            _ => DecodedKey::Damaged(format!(
                "holds parameters in the {key_type} identifier; the standard allows none"
            )),
        }
    }

    fn material(self, provider: &Provider, key_type: KeyType) -> Result<keys::Key, Failure> {
        match self {
            DecodedKey::Public(bytes) => key::public_of(provider, key_type, &bytes),
            DecodedKey::Private(key) => {
                if key.identifier.parameters != key_file::Parameters::Absent {
                    let reason = "the private key has parameters; the standard has none there";
                    return Err(Error::KeyFile(reason.to_owned()).into());
                }
                formats::may_read(provider, key_type, &key)?;
                if formats::is_foreign(key_type, &key) {
                    let reason = "the private key is in no form of the standard; expected seed, expandedKey or \
                                  both (RFC 9881)";
                    return Err(Error::KeyFile(reason.to_owned()).into());
                }
                let encoded = EncodedKey::Private(key);
                Ok(key_file::decode(engine()?, key_type.algorithm, &encoded)?)
            }
            DecodedKey::Damaged(reason) => {
                Err(Error::KeyFile(format!("the structure {reason}")).into())
            }
        }
    }
}

impl Failure {
    /// Returns whether another provider may do better: with a form of private key that is no
    /// standard's, or where the fault is ours.
    fn is_others_business(&self) -> bool {
        matches!(self, Failure::Engine(Error::KeyFile(_))) || self.is_fault()
    }
}

/// Returns the format of an algorithm's key files, with the identifier under which it is served.
pub fn file_form(key_type: KeyType) -> Option<FileForm> {
    let form = FileForm::of(key_type.algorithm)?;
    Some(FileForm { oid: key_type.oid()?, ..form })
}

/// The bytes before the key in a SubjectPublicKeyInfo, for key types with a fixed key length.
struct Prefix {
    bytes: Vec<u8>,
    key_len: usize,
    /// Of `bytes`, where the AlgorithmIdentifier begins and ends.
    identifier: std::ops::Range<usize>,
}

/// In the order of [`KEY_TYPES`]; none where a key cannot be written.
fn prefixes() -> &'static [Option<Prefix>] {
    static PREFIXES: OnceBox<Vec<Option<Prefix>>> = OnceBox::new();
    PREFIXES
        .get_or_init(|| Box::new(KEY_TYPES.iter().map(|&key_type| Prefix::of(key_type)).collect()))
}

impl Prefix {
    fn of(key_type: KeyType) -> Option<Prefix> {
        let key_len = key_type.info().public_key.max();
        let mut bytes =
            key_file::encode_public(file_form(key_type)?, &vec![0; key_len], true).ok()?;
        bytes.truncate(bytes.len() - key_len);
        // The head of the outer SEQUENCE, as long as its length says; then tag and length.
        let start = match bytes[1] {
            0..0x80 => 2,
            long => 2 + usize::from(long & 0x7f),
        };
        let end = start + 2 + usize::from(bytes[start + 1]);
        Some(Prefix { bytes, key_len, identifier: start..end })
    }

    /// The key, if the structure is this prefix and a key of the right length.
    fn key<'a>(&self, der: &'a [u8]) -> Option<&'a [u8]> {
        der.strip_prefix(&self.bytes[..]).filter(|key| key.len() == self.key_len)
    }

    /// Returns whether a structure has this algorithm's identifier where a SubjectPublicKeyInfo has
    /// it.
    fn is_head_of(&self, der: &[u8]) -> bool {
        let identifier = &self.bytes[self.identifier.clone()];
        (2..=4).any(|at| der.get(at..).is_some_and(|rest| rest.starts_with(identifier)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gabion_engine::Algorithm;

    #[test]
    fn selection_decides_the_structures_served() {
        let both = [Structure::Public, Structure::Private];
        for (selection, expected) in [
            (0, [true, true]),
            (select::PUBLIC_KEY, [true, false]),
            (select::PRIVATE_KEY, [false, true]),
            (select::KEYPAIR, [false, true]),
            (0x84, [false, false]), // parameters alone
        ] {
            assert_eq!(both.map(|structure| structure.serves(selection)), expected, "{selection}");
        }
    }

    #[test]
    fn spki_prefix_matches_rfc_9881() {
        // RFC 9881, appendix C: the first bytes of the ML-DSA-44 public key.
        let key_type = KEY_TYPES.into_iter().find(|s| s.name() == "ML-DSA-44").unwrap();
        let prefix = Prefix::of(key_type).unwrap();
        let expected = [
            0x30, 0x82, 0x05, 0x32, 0x30, 0x0b, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03,
            0x04, 0x03, 0x11, 0x03, 0x82, 0x05, 0x21, 0x00,
        ];
        assert_eq!(prefix.bytes, expected);
        assert_eq!(prefix.identifier, 4..17);
        for key_type in KEY_TYPES {
            let Some(prefix) = Prefix::of(key_type) else { continue };
            assert!(prefix.is_head_of(&prefix.bytes), "{key_type}");
        }
    }

    #[test]
    fn every_algorithm_with_an_identifier_has_a_prefix() {
        for key_type in KEY_TYPES {
            let has = Prefix::of(key_type).is_some();
            assert_eq!(has, key_type.oid().is_some(), "{key_type}");
        }
        assert_eq!(file_form(KEY_TYPES[0]).map(|form| form.oid), Algorithm::MlKem512.info().oid);
    }
}
