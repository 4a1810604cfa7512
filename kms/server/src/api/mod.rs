//! Handlers: what is asked becomes a call of the service, and its answer goes back.

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

/// Whose keys are meant where nothing else is said.
pub const TENANT: &str = "default";

/// A request, as far as handlers see it.
pub struct Call {
    pub state: Arc<State>,
    /// Who asks. None at paths that anybody may call.
    pub caller: Option<(Arc<Service>, Caller)>,
    /// The opening of the seal whose end withholds the answer. It is set before the handler runs, or by a handler that gives
    /// out a secret to nobody in particular.
    pub under: Arc<OnceLock<Generation>>,
    /// What is known of the connection, if nothing of the caller is.
    pub peer: Peer,
    /// What the request is called in answers and logs.
    pub id: String,
    /// What it is part of: the traceparent that came with it.
    pub trace: Option<String>,
    /// The name of the key that was named by its id, and that id.
    pub asked: OnceLock<(Label, String)>,
    /// The path's parts that are no fixed text.
    pub parts: Vec<String>,
    /// What the field X-Vault-Namespace says.
    pub namespace: Option<String>,
    pub query: Query,
    pub body: hyper::body::Bytes,
    /// Finds routes, for a request about other paths.
    pub find_routes: FindRoutes,
    /// The memory of its body.
    pub _reserved: Option<MemoryReservation>,
    /// How many bytes it has that were not charged yet.
    pub bytes: AtomicUsize,
    /// The change with an `op_id` that its handler runs.
    pub op: Option<Op>,
}

/// An answer.
pub struct Reply {
    pub status: u16,
    pub kind: &'static str,
    pub body: Vec<u8>,
}

/// The form of answers of JSON.
pub const JSON: &str = "application/json";

/// The form of a set of JWKs. Whoever asks for one may keep it, and asks each time whether it is still so.
pub const JWKS: &str = "application/jwk-set+json";

impl Reply {
    /// A value.
    ///
    /// # Errors
    /// None that happens.
    pub fn json(value: &impl Serialize) -> Result<Self, Problem> {
        Ok(Reply { status: 200, kind: JSON, body: json::write(value)? })
    }

    /// A text of another form.
    pub fn text(status: u16, kind: &'static str, text: impl Into<String>) -> Self {
        Reply { status, kind, body: text.into().into_bytes() }
    }
}

impl Call {
    /// The key that the path names.
    pub fn key(&self) -> &str {
        self.part(0)
    }

    /// A refusal as the caller is told of it, who is charged for it: of a key that they named by its id, they are told the id.
    pub fn refusal(&self, problem: Problem) -> Problem {
        if problem.is_charged() {
            self.charge_refused(1);
        }
        match self.asked.get() {
            Some((name, id)) => problem.of_key(name, id),
            None => problem,
        }
    }

    /// Charges the caller's credential for items that were refused.
    pub fn charge_refused(&self, items: usize) {
        if let (Some((service, who)), 1..) = (&self.caller, items) {
            service.charge_refusal(who, items, self.body.len());
        }
    }

    /// A part of the path that the route leaves open; empty where there is none.
    pub fn part(&self, at: usize) -> &str {
        self.parts.get(at).map(String::as_str).unwrap_or_default()
    }

    /// The service's own RSA key, for which others wrap what they import.
    ///
    /// # Errors
    /// `busy`: it is being made. A caller who may not import, if it is missing. A route that forgot to ask who it is.
    pub fn rsa_wrapping_key(&self) -> Result<Recipient, Problem> {
        let (_, caller) = self.caller()?;
        let (service, _) = self.caller.as_ref().ok_or_else(nobody)?;
        service.may_make_own(&caller, OwnKey::WrappingRsa)?;
        self.state.host.maintenance.wrapping_key_job().rsa(service)
    }

    /// The service, and who asks it for what is asked.
    ///
    /// # Errors
    /// A route that forgot to ask who it is.
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
    Problem::internal("nobody asked who the caller is")
}

/// Selects a key by its name within a tenant, or by its id.
pub struct KeySelector {
    pub tenant: Label,
    pub name: Label,
    /// The id, if that is what was said.
    id: Option<String>,
}

impl KeySelector {
    /// Resolves the key that a request names.
    ///
    /// # Errors
    /// What is neither a name nor an id; an id of no key.
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
        // Of a batch each item says its own.
        let _ = call.asked.set((name.clone(), key.to_owned()));
        Ok(KeySelector { tenant: id.tenant, name, id: Some(key.to_owned()) })
    }

    /// A refusal as the caller is told of it.
    pub fn refusal(&self, error: gabion_kms::Error) -> Problem {
        match &self.id {
            Some(id) => Problem::from(error).of_key(&self.name, id),
            None => error.into(),
        }
    }

    /// The version that is meant: the newest one if none is named. Of a key that is not there the first one is asked for,
    /// which the log tells of.
    pub fn version(&self, service: &Service, asked: Option<u32>) -> u32 {
        let newest = || {
            let id = service.kms().find(&self.tenant, &self.name).ok()?;
            Some(service.kms().describe(&id).ok()?.latest)
        };
        asked.or_else(newest).unwrap_or(1)
    }

    /// For the verbs.
    pub fn key(&self) -> KeyRef<'_> {
        KeyRef { tenant: &self.tenant, name: &self.name }
    }
}
