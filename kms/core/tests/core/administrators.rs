//! How long tokens live, and when the last one ends by which others are made.

use gabion_kms::gate::{Caller, Caveat, Peer, Principal, Token};
use gabion_kms::service::{Call, NewToken, Service};
use gabion_kms::{Code, Error};

use crate::clocks::{House, NOW};
use crate::fixture::local;
use crate::verbs::label;

const DAY: u64 = 24 * 60 * 60 * 1000;

fn who(service: &Service, token: &Token) -> Caller {
    service.authenticate(&token.to_string(), &Peer::default()).unwrap()
}

fn made(
    service: &Service,
    by: &Caller,
    caveats: &[&str],
    lifetime_ms: Option<u64>,
) -> Result<Token, Error> {
    let caveats = caveats.iter().map(|caveat| caveat.parse::<Caveat>().unwrap()).collect();
    let principal = Principal::new("ci").unwrap();
    service.token_create(&Call::new(by, "r"), &NewToken { principal, caveats, lifetime_ms })
}

/// U2 of 2026-11: a token of 30 days ended with the one of a day that made it, and nothing said so.
#[test]
fn a_lifetime_that_can_not_be_is_refused() {
    let house = House::new();
    let service = house.open();
    let first = service.first_token(&Principal::new("me").unwrap()).unwrap();
    assert_eq!(first.expires_ms(), Some(NOW + 90 * DAY));
    let short = made(&service, &local(&service), &[], Some(DAY)).unwrap();
    let limited = first.attenuate(Caveat::Expires(NOW + DAY)).unwrap();
    for maker in [&short, &limited] {
        let maker = who(&service, maker);
        for lifetime_ms in [DAY + 1, 30 * DAY, 365 * DAY] {
            let refused = made(&service, &maker, &[], Some(lifetime_ms)).unwrap_err();
            assert_eq!(refused.code(), Code::BadRequest);
            assert!(refused.to_string().contains("ends it at 20"), "{refused}");
        }
        assert_eq!(made(&service, &maker, &[], Some(DAY)).unwrap().expires_ms(), Some(NOW + DAY));
        // Where nothing is said it ends with its maker at the latest.
        house.clock.goes_on(DAY / 2);
        assert_eq!(made(&service, &maker, &[], None).unwrap().expires_ms(), Some(NOW + DAY));
        house.clock.jumps_to(NOW);
    }
    // A caveat of one's own ends it, too, and a month is a month of what lives longer, and of the
    // process.
    let month = Some(30 * DAY);
    let own = format!("expires={}", NOW + 29 * DAY);
    assert!(made(&service, &who(&service, &first), &[&own], month).is_err());
    // A token that never lives is refused.
    for past in ["expires=0".to_owned(), format!("expires={NOW}")] {
        let refused = made(&service, &local(&service), &[&past], None).unwrap_err();
        assert!(refused.to_string().contains("would have expired"), "{refused}");
    }
    for maker in [who(&service, &first), local(&service)] {
        let token = made(&service, &maker, &[], month).unwrap();
        assert_eq!(token.expires_ms(), Some(NOW + 30 * DAY));
    }
    for never in [0, 366 * DAY] {
        let me = Principal::new("me").unwrap();
        assert!(service.administrator_token(&me, None, Some(never)).is_err());
        assert!(service.recover(&me, None, Some(never)).is_err());
    }
    // A recovery that was refused ended no token.
    assert!(service.authenticate(&first.to_string(), &Peer::default()).is_ok());
    let recovered = service.recover(&Principal::new("me").unwrap(), None, month).unwrap();
    assert_eq!(recovered.expires_ms(), Some(NOW + 30 * DAY));
}

#[test]
fn the_end_of_the_last_administrator_is_known_and_warned_of() {
    let house = House::new();
    let service = house.open();
    assert_eq!(service.administrators_end(), None, "nobody is known");
    let first = service.first_token(&Principal::new("me").unwrap()).unwrap();
    let end_ms = |service: &Service| service.administrators_end().map(|end| end.end_ms);
    let admin = who(&service, &first);
    // Those that may not make tokens, or not every one, are no administrators.
    for caveat in ["actions=sign", "tenant=default", "key_prefix=web"] {
        made(&service, &local(&service), &[caveat], Some(300 * DAY)).unwrap();
    }
    assert_eq!(end_ms(&service), Some(NOW + 90 * DAY));
    assert!(service.load_text().contains("kms_administrator_not_after_seconds 1797776000\n"));
    let other = made(&service, &local(&service), &[], Some(91 * DAY)).unwrap();
    assert_eq!(end_ms(&service), Some(NOW + 91 * DAY));
    // It is known after a restart, and not before its time.
    drop(service);
    let service = house.open();
    let call = Call::new(&admin, "r");
    let end = service.administrators_end().unwrap();
    assert_eq!((end.end_ms, end.is_soon, end.is_over), (NOW + 91 * DAY, false, false));
    service.token_revoke(&call, other.id()).unwrap();
    assert_eq!(end_ms(&service), Some(NOW + 90 * DAY));
    house.clock.jumps_to(NOW + 83 * DAY);
    let end = service.administrators_end().unwrap();
    assert_eq!((end.end_ms, end.is_soon, end.is_over), (NOW + 90 * DAY, true, false));
    // A policy that lets certificates make tokens, and one that takes that from tokens.
    let put = |text: &str| service.policy_put(&call, &label("all"), text).unwrap();
    let all = "permit(principal is Token, action, resource);";
    let admins =
        "permit(principal == Certificate::\"admin\", action == Action::\"token\", resource);";
    put(&format!("{all} {admins}"));
    assert_eq!(service.administrators_end(), None);
    // Tokens made with a certificate do not inherit an expiry.
    let peer = Peer { certificate: Some([1; 32]), ..Peer::default() };
    let certificate = service.of_certificate(Principal::new("admin").unwrap(), &peer);
    let long = made(&service, &certificate, &["actions=sign"], Some(300 * DAY)).unwrap();
    assert_eq!(long.expires_ms(), Some(NOW + 383 * DAY));
    put(&format!("{all} {admins} forbid(principal is Certificate, action, resource);"));
    assert_eq!(end_ms(&service), Some(NOW + 90 * DAY));
    put("permit(principal == Token::\"me\", action, resource);");
    assert_eq!(end_ms(&service), Some(NOW + 90 * DAY));
    put("permit(principal is Token, action, resource) unless { principal == Token::\"x\" };");
    assert_eq!(end_ms(&service), Some(NOW + 90 * DAY));
    put(&format!("{all} forbid(principal == Token::\"x\", action, resource);"));
    put("permit(principal is Token, action == Action::\"policy\", resource);");
    assert_eq!(end_ms(&service), Some(0), "no token may make tokens");
    put(all);
    house.clock.jumps_to(NOW + 90 * DAY);
    let end = service.administrators_end().unwrap();
    assert_eq!((end.end_ms, end.is_over), (NOW + 90 * DAY, true));
    // By the recovery set there is another one, and the older ones count no more.
    let last = service.recover(&Principal::new("me").unwrap(), None, Some(10 * DAY)).unwrap();
    assert_eq!(end_ms(&service), Some(NOW + 100 * DAY));
    // One that revokes itself counts no more, unlike one whose attenuation does.
    let attenuated = last.attenuate("batch_max=1".parse().unwrap()).unwrap();
    for (token, end) in [(&attenuated, NOW + 100 * DAY), (&last, 0)] {
        service.token_revoke_self(&Call::new(&who(&service, token), "r")).unwrap();
        assert_eq!(end_ms(&service), Some(end));
    }
    drop(service);
    assert_eq!(end_ms(&house.open()), Some(0));
}

/// A store of a program that noted no administrators: one is known once it was used.
#[test]
fn an_administrator_of_before_is_known_by_its_use() {
    let house = House::new();
    let service = house.open();
    let before = service.gate().mint(&Principal::new("old").unwrap(), &[], Some(DAY), NOW).unwrap();
    assert_eq!(service.administrators_end(), None);
    let who = who(&service, &before);
    made(&service, &who, &["actions=sign"], None).unwrap();
    assert_eq!(service.administrators_end().unwrap().end_ms, NOW + DAY);
}

/// More than there is room for: those that end last are known.
#[test]
fn administrators_expiring_last_are_tracked() {
    let house = House::new();
    let service = house.open();
    let make = |days: u64| made(&service, &local(&service), &[], Some(days * DAY)).unwrap();
    let last = make(200);
    let next = make(199);
    (1..100).for_each(|days| drop(make(days)));
    let end_ms = || service.administrators_end().unwrap().end_ms;
    for (token, ends) in [(&last, 200), (&next, 199)] {
        assert_eq!(end_ms(), NOW + ends * DAY);
        service.token_revoke(&Call::new(&local(&service), "r"), token.id()).unwrap();
    }
    assert_eq!(end_ms(), NOW + 99 * DAY);
}

/// A policy that permitted everything to another principal also denied everything to the
/// administrator of a recovery.
#[test]
fn policies_do_not_apply_to_the_token_of_a_recovery() {
    let house = House::new();
    let service = house.open();
    let ops = Principal::new("ops").unwrap();
    let maker = service.first_token(&ops).unwrap();
    let hostile = "permit(principal == Token::\"ops\", action, resource);\n\
         permit(principal == Certificate::\"spiffe://x/m\", action == Action::\"token\", resource is Service) when { context.items < 9 };\n\
         permit(principal is Certificate, action in [Action::\"policy\", Action::\"sign\"], resource);\n\
         permit(principal, action == Action::\"sign\", resource);\n\
         permit(principal == Token::\"dev\", action, resource in Tenant::\"default\");\n\
         forbid(principal == Token::\"first\", action, resource);";
    let maker = who(&service, &maker);
    service.policy_put(&Call::new(&maker, "r"), &label("hostile"), hostile).unwrap();
    let first = Principal::new("first").unwrap();
    let plain = service.administrator_token(&first, None, None).unwrap();
    let may = |service: &Service, token: &Token| {
        let who = who(service, token);
        let call = Call::new(&who, "r");
        service.policy_list(&call).map(drop).map_err(|error| error.code())
    };
    assert_eq!(may(&service, &plain), Err(Code::Denied));
    let recovered = service.recover(&first, None, Some(DAY)).unwrap();
    let permits = service.gate().administration_permits();
    let told: Vec<String> = permits
        .iter()
        .map(|it| format!("{} {} {:?} {}", it.policy, it.principal, it.actions, it.has_conditions))
        .collect();
    assert_eq!(
        told,
        [
            "hostile#0 Token::\"ops\" [Token, Policy] false",
            "hostile#1 Certificate::\"spiffe://x/m\" [Token] true",
            "hostile#2 is Certificate [Policy] false",
        ]
    );
    assert_eq!(may(&service, &recovered), Ok(()));
    let end_ms = |service: &Service| service.administrators_end().map(|end| end.end_ms);
    // A token that it makes is subject to policies, and so is another one of its principal.
    let child = made(&service, &who(&service, &recovered), &[], None).unwrap();
    let other = service.administrator_token(&first, None, None).unwrap();
    assert_eq!(may(&service, &child), Err(Code::Denied));
    assert_eq!(may(&service, &other), Err(Code::Denied));
    // Its attenuations keep their limits, and it keeps its own.
    let limited = recovered.attenuate("actions=sign".parse().unwrap()).unwrap();
    assert_eq!(may(&service, &limited), Err(Code::Denied));
    drop(service);
    let service = house.open();
    assert_eq!(may(&service, &recovered), Ok(()), "after a restart");
    // It repairs the policies one set after the other.
    let admin = who(&service, &recovered);
    let call = Call::new(&admin, "r");
    let certificates = "permit(principal is Certificate, action, resource);";
    service.policy_put(&call, &label("other"), certificates).unwrap();
    service.policy_delete(&call, &label("hostile")).unwrap();
    assert_eq!(may(&service, &recovered), Ok(()));
    service
        .policy_put(&call, &label("other"), "permit(principal == Token::\"x\", action, resource);")
        .unwrap();
    assert_eq!(end_ms(&service), Some(NOW + DAY), "it counts as an administrator");
    // The next recovery takes its place, and a revocation ends that one.
    let next = service.recover(&first, None, None).unwrap();
    assert!(service.authenticate(&recovered.to_string(), &Peer::default()).is_err());
    assert_eq!(may(&service, &next), Ok(()));
    let next_who = who(&service, &next);
    service.token_revoke(&Call::new(&next_who, "r"), next.id()).unwrap();
    assert_eq!(service.policy_list(&Call::new(&next_who, "r")).unwrap_err().code(), Code::Denied);
}
