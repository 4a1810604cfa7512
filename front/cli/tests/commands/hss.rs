//! HSS and XMSS on the command line: certificates and keys of RFC 9802, raw keys, refusals.

use std::path::Path;

use crate::harness::{Work, vectors};

/// The content of a DER structure that begins here, and what stands behind it.
fn structure(der: &[u8]) -> (&[u8], &[u8]) {
    let (len, head) = match der[1] {
        len @ 0..0x80 => (usize::from(len), 2),
        count => {
            let count = usize::from(count & 0x7f);
            let len = der[2..2 + count].iter().fold(0, |len, byte| len << 8 | usize::from(*byte));
            (len, 2 + count)
        }
    };
    (&der[head..head + len], &der[head + len..])
}

fn from_pem(path: &Path) -> Vec<u8> {
    let text = std::fs::read_to_string(path).unwrap();
    let is_line = |line: &&str| !line.starts_with("-----");
    let bits = text.lines().skip_while(is_line).skip(1).take_while(is_line).flat_map(str::bytes);
    let value = |byte| match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let values: Vec<u8> = bits.filter(|byte| *byte != b'=').map(value).collect();
    let group = |four: &[u8]| {
        let bits = four.iter().fold(0u32, |bits, six| bits << 6 | u32::from(*six));
        let bits = bits << (6 * (4 - four.len()));
        bits.to_be_bytes()[1..four.len()].to_vec()
    };
    values.chunks(4).flat_map(group).collect()
}

/// The examples of RFC 9802 sign themselves.
#[test]
fn certificates_of_rfc_9802_verify() {
    let Some(folder) = vectors("lamps/shbs") else { return };
    for (file, algorithm) in [("hss_cert.pem", "HSS"), ("xmss_cert.pem", "XMSS")] {
        let work = Work::new();
        let der = from_pem(&folder.join(file));
        work.write("cert", &der);
        let (certificate, _) = structure(&der);
        let (tbs, behind) = structure(certificate);
        let signed = &certificate[..certificate.len() - behind.len()];
        let (bits, _) = structure(structure(behind).1);
        // Behind the number of unused bits.
        let signature = &bits[1..];
        work.write("tbs", signed);
        work.write("sig", signature);
        assert!(tbs.len() < signed.len());
        let verify = ["verify", "--key", "cert", "--sig", "sig", "tbs"];
        let of_hbs = ["hbs", "verify", "--key", "cert", "--sig", "sig", "tbs"];
        work.gabion(&verify).ok();
        assert!(work.gabion(&of_hbs).ok().text().contains(algorithm));
        work.write("tbs", tbs);
        work.gabion(&verify).fails(1);
        work.write("tbs", signed);
        for len in [0, 4, signature.len() - 1] {
            work.write("sig", &signature[..len]);
            work.gabion(&verify).fails(1);
            work.gabion(&of_hbs).fails(1);
        }
        let private = ["sign", "--key", "cert", "--out", "out", "tbs"];
        work.gabion(&private).fails(2).says("private key");
    }
}

/// liboqs's vector: the number of its set belongs to a different set in the other scheme, so the
/// set is not guessed.
#[test]
fn raw_keys_of_xmss_need_a_name() {
    let Some(folder) = vectors("liboqs/xmss") else { return };
    let text = std::fs::read_to_string(folder.join("XMSS-SHA2_10_256.rsp")).unwrap();
    let field = |name: &str| {
        base16ct::mixed::decode_vec(
            text.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim(),
        )
        .unwrap()
    };
    let work = Work::new();
    let key = field("pk = ");
    work.write("key", &key);
    work.write("message", field("msg = "));
    work.write("sig", field("sm = "));
    for command in [&["verify"][..], &["hbs", "verify"]] {
        let with = |algorithm: &str| {
            let rest = ["--algorithm", algorithm, "--key", "key", "--sig", "sig", "message"];
            work.gabion(&[command, &rest].concat())
        };
        with("XMSS").ok();
        with("xmssmt").fails(1);
        with("HSS").fails(2).says("tree's set is unknown");
    }
    let unnamed = ["hbs", "verify", "--key", "key", "--sig", "sig", "message"];
    work.gabion(&unnamed).fails(2).says("tree's set is unknown");
    let named = ["verify", "--algorithm", "XMSS", "--key", "key", "--sig", "sig", "message"];
    for (bytes, says) in [
        ([&[0, 0, 0, 22], &key[4..]].concat(), "set is unknown"),
        (key[..67].to_vec(), "length is not that of its set"),
        (key[..3].to_vec(), "ends within the number"),
    ] {
        work.write("key", bytes);
        work.gabion(&named).fails(2).says("key").says(says);
    }
}

#[test]
fn raw_keys_say_what_is_wrong_with_them() {
    let Some(folder) = vectors("botan") else { return };
    let text = std::fs::read_to_string(folder.join("hss_lms_verify.vec")).unwrap();
    let field = |name: &str| -> Vec<u8> {
        let digits = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
        (0..digits.len()).step_by(2).map(byte).collect()
    };
    let work = Work::new();
    let key = field("PublicKey = ");
    work.write("key", &key);
    work.write("message", field("Msg = "));
    work.write("sig", field("Signature = "));
    let verify = ["verify", "--algorithm", "HSS", "--key", "key", "--sig", "sig", "message"];
    work.gabion(&verify).ok();
    let with = |at: usize, byte: u8, says: &str| {
        let mut key = key.clone();
        key[at] = byte;
        work.write("key", &key);
        work.gabion(&verify).fails(2).says("key").says(says);
    };
    with(3, 0, "levels is not 1 to 8");
    with(3, 9, "levels is not 1 to 8");
    with(7, 4, "its tree's set is unknown");
    with(11, 17, "one-time signatures' set is unknown");
    with(11, 5, "not of one hash function");
    work.write("key", &key[..59]);
    work.gabion(&verify).fails(2).says("too short");
    work.write("key", [&key[..], b"x"].concat());
    work.gabion(&verify).fails(2).says("bytes follow");
}

/// Keys and signatures of one tree in their own encoding, with and without the word that HSS has in front.
#[test]
fn bare_keys_and_signatures_are_told_by_their_lengths() {
    let Some(folder) = vectors("acvp/LMS-sigVer-SP800-208") else { return };
    let read = |name: &str| -> serde_json::Value {
        serde_json::from_slice(&std::fs::read(folder.join(name)).unwrap()).unwrap()
    };
    let (prompt, expected) = (read("prompt.json"), read("expectedResults.json"));
    let group = &prompt["testGroups"][0];
    let passes = |test: &&serde_json::Value| test["testPassed"] == true;
    let good = expected["testGroups"][0]["tests"].as_array().unwrap().iter().find(passes).unwrap();
    let is_good = |test: &&serde_json::Value| test["tcId"] == good["tcId"];
    let test = group["tests"].as_array().unwrap().iter().find(is_good).unwrap();
    let bytes =
        |value: &serde_json::Value| base16ct::mixed::decode_vec(value.as_str().unwrap()).unwrap();
    let (key, signature) = (bytes(&group["publicKey"]), bytes(&test["signature"]));
    let work = Work::new();
    work.write("message", bytes(&test["message"]));
    for key in [key.clone(), [&[0, 0, 0, 1], &key[..]].concat()] {
        work.write("key", key);
        for signature in [signature.clone(), [&[0; 4], &signature[..]].concat()] {
            work.write("sig", &signature);
            let verify = ["hbs", "verify", "--key", "key", "--sig", "sig", "message"];
            work.gabion(&verify).ok();
            for bad in [
                &signature[1..],
                &signature[..signature.len() - 1],
                &[&signature[..], b"x"].concat(),
            ] {
                work.write("sig", bad);
                work.gabion(&verify).fails(1);
            }
        }
    }
    work.gabion(&["keygen", "ML-DSA-44", "--out", "other"]).ok();
    let other = ["hbs", "verify", "--key", "other", "--sig", "sig", "message"];
    work.gabion(&other).fails(2).says("ML-DSA-44").says("HSS");
}

#[test]
fn every_set_has_its_row() {
    let work = Work::new();
    let rows = work.gabion(&["hbs", "params", "--json"]).ok().json();
    let rows = rows.as_array().unwrap();
    assert_eq!(rows.len(), 80 + 21 + 56);
    let row = rows.iter().find(|row| row["set"] == "LMS_SHA256_M32_H5_W8").unwrap();
    assert_eq!((&row["signature"], &row["signatures"]), (&1296.into(), &32.into()));
    let row = rows.iter().find(|row| row["set"] == "XMSSMT-SHA2_40/4_256").unwrap();
    assert_eq!((&row["signature"], &row["signatures"]), (&9893.into(), &(1u64 << 40).into()));
    let is_time = |row: &serde_json::Value, name: &str| row[name].as_f64().unwrap() > 0.0;
    assert!(rows.iter().all(|row| is_time(row, "verify_s")));
    // Sets of SP 800-208 make keys; the seven others of XMSS and XMSS^MT with three and eight heights do not.
    let (makes, others): (Vec<_>, Vec<_>) = rows.iter().partition(|row| row["sign_s"].is_f64());
    assert!(makes.iter().all(|row| is_time(row, "keygen_s") && is_time(row, "sign_s")));
    assert!(others.len() == 3 * 11 && others.iter().all(|row| row["keygen_s"].is_null()));
    let table = work.gabion(&["hbs", "params"]).ok().text();
    assert!(
        table.contains("LMS_SHAKE_M24_H25_W1") && table.lines().count() == 1 + rows.len(),
        "{table}"
    );
}

#[test]
fn no_ordinary_key_is_made() {
    let work = Work::new();
    let made = work.gabion(&["keygen", "HSS", "--out", "key"]).fails(2);
    made.says("gabion hbs keygen");
    let made = work.gabion(&["keygen", "LMS_SHA256_M32_H5_W8", "--out", "key"]).fails(2);
    made.says("gabion hbs keygen");
    assert!(work.names().is_empty());
}
