//! Policy decisions and their cache.
//!
//! The cost of a decision grows with the number of policies. Therefore each decision evaluates only
//! the policies for its action and tenant, and decisions are cached under everything that the
//! policies read. Decisions of policies that read the clock are cached for one minute, and the
//! clock that policies see has a resolution of one minute.

use std::collections::HashMap;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::{PoisonError, RwLock};

use cedar_policy::{
    ActionConstraint, Authorizer, Context, Decision, Effect, Entities, Entity, EntityId,
    EntityTypeName, EntityUid, Policy, PolicySet, PrincipalConstraint, Request, ResourceConstraint,
    RestrictedExpression,
};
use serde_json::Value;

use super::action::Action;
use super::caller::{Caller, Method};
use super::principal::Principal;
use crate::clock::rfc3339;
use crate::error::Error;
use crate::model::{Key, Label, Uuid};
use crate::operations::{KeyView, NewKey};

/// The maximum number of cached decisions. Beyond that the cache is cleared.
const KEPT_MAX: usize = 1 << 14;

const MINUTE_MS: u64 = 60_000;

/// The minimum free stack for an evaluation. With less, the evaluation runs on a separate stack.
const STACK_MIN: usize = 1 << 20;

/// The size of a separate stack.
const STACK: usize = 8 << 20;

/// A request to decide.
pub struct Question<'a> {
    pub who: &'a Caller,
    pub action: Action,
    pub about: AccessTarget<'a>,
    pub items: u32,
    pub now_ms: u64,
}

/// The resource of a request: a key, a tenant or the service.
#[derive(Clone)]
pub enum AccessTarget<'a> {
    /// An existing key.
    Key(&'a Label, &'a str, KeyView),
    /// A key to be created.
    New(&'a NewKey),
    /// A missing key.
    Missing(&'a Label, &'a str),
    /// The keys of a tenant with a name prefix.
    Tenant(&'a Label, &'a str),
    /// The service.
    Service,
}

/// The decision of the policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A policy permits the request, and none forbids it.
    Allowed,
    /// No policy permits the request, or one forbids it.
    Denied,
    /// The policies could not be evaluated.
    Undecided,
}

/// A verdict and the policies that determined it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// The verdict.
    pub verdict: Verdict,
    /// The policies that determined it, as `SET#N`. Empty if no policy permits the request.
    pub policies: Vec<String>,
    /// The errors of policies that could not be evaluated.
    pub errors: Vec<String>,
}

/// Policies, indexed for decisions.
#[derive(Default)]
pub struct Policies {
    slices: HashMap<Action, Slice>,
    reads: ContextUse,
    count: usize,
    /// The heads of the policies that can apply to making tokens.
    of_tokens: Vec<PolicyHead>,
    kept: RwLock<HashMap<DecisionKey, Verdict>>,
}

/// The effect and the principals of a policy.
struct PolicyHead {
    permits: bool,
    principal: PrincipalConstraint,
    has_conditions: bool,
}

/// A policy that permits a principal to change policies or to make tokens, and so to obtain every
/// other permission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdministrationPermit {
    /// The policy, as `SET#N`.
    pub policy: String,
    /// Its principals in Cedar's syntax, such as `Token::"ops"`, `is Certificate`, or `any`.
    pub principal: String,
    /// `policy`, `token` or both.
    pub actions: Vec<Action>,
    /// Whether it permits that only under conditions (`when` or `unless`).
    pub has_conditions: bool,
}

impl AdministrationPermit {
    /// The actions by which a principal can obtain every other permission.
    const ACTIONS: [Action; 2] = [Action::Policy, Action::Token];

    /// Describes a policy. Returns `None` if it does not permit administration.
    pub(super) fn of(policy: &Policy) -> Option<Self> {
        let mut actions = actions_of(&policy.action_constraint());
        actions.retain(|action| Self::ACTIONS.contains(action));
        let is_of_service = match policy.resource_constraint() {
            ResourceConstraint::Any => true,
            ResourceConstraint::Is(of) | ResourceConstraint::IsIn(of, _) => {
                of.basename() == "Service"
            }
            ResourceConstraint::Eq(uid) | ResourceConstraint::In(uid) => {
                uid.type_name().basename() == "Service"
            }
        };
        if policy.effect() != Effect::Permit || actions.is_empty() || !is_of_service {
            return None;
        }
        let principal = match policy.principal_constraint() {
            PrincipalConstraint::Any => "any".to_owned(),
            PrincipalConstraint::Is(of) => format!("is {of}"),
            PrincipalConstraint::Eq(uid)
            | PrincipalConstraint::In(uid)
            | PrincipalConstraint::IsIn(_, uid) => uid.to_string(),
        };
        Some(AdministrationPermit {
            policy: policy.id().to_string(),
            principal,
            actions,
            has_conditions: policy.has_non_scope_constraint(),
        })
    }
}

/// A kind of principal that could make tokens.
#[derive(Clone, Copy)]
pub enum TokenMaker<'a> {
    /// A token of this principal.
    Token(&'a Principal),
    /// Any certificate.
    Certificate,
}

/// The policies that can apply to one action.
#[derive(Default)]
struct Slice {
    /// Policies that can apply to any tenant, or to requests without a tenant.
    general: PolicySet,
    /// Policies that can apply only to one tenant.
    of: HashMap<String, PolicySet>,
}

/// The context attributes that policies read. Principal and resource are always part of the cache
/// key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ContextUse {
    now: bool,
    items: bool,
    address: bool,
    certificate: bool,
}

/// The cache key of a decision: everything that it depends on.
#[derive(PartialEq, Eq, Hash)]
struct DecisionKey {
    action: Action,
    is_certificate: bool,
    principal: Principal,
    about: OwnedTarget,
    minute: Option<u64>,
    items: Option<u32>,
    address: Option<IpAddr>,
    certificate: Option<[u8; 32]>,
}

#[derive(PartialEq, Eq, Hash)]
enum OwnedTarget {
    /// A record's content is the same as long as its generation is the same.
    Key(Uuid, u64),
    New(Label, Label, Label, String),
    Missing(Label, String),
    Tenant(Label, String),
    Service,
}

impl Policies {
    /// Indexes the policies.
    ///
    /// # Errors
    /// Two policies with the same name, which does not happen.
    pub fn new(policies: &[Policy]) -> Result<Self, Error> {
        let (mut slices, mut reads) = (HashMap::<Action, Slice>::new(), ContextUse::default());
        let mut of_tokens = Vec::new();
        for policy in policies {
            let json = policy.to_json().map_err(|error| Error::Parameter(error.to_string()))?;
            reads.add(&json);
            let tenant = tenant_of(&policy.resource_constraint());
            let actions = actions_of(&policy.action_constraint());
            if actions.contains(&Action::Token) {
                of_tokens.push(PolicyHead {
                    permits: policy.effect() == Effect::Permit,
                    principal: policy.principal_constraint(),
                    has_conditions: policy.has_non_scope_constraint(),
                });
            }
            for action in actions {
                let slice = slices.entry(action).or_default();
                let set = match &tenant {
                    Some(tenant) => slice.of.entry(tenant.clone()).or_default(),
                    None => &mut slice.general,
                };
                set.add(policy.clone()).map_err(|error| Error::Parameter(error.to_string()))?;
            }
        }
        Ok(Policies { slices, reads, count: policies.len(), of_tokens, kept: RwLock::default() })
    }

    /// Returns whether such a principal can make tokens, as far as that is known without a request:
    /// a `permit` counts regardless of its conditions, and a `forbid` counts only without
    /// conditions.
    pub fn may_make_tokens(&self, who: TokenMaker<'_>) -> bool {
        if self.is_empty() {
            return matches!(who, TokenMaker::Token(_));
        }
        let permitted = self.of_tokens.iter().any(|head| head.permits && head.is_about(who));
        let forbids =
            |head: &PolicyHead| !head.permits && !head.has_conditions && head.is_about_all(who);
        permitted && !self.of_tokens.iter().any(forbids)
    }

    /// Returns whether there are no policies.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the decision, from the cache if possible.
    pub fn decide(&self, question: &Question<'_>) -> Verdict {
        let seen = self.seen(question);
        let kept = self.kept.read().unwrap_or_else(PoisonError::into_inner).get(&seen).copied();
        if let Some(verdict) = kept {
            return verdict;
        }
        let verdict = self.explain(question).verdict;
        // An evaluation may succeed later, when more memory is free.
        if verdict != Verdict::Undecided {
            let mut kept = self.kept.write().unwrap_or_else(PoisonError::into_inner);
            if kept.len() >= KEPT_MAX {
                kept.clear();
            }
            kept.insert(seen, verdict);
        }
        verdict
    }

    /// Decides and explains the decision. Does not use the cache.
    pub fn explain(&self, question: &Question<'_>) -> Explanation {
        let none =
            || Explanation { verdict: Verdict::Denied, policies: Vec::new(), errors: Vec::new() };
        let Some(slice) = self.slices.get(&question.action) else { return none() };
        stacker::maybe_grow(STACK_MIN, STACK, || match evaluated(slice, question) {
            Ok(explained) => explained,
            Err(error) => {
                Explanation { verdict: Verdict::Undecided, errors: vec![error], ..none() }
            }
        })
    }

    fn seen(&self, question: &Question<'_>) -> DecisionKey {
        let Question { who, action, about, items, now_ms } = question;
        let (reads, peer) = (self.reads, who.peer());
        DecisionKey {
            action: *action,
            is_certificate: who.method() == Method::Certificate,
            principal: who.principal().clone(),
            about: match about {
                AccessTarget::Key(_, _, view) => {
                    OwnedTarget::Key(view.key.id.uuid, view.generation)
                }
                AccessTarget::New(NewKey { tenant, purpose, name, algorithm }) => OwnedTarget::New(
                    tenant.clone(),
                    purpose.clone(),
                    name.clone(),
                    algorithm.to_string(),
                ),
                AccessTarget::Missing(tenant, name) => {
                    OwnedTarget::Missing((*tenant).clone(), (*name).to_owned())
                }
                AccessTarget::Tenant(tenant, prefix) => {
                    OwnedTarget::Tenant((*tenant).clone(), (*prefix).to_owned())
                }
                AccessTarget::Service => OwnedTarget::Service,
            },
            minute: reads.now.then_some(now_ms / MINUTE_MS),
            items: reads.items.then_some(*items),
            address: peer.address.filter(|_| reads.address),
            certificate: peer.certificate.filter(|_| reads.certificate),
        }
    }
}

impl PolicyHead {
    /// Returns whether the policy can apply to such a principal.
    fn is_about(&self, who: TokenMaker<'_>) -> bool {
        match (&self.principal, who) {
            (
                PrincipalConstraint::Eq(uid) | PrincipalConstraint::In(uid),
                TokenMaker::Certificate,
            ) => uid.type_name().basename() == "Certificate",
            _ => self.is_about_all(who),
        }
    }

    /// Returns whether the policy applies to every such principal.
    fn is_about_all(&self, who: TokenMaker<'_>) -> bool {
        let kind = match who {
            TokenMaker::Token(_) => "Token",
            TokenMaker::Certificate => "Certificate",
        };
        match (&self.principal, who) {
            (PrincipalConstraint::Any, _) => true,
            (PrincipalConstraint::Is(of), _) => of.basename() == kind,
            (
                PrincipalConstraint::Eq(uid) | PrincipalConstraint::In(uid),
                TokenMaker::Token(name),
            ) => uid.type_name().basename() == kind && uid.id().unescaped() == name.as_str(),
            // Principals have no parents.
            (PrincipalConstraint::IsIn(of, uid), TokenMaker::Token(name)) => {
                of.basename() == kind && uid.id().unescaped() == name.as_str()
            }
            (PrincipalConstraint::IsIn(of, _), TokenMaker::Certificate) => of.basename() == kind,
            (PrincipalConstraint::Eq(_) | PrincipalConstraint::In(_), TokenMaker::Certificate) => {
                false
            }
        }
    }
}

impl ContextUse {
    /// Collects the attributes that a policy reads from its JSON. Attributes are read by `.` and by
    /// `has`, at any depth.
    fn add(&mut self, json: &Value) {
        match json {
            Value::Object(fields) => {
                for (name, value) in fields {
                    match (name.as_str(), value) {
                        ("." | "has", Value::Object(access)) => self.add_access(access),
                        // The policy uses the whole context.
                        ("Var", Value::String(var)) if var == "context" => self.add_all(),
                        _ => self.add(value),
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.add(item)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn add_access(&mut self, access: &serde_json::Map<String, Value>) {
        match access.get("attr").and_then(Value::as_str) {
            Some("now") => self.now = true,
            Some("items") => self.items = true,
            Some("address") => self.address = true,
            Some("certificate") => self.certificate = true,
            Some(_) => {}
            None => self.add_all(),
        }
        for (name, value) in access.iter().filter(|(name, _)| *name != "attr") {
            let is_context = value.get("Var").and_then(Value::as_str) == Some("context");
            if !(name == "left" && is_context) {
                self.add(value);
            }
        }
    }

    fn add_all(&mut self) {
        *self = ContextUse { now: true, items: true, address: true, certificate: true };
    }
}

/// Returns the actions to which a policy can apply.
fn actions_of(constraint: &ActionConstraint) -> Vec<Action> {
    let of = |uid: &EntityUid| uid.id().unescaped().parse::<Action>().ok();
    match constraint {
        ActionConstraint::Any => Action::ALL.to_vec(),
        ActionConstraint::Eq(uid) => of(uid).into_iter().collect(),
        ActionConstraint::In(uids) => {
            let mut actions: Vec<Action> = uids.iter().filter_map(of).collect();
            actions.sort_unstable();
            actions.dedup();
            actions
        }
    }
}

/// Returns the only tenant to which a policy can apply; `None` if the policy's head names no
/// tenant.
fn tenant_of(constraint: &ResourceConstraint) -> Option<String> {
    let uid = match constraint {
        ResourceConstraint::Any | ResourceConstraint::Is(_) => return None,
        ResourceConstraint::In(uid)
        | ResourceConstraint::Eq(uid)
        | ResourceConstraint::IsIn(_, uid) => uid,
    };
    let id = uid.id().unescaped();
    match uid.type_name().basename() {
        "Tenant" => Some(id.to_owned()),
        "Key" => id.split_once('/').map(|(tenant, _)| tenant.to_owned()),
        _ => None,
    }
}

fn evaluated(slice: &Slice, question: &Question<'_>) -> Result<Explanation, String> {
    let (resource, entities, tenant, prefix) = resource(&question.about)?;
    let who = question.who;
    let principal = match who.method() {
        Method::Certificate => uid("Certificate", who.principal().as_str())?,
        Method::Token { .. } | Method::Local => uid("Token", who.principal().as_str())?,
    };
    let action = uid("Action", question.action.as_str())?;
    let context = context(question, prefix)?;
    let request = Request::new(principal, action, resource, context, None)
        .map_err(|error| error.to_string())?;
    let authorizer = Authorizer::new();
    let of_tenant = tenant.and_then(|tenant| slice.of.get(tenant.as_str()));
    let (mut allowing, mut forbidding, mut errors) = (Vec::new(), Vec::new(), Vec::new());
    for set in [Some(&slice.general), of_tenant].into_iter().flatten() {
        let response = authorizer.is_authorized(&request, set, &entities);
        let reasons = response.diagnostics().reason().map(ToString::to_string);
        // The reasons of a denial are the policies that forbid the request. The list is empty if no
        // policy permits it.
        match response.decision() {
            Decision::Allow => allowing.extend(reasons),
            Decision::Deny => forbidding.extend(reasons),
        }
        errors.extend(response.diagnostics().errors().map(ToString::to_string));
    }
    // Cedar skips a policy that cannot be evaluated, even a `forbid`. Therefore errors deny the
    // request.
    let (verdict, mut policies) =
        match (errors.is_empty(), forbidding.is_empty(), allowing.is_empty()) {
            (false, ..) => (Verdict::Undecided, Vec::new()),
            (true, false, _) => (Verdict::Denied, forbidding),
            (true, true, false) => (Verdict::Allowed, allowing),
            (true, true, true) => (Verdict::Denied, Vec::new()),
        };
    policies.sort_unstable();
    Ok(Explanation { verdict, policies, errors })
}

type Resource<'a> = (EntityUid, Entities, Option<&'a Label>, Option<&'a str>);

/// Returns the resource, its attributes, its tenant, and the prefix of a list.
fn resource<'a>(about: &AccessTarget<'a>) -> Result<Resource<'a>, String> {
    let nothing = || (String::new(), String::new());
    let (tenant, name, (purpose, algorithm), key) = match about {
        AccessTarget::Service => {
            return Ok((uid("Service", "kms")?, Entities::empty(), None, None));
        }
        AccessTarget::Tenant(tenant, prefix) => {
            let uid = uid("Tenant", tenant.as_str())?;
            return Ok((uid, Entities::empty(), Some(*tenant), Some(*prefix)));
        }
        AccessTarget::Missing(tenant, name) => (*tenant, *name, nothing(), None),
        AccessTarget::New(new) => {
            let of = (new.purpose.to_string(), new.algorithm.to_string());
            (&new.tenant, new.name.as_str(), of, None)
        }
        AccessTarget::Key(tenant, name, view) => {
            let id = &view.key.id;
            (*tenant, *name, (id.purpose.to_string(), id.algorithm.to_string()), Some(&*view.key))
        }
    };
    let text = RestrictedExpression::new_string;
    let attributes = [("name", name.to_owned()), ("purpose", purpose), ("algorithm", algorithm)];
    let attributes = attributes.map(|(name, value)| (name.to_owned(), text(value)));
    let labels = key.into_iter().flat_map(|key: &Key| &key.labels);
    let labels = labels.map(|(name, value)| (name.clone(), text(value.clone())));
    let resource = uid("Key", &format!("{tenant}/{name}"))?;
    let parent = uid("Tenant", tenant.as_str())?;
    let entity = Entity::new_with_tags(resource.clone(), attributes, [parent], labels)
        .map_err(|error| error.to_string())?;
    let entities = Entities::from_entities([entity], None).map_err(|error| error.to_string())?;
    Ok((resource, entities, Some(tenant), None))
}

fn context(question: &Question<'_>, prefix: Option<&str>) -> Result<Context, String> {
    let peer = question.who.peer();
    // Cedar's `datetime` takes no fraction, or one of three digits.
    let minute = rfc3339(question.now_ms - question.now_ms % MINUTE_MS);
    let mut pairs = vec![
        ("now", RestrictedExpression::new_datetime(minute)),
        ("items", RestrictedExpression::new_long(question.items.into())),
    ];
    if let Some(address) = peer.address {
        pairs.push(("address", RestrictedExpression::new_ip(address.to_string())));
    }
    if let Some(certificate) = peer.certificate {
        let digest = crate::text::hex(&certificate);
        pairs.push(("certificate", RestrictedExpression::new_string(digest)));
    }
    if let Some(prefix) = prefix {
        pairs.push(("prefix", RestrictedExpression::new_string(prefix.to_owned())));
    }
    let pairs = pairs.into_iter().map(|(name, value)| (name.to_owned(), value));
    Context::from_pairs(pairs).map_err(|error| error.to_string())
}

fn uid(of: &str, id: &str) -> Result<EntityUid, String> {
    let of = EntityTypeName::from_str(of).map_err(|error| error.to_string())?;
    Ok(EntityUid::from_type_name_and_id(of, EntityId::new(id)))
}

#[cfg(test)]
mod tests {
    use super::super::policy;
    use super::*;

    fn policies(text: &str) -> Vec<Policy> {
        policy::read(&Label::new("set", "p").unwrap(), text).unwrap()
    }

    fn reads(text: &str) -> ContextUse {
        Policies::new(&policies(text)).unwrap().reads
    }

    #[test]
    fn context_use_is_detected_in_every_syntax() {
        let none = ContextUse::default();
        let when = |text: &str| {
            reads(&format!(
                "permit(principal, action == Action::\"sign\", resource) when {{ {text} }};"
            ))
        };
        assert_eq!(when("resource.name == \"context.now\""), none);
        assert_eq!(when("resource.hasTag(\"now\") && resource.getTag(\"now\") == \"items\""), none);
        let now = ContextUse { now: true, ..none };
        assert_eq!(when("context.now < datetime(\"2030-01-01\")"), now);
        assert_eq!(when("context[\"now\"] < datetime(\"2030-01-01\")"), now);
        assert_eq!(when("context[\"n\\u{6f}w\"] < datetime(\"2030-01-01\")"), now);
        assert!(when("(if resource.name == \"a\" then context else context).now.toTime() < duration(\"18h\")").now);
        let all = ContextUse { now: true, items: true, address: true, certificate: true };
        assert_eq!(when("context == context"), all);
        assert_eq!(when("{a: context}.a.items == 1"), all);
        assert_eq!(when("context has address"), ContextUse { address: true, ..none });
        assert_eq!(
            when("context has certificate && context.certificate == \"\" && context.items < 3"),
            ContextUse { certificate: true, items: true, ..none }
        );
        assert_eq!(
            reads("permit(principal, action, resource) unless { context.items > 9 };"),
            ContextUse { items: true, ..none }
        );
    }

    #[test]
    fn a_policy_is_looked_at_for_its_actions_and_its_tenant_only() {
        let all = policies(
            "permit(principal, action == Action::\"sign\", resource in Tenant::\"a\");\n\
             permit(principal, action in [Action::\"sign\", Action::\"verify\"], resource == Key::\"b/k\");\n\
             forbid(principal, action, resource is Key in Tenant::\"c\");\n\
             forbid(principal, action, resource is Key) when { resource.name == \"x\" };",
        );
        let known = Policies::new(&all).unwrap();
        let at = |action| &known.slices[&action];
        let mut tenants: Vec<&str> = at(Action::Sign).of.keys().map(String::as_str).collect();
        tenants.sort_unstable();
        assert_eq!(tenants, ["a", "b", "c"]);
        assert_eq!(at(Action::Sign).general.num_of_policies(), 1);
        assert_eq!(at(Action::Verify).of.len(), 2);
        assert_eq!(at(Action::Rotate).of.len(), 1);
        assert_eq!(at(Action::Seal).general.num_of_policies(), 1);
    }
}
