//! Decisions by policies, and what is kept of them.
//!
//! A decision costs what there are policies to look at. So each is looked at only for its actions and its tenant, and what
//! was decided is kept under everything that the policies read. A set that reads the clock is asked anew each minute; none is
//! told a finer time than that.

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

/// Decisions that are kept. Beyond that all are forgotten.
const KEPT_MAX: usize = 1 << 14;

const MINUTE_MS: u64 = 60_000;

/// Below that much stack an evaluation gets one of its own.
const STACK_MIN: usize = 1 << 20;

/// A stack of its own.
const STACK: usize = 8 << 20;

/// What is asked.
pub struct Question<'a> {
    pub who: &'a Caller,
    pub action: Action,
    pub about: AccessTarget<'a>,
    pub items: u32,
    pub now_ms: u64,
}

/// What an action is about: a key, a tenant or the service.
#[derive(Clone)]
pub enum AccessTarget<'a> {
    /// A key that is there.
    Key(&'a Label, &'a str, KeyView),
    /// One that is about to be made.
    New(&'a NewKey),
    /// One that is not there.
    Missing(&'a Label, &'a str),
    /// A tenant's keys whose names begin so.
    Tenant(&'a Label, &'a str),
    /// The service.
    Service,
}

/// What the policies say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// One allows it, and none forbids it.
    Allowed,
    /// None allows it, or one forbids it.
    Denied,
    /// It can't be evaluated.
    Undecided,
}

/// A verdict, and which policies it comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// What they say.
    pub verdict: Verdict,
    /// Which of them say so: `SET#N`. None where nothing allows it.
    pub policies: Vec<String>,
    /// What could not be evaluated.
    pub errors: Vec<String>,
}

/// Policies, ready to decide.
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

/// A policy that permits somebody to change policies or to make tokens, and so to obtain every other permission.
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

/// Policies that may be about one action.
#[derive(Default)]
struct Slice {
    /// About any tenant, or none.
    general: PolicySet,
    /// About one tenant alone.
    of: HashMap<String, PolicySet>,
}

/// Which circumstances policies read. Whom and what it is about they may always read.
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
    /// A record says the same as long as its generation is the same.
    Key(Uuid, u64),
    New(Label, Label, Label, String),
    Missing(Label, String),
    Tenant(Label, String),
    Service,
}

impl Policies {
    /// # Errors
    /// None that happens: two policies of one name.
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

    /// Whether such a principal can make tokens, as far as that is known without a request: a `permit` counts whatever its
    /// conditions are, and a `forbid` counts only without conditions.
    pub fn may_make_tokens(&self, who: TokenMaker<'_>) -> bool {
        if self.is_empty() {
            return matches!(who, TokenMaker::Token(_));
        }
        let permitted = self.of_tokens.iter().any(|head| head.permits && head.is_about(who));
        let forbids =
            |head: &PolicyHead| !head.permits && !head.has_conditions && head.is_about_all(who);
        permitted && !self.of_tokens.iter().any(forbids)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Decides, or remembers.
    pub fn decide(&self, question: &Question<'_>) -> Verdict {
        let seen = self.seen(question);
        let kept = self.kept.read().unwrap_or_else(PoisonError::into_inner).get(&seen).copied();
        if let Some(verdict) = kept {
            return verdict;
        }
        let verdict = self.explain(question).verdict;
        // What can't be evaluated may be once there is more memory.
        if verdict != Verdict::Undecided {
            let mut kept = self.kept.write().unwrap_or_else(PoisonError::into_inner);
            if kept.len() >= KEPT_MAX {
                kept.clear();
            }
            kept.insert(seen, verdict);
        }
        verdict
    }

    /// Decides, and says why.
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
    /// Whether the policy can apply to such a principal.
    fn is_about(&self, who: TokenMaker<'_>) -> bool {
        match (&self.principal, who) {
            (
                PrincipalConstraint::Eq(uid) | PrincipalConstraint::In(uid),
                TokenMaker::Certificate,
            ) => uid.type_name().basename() == "Certificate",
            _ => self.is_about_all(who),
        }
    }

    /// Whether the policy applies to every such principal.
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
    /// What a policy reads, from its JSON: attributes are read by `.` and by `has`, wherever they stand.
    fn add(&mut self, json: &Value) {
        match json {
            Value::Object(fields) => {
                for (name, value) in fields {
                    match (name.as_str(), value) {
                        ("." | "has", Value::Object(access)) => self.add_access(access),
                        // All of them at once.
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

/// Which actions a policy may be about.
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

/// Whose keys alone a policy may be about; none where that is not said.
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
        // The reasons of a denial are what forbids it: none where nothing allows it.
        match response.decision() {
            Decision::Allow => allowing.extend(reasons),
            Decision::Deny => forbidding.extend(reasons),
        }
        errors.extend(response.diagnostics().errors().map(ToString::to_string));
    }
    // A policy that can't be evaluated is passed over by Cedar, also where it would forbid.
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

/// The resource, what is known of it, whose it is, and the prefix of a list.
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
    // Cedar's dates have no fraction, or three digits of it.
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
