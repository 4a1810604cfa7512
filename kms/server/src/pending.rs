//! A caller whose request waits for its body.

use std::sync::{Arc, Weak};

use gabion_kms::gate::Authenticated;
use gabion_kms::service::Service;

use crate::peers::Connected;
use crate::problem::Problem;
use crate::state::State;

/// A caller that was authenticated by the head of a request, while its body comes. It does not keep the service in memory: a
/// seal that is closed meanwhile takes the keys with it.
pub struct PendingCaller {
    service: Weak<Service>,
    who: Authenticated,
}

impl PendingCaller {
    pub fn new(service: &Arc<Service>, who: Authenticated) -> Self {
        PendingCaller { service: Arc::downgrade(service), who }
    }

    /// Who.
    pub fn who(&self) -> &Authenticated {
        &self.who
    }

    /// The service that the caller was authenticated by.
    ///
    /// # Errors
    /// `sealed`, also where the seal was closed and opened again: the caller was not admitted under that generation.
    pub fn service(&self, state: &State) -> Result<Arc<Service>, Problem> {
        let open = state.keeper.service()?;
        let is_same = std::ptr::eq(Arc::as_ptr(&open), self.service.as_ptr());
        if is_same { Ok(open) } else { Err(Problem::sealed()) }
    }

    /// The caller again, once the body is there.
    ///
    /// # Errors
    /// As [`Self::service`]; a client certificate that has ended or was revoked meanwhile.
    pub fn resumed(
        self,
        state: &State,
        from: &Connected,
    ) -> Result<(Arc<Service>, Authenticated), Problem> {
        let service = self.service(state)?;
        if !from.still_holds(state.clients().as_deref()) {
            return Err(Problem::revoked());
        }
        Ok((service, self.who))
    }
}
