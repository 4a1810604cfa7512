//! Botan through its C interface, loaded from the library that `build-botan.sh` makes: ML-KEM and SLH-DSA.
//!
//! Its private keys of ML-DSA are seeds and nothing else, which the slots here are not given, and those of ML-KEM
//! can be read in the expanded form and not written: no rows of ML-DSA, and none that generate keys of ML-KEM.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::null_mut;
use std::rc::Rc;

use libloading::Library;

use crate::peer::{
    Error, Identity, Kem, KemSet, Key, Operation, Peer, Randomness, Result, Secret, Signer,
};

/// The version that build-botan.sh builds.
const VERSION: &str = "3.13.0";
const NAME: &str = "botan";
/// BOTAN_FFI_INVALID_VERIFIER.
const INVALID: c_int = 1;

type Handle = *mut c_void;
type Free = unsafe extern "C" fn(Handle) -> c_int;
type LoadKey = unsafe extern "C" fn(*mut Handle, *const u8, usize, *const c_char) -> c_int;
type NewOperation = unsafe extern "C" fn(*mut Handle, Handle, *const c_char) -> c_int;
type NewSigning = unsafe extern "C" fn(*mut Handle, Handle, *const c_char, u32) -> c_int;
type Bytes = unsafe extern "C" fn(Handle, *const u8, usize) -> c_int;
type Encrypt = unsafe extern "C" fn(
    Handle,
    Handle,
    *const u8,
    usize,
    usize,
    *mut u8,
    *mut usize,
    *mut u8,
    *mut usize,
) -> c_int;
type Decrypt = unsafe extern "C" fn(
    Handle,
    *const u8,
    usize,
    *const u8,
    usize,
    usize,
    *mut u8,
    *mut usize,
) -> c_int;

struct Functions {
    rng: Handle,
    rng_free: Free,
    private_create:
        unsafe extern "C" fn(*mut Handle, *const c_char, *const c_char, Handle) -> c_int,
    private_load_kem: LoadKey,
    public_load_kem: LoadKey,
    public_of: unsafe extern "C" fn(*mut Handle, Handle) -> c_int,
    private_free: Free,
    public_free: Free,
    encrypt_new: NewOperation,
    encrypt: Encrypt,
    encrypt_free: Free,
    decrypt_new: NewOperation,
    decrypt: Decrypt,
    decrypt_free: Free,
    sign_new: NewSigning,
    sign_length: unsafe extern "C" fn(Handle, *mut usize) -> c_int,
    sign_update: Bytes,
    sign_finish: unsafe extern "C" fn(Handle, Handle, *mut u8, *mut usize) -> c_int,
    sign_free: Free,
    verify_new: NewSigning,
    verify_update: Bytes,
    verify_finish: Bytes,
    verify_free: Free,
    _library: Library,
}

impl Drop for Functions {
    fn drop(&mut self) {
        // SAFETY: made by the same library and not freed before.
        unsafe { (self.rng_free)(self.rng) };
    }
}

/// An object of the library.
struct Object {
    functions: Rc<Functions>,
    handle: Handle,
    free: Free,
}

impl Drop for Object {
    fn drop(&mut self) {
        // SAFETY: made by the same library and not freed before.
        unsafe { (self.free)(self.handle) };
    }
}

/// An error for every code but that of success.
fn check(call: &'static str, code: c_int) -> Result<()> {
    match code {
        0 => Ok(()),
        code => Err(Error::Call { peer: NAME, call, detail: format!("code {code}") }),
    }
}

/// Makes an object by a function that writes its handle.
fn object(
    functions: &Rc<Functions>,
    call: &'static str,
    free: Free,
    make: impl FnOnce(*mut Handle) -> c_int,
) -> Result<Object> {
    let mut handle = null_mut();
    check(call, make(&mut handle))?;
    Ok(Object { functions: Rc::clone(functions), handle, free })
}

/// The library.
pub struct Botan {
    identity: Identity,
    functions: Rc<Functions>,
}

impl Botan {
    /// Loads what `build-botan.sh` left in the cache.
    pub fn load() -> Result<Botan> {
        let folder = crate::cache_folder()?.join(format!("peers/botan-{VERSION}"));
        let path = folder.join("lib/libbotan-3.so");
        let missing = |error: libloading::Error| {
            Error::Environment(format!(
                "Botan is not usable from {}: {error}; run bench/peers/build-botan.sh",
                path.display()
            ))
        };
        // SAFETY: the library's constructors have no preconditions.
        let library = unsafe { Library::new(&path) }.map_err(missing)?;
        macro_rules! symbol {
            ($name:literal) => {
                // SAFETY: the type it is assigned to is the one in the headers of the version
                // that is checked below.
                *unsafe { library.get(concat!($name, "\0").as_bytes()) }.map_err(missing)?
            };
        }
        let version: unsafe extern "C" fn() -> *const c_char = symbol!("botan_version_string");
        // SAFETY: the function returns a static string.
        let text = unsafe { CStr::from_ptr(version()) }.to_string_lossy().into_owned();
        if text.split(' ').nth(1) != Some(VERSION) {
            return Err(Error::Environment(format!(
                "{} is {text}, expected Botan {VERSION}",
                path.display()
            )));
        }
        let rng_new: unsafe extern "C" fn(*mut Handle, *const c_char) -> c_int =
            symbol!("botan_rng_init");
        let mut rng = null_mut();
        // SAFETY: the handle is written to a variable, and the name ends with a zero.
        check("botan_rng_init", unsafe { rng_new(&mut rng, c"system".as_ptr()) })?;
        let functions = Functions {
            rng,
            rng_free: symbol!("botan_rng_destroy"),
            private_create: symbol!("botan_privkey_create"),
            private_load_kem: symbol!("botan_privkey_load_ml_kem"),
            public_load_kem: symbol!("botan_pubkey_load_ml_kem"),
            public_of: symbol!("botan_privkey_export_pubkey"),
            private_free: symbol!("botan_privkey_destroy"),
            public_free: symbol!("botan_pubkey_destroy"),
            encrypt_new: symbol!("botan_pk_op_kem_encrypt_create"),
            encrypt: symbol!("botan_pk_op_kem_encrypt_create_shared_key"),
            encrypt_free: symbol!("botan_pk_op_kem_encrypt_destroy"),
            decrypt_new: symbol!("botan_pk_op_kem_decrypt_create"),
            decrypt: symbol!("botan_pk_op_kem_decrypt_shared_key"),
            decrypt_free: symbol!("botan_pk_op_kem_decrypt_destroy"),
            sign_new: symbol!("botan_pk_op_sign_create"),
            sign_length: symbol!("botan_pk_op_sign_output_length"),
            sign_update: symbol!("botan_pk_op_sign_update"),
            sign_finish: symbol!("botan_pk_op_sign_finish"),
            sign_free: symbol!("botan_pk_op_sign_destroy"),
            verify_new: symbol!("botan_pk_op_verify_create"),
            verify_update: symbol!("botan_pk_op_verify_update"),
            verify_finish: symbol!("botan_pk_op_verify_finish"),
            verify_free: symbol!("botan_pk_op_verify_destroy"),
            _library: library,
        };
        let build = std::fs::read_to_string(folder.join("FLAGS")).unwrap_or_default();
        Ok(Botan {
            identity: Identity {
                name: NAME.to_owned(),
                version: VERSION.to_owned(),
                license: "BSD-2-Clause".to_owned(),
                build: build.trim().to_owned(),
            },
            functions: Rc::new(functions),
        })
    }
}

impl Peer for Botan {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn kem(&self, set: &'static KemSet) -> Result<Option<Box<dyn Kem>>> {
        let name = CString::new(set.name).unwrap_or_default();
        let functions = Rc::clone(&self.functions);
        Ok(Some(Box::new(KemSlot { functions, name, encryptor: None, decryptor: None })))
    }

    fn signer(&self, name: &str) -> Result<Option<Box<dyn Signer>>> {
        if !name.starts_with("SLH-DSA-") {
            return Ok(None);
        }
        let name = CString::new(name).unwrap_or_default();
        let (private, public) = slh_pair(&self.functions, &name)?;
        Ok(Some(Box::new(Slh { name, private, public })))
    }
}

/// One parameter set of ML-KEM. An operation of the library keeps its key; the key's object is not needed again.
struct KemSlot {
    functions: Rc<Functions>,
    name: CString,
    encryptor: Option<Object>,
    decryptor: Option<Object>,
}

impl KemSlot {
    fn encryptor(&self, ek: &[u8]) -> Result<Object> {
        let all = &self.functions;
        // SAFETY: the key has its length, the name ends with a zero.
        let key = object(all, "botan_pubkey_load_ml_kem", all.public_free, |out| unsafe {
            (all.public_load_kem)(out, ek.as_ptr(), ek.len(), self.name.as_ptr())
        })?;
        // SAFETY: the key is live; the library's operation holds it itself from then on.
        object(all, "botan_pk_op_kem_encrypt_create", all.encrypt_free, |out| unsafe {
            (all.encrypt_new)(out, key.handle, c"Raw".as_ptr())
        })
    }

    fn decryptor(&self, dk: &[u8]) -> Result<Object> {
        let all = &self.functions;
        // SAFETY: as above.
        let key = object(all, "botan_privkey_load_ml_kem", all.private_free, |out| unsafe {
            (all.private_load_kem)(out, dk.as_ptr(), dk.len(), self.name.as_ptr())
        })?;
        // SAFETY: as above.
        object(all, "botan_pk_op_kem_decrypt_create", all.decrypt_free, |out| unsafe {
            (all.decrypt_new)(out, key.handle, c"Raw".as_ptr())
        })
    }
}

fn encapsulate(operation: &Object, ct: &mut [u8]) -> Result<Secret> {
    let all = &operation.functions;
    let (mut secret, mut secret_len, mut ct_len) = ([0; 32], 32, ct.len());
    // SAFETY: both buffers have the lengths that are passed, and there is no salt.
    let code = unsafe {
        (all.encrypt)(
            operation.handle,
            all.rng,
            [].as_ptr(),
            0,
            32,
            secret.as_mut_ptr(),
            &mut secret_len,
            ct.as_mut_ptr(),
            &mut ct_len,
        )
    };
    check("botan_pk_op_kem_encrypt_create_shared_key", code)?;
    assert_eq!((secret_len, ct_len), (32, ct.len()), "the set's sizes");
    Ok(secret)
}

fn decapsulate(operation: &Object, ct: &[u8]) -> Result<Secret> {
    let (mut secret, mut len) = ([0; 32], 32);
    // SAFETY: both buffers have the lengths that are passed, and there is no salt.
    let code = unsafe {
        (operation.functions.decrypt)(
            operation.handle,
            [].as_ptr(),
            0,
            ct.as_ptr(),
            ct.len(),
            32,
            secret.as_mut_ptr(),
            &mut len,
        )
    };
    check("botan_pk_op_kem_decrypt_shared_key", code)?;
    Ok(secret)
}

fn not_loaded() -> Error {
    Error::Call { peer: NAME, call: "load", detail: "no key was loaded".to_owned() }
}

impl Kem for KemSlot {
    fn randomness(&self, operation: Operation) -> Randomness {
        match operation {
            Operation::Decaps => Randomness::None,
            _ => Randomness::Drawn,
        }
    }

    fn keeps_key(&self, operation: Operation) -> bool {
        operation != Operation::Keygen
    }

    fn does(&self, operation: Operation, _key: Key) -> bool {
        operation != Operation::Keygen
    }

    fn keygen(&mut self, _seed: &[u8; 64], _ek: &mut [u8], _dk: &mut [u8]) -> Result<()> {
        let detail = "expanded private keys are not written".to_owned();
        Err(Error::Call { peer: NAME, call: "keygen", detail })
    }

    fn load(&mut self, _seed: &[u8; 64], ek: &[u8], dk: &[u8]) -> Result<()> {
        self.encryptor = Some(self.encryptor(ek)?);
        self.decryptor = Some(self.decryptor(dk)?);
        Ok(())
    }

    fn encaps_fresh(&mut self, ek: &[u8], _m: &Secret, ct: &mut [u8]) -> Result<Secret> {
        encapsulate(&self.encryptor(ek)?, ct)
    }

    fn encaps_cached(&mut self, _m: &Secret, ct: &mut [u8]) -> Result<Secret> {
        encapsulate(self.encryptor.as_ref().ok_or_else(not_loaded)?, ct)
    }

    fn decaps_fresh(&mut self, dk: &[u8], ct: &[u8]) -> Result<Secret> {
        decapsulate(&self.decryptor(dk)?, ct)
    }

    fn decaps_cached(&mut self, ct: &[u8]) -> Result<Secret> {
        decapsulate(self.decryptor.as_ref().ok_or_else(not_loaded)?, ct)
    }
}

/// One parameter set of SLH-DSA, with a pair that the library made.
struct Slh {
    name: CString,
    private: Object,
    public: Object,
}

fn slh_pair(all: &Rc<Functions>, name: &CStr) -> Result<(Object, Object)> {
    // SAFETY: both names end with a zero.
    let private = object(all, "botan_privkey_create", all.private_free, |out| unsafe {
        (all.private_create)(out, c"SLH-DSA".as_ptr(), name.as_ptr(), all.rng)
    })?;
    // SAFETY: the private key is live.
    let public = object(all, "botan_privkey_export_pubkey", all.public_free, |out| unsafe {
        (all.public_of)(out, private.handle)
    })?;
    Ok((private, public))
}

impl Signer for Slh {
    fn keygen(&mut self) -> Result<()> {
        (self.private, self.public) = slh_pair(&self.private.functions, &self.name)?;
        Ok(())
    }

    fn sign(&mut self, message: &[u8]) -> Result<Vec<u8>> {
        let all = &self.private.functions;
        // SAFETY: the key is live, the text ends with a zero.
        let operation = object(all, "botan_pk_op_sign_create", all.sign_free, |out| unsafe {
            (all.sign_new)(out, self.private.handle, c"Randomized".as_ptr(), 0)
        })?;
        let mut len = 0;
        // SAFETY: the operation is live; message and signature have their lengths.
        unsafe {
            check("output_length", (all.sign_length)(operation.handle, &mut len))?;
            let mut signature = vec![0; len];
            let update = (all.sign_update)(operation.handle, message.as_ptr(), message.len());
            check("botan_pk_op_sign_update", update)?;
            let place = signature.as_mut_ptr();
            let code = (all.sign_finish)(operation.handle, all.rng, place, &mut len);
            check("botan_pk_op_sign_finish", code)?;
            signature.truncate(len);
            Ok(signature)
        }
    }

    fn verify(&mut self, message: &[u8], signature: &[u8]) -> Result<bool> {
        let all = &self.public.functions;
        // SAFETY: the key is live, the text ends with a zero.
        let operation = object(all, "botan_pk_op_verify_create", all.verify_free, |out| unsafe {
            (all.verify_new)(out, self.public.handle, c"".as_ptr(), 0)
        })?;
        // SAFETY: the operation is live; message and signature have their lengths.
        let code = unsafe {
            let update = (all.verify_update)(operation.handle, message.as_ptr(), message.len());
            check("botan_pk_op_verify_update", update)?;
            (all.verify_finish)(operation.handle, signature.as_ptr(), signature.len())
        };
        match code {
            INVALID => Ok(false),
            code => check("botan_pk_op_verify_finish", code).map(|()| true),
        }
    }
}
