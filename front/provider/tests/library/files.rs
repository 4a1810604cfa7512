//! Keys in files and certificates: read by our decoders, written by our encoders where OpenSSL has
//! none, and refused where they are damaged.

use std::path::Path;

use gabion_engine::key_file::{Forms, OctetForm, Private};
use pkcs8::SecretDocument;

use gabion_provider_testing::libcrypto::{Context, KeyStructure, Params};
use gabion_provider_testing::{BOTH_WAYS, KEMS, LIB, OURS, SIGNATURES, STOCK, Side, TestFolder};

/// One of each kind that OpenSSL lacks, each with its own form of private key.
const ONLY_OURS: [&str; 6] = [
    "Falcon-512",
    "Falcon-padded-1024",
    "MLDSA44-Ed25519-SHA512-draft19",
    "MLDSA65-ECDSA-P256-SHA512-draft19",
    "HashML-DSA-44-with-SHA512",
    "HashSLH-DSA-SHA2-128f-with-SHA256",
];

/// Returns OpenSSL's text for the object identifier of an algorithm.
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

fn ours() -> (TestFolder, Context) {
    let place = TestFolder::new();
    let context = Context::with_config(&LIB, &place.path("gabion.cnf"));
    (place, context)
}

#[test]
fn keys_that_come_out_of_files_are_ours() {
    let (place, context) = ours();
    for name in KEMS.iter().chain(&SIGNATURES).chain(&ONLY_OURS) {
        let key = context.generate(name, OURS, &Params::default()).expect(name);
        for what in [KeyStructure::Public, KeyStructure::Private] {
            let der = key.write(what).unwrap_or_else(|| panic!("{name}: {}", LIB.last_error()));
            let read = context.read(what, &der);
            let read = read.unwrap_or_else(|| panic!("{name}: {}", LIB.last_error()));
            assert_eq!(read.provider(), "gabion", "{name} {what:?}");
            // SAFETY: live keys.
            assert_eq!(unsafe { (LIB.EVP_PKEY_eq)(key.raw, read.raw) }, 1, "{name} {what:?}");
            assert_eq!(read.write(what).as_ref(), Some(&der), "{name} {what:?}");
            assert_eq!(read.part("priv").is_some(), what == KeyStructure::Private);
        }
    }
    drop(place);
}

/// Everything that is cut off or has grown is refused, at many lengths, and at all of them where
/// `GABION_SOAK` is set; what has a bit turned, there in every byte, is refused or is the key that
/// stands there.
#[test]
fn damaged_structures_give_no_key() {
    let (_place, context) = ours();
    let every = std::env::var_os("GABION_SOAK").is_some();
    let mut refused = 0;
    for name in QUICK {
        let key = context.generate(name, OURS, &Params::default()).expect(name);
        for what in [KeyStructure::Public, KeyStructure::Private] {
            let der = key.write(what).unwrap();
            // The head of the structure at every length; then one length of 29.
            for len in (0..der.len()).filter(|len| every || *len < 80 || len % 29 == 0) {
                assert!(context.read(what, &der[..len]).is_none(), "{name} {what:?} {len}");
                refused += 1;
            }
            let longer = [&der[..], &[0]].concat();
            assert!(context.read(what, &longer).is_none(), "{name} {what:?}");
            for at in (0..der.len()).filter(|at| every || *at < 60 || at % 101 == 0) {
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

/// Fields after the private key in PKCS#8 are accepted or rejected as by the default provider;
/// likewise for algorithms that only Gabion has.
#[test]
fn pkcs8_trailing_fields_are_read_as_by_openssl() {
    let (place, context) = ours();
    std::fs::write(place.path("alone.cnf"), "").unwrap();
    let stock = Context::with_config(&LIB, &place.path("alone.cnf"));
    let name = [&b"\x06\x03\x55\x04\x03\x31\x03\x0c\x01x"[..]].concat();
    let attribute = [&[0x30, name.len() as u8], &name[..]].concat();
    let attributes = |content: &[u8]| [&[0xa0, content.len() as u8], content].concat();
    let cases: [(u8, Vec<u8>, bool); 9] = [
        (0, Vec::new(), true),
        (1, Vec::new(), true),
        (2, Vec::new(), false),
        (0, attributes(b""), true),
        (0, attributes(&attribute), true),
        (1, attributes(&[&attribute[..], &attribute].concat()), true),
        (0, attributes(b"\x30\x03\x02\x01\x01"), false),
        (0, attributes(b"\x02\x01\x01"), false),
        (0, b"\x81\x02\x00x".to_vec(), false),
    ];
    for name in QUICK {
        let key = context.generate(name, OURS, &Params::default()).expect(name);
        let der = key.write(KeyStructure::Private).unwrap();
        let head = 2 + usize::from(der[1] & 0x7f) * usize::from(der[1] >= 0x80);
        for (at, (version, behind, is_read)) in cases.iter().enumerate() {
            let mut fields = [&der[head..], behind].concat();
            assert_eq!(fields[..2], [2, 1]);
            fields[2] = *version;
            let len = u16::try_from(fields.len()).unwrap().to_be_bytes();
            let long = [&[0x30, 0x82], &len[..], &fields].concat();
            let der = match len {
                [0, len @ 0..0x80] => [&[0x30, len], &fields[..]].concat(),
                [0, len] => [&[0x30, 0x81, len], &fields[..]].concat(),
                _ => long,
            };
            let read = context.read(KeyStructure::Private, &der).is_some();
            assert_eq!(read, *is_read, "{name}: case {at}");
            if !ONLY_OURS.contains(&name) && !name.starts_with("MLDSA") && !name.starts_with("Hash")
            {
                let read = stock.read(KeyStructure::Private, &der).is_some();
                assert_eq!(read, *is_read, "{name}: case {at} by the default provider");
            }
        }
    }
    LIB.take_errors();
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
    let place = TestFolder::new();
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
    let place = TestFolder::new();
    for name in ONLY_OURS {
        issue_and_verify(&place, name, Side::Gabion, Side::Gabion);
    }
}

/// Objects that one provider issues are accepted by the other, and the counters show that Gabion
/// took part: OpenSSL has these algorithms too, and would silently use its own implementation.
#[test]
fn certificates_requests_lists_and_messages_cross_both_ways() {
    let place = TestFolder::new();
    for (issuer, verifier) in BOTH_WAYS {
        for name in SIGNATURES.iter().chain(&["SLH-DSA-SHA2-128f", "SLH-DSA-SHAKE-128f"]) {
            let count = |operation| place.count(name, operation);
            let before = [count("sign"), count("verify")];
            issue_and_verify(&place, name, issuer, verifier);
            let [signed, verified] =
                [count("sign").0 - before[0].0, count("verify").0 - before[1].0];
            // The issuer signs its own certificate, two others, a list and a message, and verifies
            // two requests. The verifier signs a request and itself, and verifies two certificates,
            // two with the list, the list alone, and a message three times, its chain among it.
            match issuer {
                Side::Gabion => {
                    assert!(signed >= 5 && verified >= 2, "{name}: {signed} {verified}")
                }
                Side::Stock => assert!(signed >= 1 && verified >= 8, "{name}: {signed} {verified}"),
            }
            // A signature that does not verify is no error.
            assert_eq!([count("sign").1, count("verify").1], [0, 0], "{name}");
        }
    }
}

/// A certificate authority with all that it issues: `req`, `x509`, `ca`, `crl` and `cms` of the
/// issuer, and what the verifier holds of each.
fn issue_and_verify(place: &TestFolder, name: &str, issuer: Side, verifier: Side) {
    let issue = |words: &str| place.openssl(issuer, words);
    let verify = |words: &str| place.openssl(verifier, words);
    for (file, text) in [("index.txt", ""), ("serial", "01\n"), ("crlnumber", "01\n")] {
        std::fs::write(place.path(file), text).unwrap();
    }
    std::fs::write(place.path("message"), b"a message").unwrap();
    std::fs::write(place.path("ca.cnf"), CA_CONFIG).unwrap();
    // Without a file of extensions OpenSSL 4.0 takes the head of the configuration for one.
    std::fs::write(place.path("leaf.ext"), "basicConstraints = CA:FALSE\n").unwrap();
    let words = "-noenc -keyout ca.key -out ca.pem -subj /CN=ca -days 2";
    issue(&format!("req -x509 -newkey {name} {words}"));
    let words = "-noenc -keyout leaf.key -out leaf.csr -subj /CN=leaf";
    verify(&format!("req -newkey {name} {words}"));
    let text = issue("req -in leaf.csr -verify -noout -text");
    assert!(text.contains(&format!("Public Key Algorithm: {}", printed(name))), "{text}");
    issue(
        "x509 -req -in leaf.csr -CA ca.pem -CAkey ca.key -days 2 -extfile leaf.ext -out leaf.pem",
    );
    verify("verify -CAfile ca.pem leaf.pem");
    let text = verify("x509 -in leaf.pem -noout -text");
    let line = format!("Signature Algorithm: {}", printed(name));
    assert_eq!(text.matches(&line).count(), 2, "{text}");
    issue("ca -config ca.cnf -batch -in leaf.csr -out issued.pem -notext");
    verify("verify -CAfile ca.pem issued.pem");
    issue("ca -config ca.cnf -revoke issued.pem");
    issue("ca -config ca.cnf -gencrl -out crl.pem");
    verify("crl -in crl.pem -CAfile ca.pem -noout -verify");
    let checked = "verify -crl_check -CRLfile crl.pem -CAfile ca.pem";
    verify(&format!("{checked} leaf.pem"));
    let text = place.openssl_refuses(verifier, &format!("{checked} issued.pem"));
    assert!(text.contains("certificate revoked"), "{text}");
    // CMS names a digest next to the signature, and hashes the content with it (RFC 5652).
    issue(
        "cms -sign -md sha512 -in message -nodetach -binary -signer leaf.pem -inkey leaf.key \
         -outform DER -out signed",
    );
    verify("cms -verify -inform DER -in signed -CAfile ca.pem -purpose any -out opened");
    assert_eq!(place.bytes("opened"), b"a message");
    let mut damaged = place.bytes("signed");
    let at = damaged.len() - 20;
    damaged[at] ^= 1;
    std::fs::write(place.path("damaged"), damaged).unwrap();
    let words = "cms -verify -inform DER -in damaged -CAfile ca.pem -purpose any -out opened";
    place.openssl_refuses(verifier, words);
}

/// CMS encrypts to an ML-KEM key as a KEMRecipientInfo (RFC 9629, RFC 9936), from OpenSSL 3.6 on: both
/// providers open what the other sealed.
#[test]
fn messages_are_encrypted_to_a_kem_both_ways() {
    let place = TestFolder::new();
    let version = place.openssl(Side::Stock, "version");
    if version.starts_with("OpenSSL 3.5.") {
        eprintln!("skipped: {version} has no CMS with KEMs");
        return;
    }
    std::fs::write(place.path("message"), b"a message").unwrap();
    let words = "req -x509 -newkey ML-DSA-44 -noenc -keyout ca.key -out ca.pem -subj /CN=ca";
    place.openssl(Side::Stock, words);
    for (sender, receiver) in BOTH_WAYS {
        for name in KEMS {
            let count = |operation| place.count(name, operation);
            let before = [count("encaps"), count("decaps")];
            place.openssl(receiver, &format!("genpkey -algorithm {name} -out kem.key"));
            place.openssl(receiver, "pkey -in kem.key -pubout -out kem.pub");
            let words = "x509 -new -force_pubkey kem.pub -subj /CN=kem -CA ca.pem -CAkey ca.key";
            // Without a file of extensions 4.0 takes the configuration's first lines for some.
            place.openssl(receiver, &format!("{words} -days 2 -extfile /dev/null -out kem.pem"));
            let words = "cms -encrypt -aes-256-cbc -binary -in message -outform DER -out sealed";
            place.openssl(sender, &format!("{words} -recip kem.pem"));
            let text = place.openssl(sender, "cms -cmsout -print -noout -inform DER -in sealed");
            assert!(text.contains("d.kemri:") && text.contains("HKDF-SHA256"), "{text}");
            let words = "cms -decrypt -inform DER -in sealed -inkey kem.key -out opened";
            place.openssl(receiver, &format!("{words} -recip kem.pem"));
            assert_eq!(place.bytes("opened"), b"a message");
            let after = [count("encaps"), count("decaps")];
            let calls = [0, 1].map(|at| after[at].0 - before[at].0);
            let expected = if sender == Side::Gabion { [1, 0] } else { [0, 1] };
            assert_eq!(calls, expected, "{name}");
            assert_eq!([after[0].1, after[1].1], [0, 0], "{name}");
            // Another key opens nothing.
            place.openssl(receiver, &format!("genpkey -algorithm {name} -out kem.key"));
            place.openssl_refuses(receiver, words);
        }
    }
}

const CMS_PARTS: [&str; 2] = ["ri-type", "kemri-kdf-alg"];

/// The parameters that CMS queries from a key: how to encrypt to it, and how to derive the wrapping
/// key.
#[test]
fn kems_say_how_messages_are_encrypted_to_them() {
    let (_place, context) = ours();
    // SEQUENCE { 1.2.840.113549.1.9.16.3.28 }, id-alg-hkdf-with-sha256 (RFC 8619).
    let hkdf = b"\x30\x0d\x06\x0b\x2a\x86\x48\x86\xf7\x0d\x01\x09\x10\x03\x1c";
    for name in KEMS {
        let key = context.generate(name, OURS, &Params::default()).expect(name);
        assert_eq!(key.number("ri-type"), Some(5), "{name}: CMS_RECIPINFO_KEM");
        assert_eq!(key.part("kemri-kdf-alg").as_deref(), Some(&hkdf[..]), "{name}");
        let said = key.gettable();
        assert!(CMS_PARTS.iter().all(|part| said.iter().any(|name| name == part)), "{said:?}");
        // OpenSSL 3.5 asks for neither and has neither.
        let stock = context.generate(name, STOCK, &Params::default()).expect(name);
        if stock.number("ri-type").is_some() {
            for part in CMS_PARTS {
                assert_eq!(key.number(part), stock.number(part), "{name} {part}");
                assert_eq!(key.part(part), stock.part(part), "{name} {part}");
            }
        }
    }
    // Messages are not encrypted to keys without a file format, or with a signature algorithm.
    for name in ["X25519MLKEM768", "ML-DSA-44"] {
        let key = context.generate(name, OURS, &Params::default()).expect(name);
        assert_eq!((key.number("ri-type"), key.part("kemri-kdf-alg")), (None, None), "{name}");
        assert!(!key.gettable().iter().any(|name| CMS_PARTS.contains(&&**name)), "{name}");
    }
}

const CA_CONFIG: &str = "[ca]\ndefault_ca = here\n[here]\ndatabase = index.txt\nserial = serial\n\
    crlnumber = crlnumber\nnew_certs_dir = .\ncertificate = ca.pem\nprivate_key = ca.key\n\
    default_md = default\ndefault_days = 2\ndefault_crl_days = 2\npolicy = any\nunique_subject = no\n\
    [any]\ncommonName = supplied\n";

/// Returns the folder of the published certificates: below `GABION_VECTORS`, or next to the
/// checkout; `None`, with a message, if it is missing.
fn vectors() -> Option<std::path::PathBuf> {
    let root = match std::env::var_os("GABION_VECTORS").filter(|value| !value.is_empty()) {
        Some(root) => std::path::PathBuf::from(root),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/vectors"),
    };
    let root = root.join("pqc-certificates");
    if !root.is_dir() {
        eprintln!("skipped: no vectors in {}", root.display());
    }
    root.is_dir().then_some(root)
}

/// Trust anchors from other implementations: each verifies itself, or is of an algorithm that is
/// not served here. The private keys in the same folder belong to the anchors that verify.
#[test]
fn trust_anchors_of_others_verify() {
    let Some(root) = vectors() else {
        return;
    };
    let place = TestFolder::new();
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
                false => {
                    others.push(format!("{label}: {}", gabion_provider_testing::all_text(&output)))
                }
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

/// The certificates of RFC 9802's examples, which sign themselves: read, shown, written and verified by every
/// command, and refused where anything of them is changed.
#[test]
fn a_certificate_of_hss_verifies() {
    verifies("hss_cert.pem", "id-alg-hss-lms-hashsig", "HSS");
}

#[test]
fn a_certificate_of_xmss_verifies() {
    verifies("xmss_cert.pem", "id-alg-xmss-hashsig", "XMSS");
}

/// A key from before RFC 9802: another identifier, and an OCTET STRING in the BIT STRING (botan PR
/// 5933, bc-java 2336). It is accepted, and written in the standard's format.
#[test]
fn an_old_public_key_of_xmss_is_read() {
    let Some(root) = vectors() else {
        return;
    };
    let place = TestFolder::new();
    std::fs::copy(root.parent().unwrap().join("lamps/shbs/xmss_cert.pem"), place.path("cert.pem"))
        .unwrap();
    place.openssl(Side::Gabion, "x509 -in cert.pem -noout -pubkey -out pub.pem");
    place.openssl(Side::Gabion, "pkey -pubin -in pub.pem -pubout -outform DER -out pub.der");
    let public = place.bytes("pub.der");
    let structure = |tag: u8, content: &[u8]| [&[tag, content.len() as u8], content].concat();
    let (head, key) = public.split_at(17);
    assert_eq!(head[..14], *b"\x30\x53\x30\x0a\x06\x08\x2b\x06\x01\x05\x05\x07\x06\x22");
    let new = &head[4..14];
    let before = structure(6, b"\x04\x00\x7f\x00\x0f\x01\x01\x0d\x00");
    for (identifier, key) in
        [(new, structure(4, key)), (&before, key.to_vec()), (&before, structure(4, key))]
    {
        let bits = structure(3, &[&[0], &key[..]].concat());
        let old = structure(0x30, &[structure(0x30, identifier), bits].concat());
        std::fs::write(place.path("old.der"), old).unwrap();
        let read = "pkey -pubin -inform DER -in old.der -pubout -outform DER -out again.der";
        place.openssl(Side::Gabion, read);
        assert_eq!(place.bytes("again.der"), public);
    }
}

fn verifies(file: &str, name: &str, algorithm: &str) {
    let Some(root) = vectors() else {
        return;
    };
    let place = TestFolder::new();
    let file = root.parent().unwrap().join("lamps/shbs").join(file);
    std::fs::copy(file, place.path("cert.pem")).unwrap();
    let text = place.openssl(Side::Gabion, "x509 -in cert.pem -noout -text");
    assert_eq!(text.matches(&format!("Algorithm: {name}")).count(), 3, "{text}");
    place.openssl(Side::Gabion, "x509 -in cert.pem -outform DER -out cert.der");
    place.openssl(Side::Gabion, "x509 -in cert.pem -noout -pubkey -out pub.pem");
    place.openssl(Side::Gabion, "pkey -pubin -in pub.pem -pubout -outform DER -out pub.der");
    place.openssl(Side::Gabion, "verify -check_ss_sig -no_check_time -CAfile cert.pem cert.pem");
    let certificate = place.bytes("cert.der");
    let (key, head) = (place.bytes("pub.der"), structure_len(&certificate[4..]));
    assert!(certificate.windows(key.len()).any(|part| part == key), "the key as it came");
    // The headers of the certificate, the signed part and the signature have four bytes each; the
    // signature's has one more for its unused bits.
    let (signed, rest) = certificate[4..].split_at(head);
    let signature = &rest[2 + usize::from(rest[1]) + 5..];
    assert_eq!(signature.len(), structure_len(&rest[2 + usize::from(rest[1])..]) - 5);
    std::fs::write(place.path("signed"), signed).unwrap();
    let verify = "pkeyutl -verify -rawin -pubin -inkey pub.pem -in signed -sigfile sig";
    std::fs::write(place.path("sig"), signature).unwrap();
    place.openssl(Side::Gabion, verify);
    for at in [0, 3, 4, 7, 8, 11, 12, 50, signature.len() - 1] {
        let mut changed = signature.to_vec();
        changed[at] ^= 0x10;
        std::fs::write(place.path("sig"), changed).unwrap();
        place.openssl_refuses(Side::Gabion, verify);
    }
    for len in [0, 3, 4, signature.len() - 1] {
        std::fs::write(place.path("sig"), &signature[..len]).unwrap();
        place.openssl_refuses(Side::Gabion, verify);
    }
    let mut damaged = certificate.clone();
    damaged[certificate.len() - 9] ^= 1;
    std::fs::write(place.path("cert.der"), damaged).unwrap();
    place.openssl(Side::Gabion, "x509 -inform DER -in cert.der -out other.pem");
    let refused = "verify -check_ss_sig -no_check_time -CAfile other.pem other.pem";
    place.openssl_refuses(Side::Gabion, refused);
    // There are no private keys here that signing does not use up.
    let text = place.openssl_refuses(Side::Gabion, &format!("genpkey -algorithm {name}"));
    assert!(text.contains("only verified"), "{text}");
    let verified = place.count(algorithm, "verify");
    assert!(verified.0 >= 10 && verified.1 == 0, "{verified:?}");
}

/// Bytes of a structure whose length has two bytes, with its head.
fn structure_len(der: &[u8]) -> usize {
    assert_eq!(der[1], 0x82);
    4 + usize::from(u16::from_be_bytes([der[2], der[3]]))
}

/// Reads every private key in the folder of `ta.der`; its public key is the certificate's. Those of
/// Falcon are BouncyCastle's own structure, a SEQUENCE of f, g and F, which is not read.
fn private_keys_of(place: &TestFolder, folder: &Path, anchor: &str) -> usize {
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

/// The formats of the standard, by OpenSSL's names: whether they hold the seed and the expanded key.
const FORMATS: [(&str, (bool, bool)); 3] =
    [("seed-priv", (true, true)), ("priv-only", (false, true)), ("seed-only", (true, false))];

/// Returns whether a private key's file holds the seed, and whether it holds the expanded key.
fn forms_in(place: &TestFolder, pem: &str) -> (bool, bool) {
    let text = String::from_utf8(place.bytes(pem)).unwrap();
    let (_, der) = SecretDocument::from_pem(&text).unwrap();
    let key = Private::from_der(der.as_bytes()).unwrap();
    let forms = Forms::from_octets(OctetForm::Choice, &key.octets).unwrap();
    (forms.seed.is_some(), forms.expanded.is_some())
}

/// HashML-DSA, which only ours writes and reads, follows the lists of ML-DSA. Keys of ML-DSA, which
/// OpenSSL writes, show that they are read alike.
#[test]
fn the_form_of_a_private_key_can_be_chosen() {
    let place = TestFolder::new();
    let openssl = |words: &str| place.openssl(Side::Gabion, words);
    let refuses = |words: &str| place.openssl_refuses(Side::Gabion, words);
    std::fs::write(place.path("message"), b"a message").unwrap();
    for name in ["ML-DSA-44", "HashML-DSA-44-with-SHA512", "HashML-DSA-87-with-SHA512"] {
        openssl(&format!("genpkey -algorithm {name} -out key.pem"));
        openssl("pkey -in key.pem -pubout -out pub.pem");
        assert_eq!(forms_in(&place, "key.pem"), (true, true), "{name}");
        let lists = [
            ("seed-only,priv-only", (true, false)),
            ("nonsense,PRIV-ONLY,seed-only", (false, true)),
            ("seed", (true, true)),
        ];
        for (list, forms) in FORMATS.into_iter().chain(lists) {
            let option = format!("-provparam ml-dsa.output_formats={list}");
            openssl(&format!("pkey -in key.pem -out form.pem {option}"));
            assert_eq!(forms_in(&place, "form.pem"), forms, "{name} {list}");
            openssl(&format!("genpkey -algorithm {name} -out fresh.pem {option}"));
            assert_eq!(forms_in(&place, "fresh.pem"), forms, "{name} {list}");
            // It is the key.
            openssl("pkey -in form.pem -pubout -out again.pem");
            assert_eq!(place.bytes("pub.pem"), place.bytes("again.pem"), "{name} {list}");
            openssl("pkeyutl -sign -rawin -inkey form.pem -in message -out sig");
            openssl("pkeyutl -verify -rawin -pubin -inkey pub.pem -in message -sigfile sig");
            // A configuration that allows only other formats rejects it; likewise encrypted keys.
            openssl(&format!("pkey -in key.pem -aes256 -passout pass:x -out locked.pem {option}"));
            for (only, held) in FORMATS {
                for file in ["form.pem", "locked.pem"] {
                    let words = format!("pkey -in {file} -passin pass:x -noout");
                    let words = format!("{words} -provparam ml-dsa.input_formats={only}");
                    match forms == held {
                        true => openssl(&words),
                        false => refuses(&words),
                    };
                }
            }
        }
        // Without a seed there is one form left, and no other is written in its place.
        openssl("pkey -in key.pem -out seedless.pem -provparam ml-dsa.output_formats=priv-only");
        let option = "-provparam ml-dsa.output_formats";
        openssl(&format!("pkey -in seedless.pem -out form.pem {option}=seed-only,priv-only"));
        assert_eq!(forms_in(&place, "form.pem"), (false, true), "{name}");
        for list in ["seed-only", "nonsense"] {
            let _ = std::fs::remove_file(place.path("none.pem"));
            refuses(&format!("pkey -in seedless.pem -out none.pem {option}={list}"));
            let written = std::fs::read(place.path("none.pem")).unwrap_or_default();
            assert!(written.is_empty(), "{name} {list}");
        }
    }
    // In the provider's section of the configuration it holds for every program.
    place.configure("ml-dsa.output_formats = seed-only");
    openssl("genpkey -algorithm HashML-DSA-65-with-SHA512 -out key.pem");
    assert_eq!(forms_in(&place, "key.pem"), (true, false));
}

/// The default provider's parameters for reading keys still count, as much as without Gabion: 3.5
/// and 3.6 obey them, 4.0.3 shows the seed anyway.
#[test]
fn parameters_of_the_default_decoders_still_count() {
    let place = TestFolder::new();
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

/// Forms of a private key that no standard has go on to OpenSSL's decoder, which knows them.
#[test]
fn forms_that_only_openssl_reads_are_read() {
    let place = TestFolder::new();
    for (name, family) in [("ML-DSA-44", "ml-dsa"), ("ML-KEM-768", "ml-kem")] {
        place.openssl(Side::Gabion, &format!("genpkey -algorithm {name} -out key.pem"));
        place.openssl(Side::Gabion, "pkey -in key.pem -pubout -out pub.pem");
        for form in ["oqskeypair", "bare-priv", "bare-seed"] {
            let option = format!("-provparam {family}.output_formats={form}");
            place.openssl(Side::Stock, &format!("pkey -in key.pem -out form.pem {option}"));
            place.openssl(Side::Gabion, "pkey -in form.pem -pubout -out again.pem");
            assert_eq!(place.bytes("pub.pem"), place.bytes("again.pem"), "{name} {form}");
        }
    }
}

/// A certificate and its private key, each read by another provider, are held to belong together.
#[test]
fn a_certificate_matches_its_private_key_whoever_read_it() {
    let place = TestFolder::new();
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
