//! Single requests that are run together: each is answered, and told of, as if it were alone.

use gabion_kms::audit::{Class, Outcome, Record};
use gabion_kms::gate::{Caller, Peer, Principal};
use gabion_kms::model::{Label, Minimum, State};
use gabion_kms::operations::{Kms, NewKey, SignOutput};
use gabion_kms::rsa::{Hash, Scheme};
use gabion_kms::service::{
    AuditAt, Call, KeyRef, Options, QuotaOptions, Service, SignItem, VerifyItem,
};
use gabion_kms::{Code, Error, Message, Prehash, Signable};

use crate::verbs::{label, pure};
use crate::versioned_verify::{POINTS, SCALARS, bytes};

const TENANTS: [&str; 2] = ["a", "b"];
const KEYS: [(&str, &str); 5] = [
    ("ed", "ed25519"),
    ("ed-old", "ed25519"),
    ("ml", "ml-dsa-44"),
    ("ecdsa", "ecdsa-p-256"),
    ("tags", "hmac-sha-256"),
];

/// A scheme that none of the keys has.
const PKCS1: Scheme = Scheme::Pkcs1 { hash: Hash::Sha512 };

/// Random numbers of a seed (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((word ^ word >> 31) % most as u64) as usize
    }
}

/// A service with keys in many states, and those who ask it.
struct World {
    service: Service,
    who: Vec<Caller>,
    tenants: Vec<Label>,
    names: Vec<Label>,
}

impl World {
    fn new(options: Options) -> Self {
        let service = Service::open(Kms::in_memory().unwrap(), &AuditAt::Memory, options).unwrap();
        let somebody = |caveats: &[&str]| {
            let mut token = service.first_token(&Principal::new("ci").unwrap()).unwrap();
            for caveat in caveats {
                token = token.attenuate(caveat.parse().unwrap()).unwrap();
            }
            service.authenticate(&token.to_string(), &Peer::default()).unwrap()
        };
        let local = service.gate().local(Principal::new("the-process").unwrap());
        let who = vec![
            somebody(&[]),
            somebody(&["key_prefix=ed", "batch_max=1"]),
            somebody(&["tenant=a"]),
            somebody(&["actions=verify"]),
            local,
        ];
        let tenants = TENANTS.map(label).to_vec();
        for tenant in &tenants {
            for (name, algorithm) in KEYS {
                let (purpose, name) = (label("transit"), label(name));
                let algorithm = algorithm.parse().unwrap();
                let new = NewKey { tenant: tenant.clone(), purpose, name, algorithm };
                service.create(&Call::new(&who[4], "setup"), &new).unwrap();
            }
            let old = service.kms().find(tenant, &label("ed-old")).unwrap();
            service.kms().rotate(&old).unwrap();
            service.kms().set_minimum(&old, Minimum::Sign, 1).unwrap();
            service.kms().set_state(&old, 1, State::Disabled).unwrap();
        }
        let mut names: Vec<Label> = KEYS.iter().map(|(name, _)| label(name)).collect();
        names.push(label("ed-nowhere"));
        World { service, who, tenants, names }
    }

    fn call<'a>(&'a self, random: &mut Random, id: &'a str) -> Call<'a> {
        Call::new(&self.who[random.below(self.who.len())], id)
    }

    fn key(&self, random: &mut Random) -> KeyRef<'_> {
        let tenant = &self.tenants[random.below(2)];
        KeyRef { tenant, name: &self.names[random.below(self.names.len())] }
    }

    /// Returns the records after an index by request, without times and random signatures.
    fn told(&self, from: u64) -> Vec<(String, Option<String>, String, Outcome)> {
        let entries = self.service.log().tail(from, usize::MAX).unwrap();
        let of = |record: Record| {
            let about = format!(
                "{} {} {:?} {:?}",
                record.principal.as_str(),
                record.method,
                record.action,
                record.input
            );
            (record.request_id, record.key, about, record.outcome)
        };
        // Consecutive denials are counted, independently of other callers' denials.
        let denied = Outcome::Failed(Code::Denied);
        let others = entries.into_iter().filter(|entry| entry.record.outcome != denied);
        let mut told: Vec<_> = others.map(|entry| of(entry.record)).collect();
        told.sort_by(|a, b| a.0.cmp(&b.0));
        told
    }

    fn sign_coalesced(&self, asked: &[(Call<'_>, SignItem<'_>)]) -> Vec<Result<SignOutput, Error>> {
        let mut answers: Vec<_> = asked.iter().map(|_| None).collect();
        self.service.sign_coalesced(asked, |place, answer| {
            assert!(answers[place].replace(answer).is_none(), "{place} was answered twice");
        });
        answers.into_iter().map(Option::unwrap).collect()
    }

    fn verify_coalesced(&self, asked: &[(Call<'_>, VerifyItem<'_>)]) -> Vec<Result<bool, Error>> {
        let mut answers: Vec<_> = asked.iter().map(|_| None).collect();
        self.service.verify_coalesced(asked, |place, answer| {
            assert!(answers[place].replace(answer).is_none(), "{place} was answered twice");
        });
        answers.into_iter().map(Option::unwrap).collect()
    }
}

#[test]
fn coalesced_requests_are_answered_and_logged_like_single_ones() {
    let world = World::new(Options::default());
    let digest = Prehash::Sha2_512.digest(b"text");
    let messages: [Signable<'_>; 8] = [
        pure(b"a").into(),
        pure(b"b").into(),
        Message::Pure { context: b"context", message: b"a" }.into(),
        Message::Pure { context: &[7; 256], message: b"a" }.into(),
        Message::Prehash { context: b"", hash: Prehash::Sha2_512, digest: &digest }.into(),
        Message::Prehash { context: b"", hash: Prehash::Sha2_512, digest: &digest[1..] }.into(),
        Message::Mu(&[9; 64]).into(),
        Signable::Digest { scheme: PKCS1, digest: &digest },
    ];
    let (mut random, mut good, mut codes) = (Random(7), 0, Vec::new());
    for round in 0..240 {
        let ids: Vec<String> = (0..12).map(|n| format!("{round:03}-{n:02}")).collect();
        let many = 1 + random.below(ids.len());
        let asked: Vec<(Call<'_>, SignItem<'_>)> = ids[..many]
            .iter()
            .map(|id| {
                let version = [None, None, Some(0), Some(1), Some(2), Some(9)][random.below(6)];
                let signable = messages[random.below(messages.len())];
                let key = world.key(&mut random);
                (world.call(&mut random, id), SignItem { key, version, signable })
            })
            .collect();
        let from = world.service.log().size();
        let together = world.sign_coalesced(&asked);
        let between = world.service.log().size();
        let alone: Vec<_> = asked
            .iter()
            .map(|(call, item)| world.service.sign(call, &item.key, item.version, item.signable))
            .collect();
        let told_alone = world.told(between);
        let told: Vec<_> = world.told(from).into_iter().collect();
        for ((together, alone), (_, item)) in together.iter().zip(&alone).zip(&asked) {
            match (together, alone) {
                (Ok(together), Ok(alone)) => {
                    assert_eq!(together.by, alone.by);
                    let verdict = world.service.kms().verify(
                        &together.by,
                        item.signable,
                        &together.signature,
                    );
                    assert_eq!(verdict, Ok(true));
                    good += 1;
                }
                (together, alone) => {
                    assert_eq!(together.as_ref().err(), alone.as_ref().err());
                    codes.extend(alone.as_ref().err().map(Error::code));
                }
            }
        }
        // Each of them has the same record twice: sorted by name, the two are adjacent.
        assert_eq!(told.len(), 2 * told_alone.len());
        for (two, one) in told.chunks_exact(2).zip(&told_alone) {
            assert_eq!((&two[0], &two[1]), (one, one));
        }
    }
    let had = |code: Code| codes.contains(&code);
    assert!(good > 60, "{good}");
    for code in [Code::NotFound, Code::Denied, Code::VersionDisabled, Code::Unsupported] {
        assert!(had(code), "{code:?} of {codes:?}");
    }
}

#[test]
fn verdicts_together_are_those_alone_on_adversarial_signatures() {
    let world = World::new(Options::default());
    let signed = |name: &str, tenant: &Label| {
        let id = world.service.kms().find(tenant, &label(name)).unwrap();
        world.service.kms().sign(&id, None, pure(b"x")).unwrap().signature
    };
    let mut signatures: Vec<Vec<u8>> = Vec::new();
    for (name, _) in &KEYS[..4] {
        let good = signed(name, &world.tenants[0]);
        for place in [0, good.len() / 2, good.len() - 1] {
            let mut bad = good.clone();
            bad[place] ^= 0x80;
            signatures.push(bad);
        }
        signatures.push(good[1..].to_vec());
        signatures.push([&good[..], &[0]].concat());
        signatures.push(vec![0xff; good.len()]);
        // Twice as often as each of the wrong ones.
        signatures.extend([good.clone(), good]);
    }
    for point in POINTS {
        signatures.extend(SCALARS.map(|scalar| [bytes(point), bytes(scalar)].concat()));
    }
    signatures.push(Vec::new());
    let (mut random, mut verdicts, mut failed) = (Random(11), [0, 0], 0);
    for round in 0..60 {
        let ids: Vec<String> = (0..24).map(|n| format!("{round:02}-{n:02}")).collect();
        let many = 1 + random.below(ids.len());
        let asked: Vec<(Call<'_>, VerifyItem<'_>)> = ids[..many]
            .iter()
            .map(|id| {
                // A key and what is its own, mostly.
                let at = random.below(signatures.len());
                let place = if at < 32 { at / 8 } else { 0 };
                let own = KeyRef { tenant: &world.tenants[0], name: &world.names[place] };
                let key = if random.below(4) == 0 { world.key(&mut random) } else { own };
                let version = [1, 1, 2, 2, 0, 9][random.below(6)];
                let signable = match random.below(8) {
                    0 => Signable::Digest { scheme: PKCS1, digest: &[7; 64] },
                    1 | 2 => pure(b"y").into(),
                    _ => pure(b"x").into(),
                };
                let signature = &signatures[at];
                (world.call(&mut random, id), VerifyItem { key, version, signable, signature })
            })
            .collect();
        let from = world.service.log().size();
        let together = world.verify_coalesced(&asked);
        let between = world.service.log().size();
        let verify = |(call, item): &(Call<'_>, VerifyItem<'_>)| {
            let VerifyItem { key, version, signable, signature } = item;
            world.service.verify(call, key, *version, *signable, signature)
        };
        let alone: Vec<_> = asked.iter().map(verify).collect();
        assert_eq!(together, alone);
        let (told, told_alone) = (world.told(from), world.told(between));
        assert_eq!(told.len(), 2 * told_alone.len());
        for (two, one) in told.chunks_exact(2).zip(&told_alone) {
            assert_eq!((&two[0], &two[1]), (one, one));
        }
        for answer in alone {
            match answer {
                Ok(verdict) => verdicts[usize::from(verdict)] += 1,
                Err(_) => failed += 1,
            }
        }
    }
    assert!(verdicts[0] > 60 && verdicts[1] > 10 && failed > 60, "{verdicts:?} {failed}");
}

#[test]
fn each_tenant_is_charged_for_its_own_and_the_first_refusal_is_logged() {
    let of_tenants = [(label("a"), 1)].into_iter().collect();
    let quota = QuotaOptions { of_tenants, burst_seconds: 1, ..QuotaOptions::default() };
    let world = World::new(Options { quota, ..Options::default() });
    let ids = ["r0", "r1", "r2", "r3"];
    let asked: Vec<(Call<'_>, SignItem<'_>)> = ids
        .iter()
        .zip([0, 1, 0, 1])
        .map(|(id, tenant)| {
            let key = KeyRef { tenant: &world.tenants[tenant], name: &world.names[0] };
            let item = SignItem { key, version: None, signable: pure(b"x").into() };
            (Call::new(&world.who[0], id), item)
        })
        .collect();
    let codes = |answers: Vec<Result<SignOutput, Error>>| {
        answers.iter().map(|answer| answer.as_ref().err().map(Error::code)).collect::<Vec<_>>()
    };
    let from = world.service.log().size();
    // The rest of a tenant's quota allows one more operation, which overdraws it.
    assert_eq!(codes(world.sign_coalesced(&asked)), [None, None, Some(Code::QuotaExceeded), None]);
    assert_eq!(
        codes(world.sign_coalesced(&asked)),
        [Some(Code::QuotaExceeded), None, Some(Code::QuotaExceeded), None]
    );
    let told = world.told(from);
    let refused = told.iter().filter(|one| one.3 == Outcome::Failed(Code::QuotaExceeded));
    assert_eq!((refused.count(), told.len()), (1, 6));
}

/// An answer that only needs a written record does not wait for the sync of other requests.
#[test]
fn nondurable_answers_do_not_wait_for_sync() {
    use std::cell::Cell;
    thread_local! {
        static ASIDE: Cell<usize> = const { Cell::new(0) };
    }
    let world = World::new(Options::default());
    let (tenant, name) = (&world.tenants[0], &world.names[0]);
    let durable = KeyRef { tenant, name };
    let call = Call::new(&world.who[0], "r");
    world.service.set_class(&call, &durable, Some(Class::Durable)).unwrap();
    let call = Call {
        run_blocking: |act: &mut dyn FnMut()| {
            ASIDE.set(ASIDE.get() + 1);
            act();
        },
        ..call
    };
    let written = KeyRef { tenant: &world.tenants[1], name };
    let item = |key| SignItem { key, version: None, signable: pure(b"x").into() };
    let asked = [(call, item(durable)), (call, item(written)), (call, item(durable))];
    let mut order = Vec::new();
    world.service.sign_coalesced(&asked, |place, answer| {
        assert!(answer.is_ok());
        order.push((place, ASIDE.get()));
    });
    // Both durable ones wait once.
    assert_eq!(order, [(1, 0), (0, 1), (2, 1)]);
}

#[test]
fn coalesced_requests_are_counted_individually() {
    let world = World::new(Options::default());
    let key = KeyRef { tenant: &world.tenants[0], name: &world.names[0] };
    let item = SignItem { key, version: None, signable: pure(b"x").into() };
    let call = Call::new(&world.who[0], "r");
    world.sign_coalesced(&[(call, item), (call, item), (call, item)]);
    assert!(world.sign_coalesced(&[]).is_empty());
    let text = world.service.kms().metrics().text();
    for line in [
        "kms_ops_total{op=\"sign\",alg=\"ed25519\"} 3",
        "kms_batch_len_count 0",
        "kms_coalesced_len_sum 3",
        "kms_coalesced_len_count 1",
        "kms_together_len_sum 3",
        "kms_together_len_count 1",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
}
