//! Policies: the permissions they give, and that cached decisions equal new ones.

use std::net::IpAddr;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use gabion_kms::audit::Outcome;
use gabion_kms::gate::{self, Action, Caller, Gate, Peer, Principal, Request};
use gabion_kms::model::Label;
use gabion_kms::operations::{Kms, NewKey};
use gabion_kms::service::{self, AuditAt, Call, KeyRef, Service, SignItem};
use gabion_kms::store::MemoryStore;
use gabion_kms::{Code, DenialReason, Error, Message};

use crate::fixture::{self, lax};

const NOW: u64 = 1_790_000_000_000; // 2026-09-21, 14:13:20

fn label(text: &str) -> Label {
    Label::new("name", text).unwrap()
}

fn principal(text: &str) -> Principal {
    Principal::new(text).unwrap()
}

fn gate(kms: &Kms) -> Gate {
    Gate::open(kms, lax(), NOW).unwrap()
}

fn new(tenant: &str, name: &str, algorithm: &str) -> NewKey {
    let algorithm = algorithm.parse().unwrap();
    NewKey { tenant: label(tenant), purpose: label("transit"), name: label(name), algorithm }
}

fn with_certificate(gate: &Gate, name: &str) -> Caller {
    gate.of_certificate(principal(name), &Peer::default())
}

fn with_token(gate: &Gate, name: &str, peer: &Peer) -> Caller {
    let token = gate.mint(&principal(name), &[], None, NOW).unwrap();
    gate.authenticate(&token.to_string(), peer, NOW).unwrap()
}

fn put(kms: &Kms, gate: &Gate, name: &str, text: &str) -> Result<u64, Error> {
    let who = gate.local(principal("local"));
    gate.change_policies(kms, &who, &label(name), Some(text), NOW)
}

fn about<'a>(action: Action, tenant: &'a Label, key: &'a str) -> Request<'a> {
    Request { action, tenant: Some(tenant), key: Some(key), items: 1, makes: None }
}

const OF_SERVICE: Request<'_> =
    Request { action: Action::Random, tenant: None, key: None, items: 1, makes: None };

/// A certificate with another spelling of a name is not one that a policy does not know.
#[test]
fn the_case_of_a_dns_name_does_not_count() {
    let kms = Kms::in_memory().unwrap();
    let (gate, tenant) = (gate(&kms), label("a"));
    let text = "permit(principal is Certificate, action, resource);\n\
                forbid(principal == Certificate::\"Build.Example.com\", action, resource);\n\
                forbid(principal, action, resource) when { principal == Certificate::\"SPIFFE://Example.com/Build\" };";
    put(&kms, &gate, "p", text).unwrap();
    let allow = |gate: &Gate, name: &str| {
        gate.allow(&kms, &with_certificate(gate, name), &about(Action::Show, &tenant, "k"), NOW)
    };
    // Also when it is read from the store again.
    for gate in [&gate, &Gate::open(&kms, lax(), NOW).unwrap()] {
        for name in ["build.example.com", "BUILD.EXAMPLE.COM", "spiffe://example.com/Build"] {
            assert_eq!(allow(gate, name), Err(DenialReason::Unseen), "{name}");
        }
        for name in ["other.example.com", "Other.Example.com", "spiffe://example.com/build"] {
            assert_eq!(allow(gate, name), Ok(()), "{name}");
        }
    }
}

#[test]
fn a_certificate_allows_what_policies_allow() {
    let kms = Kms::in_memory().unwrap();
    let (gate, a, b) = (gate(&kms), label("a"), label("b"));
    for key in
        [new("a", "web", "ml-dsa-65"), new("a", "old", "ed25519"), new("b", "web", "ml-dsa-65")]
    {
        kms.create(&key).unwrap();
    }
    let labels = [("stage".to_owned(), "test".to_owned())].into();
    kms.set_labels(&kms.find(&a, &label("old")).unwrap(), &labels).unwrap();
    put(
        &kms,
        &gate,
        "build",
        "permit(principal == Certificate::\"spiffe://example.com/build\", action in [Action::\"sign\", Action::\"show\"],\n\
                resource in Tenant::\"a\")\n\
         when { resource.algorithm like \"ml-dsa-*\" || (resource.hasTag(\"stage\") && resource.getTag(\"stage\") == \"test\") };\n\
         permit(principal is Certificate, action == Action::\"list\", resource == Tenant::\"a\")\n\
         when { context.prefix like \"web*\" };\n\
         permit(principal is Certificate, action == Action::\"create\", resource in Tenant::\"a\")\n\
         when { resource.algorithm == \"ml-kem-768\" && resource.name like \"kem-*\" && resource.purpose == \"transit\" };\n\
         forbid(principal, action == Action::\"sign\", resource == Key::\"a/web\") when { context.items > 10 };",
    )
    .unwrap();
    let build = with_certificate(&gate, "spiffe://example.com/build");
    let ask = |who: &Caller, request: &Request<'_>| gate.allow(&kms, who, request, NOW);
    assert_eq!(ask(&build, &about(Action::Sign, &a, "web")), Ok(()));
    assert_eq!(ask(&build, &about(Action::Sign, &a, "old")), Ok(()));
    assert_eq!(ask(&build, &about(Action::Rotate, &a, "web")), Err(DenialReason::Policy));
    let many = Request { items: 11, ..about(Action::Sign, &a, "web") };
    assert_eq!(ask(&build, &many), Err(DenialReason::Policy));
    // Keys of another tenant and missing keys: the caller may see neither.
    assert_eq!(ask(&build, &about(Action::Sign, &b, "web")), Err(DenialReason::Unseen));
    assert_eq!(ask(&build, &about(Action::Sign, &a, "missing")), Err(DenialReason::Unseen));
    assert_eq!(ask(&build, &OF_SERVICE), Err(DenialReason::Policy));
    assert_eq!(ask(&build, &about(Action::List, &a, "web")), Ok(()));
    assert_eq!(ask(&build, &about(Action::List, &a, "")), Err(DenialReason::Policy));
    assert_eq!(ask(&build, &about(Action::List, &b, "web")), Err(DenialReason::Policy));
    let make = |new: &NewKey| {
        let request = about(Action::Create, &new.tenant, new.name.as_str());
        ask(&build, &Request { makes: Some(new), ..request }).is_ok()
    };
    assert!(make(&new("a", "kem-1", "ml-kem-768")));
    assert!(!make(&new("a", "kem-1", "ed25519")) && !make(&new("b", "kem-1", "ml-kem-768")));
    assert!(!make(&new("a", "web-1", "ml-kem-768")));
    // By another name, and by a token of the same name.
    for other in [
        with_certificate(&gate, "spiffe://example.com/build2"),
        with_token(&gate, "spiffe://example.com/build", &Peer::default()),
    ] {
        assert_eq!(ask(&other, &about(Action::Sign, &a, "web")), Err(DenialReason::Unseen));
    }
    // Removing a label removes the permissions that depend on it.
    kms.set_labels(&kms.find(&a, &label("old")).unwrap(), &Default::default()).unwrap();
    assert_eq!(ask(&build, &about(Action::Sign, &a, "old")), Err(DenialReason::Unseen));
}

#[test]
fn tokens_need_a_policy_once_there_is_one_and_caveats_still_count() {
    let kms = Kms::in_memory().unwrap();
    let (gate, a) = (gate(&kms), label("a"));
    let ci = with_token(&gate, "ci", &Peer::default());
    let sign = about(Action::Sign, &a, "web");
    assert_eq!(gate.allow(&kms, &ci, &sign, NOW), Ok(()), "no policy: caveats alone");
    put(
        &kms,
        &gate,
        "x",
        "permit(principal == Token::\"ci\", action == Action::\"verify\", resource);",
    )
    .unwrap();
    assert_eq!(gate.allow(&kms, &ci, &sign, NOW), Err(DenialReason::Unseen));
    assert_eq!(gate.allow(&kms, &ci, &about(Action::Verify, &a, "web"), NOW), Ok(()));
    // Sets are in force together.
    put(&kms, &gate, "tokens", "permit(principal is Token, action, resource);").unwrap();
    assert_eq!(gate.allow(&kms, &ci, &sign, NOW), Ok(()));
    assert_eq!(gate.allow(&kms, &ci, &OF_SERVICE, NOW), Ok(()));
    let less =
        gate.mint(&principal("ci"), &["actions=verify".parse().unwrap()], None, NOW).unwrap();
    let less = gate.authenticate(&less.to_string(), &Peer::default(), NOW).unwrap();
    assert_eq!(gate.allow(&kms, &less, &sign, NOW), Err(DenialReason::Action("sign")));
    // A `forbid` overrides every `permit`.
    put(&kms, &gate, "x", "forbid(principal, action == Action::\"sign\", resource);").unwrap();
    assert_eq!(gate.allow(&kms, &ci, &sign, NOW), Err(DenialReason::Policy));
    let who = gate.local(principal("local"));
    for name in ["x", "tokens"] {
        gate.change_policies(&kms, &who, &label(name), None, NOW).unwrap();
    }
    assert_eq!(gate.allow(&kms, &ci, &sign, NOW), Ok(()));
    let gone = gate.change_policies(&kms, &who, &label("x"), None, NOW).unwrap_err();
    assert_eq!(gone.code(), Code::NotFound);
}

#[test]
fn a_set_that_shuts_its_author_out_or_is_wrong_is_not_taken() {
    let kms = Kms::in_memory().unwrap();
    let gate = gate(&kms);
    let ci = with_token(&gate, "ci", &Peer::default());
    let change = |text: Option<&str>| gate.change_policies(&kms, &ci, &label("x"), text, NOW);
    let refused = change(Some("permit(principal is Certificate, action, resource);")).unwrap_err();
    assert!(refused.to_string().contains("permit(principal == Token::\"ci\""), "{refused}");
    let refused =
        change(Some("permit(principal is Token, action, resource)\nwhen { resource.x };"));
    let refused = refused.unwrap_err();
    assert_eq!(refused.code(), Code::BadRequest);
    assert!(refused.to_string().contains("line 2, column"), "{refused}");
    assert!(gate.policies().is_empty());
    assert_eq!(change(Some("permit(principal is Token, action, resource);")).unwrap(), 1);
    assert_eq!(change(Some("permit(principal is Token, action, resource); ")).unwrap(), 2);
    // Too many of them together.
    let many = "permit(principal is Token, action, resource);\n".repeat(600);
    let put = |name: &str| gate.change_policies(&kms, &ci, &label(name), Some(&many), NOW);
    put("many").unwrap();
    assert_eq!(put("more").unwrap_err().code(), Code::TooLarge);
    // By a certificate: without any policy it may nothing, so it does not delete the last one.
    let admin = with_certificate(&gate, "admin.example.com");
    let all = "permit(principal is Certificate, action, resource);";
    gate.change_policies(&kms, &admin, &label("many"), Some(all), NOW).unwrap();
    gate.change_policies(&kms, &admin, &label("x"), None, NOW).unwrap();
    assert!(gate.change_policies(&kms, &admin, &label("many"), None, NOW).is_err());
}

#[test]
fn policies_are_there_after_a_restart_with_their_versions() {
    let store = Arc::new(MemoryStore::with_id([5; 16]));
    let open = || fixture::kms(store.clone());
    let a = label("a");
    let kms = open();
    let before = gate(&kms);
    for (name, text) in [
        ("one", "permit(principal is Token, action, resource);"),
        ("one", "permit(principal == Token::\"ci\", action, resource);"),
        ("two", "permit(principal == Token::\"x\", action, resource);"),
    ] {
        put(&kms, &before, name, text).unwrap();
    }
    let local = before.local(principal("local"));
    before.change_policies(&kms, &local, &label("two"), None, NOW).unwrap();
    drop((before, kms));
    let kms = open();
    let after = gate(&kms);
    let sets = after.policies();
    assert_eq!(sets.len(), 1);
    assert_eq!((sets[0].name.as_str(), sets[0].version, sets[0].policies), ("one", 2, 1));
    let sign = about(Action::Sign, &a, "k");
    let may =
        |name| after.allow(&kms, &with_token(&after, name, &Peer::default()), &sign, NOW).is_ok();
    assert!(may("ci") && !may("x"));
    // One that was deleted goes on from its version.
    assert_eq!(
        put(&kms, &after, "two", "permit(principal is Token, action, resource);").unwrap(),
        3
    );
}

#[test]
fn policy_evaluation_error_denies_the_request() {
    let kms = Kms::in_memory().unwrap();
    let (gate, a) = (gate(&kms), label("a"));
    // An overflow, which no validation sees.
    put(
        &kms,
        &gate,
        "x",
        "permit(principal, action, resource);\n\
         forbid(principal, action == Action::\"sign\", resource) when { 9223372036854775807 + context.items == 1 };",
    )
    .unwrap();
    let ci = with_token(&gate, "ci", &Peer::default());
    assert_eq!(
        gate.allow(&kms, &ci, &about(Action::Sign, &a, "k"), NOW),
        Err(DenialReason::Undecided)
    );
    assert_eq!(gate.allow(&kms, &ci, &about(Action::Verify, &a, "k"), NOW), Ok(()));
}

#[test]
fn a_policy_by_the_clock_holds_to_the_minute() {
    let kms = Kms::in_memory().unwrap();
    let (gate, a) = (gate(&kms), label("a"));
    put(
        &kms,
        &gate,
        "x",
        "permit(principal, action, resource) when { context.now.toTime() < duration(\"14h14m\") };",
    )
    .unwrap();
    let ci = with_token(&gate, "ci", &Peer::default());
    let at = |now| gate.allow(&kms, &ci, &about(Action::Sign, &a, "k"), now);
    // From 14:13:20 on.
    for (later, may) in [(0, true), (39_999, true), (40_000, false), (100_000, false), (0, true)] {
        assert_eq!(at(NOW + later).is_ok(), may, "{later}");
    }
}

/// The deepest possible text, on a small stack.
#[test]
fn the_deepest_policies_are_decided() {
    let kms = Kms::in_memory().unwrap();
    let (gate, a) = (gate(&kms), label("a"));
    let text = format!(
        "permit(principal, action, resource) when {{ {}context.items == 1 }};",
        "context.items < 9 && ".repeat(120)
    );
    put(&kms, &gate, "x", &text).unwrap();
    let ci = with_token(&gate, "ci", &Peer::default());
    let decide = || gate.allow(&kms, &ci, &about(Action::Sign, &a, "k"), NOW);
    let decided = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(256 << 10);
        thread.spawn_scoped(scope, decide).unwrap().join().unwrap()
    });
    assert_eq!(decided, Ok(()));
}

/// Numbers from a seed (SplitMix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % end as u64) as usize
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

const CONDITIONS: &[&str] = &[
    "resource.algorithm like \"ml-*\"",
    "resource.name == \"k0\"",
    "resource.hasTag(\"stage\") && resource.getTag(\"stage\") == \"test\"",
    "context.now.toTime() < duration(\"14h15m\")",
    "context[\"now\"] < datetime(\"2026-09-21T14:14:00Z\")",
    "context.items < 3",
    "context has address && context.address.isInRange(ip(\"10.0.0.0/8\"))",
    "context has certificate",
    "context has certificate && context.certificate like \"0b*\"",
    "principal is Token",
    "(if resource.name == \"k1\" then context else context).items == 1",
    "!(context has address)",
    "true",
];

const SCOPES: &[&str] = &[
    "principal, action, resource is Key",
    "principal == Token::\"p0\", action, resource is Key",
    "principal is Certificate, action == Action::\"sign\", resource is Key",
    "principal, action in [Action::\"sign\", Action::\"verify\"], resource in Tenant::\"a\"",
    "principal, action == Action::\"sign\", resource == Key::\"a/k0\"",
    "principal == Certificate::\"p1\", action == Action::\"verify\", resource in Tenant::\"b\"",
];

/// Cached decisions equal uncached ones: no two requests that differ in something that the policies
/// read share a decision.
#[test]
fn cached_decisions_equal_fresh_decisions() {
    let kms = Kms::in_memory().unwrap();
    let tenants = [label("a"), label("b")];
    for tenant in ["a", "b"] {
        for (name, algorithm) in [("k0", "ed25519"), ("k1", "ml-dsa-44")] {
            kms.create(&new(tenant, name, algorithm)).unwrap();
        }
    }
    let mut dice = Dice(28);
    let (mut allowed, mut denied) = (0, 0);
    for _ in 0..12 {
        let mut text = String::new();
        for _ in 0..1 + dice.below(4) {
            let effect = dice.one(&["permit", "permit", "forbid"]);
            let (scope, condition) = (dice.one(SCOPES), dice.one(CONDITIONS));
            text.push_str(&format!("{effect}({scope}) when {{ {condition} }};\n"));
        }
        let remembers = gate(&kms);
        if let Err(error) = put(&kms, &remembers, "x", &text) {
            // Some scope and condition can't both hold.
            assert!(
                error.to_string().contains("impossible") || error.to_string().contains("always"),
                "{text}{error}"
            );
            continue;
        }
        for _ in 0..150 {
            let peer = Peer {
                address: dice.one(&[
                    None,
                    Some(IpAddr::from([10, 0, 0, 1])),
                    Some(IpAddr::from([11, 0, 0, 1])),
                ]),
                certificate: dice.one(&[None, Some([11; 32]), Some([12; 32])]),
            };
            let who = match dice.below(2) {
                0 => with_token(&remembers, dice.one(&["p0", "p1"]), &peer),
                _ => remembers.of_certificate(principal(dice.one(&["p0", "p1"])), &peer),
            };
            let request = Request {
                items: 1 + dice.below(4) as u32,
                ..about(
                    dice.one(&[Action::Sign, Action::Verify]),
                    &tenants[dice.below(2)],
                    dice.one(&["k0", "k1", "k2"]),
                )
            };
            let now = NOW + 20_000 * dice.below(6) as u64;
            if dice.below(10) == 0 {
                let id =
                    kms.find(&tenants[dice.below(2)], &label(dice.one(&["k0", "k1"]))).unwrap();
                let stage = dice.one(&["test", "live"]).to_string();
                kms.set_labels(&id, &[("stage".to_owned(), stage)].into()).unwrap();
            }
            let first = remembers.allow(&kms, &who, &request, now);
            let again = remembers.allow(&kms, &who, &request, now);
            let decided = remembers.explain(&kms, &who, &request, None, now).unwrap().unwrap();
            let is_allowed = decided.verdict == gate::Verdict::Allowed;
            assert_eq!(first.is_ok(), is_allowed, "{text}{who:?} {request:?} {now}: {decided:?}");
            assert_eq!(first, again);
            if is_allowed { allowed += 1 } else { denied += 1 }
        }
    }
    assert!(allowed > 100 && denied > 100, "{allowed} {denied}");
}

fn service() -> Service {
    let options = service::Options { gate: lax(), ..service::Options::default() };
    Service::open(Kms::in_memory().unwrap(), &AuditAt::Memory, options).unwrap()
}

fn somebody(service: &Service, name: &str) -> Caller {
    let token = service.first_token(&principal(name)).unwrap().to_string();
    service.authenticate(&token, &Peer::default()).unwrap()
}

fn text(message: &[u8]) -> Message<'_> {
    Message::Pure { context: b"", message }
}

#[test]
fn policy_changes_are_logged_with_versions_and_need_permission() {
    let service = service();
    let (admin, other) = (somebody(&service, "admin"), somebody(&service, "other"));
    let [admin, other] = [&admin, &other].map(|who| Call::new(who, "r-1"));
    let name = label("all");
    service
        .policy_put(&admin, &name, "permit(principal == Token::\"admin\", action, resource);")
        .unwrap();
    assert_eq!(
        service
            .policy_put(&admin, &name, "permit(principal in Token::\"admin\", action, resource);")
            .unwrap(),
        2
    );
    let told = service.log().tail(service.log().size() - 1, 1).unwrap().remove(0).record;
    assert_eq!((told.key.as_deref(), told.outcome), (Some("policy:all#v2"), Outcome::Done));
    for refused in [
        service.policy_put(&other, &name, "permit(principal, action, resource);").map(drop),
        service.policy_delete(&other, &name).map(drop),
        service.policy_show(&other, &name).map(drop),
        service.policy_list(&other).map(drop),
        service.policy_check(&other, None, None).map(drop),
    ] {
        assert_eq!(refused.unwrap_err().code(), Code::Denied);
    }
    assert_eq!(service.policy_show(&admin, &name).unwrap().version, 2);
    assert_eq!(service.policy_show(&admin, &label("none")).unwrap_err().code(), Code::NotFound);
    assert_eq!(service.policy_list(&admin).unwrap().len(), 1);
}

/// The use has begun, and waits; meanwhile its policy goes.
#[test]
fn a_result_is_withheld_if_its_policy_is_withdrawn_meanwhile() {
    let service = service();
    let (admin, ci) = (somebody(&service, "admin"), somebody(&service, "ci"));
    let (set, a) = (label("ci"), label("a"));
    let call = Call::new(&admin, "r-1");
    let all = "permit(principal == Token::\"admin\", action, resource);";
    service.policy_put(&call, &label("admin"), all).unwrap();
    service
        .policy_put(&call, &set, "permit(principal == Token::\"ci\", action, resource);")
        .unwrap();
    // SLH-DSA takes long enough for a change to come between.
    service.create(&call, &new("a", "k", "slh-dsa-sha2-128s")).unwrap();
    let (name, service) = (label("k"), &service);
    let withdrawn = std::thread::scope(|scope| {
        let (started, starts) = mpsc::channel();
        let (ci, a, name) = (&ci, &a, &name);
        let signing = scope.spawn(move || {
            let call = Call::new(ci, "r-2");
            let key = KeyRef { tenant: a, name };
            loop {
                let _ = started.send(());
                match service.sign(&call, &key, None, text(b"m")) {
                    Ok(_) => {}
                    Err(error) => return error,
                }
            }
        });
        starts.recv_timeout(Duration::from_secs(60)).unwrap();
        service.policy_delete(&call, &set).unwrap();
        signing.join().unwrap()
    });
    assert!(matches!(withdrawn, Error::NoKey(_)), "{withdrawn}");
    let records = service.log().tail(0, usize::MAX).unwrap();
    let after = records
        .iter()
        .rposition(|entry| entry.record.key.as_deref() == Some("policy:ci#v2"))
        .unwrap();
    // A use that was recorded before the policy was removed is followed by a withheld record, or
    // was answered.
    let late = records[after..].iter().filter(|entry| entry.record.principal.as_str() == "ci");
    let outcomes: Vec<Outcome> = late.map(|entry| entry.record.outcome).collect();
    assert!(
        outcomes == [Outcome::Done, Outcome::Withheld]
            || outcomes == [Outcome::Withheld]
            || outcomes == [Outcome::Failed(Code::Denied)],
        "{outcomes:?}"
    );
}

#[test]
fn items_of_a_batch_are_decided_each_by_itself() {
    let service = service();
    let (admin, ci) = (somebody(&service, "admin"), somebody(&service, "ci"));
    let a = label("a");
    let call = Call::new(&admin, "r-1");
    service
        .policy_put(
            &call,
            &label("x"),
            "permit(principal == Token::\"admin\", action, resource);\n\
             permit(principal == Token::\"ci\", action == Action::\"sign\", resource) when { resource.algorithm == \"ed25519\" };",
        )
        .unwrap();
    for (name, algorithm) in [("k0", "ed25519"), ("k1", "ml-dsa-44"), ("k2", "ed25519")] {
        service.create(&call, &new("a", name, algorithm)).unwrap();
    }
    let names = ["k0", "k1", "k2", "k3"].map(label);
    let items: Vec<SignItem<'_>> = names
        .iter()
        .map(|name| SignItem {
            key: KeyRef { tenant: &a, name },
            version: None,
            signable: text(b"m").into(),
        })
        .collect();
    let call = Call::new(&ci, "r-2");
    let answers = service.sign_batch(&call, &items);
    let codes: Vec<Option<Code>> =
        answers.iter().map(|answer| answer.as_ref().err().map(Error::code)).collect();
    assert_eq!(codes, [None, Some(Code::NotFound), None, Some(Code::NotFound)]);
}
