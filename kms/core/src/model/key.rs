//! The state of keys and versions, and the rules of their use.

use std::collections::BTreeMap;

use gabion_engine::{Algorithm, Message};
use serde::{Deserialize, Serialize};

use super::conformance::{Conformance, Conformances};
use super::id::{KeyAlgorithm, KeyId};
use super::name::Label;
use crate::error::Error;
use crate::rsa::Scheme;
use crate::signable::Signable;

/// The maximum number of labels of a key.
pub const LABELS_MAX: usize = 64;

/// The maximum size of a label's value in bytes.
const LABEL_MAX: usize = 256;

/// The minimum rotation period in seconds: an hour, as in Vault.
pub const ROTATE_PERIOD_MIN_S: u64 = 60 * 60;

/// The maximum rotation period in seconds: ten years.
pub const ROTATE_PERIOD_MAX_S: u64 = 10 * 365 * 24 * 60 * 60;

/// The maximum lifetime of a JSON Web Token if the key sets no limit, in seconds: a day, the
/// default lifetime of the service's own tokens.
pub const JWT_MAX_LIFETIME_DEFAULT_S: u64 = 24 * 60 * 60;

/// The largest limit that a key may set for the lifetime of JSON Web Tokens, in seconds: ten years.
pub const JWT_MAX_LIFETIME_MAX_S: u64 = 10 * 365 * 24 * 60 * 60;

/// How much further ahead than one period a rotation time may be before it is considered
/// implausible, in milliseconds. Normal clock corrections are smaller.
const AHEAD_MS: u64 = 5 * 60 * 1000;

/// The use of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Sign, or make a tag.
    Sign,
    /// Sign a JSON Web Token, whose claims the service checked.
    Jwt,
    /// Verify any of them.
    Verify,
    /// Encrypt or encapsulate.
    Encrypt,
    /// Decrypt or decapsulate.
    Decrypt,
}

/// A minimum version of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Minimum {
    /// For signing, making tags, encrypting and encapsulating. 0 allows only the newest version.
    Sign,
    /// For verifying.
    Verify,
    /// For decrypting and decapsulating.
    Decrypt,
}

/// The state of a key, without secrets and without its versions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// The id.
    pub id: KeyId,
    /// The name.
    pub name: Label,
    /// The creation time in milliseconds since 1970, by a clock that may be wrong.
    pub created_ms: u64,
    /// Labels for the users' own purposes.
    pub labels: BTreeMap<String, String>,
    /// The newest version.
    pub latest: u32,
    /// The oldest version that was not trimmed.
    pub min_available: u32,
    /// The oldest version that signs, makes tags, encrypts or encapsulates. 0: only the newest one.
    pub min_sign: u32,
    /// The oldest version that verifies.
    pub min_verify: u32,
    /// The oldest version that decrypts or decapsulates.
    pub min_decrypt: u32,
    /// When the key was deleted. A deleted key can be restored.
    pub deleted_ms: Option<u64>,
    /// The expiry time in milliseconds since 1970. An expired key makes no signatures, tags or
    /// ciphertexts, but still verifies and decrypts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_ms: Option<u64>,
    /// Whether the private key may be exported. Cannot be reset.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_exportable: bool,
    /// Whether Vault's API may delete the key, which destroys it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_deletable: bool,
    /// Whether the key signs and verifies only by `mu`, so that no message reaches the service.
    /// Cannot be reset.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub requires_mu: bool,
    /// The maximum lifetime in seconds of the JSON Web Tokens that the key signs. If set, the key
    /// signs nothing else, because another signature could be a token that lives longer. Cannot be
    /// reset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jwt_max_lifetime_s: Option<u64>,
    /// Whether the audit record of each use is synced to the disk before the answer. `None`: the
    /// service's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_durable: Option<bool>,
    /// The origin of the first version.
    #[serde(default, skip_serializing_if = "Origin::is_made")]
    pub origin: Origin,
    /// The standards that the key promises to conform to, since its creation.
    #[serde(default, skip_serializing_if = "Conformances::is_empty")]
    pub conformance: Conformances,
    /// The rotation period in seconds. `None`: no automatic rotation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotate_period_s: Option<u64>,
    /// The next rotation. Set if and only if there is a period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotates_ms: Option<u64>,
}

/// The time at which a key is rotated automatically.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RotationTime {
    /// The next rotation in milliseconds since 1970.
    pub at_ms: u64,
    /// The rotation period in seconds.
    pub period_s: u64,
}

impl RotationTime {
    /// Returns the time one period after `now_ms`.
    pub fn after(now_ms: u64, period_s: u64) -> Self {
        RotationTime { at_ms: now_ms.saturating_add(period_s.saturating_mul(1000)), period_s }
    }

    /// Returns whether the time is further ahead than any rotation could have set it: a clock was
    /// wrong then, or is now.
    pub fn is_too_far(&self, now_ms: u64) -> bool {
        self.at_ms > RotationTime::after(now_ms, self.period_s).at_ms.saturating_add(AHEAD_MS)
    }
}

/// Rejects a rotation period that is out of range.
///
/// # Errors
/// [`Error::Parameter`].
pub fn check_rotate_period(period_s: u64) -> Result<(), Error> {
    match (ROTATE_PERIOD_MIN_S..=ROTATE_PERIOD_MAX_S).contains(&period_s) {
        true => Ok(()),
        false => Err(Error::Parameter(format!(
            "a key is not rotated every {period_s} s; expected {ROTATE_PERIOD_MIN_S} (an hour) to \
             {ROTATE_PERIOD_MAX_S} (ten years), or 0 for never"
        ))),
    }
}

/// The origin of a key's first version, which determines how further ones are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The key was generated by the service.
    #[default]
    Made,
    /// The key was imported.
    Imported,
    /// The key was imported, and all its further versions are imported, too: it cannot be rotated
    /// here.
    Fixed,
}

impl Origin {
    /// Returns whether the key was generated by the service.
    pub fn is_made(&self) -> bool {
        *self == Origin::Made
    }
}

/// Whether a version may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// The version may be used.
    Enabled,
    /// The version may not be used until it is enabled again.
    Disabled,
}

/// The state of a version, without secrets. A destroyed version has only a tombstone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Version {
    /// The version's number, from 1.
    pub version: u32,
    /// The creation time in milliseconds since 1970, by a clock that may be wrong.
    pub created_ms: u64,
    /// Whether it may be used.
    pub state: State,
}

impl Key {
    /// Creates a key with one version.
    pub fn new(id: KeyId, name: Label, now_ms: u64) -> Self {
        Key {
            id,
            name,
            created_ms: now_ms,
            labels: BTreeMap::new(),
            latest: 1,
            min_available: 1,
            min_sign: 0,
            min_verify: 1,
            min_decrypt: 1,
            deleted_ms: None,
            expires_ms: None,
            is_exportable: false,
            is_deletable: false,
            requires_mu: false,
            jwt_max_lifetime_s: None,
            is_durable: None,
            origin: Origin::Made,
            conformance: Conformances::new(),
            rotate_period_s: None,
            rotates_ms: None,
        }
    }

    /// Returns the requested version, or the newest one, if the key's state permits this use.
    ///
    /// # Errors
    /// [`Error::Deleted`], [`Error::JwtRequired`], [`Error::NoVersion`],
    /// [`Error::VersionDestroyed`], [`Error::NotAllowed`].
    pub fn version_for(&self, what: Use, version: Option<u32>) -> Result<u32, Error> {
        self.check_not_deleted()?;
        if what == Use::Sign && self.jwt_max_lifetime_s.is_some() {
            return Err(Error::JwtRequired);
        }
        let version = self.existing(version.unwrap_or(self.latest))?;
        let newest_or = |oldest| if oldest == 0 { self.latest } else { oldest };
        let (oldest, what) = match what {
            Use::Sign | Use::Jwt => (newest_or(self.min_sign), "sign"),
            Use::Encrypt => (newest_or(self.min_sign), "encrypt"),
            Use::Verify => (self.min_verify, "verify"),
            Use::Decrypt => (self.min_decrypt, "decrypt"),
        };
        match version < oldest {
            true => Err(Error::NotAllowed { version, what, oldest }),
            false => Ok(version),
        }
    }

    /// Checks that a version exists and was not trimmed.
    ///
    /// # Errors
    /// [`Error::NoVersion`] and [`Error::VersionDestroyed`].
    pub fn existing(&self, version: u32) -> Result<u32, Error> {
        match version {
            version if version == 0 || version > self.latest => {
                Err(Error::NoVersion { version, latest: self.latest })
            }
            version if version < self.min_available => Err(Error::VersionDestroyed(version)),
            version => Ok(version),
        }
    }

    /// Returns the key with another version, created now.
    ///
    /// # Errors
    /// [`Error::Deleted`]; 2^32 versions.
    pub fn rotated(&self, now_ms: u64) -> Result<Self, Error> {
        self.check_not_deleted()?;
        let latest = self.latest.checked_add(1).ok_or(Error::TooLarge {
            what: "versions",
            most: u32::MAX as usize,
            got: u32::MAX as usize,
        })?;
        let rotates_ms =
            self.rotate_period_s.map(|period_s| RotationTime::after(now_ms, period_s).at_ms);
        Ok(Key { latest, rotates_ms, ..self.clone() })
    }

    /// Returns the key with another rotation period, counted from its newest version; `None`
    /// disables automatic rotation. Setting the current period again does not change the rotation
    /// time.
    ///
    /// # Errors
    /// [`Error::Deleted`]; a period that is out of range; a key whose versions are all imported.
    pub fn rotating(
        &self,
        period_s: Option<u64>,
        made_ms: u64,
        now_ms: u64,
    ) -> Result<Self, Error> {
        self.check_not_deleted()?;
        let Some(period_s) = period_s else {
            return Ok(Key { rotate_period_s: None, rotates_ms: None, ..self.clone() });
        };
        check_rotate_period(period_s)?;
        self.check_made_here()?;
        if self.rotate_period_s == Some(period_s) {
            return Ok(self.clone());
        }
        // If a clock that was ahead made the version, treat it as created now.
        let due = RotationTime::after(made_ms.min(now_ms), period_s);
        Ok(Key { rotate_period_s: Some(due.period_s), rotates_ms: Some(due.at_ms), ..self.clone() })
    }

    /// Returns the key with its next rotation one period from now.
    pub fn reschedule(&self, now_ms: u64) -> Self {
        let rotates_ms =
            self.rotate_period_s.map(|period_s| RotationTime::after(now_ms, period_s).at_ms);
        Key { rotates_ms, ..self.clone() }
    }

    /// Returns when the key is rotated automatically; `None` if it has no period or is deleted.
    pub fn due(&self) -> Option<RotationTime> {
        let due = RotationTime { at_ms: self.rotates_ms?, period_s: self.rotate_period_s? };
        self.deleted_ms.is_none().then_some(due)
    }

    /// Rejects a key that cannot be rotated here.
    ///
    /// # Errors
    /// [`Error::Unsupported`].
    pub fn check_made_here(&self) -> Result<(), Error> {
        match self.origin {
            Origin::Made | Origin::Imported => Ok(()),
            Origin::Fixed => Err(Error::Unsupported(
                "the key's versions are imported, all of them; `import` the next one".to_owned(),
            )),
        }
    }

    /// Returns the key with another minimum version.
    ///
    /// # Errors
    /// [`Error::NoVersion`]; a version that was trimmed.
    pub fn with_minimum(&self, of: Minimum, version: u32) -> Result<Self, Error> {
        self.check_not_deleted()?;
        let mut key = self.clone();
        let field = match of {
            Minimum::Sign => &mut key.min_sign,
            Minimum::Verify => &mut key.min_verify,
            Minimum::Decrypt => &mut key.min_decrypt,
        };
        *field = match (of, version) {
            (Minimum::Sign, 0) => 0,
            (Minimum::Sign | Minimum::Verify | Minimum::Decrypt, version) => {
                self.existing(version)?
            }
        };
        Ok(key)
    }

    /// Returns the key without the versions before `before`, permanently. No minimum version may
    /// still allow them.
    ///
    /// # Errors
    /// [`Error::NoVersion`]; a version that a minimum still allows.
    pub fn trimmed(&self, before: u32) -> Result<Self, Error> {
        self.check_not_deleted()?;
        self.existing(before)?;
        let in_use = [self.min_verify, self.min_decrypt, self.min_sign];
        match in_use.iter().filter(|&&oldest| oldest != 0).any(|&oldest| oldest < before) {
            true => Err(Error::Parameter(format!(
                "versions before {before} may still be used; raise min_sign, min_verify and min_decrypt to it first"
            ))),
            false => Ok(Key { min_available: before, ..self.clone() }),
        }
    }

    /// Returns the key as deleted: it cannot be used until it is restored.
    ///
    /// # Errors
    /// [`Error::Deleted`].
    pub fn deleted(&self, now_ms: u64) -> Result<Self, Error> {
        self.check_not_deleted()?;
        Ok(Key { deleted_ms: Some(now_ms), ..self.clone() })
    }

    /// Returns the restored key.
    ///
    /// # Errors
    /// A key that is not deleted.
    pub fn restored(&self) -> Result<Self, Error> {
        match self.deleted_ms {
            Some(_) => Ok(Key { deleted_ms: None, ..self.clone() }),
            None => Err(Error::Parameter("the key is not deleted".to_owned())),
        }
    }

    /// Returns the key with other labels.
    ///
    /// # Errors
    /// Too many labels; an invalid name or a value that is too long.
    pub fn labelled(&self, labels: BTreeMap<String, String>) -> Result<Self, Error> {
        self.check_not_deleted()?;
        let limit = |what, most, got| {
            if got > most { Err(Error::TooLarge { what, most, got }) } else { Ok(()) }
        };
        limit("labels", LABELS_MAX, labels.len())?;
        for (name, value) in &labels {
            Label::new("label", name)?;
            limit("bytes of a label", LABEL_MAX, value.len())?;
        }
        Ok(Key { labels, ..self.clone() })
    }

    /// Returns the key with another expiry time.
    ///
    /// # Errors
    /// [`Error::Deleted`].
    pub fn expiring(&self, expires_ms: Option<u64>) -> Result<Self, Error> {
        self.check_not_deleted()?;
        Ok(Key { expires_ms, ..self.clone() })
    }

    /// Returns the key as exportable.
    ///
    /// # Errors
    /// [`Error::Deleted`].
    pub fn exportable(&self) -> Result<Self, Error> {
        self.check_not_deleted()?;
        Ok(Key { is_exportable: true, ..self.clone() })
    }

    /// Returns the key, restricted to signing and verifying by `mu`.
    ///
    /// # Errors
    /// [`Error::Deleted`]; [`Error::Unsupported`] if it is not an ML-DSA key, or signs only JSON
    /// Web Tokens.
    pub fn requiring_mu(&self) -> Result<Self, Error> {
        self.check_not_deleted()?;
        check_takes_mu(self.id.algorithm)?;
        match self.jwt_max_lifetime_s {
            Some(_) => Err(mu_or_jwt()),
            None => Ok(Key { requires_mu: true, ..self.clone() }),
        }
    }

    /// Returns the key, restricted to signing JSON Web Tokens with this maximum lifetime in
    /// seconds.
    ///
    /// # Errors
    /// [`Error::Deleted`]; those of [`check_jwt_limit`].
    pub fn limiting_jwt(&self, lifetime_s: u64) -> Result<Self, Error> {
        self.check_not_deleted()?;
        check_jwt_limit(self.id.algorithm, self.requires_mu, lifetime_s)?;
        Ok(Key { jwt_max_lifetime_s: Some(lifetime_s), ..self.clone() })
    }

    /// Rejects a JSON Web Token whose lifetime, counted from `now_s`, exceeds the key's limit.
    ///
    /// # Errors
    /// [`Error::Parameter`].
    pub fn check_jwt_end(&self, exp_s: u64, now_s: u64) -> Result<(), Error> {
        let most = self.jwt_max_lifetime_s.unwrap_or(JWT_MAX_LIFETIME_DEFAULT_S);
        let lifetime_s = exp_s.saturating_sub(now_s);
        if lifetime_s <= most {
            return Ok(());
        }
        let limit = match self.jwt_max_lifetime_s {
            Some(_) => "its `jwt_max_lifetime_s`",
            None => "the limit of a key without `jwt_max_lifetime_s`",
        };
        Err(Error::Parameter(format!(
            "the token would live {lifetime_s} s from now; the key signs tokens of at most {most} s, {limit}"
        )))
    }

    /// Returns the key with another permission for Vault's API to delete it.
    ///
    /// # Errors
    /// [`Error::Deleted`].
    pub fn deletable(&self, is_deletable: bool) -> Result<Self, Error> {
        self.check_not_deleted()?;
        Ok(Key { is_deletable, ..self.clone() })
    }

    /// Returns the key with another durability of the audit records of its uses; `None` for the
    /// service's default.
    ///
    /// # Errors
    /// [`Error::Deleted`].
    pub fn durable(&self, is_durable: Option<bool>) -> Result<Self, Error> {
        self.check_not_deleted()?;
        Ok(Key { is_durable, ..self.clone() })
    }

    /// Rejects an expired key.
    ///
    /// # Errors
    /// [`Error::Expired`].
    pub fn check_not_expired(&self, now_ms: u64) -> Result<(), Error> {
        match self.expires_ms {
            Some(expires_ms) if now_ms >= expires_ms => Err(Error::Expired),
            Some(_) | None => Ok(()),
        }
    }

    /// Rejects `mu` unless the algorithm signs it, and anything else if the key requires `mu`.
    ///
    /// # Errors
    /// [`Error::Unsupported`], [`Error::MuRequired`].
    pub fn check_mu(&self, message: &Message<'_>) -> Result<(), Error> {
        match message {
            Message::Mu(_) => check_takes_mu(self.id.algorithm),
            _ if self.requires_mu => Err(Error::MuRequired),
            _ => Ok(()),
        }
    }

    /// Rejects a message to sign whose form the key or its labels do not allow.
    ///
    /// # Errors
    /// [`Error::Unsupported`], [`Error::MuRequired`].
    pub fn check_message(&self, message: &Message<'_>) -> Result<(), Error> {
        self.check_mu(message)?;
        let algorithm = self.id.algorithm;
        self.conformance.iter().try_for_each(|label| label.check_message(algorithm, message))
    }

    /// Returns what the key signs: a message whose form it allows, or a digest under the scheme
    /// that its labels require.
    ///
    /// # Errors
    /// Those of [`Self::check_message`] and [`Self::conforming_scheme`].
    pub(crate) fn conforming<'a>(&self, signable: Signable<'a>) -> Result<Signable<'a>, Error> {
        match signable {
            Signable::Message(message) => self.check_message(&message).map(|()| signable),
            Signable::Digest { scheme, digest } => {
                Ok(Signable::Digest { scheme: self.conforming_scheme(scheme)?, digest })
            }
        }
    }

    /// Returns the scheme with which the key signs an RSA digest under its labels.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for a scheme that the labels exclude.
    pub fn conforming_scheme(&self, scheme: Scheme) -> Result<Scheme, Error> {
        let algorithm = self.id.algorithm;
        let conforming = |scheme, label: &Conformance| label.conforming_scheme(algorithm, scheme);
        self.conformance.iter().try_fold(scheme, conforming)
    }

    /// Rejects a nonstandard form of message, given by its name, if a label of the key requires
    /// standard ones.
    ///
    /// # Errors
    /// [`Error::Unsupported`].
    pub fn check_form(&self, form: &str) -> Result<(), Error> {
        let strict = self.conformance.iter().find(|label| label.is_of_standards());
        strict.map_or(Ok(()), |label| {
            Err(Error::Unsupported(format!("the form `{form}` does not conform to `{label}`")))
        })
    }

    /// Checks that HMAC keys may be derived from the key's secret. Labels that require approved
    /// uses exclude it, because standards approve no key for several purposes (NIST SP 800-57 Part
    /// 1, section 5.2). Keys that require `mu` exclude it, because messages would reach the
    /// service.
    ///
    /// # Errors
    /// [`Error::Unsupported`], [`Error::MuRequired`].
    pub fn check_derives_tags(&self) -> Result<(), Error> {
        if self.requires_mu {
            return Err(Error::MuRequired);
        }
        let strict = self.conformance.iter().find(|label| label.is_of_standards());
        strict.map_or(Ok(()), |label| {
            Err(Error::Unsupported(format!(
                "the label `{label}` does not allow a key for tags to be derived from this key; make a key of the type hmac"
            )))
        })
    }

    /// Rejects a deleted key.
    ///
    /// # Errors
    /// [`Error::Deleted`].
    pub fn check_not_deleted(&self) -> Result<(), Error> {
        if self.deleted_ms.is_some() { Err(Error::Deleted) } else { Ok(()) }
    }
}

/// Rejects algorithms that do not sign `mu`, the message representative of ML-DSA (FIPS 204,
/// Algorithm 7, line 6).
///
/// # Errors
/// [`Error::Unsupported`].
pub fn check_takes_mu(algorithm: KeyAlgorithm) -> Result<(), Error> {
    match algorithm.algorithm() {
        Some(Algorithm::MlDsa44 | Algorithm::MlDsa65 | Algorithm::MlDsa87) => Ok(()),
        _ => Err(Error::Unsupported(format!("{algorithm} does not sign `mu`; ML-DSA does"))),
    }
}

/// Rejects a limit on JSON Web Tokens that keys of the algorithm cannot have.
///
/// # Errors
/// [`Error::Unsupported`] for algorithms that cannot sign such tokens, and for keys that require
/// `mu`; [`Error::Parameter`] for a lifetime that is out of range.
pub fn check_jwt_limit(
    algorithm: KeyAlgorithm,
    requires_mu: bool,
    lifetime_s: u64,
) -> Result<(), Error> {
    algorithm.jwt_alg()?;
    if requires_mu {
        return Err(mu_or_jwt());
    }
    match (1..=JWT_MAX_LIFETIME_MAX_S).contains(&lifetime_s) {
        true => Ok(()),
        false => Err(Error::Parameter(format!(
            "`jwt_max_lifetime_s` is {lifetime_s}; expected 1 to {JWT_MAX_LIFETIME_MAX_S} (ten years)"
        ))),
    }
}

fn mu_or_jwt() -> Error {
    Error::Unsupported(
        "a key cannot have both `mu_required` and `jwt_max_lifetime_s`: to sign a token, the service has to read its claims"
            .to_owned(),
    )
}

impl Version {
    /// Rejects a disabled version.
    ///
    /// # Errors
    /// [`Error::Disabled`].
    pub fn check_enabled(&self) -> Result<(), Error> {
        match self.state {
            State::Enabled => Ok(()),
            State::Disabled => Err(Error::Disabled(self.version)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_790_000_000_000;
    const DAY_S: u64 = 24 * 60 * 60;
    const DAY: u64 = 1000 * DAY_S;

    fn key() -> Key {
        let id = "default/transit/ed25519/0192b1c4-5f6e-4d7a-8b9c-0d1e2f3a4b5c";
        Key::new(id.parse().unwrap(), Label::new("key", "k").unwrap(), NOW)
    }

    #[test]
    fn a_key_is_due_when_its_newest_version_is_old_enough() {
        let daily = key().rotating(Some(DAY_S), NOW, NOW + 5).unwrap();
        assert_eq!(daily.due(), Some(RotationTime { at_ms: NOW + DAY, period_s: DAY_S }));
        // Setting the same period again changes nothing. Another period counts from the version, or
        // from now if a clock was ahead.
        assert_eq!(daily.rotating(Some(DAY_S), NOW + 9, NOW + 9).unwrap(), daily);
        let other = daily.rotating(Some(2 * DAY_S), NOW, NOW + DAY).unwrap();
        assert_eq!(other.rotates_ms, Some(NOW + 2 * DAY));
        assert_eq!(
            key().rotating(Some(DAY_S), NOW + 99 * DAY, NOW).unwrap().rotates_ms,
            Some(NOW + DAY)
        );
        let rotated = daily.rotated(NOW + 10 * DAY).unwrap();
        assert_eq!((rotated.latest, rotated.rotates_ms), (2, Some(NOW + 11 * DAY)));
        assert_eq!(daily.reschedule(NOW + 3).rotates_ms, Some(NOW + 3 + DAY));
        let ended = daily.rotating(None, NOW, NOW).unwrap();
        assert_eq!((ended.due(), &ended), (None, &key()));
        assert_eq!((key().rotated(NOW).unwrap().due(), key().reschedule(NOW)), (None, key()));
        // A deleted key is not rotated.
        let deleted = daily.deleted(NOW).unwrap();
        assert_eq!((deleted.due(), deleted.restored().unwrap().due()), (None, daily.due()));
        assert_eq!(deleted.rotating(None, NOW, NOW), Err(Error::Deleted));
    }

    #[test]
    fn periods_and_keys_that_are_not_rotated_are_refused() {
        for good in [ROTATE_PERIOD_MIN_S, ROTATE_PERIOD_MAX_S] {
            assert_eq!(key().rotating(Some(good), NOW, NOW).unwrap().rotate_period_s, Some(good));
        }
        for bad in [0, 1, ROTATE_PERIOD_MIN_S - 1, ROTATE_PERIOD_MAX_S + 1, u64::MAX] {
            let refused = key().rotating(Some(bad), NOW, NOW);
            assert!(matches!(refused, Err(Error::Parameter(_))), "{bad}: {refused:?}");
        }
        let fixed = Key { origin: Origin::Fixed, ..key() };
        assert!(matches!(fixed.rotating(Some(DAY_S), NOW, NOW), Err(Error::Unsupported(_))));
        assert_eq!(fixed.rotating(None, NOW, NOW), Ok(fixed.clone()));
    }

    #[test]
    fn a_time_that_no_rotation_made_is_too_far() {
        let due = RotationTime::after(NOW, DAY_S);
        assert!(
            !due.is_too_far(NOW) && !due.is_too_far(NOW - AHEAD_MS) && !due.is_too_far(NOW + DAY)
        );
        assert!(due.is_too_far(NOW - AHEAD_MS - 1) && due.is_too_far(0));
        let last = RotationTime::after(u64::MAX, ROTATE_PERIOD_MAX_S);
        assert!(last.is_too_far(NOW) && !last.is_too_far(u64::MAX));
    }

    /// Records of older programs are readable, and fields that they do not know are written only if
    /// set.
    #[test]
    fn a_key_without_a_period_is_written_as_before() {
        let text = serde_json::to_string(&key()).unwrap();
        assert!(!text.contains("rotate"), "{text}");
        let daily = key().rotating(Some(DAY_S), NOW, NOW).unwrap();
        let text = serde_json::to_string(&daily).unwrap();
        assert!(
            text.ends_with(",\"rotate_period_s\":86400,\"rotates_ms\":1790086400000}"),
            "{text}"
        );
        assert_eq!(serde_json::from_str::<Key>(&text).unwrap(), daily);
    }
}
