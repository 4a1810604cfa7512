//! A request whose body has not arrived: the checks before that, and the state that is kept
//! meanwhile.

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

/// The head of a request.
pub struct Head<'a> {
    pub route: &'static Route,
    /// The parameters in its path, percent-encoded.
    pub parts: &'a [String],
    pub query: &'a Query,
    pub namespace: Option<String>,
}

impl Head<'_> {
    /// Rejects a request whose caller has no permission for it. Requests without a body are checked
    /// by their handlers.
    ///
    /// # Errors
    /// Those of [`Service::may_begin`].
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
        // Recording a denial may wait for the disk.
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

    /// Returns the key that the path names, if its name or id is well-formed.
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

/// A caller that was authenticated by the head of a request, while its body arrives. It does not
/// keep the service in memory, so sealing meanwhile removes the keys.
pub struct PendingCaller {
    service: Weak<Service>,
    who: Caller,
}

impl PendingCaller {
    pub fn new(service: &Arc<Service>, who: Caller) -> Self {
        PendingCaller { service: Arc::downgrade(service), who }
    }

    /// Charges the caller for an error before the handler runs, and returns the error.
    pub fn charge(&self, state: &State, problem: Problem) -> Problem {
        if let (true, Ok(service)) = (problem.is_charged(), self.service(state)) {
            // An oversized body was read and discarded.
            let bytes = if problem.status == 413 { state.body_max } else { 0 };
            service.charge_refusal(&self.who, 1, bytes);
        }
        problem
    }

    /// Returns the caller.
    pub fn who(&self) -> &Caller {
        &self.who
    }

    /// Returns the service that authenticated the caller.
    ///
    /// # Errors
    /// `sealed`, also if the service was sealed and unsealed again: the caller was not admitted
    /// under the new generation.
    pub fn service(&self, state: &State) -> Result<Arc<Service>, Problem> {
        let open = state.host.seal.service()?;
        let is_same = std::ptr::eq(Arc::as_ptr(&open), self.service.as_ptr());
        if is_same { Ok(open) } else { Err(Problem::sealed()) }
    }

    /// Returns the caller after the body has arrived.
    ///
    /// # Errors
    /// Those of [`Self::service`]; a client certificate that has expired or was revoked meanwhile.
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
