//! The memory of a message that comes in pieces.

use gabion_provider_testing::{LIB, OURS, both, none, pattern};

use crate::turn;

/// Bytes of this process that are in memory.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    let kilobytes = line.split_whitespace().nth(1).unwrap();
    kilobytes.parse::<usize>().unwrap() << 10
}

/// Pieces of what the standard hashes first are hashed as they come: 128 MiB take no memory, and the
/// signature is that of the whole message, in every form.
#[test]
fn pieces_that_can_be_hashed_are_not_kept() {
    const PIECE: usize = 1 << 20;
    let _turn = turn();
    let (_place, context) = both();
    let piece = pattern(PIECE, 9);
    let forms = [none(), none().octets("context-string", b"of pieces")];
    let formatted = none().int("message-encoding", 0);
    for (name, form, count) in [
        ("ML-DSA-65", &forms[0], 128),
        ("ML-DSA-44", &forms[1], 2),
        ("ML-DSA-87", &formatted, 2),
        ("HashML-DSA-65-with-SHA512", &forms[1], 128),
        ("HashSLH-DSA-SHAKE-128f-with-SHAKE128", &forms[0], 2),
        ("SLH-DSA-SHA2-128f", &forms[1], 2), // Kept whole.
    ] {
        let key = context.generate(name, OURS, &none()).unwrap();
        let fetched = std::ffi::CString::new(name).unwrap();
        let before = resident();
        let mut signature = vec![0; 20_000];
        let mut len = signature.len();
        // SAFETY: live objects, room and bytes as long as said.
        unsafe {
            let query = c"provider=gabion";
            let algorithm =
                (LIB.EVP_SIGNATURE_fetch)(context.raw, fetched.as_ptr(), query.as_ptr());
            let signing = key.operation(OURS);
            let list = form.list();
            let init = LIB.EVP_PKEY_sign_message_init;
            assert_eq!(init(signing.raw, algorithm, list.as_ptr()), 1, "{name}");
            for _ in 0..count {
                let update = LIB.EVP_PKEY_sign_message_update;
                assert_eq!(update(signing.raw, piece.as_ptr(), PIECE), 1);
            }
            let more = resident().saturating_sub(before);
            assert!(count < 128 || more < 32 << 20, "{name}: {more} bytes more");
            // How it is signed is settled where that is a part of what was hashed.
            if name.starts_with("ML-DSA") {
                let late = none().octets("context-string", b"late");
                let set = (LIB.EVP_PKEY_CTX_set_params)(signing.raw, late.list().as_ptr());
                assert_ne!(set, 1, "{name}");
            }
            let made =
                (LIB.EVP_PKEY_sign_message_final)(signing.raw, signature.as_mut_ptr(), &mut len);
            assert_eq!(made, 1, "{name}: {}", LIB.last_error());
            (LIB.EVP_SIGNATURE_free)(algorithm);
        }
        signature.truncate(len);
        if count < 128 {
            let whole = piece.repeat(count);
            assert!(key.verify(name, OURS, form, &whole, &signature), "{name}");
            assert!(!key.verify(name, OURS, form, &whole[1..], &signature), "{name}");
        }
    }
}
