//! LMS, HSS, XMSS and XMSS^MT of wolfSSL, from builds of their own: as it is by default, and with large caches.

use std::ffi::{CString, c_char, c_int, c_uchar, c_void};
use std::path::Path;
use std::ptr::{NonNull, null_mut};
use std::rc::Rc;

use libloading::Library;

use super::{NO_DEVICE, VERSION, check, object, opened};
use crate::peer::{Error, Identity, Peer, Result, Signer};

/// Room for a key object, whose size the library does not tell; its header makes it some hundred bytes, since trees
/// are behind pointers.
const OBJECT_BYTES: usize = 16 << 10;
/// What a callback answers that has written the private key down: `WC_LMS_RC_SAVED_TO_NV_MEMORY`, and XMSS's.
const SAVED: c_int = 4;
/// What one answers that has read it: `WC_XMSS_RC_READ_TO_MEMORY`.
const READ: c_int = 5;

type WriteFn = unsafe extern "C" fn(*const c_uchar, u32, *mut c_void) -> c_int;
type ReadFn = unsafe extern "C" fn(*mut c_uchar, u32, *mut c_void) -> c_int;

/// How a key is told its set.
enum SetParameters {
    /// Levels, height, w.
    Lms(unsafe extern "C" fn(*mut c_void, c_int, c_int, c_int) -> c_int),
    /// The standard's name. A key of XMSS is read again where it signs.
    Xmss {
        name: unsafe extern "C" fn(*mut c_void, *const c_char) -> c_int,
        read: unsafe extern "C" fn(*mut c_void, ReadFn) -> c_int,
        context: unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int,
    },
}

/// The functions of one library and scheme; the library stays loaded as long as they exist.
struct Functions {
    rng_new: unsafe extern "C" fn(*mut c_uchar, u32, *mut c_void) -> *mut c_void,
    rng_free: unsafe extern "C" fn(*mut c_void),
    init: unsafe extern "C" fn(*mut c_void, *mut c_void, c_int) -> c_int,
    free: unsafe extern "C" fn(*mut c_void),
    set_parameters: SetParameters,
    set_write: unsafe extern "C" fn(*mut c_void, WriteFn) -> c_int,
    make: unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int,
    left: unsafe extern "C" fn(*mut c_void) -> c_int,
    signature_size: unsafe extern "C" fn(*const c_void, *mut u32) -> c_int,
    sign: unsafe extern "C" fn(*mut c_void, *mut c_uchar, *mut u32, *const c_uchar, c_int) -> c_int,
    verify: unsafe extern "C" fn(*mut c_void, *const c_uchar, u32, *const c_uchar, c_int) -> c_int,
    _library: Library,
}

impl Functions {
    /// Those of keys of `Lms` or `Xmss`.
    fn load(path: &Path, scheme: &str) -> Result<Functions> {
        let library = opened(path)?;
        let missing = |error: libloading::Error| {
            Error::Environment(format!("this wolfSSL has no {scheme}: {error}"))
        };
        macro_rules! symbol {
            (key $name:literal) => {
                symbol!(format!("wc_{scheme}Key_{}", $name))
            };
            ($name:expr) => {
                // SAFETY: the type it is assigned to is the one in the headers of the version that was checked when
                // the library was opened.
                *unsafe { library.get($name.as_bytes()) }.map_err(missing)?
            };
        }
        let set_parameters = if scheme == "Lms" {
            SetParameters::Lms(symbol!(key "SetParameters"))
        } else {
            SetParameters::Xmss {
                name: symbol!(key "SetParamStr"),
                read: symbol!(key "SetReadCb"),
                context: symbol!(key "SetContext"),
            }
        };
        Ok(Functions {
            rng_new: symbol!("wc_rng_new"),
            rng_free: symbol!("wc_rng_free"),
            init: symbol!(key "Init"),
            free: symbol!(key "Free"),
            set_parameters,
            set_write: symbol!(key "SetWriteCb"),
            make: symbol!(key "MakeKey"),
            left: symbol!(key "SigsLeft"),
            signature_size: symbol!(key "GetSigLen"),
            sign: symbol!(key "Sign"),
            verify: symbol!(key "Verify"),
            _library: library,
        })
    }
}

/// wolfSSL's signatures with a state, in one configuration.
pub struct WolfHbs {
    identity: Identity,
    lms: Rc<Functions>,
    xmss: Rc<Functions>,
}

impl WolfHbs {
    /// Loads both from where build-wolfssl.sh puts them.
    pub fn load() -> Result<[WolfHbs; 2]> {
        let prefix = crate::cache_folder()?.join(format!("peers/wolfssl-hbs-{VERSION}"));
        let load = |variant: &str, name: &str| {
            let folder = prefix.join(variant);
            let path = folder.join("lib/libwolfssl.so");
            let functions = |scheme| Functions::load(&path, scheme).map(Rc::new);
            let (lms, xmss) = (functions("Lms")?, functions("Xmss")?);
            let flags = std::fs::read_to_string(folder.join("FLAGS")).map_err(|error| {
                Error::Environment(format!("no flags in {}: {error}", folder.display()))
            })?;
            let identity = Identity {
                name: name.to_owned(),
                version: VERSION.to_owned(),
                license: "GPL-3.0-or-later".to_owned(),
                build: format!("--enable-intelasm; {}", flags.trim()),
            };
            Ok::<_, Error>(WolfHbs { identity, lms, xmss })
        };
        Ok([load("default", "wolfssl")?, load("large-caches", "wolfssl-large-caches")?])
    }
}

impl Peer for WolfHbs {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn signer(&self, name: &str) -> Result<Option<Box<dyn Signer>>> {
        let functions = match (parameters(name), name.starts_with("XMSS")) {
            (Some(_), _) => &self.lms,
            (None, true) => &self.xmss,
            (None, false) => return Ok(None),
        };
        let mut slot = Slot::new(functions, name)?;
        slot.keygen()?;
        Ok(Some(Box::new(slot)))
    }
}

/// Levels, height and w of `HSS-L2_H10_W4`.
fn parameters(name: &str) -> Option<[c_int; 3]> {
    let mut parts =
        name.strip_prefix("HSS-L")?.split(['_', 'H', 'W']).filter(|part| !part.is_empty());
    let mut next = || parts.next()?.parse().ok();
    Some([next()?, next()?, next()?])
}

/// A key that signs and verifies.
struct Slot {
    functions: Rc<Functions>,
    rng: NonNull<c_void>,
    /// Its name, as `HSS-L2_H10_W4` or `XMSS-SHA2_10_256`.
    set: String,
    /// What a key of XMSS wrote last. Its address is what the callbacks get.
    written: Box<Vec<u8>>,
    /// Of 16 bytes each, for its alignment.
    object: Box<[u128]>,
    signature: usize,
}

impl Slot {
    fn new(functions: &Rc<Functions>, set: &str) -> Result<Slot> {
        // SAFETY: no nonce and no heap hint are what the nulls stand for.
        let rng = object("wc_rng_new", unsafe { (functions.rng_new)(null_mut(), 0, null_mut()) })?;
        let object = vec![0; OBJECT_BYTES / 16].into_boxed_slice();
        let (functions, written) = (Rc::clone(functions), Box::default());
        let set = set.to_owned();
        let mut slot = Slot { functions, rng, set, written, object, signature: 0 };
        slot.begin()?;
        Ok(slot)
    }

    fn pointer(&mut self) -> *mut c_void {
        self.object.as_mut_ptr().cast()
    }

    /// Makes the object one that is to get a key.
    fn begin(&mut self) -> Result<()> {
        let (functions, key) = (Rc::clone(&self.functions), self.pointer());
        // SAFETY: the object has room.
        let status = unsafe { (functions.init)(key, null_mut(), NO_DEVICE) };
        check("wc_..Key_Init", status)?;
        match functions.set_parameters {
            SetParameters::Lms(set) => {
                let [levels, h, w] = parameters(&self.set).unwrap_or_default();
                // SAFETY: the object was initialised just above, here and below.
                check("wc_LmsKey_SetParameters", unsafe { set(key, levels, h, w) })?;
                // SAFETY: as above; the function outlives every key.
                check("wc_LmsKey_SetWriteCb", unsafe { (functions.set_write)(key, write) })?;
            }
            SetParameters::Xmss { name, read: set_read, context } => {
                let set = CString::new(self.set.as_str()).unwrap_or_default();
                // SAFETY: as above; the name ends in 0.
                check("wc_XmssKey_SetParamStr", unsafe { name(key, set.as_ptr()) })?;
                // SAFETY: as above; the function outlives every key.
                check("wc_XmssKey_SetWriteCb", unsafe { (functions.set_write)(key, keep) })?;
                // SAFETY: as above.
                check("wc_XmssKey_SetReadCb", unsafe { set_read(key, read) })?;
                let written = (&raw mut *self.written).cast();
                // SAFETY: the box lives longer than the key.
                check("wc_XmssKey_SetContext", unsafe { context(key, written) })?;
            }
        }
        let mut len = 0;
        // SAFETY: as above.
        let status = unsafe { (functions.signature_size)(self.pointer(), &mut len) };
        self.signature = len as usize;
        check("wc_..Key_GetSigLen", status)
    }

    fn end(&mut self) {
        let free = self.functions.free;
        // SAFETY: the object was initialised, and not freed since.
        unsafe { free(self.pointer()) };
    }
}

/// Where a program would write its private key, nothing is written: so it is with ours.
unsafe extern "C" fn write(_key: *const c_uchar, _len: u32, _context: *mut c_void) -> c_int {
    SAVED
}

/// XMSS reads what it wrote: it goes to memory, as in wolfSSL's own benchmark.
unsafe extern "C" fn keep(key: *const c_uchar, len: u32, context: *mut c_void) -> c_int {
    // SAFETY: the context is the `written` of a key that is alive, and nobody else uses it meanwhile.
    let written: &mut Vec<u8> = unsafe { &mut *context.cast() };
    written.clear();
    // SAFETY: the library says how long its buffer is.
    written.extend_from_slice(unsafe { std::slice::from_raw_parts(key, len as usize) });
    SAVED
}

/// Gives back what [`keep`] got.
unsafe extern "C" fn read(key: *mut c_uchar, len: u32, context: *mut c_void) -> c_int {
    // SAFETY: as in `keep`.
    let written: &Vec<u8> = unsafe { &*context.cast() };
    let len = written.len().min(len as usize);
    // SAFETY: the library says how long its buffer is, and it is not of ours.
    unsafe { std::ptr::copy_nonoverlapping(written.as_ptr(), key, len) };
    READ
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.end();
        // SAFETY: made by the same library, and not freed before.
        unsafe { (self.functions.rng_free)(self.rng.as_ptr()) };
    }
}

impl Signer for Slot {
    fn keygen(&mut self) -> Result<()> {
        self.end();
        self.begin()?;
        let (make, rng) = (self.functions.make, self.rng.as_ptr());
        // SAFETY: the object is ready for a key, and the generator is live.
        check("wc_..Key_MakeKey", unsafe { make(self.pointer(), rng) })
    }

    fn sign(&mut self, message: &[u8]) -> Result<Vec<u8>> {
        let left = self.functions.left;
        // SAFETY: the object holds a key.
        if unsafe { left(self.pointer()) } == 0 {
            self.keygen()?;
        }
        let mut signature = vec![0; self.signature];
        let (sign, mut len) = (self.functions.sign, signature.len() as u32);
        let (bytes, message_len) = (message.as_ptr(), message.len() as c_int);
        // SAFETY: the object holds a key, and the lengths are those of their buffers.
        let status =
            unsafe { sign(self.pointer(), signature.as_mut_ptr(), &mut len, bytes, message_len) };
        check("wc_..Key_Sign", status)?;
        signature.truncate(len as usize);
        Ok(signature)
    }

    fn verify(&mut self, message: &[u8], signature: &[u8]) -> Result<bool> {
        let (verify, len) = (self.functions.verify, signature.len() as u32);
        let (bytes, message_len) = (message.as_ptr(), message.len() as c_int);
        // SAFETY: the object holds a key, and the lengths are those of their buffers.
        let status = unsafe { verify(self.pointer(), signature.as_ptr(), len, bytes, message_len) };
        Ok(status == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_levels_height_and_w() {
        assert_eq!(parameters("HSS-L2_H10_W4"), Some([2, 10, 4]));
        assert_eq!(parameters("HSS-L1_H15_W2"), Some([1, 15, 2]));
        for name in ["HSS-L2_H10", "XMSS-SHA2_10_256", "Ed25519", "HSS-Lx_H5_W8"] {
            assert_eq!(parameters(name), None, "{name}");
        }
    }
}
