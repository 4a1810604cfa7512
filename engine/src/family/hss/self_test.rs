//! The self-test of HSS, with constructed signatures.
//!
//! Arbitrary bytes of the right lengths lead to some root. Each signature is therefore given by its
//! root alone: under a key with that root it verifies. The roots were computed by a Python program
//! of RFC 8554's algorithms with hashlib.

use gabion_backend::{Backend, Batch, Hss, Operation};
use gabion_scheme::Status;
use gabion_scheme::lms::{Generation, Levels, LmOts, Lms, VerifyKey};
use gabion_scheme::prehash::Prehash;

use super::known_keys;

/// The numbers of tree and one-time signature, the leaf, and the root that the lane's bytes lead
/// to. Every hash function and length has chains of several lengths; a tree of 25 levels costs no
/// more than 25 hashes.
const CASES: [(u32, u32, u32, &str); 12] = [
    (5, 4, 5, "9d0d3d2f4a5aa59560dbd1c1e0fa1c73b7d2051bfa14845d243a27345e1949c5"),
    (6, 3, 700, "5f7499f3260444159ba4c301e2cc021e2328647afe3215d2763b99cea18bcec8"),
    (5, 2, 31, "d8f6d509fc355221b81215ce81aa4e2103960c557a2a38c5547770ac95278cac"),
    (5, 1, 0, "8920c4d656519b091003df1bce8e231417700e146eb971ad17ab518ab7312d53"),
    (10, 8, 18, "6ad39d81718c24af118607c8033ccac32a75d9015024663f"),
    (11, 7, 1, "b57de441fbcf3cfa87f3586095e6df9bacc855ed3a69d736"),
    (14, 6, (1 << 25) - 1, "1d63ac43a01e897da54bddb895617551eebe87d9d26b72e2"),
    (10, 5, 9, "354d617a8ba59535e0b9f8b77e4be08afb35873442e9da01"),
    (15, 11, 20, "de0ddf42c40824958f483dd78581a6d6c25904c518b92cbb7fce597b9aebafbb"),
    (15, 9, 30, "1f4c37d194bd49862ac1a33268007b229a98379fb5a21e07fe038fcb4ad67194"),
    (20, 15, 0, "43a4f46256e77b9f5840a5cd8259a675917f8b6ab0469adf"),
    (20, 14, 17, "37aa0b068f7c90646c7ede4d2203474d85b22e5c7604e31c"),
];
/// The leaf that signs the first key of [`CASES`], by the sets of the second, and the root.
const ABOVE: (u32, &str) = (77, "360a62052fb8e3c62c25d835c4e6d31e6f638ad75effc59ed8002d388739fa60");

/// The numbers of tree and one-time signature, and SHA-256 of two nodes that are two above the
/// leaves, number 5 and 6: each hash function and length. By the program, too, which comes to the
/// roots of [`known_keys`].
const NODES: [(u32, u32, &str); 4] = [
    (5, 3, "4508b59c25f1a2379eedb51c75cb1818f04ab804cfa5fc76f327d8105e9fcc2c"),
    (10, 5, "f50d3a52ad18bed83d44b3ffc799d964d4f700e950a124317d5280682334a501"),
    (15, 9, "c487eb067dcd48770cd892255c5a48a5f0345e105b1473414ba3af82664df4cf"),
    (20, 13, "03a9d6a82d92c695f6b09cbceb70e83d04d1832f9a27ea450bb33d90093d7b18"),
];

/// The input of a lane.
struct Lane {
    key: VerifyKey,
    message: Vec<u8>,
    signature: Vec<u8>,
}

pub(crate) fn run(backend: &dyn Backend) -> Result<(), String> {
    let lanes = lanes()?;
    let ok = vec![Status::Ok; 2 * lanes.len()];
    // More of them than are worked on together, and each by itself.
    let twice: Vec<_> = lanes.iter().chain(&lanes).collect();
    expect_statuses(backend, &twice, &ok, "known signatures")?;
    for (at, lane) in lanes.iter().enumerate() {
        expect_statuses(backend, &[lane], &ok[..1], &format!("known signature {at} by itself"))?;
    }
    // One thing after the other is wrong, in every lane but one: the leaf, C, the first, a middle
    // and the last chain, the ends of the path, the message, and the length.
    let places = [7, 12, 44, 400, 700, 1000, 1100];
    for (turn, place) in (0..).zip(places.into_iter().map(Some).chain([None; 3])) {
        let mut wrong = self::lanes()?;
        let spared = turn % wrong.len();
        for (_, lane) in wrong.iter_mut().enumerate().filter(|(at, _)| *at != spared) {
            let len = lane.signature.len();
            match (place, turn) {
                (Some(place), _) => lane.signature[place.min(len - 1)] ^= 0x10,
                (None, 7) => lane.message[0] ^= 1,
                (None, 8) => lane.signature.truncate(len - 1),
                (None, _) => lane.signature.push(0),
            }
        }
        let mut expected = vec![Status::InvalidSignature; wrong.len()];
        expected[spared] = Status::Ok;
        let what = format!("signatures with a fault ({turn})");
        expect_statuses(backend, &wrong.iter().collect::<Vec<_>>(), &expected, &what)?;
    }
    nodes(backend)?;
    backend.kernels().map_or(Ok(()), known_keys::run)
}

/// Tests the operations that build a key's trees.
fn nodes(backend: &dyn Backend) -> Result<(), String> {
    for (tree, one_time, expected) in NODES {
        let sets = Lms::from_typecode(tree).zip(LmOts::from_typecode(one_time));
        let levels = Levels::new(&[sets.ok_or("a set is missing")?]);
        let levels = levels.map_err(|error| error.to_string())?.with_whole_levels(4);
        let seed: Vec<u8> = (0..levels.n() as u8).map(|at| 0x2f - at).collect();
        let id = std::array::from_fn(|at| 0x0f - at as u8);
        let making = Generation::new(levels, &id, &seed);
        let mut making = making.map_err(|error| error.to_string())?;
        let all = making.span(usize::MAX).ok_or("a row without nodes")?;
        let mut piece = all.split_at(7).0.split_at(5).1;
        let mut status = [Status::NotRun; 2];
        let operation = Operation::Hss(Hss::Nodes { piece: piece.reborrow() });
        backend.run(&mut Batch { operation, status: &mut status }).check_done(&status)?;
        let digest = Prehash::Sha2_256.digest(piece.job().output);
        let found: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        if found != expected || status != [Status::Ok; 2] {
            return Err(format!("nodes of {tree}/{one_time} have the digest {found}: {status:?}"));
        }
    }
    Ok(())
}

/// One lane for each of [`CASES`], and one of two levels.
fn lanes() -> Result<Vec<Lane>, String> {
    let mut parts = Vec::new();
    for (at, (lms, ots, q, root)) in (0..).zip(CASES) {
        parts.push(part(at, (lms, ots, q), root)?);
    }
    let (q, root) = ABOVE;
    let [top, top_signature, _] = part(CASES.len() as u32, (CASES[1].0, CASES[1].1, q), root)?;
    let key = |levels: u8, public: &[u8]| {
        VerifyKey::decode(&[&[0, 0, 0, levels], public].concat()).map_err(|error| error.to_string())
    };
    let [below, signature, message] = &parts[0];
    let signature = [&[0, 0, 0, 1], &top_signature[..], below, signature].concat();
    let mut lanes = vec![Lane { key: key(2, &top)?, message: message.clone(), signature }];
    for [public, signature, message] in parts {
        let signature = [&[0; 4], &signature[..]].concat();
        lanes.push(Lane { key: key(1, &public)?, message, signature });
    }
    Ok(lanes)
}

/// A bare public key, a bare signature and a message, of bytes that follow from `at`.
fn part(at: u32, (lms, ots, q): (u32, u32, u32), root: &str) -> Result<[Vec<u8>; 3], String> {
    let sets = Lms::from_typecode(lms).zip(LmOts::from_typecode(ots));
    let (tree, one_time) = sets.ok_or("a set is missing")?;
    // The numbers of a linear congruence.
    let mut state = at;
    let mut take = |len: usize| {
        let byte = |_| {
            state = state.wrapping_mul(1_103_515_245).wrapping_add(12_345);
            (state >> 16) as u8
        };
        (0..len).map(byte).collect::<Vec<_>>()
    };
    let (id, randomizer) = (take(16), take(tree.n));
    let values = take(one_time.chains() * tree.n);
    let path = take(tree.h as usize * tree.n);
    let message = take(50 + 37 * at as usize);
    let digits =
        |at: usize| root.get(2 * at..2 * at + 2).and_then(|byte| u8::from_str_radix(byte, 16).ok());
    let root: Vec<u8> = (0..tree.n).map_while(digits).collect();
    let [lms, ots, q] = [lms, ots, q].map(u32::to_be_bytes);
    let public = [&lms[..], &ots, &id, &root].concat();
    let signature = [&q[..], &ots, &randomizer, &values, &lms, &path].concat();
    Ok([public, signature, message])
}

/// Verifies lanes and insists on a status for each.
fn expect_statuses(
    backend: &dyn Backend,
    lanes: &[&Lane],
    expected: &[Status],
    what: &str,
) -> Result<(), String> {
    let keys: Vec<_> = lanes.iter().map(|lane| &lane.key).collect();
    let messages: Vec<_> = lanes.iter().map(|lane| &lane.message[..]).collect();
    let signatures: Vec<_> = lanes.iter().map(|lane| &lane.signature[..]).collect();
    let mut status = vec![Status::NotRun; lanes.len()];
    let verify = Hss::Verify { keys: &keys, messages: &messages, signatures: &signatures };
    let mut batch = Batch { operation: Operation::Hss(verify), status: &mut status };
    batch.check().map_err(|error| error.to_string())?;
    backend.run(&mut batch).check_done(&status)?;
    if status == expected { Ok(()) } else { Err(format!("{what}: {status:?}")) }
}
