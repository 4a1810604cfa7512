//! The parameters of keys, and their lists: every key type that the default provider has too is
//! compared between both.

use std::ffi::{CString, c_char, c_int, c_void};
use std::fmt::Debug;
use std::ptr::{null, null_mut};

use gabion_provider_testing::libcrypto::{Context, Key, Param, Params};
use gabion_provider_testing::{
    GROUPS, KEMS, LIB, OURS, OURS_ALONE, SIGNATURES, SLH_DSA, STOCK, both, none,
};

/// Selections of a key's parts, by name.
const SELECTIONS: [(&str, c_int); 10] = [
    ("everything", 0x87),
    ("private key and parameters", 0x85),
    ("public key and parameters", 0x86),
    ("key pair", 3),
    ("public key", 2),
    ("private key", 1),
    ("parameters", 0x84),
    ("domain parameters", 4),
    ("other parameters", 0x80),
    ("nothing", 0),
];

/// Every key type that both providers have.
fn names() -> impl Iterator<Item = &'static str> {
    KEMS.into_iter().chain(SIGNATURES).chain(SLH_DSA.map(|(name, _)| name)).chain(GROUPS)
}

/// Hybrids with a NIST curve, of which the default provider takes and hands over no private key, and not
/// even the public key of a pair.
fn is_kept_by_default(name: &str) -> bool {
    name.starts_with("Sec")
}

/// The answers of both providers to the same questions, and the differences.
#[derive(Default)]
struct Differences(Vec<String>);

impl Differences {
    fn compare<T: Debug>(&mut self, what: &str, answers: [T; 2]) {
        let [ours, stock] = answers.map(|answer| format!("{answer:?}"));
        if ours != stock {
            self.0.push(format!("{what}\n    ours:  {ours:.200}\n    stock: {stock:.200}"));
        }
    }

    fn are_none(self) {
        assert!(self.0.is_empty(), "{} differ:\n{}", self.0.len(), self.0.join("\n"));
    }
}

/// Returns a key at both providers, in each state that a key can be in: Gabion's, then the default
/// provider's.
fn keys<'a>(context: &'a Context, name: &str) -> Vec<(&'static str, [Key<'a>; 2])> {
    let made = context.generate(name, STOCK, &none()).expect(name);
    let import = |parts: &[&str]| {
        let params = parts.iter().fold(none(), |params, part| match made.part(part) {
            Some(bytes) => params.octets(part, &bytes),
            None => params,
        });
        [OURS, STOCK].map(|query| context.import(name, query, &params).expect(name))
    };
    let public = match GROUPS.contains(&name) {
        true => {
            let share = none().octets("pub", &made.part("encoded-pub-key").unwrap());
            [OURS, STOCK].map(|query| context.import(name, query, &share).expect(name))
        }
        false => import(&["pub"]),
    };
    let mut keys = vec![("a public key", public)];
    if is_kept_by_default(name) {
        keys.push((
            "a key pair",
            [OURS, STOCK].map(|query| context.generate(name, query, &none()).expect(name)),
        ));
    } else {
        keys.push(("a key pair", import(&["seed", "priv", "pub"])));
        keys.push(("a key pair without its seed", import(&["priv"])));
    }
    let empty = keys[1].1.each_ref().map(Key::without_material);
    keys.push(("an empty key", empty));
    keys
}

/// EVP_PKEY_todata for each selection, and the three of EVP_PKEY_print.
#[test]
fn keys_hand_over_and_print_the_parts_that_those_of_the_default_provider_do() {
    let (_place, context) = both();
    let mut differences = Differences::default();
    for name in names() {
        for (state, keys) in keys(&context, name) {
            for (selection, bits) in SELECTIONS {
                if is_kept_by_default(name) && bits & 3 != 0 {
                    continue;
                }
                let answers = keys.each_ref().map(|key| key.data(bits));
                differences.compare(&format!("{name}: {selection} of {state}"), answers);
            }
            for (what, print) in [
                ("print_params", LIB.EVP_PKEY_print_params),
                ("print_public", LIB.EVP_PKEY_print_public),
                ("print_private", LIB.EVP_PKEY_print_private),
            ] {
                let answers = keys.each_ref().map(|key| key.printed(print));
                differences.compare(&format!("{name}: {what} of {state}"), answers);
            }
        }
        let made = [OURS, STOCK].map(|query| context.empty(name, query));
        let parts = made.each_ref().map(|key| key.parts(3));
        differences.compare(&format!("{name}: what paramgen makes"), parts);
    }
    LIB.take_errors();
    differences.are_none();
    // Keys that only Gabion supports are printed in the same way.
    for (name, _) in OURS_ALONE.iter().filter(|(name, _)| !name.starts_with("FN-DSA")) {
        let key = context.generate(name, OURS, &none()).expect(name);
        let (done, text) = key.printed(LIB.EVP_PKEY_print_params);
        assert!(done == 1 && text.starts_with("pub:\n"), "{name}: {text:.100}");
        assert_eq!(key.without_material().printed(LIB.EVP_PKEY_print_params).0, 0, "{name}");
    }
}

/// Names and types that are listed.
type List = Vec<(String, u32)>;

/// Our list and the default provider's, without what newer versions than this OpenSSL list.
fn without_later<const COUNT: usize>(lists: [List; 2], later: [&str; COUNT]) -> [List; 2] {
    let [mut ours, stock] = lists;
    ours.retain(|entry| stock.contains(entry) || !later.contains(&&*entry.0));
    [ours, stock]
}

/// Compares the lists of parameters of keys, generations, imports and operations.
#[test]
fn lists_are_those_of_the_default_provider() {
    let (_place, context) = both();
    let mut differences = Differences::default();
    for name in names() {
        let is_group = GROUPS.contains(&name);
        let keys = [OURS, STOCK].map(|query| context.generate(name, query, &none()).expect(name));
        // Ours lists, and answers, the public key of a hybrid by that name, too.
        let more = if is_group { "pub" } else { "" };
        let later = ["security-category", "ri-type", "kemri-kdf-alg", more];
        let of_keys = without_later(keys.each_ref().map(Key::gettable_typed), later);
        differences.compare(&format!("{name}: of a key"), of_keys);
        let later = [if is_group { "properties" } else { "" }];
        let settable = without_later(keys.each_ref().map(Key::settable), later);
        differences.compare(&format!("{name}: into a key"), settable);
        let mut of_generations =
            [OURS, STOCK].map(|query| context.settable_for_generation(name, query));
        for (key, data_type) in &mut of_generations[1] {
            // 3.5 lists it as bytes by mistake; it takes a text, too.
            *data_type = if key == "properties" { 4 } else { *data_type };
        }
        let later = [if KEMS.contains(&name) { "properties" } else { "" }];
        let of_generations = without_later(of_generations, later);
        differences.compare(&format!("{name}: of a generation"), of_generations);
        for (selection, bits) in SELECTIONS {
            let answers = [OURS, STOCK].map(|query| context.settable_for_import(name, query, bits));
            differences.compare(&format!("{name}: of an import of {selection}"), answers);
        }
        if KEMS.contains(&name) || is_group {
            let operations = [(&keys[0], OURS), (&keys[1], STOCK)]
                .map(|(key, query)| key.lists_of_encapsulation(query));
            let [(ours, answered), (stock, stock_answered)] = operations;
            differences.compare(&format!("{name}: of an encapsulation"), [ours, stock]);
            // Asked for nothing, the default provider's hybrids fail.
            if !is_group {
                let answers = [answered, stock_answered];
                differences.compare(&format!("{name}: whether it answers"), answers);
            } else {
                assert_eq!(answered, 1, "{name}");
            }
        }
    }
    differences.are_none();
}

/// The first error of this thread as a code of OpenSSL's, which programs look at; the queue is empty afterwards.
fn first_code() -> u64 {
    // SAFETY: no argument.
    let code = unsafe { (LIB.ERR_peek_error)() };
    LIB.take_errors();
    code
}

/// EVP_DigestSignInit_ex and EVP_DigestVerifyInit_ex.
type DigestInit = unsafe extern "C" fn(
    *mut c_void,
    *mut *mut c_void,
    *const c_char,
    *mut c_void,
    *const c_char,
    *mut c_void,
    *const Param,
) -> c_int;

/// Begins to sign or to verify by the digest interface, with a digest's name.
fn begins_with_digest(key: &Key<'_>, init: DigestInit, query: &str) -> bool {
    // Preferred, not demanded: the digest itself is in the default provider alone.
    let query = CString::new(format!("?{query}")).unwrap();
    // SAFETY: live objects, C strings, null where nothing is wanted.
    unsafe {
        let ctx = (LIB.EVP_MD_CTX_new)();
        let (library, digest) = (key.context.raw, c"SHA256".as_ptr());
        let begun = init(ctx, null_mut(), digest, library, query.as_ptr(), key.raw, null());
        (LIB.EVP_MD_CTX_free)(ctx);
        begun == 1
    }
}

/// Returns parameters that are not a valid key.
fn no_keys(context: &Context, name: &str) -> Vec<(&'static str, Params)> {
    let [key, other] = [(); 2].map(|()| context.generate(name, STOCK, &none()).unwrap());
    let [seed, private, public] = ["seed", "priv", "pub"].map(|part| key.part(part).unwrap());
    let others = other.part("pub").unwrap();
    let mut forms = vec![
        ("a short seed", none().octets("seed", &seed[1..])),
        ("a short private key", none().octets("priv", &private[1..])),
        ("a short public key", none().octets("pub", &public[1..])),
        ("nothing", none()),
        ("a pair of two", none().octets("priv", &private).octets("pub", &others)),
    ];
    if KEMS.contains(&name) {
        let not_reduced = [&[0xff; 3], &public[3..]].concat();
        forms.push(("a coefficient of q", none().octets("pub", &not_reduced)));
    }
    forms
}

/// Failures report the same reason numbers as the default provider.
#[test]
fn reasons_are_those_of_the_default_provider() {
    let (_place, context) = both();
    let mut differences = Differences::default();
    LIB.take_errors();
    let mut fails = |what: String, try_it: &dyn Fn(&str) -> bool| {
        let codes = [OURS, STOCK].map(|query| {
            assert!(!try_it(query), "{what}: {query}");
            format!("{:x}", first_code())
        });
        differences.compare(&what, codes);
    };
    let quick = ["SLH-DSA-SHAKE-128f", "SLH-DSA-SHA2-192f"];
    for name in KEMS.into_iter().chain(SIGNATURES) {
        for (what, params) in no_keys(&context, name) {
            let import = |query: &str| context.import(name, query, &params).is_some();
            fails(format!("{name}: {what}"), &import);
        }
        // Of ML-DSA the default provider says nothing.
        let short = none().octets("seed", &[7; 31]);
        let generate = |query: &str| context.generate(name, query, &short).is_some();
        match KEMS.contains(&name) {
            true => fails(format!("{name}: generated of a short seed"), &generate),
            false => assert!(!generate(OURS), "{name}"),
        }
        LIB.take_errors();
    }
    for name in SIGNATURES.into_iter().chain(quick) {
        let keys = [OURS, STOCK].map(|query| context.generate(name, query, &none()).unwrap());
        let of = |query: &str| &keys[usize::from(query == STOCK)];
        fails(format!("{name}: a digest"), &|query| {
            begins_with_digest(of(query), LIB.EVP_DigestSignInit_ex, query)
        });
        fails(format!("{name}: a digest to verify"), &|query| {
            begins_with_digest(of(query), LIB.EVP_DigestVerifyInit_ex, query)
        });
        if SIGNATURES.contains(&name) {
            let short = none().octets("test-entropy", &[1; 31]);
            fails(format!("{name}: short randomness"), &|query| {
                of(query).sign(name, query, &short, b"").is_some()
            });
        }
    }
    for name in KEMS {
        let keys = [OURS, STOCK].map(|query| context.generate(name, query, &none()).unwrap());
        let of = |query: &str| &keys[usize::from(query == STOCK)];
        let public = none().octets("pub", &keys[0].part("pub").unwrap());
        let short = none().octets("ikme", &[1; 31]);
        fails(format!("{name}: short randomness"), &|query| {
            of(query).encapsulate(query, &short).is_some()
        });
        fails(format!("{name}: opening with a public key"), &|query| {
            let key = context.import(name, query, &public).unwrap();
            key.decapsulate(query, &[7; 1088]).is_some()
        });
    }
    differences.are_none();
}

/// Numbers of every type and width, and missing strings, are set as by the default provider,
/// including the effect on signatures.
#[test]
fn parameters_are_converted_as_by_the_default_provider() {
    let (_place, context) = both();
    let mut differences = Differences::default();
    for name in ["ML-DSA-44", "SLH-DSA-SHAKE-128f"] {
        let made = context.generate(name, STOCK, &none()).unwrap();
        let parts = none().octets("priv", &made.part("priv").unwrap());
        let parts = parts.octets("pub", &made.part("pub").unwrap());
        let keys = [OURS, STOCK].map(|query| context.import(name, query, &parts).unwrap());
        let mut values = Vec::new();
        // A signature of SLH-DSA takes the time of a hundred others.
        let (numbers, types) = match name {
            "ML-DSA-44" => (&[0i16, 1, 2, -1][..], &[1, 2][..]),
            _ => (&[2][..], &[1][..]),
        };
        for &number in numbers {
            for &data_type in types {
                values.push((data_type, number.to_ne_bytes().to_vec()));
                values.push((data_type, i32::from(number).to_ne_bytes().to_vec()));
                values.push((data_type, i64::from(number).to_ne_bytes().to_vec()));
                values.push((data_type, i128::from(number).to_ne_bytes().to_vec()));
            }
            values.push((3, f64::from(number).to_ne_bytes().to_vec()));
        }
        values.push((3, 1.5f64.to_ne_bytes().to_vec()));
        values.push((4, b"1\0".to_vec()));
        values.push((5, vec![1, 0, 0, 0]));
        for key in ["deterministic", "message-encoding", "mu"] {
            // Its message would be of another form; only whether it is taken is asked.
            let is_compared = key == "deterministic";
            for (data_type, bytes) in &values {
                if key != "deterministic" && name != "ML-DSA-44"
                    || key == "message-encoding" && !is_encoding(bytes)
                {
                    continue;
                }
                let params = none().value(key, *data_type, bytes);
                let answers = [OURS, STOCK].map(|query| {
                    let key = &keys[usize::from(query == STOCK)];
                    let message = if is_compared { &b"text"[..] } else { &[7; 64] };
                    let sign = || key.sign(name, query, &params, message);
                    let (first, second) = (sign(), sign());
                    let is_same = first == second;
                    let both = if is_same && is_compared { first.clone() } else { None };
                    (first.is_some(), is_same, both)
                });
                differences.compare(&format!("{name}: {key} {data_type} {bytes:?}"), answers);
            }
        }
        // A null string, with a length and without.
        for (key, len) in [("context-string", 0), ("context-string", 3), ("test-entropy", 0)] {
            let params = none().absent(key, len);
            let answers = [OURS, STOCK].map(|query| {
                keys[usize::from(query == STOCK)].sign(name, query, &params, b"text").is_some()
            });
            differences.compare(&format!("{name}: {key} null, {len}"), answers);
        }
    }
    LIB.take_errors();
    differences.are_none();
}

/// Returns whether a number says how a message comes: 0 and 1 do, and ours refuses others when they
/// are set.
fn is_encoding(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| byte == 0) || bytes[0] == 1
}

#[test]
fn a_seed_is_listed_where_there_is_one_and_parameters_are_not_a_missing_key() {
    let (_place, context) = both();
    for name in names().chain(OURS_ALONE.map(|(name, _)| name)) {
        let key = context.generate(name, OURS, &none()).expect(name);
        let has_seed = key.gettable().iter().any(|part| part == "seed");
        assert_eq!(has_seed, key.part("seed").is_some(), "{name}");
        // A key without domain parameters reports this, not a missing key.
        assert_eq!(key.parts(0x84), None);
        assert!(LIB.last_error().contains("parameters alone"), "{name}: {}", LIB.last_error());
    }
}
