//! A conformance suite for implementations of [`Store`].
//!
//! A store's own tests call [`check`] with a way to make stores, and [`faults`] with a store under
//! [`super::Sim`]. Crashes and damaged disks are left to the store's own tests.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::Arc;
use std::thread;

use super::contract::{Outcome, Store};
use super::records::{Record, RecordPath, Transaction};
use super::settle::{SettleOutcome, settle};
use super::terms::StoreError;

/// A store that can be opened, closed by dropping it, and opened again.
pub trait Bench: Send + Sync {
    /// Opens the store.
    ///
    /// # Errors
    /// Those of the store.
    fn open(&self) -> Result<Arc<dyn Store>, StoreError>;
}

/// A function that makes an empty store.
pub type Make<'a> = dyn FnMut() -> Result<Box<dyn Bench>, StoreError> + 'a;

/// A rule, checked on an empty store.
type Rule = fn(&dyn Bench) -> Result<(), String>;

/// Checks that a store keeps its contract.
///
/// # Errors
/// The first violated rule.
pub fn check(make: &mut Make<'_>) -> Result<(), String> {
    let rules: [Rule; 9] = [
        generations_count_writes,
        transactions_are_whole_or_nothing,
        guards_are_kept_to,
        buried_records_stay_buried,
        limits_are_kept_to,
        lists_are_ordered_and_complete,
        scans_visit_every_record_once,
        racing_writers_lose_nothing,
        it_goes_on_where_it_was_closed,
    ];
    rules.iter().try_for_each(|rule| rule(&*told("a new store", make())?))
}

/// Runs transactions on a store under faults, and compares its answers with its final content:
/// committed transactions stay, rejected ones never appear, and none is applied partially. The
/// store's identity and limits are not checked.
///
/// # Errors
/// The violated rule.
pub fn faults(store: &dyn Store, seed: u64, rounds: u32) -> Result<FaultReport, String> {
    let pair = [path("faults/a"), path("faults/b")];
    let (mut told, mut seen) = (FaultReport::default(), 0);
    let mut is_there: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
    let mut never: BTreeSet<Vec<u8>> = BTreeSet::new();
    for round in 0..rounds {
        let found = match store.read(&pair) {
            Ok(read) => read.records,
            Err(StoreError::Unavailable(_)) => vec![None; 2],
            Err(error) => return Err(format!("reading: {error}")),
        };
        expect("both records of a transaction are there or none", &found[0], &found[1])?;
        if let Some(Record { generation, value: Some(value) }) = &found[0] {
            told.read += 1;
            if *generation < seen {
                return Err(format!("generation {generation} came after {seen}"));
            }
            seen = *generation;
            if is_there.get(generation).is_some_and(|wanted| wanted != value) {
                return Err(format!("what was committed as generation {generation} went"));
            }
            if never.contains(value) {
                return Err(format!("a transaction that was refused happened, as {generation}"));
            }
        }
        // Every third transaction expects an older generation, as a second writer would.
        let before = seen.saturating_sub(u64::from(round % 3 == 2));
        let value = format!("{seed} {round}").into_bytes();
        let wanted = pair.iter().fold(Transaction::new(), |transaction, path| {
            transaction.put(path.clone(), before, value.clone())
        });
        match settle(store, &wanted) {
            Ok(SettleOutcome::Committed) => {
                told.committed += 1;
                if let Some(other) = is_there.insert(before + 1, value) {
                    return Err(format!(
                        "generation {} was committed twice: {other:?}",
                        before + 1
                    ));
                }
            }
            Ok(SettleOutcome::Conflict(_)) | Err(StoreError::Unavailable(_) | StoreError::Full) => {
                told.refused += 1;
                never.insert(value);
            }
            Ok(SettleOutcome::Unknown) => told.unknown += 1,
            Err(error) => return Err(format!("committing: {error}")),
        }
    }
    Ok(told)
}

/// The answers of a store under faults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultReport {
    /// Reads that found records.
    pub read: u32,
    /// Committed transactions.
    pub committed: u32,
    /// Rejected transactions.
    pub refused: u32,
    /// Transactions whose outcome stayed unknown.
    pub unknown: u32,
}

fn told<T, E: std::fmt::Display>(what: &str, result: Result<T, E>) -> Result<T, String> {
    result.map_err(|error| format!("{what}: {error}"))
}

fn expect<T: PartialEq + Debug>(rule: &str, got: T, wanted: T) -> Result<(), String> {
    if got == wanted { Ok(()) } else { Err(format!("{rule}: got {got:?}, expected {wanted:?}")) }
}

/// A path that is known to be valid.
fn path(text: &str) -> RecordPath {
    match RecordPath::new(text) {
        Ok(path) => path,
        Err(error) => unreachable!("{error}"),
    }
}

fn opened(bench: &dyn Bench) -> Result<Arc<dyn Store>, String> {
    told("opening", bench.open())
}

fn found(store: &dyn Store, of: &str) -> Result<Option<Record>, String> {
    let mut read = told("reading", store.read(&[path(of)]))?;
    read.records.pop().ok_or_else(|| "one path was asked for and no record came".to_owned())
}

fn committed(store: &dyn Store, transaction: &Transaction) -> Result<u64, String> {
    match told("committing", store.commit(transaction))? {
        Outcome::Committed(revision) => Ok(revision.0),
        other => Err(format!("committing: {other:?}")),
    }
}

fn refused(rule: &str, store: &dyn Store, transaction: &Transaction) -> Result<(), String> {
    match store.commit(transaction) {
        Ok(Outcome::Conflict(_)) => Ok(()),
        other => Err(format!("{rule}: got {other:?}, expected a conflict")),
    }
}

fn record(generation: u64, value: &[u8]) -> Option<Record> {
    Some(Record { generation, value: Some(value.to_vec()) })
}

fn generations_count_writes(bench: &dyn Bench) -> Result<(), String> {
    let store = opened(bench)?;
    expect("no record is there at first", found(&*store, "a")?, None)?;
    let mut last = 0;
    for (before, value) in [&b""[..], b"0", &[0xff; 5000]].into_iter().enumerate() {
        let write = Transaction::new().put(path("a"), before as u64, value.to_vec());
        let revision = committed(&*store, &write)?;
        expect("revisions grow", revision > last, true)?;
        last = revision;
        expect("a value", found(&*store, "a")?, record(before as u64 + 1, value))?;
        refused("the same again", &*store, &write)?;
    }
    let read = told("reading", store.read(&[path("b"), path("a")]))?;
    expect("records come in the order of their paths", read.records[0].is_none(), true)?;
    expect("a read says its revision", read.revision.0, last)
}

fn transactions_are_whole_or_nothing(bench: &dyn Bench) -> Result<(), String> {
    let store = opened(bench)?;
    let both =
        |a, b| Transaction::new().put(path("a"), a, b"1".to_vec()).put(path("b"), b, b"2".to_vec());
    for (a, b) in [(0, 1), (1, 0)] {
        refused("one generation of two is another", &*store, &both(a, b))?;
        expect("nothing of a conflict is there", found(&*store, "a")?, None)?;
        expect("nothing of a conflict is there", found(&*store, "b")?, None)?;
    }
    committed(&*store, &both(0, 0))?;
    expect("all of it is there", found(&*store, "a")?, record(1, b"1"))?;
    expect("all of it is there", found(&*store, "b")?, record(1, b"2"))
}

fn guards_are_kept_to(bench: &dyn Bench) -> Result<(), String> {
    let store = opened(bench)?;
    let write = |of: &str, generation| {
        Transaction::new().expect(path("guard"), generation).put(path(of), 0, b"x".to_vec())
    };
    refused("a guard of a missing record", &*store, &write("a", 1))?;
    committed(&*store, &write("a", 0))?;
    committed(&*store, &Transaction::new().put(path("guard"), 0, Vec::new()))?;
    refused("a guard of a record that was missing", &*store, &write("b", 0))?;
    committed(&*store, &write("b", 1))?;
    expect("a guard writes nothing", found(&*store, "guard")?, record(1, b""))
}

fn buried_records_stay_buried(bench: &dyn Bench) -> Result<(), String> {
    let store = opened(bench)?;
    committed(&*store, &Transaction::new().put(path("a"), 0, b"x".to_vec()))?;
    committed(&*store, &Transaction::new().bury(path("a"), 1))?;
    let buried = Some(Record { generation: 2, value: None });
    expect("a buried record", found(&*store, "a")?, buried.clone())?;
    let again = Transaction::new().put(path("b"), 0, b"y".to_vec()).put(path("a"), 2, Vec::new());
    let got = store.commit(&again);
    expect("a write to it", got, Err(StoreError::Buried("a".to_owned())))?;
    refused("one that knows of no burial", &*store, &Transaction::new().put(path("a"), 0, vec![]))?;
    expect("it stays buried", found(&*store, "a")?, buried)?;
    expect("and nothing else is written", found(&*store, "b")?, None)
}

fn limits_are_kept_to(bench: &dyn Bench) -> Result<(), String> {
    let store = opened(bench)?;
    let caps = store.caps();
    let value = |len| Transaction::new().put(path("a"), 0, vec![7; len]);
    let steps = |n: usize| {
        (0..n).fold(Transaction::new(), |transaction, n| {
            transaction.put(path(&format!("many/{n}")), 0, Vec::new())
        })
    };
    let twice = Transaction::new().expect(path("a"), 0).put(path("a"), 0, Vec::new());
    let wrong = [value(caps.value_max + 1), steps(caps.steps_max + 1), twice, Transaction::new()];
    for transaction in &wrong {
        let got = store.commit(transaction);
        let is_refused = matches!(got, Err(StoreError::TooLarge { .. } | StoreError::Malformed(_)));
        expect("what is too large or makes no sense is refused", is_refused, true)?;
    }
    expect("and nothing of it is there", found(&*store, "a")?, None)?;
    committed(&*store, &value(caps.value_max))?;
    committed(&*store, &steps(caps.steps_max))?;
    let page = told("listing", store.list(&path("many"), None, usize::MAX))?;
    expect("as many as may be", page.records.len(), caps.steps_max)
}

fn lists_are_ordered_and_complete(bench: &dyn Bench) -> Result<(), String> {
    let store = opened(bench)?;
    // In the order of bytes, the records under `k` are between `k.x` and `k0`.
    let beneath = ["k/0", "k/A", "k/a", "k/a/b", "k/b"];
    let all = ["a", "k", "k+x", "k.x", "k0", "kk/a", "z"].into_iter().chain(beneath);
    for of in all.rev() {
        committed(&*store, &Transaction::new().put(path(of), 0, of.as_bytes().to_vec()))?;
    }
    committed(&*store, &Transaction::new().bury(path("k/a"), 1))?;
    for most in [1, 2, 5, 100] {
        let (mut came, mut after) = (Vec::new(), None);
        loop {
            let page = told("listing", store.list(&path("k"), after.as_ref(), most))?;
            let Some((last, _)) = page.records.last() else { break };
            after = Some(last.clone());
            came.extend(
                page.records
                    .into_iter()
                    .map(|(path, record)| (path.as_str().to_owned(), record.value.is_none())),
            );
        }
        let wanted: Vec<_> = beneath.iter().map(|of| ((*of).to_owned(), *of == "k/a")).collect();
        expect("what is beneath a path", came, wanted)?;
    }
    Ok(())
}

fn scans_visit_every_record_once(bench: &dyn Bench) -> Result<(), String> {
    let store = opened(bench)?;
    let mut wanted = BTreeMap::new();
    for of in ["a", "a/b", "k/0", "k+x", "zz/9"] {
        committed(&*store, &Transaction::new().put(path(of), 0, of.as_bytes().to_vec()))?;
        wanted.insert(of.to_owned(), (1, Some(of.as_bytes().to_vec())));
    }
    committed(&*store, &Transaction::new().bury(path("k/0"), 1))?;
    let last = committed(&*store, &Transaction::new().put(path("a"), 1, Vec::new()))?;
    wanted.extend([("k/0".to_owned(), (2, None)), ("a".to_owned(), (2, Some(Vec::new())))]);
    for with_values in [false, true] {
        let mut found = BTreeMap::new();
        let mut is_twice = false;
        let revision = store.scan(with_values, &mut |record| {
            let (generation, value) = (record.generation, record.value.map(<[u8]>::to_vec));
            let of = record.path.as_str().to_owned();
            is_twice |= found.insert(of, (generation, value, record.digest)).is_some();
            Ok(())
        });
        expect("a scan's revision", told("scanning", revision)?.0, last)?;
        expect("no record comes twice", is_twice, false)?;
        let digest = |of: &str, (generation, value): &(u64, Option<Vec<u8>>)| {
            Record { generation: *generation, value: value.clone() }.digest(of)
        };
        let wanted: BTreeMap<_, _> = wanted
            .iter()
            .map(|(of, record)| {
                let value = record.1.clone().filter(|_| with_values);
                (of.clone(), (record.0, value, digest(of, record)))
            })
            .collect();
        expect("every record, with its digest", found, wanted)?;
    }
    Ok(())
}

fn racing_writers_lose_nothing(bench: &dyn Bench) -> Result<(), String> {
    const THREADS: u64 = 4;
    const EACH: u64 = 20;
    let store = opened(bench)?;
    let pair = [path("a"), path("b")];
    let add = |store: &dyn Store| -> Result<(), String> {
        let mut left = EACH;
        while left > 0 {
            let records = told("reading", store.read(&pair))?.records;
            expect("a read is of one moment", &records[0], &records[1])?;
            let before = records[0].as_ref().map_or(0, |record| record.generation);
            let write = pair.iter().fold(Transaction::new(), |transaction, path| {
                transaction.put(path.clone(), before, before.to_string().into_bytes())
            });
            match told("committing", store.commit(&write))? {
                Outcome::Committed(_) => left -= 1,
                Outcome::Conflict(_) => {}
                Outcome::Unknown => return Err("committing: unknown".to_owned()),
            }
        }
        Ok(())
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(|| add(&*store))).collect();
        threads.into_iter().try_for_each(|thread| match thread.join() {
            Ok(ran) => ran,
            Err(_) => Err("a writer panicked".to_owned()),
        })
    })?;
    let generation = found(&*store, "a")?.map_or(0, |record| record.generation);
    expect("every write that was committed counts", generation, THREADS * EACH)
}

fn it_goes_on_where_it_was_closed(bench: &dyn Bench) -> Result<(), String> {
    let store = opened(bench)?;
    let identity = store.identity();
    let revision = committed(&*store, &Transaction::new().put(path("a"), 0, b"x".to_vec()))?;
    drop(store);
    let store = opened(bench)?;
    expect("the same store", store.identity(), identity)?;
    expect("the same record", found(&*store, "a")?, record(1, b"x"))?;
    let next = committed(&*store, &Transaction::new().put(path("a"), 1, b"y".to_vec()))?;
    expect("revisions go on", next > revision, true)
}
