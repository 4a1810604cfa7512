//! Handlers: translate requests into calls of the service, and results into responses.

pub mod administration;
pub mod batch;
mod bytes;
pub mod capabilities;
pub mod idempotency;
pub mod input;
pub mod jwks;
pub mod jwt;
pub mod key_transfer;
pub mod keys;
mod marshaling;
pub mod policies;
pub mod route;
pub mod secrets;
pub mod signatures;
pub mod single;
pub mod streams;
pub mod system;
pub mod transit;
pub mod vault;

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};

use gabion_kms::gate::{Caller, Peer};
use gabion_kms::model::{KeyId, Label};
use gabion_kms::operations::OwnKey;
use gabion_kms::service::{self, Generation, KeyRef, Op, Service};
use gabion_kms::transport::Recipient;
use serde::Serialize;

use self::route::FindRoutes;
use crate::lifecycle::state::State;
use crate::net::memory_budget::MemoryReservation;
use crate::parse::json;
use crate::parse::query::Query;
use crate::problem::Problem;

/// The default tenant.
pub const TENANT: &str = "default";

/// A request, as handlers see it.
pub struct Call {
    pub state: Arc<State>,
    /// The service and the caller. `None` at open paths.
    pub caller: Option<(Arc<Service>, Caller)>,
    /// The generation whose end withholds the answer. It is set before the handler runs, or by a
    /// handler of an open path that returns a secret.
    pub under: Arc<OnceLock<Generation>>,
    /// The peer of the connection, if there is no caller.
    pub peer: Peer,
    /// The request id in responses and logs.
    pub id: String,
    /// The request's traceparent.
    pub trace: Option<String>,
    /// The name and the id of the key, if the request named it by id.
    pub asked: OnceLock<(Label, String)>,
    /// The path parameters.
    pub parts: Vec<String>,
    /// The value of the header field X-Vault-Namespace.
    pub namespace: Option<String>,
    pub query: Query,
    pub body: hyper::body::Bytes,
    /// Finds routes, for requests about other paths.
    pub find_routes: FindRoutes,
    /// The reserved memory of the body.
    pub _reserved: Option<MemoryReservation>,
    /// The number of bytes of the request that are not charged yet.
    pub bytes: AtomicUsize,
    /// The change with an `op_id` that the handler runs.
    pub op: Option<Op>,
}

/// A response.
pub struct Reply {
    pub status: u16,
    pub kind: &'static str,
    pub body: Vec<u8>,
}

/// The media type of JSON responses.
pub const JSON: &str = "application/json";

/// The media type of a JWK set. Clients may cache it, but have to revalidate it before each use.
pub const JWKS: &str = "application/jwk-set+json";

impl Reply {
    /// Creates a JSON response.
    ///
    /// # Errors
    /// Does not fail for wire types.
    pub fn json(value: &impl Serialize) -> Result<Self, Problem> {
        Ok(Reply { status: 200, kind: JSON, body: json::write(value)? })
    }

    /// Creates a text response of another media type.
    pub fn text(status: u16, kind: &'static str, text: impl Into<String>) -> Self {
        Reply { status, kind, body: text.into().into_bytes() }
    }
}

impl Call {
    /// Returns the key in the path.
    pub fn key(&self) -> &str {
        self.part(0)
    }

    /// Returns an error as the caller sees it, and charges the caller for it. If the caller named a
    /// key by its id, the error names the id.
    pub fn refusal(&self, problem: Problem) -> Problem {
        if problem.is_charged() {
            self.charge_refused(1);
        }
        match self.asked.get() {
            Some((name, id)) => problem.of_key(name, id),
            None => problem,
        }
    }

    /// Charges the caller's credential for refused items.
    pub fn charge_refused(&self, items: usize) {
        if let (Some((service, who)), 1..) = (&self.caller, items) {
            service.charge_refusal(who, items, self.body.len());
        }
    }

    /// Returns a path parameter; empty if it is missing.
    pub fn part(&self, at: usize) -> &str {
        self.parts.get(at).map(String::as_str).unwrap_or_default()
    }

    /// Returns the service's own RSA key, for which clients wrap imported keys.
    ///
    /// # Errors
    /// `busy` while it is being generated. A caller without the permission to import, if it is
    /// missing. A route that requires no caller.
    pub fn rsa_wrapping_key(&self) -> Result<Recipient, Problem> {
        let (_, caller) = self.caller()?;
        let (service, _) = self.caller.as_ref().ok_or_else(nobody)?;
        service.may_make_own(&caller, OwnKey::WrappingRsa)?;
        self.state.host.maintenance.wrapping_key_job().rsa(service)
    }

    /// Returns the service and the call of the request's caller.
    ///
    /// # Errors
    /// A route that requires no caller.
    pub fn caller(&self) -> Result<(&Service, service::Call<'_>), Problem> {
        match &self.caller {
            Some((service, who)) => {
                let (bytes, op) = (Some(&self.bytes), self.op.as_ref());
                let (trace, of) = (self.trace.as_deref(), service::Call::new(who, &self.id));
                let run_blocking = |act: &mut dyn FnMut()| tokio::task::block_in_place(act);
                Ok((service, service::Call { trace, bytes, op, run_blocking, ..of }))
            }
            None => Err(nobody()),
        }
    }
}

fn nobody() -> Problem {
    Problem::internal("the route does not authenticate its caller")
}

/// Selects a key by its name within a tenant, or by its id.
pub struct KeySelector {
    pub tenant: Label,
    pub name: Label,
    /// The id, if the request named the key by its id.
    id: Option<String>,
}

impl KeySelector {
    /// Resolves the key that a request names.
    ///
    /// # Errors
    /// A malformed name or id; an id of a missing key.
    pub fn new(call: &Call, tenant: Option<&str>, key: &str) -> Result<Self, Problem> {
        if !key.contains('/') {
            let tenant = Label::new("tenant", tenant.unwrap_or(TENANT))?;
            return Ok(KeySelector { tenant, name: Label::new("key", key)?, id: None });
        }
        let (service, caller) = call.caller()?;
        let id: KeyId = key.parse()?;
        if tenant.is_some_and(|tenant| tenant != id.tenant.as_str()) {
            return Err(Problem::bad("the tenant is not the one in the key's id"));
        }
        let name = service.named(&caller, &id)?;
        // In a batch, each item sets its own.
        let _ = call.asked.set((name.clone(), key.to_owned()));
        Ok(KeySelector { tenant: id.tenant, name, id: Some(key.to_owned()) })
    }

    /// Returns an error as the caller sees it.
    pub fn refusal(&self, error: gabion_kms::Error) -> Problem {
        match &self.id {
            Some(id) => Problem::from(error).of_key(&self.name, id),
            None => error.into(),
        }
    }

    /// Returns the requested version, or the newest one. For a missing key, returns 1, which the
    /// audit record names.
    pub fn version(&self, service: &Service, asked: Option<u32>) -> u32 {
        let newest = || {
            let id = service.kms().find(&self.tenant, &self.name).ok()?;
            Some(service.kms().describe(&id).ok()?.latest)
        };
        asked.or_else(newest).unwrap_or(1)
    }

    /// Returns the key for calls of the service.
    pub fn key(&self) -> KeyRef<'_> {
        KeyRef { tenant: &self.tenant, name: &self.name }
    }
}
