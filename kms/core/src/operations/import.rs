//! Import of keys.

use gabion_engine::keys::{Forms, Key as AnyKey, PrivateKey, PublicKey};
use gabion_engine::{Algorithm, OsEntropy, key_file};
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::create::{NewKey, Terms};
use super::kms::Kms;
use super::material::New;
use super::metrics::Verb;
use super::records::{opened, public_path, read_key, sealed};
use crate::error::Error;
use crate::model::{
    Conformance, Conformances, KeyAlgorithm, KeyId, Origin, Rsa, Symmetric, VersionId,
};
use crate::rsa;
use crate::store::Transaction;
use crate::symmetric::{Aead, MAC_KEY_MAX, MAC_KEY_MIN, Mac};
use crate::transport::{Form, Place, WrapMethod};

/// The form of an imported key.
#[derive(Clone, Copy)]
pub enum Import<'a> {
    /// The bytes of a symmetric key, or of a private key: its seed or its standard's encoding (for
    /// RSA: RSAPrivateKey), distinguished by length. Secret.
    Raw(&'a [u8]),
    /// A private key as unencrypted PKCS#8 DER. Secret.
    Pkcs8(&'a [u8]),
    /// Only a public key, in its standard's encoding (for RSA: RSAPublicKey). It verifies,
    /// encapsulates or encrypts.
    Public(&'a [u8]),
    /// Only a public key, as SubjectPublicKeyInfo DER.
    Spki(&'a [u8]),
    /// A private or symmetric key, wrapped for the service: [`Kms::wrapping_key`].
    Wrapped {
        /// The method of wrapping.
        wrapping: WrapMethod,
        /// The form of the wrapped key.
        form: Form,
        /// The wrapped key.
        wrapped: &'a [u8],
    },
}

impl Kms {
    /// Imports a key. It is tested before it is stored. Rejected are: key pairs whose halves do not
    /// match, a public or symmetric key that the tenant already has, a symmetric key of zeros, and
    /// an RSA key whose modulus is easily factored.
    ///
    /// # Errors
    /// Material that is not a key of the algorithm; [`Error::Exists`]; [`Error::Duplicate`]; errors
    /// of the engine and of the store.
    pub fn import(&self, new: &NewKey, import: Import<'_>) -> Result<VersionId, Error> {
        self.import_as(new, import, true)
    }

    /// Imports a key, which either may be rotated by [`Self::rotate`], or gets all its versions by
    /// import.
    ///
    /// # Errors
    /// Those of [`Self::import`].
    pub fn import_as(
        &self,
        new: &NewKey,
        import: Import<'_>,
        rotates: bool,
    ) -> Result<VersionId, Error> {
        self.import_conforming(new, import, rotates, &Conformances::new())
    }

    /// Imports a key that conforms to standards, in its algorithm and in all its uses. The labels
    /// do not say how the key was generated or where it was stored before.
    ///
    /// # Errors
    /// Those of [`Self::import`]; an algorithm that does not conform, or a key that is too short.
    pub fn import_conforming(
        &self,
        new: &NewKey,
        import: Import<'_>,
        rotates: bool,
        to: &Conformances,
    ) -> Result<VersionId, Error> {
        let terms = Terms { conformance: to.clone(), ..Terms::default() };
        self.import_on(new, import, rotates, &terms)
    }

    /// Imports a key with restrictions.
    ///
    /// # Errors
    /// Those of [`Self::import_conforming`] and [`Terms::check`]; automatic rotation of a key whose
    /// versions are all imported.
    pub fn import_on(
        &self,
        new: &NewKey,
        import: Import<'_>,
        rotates: bool,
        terms: &Terms,
    ) -> Result<VersionId, Error> {
        self.counted(Verb::Import, new.algorithm, || {
            // Check this first: a key that cannot conform is not parsed.
            terms.check(new.algorithm)?;
            if terms.rotate_period_s.is_some()
                && (!rotates || matches!(import, Import::Public(_) | Import::Spki(_)))
            {
                let why = "the clock has no key rotated whose versions are all imported, nor a public one alone";
                return Err(Error::Unsupported(why.to_owned()));
            }
            let place = |form| Place {
                tenant: &new.tenant,
                name: &new.name,
                algorithm: new.algorithm,
                form,
            };
            self.name_generation(new)?;
            let origin = if rotates { Origin::Imported } else { Origin::Fixed };
            let first = self.brought(place, import)?;
            check_conforms(&terms.conformance, new.algorithm, &first)?;
            self.create_with(new, &first, terms, origin)
        })
    }

    /// Adds an imported version to a key.
    ///
    /// # Errors
    /// Those of [`Self::import`] and [`Self::rotate`].
    pub fn import_version(&self, id: &KeyId, import: Import<'_>) -> Result<VersionId, Error> {
        self.counted(Verb::Import, id.algorithm, || {
            let key = self.key(id)?.key;
            key.rotated(self.now_ms())?;
            let place =
                |form| Place { tenant: &id.tenant, name: &key.name, algorithm: id.algorithm, form };
            let next = self.brought(place, import)?;
            check_conforms(&key.conformance, id.algorithm, &next)?;
            self.rotate_to(id, &next)
        })
    }

    /// Parses an imported key for a tenant and a name.
    fn brought<'p>(
        &self,
        place: impl Fn(Form) -> Place<'p>,
        import: Import<'_>,
    ) -> Result<New, Error> {
        let Import::Wrapped { wrapping, form, wrapped } = import else {
            return self.brought_open(place(Form::Raw).algorithm, import);
        };
        let place = place(form);
        let key = self.unwrapped(&place, wrapping, wrapped)?;
        let key = match form {
            Form::Raw => Import::Raw(&key),
            Form::Pkcs8 => Import::Pkcs8(&key),
        };
        self.brought_open(place.algorithm, key)
    }

    fn brought_open(&self, algorithm: KeyAlgorithm, import: Import<'_>) -> Result<New, Error> {
        match (algorithm.algorithm(), algorithm.symmetric()) {
            (Some(algorithm), _) => self.brought_pair(algorithm, import),
            (None, Some(symmetric)) => brought_secret(symmetric, import),
            (None, None) => match algorithm.rsa() {
                Some(size) => brought_rsa(size, import),
                None => Err(Error::Unsupported(format!("{algorithm} keys are not imported"))),
            },
        }
    }

    fn brought_pair(&self, algorithm: Algorithm, import: Import<'_>) -> Result<New, Error> {
        let engine = &self.context.engine;
        let pair = match import {
            Import::Public(bytes) => {
                return Ok(New::Public(PublicKey::import(engine, algorithm, bytes)?));
            }
            Import::Raw(bytes) => {
                let forms = match algorithm.info().seed == Some(bytes.len()) {
                    true => Forms { seed: Some(bytes), ..Forms::default() },
                    false => Forms { expanded: Some(bytes), ..Forms::default() },
                };
                PrivateKey::import(engine, algorithm, &forms)?
            }
            Import::Pkcs8(der) => match self.of_file(algorithm, der)? {
                AnyKey::Private(pair) => pair,
                AnyKey::Public(_) => {
                    let why = "the key is a public key; expected a private key in PKCS#8";
                    return Err(Error::Parameter(why.to_owned()));
                }
            },
            Import::Spki(der) => {
                return match self.of_file(algorithm, der)? {
                    AnyKey::Public(public) => Ok(New::Public(public)),
                    AnyKey::Private(_) => {
                        Err(Error::Parameter("expected a public key, and no other".to_owned()))
                    }
                };
            }
            Import::Wrapped { .. } => return Err(wrapped_twice()),
        };
        pair.pairwise_test(engine, &OsEntropy)?;
        Ok(New::Pair(pair))
    }

    /// Parses the DER of a key of the algorithm.
    fn of_file(&self, algorithm: Algorithm, der: &[u8]) -> Result<AnyKey, Error> {
        let refused = |reason: String| Error::Parameter(format!("the key {reason}"));
        let encoded = key_file::EncodedKey::from_der(der).map_err(refused)?;
        let kind = algorithm.info().kind;
        match key_file::of_identifier(encoded.identifier(), kind).map_err(refused)? {
            Some(found) if found == algorithm => {
                Ok(key_file::decode(&self.context.engine, algorithm, &encoded)?)
            }
            found => {
                let found = found.map_or("of no known algorithm", Algorithm::name);
                Err(Error::Parameter(format!("the key is {found}; expected {algorithm}")))
            }
        }
    }

    /// Returns a transaction that also records which version has a public key or a symmetric key,
    /// so that no second version in the tenant has it. If the version that had it was destroyed, it
    /// is free.
    ///
    /// # Errors
    /// [`Error::Duplicate`]; errors of the store.
    pub(super) fn with_material(
        &self,
        transaction: Transaction,
        id: &VersionId,
        new: &New,
    ) -> Result<Transaction, Error> {
        let digest: [u8; 32] = match new {
            New::Secret(secret) => self.context.sealer.secret_digest(without_padding(secret))?,
            New::Pair(_) | New::Public(_) | New::Rsa(_) | New::RsaPublic(_) => Sha256::new()
                .chain_update(id.key.algorithm.name())
                .chain_update([0])
                .chain_update(new.written().public)
                .finalize()
                .into(),
        };
        let path = public_path(&id.key.tenant, &digest)?;
        let before = match opened::<VersionId>(&self.context, &path)? {
            None => 0,
            Some((owner, generation)) => match read_key(&self.context, &owner.key) {
                Err(Error::Destroyed) => generation,
                Ok(view) if view.key.existing(owner.version).is_err() => generation,
                Ok(_) => return Err(Error::Duplicate(Some(owner.to_string()))),
                Err(error) => return Err(error),
            },
        };
        let value = sealed(&self.context, &path, before + 1, id)?;
        Ok(transaction.put(path, before, value))
    }
}

/// Rejects an imported key that the conformance labels exclude. Generated keys are always long
/// enough.
fn check_conforms(to: &Conformances, algorithm: KeyAlgorithm, new: &New) -> Result<(), Error> {
    let len = match new {
        New::Secret(bytes) => Some(bytes.len()),
        New::Pair(_) | New::Public(_) | New::Rsa(_) | New::RsaPublic(_) => None,
    };
    to.iter().try_for_each(|label| label.check_imported(algorithm, len))?;
    match new {
        New::Rsa(pair) if to.contains(&Conformance::FipsAlg) => pair.check_prime_sizes(),
        New::Rsa(_) | New::Secret(_) | New::Pair(_) | New::Public(_) | New::RsaPublic(_) => Ok(()),
    }
}

/// Returns a symmetric key without trailing zeros: HMAC pads keys with zeros, so a key with more of
/// them makes the same tags.
fn without_padding(secret: &[u8]) -> &[u8] {
    let end = secret.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    &secret[..end]
}

/// The error for a wrapped key within a wrapped key.
fn wrapped_twice() -> Error {
    Error::Parameter("the key is wrapped twice".to_owned())
}

fn brought_rsa(size: Rsa, import: Import<'_>) -> Result<New, Error> {
    let bits = size.bits();
    let public = match import {
        Import::Raw(der) => {
            return brought_rsa_pair(rsa::PrivateKey::of_pkcs1(bits, der)?);
        }
        Import::Pkcs8(der) => {
            return brought_rsa_pair(rsa::PrivateKey::of_pkcs8(bits, der)?);
        }
        Import::Public(der) => {
            let bare = rsa::PublicKey::of_pkcs1(der);
            bare.or_else(|_| rsa::PublicKey::of_spki(der))?
        }
        Import::Spki(der) => rsa::PublicKey::of_spki(der)?,
        Import::Wrapped { .. } => return Err(wrapped_twice()),
    };
    match public.bits() == bits {
        true => Ok(New::RsaPublic(Box::new(public))),
        false => Err(Error::Parameter(format!("the key has {} bits", public.bits()))),
    }
}

fn brought_rsa_pair(pair: rsa::PrivateKey) -> Result<New, Error> {
    pair.check_strength()?;
    pair.check_pair()?;
    Ok(New::Rsa(Box::new(pair)))
}

fn brought_secret(symmetric: Symmetric, import: Import<'_>) -> Result<New, Error> {
    let name = symmetric.name();
    let Import::Raw(bytes) = import else {
        return Err(Error::Parameter(format!("a key of {name} comes as its bytes")));
    };
    if bytes.iter().all(|&byte| byte == 0) {
        return Err(Error::Parameter(format!("the key of {name} is all zeros; draw a random one")));
    }
    let works: Option<Result<bool, Error>> = match symmetric.is_aead() {
        true => Aead::new(symmetric, bytes).map(|aead| {
            let sealed = aead.seal(b"pairwise test", b"")?;
            Ok(aead.open(&sealed, b"").is_some_and(|plain| **plain == *b"pairwise test"))
        }),
        false => Mac::new(symmetric, bytes).map(|mac| Ok(mac.tag(b"").len() == mac.tag_len())),
    };
    match works.transpose()? {
        Some(true) => Ok(New::Secret(Zeroizing::new(bytes.to_vec()))),
        Some(false) => Err(Error::Parameter(format!("a key of {name} that does not work"))),
        None if symmetric.is_aead() => {
            Err(Error::Parameter(format!("a key of {name} has {} bytes", symmetric.key_len())))
        }
        None => Err(Error::Parameter(format!(
            "a key of {name} has {MAC_KEY_MIN} to {MAC_KEY_MAX} bytes"
        ))),
    }
}
