//! Backups made while the store is in use: their content, the waiting of either side, and the files
//! left after a failure.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use gabion_disk::testing::faulty::{Dice, Fault, Sim};
use gabion_disk::{Access, Disk, DiskFile, Identity, RealDisk};
use gabion_kms::audit;
use gabion_kms::backup::{self, PeriodKey, Periods};
use gabion_kms::gate::{Peer, Principal};
use gabion_kms::model::Label;
use gabion_kms::operations::{self, Kms, NewKey};
use gabion_kms::seal::{self, Cost, Shares, Slots, UnsealMethod};
use gabion_kms::service::{AuditAt, Call, KeyRef, Options, Service};
use gabion_kms::store::{self, Outcome, RecordPath, SqliteStore, Store, StoreError, Transaction};
use gabion_kms::{Error, Message};

const DAY: u64 = 24 * 60 * 60 * 1000;

/// A callback at each write of a backup, with the write's number.
type Hook = Arc<dyn Fn(usize) + Send + Sync>;

/// A disk whose writes something happens at.
struct WatchedDisk {
    hook: Hook,
    writes: Arc<AtomicUsize>,
}

impl WatchedDisk {
    fn new(hook: impl Fn(usize) + Send + Sync + 'static) -> Self {
        WatchedDisk { hook: Arc::new(hook), writes: Arc::default() }
    }
}

impl Disk for WatchedDisk {
    fn open(&self, path: &Path, access: Access) -> io::Result<Box<dyn DiskFile>> {
        let file = RealDisk.open(path, access)?;
        Ok(Box::new(WatchedFile { file, hook: self.hook.clone(), writes: self.writes.clone() }))
    }

    fn make_folder(&self, path: &Path) -> io::Result<()> {
        RealDisk.make_folder(path)
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        RealDisk.sync_folder(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealDisk.rename(from, to)
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealDisk.rename_new(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        RealDisk.remove(path)
    }

    fn identity(&self, path: &Path) -> io::Result<Identity> {
        RealDisk.identity(path)
    }

    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        RealDisk.canonical(path)
    }

    fn is_network(&self, path: &Path) -> io::Result<bool> {
        RealDisk.is_network(path)
    }
}

struct WatchedFile {
    file: Box<dyn DiskFile>,
    hook: Hook,
    writes: Arc<AtomicUsize>,
}

impl DiskFile for WatchedFile {
    fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(bytes, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        (self.hook)(self.writes.fetch_add(1, Ordering::Relaxed));
        self.file.write_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }

    fn try_lock(&self) -> io::Result<bool> {
        self.file.try_lock()
    }

    fn unlock(&self) -> io::Result<()> {
        self.file.unlock()
    }

    fn identity(&self) -> io::Result<Identity> {
        self.file.identity()
    }
}

struct Place {
    folder: tempfile::TempDir,
    store: Arc<SqliteStore>,
    key: PeriodKey,
}

impl Place {
    /// A store of so many records of so many bytes.
    fn new(records: usize, len: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("store");
        SqliteStore::create(&at).unwrap();
        let store = Arc::new(SqliteStore::open(&at, store::Options::default()).unwrap());
        fs::create_dir(folder.path().join("backups")).unwrap();
        let periods = Periods::new(&folder.path().join("keys"), store.identity().id);
        let key = periods.current(1000, 7 * DAY, store.records().unwrap()).unwrap();
        let place = Place { folder, store, key };
        place.fill(records, len);
        place
    }

    /// Commits so many records of so many bytes.
    fn fill(&self, records: usize, len: usize) {
        for from in (0..records).step_by(100) {
            // Their order is not that of their paths.
            let write = (from..records.min(from + 100)).fold(Transaction::new(), |write, n| {
                write.put(path(&format!("r/{}", n * 7919 % records)), 0, vec![n as u8; len])
            });
            commit(&self.store, &write);
        }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn backup_on(&self, disk: &dyn Disk, name: &str) -> Result<backup::WrittenBackup, Error> {
        backup::write_on(disk, &self.store, &self.at("backups"), name, &self.key, 5)
    }

    /// Returns the contents of a backup.
    fn restored(&self, name: &str) -> BackupContents {
        let to = self.at(&format!("{name}-store"));
        backup::restore(&self.at("backups").join(name), &self.key, &to).unwrap();
        let restored = SqliteStore::open(&to, store::Options::default()).unwrap();
        restored.check().unwrap();
        all(&restored)
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.at("backups")).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

fn path(text: &str) -> RecordPath {
    RecordPath::new(text).unwrap()
}

fn commit(store: &SqliteStore, write: &Transaction) {
    assert!(matches!(store.commit(write), Ok(Outcome::Committed(_))));
}

fn store_error<T>(result: Result<T, Error>) -> StoreError {
    match result {
        Err(Error::Store(error)) => error,
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("it was done"),
    }
}

/// The revision, and each record by its number: path, generation, value.
type BackupContents = (u64, BTreeMap<u64, (String, u64, Option<Vec<u8>>)>);

fn all(store: &SqliteStore) -> BackupContents {
    let mut all = BTreeMap::new();
    for under in [
        "r",
        "system",
        "seal",
        "tokens",
        "keys",
        "versions",
        "names",
        "publics",
        "rotations",
        "integrity",
        "administrators",
    ] {
        for (path, record) in store.list(&path(under), None, usize::MAX).unwrap().records {
            let number = store.number_of(&path).unwrap().unwrap();
            all.insert(number, (path.to_string(), record.generation, record.value));
        }
    }
    assert_eq!(all.len() as u64, store.records().unwrap());
    (store.read(&[]).unwrap().revision.0, all)
}

#[test]
fn a_use_and_a_change_finish_while_a_backup_is_half_way() {
    let place = Place::new(0, 0);
    let recovery = Shares { shares: 1, threshold: 1 };
    let slots = Slots { recovery, passphrase: Some(("secret", Cost { memory_kib: 8, passes: 1 })) };
    let dealt = seal::init(&*place.store, &slots).unwrap();
    dealt.adopt(&*place.store, dealt.shares()).unwrap();
    let sealer = seal::unseal(&*place.store, UnsealMethod::Passphrase("secret")).unwrap();
    let kms = Kms::new(place.store.clone(), sealer, operations::Options::default()).unwrap();
    let log = audit::Options { segment_bytes: 64 << 10, reserve_bytes: 4 << 10 };
    let at = place.at("audit");
    let options = Options { log, ..Options::default() };
    let service = Service::open(kms, &AuditAt::Folder(&at), options).unwrap();
    place.fill(400, 9000);
    let token = service.first_token(&Principal::new("ci").unwrap()).unwrap().to_string();
    let who = service.authenticate(&token, &Peer::default()).unwrap();
    let call = Call::new(&who, "r-1");
    let label = |text| Label::new("name", text).unwrap();
    let (tenant, name, other) = (label("a"), label("web"), label("other"));
    let new = |name: &Label| NewKey {
        tenant: tenant.clone(),
        purpose: label("transit"),
        name: name.clone(),
        algorithm: "ed25519".parse().unwrap(),
    };
    service.create(&call, &new(&name)).unwrap();
    let before = all(&place.store);

    let ((half, is_half), (go, goes)) = (mpsc::channel(), mpsc::channel());
    let goes = Mutex::new(goes);
    // Some 55 chunks are written.
    let disk = WatchedDisk::new(move |write| {
        if write == 25 {
            half.send(()).unwrap();
            // Where the others wait for the backup, it goes on some time, and they were late.
            let gone = goes.lock().unwrap().recv_timeout(Duration::from_secs(20));
            gone.expect("a use and a change finish while the backup stands");
        }
    });
    thread::scope(|scope| {
        let backup = scope.spawn(|| place.backup_on(&disk, "one.backup"));
        is_half.recv().unwrap();
        let key = KeyRef { tenant: &tenant, name: &name };
        let message = Message::Pure { context: b"", message: b"text" };
        service.sign(&call, &key, None, message).unwrap();
        service.create(&call, &new(&other)).unwrap();
        service.rotate(&call, &key).unwrap();
        service.delete(&call, &key).unwrap();
        service.destroy(&call, &key).unwrap();
        go.send(()).unwrap();
        assert_eq!(backup.join().unwrap().unwrap().revision, before.0);
    });
    assert_ne!(all(&place.store), before);
    assert_eq!(place.restored("one.backup"), before);
}

/// Whatever is changed between two pages, also what was read, what is next, and what is new.
#[test]
fn a_backup_has_one_revision_whatever_is_changed_meanwhile() {
    for seed in 1..6 {
        let place = Place::new(300, 3000);
        let before = all(&place.store);
        let (store, dice) = (place.store.clone(), Mutex::new(Dice(seed)));
        let disk = WatchedDisk::new(move |write| {
            let mut dice = dice.lock().unwrap();
            for _ in 0..4 {
                let name = path(&format!("r/{}", dice.below(300)));
                let found = store.read(std::slice::from_ref(&name)).unwrap().records.remove(0);
                let found = found.unwrap();
                if found.value.is_none() {
                    continue;
                }
                let change = match dice.below(3) {
                    0 => Transaction::new().bury(name, found.generation),
                    _ => Transaction::new().put(name, found.generation, vec![write as u8; 9]),
                };
                commit(&store, &change);
            }
            let new = path(&format!("r/new-{write}"));
            commit(&store, &Transaction::new().put(new, 0, vec![1; 9]));
        });
        let written = place.backup_on(&disk, "one.backup").unwrap();
        assert_eq!(written.revision, before.0);
        assert_ne!(all(&place.store), before);
        assert_eq!(place.restored("one.backup"), before, "seed {seed}");
        // Nothing is kept for a backup that is made: the next one has what there is now.
        let now = all(&place.store);
        place.backup_on(&RealDisk, "two.backup").unwrap();
        assert_eq!(place.restored("two.backup"), now);
    }
}

/// A transaction that stays open for the backup would keep the log with it.
#[test]
fn record_destroyed_during_backup_leaves_no_trace() {
    let place = Place::new(200, 5000);
    let secret = b"the-secret-of-this-record-0123456789".repeat(40);
    commit(&place.store, &Transaction::new().put(path("r/secret"), 0, secret.clone()));
    let before = all(&place.store);
    let has = |at: &Path, part: &[u8]| {
        let bytes = fs::read(at).unwrap_or_default();
        bytes.windows(part.len()).any(|window| window == part)
    };
    let files = ["store", "store-wal"].map(|name| place.at(name));
    assert!(files.iter().any(|file| has(file, &secret[..36])));
    let store = place.store.clone();
    let disk = WatchedDisk::new(move |write| {
        if write == 5 {
            commit(&store, &Transaction::new().bury(path("r/secret"), 1));
            assert!(!files.iter().any(|file| has(file, &secret[..36])));
        }
    });
    place.backup_on(&disk, "one.backup").unwrap();
    assert_eq!(place.restored("one.backup"), before);
}

#[test]
fn a_backup_that_is_outrun_is_given_up_and_the_store_goes_on() {
    let place = Place::new(4, 900_000);
    let large = |before: u64, byte: u8| {
        (0..66).fold(Transaction::new(), |write, n| {
            write.put(path(&format!("r/large-{n}")), before, vec![byte; 1 << 20])
        })
    };
    commit(&place.store, &large(0, 1));
    let store = place.store.clone();
    let disk = WatchedDisk::new(move |write| {
        if write == 3 {
            commit(&store, &large(1, 2));
        }
    });
    let outrun = store_error(place.backup_on(&disk, "one.backup"));
    assert!(matches!(outrun, StoreError::Outrun { .. }), "{outrun}");
    assert!(outrun.to_string().contains("64 MiB"), "{outrun}");
    assert!(place.names().is_empty());
    let now = all(&place.store);
    place.backup_on(&RealDisk, "two.backup").unwrap();
    assert_eq!(place.restored("two.backup"), now);
}

#[test]
fn two_backups_at_once_are_both_whole() {
    let place = Place::new(300, 3000);
    let before = all(&place.store);
    thread::scope(|scope| {
        let place = &place;
        let names = ["a.backup", "b.backup", "c.backup"];
        let made = names.map(|name| scope.spawn(move || place.backup_on(&RealDisk, name)));
        for made in made {
            assert_eq!(made.join().unwrap().unwrap().revision, before.0);
        }
    });
    for name in ["a.backup", "b.backup", "c.backup"] {
        assert_eq!(place.restored(name), before, "{name}");
    }
}

/// Two processes whose stores are copies of one, and which use the same folder.
#[test]
fn a_backup_of_another_process_in_the_folder_is_left_alone() {
    let place = Place::new(300, 3000);
    let id: String = place.store.identity().id.iter().map(|byte| format!("{byte:02x}")).collect();
    let partial = place.at("backups").join(format!("{id}.backup-partial"));
    let theirs = RealDisk.open(&partial, Access::New).unwrap();
    assert!(theirs.try_lock().unwrap());
    theirs.write_at(b"theirs", 0).unwrap();
    let error = store_error(place.backup_on(&RealDisk, "one.backup")).to_string();
    assert!(error.contains("another process writes a backup"), "{error}");
    assert_eq!(fs::read(&partial).unwrap(), b"theirs");
    drop(theirs);
    // A file that a kill left.
    place.backup_on(&RealDisk, "one.backup").unwrap();
    assert_eq!(place.names(), ["one.backup"]);
    // Another file replaces it meanwhile: it gets no final name, and stays.
    let swapped = partial.clone();
    let disk = WatchedDisk::new(move |write| {
        if write == 3 {
            fs::remove_file(&swapped).unwrap();
            fs::write(&swapped, b"theirs").unwrap();
        }
    });
    let error = store_error(place.backup_on(&disk, "two.backup")).to_string();
    assert!(error.contains("another process writes"), "{error}");
    assert!(!place.at("backups/two.backup").exists());
    assert_eq!(fs::read(&partial).unwrap(), b"theirs");
}

#[test]
fn places_that_take_no_backup_say_so() {
    let place = Place::new(3, 100);
    let made = Command::new("mkfifo").arg(place.at("pipe")).status().unwrap();
    assert!(made.success());
    fs::write(place.at("file"), b"text").unwrap();
    let write = |folder: &Path, name: &str| {
        store_error(backup::write(&place.store, folder, name, &place.key, 5)).to_string()
    };
    for (folder, said) in [
        (place.at("pipe"), "Not a directory"),
        (place.at("file"), "Not a directory"),
        (PathBuf::from("/dev/full"), "Not a directory"),
        (place.at("missing"), "No such file or directory"),
    ] {
        let error = write(&folder, "one.backup");
        assert!(error.contains(said), "{}: {error}", folder.display());
    }
    // Whatever has the name, it stays.
    let folder = place.at("backups");
    fs::create_dir(folder.join("folder.backup")).unwrap();
    symlink(place.at("nowhere"), folder.join("link.backup")).unwrap();
    fs::rename(place.at("pipe"), folder.join("pipe.backup")).unwrap();
    symlink("/dev/full", folder.join("full.backup")).unwrap();
    for name in ["folder.backup", "link.backup", "pipe.backup", "full.backup"] {
        let error = write(&folder, name);
        assert!(error.ends_with("exists"), "{name}: {error}");
    }
    assert_eq!(place.names(), ["folder.backup", "full.backup", "link.backup", "pipe.backup"]);
    // Opening a pipe does not block, and devices are not read.
    for name in ["folder.backup", "pipe.backup", "full.backup"] {
        let at = folder.join(name);
        for error in [
            store_error(backup::restore(&at, &place.key, &place.at("to"))),
            store_error(PeriodKey::read(&at)),
            backup::Backup::read(&at).err().unwrap(),
        ] {
            let error = error.to_string();
            assert!(
                error.contains("it is not a regular file") || error.contains("Is a directory"),
                "{name}: {error}"
            );
        }
    }
    assert!(!place.at("to").exists());
    assert_eq!(backup::Backup::all(&folder).unwrap(), (Vec::new(), Vec::new()));
}

/// Every fault of a disk at every call: what has the name of a backup is whole, what failed left
/// nothing, and the next one is made.
#[test]
fn a_fault_at_any_call_leaves_a_whole_backup_or_none() {
    let place = Place::new(40, 9000);
    let (folder, name) = (Path::new("/copy"), "one.backup");
    let write = |disk: &dyn Disk, name: &str| {
        backup::write_on(disk, &place.store, folder, name, &place.key, 5)
    };
    let sim = Sim::new(Vec::new(), 0);
    write(&sim.process(), name).unwrap();
    let calls = sim.calls();
    assert!(calls > 15, "{calls}");
    let mut injected = 0;
    for kind in Fault::all() {
        if matches!(kind, Fault::Booted | Fault::Raced | Fault::Hiccup) {
            continue;
        }
        for call in 0..calls {
            let sim = Sim::new(vec![(call, kind)], call as u64);
            let disk = sim.process();
            let written = write(&disk, name);
            injected += usize::from(!sim.state().injected.is_empty());
            let what = format!("{kind:?} at call {call}: {written:?}");
            let is_dead = sim.is_dead(disk.process);
            if written.is_err() && !is_dead && kind != Fault::ReadOnly {
                assert!(sim.files().is_empty(), "{what}: {:?}", sim.files().keys());
            }
            sim.kill(disk.process);
            let disk = sim.process();
            match backup::check(&disk, &folder.join(name), &place.key) {
                Ok(records) => assert_eq!(records, 40, "{what}"),
                Err(Error::Store(StoreError::Backups(why)))
                    if why.contains("os error 2") || why.contains("not found") =>
                {
                    assert!(written.is_err(), "{what}");
                }
                Err(error) => panic!("{what}: {error}"),
            }
            write(&disk, "next.backup").unwrap_or_else(|error| panic!("{what}: then {error}"));
            assert_eq!(backup::check(&disk, &folder.join("next.backup"), &place.key), Ok(40));
            assert!(sim.files().keys().all(|name| name.extension().unwrap() == "backup"), "{what}");
        }
    }
    assert!(injected > 100, "{injected}");
}

const GIVES_UP: &str = "GABION_TEST_KMS_GIVES_UP";

/// Bytes of memory that this process has for itself.
fn own_bytes() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<usize>().unwrap() << 10
}

#[test]
fn child_that_gives_a_backup_up() {
    if std::env::var_os(GIVES_UP).is_none() {
        return;
    }
    let place = Place::new(4, 100);
    let replace = |before: u64| {
        for n in 0..60 {
            let name = path(&format!("r/large-{n}"));
            commit(
                &place.store,
                &Transaction::new().put(name, before, vec![before as u8 + 1; 1 << 20]),
            );
        }
    };
    replace(0);
    replace(1);
    let sim = Sim::new(vec![(8, Fault::Fails)], 0);
    let disk = sim.process();
    let folder = Path::new("/copy");
    let failed = backup::write_on(&disk, &place.store, folder, "one.backup", &place.key, 5);
    let error = store_error(failed).to_string();
    assert!(error.contains("other error"), "{error}");
    let before = own_bytes();
    replace(2);
    let more = own_bytes().saturating_sub(before);
    println!("grew by {more} bytes");
    assert!(more < 20 << 20, "{more} bytes more");
}

/// An abandoned backup keeps nothing: neither memory, nor records destroyed after it began.
#[test]
fn a_backup_that_was_given_up_keeps_nothing() {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "online::child_that_gives_a_backup_up", "--nocapture"])
        .env(GIVES_UP, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    let why = String::from_utf8_lossy(&child.stderr);
    assert!(child.status.success() && said.contains("grew by"), "{said}{why}");
}

const RESTORE: &str = "GABION_TEST_KMS_RESTORE";

#[test]
fn child_that_restores() {
    let Some(at) = std::env::var_os(RESTORE) else { return };
    let at = PathBuf::from(at);
    let key = fs::read_dir(at.join("keys")).unwrap().next().unwrap().unwrap().path();
    println!("begins");
    let key = PeriodKey::read(&key).unwrap();
    backup::restore(&at.join("backups/one.backup"), &key, &at.join("to")).unwrap();
    println!("restored");
}

/// A store gets its name when it is complete: if a restore is killed, there is either no store or a
/// whole one, and the next restore succeeds.
#[test]
fn a_restore_that_is_killed_leaves_a_whole_store_or_none() {
    let place = Place::new(3000, 3000);
    place.backup_on(&RealDisk, "one.backup").unwrap();
    let wanted = all(&place.store);
    let mut killed = 0;
    for wait_ms in [0, 5, 20, 60, 150, 400] {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "online::child_that_restores", "--nocapture"])
            .env(RESTORE, place.folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        while !lines.next().unwrap().unwrap().contains("begins") {}
        thread::sleep(Duration::from_millis(wait_ms));
        child.kill().unwrap();
        let told = lines.any(|line| line.unwrap().contains("restored"));
        child.wait().unwrap();
        let to = place.at("to");
        assert!(to.exists() || !told);
        killed += usize::from(!told);
        if to.exists() {
            let restored = SqliteStore::open(&to, store::Options::default()).unwrap();
            restored.check().unwrap();
            assert_eq!(all(&restored), wanted);
            drop(restored);
            fs::remove_file(&to).unwrap();
        }
    }
    assert!(killed > 0);
    let key = &place.key;
    backup::restore(&place.at("backups/one.backup"), key, &place.at("to")).unwrap();
    let left: Vec<_> = fs::read_dir(place.folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.contains("partial"))
        .collect();
    assert_eq!(left, Vec::<String>::new());
}
