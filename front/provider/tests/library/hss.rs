//! HSS: certificates of RFC 9802 and messages of RFC 9708 that another implementation signed, verified by every
//! command; and refused where anything of them is changed.

use gabion_engine::Prehash;
use gabion_provider_testing::hss::{NAME, Signer, W};
use gabion_provider_testing::libcrypto::{KeyStructure, Params};
use gabion_provider_testing::{OURS, Side, TestFolder, all_text, both, none};

const CONTENT: &[u8] = b"an image of some firmware\n";

/// Keys of one level and of more.
const SHAPES: [&[W]; 3] =
    [&[W::LmotsW8], &[W::LmotsW2, W::LmotsW4], &[W::LmotsW1, W::LmotsW8, W::LmotsW4]];

/// The command that verifies a message, with the trusted certificate.
const VERIFY: &str = "cms -verify -inform DER -in message -CAfile cert.pem -out content";

/// A certificate, in files, and its key.
fn certified(place: &TestFolder, shape: &[W], seed: u8) -> (Signer, Vec<u8>) {
    let mut signer = Signer::new(shape, seed);
    let certificate = signer.certificate();
    std::fs::write(place.path("cert.der"), &certificate).unwrap();
    place.openssl(Side::Gabion, "x509 -inform DER -in cert.der -out cert.pem");
    (signer, certificate)
}

/// Returns whether messages that sign their content itself are verified: of the releases that are
/// tried, from 4.0 on. Earlier ones have a digest to hand over and no content.
fn knows_content_itself(place: &TestFolder) -> bool {
    !place.openssl(Side::Stock, "version").contains("OpenSSL 3.")
}

#[test]
fn messages_of_another_implementation_verify() {
    let place = TestFolder::new();
    let digest = Prehash::Sha2_256.digest(CONTENT);
    for (seed, shape) in (1..).zip(SHAPES) {
        let (mut signer, certificate) = certified(&place, shape, seed);
        place.openssl(Side::Gabion, "verify -check_ss_sig -CAfile cert.pem cert.pem");
        let text = place.openssl(Side::Gabion, "x509 -in cert.pem -noout -text");
        assert_eq!(text.matches(&format!("Algorithm: {NAME}")).count(), 3, "{text}");
        std::fs::write(place.path("message"), signer.message(&certificate, CONTENT, Some(&digest)))
            .unwrap();
        place.openssl(Side::Gabion, VERIFY);
        assert_eq!(place.bytes("content"), CONTENT, "{} levels", shape.len());
        let text = place.openssl(Side::Gabion, "cms -cmsout -print -noout -inform DER -in message");
        assert!(text.contains(NAME), "{text}");
        // Other content, and a digest that is another content's, are refused.
        let other = [CONTENT, b"."].concat();
        for (content, digest) in [
            (&other[..], &digest[..]),
            (CONTENT, &Prehash::Sha2_256.digest(&other)),
            (CONTENT, &digest[..31]),
        ] {
            let message = signer.message(&certificate, content, Some(digest));
            std::fs::write(place.path("message"), message).unwrap();
            place.openssl_refuses(Side::Gabion, VERIFY);
        }
        let message = signer.message(&certificate, CONTENT, None);
        std::fs::write(place.path("message"), message).unwrap();
        for (beside, is_it) in [(CONTENT, true), (&other, false)] {
            std::fs::write(place.path("beside"), beside).unwrap();
            let verify = format!("{VERIFY} -binary -content beside");
            match is_it && knows_content_itself(&place) {
                true => drop(place.openssl(Side::Gabion, &verify)),
                false => drop(place.openssl_refuses(Side::Gabion, &verify)),
            }
        }
    }
    let (calls, errors) = place.count("HSS", "verify");
    assert!(calls >= 12 && errors == 0, "{calls} {errors}");
}

/// Cut off, grown and changed in bytes of every part: an error or a verdict, each time, and no crash.
#[test]
fn damaged_messages_are_refused() {
    let folder = TestFolder::new();
    let (mut signer, certificate) = certified(&folder, &[W::LmotsW8, W::LmotsW8], 9);
    let digest = Prehash::Sha2_256.digest(CONTENT);
    let message = signer.message(&certificate, CONTENT, Some(&digest));
    let refused = |bytes: &[u8], what: String| {
        std::fs::write(folder.path("message"), bytes).unwrap();
        let text = folder.openssl_refuses(Side::Gabion, VERIFY);
        assert!(!text.contains("erification successful"), "{what}: {text}");
    };
    for len in (0..message.len()).step_by(message.len() / 12) {
        refused(&message[..len], format!("{len} bytes"));
    }
    // In the signature of the message: Nspk, q, the type and the last node of the upper tree, the key below it, and
    // the lower tree's.
    let at = message.len() - signer.sign(b"").len();
    let upper = 8 + 4 + 32 + 34 * 32;
    let lower = at + 4 + upper + 4 + 5 * 32 - 4;
    let tree = at + 4 + upper - 4;
    let places = [
        at,
        at + 3,
        at + 4,
        at + 8,
        tree,
        tree + 4,
        lower,
        lower + 4,
        lower + 60,
        message.len() - 1,
    ];
    for place in places {
        let mut changed = message.clone();
        changed[place] ^= 0x81;
        refused(&changed, format!("byte {place}"));
    }
    // Bytes around the signed structures: an error, a verdict, or the signed content.
    for place in (0..at).step_by(at / 40) {
        let mut changed = message.clone();
        changed[place] = changed[place].wrapping_add(1);
        accepted_or_refused(&folder, &changed);
    }
    let (calls, errors) = folder.count("HSS", "verify");
    assert!(calls >= 10 && errors == 0, "{calls} {errors}");
}

/// Runs the command, which must not crash, nor accept other content.
fn accepted_or_refused(place: &TestFolder, message: &[u8]) {
    std::fs::write(place.path("message"), message).unwrap();
    let output = place.command(Side::Gabion, VERIFY).output().unwrap();
    assert!(output.status.code().is_some(), "{}: {}", output.status, all_text(&output));
    if output.status.success() {
        assert_eq!(place.bytes("content"), CONTENT);
    }
}

/// Keys in every length and with every byte changed, and signatures: by libcrypto in this process.
#[test]
fn damaged_keys_and_signatures_are_refused() {
    let (_place, context) = both();
    let mut signer = Signer::new(&[W::LmotsW8, W::LmotsW4], 3);
    let signature = signer.sign(CONTENT);
    let info = signer.subject_public_key_info();
    let key = context.read(KeyStructure::Public, &info).unwrap();
    assert_eq!(key.provider(), "gabion");
    assert_eq!(key.write(KeyStructure::Public).as_ref(), Some(&info));
    let verifies = |signature: &[u8]| key.verify(NAME, OURS, &none(), CONTENT, signature);
    assert!(verifies(&signature));
    for len in (0..info.len()).chain([info.len() + 1]) {
        let cut = [&info[..], &[0]].concat();
        assert!(context.read(KeyStructure::Public, &cut[..len]).is_none(), "{len}");
    }
    for at in 0..info.len() {
        let mut changed = info.clone();
        changed[at] ^= 1 << (at % 8);
        let Some(read) = context.read(KeyStructure::Public, &changed) else { continue };
        assert!(at >= info.len() - 60, "byte {at}");
        assert_eq!(read.write(KeyStructure::Public), Some(changed), "byte {at}");
        assert!(!read.verify(NAME, OURS, &none(), CONTENT, &signature), "byte {at}");
    }
    for len in (0..signature.len()).step_by(37).chain([signature.len() - 1]) {
        assert!(!verifies(&signature[..len]), "{len}");
    }
    assert!(!verifies(&[&signature[..], &[0]].concat()));
    for at in (0..signature.len()).step_by(13) {
        let mut changed = signature.clone();
        changed[at] ^= 1 << (at % 8);
        assert!(!verifies(&changed), "byte {at}");
    }
}

/// A raw key of one tree without the number of trees, as OpenSSL's own LMS has it: its signatures are bare, and no others.
#[test]
fn a_bare_key_has_bare_signatures() {
    let (_place, context) = both();
    let mut signer = Signer::new(&[W::LmotsW8], 5);
    let signature = signer.sign(CONTENT);
    let (word, bare) = signer.public.split_at(4);
    assert_eq!(word, [0, 0, 0, 1]);
    for (public, good, other) in
        [(bare, &signature[4..], &signature[..]), (&signer.public, &signature, &signature[4..])]
    {
        let key = context.import(NAME, OURS, &Params::default().octets("pub", public)).unwrap();
        assert_eq!(key.part("pub").as_deref(), Some(public));
        assert_eq!(key.data(PUBLIC), Some(vec![("pub".to_owned(), public.to_vec())]));
        assert_eq!(key.number("max-size"), Some(good.len() as i32));
        for (signature, verdict) in [(good, true), (other, false), (&good[1..], false)] {
            assert_eq!(key.verify(NAME, OURS, &none(), CONTENT, signature), verdict);
        }
        assert!(!key.verify(NAME, OURS, &none(), CONTENT, endless()));
        // In files both are the same.
        assert_eq!(key.write(KeyStructure::Public), Some(signer.subject_public_key_info()));
    }
}

/// So many bytes that there is memory for no copy of them: they are all the same page, until the process ends.
fn endless() -> &'static [u8] {
    let len = 1 << 40;
    // SAFETY: fresh pages that can be read and stay; errors are checked.
    unsafe {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let map = libc::mmap(std::ptr::null_mut(), len, libc::PROT_READ, flags, -1, 0);
        assert_ne!(map, libc::MAP_FAILED);
        std::slice::from_raw_parts(map.cast(), len)
    }
}

/// EVP_PKEY_PUBLIC_KEY.
const PUBLIC: i32 = 0x86;
