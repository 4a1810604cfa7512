//! The page of the key management service: `xtask kms NAME`. Its prose is kms.md's.

use std::fmt::Write as _;
use std::path::Path;

use gabion_rows::kms::{Durability, Kms, MachineLoad, Request, Transport};

use super::{put, ratio, rows};

/// The highest overhead of a durable request, in microseconds, over the written one and a sync.
const DURABLE_US: f64 = 40.0;

/// Requests a second that OpenBao answers over HTTPS, and how many times as many eight clients should get.
const EIGHT_PER_S: f64 = 4.0 * 3_400.0;

/// Writes docs/reference/performance-kms.md from a machine's rows, and returns it.
pub fn write(root: &Path, name: &str) -> Result<String, String> {
    let page = page(&root.join("bench/results"), name)?;
    put(&root.join("docs/reference/performance-kms.md"), page)
}

fn page(results: &Path, name: &str) -> Result<String, String> {
    let rows: Vec<Kms> = rows(&results.join(format!("kms-{name}.ndjson")))?;
    let others: Vec<Kms> = super::rows(&results.join("kms-openbao.ndjson"))?;
    let machine = &rows[0].machine;
    let has_avx512 = machine.features.iter().any(|feature| feature == "avx512f");
    let load = rows.iter().map(|row| row.around.load).fold(0.0, f64::max);
    let rounds = rows.iter().map(|row| row.rounds).min().unwrap_or(0);
    let [met, missed] = goals(&rows);
    let mut page = include_str!("kms.md").to_owned();
    for (place, text) in [
        ("{name}", name),
        ("{machine}", &machine.cpu),
        ("{cores}", &machine.cores.to_string()),
        ("{avx512}", if has_avx512 { "with" } else { "without" }),
        ("{rounds}", &rounds.to_string()),
        ("{others_max}", &format!("{:.0}", MachineLoad::OTHERS_MAX * 100.0)),
        ("{load}", &format!("{load:.1}")),
        ("{alone}\n", &alone(&rows)),
        ("{durable}\n", &durable(&rows)),
        ("{many}\n", &many(&rows)),
        ("{due}\n", &due(&rows)),
        ("{cold}\n", &cold(&rows)),
        ("{process}\n", &process(&rows)),
        ("{parts}\n", &parts(&rows)),
        ("{openbao}", &others[0].machine.cpu),
        ("{openbao_rows}\n", &beside(&rows, &others)),
        ("{met}", &met),
        ("{missed}", &missed),
    ] {
        page = page.replace(place, text);
    }
    Ok(page)
}

/// The goals of a row, as far as they are set.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Goal {
    /// At most: of a request over HTTPS, or of an item within a process, in microseconds.
    us: Option<f64>,
    /// At most: of the server's processors for a signature, in microseconds.
    server_us: Option<f64>,
    /// At least.
    per_s: Option<f64>,
}

impl Goal {
    fn of(row: &Kms) -> Goal {
        let none = Goal::default();
        let (is_ed25519, batch) = (row.algorithm == "ed25519", row.batch);
        match (row.through, row.class, row.clients, row.due_per_s) {
            (Transport::Https, Some(Durability::Written), 1, None) => {
                let (us, per_s) = match (row.request, is_ed25519, batch) {
                    (Request::Sign, true, 1) => (Some(120.0), None),
                    (Request::Sign, false, 1) => (Some(170.0), None),
                    (Request::Verify, false, 1) => (Some(120.0), None),
                    (Request::Sign, true, 64) => (None, Some(75_000.0)),
                    (Request::Sign, false, 64) => (None, Some(18_000.0)),
                    _ => return none,
                };
                Goal { us, server_us: us.map(|_| 100.0), per_s }
            }
            (Transport::Https, Some(Durability::Durable), 1, None) => {
                let both = row.written_us.zip(row.fdatasync_us);
                Goal { us: both.map(|(written, sync)| written + sync + DURABLE_US), ..none }
            }
            (Transport::Https, Some(Durability::Written), 8, None) => {
                Goal { per_s: Some(EIGHT_PER_S), ..none }
            }
            (Transport::Process, ..) if is_ed25519 => Goal {
                us: match (row.request, batch) {
                    (Request::Sign, 1) => Some(9.0),
                    (Request::Verify, 1) => Some(11.0),
                    (Request::Fresh, 32) => Some(8.0),
                    (Request::Verify, 32) => Some(5.0),
                    _ => None,
                },
                ..none
            },
            _ => none,
        }
    }

    /// Returns the missed goals: the figure's name, the figure, the goal.
    fn missed(&self, row: &Kms) -> Vec<(&'static str, f64, f64)> {
        let mut missed = Vec::new();
        let us = item_us(row);
        missed.extend(self.us.filter(|most| us > *most).map(|most| ("us", us, most)));
        let server = row.server_us_per_op.unwrap_or(f64::NAN);
        let of_server = self.server_us.filter(|most| server.is_nan() || server > *most);
        missed.extend(of_server.map(|most| ("us of server CPU", server, most)));
        let per_s = self.per_s.filter(|least| row.ops_per_s < *least);
        missed.extend(per_s.map(|least| ("a second", row.ops_per_s, least)));
        missed
    }

    fn count(&self) -> usize {
        [self.us, self.server_us, self.per_s].iter().flatten().count()
    }
}

/// Of a request over HTTPS its time; within a process that of an item.
fn item_us(row: &Kms) -> f64 {
    match row.through {
        Transport::Https => row.us.p50,
        Transport::Process => row.us.p50 / row.batch as f64,
    }
}

/// A figure, and its goal where there is one.
fn at_most(value: f64, most: Option<f64>) -> String {
    match most {
        Some(most) if value <= most => format!("{} <= {}", short(value), short(most)),
        Some(most) => format!("**{}** <= {}", short(value), short(most)),
        None => short(value),
    }
}

fn at_least(value: f64, least: Option<f64>) -> String {
    match least {
        Some(least) if value >= least => format!("{} >= {}", short(value), short(least)),
        Some(least) => format!("**{}** >= {}", short(value), short(least)),
        None => short(value),
    }
}

/// Three digits or so.
fn short(value: f64) -> String {
    match value {
        _ if !value.is_finite() => "-".to_owned(),
        _ if value < 20.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

fn or_none(value: Option<f64>) -> f64 {
    value.unwrap_or(f64::NAN)
}

fn others(row: &Kms) -> String {
    let MachineLoad { steal, others, disturbed, .. } = row.around;
    format!("{:.0} % ({disturbed})", (steal + others) * 100.0)
}

fn named(row: &Kms) -> String {
    let name = if row.algorithm.is_empty() { "-" } else { &row.algorithm };
    format!("{name} | {}", row.request.word())
}

fn class(row: &Kms) -> &'static str {
    row.class.map_or("-", Durability::word)
}

/// Rows over HTTPS that clients wait for: by their number, and whether they are of batches.
fn https(rows: &[Kms], is_it: impl Fn(&Kms) -> bool) -> impl Iterator<Item = &Kms> {
    let is_such = |row: &&Kms| {
        let is_start = matches!(row.request, Request::Start | Request::ColdSign);
        row.through == Transport::Https && row.due_per_s.is_none() && !is_start
    };
    rows.iter().filter(is_such).filter(move |row| is_it(row))
}

fn alone(rows: &[Kms]) -> String {
    let mut lines = String::new();
    for row in https(rows, |row| row.clients == 1 && row.batch == 1) {
        let goal = Goal::of(row);
        let _ = writeln!(
            lines,
            "| {} | {} | {} | {} | {} | {} | {} |",
            named(row),
            class(row),
            at_most(row.us.p50, goal.us),
            short(or_none(row.floor_us)),
            ratio(or_none(row.over_floor)),
            at_most(or_none(row.server_us_per_op), goal.server_us),
            others(row),
        );
    }
    lines
}

fn durable(rows: &[Kms]) -> String {
    let mut lines = String::new();
    let is_durable = |row: &Kms| row.class == Some(Durability::Durable) && row.clients == 1;
    for row in https(rows, is_durable) {
        let _ = writeln!(
            lines,
            "| {} | {} | {} | {} | {} |",
            named(row),
            at_most(row.us.p50, Goal::of(row).us),
            short(or_none(row.written_us)),
            short(or_none(row.fdatasync_us)),
            short(or_none(row.paused_us)),
        );
    }
    lines
}

fn many(rows: &[Kms]) -> String {
    let mut lines = String::new();
    for row in https(rows, |row| row.clients > 1 || row.batch > 1) {
        let _ = writeln!(
            lines,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            named(row),
            class(row),
            row.clients,
            row.batch,
            at_least(row.ops_per_s, Goal::of(row).per_s),
            short(row.us.p50),
            short(or_none(row.floor_us)),
            short(or_none(row.server_us_per_op)),
            others(row),
        );
    }
    lines
}

fn due(rows: &[Kms]) -> String {
    let mut lines = String::new();
    for row in rows.iter().filter(|row| row.due_per_s.is_some()) {
        let _ = writeln!(
            lines,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            named(row),
            class(row),
            short(or_none(row.due_per_s)),
            short(row.us.p50),
            short(row.us.p99),
            short(or_none(row.floor_p99_us)),
            short(or_none(row.fdatasync_p99_us)),
            short(or_none(row.server_waited_us_per_op)),
            others(row),
        );
    }
    lines
}

fn cold(rows: &[Kms]) -> String {
    let mut lines = String::new();
    for row in rows {
        let what = match row.request {
            Request::Start => "start, to the first answer",
            Request::ColdSign => "first use of a key",
            _ => continue,
        };
        let ms = |us: f64| format!("{:.2}", us / 1e3);
        let _ = writeln!(
            lines,
            "| {what} | {} | {} | {} | {} | {} | {} | {} |",
            row.keys.unwrap_or(0),
            ms(row.us.p50),
            ms(row.us.p99),
            ms(row.us.max),
            short(or_none(row.server_us_per_op)),
            short(or_none(row.resident_kib.map(|kib| kib as f64 / 1024.0))),
            others(row),
        );
    }
    lines
}

fn process(rows: &[Kms]) -> String {
    let mut lines = String::new();
    for row in rows.iter().filter(|row| row.through == Transport::Process) {
        let _ = writeln!(
            lines,
            "| {} | {} | {} | {} | {} |",
            named(row),
            row.batch,
            at_most(item_us(row), Goal::of(row).us),
            short(row.ops_per_s),
            others(row),
        );
    }
    lines
}

fn parts(rows: &[Kms]) -> String {
    let mut lines = String::new();
    let is_it =
        |row: &Kms| row.clients == 1 && row.batch == 1 && row.request != Request::HealthCheck;
    for row in https(rows, is_it) {
        let verb = rows.iter().find(|other| {
            let of = |row: &Kms| (row.request, row.batch, row.algorithm.clone());
            other.through == Transport::Process && of(other) == of(row)
        });
        let (verb, floor) = (verb.map_or(f64::NAN, item_us), or_none(row.floor_us));
        let sync = row.fdatasync_us.unwrap_or(0.0);
        let waking = row.paused_us.zip(row.written_us);
        let waking = waking.map_or(0.0, |(paused, written)| (paused - written).max(0.0));
        let _ = writeln!(
            lines,
            "| {} | {} | {} | {} | {} | {} | {} | {} |",
            named(row),
            class(row),
            short(row.us.p50),
            short(floor),
            short(verb),
            short(sync),
            short(waking),
            short(row.us.p50 - floor - verb - sync - waking),
        );
    }
    lines
}

/// Another service's rows, each with ours of the same kind.
fn beside(rows: &[Kms], others: &[Kms]) -> String {
    let mut lines = String::new();
    for other in others {
        let of = |row: &Kms| (row.request, row.class, row.clients, row.batch, row.due_per_s);
        let is_it = |row: &&Kms| of(row) == of(other) && row.algorithm == other.algorithm;
        let ours = rows.iter().find(is_it);
        let figure = |of: fn(&Kms) -> f64| short(ours.map_or(f64::NAN, of));
        let server = |row: &Kms| or_none(row.server_us_per_op);
        let _ = writeln!(
            lines,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            other.request.word(),
            other.clients,
            other.batch,
            short(other.us.p50),
            figure(|row| row.us.p50),
            short(other.ops_per_s),
            figure(|row| row.ops_per_s),
            short(server(other)),
            figure(server),
        );
    }
    lines
}

/// Returns the number of goals met, and the missed ones with their ratio and the time that others
/// took meanwhile.
fn goals(rows: &[Kms]) -> [String; 2] {
    let all: usize = rows.iter().map(|row| Goal::of(row).count()).sum();
    let missed: Vec<String> = rows
        .iter()
        .flat_map(|row| Goal::of(row).missed(row).into_iter().map(move |missed| (row, missed)))
        .map(|(row, (what, is, goal))| {
            let through = match (row.through, row.class) {
                (Transport::Https, Some(class)) => format!("{} over HTTPS", class.word()),
                (Transport::Https, None) => "over HTTPS".to_owned(),
                (Transport::Process, _) => "in one process".to_owned(),
            };
            let more = match (row.clients, row.batch) {
                (1, 1) => String::new(),
                (1, batch) => format!(", batch of {batch}"),
                (clients, _) => format!(", {clients} clients"),
            };
            let (request, algorithm) = (row.request.word(), &row.algorithm);
            let (times, others) = (ratio(is.max(goal) / is.min(goal)), others(row));
            format!(
                "- `{request}` by {algorithm}, {through}{more}: {} {what} for {}, {times} times; others took {others}.",
                short(is),
                short(goal),
            )
        })
        .collect();
    let met = format!("{} of {all} are met.", all - missed.len());
    let list = match missed[..] {
        [] => String::new(),
        _ => format!("Missed, as of 'Where the time goes':\n\n{}", missed.join("\n")),
    };
    [met, list]
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::{Value, json};

    use super::*;

    fn row(fields: Value) -> Kms {
        let mut row = json!({ "request": "sign", "algorithm": "ed25519", "through": "https", "class": "written",
            "clients": 1, "batch": 1, "us": { "p50": 100.0, "p99": 300.0, "max": 900.0 }, "ops_per_s": 9000.0,
            "server_us_per_op": 80.0, "floor_us": 50.0, "over_floor": 2.0, "requests": 10, "rounds": 5,
            "around": { "load": 1.5, "steal": 0.01, "others": 0.02, "disturbed": 1 } });
        for (name, value) in fields.as_object().unwrap() {
            row[name] = value.clone();
        }
        serde_json::from_value(row).unwrap()
    }

    #[test]
    fn figures_are_held_against_their_goals() {
        let us = |p50: f64| json!({ "p50": p50, "p99": 1.0, "max": 1.0 });
        let missed = |fields: Value| {
            let row = row(fields);
            let goal = Goal::of(&row);
            (goal.count(), goal.missed(&row).iter().map(|(what, ..)| *what).collect::<Vec<_>>())
        };
        assert_eq!(missed(json!({})), (2, vec![]));
        assert_eq!(missed(json!({ "us": us(120.1) })), (2, vec!["us"]));
        assert_eq!(missed(json!({ "server_us_per_op": 100.1 })), (2, vec!["us of server CPU"]));
        assert_eq!(missed(json!({ "server_us_per_op": null })), (2, vec!["us of server CPU"]));
        assert_eq!(missed(json!({ "algorithm": "ml-dsa-65", "us": us(170.0) })), (2, vec![]));
        let verify = json!({ "algorithm": "ml-dsa-65", "request": "verify", "us": us(121.0) });
        assert_eq!(missed(verify), (2, vec!["us"]));
        // Written in the same minute, and not at another time.
        let durable = |p50: f64| json!({ "class": "durable", "us": us(p50), "written_us": 90.0, "fdatasync_us": 80.0 });
        assert_eq!(missed(durable(210.0)), (1, vec![]));
        assert_eq!(missed(durable(210.1)), (1, vec!["us"]));
        for (batch, per_s, of) in [(64, 74_999.0, "ed25519"), (64, 17_999.0, "ml-dsa-65")] {
            let fields = json!({ "batch": batch, "ops_per_s": per_s, "algorithm": of });
            assert_eq!(missed(fields), (1, vec!["a second"]));
        }
        assert_eq!(missed(json!({ "clients": 8, "ops_per_s": 13_600.0 })), (1, vec![]));
        assert_eq!(missed(json!({ "clients": 8, "ops_per_s": 13_599.0 })), (1, vec!["a second"]));
        // Where requests are due there is no more of them than that.
        assert_eq!(missed(json!({ "clients": 16, "due_per_s": 10.0 })), (0, vec![]));
        let inside = |request: &str, batch: usize, p50: f64| {
            missed(
                json!({ "through": "process", "class": null, "request": request, "batch": batch, "us": us(p50) }),
            )
        };
        assert_eq!(inside("sign", 1, 9.0), (1, vec![]));
        assert_eq!(inside("verify", 1, 11.1), (1, vec!["us"]));
        assert_eq!(inside("verify", 32, 160.0), (1, vec![]));
        assert_eq!(inside("fresh", 32, 256.1), (1, vec!["us"]));
        assert_eq!(inside("cold", 32, 1e6), (0, vec![]));
    }

    #[test]
    fn rows_stand_where_they_belong() {
        let us = |p50: f64| json!({ "p50": p50, "p99": 3.0 * p50, "max": 9.0 * p50 });
        let rows = [
            row(json!({ "us": us(130.0) })),
            row(
                json!({ "class": "durable", "us": us(190.0), "written_us": 100.0, "fdatasync_us": 60.0, "paused_us": 122.0 }),
            ),
            row(json!({ "batch": 64, "ops_per_s": 80_000.0 })),
            row(json!({ "clients": 8, "ops_per_s": 12_000.0 })),
            row(
                json!({ "clients": 16, "due_per_s": 6000.0, "floor_p99_us": 200.0, "server_waited_us_per_op": 7.0 }),
            ),
            row(
                json!({ "request": "start", "keys": 1000, "us": us(250_000.0), "resident_kib": 51_200, "server_us_per_op": null }),
            ),
            row(json!({ "request": "cold-sign", "keys": 1000, "us": us(310.0) })),
            row(json!({ "through": "process", "class": null, "us": us(8.0) })),
        ];
        let others = "3 % (1)";
        assert_eq!(
            alone(&rows),
            format!(
                "| ed25519 | sign | written | **130** <= 120 | 50 | 2.00 | 80 <= 100 | {others} |\n\
                 | ed25519 | sign | durable | 190 <= 200 | 50 | 2.00 | 80 | {others} |\n"
            )
        );
        assert_eq!(durable(&rows), "| ed25519 | sign | 190 <= 200 | 100 | 60 | 122 |\n");
        assert_eq!(
            many(&rows),
            format!(
                "| ed25519 | sign | written | 1 | 64 | 80000 >= 75000 | 100 | 50 | 80 | {others} |\n\
                 | ed25519 | sign | written | 8 | 1 | **12000** >= 13600 | 100 | 50 | 80 | {others} |\n"
            )
        );
        let line =
            format!("| ed25519 | sign | written | 6000 | 100 | 300 | 200 | - | 7.0 | {others} |\n");
        assert_eq!(due(&rows), line);
        let cold = cold(&rows);
        assert!(
            cold.starts_with(
                "| start, to the first answer | 1000 | 250.00 | 750.00 | 2250.00 | - | 50 |"
            ),
            "{cold}"
        );
        assert!(cold.contains("| first use of a key | 1000 | 0.31 | 0.93 |"), "{cold}");
        assert_eq!(
            process(&rows),
            format!("| ed25519 | sign | 1 | 8.0 <= 9.0 | 9000 | {others} |\n")
        );
        assert_eq!(
            parts(&rows),
            "| ed25519 | sign | written | 130 | 50 | 8.0 | 0.0 | 0.0 | 72 |\n\
             | ed25519 | sign | durable | 190 | 50 | 8.0 | 60 | 22 | 50 |\n"
        );
        let theirs =
            [row(json!({ "us": us(280.0), "ops_per_s": 3035.0, "server_us_per_op": 360.0 }))];
        assert_eq!(
            beside(&rows, &theirs),
            "| sign | 1 | 1 | 280 | 130 | 3035 | 9000 | 360 | 80 |\n"
        );
        let [met, missed] = goals(&rows);
        assert_eq!(met, "4 of 6 are met.");
        let wanted = "- `sign` by ed25519, written over HTTPS: 130 us for 120, 1.08 times; others took 3 % (1).\n\
                      - `sign` by ed25519, written over HTTPS, 8 clients: 12000 a second for 13600, 1.13 times;";
        assert!(missed.contains(wanted), "{missed}");
        assert_eq!(goals(&rows[7..]), ["1 of 1 are met.".to_owned(), String::new()]);
    }

    #[test]
    fn the_page_is_that_of_its_rows() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let others: Vec<Kms> = super::rows(&root.join("bench/results/kms-openbao.ndjson")).unwrap();
        assert!(others.iter().all(|row| row.service.as_deref() == Some("OpenBao 2.6.2")));
        let Ok(kept) = fs::read_to_string(root.join("docs/reference/performance-kms.md")) else {
            return;
        };
        let (_, after) = kept.split_once("xtask -- kms ").unwrap();
        let (name, _) = after.split_once('`').unwrap();
        assert_eq!(page(&root.join("bench/results"), name).unwrap(), kept);
    }

    #[test]
    fn kms_page_fills_every_placeholder() {
        let folder = std::env::temp_dir().join(format!("gabion-kms-page-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let text = serde_json::to_string(&row(json!({}))).unwrap();
        for file in ["kms-some.ndjson", "kms-openbao.ndjson"] {
            fs::write(folder.join(file), &text).unwrap();
        }
        let page = page(&folder, "some").unwrap();
        fs::remove_dir_all(&folder).unwrap();
        assert!(!page.contains('{') && !page.contains('}'), "{page}");
        assert!(page.contains("| ed25519 | sign | written | 100 <= 120 |"), "{page}");
    }
}
