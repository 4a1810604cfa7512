//! Backups sealed by the key of their period: restoring, refusals, and the end of periods.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use gabion_kms::Error;
use gabion_kms::backup::{self, Backup, Period, PeriodKey, Periods, is_within};
use gabion_kms::store::{
    Options, Outcome, RecordPath, SqliteStore, Store, StoreError, Transaction,
};

use crate::full_disk::Small;

const DAY: u64 = 24 * 60 * 60 * 1000;
/// Bytes before the chunks, and of a chunk.
const HEAD: usize = 112;
const CHUNK: usize = (64 << 10) + 16;

struct Place {
    folder: tempfile::TempDir,
    store: SqliteStore,
    periods: Periods,
}

impl Place {
    /// A store of some chunks: 40 records of 9000 bytes, an empty one, one that is buried, one of
    /// many generations.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("store");
        SqliteStore::create(&at).unwrap();
        let store = SqliteStore::open(&at, Options::default()).unwrap();
        fs::create_dir(folder.path().join("backups")).unwrap();
        let periods = Periods::new(&folder.path().join("keys"), store.identity().id);
        let place = Place { folder, store, periods };
        // Their order is not that of their paths.
        place.put((0..40).map(|n| (format!("r/{}", 97 * n % 40), 0, vec![n as u8; 9000])));
        place.put([("empty".to_owned(), 0, Vec::new()), ("gone".to_owned(), 0, vec![1])]);
        place.put((0..5).map(|n| ("often".to_owned(), n, vec![n as u8])));
        let bury = Transaction::new().bury(path("gone"), 1);
        assert!(matches!(place.store.commit(&bury), Ok(Outcome::Committed(_))));
        place
    }

    fn put(&self, records: impl IntoIterator<Item = (String, u64, Vec<u8>)>) {
        for (name, before, value) in records {
            let put = Transaction::new().put(path(&name), before, value);
            assert!(matches!(self.store.commit(&put), Ok(Outcome::Committed(_))));
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn current(&self, now_ms: u64) -> PeriodKey {
        self.periods.current(now_ms, 7 * DAY, self.store.records().unwrap()).unwrap()
    }

    fn backup(&self, name: &str, key: &PeriodKey) -> PathBuf {
        backup::write(&self.store, &self.path("backups"), name, key, 5).unwrap();
        self.path("backups").join(name)
    }

    /// The names in a folder.
    fn names(&self, folder: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(folder)).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

fn path(text: &str) -> RecordPath {
    RecordPath::new(text).unwrap()
}

fn store_error<T>(result: Result<T, Error>) -> StoreError {
    match result {
        Err(Error::Store(error)) => error,
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it was done"),
    }
}

/// A record: its path, its generation, its value, and its number.
type Row = (String, u64, Option<Vec<u8>>, Option<u64>);

/// Everything that a store has.
fn all(store: &SqliteStore) -> Vec<Row> {
    let paths =
        (0..40).map(|n| format!("r/{n}")).chain(["empty", "gone", "often"].map(str::to_owned));
    let paths: Vec<_> = paths.map(|text| path(&text)).collect();
    let records = store.read(&paths).unwrap().records;
    paths
        .iter()
        .zip(records)
        .map(|(path, record)| {
            let record = record.unwrap();
            (path.to_string(), record.generation, record.value, store.number_of(path).unwrap())
        })
        .collect()
}

#[test]
fn backup_restores_every_record() {
    let place = Place::new();
    let key = place.current(1000);
    let made = place.backup("one.backup", &key);
    let said = Backup::read(&made).unwrap().unwrap();
    assert_eq!((said.store, said.period), (place.store.identity(), key.period()));
    assert_eq!((said.created_ms, said.records), (5, 43));
    assert_eq!(place.names("backups"), ["one.backup"]);
    let bytes = fs::read(&made).unwrap();
    assert!(bytes.len() > HEAD + 5 * CHUNK);
    assert_eq!(fs::metadata(&made).unwrap().permissions().mode() & 0o777, 0o600);
    // Not even the paths are to be read there.
    for text in [&b"often"[..], b"records", &[7; 100]] {
        assert!(!bytes.windows(text.len()).any(|window| window == text));
    }
    // Later records are not included.
    place.put([("later".to_owned(), 0, vec![1])]);
    let again = place.path("again");
    backup::restore(&made, &place.periods.find(said.period).unwrap(), &again).unwrap();
    let restored = SqliteStore::open(&again, Options::default()).unwrap();
    restored.check().unwrap();
    assert_eq!(all(&restored), all(&place.store));
    assert_eq!(restored.records().unwrap(), 43);
    let (was, is) = (place.store.identity(), restored.identity());
    assert_eq!((is.id, is.incarnation), (was.id, was.incarnation + 1));
    assert_eq!(restored.read(&[]).unwrap().revision.0, said.revision);
    // The rules of records hold there.
    let bury = Transaction::new().put(path("gone"), 2, vec![1]);
    assert!(matches!(restored.commit(&bury), Err(StoreError::Buried(_))));
    let put = Transaction::new().put(path("often"), 5, vec![9]);
    assert!(matches!(restored.commit(&put), Ok(Outcome::Committed(_))));
    // Neither a backup nor a store is replaced.
    let exists =
        store_error(backup::write(&place.store, &place.path("backups"), "one.backup", &key, 6));
    assert!(matches!(exists, StoreError::Exists(_)));
    assert!(matches!(store_error(backup::restore(&made, &key, &again)), StoreError::Exists(_)));
    assert_eq!(fs::read(&made).unwrap(), bytes);
}

/// Sizes round those of chunks: the last one is as long as it is.
#[test]
fn backups_of_every_length_come_back() {
    let folder = tempfile::tempdir().unwrap();
    for more in (0..60).chain([CHUNK, 2 * CHUNK]) {
        let [at, again] =
            [format!("s{more}"), format!("a{more}")].map(|name| folder.path().join(name));
        SqliteStore::create(&at).unwrap();
        let store = SqliteStore::open(&at, Options::default()).unwrap();
        let periods = Periods::new(&folder.path().join("keys"), store.identity().id);
        // 8 bytes before it, 26 round it and 8 behind it: the last chunk ends about here.
        let len = (64 << 10) - 72 + more;
        let put = Transaction::new().put(path("r"), 0, vec![7; len]);
        assert!(matches!(store.commit(&put), Ok(Outcome::Committed(_))));
        let key = periods.current(0, DAY, 0).unwrap();
        let name = format!("{more}.backup");
        backup::write(&store, folder.path(), &name, &key, 0).unwrap();
        backup::restore(&folder.path().join(&name), &key, &again).unwrap();
        let restored = SqliteStore::open(&again, Options::default()).unwrap();
        let read = restored.read(&[path("r")]).unwrap().records.remove(0).unwrap();
        assert_eq!(read.value.unwrap().len(), len);
    }
}

#[test]
fn a_backup_that_was_changed_makes_no_store() {
    let place = Place::new();
    let key = place.current(1000);
    let made = place.backup("one.backup", &key);
    let other = fs::read(place.backup("other.backup", &key)).unwrap();
    let bytes = fs::read(&made).unwrap();
    let bad = place.path("bad");
    let (to, chunk) = (place.path("to"), |n: usize| HEAD + n * CHUNK);
    let refused = |changed: &[u8], what: &str| {
        fs::write(&bad, changed).unwrap();
        let result = backup::restore(&bad, &key, &to);
        assert!(
            matches!(
                result,
                Err(Error::Store(StoreError::Backup { .. })
                    | Error::Store(StoreError::TooOld { .. }))
            ),
            "{what}: {result:?}"
        );
        let left: Vec<_> =
            place.names("").into_iter().filter(|name| name.starts_with("to")).collect();
        assert!(left.is_empty() || left == ["to.lock"], "{what}: {left:?}");
    };
    // Cut anywhere, also between chunks.
    let ends = (1..bytes.len() / CHUNK).map(chunk);
    for end in ends.chain([0, 1, HEAD - 1, HEAD, HEAD + 1, bytes.len() - 1, bytes.len() - 17]) {
        refused(&bytes[..end], &format!("cut at {end}"));
    }
    for place in (0..HEAD).chain((HEAD..bytes.len()).step_by(9973)).chain([bytes.len() - 1]) {
        let mut changed = bytes.clone();
        changed[place] ^= 1;
        refused(&changed, &format!("byte {place}"));
    }
    let part = |n: usize| &bytes[chunk(n)..chunk(n + 1)];
    refused(&[&bytes[..HEAD], part(1), part(0), &bytes[chunk(2)..]].concat(), "exchanged");
    refused(&[&bytes[..chunk(1)], part(0), &bytes[chunk(1)..]].concat(), "twice");
    refused(&[&bytes[..chunk(1)], &bytes[chunk(2)..]].concat(), "left out");
    refused(&[&bytes[..chunk(1)], &other[chunk(1)..]].concat(), "of another backup");
    refused(&[&other[..HEAD], &bytes[HEAD..]].concat(), "of another head");
    refused(&[&bytes[..], b"x"].concat(), "something behind its end");
    refused(&[&bytes[..], &bytes[HEAD..]].concat(), "all of it twice");
    backup::restore(&made, &key, &to).unwrap();
}

#[test]
fn wrong_or_missing_backup_key_is_named() {
    let place = Place::new();
    let key = place.current(1000);
    let made = place.backup("one.backup", &key);
    let to = place.path("to");
    // Of another period, and of another store.
    let next = place.current(8 * DAY);
    assert_ne!(next.period(), key.period());
    let wrong = store_error(backup::restore(&made, &next, &to)).to_string();
    assert!(
        wrong.contains(&key.period().to_string()) && wrong.contains(&next.period().to_string()),
        "{wrong}"
    );
    let foreign = Periods::new(&place.path("keys"), [9; 16]);
    assert!(foreign.all().unwrap().is_empty());
    let foreign = foreign.current(0, DAY, 0).unwrap();
    assert!(matches!(
        store_error(backup::restore(&made, &foreign, &to)),
        StoreError::Backup { .. }
    ));
    let written = backup::write(&place.store, &place.path("backups"), "x.backup", &foreign, 0);
    assert!(matches!(store_error(written), StoreError::Backups(_)));
    place.periods.destroy(key.period()).unwrap();
    place.periods.destroy(key.period()).unwrap();
    let missing = store_error(place.periods.find(key.period())).to_string();
    assert!(missing.contains(&key.period().to_string()) && missing.contains("keys"), "{missing}");
    assert_eq!(place.names("backups"), ["one.backup"]);
    assert!(!to.exists());
}

#[test]
fn keys_are_their_owners_and_show_nothing() {
    let place = Place::new();
    let key = place.current(1_790_000_000_123);
    let period = key.period().to_string();
    assert!(period.starts_with("000001-20260921T141320123Z-"), "{period}");
    assert_eq!(place.names("keys"), [format!("{period}.key")]);
    let at = place.path("keys").join(format!("{period}.key"));
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&place.path("keys")), mode(&at)), (0o700, 0o600));
    let text = fs::read_to_string(&at).unwrap();
    assert_eq!(PeriodKey::read(&at).unwrap().period(), key.period());
    let secret = text.split('-').nth(6).unwrap();
    assert_eq!(secret.len(), 64);
    assert!(!format!("{key:?}").contains(secret));
    // Any change of the file is detected, and so is a file that is not a key.
    for place in 0..text.len() - 1 {
        let mut other = text.clone().into_bytes();
        other[place] ^= 1;
        fs::write(&at, &other).unwrap();
        let error = store_error(PeriodKey::read(&at)).to_string();
        assert!(
            error.contains("not the key of a backup period") && !error.contains(secret),
            "{error}"
        );
    }
    fs::write(&at, "x".repeat(5000)).unwrap();
    assert!(matches!(store_error(place.periods.all()), StoreError::Backup { .. }));
    // A kill between overwriting and removing it.
    fs::write(&at, vec![0; text.len()]).unwrap();
    assert!(store_error(PeriodKey::read(&at)).to_string().contains("destroyed"));
    // Looking changes nothing.
    let name = format!("{period}.key");
    assert!(place.periods.all().unwrap().is_empty());
    assert!(place.periods.find(key.period()).is_err());
    assert!(place.periods.holding(1, &[]).unwrap().is_empty());
    assert_eq!(place.names("keys"), std::slice::from_ref(&name));
    assert_eq!(fs::read(&at).unwrap(), vec![0; text.len()]);
    // The next period removes it, and so does who destroys it again.
    place.current(1_790_000_000_123);
    assert!(!place.names("keys").contains(&name) && place.names("keys").len() == 1);
    fs::write(&at, vec![0; text.len()]).unwrap();
    place.periods.destroy(key.period()).unwrap();
    assert!(!at.exists());
}

#[test]
fn periods_end_by_time_and_a_clock_that_jumps_loses_none() {
    let place = Place::new();
    let number = |now_ms| place.current(now_ms).period().to_string()[..6].to_owned();
    assert_eq!(number(10 * DAY), "000001");
    assert_eq!(number(17 * DAY - 1), "000001");
    assert_eq!(number(17 * DAY), "000002");
    // Put back by a little, and by much; then it is right again.
    assert_eq!(number(16 * DAY), "000002");
    assert_eq!(number(DAY), "000003");
    assert_eq!(number(17 * DAY), "000004");
    assert_eq!(place.periods.all().unwrap().len(), 4);
    let newest = place.current(17 * DAY).period();
    place.periods.destroy(newest).unwrap();
    // Of the same time, and another one.
    assert_ne!(place.current(17 * DAY).period(), newest);
}

/// The periods that may contain a record are determined by record counts, regardless of the clock.
#[test]
fn backup_periods_of_a_record_follow_its_number() {
    let place = Place::new();
    let made = |name: &str| {
        place.put([(name.to_owned(), 0, vec![1])]);
        place.store.number_of(&path(name)).unwrap().unwrap()
    };
    let mut periods: Vec<Period> = Vec::new();
    let mut numbers = Vec::new();
    // The third one begins when the clock was put back.
    for (name, now_ms) in [("a", 100 * DAY), ("b", 200 * DAY), ("c", 3 * DAY), ("d", 400 * DAY)] {
        periods.push(place.current(now_ms).period());
        numbers.push(made(name));
    }
    let holding = |number: u64, ended: &[(u32, u64)]| -> Vec<Period> {
        let keys = place.periods.holding(number, ended).unwrap();
        keys.iter().map(PeriodKey::period).collect()
    };
    for (at, number) in numbers.iter().enumerate() {
        assert_eq!(holding(*number, &[]), periods[at..], "{at}");
    }
    assert_eq!(holding(1, &[]), periods);
    // One that is gone leaves its neighbour to be told by the next one, unless it was noted.
    let began = place.periods.find(periods[1]).unwrap().began();
    place.periods.destroy(periods[1]).unwrap();
    assert_eq!(holding(numbers[1], &[]), [periods[0], periods[2], periods[3]]);
    assert_eq!(holding(numbers[1], &[began]), periods[2..]);
    assert_eq!(holding(numbers[2], &[]), periods[2..]);
}

#[test]
fn keys_are_not_kept_within_the_backups_by_whatever_name() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for name in ["backups/deep", "other"] {
        fs::create_dir_all(at(name)).unwrap();
    }
    symlink(at("backups/deep"), at("link")).unwrap();
    symlink(at("backups"), at("same")).unwrap();
    let backups = at("backups");
    for inside in [
        "backups",
        "backups/deep",
        "backups/new/newer",
        "link",
        "link/new",
        "same",
        "other/../backups/x",
    ] {
        assert!(is_within(&at(inside), &backups).unwrap(), "{inside}");
        assert!(is_within(&at(inside), &at("same")).unwrap(), "{inside}");
    }
    for outside in ["other", "other/new", "backups-keys", "."] {
        assert!(!is_within(&at(outside), &backups).unwrap(), "{outside}");
    }
    assert!(!is_within(&at("other"), &at("missing")).unwrap());
}

#[test]
fn a_full_disk_leaves_no_part_of_a_backup_and_none_of_a_key() {
    let place = Place::new();
    let key = place.current(1000);
    let Some(small) = Small::new(256) else { return };
    fs::create_dir(small.path("b")).unwrap();
    let written = store_error(backup::write(&place.store, &small.path("b"), "one.backup", &key, 0));
    assert!(matches!(&written, StoreError::Backups(why) if why.contains("no room")), "{written}");
    assert_eq!(fs::read_dir(small.path("b")).unwrap().count(), 0);
    small.fill(0);
    let periods = Periods::new(&small.path("b"), place.store.identity().id);
    assert!(periods.current(0, DAY, 0).is_err());
    assert_eq!(fs::read_dir(small.path("b")).unwrap().count(), 0);
    // The store goes on.
    place.put([("later".to_owned(), 0, vec![1])]);
    small.empty();
    periods.current(0, DAY, 0).unwrap();
}
