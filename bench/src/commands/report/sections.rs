//! Turns rows of results into sections, one for each kind.

use gabion_rows::commands::{Pkeyutl, Speed, Times};
use gabion_rows::connections::{Memory, Mode, Side, Table, Usage, Wire};
use gabion_rows::handshakes::{Connections, Handshake, Provider, Stack};
use gabion_rows::machine::Machine;
use gabion_rows::operations::{Key, Operation, RunOperation};
use gabion_rows::size::Module;
use gabion_rows::{Host, Origin, Record, Row, Status};

use super::chart::Chart;
use super::comparisons;
use super::page::{Part, Section, table};
use super::rows::{
    cell, count, distinct, handshake, helps_most, of_providers, provider_name, text, word,
};

/// Returns whether a row has a place in the page.
pub fn is_shown(record: &Record) -> bool {
    !matches!(
        record.row,
        Row::Floor(_)
            | Row::Hbs(_)
            | Row::Durable(_)
            | Row::Kms(_)
            | Row::Reference(_)
            | Row::Other
    )
}

/// Returns the sections of each machine, in the order in which the machines occur: figures of two
/// machines never share a chart. Rows without a machine come last. Other libraries may have been
/// measured on fewer cores than a machine's remaining rows; that does not make it another machine.
pub fn parts(records: &[Record]) -> Vec<Part> {
    let mut machines: Vec<(&Host, Vec<&Record>)> = Vec::new();
    let is_peer = |record: &Record| matches!(record.row, Row::Peer(_));
    let (others, records): (Vec<&Record>, Vec<&Record>) =
        records.iter().filter(|record| is_shown(record)).partition(|record| is_peer(record));
    for record in records.into_iter().chain(others) {
        let place = &record.origin.machine;
        let at =
            |with_cores| machines.iter().position(|(other, _)| is_same(other, place, with_cores));
        match at(true).or_else(|| at(false).filter(|_| is_peer(record))) {
            Some(at) => machines[at].1.push(record),
            None => machines.push((place, vec![record])),
        }
    }
    machines.sort_by_key(|(place, _)| **place == Host::Unknown);
    machines
        .into_iter()
        .map(|(place, records)| Part {
            title: name(place),
            words: systems(&records),
            sections: all(&records),
        })
        .collect()
}

/// Returns whether two places are one machine, whatever kernel and compiler it had.
fn is_same(one: &Host, other: &Host, with_cores: bool) -> bool {
    match (one, other) {
        (Host::Machine(one), Host::Machine(other)) => {
            (&one.cpu, &one.features) == (&other.cpu, &other.features)
                && (!with_cores || one.cores == other.cores)
        }
        _ => one == other,
    }
}

/// A machine's name, with the widest registers that its results may have used.
fn name(place: &Host) -> String {
    let Machine { cpu, cores, features, .. } = match place {
        Host::Unknown => return "Results that name no machine".to_owned(),
        Host::Name(name) => return name.clone(),
        Host::Machine(machine) => machine,
    };
    let widest = [("avx512f", ", AVX-512"), ("avx2", ", AVX2")];
    let has = |name: &str| features.iter().any(|feature| feature == name);
    let widest = widest.into_iter().find(|(feature, _)| has(feature)).map_or("", |(_, name)| name);
    format!("{cpu}, {cores} cores{widest}")
}

/// Distinct values, in order.
fn values(records: &[&Record], of: impl Fn(&Origin) -> Option<String>) -> Vec<String> {
    let mut values: Vec<String> = records.iter().filter_map(|row| of(&row.origin)).collect();
    values.sort_unstable();
    values.dedup();
    values
}

/// Returns the versions of Gabion and OpenSSL that rows were measured with, and the dates, as far
/// as they are recorded.
fn versions(records: &[&Record]) -> String {
    let mut words = values(records, |origin| {
        let commit = origin.commit.as_ref().map(|commit| format!(" ({commit})"));
        Some(format!("Gabion {}{}", origin.gabion.as_ref()?, commit.unwrap_or_default()))
    });
    words.extend(values(records, |origin| {
        let version = origin.openssl.as_ref()?.trim_start_matches("OpenSSL ");
        version.split(' ').next().map(|version| format!("OpenSSL {version}"))
    }));
    let days = values(records, |origin| {
        Some(origin.date.as_ref().or(origin.run.as_ref())?.get(..10)?.to_owned())
    });
    words.extend(match &days[..] {
        [] => None,
        [day] => Some(day.clone()),
        [first, .., last] => Some(format!("{first} to {last}")),
    });
    words.join(", ")
}

/// Returns the kernels and compilers of a machine's rows, in a sentence, with the versions and
/// dates.
fn systems(records: &[&Record]) -> String {
    let systems = distinct(records.iter().filter_map(|record| match &record.origin.machine {
        Host::Machine(machine) => Some(format!("{}, {}", machine.kernel, machine.compiler)),
        Host::Name(_) | Host::Unknown => None,
    }));
    let versions = versions(records);
    match (systems.is_empty(), versions.is_empty()) {
        (true, true) => "The results do not say what they were measured on.".to_owned(),
        (true, false) => format!("Measured with {versions}."),
        (false, true) => format!("Measured with {}.", systems.join("; ")),
        (false, false) => format!("Measured with {}; {versions}.", systems.join("; ")),
    }
}

/// The rows of a kind.
macro_rules! of {
    ($records:ident, $kind:ident) => {{
        let pick = |record: &&'r Record| match &record.row {
            Row::$kind(row) => Some(row),
            _ => None,
        };
        $records.iter().filter_map(pick).collect::<Vec<_>>()
    }};
}

/// Every section that the rows of a machine have something for.
fn all<'r>(records: &[&'r Record]) -> Vec<Section> {
    let operations = of!(records, Engine);
    [
        tls(&of!(records, Handshake), Stack::Openssl),
        tls(&of!(records, Handshake), Stack::Rustls),
        comparisons::servers(&of!(records, Server)),
        engine(&operations),
        comparisons::libraries(&operations, &of!(records, Peer)),
        comparisons::threads(&of!(records, Threads)),
        wire(&of!(records, Wire)),
        memory(&of!(records, Memory)),
        connections(&of!(records, Connections)),
        speed(&of!(records, Speed)),
        pkeyutl(&of!(records, Pkeyutl)),
        comparisons::switches(&of!(records, Switch)),
        size(&of!(records, Size)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

const OF_LIBSSL: &str = "What one full TLS 1.3 handshake of OpenSSL's libssl costs each side: with OpenSSL alone \
                         and with Gabion as a provider, nothing else changed; the core patch is another way \
                         from OpenSSL's code to Gabion's.";
const OF_RUSTLS: &str = "What one full TLS 1.3 handshake of rustls costs each side: with aws-lc-rs alone, and with \
                         Gabion for key exchange and signatures.";

/// Returns the fields that identify a handshake, as in [`handshake`].
fn shaken(row: &Handshake) -> (&str, &str, &str, usize) {
    (&row.group, &row.sig, &row.cipher, row.threads)
}

/// Returns the rows of each handshake from one run, in which its providers took turns: of several
/// runs the one with the most providers, and of those the last. Rows of two runs are never
/// combined.
fn runs<'r>(rows: &[&'r Handshake]) -> Vec<&'r Handshake> {
    let mut runs: Vec<Vec<&Handshake>> = Vec::new();
    for &row in rows {
        match runs.last_mut() {
            Some(run)
                if shaken(run[0]) == shaken(row)
                    && run.iter().all(|other| other.provider != row.provider) =>
            {
                run.push(row);
            }
            _ => runs.push(vec![row]),
        }
    }
    let mut chosen: Vec<Vec<&Handshake>> = Vec::new();
    for run in runs {
        match chosen.iter_mut().find(|other| shaken(other[0]) == shaken(run[0])) {
            Some(other) if other.len() <= run.len() => *other = run,
            Some(_) => {}
            None => chosen.push(run),
        }
    }
    chosen.concat()
}

/// The handshakes of one stack.
fn tls(rows: &[&Handshake], stack: Stack) -> Option<Section> {
    let of_stack: Vec<_> = rows.iter().filter(|row| row.stack == stack).copied().collect();
    of_stack.first()?;
    let rows = runs(&of_stack);
    let (id, title, alone, words) = match stack {
        Stack::Openssl => ("tls", "TLS handshakes", Provider::Default, OF_LIBSSL),
        Stack::Rustls => ("rustls", "TLS handshakes of rustls", Provider::AwsLcRs, OF_RUSTLS),
    };
    let providers = distinct(rows.iter().map(|row| row.provider));
    let mut charts = [
        of_providers("Server CPU of a full handshake, microseconds (less is better)", &providers),
        of_providers("Client CPU of a full handshake, microseconds (less is better)", &providers),
    ];
    let sides: [fn(&Handshake) -> f64; 2] = [|row| row.server_us, |row| row.client_us];
    let mut table_rows = Vec::new();
    let mut gains: Vec<(f64, String)> = Vec::new();
    for one in distinct(rows.iter().map(|row| shaken(row))) {
        let (group, signature, cipher, threads) = one;
        let label = handshake(group, signature, cipher, threads);
        let of = |provider: Provider| {
            rows.iter().rfind(|row| shaken(row) == one && row.provider == provider).copied()
        };
        for (chart, us) in charts.iter_mut().zip(sides) {
            chart.group(label.clone(), providers.iter().map(|name| of(*name).map(us)).collect());
        }
        if let (Some(default), Some(ours)) = (of(alone), of(Provider::Gabion)) {
            gains.push((default.server_us / ours.server_us, label.clone()));
        }
        for provider in &providers {
            let row = of(*provider);
            let [c2s, s2c] = [row.map(|row| row.bytes_c2s), row.map(|row| row.bytes_s2c)];
            // `gabion run` does not write them.
            let bytes = |bytes: Option<u64>| count(bytes.filter(|bytes| *bytes > 0));
            let who = provider_name(*provider).to_owned();
            table_rows.push(vec![
                label.clone(),
                who,
                text(Some(cipher)),
                threads.to_string(),
                cell(row.map(|row| row.server_us)),
                cell(row.map(|row| row.client_us)),
                cell(row.map(|row| row.handshakes_per_cpu_s)),
                bytes(c2s),
                bytes(s2c),
            ]);
        }
    }
    let best = helps_most(&gains, "a server");
    let head = [
        "handshake",
        "provider",
        "cipher",
        "threads",
        "server us",
        "client us",
        "handshakes a CPU s",
        "bytes to server",
        "bytes to client",
    ];
    Some(Section {
        id,
        title: title.into(),
        words: format!("{words}{best}"),
        body: charts.map(|chart| chart.render()).concat()
            + &table("All figures", &head, &table_rows),
    })
}

fn engine(rows: &[&RunOperation]) -> Option<Section> {
    rows.first()?;
    let is_beside = rows.iter().any(|row| row.openssl_ops_per_s.is_some());
    let mut body = String::new();
    for (title, key, operations) in [
        ("ML-KEM, key already expanded", "ML-KEM-", [Operation::Encaps, Operation::Decaps]),
        ("ML-DSA, key already expanded", "ML-DSA-", [Operation::Sign, Operation::Verify]),
    ] {
        let title = format!("{title}: operations a second, one core");
        let series = ["one at a time", "64 at a time", provider_name(Provider::Default)];
        let mut chart = Chart::new(&title, if is_beside { &series } else { &series[..2] });
        let names = distinct(rows.iter().map(|row| &row.timing.subject.algorithm));
        for name in names.into_iter().filter(|name| name.starts_with(key)) {
            for operation in operations {
                let of = |batch: usize| {
                    rows.iter().rfind(|RunOperation { timing, .. }| {
                        let subject = &timing.subject;
                        (&subject.algorithm, subject.operation, subject.key, timing.threads)
                            == (name, operation, Key::Cached, 1)
                            && timing.batch == batch
                    })
                };
                let (Some(one), many) = (of(1), of(64)) else { continue };
                let rate = |row: &&RunOperation| row.timing.figures.ops_per_s;
                let mut bars = vec![Some(rate(one)), many.map(rate)];
                if is_beside {
                    bars.push(one.openssl_ops_per_s);
                }
                chart.group(format!("{name} {}", operation.word()), bars);
            }
        }
        body.push_str(&chart.render());
    }
    let mut head = vec![
        "algorithm",
        "operation",
        "key",
        "backend",
        "batch",
        "threads",
        "cycles",
        "ns, median",
        "operations/s",
    ];
    head.extend(is_beside.then_some("OpenSSL alone, operations/s"));
    Some(Section {
        id: "engine",
        title: "The engine alone".into(),
        words: "What the operations cost without OpenSSL around them, one by one and in batches, \
                which fill the lanes of wide registers."
            .into(),
        body: body + &table("Every algorithm", &head, &engine_cells(rows, is_beside)),
    })
}

/// A line for each operation.
fn engine_cells(rows: &[&RunOperation], is_beside: bool) -> Vec<Vec<String>> {
    rows.iter()
        .map(|RunOperation { timing, openssl_ops_per_s }| {
            let subject = &timing.subject;
            let mut cells = vec![
                subject.algorithm.clone(),
                subject.operation.word().to_owned(),
                subject.key.word().to_owned(),
                timing.backend.clone(),
                timing.batch.to_string(),
                timing.threads.to_string(),
                cell(timing.figures.core_cycles_per_op),
                cell(Some(timing.figures.ns_per_op.p50)),
                cell(Some(timing.figures.ops_per_s)),
            ];
            cells.extend(is_beside.then(|| cell(*openssl_ops_per_s)));
            cells
        })
        .collect()
}

fn wire(rows: &[&Wire]) -> Option<Section> {
    rows.first()?;
    let mut old = Chart::new(
        "Bytes of a connection: today, and the row of 2022 that it followed",
        &["today", "2022"],
    );
    let mut today = Chart::new("Bytes of a connection, the server proves who it is", &["bytes"]);
    let mut table_rows = Vec::new();
    for row in rows {
        let total = row.figures.map(|figures| figures.total as f64);
        let names = [&row.authentication, &row.key_exchange].map(|name| text(name.as_deref()));
        let old_names =
            [&row.old_authentication, &row.old_key_exchange].map(|name| text(name.as_deref()));
        let pair = |[authentication, key_exchange]: &[String; 2]| {
            format!("{key_exchange} + {authentication}")
        };
        if row.table == Table::Seed {
            // Today's names of a row, and behind them those of 2022.
            let is_followed = row.authentication.is_some() && row.key_exchange.is_some();
            let now = if is_followed { pair(&names) } else { "nothing followed".to_owned() };
            let bars = vec![total, row.old_total.map(|total| total as f64)];
            old.group(format!("{now} ({})", pair(&old_names)), bars);
        } else if row.mode == Mode::Server {
            today.group(pair(&names), vec![total]);
        }
        let mut cells = names.to_vec();
        cells.extend([row.mode.name().to_owned(), word(&row.status)]);
        let figures = row.figures.map(|it| [it.total, it.predicted, it.bytes_c2s, it.bytes_s2c]);
        cells.extend([0, 1, 2, 3].map(|at| count(figures.map(|figures| figures[at]))));
        cells.extend(old_names);
        cells.push(count(row.old_total));
        table_rows.push(cells);
    }
    let head = [
        "authentication",
        "key exchange",
        "mode",
        "status",
        "total",
        "predicted",
        "to server",
        "to client",
        "2022: authentication",
        "2022: key exchange",
        "2022: total",
    ];
    Some(Section {
        id: "wire",
        title: "Bytes on the wire".into(),
        words: "TCP payload of a full handshake with one message and one goodbye each way, one \
                certificate a side, no tickets. Each total agrees within 16 bytes with the sum of \
                key shares, certificates, signatures, records and a base. A bar that is missing: \
                nothing followed the algorithm, or the provider does not serve it."
            .into(),
        body: today.render() + &old.render() + &table("All rows", &head, &table_rows),
    })
}

fn memory(rows: &[&Memory]) -> Option<Section> {
    rows.first()?;
    let providers = distinct(rows.iter().map(|row| row.provider));
    let mut chart =
        of_providers("Heap of the server's side of a connection at most, bytes", &providers);
    for pair in distinct(rows.iter().map(|row| (&row.key_exchange, &row.authentication))) {
        let is_its = |row: &Memory| (&row.key_exchange, &row.authentication) == pair;
        let of = |provider: &Provider| {
            let row = rows.iter().rfind(|row| is_its(row) && row.provider == *provider)?;
            row.server.as_ref().map(|side| side.connection.heap_peak as f64)
        };
        let values: Vec<Option<f64>> = providers.iter().map(of).collect();
        if values.iter().any(Option::is_some) {
            let [group, signature] = [pair.0, pair.1].map(|name| text(name.as_deref()));
            chart.group(format!("{group} + {signature}"), values);
        }
    }
    let head = [
        "authentication",
        "key exchange",
        "provider",
        "status",
        "side",
        "allocations",
        "heap total",
        "heap peak",
        "stack",
        "process peak",
        "2022: authentication",
        "2022: key exchange",
        "2022: allocations",
        "2022: heap total",
        "2022: heap peak",
        "2022: stack",
    ];
    Some(Section {
        id: "memory",
        title: "Memory".into(),
        words:
            "Heap and stack of one connection, from SSL_new to SSL_free, each side in a separate \
                process. The figures of 2022 are wolfSSL's, a library made for small machines."
                .into(),
        body: chart.render() + &table("All rows", &head, &memory_cells(rows)),
    })
}

/// A line for each side of a row.
fn memory_cells(rows: &[&Memory]) -> Vec<Vec<String>> {
    let counts = |usage: Option<&Usage>| {
        let all = usage
            .map(|it| [Some(it.allocations), Some(it.heap_total), Some(it.heap_peak), it.stack]);
        [0, 1, 2, 3].map(|at| count(all.and_then(|all| all[at])))
    };
    let mut table_rows = Vec::new();
    for row in rows {
        for (name, side) in [("server", &row.server), ("client", &row.client)] {
            let side = side.as_ref();
            let names = [&row.authentication, &row.key_exchange];
            let mut cells = names.map(|name| text(name.as_deref())).to_vec();
            cells.extend([provider_name(row.provider).into(), word(&row.status), name.into()]);
            cells.extend(counts(side.map(|side: &Side| &side.connection)));
            cells.push(count(side.map(|side| side.process.heap_peak)));
            let names = [&row.old_authentication, &row.old_key_exchange];
            cells.extend(names.map(|name| text(name.as_deref())));
            cells.extend(counts(side.and_then(|side| side.old.as_ref())));
            table_rows.push(cells);
        }
    }
    table_rows
}

fn connections(rows: &[&Connections]) -> Option<Section> {
    rows.first()?;
    let providers = distinct(rows.iter().map(|row| row.provider));
    let mut chart =
        of_providers("Both sides' CPU of a handshake, milliseconds (less is better)", &providers);
    for (old, group) in distinct(rows.iter().map(|row| (&row.old_group, &row.group))) {
        let of = |provider: &Provider| {
            let row =
                rows.iter().rfind(|row| (&row.old_group, row.provider) == (old, *provider))?;
            let figures = row.figures.as_ref()?;
            Some(figures.server.connect_avg_ms + figures.client.connect_avg_ms)
        };
        let values: Vec<Option<f64>> = providers.iter().map(of).collect();
        if values.iter().any(Option::is_some) {
            chart.group(format!("{} ({old})", text(group.as_deref())), values);
        }
    }
    let head = [
        "group",
        "certificates",
        "provider",
        "status",
        "side",
        "connections",
        "connect, ms",
        "rx, MB/s",
        "tx, MB/s",
        "last byte of 50 KiB, ms",
        "elapsed over the loopback, ms",
        "2022: group",
        "2022: connect, ms",
        "2022: rx",
        "2022: tx",
    ];
    Some(Section {
        id: "connections",
        title: "Connections and throughput".into(),
        words: "The rows of the benchmark that wolfSSL published in 2022 and what followed them: \
                handshake, sending and receiving, CPU time of each side. Those of 2022 are elapsed \
                times of another machine."
            .into(),
        body: chart.render() + &table("All rows", &head, &connection_cells(rows)),
    })
}

/// A line for each side of a row.
fn connection_cells(rows: &[&Connections]) -> Vec<Vec<String>> {
    let mut table_rows = Vec::new();
    for row in rows {
        let figures = row.figures.as_ref();
        let sides = [
            ("server", figures.map(|figures| &figures.server), &row.old_server),
            ("client", figures.map(|figures| &figures.client), &row.old_client),
        ];
        for (name, side, old) in sides {
            let mut cells = vec![text(row.group.as_deref()), row.sig.clone()];
            cells.extend([provider_name(row.provider).into(), word(&row.status), name.into()]);
            cells.push(count(figures.map(|figures| figures.connections)));
            let means = side.map(|side| [side.connect_avg_ms, side.rx_mb_s, side.tx_mb_s]);
            cells.extend([0, 1, 2].map(|at| cell(means.map(|means| means[at]))));
            cells.push(cell(figures.map(|figures| figures.last_byte_50k_ms)));
            cells.push(cell(figures.map(|figures| figures.last_byte_50k_elapsed_ms)));
            cells.push(row.old_group.clone());
            cells.extend([old.connect_avg_ms, old.rx_mb_s, old.tx_mb_s].map(|it| cell(Some(it))));
            table_rows.push(cells);
        }
    }
    table_rows
}

/// Returns the name of the code that served an operation.
fn served_by(provider: Option<Provider>) -> String {
    match provider {
        Some(Provider::Default) => "OpenSSL".to_owned(),
        Some(Provider::Gabion) => "Gabion".to_owned(),
        other => text(other.map(Provider::name)),
    }
}

fn speed(rows: &[&Speed]) -> Option<Section> {
    rows.first()?;
    let (mut table_rows, mut ratio_rows) = (Vec::new(), Vec::new());
    for row in rows {
        for result in &row.results {
            let who = match result.status {
                Status::NotServed => word(&result.status),
                Status::Measured | Status::NoSuccessor => served_by(result.served_by),
            };
            let mut cells =
                vec![result.algorithm.clone(), provider_name(result.provider).into(), who];
            cells.extend(
                [
                    result.keygen_per_s,
                    result.encaps_per_s,
                    result.decaps_per_s,
                    result.sign_per_s,
                    result.verify_per_s,
                ]
                .map(cell),
            );
            table_rows.push(cells);
        }
        for ratio in &row.ratios {
            let mut cells = vec![ratio.slh_dsa.clone(), ratio.ml_dsa.clone()];
            cells.push(provider_name(ratio.provider).into());
            cells.extend([ratio.keygen, ratio.sign, ratio.verify].map(|it| cell(Some(it))));
            ratio_rows.push(cells);
        }
    }
    let head = [
        "algorithm",
        "provider",
        "served by",
        "keygen/s",
        "encaps/s",
        "decaps/s",
        "sign/s",
        "verify/s",
    ];
    let ratio_head = ["", "against", "provider", "keygen, times longer", "sign", "verify"];
    let mut body = table("Operations a second", &head, &table_rows);
    if !ratio_rows.is_empty() {
        body.push_str(&table("SLH-DSA against ML-DSA", &ratio_head, &ratio_rows));
    }
    Some(Section {
        id: "openssl",
        title: "openssl speed".into(),
        words: "The same operations as the openssl command measures them itself.".into(),
        body,
    })
}

fn pkeyutl(rows: &[&Pkeyutl]) -> Option<Section> {
    rows.first()?;
    let mut table_rows = Vec::new();
    for result in rows.iter().flat_map(|row| &row.results) {
        let head = |what: String| {
            vec![result.algorithm.clone(), provider_name(result.provider).to_owned(), what]
        };
        if result.status == Status::NotServed {
            let mut cells = head(word(&result.status));
            cells.resize(11, cell(None));
            table_rows.push(cells);
            continue;
        }
        let operations =
            [("sign", result.sign), ("verify", result.verify), ("process", result.process)];
        for (operation, times) in operations {
            let mut cells = head(operation.to_owned());
            let times = times
                .map(|it: Times| [it.mean_ms, it.median_ms, it.p95_ms, it.p99_ms, it.ops_per_s]);
            cells.extend([0, 1, 2, 3, 4].map(|at| cell(times.map(|times| times[at]))));
            let sizes = [result.public_key_bytes, result.private_key_bytes, result.signature_bytes];
            cells.extend(sizes.map(|bytes| cell(bytes.map(|bytes| bytes as f64))));
            table_rows.push(cells);
        }
    }
    let head = [
        "algorithm",
        "provider",
        "operation",
        "mean, ms",
        "median",
        "95 %",
        "99 %",
        "a second",
        "public key",
        "private key",
        "signature",
    ];
    Some(Section {
        id: "pkeyutl",
        title: "openssl pkeyutl".into(),
        words: "A process for each signature, as a script signs; `process` is one that computes \
                nothing."
            .into(),
        body: table("All figures", &head, &table_rows),
    })
}

fn size(rows: &[&Module]) -> Option<Section> {
    let module = rows.last()?;
    let mut chart =
        Chart::new("Bytes of the stripped module, by whose path names what", &["bytes"]);
    let mut table_rows = Vec::new();
    for part in &module.parts {
        chart.group(part.family.clone(), vec![Some(part.bytes as f64)]);
        let counts = [part.symbols, part.bytes, part.without].map(|it| count(Some(it)));
        table_rows.push([&[part.family.clone()][..], &counts].concat());
    }
    let head = ["part", "symbols", "bytes", "the module without it"];
    let mut body = chart.render() + &table("All parts", &head, &table_rows);
    let builds: Vec<Vec<String>> = (module.builds.iter())
        .map(|build| {
            let less = cell(Some(build.bytes as f64));
            vec![build.without.clone(), count(Some(build.stripped_bytes)), less]
        })
        .collect();
    if !builds.is_empty() {
        let head = ["built without", "bytes when stripped", "less than the whole module"];
        body.push_str(&table("Builds without a family", &head, &builds));
    }
    Some(Section {
        id: "size",
        title: "Size".into(),
        words: format!(
            "{} bytes when stripped. Given are the bytes of the functions and tables whose path names \
             a family{}.",
            count(Some(module.stripped_bytes)),
            if builds.is_empty() { "" } else { ", and the size of builds that leave one out" }
        ),
        body,
    })
}

#[cfg(test)]
mod tests {
    use gabion_rows::read;
    use serde_json::{Value, json};

    use super::*;

    fn handshake_row(cpu: &str, cipher: &str, provider: &str, server_us: f64) -> Value {
        let spread = json!({ "p20": 1.0, "p80": 1.0 });
        json!({
            "group": "X25519MLKEM768", "sig": "ML-DSA-65", "cipher": cipher, "threads": 1,
            "provider": provider, "server_us": server_us, "client_us": 1.0, "handshakes": 1,
            "handshakes_per_cpu_s": 1.0, "bytes_c2s": 1, "bytes_s2c": 1, "samples": 1,
            "version": "TLSv1.3", "signature_scheme": "mldsa65", "kem_provider": provider,
            "signature_provider": provider, "openssl": "OpenSSL 3.5.7",
            "spread": { "handshakes_per_cpu_s": spread, "server_us": spread, "client_us": spread },
            "machine": { "cpu": cpu, "cores": 2, "features": ["avx2"], "kernel": "k", "compiler": "c" },
        })
    }

    fn records(rows: &[Value]) -> Vec<Record> {
        rows.iter().flat_map(|row| read(&row.to_string()).unwrap()).collect()
    }

    #[test]
    fn machines_and_suites_stay_apart() {
        let (long, short) = ("TLS_AES_256_GCM_SHA384", "TLS_AES_128_GCM_SHA256");
        let mut newer = handshake_row("one", short, "default", 333.0);
        newer["machine"]["kernel"] = "newer".into();
        let rows = [
            handshake_row("one", long, "default", 111.0),
            handshake_row("one", long, "offload", 122.0),
            handshake_row("two", long, "default", 211.0),
            handshake_row("two", long, "gabion", 222.0),
            newer,
        ];
        let parts = parts(&records(&rows));
        let titles: Vec<&str> = parts.iter().map(|part| part.title.as_str()).collect();
        assert_eq!(titles, ["one, 2 cores, AVX2", "two, 2 cores, AVX2"]);
        assert_eq!(parts[0].words, "Measured with k, c; newer, c; OpenSSL 3.5.7.");
        let bodies: Vec<&str> = parts.iter().map(|part| part.sections[0].body.as_str()).collect();
        for (body, own, foreign) in [
            (bodies[0], ["111", "122", "333", "core patch"], ["211", "222", "Gabion"]),
            (bodies[1], ["211", "222", "Gabion", "AES-256"], ["111", "333", "core patch"]),
        ] {
            assert!(own.iter().all(|figure| body.contains(figure)), "{body}");
            assert!(!foreign.iter().any(|figure| body.contains(figure)), "{body}");
        }
        for label in ["X25519MLKEM768 + ML-DSA-65, AES-256-GCM", "ML-DSA-65, AES-128-GCM"] {
            assert!(bodies[0].contains(label), "no {label}");
        }
    }

    #[test]
    fn a_run_has_its_handshakes_and_operations_beside_openssls() {
        let run = json!({
            "date": "2026-11-25T09:30:59Z", "gabion": "0.1.0", "commit": "0123abc", "openssl": "3.5.7",
            "tls": { "group": "G", "signature": "S", "server_us": { "default": 300.0, "gabion": 100.0 },
                "client_us": { "default": 200.0, "gabion": 50.0 }, "version": "TLSv1.3",
                "kem_provider": "gabion", "signature_provider": "gabion",
                "handshakes_per_cpu_s": { "default": 1.0, "gabion": 2.0 } },
            "engine": [{ "algorithm": "ML-KEM-768", "operation": "encaps", "key": "cached",
                "backend": "avx2", "threads": 1, "batch": 1, "ns_per_op": { "p50": 1.0, "p99": 2.0 },
                "core_cycles_per_op": 3.0, "ops_per_s": 500.0, "samples": 1,
                "openssl_ops_per_s": 77.0, "machine": { "cpu": "one", "cores": 2 } }],
        });
        let parts = parts(&records(&[run]));
        assert_eq!(parts.len(), 1);
        assert!(parts[0].words.ends_with("; Gabion 0.1.0 (0123abc), OpenSSL 3.5.7, 2026-11-25."));
        let ids: Vec<&str> = parts[0].sections.iter().map(|section| section.id).collect();
        assert_eq!(ids, ["tls", "engine"]);
        let body = |at: usize| &parts[0].sections[at].body;
        assert!(body(0).contains("G + S<") && body(0).contains("OpenSSL alone"), "{}", body(0));
        assert!(body(1).contains("</i>77<") && body(1).contains("OpenSSL alone"), "{}", body(1));
        assert_eq!(records(&[json!({ "engine": [] })])[0].row, Row::Other);
    }

    #[test]
    fn interleaved_runs_are_grouped() {
        let row = |provider, server_us| -> Handshake {
            let row = handshake_row("one", "TLS_X", provider, server_us);
            serde_json::from_value(row).unwrap()
        };
        let three = [row("default", 31.0), row("gabion", 32.0), row("offload", 33.0)];
        let two = [row("default", 21.0), row("gabion", 22.0)];
        let later = [row("default", 11.0), row("gabion", 12.0)];
        let chosen = |all: &[&[Handshake]]| -> Vec<Handshake> {
            let rows = all.concat();
            runs(&rows.iter().collect::<Vec<_>>()).into_iter().cloned().collect()
        };
        assert_eq!(chosen(&[&three, &two]), three);
        assert_eq!(chosen(&[&two, &three]), three);
        assert_eq!(chosen(&[&two, &later]), later);
    }

    #[test]
    fn results_without_a_machine_come_last() {
        let size = json!({ "file": "f", "file_bytes": 6, "stripped_bytes": 5, "parts": [] });
        let rows = [size, handshake_row("one", "TLS_X", "default", 1.0), json!({ "unknown": 1 })];
        let parts = parts(&records(&rows));
        assert_eq!(parts.len(), 2);
        assert_eq!(
            (&*parts[1].title, parts[1].sections[0].id),
            ("Results that name no machine", "size")
        );
    }
}
