//! The page of hash-based signatures with a state: `xtask hbs NAME`. Its prose is hbs.md's.

use std::fmt::Write as _;
use std::path::Path;

use gabion_rows::hbs::{Durable, Hbs};
use gabion_rows::operations::Operation;

use super::{number, put, ratio, rows};

/// How far from its floor an operation may be, alone and in a batch.
const KEYGEN: f64 = 1.2;
const ALONE: f64 = 1.35;
const BATCH: f64 = 1.2;
/// How many times as long as the median the slowest signature may take.
const SLOWEST: f64 = 3.0;

/// The highest ratio of a durable signature's time to its expected time.
const EXPECTED: f64 = 1.1;
/// The highest ratio to the time in memory, with at least [`MANY`] indexes reserved at once.
const IN_MEMORY: f64 = 1.1;
const MANY: usize = 1024;

/// Writes docs/reference/performance-hbs.md from a machine's rows, and returns it.
pub fn write(root: &Path, name: &str) -> Result<String, String> {
    let page = page(&root.join("bench/results"), name)?;
    put(&root.join("docs/reference/performance-hbs.md"), page)
}

fn page(results: &Path, name: &str) -> Result<String, String> {
    let rows: Vec<Hbs> = rows(&results.join(format!("hbs-{name}.ndjson")))?;
    let (floors, met) = floors(&rows);
    let [lane, alone] = rows[0].cycles_per_compression.map(|price| price.unwrap_or(f64::NAN));
    let mut page = include_str!("hbs.md").to_owned();
    for (place, text) in [
        ("{name}", name),
        ("{machine}", &rows[0].machine.cpu),
        ("{cores}", &rows[0].machine.cores.to_string()),
        ("{lane}", &format!("{lane:.1}")),
        ("{alone}", &format!("{alone:.1}")),
        ("{seed}\n", &seed(&rows)),
        ("{floors}\n", &floors),
        ("{met}", &met),
        ("{durable}\n", &on_a_disk(results, name)?),
        ("{peers}\n", &peers(&rows)),
    ] {
        page = page.replace(place, text);
    }
    Ok(page)
}

/// The rows of one thread that are of no batch: one for each set and operation.
fn singles(rows: &[Hbs], operation: Operation) -> impl Iterator<Item = &Hbs> {
    let is_one = move |row: &&Hbs| (row.operation, row.batch, row.threads) == (operation, 1, 1);
    rows.iter().filter(is_one)
}

/// The row of the same set that such a function picks.
fn beside<'r>(row: &Hbs, rows: &'r [Hbs], is_it: impl Fn(&Hbs) -> bool) -> Option<&'r Hbs> {
    rows.iter().find(|other| other.set == row.set && is_it(other))
}

/// Returns the figures of each set in its manual, with the measured ones.
fn seed(rows: &[Hbs]) -> String {
    let mut lines = String::new();
    for keygen in singles(rows, Operation::Keygen) {
        let milliseconds = |row: &Hbs| 1e3 / row.ops_per_s;
        let all = beside(keygen, rows, |row| row.operation == Operation::Keygen && row.threads > 1);
        let of = |operation| {
            let row = singles(rows, operation).find(|row| row.set == keygen.set);
            let published = row.and_then(|row| row.seed_ops_per_s);
            let published = published.map(|[one, four]| format!("{one:.0}, {four:.0}"));
            let ours = number(row.map_or(f64::NAN, |row| row.ops_per_s));
            format!("{ours} | {}", published.unwrap_or_else(|| "-".to_owned()))
        };
        let _ = writeln!(
            lines,
            "| {} | {} | {} | {} | {} | {} |",
            keygen.set,
            keygen.signature_bytes,
            ratio(milliseconds(keygen)),
            ratio(all.map_or(f64::NAN, milliseconds)),
            of(Operation::Sign),
            of(Operation::Verify),
        );
    }
    lines
}

/// Returns how far every row of one thread is from its floor, and how many are as near as they
/// should be.
fn floors(rows: &[Hbs]) -> (String, String) {
    let mut lines = String::new();
    let (mut met, mut all) = (0, 0);
    for row in rows.iter().filter(|row| row.threads == 1) {
        let aim = match row.operation {
            Operation::Keygen => KEYGEN,
            _ if row.batch > 1 => BATCH,
            _ => ALONE,
        };
        let over = row.over_floor.unwrap_or(f64::NAN);
        // A call of a batch signs so many that no single one shows.
        let slowest = row.max_over_median.filter(|_| row.batch == 1);
        let is_met = over <= aim && slowest.is_none_or(|slowest| slowest <= SLOWEST);
        (met, all) = (met + usize::from(is_met), all + 1);
        let _ = writeln!(
            lines,
            "| {} | {} | {} | {} | {} | {} | {aim:.2} | {} | {} |",
            row.set,
            row.operation.word(),
            row.batch,
            number(row.core_cycles_per_op.unwrap_or(f64::NAN)),
            number(row.floor_cycles.unwrap_or(f64::NAN)),
            ratio(over),
            ratio(slowest.unwrap_or(f64::NAN)),
            if is_met { "met" } else { "**missed**" },
        );
    }
    (lines, format!("{met} of {all} are met."))
}

/// Returns the times of signatures with their state on a disk, if measured.
fn on_a_disk(results: &Path, name: &str) -> Result<String, String> {
    let path = results.join(format!("hbs-durable-{name}.ndjson"));
    if !path.exists() {
        return Ok(format!(
            "Not measured on this machine: `script/bench-hbs-durable {name}` writes the rows, and this section.\n"
        ));
    }
    let rows: Vec<Durable> = rows(&path)?;
    let (lines, met) = durable(&rows);
    Ok(format!(
        "The state is on a disk, and durable before a signature is released.\n\
         `script/bench-hbs-durable {name}` writes\n\
         [the rows](../../bench/results/hbs-durable-{name}.ndjson). `reserved` is the number of\n\
         indexes that one reservation makes durable, in the state and in one anchor; they sign one message\n\
         per call, or a batch. A sync writes a block in place and syncs it, in the same directory. The\n\
         expected time is measured, too: signing in memory, with the same number of syncs in between. Aims:\n\
         at most {EXPECTED} times the expected time, and with 1024 reserved indexes at most {IN_MEMORY} times the time in\n\
         memory.\n\n\
         | set | reserved | batch | us | in memory, us | sync, us | syncs per signature | times expected | times in memory | |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|---:|---|\n\
         {lines}\n{met}\n"
    ))
}

/// Every row, and how many are as quick as they should be.
fn durable(rows: &[Durable]) -> (String, String) {
    let (mut lines, mut met) = (String::new(), 0);
    for row in rows {
        let is_met =
            row.over_expected <= EXPECTED && (row.reserve < MANY || row.over_memory <= IN_MEMORY);
        met += usize::from(is_met);
        let _ = writeln!(
            lines,
            "| {} | {} | {} | {:.1} | {:.1} | {:.1} | {:.4} | {} | {} | {} |",
            row.set,
            row.reserve,
            row.batch,
            row.us_per_op,
            row.memory_us_per_op,
            row.fdatasync_us,
            row.syncs_per_op,
            ratio(row.over_expected),
            ratio(row.over_memory),
            if is_met { "met" } else { "**missed**" },
        );
    }
    (lines, format!("{met} of {} are met.", rows.len()))
}

/// Returns both builds of the other library next to every row of one thread.
fn peers(rows: &[Hbs]) -> String {
    let mut lines = String::new();
    for operation in [Operation::Keygen, Operation::Sign, Operation::Verify] {
        for row in singles(rows, operation).filter(|row| !row.peers.is_empty()) {
            let of = |is_large: bool| {
                let is_it = |name: &str| name.contains("large-caches") == is_large;
                let peer = row.peers.iter().find(|peer| is_it(&peer.name));
                let cycles = peer.map_or(f64::NAN, |peer| peer.core_cycles_per_op);
                format!("{} | {}", number(cycles), ratio(peer.map_or(f64::NAN, |peer| peer.ratio)))
            };
            let batch = beside(row, rows, |other| other.operation == operation && other.batch > 1);
            let _ = writeln!(
                lines,
                "| {} | {} | {} | {} | {} | {} |",
                row.set,
                operation.word(),
                number(row.core_cycles_per_op.unwrap_or(f64::NAN)),
                of(false),
                of(true),
                ratio(batch.and_then(|batch| batch.ratio).unwrap_or(f64::NAN)),
            );
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;

    fn row(operation: &str, batch: u32, threads: u32, cycles: f64) -> Hbs {
        let peer = |name: &str, cycles: f64| json!({ "name": name, "core_cycles_per_op": cycles, "ratio": 2.0 });
        serde_json::from_value(json!({ "set": "L2_H10_W4", "operation": operation, "batch": batch,
            "threads": threads, "signature_bytes": 5076, "core_cycles_per_op": cycles,
            "ops_per_s": 1e6 / cycles, "floor_cycles": 100.0, "over_floor": cycles / 100.0,
            "max_over_median": if operation == "sign" { json!(4.0) } else { json!(null) },
            "cycles_per_compression": [50.0, 130.0], "seed_ops_per_s": [404.0, 791.0],
            "ratio": 5.0, "peers": [peer("wolfssl-5.9.4", 400.0), peer("wolfssl-large-caches-5.9.4", 300.0)] }))
        .unwrap()
    }

    #[test]
    fn rows_stand_where_they_belong() {
        let rows = [
            row("keygen", 1, 1, 110.0),
            row("keygen", 1, 2, 60.0),
            row("sign", 1, 1, 130.0),
            row("sign", 64, 1, 119.0),
            row("verify", 1, 1, 140.0),
        ];
        let line = "| L2_H10_W4 | 5076 | 0.11 | 0.06 | 7692 | 404, 791 | 7143 | 404, 791 |\n";
        assert_eq!(seed(&rows), line);
        let (lines, met) = floors(&rows);
        // The key on two threads has no line; the slowest signature is too slow, and one verification.
        assert_eq!((lines.lines().count(), met.as_str()), (4, "2 of 4 are met."));
        assert!(lines.contains("| sign | 1 | 130 | 100 | 1.30 | 1.35 | 4.00 | **missed** |"));
        assert!(lines.contains("| sign | 64 | 119 | 100 | 1.19 | 1.20 | - | met |"), "{lines}");
        let line = "| L2_H10_W4 | sign | 130 | 400 | 2.00 | 300 | 2.00 | 5.00 |\n";
        assert!(peers(&rows).contains(line), "{}", peers(&rows));
    }

    #[test]
    fn rows_on_a_disk_are_held_against_what_is_expected_and_against_memory() {
        let row = |reserve: usize, over_expected: f64, over_memory: f64| -> Durable {
            serde_json::from_value(json!({ "set": "L1_H15_W4", "operation": "sign", "batch": 1, "reserve": reserve,
                "threads": 1, "signature_bytes": 2672, "signatures": 4096, "us_per_op": 25.04, "memory_us_per_op": 23.0,
                "fdatasync_us": 500.0, "syncs_per_op": 0.002, "expected_us_per_op": 24.0,
                "over_expected": over_expected, "over_memory": over_memory }))
            .unwrap()
        };
        let (lines, met) = durable(&[
            row(1, 1.1, 40.0),
            row(64, 1.2, 1.0),
            row(1024, 1.0, 1.2),
            row(1024, 1.0, 1.09),
        ]);
        assert_eq!(met, "2 of 4 are met.");
        let first = "| L1_H15_W4 | 1 | 1 | 25.0 | 23.0 | 500.0 | 0.0020 | 1.10 | 40.00 | met |\n";
        assert!(lines.starts_with(first), "{lines}");
        let folder = std::env::temp_dir().join(format!("gabion-hbs-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        assert!(on_a_disk(&folder, "none").unwrap().contains("script/bench-hbs-durable none"));
        let text = serde_json::to_string(&row(1024, 1.0, 1.2)).unwrap();
        fs::write(folder.join("hbs-durable-some.ndjson"), text).unwrap();
        let section = on_a_disk(&folder, "some").unwrap();
        fs::remove_dir_all(&folder).unwrap();
        assert!(
            section.ends_with("| 1.00 | 1.20 | **missed** |\n\n0 of 1 are met.\n"),
            "{section}"
        );
    }

    #[test]
    fn the_page_is_that_of_its_rows() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let Ok(kept) = fs::read_to_string(root.join("docs/reference/performance-hbs.md")) else {
            return;
        };
        let (_, after) = kept.split_once("xtask -- hbs ").unwrap();
        let (name, _) = after.split_once('`').unwrap();
        assert_eq!(page(&root.join("bench/results"), name).unwrap(), kept);
    }
}
