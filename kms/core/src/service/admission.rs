//! Admission of requests by their heads: checks permissions before the body is read.

use super::run::{Call, KeyRef, Service, hide_existence};
use super::{administration, lifecycle};
use crate::error::{DenialReason, Error};
use crate::gate::{Action, Request};
use crate::model::Label;

impl Service {
    /// Checks whether the caller may do one of these actions with the key that the request's head
    /// names, or with any key if it names none. The operation itself checks again with the complete
    /// request. A key that policies hide passes this check, so that its answer to a body is the
    /// same as a missing key's.
    ///
    /// # Errors
    /// The caller is not allowed; errors of the audit log.
    pub fn may_begin(
        &self,
        call: &Call<'_>,
        actions: &[Action],
        key: Option<&KeyRef<'_>>,
    ) -> Result<(), Error> {
        let mut refused = None;
        for &action in actions {
            let (request, may) = match key {
                Some(key) => {
                    let request = lifecycle::of(action, key);
                    (request, self.check_allowed(call, &request))
                }
                None => {
                    let may = self.generation.check();
                    let may = may.and_then(|()| Ok(self.gate.may_ever(call.who, action)?));
                    (administration::of(action), may)
                }
            };
            match may {
                Ok(()) | Err(Error::Denied(DenialReason::Unseen)) => return Ok(()),
                Err(error) => refused = refused.or(Some((request, error))),
            }
        }
        let Some((request, error)) = refused else { return Ok(()) };
        self.failed(call, &request, None, error).map_err(|error| hide_existence(error, &request))
    }

    /// Returns whether the caller may do something: with an existing key, with a key to be created,
    /// with a tenant's list, or with the service. It is for callers who ask about their own
    /// permissions, so nothing is recorded.
    pub fn may(
        &self,
        call: &Call<'_>,
        action: Action,
        tenant: &Label,
        name: Option<&Label>,
    ) -> bool {
        let Some(name) = name else {
            let of_list = action == Action::List;
            let list =
                Request { tenant: Some(tenant), key: Some(""), ..administration::of(action) };
            let request = if of_list { list } else { administration::of(action) };
            return self.check_allowed(call, &request).is_ok();
        };
        let key = KeyRef { tenant, name };
        let is_new = matches!(action, Action::Create | Action::Import);
        // Policies could decide differently about a missing key than about a hidden one.
        self.check_allowed(call, &lifecycle::of(action, &key)).is_ok()
            && (is_new || self.find(&key).is_ok())
    }
}
