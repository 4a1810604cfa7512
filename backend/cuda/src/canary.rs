//! Lanes with known answers. The answers are the portable backend's, made at first use.

use gabion_backend::portable::Portable;
use gabion_backend::{Backend, Batch, BatchOutcome, Cpu, Dsa, Kem, Keys, Operation, Slh, cpus};
use gabion_scheme::Status;
use gabion_scheme::algorithms::Algorithm;
use gabion_scheme::message::Message;
use gabion_scheme::ml_dsa;
use gabion_scheme::ml_kem::{Params, SECRET_LEN, SEED_LEN};
use gabion_scheme::slh_dsa::{self, SigningKey};
use once_cell::race::OnceBox;

/// A key pair of ML-KEM, a ciphertext and its secret.
pub(crate) struct KemCanary {
    pub(crate) seed: [[u8; SEED_LEN]; 1],
    pub(crate) ek: Vec<u8>,
    pub(crate) dk: Vec<u8>,
    pub(crate) m: [[u8; SECRET_LEN]; 1],
    pub(crate) ct: Vec<u8>,
    pub(crate) shared: [[u8; SECRET_LEN]; 1],
    /// A ciphertext that does not decrypt to itself, and the rejection secret that its
    /// decapsulation returns.
    pub(crate) bad_ct: Vec<u8>,
    pub(crate) bad_shared: [[u8; SECRET_LEN]; 1],
}

impl KemCanary {
    /// Returns the canary of a parameter set; `None` if the portable backend cannot make one.
    pub(crate) fn for_params(params: &'static Params) -> Option<&'static KemCanary> {
        static CANARIES: [OnceBox<KemCanary>; 3] = [const { OnceBox::new() }; 3];
        let place = match params.algorithm {
            Algorithm::MlKem512 => &CANARIES[0],
            Algorithm::MlKem768 => &CANARIES[1],
            Algorithm::MlKem1024 => &CANARIES[2],
            _ => return None,
        };
        place.get_or_try_init(|| Self::make(params).map(Box::new).ok_or(())).ok()
    }

    fn make(p: &'static Params) -> Option<Self> {
        let mut canary = KemCanary {
            seed: [std::array::from_fn(|i| i as u8)],
            ek: vec![0; p.ek_len()],
            dk: vec![0; p.dk_len()],
            m: [std::array::from_fn(|i| 0xc5 ^ i as u8)],
            ct: vec![0; p.ct_len()],
            shared: [[0; SECRET_LEN]],
            bad_ct: Vec::new(),
            bad_shared: [[0; SECRET_LEN]],
        };
        let KemCanary { seed, ek, dk, m, ct, shared, .. } = &mut canary;
        run(Operation::Kem(Kem::Keygen { params: p, seeds: seed, ek, dk }))?;
        run(Operation::Kem(Kem::Encaps { params: p, keys: Keys::Fresh(ek), m, ct, shared }))?;
        canary.bad_ct = canary.ct.clone();
        canary.bad_ct[0] ^= 1;
        let KemCanary { dk, bad_ct, bad_shared, .. } = &mut canary;
        let keys = Keys::Fresh(dk);
        run(Operation::Kem(Kem::Decaps { params: p, keys, ct: bad_ct, shared: bad_shared }))?;
        Some(canary)
    }
}

/// A key pair of ML-DSA, a message, its deterministic signature, and an invalid key and signature.
pub(crate) struct DsaCanary {
    pub(crate) seed: [[u8; ml_dsa::SEED_LEN]; 1],
    pub(crate) pk: Vec<u8>,
    pub(crate) sk: Vec<u8>,
    /// A private key whose tr is not the hash of its public key.
    pub(crate) bad_sk: Vec<u8>,
    pub(crate) message: Vec<u8>,
    pub(crate) sig: Vec<u8>,
    pub(crate) bad_sig: Vec<u8>,
}

impl DsaCanary {
    /// Returns the canary of a parameter set; `None` if the portable backend cannot make one.
    pub(crate) fn for_params(params: &ml_dsa::Params) -> Option<&'static DsaCanary> {
        static CANARIES: [OnceBox<DsaCanary>; 3] = [const { OnceBox::new() }; 3];
        let place = match params.algorithm {
            Algorithm::MlDsa44 => &CANARIES[0],
            Algorithm::MlDsa65 => &CANARIES[1],
            Algorithm::MlDsa87 => &CANARIES[2],
            _ => return None,
        };
        let params = ml_dsa::params(params.algorithm)?;
        place.get_or_try_init(|| Self::make(params).map(Box::new).ok_or(())).ok()
    }

    fn make(p: &'static ml_dsa::Params) -> Option<Self> {
        let (mut pk, mut sk) = (vec![0; p.pk_len()], vec![0; p.sk_len()]);
        let (pk_out, seed) = (&mut pk[..], [[0x5c; ml_dsa::SEED_LEN]]);
        run(Operation::Dsa(Dsa::Keygen { params: p, seeds: &seed, pk: pk_out, sk: &mut sk }))?;
        let message = b"a canary of ML-DSA".to_vec();
        let messages = &[Message::Pure { context: &[], message: &message }];
        let mut sig = vec![0; p.sig_len()];
        let (keys, rnd) = (Keys::Fresh(&sk[..]), &[[0; 32]]);
        run(Operation::Dsa(Dsa::Sign { params: p, keys, messages, rnd, sig: &mut sig }))?;
        // A bit of z, which still is in range: another w1'.
        let mut bad_sig = sig.clone();
        bad_sig[p.c_tilde_len] ^= 1;
        // tr comes after two seeds.
        let mut bad_sk = sk.clone();
        bad_sk[2 * ml_dsa::SEED_LEN] ^= 1;
        Some(DsaCanary { seed, pk, sk, bad_sk, message, sig, bad_sig })
    }
}

/// A key pair of SLH-DSA, a message, its deterministic signature, and an invalid signature.
pub(crate) struct SlhCanary {
    pub(crate) sk: Vec<u8>,
    pub(crate) pk: Vec<u8>,
    pub(crate) message: Vec<u8>,
    pub(crate) sig: Vec<u8>,
    pub(crate) bad_sig: Vec<u8>,
}

impl SlhCanary {
    /// The message that the canary signs.
    pub(crate) const MESSAGE: &[u8] = b"a canary of SLH-DSA";

    /// Returns the canary of a parameter set; `None` if this machine's backends cannot make one.
    pub(crate) fn for_params(params: &'static slh_dsa::Params) -> Option<&'static SlhCanary> {
        static CANARIES: [OnceBox<SlhCanary>; 12] = [const { OnceBox::new() }; 12];
        let sets = Algorithm::all().filter_map(slh_dsa::params);
        let (place, _) = CANARIES.iter().zip(sets).find(|(_, set)| *set == params)?;
        place.get_or_try_init(|| Self::make(params).map(Box::new).ok_or(())).ok()
    }

    fn make(p: &'static slh_dsa::Params) -> Option<Self> {
        // The portable backend takes seconds for a signature of a small set.
        let backend = cpus().into_iter().next()?;
        let seeds: Vec<u8> = (0..p.seed_len()).map(|i| 0x3a ^ i as u8).collect();
        let mut keys = [SigningKey::blank(p)];
        let made = Slh::Generate { params: p, seeds: &seeds, keys: &mut keys };
        run_on(&*backend, Operation::Slh(made))?;
        let message = Self::MESSAGE.to_vec();
        let messages = &[Message::Pure { context: &[], message: &message }];
        let mut sig = vec![0; p.sig_len()];
        let (known, opt_rand) = (Keys::Known(&[&keys[0]][..]), None);
        let made = Slh::Sign { params: p, keys: known, messages, opt_rand, sig: &mut sig };
        run_on(&*backend, Operation::Slh(made))?;
        // The last node of the path to PK.root.
        let mut bad_sig = sig.clone();
        *bad_sig.last_mut()? ^= 1;
        let (sk, pk) = (keys[0].bytes().to_vec(), keys[0].verify_key().bytes().to_vec());
        Some(SlhCanary { sk, pk, message, sig, bad_sig })
    }
}

/// Runs one lane on the portable backend.
fn run(operation: Operation<'_>) -> Option<()> {
    run_on(&Cpu::new(Portable), operation)
}

fn run_on(backend: &dyn Backend, operation: Operation<'_>) -> Option<()> {
    let mut status = [Status::NotRun];
    let mut batch = Batch { operation, status: &mut status };
    let ran = backend.run(&mut batch);
    (ran == BatchOutcome::Done && status[0].is_ok()).then_some(())
}
