//! Ed25519 of wolfSSL, from the plain build.

use std::ffi::c_void;
use std::ptr::{NonNull, null_mut};

use super::{Ed25519Functions, NO_DEVICE, check, object};
use crate::peer::{Result, Signer};

/// Bytes of a seed and of a public key.
const KEY_BYTES: u32 = 32;
const SIGNATURE_BYTES: usize = 64;

/// A slot with a pair in it.
pub fn slot(functions: Ed25519Functions) -> Result<Box<dyn Signer>> {
    let key = make(&functions, 0)?;
    Ok(Box::new(Slot { functions, key, calls: 0 }))
}

/// The pair from seed number `call`, in an object of its own: one that holds a public key would be
/// checked against the next seed.
fn make(functions: &Ed25519Functions, call: u64) -> Result<NonNull<c_void>> {
    let mut code = 0;
    // SAFETY: no heap hint and no device are what the null and NO_DEVICE stand for.
    let key = unsafe { (functions.new)(null_mut(), NO_DEVICE, &mut code) };
    check("wc_ed25519_new", code)?;
    let key = object("wc_ed25519_new", key)?;
    let seed: [u8; KEY_BYTES as usize] = gabion_rows::inputs::bytes(31, call);
    let mut public = [0; KEY_BYTES as usize];
    // SAFETY: the key is live and the seed has the bytes stated.
    let code = unsafe { (functions.import_seed)(seed.as_ptr(), KEY_BYTES, key.as_ptr()) };
    let made = check("wc_ed25519_import_private_only", code).and_then(|()| {
        // SAFETY: the key is live and the buffer has the bytes stated.
        let code = unsafe { (functions.make_public)(key.as_ptr(), public.as_mut_ptr(), KEY_BYTES) };
        check("wc_ed25519_make_public", code)
    });
    if made.is_err() {
        // SAFETY: made above and used no more.
        unsafe { (functions.delete)(key.as_ptr(), null_mut()) };
    }
    made.map(|()| key)
}

struct Slot {
    functions: Ed25519Functions,
    key: NonNull<c_void>,
    calls: u64,
}

impl Drop for Slot {
    fn drop(&mut self) {
        // SAFETY: made by the same library and not deleted before.
        unsafe { (self.functions.delete)(self.key.as_ptr(), null_mut()) };
    }
}

impl Signer for Slot {
    fn keygen(&mut self) -> Result<()> {
        self.calls += 1;
        let old = std::mem::replace(&mut self.key, make(&self.functions, self.calls)?);
        // SAFETY: made by the same library, and nothing holds it any more.
        let code = unsafe { (self.functions.delete)(old.as_ptr(), null_mut()) };
        check("wc_ed25519_delete", code)
    }

    fn sign(&mut self, message: &[u8]) -> Result<Vec<u8>> {
        let mut signature = vec![0; SIGNATURE_BYTES];
        let mut length = SIGNATURE_BYTES as u32;
        // SAFETY: the key is live and holds a pair, and the lengths are those of their buffers.
        let code = unsafe {
            (self.functions.sign)(
                message.as_ptr(),
                message.len() as u32,
                signature.as_mut_ptr(),
                &mut length,
                self.key.as_ptr(),
            )
        };
        check("wc_ed25519_sign_msg", code)?;
        signature.truncate(length as usize);
        Ok(signature)
    }

    fn verify(&mut self, message: &[u8], signature: &[u8]) -> Result<bool> {
        let mut verdict = 0;
        // SAFETY: as in sign.
        let code = unsafe {
            (self.functions.verify)(
                signature.as_ptr(),
                signature.len() as u32,
                message.as_ptr(),
                message.len() as u32,
                &mut verdict,
                self.key.as_ptr(),
            )
        };
        // A wrong signature is an error number of the library, not only a verdict.
        Ok(code == 0 && verdict == 1)
    }
}
