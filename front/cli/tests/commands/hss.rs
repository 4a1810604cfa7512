//! HSS on the command line: certificates and keys of RFC 9802, raw keys, refusals.

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

/// The example of RFC 9802 signs itself.
#[test]
fn a_certificate_of_rfc_9802_verifies() {
    let Some(folder) = vectors("lamps/shbs") else { return };
    let work = Work::new();
    let der = from_pem(&folder.join("hss_cert.pem"));
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
    work.gabion(&verify).ok();
    work.write("tbs", tbs);
    work.gabion(&verify).fails(1);
    work.write("tbs", signed);
    for len in [0, 4, signature.len() - 1] {
        work.write("sig", &signature[..len]);
        work.gabion(&verify).fails(1);
    }
    let private = ["sign", "--key", "cert", "--out", "out", "tbs"];
    work.gabion(&private).fails(2).says("private key");
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

#[test]
fn no_ordinary_key_is_made() {
    let work = Work::new();
    let made = work.gabion(&["keygen", "HSS", "--out", "key"]).fails(2);
    made.says("HSS can't generate signing keys").says("only verified");
    assert!(work.names().is_empty());
}
