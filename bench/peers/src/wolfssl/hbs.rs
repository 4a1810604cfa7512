//! LMS and HSS of wolfSSL, from builds of their own: as it is by default, and with large caches.

use std::ffi::{c_int, c_uchar, c_void};
use std::path::Path;
use std::ptr::{NonNull, null_mut};
use std::rc::Rc;

use libloading::Library;

use super::{NO_DEVICE, VERSION, check, object, opened};
use crate::peer::{Error, Identity, Peer, Result, Signer};

/// Room for a key object, whose size the library does not tell; its header makes it some hundred bytes, since trees
/// are behind pointers.
const OBJECT_BYTES: usize = 16 << 10;
/// What a callback answers that has written the private key down: `WC_LMS_RC_SAVED_TO_NV_MEMORY`.
const SAVED: c_int = 4;

type Write = unsafe extern "C" fn(*const c_uchar, u32, *mut c_void) -> c_int;

/// The functions of one library; the library stays loaded as long as they exist.
struct Functions {
    rng_new: unsafe extern "C" fn(*mut c_uchar, u32, *mut c_void) -> *mut c_void,
    rng_free: unsafe extern "C" fn(*mut c_void),
    init: unsafe extern "C" fn(*mut c_void, *mut c_void, c_int) -> c_int,
    free: unsafe extern "C" fn(*mut c_void),
    set_parameters: unsafe extern "C" fn(*mut c_void, c_int, c_int, c_int) -> c_int,
    set_write: unsafe extern "C" fn(*mut c_void, Write) -> c_int,
    make: unsafe extern "C" fn(*mut c_void, *mut c_void) -> c_int,
    left: unsafe extern "C" fn(*mut c_void) -> c_int,
    signature_size: unsafe extern "C" fn(*const c_void, *mut u32) -> c_int,
    sign: unsafe extern "C" fn(*mut c_void, *mut c_uchar, *mut u32, *const c_uchar, c_int) -> c_int,
    verify: unsafe extern "C" fn(*mut c_void, *const c_uchar, u32, *const c_uchar, c_int) -> c_int,
    _library: Library,
}

impl Functions {
    fn load(path: &Path) -> Result<Functions> {
        let library = opened(path)?;
        let missing = |error: libloading::Error| {
            Error::Environment(format!("this wolfSSL has no LMS: {error}"))
        };
        macro_rules! symbol {
            ($name:literal) => {
                // SAFETY: the type it is assigned to is the one in the headers of the version that was checked when
                // the library was opened.
                *unsafe { library.get(concat!($name, "\0").as_bytes()) }.map_err(missing)?
            };
        }
        Ok(Functions {
            rng_new: symbol!("wc_rng_new"),
            rng_free: symbol!("wc_rng_free"),
            init: symbol!("wc_LmsKey_Init"),
            free: symbol!("wc_LmsKey_Free"),
            set_parameters: symbol!("wc_LmsKey_SetParameters"),
            set_write: symbol!("wc_LmsKey_SetWriteCb"),
            make: symbol!("wc_LmsKey_MakeKey"),
            left: symbol!("wc_LmsKey_SigsLeft"),
            signature_size: symbol!("wc_LmsKey_GetSigLen"),
            sign: symbol!("wc_LmsKey_Sign"),
            verify: symbol!("wc_LmsKey_Verify"),
            _library: library,
        })
    }
}

/// wolfSSL's signatures with a state, in one configuration.
pub struct WolfHbs {
    identity: Identity,
    functions: Rc<Functions>,
}

impl WolfHbs {
    /// Loads both from where build-wolfssl.sh puts them.
    pub fn load() -> Result<[WolfHbs; 2]> {
        let prefix = crate::cache_folder()?.join(format!("peers/wolfssl-hbs-{VERSION}"));
        let load = |variant: &str, name: &str| {
            let folder = prefix.join(variant);
            let functions = Rc::new(Functions::load(&folder.join("lib/libwolfssl.so"))?);
            let flags = std::fs::read_to_string(folder.join("FLAGS")).map_err(|error| {
                Error::Environment(format!("no flags in {}: {error}", folder.display()))
            })?;
            let identity = Identity {
                name: name.to_owned(),
                version: VERSION.to_owned(),
                license: "GPL-3.0-or-later".to_owned(),
                build: format!("--enable-intelasm; {}", flags.trim()),
            };
            Ok::<_, Error>(WolfHbs { identity, functions })
        };
        Ok([load("default", "wolfssl")?, load("large-caches", "wolfssl-large-caches")?])
    }
}

impl Peer for WolfHbs {
    fn identity(&self) -> &Identity {
        &self.identity
    }

    fn signer(&self, name: &str) -> Result<Option<Box<dyn Signer>>> {
        let Some(set) = parameters(name) else { return Ok(None) };
        let mut slot = Slot::new(&self.functions, set)?;
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
    set: [c_int; 3],
    /// Of 16 bytes each, for its alignment.
    object: Box<[u128]>,
    signature: usize,
}

impl Slot {
    fn new(functions: &Rc<Functions>, set: [c_int; 3]) -> Result<Slot> {
        // SAFETY: no nonce and no heap hint are what the nulls stand for.
        let rng = object("wc_rng_new", unsafe { (functions.rng_new)(null_mut(), 0, null_mut()) })?;
        let object = vec![0; OBJECT_BYTES / 16].into_boxed_slice();
        let mut slot = Slot { functions: Rc::clone(functions), rng, set, object, signature: 0 };
        slot.begin()?;
        Ok(slot)
    }

    fn pointer(&mut self) -> *mut c_void {
        self.object.as_mut_ptr().cast()
    }

    /// Makes the object one that is to get a key.
    fn begin(&mut self) -> Result<()> {
        let (functions, [levels, h, w]) = (Rc::clone(&self.functions), self.set);
        // SAFETY: the object has room.
        let status = unsafe { (functions.init)(self.pointer(), null_mut(), NO_DEVICE) };
        check("wc_LmsKey_Init", status)?;
        // SAFETY: the object was initialised just above, here and below.
        let status = unsafe { (functions.set_parameters)(self.pointer(), levels, h, w) };
        check("wc_LmsKey_SetParameters", status)?;
        // SAFETY: as above; the function outlives every key.
        let status = unsafe { (functions.set_write)(self.pointer(), write) };
        check("wc_LmsKey_SetWriteCb", status)?;
        let mut len = 0;
        // SAFETY: as above.
        let status = unsafe { (functions.signature_size)(self.pointer(), &mut len) };
        self.signature = len as usize;
        check("wc_LmsKey_GetSigLen", status)
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
        check("wc_LmsKey_MakeKey", unsafe { make(self.pointer(), rng) })
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
        check("wc_LmsKey_Sign", status)?;
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
