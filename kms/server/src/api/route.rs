//! A route of the server.

use gabion_kms::gate::Action;
use gabion_kms_wire::schema::Schemas;
use serde_json::Value;

use super::single::SingleRequest;
use super::streams::StreamHandler;
use super::{Call, Reply};
use crate::problem::Problem;

/// The authentication that a route requires.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// None.
    Open,
    /// An authenticated caller; the handler checks the permission.
    Caller,
}

/// Finds the routes of a path, and the path's parameters.
pub type FindRoutes = fn(&str) -> Option<(Vec<&'static Route>, Vec<String>)>;

/// Adds the schema of a type to the schemas, and returns a reference to it.
pub type Schema = fn(&mut Schemas) -> Value;

/// Parses a request for one signature or verification. Returns `None` if the request has to run
/// alone.
type ReadSingleRequest = fn(&Call) -> Result<Option<SingleRequest>, Problem>;

/// A route: a path and a method, and their handler.
pub struct Route {
    pub method: &'static str,
    pub path: &'static str,
    /// The operation id in OpenAPI.
    pub name: &'static str,
    pub about: &'static str,
    pub access: Access,
    /// Whether it reports the service's health. Then it ignores unknown parameters and header
    /// fields of Vault's API: load balancers and clients would take an error for an outage.
    pub is_health: bool,
    /// Whether it usually takes less time than switching threads, and runs slow work on other
    /// threads.
    pub is_quick: bool,
    /// Whether it seals the service: only its own answer is released afterwards.
    pub is_sealing: bool,
    /// The actions of which the caller needs at least one, checked before a body is read. Empty if
    /// every authenticated caller may call it, or if `change` has the action.
    pub may: &'static [Action],
    /// Parses a request that may be coalesced with others.
    pub single: Option<ReadSingleRequest>,
    /// The query parameters, and their descriptions.
    pub query: &'static [(&'static str, &'static str)],
    pub body: Option<Schema>,
    /// The handler of streamed messages.
    pub stream_handler: Option<StreamHandler>,
    /// The schema of the response. `None` if it is not JSON, or has no fixed form.
    pub answer: Option<Schema>,
    pub handler: fn(&Call) -> Result<Reply, Problem>,
    /// The action of a change that may have an `op_id`. Changes that return keys or plaintexts
    /// cannot have one.
    pub change: Option<Action>,
    /// Whether the answer of such a change is secret. A secret answer is never stored.
    pub is_secret: bool,
}

/// The maximum size of a body for routes without parameters or without authentication: a share has
/// 1.6 KB.
pub const SMALL_BODY: usize = 16 << 10;

impl Route {
    /// Returns the actions of which the caller needs at least one.
    pub fn actions(&self) -> &[Action] {
        self.change.as_ref().map_or(self.may, std::slice::from_ref)
    }

    /// Returns whether it withdraws use. Such requests are accepted even if the caller had too many
    /// requests refused.
    pub fn takes_away(&self) -> bool {
        let of = |action: &Action| {
            matches!(action, Action::Disable | Action::Trim | Action::Destroy | Action::Seal)
        };
        self.method == "DELETE" || self.name.contains("revoke") || self.actions().iter().any(of)
    }

    /// Returns the maximum size of a body, given the general limit.
    pub fn body_max(&self, most: usize) -> usize {
        let is_small =
            self.access == Access::Open || self.body.is_none() || self.actions().is_empty();
        if is_small { most.min(SMALL_BODY) } else { most }
    }

    /// Returns the path parameter that names an existing key.
    pub fn key<'a>(&self, parts: &'a [String]) -> Option<&'a str> {
        let is_new = self.actions().iter().any(|of| matches!(of, Action::Create | Action::Import));
        self.key_part(parts).filter(|_| !is_new)
    }

    /// Returns the path parameter that names a key, which may not exist.
    pub fn key_part<'a>(&self, parts: &'a [String]) -> Option<&'a str> {
        let mut open = self.path.split('/').filter(|part| part.starts_with('{'));
        let place = open.position(|part| part == "{key}")?;
        parts.get(place).map(String::as_str)
    }

    /// Returns whether it belongs to Vault's API, whose responses have Vault's format.
    pub fn is_vaults(&self) -> bool {
        is_vaults(self.path)
    }

    /// Returns whether it handles a method.
    pub fn takes(&self, method: &str) -> bool {
        self.methods().any(|one| one == method)
    }

    /// Returns all methods that it handles.
    pub fn methods(&self) -> impl Iterator<Item = &'static str> + use<> {
        let other = match self.method {
            "GET" => Some("HEAD"),
            "POST" if self.is_vaults() => Some("PUT"),
            _ => None,
        };
        [self.method].into_iter().chain(other)
    }
}

/// Returns whether a path belongs to Vault's API, even if it does not exist.
pub fn is_vaults(path: &str) -> bool {
    path.starts_with("/v1/") && !path.starts_with("/v1/kms/")
}
