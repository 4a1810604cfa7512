//! SLH-DSA of wolfSSL, from the plain build.

use std::ffi::{c_int, c_uchar, c_void};
use std::ptr::{null, null_mut};

use super::{NO_DEVICE, SlhFunctions};
use crate::peer::{Error, Result, Signer};

/// Room for a key object, whose size the library does not tell; its header makes it a few hundred
/// bytes, most of them hash states.
const OBJECT_BYTES: usize = 64 << 10;

/// `enum SlhDsaParam` in the headers of the version that is loaded.
const PARAMETERS: [&str; 12] = [
    "SLH-DSA-SHAKE-128s",
    "SLH-DSA-SHAKE-128f",
    "SLH-DSA-SHAKE-192s",
    "SLH-DSA-SHAKE-192f",
    "SLH-DSA-SHAKE-256s",
    "SLH-DSA-SHAKE-256f",
    "SLH-DSA-SHA2-128s",
    "SLH-DSA-SHA2-128f",
    "SLH-DSA-SHA2-192s",
    "SLH-DSA-SHA2-192f",
    "SLH-DSA-SHA2-256s",
    "SLH-DSA-SHA2-256f",
];

/// A slot for the parameter set of this name, with a pair in it.
pub fn slot(functions: SlhFunctions, name: &str) -> Result<Option<Box<dyn Signer>>> {
    let Some(parameter) = PARAMETERS.iter().position(|known| *known == name) else {
        return Ok(None);
    };
    let n = match name {
        _ if name.contains("128") => 16,
        _ if name.contains("192") => 24,
        _ => 32,
    };
    let object = vec![0; OBJECT_BYTES / 8].into_boxed_slice();
    let mut slot = Slot { functions, object, n, calls: 0, signature: 0 };
    let init = slot.functions.init;
    // SAFETY: the object has room, and the parameter set is one of the enumeration.
    let code = unsafe { init(slot.pointer(), parameter as c_int, null_mut(), NO_DEVICE) };
    check("wc_SlhDsaKey_Init", code)?;
    let size = slot.functions.signature_size;
    // SAFETY: the object was initialised just above.
    slot.signature = unsafe { size(slot.pointer()) } as usize;
    slot.keygen()?;
    Ok(Some(Box::new(slot)))
}

struct Slot {
    functions: SlhFunctions,
    object: Box<[u64]>,
    n: u32,
    /// Counts key pairs, so that each has its own seeds.
    calls: u64,
    signature: usize,
}

impl Slot {
    fn pointer(&mut self) -> *mut c_void {
        self.object.as_mut_ptr().cast()
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let free = self.functions.free;
        // SAFETY: the object was initialised and not freed before.
        unsafe { free(self.pointer()) };
    }
}

fn check(call: &'static str, code: c_int) -> Result<()> {
    if code == 0 {
        return Ok(());
    }
    Err(Error::Call { peer: "wolfssl", call, detail: format!("code {code}") })
}

impl Signer for Slot {
    fn keygen(&mut self) -> Result<()> {
        self.calls += 1;
        let seeds: [[u8; 32]; 3] =
            std::array::from_fn(|part| gabion_rows::inputs::bytes(20 + part as u64, self.calls));
        let (make, n) = (self.functions.make, self.n);
        // SAFETY: the object is live and each seed has the n bytes stated.
        let code = unsafe {
            make(self.pointer(), seeds[0].as_ptr(), n, seeds[1].as_ptr(), n, seeds[2].as_ptr(), n)
        };
        check("wc_SlhDsaKey_MakeKeyWithRandom", code)
    }

    fn sign(&mut self, message: &[u8]) -> Result<Vec<u8>> {
        let mut signature = vec![0; self.signature];
        let mut length = signature.len() as u32;
        let sign = self.functions.sign;
        // SAFETY: the object holds a pair, the lengths are those of their buffers.
        let code = unsafe {
            sign(
                self.pointer(),
                null(),
                0,
                message.as_ptr(),
                message.len() as u32,
                signature.as_mut_ptr(),
                &mut length,
            )
        };
        check("wc_SlhDsaKey_SignDeterministic", code)?;
        signature.truncate(length as usize);
        Ok(signature)
    }

    fn verify(&mut self, message: &[u8], signature: &[u8]) -> Result<bool> {
        let verify = self.functions.verify;
        let no_context: *const c_uchar = null();
        // SAFETY: the object holds a pair, the lengths are those of their buffers.
        let code = unsafe {
            verify(
                self.pointer(),
                no_context,
                0,
                message.as_ptr(),
                message.len() as u32,
                signature.as_ptr(),
                signature.len() as u32,
            )
        };
        Ok(code == 0)
    }
}
