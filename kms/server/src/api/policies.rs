//! Handlers for policies.

use std::net::IpAddr;

use gabion_kms::gate::{Action, Caller, Peer, PolicySetInfo, Principal, Request, Verdict};
use gabion_kms::model::Label;
use gabion_kms::service::PolicyQuery;
use gabion_kms_wire::native::{
    CheckPolicy, Nothing, PolicyChanged, PolicyChecked, PolicySet, PolicySets, PutPolicy,
};

use super::{Call, Reply, TENANT};
use crate::parse::json;
use crate::problem::Problem;

pub fn list(call: &Call) -> Result<Reply, Problem> {
    let (service, caller) = call.caller()?;
    let sets = service.policy_list(&caller)?.into_iter();
    let sets = sets.map(|set| PolicySet { text: None, ..of(set) }).collect();
    Reply::json(&PolicySets { sets, revision: service.revision() })
}

pub fn show(call: &Call) -> Result<Reply, Problem> {
    let (service, caller) = call.caller()?;
    let set = of(service.policy_show(&caller, &name(call.part(0))?)?);
    Reply::json(&PolicySet { revision: Some(service.revision()), ..set })
}

pub fn put(call: &Call) -> Result<Reply, Problem> {
    let (service, caller) = call.caller()?;
    let PutPolicy { text } = json::read(&call.body)?;
    let name = name(call.part(0))?;
    let version = service.policy_put(&caller, &name, &text)?;
    let (name, revision) = (name.to_string(), service.revision());
    Reply::json(&PolicyChanged { name, version, revision })
}

pub fn delete(call: &Call) -> Result<Reply, Problem> {
    let (service, caller) = call.caller()?;
    let Nothing {} = json::read(&call.body)?;
    let name = name(call.part(0))?;
    let version = service.policy_delete(&caller, &name)?;
    let (name, revision) = (name.to_string(), service.revision());
    Reply::json(&PolicyChanged { name, version, revision })
}

pub fn check(call: &Call) -> Result<Reply, Problem> {
    let (service, caller) = call.caller()?;
    let asked: CheckPolicy = json::read(&call.body)?;
    let name = name(asked.name.as_deref().unwrap_or("check"))?;
    let instead = asked.text.as_deref().map(|text| (&name, text));
    let Some(question) = PolicyQuestion::of(service, &asked)? else {
        service.policy_check(&caller, instead, None)?;
        let revision = service.revision();
        return Reply::json(&PolicyChecked { revision, ..PolicyChecked::default() });
    };
    let who = &question.who;
    let request = Request {
        action: question.action,
        tenant: Some(&question.tenant),
        key: question.key.as_ref().map(Label::as_str).or(question.prefix.as_deref()),
        items: asked.items.unwrap_or(1),
        makes: None,
    };
    let said = service.policy_check(&caller, instead, Some(PolicyQuery { who, request }))?;
    let revision = service.revision();
    // Without policies, tokens may do what their caveats permit, and certificates nothing.
    Reply::json(&match said {
        None => PolicyChecked {
            allowed: Some(!question.is_certificate),
            revision,
            ..PolicyChecked::default()
        },
        Some(said) => PolicyChecked {
            allowed: Some(said.verdict == Verdict::Allowed),
            policies: said.policies,
            errors: said.errors,
            revision,
        },
    })
}

/// A query to the policies: a caller, an action and a key.
struct PolicyQuestion {
    who: Caller,
    is_certificate: bool,
    action: Action,
    tenant: Label,
    key: Option<Label>,
    prefix: Option<String>,
}

impl PolicyQuestion {
    /// Parses the query; `None` if it is missing.
    fn of(
        service: &gabion_kms::service::Service,
        asked: &CheckPolicy,
    ) -> Result<Option<Self>, Problem> {
        let (principal, action) = match (&asked.principal, &asked.action) {
            (Some(principal), Some(action)) => {
                (Principal::new(principal)?, action.parse::<Action>()?)
            }
            (None, None) => {
                let CheckPolicy { method, key, tenant, address, items, .. } = asked;
                let is_some = [method, key, tenant, address].iter().any(|field| field.is_some());
                return match is_some || items.is_some() {
                    true => Err(Problem::bad("missing fields `principal` and `action`")),
                    false => Ok(None),
                };
            }
            (None, Some(_)) => return Err(Problem::bad("missing field `principal`")),
            (Some(_), None) => return Err(Problem::bad("missing field `action`")),
        };
        let address = asked.address.as_deref().map(str::parse::<IpAddr>).transpose();
        let address = address.map_err(|_| Problem::bad("`address` is not an IP address"))?;
        let peer = Peer { address, certificate: None };
        let is_certificate = match asked.method.as_deref() {
            None | Some("token") => false,
            Some("certificate") => true,
            Some(_) => return Err(Problem::bad("`method` is neither token nor certificate")),
        };
        let who = match is_certificate {
            true => service.of_certificate(principal, &peer),
            false => Caller::supposed(principal, &peer),
        };
        let tenant = Label::new("tenant", asked.tenant.as_deref().unwrap_or(TENANT))?;
        let is_list = action == Action::List;
        let is_about_a_key = !(is_list
            || action.is_administration()
            || matches!(action, Action::Random | Action::Status));
        if is_about_a_key && asked.key.is_none() {
            return Err(Problem::bad(format!("missing field `key`: `{action}` is about one")));
        }
        let key = asked.key.as_deref().filter(|_| is_about_a_key);
        let key = key.map(|key| Label::new("key", key)).transpose()?;
        let prefix = asked.key.clone().filter(|_| is_list);
        Ok(Some(PolicyQuestion { who, is_certificate, action, tenant, key, prefix }))
    }
}

fn name(text: &str) -> Result<Label, Problem> {
    Ok(Label::new("set of policies", text)?)
}

fn of(set: PolicySetInfo) -> PolicySet {
    PolicySet {
        name: set.name.to_string(),
        version: set.version,
        changed_ms: set.changed_ms,
        policies: set.policies as u64,
        text: Some(set.text),
        revision: None,
    }
}
