//! Coalesces concurrent requests for one operation and algorithm into one engine batch.
//!
//! ```text
//!   connection --read--> alone: answered at once, by the thread that read it
//!   connection --read--+
//!   connection --read--+--> a queue for one operation and algorithm --> yields once to reads --> at most eight of them
//!   connection --read--+                                                in one call of the service --> each its answer
//! ```
//!
//! No request waits for others to arrive: everything readable is read, and then the queue runs. The
//! answers are the same as without coalescing ([`Service::sign_coalesced`]). If more than eight
//! requests wait, tenants take turns.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gabion_engine::Algorithm;
use gabion_kms::gate::Action;
use gabion_kms::model::{KeyAlgorithm, Label};
use gabion_kms::service::{Service, SignItem, VerifyItem};
use tokio::sync::oneshot;
use tokio::task::yield_now;

use crate::api::Reply;
use crate::api::single::{Operation, Outcome, ParsedCall};
use crate::net::options::Coalesce;
use crate::problem::Problem;

/// The maximum number of requests of a call: the number of lanes that the engine has for these
/// algorithms, and less than two milliseconds of work.
const LANES: usize = 8;

type Answer = Result<Reply, Problem>;

/// Coalesces concurrent requests for one operation and algorithm into one call of the service.
pub struct Coalescer {
    coalesce: Coalesce,
    queues: Mutex<HashMap<BatchKey, Vec<WaitingRequest>>>,
}

/// The properties that requests of one batch have in common.
#[derive(Clone, PartialEq, Eq, Hash)]
struct BatchKey {
    action: Action,
    /// The algorithm's name.
    algorithm: &'static str,
    tenant: Option<Label>,
    /// The address of the service, which each waiting request keeps alive.
    service: usize,
}

/// A request that waits for its batch.
struct WaitingRequest {
    parsed: ParsedCall,
    answer: oneshot::Sender<Answer>,
}

impl Coalescer {
    pub fn new(coalesce: Coalesce) -> Arc<Self> {
        Arc::new(Coalescer { coalesce, queues: Mutex::default() })
    }

    /// Adds a request to its batch. Returns the parsed request if it has to run alone: its
    /// algorithm does not gain from batches, its key is not in the cache, or the service has no
    /// free slot.
    pub fn submit(
        self: &Arc<Self>,
        parsed: ParsedCall,
    ) -> Result<oneshot::Receiver<Answer>, Box<ParsedCall>> {
        let Some(key) = self.batch_key(&parsed) else { return Err(Box::new(parsed)) };
        let (answer, answered) = oneshot::channel();
        let mut queues = self.queues();
        let waiting = queues.entry(key.clone()).or_default();
        waiting.push(WaitingRequest { parsed, answer });
        let is_first = waiting.len() == 1;
        drop(queues);
        if is_first {
            self.start(key);
        }
        Ok(answered)
    }

    fn batch_key(&self, ParsedCall { call, single }: &ParsedCall) -> Option<BatchKey> {
        let tenant = match self.coalesce {
            Coalesce::Off => return None,
            Coalesce::Any => None,
            Coalesce::Tenant => Some(single.selector.tenant.clone()),
        };
        let (service, _) = call.caller.as_ref()?;
        let key = service.kms().known(&single.selector.tenant, &single.selector.name)?;
        let action = single.operation.action();
        let algorithm = lanes(key.algorithm).filter(|_| service.has_capacity(action))?;
        Some(BatchKey { action, algorithm, tenant, service: Arc::as_ptr(service) as usize })
    }

    /// Runs a queue soon, independently of the connections of its requests.
    fn start(self: &Arc<Self>, key: BatchKey) {
        let coalescer = self.clone();
        tokio::spawn(async move {
            // Let other connections be read first.
            yield_now().await;
            let (batch, are_more) = coalescer.take(&key);
            if are_more {
                // Another thread may have time for the rest.
                coalescer.start(key);
            }
            // After a panic, the waiting requests get an error because their channels are closed.
            let _ = catch_unwind(AssertUnwindSafe(|| run(batch)));
        });
    }

    /// Takes the requests that run next out of a queue. Returns whether others are left.
    fn take(&self, key: &BatchKey) -> (Vec<WaitingRequest>, bool) {
        let mut queues = self.queues();
        let Some(waiting) = queues.get_mut(key) else { return (Vec::new(), false) };
        let batch = next(waiting, |one| &one.parsed.single.selector.tenant);
        let are_more = !waiting.is_empty();
        if !are_more {
            queues.remove(key);
        }
        (batch, are_more)
    }

    fn queues(&self) -> MutexGuard<'_, HashMap<BatchKey, Vec<WaitingRequest>>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the name of an algorithm whose operations are faster in a batch.
fn lanes(algorithm: KeyAlgorithm) -> Option<&'static str> {
    let of_engine = algorithm.algorithm()?;
    let fills = matches!(
        of_engine,
        Algorithm::Ed25519 | Algorithm::MlDsa44 | Algorithm::MlDsa65 | Algorithm::MlDsa87
    );
    fills.then(|| of_engine.name())
}

/// Takes at most [`LANES`] requests: the first one of each tenant before the second one of any.
fn next<W, T: Eq>(waiting: &mut Vec<W>, tenant: impl Fn(&W) -> &T) -> Vec<W> {
    if waiting.len() <= LANES {
        return std::mem::take(waiting);
    }
    let before = |place: usize| {
        let own = tenant(&waiting[place]);
        waiting[..place].iter().filter(|other| tenant(other) == own).count()
    };
    let mut order: Vec<(usize, usize)> =
        (0..waiting.len()).map(|place| (before(place), place)).collect();
    order.sort_unstable();
    let taken: Vec<usize> = order[..LANES].iter().map(|(_, place)| *place).collect();
    let all = std::mem::take(waiting).into_iter().enumerate();
    let (batch, rest): (Vec<_>, Vec<_>) = all.partition(|(place, _)| taken.contains(place));
    waiting.extend(rest.into_iter().map(|(_, one)| one));
    batch.into_iter().map(|(_, one)| one).collect()
}

/// Runs the requests of one queue.
fn run(batch: Vec<WaitingRequest>) {
    let (all, mut answers): (Vec<ParsedCall>, Vec<_>) =
        batch.into_iter().map(|one| (one.parsed, Some(one.answer))).unzip();
    let Some(service) = all.first().and_then(|first| first.call.caller.as_ref()) else { return };
    let service: &Service = &service.0;
    let mut respond = |place: usize, outcome: Result<Outcome, gabion_kms::Error>| {
        let reply = all[place].answer(outcome);
        if let Some(answer) = answers.get_mut(place).and_then(Option::take) {
            // The client may have disconnected.
            let _ = answer.send(reply);
        }
    };
    // The items of each operation, and their indexes in the batch.
    let (mut sign, mut sign_places) = (Vec::new(), Vec::new());
    let (mut verify, mut verify_places) = (Vec::new(), Vec::new());
    for (place, ParsedCall { call, single }) in all.iter().enumerate() {
        let Ok((_, caller)) = call.caller() else { continue };
        let (key, signable) = (single.selector.key(), single.input.signable());
        match single.operation {
            Operation::Sign { version } => {
                sign.push((caller, SignItem { key, version, signable }));
                sign_places.push(place);
            }
            Operation::Verify { version, ref signature } => {
                verify.push((caller, VerifyItem { key, version, signable, signature }));
                verify_places.push(place);
            }
        }
    }
    service.sign_coalesced(&sign, |index, signed| {
        respond(sign_places[index], signed.map(Outcome::Signed));
    });
    service.verify_coalesced(&verify, |index, valid| {
        let version = verify[index].1.version;
        respond(verify_places[index], valid.map(|valid| Outcome::Verified { version, valid }));
    });
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;
    use std::sync::atomic::AtomicUsize;

    use gabion_kms::gate::{Caller, Peer};
    use gabion_kms::model::Label;
    use gabion_kms::operations::NewKey;
    use gabion_kms::service;

    use super::*;
    use crate::api::Call;
    use crate::api::signatures::single_sign;
    use crate::lifecycle::service_host::ServiceHost;
    use crate::lifecycle::state::State;
    use crate::net::options::Options;
    use crate::parse::query::Query;

    /// A service with a key in each of two tenants, and a caller that requests signatures.
    struct World {
        state: Arc<State>,
        coalescer: Arc<Coalescer>,
        service: Arc<Service>,
        who: Caller,
    }

    impl World {
        fn new(coalesce: Coalesce) -> Self {
            let (host, token) = ServiceHost::in_memory().unwrap();
            let service = host.seal.service().unwrap();
            let who = service.authenticate(&token, &Peer::default()).unwrap();
            let state = State::new(Arc::new(host), &Options::default(), "").unwrap();
            let state = Arc::new(state);
            for tenant in ["a", "b"] {
                let label = |text| Label::new("name", text).unwrap();
                let algorithm = "ed25519".parse().unwrap();
                let (tenant, purpose, name) = (label(tenant), label("transit"), label("k"));
                let new = NewKey { tenant, purpose, name, algorithm };
                service.create(&service::Call::new(&who, "r"), &new).unwrap();
                // Caches the key.
                service
                    .kms()
                    .describe(&service.kms().find(&new.tenant, &new.name).unwrap())
                    .unwrap();
            }
            World { state, coalescer: Coalescer::new(coalesce), service, who }
        }

        fn submit(&self, tenant: &str) -> Result<oneshot::Receiver<Answer>, Box<ParsedCall>> {
            let body = format!(r#"{{"key":"k","tenant":"{tenant}","message":"AAAA"}}"#);
            let call = Call {
                state: self.state.clone(),
                caller: Some((self.service.clone(), self.who.clone())),
                under: Arc::default(),
                find_routes: |_| None,
                _reserved: None,
                peer: Peer::default(),
                id: "r-1".to_owned(),
                trace: None,
                asked: OnceLock::new(),
                parts: Vec::new(),
                namespace: None,
                query: Query::default(),
                bytes: AtomicUsize::new(body.len()),
                body: body.into(),
                op: None,
            };
            let single = single_sign(&call).unwrap().unwrap();
            self.coalescer.submit(ParsedCall { call, single })
        }

        fn submitted(&self, tenant: &str) -> oneshot::Receiver<Answer> {
            self.submit(tenant).ok().unwrap()
        }

        /// Returns the number of coalesced requests and of their batches.
        fn counted(&self) -> (u64, u64) {
            let text = self.service.kms().metrics().text();
            let of = |name: &str| {
                let found = text.lines().find_map(|line| line.strip_prefix(name));
                found.map_or(0, |count| count.trim().parse().unwrap())
            };
            (of("kms_coalesced_len_sum"), of("kms_coalesced_len_count"))
        }
    }

    #[tokio::test]
    async fn ready_requests_run_in_one_batch() {
        let world = World::new(Coalesce::Any);
        let all: Vec<_> = ["a", "b", "a"].map(|tenant| world.submitted(tenant)).into();
        assert_eq!(world.counted(), (0, 0));
        for one in all {
            let reply = one.await.unwrap().unwrap_or_else(|problem| panic!("{}", problem.message));
            assert!(String::from_utf8(reply.body).unwrap().contains("\"signature\":\""));
        }
        assert_eq!(world.counted(), (3, 1));
        // The next request finds an empty queue.
        assert!(world.submitted("a").await.unwrap().is_ok());
        assert_eq!(world.counted(), (4, 2));
        assert!(world.coalescer.queues().is_empty());
    }

    #[tokio::test]
    async fn coalesce_setting_separates_tenants_or_disables() {
        let world = World::new(Coalesce::Tenant);
        let all: Vec<_> = ["a", "b", "a"].map(|tenant| world.submitted(tenant)).into();
        for one in all {
            assert!(one.await.unwrap().is_ok());
        }
        assert_eq!(world.counted(), (3, 2));
        let world = World::new(Coalesce::Off);
        assert!(world.submit("a").is_err());
    }

    /// Parsing takes a large part of the time of an Ed25519 signature.
    #[tokio::test]
    async fn a_request_that_is_returned_runs_without_its_body() {
        let world = World::new(Coalesce::Off);
        let mut parsed = world.submit("a").err().unwrap();
        parsed.call.body = hyper::body::Bytes::new();
        let reply = parsed.run().unwrap_or_else(|problem| panic!("{}", problem.message));
        assert!(String::from_utf8(reply.body).unwrap().contains("\"signature\":\""));
    }

    #[tokio::test]
    async fn a_line_that_is_longer_than_the_lanes_runs_in_parts() {
        let world = World::new(Coalesce::Any);
        let all: Vec<_> = (0..2 * LANES + 3).map(|_| world.submitted("a")).collect();
        for one in all {
            assert!(one.await.unwrap().is_ok());
        }
        assert_eq!(world.counted(), (2 * LANES as u64 + 3, 3));
    }

    #[tokio::test]
    async fn disconnected_client_does_not_affect_batch() {
        let world = World::new(Coalesce::Any);
        let first = world.submitted("a");
        let second = world.submitted("a");
        drop(first);
        assert!(second.await.unwrap().is_ok());
        // The metrics count it, too.
        assert_eq!(world.counted(), (2, 1));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn each_request_is_answered_once_across_threads() {
        let world = Arc::new(World::new(Coalesce::Any));
        let mut tasks = Vec::new();
        for task in 0..16 {
            let world = world.clone();
            tasks.push(tokio::spawn(async move {
                for round in 0..40 {
                    let answered = world.submit(["a", "b"][(task + round) % 2]);
                    match answered {
                        Ok(answered) => assert!(answered.await.unwrap().is_ok()),
                        // A request that arrives while all slots are taken runs alone.
                        Err(parsed) => assert!(parsed.run().is_ok()),
                    }
                }
            }));
        }
        for task in tasks {
            task.await.unwrap();
        }
        assert!(world.coalescer.queues().is_empty());
        let records = world.service.log().tail(0, usize::MAX).unwrap();
        let signed = records.iter().filter(|entry| entry.record.action == Action::Sign);
        assert_eq!(signed.count(), 16 * 40);
    }

    #[test]
    fn batch_takes_one_request_per_tenant_first() {
        let mut queue: Vec<(char, usize)> = (0..12).map(|place| ('a', place)).collect();
        queue.extend([('b', 0), ('b', 1), ('c', 0)]);
        let batch = next(&mut queue, |one| &one.0);
        // One of each tenant, then a second one of those that have two, and then the rest in the
        // order of arrival.
        assert_eq!(
            batch,
            [('a', 0), ('a', 1), ('a', 2), ('a', 3), ('a', 4), ('b', 0), ('b', 1), ('c', 0)]
        );
        assert_eq!(queue, (5..12).map(|place| ('a', place)).collect::<Vec<_>>());
        assert_eq!(next(&mut queue, |one| &one.0).len(), 7);
        assert!(queue.is_empty());
    }

    #[test]
    fn only_lane_filling_algorithms_are_coalesced() {
        let of = |name: &str| lanes(name.parse().unwrap()).is_some();
        assert!(of("ed25519") && of("ml-dsa-44") && of("ml-dsa-65") && of("ml-dsa-87"));
        assert!(!of("slh-dsa-sha2-128s") && !of("rsa-2048") && !of("ecdsa-p-256"));
        assert!(!of("hmac-sha-256") && !of("ml-kem-768"));
    }
}
