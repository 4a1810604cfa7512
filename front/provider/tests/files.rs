//! Keys in files and certificates: read by our decoders, written by our encoders where OpenSSL has
//! none, and refused where they are damaged.

// A panic is how a test fails, in the helpers too.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod common;

use std::path::Path;

use common::libcrypto::{Context, Params, Written};
use common::{KEMS, LIB, OURS, Place, SIGNATURES, Side};

/// One of each kind that OpenSSL lacks, each with its own form of private key.
const ONLY_OURS: [&str; 6] = [
    "Falcon-512",
    "Falcon-padded-1024",
    "MLDSA44-Ed25519-SHA512-draft19",
    "MLDSA65-ECDSA-P256-SHA512-draft19",
    "HashML-DSA-44-with-SHA512",
    "HashSLH-DSA-SHA2-128f-with-SHA256",
];

/// What OpenSSL prints for the object identifier of an algorithm.
fn printed(name: &str) -> String {
    match name.strip_prefix("Hash") {
        Some(rest) if rest.starts_with("ML-DSA") => format!("HASH-{}", rest.to_uppercase()),
        Some(rest) => rest.replace("-with-", "-WITH-"),
        None => name.to_owned(),
    }
}

/// Keys of these are made in microseconds or a few milliseconds.
const QUICK: [&str; 11] = [
    "ML-KEM-512",
    "ML-KEM-768",
    "ML-KEM-1024",
    "ML-DSA-44",
    "ML-DSA-87",
    "SLH-DSA-SHA2-128f",
    "Falcon-512",
    "Falcon-padded-1024",
    "MLDSA44-Ed25519-SHA512-draft19",
    "MLDSA65-ECDSA-P384-SHA512-draft19",
    "HashML-DSA-65-with-SHA512",
];

fn ours() -> (Place, Context) {
    let place = Place::new();
    let context = Context::with_config(&LIB, &place.path("gabion.cnf"));
    (place, context)
}

#[test]
fn keys_that_come_out_of_files_are_ours() {
    let (place, context) = ours();
    for name in KEMS.iter().chain(&SIGNATURES).chain(&ONLY_OURS) {
        let key = context.generate(name, OURS, &Params::default()).expect(name);
        for what in [Written::Public, Written::Private] {
            let der = key.write(what).unwrap_or_else(|| panic!("{name}: {}", LIB.last_error()));
            let read = context.read(what, &der);
            let read = read.unwrap_or_else(|| panic!("{name}: {}", LIB.last_error()));
            assert_eq!(read.provider(), "gabion", "{name} {what:?}");
            // SAFETY: live keys.
            assert_eq!(unsafe { (LIB.EVP_PKEY_eq)(key.raw, read.raw) }, 1, "{name} {what:?}");
            assert_eq!(read.write(what).as_ref(), Some(&der), "{name} {what:?}");
            assert_eq!(read.part("priv").is_some(), what == Written::Private);
        }
    }
    drop(place);
}

/// Everything that is cut off or has grown is refused, at many lengths; what has a bit turned is
/// refused or is the key that stands there.
#[test]
fn damaged_structures_give_no_key() {
    let (_place, context) = ours();
    let mut refused = 0;
    for name in QUICK {
        let key = context.generate(name, OURS, &Params::default()).expect(name);
        for what in [Written::Public, Written::Private] {
            let der = key.write(what).unwrap();
            // The head of the structure at every length; then one length of 29.
            for len in (0..der.len()).filter(|len| *len < 80 || len % 29 == 0) {
                assert!(context.read(what, &der[..len]).is_none(), "{name} {what:?} {len}");
                refused += 1;
            }
            let longer = [&der[..], &[0]].concat();
            assert!(context.read(what, &longer).is_none(), "{name} {what:?}");
            for at in (0..der.len()).filter(|at| *at < 60 || at % 101 == 0) {
                let mut turned = der.clone();
                turned[at] ^= 1 << (at % 8);
                let Some(read) = context.read(what, &turned) else { continue };
                let same = read.write(what);
                assert_eq!(same, Some(turned), "{name} {what:?}: byte {at}");
            }
            // A key one byte shorter or longer, in a structure that says so.
            for longer in [false, true] {
                let der = resized(&der, longer);
                assert!(context.read(what, &der).is_none(), "{name} {what:?} {longer}");
                refused += 1;
            }
        }
    }
    assert!(refused > 2000, "{refused}");
}

/// The structure with a byte more or less at its end, and the lengths around it to match.
fn resized(der: &[u8], longer: bool) -> Vec<u8> {
    let mut out = der.to_vec();
    if longer {
        out.push(7)
    } else {
        out.truncate(der.len() - 1)
    }
    // Every element that reaches to the end: its length stands in the two bytes before its content.
    let end = der.len();
    for at in 0..60.min(end - 4) {
        let long = der[at + 1] == 0x82 && {
            let len = usize::from(u16::from_be_bytes([der[at + 2], der[at + 3]]));
            at + 4 + len == end
        };
        let short = der[at + 1] < 0x80 && at + 2 + usize::from(der[at + 1]) == end;
        let is_tag = [0x30, 0x04, 0x03].contains(&der[at]);
        if is_tag && long {
            let len = u16::from_be_bytes([der[at + 2], der[at + 3]]);
            let len = if longer { len + 1 } else { len - 1 };
            out[at + 2..at + 4].copy_from_slice(&len.to_be_bytes());
        } else if is_tag && short {
            out[at + 1] = if longer { der[at + 1] + 1 } else { der[at + 1] - 1 };
        }
    }
    out
}

#[test]
fn keys_of_algorithms_that_openssl_lacks_are_written_and_read() {
    let place = Place::new();
    let openssl = |words: &str| place.openssl(Side::Gabion, words);
    for name in ONLY_OURS {
        openssl(&format!("genpkey -algorithm {name} -out key.pem"));
        openssl("pkey -in key.pem -pubout -out pub.pem");
        openssl("pkey -in key.pem -outform DER -out key.der");
        openssl("pkey -in key.der -inform DER -out again.pem");
        assert_eq!(place.bytes("key.pem"), place.bytes("again.pem"), "{name}");
        openssl("pkey -in key.pem -check -noout");
        let text = openssl("pkey -in key.pem -noout -text");
        assert!(text.starts_with(&format!("{name} Private-Key:\n")), "{text}");
        assert!(text.contains("\npriv:\n    ") && text.contains("\npub:\n    "), "{text}");
        let text = openssl("pkey -pubin -in pub.pem -noout -text_pub");
        assert!(text.starts_with(&format!("{name} Public-Key:\npub:\n    ")), "{text}");
        assert!(!text.contains("priv"), "{text}");
        // Encrypted, it opens with the password and no other, and holds no key in the clear.
        openssl("pkey -in key.pem -aes256 -passout pass:open -out locked.pem");
        let locked = String::from_utf8(place.bytes("locked.pem")).unwrap();
        assert!(locked.starts_with("-----BEGIN ENCRYPTED PRIVATE KEY-----"), "{locked}");
        openssl("pkey -in locked.pem -passin pass:open -out again.pem");
        assert_eq!(place.bytes("key.pem"), place.bytes("again.pem"), "{name}");
        place.openssl_refuses(Side::Gabion, "pkey -in locked.pem -passin pass:closed -noout");
        let _ = std::fs::remove_file(place.path("no.pem"));
        let words = "pkey -in key.pem -aria256 -passout pass:open -out no.pem";
        place.openssl_refuses(Side::Gabion, words);
        let written = std::fs::read(place.path("no.pem")).unwrap_or_default();
        assert!(written.is_empty(), "{name}: a cipher that is not there must not mean no cipher");
    }
}

#[test]
fn certificates_requests_lists_and_messages_of_what_openssl_lacks() {
    let place = Place::new();
    let openssl = |words: &str| place.openssl(Side::Gabion, words);
    std::fs::write(place.path("message"), b"a message").unwrap();
    std::fs::write(place.path("ca.cnf"), CA_CONFIG).unwrap();
    for name in ONLY_OURS {
        for (file, text) in [("index.txt", ""), ("serial", "01\n"), ("crlnumber", "01\n")] {
            std::fs::write(place.path(file), text).unwrap();
        }
        openssl(&format!(
            "req -x509 -newkey {name} -noenc -keyout ca.key -out ca.pem -subj /CN=ca -days 2"
        ));
        openssl(&format!(
            "req -newkey {name} -noenc -keyout leaf.key -out leaf.csr -subj /CN=leaf"
        ));
        let text = openssl("req -in leaf.csr -verify -noout -text");
        assert!(text.contains(&format!("Public Key Algorithm: {}", printed(name))), "{text}");
        // Without a file of extensions OpenSSL 4.0 takes the head of the configuration for one.
        std::fs::write(place.path("leaf.ext"), "basicConstraints = CA:FALSE\n").unwrap();
        openssl(
            "x509 -req -in leaf.csr -CA ca.pem -CAkey ca.key -days 2 -extfile leaf.ext -out leaf.pem",
        );
        openssl("verify -CAfile ca.pem leaf.pem");
        let text = openssl("x509 -in leaf.pem -noout -text");
        assert_eq!(
            text.matches(&format!("Signature Algorithm: {}", printed(name))).count(),
            2,
            "{text}"
        );
        openssl("ca -config ca.cnf -batch -in leaf.csr -out issued.pem -notext");
        openssl("verify -CAfile ca.pem issued.pem");
        openssl("ca -config ca.cnf -revoke issued.pem");
        openssl("ca -config ca.cnf -gencrl -out crl.pem");
        openssl("crl -in crl.pem -CAfile ca.pem -noout -verify");
        let checked = "verify -crl_check -CRLfile crl.pem -CAfile ca.pem issued.pem";
        let text = place.openssl_refuses(Side::Gabion, checked);
        assert!(text.contains("certificate revoked"), "{text}");
        // CMS names a digest beside the signature, and hashes the content with it (RFC 5652).
        openssl(
            "cms -sign -md sha512 -in message -nodetach -binary -signer leaf.pem -inkey leaf.key \
             -outform DER -out signed",
        );
        openssl("cms -verify -inform DER -in signed -CAfile ca.pem -purpose any -out opened");
        assert_eq!(place.bytes("opened"), b"a message");
        let mut damaged = place.bytes("signed");
        let at = damaged.len() - 20;
        damaged[at] ^= 1;
        std::fs::write(place.path("damaged"), damaged).unwrap();
        let words = "cms -verify -inform DER -in damaged -CAfile ca.pem -purpose any -out opened";
        place.openssl_refuses(Side::Gabion, words);
    }
}

const CA_CONFIG: &str = "[ca]\ndefault_ca = here\n[here]\ndatabase = index.txt\nserial = serial\n\
    crlnumber = crlnumber\nnew_certs_dir = .\ncertificate = ca.pem\nprivate_key = ca.key\n\
    default_md = default\ndefault_days = 2\ndefault_crl_days = 2\npolicy = any\nunique_subject = no\n\
    [any]\ncommonName = supplied\n";

/// A file of the published vectors; none where they are not beside the checkout.
fn vectors() -> Option<std::path::PathBuf> {
    let root =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/vectors/pqc-certificates");
    root.is_dir().then_some(root)
}

/// Trust anchors that other people made: each verifies itself, or is of an algorithm that is not
/// served here. The private keys beside those that verify are theirs.
#[test]
fn trust_anchors_of_others_verify() {
    let Some(root) = vectors() else {
        return;
    };
    let place = Place::new();
    let (mut verified, mut others, mut keys) = (Vec::new(), Vec::new(), 0);
    for folder in ["bc", "ossl35"] {
        let mut names: Vec<String> = std::fs::read_dir(root.join(folder))
            .unwrap()
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.ends_with("_ta.der"))
            .collect();
        names.sort();
        for name in &names {
            let file = root.join(folder).join(name);
            std::fs::copy(&file, place.path("ta.der")).unwrap();
            place.openssl(Side::Gabion, "x509 -inform DER -in ta.der -out ta.pem");
            let words = "verify -check_ss_sig -no_check_time -CAfile ta.pem ta.pem";
            let output = place.command(Side::Gabion, words).output().unwrap();
            let label = format!("{folder}/{name}");
            match output.status.success() {
                true => {
                    keys += private_keys_of(&place, &root.join(folder), name);
                    verified.push(label);
                }
                false => others.push(format!("{label}: {}", common::all_text(&output))),
            }
        }
    }
    // Composites with Ed448 or a brainpool curve are not in the table of algorithms.
    let lacking = ["brainpool", "Ed448"];
    let unexplained: Vec<&String> =
        others.iter().filter(|text| !lacking.iter().any(|word| text.contains(word))).collect();
    assert!(unexplained.is_empty(), "{unexplained:#?}\nverified: {verified:#?}");
    println!("verified: {verified:#?}\nnot served: {others:#?}");
    assert_eq!((verified.len(), others.len(), keys), (44, 3, 60));
}

/// Reads every private key that stands beside `ta.der`; its public key is the certificate's. Those
/// of Falcon are BouncyCastle's own structure, a SEQUENCE of f, g and F, which is not read.
fn private_keys_of(place: &Place, folder: &Path, anchor: &str) -> usize {
    let stem = anchor.strip_suffix("ta.der").unwrap();
    place.openssl(Side::Gabion, "x509 -in ta.pem -noout -pubkey -out public.pem");
    place.openssl(Side::Gabion, "pkey -pubin -in public.pem -pubout -outform DER -out public.der");
    let mut read = 0;
    for file in std::fs::read_dir(folder).unwrap() {
        let file = file.unwrap();
        let name = file.file_name().into_string().unwrap();
        let is_of_anchor = name.starts_with(stem) && name.ends_with("priv.der");
        if !is_of_anchor || name.starts_with("falcon") {
            continue;
        }
        std::fs::copy(file.path(), place.path("private.der")).unwrap();
        let words = "pkey -inform DER -in private.der -pubout -outform DER -out derived.der";
        place.openssl(Side::Gabion, words);
        assert_eq!(place.bytes("derived.der"), place.bytes("public.der"), "{name}");
        read += 1;
    }
    read
}

/// What the default provider is told about reading keys still counts, as much as it does without us:
/// 3.5 and 3.6 do as they are told, 4.0.3 shows the seed all the same.
#[test]
fn parameters_of_the_default_decoders_still_count() {
    let place = Place::new();
    for (name, family) in [("ML-DSA-44", "ml-dsa"), ("ML-KEM-512", "ml-kem")] {
        place.openssl(Side::Gabion, &format!("genpkey -algorithm {name} -out key.pem"));
        let text = place.openssl(Side::Gabion, "pkey -in key.pem -noout -text");
        assert!(text.contains("seed:"), "{text}");
        let words = format!("pkey -in key.pem -noout -text -provparam {family}.retain_seed=no");
        let [ours, stock] = [Side::Gabion, Side::Stock].map(|side| place.openssl(side, &words));
        assert!(ours.contains(name), "{ours}");
        assert_eq!(ours.contains("seed:"), stock.contains("seed:"), "{ours}");
        let words = format!("pkey -in key.pem -noout -provparam {family}.input_formats=priv-only");
        let reads = |side| place.command(side, &words).output().unwrap().status.success();
        assert_eq!(reads(Side::Gabion), reads(Side::Stock), "{name}");
    }
}

/// A certificate and its private key, each read by another provider, are held to belong together.
#[test]
fn a_certificate_matches_its_private_key_whoever_read_it() {
    let place = Place::new();
    for (name, other) in [("ML-DSA-65", "ML-DSA-65"), ("ML-DSA-44", "ML-DSA-87")] {
        let words = format!("req -x509 -newkey {name} -noenc -keyout key.pem -out cert.pem");
        place.openssl(Side::Gabion, &format!("{words} -subj /CN=x -days 2"));
        place.openssl(Side::Gabion, &format!("genpkey -algorithm {other} -out other.pem"));
        // PKCS#12 holds a certificate against its key.
        let pack = "pkcs12 -export -passout pass:x -in cert.pem -out bag.p12 -inkey";
        place.openssl(Side::Gabion, &format!("{pack} key.pem"));
        place.openssl_refuses(Side::Gabion, &format!("{pack} other.pem"));
        place.openssl(Side::Gabion, "pkcs12 -in bag.p12 -passin pass:x -noenc -out out.pem");
    }
}
