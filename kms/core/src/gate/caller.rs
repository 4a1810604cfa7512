//! Somebody who was authenticated: who, how, and what limits them.

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

/// What is known of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// From where. None of a socket that has no address.
    pub address: Option<IpAddr>,
    /// The SHA-256 of the certificate with which the client authenticated itself.
    pub certificate: Option<[u8; 32]>,
}

/// How somebody was authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// By a token.
    Token {
        /// Which.
        id: TokenId,
    },
    /// By a certificate.
    Certificate,
    /// It is the process itself.
    Local,
}

/// An authenticated caller.
#[derive(Clone, Debug)]
pub struct Caller {
    pub(super) principal: Principal,
    pub(super) method: Method,
    pub(super) caveats: Vec<Caveat>,
    /// The root key of their token.
    pub(super) root: Option<RootId>,
    /// What their token came about by.
    pub(super) line: Vec<TagDigest>,
    pub(super) peer: Peer,
}

impl Caller {
    /// Returns whether both came with the same token, with the same caveats.
    pub fn is_same_token(&self, other: &Caller) -> bool {
        let is_token = matches!(self.method, Method::Token { .. });
        is_token && self.method == other.method && self.line == other.line
    }

    /// Somebody whom nothing limits that is theirs.
    pub(super) fn of(principal: Principal, method: Method, peer: &Peer) -> Self {
        let (caveats, line) = (Vec::new(), Vec::new());
        Caller { principal, method, caveats, root: None, line, peer: *peer }
    }

    /// Somebody with a token that nobody made, for a question to policies alone. [`super::Gate::allow`] denies them everything.
    pub fn supposed(principal: Principal, peer: &Peer) -> Self {
        Caller::of(principal, Method::Token { id: TokenId([0; 16]) }, peer)
    }

    /// What policies call them.
    pub(super) fn in_policies(&self) -> String {
        let of = if self.method == Method::Certificate { "Certificate" } else { "Token" };
        format!("{of}::\"{}\"", self.principal)
    }

    /// What is known of their connection.
    pub fn peer(&self) -> &Peer {
        &self.peer
    }

    /// Who.
    pub fn principal(&self) -> &Principal {
        &self.principal
    }

    /// How.
    pub fn method(&self) -> Method {
        self.method
    }

    /// A digest that identifies the caller's credential: the token with its whole caveat chain, or the client certificate. A
    /// principal's name identifies nobody: whoever makes a token chooses it, and every attenuation has the same one.
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

    /// The caller that limits are counted for: `token:ID`, because holders of a token can make any number of attenuations of it, or
    /// `certificate:NAME`. `None` for the process itself.
    pub fn holder(&self) -> Option<String> {
        match self.method {
            Method::Token { id } => Some(format!("token:{id}")),
            Method::Certificate => Some(format!("certificate:{}", self.principal)),
            Method::Local => None,
        }
    }

    /// The credential as the audit log names it: `token:ID:CHAIN`, `certificate:SHA256` or `local`.
    pub fn credential_text(&self) -> String {
        match (self.method, self.line.last(), self.peer.certificate) {
            (Method::Token { id }, Some(own), _) => format!("token:{id}:{}", hex(&own.0)),
            (Method::Token { id }, None, _) => format!("token:{id}"),
            (Method::Certificate, _, Some(digest)) => format!("certificate:{}", hex(&digest)),
            (Method::Certificate, _, None) => "certificate".to_owned(),
            (Method::Local, ..) => "local".to_owned(),
        }
    }

    /// What limits them.
    pub fn caveats(&self) -> &[Caveat] {
        &self.caveats
    }

    /// What a token that they make is limited to: it may no more than they may, and not for longer.
    pub fn inherited(&self) -> Vec<Caveat> {
        let passes_on = |caveat: &&Caveat| match caveat {
            Caveat::Expires(_)
            | Caveat::Tenant(_)
            | Caveat::KeyPrefix(_)
            | Caveat::Actions(_)
            | Caveat::BatchMax(_) => true,
            // Those are about who holds a token, which is somebody else now.
            Caveat::Cidr(_) | Caveat::Cnf(_) => false,
        };
        self.caveats.iter().filter(passes_on).cloned().collect()
    }

    /// What the caveats allow, as far as they are about actions.
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
