//! Ciphertexts of every KEM, alone and in a batch.

use gabion_engine::{Algorithm, Family, Kind, Status};

use super::fixtures::{self, agreed, engine, verdict};
use super::input::{Input, with_every_algorithm};

fn choices() -> Vec<Algorithm> {
    fixtures::algorithms(|kind, _| kind == Kind::Kem)
}

/// Every algorithm: its own ciphertext, one bit changed, too short, too long, edges of numbers, in
/// different lanes.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = with_every_algorithm(
        &choices(),
        &[&[0, 8, 0, 3], &[1, 0, 5, 0, 1, 2, 0], &[1, 3, 9, 0, 0], &[1, 4, 0, 0, 1], &[1, 7, 0]],
    );
    for edge in 0..6 {
        seeds.extend(with_every_algorithm(&choices(), &[&[1, 5, 64, 4, edge, 16, 0, 15]]));
    }
    seeds
}

/// A ciphertext gives one secret, alone and in any lane, with any backend, and its neighbours theirs;
/// a lane that is refused is zero. Of ML-KEM no other ciphertext gives the known secret.
pub fn run(data: &[u8]) {
    let mut input = Input::new(data);
    let known = input.known(&choices());
    let algorithm = known.algorithm;
    let ct = input.edited(&known.output);
    let lanes = 1 + input.below(18);
    let at = input.below(lanes);
    let key = engine().kem_private(algorithm, &known.private).expect("a known key");

    let single = agreed(|engine| engine.decaps(&key, &ct));
    let gives_known = single.as_ref().is_ok_and(|shared| shared[..] == known.shared);
    if ct == known.output {
        assert!(gives_known, "{algorithm}: its own ciphertext");
    } else if algorithm.info().family == Family::MlKem {
        assert!(!gives_known, "{algorithm}: a second ciphertext of one secret");
    }
    if ct.len() != known.output.len() {
        assert_eq!(verdict(&single), Status::InvalidInput, "{algorithm}: a length");
        return;
    }

    let mut all = known.output.repeat(lanes);
    all[at * ct.len()..][..ct.len()].copy_from_slice(&ct);
    let mut shared = vec![9; lanes * known.shared.len()];
    let mut status = vec![Status::NotRun; lanes];
    engine()
        .decaps_many(&vec![&key; lanes], &all, &mut shared, &mut status)
        .expect("the arrays fit");
    for (lane, given) in shared.chunks_exact(known.shared.len()).enumerate() {
        match &single {
            _ if lane != at => assert_eq!(given, known.shared, "{algorithm}: lane {lane}"),
            Ok(secret) => assert_eq!(given, &secret[..], "{algorithm}: lane {lane}"),
            Err(_) => assert!(given.iter().all(|&byte| byte == 0), "{algorithm}: not zero"),
        }
        assert_eq!(status[lane].is_ok(), lane != at || single.is_ok(), "{algorithm}: lane {lane}");
    }
}
