//! Real keys of LMS and HSS in files: made, opened, used up, copied, killed.

use std::fs;
use std::io::{self, ErrorKind};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use gabion_disk::testing::DiskCall;
use gabion_disk::{Access, RealDisk};
use gabion_engine::keys::stateful::hss::Levels;
use gabion_engine::keys::stateful::{LedgerError, Progress, Request};
use gabion_engine::lms::{LM_OTS, LMS};
use gabion_engine::{Error, Message};
use gabion_state::testing::{with_hook, with_hook_once};
use gabion_state::{
    Encoding, Environment, GeneratedKey, KeyFile, KeyFileOptions, ResumableSectors, Sets,
    Signature, Signer, SignerOptions, backup, discard, restore, status,
};
use rustix::fs::{CWD, Mode, mkfifoat};

use crate::test_home::{ONE, TestHome, engine, environment, key_options, open};

/// Levels of H5 with W4.
fn small(levels: usize) -> Sets {
    Sets::Hss(Levels::new(&vec![(&LMS[0], &LM_OTS[2]); levels]).unwrap())
}

fn generated(environment: &Environment, sets: Sets) -> GeneratedKey {
    let mut go_on = |_: Progress<'_>| ControlFlow::Continue(());
    GeneratedKey::generate(environment, engine(), sets, ONE, &mut go_on).unwrap().unwrap()
}

/// Makes one sector of one level for each name.
fn sectors(environment: &Environment, keys: &[PathBuf]) -> Vec<GeneratedKey> {
    let keys: Vec<_> = keys.iter().map(|key| (key.clone(), Vec::new())).collect();
    let begun = ResumableSectors::begin(environment, &keys, &small(1), None).unwrap();
    let mut go_on = |_: Progress<'_>| ControlFlow::Continue(());
    begun.generate(engine(), ONE, Duration::MAX, &mut go_on).unwrap().unwrap()
}

impl TestHome {
    fn levels(levels: usize) -> Self {
        TestHome::of(small(levels))
    }

    fn of(sets: Sets) -> Self {
        let place = TestHome::empty();
        let key = generated(&place.environment, sets);
        key.write(&place.environment, &key_options(&place.key())).unwrap();
        place
    }

    fn signer(&self, key: &Path) -> Result<Signer, Error> {
        open(&self.environment, key)
    }
}

/// Signs a message, verifies what came, and closes.
fn signed(signer: Signer, message: &[u8]) -> Signature {
    let signature = signed_by(&signer, message, None).unwrap();
    signer.close().unwrap();
    signature
}

fn signed_by(signer: &Signer, message: &[u8], id: Option<&str>) -> Result<Signature, Error> {
    let signed = signer.sign(&[Request { message, id }])?.remove(0);
    assert_eq!(signed.bytes.len(), signer.file().signature_len());
    let omitted = signer.file().encoding().omitted_len();
    let whole = [&[0; 4][..omitted], &signed.bytes].concat();
    let algorithm = signer.file().sets().algorithm();
    let key = engine().signature_public(algorithm, signer.file().public()).unwrap();
    let message = Message::Pure { context: b"", message };
    engine().verify(&key, message, &whole).unwrap();
    Ok(signed)
}

fn is_unsafe<T>(result: Result<T, Error>) -> bool {
    matches!(result, Err(Error::Ledger(LedgerError::Unsafe(_))))
}

#[test]
fn every_index_signs_once_and_then_the_key_says_that_it_is_used_up() {
    let place = TestHome::levels(1);
    for index in 0..32 {
        // Opened anew each time, as a command does.
        let made = signed(place.signer(&place.key()).unwrap(), &[index as u8]);
        assert_eq!((made.index, made.remaining), (index, 31 - index));
    }
    for _ in 0..3 {
        let signer = place.signer(&place.key()).unwrap();
        let refused = signed_by(&signer, b"one too many", None).unwrap_err();
        assert_eq!(refused, Error::Ledger(LedgerError::Exhausted { wanted: 1, left: 0 }));
        assert!(refused.to_string().contains("used up"), "{refused}");
    }
    let status = status(&place.environment, &place.key()).unwrap();
    assert_eq!((status.index, status.remaining.left, status.remaining.burnt), (32, 0, 0));
}

/// Defects 10 and 16 of others: across the end of a lower tree, with what is kept and without it.
#[test]
fn lower_trees_follow_each_other_whatever_is_kept_of_them() {
    let place = TestHome::levels(2);
    let trees = place.path("keys/k.trees");
    let first = fs::read(&trees).unwrap();
    let mut last = None;
    for round in 0..24u8 {
        match round % 4 {
            0 => fs::remove_file(&trees).unwrap(),
            1 => fs::write(&trees, &first).unwrap(),
            2 => {
                let mut bad = fs::read(&trees).unwrap();
                let middle = bad.len() / 2;
                bad[middle] ^= 1;
                fs::write(&trees, bad).unwrap();
            }
            _ => {}
        }
        let signer = place.signer(&place.key()).unwrap();
        let messages: Vec<[u8; 2]> = (0..5).map(|at| [round, at]).collect();
        for message in &messages {
            let made = signed_by(&signer, message, None).unwrap();
            assert_eq!(Some(made.index), last.map_or(Some(0), |last: u64| last.checked_add(1)));
            last = Some(made.index);
        }
        signer.close().unwrap();
        assert!(fs::read(&trees).unwrap() != first, "round {round}");
    }
    assert_eq!(last, Some(119));
}

/// A small key of each scheme, from its making over the end of a lower tree, opened anew and with what is kept lost.
#[test]
fn keys_of_xmss_sign_as_those_of_lms() {
    for (name, numbers) in [("XMSS-SHA2_10_192", 1..4), ("XMSSMT-SHAKE256_20/4_192", 0..34)] {
        let place = TestHome::of(name.parse().unwrap());
        let file = KeyFile::read(&RealDisk, &place.key()).unwrap();
        assert_eq!(file.sets().to_string(), name);
        let (spki, end) = (file.spki(true).unwrap(), file.public().len());
        assert_eq!(spki[spki.len() - end..], *file.public());
        let first = numbers.start;
        for number in numbers {
            if number % 16 == 15 {
                fs::remove_file(place.path("keys/k.trees")).unwrap();
            }
            let made = signed(place.signer(&place.key()).unwrap(), &[number as u8]);
            assert_eq!(made.index, number - first, "{name}");
        }
        let signer = place.signer(&place.key()).unwrap();
        let ids = ["a", "b", "a"].map(|id| signed_by(&signer, b"x", Some(id)).unwrap());
        assert!(ids[2].is_repeated && ids[0].bytes == ids[2].bytes && ids[1].index > ids[0].index);
        signer.close().unwrap();
        let copy = place.copy("keys", "copy");
        let last = signed(place.signer(&place.key()).unwrap(), b"on").index;
        assert_eq!(last, ids[1].index + 1);
        assert!(is_unsafe(place.signer(&copy)));
    }
    let place = TestHome::empty();
    let key = generated(&place.environment, "XMSSMT-SHA2_20/4_192".parse().unwrap());
    let path = place.key();
    let bare = KeyFileOptions { encoding: Encoding::Lms, ..key_options(&path) };
    assert!(matches!(key.write(&place.environment, &bare), Err(Error::KeyFile(_))));
    assert!(!path.exists());
}

/// Keys of sectors share one public key, and each has a separate state, anchor and range of
/// indexes.
#[test]
fn sectors_sign_side_by_side_until_each_is_used_up() {
    let place = TestHome::empty();
    let environment = &place.environment;
    let keys: Vec<PathBuf> = (0..4).map(|number| place.path(&format!("keys/k{number}"))).collect();
    for (made, key) in sectors(environment, &keys).iter().zip(&keys) {
        made.write(environment, &key_options(key)).unwrap();
    }
    let mut publics = Vec::new();
    for (number, key) in (0..).zip(&keys) {
        publics.push(KeyFile::read(&RealDisk, key).unwrap().public().to_vec());
        for index in 0..8 {
            // Opened anew each time, once without what is kept.
            if index == 3 {
                fs::remove_file(key.with_extension("trees")).unwrap();
            }
            let made = signed(place.signer(key).unwrap(), &[number as u8, index as u8]);
            assert_eq!((made.index, made.remaining), (8 * number + index, 7 - index));
        }
        let refused = signed_by(&place.signer(key).unwrap(), b"one too many", None).unwrap_err();
        assert_eq!(refused, Error::Ledger(LedgerError::Exhausted { wanted: 1, left: 0 }));
    }
    publics.dedup();
    assert_eq!(publics.len(), 1);
    // The state of another sector, under the same public key.
    let place = TestHome::empty();
    let keys = [place.path("keys/k0"), place.path("keys/k1")];
    let made = sectors(&place.environment, &keys);
    made.iter()
        .zip(&keys)
        .for_each(|(m, key)| m.write(&place.environment, &key_options(key)).unwrap());
    for ending in ["state", "log", "lock", "trees"] {
        fs::copy(keys[0].with_extension(ending), keys[1].with_extension(ending)).unwrap();
    }
    assert!(is_unsafe(place.signer(&keys[1])));
    discard(&place.environment, &keys[0]);
    assert!(!keys[0].exists() && !keys[0].with_extension("lock").exists());
}

#[test]
fn batch_reserves_once_and_request_ids_return_signatures() {
    let place = TestHome::levels(1);
    let signer = place.signer(&place.key()).unwrap();
    let request = |message, id| Request { message, id };
    let batch = [request(&b"a"[..], None), request(b"b", Some("build 7")), request(b"c", None)];
    let first = signer.sign(&batch).unwrap();
    let indexes: Vec<_> = first.iter().map(|made| (made.index, made.remaining)).collect();
    assert_eq!(indexes, [(0, 31), (1, 30), (2, 29)]);
    assert_eq!(status(&place.environment, &place.key()).unwrap().generation, 2);
    let again = signed_by(&signer, b"b", Some("build 7")).unwrap();
    assert_eq!((again.index, again.is_repeated, again.remaining), (1, true, 29));
    assert_eq!(again.bytes, first[1].bytes);
    let other = signed_by(&signer, b"x", Some("build 7")).unwrap_err();
    assert!(matches!(other, Error::Ledger(LedgerError::RequestConflict(_))), "{other}");
    signer.forget("build 7").unwrap();
    assert_eq!(signed_by(&signer, b"x", Some("build 7")).unwrap().index, 3);
    signer.close().unwrap();
}

/// Defect 11 of others: the same key, opened twice in a process.
#[test]
fn signers_of_a_process_share_index_and_trees() {
    let place = TestHome::levels(2);
    let signers = [place.signer(&place.key()).unwrap(), place.signer(&place.key()).unwrap()];
    let mut seen: Vec<u64> = std::thread::scope(|scope| {
        let run = |signer| {
            move || {
                (0..40).map(|_| signed_by(signer, b"x", None).unwrap().index).collect::<Vec<_>>()
            }
        };
        let threads = signers.each_ref().map(|signer| scope.spawn(run(signer)));
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    seen.sort_unstable();
    assert_eq!(seen, (0..80).collect::<Vec<u64>>());
    for signer in signers {
        signer.close().unwrap();
    }
    assert_eq!(signed(place.signer(&place.key()).unwrap(), b"y").index, 80);
}

/// Whichever of a key and its copy signs first goes on; the other is refused, in the same home and in another.
#[test]
fn signer_of_a_copied_key_works_in_one_place_only() {
    for copy_first in [false, true] {
        let place = TestHome::levels(1);
        assert_eq!(signed(place.signer(&place.key()).unwrap(), b"one").index, 0);
        let copy = place.copy("keys", "copy");
        let keys = if copy_first { [copy, place.key()] } else { [place.key(), copy] };
        let elsewhere = environment(&place.path("elsewhere/anchors"), None);
        assert!(is_unsafe(open(&elsewhere, &keys[0])));
        assert_eq!(signed(place.signer(&keys[0]).unwrap(), b"two").index, 1);
        assert!(is_unsafe(place.signer(&keys[1])));
        assert_eq!(signed(place.signer(&keys[0]).unwrap(), b"three").index, 2);
    }
    // The private key alone is not sufficient to sign.
    let place = TestHome::levels(1);
    fs::create_dir(place.path("alone")).unwrap();
    fs::copy(place.key(), place.path("alone/k")).unwrap();
    let refused = place.signer(&place.path("alone/k")).unwrap_err();
    assert!(refused.to_string().contains("without its state"), "{refused}");
    assert!(is_unsafe::<()>(Err(refused)));
}

/// Also while a process signs: it may use its reserved indexes, and `recover` waits for it;
/// unreserved ones are burnt.
#[test]
fn a_lock_that_is_lost_is_made_again() {
    let place = TestHome::levels(1);
    let (key, lock) = (place.key(), place.path("keys/k.lock"));
    let recovered = |burn| {
        let identity = KeyFile::read(&RealDisk, &key).unwrap().identity();
        gabion_state::recover(&place.environment, &key, &identity, burn)
    };
    let opening = SignerOptions { ahead: 4, wait: Duration::ZERO, ..SignerOptions::default() };
    let signer = Signer::open(&place.environment, engine(), &key, None, &opening).unwrap();
    assert_eq!(signed_by(&signer, b"a", None).unwrap().index, 0);
    fs::remove_file(&lock).unwrap();
    let refused = place.signer(&key).unwrap_err();
    assert!(refused.to_string().contains("k.lock: it is missing"), "{refused}");
    let looked = status(&place.environment, &key).unwrap();
    assert!(looked.refusal.is_some_and(|reason| reason.contains("k.lock: it is missing")));
    assert!(matches!(recovered(2), Err(LedgerError::Held(_))));
    assert!(!lock.exists(), "a refusal changes nothing");
    assert_eq!(signed_by(&signer, b"b", None).unwrap().index, 1);
    drop(signer);
    assert!(matches!(recovered(99), Err(LedgerError::Exhausted { .. })) && !lock.exists());
    assert_eq!(recovered(2).unwrap().index, 6);
    assert_eq!(signed(place.signer(&key).unwrap(), b"c").index, 6);
}

#[test]
fn old_files_over_new_ones_are_refused() {
    let place = TestHome::levels(1);
    let old = place.copy("keys", "old");
    signed(place.signer(&place.key()).unwrap(), b"one");
    for file in fs::read_dir(old.parent().unwrap()).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), place.path("keys").join(file.file_name())).unwrap();
    }
    assert!(is_unsafe(place.signer(&place.key())));
}

#[test]
fn invalid_key_files_are_refused_without_blocking() {
    let place = TestHome::empty();
    let key = place.key();
    let refused = |says: &str| {
        let reason = KeyFile::read(&RealDisk, &key).map(drop).unwrap_err().to_string();
        assert!(reason.contains(says), "{says}: {reason}");
    };
    // A pipe without a writer, a folder, and more bytes than any memory has.
    mkfifoat(CWD, &key, Mode::RUSR).unwrap();
    refused("regular file");
    fs::remove_file(&key).unwrap();
    fs::create_dir(&key).unwrap();
    refused("regular file");
    fs::remove_dir(&key).unwrap();
    fs::File::create(&key).unwrap().set_len(1 << 40).unwrap();
    refused("large");
    fs::remove_file(&key).unwrap();
    refused("No such file");
}

#[test]
fn encodings_and_passphrases_are_kept() {
    let place = TestHome::empty();
    let key = generated(&place.environment, small(1));
    let (passphrase, encoding) = (Some(&b"correct"[..]), Encoding::Lms);
    let (one, two) = (place.path("keys/k"), place.path("keys/two"));
    let options = KeyFileOptions { passphrase, encoding, next: 7, ..key_options(&one) };
    key.write(&place.environment, &options).unwrap();
    let file = KeyFile::read(&RealDisk, &place.key()).unwrap();
    assert!(file.is_encrypted());
    assert_eq!((file.public(), file.spki(true).unwrap().len()), (key.public(), 20 + 60));
    for wrong in [None, Some(&b"wrong"[..])] {
        let refused = Signer::open(
            &place.environment,
            engine(),
            &place.key(),
            wrong,
            &SignerOptions::default(),
        );
        assert!(matches!(refused, Err(Error::KeyFile(_))), "{wrong:?}");
    }
    let opened = Signer::open(
        &place.environment,
        engine(),
        &place.key(),
        passphrase,
        &SignerOptions::default(),
    );
    let made = signed(opened.unwrap(), b"one");
    // Appendix A of RFC 8554: q comes first.
    assert_eq!((made.index, &made.bytes[..4]), (7, &[0, 0, 0, 7][..]));
    let several = generated(&place.environment, small(2));
    let refused = several.write(&place.environment, &KeyFileOptions { key: &two, ..options });
    assert!(matches!(refused, Err(Error::KeyFile(_))));
}

/// Returns an environment whose disk fails after `most` calls, as for a process that is killed, or
/// whose disk is read-only.
fn frail(environment: &Environment, most: usize, writes: bool) -> Environment {
    let calls = AtomicUsize::new(0);
    with_hook(environment, move |at, _| match at {
        DiskCall::Open(Access::Write | Access::New) if !writes => {
            Err(ErrorKind::PermissionDenied.into())
        }
        DiskCall::AfterOpen(_) | DiskCall::Sync | DiskCall::Unlock => Ok(()),
        _ if calls.fetch_add(1, Ordering::Relaxed) < most => Ok(()),
        _ => Err(io::Error::other("gone")),
    })
}

/// Killed at any call during key generation: leftovers do not block a later call, and a key is
/// either complete or missing.
#[test]
fn a_killed_key_generation_does_not_block_the_next() {
    let anchor = |place: &TestHome| [place.path("elsewhere/anchor")];
    let mut unfinished = 0;
    for most in 0.. {
        let place = TestHome::empty();
        let key = generated(&place.environment, small(1));
        let (path, anchors) = (place.key(), anchor(&place));
        let options = KeyFileOptions { anchors: &anchors, ..key_options(&path) };
        let frail = frail(&place.environment, most, true);
        if key.write(&frail, &options).is_ok() {
            assert!(most > 10, "{most} calls made a key");
            break;
        }
        if !path.exists() {
            unfinished += usize::from(place.path("keys/k.state").exists());
            generated(&place.environment, small(1)).write(&place.environment, &options).unwrap();
        }
        assert_eq!(signed(place.signer(&path).unwrap(), b"one").index, 0, "{most} calls");
    }
    assert!(unfinished > 3, "{unfinished} keys were left unfinished");
    // A key that was moved away leaves its state, which is no rest of anything.
    let place = TestHome::levels(1);
    signed(place.signer(&place.key()).unwrap(), b"one");
    fs::rename(place.key(), place.path("away")).unwrap();
    let refused = generated(&place.environment, small(1))
        .write(&place.environment, &key_options(&place.key()));
    assert!(refused.is_err());
    assert!(place.path("keys/k.state").exists());
}

/// Killed at any call while a backup is written: it is missing or complete, and the next one
/// succeeds.
#[test]
fn a_killed_backup_leaves_no_part_under_its_name() {
    let place = TestHome::levels(1);
    signed(place.signer(&place.key()).unwrap(), b"one");
    fs::create_dir(place.path("new")).unwrap();
    let (file, part) = (place.path("backup"), place.path("backup.part"));
    let mut unfinished = 0;
    for most in 0.. {
        let done = backup(&frail(&place.environment, most, true), &place.key(), &file);
        unfinished += usize::from(part.exists());
        if file.exists() {
            restore(&place.environment, &file, &place.path(&format!("new/k{most}"))).unwrap();
        } else {
            backup(&place.environment, &place.key(), &file).unwrap();
        }
        assert!(!part.exists(), "{most} calls");
        if done.is_ok() {
            assert!(most > 10, "{most} calls wrote a backup");
            break;
        }
        fs::remove_file(&file).unwrap();
    }
    assert!(unfinished > 2, "{unfinished} were left unfinished");
    // A backup is written over nothing, nor is a file removed that is no part of one.
    let before = fs::read(&file).unwrap();
    assert!(backup(&place.environment, &place.key(), &file).is_err());
    assert_eq!(fs::read(&file).unwrap(), before);
    fs::remove_file(&file).unwrap();
    fs::write(&part, b"somebody's").unwrap();
    assert!(backup(&place.environment, &place.key(), &file).is_err());
    assert_eq!(fs::read(&part).unwrap(), b"somebody's");
    // Another process writes the file first.
    fs::remove_file(&part).unwrap();
    let theirs = place.path("backup");
    let quicker = move || fs::write(&theirs, b"theirs");
    let environment = with_hook_once(&place.environment, (DiskCall::Sync, "backup.part"), quicker);
    assert!(backup(&environment, &place.key(), &file).is_err());
    assert_eq!((fs::read(&file).unwrap(), part.exists()), (b"theirs".to_vec(), false));
}

/// Killed at any call while a backup is written back: the next one goes through, and the key is whole.
#[test]
fn a_killed_restore_does_not_block_the_next() {
    let place = TestHome::levels(1);
    signed(place.signer(&place.key()).unwrap(), b"one");
    let file = place.path("backup");
    backup(&place.environment, &place.key(), &file).unwrap();
    fs::create_dir(place.path("new")).unwrap();
    let mut unfinished = 0;
    for most in 0.. {
        let key = place.path(&format!("new/k{most}"));
        if restore(&frail(&place.environment, most, true), &file, &key).is_ok() {
            assert!(most > 10, "{most} calls wrote a key");
            break;
        }
        if !key.exists() {
            unfinished += usize::from(key.with_extension("state").exists());
            restore(&place.environment, &file, &key).unwrap();
        }
        let seen = status(&place.environment, &key).unwrap();
        assert_eq!((seen.index, seen.refusal), (1, None), "{most} calls");
    }
    assert!(unfinished > 1, "{unfinished} were left unfinished");
    // The backup itself is no rest of a key, whatever its name.
    let named = place.path("new/k.state");
    fs::copy(&file, &named).unwrap();
    fs::write(place.path("new/k.lock"), "a key is being restored").unwrap();
    let refused = restore(&place.environment, &named, &place.path("new/k"));
    assert!(matches!(refused, Err(LedgerError::Place(_))), "{refused:?}");
    assert_eq!(fs::read(&named).unwrap(), fs::read(&file).unwrap());
    // It signs where nothing was signed since.
    assert_eq!(signed(place.signer(&place.path("new/k0")).unwrap(), b"two").index, 1);
}

#[test]
fn status_asks_for_no_right_to_write_and_no_lock() {
    let place = TestHome::levels(1);
    signed(place.signer(&place.key()).unwrap(), b"one");
    let read_only = frail(&place.environment, usize::MAX, false);
    let seen = status(&read_only, &place.key()).unwrap();
    assert_eq!((seen.index, seen.holder), (1, None));
    let signer = place.signer(&place.key()).unwrap();
    signed_by(&signer, b"two", None).unwrap();
    let seen = status(&read_only, &place.key()).unwrap();
    let pid = format!("process {} ", std::process::id());
    assert!(seen.holder.unwrap().starts_with(&pid));
    assert_eq!(signed(signer, b"three").index, 2);
    assert!(is_unsafe(open(&read_only, &place.key())) || open(&read_only, &place.key()).is_err());
}

/// Run by the test below in a separate process; does nothing otherwise.
#[test]
fn child_process_with_a_signer() {
    let Ok(folder) = std::env::var("GABION_SIGNER_CHILD") else { return };
    let folder = Path::new(&folder);
    let signer =
        open(&environment(&folder.join("home/anchors"), None), &folder.join("keys/k")).unwrap();
    for message in 0..u32::MAX {
        let made = signed_by(&signer, &message.to_be_bytes(), None).unwrap();
        println!("released {}", made.index);
    }
}

#[test]
fn a_killed_signer_burns_what_it_had_and_the_next_goes_on() {
    use std::io::{BufRead, BufReader};
    let place = TestHome::levels(2);
    let mut last = None;
    for kill in 0..4 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "signer::child_process_with_a_signer",
                "--nocapture",
                "--test-threads=1",
            ])
            .env("GABION_SIGNER_CHILD", place.folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let index = |line: String| line.split_once("released ").map(|(_, index)| index.to_owned());
        let mut indexes = lines.filter_map(index).map(|index| index.parse::<u64>().unwrap());
        for _ in 0..=3 * kill {
            let index = indexes.next().unwrap();
            assert!(last.is_none_or(|last| index > last), "{index} after {last:?}");
            last = Some(index);
        }
        child.kill().unwrap();
        // Output already in the pipe counts, too.
        last = indexes.last().or(last);
        child.wait().unwrap();
        let made = signed(place.signer(&place.key()).unwrap(), b"mine");
        assert!(made.index > last.unwrap());
        last = Some(made.index);
    }
}

/// A reservation takes at most an eighth of the remaining indexes, or the last one.
#[test]
fn a_bounded_reservation_shrinks_with_what_is_left() {
    let place = TestHome::levels(1);
    let opening = SignerOptions { ahead: 4, wait: Duration::ZERO, ..SignerOptions::default() };
    let opened = Signer::open(&place.environment, engine(), &place.key(), None, &opening);
    let signer = opened.unwrap();
    for used in 0..32 {
        let made = signer.sign(&[Request { message: b"m", id: None }]).unwrap().remove(0);
        let reserved = status(&place.environment, &place.key()).unwrap().index;
        let most = ((32 - used) / 8).max(1);
        assert_eq!(made.index, used);
        assert!((1..=most).contains(&(reserved - used)), "{used}: {reserved}");
    }
}
