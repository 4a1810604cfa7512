//! One operation with a key: to encapsulate and to sign, and back.

use std::ptr;

use super::pki::Key;
use super::symbols::EvpPkeyCtx;
use super::{Error, Handle};

impl Key {
    fn operation(&self, what: &str) -> Result<Handle<EvpPkeyCtx>, Error> {
        let (ossl, key) = (self.context.ossl(), self.raw.as_ptr());
        // SAFETY: live context and key; no property query.
        let raw = unsafe {
            (ossl.crypto.EVP_PKEY_CTX_new_from_pkey)(self.context.raw(), key, ptr::null())
        };
        ossl.owned(what, raw, ossl.crypto.EVP_PKEY_CTX_free)
    }

    /// A ciphertext for this key, and its secret.
    pub(crate) fn encapsulate(&self) -> Result<(Vec<u8>, Vec<u8>), Error> {
        let what = "encapsulating";
        let (ossl, operation) = (self.context.ossl(), self.operation(what)?);
        let run = ossl.crypto.EVP_PKEY_encapsulate;
        let none = ptr::null_mut();
        let (mut ct_len, mut secret_len) = (0, 0);
        // SAFETY: a live operation; without buffers it tells their lengths.
        unsafe {
            let start = ossl.crypto.EVP_PKEY_encapsulate_init;
            ossl.done(what, start(operation.as_ptr(), ptr::null()))?;
            ossl.done(what, run(operation.as_ptr(), none, &mut ct_len, none, &mut secret_len))?;
        }
        let (mut ct, mut secret) = (vec![0; ct_len], vec![0; secret_len]);
        let (ct_out, secret_out) = (ct.as_mut_ptr(), secret.as_mut_ptr());
        // SAFETY: buffers of the lengths that it told.
        let status =
            unsafe { run(operation.as_ptr(), ct_out, &mut ct_len, secret_out, &mut secret_len) };
        ossl.done(what, status)?;
        ct.truncate(ct_len);
        secret.truncate(secret_len);
        Ok((ct, secret))
    }

    /// The secret of a ciphertext.
    pub(crate) fn decapsulate(&self, ct: &[u8]) -> Result<Vec<u8>, Error> {
        let what = "decapsulating";
        let (ossl, operation) = (self.context.ossl(), self.operation(what)?);
        let run = ossl.crypto.EVP_PKEY_decapsulate;
        let mut len = 0;
        // SAFETY: a live operation and a ciphertext of the length given; without a buffer it tells its length.
        unsafe {
            let start = ossl.crypto.EVP_PKEY_decapsulate_init;
            ossl.done(what, start(operation.as_ptr(), ptr::null()))?;
            let none = ptr::null_mut();
            ossl.done(what, run(operation.as_ptr(), none, &mut len, ct.as_ptr(), ct.len()))?;
        }
        let mut secret = vec![0; len];
        let out = secret.as_mut_ptr();
        // SAFETY: a buffer of the length that it told.
        let status = unsafe { run(operation.as_ptr(), out, &mut len, ct.as_ptr(), ct.len()) };
        ossl.done(what, status)?;
        secret.truncate(len);
        Ok(secret)
    }

    /// A signature of an algorithm that hashes by itself.
    pub(crate) fn sign(&self, message: &[u8]) -> Result<Vec<u8>, Error> {
        let what = "signing";
        let (ossl, crypto) = (self.context.ossl(), &self.context.ossl().crypto);
        // SAFETY: no arguments.
        let state = unsafe { (crypto.EVP_MD_CTX_new)() };
        let state = ossl.owned(what, state, crypto.EVP_MD_CTX_free)?;
        let (context, key) = (self.context.raw(), self.raw.as_ptr());
        let (text, length) = (message.as_ptr(), message.len());
        let (null, none) = (ptr::null(), ptr::null_mut());
        let mut len = 0;
        // SAFETY: live state, context and key; no digest; a message of the length given. Without a buffer it tells its
        // length.
        unsafe {
            let start = crypto.EVP_DigestSignInit_ex;
            let status = start(state.as_ptr(), none, null, context, null, key, ptr::null());
            ossl.done(what, status)?;
            let run = crypto.EVP_DigestSign;
            ossl.done(what, run(state.as_ptr(), ptr::null_mut(), &mut len, text, length))?;
        }
        let mut signature = vec![0; len];
        let out = signature.as_mut_ptr();
        // SAFETY: a buffer of the length that it told.
        let status =
            unsafe { (crypto.EVP_DigestSign)(state.as_ptr(), out, &mut len, text, length) };
        ossl.done(what, status)?;
        signature.truncate(len);
        Ok(signature)
    }

    /// Verifies a signature of a message.
    pub(crate) fn verify(&self, message: &[u8], signature: &[u8]) -> Result<(), Error> {
        let what = "verifying";
        let (ossl, crypto) = (self.context.ossl(), &self.context.ossl().crypto);
        // SAFETY: no arguments.
        let state = unsafe { (crypto.EVP_MD_CTX_new)() };
        let state = ossl.owned(what, state, crypto.EVP_MD_CTX_free)?;
        let (context, key) = (self.context.raw(), self.raw.as_ptr());
        let (null, none) = (ptr::null(), ptr::null_mut());
        // SAFETY: live state, context and key; no digest; message and signature of the lengths given.
        unsafe {
            let start = crypto.EVP_DigestVerifyInit_ex;
            let status = start(state.as_ptr(), none, null, context, null, key, ptr::null());
            ossl.done(what, status)?;
            let (sig, sig_len) = (signature.as_ptr(), signature.len());
            let run = crypto.EVP_DigestVerify;
            ossl.done(what, run(state.as_ptr(), sig, sig_len, message.as_ptr(), message.len()))
        }
    }

    /// Name of the provider that encapsulates for this key.
    pub(crate) fn encapsulating_provider(&self) -> Result<String, Error> {
        let what = "encapsulating";
        let (ossl, operation) = (self.context.ossl(), self.operation(what)?);
        // SAFETY: a live operation; no parameters.
        let started =
            unsafe { (ossl.crypto.EVP_PKEY_encapsulate_init)(operation.as_ptr(), ptr::null()) };
        ossl.done(what, started)?;
        super::pki::provider_of(&self.context, operation.as_ptr())
    }
}
