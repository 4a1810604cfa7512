//! Input of inventories: certificates, files with keys, CBOMs and results of probes.
//!
//! The first byte says which.

use gabion_cli::keys::{self, der};
use gabion_engine::Algorithm;
use gabion_probe::algorithm::is_post_quantum;
use gabion_probe::cbom::{Cbom, diff};
use gabion_probe::certificate::Certificate;
use gabion_probe::inventory::{Kind, inspect};
use gabion_probe::report::{ChainEntry, Report};
use gabion_probe::time::parse_rfc3339;
use serde_json::Value;

use super::fixtures;

/// A self-signed certificate of Ed25519 with alternative names.
const CERTIFICATE: &str = "\
3082019330820145a0030201020214779a4d7983fd25d7d622a5feecc325212372d921300506032b65703030310b300906\
0355040613024154310d300b060355040a0c04612c20623112301006035504030c09612e6578616d706c653020170d3236\
313133303138353135395a180f32313039303131393138353135395a3030310b3009060355040613024154310d300b0603\
55040a0c04612c20623112301006035504030c09612e6578616d706c65302a300506032b6570032100b75a49559531d067\
af33b25f1282ccfb45a796350ba0f73fa66280814da36c79a36f306d301d0603551d0e041604141a2190cb21e2aeca48f9\
c2a47db0c877b3847cfa301f0603551d230418301680141a2190cb21e2aeca48f9c2a47db0c877b3847cfa300f0603551d\
130101ff040530030101ff301a0603551d11041330118209612e6578616d706c658704c0000201300506032b6570034100\
1764579c7acd8763b83d65c28c0769c5a48b9f37a7eb2ae813c1f15bcd4aabdabf461451f094deec8d870eae25096caf13\
f66192126809a52cade59dadaec606";

/// An OpenSSH public key.
const SSH: &str =
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f";

/// The result of a probe.
const REPORT: &str = r#"{"target":"a:1","version":"TLSv1.3","group":"X25519MLKEM768","key_exchange":
    {"post_quantum":true,"algorithm":"X25519MLKEM768","why":"","fix":[]},"chain":[{"subject":"CN=a",
    "issuer":"CN=a","key":"ML-DSA-65","signature":"ML-DSA-65","not_before":"2020-01-01T00:00:00Z",
    "not_after":"2030-01-01T00:00:00Z","sha256":"00","key_sha256":"01"}]}"#;

/// Time of the comparisons.
const NOW: i64 = 1_800_000_000;

/// A certificate, files of several forms, a CBOM and a report.
pub fn seeds() -> Vec<Vec<u8>> {
    let certificate = crate::vectors::unhex(CERTIFICATE);
    let mut files = vec![certificate.clone(), SSH.as_bytes().to_vec()];
    for algorithm in [Algorithm::MlDsa44, Algorithm::EcdsaP256, Algorithm::Ed25519] {
        let known = fixtures::of(algorithm);
        let form = keys::file_form(algorithm).expect("it has a file format");
        for as_der in [false, true] {
            files.push(der::encode_public(form, &known.public, as_der).expect("it encodes"));
        }
    }
    let mut seeds = vec![[&[0], &certificate[..]].concat()];
    seeds.extend(files.iter().map(|file| [&[1], &file[..]].concat()));
    let report: Report = serde_json::from_str(REPORT).expect("it is a report");
    let mut cbom = Cbom::new();
    cbom.add_report(&report);
    seeds.push([&[2], cbom.to_json(NOW, "1").to_string().as_bytes()].concat());
    seeds.push([&[3], REPORT.as_bytes()].concat());
    seeds
}

/// A certificate is read the same way everywhere; a document has no difference to itself.
pub fn run(data: &[u8]) {
    let Some((&which, data)) = data.split_first() else { return };
    match which {
        0 => {
            if let Ok(certificate) = Certificate::parse(data) {
                check_certificate(&certificate, data);
            }
        }
        1 => {
            let content = inspect(data);
            assert!(content.damaged.len() <= 10);
            for entry in content.entries {
                assert_eq!(entry.kind == Kind::Certificate, entry.certificate.is_some());
                assert!(entry.algorithm.is_some() || entry.is_encrypted);
            }
        }
        2 => {
            if let Ok(document) = serde_json::from_slice::<Value>(data) {
                check_document(&document);
            }
        }
        _ => {
            if let Ok(report) = serde_json::from_slice::<Report>(data) {
                let mut cbom = Cbom::new();
                assert_eq!(cbom.add_report(&report), !cbom.is_empty());
                check_document(&cbom.to_json(NOW, "1"));
            }
        }
    }
}

fn check_certificate(certificate: &Certificate, der: &[u8]) {
    assert!(certificate.subject.len() <= 4 * der.len());
    let (key, signature) = (&certificate.key, &certificate.signature);
    assert_eq!(key.is_post_quantum, is_post_quantum(&key.name), "{certificate:?}");
    assert_eq!(signature.is_post_quantum, is_post_quantum(&signature.name), "{certificate:?}");
    let entry = ChainEntry::from(certificate);
    assert_eq!(parse_rfc3339(&entry.not_before), Some(certificate.not_before));
    assert_eq!(parse_rfc3339(&entry.not_after), Some(certificate.not_after));
    let [listed] = &inspect(der).entries[..] else { panic!("{certificate:?} is not listed") };
    assert_eq!(listed.certificate.as_ref(), Some(certificate));
}

fn check_document(document: &Value) {
    if let Ok(found) = diff(document, document, NOW, 30) {
        assert!(found.became_classical.is_empty() && found.new_classical.is_empty());
        assert!(found.changed.is_empty() && found.removed.is_empty());
    }
}
