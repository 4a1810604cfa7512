//! The sections that hold one thing against another: other libraries, a server with and without, two
//! threads and one, a switch on and off.

use gabion_rows::compare::{self, Comparison, FAMILIES, compare};
use gabion_rows::handshakes::{Provider, Ratios, Server, Switch};
use gabion_rows::operations::{Key, Peer, RunOperation, Subject, Threads, Timing};

use super::chart::Chart;
use super::page::{Section, shown, table};
use super::rows::{
    cell, count, distinct, handshake, helps_most, latest, of_providers, provider_name, text, word,
};

/// The algorithms in the plot against other libraries, with a known key if there is such a row.
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

/// Returns how many times fewer, with two digits; a dash where there is nothing to compare.
fn times(value: f64) -> String {
    if value.is_finite() { format!("{value:.2}") } else { "-".to_owned() }
}

/// Core cycles of the engine and of the best other library, operation by operation.
pub fn libraries(engine: &[&RunOperation], peers: &[&Peer]) -> Option<Section> {
    peers.first()?;
    let engine: Vec<&Timing> =
        engine.iter().map(|row| &row.timing).filter(|row| row.threads == 1).collect();
    let engine = latest(&engine, |row| (&row.subject, row.batch));
    let peers = latest(peers, |row| (&row.timing.subject, &row.timing.backend, &row.peer));
    let comparisons = compare(&engine, &peers);
    let mut chart = Chart::new(
        "Times fewer core cycles than the best other library (above 1: Gabion needs fewer)",
        &["one at a time", "64 at a time"],
    );
    let mut table_rows = Vec::new();
    for comparison in &comparisons {
        let Subject { algorithm, operation, key } = &comparison.one.subject;
        let is_known = comparisons.iter().any(|other| {
            let other = &other.one.subject;
            (&other.algorithm, &other.operation, other.key) == (algorithm, operation, Key::Cached)
        });
        let ratios = comparison.times_less();
        let is_plotted = PLOTTED.contains(&algorithm.as_str()) && (*key == Key::Cached) == is_known;
        if is_plotted && ratios[0].is_finite() {
            let known = if *key == Key::Cached { ", known key" } else { "" };
            let bars = ratios.map(|ratio| Some(ratio).filter(|ratio| ratio.is_finite()));
            chart.group(format!("{algorithm} {}{known}", operation.word()), bars.to_vec());
        }
        let peer = comparison.peer.map(|peer| &peer.timing);
        let cycles = |row: Option<&Timing>| cell(row.map(Timing::cycles));
        let mut cells = subject(&comparison.one.subject);
        cells.extend([cycles(Some(comparison.one)), cycles(comparison.batch)]);
        cells.extend([text(peer.map(|peer| peer.backend.as_str())), cycles(peer)]);
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
fn families(comparisons: &[Comparison<'_>]) -> String {
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

/// The cells that name an operation.
fn subject(subject: &Subject) -> Vec<String> {
    vec![
        subject.algorithm.clone(),
        subject.operation.word().to_owned(),
        subject.key.word().to_owned(),
    ]
}

/// Returns the best of each operation of other libraries that the engine lacks.
fn alone(peers: &[&Peer]) -> Vec<Vec<String>> {
    let subjects = latest(peers, |row| &row.timing.subject);
    let best = subjects.into_iter().filter_map(|row| compare::best(&row.timing.subject, peers));
    best.map(|peer| {
        let mut cells = subject(&peer.timing.subject);
        let dash = || "-".to_owned();
        let cycles = cell(Some(peer.timing.cycles()));
        cells.extend([dash(), dash(), peer.timing.backend.clone(), cycles, dash(), dash()]);
        cells
    })
    .collect()
}

/// The cost of a new connection on an unmodified server, with the provider and without.
pub fn servers(rows: &[&Server]) -> Option<Section> {
    rows.first()?;
    let (mut body, mut table_rows, mut gains) = (String::new(), Vec::new(), Vec::new());
    for server in distinct(rows.iter().map(|row| &row.server)) {
        let of_it: Vec<&Server> =
            rows.iter().copied().filter(|row| row.server == *server).collect();
        body.push_str(&server_charts(server, &of_it, &mut gains));
        for row in latest(&of_it, |row| (shaken(row), row.provider)) {
            let names = [&row.server, &row.group, &row.sig, &row.cipher];
            let mut cells = names.map(String::clone).to_vec();
            cells.push(provider_name(row.provider).to_owned());
            let figures = [
                row.worker_us_per_connection,
                row.spread.p20,
                row.spread.p80,
                row.connections_per_s,
                row.worker_busy,
                row.load_busy,
            ];
            cells.extend(figures.map(|figure| cell(Some(figure))));
            cells.push(count(Some(row.connections)));
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

/// Returns the fields that identify a server's handshake.
fn shaken(row: &Server) -> (&str, &str, &str) {
    (&row.group, &row.sig, &row.cipher)
}

/// Returns the plots of one server; its gain is added to `gains`: the factor in CPU time, and the
/// handshake.
fn server_charts(server: &str, rows: &[&Server], gains: &mut Vec<(f64, String)>) -> String {
    let providers = distinct(rows.iter().map(|row| row.provider));
    let figures: [fn(&Server) -> f64; 2] =
        [|row| row.worker_us_per_connection, |row| row.connections_per_s];
    let mut charts = [
        "CPU of a worker for a new connection, microseconds (less is better)",
        "new connections a second of one worker (more is better)",
    ]
    .map(|what| of_providers(&format!("{server}: {what}"), &providers));
    for one in distinct(rows.iter().map(|row| shaken(row))) {
        let label = handshake(one.0, one.1, one.2, 1);
        let of = |provider: Provider| {
            rows.iter().rfind(|row| shaken(row) == one && row.provider == provider).copied()
        };
        for (chart, figure) in charts.iter_mut().zip(figures) {
            chart
                .group(label.clone(), providers.iter().map(|name| of(*name).map(figure)).collect());
        }
        if let (Some(stock), Some(ours)) = (of(Provider::Default), of(Provider::Gabion)) {
            gains.push((figures[0](stock) / figures[0](ours), label));
        }
    }
    charts.map(|chart| chart.render()).concat()
}

/// The combined rate of several threads, relative to one.
pub fn threads(rows: &[&Threads]) -> Option<Section> {
    let most = rows.iter().map(|row| row.threads).max()?;
    let title = format!("Operations a second of {most} threads over those of one");
    let mut chart = Chart::new(&title, &["ratio"]);
    let mut table_rows = Vec::new();
    let what = |row: &Threads| [&row.algorithm, &row.operation, &row.key].map(String::clone);
    for one in distinct(rows.iter().map(|row| what(row))) {
        let of = |threads: usize| {
            let row = rows.iter().rfind(|row| row.threads == threads && what(row) == one);
            row.map(|row| row.ops_per_s)
        };
        let (single, many) = (of(1), of(most));
        let ratio = single.zip(many).map(|(single, many)| many / single);
        let known = if one[2] == Key::Cached.word() { ", known key" } else { "" };
        if most > 1 {
            chart.group(format!("{} {}{known}", one[0], one[1]), vec![ratio]);
        }
        let mut cells = one.to_vec();
        cells.extend([cell(single), cell(many), times(ratio.unwrap_or(f64::NAN))]);
        table_rows.push(cells);
    }
    let many = format!("{most} threads, operations/s");
    let head = ["algorithm", "operation", "key", "one thread, operations/s", &many, "ratio"];
    Some(Section {
        id: "threads",
        title: "Parallel threads".into(),
        words: format!(
            "Batches of 64 on {most} threads at once, compared with one thread; {most} is the most there can \
             be. `multiply` keeps the multiplier of a core busy and touches no memory: what the machine \
             itself gives to {most} threads. Above that, the one thread ran while neighbours had the clock \
             or the memory."
        ),
        body: chart.render() + &table("All figures", &head, &table_rows),
    })
}

/// The effect of the provider's switches: on relative to off.
pub fn switches(rows: &[&Switch]) -> Option<Section> {
    rows.first()?;
    let rows =
        latest(rows, |row| (&row.switch, (&row.group, &row.sig), (row.threads, row.connections)));
    let each = |of: &Ratios| [of.p50_ratio, of.cpu_ratio, of.rate_ratio];
    let (mut body, mut table_rows) = (String::new(), Vec::new());
    for switch in distinct(rows.iter().map(|row| &row.switch)) {
        let title = format!("{switch}, on over off (1: no difference)");
        let mut chart = Chart::new(
            &title,
            &["p50 of a handshake", "CPU of the process", "handshakes a second"],
        );
        for row in rows.iter().filter(|row| row.switch == *switch) {
            let label = switched(row);
            chart.group(label.clone(), each(&row.paired).map(Some).to_vec());
            let mut cells = vec![switch.clone(), label];
            let exact = |value: f64| {
                if value.is_nan() { "-".to_owned() } else { format!("{value:.3}") }
            };
            cells.extend(each(&row.paired).map(exact));
            cells.extend(each(&row.of_medians).map(exact));
            cells.extend([row.p50_spread.p20, row.p50_spread.p80].map(exact));
            cells.extend([word(&row.alone), row.rounds.to_string()]);
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
                CPU time less than 1 is better, of handshakes a second more. The table also has the ratios \
                of the medians; where the two differ much, the machine was not steady."
            .into(),
        body: body + &table("All ratios", &head, &table_rows),
    })
}

/// Returns the label of a switch's row: the handshake, and the numbers of threads and concurrent
/// connections.
fn switched(row: &Switch) -> String {
    let mut label = format!("{} + {}", row.group, row.sig);
    if row.threads != 1 {
        label.push_str(&format!(", {} threads", row.threads));
    }
    if row.connections != 0 {
        label.push_str(&format!(", {} at a time", row.connections));
    }
    label
}

#[cfg(test)]
mod tests {
    use gabion_rows::handshakes::{Spread, SwitchFigures};
    use serde::de::DeserializeOwned;
    use serde_json::json;

    use super::*;

    /// A row of the engine, or of another library.
    fn row<R: DeserializeOwned>(backend: &str, key: &str, batch: u64, cycles: f64) -> R {
        let row = json!({ "algorithm": "ML-KEM-768", "operation": "encaps", "key": key,
            "backend": backend, "batch": batch, "threads": 1, "core_cycles_per_op": cycles,
            "ns_per_op": { "p50": 1.0, "p99": 1.0 }, "ops_per_s": 1.0, "samples": 1,
            "randomness": "given",
            "peer": { "name": backend, "version": "1", "license": "", "build": "" } });
        serde_json::from_value(row).unwrap()
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
        let (engine, others): (Vec<&RunOperation>, Vec<&Peer>) =
            (engine.iter().collect(), others.iter().collect());
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
        let row = |key: &str, threads: usize, ops_per_s: f64| Threads {
            algorithm: "A".into(),
            operation: "o".into(),
            key: key.into(),
            backend: None,
            code: None,
            batch: None,
            threads,
            ops_per_s,
            machine: None,
        };
        let rows = [row("fresh", 1, 100.0), row("cached", 2, 900.0), row("fresh", 2, 190.0)];
        let section = threads(&rows.iter().collect::<Vec<_>>()).unwrap();
        assert!(section.body.contains("<td class=\"n\">190</td><td class=\"n\">1.90</td>"));
        assert_eq!(section.body.matches("class=\"r\"").count(), 1, "{}", section.body);
        assert!(section.words.contains("on 2 threads"));
    }

    #[test]
    fn switch_report_names_the_configuration() {
        let figures =
            SwitchFigures { p50_us: 1.0, p99_us: 1.0, cpu_us: 1.0, handshakes_per_s: 1.0 };
        let row = |threads: usize, connections: usize, p50_ratio: f64| Switch {
            switch: "async-jobs".into(),
            group: "G".into(),
            sig: "S".into(),
            threads,
            connections,
            rounds: 1,
            on: figures,
            off: figures,
            paired: Ratios { p50_ratio, cpu_ratio: 1.05, rate_ratio: 0.924 },
            p50_spread: Spread::default(),
            of_medians: Ratios { p50_ratio: 0.9592, ..Ratios::default() },
            alone: None,
            machine: Default::default(),
            openssl: String::new(),
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
