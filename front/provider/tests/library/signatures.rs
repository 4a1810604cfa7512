//! Signatures other than ML-DSA: SLH-DSA against the default provider, bit by bit; the pre-hash
//! variants against its raw encoding of messages; algorithms that it lacks against themselves.

use gabion_engine::Prehash;
use gabion_provider_testing::libcrypto::{Key, Params};
use gabion_provider_testing::{LIB, OURS, OURS_ALONE, SLH_DSA, STOCK, both, none, pattern};

/// Checks inputs that must not verify: another message, another context, a changed, shorter, longer
/// or empty signature.
fn refuses(key: &Key<'_>, name: &str, query: &str, message: &[u8], signature: &[u8]) {
    let verify = |params: &Params, message: &[u8], signature: &[u8]| {
        key.verify(name, query, params, message, signature)
    };
    assert!(verify(&none(), message, signature), "{name} {query}");
    assert!(!verify(&none(), &[message, b"!"].concat(), signature), "{name}: another message");
    if !name.starts_with("Falcon") {
        let other = none().octets("context-string", b"other");
        assert!(!verify(&other, message, signature), "{name}: another context");
    }
    for at in [0, signature.len() / 2, signature.len() - 1] {
        let mut changed = signature.to_vec();
        changed[at] ^= 0x10;
        assert!(!verify(&none(), message, &changed), "{name}: byte {at} changed");
    }
    for len in [0, 1, signature.len() / 2, signature.len() - 1] {
        assert!(!verify(&none(), message, &signature[..len]), "{name}: {len} bytes");
    }
    for extra in [1, 100, 1 << 16] {
        let longer = [signature, &vec![0; extra]].concat();
        assert!(!verify(&none(), message, &longer), "{name}: {extra} bytes more");
    }
}

#[test]
fn slh_dsa_is_that_of_the_default_provider() {
    let (_place, context) = both();
    for (index, (name, n)) in SLH_DSA.into_iter().enumerate() {
        let seed = none().octets("seed", &pattern(3 * n, index as u8));
        let ours = context.generate(name, OURS, &seed).unwrap();
        let stock = context.generate(name, STOCK, &seed).unwrap();
        assert_eq!((ours.provider(), stock.provider()), ("gabion".into(), "default".into()));
        for (part, len) in [("priv", 4 * n), ("pub", 2 * n)] {
            assert_eq!(ours.part(part).map(|bytes| bytes.len()), Some(len), "{name} {part}");
            assert_eq!(ours.part(part), stock.part(part), "{name} {part}");
        }
        assert_eq!(ours.part("seed"), None, "what is drawn is no form of the key");
        assert_eq!(ours.default_digest(), stock.default_digest(), "{name}");
        // SAFETY: live keys.
        unsafe {
            assert_eq!((LIB.EVP_PKEY_eq)(ours.raw, stock.raw), 1);
            for get in
                [LIB.EVP_PKEY_get_size, LIB.EVP_PKEY_get_bits, LIB.EVP_PKEY_get_security_bits]
            {
                assert_eq!(get(ours.raw), get(stock.raw), "{name}");
            }
        }

        let message = pattern(100 + index, 7);
        let with = || none().octets("context-string", b"a context");
        let deterministic = with().int("deterministic", 1);
        let entropy = with().octets("test-entropy", &pattern(n, 3));
        let formatted = none().int("deterministic", 1).int("message-encoding", 0);
        // Each key is used by each provider: it crosses over on the way. One comparison for the
        // small sets, whose signatures take the default provider a second.
        let all = [&deterministic, &entropy, &formatted];
        let compared = if name.ends_with('s') { &all[index % 3..][..1] } else { &all[..] };
        for params in compared {
            let made = ours.sign(name, OURS, params, &message).unwrap();
            assert_eq!(stock.sign(name, STOCK, params, &message), Some(made), "{name}");
        }
        let hedged = stock.sign(name, OURS, &none(), &message).unwrap();
        refuses(&ours, name, STOCK, &message, &hedged);
        refuses(&stock, name, OURS, &message, &hedged);
        if name.ends_with('f') {
            let hedged = ours.sign(name, STOCK, &none(), &message).unwrap();
            refuses(&stock, name, OURS, &message, &hedged);
        }
    }
}

#[test]
fn slh_dsa_keys_come_in_the_forms_of_the_default_provider() {
    let (_place, context) = both();
    for (name, n) in SLH_DSA.into_iter().filter(|(name, _)| name.ends_with("8f")) {
        let key = context.generate(name, STOCK, &none()).unwrap();
        let other = context.generate(name, STOCK, &none()).unwrap();
        let (private, public) = (key.part("priv").unwrap(), key.part("pub").unwrap());
        let whole = || none().octets("priv", &private);
        for params in [
            whole(),
            whole().octets("pub", &public),
            none().octets("priv", &private[..2 * n]).octets("pub", &public),
        ] {
            let imported = context.import(name, OURS, &params).expect("a right mix");
            assert_eq!(imported.part("priv"), Some(private.clone()));
            assert_eq!(imported.part("pub"), Some(public.clone()));
            let ctx = imported.operation(OURS);
            // SAFETY: a live context.
            assert_eq!(unsafe { (LIB.EVP_PKEY_pairwise_check)(ctx.raw) }, 1);
        }
        let alone = context.import(name, OURS, &none().octets("pub", &public)).unwrap();
        assert_eq!((alone.part("priv"), alone.part("pub")), (None, Some(public.clone())));
        assert!(alone.sign(name, OURS, &none(), b"m").is_none(), "a public key signs nothing");
        let mut wrong_root = private.clone();
        wrong_root[4 * n - 1] ^= 1;
        for params in [
            none().octets("priv", &private[..2 * n]),
            none().octets("priv", &private[..3 * n]).octets("pub", &public),
            none().octets("priv", &private[1..]),
            none().octets("priv", &wrong_root),
            none().octets("pub", &public[1..]),
            whole().octets("pub", &other.part("pub").unwrap()),
            none().octets("seed", &private[..3 * n]),
            none(),
        ] {
            assert!(context.import(name, OURS, &params).is_none(), "{name}");
        }
        for len in [3 * n - 1, 3 * n + 1, 4 * n] {
            let seed = none().octets("seed", &pattern(len, 1));
            assert!(context.generate(name, OURS, &seed).is_none(), "{name}: seed of {len}");
        }
    }
}

/// The message M' of a pre-hash variant (FIPS 204, Algorithm 4; FIPS 205, Algorithm 23).
fn formatted(context: &[u8], hash: Prehash, message: &[u8]) -> Vec<u8> {
    let header = [1, context.len() as u8];
    [&header[..], context, &hash.oid_der(), &hash.digest(message)].concat()
}

#[test]
fn pre_hash_variants_sign_the_named_digest() {
    let (_place, context) = both();
    for (name, of, hash) in [
        ("HashML-DSA-44-with-SHA512", "ML-DSA-44", Prehash::Sha2_512),
        ("HASH-ML-DSA-65-WITH-SHA512", "ML-DSA-65", Prehash::Sha2_512),
        ("2.16.840.1.101.3.4.3.34", "ML-DSA-87", Prehash::Sha2_512),
        ("id-hash-slh-dsa-sha2-128f-with-sha256", "SLH-DSA-SHA2-128f", Prehash::Sha2_256),
        ("SLH-DSA-SHA2-192f-WITH-SHA512", "SLH-DSA-SHA2-192f", Prehash::Sha2_512),
        ("HashSLH-DSA-SHAKE-128f-with-SHAKE128", "SLH-DSA-SHAKE-128f", Prehash::Shake128),
        ("HashSLH-DSA-SHAKE-256f-with-SHAKE256", "SLH-DSA-SHAKE-256f", Prehash::Shake256),
    ] {
        let key = context.generate(name, OURS, &none()).unwrap();
        let public = key.part("pub").unwrap();
        let plain = context.import(of, STOCK, &none().octets("pub", &public)).unwrap();
        let message = pattern(1000, 9);
        let signature = key.sign(name, OURS, &none(), &message).unwrap();
        refuses(&key, name, OURS, &message, &signature);
        // The default provider has no pre-hash variants, but takes the formatted message.
        let raw = none().int("message-encoding", 0);
        let is_good = |context: &[u8], signature: &[u8]| {
            let message = formatted(context, hash, &message);
            plain.verify(of, STOCK, &raw, &message, signature)
        };
        assert!(is_good(b"", &signature), "{name}");
        let with = none().octets("context-string", b"ctx").int("deterministic", 1);
        let signature = key.sign(name, OURS, &with, &message).unwrap();
        assert!(is_good(b"ctx", &signature) && !is_good(b"", &signature), "{name}");
        // The same key signs something else without the hash, and is another key to OpenSSL.
        assert!(!plain.verify(of, STOCK, &none(), &message, &signature));
        // SAFETY: live keys.
        assert_ne!(unsafe { (LIB.EVP_PKEY_eq)(key.raw, plain.raw) }, 1);
        assert_eq!(key.part("seed").is_some(), of.starts_with("ML-DSA"));
    }
}

#[test]
fn provider_only_algorithms_sign_and_verify() {
    let (_place, context) = both();
    for (name, longest) in OURS_ALONE {
        let key = context.generate(name, OURS, &none()).expect(name);
        // SAFETY: a live key.
        assert_eq!(unsafe { (LIB.EVP_PKEY_get_size)(key.raw) }, longest as i32, "{name}");
        assert_eq!(key.default_digest(), (2, "UNDEF".into()), "{name}");
        assert_eq!(key.part("seed"), None, "{name}");
        for round in 0..4 {
            let message = pattern(50 * round, round as u8);
            let signature = key.sign(name, "", &none(), &message).unwrap();
            assert!(signature.len() <= longest && signature.len() + 256 > longest, "{name}");
            assert!(key.verify(name, "", &none(), &message, &signature), "{name}");
            if round == 3 {
                refuses(&key, name, OURS, &message, &signature);
            }
        }
        let (private, public) = (key.part("priv").unwrap(), key.part("pub").unwrap());
        let forms = none().octets("priv", &private).octets("pub", &public);
        let imported = context.import(name, OURS, &forms).expect(name);
        // SAFETY: live keys.
        assert_eq!(unsafe { (LIB.EVP_PKEY_eq)(imported.raw, key.raw) }, 1);
        let signature = imported.sign(name, OURS, &none(), b"m").unwrap();
        let alone = context.import(name, OURS, &none().octets("pub", &public)).unwrap();
        assert!(alone.verify(name, OURS, &none(), b"m", &signature), "{name}");
        let ctx = imported.operation(OURS);
        // SAFETY: a live context.
        assert_eq!(unsafe { (LIB.EVP_PKEY_pairwise_check)(ctx.raw) }, 1, "{name}");

        let other = context.generate(name, OURS, &none()).unwrap();
        assert!(!other.verify(name, OURS, &none(), b"m", &signature), "{name}: another key");
        let mixed = none().octets("priv", &private).octets("pub", &other.part("pub").unwrap());
        assert!(context.import(name, OURS, &mixed).is_none(), "{name}");
        for len in [0, 1, 31, private.len() / 2, private.len() - 1] {
            let short = none().octets("priv", &private[..len]);
            assert!(context.import(name, OURS, &short).is_none(), "{name}: {len} bytes");
        }
        for len in [0, 1, public.len() / 2, public.len() - 1] {
            let short = none().octets("pub", &public[..len]);
            assert!(context.import(name, OURS, &short).is_none(), "{name}: {len} bytes");
        }
    }
}

#[test]
fn a_parameter_that_an_algorithm_lacks_is_refused() {
    let (_place, context) = both();
    let mu = || none().int("mu", 1);
    for (name, params) in [
        ("Falcon-512", none().octets("context-string", b"c")),
        ("FN-DSA-512-draft", none().int("deterministic", 1)),
        ("MLDSA44-Ed25519-SHA512-draft19", none().int("deterministic", 1)),
        ("MLDSA44-Ed25519-SHA512-draft19", none().octets("test-entropy", &[0; 32])),
        ("SLH-DSA-SHA2-128f", mu()),
        ("SLH-DSA-SHA2-128f", none().octets("test-entropy", &[0; 32])),
        ("HashML-DSA-44-with-SHA512", mu()),
        ("HashML-DSA-44-with-SHA512", none().int("message-encoding", 0)),
        ("ML-DSA-44", none().octets("test-entropy", &[0; 31])),
    ] {
        let key = context.generate(name, OURS, &none()).unwrap();
        assert!(key.sign(name, OURS, &params, &[7; 64]).is_none(), "{name}");
        let error = LIB.last_error();
        assert!(error.contains("takes no parameter") || error.contains("expected"), "{error}");
        assert!(key.sign(name, OURS, &none(), &[7; 64]).is_some(), "{name}");
    }
    for name in ["Falcon-512", "MLDSA44-Ed25519-SHA512-draft19"] {
        let seed = none().octets("seed", &[1; 32]);
        assert!(context.generate(name, OURS, &seed).is_none(), "{name}");
        let error = LIB.last_error();
        assert!(error.contains("cannot be made of a seed"), "{error}");
    }
}
