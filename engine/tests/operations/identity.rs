//! The numbers that name keys of a batch: one for each key, whatever its buffers held before.

use std::collections::HashSet;

use gabion_backend::cpus;
use gabion_engine::{
    Algorithm, Backend, Batch, BatchOutcome, Dsa, Ed25519, FnDsa, Kem, Operation, Slh, Status,
    ml_dsa, ml_kem,
};
use gabion_scheme::{ed25519, fn_dsa, slh_dsa};

fn done<const N: usize>(backend: &dyn Backend, operation: Operation<'_>) {
    let mut status = [Status::NotRun; N];
    assert_eq!(backend.run(&mut Batch { operation, status: &mut status }), BatchOutcome::Done);
    assert_eq!(status, [Status::Ok; N]);
}

/// Every number of a family, each of which has to be new.
struct Numbers(HashSet<u64>);

impl Numbers {
    fn are_new(&mut self, ids: impl IntoIterator<Item = u64>) {
        assert!(ids.into_iter().all(|id| id != 0 && self.0.insert(id)));
    }
}

#[test]
fn a_key_that_is_filled_again_has_another_number() {
    let mut numbers = Numbers(HashSet::new());
    let backend = &*cpus().remove(0);

    let params = ml_kem::params(Algorithm::MlKem512).unwrap();
    let mut pairs = vec![ml_kem::DecapsKey::blank(params); 2];
    let mut public = vec![ml_kem::EncapsKey::blank(params); 2];
    for seed in [1, 2] {
        let (seeds, keys) = (&[[seed; 64]; 2], &mut pairs[..]);
        done::<2>(backend, Operation::Kem(Kem::Generate { params, seeds, keys }));
        numbers.are_new(pairs.iter().map(ml_kem::DecapsKey::id));
        let bytes = pairs[0].encaps_key().bytes().repeat(2);
        let (bytes, keys) = (&bytes[..], &mut public[..]);
        done::<2>(backend, Operation::Kem(Kem::DecodePublic { params, bytes, keys }));
        numbers.are_new(public.iter().map(ml_kem::EncapsKey::id));
        let bytes = pairs[0].bytes().repeat(2);
        let (bytes, keys) = (&bytes[..], &mut pairs[..]);
        done::<2>(backend, Operation::Kem(Kem::DecodePrivate { params, bytes, keys }));
        numbers.are_new(pairs.iter().map(ml_kem::DecapsKey::id));
        assert_eq!(pairs[0].clone().id(), pairs[0].id());
        assert_eq!(pairs[0].encaps_key().clone().id(), pairs[0].id());
    }
    pairs[0].wipe();
    numbers.are_new([pairs[0].id()]);

    let params = ml_dsa::params(Algorithm::MlDsa44).unwrap();
    let mut pairs = [(); 2].map(|()| ml_dsa::SigningKey::blank(params));
    let mut public = [(); 2].map(|()| ml_dsa::VerifyKey::blank(params));
    for seed in [1, 2] {
        let (seeds, keys) = (&[[seed; 32]; 2], &mut pairs[..]);
        done::<2>(backend, Operation::Dsa(Dsa::Generate { params, seeds, keys }));
        numbers.are_new(pairs.iter().map(ml_dsa::SigningKey::id));
        let bytes = pairs[0].verify_key().bytes().repeat(2);
        let (bytes, keys) = (&bytes[..], &mut public[..]);
        done::<2>(backend, Operation::Dsa(Dsa::DecodePublic { params, bytes, keys }));
        numbers.are_new(public.iter().map(ml_dsa::VerifyKey::id));
        let bytes = pairs[0].bytes().repeat(2);
        let (bytes, keys) = (&bytes[..], &mut pairs[..]);
        done::<2>(backend, Operation::Dsa(Dsa::DecodePrivate { params, bytes, keys }));
        numbers.are_new(pairs.iter().map(ml_dsa::SigningKey::id));
    }
}

#[test]
fn keys_of_the_other_families_have_numbers_too() {
    let mut numbers = Numbers(HashSet::new());
    let backend = &*cpus().remove(0);

    let params = slh_dsa::params(Algorithm::SlhDsaSha2_128f).unwrap();
    let mut pair = [slh_dsa::SigningKey::blank(params)];
    let mut public = [slh_dsa::VerifyKey::blank(params)];
    for seed in [1, 2] {
        let (seeds, keys) = (&[seed; 48][..], &mut pair[..]);
        done::<1>(backend, Operation::Slh(Slh::Generate { params, seeds, keys }));
        numbers.are_new([pair[0].id()]);
        assert_eq!(pair[0].verify_key().clone().id(), pair[0].id());
        let bytes = pair[0].verify_key().bytes();
        let keys = &mut public[..];
        done::<1>(backend, Operation::Slh(Slh::DecodePublic { params, bytes, keys }));
        numbers.are_new([public[0].id()]);
    }

    let mut pairs = vec![ed25519::SigningKey::blank(); 2];
    for seed in [1, 2] {
        let (seeds, keys) = (&[[seed; 32]; 2], &mut pairs[..]);
        done::<2>(backend, Operation::Ed25519(Ed25519::Generate { seeds, keys }));
        numbers.are_new(pairs.iter().map(ed25519::SigningKey::id));
        assert_eq!(pairs[1].clone().id(), pairs[1].id());
        let decoded = |pair: &ed25519::SigningKey| {
            ed25519::VerifyKey::decode(ed25519::Rules::Strict, pair.public()).unwrap().id()
        };
        numbers.are_new(pairs.iter().map(decoded));
    }

    let row = gabion_scheme::lms::LMS.first().unwrap();
    let ots = gabion_scheme::lms::LM_OTS
        .iter()
        .find(|ots| (ots.family, ots.n) == (row.family, row.n))
        .unwrap();
    let typecodes = [1, row.typecode, ots.typecode].map(u32::to_be_bytes);
    let encoded = [typecodes.as_flattened(), &[7; 16], &vec![7; row.n]].concat();
    let public = [(); 2].map(|()| gabion_scheme::lms::VerifyKey::decode(&encoded).unwrap());
    numbers.are_new(public.iter().map(|key| key.id()));
    assert_eq!(public[0].clone().id(), public[0].id());

    let params = fn_dsa::params(Algorithm::Falcon512).unwrap();
    let mut pair = [None];
    for seed in [1, 2] {
        let (seeds, keys) = (&[[seed; fn_dsa::SEED_LEN]], &mut pair[..]);
        done::<1>(backend, Operation::FnDsa(FnDsa::Generate { params, seeds, keys }));
        let pair = pair[0].as_ref().unwrap();
        numbers.are_new([pair.id()]);
        assert_eq!(pair.verify_key().id(), pair.id());
        let public = fn_dsa::VerifyKey::decode(params, pair.verify_key().bytes()).unwrap();
        numbers.are_new([public.id()]);
    }
}
