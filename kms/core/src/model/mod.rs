//! What a key is, without its bytes: names, ids, versions, and what may be done with which.
//!
//! ```text
//!   tenant/purpose/algorithm/uuid#vN     a version: VersionId        Label   a name in Vault's charset
//!   tenant/purpose/algorithm/uuid        a key: KeyId                Key     its state; Version  one version's state
//!
//!   versions   1 ... min_available ... min_verify, min_decrypt, min_sign ... latest
//!              trimmed                 what may be used
//! ```
//!
//! Nothing here reads a clock, draws a number or writes anything: a change is a value that takes another.

mod conformance;
mod id;
mod key;
mod name;
mod rsa;
mod symmetric;

pub use conformance::{Conformance, Conformances};
pub use id::{Does, KeyAlgorithm, KeyId, Uuid, VersionId};
pub use key::{
    Due, Key, LABELS_MAX, Minimum, Origin, ROTATE_PERIOD_MAX_S, ROTATE_PERIOD_MIN_S, State, Use,
    Version, check_rotate_period,
};
pub use name::{Label, NAME_MAX};
pub use rsa::Rsa;
pub use symmetric::Symmetric;
