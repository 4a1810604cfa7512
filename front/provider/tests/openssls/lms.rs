//! Together with OpenSSL's own LMS, which is in builds with `enable-lms`: bare keys and signatures
//! get the same verdict from both, in whichever order both are loaded, and shared names are one set
//! of names.

use std::sync::LazyLock;

use gabion_provider_testing::hss::{NAME, Signer, W};
use gabion_provider_testing::libcrypto::{Context, Key, KeyStructure, Libcrypto, Params};
use gabion_provider_testing::{
    OURS, STOCK, TestFolder, lib_prefix, none, started_again, with_openssls,
};

static LIB: LazyLock<Libcrypto> = LazyLock::new(|| Libcrypto::load(&lib_prefix()));

#[test]
fn lms_of_both_gives_the_same_verdicts() {
    with_openssls("lms::beside", &["3.6.3-lms", "4.0.3-lms"]);
}

#[test]
#[ignore = "started by lms_of_both_gives_the_same_verdicts"]
fn beside() {
    if !started_again() {
        return;
    }
    // SAFETY: no argument.
    let is_4 = unsafe { (LIB.OPENSSL_version_major)() } >= 4;
    for ours_first in [false, true] {
        let place = TestFolder::new();
        if ours_first {
            place.load_ours_first();
        }
        let context = Context::with_config(&LIB, &place.path("gabion.cnf"));
        for (seed, w) in (1..).zip([W::LmotsW1, W::LmotsW2, W::LmotsW4, W::LmotsW8]) {
            let mut signer = Signer::new(&[w], seed);
            let signatures = [signer.sign(b"m"), signer.sign(b"m")];
            let compared = compare(&context, &signer, &signatures);
            assert!(compared > 100, "{compared}");
        }
        let signer = Signer::new(&[W::LmotsW8], 1);
        names(&context, &signer, is_4);
    }
}

/// A bare key as each provider takes it, by its own name for it.
fn keys<'a>(
    context: &'a Context,
    public: &[u8],
) -> [Option<(Key<'a>, &'static str, &'static str)>; 2] {
    let public = Params::default().octets("pub", public);
    [(NAME, OURS), ("LMS", STOCK)]
        .map(|(name, query)| Some((context.import(name, query, &public)?, name, query)))
}

/// Verdicts of both on good, changed, cut and grown signatures and keys; how many there were.
fn compare(context: &Context, signer: &Signer, signatures: &[Vec<u8>]) -> usize {
    let public = &signer.public[4..];
    let mut compared = 0;
    let mut same = |public: &[u8], message: &[u8], signature: &[u8], expected: Option<bool>| {
        let keys = keys(context, public);
        let verdict = |key: &Option<(Key<'_>, &'static str, &'static str)>| {
            let (key, name, query) = key.as_ref()?;
            Some(key.verify(name, query, &none(), message, signature))
        };
        let [ours, theirs] = [&keys[0], &keys[1]].map(verdict);
        assert_eq!(ours, theirs, "{} bytes of key, {} of signature", public.len(), signature.len());
        if expected.is_some() {
            assert_eq!(ours, expected);
        }
        compared += 1;
    };
    for signature in signatures {
        let bare = &signature[4..];
        same(public, b"m", bare, Some(true));
        same(public, b"n", bare, Some(false));
        // HSS's form is another one.
        same(public, b"m", signature, Some(false));
        for len in [0, 3, 4, 8, bare.len() - 1] {
            same(public, b"m", &bare[..len], Some(false));
        }
        same(public, b"m", &[bare, &[0]].concat(), Some(false));
        for at in (0..8).chain((8..bare.len()).step_by(bare.len() / 40)) {
            let mut changed = bare.to_vec();
            changed[at] ^= 1 << (at % 8);
            same(public, b"m", &changed, Some(false));
        }
        for at in 0..public.len() {
            let mut changed = public.to_vec();
            changed[at] ^= 1 << (at % 8);
            same(&changed, b"m", bare, None);
        }
        for len in [0, 8, public.len() - 1] {
            same(&public[..len], b"m", bare, None);
        }
        same(&[public, &[0]].concat(), b"m", bare, None);
    }
    compared
}

/// Checks the provider of each name. If OpenSSL's LMS has the object identifier, both providers'
/// names form one set, and the property prefers Gabion.
fn names(context: &Context, signer: &Signer, is_4: bool) {
    let bare = Params::default().octets("pub", &signer.public[4..]);
    let provider =
        |name: &str, query: &str| context.import(name, query, &bare).map(|key| key.provider());
    assert_eq!(provider("LMS", STOCK).as_deref(), Some("default"));
    assert_eq!(provider(NAME, OURS).as_deref(), Some("gabion"));
    let expected = if is_4 { "gabion" } else { "default" };
    assert_eq!(provider("LMS", "?provider=gabion").as_deref(), Some(expected));
    for name in [NAME, "HSS", "1.2.840.113549.1.9.16.3.17"] {
        assert_eq!(provider(name, "?provider=gabion").as_deref(), Some("gabion"), "{name}");
        let theirs = is_4.then_some("default");
        assert_eq!(provider(name, STOCK).as_deref(), theirs, "{name}");
    }
    // Files under the object identifier are HSS, and ours.
    let info = signer.subject_public_key_info();
    let read = context.read(KeyStructure::Public, &info).unwrap();
    assert_eq!((read.provider(), read.part("pub")), ("gabion".into(), Some(signer.public.clone())));
    assert_eq!(read.write(KeyStructure::Public), Some(info));
}
