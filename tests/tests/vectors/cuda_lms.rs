//! The kernels for GPUs, on a processor unless the environment names a GPU, against NIST's ACVP vectors of LMS.

// A failed expectation should stop the test.
#![allow(clippy::expect_used)]

use gabion_backend::portable::Portable;
use gabion_backend::{Hss, Operation};
use gabion_scheme::Status;
use gabion_scheme::lms::{Generation, LM_OTS, LMS, Levels, VerifyKey};
use gabion_tests::vectors::{self, AcvpCase, hex, text};

use super::cuda::{cuda, run};

fn cases(folder: &str) -> Vec<AcvpCase> {
    vectors::acvp(folder).unwrap_or_default()
}

/// Keys whose leaves the device makes, and whose root the processor hashes of them.
#[test]
fn keys_of_acvp() {
    for AcvpCase { group, prompt, expected } in cases("LMS-keyGen-1.0") {
        let (lms, ots) = (text(&group["lmsMode"]), text(&group["lmOtsMode"]));
        let lms = LMS.iter().find(|set| set.name == lms).expect("an LMS set");
        let ots = LM_OTS.iter().find(|set| set.name == ots).expect("an LM-OTS set");
        let levels = Levels::new(&[(lms, ots)]).expect("sets that fit each other");
        let id = hex(&prompt["i"]).try_into().expect("16 bytes");
        let mut making = Generation::new(levels, &id, &hex(&prompt["seed"])).expect("a seed");
        let piece = making.span(usize::MAX).expect("a row");
        let nodes = piece.nodes();
        let status = run(cuda(), Operation::Hss(Hss::Nodes { piece }), nodes);
        assert_eq!(status, vec![Status::Ok; nodes]);
        making.close(&Portable, usize::MAX);
        let key = making.finish().expect("a key");
        assert_eq!(key.verify_key().bytes()[4..], hex(&expected["publicKey"]), "{}", lms.name);
    }
}

#[test]
fn signatures_of_acvp() {
    let folders = ["LMS-sigVer-1.0", "LMS-sigVer-SP800-208"];
    let cases: Vec<_> = folders.into_iter().flat_map(cases).collect();
    let keys = cases.iter().map(|case| {
        let key = [&[0, 0, 0, 1], &hex(&case.group["publicKey"])[..]].concat();
        VerifyKey::decode(&key).expect("a key")
    });
    let keys: Vec<_> = keys.collect();
    let messages: Vec<_> = cases.iter().map(|case| hex(&case.prompt["message"])).collect();
    let signatures: Vec<_> =
        cases.iter().map(|case| [&[0; 4], &hex(&case.prompt["signature"])[..]].concat()).collect();
    let expected: Vec<_> = cases
        .iter()
        .map(|case| match case.expected["testPassed"].as_bool().expect("a verdict") {
            true => Status::Ok,
            false => Status::InvalidSignature,
        })
        .collect();
    let keys: Vec<_> = keys.iter().collect();
    let messages: Vec<_> = messages.iter().map(Vec::as_slice).collect();
    let signatures: Vec<_> = signatures.iter().map(Vec::as_slice).collect();
    let (keys, messages, signatures) = (&keys[..], &messages[..], &signatures[..]);
    let verify = Operation::Hss(Hss::Verify { keys, messages, signatures });
    assert_eq!(run(cuda(), verify, cases.len()), expected);
}
