//! Stores whose seal a passphrase opens, and the services over them.

use std::sync::Arc;

use gabion_kms::Error;
use gabion_kms::clock::Clock;
use gabion_kms::gate::{self, Caller, Peer, Principal};
use gabion_kms::operations::{self, Kms};
use gabion_kms::seal::{self, Cost, Sealer, Shares, Slots, UnsealMethod};
use gabion_kms::service::{AuditAt, Options, Service};
use gabion_kms::store::{MemoryStore, Store};

/// The passphrase of every seal in these tests.
pub const PASSPHRASE: &str = "secret";

/// Unseals a store, or seals a new one first.
pub fn sealer(store: &dyn Store) -> Sealer {
    if seal::is_initialised(store).unwrap() {
        return seal::unseal(store, UnsealMethod::Passphrase(PASSPHRASE)).unwrap();
    }
    let cost = Cost { memory_kib: 8, passes: 1 };
    let recovery = Shares { shares: 1, threshold: 1 };
    let slots = Slots { recovery, passphrase: Some((PASSPHRASE, cost)) };
    let dealt = seal::init(store, &slots).unwrap();
    dealt.adopt(store, dealt.shares()).unwrap()
}

/// A store with a seal.
pub fn sealed() -> Arc<MemoryStore> {
    let store = Arc::new(MemoryStore::new());
    sealer(&*store);
    store
}

/// The keys of a store.
pub fn kms(store: Arc<dyn Store>) -> Kms {
    let sealer = sealer(&*store);
    Kms::new(store, sealer, operations::Options::default()).unwrap()
}

/// A gate that lets tokens administrate by themselves.
pub fn lax() -> gate::Options {
    gate::Options { needs_certificate_for_administration: false, ..gate::Options::default() }
}

/// The service over a store with a seal, by a clock.
pub fn service(
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    at: &AuditAt<'_>,
) -> Result<Service, Error> {
    let sealer = seal::unseal(&*store, UnsealMethod::Passphrase(PASSPHRASE))?;
    let kms = Kms::new(store, sealer, operations::Options::default())?.with_clock(clock);
    Service::open(kms, at, Options { gate: lax(), ..Options::default() })
}

/// The process itself: one credential, whichever process asks.
pub fn local(service: &Service) -> Caller {
    service.gate().local(Principal::new("me").unwrap())
}

/// Returns the caller with a service's first token.
pub fn who(service: &Service) -> Caller {
    let token = service.first_token(&Principal::new("me").unwrap()).unwrap().to_string();
    service.authenticate(&token, &Peer::default()).unwrap()
}
