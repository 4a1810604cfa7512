//! liboqs, loaded from the library that `build-liboqs.sh` makes: SPHINCS+ and Falcon with AVX2.

use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr::NonNull;
use std::rc::Rc;

use libloading::Library;

use crate::peer::{Error, Identity, Peer, Result, Signer};

/// The version that build-liboqs.sh builds.
const VERSION: &str = "0.13.0";
const NAME: &str = "liboqs";
/// OQS_SUCCESS.
const SUCCESS: c_int = 0;

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

struct Functions {
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
        let functions = Functions {
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
                name: NAME,
                version,
                license: "MIT",
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
    match name {
        "Falcon-512" | "FN-DSA-512" => Some("Falcon-512".to_owned()),
        "Falcon-1024" | "FN-DSA-1024" => Some("Falcon-1024".to_owned()),
        _ => None,
    }
}

impl Peer for Liboqs {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn signer(&self, name: &str) -> Result<Option<Box<dyn Signer>>> {
        let Some(method) = method(name) else {
            return Ok(None);
        };
        let method = CString::new(method).unwrap_or_default();
        // SAFETY: the name ends with a zero.
        let head = unsafe { (self.functions.new)(method.as_ptr()) };
        let Some(head) = NonNull::new(head) else {
            return Ok(None);
        };
        // SAFETY: the library made the object, which begins with `Head`.
        let lengths = unsafe { head.as_ref() };
        let mut slot = Slot {
            functions: Rc::clone(&self.functions),
            public: vec![0; lengths.public_key],
            secret: vec![0; lengths.secret_key],
            signature: lengths.signature,
            head,
        };
        slot.keygen()?;
        Ok(Some(Box::new(slot)))
    }
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
        // SAFETY: the object is live, the lengths are those of their buffers.
        let code = unsafe {
            (self.functions.verify)(
                self.head.as_ptr(),
                message.as_ptr(),
                message.len(),
                signature.as_ptr(),
                signature.len(),
                self.public.as_ptr(),
            )
        };
        Ok(code == SUCCESS)
    }
}
