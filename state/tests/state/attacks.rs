//! Attacks on a key's names, folders and process: links, mounts, other working folders, limits.

use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use gabion_disk::Access;
use gabion_disk::testing::DiskCall;
use gabion_engine::Error;
use gabion_engine::keys::stateful::{LedgerError, Progress, Request};
use gabion_state::testing::{with_hook, with_hook_once, with_mounts};
use gabion_state::{
    Environment, GeneratedKey, KeyFile, Lifecycle, ResumableKey, ResumableSectors, Sets, Signer,
    backup, check_place, create, hand_over, recover, restore, retire, status, take_back,
};

use crate::real_disk::{new_key, strace};
use crate::simulation::{PUBLIC, identity};
use crate::test_home::{ONE, TestHome, engine, environment, key_options, open};

const SET: &str = "LMS_SHA256_M32_H5_W4";

fn go_on(_: Progress<'_>) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

fn make_key(environment: &Environment, key: &Path) {
    make_key_of(SET, environment, key);
}

fn make_key_of(set: &str, environment: &Environment, key: &Path) {
    let made = GeneratedKey::generate(environment, engine(), set.parse().unwrap(), ONE, &mut go_on);
    made.unwrap().unwrap().write(environment, &key_options(key)).unwrap();
}

/// Makes a key in two sectors.
fn make_sectors(place: &TestHome) -> [PathBuf; 2] {
    let keys = [0, 1].map(|at| (place.path(&format!("keys/k{at}")), Vec::new()));
    let sets: Sets = SET.parse().unwrap();
    let begun = ResumableSectors::begin(&place.environment, &keys, &sets, None).unwrap();
    let made = begun.generate(engine(), ONE, Duration::MAX, &mut go_on).unwrap().unwrap();
    for (made, (key, _)) in made.iter().zip(&keys) {
        made.write(&place.environment, &key_options(key)).unwrap();
    }
    keys.map(|(key, _)| key)
}

fn signed(signer: &Signer) -> Result<u64, Error> {
    Ok(signer.sign(&[Request { message: b"m", id: None }])?[0].index)
}

fn says<T>(result: Result<T, LedgerError>, words: &str) {
    let refused = result.map(drop).unwrap_err();
    let is_refusal = matches!(refused, LedgerError::Unsafe(_) | LedgerError::Place(_));
    assert!(is_refusal && refused.to_string().contains(words), "{words}: {refused:?}");
}

/// A folder that is mounted in two places has two names, neither of which is a link.
#[test]
fn an_anchor_in_its_keys_folder_by_another_name_of_that_is_refused() {
    let place = TestHome::empty();
    fs::create_dir(place.path("keys/below")).unwrap();
    symlink(place.path("keys"), place.path("mounted")).unwrap();
    symlink(place.path("keys/below"), place.path("below")).unwrap();
    for (mount, anchor) in [
        ("mounted", "mounted/anchor"),
        ("mounted", "mounted/deep/er/anchor"),
        ("mounted", "mounted/below/anchor"),
    ] {
        let environment = with_mounts(&place.environment, None, Some(place.path(mount)));
        let anchors = [place.path(anchor)];
        says(create(&environment, &new_key(&place.key(), 8, &anchors)), "in its key's folder");
        says(check_place(&environment, &place.key(), &anchors, false, true), "in its key's folder");
    }
    let environment = with_mounts(&place.environment, None, Some(place.path("mounted")));
    check_place(&environment, &place.key(), &[place.path("usb/anchor")], false, true).unwrap();
}

/// Two names of one file are one witness, which would be found to be there when the key was made: after hours.
#[test]
fn an_anchor_that_is_named_twice_is_refused_before_the_work() {
    let place = TestHome::empty();
    fs::create_dir(place.path("usb")).unwrap();
    symlink("usb", place.path("link")).unwrap();
    for again in ["usb/a", "usb/./a", "link/a", "other/b"] {
        let anchors = [place.path("usb/a"), place.path("other/b"), place.path(again)];
        says(check_place(&place.environment, &place.key(), &anchors, false, true), "named twice");
        says(create(&place.environment, &new_key(&place.key(), 8, &anchors)), "named twice");
        assert!(!place.path("usb/a").exists() && !place.path("keys/k.lock").exists());
    }
    let anchors = [place.path("usb/a"), place.path("other/a")];
    check_place(&place.environment, &place.key(), &anchors, false, true).unwrap();
    create(&place.environment, &new_key(&place.key(), 8, &anchors)).unwrap();
}

/// The folder is on a disk of this machine, and what is in it is a link to where others write, too.
#[test]
fn a_state_that_a_link_puts_on_a_network_is_refused() {
    for name in ["k.state", "k.log", "k.lock"] {
        let place = TestHome::empty();
        create(&place.environment, &new_key(&place.key(), 8, &[])).unwrap();
        fs::create_dir(place.path("network")).unwrap();
        let (here, there) = (place.path("keys").join(name), place.path("network").join(name));
        fs::rename(&here, &there).unwrap();
        symlink(&there, &here).unwrap();
        let environment = with_mounts(&place.environment, Some(place.path("network")), None);
        let opened = |environment| {
            gabion_state::FilesLedger::open(environment, &place.key(), PUBLIC, Default::default())
        };
        says(opened(&environment), "other machines see");
        says(recover(&environment, &place.key(), &identity(8), 1), "other machines see");
        opened(&place.environment).unwrap().close().unwrap();
    }
}

/// Another user's or container's `recover`, and a copy of the key before that signs (issue 38, H1).
#[test]
fn only_the_home_that_recovered_a_key_signs_with_it_and_its_copies() {
    for set in [SET, "LMS_SHA256_M32_H5_W4,LMS_SHA256_M32_H5_W4", "XMSSMT-SHA2_20/4_192"] {
        let place = TestHome::empty();
        let (key, other) = (place.key(), environment(&place.path("other/anchors"), None));
        make_key_of(set, &place.environment, &key);
        assert!(open(&other, &key).is_err(), "{set}");
        let identity = KeyFile::read(&*other.disk, &key).unwrap().identity();
        recover(&other, &key, &identity, 0).unwrap();
        let copies = ["one", "two"].map(|name| place.copy("keys", name));
        for key in copies.iter().chain([&key]) {
            let refused = open(&place.environment, key).unwrap_err();
            assert!(refused.to_string().contains("recovered since"), "{set}: {refused}");
            let seen = status(&place.environment, key).unwrap().anchors.remove(0).1.unwrap();
            assert!(seen.contains("recovered since"), "{set}: {seen}");
        }
        assert_eq!(signed(&open(&other, &copies[0]).unwrap()), Ok(0), "{set}");
        for key in copies.iter().chain([&key]) {
            assert!(open(&place.environment, key).is_err(), "{set}");
        }
        // Back again: now the other home's anchor is the one that does not count.
        recover(&place.environment, &copies[0], &identity, 0).unwrap();
        assert!(open(&other, &copies[0]).is_err() && open(&other, &copies[1]).is_err(), "{set}");
        assert_eq!(signed(&open(&place.environment, &copies[0]).unwrap()), Ok(1), "{set}");
    }
}

/// Interrupted after the state was written, it is repeated; a home that can't have an anchor changes nothing.
#[test]
fn a_recover_that_is_interrupted_is_run_once_more() {
    let place = TestHome::empty();
    let (key, anchors) = (place.key(), place.path("other/anchors"));
    make_key(&place.environment, &key);
    let identity = KeyFile::read(&*place.environment.disk, &key).unwrap().identity();
    let frail = |at, ending| {
        let failed = || Err(std::io::Error::other("the device failed"));
        with_hook_once(&environment(&anchors, None), (at, ending), failed)
    };
    let before = fs::read(place.path("keys/k.state")).unwrap();
    assert!(recover(&frail(DiskCall::MakeFolder, "anchors"), &key, &identity, 0).is_err());
    assert_eq!(fs::read(place.path("keys/k.state")).unwrap(), before);
    // The anchor's file is made, written, synced and named.
    assert!(recover(&frail(DiskCall::SyncFolder, "anchors"), &key, &identity, 0).is_err());
    assert_ne!(fs::read(place.path("keys/k.state")).unwrap(), before);
    let other = environment(&anchors, None);
    for environment in [&place.environment, &other] {
        assert!(open(environment, &key).is_err());
    }
    recover(&other, &key, &identity, 0).unwrap();
    assert!(open(&place.environment, &key).is_err());
    assert_eq!(signed(&open(&other, &key).unwrap()), Ok(0));
}

/// Another name of each file in another folder: one key, one state, whichever name is used.
#[test]
fn a_key_by_hard_links_is_one_key() {
    let place = TestHome::empty();
    make_key(&place.environment, &place.key());
    fs::create_dir(place.path("links")).unwrap();
    for file in fs::read_dir(place.path("keys")).unwrap() {
        let file = file.unwrap();
        fs::hard_link(file.path(), place.path("links").join(file.file_name())).unwrap();
    }
    let other = place.path("links/k");
    let (one, two) = (
        open(&place.environment, &place.key()).unwrap(),
        open(&place.environment, &other).unwrap(),
    );
    let indexes = [&one, &two, &one, &two].map(|signer| signed(signer).unwrap());
    assert_eq!(indexes, [0, 1, 2, 3]);
    one.close().unwrap();
    two.close().unwrap();
    for (index, key) in [(4, &other), (5, &place.key()), (6, &other)] {
        let signer = open(&place.environment, key).unwrap();
        assert_eq!(signed(&signer).unwrap(), index);
        signer.close().unwrap();
    }
    // The private key alone by another name has no state.
    fs::create_dir(place.path("alone")).unwrap();
    fs::hard_link(place.key(), place.path("alone/k")).unwrap();
    let refused = open(&place.environment, &place.path("alone/k")).unwrap_err();
    assert!(refused.to_string().contains("without its state"), "{refused}");
}

/// The file of a private key gets another sector under the same public key while that key is open.
#[test]
fn a_sector_in_the_place_of_another_signs_with_its_own_secret() {
    let place = TestHome::empty();
    let keys = make_sectors(&place);
    let first = open(&place.environment, &keys[0]).unwrap();
    assert_eq!(signed(&first).unwrap(), 0);
    fs::create_dir(place.path("old")).unwrap();
    for ending in ["state", "log", "lock"] {
        let name = keys[0].with_extension(ending);
        fs::rename(&name, place.path("old").join(ending)).unwrap();
        fs::rename(keys[1].with_extension(ending), &name).unwrap();
    }
    // The same file, with other bytes.
    fs::write(&keys[0], fs::read(&keys[1]).unwrap()).unwrap();
    let second = open(&place.environment, &keys[0]).unwrap();
    assert_eq!(signed(&second), Ok(16));
    assert!(matches!(signed(&first), Err(Error::Ledger(LedgerError::Unsafe(_)))));
    second.close().unwrap();
}

/// The lock opens only after another sector's state took the place of the key's, as if files were
/// copied meanwhile.
#[test]
fn state_replaced_by_another_sectors_before_the_lock_is_refused() {
    let place = TestHome::empty();
    let keys = make_sectors(&place);
    let [own, other] = ["keys/k0.state", "keys/k1.state"].map(|name| place.path(name));
    let identity = KeyFile::read(&*place.environment.disk, &keys[0]).unwrap().identity();
    let (before, out) = (fs::read(&own).unwrap(), place.path("copy/backup"));
    for change in ["hand over", "retire", "recover", "take back"] {
        let (from, to) = (other.clone(), own.clone());
        let swap = move || fs::copy(from, to).map(drop);
        let environment =
            with_hook_once(&place.environment, (DiskCall::Open(Access::Write), "k0.lock"), swap);
        let refused = match change {
            "hand over" => hand_over(&environment, &keys[0], &identity, &out).map(drop),
            "retire" => retire(&environment, &keys[0], &identity),
            "recover" => recover(&environment, &keys[0], &identity, 1).map(drop),
            _ => take_back(&environment, &keys[0], &identity, 1).map(drop),
        };
        let refused = refused.expect_err(change).to_string();
        assert!(refused.contains("the state of another sector"), "{change}: {refused}");
        assert_eq!(fs::read(&own).unwrap(), fs::read(&other).unwrap(), "{change}");
        assert!(!out.exists(), "{change}");
        fs::write(&own, &before).unwrap();
    }
    for (key, index) in keys.iter().zip([0, 16]) {
        assert_eq!(signed(&open(&place.environment, key).unwrap()), Ok(index));
    }
}

/// Run by the test below in a separate process, with another working folder; does nothing
/// otherwise.
#[test]
fn child_process_that_changes_directory() {
    let Ok(folder) = std::env::var("GABION_HBS_WANDERER") else { return };
    let (folder, environment) =
        (Path::new(&folder), environment(&Path::new(&folder).join("home"), None));
    std::env::set_current_dir(folder.join("keys")).unwrap();
    make_key(&environment, Path::new("k"));
    let signer = open(&environment, Path::new("k")).unwrap();
    let begun = ResumableKey::begin(&environment, Path::new("n"), &SET.parse().unwrap(), None, &[]);
    std::env::set_current_dir(folder).unwrap();
    assert_eq!([signed(&signer).unwrap(), signed(&signer).unwrap()], [0, 1]);
    signer.close().unwrap();
    let mut stop = |_: Progress<'_>| ControlFlow::Break(());
    assert!(begun.unwrap().generate(engine(), ONE, Duration::MAX, &mut stop).unwrap().is_none());
    // The same relative path now names another folder.
    assert!(open(&environment, Path::new("k")).is_err());
    assert_eq!(signed(&open(&environment, Path::new("keys/k")).unwrap()).unwrap(), 2);
    println!("came home");
}

fn child(test: &str, variable: &str, place: &TestHome) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
    command.env(variable, place.folder.path());
    command
}

#[test]
fn a_relative_name_is_looked_up_once_wherever_the_process_goes() {
    let place = TestHome::empty();
    let child =
        child("attacks::child_process_that_changes_directory", "GABION_HBS_WANDERER", &place)
            .output()
            .unwrap();
    let said = String::from_utf8_lossy(&child.stdout).into_owned();
    assert!(child.status.success() && said.contains("came home"), "{child:?}");
    assert!(place.path("keys/n.part").exists() && !place.path("n.part").exists());
    assert!(!place.path("k.trees").exists() && !place.path("k.state").exists());
}

/// Run by the test below in a separate process whose files may not grow; does nothing otherwise.
#[test]
fn child_process_with_file_size_limit() {
    let Ok(folder) = std::env::var("GABION_HBS_LIMITED") else { return };
    let (folder, environment) =
        (Path::new(&folder), environment(&Path::new(&folder).join("home"), None));
    let done = open(&environment, &folder.join("keys/k")).map(|signer| signed(&signer));
    println!("went on: {done:?}");
}

/// Beyond RLIMIT_FSIZE the system sends a signal, and the program that has the library loaded expects none.
#[test]
fn a_limit_on_files_is_an_error_and_no_end_of_the_process() {
    let place = TestHome::empty();
    let environment = environment(&place.path("home"), None);
    make_key(&environment, &place.path("keys/k"));
    let (mut refused, mut last) = (0, None);
    for blocks in [0, 1, 4, 8, 9, 16, 32, 1 << 20] {
        let child =
            child("attacks::child_process_with_file_size_limit", "GABION_HBS_LIMITED", &place);
        let mut limited = Command::new("sh");
        limited.args(["-c", &format!("ulimit -f {blocks}; exec \"$0\" \"$@\"")]);
        limited.arg(child.get_program()).args(child.get_args());
        limited.env("GABION_HBS_LIMITED", place.folder.path());
        let done = limited.output().unwrap();
        let said = String::from_utf8_lossy(&done.stdout).into_owned();
        assert!(done.status.success() && said.contains("went on"), "{blocks}: {done:?}");
        refused += usize::from(!said.contains("went on: Ok(Ok("));
        // The refused calls used no index twice.
        let index = signed(&open(&environment, &place.path("keys/k")).unwrap()).unwrap();
        assert!(last.is_none_or(|last| index > last), "{blocks}: {index} after {last:?}");
        last = Some(index);
    }
    assert!((1..8).contains(&refused), "{refused}");
}

/// Run by the test below in a separate process; does nothing otherwise.
#[test]
fn child_process_that_makes_a_key() {
    let Ok(folder) = std::env::var("GABION_HBS_MAKER") else { return };
    let folder = Path::new(&folder);
    make_key(&environment(&folder.join("home/anchors"), None), &folder.join("keys/k"));
}

/// Temporary write access to a folder suffices to leave a link there.
#[test]
fn folders_and_files_are_their_owners_from_the_first_moment() {
    let Some(mut traced) = strace() else { return };
    let place = TestHome::empty();
    let child = child("attacks::child_process_that_makes_a_key", "GABION_HBS_MAKER", &place);
    traced.args(["-f", "-e", "trace=mkdir,mkdirat,openat", "-o"]).arg(place.path("trace"));
    traced.args(["sh", "-c", "umask 0; exec \"$0\" \"$@\""]);
    traced.arg(child.get_program()).args(child.get_args());
    traced.env("GABION_HBS_MAKER", place.folder.path());
    assert!(traced.stdout(Stdio::null()).status().unwrap().success());
    let trace = fs::read_to_string(place.path("trace")).unwrap();
    let here = place.folder.path().to_str().unwrap();
    let made =
        |line: &&str| line.contains(here) && (line.contains("mkdir") || line.contains("O_CREAT"));
    let made: Vec<&str> = trace.lines().filter(made).collect();
    assert!(made.iter().filter(|line| line.contains("mkdir")).count() >= 2, "{trace}");
    for line in made {
        assert!(line.contains("0700)") || line.contains("0600)"), "{line}");
    }
}

/// Each call of a hand-over fails once, in a key that a crash left a generation ahead of its anchor. Either the key still signs
/// here and there is no backup, or it signs here no more and the same command writes the backup.
#[test]
fn a_hand_over_that_fails_at_any_call_leaves_the_key_in_one_place() {
    let engine_key =
        |environment: &Environment, key: &Path| open(environment, key).map(|it| signed(&it));
    let (mut stayed, mut left) = (0, 0);
    for nth in 0.. {
        let place = TestHome::empty();
        let (key, out) = (place.key(), place.path("copy/backup"));
        make_key(&place.environment, &key);
        let identity = KeyFile::read(&*place.environment.disk, &key).unwrap().identity();
        let witnessed = fs::read(anchor_of(&place)).unwrap();
        assert_eq!(engine_key(&place.environment, &key).unwrap(), Ok(0));
        let state = fs::read(place.path("keys/k.state")).unwrap();
        assert_ne!(witnessed, fs::read(anchor_of(&place)).unwrap());
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&calls);
        let frail = with_hook(&place.environment, move |_, _| {
            match counted.fetch_add(1, Ordering::Relaxed) == nth {
                true => Err(std::io::Error::other("the device failed")),
                false => Ok(()),
            }
        });
        let handed = hand_over(&frail, &key, &identity, &out);
        if calls.load(Ordering::Relaxed) <= nth {
            handed.unwrap();
            break;
        }
        match engine_key(&place.environment, &key) {
            Ok(index) => {
                assert!(handed.is_err() && !out.exists(), "call {nth}: {handed:?}");
                assert_eq!(index, Ok(1), "call {nth}");
                stayed += 1;
            }
            Err(refused) => {
                assert!(refused.to_string().contains("no longer signs here"), "{refused}");
                assert!(recover(&place.environment, &key, &identity, 8).is_err(), "call {nth}");
                left += 1;
            }
        }
        if let Err(LedgerError::Unavailable(said)) = &handed {
            let told = ["nothing changed", "still signs here", "no longer signs here"];
            assert!(told.iter().any(|told| said.contains(told)), "call {nth}: {said}");
        }
        let lifecycle = status(&place.environment, &key).unwrap().lifecycle;
        if lifecycle == Lifecycle::HandingOver {
            // It is this state that goes.
            assert!(fs::read(place.path("keys/k.state")).unwrap() == state, "call {nth}");
        }
        if lifecycle == Lifecycle::HandedOver {
            assert!(out.exists(), "call {nth}");
        } else {
            let again = hand_over(&place.environment, &key, &identity, &out).unwrap();
            assert_eq!(again, lifecycle == Lifecycle::HandingOver, "call {nth}");
        }
        let (other, there) = (environment(&place.path("other/anchors"), None), place.path("there"));
        restore(&other, &out, &there).unwrap();
        assert!(open(&other, &there).is_err() && open(&place.environment, &there).is_err());
        let next = status(&other, &there).unwrap().index;
        recover(&other, &there, &identity, 0).unwrap();
        assert_eq!(engine_key(&other, &there).unwrap(), Ok(next), "call {nth}");
        assert!(
            open(&place.environment, &key).is_err() && open(&place.environment, &there).is_err()
        );
    }
    assert!(stayed > 20 && left > 3, "{stayed} and {left}");
}

/// A key that left a home is neither recovered nor backed up there, whatever is restored or
/// deleted; a second hand-over would let two hosts sign.
#[test]
fn a_key_that_left_a_home_stays_away() {
    for set in [SET, "LMS_SHA256_M32_H5_W4,LMS_SHA256_M32_H5_W4", "XMSSMT-SHA2_20/4_192"] {
        let place = TestHome::empty();
        let (key, out) = (place.key(), place.path("copy/backup"));
        let second = place.path("copy/second");
        make_key_of(set, &place.environment, &key);
        let identity = KeyFile::read(&*place.environment.disk, &key).unwrap().identity();
        let old = place.copy("keys", "old");
        assert_eq!(signed(&open(&place.environment, &key).unwrap()), Ok(0), "{set}");
        hand_over(&place.environment, &key, &identity, &out).unwrap();
        for key in [&key, &old] {
            let refused = open(&place.environment, key).unwrap_err().to_string();
            assert!(refused.contains("handed over") && refused.contains("every-other-copy"));
            assert!(recover(&place.environment, key, &identity, 3).is_err(), "{set}");
            assert!(backup(&place.environment, key, &second).is_err(), "{set}");
            assert!(hand_over(&place.environment, key, &identity, &second).is_err(), "{set}");
            let seen = status(&place.environment, key).unwrap();
            assert_eq!(seen.lifecycle, Lifecycle::HandedOver);
            assert!(seen.refusal.unwrap().contains("handed over"));
        }
        assert!(!second.exists());
        // By the caller's word, and not below what any witness saw.
        let back = take_back(&place.environment, &old, &identity, 0).unwrap();
        assert!(back.index >= 1, "{set}: {back:?}");
        assert!(open(&place.environment, &key).is_err(), "{set}");
        assert_eq!(signed(&open(&place.environment, &old).unwrap()), Ok(back.index), "{set}");
        // For ever: by a copy whose anchor is somewhere else, too.
        retire(&place.environment, &old, &identity).unwrap();
        retire(&place.environment, &old, &identity).unwrap();
        fs::remove_file(place.path("keys/k.lock")).unwrap();
        retire(&place.environment, &key, &identity).unwrap();
        for key in [&key, &old] {
            assert!(open(&place.environment, key).is_err(), "{set}");
            assert!(recover(&place.environment, key, &identity, 3).is_err(), "{set}");
            assert!(take_back(&place.environment, key, &identity, 3).is_err(), "{set}");
        }
        let other = environment(&place.path("other/anchors"), None);
        retire(&other, &old, &identity).unwrap();
        assert!(recover(&other, &old, &identity, 3).is_err(), "{set}");
    }
}

/// An interrupted hand-over goes on with the state that it began with, and with no other one.
#[test]
fn a_hand_over_does_not_go_on_with_an_older_state() {
    let place = TestHome::empty();
    let (key, out) = (place.key(), place.path("copy/backup"));
    make_key(&place.environment, &key);
    let identity = KeyFile::read(&*place.environment.disk, &key).unwrap().identity();
    let old = place.copy("keys", "old");
    assert_eq!(signed(&open(&place.environment, &key).unwrap()), Ok(0));
    let failed = || Err(std::io::Error::other("the device failed"));
    let frail = with_hook_once(&place.environment, (DiskCall::Rename, "backup.part"), failed);
    let refused = hand_over(&frail, &key, &identity, &out).unwrap_err().to_string();
    assert!(refused.contains("--hand-over --out FILE"), "{refused}");
    assert!(hand_over(&place.environment, &old, &identity, &out).is_err());
    assert!(!out.exists());
    hand_over(&place.environment, &key, &identity, &out).unwrap();
}

/// After a kill that came after the backup got its name, the next call finds the backup complete,
/// and accepts no other file as it.
#[test]
fn a_hand_over_that_was_interrupted_takes_its_own_backup_for_done() {
    let place = TestHome::empty();
    let (key, out) = (place.key(), place.path("copy/backup"));
    make_key(&place.environment, &key);
    let identity = KeyFile::read(&*place.environment.disk, &key).unwrap().identity();
    fs::write(place.path("copy/other"), "another file").unwrap();
    backup(&place.environment, &key, &place.path("copy/older")).unwrap();
    assert_eq!(signed(&open(&place.environment, &key).unwrap()), Ok(0));
    let (there, anchor) = (out.clone(), anchor_of(&place));
    // From then on the anchor can't be raised.
    let frail = with_hook(&place.environment, move |at, path| {
        match at == DiskCall::Identity && path == anchor && there.exists() {
            true => Err(std::io::Error::other("the device failed")),
            false => Ok(()),
        }
    });
    let refused = hand_over(&frail, &key, &identity, &out).unwrap_err().to_string();
    assert!(refused.contains("is whole"), "{refused}");
    assert_eq!(status(&place.environment, &key).unwrap().lifecycle, Lifecycle::HandingOver);
    for other in ["copy/other", "copy/older"] {
        let refused =
            hand_over(&place.environment, &key, &identity, &place.path(other)).unwrap_err();
        assert!(refused.to_string().contains("--hand-over --out FILE"), "{refused}");
    }
    let written = fs::read(&out).unwrap();
    assert!(hand_over(&place.environment, &key, &identity, &out).unwrap());
    assert_eq!(fs::read(&out).unwrap(), written);
    assert_eq!(status(&place.environment, &key).unwrap().lifecycle, Lifecycle::HandedOver);
}

/// A home that is restored from an older copy contains the old anchor; the key's folder is not
/// restored with it.
#[test]
fn restored_anchor_does_not_reactivate_a_departed_key() {
    for leave in ["hand over", "retire"] {
        let place = TestHome::empty();
        let (key, out) = (place.key(), place.path("copy/backup"));
        make_key(&place.environment, &key);
        let identity = KeyFile::read(&*place.environment.disk, &key).unwrap().identity();
        assert_eq!(signed(&open(&place.environment, &key).unwrap()), Ok(0));
        let before = fs::read(anchor_of(&place)).unwrap();
        match leave {
            "retire" => retire(&place.environment, &key, &identity).unwrap(),
            _ => assert!(!hand_over(&place.environment, &key, &identity, &out).unwrap()),
        }
        fs::write(anchor_of(&place), before).unwrap();
        let refused = open(&place.environment, &key).unwrap_err().to_string();
        assert!(refused.contains("no longer signs here"), "{leave}: {refused}");
        // Nor does plain `recover`, also where no anchor is left and in another home.
        assert!(recover(&place.environment, &key, &identity, 3).is_err());
        fs::remove_file(anchor_of(&place)).unwrap();
        let other = environment(&place.path("other"), None);
        for environment in [&place.environment, &other] {
            assert!(
                open(environment, &key).unwrap_err().to_string().contains("no longer signs here")
            );
            assert!(recover(environment, &key, &identity, 3).is_err(), "{leave}");
            assert!(backup(environment, &key, &place.path("copy/second")).is_err(), "{leave}");
            assert_ne!(status(environment, &key).unwrap().lifecycle, Lifecycle::Active);
        }
        assert!(
            hand_over(&place.environment, &key, &identity, &place.path("copy/second")).is_err()
        );
    }
}

/// Each anchor has two slots, of which the one that was written last may be lost.
#[test]
fn damaged_anchor_slot_does_not_reactivate_a_departed_key() {
    for leave in ["hand over", "retire", "retire what another home made"] {
        for slot in [0, 4096] {
            let place = TestHome::empty();
            let (key, out) = (place.key(), place.path("copy/backup"));
            let maker = match leave {
                "retire what another home made" => environment(&place.path("other"), None),
                _ => place.environment.clone(),
            };
            make_key(&maker, &key);
            let identity = KeyFile::read(&*maker.disk, &key).unwrap().identity();
            assert_eq!(signed(&open(&maker, &key).unwrap()), Ok(0));
            match leave {
                "hand over" => drop(hand_over(&place.environment, &key, &identity, &out).unwrap()),
                _ => retire(&place.environment, &key, &identity).unwrap(),
            }
            let mut anchor = fs::read(anchor_of(&place)).unwrap();
            anchor[slot + 100] ^= 1;
            fs::write(anchor_of(&place), anchor).unwrap();
            // A key made by another home still signs there.
            assert_eq!(open(&maker, &key).is_ok(), leave.ends_with("home made"), "{leave}, {slot}");
            let refused = open(&place.environment, &key).unwrap_err().to_string();
            assert!(refused.contains("no longer signs here"), "{leave}, {slot}: {refused}");
            assert!(recover(&place.environment, &key, &identity, 1).is_err(), "{leave}, {slot}");
        }
    }
}

/// If it cannot be determined whether a key left, no backup is made.
#[test]
fn unreadable_state_prevents_backup_of_a_departed_key() {
    let place = TestHome::empty();
    let (key, out) = (place.key(), place.path("copy/backup"));
    make_key(&place.environment, &key);
    let identity = KeyFile::read(&*place.environment.disk, &key).unwrap().identity();
    retire(&place.environment, &key, &identity).unwrap();
    let failed = || Err(std::io::Error::other("the device failed"));
    let frail =
        with_hook_once(&place.environment, (DiskCall::Open(Access::Read), "k.state"), failed);
    let refused = backup(&frail, &key, &out).unwrap_err().to_string();
    assert!(refused.contains("the device failed") && !out.exists(), "{refused}");
}

/// The anchor of the one key whose home this is.
fn anchor_of(place: &TestHome) -> std::path::PathBuf {
    fs::read_dir(place.path("home/anchors")).unwrap().next().unwrap().unwrap().path()
}
