//! Keys that signing uses up, through C: opened, signed with, looked at, closed; and refused where they have to be.

use std::ffi::{CString, OsStr, c_char};
use std::num::NonZero;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr::{null, null_mut};

use gabion::{
    Message, StatefulKey, StatefulSigned, StatefulStatus, gabion_last_error,
    gabion_public_key_free, gabion_public_key_import, gabion_stateful_key_close,
    gabion_stateful_key_open, gabion_stateful_key_public, gabion_stateful_key_sign,
    gabion_stateful_key_status, gabion_verify,
};
use gabion_engine::Engine;
use gabion_engine::keys::stateful::hss::{Levels, Progress};
use gabion_engine::lms::{LM_OTS, LMS};
use gabion_state::{Encoding, Environment, GeneratedKey, KeyFileOptions, Sets};

const OK: i32 = 0;
const E_ARGUMENT: i32 = -2;
const E_LENGTH: i32 = -4;
const E_KEY: i32 = -5;
const E_INPUT: i32 = -6;
const E_SIGNATURE: i32 = -7;
const E_STATE: i32 = -12;

/// Makes a key of one tree of height 5 in a folder, with its anchor in another.
fn make(folder: &Path, passphrase: Option<&[u8]>, first: u64) -> PathBuf {
    let around = Environment::real();
    let lms = LMS.iter().find(|set| set.name == "LMS_SHA256_M32_H5").unwrap();
    let ots = LM_OTS.iter().find(|set| set.name == "LMOTS_SHA256_N32_W8").unwrap();
    let sets = Sets::Hss(Levels::new(&[(lms, ots)]).unwrap());
    let mut go_on = |_: Progress<'_>| ControlFlow::Continue(());
    let engine = Engine::global().unwrap();
    let made = GeneratedKey::generate(&around, engine, sets, NonZero::<usize>::MIN, &mut go_on);
    for name in ["key", "home"] {
        std::fs::create_dir(folder.join(name)).unwrap();
    }
    let key = folder.join("key/k");
    let making = KeyFileOptions {
        key: &key,
        passphrase,
        encoding: Encoding::Hss,
        next: first,
        warn_at: Some(3),
        anchors: &[folder.join("home/anchor")],
        allow_network: true,
        note: "made",
    };
    made.unwrap().unwrap().write(&around, &making).unwrap();
    key
}

fn text(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap()
}

/// Opens; the code and the handle.
fn open(path: &Path, passphrase: Option<&[u8]>, reserve: u64) -> (i32, *mut StatefulKey) {
    let (path, mut key) = (text(path), null_mut());
    let passphrase = passphrase.map(|passphrase| CString::new(passphrase).unwrap());
    let passphrase = passphrase.as_ref().map_or(null(), |passphrase| passphrase.as_ptr());
    // SAFETY: texts or null, and a place.
    let code = unsafe { gabion_stateful_key_open(path.as_ptr(), passphrase, reserve, &mut key) };
    assert_eq!(code == OK, !key.is_null());
    (code, key)
}

/// Signs; returns the code, the signature and the information about it.
fn sign(
    key: *const StatefulKey,
    message: &[u8],
    id: Option<&str>,
) -> (i32, Vec<u8>, StatefulSigned) {
    let id = id.map(|id| CString::new(id).unwrap());
    let id = id.as_ref().map_or(null(), |id| id.as_ptr());
    let (mut signature, mut about) = (vec![0; 4096], StatefulSigned::default());
    let mut len = signature.len();
    // SAFETY: a handle, bytes as long as said, a text or null, places.
    let code = unsafe {
        let (from, out) = (message.as_ptr(), signature.as_mut_ptr());
        gabion_stateful_key_sign(key, from, message.len(), id, out, &mut len, &mut about)
    };
    signature.truncate(len);
    (code, signature, about)
}

fn status(path: &Path) -> StatefulStatus {
    let (path, mut status) = (text(path), StatefulStatus::default());
    // SAFETY: a text and a place.
    assert_eq!(unsafe { gabion_stateful_key_status(path.as_ptr(), &mut status) }, OK);
    status
}

fn close(key: *mut StatefulKey) {
    // SAFETY: a handle that is not used again.
    assert_eq!(unsafe { gabion_stateful_key_close(key) }, OK);
}

fn last_error() -> String {
    let mut room = [0u8; 400];
    // SAFETY: room as long as said.
    let len = unsafe { gabion_last_error(room.as_mut_ptr().cast::<c_char>(), room.len()) };
    String::from_utf8_lossy(&room[..len.min(room.len() - 1)]).into_owned()
}

/// Verifies with a public key of HSS.
fn verifies(public: &[u8], message: &[u8], signature: &[u8]) -> bool {
    let mut key = null_mut();
    let message = Message {
        message: message.as_ptr(),
        message_len: message.len(),
        context: null(),
        context_len: 0,
        prehash: null(),
    };
    // SAFETY: texts, handles, bytes as long as said.
    unsafe {
        let (at, len) = (public.as_ptr(), public.len());
        assert_eq!(gabion_public_key_import(c"HSS".as_ptr(), at, len, &mut key), OK);
        let verdict = gabion_verify(key, &message, signature.as_ptr(), signature.len());
        gabion_public_key_free(key);
        assert!([OK, E_SIGNATURE].contains(&verdict), "{verdict}");
        verdict == OK
    }
}

#[test]
fn stateful_key_signs_and_reports_remaining_indexes() {
    let folder = tempfile::tempdir().unwrap();
    let path = make(folder.path(), Some(b"pass"), 0);
    for wrong in [None, Some(&b"other"[..])] {
        assert_eq!(open(&path, wrong, 1).0, E_KEY, "{}", last_error());
    }
    assert_eq!(open(&path, Some(b"pass"), 0).0, E_INPUT);
    let before = status(&path);
    assert_eq!((before.index, before.remaining, before.burnt, before.is_safe), (0, 32, 0, 1));
    let (code, key) = open(&path, Some(b"pass"), 4);
    assert_eq!(code, OK, "{}", last_error());
    let (mut public, mut len) = ([0; 60], 60);
    // SAFETY: a handle, room as long as said, places.
    unsafe {
        assert_eq!(gabion_stateful_key_public(key, public.as_mut_ptr(), &mut len), OK);
        let (mut size, message) = (0, b"m".as_ptr());
        let ask = |out, size: &mut usize| {
            gabion_stateful_key_sign(key, message, 1, null(), out, size, null_mut())
        };
        assert_eq!(ask(null_mut(), &mut size), OK);
        let mut room = vec![7; size - 1];
        let mut less = size - 1;
        assert_eq!(ask(room.as_mut_ptr(), &mut less), E_LENGTH);
        assert!(room.iter().all(|byte| *byte == 0));
        assert_eq!(ask(message.cast_mut(), &mut 1), E_ARGUMENT, "over the message");
        assert_eq!(size, sign(key, b"first", None).1.len());
    }
    let (code, signature, about) = sign(key, b"m", Some("request 1"));
    assert_eq!((code, about.index, about.is_repeated), (OK, 1, 0), "none was used before");
    assert!(verifies(&public, b"m", &signature) && !verifies(&public, b"n", &signature));
    let (code, again, about) = sign(key, b"m", Some("request 1"));
    assert_eq!((code, again == signature, about.index, about.is_repeated), (OK, true, 1, 1));
    assert_eq!(sign(key, b"n", Some("request 1")).0, E_STATE);
    assert_eq!(sign(key, b"n", Some("request\n")).0, E_INPUT);
    // Another handle shares the state.
    let (code, other) = open(&path, Some(b"pass"), 1);
    assert_eq!(code, OK, "{}", last_error());
    assert_eq!(sign(other, b"m", None).2.index, 2);
    close(other);
    close(key);
    close(null_mut());
    let after = status(&path);
    assert_eq!((after.index, after.remaining, after.burnt), (3, 29, 0), "the tail came back");
}

#[test]
fn a_key_that_is_copied_or_used_up_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = make(folder.path(), None, 29);
    let copy = folder.path().join("copy");
    std::fs::create_dir(&copy).unwrap();
    for file in std::fs::read_dir(path.parent().unwrap()).unwrap() {
        let file = file.unwrap();
        std::fs::copy(file.path(), copy.join(file.file_name())).unwrap();
    }
    let key = open(&path, None, 1).1;
    let made: Vec<_> = (0..3).map(|_| sign(key, b"m", None)).collect();
    let told: Vec<_> =
        made.iter().map(|(code, _, about)| (*code, about.index, about.is_low)).collect();
    assert_eq!(told, [(OK, 29, 1), (OK, 30, 1), (OK, 31, 1)]);
    let (code, signature, about) = sign(key, b"m", None);
    assert_eq!((code, about.index), (E_STATE, 0));
    assert!(last_error().contains("used up"), "{}", last_error());
    assert!(signature.iter().all(|byte| *byte == 0));
    close(key);
    assert_eq!(open(&copy.join("k"), None, 1).0, E_STATE);
    assert!(last_error().contains("not safe"), "{}", last_error());
    assert_eq!(status(&copy.join("k")).is_safe, 0);
    assert_eq!(open(&folder.path().join("none"), None, 1).0, E_KEY);
}

/// Those are the system's bytes, and the user's.
#[test]
fn a_path_and_a_passphrase_need_not_be_utf_8() {
    let folder = tempfile::tempdir().unwrap();
    let passphrase = &b"p\xe4ss"[..];
    let path = make(folder.path(), Some(passphrase), 0);
    let other = folder.path().join(OsStr::from_bytes(b"k\xe4y"));
    std::fs::rename(path.parent().unwrap(), &other).unwrap();
    let path = other.join("k");
    assert_eq!(open(&path, Some("p\u{e4}ss".as_bytes()), 1).0, E_KEY);
    let (code, key) = open(&path, Some(passphrase), 1);
    assert_eq!(code, OK, "{}", last_error());
    assert_eq!(sign(key, b"m", None).0, OK);
    close(key);
    assert_eq!(status(&path).index, 1);
}
