//! Keys that signing uses up, by their addresses: each command and each call takes as many indexes as it makes
//! signatures, which other code accepts, and none where it refuses.

use std::collections::HashSet;
use std::ffi::{CString, c_void};
use std::num::NonZero;
use std::ops::ControlFlow;
use std::ptr::{null, null_mut};

use gabion_engine::Engine;
use gabion_engine::keys::stateful::hss::Levels;
use gabion_engine::lms::{LM_OTS, LMS};
use gabion_provider_testing::hss::{self, NAME};
use gabion_provider_testing::libcrypto::{Context, Key, KeyStructure, PkeyCtx};
use gabion_provider_testing::{LIB, OURS, Side, TestFolder, none};
use gabion_state::{Encoding, Environment, GeneratedKey, KeyFileOptions, Sets, status};

/// Makes a key of trees of height 5 with w = 8, from an index on, with its anchor in another folder.
fn make(place: &TestFolder, name: &str, levels: usize, encoding: Encoding, first: u64) {
    make_of(place, name, hss_sets(levels), encoding, first);
}

fn hss_sets(levels: usize) -> Sets {
    let lms = LMS.iter().find(|set| set.name == "LMS_SHA256_M32_H5").unwrap();
    let ots = LM_OTS.iter().find(|set| set.name == "LMOTS_SHA256_N32_W8").unwrap();
    Sets::Hss(Levels::new(&vec![(lms, ots); levels]).unwrap())
}

/// Makes a key of other sets.
fn make_of(place: &TestFolder, name: &str, sets: Sets, encoding: Encoding, first: u64) {
    let around = Environment::real();
    let engine = Engine::global().unwrap();
    let mut go_on = |_: gabion_engine::keys::stateful::hss::Progress<'_>| ControlFlow::Continue(());
    let made = GeneratedKey::generate(&around, engine, sets, NonZero::<usize>::MIN, &mut go_on);
    let made = made.unwrap().unwrap();
    let home = place.path("../home");
    std::fs::create_dir_all(&home).unwrap();
    let making = KeyFileOptions {
        key: &place.path(name),
        passphrase: None,
        encoding,
        next: first,
        warn_at: None,
        anchors: &[home.join(name)],
        allow_network: true,
        note: "made",
    };
    made.write(&around, &making).unwrap();
    std::fs::write(place.path(&format!("{name}.pub")), made.spki(false).unwrap()).unwrap();
    std::fs::write(place.path(&format!("{name}.raw")), made.public()).unwrap();
}

/// Returns how many indexes of a key are used, none of which was lost.
fn used(place: &TestFolder, name: &str) -> u64 {
    let status = status(&Environment::real(), &place.path(name)).unwrap();
    assert_eq!(status.remaining.burnt, 0, "{name}");
    status.index
}

/// Runs a command that must succeed and take so many indexes of the key `k`.
fn takes(place: &TestFolder, indexes: u64, words: &str) -> String {
    let before = used(place, "k");
    let text = place.openssl(Side::Gabion, words);
    assert_eq!(used(place, "k") - before, indexes, "{words}: {text}");
    text
}

/// Runs a command that must fail and use no index.
fn takes_none(place: &TestFolder, words: &str) -> String {
    let before = used(place, "k");
    let text = place.openssl_refuses(Side::Gabion, words);
    assert_eq!(used(place, "k"), before, "{words}: {text}");
    text
}

fn with_key(levels: usize) -> TestFolder {
    with_key_of(hss_sets(levels))
}

fn with_key_of(sets: Sets) -> TestFolder {
    let place = TestFolder::new();
    make_of(&place, "k", sets, Encoding::Hss, 0);
    std::fs::write(place.path("message"), b"an image of some firmware\n").unwrap();
    place
}

/// A key of each scheme but HSS, with the name of its identifier (RFC 9802) and what counts it.
const OF_XMSS: [(&str, &str, &str); 2] = [
    ("XMSS-SHA2_10_192", "id-alg-xmss-hashsig", "XMSS"),
    ("XMSSMT-SHA2_20/4_192", "id-alg-xmssmt-hashsig", "XMSSMT"),
];

#[test]
fn certificates_take_an_index_each() {
    certificates(&with_key(1), NAME, "HSS");
    for (set, name, family) in OF_XMSS {
        certificates(&with_key_of(set.parse().unwrap()), name, family);
    }
}

/// Certificates and what goes with them, under the name of the key's identifier.
fn certificates(place: &TestFolder, name: &str, family: &str) {
    let key = "gabion-hbs:k";
    takes(place, 1, &format!("req -x509 -new -key {key} -subj /CN=ca -days 2 -out ca.pem"));
    place.openssl(Side::Gabion, "verify -check_ss_sig -CAfile ca.pem ca.pem");
    let text = takes(place, 0, "x509 -in ca.pem -noout -text");
    // Of the signature, and of the key that it holds.
    for field in ["Signature Algorithm", "Public Key Algorithm"] {
        assert!(text.contains(&format!("{field}: {name}")), "{text}");
    }
    takes(place, 1, &format!("req -new -key {key} -subj /CN=us -out us.csr"));
    let text = place.openssl(Side::Gabion, "req -in us.csr -verify -noout -text");
    assert!(text.contains(&format!("Signature Algorithm: {name}")), "{text}");
    let leaf = "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -keyout leaf.key";
    place.openssl(Side::Stock, &format!("{leaf} -subj /CN=leaf -out leaf.csr"));
    std::fs::write(place.path("leaf.ext"), "basicConstraints = CA:FALSE\n").unwrap();
    let issued = "x509 -req -in leaf.csr -CA ca.pem -days 2 -extfile leaf.ext -out leaf.pem";
    takes(place, 1, &format!("{issued} -CAkey {key}"));
    place.openssl(Side::Gabion, "verify -CAfile ca.pem leaf.pem");
    // The address is opened twice by one process.
    let words = "-subj /CN=twice -days 2 -out twice.pem";
    takes(place, 1, &format!("req -x509 -new -key {key} -CA ca.pem -CAkey {key} {words}"));
    place.openssl(Side::Gabion, "verify -partial_chain -CAfile ca.pem twice.pem");
    authority(place, key);
    let public = place.openssl(Side::Gabion, &format!("pkey -in {key} -pubout"));
    assert_eq!(public.as_bytes(), place.bytes("k.pub"));
    takes(place, 0, &format!("pkey -in {key} -pubout -outform DER -out pub.der"));
    takes(place, 0, &format!("pkey -in {key} -noout -text_pub"));
    for words in ["-out private.pem", "-outform DER -out private.der", "-text"] {
        takes_none(place, &format!("pkey -in {key} {words}"));
    }
    let (calls, errors) = place.count(family, "sign");
    assert_eq!((calls, errors), (used(place, "k"), 0));
}

/// Creates the files of `openssl ca`.
fn authority(place: &TestFolder, key: &str) {
    let text = "[ca]\ndefault_ca = a\n[a]\ndatabase = index.txt\nserial = serial\ncrlnumber = crl\n\
                new_certs_dir = .\npolicy = p\ndefault_days = 2\ndefault_crl_days = 2\ndefault_md = default\n\
                [p]\ncommonName = supplied\n";
    std::fs::write(place.path("ca.cnf"), text).unwrap();
    std::fs::write(place.path("index.txt"), "").unwrap();
    for number in ["serial", "crl"] {
        std::fs::write(place.path(number), "1000\n").unwrap();
    }
    // The file in OPENSSL_CONF loads the provider; the command names its own file with the CA
    // section.
    let ca = format!("ca -config ca.cnf -batch -notext -cert ca.pem -keyfile {key}");
    takes(place, 1, &format!("{ca} -in leaf.csr -out by_ca.pem"));
    place.openssl(Side::Gabion, "verify -CAfile ca.pem by_ca.pem");
    takes(place, 1, &format!("{ca} -gencrl -out crl.pem"));
    place.openssl(Side::Gabion, "crl -in crl.pem -noout -CAfile ca.pem");
    place.openssl(Side::Gabion, "verify -crl_check -CAfile ca.pem -CRLfile crl.pem by_ca.pem");
}

#[test]
fn messages_and_files_take_an_index_each() {
    // Of HSS by another implementation, too.
    messages(&with_key(2), "HSS", hss::verify);
    for (set, _, family) in OF_XMSS {
        messages(&with_key_of(set.parse().unwrap()), family, |_, _, _| true);
    }
}

/// Files and messages: CMS has HSS alone, but OpenSSL makes it of any key.
fn messages(place: &TestFolder, family: &str, verifies: impl Fn(&[u8], &[u8], &[u8]) -> bool) {
    let key = "gabion-hbs:k";
    takes(place, 1, &format!("req -x509 -new -key {key} -subj /CN=hss -days 2 -out cert.pem"));
    let message = "cms -sign -md sha256 -binary -nodetach -in message -outform DER -out cms";
    let signer = format!("-signer cert.pem -inkey {key}");
    let verify = "cms -verify -inform DER -in cms -CAfile cert.pem -out content";
    takes(place, 1, &format!("{message} {signer}"));
    place.openssl(Side::Gabion, verify);
    assert_eq!(place.bytes("content"), place.bytes("message"));
    takes(place, 2, &format!("{message} {signer} {signer}"));
    place.openssl(Side::Gabion, verify);
    takes_none(place, &message.replace("-md sha256 ", &format!("{signer} ")));
    // Before 4.0 a digest would be signed in place of the content.
    let bare = format!("{} -noattr {signer}", message.replace("-nodetach ", ""));
    if place.openssl(Side::Stock, "version").contains("OpenSSL 3.") {
        takes_none(place, &bare);
    } else {
        takes(place, 1, &bare);
        place.openssl(Side::Gabion, &format!("{verify} -binary -content message"));
    }
    for sign in [
        format!("pkeyutl -sign -rawin -inkey {key} -in message -out sig"),
        format!("pkeyutl -sign -inkey {key} -in message -out sig"),
        format!("dgst -sign {key} -out sig message"),
        format!("pkeyutl -sign -rawin -inkey {key}?reserve=8 -in message -out sig"),
    ] {
        takes(place, 1, &sign);
        for verify in [
            "pkeyutl -verify -rawin -pubin -inkey k.pub -in message -sigfile sig",
            "pkeyutl -verify -rawin -pubin -inkey gabion-hbs:k -in message -sigfile sig",
            "dgst -verify k.pub -signature sig message",
        ] {
            takes(place, 0, verify);
        }
        let (content, signature, public) =
            (place.bytes("message"), place.bytes("sig"), place.bytes("k.raw"));
        assert!(verifies(&public, &content, &signature), "{sign}");
        std::fs::write(place.path("other"), b"another image\n").unwrap();
        let other = "pkeyutl -verify -rawin -pubin -inkey k.pub -in other -sigfile sig";
        takes_none(place, other);
    }
    takes_none(place, &format!("dgst -sha256 -sign {key} -out sig message"));
    takes_none(
        place,
        &format!("pkeyutl -sign -rawin -digest sha256 -inkey {key} -in message -out sig"),
    );
    takes_none(place, "pkeyutl -sign -rawin -inkey gabion-hbs:k?reserve=0 -in message -out sig");
    let (calls, errors) = place.count(family, "sign");
    assert_eq!((calls, errors), (used(place, "k"), 0));
}

/// Copies the files of a key.
fn copy(place: &TestFolder, from: &str, to: &str) {
    for ending in ["", ".state", ".log", ".lock", ".trees"] {
        std::fs::copy(place.path(&format!("{from}{ending}")), place.path(&format!("{to}{ending}")))
            .unwrap();
    }
}

#[test]
fn a_copy_and_a_key_that_is_used_up_say_why_they_do_not_sign() {
    let place = with_key(1);
    std::fs::create_dir(place.path("copy")).unwrap();
    copy(&place, "k", "copy/k");
    let sign =
        |key: &str| format!("pkeyutl -sign -rawin -inkey gabion-hbs:{key} -in message -out sig");
    // Whichever signs first goes on.
    takes(&place, 1, &sign("k"));
    std::fs::remove_file(place.path("sig")).unwrap();
    let text = takes_none(&place, &sign("copy/k"));
    assert!(text.contains("not safe to sign with"), "{text}");
    assert!(!place.path("sig").exists());
    takes(&place, 1, &sign("k"));
    // The private key alone, and no key at all.
    std::fs::copy(place.path("k"), place.path("alone")).unwrap();
    let text = place.openssl_refuses(Side::Gabion, &sign("alone"));
    assert!(text.contains("copied without its state"), "{text}");
    for (key, reason) in [("nowhere", "No such file"), ("message", "not a private key")] {
        let text = place.openssl_refuses(Side::Gabion, &sign(key));
        assert!(text.contains(reason), "{text}");
    }
    make(&place, "last", 1, Encoding::Hss, 31);
    place.openssl(Side::Gabion, &sign("last"));
    let text = place.openssl_refuses(Side::Gabion, &sign("last"));
    assert!(text.contains("0 are left"), "{text}");
}

/// Two contexts of which one is a copy, pieces, size queries, refusals: by libcrypto in this process.
#[test]
fn an_index_is_taken_where_a_message_is_signed() {
    let place = with_key(1);
    make(&place, "lone", 1, Encoding::Lms, 0);
    let context = Context::with_config(&LIB, &place.path("gabion.cnf"));
    for name in ["k", "lone"] {
        let key = context.load(&format!("gabion-hbs:{}", place.path(name).display())).unwrap();
        let next = || used(&place, name);
        assert_eq!(key.provider(), "gabion");
        assert!(key.part("priv").is_none());
        let public = key.write(KeyStructure::Public).unwrap();
        assert!(key.write(KeyStructure::Private).is_none());
        // SAFETY: live keys.
        let copied = unsafe { (LIB.EVP_PKEY_dup)(key.raw) };
        assert!(copied.is_null());
        assert!(key.data(KEYPAIR).is_none());
        assert_eq!(key.data(PUBLIC).map(|parts| parts.len()), Some(1));
        let read = context.read(KeyStructure::Public, &public).unwrap();
        // SAFETY: live keys.
        assert_eq!(unsafe { (LIB.EVP_PKEY_eq)(key.raw, read.raw) }, 1);
        let one = begun(&key);
        let len = signed(one.raw, b"m", None).unwrap().len();
        // SAFETY: a live context.
        let two = unsafe { (LIB.EVP_PKEY_CTX_dup)(one.raw) };
        assert!(signed(one.raw, b"m", Some(len - 1)).is_none());
        assert_eq!(next(), 0, "a size is asked for free, and too little room is seen before");
        let made = [one.raw, two, one.raw].map(|context| signed(context, b"m", Some(len)).unwrap());
        // SAFETY: the copy, which is not used again.
        unsafe { (LIB.EVP_PKEY_CTX_free)(two) };
        assert_eq!(next(), 3);
        assert_eq!([0, 1, 2].map(|at| index_of(&made[at])), [0, 1, 2]);
        for signature in &made {
            assert_eq!(signature.len(), len);
            assert!(read.verify(NAME, OURS, &none(), b"m", signature));
        }
        // In pieces.
        // SAFETY: a live context, bytes and room as long as said.
        let piecewise = unsafe {
            let (mut out, mut len) = (vec![0; len], len);
            let update = LIB.EVP_PKEY_sign_message_update;
            let one = begun(&key);
            let updated =
                [&b"mo"[..], b"re"].map(|part| update(one.raw, part.as_ptr(), part.len()));
            assert_eq!(updated, [1, 1]);
            assert_eq!((LIB.EVP_PKEY_sign_message_final)(one.raw, out.as_mut_ptr(), &mut len), 1);
            out
        };
        assert!(read.verify(NAME, OURS, &none(), b"more", &piecewise));
        assert_eq!(next(), 4);
        // Another handle of this process, and threads.
        let other = context.load(&format!("gabion-hbs:{}", place.path(name).display())).unwrap();
        let made: Vec<Vec<u8>> = std::thread::scope(|scope| {
            let threads: Vec<_> = [&key, &other, &key, &other]
                .map(|key| {
                    scope.spawn(|| [(); 4].map(|()| key.sign(NAME, OURS, &none(), b"t").unwrap()))
                })
                .into();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        let indexes: HashSet<u32> = made.iter().map(|signature| index_of(signature)).collect();
        assert_eq!(indexes.len(), 16);
        assert!(made.iter().all(|made| read.verify(NAME, OURS, &none(), b"t", made)));
        assert_eq!(next(), 20);
    }
}

/// On a thread with the stack of an asynchronous job: opened, signed with twice, closed. And in a child that was forked
/// since, which gets no signature and takes nothing from its parent.
#[test]
fn little_stack_is_enough_and_a_forked_child_does_not_sign() {
    let place = with_key(1);
    let context = Context::with_config(&LIB, &place.path("gabion.cnf"));
    let address = format!("gabion-hbs:{}", place.path("k").display());
    let small = std::thread::Builder::new().stack_size(32 << 10);
    let signs = || {
        let key = context.load(&address).unwrap();
        let made = [(); 2].map(|()| key.sign(NAME, OURS, &none(), b"m").unwrap());
        made.iter().all(|made| key.verify(NAME, OURS, &none(), b"m", made))
    };
    let done =
        std::thread::scope(|scope| small.spawn_scoped(scope, signs).unwrap().join().unwrap());
    assert!(done);
    assert_eq!(used(&place, "k"), 2);
    let key = context.load(&address).unwrap();
    let one = begun(&key);
    let len = signed(one.raw, b"m", None).unwrap().len();
    // SAFETY: the child makes one call and ends by _exit, so nothing of the parent runs twice.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: no pointer is passed.
        unsafe { libc::alarm(60) };
        let refused = signed(one.raw, b"m", Some(len)).is_none();
        // SAFETY: ends the child without running the parent's exit handlers.
        unsafe { libc::_exit(if refused { 0 } else { 1 }) }
    }
    let made = signed(one.raw, b"m", Some(len)).unwrap();
    let mut status = 0;
    // SAFETY: a child of ours.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "status {status:#x}");
    assert_eq!((index_of(&made), used(&place, "k")), (2, 3));
}

/// EVP_PKEY_KEYPAIR and EVP_PKEY_PUBLIC_KEY.
const KEYPAIR: i32 = 0x87;
const PUBLIC: i32 = 0x86;

/// A signature that was begun.
fn begun(key: &Key<'_>) -> PkeyCtx {
    let context = key.operation(OURS);
    let [name, query] = [NAME, OURS].map(|text| CString::new(text).unwrap());
    // SAFETY: live objects and C strings.
    unsafe {
        let algorithm = (LIB.EVP_SIGNATURE_fetch)(key.context.raw, name.as_ptr(), query.as_ptr());
        let begun = (LIB.EVP_PKEY_sign_message_init)(context.raw, algorithm, null());
        assert_eq!(begun, 1, "{}", LIB.last_error());
        (LIB.EVP_SIGNATURE_free)(algorithm);
    }
    context
}

/// Signs into so much room; without any, a buffer as long as it says it would be.
fn signed(context: *mut c_void, message: &[u8], room: Option<usize>) -> Option<Vec<u8>> {
    let mut out = vec![0; room.unwrap_or(0)];
    let (place, mut len) = (out.as_mut_ptr(), out.len());
    let place = if room.is_some() { place } else { null_mut() };
    // SAFETY: a live context, bytes and room as long as said.
    let done =
        unsafe { (LIB.EVP_PKEY_sign)(context, place, &mut len, message.as_ptr(), message.len()) };
    out.resize(len, 0);
    (done == 1).then_some(out)
}

/// q of the only tree: after Nspk.
fn index_of(signature: &[u8]) -> u32 {
    assert_eq!(signature[..4], [0; 4]);
    u32::from_be_bytes(signature[4..8].try_into().unwrap())
}
