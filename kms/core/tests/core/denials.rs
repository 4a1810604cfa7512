//! Denials: they are charged to the credential, and equal ones in a row share a record.

use gabion_kms::audit::{Outcome, Record};
use gabion_kms::gate::{Caller, Peer, Principal};
use gabion_kms::model::Label;
use gabion_kms::operations::Kms;
use gabion_kms::service::{AuditAt, Call, KeyRef, Options, QuotaOptions, Service, SignItem};
use gabion_kms::{Code, Error, Message};

use crate::fixture::lax;

const MESSAGE: Message<'static> = Message::Pure { context: b"", message: b"m" };

fn service(us_per_second: u32) -> Service {
    let us_per_second = Some(us_per_second);
    let quota = QuotaOptions { us_per_second, burst_seconds: 1, ..QuotaOptions::default() };
    let options = Options { gate: lax(), quota, ..Options::default() };
    Service::open(Kms::in_memory().unwrap(), &AuditAt::Memory, options).unwrap()
}

/// Returns a caller with a token, and one with an attenuation of it.
fn two(service: &Service) -> [Caller; 2] {
    let token = service.first_token(&Principal::new("weak").unwrap()).unwrap();
    let token = token.attenuate("actions=random".parse().unwrap()).unwrap();
    let less = token.attenuate("batch_max=2000".parse().unwrap()).unwrap();
    [token, less].map(|of| service.authenticate(&of.to_string(), &Peer::default()).unwrap())
}

fn records(service: &Service, from: u64) -> Vec<Record> {
    let all = service.log().tail(from, usize::MAX).unwrap();
    all.into_iter().map(|entry| entry.record).collect()
}

/// For how many denials records stand.
fn denied(records: &[Record]) -> u64 {
    let is_denied = |record: &&Record| record.outcome == Outcome::Failed(Code::Denied);
    records.iter().filter(is_denied).map(|record| record.count.unwrap_or(1)).sum()
}

#[test]
fn equal_denials_are_one_record_before_later_records() {
    let service = service(u32::MAX);
    let [who, less] = two(&service);
    let (tenant, name) = (Label::new("t", "a").unwrap(), Label::new("k", "k").unwrap());
    let key = KeyRef { tenant: &tenant, name: &name };
    let before = service.log().size();
    for at in 0..1000 {
        // Tokens that were made of one another are one.
        let who = if at % 2 == 0 { &who } else { &less };
        let refused = service.sign(&Call::new(who, &format!("r-{at}")), &key, None, MESSAGE);
        assert_eq!(refused.unwrap_err().code(), Code::Denied);
    }
    assert_eq!(records(&service, before).len(), 1);
    service.random(&Call::new(&who, "r"), 1).unwrap();
    let told = records(&service, before);
    let counts: Vec<Option<u64>> = told.iter().map(|record| record.count).collect();
    assert_eq!(counts, [None, Some(999), None]);
    assert_eq!((&*told[1].request_id, told[1].key.as_deref()), ("r-999", Some("k")));
    assert!(told[0].input.is_some() && told[1].input.is_none());
    // The log is verified as it is.
    service.checkpoint().unwrap();
    assert!(service.log().prove(before + 1).unwrap().check(&service.log().vkeys()).unwrap());
    // When the seal is closed nothing is left untold.
    for _ in 0..10 {
        assert!(service.sign(&Call::new(&who, "r"), &key, None, MESSAGE).is_err());
    }
    service.generation().close();
    service.checkpoint().unwrap();
    assert_eq!(denied(&records(&service, before)), 1010);
}

/// Varying the denied requests does not fill the log either.
#[test]
fn different_denials_and_items_of_batches_do_not_fill_the_log() {
    let service = service(u32::MAX);
    let [_, who] = two(&service);
    let (call, tenant) = (Call::new(&who, "r"), Label::new("t", "a").unwrap());
    let names: Vec<Label> =
        (0..1024).map(|at| Label::new("k", &format!("k{at}")).unwrap()).collect();
    let items: Vec<SignItem<'_>> = names
        .iter()
        .map(|name| SignItem {
            key: KeyRef { tenant: &tenant, name },
            version: None,
            signable: MESSAGE.into(),
        })
        .collect();
    let before = service.log().size();
    for _ in 0..3 {
        let signed = service.sign_batch(&call, &items);
        assert!(signed.iter().all(|one| matches!(one, Err(Error::Denied(_)))));
        for item in &items {
            assert!(service.sign(&call, &item.key, None, MESSAGE).is_err());
        }
    }
    assert!(service.log().size() - before < 40, "{}", service.log().size() - before);
    service.append_denials(true).unwrap();
    assert_eq!(denied(&records(&service, before)), 6 * 1024);
}

#[test]
fn refusals_are_charged_to_their_credential_only() {
    let service = service(1000);
    let [who, less] = two(&service);
    let mut charged = 0;
    while service.check_refusals(&who).is_ok() {
        service.charge_refusal(&who, 1, 0);
        charged += 1;
        assert!(charged < 100);
    }
    assert!(charged >= 20, "{charged}");
    assert_eq!(service.check_refusals(&who).unwrap_err().code(), Code::QuotaExceeded);
    // Neither the token that was made of it, nor the process.
    assert!(service.check_refusals(&less).is_ok());
    let local = service.gate().local(Principal::new("here").unwrap());
    service.charge_refusal(&local, 1000, 0);
    assert!(service.check_refusals(&local).is_ok());
    // A body costs, too, and each item.
    service.charge_refusal(&less, 1024, 1 << 20);
    assert!(service.check_refusals(&less).is_err());
}

/// Revoking one's own token needs no permission. A caller without a token cannot use that to write
/// two durable records each time.
#[test]
fn revoking_ones_own_missing_token_is_logged_once() {
    let service = service(u32::MAX);
    let who = service.of_certificate(Principal::new("cert").unwrap(), &Peer::default());
    let before = service.log().size();
    for _ in 0..100 {
        assert!(service.token_revoke_self(&Call::new(&who, "r")).is_err());
    }
    assert_eq!(service.log().size() - before, 1);
}
