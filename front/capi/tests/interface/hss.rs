//! HSS and XMSS, of which there are public keys only: RFC 8554's first test case, and a vector of liboqs.

use std::ffi::CStr;
use std::path::Path;
use std::ptr::null_mut;

use gabion::{
    Message, gabion_private_key_generate_many, gabion_private_key_import, gabion_public_key_free,
    gabion_public_key_import, gabion_verify, gabion_verify_many,
};

const HSS: &CStr = c"HSS";
const XMSS: &CStr = c"XMSS";
const XMSSMT: &CStr = c"XMSSMT";
const OK: i32 = 0;
const E_ALGORITHM: i32 = -3;
const E_LENGTH: i32 = -4;
const E_KEY: i32 = -5;
const E_SIGNATURE: i32 = -7;

/// Key, message and signature of a file's first case; none where the vectors are not.
fn test_case(file: &str, fields: [&str; 3]) -> Option<[Vec<u8>; 3]> {
    let root = std::env::var_os("GABION_VECTORS").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/vectors"),
        Into::into,
    );
    let text = std::fs::read_to_string(root.join(file)).ok()?;
    let field = |name: &str| -> Vec<u8> {
        let digits = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
        (0..digits.len()).step_by(2).map(byte).collect()
    };
    Some(fields.map(field))
}

#[test]
fn a_key_verifies_alone_and_in_places_of_any_length() {
    let of_hss = test_case("botan/hss_lms_verify.vec", ["PublicKey = ", "Msg = ", "Signature = "]);
    if let Some(case) = of_hss {
        verifies(HSS, case, 74_988);
    }
    let of_xmss = test_case("liboqs/xmss/XMSS-SHA2_10_256.rsp", ["pk = ", "msg = ", "sm = "]);
    if let Some(case) = of_xmss {
        verifies(XMSS, case, 9732);
    }
}

fn verifies(name: &CStr, [key, text, signature]: [Vec<u8>; 3], most: usize) {
    let message = || Message {
        message: text.as_ptr(),
        message_len: text.len(),
        context: std::ptr::null(),
        context_len: 0,
        prehash: std::ptr::null(),
    };
    let mut handle = null_mut();
    // SAFETY: a text, bytes with their length and a place; then a handle, messages and signatures with theirs.
    unsafe {
        let at = key.as_ptr();
        assert_eq!(gabion_public_key_import(name.as_ptr(), at, key.len() - 1, &mut handle), E_KEY);
        assert_eq!(gabion_public_key_import(name.as_ptr(), at, key.len(), &mut handle), OK);
        let verify = |len| gabion_verify(handle, &message(), signature.as_ptr(), len);
        assert_eq!((verify(signature.len()), verify(signature.len() - 1)), (OK, E_SIGNATURE));
        for place in [signature.len(), signature.len() + 1, most] {
            let mut places = vec![0; 2 * place];
            places[..signature.len()].copy_from_slice(&signature);
            places[place..][..signature.len()].copy_from_slice(&signature);
            places[place + 100] ^= 1;
            let (keys, messages) = ([handle.cast_const(); 2], [message(), message()]);
            let (lens, mut status) = ([signature.len(); 2], [7; 2]);
            let mut many = |len: usize| {
                let (from, lens) = (places.as_ptr(), lens.as_ptr());
                let (keys, messages) = (keys.as_ptr(), messages.as_ptr());
                let codes = status.as_mut_ptr();
                (gabion_verify_many(keys, messages, 2, from, len, lens, codes), status)
            };
            assert_eq!(many(2 * place), (OK, [OK, E_SIGNATURE]), "{place}");
            assert_eq!(many(2 * place - 1).0, E_LENGTH, "{place}");
        }
        gabion_public_key_free(handle);
    }
}

#[test]
fn no_private_key_is_made_or_read() {
    for name in [HSS, XMSS, XMSSMT] {
        let (mut key, mut status) = (null_mut(), 7);
        // SAFETY: a text, bytes with their length, places.
        unsafe {
            let made = gabion_private_key_generate_many(name.as_ptr(), 1, &mut key, &mut status);
            let read = gabion_private_key_import(name.as_ptr(), [7; 64].as_ptr(), 64, &mut key);
            assert_eq!((made, read, key.is_null()), (E_ALGORITHM, E_ALGORITHM, true));
        }
    }
}
