//! The root and the server's certificate of a measurement.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::Provider;
use super::names::Signature;
use crate::ossl::{self, Certificate, Context, Key, Ossl, Subject};

/// Name that the server's certificate is for and the client insists on.
pub(crate) const HOST: &std::ffi::CStr = c"localhost";

/// The DER of both sides' credentials. Made once and read into each provider's context, so that all
/// providers work on equal keys, and each reads them like a server reads its key file.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Credentials {
    /// The client's root: self-signed.
    pub(crate) root: Vec<u8>,
    /// The server's certificate, signed by the root, of the same algorithm.
    pub(crate) leaf: Vec<u8>,
    /// The server's private key.
    pub(crate) leaf_key: Vec<u8>,
}

impl Credentials {
    /// Makes both with the default provider, whichever is measured later; with Gabion's if the
    /// default provider may lack the algorithm.
    pub(crate) fn make(
        ossl: &'static Ossl,
        modules: Option<&Path>,
        signature: &Signature,
    ) -> Result<Credentials, ossl::Error> {
        let maker = if signature.draft { Provider::Gabion } else { Provider::Default };
        Self::make_in(&super::context(maker, ossl, modules)?, signature)
    }

    /// Makes both with the providers of `context`, for algorithms that OpenSSL does not have.
    pub(crate) fn make_in(
        context: &Context,
        signature: &Signature,
    ) -> Result<Credentials, ossl::Error> {
        let root_key = Key::generate(context, signature.algorithm, signature.shape)?;
        let leaf_key = Key::generate(context, signature.algorithm, signature.shape)?;
        let digest = signature.digest;
        let subject = Subject { name: "Gabion bench root", dns_name: None, serial: 1 };
        let root = Certificate::issue(&subject, &root_key, None, digest)?;
        let subject = Subject { name: "localhost", dns_name: HOST.to_str().ok(), serial: 2 };
        let issuer = Some((&root, &root_key));
        let leaf = Certificate::issue(&subject, &leaf_key, issuer, digest)?;
        Ok(Credentials { root: root.to_der()?, leaf: leaf.to_der()?, leaf_key: leaf_key.to_der()? })
    }
}
