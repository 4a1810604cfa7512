//! Administration of policies.

use super::administration::of;
use super::lifecycle::done;
use super::run::{Call, Service};
use crate::error::Error;
use crate::gate::{Action, Caller, Explanation, PolicySetInfo, Request};
use crate::model::Label;
use crate::operations::Kms;

/// A query to the policies.
#[derive(Clone, Copy)]
pub struct PolicyQuery<'a> {
    /// The caller.
    pub who: &'a Caller,
    /// The request.
    pub request: Request<'a>,
}

impl Service {
    /// Writes a set of policies, which is in force when this returns. Returns its version.
    ///
    /// # Errors
    /// The caller is not allowed; an invalid text; policies that would not let the caller change
    /// them again; errors of the store and of the audit log.
    pub fn policy_put(&self, call: &Call<'_>, name: &Label, text: &str) -> Result<u64, Error> {
        self.policy_change(call, name, Some(text))
    }

    /// Deletes a set of policies.
    ///
    /// # Errors
    /// Those of [`Self::policy_put`]; a missing set.
    pub fn policy_delete(&self, call: &Call<'_>, name: &Label) -> Result<u64, Error> {
        self.policy_change(call, name, None)
    }

    /// Returns the sets of policies in force, in the order of their names.
    ///
    /// # Errors
    /// The caller is not allowed; errors of the audit log.
    pub fn policy_list(&self, call: &Call<'_>) -> Result<Vec<PolicySetInfo>, Error> {
        let list = || Ok(self.gate.policies());
        self.perform_use(call, &of(Action::Policy), None, list, |_| done(None), |_| Ok(()))
    }

    /// Returns a set of policies.
    ///
    /// # Errors
    /// The caller is not allowed; a missing set; errors of the audit log.
    pub fn policy_show(&self, call: &Call<'_>, name: &Label) -> Result<PolicySetInfo, Error> {
        let show = || {
            let found = self.gate.policies().into_iter().find(|set| set.name == *name);
            found.ok_or_else(|| Error::NoPolicies(name.to_string()))
        };
        let audit_entry = |set: &PolicySetInfo| done(Some(policy_text(name, set.version)));
        self.perform_use(call, &of(Action::Policy), None, show, audit_entry, |_| Ok(()))
    }

    /// Explains the decision of the policies on a query: of those in force, or with another text of
    /// one set, which is checked and not written. Returns `None` if there is no query or there are
    /// no policies.
    ///
    /// # Errors
    /// The caller is not allowed; an invalid text; errors of the store and of the audit log.
    pub fn policy_check(
        &self,
        call: &Call<'_>,
        instead: Option<(&Label, &str)>,
        asked: Option<PolicyQuery<'_>>,
    ) -> Result<Option<Explanation>, Error> {
        let check = || match asked {
            Some(PolicyQuery { who, request }) => {
                self.gate.explain(&self.kms, who, &request, instead, self.kms.now_ms())
            }
            None => {
                let looked_at = instead.map(|(name, text)| self.gate.check_policies(name, text));
                looked_at.transpose().map(|_| None)
            }
        };
        self.perform_use(call, &of(Action::Policy), None, check, |_| done(None), |_| Ok(()))
    }

    fn policy_change(
        &self,
        call: &Call<'_>,
        name: &Label,
        text: Option<&str>,
    ) -> Result<u64, Error> {
        let change = |kms: &Kms| self.gate.change_policies(kms, call.who, name, text, kms.now_ms());
        let audit_entry = |version: &u64| Some(policy_text(name, *version));
        self.perform_change(call, &of(Action::Policy), change, audit_entry)
    }
}

/// Returns the audit log's name for a set.
fn policy_text(name: &Label, version: u64) -> String {
    format!("policy:{name}#v{version}")
}
