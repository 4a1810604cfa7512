//! A row of the table of what is served.

use gabion_kms::gate::Action;
use gabion_kms_wire::schema::Schemas;
use serde_json::Value;

use super::single::SingleRequest;
use super::streams::StreamHandler;
use super::{Call, Reply};
use crate::problem::Problem;

/// Who may call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Anybody.
    Open,
    /// Whoever is authenticated; what the caller may do is decided with the verb.
    Caller,
}

/// Finds the routes of a path, and the parts of it that are no fixed text.
pub type FindRoutes = fn(&str) -> Option<(Vec<&'static Route>, Vec<String>)>;

/// Puts the schema of a type where schemas are, and gives a reference to it.
pub type Schema = fn(&mut Schemas) -> Value;

/// Parses a request for one signature or verification. Returns `None` if the request has to run alone.
type ReadSingleRequest = fn(&Call) -> Result<Option<SingleRequest>, Problem>;

/// What is served at a path by a method.
pub struct Route {
    pub method: &'static str,
    pub path: &'static str,
    /// What it is called in OpenAPI.
    pub name: &'static str,
    pub about: &'static str,
    pub access: Access,
    /// Whether it says how the service is, and so refuses no parameter and no field of Vault's: load balancers and clients that
    /// look at the health first would take a refusal for an outage.
    pub is_health: bool,
    /// Whether it mostly takes less than a thread's switch, and runs what takes long aside.
    pub is_quick: bool,
    /// Whether it closes the seal: its answer alone is released afterwards.
    pub is_sealing: bool,
    /// What its caller may do at least one of: asked before a body is read. None where anybody who is authenticated may call
    /// it, and where `once` says it.
    pub may: &'static [Action],
    /// Reads a request that may be run beside others like it.
    pub single: Option<ReadSingleRequest>,
    /// Parameters of the query, and what they are.
    pub query: &'static [(&'static str, &'static str)],
    pub body: Option<Schema>,
    /// Handles a message that is the body itself.
    pub stream_handler: Option<StreamHandler>,
    /// None: it is not JSON, or not of a fixed form.
    pub answer: Option<Schema>,
    pub handler: fn(&Call) -> Result<Reply, Problem>,
    /// The kind of change, of one that may be asked for again under an op_id: none that gives out a key or what was
    /// encrypted.
    pub change: Option<Action>,
    /// Whether the answer of such a change is secret. A secret answer is never stored.
    pub is_secret: bool,
}

/// Most bytes of the body of a route that takes none, or which anybody may call: a share has 1.6 KB.
pub const SMALL_BODY: usize = 16 << 10;

impl Route {
    /// What its caller may do at least one of.
    pub fn actions(&self) -> &[Action] {
        self.change.as_ref().map_or(self.may, std::slice::from_ref)
    }

    /// Whether it takes something away, which nobody is kept from by what they had refused before.
    pub fn takes_away(&self) -> bool {
        let of = |action: &Action| {
            matches!(action, Action::Disable | Action::Trim | Action::Destroy | Action::Seal)
        };
        self.method == "DELETE" || self.name.contains("revoke") || self.actions().iter().any(of)
    }

    /// Most bytes of a body, where `most` is that of any.
    pub fn body_max(&self, most: usize) -> usize {
        let is_small =
            self.access == Access::Open || self.body.is_none() || self.actions().is_empty();
        if is_small { most.min(SMALL_BODY) } else { most }
    }

    /// The part of a path that is the name or the id of a key which is there.
    pub fn key<'a>(&self, parts: &'a [String]) -> Option<&'a str> {
        let is_new = self.actions().iter().any(|of| matches!(of, Action::Create | Action::Import));
        self.key_part(parts).filter(|_| !is_new)
    }

    /// The part of a path that is the name or the id of a key, whether or not it is there.
    pub fn key_part<'a>(&self, parts: &'a [String]) -> Option<&'a str> {
        let mut open = self.path.split('/').filter(|part| part.starts_with('{'));
        let place = open.position(|part| part == "{key}")?;
        parts.get(place).map(String::as_str)
    }

    /// Whether it is one of Vault's, whose answers have Vault's forms.
    pub fn is_vaults(&self) -> bool {
        is_vaults(self.path)
    }

    /// Whether a request by a method is its.
    pub fn takes(&self, method: &str) -> bool {
        self.methods().any(|one| one == method)
    }

    /// Every method by which it is asked.
    pub fn methods(&self) -> impl Iterator<Item = &'static str> + use<> {
        let other = match self.method {
            "GET" => Some("HEAD"),
            "POST" if self.is_vaults() => Some("PUT"),
            _ => None,
        };
        [self.method].into_iter().chain(other)
    }
}

/// Whether a path is one of Vault's, whether or not there is something at it.
pub fn is_vaults(path: &str) -> bool {
    path.starts_with("/v1/") && !path.starts_with("/v1/kms/")
}
