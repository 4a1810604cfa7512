//! liboqs, loaded from the library that `build-liboqs.sh` makes: ML-KEM, ML-DSA, SPHINCS+ and
//! Falcon with AVX2.
//!
//! Its keys are byte strings only: nothing to keep. It draws all randomness by a function that the
//! caller may set; the one set here hands out what ML-KEM and ML-DSA are given.

use std::cell::Cell;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::NonNull;
use std::rc::Rc;

use libloading::Library;

use crate::peer::{
    Dsa, DsaSet, Error, Identity, Kem, KemSet, Operation, Peer, Randomness, Result, Secret, Signer,
};

/// The version that build-liboqs.sh builds.
const VERSION: &str = "0.13.0";
const NAME: &str = "liboqs";
/// OQS_SUCCESS.
const SUCCESS: c_int = 0;

thread_local! {
    /// Randomness that the next call is given, and how much of it is left: the last bytes.
    static GIVEN: Cell<([u8; 64], usize)> = const { Cell::new(([0; 64], 0)) };
}

/// Calls the library with `bytes` as its randomness, and insists that it takes them all.
fn give(bytes: &[u8], call: &'static str, function: impl FnOnce() -> c_int) -> Result<()> {
    let mut given = [0; 64];
    given[64 - bytes.len()..].copy_from_slice(bytes);
    GIVEN.set((given, bytes.len()));
    let code = function();
    let (_, left) = GIVEN.replace(([0; 64], 0));
    match (code, left) {
        (SUCCESS, 0) => Ok(()),
        (SUCCESS, left) => {
            let detail = format!("{left} bytes of randomness were not taken");
            Err(Error::Call { peer: NAME, call, detail })
        }
        (code, _) => Err(failed(call, code)),
    }
}

/// What the library calls for randomness: what is given, or else the operating system's, which is
/// what its own function returns.
unsafe extern "C" fn random_bytes(out: *mut u8, length: usize) {
    let (given, left) = GIVEN.get();
    if length != 0 && length <= left {
        // SAFETY: the library says that `out` has `length` bytes, and `given` has `left` or more.
        unsafe { out.copy_from_nonoverlapping(given[64 - left..].as_ptr(), length) };
        GIVEN.set((given, left - length));
        return;
    }
    let mut done = 0;
    while done < length {
        // SAFETY: the bytes from `done` on are the library's buffer.
        let count = unsafe { libc::getrandom(out.add(done).cast::<c_void>(), length - done, 0) };
        // A negative count is an interruption: there is nobody to tell, and the next try works.
        done += usize::try_from(count).unwrap_or(0);
    }
}

/// The head of `OQS_SIG` in the headers of the version above; functions follow, which are called
/// by name instead.
#[repr(C)]
struct Head {
    method_name: *const c_char,
    alg_version: *const c_char,
    claimed_nist_level: u8,
    euf_cma: bool,
    suf_cma: bool,
    with_context: bool,
    public_key: usize,
    secret_key: usize,
    signature: usize,
}

type Sign =
    unsafe extern "C" fn(*const Head, *mut u8, *mut usize, *const u8, usize, *const u8) -> c_int;
type Verify =
    unsafe extern "C" fn(*const Head, *const u8, usize, *const u8, usize, *const u8) -> c_int;

type KeyPair = unsafe extern "C" fn(*const c_void, *mut u8, *mut u8) -> c_int;
type Encaps = unsafe extern "C" fn(*const c_void, *mut u8, *mut u8, *const u8) -> c_int;
type Decaps = unsafe extern "C" fn(*const c_void, *mut u8, *const u8, *const u8) -> c_int;

struct Functions {
    kem_new: unsafe extern "C" fn(*const c_char) -> *mut c_void,
    kem_free: unsafe extern "C" fn(*mut c_void),
    kem_keypair: KeyPair,
    kem_encaps: Encaps,
    kem_decaps: Decaps,
    new: unsafe extern "C" fn(*const c_char) -> *mut Head,
    free: unsafe extern "C" fn(*mut Head),
    keypair: unsafe extern "C" fn(*const Head, *mut u8, *mut u8) -> c_int,
    sign: Sign,
    verify: Verify,
    _library: Library,
}

/// The library.
pub struct Liboqs {
    identity: Identity,
    functions: Rc<Functions>,
}

impl Liboqs {
    /// Loads what `build-liboqs.sh` left in the cache.
    pub fn load() -> Result<Liboqs> {
        let folder = crate::cache_folder()?.join(format!("peers/liboqs-{VERSION}"));
        let path = folder.join("lib/liboqs.so");
        let missing = |error: libloading::Error| {
            Error::Environment(format!(
                "liboqs is not usable from {}: {error}; run bench/peers/build-liboqs.sh",
                path.display()
            ))
        };
        // SAFETY: the library has no constructors with preconditions.
        let library = unsafe { Library::new(&path) }.map_err(missing)?;
        macro_rules! symbol {
            ($name:literal) => {
                // SAFETY: the type it is assigned to is the one in the headers of the version
                // that is checked below.
                *unsafe { library.get(concat!($name, "\0").as_bytes()) }.map_err(missing)?
            };
        }
        let version: unsafe extern "C" fn() -> *const c_char = symbol!("OQS_version");
        // SAFETY: the function returns a static string.
        let version = unsafe { CStr::from_ptr(version()) }.to_string_lossy().into_owned();
        if version != VERSION {
            return Err(Error::Environment(format!(
                "{} is liboqs {version}, expected {VERSION}",
                path.display()
            )));
        }
        let init: unsafe extern "C" fn() = symbol!("OQS_init");
        // SAFETY: no preconditions; the first call of all.
        unsafe { init() };
        let set_random: unsafe extern "C" fn(unsafe extern "C" fn(*mut u8, usize)) =
            symbol!("OQS_randombytes_custom_algorithm");
        // SAFETY: the function stays as long as this program.
        unsafe { set_random(random_bytes) };
        let functions = Functions {
            kem_new: symbol!("OQS_KEM_new"),
            kem_free: symbol!("OQS_KEM_free"),
            kem_keypair: symbol!("OQS_KEM_keypair"),
            kem_encaps: symbol!("OQS_KEM_encaps"),
            kem_decaps: symbol!("OQS_KEM_decaps"),
            new: symbol!("OQS_SIG_new"),
            free: symbol!("OQS_SIG_free"),
            keypair: symbol!("OQS_SIG_keypair"),
            sign: symbol!("OQS_SIG_sign"),
            verify: symbol!("OQS_SIG_verify"),
            _library: library,
        };
        let build = std::fs::read_to_string(folder.join("FLAGS")).unwrap_or_default();
        Ok(Liboqs {
            identity: Identity {
                name: NAME.to_owned(),
                version,
                license: "MIT".to_owned(),
                build: build.trim().to_owned(),
            },
            functions: Rc::new(functions),
        })
    }
}

/// The library's name for a scheme. Its SPHINCS+ "simple" sets hash as SLH-DSA does.
fn method(name: &str) -> Option<String> {
    if let Some(set) = name.strip_prefix("SLH-DSA-") {
        return Some(format!("SPHINCS+-{set}-simple"));
    }
    name.starts_with("Falcon").then(|| name.to_owned())
}

impl Peer for Liboqs {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn kem(&self, set: &'static KemSet) -> Result<Option<Box<dyn Kem>>> {
        let name = CString::new(set.name).unwrap_or_default();
        // SAFETY: the name ends with a zero.
        let object = unsafe { (self.functions.kem_new)(name.as_ptr()) };
        let Some(object) = NonNull::new(object) else {
            return Ok(None);
        };
        Ok(Some(Box::new(KemSlot { functions: Rc::clone(&self.functions), object, set })))
    }

    fn dsa(&self, set: &'static DsaSet) -> Result<Option<Box<dyn Dsa>>> {
        let Some(slot) = self.slot(set.name) else {
            return Ok(None);
        };
        let lengths = [slot.public.len(), slot.secret.len(), slot.signature];
        if lengths != [set.pk, set.sk, set.sig] {
            return Err(Error::Disagreement(format!("{}: liboqs has other lengths", set.name)));
        }
        Ok(Some(Box::new(DsaSlot { slot, set })))
    }

    fn signer(&self, name: &str) -> Result<Option<Box<dyn Signer>>> {
        let Some(mut slot) = method(name).and_then(|method| self.slot(&method)) else {
            return Ok(None);
        };
        slot.keygen()?;
        Ok(Some(Box::new(slot)))
    }
}

impl Liboqs {
    /// A signature scheme by the library's name for it, without keys yet.
    fn slot(&self, method: &str) -> Option<Slot> {
        let method = CString::new(method).unwrap_or_default();
        // SAFETY: the name ends with a zero.
        let head = NonNull::new(unsafe { (self.functions.new)(method.as_ptr()) })?;
        // SAFETY: the library made the object, which begins with `Head`.
        let lengths = unsafe { head.as_ref() };
        Some(Slot {
            functions: Rc::clone(&self.functions),
            public: vec![0; lengths.public_key],
            secret: vec![0; lengths.secret_key],
            signature: lengths.signature,
            head,
        })
    }
}

/// One parameter set of ML-KEM.
struct KemSlot {
    functions: Rc<Functions>,
    object: NonNull<c_void>,
    set: &'static KemSet,
}

impl Drop for KemSlot {
    fn drop(&mut self) {
        // SAFETY: made by the same library and not freed before.
        unsafe { (self.functions.kem_free)(self.object.as_ptr()) };
    }
}

impl Kem for KemSlot {
    fn randomness(&self, operation: Operation) -> Randomness {
        match operation {
            Operation::Decaps => Randomness::None,
            _ => Randomness::Given,
        }
    }

    fn keeps_key(&self, _operation: Operation) -> bool {
        false
    }

    fn keygen(&mut self, seed: &[u8; 64], ek: &mut [u8], dk: &mut [u8]) -> Result<()> {
        assert_eq!(
            (ek.len(), dk.len()),
            (self.set.ek, self.set.dk),
            "buffers have the set's sizes"
        );
        let (keypair, object) = (self.functions.kem_keypair, self.object.as_ptr());
        // SAFETY: the object is live and the buffers have the sizes of its set.
        give(seed, "OQS_KEM_keypair", || unsafe {
            keypair(object, ek.as_mut_ptr(), dk.as_mut_ptr())
        })
    }

    fn load(&mut self, _seed: &[u8; 64], _ek: &[u8], _dk: &[u8]) -> Result<()> {
        Ok(())
    }

    fn encaps_fresh(&mut self, ek: &[u8], m: &Secret, ct: &mut [u8]) -> Result<Secret> {
        assert_eq!(
            (ek.len(), ct.len()),
            (self.set.ek, self.set.ct),
            "buffers have the set's sizes"
        );
        let (encaps, object) = (self.functions.kem_encaps, self.object.as_ptr());
        let mut secret = [0; 32];
        // SAFETY: the object is live and the buffers have the sizes of its set.
        give(m, "OQS_KEM_encaps", || unsafe {
            encaps(object, ct.as_mut_ptr(), secret.as_mut_ptr(), ek.as_ptr())
        })?;
        Ok(secret)
    }

    fn encaps_cached(&mut self, _m: &Secret, _ct: &mut [u8]) -> Result<Secret> {
        Err(no_cached("OQS_KEM_encaps"))
    }

    fn decaps_fresh(&mut self, dk: &[u8], ct: &[u8]) -> Result<Secret> {
        assert_eq!(
            (dk.len(), ct.len()),
            (self.set.dk, self.set.ct),
            "buffers have the set's sizes"
        );
        let mut secret = [0; 32];
        // SAFETY: the object is live and the buffers have the sizes of its set.
        let code = unsafe {
            (self.functions.kem_decaps)(
                self.object.as_ptr(),
                secret.as_mut_ptr(),
                ct.as_ptr(),
                dk.as_ptr(),
            )
        };
        if code == SUCCESS { Ok(secret) } else { Err(failed("OQS_KEM_decaps", code)) }
    }

    fn decaps_cached(&mut self, _ct: &[u8]) -> Result<Secret> {
        Err(no_cached("OQS_KEM_decaps"))
    }
}

/// One parameter set of ML-DSA; the slot's own keys are not used.
struct DsaSlot {
    slot: Slot,
    set: &'static DsaSet,
}

impl Dsa for DsaSlot {
    fn randomness(&self, operation: Operation) -> Randomness {
        match operation {
            Operation::Verify => Randomness::None,
            _ => Randomness::Given,
        }
    }

    fn keeps_key(&self, _operation: Operation) -> bool {
        false
    }

    fn keygen(&mut self, xi: &[u8; 32], pk: &mut [u8], sk: &mut [u8]) -> Result<()> {
        assert_eq!(
            (pk.len(), sk.len()),
            (self.set.pk, self.set.sk),
            "buffers have the set's sizes"
        );
        let (keypair, object) = (self.slot.functions.keypair, self.slot.head.as_ptr());
        // SAFETY: the object is live and the buffers have the sizes of its set.
        give(xi, "OQS_SIG_keypair", || unsafe { keypair(object, pk.as_mut_ptr(), sk.as_mut_ptr()) })
    }

    fn load(&mut self, _pk: &[u8], _sk: &[u8]) -> Result<()> {
        Ok(())
    }

    fn sign_fresh(&mut self, sk: &[u8], message: &[u8], sig: &mut [u8]) -> Result<()> {
        assert_eq!(
            (sk.len(), sig.len()),
            (self.set.sk, self.set.sig),
            "buffers have the set's sizes"
        );
        let (sign, object) = (self.slot.functions.sign, self.slot.head.as_ptr());
        let mut length = sig.len();
        // rnd all zero is the deterministic variant (FIPS 204, Algorithm 2).
        // SAFETY: the object is live and the buffers have the sizes of its set.
        give(&[0; 32], "OQS_SIG_sign", || unsafe {
            sign(
                object,
                sig.as_mut_ptr(),
                &mut length,
                message.as_ptr(),
                message.len(),
                sk.as_ptr(),
            )
        })
    }

    fn sign_cached(&mut self, _message: &[u8], _sig: &mut [u8]) -> Result<()> {
        Err(no_cached("OQS_SIG_sign"))
    }

    fn verify_fresh(&mut self, pk: &[u8], message: &[u8], sig: &[u8]) -> Result<bool> {
        assert_eq!(pk.len(), self.set.pk, "buffers have the set's sizes");
        Ok(self.slot.verify_with(pk, message, sig))
    }

    fn verify_cached(&mut self, _message: &[u8], _sig: &[u8]) -> Result<bool> {
        Err(no_cached("OQS_SIG_verify"))
    }
}

fn no_cached(call: &'static str) -> Error {
    Error::Call { peer: NAME, call, detail: "no cached form of the key".to_owned() }
}

struct Slot {
    functions: Rc<Functions>,
    head: NonNull<Head>,
    public: Vec<u8>,
    secret: Vec<u8>,
    signature: usize,
}

impl Drop for Slot {
    fn drop(&mut self) {
        // SAFETY: made by the same library and not freed before.
        unsafe { (self.functions.free)(self.head.as_ptr()) };
    }
}

fn failed(call: &'static str, code: c_int) -> Error {
    Error::Call { peer: NAME, call, detail: format!("code {code}") }
}

impl Signer for Slot {
    fn keygen(&mut self) -> Result<()> {
        // SAFETY: the object is live and both buffers have the lengths that it states.
        let code = unsafe {
            (self.functions.keypair)(
                self.head.as_ptr(),
                self.public.as_mut_ptr(),
                self.secret.as_mut_ptr(),
            )
        };
        if code == SUCCESS { Ok(()) } else { Err(failed("OQS_SIG_keypair", code)) }
    }

    fn sign(&mut self, message: &[u8]) -> Result<Vec<u8>> {
        let mut signature = vec![0; self.signature];
        let mut length = signature.len();
        // SAFETY: the object is live, the buffers have the lengths that it states.
        let code = unsafe {
            (self.functions.sign)(
                self.head.as_ptr(),
                signature.as_mut_ptr(),
                &mut length,
                message.as_ptr(),
                message.len(),
                self.secret.as_ptr(),
            )
        };
        signature.truncate(length);
        if code == SUCCESS { Ok(signature) } else { Err(failed("OQS_SIG_sign", code)) }
    }

    fn verify(&mut self, message: &[u8], signature: &[u8]) -> Result<bool> {
        Ok(self.verify_with(&self.public, message, signature))
    }
}

impl Slot {
    /// `public` has the length that the object states.
    fn verify_with(&self, public: &[u8], message: &[u8], signature: &[u8]) -> bool {
        // SAFETY: the object is live, the lengths are those of their buffers.
        let code = unsafe {
            (self.functions.verify)(
                self.head.as_ptr(),
                message.as_ptr(),
                message.len(),
                signature.as_ptr(),
                signature.len(),
                public.as_ptr(),
            )
        };
        code == SUCCESS
    }
}
