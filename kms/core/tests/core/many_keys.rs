//! Many keys in bounded memory: 2000, or as many as GABION_SOAK says
//! (`GABION_SOAK=100000 cargo test --release -p gabion-kms --test core many_keys -- --nocapture`
//! prints their cost).

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use gabion_kms::operations::{Kms, NewKey, Options};
use gabion_kms::store::{self, SqliteStore};

use crate::fixture::sealer;
use crate::verbs::{label, pure};

/// Bytes of expanded keys.
const CACHE: usize = 4 << 20;

/// Keys of one page.
const PAGE: usize = 1000;

fn count() -> usize {
    let said = std::env::var("GABION_SOAK").ok().and_then(|said| said.parse().ok());
    said.unwrap_or(2000)
}

/// A folder that no disk is behind, if there is one: this is about memory, and each key is a
/// commit.
fn folder() -> tempfile::TempDir {
    let shm = Path::new("/dev/shm");
    let base = if shm.is_dir() { shm.to_owned() } else { std::env::temp_dir() };
    tempfile::tempdir_in(base).unwrap()
}

/// Resident bytes of this process; none where the system does not say so.
fn resident() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<usize>().ok()? << 10)
}

fn open(at: &Path) -> Kms {
    let store = Arc::new(SqliteStore::open(at, store::Options::default()).unwrap());
    let sealer = sealer(&*store);
    Kms::new(store, sealer, Options { cache_bytes_max: CACHE, ..Options::default() }).unwrap()
}

/// All names, a page at a time.
fn listed(kms: &Kms) -> usize {
    let tenant = label("default");
    let (mut after, mut all) = (None, 0);
    loop {
        let page = kms.list(&tenant, after.as_ref(), PAGE).unwrap();
        let Some((last, _)) = page.last() else { return all };
        for pair in page.windows(2) {
            assert!(pair[0].0 < pair[1].0);
        }
        assert!(after.as_ref().is_none_or(|after| after < &page[0].0));
        all += page.len();
        after = Some(last.clone());
    }
}

#[test]
fn many_keys_take_bounded_memory() {
    let (folder, count) = (folder(), count());
    let at: PathBuf = folder.path().join("store");
    SqliteStore::create(&at).unwrap();
    let [tenant, purpose] = ["default", "transit"].map(label);
    let name = |number: usize| label(&format!("key-{number:08}"));
    let made = Instant::now();
    let kms = open(&at);
    for number in 0..count {
        let (tenant, purpose, name) = (tenant.clone(), purpose.clone(), name(number));
        let algorithm = "ed25519".parse().unwrap();
        kms.create(&NewKey { tenant, purpose, name, algorithm }).unwrap();
    }
    let made = made.elapsed();
    assert!(kms.cached_bytes() <= CACHE);
    drop(kms);

    let before = resident();
    let start = Instant::now();
    let kms = open(&at);
    let started = start.elapsed();
    let start = Instant::now();
    assert_eq!(listed(&kms), count);
    let list = start.elapsed();
    let after_list = resident();
    // Each key is used; the cache takes few of them.
    let start = Instant::now();
    for number in 0..count {
        let id = kms.find(&tenant, &name(number)).unwrap();
        let signed = kms.sign(&id, None, pure(b"m")).unwrap();
        assert_eq!(signed.by.version, 1);
        assert!(kms.cached_bytes() <= CACHE, "{number}");
    }
    let signed = start.elapsed();
    let after_use = resident();
    let size = std::fs::metadata(&at).unwrap().len();
    let mib = |bytes: Option<usize>| bytes.map_or(0, |bytes| bytes >> 20);
    println!(
        "{count} keys: made in {made:?}, store {} MiB, opened in {started:?}, listed in {list:?}, each used once in {signed:?}; \
         resident {} MiB before, {} after the list, {} after use",
        size >> 20,
        mib(before),
        mib(after_list),
        mib(after_use)
    );
    // Names are noted up to 65,536 of them, some 20 MiB; the rest is the cache, and what SQLite
    // keeps of pages. Nothing of it grows with the number of keys.
    if let (Some(before), Some(after)) = (before, after_use) {
        assert!(after < before + CACHE + (64 << 20), "{} MiB more", (after - before) >> 20);
    }
    // Each record is counted and hashed, and none is opened.
    let most = 5_000_000 + 100 * count as u128;
    assert!(started.as_micros() < most, "opening reads keys: {started:?}");
}
