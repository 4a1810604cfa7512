//! The two crates behind one interface: one enum over the four sizes of each kind of object.
//!
//! fn-dsa 0.4 is the draft, fn-dsa 0.3.0 (here: `falcon`) with its original hash mode is round 3.
//! Their traits are alike, and their types have a fixed degree each.

use super::message::Parts;
use super::params::{Design, Params, SEED_LEN};
use super::randomness::Randomness;
use crate::error::Error;
use crate::room::with_room;

/// Makes the encoded key pair of a seed: (private, public).
///
/// # Errors
/// [`Error::NoMemory`].
pub(super) fn generate(
    params: &Params,
    seed: &[u8; SEED_LEN],
    private: &mut [u8],
    public: &mut [u8],
) -> Result<(), Error> {
    with_room(|| generate_here(params, seed, private, public))
}

fn generate_here(params: &Params, seed: &[u8; SEED_LEN], private: &mut [u8], public: &mut [u8]) {
    macro_rules! generate {
        ($krate:ident, $generator:ident) => {{
            use $krate::KeyPairGenerator;
            let mut rng = Randomness::from_bytes(seed);
            // Its working memory is 26 or 52 KiB, and it wipes itself.
            let mut generator = Box::new($krate::$generator::default());
            generator.keygen(params.log_n, &mut rng, private, public);
        }};
    }
    match (params.design, params.log_n) {
        (Design::FnDsaDraft, 9) => generate!(fn_dsa, KeyPairGenerator512),
        (Design::FnDsaDraft, _) => generate!(fn_dsa, KeyPairGenerator1024),
        (Design::Falcon, 9) => generate!(falcon, KeyPairGenerator512),
        (Design::Falcon, _) => generate!(falcon, KeyPairGenerator1024),
    }
}

/// Defines an enum with a variant for each crate and degree, and its decoder.
macro_rules! of_every_degree {
    ($(#[$doc:meta])* $name:ident, $trait:ident, $of_512:ident, $of_1024:ident) => {
        $(#[$doc])*
        pub(super) enum $name {
            FnDsa512(Box<fn_dsa::$of_512>),
            FnDsa1024(Box<fn_dsa::$of_1024>),
            Falcon512(Box<falcon::$of_512>),
            Falcon1024(Box<falcon::$of_1024>),
        }

        impl $name {
            /// Decodes a key; none if the crate refuses it.
            fn decode_here(params: &Params, bytes: &[u8]) -> Option<Self> {
                Some(match (params.design, params.log_n) {
                    (Design::FnDsaDraft, 9) => {
                        Self::FnDsa512(Box::new(fn_dsa::$trait::decode(bytes)?))
                    }
                    (Design::FnDsaDraft, _) => {
                        Self::FnDsa1024(Box::new(fn_dsa::$trait::decode(bytes)?))
                    }
                    (Design::Falcon, 9) => Self::Falcon512(Box::new(falcon::$trait::decode(bytes)?)),
                    (Design::Falcon, _) => {
                        Self::Falcon1024(Box::new(falcon::$trait::decode(bytes)?))
                    }
                })
            }
        }
    };
}

of_every_degree! {
    /// A private key of a crate, with the working memory of one signature: 60 or 120 KiB, which it
    /// wipes when dropped.
    Signer, SigningKey, SigningKey512, SigningKey1024
}

of_every_degree! {
    /// A public key of a crate.
    Verifier, VerifyingKey, VerifyingKey512, VerifyingKey1024
}

impl Verifier {
    /// Decodes a key; none if the crate refuses it.
    pub(super) fn decode(params: &Params, bytes: &[u8]) -> Option<Self> {
        Self::decode_here(params, bytes)
    }
}

impl Signer {
    /// Decodes a key; none if the crate refuses it.
    ///
    /// # Errors
    /// [`Error::NoMemory`].
    pub(super) fn decode(params: &Params, bytes: &[u8]) -> Result<Option<Self>, Error> {
        with_room(|| Self::decode_here(params, bytes))
    }

    /// The encoded public key, into `public`.
    pub(super) fn public_key(&self, public: &mut [u8]) {
        match self {
            Signer::FnDsa512(key) => fn_dsa::SigningKey::to_verifying_key(&**key, public),
            Signer::FnDsa1024(key) => fn_dsa::SigningKey::to_verifying_key(&**key, public),
            Signer::Falcon512(key) => falcon::SigningKey::to_verifying_key(&**key, public),
            Signer::Falcon1024(key) => falcon::SigningKey::to_verifying_key(&**key, public),
        }
    }

    /// A padded signature, into `sig`. Whether it was made: FN-DSA gives up after 27 attempts.
    pub(super) fn sign(&mut self, rng: &mut Randomness, parts: &Parts<'_>, sig: &mut [u8]) -> bool {
        let Parts { context, hash, data } = *parts;
        macro_rules! fn_dsa {
            ($key:expr) => {{
                let context = fn_dsa::DomainContext(context);
                let hash = fn_dsa::HashIdentifier(hash);
                fn_dsa::SigningKey::sign(&mut **$key, rng, &context, &hash, data, sig).is_some()
            }};
        }
        macro_rules! falcon {
            ($key:expr) => {{
                let context = falcon::DomainContext(context);
                let hash = falcon::HashIdentifier(hash);
                falcon::SigningKey::sign(&mut **$key, rng, &context, &hash, data, sig);
                true
            }};
        }
        match self {
            Signer::FnDsa512(key) => fn_dsa!(key),
            Signer::FnDsa1024(key) => fn_dsa!(key),
            Signer::Falcon512(key) => falcon!(key),
            Signer::Falcon1024(key) => falcon!(key),
        }
    }
}

impl Verifier {
    /// Returns whether a padded signature verifies.
    pub(super) fn verify(&self, parts: &Parts<'_>, sig: &[u8]) -> bool {
        let Parts { context, hash, data } = *parts;
        macro_rules! verify {
            ($krate:ident, $key:expr) => {{
                let context = $krate::DomainContext(context);
                let hash = $krate::HashIdentifier(hash);
                $krate::VerifyingKey::verify(&**$key, sig, &context, &hash, data)
            }};
        }
        match self {
            Verifier::FnDsa512(key) => verify!(fn_dsa, key),
            Verifier::FnDsa1024(key) => verify!(fn_dsa, key),
            Verifier::Falcon512(key) => verify!(falcon, key),
            Verifier::Falcon1024(key) => verify!(falcon, key),
        }
    }
}
