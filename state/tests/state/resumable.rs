//! Keys whose generation is interrupted: it is resumed once, and never twice.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use gabion_disk::RealDisk;
use gabion_disk::testing::faulty::{Fault, Sim};
use gabion_engine::keys::stateful::{LedgerError, Progress, Request, digest_of};
use gabion_engine::{Algorithm, Error, Message};
use gabion_state::{
    Environment, GeneratedKey, KeyFile, ResumableKey, ResumableSectors, Sets, Signer,
    SignerOptions, check_place, restore,
};

use crate::simulation::{self, CounterEntropy, KEY};
use crate::test_home::{self, ONE, TestHome, engine, environment};

fn sets(name: &str) -> Sets {
    name.parse().unwrap()
}

/// Makes a key until so many leaves are done; returns the key, or `None` if it stopped with its
/// progress stored.
fn run_generation(begun: ResumableKey, stop_at: u32) -> Result<Option<GeneratedKey>, Error> {
    let mut watch = |progress: Progress<'_>| match progress.done >= stop_at {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    };
    begun.generate(engine(), ONE, Duration::MAX, &mut watch)
}

fn write_key(environment: &Environment, key: &Path, made: &GeneratedKey) -> Result<(), Error> {
    made.write(environment, &test_home::key_options(key))
}

impl TestHome {
    fn begin(&self, key: &str, set: &str) -> Result<ResumableKey, Error> {
        ResumableKey::begin(&self.environment, &self.path(key), &sets(set), None, &[])
    }

    fn witnesses(&self) -> usize {
        fs::read_dir(self.path("home/anchors")).map_or(0, Iterator::count)
    }
}

fn is_unsafe<T>(result: &Result<T, Error>) -> bool {
    matches!(result, Err(Error::Ledger(LedgerError::Unsafe(_))))
}

fn is_held<T>(result: &Result<T, Error>) -> bool {
    matches!(result, Err(Error::Ledger(LedgerError::Held(_))))
}

#[test]
fn an_interrupted_key_goes_on_where_it_was_and_signs() {
    for (set, passphrase) in
        [("LMS_SHA256_M32_H10_W1", None), ("XMSS-SHA2_10_192", Some(&b"x"[..]))]
    {
        let place = TestHome::empty();
        let (key, part) = (place.path("keys/k"), place.path("keys/k.part"));
        let begin = |passphrase, anchors: &[PathBuf]| {
            ResumableKey::begin(&place.environment, &key, &sets(set), passphrase, anchors)
        };
        let first = begin(passphrase, &[]).unwrap();
        assert!(!first.is_resumed());
        assert!(run_generation(first, 200).unwrap().is_none());
        let bytes = fs::read(&part).unwrap();
        assert!(!key.exists() && place.witnesses() == 1);
        if passphrase.is_some() {
            assert!(matches!(begin(None, &[]), Err(Error::KeyFile(_))));
            assert!(matches!(begin(Some(b"y"), &[]), Err(Error::KeyFile(_))));
        }
        // Where its anchors are said to be now is for the key, and not for what was begun.
        let second = begin(passphrase, &[place.path("elsewhere/anchor")]).unwrap();
        assert!(second.is_resumed());
        let mut seen = Vec::new();
        let mut watch = |progress: Progress<'_>| {
            seen.push(progress.done);
            ControlFlow::Continue(())
        };
        let made = second.generate(engine(), ONE, Duration::ZERO, &mut watch).unwrap().unwrap();
        assert!(seen[0] >= 200 && seen.last() == Some(&1024), "{set}: {seen:?}");
        assert!(fs::read(&part).unwrap().len() >= bytes.len());
        write_key(&place.environment, &key, &made).unwrap();
        assert!(!part.exists() && place.witnesses() == 1, "{set}: its anchor alone");
        let signer =
            Signer::open(&place.environment, engine(), &key, None, &SignerOptions::default());
        let signer = signer.unwrap();
        let signed = signer.sign(&[Request { message: b"m", id: None }]).unwrap();
        let algorithm = signer.file().sets().algorithm();
        let public = engine().signature_public(algorithm, signer.file().public()).unwrap();
        let message = Message::Pure { context: b"", message: b"m" };
        engine().verify(&public, message, &signed[0].bytes).unwrap();
    }
}

/// Neither a copy makes the key again, nor what comes back, nor another process, nor the same value.
#[test]
fn an_unfinished_key_makes_one_key() {
    let set = "LMS_SHA256_M32_H5_W1";
    let place = TestHome::empty();
    assert!(run_generation(place.begin("keys/k", set).unwrap(), 0).unwrap().is_none());
    let old = fs::read(place.path("keys/k.part")).unwrap();
    let witness = fs::read_dir(place.path("home/anchors")).unwrap().next().unwrap().unwrap().path();
    fs::write(place.path("copy/k.part"), &old).unwrap();
    let elsewhere = environment(&place.path("another"), None);
    let copied = ResumableKey::begin(&elsewhere, &place.path("copy/k"), &sets(set), None, &[]);
    assert!(is_unsafe(&copied));
    let first = place.begin("keys/k", set).unwrap();
    assert!(is_held(&place.begin("keys/k", set)) && is_held(&place.begin("copy/k", set)));
    let first = run_generation(first, u32::MAX).unwrap().unwrap();
    write_key(&place.environment, &place.path("keys/k"), &first).unwrap();
    assert!(is_unsafe(&write_key(&place.environment, &place.path("keys/again"), &first)));
    assert!(!place.path("keys/again").exists());
    drop(first);
    // Everything of the key goes, its anchor too, and what was begun comes back.
    for folder in ["keys", "home/anchors"] {
        for file in fs::read_dir(place.path(folder)).unwrap() {
            let path = file.unwrap().path();
            // The witness has to be gone without that.
            if path != witness {
                fs::remove_file(path).unwrap();
            }
        }
    }
    fs::write(place.path("keys/k.part"), &old).unwrap();
    for name in ["keys/k", "copy/k"] {
        assert!(is_unsafe(&place.begin(name, set)), "{name}");
    }
}

#[test]
fn an_unfinished_key_blocks_other_keys_and_sets() {
    let set = "LMS_SHA256_M32_H5_W1";
    let place = TestHome::empty();
    let (key, part) = (place.path("keys/k"), place.path("keys/k.part"));
    let other = place.begin("keys/k", set).unwrap();
    assert!(run_generation(place.begin("keys/k", set).unwrap(), 0).unwrap().is_none());
    let bytes = fs::read(&part).unwrap();
    // Two that began at once: the later one writes nothing over, and leaves no witness.
    assert!(is_held(&run_generation(other, 0)));
    assert!(fs::read(&part).unwrap() == bytes && place.witnesses() == 1);
    for at in 0..bytes.len() {
        let mut bad = bytes.clone();
        bad[at] ^= 1;
        fs::write(&part, bad).unwrap();
        assert!(matches!(place.begin("keys/k", set), Err(Error::KeyFile(_))), "byte {at}");
        fs::write(&part, &bytes[..at]).unwrap();
        assert!(matches!(place.begin("keys/k", set), Err(Error::KeyFile(_))), "{at} bytes");
    }
    fs::write(&part, &bytes).unwrap();
    let refused = place.begin("keys/k", "LMS_SHA256_M32_H5_W2").map(drop).unwrap_err();
    assert!(refused.to_string().contains("LMOTS_SHA256_N32_W1 was begun"), "{refused}");
    let fresh =
        ResumableKey::begin(&place.environment, &place.path("copy/k"), &sets(set), None, &[]);
    let fresh = run_generation(fresh.unwrap(), u32::MAX).unwrap().unwrap();
    let refused = write_key(&place.environment, &key, &fresh);
    assert!(matches!(refused, Err(Error::Ledger(LedgerError::Place(_)))), "{refused:?}");
    assert!(check_place(&place.environment, &key, &[], false, false).is_err());
    check_place(&place.environment, &key, &[], false, true).unwrap();
    write_key(&place.environment, &place.path("copy/k"), &fresh).unwrap();
    gabion_state::backup(&place.environment, &place.path("copy/k"), &place.path("b")).unwrap();
    assert!(restore(&place.environment, &place.path("b"), &key).is_err());
    assert!(fs::read(&part).unwrap() == bytes && !key.exists());
}

/// Two sectors of one tree, with a file each.
fn begin_sectors(
    environment: &Environment,
    key: &Path,
    set: &str,
    passphrase: Option<&[u8]>,
) -> Result<ResumableSectors, Error> {
    ResumableSectors::begin(environment, &of_sectors(key, 2), &sets(set), passphrase)
}

fn of_sectors(key: &Path, count: usize) -> Vec<(PathBuf, Vec<PathBuf>)> {
    let named = |number| (PathBuf::from(format!("{}-{number}", key.display())), Vec::new());
    (0..count).map(named).collect()
}

/// Makes both sectors like [`run_generation`].
fn made_sectors(
    begun: ResumableSectors,
    stop_at: u32,
    every: Duration,
) -> Result<Option<Vec<GeneratedKey>>, Error> {
    let mut watch = |progress: Progress<'_>| match progress.done >= stop_at {
        true => ControlFlow::Break(()),
        false => ControlFlow::Continue(()),
    };
    begun.generate(engine(), ONE, every, &mut watch)
}

#[test]
fn interrupted_sectors_go_on_where_they_were_and_sign() {
    let set = "LMS_SHA256_M32_H10_W1";
    for passphrase in [None, Some(&b"x"[..])] {
        let place = TestHome::empty();
        let key = place.path("keys/k");
        let names: Vec<PathBuf> = of_sectors(&key, 2).into_iter().map(|(key, _)| key).collect();
        let parts = [0, 1].map(|number| place.path(&format!("keys/k-{number}.part")));
        let begin = |passphrase| begin_sectors(&place.environment, &key, set, passphrase);
        // In the first one, and then in the second.
        assert!(made_sectors(begin(passphrase).unwrap(), 200, Duration::MAX).unwrap().is_none());
        assert!(parts[0].exists() && !parts[1].exists() && place.witnesses() == 1);
        let second = begin(passphrase).unwrap();
        assert!(second.is_resumed());
        assert!(made_sectors(second, 700, Duration::MAX).unwrap().is_none());
        assert!(parts[1].exists() && place.witnesses() == 2);
        if passphrase.is_some() {
            assert!(matches!(begin(None), Err(Error::KeyFile(_))));
            assert!(matches!(begin(Some(b"y")), Err(Error::KeyFile(_))));
        }
        let before = fs::read(&parts[0]).unwrap();
        let mut seen = Vec::new();
        let mut watch = |progress: Progress<'_>| {
            seen.push((progress.done, progress.all));
            ControlFlow::Continue(())
        };
        let third = begin(passphrase).unwrap();
        let made = third.generate(engine(), ONE, Duration::ZERO, &mut watch).unwrap().unwrap();
        assert!(seen[0] == (512, 1024) && seen[1].0 >= 700, "{seen:?}");
        assert_eq!(seen.last(), Some(&(1024, 1024)));
        assert!(fs::read(&parts[0]).unwrap() == before, "it was whole");
        assert_eq!(made[0].public(), made[1].public());
        for (made, key) in made.iter().zip(&names) {
            write_key(&place.environment, key, made).unwrap();
        }
        assert!(parts.iter().all(|part| !part.exists()) && place.witnesses() == 2);
        for (number, key) in (0..).zip(&names) {
            let signer =
                Signer::open(&place.environment, engine(), key, None, &SignerOptions::default());
            let signer = signer.unwrap();
            let signed = signer.sign(&[Request { message: b"m", id: None }]).unwrap();
            assert_eq!(signed[0].index, 512 * number);
            let public = signer.file().public();
            let public = engine().signature_public(Algorithm::Hss, public).unwrap();
            let message = Message::Pure { context: b"", message: b"m" };
            engine().verify(&public, message, &signed[0].bytes).unwrap();
        }
    }
}

/// Progress is stored periodically, including the sectors that were completed since.
#[test]
fn sectors_are_written_down_while_they_are_made() {
    let place = TestHome::empty();
    let key = place.path("keys/k");
    let keys = of_sectors(&key, 4);
    let begin =
        || ResumableSectors::begin(&place.environment, &keys, &sets("LMS_SHA256_M32_H10_W1"), None);
    let parts = || fs::read_dir(place.path("keys")).unwrap().count();
    let mut most = 0;
    let mut watch = |_: Progress<'_>| {
        most = most.max(parts());
        ControlFlow::Continue(())
    };
    let made = begin().unwrap().generate(engine(), ONE, Duration::ZERO, &mut watch);
    assert_eq!(made.unwrap().unwrap().len(), 4);
    assert!(most >= 3, "{most}");
    fs::read_dir(place.path("keys"))
        .unwrap()
        .for_each(|file| fs::remove_file(file.unwrap().path()).unwrap());
    // Quick ones are written down nowhere, unless they are stopped.
    let mut watch = |_: Progress<'_>| ControlFlow::Continue(());
    begin().unwrap().generate(engine(), ONE, Duration::MAX, &mut watch).unwrap().unwrap();
    assert_eq!(parts(), 0);
    assert!(made_sectors(begin().unwrap(), 900, Duration::MAX).unwrap().is_none());
    assert_eq!(parts(), 4, "three that are done, and the last");
}

/// Of what was begun each sector makes one key, and none with the sectors of another key.
#[test]
fn each_unfinished_sector_makes_one_key() {
    let set = "LMS_SHA256_M32_H5_W1";
    let place = TestHome::empty();
    let (key, other) = (place.path("keys/k"), place.path("keys/other"));
    let begin = |key: &Path| begin_sectors(&place.environment, key, set, None);
    for key in [&key, &other] {
        assert!(made_sectors(begin(key).unwrap(), 31, Duration::MAX).unwrap().is_none());
    }
    let part = |key: &str, number: usize| place.path(&format!("{key}-{number}.part"));
    let old = [0, 1].map(|number| fs::read(part("keys/k", number)).unwrap());
    // In another home, and of two processes one.
    old.iter().enumerate().for_each(|(at, old)| fs::write(part("copy/k", at), old).unwrap());
    let elsewhere = environment(&place.path("another"), None);
    assert!(is_unsafe(&begin_sectors(&elsewhere, &place.path("copy/k"), set, None)));
    let first = begin(&key).unwrap();
    assert!(is_held(&begin(&key)) && is_held(&begin(&place.path("copy/k"))));
    let first = made_sectors(first, u32::MAX, Duration::MAX).unwrap().unwrap();
    for (made, (key, _)) in first.iter().zip(of_sectors(&key, 2)) {
        write_key(&place.environment, &key, made).unwrap();
    }
    drop(first);
    // The keys go, and what was begun comes back, one by one and together.
    for file in fs::read_dir(place.path("keys")).unwrap() {
        let path = file.unwrap().path();
        if !path.file_name().unwrap().to_str().unwrap().starts_with("other") {
            fs::remove_file(path).unwrap();
        }
    }
    for which in [&[0][..], &[1], &[0, 1]] {
        which.iter().for_each(|at| fs::write(part("keys/k", *at), &old[*at]).unwrap());
        assert!(is_unsafe(&begin(&key)), "{which:?}");
        which.iter().for_each(|at| fs::remove_file(part("keys/k", *at)).unwrap());
    }
    // A sector of one key together with that of another, and one with another number.
    assert!(made_sectors(begin(&key).unwrap(), 31, Duration::MAX).unwrap().is_none());
    let kept = fs::read(part("keys/other", 1)).unwrap();
    fs::rename(part("keys/k", 1), part("keys/other", 1)).unwrap();
    let refused = begin(&other).map(drop).unwrap_err();
    assert!(refused.to_string().contains("of another key than the sectors before"), "{refused}");
    fs::rename(part("keys/k", 0), part("keys/other", 1)).unwrap();
    let refused = begin(&other).map(drop).unwrap_err();
    assert!(refused.to_string().contains("sector 0 of 2 was begun"), "{refused}");
    fs::write(part("keys/other", 1), kept).unwrap();
    // One that is lost is made anew, under the same I.
    fs::remove_file(part("keys/other", 0)).unwrap();
    let made = made_sectors(begin(&other).unwrap(), u32::MAX, Duration::MAX).unwrap().unwrap();
    for (made, (key, _)) in made.iter().zip(of_sectors(&other, 2)) {
        write_key(&place.environment, &key, made).unwrap();
    }
    // A file of a sector that is being made is no key.
    fs::write(part("copy/k", 0), &old[0]).unwrap();
    assert!(KeyFile::read(&RealDisk, &part("copy/k", 0)).is_err());
}

/// Makes a key in steps, any of whose calls may fail.
fn make_key(environment: &Environment) -> Result<(), Error> {
    let begin = || {
        ResumableKey::begin(environment, Path::new(KEY), &sets("LMS_SHA256_M32_H5_W1"), None, &[])
    };
    if !begin()?.is_resumed() {
        assert!(run_generation(begin()?, 0)?.is_none());
    }
    let key = run_generation(begin()?, u32::MAX)?.expect("nothing stopped it");
    write_key(environment, Path::new(KEY), &key)
}

/// Faults that neither end a process nor lose confirmed writes.
const MILD: [Fault; 6] =
    [Fault::Full, Fault::Interrupted, Fault::Short, Fault::ReadOnly, Fault::Booted, Fault::Raced];

/// Struck at every call, and then by a power cut that keeps only synced data: if there is a private
/// key, it is never made again, even if all its other files are gone; otherwise a key can be made.
#[test]
fn resumed_generation_never_repeats_a_key_under_faults() {
    let entropy = Arc::new(CounterEntropy(AtomicU64::new(1)));
    let begin = |environment: &Environment| {
        ResumableKey::begin(environment, Path::new(KEY), &sets("LMS_SHA256_M32_H5_W1"), None, &[])
    };
    let run = |plan| {
        let sim = Sim::new(plan, 3);
        let done = make_key(&simulation::environment(&sim, &entropy));
        (sim, done)
    };
    let (sim, done) = run(Vec::new());
    done.unwrap();
    let (mut resumed, mut keys, mut stranded) = (0, 0, 0);
    for call in 0..sim.calls() {
        for kind in Fault::all().into_iter().filter(|kind| !MILD.contains(kind)) {
            let (sim, _) = run(vec![(call, kind)]);
            sim.cut_power();
            let environment = simulation::environment(&sim, &entropy);
            if let Ok(file) = KeyFile::read(&*environment.disk, Path::new(KEY)) {
                let id = digest_of(file.public()).map(|byte| format!("{byte:02x}")).concat();
                sim.remove(&format!("/home/gabion/anchors/{id}"));
                ["", ".state", ".log", ".lock", ".trees"]
                    .iter()
                    .for_each(|ending| sim.remove_file(&format!("{KEY}{ending}")));
                keys += 1;
                let again = begin(&environment);
                assert!(!again.is_ok_and(|again| again.is_resumed()), "{call}, {kind:?}");
                continue;
            }
            match begin(&environment) {
                Ok(begun) => resumed += usize::from(begun.is_resumed()),
                Err(Error::Ledger(LedgerError::Unsafe(_))) => {
                    stranded += 1;
                    sim.remove_file(&format!("{KEY}.part"));
                }
                Err(error) => panic!("{call}, {kind:?}: {error}"),
            }
            // A fault may have waited for this one.
            let mut failed = Vec::new();
            let mut is_made = || make_key(&environment).map_err(|error| failed.push(error)).is_ok();
            assert!((0..3).any(|_| is_made()), "{call}, {kind:?}: {failed:?}");
        }
    }
    println!("{} calls: {resumed} resumed, {keys} keys, {stranded} stranded", sim.calls());
    assert!(resumed > 100 && keys > 20 && stranded > 5);
}

#[test]
fn files_of_an_unfinished_key_are_private() {
    use std::os::unix::fs::PermissionsExt;
    let place = TestHome::empty();
    assert!(
        run_generation(place.begin("keys/k", "LMS_SHA256_M32_H5_W1").unwrap(), 0)
            .unwrap()
            .is_none()
    );
    let mode = fs::metadata(place.path("keys/k.part")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // It signs nothing, whatever it is called.
    fs::copy(place.path("keys/k.part"), place.path("copy/k")).unwrap();
    assert!(KeyFile::read(&RealDisk, &place.path("copy/k")).is_err());
}
