//! How long a backend takes for batches of one operation.

use std::time::{Duration, Instant};

use gabion_backend::{
    Backend, Batch, BatchOutcome, Dsa, Hss, Kem, Keys, Operation, Slh, Task, Xmss,
};
use gabion_scheme::algorithms::{Algorithm, Family};
use gabion_scheme::message::Message;
use gabion_scheme::{Status, lms, ml_dsa, ml_kem, slh_dsa, xmss};

use super::curve::Curve;

/// Lanes of the batches of a device.
pub(super) const DEVICE_LANES: &[usize] = &[1, 16, 128, 1024, 8192, 32768];
/// Lanes of the batches of a processor, whose times are in proportion once its registers are full.
pub(super) const PROCESSOR_LANES: &[usize] = &[1, 8, 64];
/// The time of a batch after which no larger ones follow.
const LONG: Duration = Duration::from_millis(60);
/// Bytes of the largest array of a batch, at most.
const BYTES_MAX: usize = 256 << 20;
/// The best of so many counts, or of fewer if they took that long.
const REPEATS: usize = 3;

const TEXT: &[u8] = b"how long does this take?";
const MESSAGE: Message<'_> = Message::Pure { context: b"", message: TEXT };

/// The numbers of the sets that stand for all of HSS: LMS_SHA256_M32_H20 with LMOTS_SHA256_N32_W8 (RFC 8554, sections
/// 4.1 and 5.1).
const LMS_SETS: [u32; 2] = [8, 4];
/// The measured sets of XMSS, XMSS-SHA2_20_256, and of XMSS^MT, XMSSMT-SHA2_20/2_256 (RFC 8391,
/// sections 5.3 and 5.4).
const XMSS_SET: u32 = 3;
const XMSS_MT_SET: u32 = 1;

/// Every operation that a device may do and that can be measured.
pub fn operations() -> impl Iterator<Item = (Algorithm, Task)> {
    let tasks = |algorithm: Algorithm| match algorithm.info().family {
        Family::MlKem => &[Task::Keygen, Task::Encaps, Task::Decaps][..],
        Family::MlDsa => &[Task::Keygen, Task::Sign, Task::Verify][..],
        Family::SlhDsa => &[Task::Keygen, Task::Sign, Task::Verify][..],
        Family::Hss | Family::Xmss => &[Task::Verify][..],
        _ => &[],
    };
    let is_built = |algorithm: &Algorithm| algorithm.info().family.is_built();
    Algorithm::all()
        .filter(is_built)
        .flat_map(move |algorithm| tasks(algorithm).iter().map(move |&task| (algorithm, task)))
}

/// Measures batches of these numbers of lanes on a backend; the curve is empty if it declines.
/// Inputs are made by another backend. `None` if a batch failed.
pub(super) fn measure(
    backend: &dyn Backend,
    maker: &dyn Backend,
    (algorithm, task): (Algorithm, Task),
    lanes: &[usize],
) -> Option<Curve> {
    let inputs = Inputs::make(maker, algorithm)?;
    let mut points = Vec::new();
    let (public, private) = inputs.key_lens();
    let each = inputs.bytes().len().max(public + private);
    for &lanes in lanes.iter().take_while(|&&lanes| lanes * each <= BYTES_MAX) {
        let mut arrays = Arrays::new(&inputs, task, lanes);
        // The first one finds caches and memory cold.
        match inputs.run(backend, task, &mut arrays)? {
            (BatchOutcome::Done, _) => {}
            (BatchOutcome::Declined, _) if points.is_empty() => return Some(Curve::default()),
            (BatchOutcome::Declined | BatchOutcome::Lost, _) => return None,
        }
        let (begun, mut best) = (Instant::now(), Duration::MAX);
        for _ in 0..REPEATS {
            let (ran, elapsed) = inputs.run(backend, task, &mut arrays)?;
            if ran != BatchOutcome::Done {
                return None;
            }
            best = best.min(elapsed);
            if begun.elapsed() > LONG {
                break;
            }
        }
        points.push((lanes, u64::try_from(best.as_nanos()).unwrap_or(u64::MAX)));
        if best > LONG {
            break;
        }
    }
    Curve::new(points)
}

/// A key of an algorithm and the inputs of its operations.
enum Inputs {
    Kem { params: &'static ml_kem::Params, key: Box<ml_kem::DecapsKey>, ct: Vec<u8> },
    Dsa { params: &'static ml_dsa::Params, key: Box<ml_dsa::SigningKey>, sig: Vec<u8> },
    Slh { params: &'static slh_dsa::Params, key: Box<slh_dsa::SigningKey>, sig: Vec<u8> },
    // Signatures that lead to a wrong root, which takes as long as to the right one.
    Hss { key: Box<lms::VerifyKey>, sig: Vec<u8> },
    Xmss { scheme: xmss::Scheme, key: Box<xmss::VerifyKey>, sig: Vec<u8> },
}

/// Inputs and outputs of so many lanes.
struct Arrays {
    status: Vec<Status>,
    first: Vec<u8>,
    second: Vec<u8>,
    secrets: Vec<[u8; 32]>,
    randomness: Vec<[u8; 32]>,
    seeds: Vec<[u8; 64]>,
}

impl Arrays {
    fn new(inputs: &Inputs, task: Task, lanes: usize) -> Self {
        let (first, second) = match (inputs, task) {
            (Inputs::Kem { .. } | Inputs::Dsa { .. }, Task::Keygen) => {
                let (public, private) = inputs.key_lens();
                (vec![0; lanes * public], vec![0; lanes * private])
            }
            _ => (inputs.bytes().repeat(lanes), Vec::new()),
        };
        // Each lane's own, so that signatures of ML-DSA take as many attempts as they do.
        let seeds: Vec<[u8; 64]> = (0..lanes).map(lane_bytes).collect();
        let randomness: Vec<[u8; 32]> = (0..lanes).map(lane_bytes).collect();
        let (status, secrets) = (vec![Status::NotRun; lanes], vec![[0; 32]; lanes]);
        Arrays { status, first, second, secrets, randomness, seeds }
    }
}

impl Inputs {
    /// The ciphertext or signature.
    fn bytes(&self) -> &[u8] {
        match self {
            Inputs::Kem { ct: bytes, .. }
            | Inputs::Dsa { sig: bytes, .. }
            | Inputs::Slh { sig: bytes, .. }
            | Inputs::Hss { sig: bytes, .. }
            | Inputs::Xmss { sig: bytes, .. } => bytes,
        }
    }

    /// Bytes of the keys that are made.
    fn key_lens(&self) -> (usize, usize) {
        match self {
            Inputs::Kem { params, .. } => (params.ek_len(), params.dk_len()),
            Inputs::Dsa { params, .. } => (params.pk_len(), params.sk_len()),
            _ => (0, 0),
        }
    }

    fn make(maker: &dyn Backend, algorithm: Algorithm) -> Option<Self> {
        let mut inputs = if let Some(params) = ml_kem::params(algorithm) {
            let mut keys = [ml_kem::DecapsKey::blank(params)];
            let make = Kem::Generate { params, seeds: &[[3; 64]], keys: &mut keys };
            run_one(maker, Operation::Kem(make))?;
            let [key] = keys;
            Inputs::Kem { params, key: Box::new(key), ct: vec![0; params.ct_len()] }
        } else if let Some(params) = ml_dsa::params(algorithm) {
            let mut keys = [ml_dsa::SigningKey::blank(params)];
            let make = Dsa::Generate { params, seeds: &[[3; 32]], keys: &mut keys };
            run_one(maker, Operation::Dsa(make))?;
            let [key] = keys;
            Inputs::Dsa { params, key: Box::new(key), sig: vec![0; params.sig_len()] }
        } else if algorithm == Algorithm::Hss {
            let [tree, one_time] = LMS_SETS.map(u32::to_be_bytes);
            let key = [&[0, 0, 0, 1][..], &tree, &one_time, &[3; 16 + 32]].concat();
            let key = Box::new(lms::VerifyKey::decode(&key).ok()?);
            let mut sig = vec![5; key.signature_len()?];
            // No level below, leaf 0 and its set; the tree's set stands before a path of 20 nodes.
            sig[..12].copy_from_slice(&[&[0; 8][..], &one_time].concat());
            let path = sig.len().checked_sub(20 * 32 + 4)?;
            sig[path..path + 4].copy_from_slice(&tree);
            return Some(Inputs::Hss { key, sig });
        } else if let Some(scheme) = algorithm.xmss() {
            let set = if algorithm == Algorithm::XmssMt { XMSS_MT_SET } else { XMSS_SET };
            let key = [&set.to_be_bytes()[..], &[3; 64]].concat();
            let key = Box::new(xmss::VerifyKey::decode(scheme, &key).ok()?);
            let sig = vec![0; key.signature_len()];
            return Some(Inputs::Xmss { scheme, key, sig });
        } else {
            let params = slh_dsa::params(algorithm)?;
            let mut keys = [slh_dsa::SigningKey::blank(params)];
            let seeds = vec![3; params.seed_len()];
            let make = Slh::Generate { params, seeds: &seeds, keys: &mut keys };
            run_one(maker, Operation::Slh(make))?;
            let [key] = keys;
            Inputs::Slh { params, key: Box::new(key), sig: vec![0; params.sig_len()] }
        };
        let task = match inputs {
            Inputs::Kem { .. } => Task::Encaps,
            _ => Task::Sign,
        };
        let mut arrays = Arrays::new(&inputs, task, 1);
        if inputs.run(maker, task, &mut arrays)?.0 != BatchOutcome::Done {
            return None;
        }
        let (Inputs::Kem { ct: made, .. }
        | Inputs::Dsa { sig: made, .. }
        | Inputs::Slh { sig: made, .. }
        | Inputs::Hss { sig: made, .. }
        | Inputs::Xmss { sig: made, .. }) = &mut inputs;
        *made = arrays.first;
        Some(inputs)
    }

    /// Runs a batch of all lanes of the arrays, with known keys, and says how long that took; none if it is done and
    /// a lane failed.
    fn run(
        &self,
        backend: &dyn Backend,
        task: Task,
        arrays: &mut Arrays,
    ) -> Option<(BatchOutcome, Duration)> {
        arrays.status.fill(Status::NotRun);
        match self {
            Inputs::Kem { params, key, .. } => kem(backend, task, params, key, arrays),
            Inputs::Dsa { params, key, .. } => dsa(backend, task, params, key, arrays),
            Inputs::Slh { params, key, .. } => slh(backend, task, params, key, arrays),
            Inputs::Hss { key, sig } => {
                let n = arrays.status.len();
                let signatures: Vec<_> = arrays.first.chunks_exact(sig.len()).collect();
                let (keys, messages) = (&vec![&**key; n][..], &vec![TEXT; n][..]);
                let verify = Hss::Verify { keys, messages, signatures: &signatures };
                let wrong = Status::InvalidSignature;
                time_batch(backend, Operation::Hss(verify), &mut arrays.status, wrong)
            }
            Inputs::Xmss { scheme, key, sig } => {
                let (n, scheme) = (arrays.status.len(), *scheme);
                let signatures: Vec<_> = arrays.first.chunks_exact(sig.len()).collect();
                let (keys, messages) = (&vec![&**key; n][..], &vec![TEXT; n][..]);
                let verify = Xmss::Verify { scheme, keys, messages, signatures: &signatures };
                let wrong = Status::InvalidSignature;
                time_batch(backend, Operation::Xmss(verify), &mut arrays.status, wrong)
            }
        }
    }
}

fn kem(
    backend: &dyn Backend,
    task: Task,
    params: &'static ml_kem::Params,
    key: &ml_kem::DecapsKey,
    arrays: &mut Arrays,
) -> Option<(BatchOutcome, Duration)> {
    let Arrays { status, first, second, secrets, randomness, seeds } = arrays;
    let n = status.len();
    let (decaps, encaps) = (vec![key; n], vec![key.encaps_key(); n]);
    let operation = match task {
        Task::Keygen => Kem::Keygen { params, seeds, ek: first, dk: second },
        Task::Encaps => {
            let (keys, m) = (Keys::Known(&encaps), &randomness[..]);
            Kem::Encaps { params, keys, m, ct: first, shared: secrets }
        }
        Task::Decaps => {
            let keys = Keys::Known(&decaps);
            Kem::Decaps { params, keys, ct: first, shared: secrets }
        }
        _ => return None,
    };
    time_batch(backend, Operation::Kem(operation), status, Status::Ok)
}

fn dsa(
    backend: &dyn Backend,
    task: Task,
    params: &'static ml_dsa::Params,
    key: &ml_dsa::SigningKey,
    arrays: &mut Arrays,
) -> Option<(BatchOutcome, Duration)> {
    let Arrays { status, first, second, randomness, .. } = arrays;
    let n = status.len();
    let messages = &vec![MESSAGE; n][..];
    let (signing, verifying) = (vec![key; n], vec![key.verify_key(); n]);
    let operation = match task {
        Task::Keygen => Dsa::Keygen { params, seeds: randomness, pk: first, sk: second },
        Task::Sign => {
            let (keys, rnd) = (Keys::Known(&signing), &randomness[..]);
            Dsa::Sign { params, keys, messages, rnd, sig: first }
        }
        Task::Verify => {
            let keys = Keys::Known(&verifying);
            Dsa::Verify { params, keys, messages, sig: first }
        }
        _ => return None,
    };
    time_batch(backend, Operation::Dsa(operation), status, Status::Ok)
}

fn slh(
    backend: &dyn Backend,
    task: Task,
    params: &'static slh_dsa::Params,
    key: &slh_dsa::SigningKey,
    arrays: &mut Arrays,
) -> Option<(BatchOutcome, Duration)> {
    let Arrays { status, first, .. } = arrays;
    let n = status.len();
    let messages = &vec![MESSAGE; n][..];
    let (signing, verifying) = (vec![key; n], vec![key.verify_key(); n]);
    let (seeds, mut made);
    let operation = match task {
        Task::Keygen => {
            seeds = vec![7; n * params.seed_len()];
            made = (0..n).map(|_| slh_dsa::SigningKey::blank(params)).collect::<Vec<_>>();
            Slh::Generate { params, seeds: &seeds, keys: &mut made }
        }
        Task::Sign => {
            let keys = Keys::Known(&signing);
            Slh::Sign { params, keys, messages, opt_rand: None, sig: first }
        }
        Task::Verify => {
            let keys = Keys::Known(&verifying);
            Slh::Verify { params, keys, messages, sig: first }
        }
        _ => return None,
    };
    time_batch(backend, Operation::Slh(operation), status, Status::Ok)
}

/// Runs a batch and returns its duration; none if it is done and a lane says something else than `right`.
fn time_batch(
    backend: &dyn Backend,
    operation: Operation<'_>,
    status: &mut [Status],
    right: Status,
) -> Option<(BatchOutcome, Duration)> {
    let mut batch = Batch { operation, status };
    let start = Instant::now();
    let (ran, elapsed) = (backend.run(&mut batch), start.elapsed());
    let is_good = ran != BatchOutcome::Done || status.iter().all(|&status| status == right);
    is_good.then_some((ran, elapsed))
}

/// Bytes that begin with a lane's number.
fn lane_bytes<const N: usize>(lane: usize) -> [u8; N] {
    std::array::from_fn(|at| lane.to_le_bytes().get(at).copied().unwrap_or(7))
}

/// Runs one lane to its end.
fn run_one(backend: &dyn Backend, operation: Operation<'_>) -> Option<()> {
    let mut status = [Status::NotRun];
    let ran = backend.run(&mut Batch { operation, status: &mut status });
    (ran == BatchOutcome::Done && status[0].is_ok()).then_some(())
}

#[cfg(test)]
mod tests {
    use gabion_backend::cpus;

    use super::*;

    /// Measures every operation, with one lane and two, and checks that the requested one is
    /// measured.
    #[test]
    fn every_operation_can_be_measured() {
        let (best, mut families) = (cpus().remove(0), Vec::new());
        for (algorithm, task) in operations() {
            let family = algorithm.info().family;
            // The small sets of SLH-DSA sign for a second.
            if families.contains(&(family, task)) || algorithm.info().name.ends_with('s') {
                continue;
            }
            families.push((family, task));
            let curve = measure(&*best, &*best, (algorithm, task), &[1, 2]).unwrap();
            assert!(curve.points().iter().all(|&(_, ns)| ns > 0), "{algorithm} {task}");
            assert!(!curve.points().is_empty(), "{algorithm} {task}");
        }
        // Three of ML-KEM, ML-DSA and SLH-DSA, and one of HSS and of XMSS.
        assert_eq!(families.len(), 11, "{families:?}");
    }
}
