//! The actions that callers can request.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::Error;

/// Defines [`Action`] from one list of variant, number and text. The numbers are stored in tokens
/// and never change.
macro_rules! actions {
    ($($(#[$doc:meta])* $action:ident = $number:literal $text:literal;)*) => {
        /// An action that a caller can request. The list is closed.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Action {
            $($(#[$doc])* $action = $number,)*
        }

        impl Action {
            /// All actions.
            pub const ALL: &[Action] = &[$(Action::$action,)*];

            /// Returns the action's name.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Action::$action => $text,)*
                }
            }
        }
    };
}

actions! {
    /// Creates a key.
    Create = 0 "create";
    /// Lists the names of keys.
    List = 1 "list";
    /// Reads a key's description.
    Show = 2 "show";
    /// Adds a version to a key.
    Rotate = 3 "rotate";
    /// Changes a key's configuration and labels.
    Config = 4 "config";
    /// Imports a key.
    Import = 5 "import";
    /// Exports a key.
    Export = 6 "export";
    /// Disables a version.
    Disable = 7 "disable";
    /// Enables a version.
    Enable = 8 "enable";
    /// Destroys the versions below a key's minimum versions.
    Trim = 9 "trim";
    /// Deletes a key, which can be restored.
    Delete = 10 "delete";
    /// Destroys a key.
    Destroy = 11 "destroy";
    /// Restores a deleted key.
    Restore = 12 "restore";
    /// Signs.
    Sign = 13 "sign";
    /// Verifies a signature or a tag.
    Verify = 14 "verify";
    /// Encrypts.
    Encrypt = 15 "encrypt";
    /// Decrypts.
    Decrypt = 16 "decrypt";
    /// Encrypts a ciphertext of an older version again.
    Rewrap = 17 "rewrap";
    /// Generates a data key and returns it wrapped.
    Datakey = 18 "datakey";
    /// Makes an HMAC tag.
    Hmac = 19 "hmac";
    /// Wraps a key.
    Wrap = 20 "wrap";
    /// Unwraps a key.
    Unwrap = 21 "unwrap";
    /// Encapsulates.
    Encaps = 22 "encaps";
    /// Decapsulates.
    Decaps = 23 "decaps";
    /// Returns random bytes.
    Random = 24 "random";
    /// Returns a signed description of a key.
    Attest = 25 "attest";
    /// Reads the service's status.
    Status = 26 "status";
    /// Makes and revokes tokens and their root keys.
    Token = 27 "token";
    /// Reads and changes policies.
    Policy = 28 "policy";
    /// Reads the audit log.
    Audit = 29 "audit";
    /// Seals the service.
    Seal = 30 "seal";
    /// Makes a backup of the store.
    Backup = 31 "backup";
    /// Signs JSON Web Tokens.
    SignJwt = 32 "sign_jwt";
}

impl Action {
    /// Returns whether the action concerns the service and its callers instead of a key.
    pub fn is_administration(self) -> bool {
        matches!(
            self,
            Action::Token | Action::Policy | Action::Audit | Action::Seal | Action::Backup
        )
    }
}

impl fmt::Display for Action {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

impl FromStr for Action {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Action::ALL.iter().copied().find(|known| known.as_str() == text).ok_or_else(|| {
            let known: Vec<&str> = Action::ALL.iter().map(|known| known.as_str()).collect();
            let text: String = text.chars().take(40).collect();
            Error::Parameter(format!(
                "unknown action `{text}`; expected one of {}",
                known.join(", ")
            ))
        })
    }
}

/// A set of actions, as one bit per action.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Actions(u64);

impl Actions {
    /// Returns the empty set.
    pub fn none() -> Self {
        Actions(0)
    }

    /// Returns the set of all actions.
    pub fn all() -> Self {
        Action::ALL.iter().copied().collect()
    }

    /// Returns whether the set contains an action.
    pub fn contains(self, action: Action) -> bool {
        self.0 & bit(action) != 0
    }

    /// Iterates over the actions in the set, in the order of their numbers.
    pub fn iter(self) -> impl Iterator<Item = Action> {
        Action::ALL.iter().copied().filter(move |&action| self.contains(action))
    }

    /// Returns the set as a token encodes it.
    pub fn bits(self) -> u64 {
        self.0
    }

    /// Decodes the set of a token; `None` if a bit belongs to no action.
    pub fn of_bits(bits: u64) -> Option<Self> {
        (bits & !Self::all().0 == 0).then_some(Actions(bits))
    }
}

impl FromIterator<Action> for Actions {
    fn from_iter<I: IntoIterator<Item = Action>>(actions: I) -> Self {
        Actions(actions.into_iter().fold(0, |bits, action| bits | bit(action)))
    }
}

impl fmt::Debug for Actions {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

impl fmt::Display for Actions {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, action) in self.iter().enumerate() {
            write!(out, "{}{action}", if place == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl FromStr for Actions {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        match text {
            "" => Ok(Actions::none()),
            text => text.split(',').map(str::parse::<Action>).collect(),
        }
    }
}

fn bit(action: Action) -> u64 {
    1 << action as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_action_has_one_name_and_one_bit() {
        for (place, &action) in Action::ALL.iter().enumerate() {
            assert_eq!(action as usize, place, "the numbers stand in tokens");
            assert_eq!(action.as_str().parse::<Action>().unwrap(), action);
            assert_eq!(serde_json::to_string(&action).unwrap(), format!("\"{action}\""));
        }
        assert!("Sign".parse::<Action>().is_err() && "".parse::<Action>().is_err());
        assert_eq!(Actions::of_bits(1 << Action::ALL.len()), None);
        let some: Actions = "verify,sign".parse().unwrap();
        assert_eq!(some.to_string(), "sign,verify");
        assert_eq!(Actions::of_bits(some.bits()), Some(some));
        assert_eq!("".parse::<Actions>().unwrap(), Actions::none());
        assert!("sign,".parse::<Actions>().is_err());
    }
}
