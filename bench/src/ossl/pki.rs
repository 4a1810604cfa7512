//! Keys and certificates: made once, stored as DER, read into each provider's context.

use std::ffi::{c_int, c_long, c_uchar};
use std::ptr;

use super::symbols::{EvpMd, EvpPkey, EvpPkeyCtx, OsslProvider, X509};
use super::{Context, Error, Handle, c_string};

/// `MBSTRING_ASC`: the name's characters are ASCII.
const MBSTRING_ASC: c_int = 0x1001;
const NID_KEY_USAGE: c_int = 83;
const NID_SUBJECT_ALT_NAME: c_int = 85;
const NID_BASIC_CONSTRAINTS: c_int = 87;
/// X.509 version 3 is written as 2.
const X509_VERSION_3: c_long = 2;

/// The parameters that an algorithm needs to make a key, in addition to its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyShape {
    /// The name says it all (ML-DSA-65, ED25519).
    Named,
    /// A key on this curve.
    Curve(&'static str),
    /// An RSA key of this many bits.
    Bits(c_int),
}

/// A private key in one library context.
pub(crate) struct Key {
    pub(super) raw: Handle<EvpPkey>,
    pub(super) context: Context,
}

impl Key {
    /// Generates a key of `algorithm` in `context`.
    pub(crate) fn generate(
        context: &Context,
        algorithm: &str,
        shape: KeyShape,
    ) -> Result<Key, Error> {
        let ossl = context.ossl();
        let crypto = &ossl.crypto;
        let generator = new_pkey_ctx(context, algorithm)?;
        let what = format!("generating an {algorithm} key");
        // SAFETY: a live generator.
        ossl.done(&what, unsafe { (crypto.EVP_PKEY_keygen_init)(generator.as_ptr()) })?;
        let shaped = match shape {
            KeyShape::Named => 1,
            KeyShape::Curve(curve) => {
                let curve = c_string(curve)?;
                // SAFETY: a generator that was initialised, terminated text, copied.
                unsafe { (crypto.EVP_PKEY_CTX_set_group_name)(generator.as_ptr(), curve.as_ptr()) }
            }
            // SAFETY: a generator that was initialised.
            KeyShape::Bits(bits) => unsafe {
                (crypto.EVP_PKEY_CTX_set_rsa_keygen_bits)(generator.as_ptr(), bits)
            },
        };
        ossl.done(&what, shaped)?;
        let mut raw = ptr::null_mut();
        // SAFETY: a generator that was initialised; `raw` takes the new reference.
        ossl.done(&what, unsafe { (crypto.EVP_PKEY_generate)(generator.as_ptr(), &mut raw) })?;
        let raw = ossl.owned(&what, raw, crypto.EVP_PKEY_free)?;
        Ok(Key { raw, context: context.clone() })
    }

    /// Reads a key written by [`Key::to_der`], as a server reads its key file.
    pub(crate) fn from_der(context: &Context, der: &[u8]) -> Result<Key, Error> {
        let ossl = context.ossl();
        let mut cursor = der.as_ptr();
        // SAFETY: `cursor` walks over `der.len()` readable bytes.
        let raw = unsafe {
            let decode = ossl.crypto.d2i_AutoPrivateKey_ex;
            decode(ptr::null_mut(), &mut cursor, der.len() as c_long, context.raw(), ptr::null())
        };
        let raw = ossl.owned("reading the private key", raw, ossl.crypto.EVP_PKEY_free)?;
        Ok(Key { raw, context: context.clone() })
    }

    /// DER of the private key.
    pub(crate) fn to_der(&self) -> Result<Vec<u8>, Error> {
        let encode = self.context.ossl().crypto.i2d_PrivateKey;
        // SAFETY: a live key, and an output pointer that is null or has the room asked for.
        to_der(&self.context, "writing the private key", |out| unsafe {
            encode(self.raw.as_ptr(), out)
        })
    }

    /// Name of the provider that signs with this key, found out the way libssl does it.
    ///
    /// The key's own provider says nothing: a decoded key belongs to the decoder's provider and is
    /// exported to another one only when an operation starts. So an operation is started, and its
    /// provider read.
    pub(crate) fn signing_provider(&self, digest: Option<&str>) -> Result<String, Error> {
        operation_provider(&self.context, self.raw.as_ptr(), digest, Operation::Sign)
    }
}

/// A certificate in one library context.
pub(crate) struct Certificate {
    pub(super) raw: Handle<X509>,
    context: Context,
}

/// The contents of a certificate that [`Certificate::issue`] writes.
pub(crate) struct Subject<'a> {
    /// Common name.
    pub(crate) name: &'a str,
    /// A DNS name for a server's certificate; none makes a certification authority.
    pub(crate) dns_name: Option<&'a str>,
    /// Serial number, different for each certificate of an issuer.
    pub(crate) serial: c_long,
}

impl Certificate {
    /// Makes a certificate for `key`, valid from an hour ago for a week.
    ///
    /// `issuer` is the signer's certificate and key; `None` makes a self-signed certificate.
    /// `digest` is `None` for signature algorithms that hash internally.
    pub(crate) fn issue(
        subject: &Subject<'_>,
        key: &Key,
        issuer: Option<(&Certificate, &Key)>,
        digest: Option<&str>,
    ) -> Result<Certificate, Error> {
        let certificate = Self::blank(&key.context)?;
        let ossl = key.context.ossl();
        let crypto = &ossl.crypto;
        let what = "making a certificate";
        let x509 = certificate.raw.as_ptr();
        let issuer_x509 = issuer.map_or(x509, |(issuer, _)| issuer.raw.as_ptr());
        // SAFETY: live certificates and key; the fields that are got belong to a certificate; the
        // entry's bytes are read for the length given, and copied, and so is the issuer's name.
        unsafe {
            ossl.done(what, (crypto.X509_set_version)(x509, X509_VERSION_3))?;
            let serial = (crypto.X509_get_serialNumber)(x509);
            ossl.done(what, (crypto.ASN1_INTEGER_set)(serial, subject.serial))?;
            (crypto.X509_gmtime_adj)((crypto.X509_getm_notBefore)(x509), -3600);
            (crypto.X509_gmtime_adj)((crypto.X509_getm_notAfter)(x509), 7 * 86_400);
            ossl.done(what, (crypto.X509_set_pubkey)(x509, key.raw.as_ptr()))?;
            let (text, length) = (subject.name.as_bytes().as_ptr(), subject.name.len() as c_int);
            let names = (crypto.X509_get_subject_name)(x509);
            let add = crypto.X509_NAME_add_entry_by_txt;
            ossl.done(what, add(names, c"CN".as_ptr(), MBSTRING_ASC, text, length, -1, 0))?;
            let names = (crypto.X509_get_subject_name)(issuer_x509);
            ossl.done(what, (crypto.X509_set_issuer_name)(x509, names))?;
        }
        match subject.dns_name {
            Some(dns_name) => {
                certificate.extend(NID_BASIC_CONSTRAINTS, "critical,CA:FALSE")?;
                certificate.extend(NID_KEY_USAGE, "critical,digitalSignature")?;
                certificate.extend(NID_SUBJECT_ALT_NAME, &format!("DNS:{dns_name}"))?;
            }
            None => {
                certificate.extend(NID_BASIC_CONSTRAINTS, "critical,CA:TRUE")?;
                certificate.extend(NID_KEY_USAGE, "critical,keyCertSign,cRLSign")?;
            }
        }
        certificate.sign(issuer.map_or(key, |(_, key)| key), digest)?;
        Ok(certificate)
    }

    /// An empty certificate, whose key will be decoded in `context`.
    fn blank(context: &Context) -> Result<Certificate, Error> {
        let ossl = context.ossl();
        // SAFETY: a live context; no property query.
        let raw = unsafe { (ossl.crypto.X509_new_ex)(context.raw(), ptr::null()) };
        let raw = ossl.owned("X509_new", raw, ossl.crypto.X509_free)?;
        Ok(Certificate { raw, context: context.clone() })
    }

    fn extend(&self, nid: c_int, value: &str) -> Result<(), Error> {
        let ossl = self.context.ossl();
        let crypto = &ossl.crypto;
        let what = "adding an extension to a certificate";
        let value = c_string(value)?;
        // SAFETY: no configuration and no issuer context are needed for these three extensions;
        // the value is terminated text.
        let extension = unsafe {
            let make = crypto.X509V3_EXT_conf_nid;
            make(ptr::null_mut(), ptr::null_mut(), nid, value.as_ptr())
        };
        let extension = ossl.owned(what, extension, crypto.X509_EXTENSION_free)?;
        // SAFETY: both are live; the extension is copied.
        ossl.done(what, unsafe { (crypto.X509_add_ext)(self.raw.as_ptr(), extension.as_ptr(), -1) })
    }

    fn sign(&self, issuer_key: &Key, digest: Option<&str>) -> Result<(), Error> {
        let ossl = self.context.ossl();
        let crypto = &ossl.crypto;
        let digest = digest.map(|name| fetch_digest(&self.context, name)).transpose()?;
        let digest = digest.as_ref().map_or(ptr::null(), |d| d.as_ptr().cast_const());
        // SAFETY: live certificate, key and digest (or none); the status is the signature's size.
        ossl.done("signing a certificate", unsafe {
            (crypto.X509_sign)(self.raw.as_ptr(), issuer_key.raw.as_ptr(), digest)
        })
    }

    /// Reads a certificate into `context`, so that its public key is decoded there.
    pub(crate) fn from_der(context: &Context, der: &[u8]) -> Result<Certificate, Error> {
        let certificate = Self::blank(context)?;
        let mut filled = certificate.raw.as_ptr();
        let mut cursor = der.as_ptr();
        // SAFETY: `cursor` walks over `der.len()` readable bytes. On failure d2i frees the object
        // that it was given and sets our copy of the pointer to null.
        let read = unsafe {
            (context.ossl().crypto.d2i_X509)(&mut filled, &mut cursor, der.len() as c_long)
        };
        if read.is_null() {
            if filled.is_null() {
                std::mem::forget(certificate.raw);
            }
            return Err(context.ossl().call_error("reading a certificate"));
        }
        Ok(certificate)
    }

    /// DER of the certificate.
    pub(crate) fn to_der(&self) -> Result<Vec<u8>, Error> {
        let encode = self.context.ossl().crypto.i2d_X509;
        // SAFETY: a live certificate, and an output pointer that is null or has the room asked for.
        to_der(&self.context, "writing a certificate", |out| unsafe {
            encode(self.raw.as_ptr(), out)
        })
    }

    /// Name of the provider that verifies with this certificate's key; see
    /// [`Key::signing_provider`].
    pub(crate) fn verifying_provider(&self, digest: Option<&str>) -> Result<String, Error> {
        // SAFETY: a live certificate; the key still belongs to it.
        let key = unsafe { (self.context.ossl().crypto.X509_get0_pubkey)(self.raw.as_ptr()) };
        if key.is_null() {
            return Err(self.context.ossl().call_error("reading a certificate's public key"));
        }
        operation_provider(&self.context, key, digest, Operation::Verify)
    }
}

/// Name of the provider that encapsulates for a fresh key of the KEM `algorithm` in `context`.
pub(crate) fn kem_provider(context: &Context, algorithm: &str) -> Result<String, Error> {
    let encapsulate = context.ossl().crypto.EVP_PKEY_encapsulate_init;
    exchange_provider(context, algorithm, KeyShape::Named, |operation| {
        // SAFETY: a live operation; no parameters.
        unsafe { encapsulate(operation, ptr::null()) }
    })
}

/// Name of the provider that derives a secret with a fresh key of `algorithm` in `context`.
pub(crate) fn derive_provider(
    context: &Context,
    algorithm: &str,
    shape: KeyShape,
) -> Result<String, Error> {
    let derive = context.ossl().crypto.EVP_PKEY_derive_init;
    exchange_provider(context, algorithm, shape, |operation| {
        // SAFETY: a live operation.
        unsafe { derive(operation) }
    })
}

/// Makes a key, starts an operation with it, and names the provider that took the operation.
fn exchange_provider(
    context: &Context,
    algorithm: &str,
    shape: KeyShape,
    start: impl Fn(*mut EvpPkeyCtx) -> c_int,
) -> Result<String, Error> {
    let ossl = context.ossl();
    let crypto = &ossl.crypto;
    let what = format!("starting a key exchange with {algorithm}");
    let key = Key::generate(context, algorithm, shape)?;
    // SAFETY: live context and key; no property query.
    let operation = unsafe {
        (crypto.EVP_PKEY_CTX_new_from_pkey)(context.raw(), key.raw.as_ptr(), ptr::null())
    };
    let operation = ossl.owned(&what, operation, crypto.EVP_PKEY_CTX_free)?;
    ossl.done(&what, start(operation.as_ptr()))?;
    provider_of(context, operation.as_ptr())
}

fn new_pkey_ctx(context: &Context, algorithm: &str) -> Result<Handle<EvpPkeyCtx>, Error> {
    let ossl = context.ossl();
    let name = c_string(algorithm)?;
    // SAFETY: live context, terminated name, no property query in addition to the context's.
    let raw = unsafe {
        (ossl.crypto.EVP_PKEY_CTX_new_from_name)(context.raw(), name.as_ptr(), ptr::null())
    };
    ossl.owned(&format!("finding {algorithm}"), raw, ossl.crypto.EVP_PKEY_CTX_free)
}

fn fetch_digest(context: &Context, name: &str) -> Result<Handle<EvpMd>, Error> {
    let ossl = context.ossl();
    let c_name = c_string(name)?;
    // SAFETY: live context, terminated name, no property query in addition to the context's.
    let raw = unsafe { (ossl.crypto.EVP_MD_fetch)(context.raw(), c_name.as_ptr(), ptr::null()) };
    ossl.owned(&format!("finding {name}"), raw, ossl.crypto.EVP_MD_free)
}

#[derive(Clone, Copy)]
enum Operation {
    Sign,
    Verify,
}

/// Starts a signature or a verification with `key` and names the provider that took it.
fn operation_provider(
    context: &Context,
    key: *mut EvpPkey,
    digest: Option<&str>,
    operation: Operation,
) -> Result<String, Error> {
    let ossl = context.ossl();
    let crypto = &ossl.crypto;
    let start = match operation {
        Operation::Sign => crypto.EVP_DigestSignInit_ex,
        Operation::Verify => crypto.EVP_DigestVerifyInit_ex,
    };
    let digest = digest.map(c_string).transpose()?;
    let digest = digest.as_ref().map_or(ptr::null(), |name| name.as_ptr());
    // SAFETY: no arguments.
    let state = unsafe { (crypto.EVP_MD_CTX_new)() };
    let state = ossl.owned("EVP_MD_CTX_new", state, crypto.EVP_MD_CTX_free)?;
    let mut inner = ptr::null_mut();
    // SAFETY: live state, context and key; `inner` is lent by the state, which outlives its use.
    unsafe {
        let (propq, params) = (ptr::null(), ptr::null());
        let status = start(state.as_ptr(), &mut inner, digest, context.raw(), propq, key, params);
        ossl.done("starting a signature operation", status)?;
    }
    provider_of(context, inner)
}

/// Name of the provider that an initialised operation runs in.
pub(super) fn provider_of(
    context: &Context,
    operation: *const EvpPkeyCtx,
) -> Result<String, Error> {
    let crypto = &context.ossl().crypto;
    // SAFETY: a live operation; its provider outlives it, and so does the provider's name.
    unsafe {
        let provider: *const OsslProvider = (crypto.EVP_PKEY_CTX_get0_provider)(operation);
        if provider.is_null() {
            return Err(Error::Call("an operation names no provider".into()));
        }
        let name = (crypto.OSSL_PROVIDER_get0_name)(provider);
        Ok(std::ffi::CStr::from_ptr(name).to_string_lossy().into_owned())
    }
}

/// Runs an `i2d` function twice: once for the size, once into a buffer of that size.
fn to_der(
    context: &Context,
    what: &str,
    encode: impl Fn(*mut *mut c_uchar) -> c_int,
) -> Result<Vec<u8>, Error> {
    let size = encode(ptr::null_mut());
    context.ossl().done(what, size)?;
    let mut der = vec![0u8; size as usize];
    let mut cursor = der.as_mut_ptr();
    let written = encode(&mut cursor);
    context.ossl().done(what, written)?;
    der.truncate(written as usize);
    Ok(der)
}
