//! Tokens and their permissions.

use std::net::IpAddr;
use std::sync::Arc;

use gabion_kms::gate::{Action, Caller, Caveat, Gate, Options, Peer, Principal, Request, Token};
use gabion_kms::model::Label;
use gabion_kms::operations::Kms;
use gabion_kms::store::MemoryStore;
use gabion_kms::{AuthenticationError, DenialReason};

use crate::fixture;

const NOW: u64 = 1_790_000_000_000;

fn kms() -> Kms {
    Kms::in_memory().unwrap()
}

fn gate(kms: &Kms) -> Gate {
    Gate::open(kms, Options::default(), NOW).unwrap()
}

fn caveats(texts: &[&str]) -> Vec<Caveat> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn token(gate: &Gate, texts: &[&str]) -> Token {
    gate.mint(&Principal::new("ci").unwrap(), &caveats(texts), None, NOW).unwrap()
}

fn who(gate: &Gate, token: &Token) -> Caller {
    gate.authenticate(&token.to_string(), &Peer::default(), NOW).unwrap()
}

fn label(text: &str) -> Label {
    Label::new("tenant", text).unwrap()
}

fn request<'a>(action: Action, tenant: &'a Label, key: &'a str) -> Request<'a> {
    Request { action, tenant: Some(tenant), key: Some(key), items: 1, makes: None }
}

#[test]
fn caveats_restrict_requests() {
    let (kms, a, b) = (kms(), label("a"), label("b"));
    let gate = gate(&kms);
    let ask = |texts: &[&str], request: &Request<'_>| {
        gate.allow(&kms, &who(&gate, &token(&gate, texts)), request, NOW)
    };
    let sign = request(Action::Sign, &a, "web-1");
    assert_eq!(ask(&[], &sign), Ok(()));
    assert_eq!(ask(&["tenant=a"], &sign), Ok(()));
    assert_eq!(ask(&["tenant=a"], &request(Action::Sign, &b, "web-1")), Err(DenialReason::Tenant));
    assert_eq!(ask(&["tenant=a"], &Request { tenant: None, ..sign }), Err(DenialReason::Tenant));
    assert_eq!(ask(&["key_prefix=web-"], &sign), Ok(()));
    assert_eq!(
        ask(&["key_prefix=web-"], &request(Action::List, &a, "web")),
        Err(DenialReason::Key)
    );
    assert_eq!(ask(&["key_prefix=web-"], &Request { key: None, ..sign }), Err(DenialReason::Key));
    assert_eq!(ask(&["actions=verify,sign"], &sign), Ok(()));
    assert_eq!(ask(&["actions=verify"], &sign), Err(DenialReason::Action("sign")));
    assert_eq!(ask(&["batch_max=1"], &sign), Ok(()));
    assert_eq!(ask(&["batch_max=2"], &Request { items: 3, ..sign }), Err(DenialReason::Batch(2)));
    // Each of several has to let it pass.
    assert_eq!(ask(&["actions=sign", "actions=verify"], &sign), Err(DenialReason::Action("sign")));
}

#[test]
fn a_token_ends() {
    let kms = kms();
    let gate = gate(&kms);
    let token = token(&gate, &[]);
    let at = |now| gate.authenticate(&token.to_string(), &Peer::default(), now);
    let end = token.expires_ms().unwrap();
    assert_eq!(end, NOW + 24 * 60 * 60 * 1000);
    let known = at(end - 1).unwrap();
    assert_eq!(at(end).err(), Some(AuthenticationError::Expired));
    // Also between the two questions.
    let tenant = label("a");
    let sign = request(Action::Sign, &tenant, "k");
    assert_eq!(gate.allow(&kms, &known, &sign, end - 1), Ok(()));
    assert_eq!(gate.allow(&kms, &known, &sign, end), Err(DenialReason::Expired));
    let for_ever = gate.mint(&Principal::new("ci").unwrap(), &[], Some(u64::MAX), NOW);
    assert!(for_ever.is_err());
}

#[test]
fn a_token_is_bound_to_an_address_and_to_a_certificate() {
    let kms = kms();
    let gate = gate(&kms);
    let digest = "0b".repeat(32);
    let token = token(&gate, &["cidr=10.0.0.0/8", &format!("cnf={digest}")]).to_string();
    let from = |address: Option<&str>, certificate: Option<u8>| {
        let peer = Peer {
            address: address.map(|text| text.parse::<IpAddr>().unwrap()),
            certificate: certificate.map(|byte| [byte; 32]),
        };
        gate.authenticate(&token, &peer, NOW).err()
    };
    assert_eq!(from(Some("10.1.2.3"), Some(11)), None);
    assert_eq!(from(Some("11.1.2.3"), Some(11)), Some(AuthenticationError::Address));
    assert_eq!(from(None, Some(11)), Some(AuthenticationError::Address));
    assert_eq!(from(Some("10.1.2.3"), Some(12)), Some(AuthenticationError::Certificate));
    assert_eq!(from(Some("10.1.2.3"), None), Some(AuthenticationError::Certificate));
}

#[test]
fn administration_needs_a_certificate() {
    let kms = kms();
    let strict = gate(&kms);
    let bearer = token(&strict, &[]);
    let bound = token(&strict, &[&format!("cnf={}", "0b".repeat(32))]).to_string();
    let peer = Peer { certificate: Some([11; 32]), ..Peer::default() };
    let bound = strict.authenticate(&bound, &peer, NOW).unwrap();
    let lax = Options { needs_certificate_for_administration: false, ..Options::default() };
    let lax = Gate::open(&kms, lax, NOW).unwrap();
    for &action in Action::ALL {
        let request = Request { action, tenant: None, key: None, items: 1, makes: None };
        let expected = match action.is_administration() {
            true => Err(DenialReason::NeedsCertificate),
            false => Ok(()),
        };
        assert_eq!(strict.allow(&kms, &who(&strict, &bearer), &request, NOW), expected, "{action}");
        assert_eq!(strict.allow(&kms, &bound, &request, NOW), Ok(()), "{action}");
        assert_eq!(lax.allow(&kms, &who(&lax, &bearer), &request, NOW), Ok(()), "{action}");
    }
}

#[test]
fn a_certificate_without_policies_allows_nothing() {
    let kms = kms();
    let gate = gate(&kms);
    let who = gate
        .of_certificate(Principal::new("spiffe://example.com/build").unwrap(), &Peer::default());
    let tenant = label("a");
    for &action in Action::ALL {
        let denied = gate.allow(&kms, &who, &request(action, &tenant, "k"), NOW);
        assert_eq!(denied, Err(DenialReason::NoPolicy));
    }
}

#[test]
fn a_revoked_id_revokes_what_was_made_of_it_also_after_a_restart() {
    let store = Arc::new(MemoryStore::with_id([5; 16]));
    let open = || fixture::kms(store.clone());
    let kms = open();
    let before = gate(&kms);
    let (token, other) = (token(&before, &[]), token(&before, &[]));
    let narrow = token.attenuate("actions=sign".parse().unwrap()).unwrap();
    let known = who(&before, &narrow);
    before.revoke(&kms, token.id(), NOW).unwrap();
    before.revoke(&kms, token.id(), NOW).unwrap();
    let tenant = label("a");
    let sign = request(Action::Sign, &tenant, "k");
    // Running operations are checked again, too.
    assert_eq!(before.allow(&kms, &known, &sign, NOW), Err(DenialReason::Revoked));
    drop((before, kms));
    let kms = open();
    let after = gate(&kms);
    for revoked in [&token, &narrow] {
        let refused = after.authenticate(&revoked.to_string(), &Peer::default(), NOW).err();
        assert_eq!(refused, Some(AuthenticationError::Revoked));
    }
    assert!(after.authenticate(&other.to_string(), &Peer::default(), NOW).is_ok());
}

#[test]
fn root_keys_are_rotated_and_retired() {
    let kms = kms();
    let gate = gate(&kms);
    let old = token(&gate, &[]);
    let first = gate.roots()[0];
    assert!(gate.retire(&kms, first).is_err(), "the only one stays");
    // The clock goes back, and the newest is the newest still.
    let second = gate.rotate(&kms, 0).unwrap();
    assert_eq!(gate.roots(), [second, first]);
    let new = token(&gate, &[]);
    let known = who(&gate, &old);
    let again = self::gate(&kms);
    assert_eq!(again.roots(), [second, first]);
    assert!(again.authenticate(&new.to_string(), &Peer::default(), NOW).is_ok());
    gate.retire(&kms, first).unwrap();
    let refused = gate.authenticate(&old.to_string(), &Peer::default(), NOW).err();
    assert_eq!(refused, Some(AuthenticationError::Invalid));
    let tenant = label("a");
    let denied = gate.allow(&kms, &known, &request(Action::Sign, &tenant, "k"), NOW);
    assert_eq!(denied, Err(DenialReason::Revoked));
    assert!(gate.authenticate(&new.to_string(), &Peer::default(), NOW).is_ok());
    assert_eq!(self::gate(&kms).roots(), [second]);
    // A token of another service.
    let other = self::kms();
    let refused = self::gate(&other).authenticate(&new.to_string(), &Peer::default(), NOW).err();
    assert_eq!(refused, Some(AuthenticationError::Invalid));
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
}

const SOME: [&str; 12] = [
    "expires=1790000000001",
    "expires=1790000000005",
    "tenant=a",
    "tenant=b",
    "key_prefix=w",
    "key_prefix=web-",
    "actions=sign,verify",
    "actions=sign",
    "actions=",
    "batch_max=2",
    "batch_max=0",
    "batch_max=9",
];

#[test]
fn a_caveat_more_never_allows_more() {
    let (kms, tenants) = (kms(), [label("a"), label("b")]);
    let gate = gate(&kms);
    let mut dice = Dice(28);
    let (mut allowed, mut denied) = (0, 0);
    for _ in 0..2000 {
        let mut token = token(&gate, &[]);
        let keys = [None, Some("w"), Some("web-1"), Some("x")];
        let request = Request {
            action: Action::ALL[13 + dice.below(3)],
            tenant: [None, Some(&tenants[0]), Some(&tenants[1])][dice.below(3)],
            key: keys[dice.below(4)],
            items: dice.below(4) as u32,
            makes: None,
        };
        let now = NOW + dice.below(6) as u64;
        let ask = |token: &Token| {
            let who = gate.authenticate(&token.to_string(), &Peer::default(), now);
            who.is_ok_and(|who| gate.allow(&kms, &who, &request, now).is_ok())
        };
        let mut was_allowed = ask(&token);
        for _ in 0..3 {
            token = token.attenuate(SOME[dice.below(SOME.len())].parse().unwrap()).unwrap();
            let is_allowed = ask(&token);
            assert!(was_allowed || !is_allowed, "{:?} {request:?}", token.caveats());
            was_allowed = is_allowed;
        }
        if was_allowed { allowed += 1 } else { denied += 1 }
    }
    assert!(allowed > 50 && denied > 50, "{allowed} {denied}");
}

/// The holder of an attenuation cannot revoke the token that it was made from.
#[test]
fn self_revocation_includes_attenuations_only() {
    let store = Arc::new(MemoryStore::new());
    let kms = fixture::kms(store.clone());
    let (gate, tenant) = (gate(&kms), label("a"));
    let whole = token(&gate, &[]);
    let less = whole.attenuate("actions=sign".parse().unwrap()).unwrap();
    let beside = whole.attenuate("actions=verify".parse().unwrap()).unwrap();
    let least = less.attenuate("tenant=a".parse().unwrap()).unwrap();
    let (using, of_whole) = (who(&gate, &least), who(&gate, &whole));
    let own = who(&gate, &less);
    assert_eq!(gate.revoke_own(&kms, &own).unwrap().0, whole.id());
    gate.revoke_own(&kms, &own).unwrap();
    let sign = request(Action::Sign, &tenant, "k");
    assert_eq!(
        gate.allow(&kms, &using, &sign, NOW),
        Err(DenialReason::Revoked),
        "also while it is used"
    );
    assert_eq!(gate.allow(&kms, &of_whole, &sign, NOW), Ok(()));
    drop((gate, kms));
    let kms = fixture::kms(store);
    let gate = Gate::open(&kms, Options::default(), NOW).unwrap();
    let ask = |token: &Token| gate.authenticate(&token.to_string(), &Peer::default(), NOW).err();
    assert_eq!(ask(&less), Some(AuthenticationError::Revoked));
    assert_eq!(ask(&least), Some(AuthenticationError::Revoked));
    assert_eq!((ask(&whole), ask(&beside)), (None, None));
    // None is refused, and no more than this branch goes: the token that all of them were made of,
    // in the end.
    let weak = beside.attenuate("tenant=a".parse().unwrap()).unwrap();
    let mut revoked = 0;
    while ask(&weak).is_none() {
        let caveats = (0..26).map(|at| Caveat::BatchMax(100_000 - 100 * at - revoked));
        let one = caveats.fold(weak.clone(), |token, caveat| token.attenuate(caveat).unwrap());
        gate.revoke_own(&kms, &who(&gate, &one)).unwrap();
        assert_eq!(ask(&one), Some(AuthenticationError::Revoked));
        revoked += 1;
    }
    assert!(revoked > 100, "{revoked}");
    assert_eq!((ask(&whole), ask(&beside)), (None, None));
    let sibling = beside.attenuate("tenant=b".parse().unwrap()).unwrap();
    for (of, alive) in [(&sibling, &beside), (&beside, &whole)] {
        gate.revoke_own(&kms, &who(&gate, of)).unwrap();
        assert_eq!((ask(of), ask(alive)), (Some(AuthenticationError::Revoked), None));
    }
    gate.revoke_own(&kms, &who(&gate, &whole)).unwrap();
    assert_eq!(ask(&whole), Some(AuthenticationError::Revoked));
    let nobody = gate.of_certificate(Principal::new("c").unwrap(), &Peer::default());
    assert!(gate.revoke_own(&kms, &nobody).is_err());
}
