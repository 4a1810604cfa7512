//! wolfSSL, loaded from the libraries that `build-wolfssl.sh` makes.
//!
//! `fresh` runs in the plain build, re-importing the encoded key into a standing key object:
//! cheaper than a new object for each. `cached` runs in the build that keeps matrix A and the
//! vectors. Its ML-KEM keeps A only in an object whose key it generated, so decapsulation gains
//! and encapsulation to somebody else's key does not: there the parsed key and H(ek) are kept.

use std::ffi::{CStr, c_char, c_int, c_uchar, c_void};
use std::path::{Path, PathBuf};
use std::ptr::{NonNull, null, null_mut};
use std::rc::Rc;

use libloading::Library;

use crate::peer::{
    Dsa, DsaSet, Error, Identity, KEM_SETS, Kem, KemSet, Operation, Peer, Randomness, Result,
    Secret, Signer,
};

mod ed25519;
mod hbs;
mod slh;

pub use hbs::WolfHbs;

/// The version that build-wolfssl.sh builds.
const VERSION: &str = "5.9.4";
const NAME: &str = "wolfssl";
const NAME_AVX2: &str = "wolfssl-avx2";

/// "No hardware device", the library's INVALID_DEVID.
pub const NO_DEVICE: c_int = -2;

type MakeKem = unsafe extern "C" fn(*mut c_void, *const c_uchar, c_int) -> c_int;
type Encode = unsafe extern "C" fn(*mut c_void, *mut c_uchar, u32) -> c_int;
type Decode = unsafe extern "C" fn(*mut c_void, *const c_uchar, u32) -> c_int;
type Export = unsafe extern "C" fn(*mut c_void, *mut c_uchar, *mut u32) -> c_int;
type Encapsulate =
    unsafe extern "C" fn(*mut c_void, *mut c_uchar, *mut c_uchar, *const c_uchar, c_int) -> c_int;
type Decapsulate = unsafe extern "C" fn(*mut c_void, *mut c_uchar, *const c_uchar, u32) -> c_int;
type Sign = unsafe extern "C" fn(
    *mut c_void,
    *const c_uchar,
    c_uchar,
    *mut c_uchar,
    *mut u32,
    *const c_uchar,
    u32,
    *const c_uchar,
) -> c_int;
type Verify = unsafe extern "C" fn(
    *mut c_void,
    *const c_uchar,
    u32,
    *const c_uchar,
    c_uchar,
    *const c_uchar,
    u32,
    *mut c_int,
) -> c_int;

type SlhMake = unsafe extern "C" fn(
    *mut c_void,
    *const c_uchar,
    u32,
    *const c_uchar,
    u32,
    *const c_uchar,
    u32,
) -> c_int;
type SlhSign = unsafe extern "C" fn(
    *mut c_void,
    *const c_uchar,
    c_uchar,
    *const c_uchar,
    u32,
    *mut c_uchar,
    *mut u32,
) -> c_int;
type SlhVerify = unsafe extern "C" fn(
    *mut c_void,
    *const c_uchar,
    c_uchar,
    *const c_uchar,
    u32,
    *const c_uchar,
    u32,
) -> c_int;

/// The functions of SLH-DSA; the library stays loaded as long as they exist.
pub struct SlhFunctions {
    /// wc_SlhDsaKey_Init
    pub init: unsafe extern "C" fn(*mut c_void, c_int, *mut c_void, c_int) -> c_int,
    /// wc_SlhDsaKey_Free
    pub free: unsafe extern "C" fn(*mut c_void),
    /// wc_SlhDsaKey_SigSize
    pub signature_size: unsafe extern "C" fn(*mut c_void) -> c_int,
    /// wc_SlhDsaKey_MakeKeyWithRandom
    pub make: SlhMake,
    /// wc_SlhDsaKey_SignDeterministic
    pub sign: SlhSign,
    /// wc_SlhDsaKey_Verify
    pub verify: SlhVerify,
    _plain: Rc<Functions>,
}

impl SlhFunctions {
    fn load(plain: &Rc<Functions>) -> Result<SlhFunctions> {
        let missing = |error: libloading::Error| {
            Error::Environment(format!("this wolfSSL has no SLH-DSA: {error}"))
        };
        macro_rules! symbol {
            ($name:literal) => {
                // SAFETY: the type it is assigned to is the one in the headers of the version
                // that was checked when the library was loaded.
                *unsafe { plain.library.get(concat!($name, "\0").as_bytes()) }.map_err(missing)?
            };
        }
        Ok(SlhFunctions {
            init: symbol!("wc_SlhDsaKey_Init"),
            free: symbol!("wc_SlhDsaKey_Free"),
            signature_size: symbol!("wc_SlhDsaKey_SigSize"),
            make: symbol!("wc_SlhDsaKey_MakeKeyWithRandom"),
            sign: symbol!("wc_SlhDsaKey_SignDeterministic"),
            verify: symbol!("wc_SlhDsaKey_Verify"),
            _plain: Rc::clone(plain),
        })
    }
}

/// The functions of Ed25519; the library stays loaded as long as they exist.
pub struct Ed25519Functions {
    /// wc_ed25519_new
    pub new: unsafe extern "C" fn(*mut c_void, c_int, *mut c_int) -> *mut c_void,
    /// wc_ed25519_delete
    pub delete: unsafe extern "C" fn(*mut c_void, *mut *mut c_void) -> c_int,
    /// wc_ed25519_import_private_only
    pub import_seed: unsafe extern "C" fn(*const c_uchar, u32, *mut c_void) -> c_int,
    /// wc_ed25519_make_public
    pub make_public: unsafe extern "C" fn(*mut c_void, *mut c_uchar, u32) -> c_int,
    /// wc_ed25519_sign_msg
    pub sign:
        unsafe extern "C" fn(*const c_uchar, u32, *mut c_uchar, *mut u32, *mut c_void) -> c_int,
    /// wc_ed25519_verify_msg
    pub verify: unsafe extern "C" fn(
        *const c_uchar,
        u32,
        *const c_uchar,
        u32,
        *mut c_int,
        *mut c_void,
    ) -> c_int,
    _plain: Rc<Functions>,
}

impl Ed25519Functions {
    fn load(plain: &Rc<Functions>) -> Result<Ed25519Functions> {
        let missing = |error: libloading::Error| {
            Error::Environment(format!("this wolfSSL has no Ed25519: {error}"))
        };
        macro_rules! symbol {
            ($name:literal) => {
                // SAFETY: the type it is assigned to is the one in the headers of the version
                // that was checked when the library was loaded.
                *unsafe { plain.library.get(concat!($name, "\0").as_bytes()) }.map_err(missing)?
            };
        }
        Ok(Ed25519Functions {
            new: symbol!("wc_ed25519_new"),
            delete: symbol!("wc_ed25519_delete"),
            import_seed: symbol!("wc_ed25519_import_private_only"),
            make_public: symbol!("wc_ed25519_make_public"),
            sign: symbol!("wc_ed25519_sign_msg"),
            verify: symbol!("wc_ed25519_verify_msg"),
            _plain: Rc::clone(plain),
        })
    }
}

/// The functions of one library; the library stays loaded as long as they exist.
struct Functions {
    kem_new: unsafe extern "C" fn(c_int, *mut c_void, c_int) -> *mut c_void,
    kem_delete: unsafe extern "C" fn(*mut c_void, *mut *mut c_void) -> c_int,
    kem_make: MakeKem,
    kem_encode_public: Encode,
    kem_encode_private: Encode,
    kem_decode_public: Decode,
    kem_decode_private: Decode,
    kem_encapsulate: Encapsulate,
    kem_decapsulate: Decapsulate,
    dsa_new: unsafe extern "C" fn(*mut c_void, c_int) -> *mut c_void,
    dsa_delete: unsafe extern "C" fn(*mut c_void, *mut *mut c_void) -> c_int,
    dsa_set_params: unsafe extern "C" fn(*mut c_void, c_uchar) -> c_int,
    dsa_make: unsafe extern "C" fn(*mut c_void, *const c_uchar) -> c_int,
    dsa_export_public: Export,
    dsa_export_private: Export,
    dsa_import_public: Decode,
    dsa_import_private: Decode,
    dsa_sign: Sign,
    dsa_verify: Verify,
    library: Library,
}

/// Opens one library, which is of the right version, and begins to use it.
fn opened(path: &Path) -> Result<Library> {
    let missing = |error: libloading::Error| {
        Error::Environment(format!(
            "wolfSSL is not usable from {}: {error}; run bench/peers/build-wolfssl.sh",
            path.display()
        ))
    };
    // SAFETY: the library has no constructors with preconditions. It is opened by a path
    // with a slash, so both variants load although they share a name inside.
    let library = unsafe { Library::new(path) }.map_err(missing)?;
    // SAFETY: each type below is the one in the headers of the version checked here.
    unsafe {
        let version = library
            .get::<unsafe extern "C" fn() -> *const c_char>(b"wolfSSL_lib_version\0")
            .map_err(missing)?;
        let version = CStr::from_ptr(version()).to_string_lossy().into_owned();
        if version != VERSION {
            return Err(Error::Environment(format!(
                "{} is wolfSSL {version}, expected {VERSION}",
                path.display()
            )));
        }
        let init =
            library.get::<unsafe extern "C" fn() -> c_int>(b"wolfCrypt_Init\0").map_err(missing)?;
        check("wolfCrypt_Init", init())?;
    }
    Ok(library)
}

impl Functions {
    fn load(path: &Path) -> Result<Functions> {
        let library = opened(path)?;
        let missing = |error: libloading::Error| {
            Error::Environment(format!("{} is not whole: {error}", path.display()))
        };
        // SAFETY: each type below is the one in the headers of the version that was checked.
        unsafe {
            macro_rules! symbol {
                ($name:literal) => {
                    *library.get(concat!($name, "\0").as_bytes()).map_err(missing)?
                };
            }
            Ok(Functions {
                kem_new: symbol!("wc_MlKemKey_New"),
                kem_delete: symbol!("wc_MlKemKey_Delete"),
                kem_make: symbol!("wc_MlKemKey_MakeKeyWithRandom"),
                kem_encode_public: symbol!("wc_MlKemKey_EncodePublicKey"),
                kem_encode_private: symbol!("wc_MlKemKey_EncodePrivateKey"),
                kem_decode_public: symbol!("wc_MlKemKey_DecodePublicKey"),
                kem_decode_private: symbol!("wc_MlKemKey_DecodePrivateKey"),
                kem_encapsulate: symbol!("wc_MlKemKey_EncapsulateWithRandom"),
                kem_decapsulate: symbol!("wc_MlKemKey_Decapsulate"),
                dsa_new: symbol!("wc_MlDsaKey_New"),
                dsa_delete: symbol!("wc_MlDsaKey_Delete"),
                dsa_set_params: symbol!("wc_MlDsaKey_SetParams"),
                dsa_make: symbol!("wc_MlDsaKey_MakeKeyFromSeed"),
                dsa_export_public: symbol!("wc_MlDsaKey_ExportPubRaw"),
                dsa_export_private: symbol!("wc_MlDsaKey_ExportPrivRaw"),
                dsa_import_public: symbol!("wc_MlDsaKey_ImportPubRaw"),
                dsa_import_private: symbol!("wc_MlDsaKey_ImportPrivRaw"),
                dsa_sign: symbol!("wc_MlDsaKey_SignCtxWithSeed"),
                dsa_verify: symbol!("wc_MlDsaKey_VerifyCtx"),
                library,
            })
        }
    }
}

/// wolfSSL in one configuration.
pub struct Wolfssl {
    identity: Identity,
    plain: Rc<Functions>,
    cached: Option<Rc<Functions>>,
}

impl Wolfssl {
    /// Loads the two configurations from `prefix`, or from where build-wolfssl.sh puts them:
    /// the one with all its assembly, and the one without AVX-512, which has only fresh keys.
    pub fn load(prefix: Option<PathBuf>) -> Result<[Wolfssl; 2]> {
        let prefix = match prefix {
            Some(prefix) => prefix,
            None => crate::cache_folder()?.join(format!("peers/wolfssl-{VERSION}")),
        };
        let load = |variant: &str| {
            let folder = prefix.join(variant);
            let flags = std::fs::read_to_string(folder.join("FLAGS")).map_err(|error| {
                Error::Environment(format!(
                    "no finished wolfSSL build in {}: {error}; run bench/peers/build-wolfssl.sh",
                    folder.display()
                ))
            })?;
            let functions = Functions::load(&folder.join("lib/libwolfssl.so"))?;
            Ok((Rc::new(functions), flags.trim().to_owned()))
        };
        let identity = |name: &str, build| Identity {
            name: name.to_owned(),
            version: VERSION.to_owned(),
            license: "GPL-3.0-or-later".to_owned(),
            build: format!("--enable-intelasm; {build}"),
        };
        let (plain, plain_flags) = load("plain")?;
        let (cached, cached_flags) = load("cached")?;
        let (avx2, avx2_flags) = load("avx2")?;
        let flags = format!("fresh {plain_flags}; cached {cached_flags}");
        Ok([
            Wolfssl { identity: identity(NAME, flags), plain, cached: Some(cached) },
            Wolfssl { identity: identity(NAME_AVX2, avx2_flags), plain: avx2, cached: None },
        ])
    }
}

impl Peer for Wolfssl {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn kem(&self, set: &'static KemSet) -> Result<Option<Box<dyn Kem>>> {
        let Some(kind) = KEM_SETS.iter().position(|known| known == set) else {
            return Ok(None);
        };
        Ok(Some(Box::new(WolfKem {
            set,
            plain: KemKey::new(&self.plain, kind)?,
            kept: match &self.cached {
                Some(cached) => Some((KemKey::new(&self.plain, kind)?, KemKey::new(cached, kind)?)),
                None => None,
            },
        })))
    }

    fn dsa(&self, set: &'static DsaSet) -> Result<Option<Box<dyn Dsa>>> {
        Ok(Some(Box::new(WolfDsa {
            set,
            plain: DsaKey::new(&self.plain, set)?,
            kept: match &self.cached {
                Some(cached) => Some((DsaKey::new(cached, set)?, DsaKey::new(cached, set)?)),
                None => None,
            },
        })))
    }

    fn signer(&self, name: &str) -> Result<Option<Box<dyn Signer>>> {
        match name {
            // It has no AVX-512 code, so that both configurations are one here.
            "Ed25519" if self.cached.is_some() => {
                ed25519::slot(Ed25519Functions::load(&self.plain)?).map(Some)
            }
            _ => slh::slot(SlhFunctions::load(&self.plain)?, name),
        }
    }
}

/// 0 is success, everything else the library's error number.
pub fn check(call: &'static str, status: c_int) -> Result<()> {
    match status {
        0 => Ok(()),
        status => Err(Error::Call { peer: NAME, call, detail: status.to_string() }),
    }
}

/// An object of the library, never null.
pub fn object(call: &'static str, pointer: *mut c_void) -> Result<NonNull<c_void>> {
    let detail = "no memory".to_owned();
    NonNull::new(pointer).ok_or(Error::Call { peer: NAME, call, detail })
}

/// The loaded keys, or the caller's mistake.
fn kept<T>(keys: &mut Option<T>) -> Result<&mut T> {
    let detail = "this configuration keeps no keys".to_owned();
    keys.as_mut().ok_or(Error::Call { peer: NAME, call: "load", detail })
}

/// A key object of ML-KEM.
struct KemKey {
    functions: Rc<Functions>,
    key: NonNull<c_void>,
}

impl KemKey {
    /// `kind` counts 512, 768, 1024 from 0, which is the library's own numbering.
    fn new(functions: &Rc<Functions>, kind: usize) -> Result<KemKey> {
        // SAFETY: no heap hint and no device are what the null and NO_DEVICE stand for.
        let key = unsafe { (functions.kem_new)(kind as c_int, null_mut(), NO_DEVICE) };
        Ok(KemKey { functions: Rc::clone(functions), key: object("wc_MlKemKey_New", key)? })
    }

    fn make(&mut self, seed: &[u8; 64]) -> Result<()> {
        // SAFETY: the key is live and the seed has the 64 bytes it says.
        let status = unsafe { (self.functions.kem_make)(self.key.as_ptr(), seed.as_ptr(), 64) };
        check("wc_MlKemKey_MakeKeyWithRandom", status)
    }

    fn decode_public(&mut self, ek: &[u8]) -> Result<()> {
        // SAFETY: the key is live; the library checks the length and reads no more than it.
        let status = unsafe {
            (self.functions.kem_decode_public)(self.key.as_ptr(), ek.as_ptr(), ek.len() as u32)
        };
        check("wc_MlKemKey_DecodePublicKey", status)
    }

    fn encapsulate(&mut self, m: &Secret, ct: &mut [u8]) -> Result<Secret> {
        let mut secret = [0; 32];
        // SAFETY: the key is live, `ct` has the size of its parameter set (checked by the
        // caller), and the other two have 32 bytes.
        let status = unsafe {
            (self.functions.kem_encapsulate)(
                self.key.as_ptr(),
                ct.as_mut_ptr(),
                secret.as_mut_ptr(),
                m.as_ptr(),
                32,
            )
        };
        check("wc_MlKemKey_EncapsulateWithRandom", status)?;
        Ok(secret)
    }

    fn decapsulate(&mut self, ct: &[u8]) -> Result<Secret> {
        let mut secret = [0; 32];
        // SAFETY: the key is live; the library checks the length of the ciphertext.
        let status = unsafe {
            (self.functions.kem_decapsulate)(
                self.key.as_ptr(),
                secret.as_mut_ptr(),
                ct.as_ptr(),
                ct.len() as u32,
            )
        };
        check("wc_MlKemKey_Decapsulate", status)?;
        Ok(secret)
    }
}

impl Drop for KemKey {
    fn drop(&mut self) {
        // SAFETY: made by kem_new of the same library and not deleted before.
        unsafe { (self.functions.kem_delete)(self.key.as_ptr(), null_mut()) };
    }
}

struct WolfKem {
    set: &'static KemSet,
    plain: KemKey,
    /// Loaded public and private key.
    kept: Option<(KemKey, KemKey)>,
}

impl Kem for WolfKem {
    fn randomness(&self, operation: Operation) -> Randomness {
        match operation {
            Operation::Decaps => Randomness::None,
            _ => Randomness::Given,
        }
    }

    fn keeps_key(&self, operation: Operation) -> bool {
        operation != Operation::Keygen && self.kept.is_some()
    }

    fn keygen(&mut self, seed: &[u8; 64], ek: &mut [u8], dk: &mut [u8]) -> Result<()> {
        self.plain.make(seed)?;
        let (functions, key) = (&self.plain.functions, self.plain.key.as_ptr());
        // SAFETY: the key is live; the library checks the length of the buffer.
        let status =
            unsafe { (functions.kem_encode_public)(key, ek.as_mut_ptr(), ek.len() as u32) };
        check("wc_MlKemKey_EncodePublicKey", status)?;
        // SAFETY: as above.
        let status =
            unsafe { (functions.kem_encode_private)(key, dk.as_mut_ptr(), dk.len() as u32) };
        check("wc_MlKemKey_EncodePrivateKey", status)
    }

    fn load(&mut self, seed: &[u8; 64], ek: &[u8], _dk: &[u8]) -> Result<()> {
        let Some((public, private)) = &mut self.kept else {
            return Ok(());
        };
        public.decode_public(ek)?;
        private.make(seed)
    }

    fn encaps_fresh(&mut self, ek: &[u8], m: &Secret, ct: &mut [u8]) -> Result<Secret> {
        assert_eq!(ct.len(), self.set.ct, "callers size their buffers by the set");
        self.plain.decode_public(ek)?;
        self.plain.encapsulate(m, ct)
    }

    fn encaps_cached(&mut self, m: &Secret, ct: &mut [u8]) -> Result<Secret> {
        assert_eq!(ct.len(), self.set.ct, "callers size their buffers by the set");
        kept(&mut self.kept)?.0.encapsulate(m, ct)
    }

    fn decaps_fresh(&mut self, dk: &[u8], ct: &[u8]) -> Result<Secret> {
        let (functions, key) = (&self.plain.functions, self.plain.key.as_ptr());
        // SAFETY: the key is live; the library checks the length and reads no more than it.
        let status = unsafe { (functions.kem_decode_private)(key, dk.as_ptr(), dk.len() as u32) };
        check("wc_MlKemKey_DecodePrivateKey", status)?;
        self.plain.decapsulate(ct)
    }

    fn decaps_cached(&mut self, ct: &[u8]) -> Result<Secret> {
        kept(&mut self.kept)?.1.decapsulate(ct)
    }
}

/// A key object of ML-DSA.
struct DsaKey {
    functions: Rc<Functions>,
    key: NonNull<c_void>,
}

impl DsaKey {
    fn new(functions: &Rc<Functions>, set: &DsaSet) -> Result<DsaKey> {
        // The library numbers the sets by NIST category: 2, 3, 5.
        let level = match set.name {
            "ML-DSA-44" => 2,
            "ML-DSA-65" => 3,
            _ => 5,
        };
        // SAFETY: no heap hint and no device are what the null and NO_DEVICE stand for.
        let key = unsafe { (functions.dsa_new)(null_mut(), NO_DEVICE) };
        let key = DsaKey { functions: Rc::clone(functions), key: object("wc_MlDsaKey_New", key)? };
        // SAFETY: the key is live.
        let status = unsafe { (functions.dsa_set_params)(key.key.as_ptr(), level) };
        check("wc_MlDsaKey_SetParams", status)?;
        Ok(key)
    }

    fn import_public(&mut self, pk: &[u8]) -> Result<()> {
        // SAFETY: the key is live; the library checks the length and reads no more than it.
        let status = unsafe {
            (self.functions.dsa_import_public)(self.key.as_ptr(), pk.as_ptr(), pk.len() as u32)
        };
        check("wc_MlDsaKey_ImportPubRaw", status)
    }

    fn import_private(&mut self, sk: &[u8]) -> Result<()> {
        // SAFETY: as in import_public.
        let status = unsafe {
            (self.functions.dsa_import_private)(self.key.as_ptr(), sk.as_ptr(), sk.len() as u32)
        };
        check("wc_MlDsaKey_ImportPrivRaw", status)
    }

    fn sign(&mut self, message: &[u8], sig: &mut [u8]) -> Result<()> {
        let mut length = sig.len() as u32;
        // SAFETY: the key is live, every length is that of its buffer, the seed has 32 bytes.
        let status = unsafe {
            (self.functions.dsa_sign)(
                self.key.as_ptr(),
                null(),
                0,
                sig.as_mut_ptr(),
                &mut length,
                message.as_ptr(),
                message.len() as u32,
                [0_u8; 32].as_ptr(),
            )
        };
        check("wc_MlDsaKey_SignCtxWithSeed", status)
    }

    fn verify(&mut self, message: &[u8], sig: &[u8]) -> Result<bool> {
        let mut verdict = 0;
        // SAFETY: the key is live and every length is that of its buffer.
        let status = unsafe {
            (self.functions.dsa_verify)(
                self.key.as_ptr(),
                sig.as_ptr(),
                sig.len() as u32,
                null(),
                0,
                message.as_ptr(),
                message.len() as u32,
                &mut verdict,
            )
        };
        check("wc_MlDsaKey_VerifyCtx", status)?;
        Ok(verdict == 1)
    }
}

impl Drop for DsaKey {
    fn drop(&mut self) {
        // SAFETY: made by dsa_new of the same library and not deleted before.
        unsafe { (self.functions.dsa_delete)(self.key.as_ptr(), null_mut()) };
    }
}

struct WolfDsa {
    set: &'static DsaSet,
    plain: DsaKey,
    /// Loaded public and private key.
    kept: Option<(DsaKey, DsaKey)>,
}

impl Dsa for WolfDsa {
    fn randomness(&self, operation: Operation) -> Randomness {
        match operation {
            Operation::Verify => Randomness::None,
            _ => Randomness::Given,
        }
    }

    fn keeps_key(&self, operation: Operation) -> bool {
        operation != Operation::Keygen && self.kept.is_some()
    }

    fn keygen(&mut self, xi: &[u8; 32], pk: &mut [u8], sk: &mut [u8]) -> Result<()> {
        let (functions, key) = (&self.plain.functions, self.plain.key.as_ptr());
        // SAFETY: the key is live and the seed has the 32 bytes of xi.
        check("wc_MlDsaKey_MakeKeyFromSeed", unsafe { (functions.dsa_make)(key, xi.as_ptr()) })?;
        let mut length = pk.len() as u32;
        // SAFETY: the key is live and `length` is that of the buffer.
        let status = unsafe { (functions.dsa_export_public)(key, pk.as_mut_ptr(), &mut length) };
        check("wc_MlDsaKey_ExportPubRaw", status)?;
        let mut length = sk.len() as u32;
        // SAFETY: as above.
        let status = unsafe { (functions.dsa_export_private)(key, sk.as_mut_ptr(), &mut length) };
        check("wc_MlDsaKey_ExportPrivRaw", status)
    }

    fn load(&mut self, pk: &[u8], sk: &[u8]) -> Result<()> {
        let Some((public, private)) = &mut self.kept else {
            return Ok(());
        };
        public.import_public(pk)?;
        private.import_private(sk)
    }

    fn sign_fresh(&mut self, sk: &[u8], message: &[u8], sig: &mut [u8]) -> Result<()> {
        assert_eq!(sk.len(), self.set.sk, "callers size their buffers by the set");
        self.plain.import_private(sk)?;
        self.plain.sign(message, sig)
    }

    fn sign_cached(&mut self, message: &[u8], sig: &mut [u8]) -> Result<()> {
        kept(&mut self.kept)?.1.sign(message, sig)
    }

    fn verify_fresh(&mut self, pk: &[u8], message: &[u8], sig: &[u8]) -> Result<bool> {
        self.plain.import_public(pk)?;
        self.plain.verify(message, sig)
    }

    fn verify_cached(&mut self, message: &[u8], sig: &[u8]) -> Result<bool> {
        kept(&mut self.kept)?.0.verify(message, sig)
    }
}
