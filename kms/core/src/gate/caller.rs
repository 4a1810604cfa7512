//! Authenticated callers.

use std::net::IpAddr;

use sha2::{Digest, Sha256};

use super::action::Actions;
use super::caveat::Caveat;
use super::principal::Principal;
use super::roots::RootId;
use super::token::{TagDigest, TokenId};
use crate::text::hex;

/// Separates digests of credentials from all other digests.
const CREDENTIAL: &[u8] = b"gabion kms credential 1\0";

/// The properties of a connection's client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// The client's address. `None` for sockets without addresses, such as Unix sockets.
    pub address: Option<IpAddr>,
    /// The SHA-256 of the client certificate.
    pub certificate: Option<[u8; 32]>,
}

/// The method of authentication.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// A token.
    Token {
        /// The token's id.
        id: TokenId,
    },
    /// A client certificate.
    Certificate,
    /// The process itself.
    Local,
}

/// An authenticated caller.
#[derive(Clone, Debug)]
pub struct Caller {
    pub(super) principal: Principal,
    pub(super) method: Method,
    pub(super) caveats: Vec<Caveat>,
    /// The root key of the caller's token.
    pub(super) root: Option<RootId>,
    /// The digests of the token's tags, from the first one on.
    pub(super) line: Vec<TagDigest>,
    pub(super) peer: Peer,
}

impl Caller {
    /// Returns whether both callers used the same token with the same caveats.
    pub fn is_same_token(&self, other: &Caller) -> bool {
        let is_token = matches!(self.method, Method::Token { .. });
        is_token && self.method == other.method && self.line == other.line
    }

    /// Creates a caller without caveats.
    pub(super) fn of(principal: Principal, method: Method, peer: &Peer) -> Self {
        let (caveats, line) = (Vec::new(), Vec::new());
        Caller { principal, method, caveats, root: None, line, peer: *peer }
    }

    /// Creates a caller with an assumed token, to query policies only. [`super::Gate::allow`]
    /// denies it everything.
    pub fn supposed(principal: Principal, peer: &Peer) -> Self {
        Caller::of(principal, Method::Token { id: TokenId([0; 16]) }, peer)
    }

    /// Returns the caller's name in policies.
    pub(super) fn in_policies(&self) -> String {
        let of = if self.method == Method::Certificate { "Certificate" } else { "Token" };
        format!("{of}::\"{}\"", self.principal)
    }

    /// Returns the properties of the caller's connection.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Returns the principal.
    pub fn principal(&self) -> &Principal {
        &self.principal
    }

    /// Returns the method of authentication.
    pub fn method(&self) -> Method {
        self.method
    }

    /// Returns a digest that identifies the caller's credential: the token with its whole caveat
    /// chain, or the client certificate. A principal's name does not identify a credential: the
    /// maker of a token chooses it, and every attenuation has the same one.
    pub fn credential(&self) -> [u8; 32] {
        let mut digest = Sha256::new_with_prefix(CREDENTIAL);
        match self.method {
            Method::Token { id } => {
                digest.update(b"token\0");
                digest.update(id.0);
                self.line.iter().for_each(|tag| digest.update(tag.0));
            }
            Method::Certificate => {
                digest.update(b"certificate\0");
                digest.update(self.peer.certificate.unwrap_or_default());
                digest.update(self.principal.as_str());
            }
            Method::Local => {
                digest.update(b"local\0");
                digest.update(self.principal.as_str());
            }
        }
        digest.finalize().into()
    }

    /// Returns the name that limits are counted under: `token:ID`, because holders of a token can
    /// make any number of attenuations of it, or `certificate:NAME`. `None` for the process itself.
    pub fn holder(&self) -> Option<String> {
        match self.method {
            Method::Token { id } => Some(format!("token:{id}")),
            Method::Certificate => Some(format!("certificate:{}", self.principal)),
            Method::Local => None,
        }
    }

    /// Returns the credential as the audit log names it: `token:ID:CHAIN`, `certificate:SHA256` or
    /// `local`.
    pub fn credential_text(&self) -> String {
        match (self.method, self.line.last(), self.peer.certificate) {
            (Method::Token { id }, Some(own), _) => format!("token:{id}:{}", hex(&own.0)),
            (Method::Token { id }, None, _) => format!("token:{id}"),
            (Method::Certificate, _, Some(digest)) => format!("certificate:{}", hex(&digest)),
            (Method::Certificate, _, None) => "certificate".to_owned(),
            (Method::Local, ..) => "local".to_owned(),
        }
    }

    /// Returns the caveats of the caller's token.
    pub fn caveats(&self) -> &[Caveat] {
        &self.caveats
    }

    /// Returns the caveats that a token made by the caller inherits: expiry, tenant, key prefix,
    /// actions and batch size, but not those on address and certificate. Nor does it inherit the
    /// caller's principal, so policies may permit it more than the caller.
    pub fn inherited(&self) -> Vec<Caveat> {
        let passes_on = |caveat: &&Caveat| match caveat {
            Caveat::Expires(_)
            | Caveat::Tenant(_)
            | Caveat::KeyPrefix(_)
            | Caveat::Actions(_)
            | Caveat::BatchMax(_) => true,
            // These caveats are about the holder, and the new token has another one.
            Caveat::Cidr(_) | Caveat::Cnf(_) => false,
        };
        self.caveats.iter().filter(passes_on).cloned().collect()
    }

    /// Returns the actions that the caveats allow.
    pub fn actions(&self) -> Actions {
        Actions::all()
            .iter()
            .filter(|&action| {
                self.caveats.iter().all(|caveat| match caveat {
                    Caveat::Actions(actions) => actions.contains(action),
                    Caveat::Expires(_)
                    | Caveat::Tenant(_)
                    | Caveat::KeyPrefix(_)
                    | Caveat::Cidr(_)
                    | Caveat::Cnf(_)
                    | Caveat::BatchMax(_) => true,
                })
            })
            .collect()
    }
}
