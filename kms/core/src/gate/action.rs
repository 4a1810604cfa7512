//! What may be asked for.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::Error;

/// Lists the actions once: name, number, text. The numbers stand in tokens and never change.
macro_rules! actions {
    ($($(#[$doc:meta])* $action:ident = $number:literal $text:literal;)*) => {
        /// What may be asked for: a closed list.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub enum Action {
            $($(#[$doc])* $action = $number,)*
        }

        impl Action {
            /// Every one.
            pub const ALL: &[Action] = &[$(Action::$action,)*];

            /// Its name.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Action::$action => $text,)*
                }
            }
        }
    };
}

actions! {
    /// Make a key.
    Create = 0 "create";
    /// See the names of keys.
    List = 1 "list";
    /// See what a key is.
    Show = 2 "show";
    /// Give a key another version.
    Rotate = 3 "rotate";
    /// Change what a key allows, and its labels.
    Config = 4 "config";
    /// Bring a key.
    Import = 5 "import";
    /// Take a key away.
    Export = 6 "export";
    /// Take a version out of use.
    Disable = 7 "disable";
    /// Put a version into use again.
    Enable = 8 "enable";
    /// Destroy versions that nothing may use any more.
    Trim = 9 "trim";
    /// Delete a key, which can be restored.
    Delete = 10 "delete";
    /// Destroy a key.
    Destroy = 11 "destroy";
    /// Restore a key that was deleted.
    Restore = 12 "restore";
    /// Sign.
    Sign = 13 "sign";
    /// Verify a signature.
    Verify = 14 "verify";
    /// Encrypt.
    Encrypt = 15 "encrypt";
    /// Decrypt.
    Decrypt = 16 "decrypt";
    /// Encrypt anew what an older version encrypted.
    Rewrap = 17 "rewrap";
    /// Make a key for data, and have it wrapped.
    Datakey = 18 "datakey";
    /// Authenticate by HMAC.
    Hmac = 19 "hmac";
    /// Wrap a key.
    Wrap = 20 "wrap";
    /// Unwrap a key.
    Unwrap = 21 "unwrap";
    /// Encapsulate.
    Encaps = 22 "encaps";
    /// Decapsulate.
    Decaps = 23 "decaps";
    /// Have random bytes.
    Random = 24 "random";
    /// Have a key described and that signed.
    Attest = 25 "attest";
    /// See how the service is.
    Status = 26 "status";
    /// Make and revoke tokens, and their root keys.
    Token = 27 "token";
    /// Read and change policies.
    Policy = 28 "policy";
    /// Read the audit log.
    Audit = 29 "audit";
    /// Seal the service.
    Seal = 30 "seal";
    /// Make a copy of the store.
    Backup = 31 "backup";
    /// Sign JSON Web Tokens.
    SignJwt = 32 "sign_jwt";
}

impl Action {
    /// Whether it is about the service and its callers, not about a key.
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
            Error::Parameter(format!("`{text}` is no action; expected one of {}", known.join(", ")))
        })
    }
}

/// A set of actions: a bit for each.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Actions(u64);

impl Actions {
    /// None.
    pub fn none() -> Self {
        Actions(0)
    }

    /// Every one.
    pub fn all() -> Self {
        Action::ALL.iter().copied().collect()
    }

    /// Whether one is in it.
    pub fn contains(self, action: Action) -> bool {
        self.0 & bit(action) != 0
    }

    /// Those that are in it, in their order.
    pub fn iter(self) -> impl Iterator<Item = Action> {
        Action::ALL.iter().copied().filter(move |&action| self.contains(action))
    }

    /// As a token has it.
    pub fn bits(self) -> u64 {
        self.0
    }

    /// Of a token; none where a bit is of no action.
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
