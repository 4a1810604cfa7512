//! Known answers of FN-DSA and Falcon: two lanes with different answers, and one of them alone.
//!
//! The FN-DSA answers are those that the authors publish with the crate's source (numbers 0 and 1
//! of each degree). The Falcon answers were computed with this crate, since no other implementation
//! derives keys from the same seeds; tests verify signatures of other implementations. The answers
//! cover keys and signatures. Verification is covered because every signature is verified and a
//! modified one rejected.

use std::ops::Range;

use gabion_backend::{Backend, Batch, FnDsa, Keys, Operation};
use gabion_scheme::fn_dsa::{self, Design, Params, RANDOM_LEN, SEED_LEN, SigningKey};
use gabion_scheme::message::Message;
use gabion_scheme::prehash::Prehash;
use gabion_scheme::{Algorithm, Status, ct};
use sha3::digest::{ExtendableOutput, Update, XofReader};
use sha3::{Digest, Sha3_256, Shake256};

use crate::known_answers::all_ok;

/// The lanes of the test. The crates process one operation at a time, so a backend has no lanes to
/// fill.
const LANES: usize = 2;

/// SHA3-256(sk || pk || sig) of each lane.
static EXPECTED: [(Algorithm, [&str; LANES]); 6] = [
    (
        Algorithm::FnDsa512,
        [
            "71009cd3bc68f5061608ab541e9ae27ba0263c42fad97c112825075176d539d0",
            "70d8e2492da097f5407459eb9e3d58697855984e305032973a49709d208ddf1d",
        ],
    ),
    (
        Algorithm::FnDsa1024,
        [
            "51bec3b8ca2565a94b2f1ad7bdc5f3844170495f235b8ea87fdae7e6d3b9dcb6",
            "abed632dec978f230f17e1c9059e36a7f0edfbaac2969ee75100421ea3346446",
        ],
    ),
    (
        Algorithm::Falcon512,
        [
            "9ab7c6246c4c4bcd4c3799eb567c9b8129d053d9bb3ced0080fb4652b84ff378",
            "ec2f05bd2a4cab5e91f0307679ec40a478bde09f04fa42938383ea9655e852b4",
        ],
    ),
    (
        Algorithm::Falcon1024,
        [
            "c14dd3eb6497ee3add2409b8d3e2d58941cdc159c769efca2fe39fd45710363b",
            "fcbf6d4b76e17887471e95b0e6822d312c86cb3b562ecd9e04197c7bfc5c5bb3",
        ],
    ),
    (
        Algorithm::FalconPadded512,
        [
            "84ba6c76b83eace4b0d98b2bc98a0f31a16d9dd323d5257d05dc81c41ebdaba2",
            "47e4edcf5a8d12154a4bb555b661dbd850432b6f983d0795551a9461dd453107",
        ],
    ),
    (
        Algorithm::FalconPadded1024,
        [
            "9856f751d536aeb86edff6c702898c5a8ca36553ce4cc36b3526b732697ddbfd",
            "3a882961cef7abfd6541fc52f0e224418d601d8847e745a134a147053d9c9824",
        ],
    ),
];

/// Returns the seed of a lane's key and the randomness of its signature: SHAKE256 of the degree and
/// the lane's number.
fn seeds(params: &Params, lane: usize) -> ([u8; SEED_LEN], [u8; RANDOM_LEN]) {
    let mut sponge = Shake256::default();
    Update::update(&mut sponge, &[params.log_n as u8, lane as u8, 0, 0, 0]);
    let mut source = sponge.finalize_xof();
    let (mut seed, mut random) = ([0; SEED_LEN], [0; RANDOM_LEN]);
    source.read(&mut seed);
    source.read(&mut random);
    (seed, random)
}

/// Tests one parameter set on one backend; the error is the difference.
pub(crate) fn run(backend: &dyn Backend, params: &'static Params) -> Result<(), String> {
    let (seeds, random): (Vec<_>, Vec<_>) = (0..LANES).map(|lane| seeds(params, lane)).unzip();
    let mut made: [Option<SigningKey>; LANES] = [None, None];
    let generate = FnDsa::Generate { params, seeds: &seeds, keys: &mut made };
    all_ok(backend, LANES, Operation::FnDsa(generate))?;
    let keys: Vec<&SigningKey> = made.iter().flatten().collect();
    let digest = Prehash::Sha3_256.digest(b"message");
    let messages = match params.design {
        Design::FnDsaDraft => [
            Message::Pure { context: b"domain", message: b"message" },
            Message::Prehash { context: b"domain", hash: Prehash::Sha3_256, digest: &digest },
        ],
        Design::Falcon => {
            [b"message", b"Message"].map(|message| Message::Pure { context: b"", message })
        }
    };
    let mut sig = vec![0; LANES * params.sig_len_max()];
    let sign = FnDsa::Sign {
        params,
        keys: Keys::Known(&keys),
        messages: &messages,
        random: &random,
        sig: &mut sig,
    };
    all_ok(backend, LANES, Operation::FnDsa(sign))?;
    let mut alone = vec![0; params.sig_len_max()];
    let sign = FnDsa::Sign {
        params,
        keys: Keys::Known(&keys[..1]),
        messages: &messages[..1],
        random: &random[..1],
        sig: &mut alone,
    };
    all_ok(backend, 1, Operation::FnDsa(sign))?;
    ct::declassify(&sig);
    ct::declassify(&alone);
    if alone[..] != sig[..alone.len()] {
        return Err("a signature by itself is not that of a batch".to_owned());
    }
    check_answers(params, &keys, &sig)?;
    check_verdicts(backend, params, &keys, &messages, sig)
}

fn check_answers(params: &Params, keys: &[&SigningKey], sig: &[u8]) -> Result<(), String> {
    let expected = EXPECTED.iter().find(|row| row.0 == params.algorithm).map(|row| row.1);
    for (lane, sig) in sig.chunks_exact(params.sig_len_max()).enumerate() {
        let mut hash = Sha3_256::new();
        Digest::update(&mut hash, keys[lane].bytes());
        Digest::update(&mut hash, keys[lane].verify_key().bytes());
        Digest::update(&mut hash, &sig[..fn_dsa::made_len(params, sig)]);
        let hash: [u8; 32] = hash.finalize().into();
        // The self-test's secrets are constants of this file.
        ct::declassify(&hash);
        let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
        if expected.is_none_or(|expected| expected[lane] != hash) {
            return Err(format!("the known answer of lane {lane} differs"));
        }
    }
    Ok(())
}

/// Good signatures verify; a corrupted one fails, and fails alone.
fn check_verdicts(
    backend: &dyn Backend,
    params: &'static Params,
    keys: &[&SigningKey],
    messages: &[Message<'_>; LANES],
    mut sig: Vec<u8>,
) -> Result<(), String> {
    let room = params.sig_len_max();
    let lengths: Vec<_> = sig.chunks_exact(room).map(|sig| fn_dsa::made_len(params, sig)).collect();
    let public: Vec<_> = keys.iter().map(|key| key.verify_key()).collect();
    let verdicts = |sig: &[u8], lanes: Range<usize>| {
        let mut status = [Status::NotRun; LANES];
        let (keys, messages) = (Keys::Known(&public[lanes.clone()]), &messages[lanes.clone()]);
        let (sig, lengths) = (&sig[room * lanes.start..room * lanes.end], &lengths[lanes.clone()]);
        let verify = FnDsa::Verify { params, keys, messages, sig, lengths };
        let operation = Operation::FnDsa(verify);
        let batch = &mut Batch { operation, status: &mut status[lanes.clone()] };
        backend.run(batch).check_done(&status[lanes])?;
        Ok::<_, String>(status)
    };
    // Both lanes at once; then the second by itself.
    if verdicts(&sig, 0..LANES)? != [Status::Ok; LANES]
        || verdicts(&sig, 1..2)? != [Status::NotRun, Status::Ok]
    {
        return Err("a signature does not verify".to_owned());
    }
    sig[room + lengths[1] / 2] ^= 1;
    if verdicts(&sig, 0..LANES)? != [Status::Ok, Status::InvalidSignature]
        || verdicts(&sig, 1..2)? != [Status::NotRun, Status::InvalidSignature]
    {
        return Err("a corrupted signature was not refused in its own lane alone".to_owned());
    }
    Ok(())
}
