//! The sections that hold one thing against another: other libraries, a server with and without, two
//! threads and one, a switch on and off.

use gabion_rows::compare::{self, FAMILIES, compare, cycles};
use serde_json::Value;

use super::chart::Chart;
use super::page::{Section, shown, table};
use super::sections::{cell, distinct, find, handshake, helps_most, of_providers, provider, text};

/// What stands in the plot against other libraries: the operations of these, with a key that is known
/// where there is such a row.
const PLOTTED: [&str; 8] = [
    "ML-KEM-768",
    "ML-DSA-65",
    "SLH-DSA-SHA2-128f",
    "SLH-DSA-SHAKE-128f",
    "Falcon-512",
    "Ed25519",
    "X25519",
    "ECDSA-P-256",
];

/// The last of the rows that agree in these fields: a later file corrects an earlier one.
fn latest<'r>(rows: &[&'r Value], fields: &[&str]) -> Vec<&'r Value> {
    let is_later = |at: usize| {
        rows[at + 1..].iter().any(|row| fields.iter().all(|field| row[*field] == rows[at][*field]))
    };
    (0..rows.len()).filter(|&at| !is_later(at)).map(|at| rows[at]).collect()
}

/// How many times fewer, with two digits; a dash where there is nothing to compare.
fn times(value: f64) -> String {
    if value.is_finite() { format!("{value:.2}") } else { "-".to_owned() }
}

/// Core cycles of the engine beside the best of the other libraries, operation by operation.
pub fn libraries(engine: &[&Value], peers: &[&Value]) -> Option<Section> {
    peers.first()?;
    let engine: Vec<&Value> = engine.iter().copied().filter(|row| row["threads"] == 1).collect();
    let engine = latest(&engine, &["algorithm", "operation", "key", "batch"]);
    let peers = latest(peers, &["algorithm", "operation", "key", "batch", "backend", "peer"]);
    let comparisons = compare(&engine, &peers);
    let mut chart = Chart::new(
        "Times fewer core cycles than the best other library (above 1: Gabion needs fewer)",
        &["one at a time", "64 at a time"],
    );
    let mut table_rows = Vec::new();
    for comparison in &comparisons {
        let of = |field| text(comparison.one, field);
        let is_known = |name: &str| {
            let others = comparisons.iter().map(|other| other.one);
            let mut same = others.filter(|other| {
                other["algorithm"] == name && other["operation"] == comparison.one["operation"]
            });
            same.any(|other| other["key"] == "cached")
        };
        let ratios = comparison.times_less();
        let (name, key) = (of("algorithm"), of("key"));
        let is_plotted = PLOTTED.contains(&&*name) && (key == "cached") == is_known(&name);
        if is_plotted && ratios[0].is_finite() {
            let known = if key == "cached" { ", known key" } else { "" };
            let bars = ratios.map(|ratio| Some(ratio).filter(|ratio| ratio.is_finite()));
            chart.group(format!("{name} {}{known}", of("operation")), bars.to_vec());
        }
        let mut cells = vec![name, of("operation"), key];
        let count = |row: Option<&Value>| cell(row.map(cycles).filter(|cycles| cycles.is_finite()));
        cells.extend([count(Some(comparison.one)), count(comparison.batch)]);
        cells.push(comparison.peer.map_or("-".to_owned(), |peer| text(peer, "backend")));
        cells.push(count(comparison.peer));
        cells.extend(ratios.map(times));
        table_rows.push(cells);
    }
    let mut words = "Core cycles of each operation against the library that needs fewest, of all \
                     libraries and builds that were measured on the same machine, in the form of key \
                     that it has. The first table says from how many to how many times fewer Gabion \
                     needs; below 1 it needs more, and the last column counts these."
        .to_owned();
    if comparisons.is_empty() {
        words =
            "Other libraries were measured here, and the engine was not: give the report rows of \
                 `gabion bench engine` of the same machine, too."
                .to_owned();
        table_rows = alone(&peers);
    }
    let head = [
        "algorithm",
        "operation",
        "key",
        "Gabion, one",
        "Gabion, of 64",
        "best other",
        "its cycles",
        "times, one",
        "times, of 64",
    ];
    Some(Section {
        id: "peers",
        title: "Against other libraries".into(),
        words,
        body: families(&comparisons)
            + &chart.render()
            + &table("Every operation, core cycles", &head, &table_rows),
    })
}

/// A line for each family that has something to compare.
fn families(comparisons: &[compare::Comparison<'_>]) -> String {
    let lines: Vec<Vec<String>> = FAMILIES
        .iter()
        .map(|(family, names)| (family, compare::summary(comparisons, names)))
        .filter(|(_, (rows, ..))| *rows > 0)
        .map(|(family, (rows, below, [one, batch]))| {
            vec![(*family).to_owned(), rows.to_string(), one, batch, below.to_string()]
        })
        .collect();
    let head = ["family", "operations", "one at a time", "64 at a time", "below 1"];
    if lines.is_empty() { String::new() } else { shown(&head, &lines) }
}

/// The best of each operation of other libraries where there is nothing of ours.
fn alone(peers: &[&Value]) -> Vec<Vec<String>> {
    let fields = ["algorithm", "operation", "key"];
    let best = latest(peers, &fields).into_iter().filter_map(|row| compare::best(row, peers));
    best.map(|peer| {
        let mut cells: Vec<String> = fields.iter().map(|field| text(peer, field)).collect();
        let dash = || "-".to_owned();
        cells.extend([dash(), dash(), text(peer, "backend"), cell(Some(cycles(peer)))]);
        cells.extend([dash(), dash()]);
        cells
    })
    .collect()
}

/// What a new connection costs a server that nobody changed, with and without.
pub fn servers(rows: &[&Value]) -> Option<Section> {
    rows.first()?;
    let (mut body, mut table_rows, mut gains) = (String::new(), Vec::new(), Vec::new());
    for server in distinct(rows, &["server"]).concat() {
        let of_it: Vec<&Value> =
            rows.iter().copied().filter(|row| row["server"] == *server).collect();
        body.push_str(&server_charts(&server, &of_it, &mut gains));
        for row in latest(&of_it, &["group", "sig", "cipher", "provider"]) {
            let names = ["server", "group", "sig", "cipher"];
            let mut cells: Vec<String> = names.iter().map(|field| text(row, field)).collect();
            cells.push(provider(&text(row, "provider")).to_owned());
            for field in [
                "worker_us_per_connection",
                "p20",
                "p80",
                "connections_per_s",
                "worker_busy",
                "load_busy",
                "connections",
            ] {
                cells.push(cell(row[field].as_f64()));
            }
            table_rows.push(cells);
        }
    }
    let best = helps_most(&gains, "a worker");
    let head = [
        "server",
        "group",
        "certificates",
        "cipher",
        "provider",
        "worker us",
        "20 %",
        "80 %",
        "connections/s",
        "worker busy",
        "load busy",
        "connections",
    ];
    Some(Section {
        id: "servers",
        title: "Servers".into(),
        words: format!(
            "The distribution's server as it is, one worker on one core: the worker's CPU time for each \
             new connection, which is handshake, request, answer and the kernel's share, with OpenSSL \
             alone and with Gabion.{best} Where the load was busier than the worker, there could have \
             been more connections a second."
        ),
        body: body + &table("All figures", &head, &table_rows),
    })
}

/// The plots of one server; what it gains goes to `gains`, times less CPU and where.
fn server_charts(server: &str, rows: &[&Value], gains: &mut Vec<(f64, String)>) -> String {
    let providers = distinct(rows, &["provider"]).concat();
    let names: Vec<&str> = providers.iter().map(String::as_str).collect();
    let fields = ["worker_us_per_connection", "connections_per_s"];
    let mut charts = [
        "CPU of a worker for a new connection, microseconds (less is better)",
        "new connections a second of one worker (more is better)",
    ]
    .map(|what| of_providers(&format!("{server}: {what}"), &names));
    for one in distinct(rows, &["group", "sig", "cipher"]) {
        let label = handshake(&one[0], &one[1], &one[2], "1");
        let of = |provider: &str, field: &str| {
            let wanted = [("group", &*one[0]), ("sig", &*one[1]), ("cipher", &*one[2])];
            let wanted = [&wanted[..], &[("provider", provider)]].concat();
            find(rows, &wanted).and_then(|row| row[field].as_f64())
        };
        for (chart, field) in charts.iter_mut().zip(fields) {
            chart.group(label.clone(), names.iter().map(|name| of(name, field)).collect());
        }
        if let (Some(stock), Some(ours)) = (of("stock", fields[0]), of("gabion", fields[0])) {
            gains.push((stock / ours, label));
        }
    }
    charts.map(|chart| chart.render()).concat()
}

/// What several threads get done together, over one.
pub fn threads(rows: &[&Value]) -> Option<Section> {
    rows.first()?;
    let count = |row: &Value| row["threads"].as_u64().unwrap_or(0);
    let most = rows.iter().map(|row| count(row)).max()?;
    let title = format!("Operations a second of {most} threads over those of one");
    let mut chart = Chart::new(&title, &["ratio"]);
    let mut table_rows = Vec::new();
    for one in distinct(rows, &["algorithm", "operation", "key"]) {
        let of = |threads: &str| {
            let wanted = [("algorithm", &*one[0]), ("operation", &*one[1]), ("key", &*one[2])];
            let wanted = [&wanted[..], &[("threads", threads)]].concat();
            find(rows, &wanted).and_then(|row| row["ops_per_s"].as_f64())
        };
        let (single, many) = (of("1"), of(&most.to_string()));
        let ratio = single.zip(many).map(|(single, many)| many / single);
        let known = if one[2] == "cached" { ", known key" } else { "" };
        if most > 1 {
            chart.group(format!("{} {}{known}", one[0], one[1]), vec![ratio]);
        }
        let mut cells = one.clone();
        cells.extend([cell(single), cell(many), times(ratio.unwrap_or(f64::NAN))]);
        table_rows.push(cells);
    }
    let many = format!("{most} threads, operations/s");
    let head = ["algorithm", "operation", "key", "one thread, operations/s", &many, "ratio"];
    Some(Section {
        id: "threads",
        title: "Threads beside each other".into(),
        words: format!(
            "Batches of 64 on {most} threads at once, beside one thread alone; {most} is the most there can \
             be. `multiply` keeps the multiplier of a core busy and touches no memory: what the machine \
             itself gives to {most} threads. Above that, the one thread ran while neighbours had the clock \
             or the memory."
        ),
        body: chart.render() + &table("All figures", &head, &table_rows),
    })
}

/// What the provider's switches are worth: on over off.
pub fn switches(rows: &[&Value]) -> Option<Section> {
    rows.first()?;
    let rows = latest(rows, &["switch", "group", "sig", "threads", "connections"]);
    let ratios = ["p50_ratio", "cpu_ratio", "rate_ratio"];
    let (mut body, mut table_rows) = (String::new(), Vec::new());
    for switch in distinct(&rows, &["switch"]).concat() {
        let title = format!("{switch}, on over off (1: no difference)");
        let mut chart = Chart::new(
            &title,
            &["p50 of a handshake", "CPU of the process", "handshakes a second"],
        );
        for row in rows.iter().filter(|row| row["switch"] == *switch) {
            let label = switched(row);
            chart.group(label.clone(), ratios.map(|field| row[field].as_f64()).to_vec());
            let mut cells = vec![switch.clone(), label];
            let exact =
                |value: &Value| value.as_f64().map_or("-".to_owned(), |v| format!("{v:.3}"));
            cells.extend(ratios.map(|field| exact(&row[field])));
            cells.extend(ratios.map(|field| exact(&row["of_medians"][field])));
            cells.extend(["p20", "p80"].map(|field| exact(&row["p50_spread"][field])));
            cells.extend([text(row, "alone"), text(row, "rounds")]);
            table_rows.push(cells);
        }
        body.push_str(&chart.render());
    }
    let head = [
        "switch",
        "handshakes",
        "p50",
        "CPU",
        "rate",
        "of medians: p50",
        "CPU",
        "rate",
        "p50 of rounds: 20 %",
        "80 %",
        "one alone",
        "rounds",
    ];
    Some(Section {
        id: "switches",
        title: "Switches of the provider".into(),
        words: "Handshakes with a switch of the provider on and off, taking turns of a quarter of a \
                second in one process: medians of the rounds' ratios. Of the time at the median and of \
                CPU time less than 1 is better, of handshakes a second more. The table has the ratios of \
                the medians besides; where the two differ much, the machine was not steady."
            .into(),
        body: body + &table("All ratios", &head, &table_rows),
    })
}

/// What a row of a switch measured: the handshake, and how many threads and connections at once.
fn switched(row: &Value) -> String {
    let mut label = format!("{} + {}", text(row, "group"), text(row, "sig"));
    if let Some(threads) = row["threads"].as_u64().filter(|&threads| threads != 1) {
        label.push_str(&format!(", {threads} threads"));
    }
    if let Some(connections) = row["connections"].as_u64().filter(|&count| count != 0) {
        label.push_str(&format!(", {connections} at a time"));
    }
    label
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn row(backend: &str, key: &str, batch: u64, cycles: f64) -> Value {
        json!({ "algorithm": "ML-KEM-768", "operation": "encaps", "key": key, "backend": backend,
            "batch": batch, "threads": 1, "core_cycles_per_op": cycles, "peer": { "name": backend } })
    }

    #[test]
    fn the_best_library_is_named_and_losses_stay() {
        let engine = [
            row("avx512", "cached", 1, 999.0),
            row("avx512", "cached", 1, 200.0),
            row("avx512", "cached", 64, 50.0),
            row("avx512", "fresh", 1, 300.0),
        ];
        let others = [
            row("slow", "cached", 1, 300.0),
            row("quick", "cached", 1, 70.0),
            row("quick", "cached", 1, 100.0),
        ];
        let [engine, others] = [&engine[..], &others].map(|rows| rows.iter().collect::<Vec<_>>());
        let section = libraries(&engine, &others).unwrap();
        let body = &section.body;
        // The later of two rows of one library counts, and of two of ours.
        for cells in [
            "cached</td><td class=\"n\">200</td><td class=\"n\">50</td><td>quick</td><td class=\"n\">100",
            "<td class=\"n\">0.50</td><td class=\"n\">2.00</td>",
            "fresh</td><td class=\"n\">300</td><td>-</td><td>quick",
            "<td class=\"n\">0.33</td><td>-</td>",
            "<td>ML-KEM</td><td class=\"n\">2</td><td>0.33 to 0.50</td><td>2.00 to 2.00</td>",
            "ML-KEM-768 encaps, known key",
        ] {
            assert!(body.contains(cells), "no {cells} in {body}");
        }
        // One key in the plot: two bars.
        assert_eq!(body.matches("class=\"r\"").count(), 2, "{body}");
        assert!(libraries(&engine, &[]).is_none());
        let alone = libraries(&[], &others).unwrap();
        assert!(alone.words.contains("bench engine") && alone.body.contains("quick"));
    }

    #[test]
    fn threads_are_held_against_one() {
        let row = |key: &str, threads: u64, rate: f64| {
            json!({ "algorithm": "A", "operation": "o", "key": key, "threads": threads,
                "ops_per_s": rate })
        };
        let rows = [row("fresh", 1, 100.0), row("cached", 2, 900.0), row("fresh", 2, 190.0)];
        let section = threads(&rows.iter().collect::<Vec<_>>()).unwrap();
        assert!(section.body.contains("<td class=\"n\">190</td><td class=\"n\">1.90</td>"));
        assert_eq!(section.body.matches("class=\"r\"").count(), 1, "{}", section.body);
        assert!(section.words.contains("on 2 threads"));
    }

    #[test]
    fn switches_say_what_ran() {
        let row = |threads: u64, connections: u64, ratio: f64| {
            json!({ "switch": "async-jobs", "group": "G", "sig": "S", "threads": threads,
                "connections": connections, "p50_ratio": ratio, "cpu_ratio": 1.05,
                "rate_ratio": 0.924, "of_medians": { "p50_ratio": 0.9592 }, "alone": null })
        };
        let rows = [row(2, 8, 9.0), row(2, 8, 1.025), row(1, 0, 0.9), row(1, 1, 0.8)];
        let body = switches(&rows.iter().collect::<Vec<_>>()).unwrap().body;
        for expected in [
            "G + S, 2 threads, 8 at a time<",
            "G + S, 1 at a time<",
            "\"l\">G + S<",
            "<td class=\"n\">1.025</td><td class=\"n\">1.050</td><td class=\"n\">0.924</td>",
            "<td class=\"n\">0.959</td><td>-</td>",
        ] {
            assert!(body.contains(expected), "no {expected} in {body}");
        }
        assert!(!body.contains("9.000"), "{body}");
        assert_eq!(body.matches("class=\"r\"").count(), 9);
    }
}
