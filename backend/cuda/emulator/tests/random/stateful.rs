//! LMS, HSS, XMSS and XMSS^MT: nodes of trees that are made, and signatures by several keys in one batch.

use gabion_backend::portable::Portable;
use gabion_backend::{Backend, BatchOutcome, Hss, Operation, Xmss};
use gabion_scheme::lms::{self, LM_OTS, LMS, Levels};
use gabion_scheme::xmss::{self, Scheme};

use super::{Random, Task, run};

/// Keys of a batch of signatures.
const KEYS: usize = 3;
/// Nodes of a batch, at most: the portable backend makes all leaves below them.
const NODES: usize = 6;

/// A set of signatures, each by one of some keys.
struct SignatureSet<K> {
    keys: Vec<K>,
    turn: Vec<usize>,
    messages: Vec<Vec<u8>>,
    signatures: Vec<Vec<u8>>,
}

impl<K> SignatureSet<K> {
    /// So many, by keys that `sign` makes with signatures of messages. Some are spoilt.
    fn new(
        random: &mut Random,
        n: usize,
        sign: impl Fn(&mut Random, &[&[u8]]) -> (K, Vec<Vec<u8>>),
    ) -> Self {
        let mut it =
            SignatureSet { keys: vec![], turn: vec![], messages: vec![], signatures: vec![] };
        let messages: Vec<Vec<u8>> = (0..n)
            .map(|_| {
                let length = [32, 1, 200, 2000][random.below(4)];
                let length = random.below(length + 1);
                random.bytes(length)
            })
            .collect();
        for own in messages.chunks(n.div_ceil(KEYS)) {
            let all: Vec<&[u8]> = own.iter().map(Vec::as_slice).collect();
            let (key, signatures) = sign(random, &all);
            it.turn.extend(vec![it.keys.len(); own.len()]);
            it.keys.push(key);
            it.signatures.extend(signatures);
        }
        it.messages = messages;
        for lane in 0..n {
            let signature = &mut it.signatures[lane];
            match random.below(16) {
                0 => it.turn[lane] = random.below(it.keys.len()),
                1 => it.messages[lane].push(0),
                2 => drop(signature.pop()),
                3 => signature.push(0),
                4 => signature.clear(),
                5..8 => {
                    let at = random.below(signature.len());
                    signature[at] ^= 1 << random.below(8);
                }
                _ => {}
            }
        }
        it
    }

    /// Returns the inputs of verification: keys, messages and signatures of all lanes.
    fn lanes(&self) -> (Vec<&K>, Vec<&[u8]>, Vec<&[u8]>) {
        (
            self.turn.iter().map(|&key| &self.keys[key]).collect(),
            self.messages.iter().map(Vec::as_slice).collect(),
            self.signatures.iter().map(Vec::as_slice).collect(),
        )
    }
}

/// Neighbouring nodes: the first one, and how many.
fn random_range(random: &mut Random, row: usize) -> (usize, usize) {
    let count = 1 + random.below(NODES.min(row));
    (random.below(row - count + 1), count)
}

/// A task of LMS and HSS.
pub fn hss(random: &mut Random, n: usize) -> (String, Task<'static>) {
    if random.one_in(3) {
        return hss_nodes(random);
    }
    let signed = SignatureSet::new(random, n, hss_signed);
    let task = Box::new(move |backend: &dyn Backend| {
        let (keys, messages, signatures) = signed.lanes();
        let (keys, messages, signatures) = (&keys[..], &messages[..], &signatures[..]);
        let hss = Hss::Verify { keys, messages, signatures };
        let (ran, status) = run(backend, Operation::Hss(hss), keys.len());
        (ran, (status, Vec::new()))
    });
    ("HSS:verify".to_owned(), task)
}

/// Makes a key of up to three levels, each with different sets, and signatures by it.
fn hss_signed(random: &mut Random, messages: &[&[u8]]) -> (lms::VerifyKey, Vec<Vec<u8>>) {
    let family = random.below(4);
    let depth = 1 + random.below(3);
    let mut sign = |messages: &[&[u8]]| {
        // All sets of a hash function stand together.
        let lms = &LMS[5 * family + random.below(5)];
        let ots = &LM_OTS[4 * family + random.below(4)];
        let q = random.below(1 << lms.h) as u32;
        let mut take = |len| random.bytes(len);
        lms::testing_only_signatures(&Portable, (lms, ots), q, messages, &mut take)
    };
    let (mut below, signatures) = sign(messages);
    let mut above = Vec::new();
    for _ in 1..depth {
        let (key, own) = sign(&[&below]);
        above = [&own[0][..], &below, &above].concat();
        below = key;
    }
    let key = [&(depth as u32).to_be_bytes(), &below[..]].concat();
    let front = [&(depth as u32 - 1).to_be_bytes(), &above[..]].concat();
    let whole = |signature: Vec<u8>| [&front[..], &signature].concat();
    (lms::VerifyKey::decode(&key).unwrap(), signatures.into_iter().map(whole).collect())
}

fn hss_nodes(random: &mut Random) -> (String, Task<'static>) {
    let family = random.below(4);
    // Trees of which nodes are leaves. Chains of eight bits take a processor as long as sixteen others.
    let lms = &LMS[5 * family + random.below(3)];
    let ots = &LM_OTS[4 * family + random.below(3)];
    let levels = Levels::new(&[(lms, ots)]).unwrap();
    let (id, seed) = (random.arrays::<16>(1).remove(0), random.bytes(lms.n));
    let (first, count) = random_range(random, 1 << lms.h);
    let task = Box::new(move |backend: &dyn Backend| {
        let mut making = lms::Generation::new(levels.clone(), &id, &seed).unwrap();
        let all = making.span(usize::MAX).unwrap();
        let mut piece = all.split_at(first).1.split_at(count).0;
        let hss = Hss::Nodes { piece: piece.reborrow() };
        let (ran, status) = run(backend, Operation::Hss(hss), count);
        (ran, (status, vec![piece.job().output.to_vec()]))
    });
    (format!("{}:nodes", lms.name), task)
}

/// A task of XMSS or XMSS^MT.
pub fn xmss(random: &mut Random, n: usize) -> (String, Task<'static>) {
    let scheme = [Scheme::Xmss, Scheme::XmssMt][random.below(2)];
    if random.one_in(3) {
        return xmss_nodes(random, scheme);
    }
    let sets: Vec<_> = scheme.sets().iter().collect();
    let signed = SignatureSet::new(random, n, |random, messages| {
        let set = sets[random.below(sets.len())];
        let index = random.next() % set.signatures();
        let mut take = |len| random.bytes(len);
        let (key, signatures) =
            xmss::testing_only_signatures(&Portable, set, index, messages, &mut take);
        (xmss::VerifyKey::decode(scheme, &key).unwrap(), signatures)
    });
    let task = Box::new(move |backend: &dyn Backend| {
        let (keys, messages, signatures) = signed.lanes();
        let (keys, messages, signatures) = (&keys[..], &messages[..], &signatures[..]);
        let xmss = Xmss::Verify { scheme, keys, messages, signatures };
        let (ran, status) = run(backend, Operation::Xmss(xmss), keys.len());
        (ran, (status, Vec::new()))
    });
    (format!("{scheme:?}:verify"), task)
}

fn xmss_nodes(random: &mut Random, scheme: Scheme) -> (String, Task<'static>) {
    // Trees of which nodes are leaves.
    let sets: Vec<_> =
        scheme.sets().iter().filter(|set| set.can_sign() && set.tree_height() <= 10).collect();
    let set = sets[random.below(sets.len())];
    let seeds = random.bytes(3 * set.n);
    let (first, count) = random_range(random, 1 << set.tree_height());
    let task = Box::new(move |backend: &dyn Backend| -> (BatchOutcome, _) {
        let mut making = xmss::Generation::new(set, &seeds).unwrap();
        let all = making.span(usize::MAX).unwrap();
        let mut piece = all.split_at(first).1.split_at(count).0;
        let xmss = Xmss::Nodes { scheme, piece: piece.reborrow() };
        let (ran, status) = run(backend, Operation::Xmss(xmss), count);
        (ran, (status, vec![piece.job().output.to_vec()]))
    });
    (format!("{scheme:?}:nodes"), task)
}
