//! A request whose body is waited for: what is looked at before, and what is kept meanwhile.

use std::sync::{Arc, Weak};

use gabion_kms::gate::Caller;
use gabion_kms::model::{KeyId, Label};
use gabion_kms::service::{Call, KeyRef, Service};

use super::routes::Route;
use crate::api::{TENANT, transit};
use crate::lifecycle::state::State;
use crate::net::peer::ConnectionPeer;
use crate::parse::query::{Query, percent_decode};
use crate::problem::Problem;

/// What the head of a request says.
pub struct Head<'a> {
    pub route: &'static Route,
    /// The parts of its path, with their escapes.
    pub parts: &'a [String],
    pub query: &'a Query,
    pub namespace: Option<String>,
}

impl Head<'_> {
    /// Refuses a request whose caller may not do such a thing at all. A path that takes no body leaves that to its verb.
    ///
    /// # Errors
    /// As [`Service::may_begin`].
    pub fn check_permission(
        &self,
        service: &Service,
        who: &Caller,
        (id, trace): (&str, Option<&str>),
    ) -> Result<(), Problem> {
        let actions = self.route.actions();
        if actions.is_empty() || self.route.body.is_none() {
            return Ok(());
        }
        // The log may wait for its disk.
        let run_blocking = |act: &mut dyn FnMut()| tokio::task::block_in_place(act);
        let call = Call { trace, run_blocking, ..Call::new(who, id) };
        let key = self.key(service);
        let of = key.as_ref().map(|(tenant, name)| KeyRef { tenant, name });
        let problem = match service.may_begin(&call, actions, of.as_ref()) {
            Ok(()) => return Ok(()),
            Err(error) => Problem::from(error),
        };
        let said = self.route.key(self.parts).and_then(|said| percent_decode(said).ok());
        Err(match (key, said) {
            _ if self.route.is_vaults() => transit::of_operation(problem),
            (Some((_, name)), Some(said)) => problem.of_key(&name, &said),
            (None, _) | (_, None) => problem,
        })
    }

    /// The key that the path names, if its name or id can be one.
    fn key(&self, service: &Service) -> Option<(Label, Label)> {
        let said = percent_decode(self.route.key(self.parts)?).ok()?;
        if said.contains('/') && !self.route.is_vaults() {
            let id: KeyId = said.parse().ok()?;
            let name = service.kms().describe(&id).ok()?.name;
            return Some((id.tenant, name));
        }
        let tenant = match self.route.is_vaults() {
            true => self.namespace.as_deref(),
            false => self.query.text("tenant"),
        };
        let tenant = Label::new("tenant", tenant.unwrap_or(TENANT)).ok()?;
        Some((tenant, Label::new("key", &said).ok()?))
    }
}

/// A caller that was authenticated by the head of a request, while its body comes. It does not keep the service in memory: a
/// seal that is closed meanwhile takes the keys with it.
pub struct PendingCaller {
    service: Weak<Service>,
    who: Caller,
}

impl PendingCaller {
    pub fn new(service: &Arc<Service>, who: Caller) -> Self {
        PendingCaller { service: Arc::downgrade(service), who }
    }

    /// Charges the caller for a refusal that comes before the handler, and gives it back.
    pub fn charge(&self, state: &State, problem: Problem) -> Problem {
        if let (true, Ok(service)) = (problem.is_charged(), self.service(state)) {
            // What was too large was read and forgotten.
            let bytes = if problem.status == 413 { state.body_max } else { 0 };
            service.charge_refusal(&self.who, 1, bytes);
        }
        problem
    }

    /// Who.
    pub fn who(&self) -> &Caller {
        &self.who
    }

    /// The service that the caller was authenticated by.
    ///
    /// # Errors
    /// `sealed`, also where the seal was closed and opened again: the caller was not admitted under that generation.
    pub fn service(&self, state: &State) -> Result<Arc<Service>, Problem> {
        let open = state.host.seal.service()?;
        let is_same = std::ptr::eq(Arc::as_ptr(&open), self.service.as_ptr());
        if is_same { Ok(open) } else { Err(Problem::sealed()) }
    }

    /// The caller again, once the body is there.
    ///
    /// # Errors
    /// As [`Self::service`]; a client certificate that has ended or was revoked meanwhile.
    pub fn resume(
        self,
        state: &State,
        from: &ConnectionPeer,
    ) -> Result<(Arc<Service>, Caller), Problem> {
        let service = self.service(state)?;
        if !from.is_still_valid(state.clients().as_deref()) {
            return Err(Problem::revoked());
        }
        Ok((service, self.who))
    }
}
