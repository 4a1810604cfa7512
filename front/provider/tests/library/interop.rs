//! Ours against the default provider in one process: the same inputs, the same bytes; every mix of
//! key forms; and what must be refused.

use std::ptr::{null, null_mut};

use gabion_provider_testing::libcrypto::{Context, Params};
use gabion_provider_testing::{
    GROUPS, KEMS, LIB, OURS, PRIVATE_GROUPS, SIGNATURES, STOCK, TestFolder, both, none, pattern,
};

#[test]
fn keys_of_a_seed_are_the_same() {
    let (_place, context) = both();
    for (name, len) in KEMS.map(|name| (name, 64)).into_iter().chain(SIGNATURES.map(|n| (n, 32))) {
        for round in 0..20 {
            let seed = Params::default().octets("seed", &pattern(len, round));
            let ours = context.generate(name, OURS, &seed).unwrap();
            let stock = context.generate(name, STOCK, &seed).unwrap();
            assert_eq!((ours.provider(), stock.provider()), ("gabion".into(), "default".into()));
            for part in ["seed", "priv", "pub"] {
                assert!(ours.part(part).is_some_and(|bytes| bytes.len() >= 32), "{name} {part}");
                assert_eq!(ours.part(part), stock.part(part), "{name} {part}");
            }
            assert_eq!(ours.part("encoded-pub-key").is_some(), name.starts_with("ML-KEM"));
            assert_eq!(ours.default_digest(), stock.default_digest(), "{name}");
            // SAFETY: live keys.
            unsafe {
                assert_eq!((LIB.EVP_PKEY_eq)(ours.raw, stock.raw), 1);
                assert_eq!((LIB.EVP_PKEY_get_size)(ours.raw), (LIB.EVP_PKEY_get_size)(stock.raw));
                assert_eq!((LIB.EVP_PKEY_get_bits)(ours.raw), (LIB.EVP_PKEY_get_bits)(stock.raw));
                assert_eq!(
                    (LIB.EVP_PKEY_get_security_bits)(ours.raw),
                    (LIB.EVP_PKEY_get_security_bits)(stock.raw)
                );
            }
        }
    }
}

#[test]
fn every_mix_of_forms_is_imported_and_wrong_mixes_are_refused() {
    let (_place, context) = both();
    for name in KEMS.iter().chain(&SIGNATURES) {
        let key = context.generate(name, STOCK, &none()).unwrap();
        let other = context.generate(name, STOCK, &none()).unwrap();
        let part = |name| (key.part(name).unwrap(), other.part(name).unwrap());
        let (seed, private, public) = (part("seed"), part("priv"), part("pub"));
        for mix in 1..8 {
            let mut params = Params::default();
            for (bit, name, bytes) in
                [(1, "seed", &seed), (2, "priv", &private), (4, "pub", &public)]
            {
                if mix & bit != 0 {
                    params = params.octets(name, &bytes.0);
                }
            }
            let imported = context.import(name, OURS, &params).expect("a right mix");
            assert_eq!(imported.provider(), "gabion");
            assert_eq!(imported.part("pub"), Some(public.0.clone()), "{name} {mix}");
            assert_eq!(imported.part("priv").is_some(), mix & 3 != 0, "{name} {mix}");
            assert_eq!(imported.part("seed").is_some(), mix & 1 != 0, "{name} {mix}");
            // SAFETY: live keys.
            assert_eq!(unsafe { (LIB.EVP_PKEY_eq)(key.raw, imported.raw) }, 1);
        }
        let refused = [
            none().octets("seed", &seed.0).octets("pub", &public.1),
            none().octets("seed", &seed.0).octets("priv", &private.1),
            none().octets("priv", &private.0).octets("pub", &public.1),
            none().octets("seed", &seed.0[1..]),
            none().octets("priv", &private.0[1..]),
            none().octets("pub", &public.0[1..]),
            none(),
        ];
        for (index, params) in refused.iter().enumerate() {
            // SAFETY: no argument.
            unsafe { (LIB.ERR_clear_error)() };
            assert!(context.import(name, OURS, params).is_none(), "{name} {index}");
            let error = LIB.last_error();
            assert!(error.len() > 20, "{name} {index}: an error says why: {error}");
        }
    }
}

/// ML-KEM's secret vector of one key and all else of another: the checks of FIPS 203 see nothing of it. The
/// bytes of the vector are those before the public key (FIPS 203, Algorithm 16).
#[test]
fn a_private_key_of_two_is_refused_as_by_the_default_provider() {
    let told = |value: &str| {
        let place = TestFolder::new();
        place.configure(&format!("ml-kem.import_pct_type = {value}"));
        let config = std::fs::read_to_string(place.path("gabion.cnf")).unwrap();
        let line = format!("[def]\nml-kem.import_pct_type = {value}\n");
        std::fs::write(place.path("gabion.cnf"), config.replace("[def]\n", &line)).unwrap();
        let context = Context::with_config(&LIB, &place.path("gabion.cnf"));
        (place, context)
    };
    let contexts = [(None, both()), (Some(true), told("none")), (Some(false), told("FIXED"))];
    for (is_let_through, (_, context)) in &contexts {
        for name in KEMS.iter().chain(&GROUPS).chain(&PRIVATE_GROUPS) {
            let keys = [(); 2].map(|()| context.generate(name, OURS, &none()).unwrap());
            let [private, other] = keys.each_ref().map(|key| key.part("priv").unwrap());
            // Of a hybrid with a NIST curve, the scalar stands first.
            let public = keys[0].part("pub").unwrap();
            let (scalar, point) = match *name {
                "SecP384r1MLKEM1024" | "SecP384r1MLKEM768" => (48, 97),
                "SecP521r1MLKEM1024" => (66, 133),
                name if name.starts_with("SecP256r1") => (32, 65),
                _ => (0, 0),
            };
            let ek = &public[point..point + 64];
            let at = private.windows(ek.len()).position(|bytes| bytes == ek).unwrap();
            let mixed = [&private[..scalar], &other[scalar..at], &private[at..]].concat();
            let params = none().octets("priv", &mixed);
            let let_through = is_let_through.unwrap_or(false);
            let queries = if KEMS.contains(name) { &[OURS, STOCK][..] } else { &[OURS] };
            for query in queries {
                let key = context.import(name, query, &params);
                assert_eq!(key.is_some(), let_through, "{name} {query} {is_let_through:?}");
                let key = context.raw_private(name, query, &mixed);
                assert_eq!(key.is_some(), let_through, "{name} {query} {is_let_through:?}");
                // The right one always comes in.
                assert!(context.raw_private(name, query, &private).is_some(), "{name} {query}");
            }
        }
        LIB.take_errors();
    }
}

#[test]
fn encapsulation_is_the_same_and_opens_both_ways() {
    let (_place, context) = both();
    for name in KEMS {
        for round in 0..20 {
            let key = context.generate(name, if round % 2 == 0 { OURS } else { STOCK }, &none());
            let key = key.unwrap();
            let ikme = Params::default().octets("ikme", &pattern(32, round));
            let ours = key.encapsulate(OURS, &ikme).unwrap();
            let stock = key.encapsulate(STOCK, &ikme).unwrap();
            assert_eq!(ours, stock, "{name}");
            for (from, to) in [(OURS, STOCK), (STOCK, OURS), (OURS, OURS)] {
                let (mut ct, secret) = key.encapsulate(from, &none()).unwrap();
                assert_eq!(key.decapsulate(to, &ct), Some(secret.clone()), "{name}");
                // Implicit rejection: another secret, the same with both.
                ct[round as usize] ^= 1;
                let rejected = key.decapsulate(OURS, &ct).unwrap();
                assert_ne!(rejected, secret);
                assert_eq!(key.decapsulate(STOCK, &ct), Some(rejected));
            }
        }
    }
}

#[test]
fn a_given_randomness_serves_one_encapsulation() {
    let (_place, context) = both();
    let key = context.generate("ML-KEM-512", OURS, &none()).unwrap();
    let ikme = none().octets("ikme", &[7; 32]);
    let given = key.encapsulate(OURS, &ikme).unwrap();
    let ctx = key.operation(OURS);
    let list = ikme.list();
    // SAFETY: a live context, a list with an end.
    let begun = unsafe { (LIB.EVP_PKEY_encapsulate_init)(ctx.raw, list.as_ptr()) };
    assert_eq!(begun, 1);
    // SAFETY: a live context, room as long as said.
    let made = [(); 3].map(|()| unsafe {
        let (mut ct, mut secret) = (vec![0; given.0.len()], vec![0; 32]);
        let (mut ct_len, mut secret_len) = (ct.len(), secret.len());
        let (c, s) = (ct.as_mut_ptr(), secret.as_mut_ptr());
        assert_eq!((LIB.EVP_PKEY_encapsulate)(ctx.raw, c, &mut ct_len, s, &mut secret_len), 1);
        (ct, secret)
    });
    assert_eq!(made[0], given);
    assert!(made[1] != given && made[2] != given && made[1] != made[2]);
}

#[test]
fn signatures_are_the_same_and_verify_both_ways() {
    let (_place, context) = both();
    for name in SIGNATURES {
        let key = context.generate(name, STOCK, &none()).unwrap();
        for round in 0..12u8 {
            let message = pattern(usize::from(round) * 97, round);
            let context_string = pattern(usize::from(round) * 23, 1);
            let mut forms = vec![
                (none().int("deterministic", 1), message.clone()),
                (none().octets("test-entropy", &pattern(32, round)), message.clone()),
                (none().int("deterministic", 1).int("message-encoding", 0), message.clone()),
                (none().int("deterministic", 1).int("mu", 1), pattern(64, round)),
            ];
            let with_context = none().int("deterministic", 1);
            forms.push((with_context.octets("context-string", &context_string), message));
            for (index, (params, message)) in forms.iter().enumerate() {
                let ours = key.sign(name, OURS, params, message).unwrap();
                let stock = key.sign(name, STOCK, params, message).unwrap();
                assert_eq!(ours, stock, "{name} form {index} round {round}");
                assert!(key.verify(name, OURS, params, message, &ours));
                let mut bad = ours.clone();
                bad[usize::from(round) * 11] ^= 4;
                assert!(!key.verify(name, OURS, params, message, &bad));
                assert!(!key.verify(name, OURS, params, message, &ours[1..]));
                assert!(!key.verify(name, OURS, params, message, &[]));
            }
            // Hedged: two signatures differ, and the other provider accepts them.
            let message = pattern(100, round);
            let first = key.sign(name, OURS, &none(), &message).unwrap();
            let second = key.sign(name, OURS, &none(), &message).unwrap();
            assert_ne!(first, second);
            assert!(key.verify(name, STOCK, &none(), &message, &first));
            let stock = key.sign(name, STOCK, &none(), &message).unwrap();
            assert!(key.verify(name, OURS, &none(), &message, &stock));
        }
        for bad in [
            none().octets("context-string", &[0; 256]),
            none().octets("test-entropy", &[0; 31]),
            none().int("message-encoding", 2),
        ] {
            assert!(key.sign(name, OURS, &bad, b"m").is_none());
        }
        assert!(key.sign(name, OURS, &none().int("mu", 1), &[0; 63]).is_none());
    }
}

#[test]
fn a_message_in_pieces_is_the_message() {
    let (_place, context) = both();
    let name = "ML-DSA-44";
    let key = context.generate(name, OURS, &none()).unwrap();
    let message = pattern(1000, 3);
    let fetched = c"ML-DSA-44";
    // SAFETY: live objects, room and bytes as long as said.
    unsafe {
        let query = c"provider=gabion";
        let algorithm = (LIB.EVP_SIGNATURE_fetch)(context.raw, fetched.as_ptr(), query.as_ptr());
        let signing = key.operation(OURS);
        assert_eq!((LIB.EVP_PKEY_sign_message_init)(signing.raw, algorithm, null()), 1);
        assert_eq!(signing.provider(), "gabion");
        for piece in message.chunks(333) {
            let done = (LIB.EVP_PKEY_sign_message_update)(signing.raw, piece.as_ptr(), piece.len());
            assert_eq!(done, 1);
        }
        // A duplicate goes on from the same place.
        let copy = (LIB.EVP_PKEY_CTX_dup)(signing.raw);
        assert!(!copy.is_null());
        for ctx in [signing.raw, copy] {
            let mut signature = vec![0; 2420];
            let mut len = signature.len();
            let made = (LIB.EVP_PKEY_sign_message_final)(ctx, signature.as_mut_ptr(), &mut len);
            assert_eq!((made, len), (1, 2420));
            assert!(key.verify(name, STOCK, &none(), &message, &signature));
            for (piece, verdict) in [(&message[..], 1), (&message[1..], 0)] {
                let verifying = key.operation(OURS);
                let begun = (LIB.EVP_PKEY_verify_message_init)(verifying.raw, algorithm, null());
                assert_eq!(begun, 1);
                (LIB.EVP_PKEY_CTX_set_signature)(verifying.raw, signature.as_ptr(), len);
                let raw = verifying.raw;
                (LIB.EVP_PKEY_verify_message_update)(raw, piece.as_ptr(), piece.len());
                assert_eq!((LIB.EVP_PKEY_verify_message_final)(raw), verdict);
            }
        }
        (LIB.EVP_PKEY_CTX_free)(copy);
        (LIB.EVP_SIGNATURE_free)(algorithm);
    }
}

#[test]
fn a_key_share_goes_into_an_empty_key_once() {
    let (_place, context) = both();
    for name in KEMS {
        let peer = context.generate(name, STOCK, &none()).unwrap();
        let share = peer.part("encoded-pub-key").unwrap();
        let key = context.empty(name, OURS);
        assert_eq!((key.provider(), key.part("pub")), ("gabion".into(), None));
        assert!(key.encapsulate(OURS, &none()).is_none(), "an empty key serves nothing");
        // SAFETY: live keys, bytes as long as said.
        unsafe {
            let set = LIB.EVP_PKEY_set1_encoded_public_key;
            assert_ne!(set(key.raw, share.as_ptr(), share.len() - 1), 1);
            assert_eq!(set(key.raw, share.as_ptr(), share.len()), 1, "{}", LIB.last_error());
            assert_ne!(set(key.raw, share.as_ptr(), share.len()), 1, "a key can't be changed");
            let copy = (LIB.EVP_PKEY_dup)(key.raw);
            assert_eq!((LIB.EVP_PKEY_eq)(copy, peer.raw), 1);
            (LIB.EVP_PKEY_free)(copy);
        }
        let (ct, secret) = key.encapsulate(OURS, &none()).unwrap();
        assert_eq!(peer.decapsulate(STOCK, &ct), Some(secret));
        assert!(key.decapsulate(OURS, &ct).is_none(), "a public key opens nothing");

        // Coefficients of q and more (FIPS 203, section 7.2).
        let mut invalid = share.clone();
        invalid[..384].fill(0xff);
        let empty = context.empty(name, OURS);
        // SAFETY: a live key, bytes as long as said.
        let done = unsafe {
            let set = LIB.EVP_PKEY_set1_encoded_public_key;
            set(empty.raw, invalid.as_ptr(), invalid.len())
        };
        assert_ne!(done, 1);
    }
}

#[test]
fn serves_alone_in_a_library_context() {
    let place = TestFolder::new();
    let context = Context::bare(&LIB);
    let modules = std::ffi::CString::new(place.path("modules").to_str().unwrap()).unwrap();
    // SAFETY: live objects and C strings.
    let provider = unsafe {
        (LIB.OSSL_PROVIDER_set_default_search_path)(context.raw, modules.as_ptr());
        (LIB.OSSL_PROVIDER_load)(context.raw, c"gabion".as_ptr())
    };
    assert!(!provider.is_null(), "{}", LIB.last_error());
    // SAFETY: a live provider.
    assert_eq!(unsafe { (LIB.OSSL_PROVIDER_self_test)(provider) }, 1);
    for name in KEMS {
        let key = context.generate(name, "", &none()).unwrap();
        let (ct, secret) = key.encapsulate("", &none()).unwrap();
        assert_eq!(key.decapsulate("", &ct), Some(secret));
        let ctx = key.operation("");
        // SAFETY: a live context.
        assert_eq!(unsafe { (LIB.EVP_PKEY_pairwise_check)(ctx.raw) }, 1);
    }
    for name in SIGNATURES {
        let key = context.generate(name, "", &none()).unwrap();
        let signature = key.sign(name, "", &none(), b"alone").unwrap();
        assert!(key.verify(name, "", &none(), b"alone", &signature));
        let ctx = key.operation("");
        // SAFETY: a live context.
        assert_eq!(unsafe { (LIB.EVP_PKEY_pairwise_check)(ctx.raw) }, 1);
    }
    // SAFETY: every key is gone.
    assert_eq!(unsafe { (LIB.OSSL_PROVIDER_unload)(provider) }, 1);
}

#[test]
fn lengths_are_told_and_short_buffers_refused() {
    let (_place, context) = both();
    let key = context.generate("ML-KEM-768", OURS, &none()).unwrap();
    let ctx = key.operation(OURS);
    let (mut ct, mut secret) = (vec![0u8; 1088], vec![0u8; 32]);
    let (mut ct_len, mut secret_len) = (0, 0);
    // SAFETY: a live context, room as long as said.
    unsafe {
        assert_eq!((LIB.EVP_PKEY_encapsulate_init)(ctx.raw, null()), 1);
        let encapsulate = LIB.EVP_PKEY_encapsulate;
        let asked = encapsulate(ctx.raw, null_mut(), &mut ct_len, null_mut(), &mut secret_len);
        assert_eq!((asked, ct_len, secret_len), (1, 1088, 32));
        for (c, s) in [(1087, 32), (1088, 31)] {
            let (mut c, mut s) = (c, s);
            let done = encapsulate(ctx.raw, ct.as_mut_ptr(), &mut c, secret.as_mut_ptr(), &mut s);
            assert_ne!(done, 1);
        }
        assert!(ct.iter().chain(&secret).all(|&byte| byte == 0), "nothing was written");
    }
}

/// FIPS 203 has no such check for the private key, but no key generation makes one, and the default
/// provider refuses it.
#[test]
fn a_private_key_with_a_coefficient_of_q_or_above_is_refused() {
    let (_place, context) = both();
    for name in KEMS {
        let key = context.generate(name, STOCK, &none()).unwrap();
        let mut private = key.part("priv").unwrap();
        let whole = none().octets("priv", &private);
        assert!(context.import(name, OURS, &whole).is_some(), "{name}");
        // Twelve bits each: the first small one of the first 256 gets q more.
        let pair = |at: usize| u16::from_le_bytes([private[at], private[at + 1]]) & 0xfff;
        let at = (0..384).step_by(3).find(|&at| pair(at) < 4096 - 3329).unwrap();
        let larger = (pair(at) + 3329).to_le_bytes();
        private[at] = larger[0];
        private[at + 1] = private[at + 1] & 0xf0 | larger[1];
        for query in [OURS, STOCK] {
            let params = none().octets("priv", &private);
            assert!(context.import(name, query, &params).is_none(), "{name} {query}");
        }
    }
}
