//! Every call of every scenario, with every kind of fault; then pairs of them, by seed.
//!
//! `GABION_HBS_FAULTS` is how many, `GABION_HBS_FAULTS_ROWS` the file that the counts go to; `make hbs-faults` sets both.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::Write;
use std::time::Instant;

use gabion_disk::testing::faulty::{Dice, Fault, FaultPlan};
use serde_json::{Value, json};

use crate::simulation::{
    Outcome, SCENARIOS, SignBy, Wrap, real_lms, real_xmss, run, sound, stand_in,
};

/// How many faults script/test runs.
const FEW: usize = 5_000;

/// The sums of all runs.
#[derive(Default)]
pub struct Counts {
    pub faults: BTreeMap<String, u64>,
    pub runs: u64,
    pub released: u64,
    pub burnt: u64,
    pub refused: u64,
    pub wrongs: Vec<String>,
}

/// Scenarios by their names, and how one is run: by its number, with a plan and a seed.
pub struct Scenarios<'a> {
    pub names: Vec<&'static str>,
    pub run: &'a dyn Fn(usize, FaultPlan, u64) -> Outcome,
}

impl Scenarios<'_> {
    /// Calls of each where nothing strikes.
    pub fn lengths(&self) -> Vec<usize> {
        (0..self.names.len()).map(|scenario| (self.run)(scenario, Vec::new(), 1).calls).collect()
    }
}

impl Counts {
    pub fn all(&self) -> u64 {
        self.faults.values().sum()
    }

    /// Runs a scenario with a plan and counts what struck.
    fn add(&mut self, scenarios: &Scenarios<'_>, scenario: usize, plan: FaultPlan, seed: u64) {
        let outcome = (scenarios.run)(scenario, plan.clone(), seed);
        self.runs += 1;
        for kind in &outcome.injected {
            *self.faults.entry(format!("{kind:?}")).or_default() += 1;
        }
        self.released += outcome.released;
        self.burnt += outcome.burnt;
        self.refused += u64::from(outcome.goes_on.is_err());
        let name = scenarios.names[scenario];
        let wrongs = outcome.wrongs.iter();
        self.wrongs.extend(wrongs.map(|wrong| format!("{name}, {plan:?}, seed {seed}: {wrong}")));
    }

    /// Prints the counts, asserts that they are as expected, and records them.
    pub fn judge(&self, kind: &str, count: usize, signed_by: &[&str], begun: Instant) {
        println!("{} faults in {} runs, {:?}:", self.all(), self.runs, begun.elapsed());
        for (kind, faults) in &self.faults {
            println!("    {kind:<20} {faults}");
        }
        let duplicates = self.wrongs.len();
        let Counts { released, burnt, refused, .. } = self;
        println!(
            "{released} signatures released, {burnt} indexes burnt, {refused} keys refused, {duplicates} duplicates"
        );
        assert!(self.wrongs.is_empty(), "{:#?}", &self.wrongs[..duplicates.min(10)]);
        assert!(self.all() as usize >= count);
        record(json!({
            "kind": kind,
            "signed_by": signed_by,
            "faults": self.all(),
            "runs": self.runs,
            "by_kind": self.faults,
            "signatures_released": released,
            "indexes_burnt": burnt,
            "keys_refused": refused,
            "duplicates": duplicates,
        }));
    }
}

/// Returns the number of faults that the environment requests, if any.
pub fn asked_for() -> Option<usize> {
    let count = std::env::var("GABION_HBS_FAULTS").ok()?;
    Some(count.parse().expect("a number of faults"))
}

/// Calls of each scenario of whole keys where nothing strikes.
fn lengths(wrap: &Wrap, signer: &SignBy) -> Vec<usize> {
    (0..SCENARIOS.len()).map(|scenario| run(scenario, Vec::new(), 1, wrap, signer).calls).collect()
}

/// Every single fault, in an order that a seed decides.
fn singles(lengths: &[usize], dice: &mut Dice) -> Vec<(usize, usize, Fault)> {
    let mut all = Vec::new();
    for (scenario, length) in lengths.iter().enumerate() {
        for call in 0..*length {
            all.extend(Fault::all().into_iter().map(|kind| (scenario, call, kind)));
        }
    }
    for at in (1..all.len()).rev() {
        all.swap(at, dice.below(at + 1));
    }
    all
}

/// Up to `count` faults: every single one first, then pairs; the signers take turns.
pub fn strike(
    count: usize,
    wrap: &Wrap,
    signers: &[SignBy],
    stop: &dyn Fn(&Counts) -> bool,
) -> Counts {
    let turn = Cell::new(0);
    let by_turns = |scenario, plan, seed| {
        let signer = &signers[turn.replace(turn.get() + 1) % signers.len()];
        run(scenario, plan, seed, wrap, signer)
    };
    let names = SCENARIOS.iter().map(|(name, _)| *name).collect();
    strike_all(count, &Scenarios { names, run: &by_turns }, stop)
}

/// Runs any scenarios with faults.
pub fn strike_all(
    count: usize,
    scenarios: &Scenarios<'_>,
    stop: &dyn Fn(&Counts) -> bool,
) -> Counts {
    let mut dice = Dice(0x6762);
    let lengths = scenarios.lengths();
    let mut counts = Counts::default();
    for (scenario, call, kind) in singles(&lengths, &mut dice) {
        if counts.all() as usize >= count || stop(&counts) {
            return counts;
        }
        counts.add(scenarios, scenario, vec![(call, kind)], dice.roll());
    }
    let kinds = Fault::all();
    while (counts.all() as usize) < count && !stop(&counts) {
        let scenario = dice.below(lengths.len());
        let plan = (0..2)
            .map(|_| (dice.below(lengths[scenario]), kinds[dice.below(kinds.len())]))
            .collect();
        counts.add(scenarios, scenario, plan, dice.roll());
    }
    counts
}

/// Two faults at two calls of a scenario, not far from each other.
pub fn strike_twice(
    name: &str,
    kinds: [Fault; 2],
    wrap: &Wrap,
    signer: &SignBy,
    stop: &dyn Fn(&Counts) -> bool,
) -> Counts {
    let scenario = SCENARIOS.iter().position(|scenario| scenario.0 == name).expect("a scenario");
    let by_one = |scenario, plan, seed| run(scenario, plan, seed, wrap, signer);
    let names = SCENARIOS.iter().map(|(name, _)| *name).collect();
    let scenarios = Scenarios { names, run: &by_one };
    let length = lengths(wrap, signer)[scenario];
    let mut counts = Counts::default();
    for first in 0..length {
        for second in first + 1..first + 90 {
            let plan = vec![(first, kinds[0]), (second, kinds[1])];
            counts.add(&scenarios, scenario, plan, 1);
            if stop(&counts) {
                return counts;
            }
        }
    }
    counts
}

/// Writes what a test came to behind what others did, where `make hbs-faults` wants it.
pub fn record(mut row: Value) {
    let Ok(rows) = std::env::var("GABION_HBS_FAULTS_ROWS") else { return };
    row["commit"] = std::env::var("GABION_COMMIT").unwrap_or_default().into();
    let file = OpenOptions::new().create(true).append(true).open(rows);
    writeln!(file.expect("a file for the counts"), "{row}").expect("room for the counts");
}

#[test]
fn index_never_signs_twice_under_faults() {
    let (count, begun) = (asked_for().unwrap_or(FEW), Instant::now());
    let counts = strike(count, &sound(), &[real_lms(), real_xmss()], &|_| false);
    let signed_by = ["LMS_SHA256_M32_H5_W1", "XMSSMT-SHA2_20/4_192"];
    counts.judge("hbs-faults", count, &signed_by, begun);
}

/// One process signs with a key at every call of another that signs with a copy. Each has a
/// separate lock.
#[test]
fn a_key_and_its_copy_never_raise_their_anchor_together() {
    let (wrap, signer) = (sound(), stand_in());
    let lengths = lengths(&wrap, &signer);
    for (scenario, (name, _)) in SCENARIOS.iter().enumerate() {
        if !["copied", "copy first", "put back"].contains(name) {
            continue;
        }
        for call in 0..lengths[scenario] {
            let outcome = run(scenario, vec![(call, Fault::Raced)], 7, &wrap, &signer);
            assert!(outcome.wrongs.is_empty(), "{name}, {call}: {:?}", outcome.wrongs);
        }
    }
}

#[test]
fn scenarios_succeed_without_faults() {
    for (scenario, (name, _)) in SCENARIOS.iter().enumerate() {
        let outcome = run(scenario, Vec::new(), 1, &sound(), &stand_in());
        assert!(outcome.wrongs.is_empty(), "{name}: {:?}", outcome.wrongs);
        assert!(outcome.released > 0, "{name}");
        let is_copied = ["copied", "copy first", "put back at once", "killed"].contains(name);
        assert!(is_copied || outcome.goes_on.is_ok(), "{name}: {:?}", outcome.goes_on);
    }
}

/// After a crash, a kill or a failing call, the key continues without manual repair.
#[test]
fn key_recovers_from_any_single_fault() {
    let (wrap, signer) = (sound(), stand_in());
    let lengths = lengths(&wrap, &signer);
    let names = ["one by one", "blocks", "requests"];
    for (scenario, (name, _)) in
        SCENARIOS.iter().enumerate().filter(|(_, it)| names.contains(&it.0))
    {
        for call in 0..lengths[scenario] {
            for kind in Fault::all() {
                let outcome = run(scenario, vec![(call, kind)], 7, &wrap, &signer);
                assert!(outcome.goes_on.is_ok(), "{name}, {call}, {kind:?}: {:?}", outcome.goes_on);
            }
        }
    }
}

/// A record that was written in part when the process was killed leaves the one before it.
#[test]
fn a_record_that_is_half_there_makes_no_key_useless() {
    let (wrap, signer) = (sound(), stand_in());
    let lengths = lengths(&wrap, &signer);
    for (scenario, (name, _)) in SCENARIOS.iter().enumerate().take(2) {
        for call in 0..lengths[scenario] {
            let plan = vec![(call, Fault::Short), (call + 1, Fault::KilledBefore)];
            let outcome = run(scenario, plan, 7, &wrap, &signer);
            assert!(outcome.goes_on.is_ok(), "{name}, {call}: {:?}", outcome.goes_on);
        }
    }
}
