//! Keys without their material: names, ids, versions, and the rules of their use.
//!
//! ```text
//!   tenant/purpose/algorithm/uuid#vN     a version: VersionId        Label   a name in Vault's charset
//!   tenant/purpose/algorithm/uuid        a key: KeyId                Key     its state; Version  one version's state
//!
//!   versions   1 ... min_available ... min_verify, min_decrypt, min_sign ... latest
//!              trimmed                 usable
//! ```
//!
//! Nothing here reads a clock, draws a random number or writes anything: a change returns a new
//! value.

mod conformance;
mod id;
mod jose;
mod key;
mod name;
mod rsa;
mod symmetric;

pub use conformance::{Conformance, Conformances};
pub use id::{Capability, KeyAlgorithm, KeyId, Uuid, VersionId};
pub use jose::JoseNames;
pub use key::{
    JWT_MAX_LIFETIME_DEFAULT_S, JWT_MAX_LIFETIME_MAX_S, Key, LABELS_MAX, Minimum, Origin,
    ROTATE_PERIOD_MAX_S, ROTATE_PERIOD_MIN_S, RotationTime, State, Use, Version, check_jwt_limit,
    check_rotate_period, check_takes_mu,
};
pub use name::{Label, NAME_MAX};
pub use rsa::Rsa;
pub use symmetric::Symmetric;
