//! What rows of results become: a section for each kind.

use serde_json::{Value, json};

use super::chart::{Chart, number};
use super::compared;
use super::page::{Part, Section, table};

/// The kinds of results, by what only their rows have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Tls,
    TlsSeed,
    Server,
    Engine,
    Peer,
    Threads,
    Wire,
    Memory,
    Openssl,
    Pkeyutl,
    Switch,
    Size,
}

fn kind(row: &Value) -> Option<Kind> {
    let has = |field: &str| row.get(field).is_some();
    if has("old_group") {
        Some(Kind::TlsSeed)
    } else if has("server_us") {
        Some(Kind::Tls)
    } else if has("worker_us_per_connection") {
        Some(Kind::Server)
    } else if has("ns_per_op") && !has("floor_cycles") {
        Some(if has("peer") { Kind::Peer } else { Kind::Engine })
    } else if has("ops_per_s") && has("threads") {
        Some(Kind::Threads)
    } else if has("switch") {
        Some(Kind::Switch)
    } else if has("authentication") {
        Some(if has("tickets") { Kind::Wire } else { Kind::Memory })
    } else if has("ratios") {
        Some(Kind::Openssl)
    } else if row["results"][0].get("process").is_some() {
        Some(Kind::Pkeyutl)
    } else if has("stripped_bytes") {
        Some(Kind::Size)
    } else {
        None
    }
}

/// Whether a row has a place in the page.
pub fn is_known(row: &Value) -> bool {
    kind(row).is_some()
}

/// What the rows of each machine become, in the order in which the machines come: figures of two machines
/// never stand in one chart. Rows that name no machine come last. Other libraries may have been measured on
/// fewer cores than the rest of a machine's rows, on one of their own: no machine is apart for that.
pub fn parts(rows: &[Value]) -> Vec<Part> {
    const MACHINE: [&str; 3] = ["cpu", "features", "cores"];
    let mut machines: Vec<(&Value, Vec<&Value>)> = Vec::new();
    let (others, rows): (Vec<&Value>, Vec<&Value>) =
        rows.iter().filter(|row| is_known(row)).partition(|row| kind(row) == Some(Kind::Peer));
    for row in rows.into_iter().chain(others) {
        let place = |fields: &[&str]| {
            let is_its = |first: &Value| is_same(&first["machine"], &row["machine"], fields);
            machines.iter().position(|(first, _)| is_its(first))
        };
        let looser = || place(&MACHINE[..2]).filter(|_| kind(row) == Some(Kind::Peer));
        match place(&MACHINE).or_else(looser) {
            Some(at) => machines[at].1.push(row),
            None => machines.push((row, vec![row])),
        }
    }
    machines.sort_by_key(|(first, _)| first["machine"].is_null());
    machines
        .into_iter()
        .map(|(_, rows)| Part {
            title: name(&rows[0]["machine"]),
            words: systems(&rows),
            sections: all(&rows),
        })
        .collect()
}

/// Whether two machines agree in these fields: one machine, whatever kernel and compiler it had.
fn is_same(one: &Value, other: &Value, fields: &[&str]) -> bool {
    match one.is_object() && other.is_object() {
        true => fields.iter().all(|field| one[*field] == other[*field]),
        false => one == other,
    }
}

/// A machine's name, with the widest registers that its results may have used.
fn name(machine: &Value) -> String {
    if machine.is_null() {
        return "Results that name no machine".to_owned();
    }
    if let Some(name) = machine.as_str() {
        return name.to_owned();
    }
    let has =
        |name: &str| machine["features"].as_array().is_some_and(|all| all.contains(&name.into()));
    let widest = [("avx512f", ", AVX-512"), ("avx2", ", AVX2")];
    let widest = widest.into_iter().find(|(feature, _)| has(feature)).map_or("", |(_, name)| name);
    format!("{}, {} cores{widest}", text(machine, "cpu"), machine["cores"])
}

/// The rows of what `gabion run` writes: its handshakes with each provider, and the engine's operations.
pub fn of_run(run: &Value) -> Option<Vec<Value>> {
    let engine = run["engine"].as_array()?;
    let tls = &run["tls"];
    let machine = &engine.first()?["machine"];
    let mut rows = engine.clone();
    for provider in ["default", "gabion"] {
        let mut row = json!({
            "group": tls["group"], "sig": tls["signature"], "cipher": tls["cipher"], "threads": 1,
            "provider": provider, "machine": machine, "server_us": tls["server_us"].get(provider)?,
        });
        for field in ["client_us", "handshakes_per_cpu_s"] {
            row[field] = tls[field][provider].clone();
        }
        rows.push(row);
    }
    for row in &mut rows {
        for field in ["date", "gabion", "commit", "openssl"] {
            row[field] = run[field].clone();
        }
    }
    Some(rows)
}

/// Distinct values, in order.
fn values<'r>(rows: &[&'r Value], of: impl Fn(&'r Value) -> Option<&'r str>) -> Vec<&'r str> {
    let mut values: Vec<&str> = rows.iter().filter_map(|row| of(row)).collect();
    values.sort_unstable();
    values.dedup();
    values
}

/// With which Gabion and OpenSSL rows were measured, and when, as far as they say so.
fn versions(rows: &[&Value]) -> String {
    let mut words = Vec::new();
    // The object of sizes has had its version for longer than others.
    let version = |row: &'_ Value| -> Option<String> {
        let field = if row.get("stripped_bytes").is_some() { "version" } else { "gabion" };
        let commit = row["commit"].as_str().map(|commit| format!(" ({commit})"));
        Some(format!("Gabion {}{}", row[field].as_str()?, commit.unwrap_or_default()))
    };
    let mut gabions: Vec<String> = rows.iter().filter_map(|row| version(row)).collect();
    gabions.sort_unstable();
    gabions.dedup();
    words.extend(gabions);
    let openssl = |row: &Value| -> Option<String> {
        let text = row["openssl"].as_str()?;
        text.trim_start_matches("OpenSSL ").split(' ').next().map(|text| format!("OpenSSL {text}"))
    };
    let mut openssls: Vec<String> = rows.iter().filter_map(|row| openssl(row)).collect();
    openssls.sort_unstable();
    openssls.dedup();
    words.extend(openssls);
    let days = values(rows, |row| row["date"].as_str().or(row["run"].as_str())?.get(..10));
    words.extend(match days[..] {
        [] => None,
        [day] => Some(day.to_owned()),
        [first, .., last] => Some(format!("{first} to {last}")),
    });
    words.join(", ")
}

/// The kernels and compilers of a machine's rows, in a sentence, and what else they say of their making.
fn systems(rows: &[&Value]) -> String {
    let mut systems: Vec<String> = Vec::new();
    for machine in rows.iter().map(|row| &row["machine"]).filter(|machine| machine.is_object()) {
        let system = format!("{}, {}", text(machine, "kernel"), text(machine, "compiler"));
        if !systems.contains(&system) {
            systems.push(system);
        }
    }
    let versions = versions(rows);
    match (systems.is_empty(), versions.is_empty()) {
        (true, true) => "The results do not say what they were measured on.".to_owned(),
        (true, false) => format!("Measured with {versions}."),
        (false, true) => format!("Measured with {}.", systems.join("; ")),
        (false, false) => format!("Measured with {}; {versions}.", systems.join("; ")),
    }
}

/// Every section that the rows of a machine have something for.
fn all(rows: &[&Value]) -> Vec<Section> {
    let of = |wanted: Kind| -> Vec<&Value> {
        rows.iter().copied().filter(|row| kind(row) == Some(wanted)).collect()
    };
    [
        tls(&of(Kind::Tls)),
        compared::servers(&of(Kind::Server)),
        engine(&of(Kind::Engine)),
        compared::libraries(&of(Kind::Engine), &of(Kind::Peer)),
        compared::threads(&of(Kind::Threads)),
        wire(&of(Kind::Wire)),
        memory(&of(Kind::Memory)),
        tls_seed(&of(Kind::TlsSeed)),
        openssl(&of(Kind::Openssl)),
        pkeyutl(&of(Kind::Pkeyutl)),
        compared::switches(&of(Kind::Switch)),
        size(&of(Kind::Size)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// A field as text; a dash where it is missing or null.
pub fn text(row: &Value, field: &str) -> String {
    match &row[field] {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// A number as text; a dash where there is none.
pub fn cell(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), number)
}

/// What a provider's rows are called: those of OpenSSL's own code have had three names.
pub fn provider(name: &str) -> &str {
    match name {
        "default" | "stock" => "OpenSSL alone",
        "gabion" => "with Gabion",
        "offload" => "with the core patch",
        other => other,
    }
}

/// As [`text`], of a field that names a provider.
fn provider_of(row: &Value) -> String {
    provider(&text(row, "provider")).to_owned()
}

/// A chart with a series for each of these providers.
pub fn of_providers(title: &str, names: &[&str]) -> Chart {
    let names: Vec<&str> = names.iter().map(|name| provider(name)).collect();
    Chart::new(title, &names)
}

/// Distinct values of a few fields, in the order in which they come.
pub fn distinct(rows: &[&Value], fields: &[&str]) -> Vec<Vec<String>> {
    let mut seen: Vec<Vec<String>> = Vec::new();
    for row in rows {
        let key: Vec<String> = fields.iter().map(|field| text(row, field)).collect();
        if !seen.contains(&key) {
            seen.push(key);
        }
    }
    seen
}

/// The last row with these values: a later file corrects an earlier one.
pub fn find<'r>(rows: &[&'r Value], fields: &[(&str, &str)]) -> Option<&'r Value> {
    rows.iter().rfind(|row| fields.iter().all(|(field, value)| text(row, field) == *value)).copied()
}

/// What tells a handshake from the others of its chart: group, signature, cipher and, where there are
/// several, threads.
pub fn handshake(group: &str, signature: &str, cipher: &str, threads: &str) -> String {
    if cipher == "-" {
        return format!("{group} + {signature}");
    }
    // Of TLS 1.3's names of suites the cipher is what tells them apart, not the hash.
    let short = cipher.trim_start_matches("TLS_");
    let short = short.rsplit_once("_SHA").map_or(short, |(cipher, _)| cipher);
    let threads = match threads {
        "1" => String::new(),
        many => format!(", {many} threads"),
    };
    format!("{group} + {signature}, {}{threads}", short.replace('_', "-"))
}

/// What makes a handshake one of its own, as [`handshake`] names it.
const HANDSHAKE: [&str; 4] = ["group", "sig", "cipher", "threads"];

/// Which handshake gains most, and how much; nothing where none was compared.
pub fn helps_most(gains: &[(f64, String)], who: &str) -> String {
    gains.iter().max_by(|a, b| a.0.total_cmp(&b.0)).map_or(String::new(), |(times, what)| {
        format!(" Where it helps most, {what}, {who} needs {times:.1} times less CPU.")
    })
}

/// The rows of each handshake from one run, in which its providers took turns: of several runs the one with
/// the most providers, and of those the last. Rows of two runs never stand beside each other.
fn runs<'r>(rows: &[&'r Value]) -> Vec<&'r Value> {
    let is_same = |a: &Value, b: &Value| HANDSHAKE.iter().all(|field| a[*field] == b[*field]);
    let mut runs: Vec<Vec<&Value>> = Vec::new();
    for &row in rows {
        match runs.last_mut() {
            Some(run)
                if is_same(run[0], row)
                    && run.iter().all(|other| other["provider"] != row["provider"]) =>
            {
                run.push(row);
            }
            _ => runs.push(vec![row]),
        }
    }
    let mut chosen: Vec<Vec<&Value>> = Vec::new();
    for run in runs {
        match chosen.iter_mut().find(|other| is_same(other[0], run[0])) {
            Some(other) if other.len() <= run.len() => *other = run,
            Some(_) => {}
            None => chosen.push(run),
        }
    }
    chosen.concat()
}

fn tls(rows: &[&Value]) -> Option<Section> {
    rows.first()?;
    let rows = &runs(rows)[..];
    let providers = distinct(rows, &["provider"]).concat();
    let names: Vec<&str> = providers.iter().map(String::as_str).collect();
    let mut charts = [
        of_providers("Server CPU of a full handshake, microseconds (less is better)", &names),
        of_providers("Client CPU of a full handshake, microseconds (less is better)", &names),
    ];
    let mut table_rows = Vec::new();
    let mut gains: Vec<(f64, String)> = Vec::new();
    for pair in distinct(rows, &HANDSHAKE) {
        let label = handshake(&pair[0], &pair[1], &pair[2], &pair[3]);
        let of = |provider: &str, field: &str| {
            let wanted = [("group", &*pair[0]), ("sig", &*pair[1]), ("cipher", &*pair[2])];
            let wanted = [&wanted[..], &[("threads", &*pair[3]), ("provider", provider)]].concat();
            find(rows, &wanted).and_then(|row| row[field].as_f64())
        };
        for (chart, field) in charts.iter_mut().zip(["server_us", "client_us"]) {
            chart.group(label.clone(), names.iter().map(|name| of(name, field)).collect());
        }
        if let (Some(default), Some(ours)) = (of("default", "server_us"), of("gabion", "server_us"))
        {
            gains.push((default / ours, label.clone()));
        }
        for name in &names {
            let fields =
                ["server_us", "client_us", "handshakes_per_cpu_s", "bytes_c2s", "bytes_s2c"];
            let values = fields.map(|field| cell(of(name, field)));
            let who = provider(name).to_owned();
            let mut row = vec![label.clone(), who, pair[2].clone(), pair[3].clone()];
            row.extend(values);
            table_rows.push(row);
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
        id: "tls",
        title: "TLS handshakes".into(),
        words: format!(
            "What one full TLS 1.3 handshake of OpenSSL's libssl costs each side: with OpenSSL alone and \
             with Gabion as a provider, nothing else changed; the core patch is another way from OpenSSL's \
             code to Gabion's.{best}"
        ),
        body: charts.map(|chart| chart.render()).concat()
            + &table("All figures", &head, &table_rows),
    })
}

fn engine(rows: &[&Value]) -> Option<Section> {
    rows.first()?;
    let is_beside = rows.iter().any(|row| row["openssl_ops_per_s"].is_f64());
    let mut body = String::new();
    for (title, key, operations) in [
        ("ML-KEM, key already expanded", "ML-KEM-", ["encaps", "decaps"]),
        ("ML-DSA, key already expanded", "ML-DSA-", ["sign", "verify"]),
    ] {
        let title = format!("{title}: operations a second, one core");
        let series = ["one at a time", "64 at a time", provider("default")];
        let mut chart = Chart::new(&title, if is_beside { &series } else { &series[..2] });
        for name in distinct(rows, &["algorithm"]).concat() {
            if !name.starts_with(key) {
                continue;
            }
            for operation in operations {
                let of = |batch: &str| {
                    let wanted = [("algorithm", &*name), ("operation", operation)];
                    let wanted =
                        [&wanted[..], &[("key", "cached"), ("threads", "1"), ("batch", batch)]]
                            .concat();
                    find(rows, &wanted)
                };
                let (Some(one), many) = (of("1"), of("64")) else { continue };
                let rate = |row: &Value| row["ops_per_s"].as_f64();
                let mut bars = vec![rate(one), many.and_then(rate)];
                if is_beside {
                    bars.push(one["openssl_ops_per_s"].as_f64());
                }
                chart.group(format!("{name} {operation}"), bars);
            }
        }
        body.push_str(&chart.render());
    }
    let fields = ["algorithm", "operation", "key", "backend", "batch", "threads"];
    let table_rows: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            let mut cells: Vec<String> = fields.iter().map(|field| text(row, field)).collect();
            cells.push(cell(row["core_cycles_per_op"].as_f64()));
            cells.push(cell(row["ns_per_op"]["p50"].as_f64()));
            cells.push(cell(row["ops_per_s"].as_f64()));
            if is_beside {
                cells.push(cell(row["openssl_ops_per_s"].as_f64()));
            }
            cells
        })
        .collect();
    let mut head = [&fields[..], &["cycles", "ns, median", "operations/s"]].concat();
    head.extend(is_beside.then_some("OpenSSL alone, operations/s"));
    Some(Section {
        id: "engine",
        title: "The engine alone".into(),
        words: "What the operations cost without OpenSSL around them, one by one and in batches, \
                which fill the lanes of wide registers."
            .into(),
        body: body + &table("Every algorithm", &head, &table_rows),
    })
}

fn wire(rows: &[&Value]) -> Option<Section> {
    rows.first()?;
    let mut old = Chart::new(
        "Bytes of a connection: today, and the row of 2022 that it followed",
        &["today", "2022"],
    );
    let mut today = Chart::new("Bytes of a connection, the server proves who it is", &["bytes"]);
    let mut table_rows = Vec::new();
    for row in rows {
        let total = row["total"].as_f64();
        if row["table"] == "seed" {
            old.group(today_and_old(row), vec![total, row["old_total"].as_f64()]);
        } else if row["mode"] == "server" {
            let label = format!("{} + {}", text(row, "key_exchange"), text(row, "authentication"));
            today.group(label, vec![total]);
        }
        let names = ["authentication", "key_exchange", "mode", "status"];
        let mut cells: Vec<String> = names.iter().map(|field| text(row, field)).collect();
        for field in ["total", "predicted", "bytes_c2s", "bytes_s2c"] {
            cells.push(cell(row[field].as_f64()));
        }
        cells.extend(["old_authentication", "old_key_exchange"].map(|field| text(row, field)));
        cells.push(cell(row["old_total"].as_f64()));
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

/// Today's names of a row, and behind them those of 2022.
fn today_and_old(row: &Value) -> String {
    let pair = |one: &str, other: &str| format!("{} + {}", text(row, one), text(row, other));
    let old = pair("old_key_exchange", "old_authentication");
    match row["authentication"].is_null() || row["key_exchange"].is_null() {
        true => format!("nothing followed ({old})"),
        false => format!("{} ({old})", pair("key_exchange", "authentication")),
    }
}

fn memory(rows: &[&Value]) -> Option<Section> {
    rows.first()?;
    let providers = distinct(rows, &["provider"]).concat();
    let names: Vec<&str> = providers.iter().map(String::as_str).collect();
    let mut chart =
        of_providers("Heap of the server's side of a connection at most, bytes", &names);
    for pair in distinct(rows, &["key_exchange", "authentication"]) {
        let of = |provider: &str| {
            let wanted = [
                ("key_exchange", &*pair[0]),
                ("authentication", &*pair[1]),
                ("provider", provider),
            ];
            find(rows, &wanted).and_then(|row| row["server"]["connection"]["heap_peak"].as_f64())
        };
        let values: Vec<Option<f64>> = names.iter().map(|name| of(name)).collect();
        if values.iter().any(Option::is_some) {
            chart.group(format!("{} + {}", pair[0], pair[1]), values);
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
            "Heap and stack of one connection, from SSL_new to SSL_free, each side in a process \
                of its own. The figures of 2022 are wolfSSL's, a library made for small machines."
                .into(),
        body: chart.render() + &table("All rows", &head, &memory_cells(rows)),
    })
}

/// A line for each side of a row.
fn memory_cells(rows: &[&Value]) -> Vec<Vec<String>> {
    let mut table_rows = Vec::new();
    for row in rows {
        for side in ["server", "client"] {
            let usage = &row[side];
            let counts = |part: &Value| {
                ["allocations", "heap_total", "heap_peak", "stack"].map(|f| cell(part[f].as_f64()))
            };
            let names = ["authentication", "key_exchange"].map(|field| text(row, field));
            let mut cells = [&names[..], &[provider_of(row), text(row, "status")]].concat();
            cells.push(side.to_owned());
            cells.extend(counts(&usage["connection"]));
            cells.push(cell(usage["process"]["heap_peak"].as_f64()));
            cells.extend(["old_authentication", "old_key_exchange"].map(|field| text(row, field)));
            cells.extend(counts(&usage["old"]));
            table_rows.push(cells);
        }
    }
    table_rows
}

fn tls_seed(rows: &[&Value]) -> Option<Section> {
    rows.first()?;
    let providers = distinct(rows, &["provider"]).concat();
    let names: Vec<&str> = providers.iter().map(String::as_str).collect();
    let mut chart =
        of_providers("Both sides' CPU of a handshake, milliseconds (less is better)", &names);
    for pair in distinct(rows, &["old_group", "group"]) {
        let of = |provider: &str| {
            let row = find(rows, &[("old_group", &*pair[0]), ("provider", provider)])?;
            let of = |side: &str| row[side]["connect_avg_ms"].as_f64();
            Some(of("server")? + of("client")?)
        };
        let values: Vec<Option<f64>> = names.iter().map(|name| of(name)).collect();
        if values.iter().any(Option::is_some) {
            chart.group(format!("{} ({})", pair[1], pair[0]), values);
        }
    }
    let mut table_rows = Vec::new();
    for row in rows {
        for (side, old) in [("server", "old_server"), ("client", "old_client")] {
            let means = |part: &Value| {
                ["connect_avg_ms", "rx_mb_s", "tx_mb_s"].map(|f| cell(part[f].as_f64()))
            };
            let names = ["group", "sig"].map(|field| text(row, field));
            let mut cells = [&names[..], &[provider_of(row), text(row, "status")]].concat();
            cells.push(side.to_owned());
            cells.push(cell(row["connections"].as_f64()));
            cells.extend(means(&row[side]));
            for field in ["last_byte_50k_ms", "last_byte_50k_elapsed_ms"] {
                cells.push(cell(row[field].as_f64()));
            }
            cells.push(text(row, "old_group"));
            cells.extend(means(&row[old]));
            table_rows.push(cells);
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
        body: chart.render() + &table("All rows", &head, &table_rows),
    })
}

/// Whose code an operation was.
fn served_by(row: &Value) -> String {
    match row["served_by"].as_str() {
        Some("default") => "OpenSSL".to_owned(),
        Some("gabion") => "Gabion".to_owned(),
        _ => text(row, "served_by"),
    }
}

/// The status of a row of what the provider does not have.
const NOT_SERVED: &str = "not-served";

fn openssl(rows: &[&Value]) -> Option<Section> {
    rows.first()?;
    let (mut table_rows, mut ratio_rows) = (Vec::new(), Vec::new());
    for row in rows {
        for result in row["results"].as_array().into_iter().flatten() {
            let mut cells = vec![text(result, "algorithm"), provider_of(result), served_by(result)];
            if result["status"] == NOT_SERVED {
                cells[2] = NOT_SERVED.into();
            }
            for field in ["keygen", "encaps", "decaps", "sign", "verify"] {
                cells.push(cell(result[format!("{field}_per_s")].as_f64()));
            }
            table_rows.push(cells);
        }
        for ratio in row["ratios"].as_array().into_iter().flatten() {
            let mut cells = vec![text(ratio, "slh_dsa"), text(ratio, "ml_dsa"), provider_of(ratio)];
            cells.extend(["keygen", "sign", "verify"].map(|f| cell(ratio[f].as_f64())));
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

fn pkeyutl(rows: &[&Value]) -> Option<Section> {
    rows.first()?;
    let mut table_rows = Vec::new();
    for result in rows.iter().flat_map(|row| row["results"].as_array().into_iter().flatten()) {
        if result["status"] == NOT_SERVED {
            let mut cells = vec![text(result, "algorithm"), provider_of(result), NOT_SERVED.into()];
            cells.resize(11, cell(None));
            table_rows.push(cells);
            continue;
        }
        for operation in ["sign", "verify", "process"] {
            let mut cells = vec![text(result, "algorithm"), provider_of(result), operation.into()];
            for field in ["mean_ms", "median_ms", "p95_ms", "p99_ms", "ops_per_s"] {
                cells.push(cell(result[operation][field].as_f64()));
            }
            for field in ["public_key_bytes", "private_key_bytes", "signature_bytes"] {
                cells.push(cell(result[field].as_f64()));
            }
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

fn size(rows: &[&Value]) -> Option<Section> {
    let module = rows.last()?;
    let mut chart =
        Chart::new("Bytes of the stripped module, by whose path names what", &["bytes"]);
    let mut table_rows = Vec::new();
    for part in module["parts"].as_array().into_iter().flatten() {
        chart.group(text(part, "family"), vec![part["bytes"].as_f64()]);
        let counts = ["symbols", "bytes", "without"].map(|field| cell(part[field].as_f64()));
        table_rows.push([&[text(part, "family")][..], &counts].concat());
    }
    let head = ["part", "symbols", "bytes", "the module without it"];
    let mut body = chart.render() + &table("All parts", &head, &table_rows);
    let builds: Vec<Vec<String>> = (module["builds"].as_array().into_iter().flatten())
        .map(|build| {
            let counts = ["stripped_bytes", "bytes"].map(|field| cell(build[field].as_f64()));
            [&[text(build, "without")][..], &counts].concat()
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
            cell(module["stripped_bytes"].as_f64()),
            if builds.is_empty() { "" } else { ", and the size of builds that leave one out" }
        ),
        body,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handshake_row(cpu: &str, cipher: &str, provider: &str, server_us: f64) -> Value {
        json!({
            "group": "X25519MLKEM768", "sig": "ML-DSA-65", "cipher": cipher, "threads": 1,
            "provider": provider, "server_us": server_us, "client_us": 1.0,
            "machine": { "cpu": cpu, "cores": 2, "features": ["avx2"], "kernel": "k", "compiler": "c" },
        })
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
        let parts = parts(&rows);
        let titles: Vec<&str> = parts.iter().map(|part| part.title.as_str()).collect();
        assert_eq!(titles, ["one, 2 cores, AVX2", "two, 2 cores, AVX2"]);
        assert_eq!(parts[0].words, "Measured with k, c; newer, c.");
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
                "client_us": { "default": 200.0, "gabion": 50.0 },
                "handshakes_per_cpu_s": { "default": 1.0, "gabion": 2.0 } },
            "engine": [{ "algorithm": "ML-KEM-768", "operation": "encaps", "key": "cached",
                "threads": 1, "batch": 1, "ns_per_op": { "p50": 1.0 }, "ops_per_s": 500.0,
                "openssl_ops_per_s": 77.0, "machine": { "cpu": "one", "cores": 2 } }],
        });
        let rows = of_run(&run).unwrap();
        let parts = parts(&rows);
        assert_eq!(parts.len(), 1);
        assert!(parts[0].words.ends_with("; Gabion 0.1.0 (0123abc), OpenSSL 3.5.7, 2026-11-25."));
        let ids: Vec<&str> = parts[0].sections.iter().map(|section| section.id).collect();
        assert_eq!(ids, ["tls", "engine"]);
        let body = |at: usize| &parts[0].sections[at].body;
        assert!(body(0).contains("G + S<") && body(0).contains("OpenSSL alone"), "{}", body(0));
        assert!(body(1).contains("</i>77<") && body(1).contains("OpenSSL alone"), "{}", body(1));
        assert!(of_run(&json!({ "engine": [] })).is_none());
    }

    #[test]
    fn what_took_turns_stands_together() {
        let row = |provider, server_us| handshake_row("one", "TLS_X", provider, server_us);
        let three = [row("default", 31.0), row("gabion", 32.0), row("offload", 33.0)];
        let two = [row("default", 21.0), row("gabion", 22.0)];
        let later = [row("default", 11.0), row("gabion", 12.0)];
        let chosen = |runs: &[&[Value]]| -> Vec<Value> {
            let rows = runs.concat();
            super::runs(&rows.iter().collect::<Vec<_>>()).into_iter().cloned().collect()
        };
        assert_eq!(chosen(&[&three, &two]), three);
        assert_eq!(chosen(&[&two, &three]), three);
        assert_eq!(chosen(&[&two, &later]), later);
    }

    #[test]
    fn what_names_no_machine_comes_last() {
        let size = json!({ "stripped_bytes": 5, "parts": [] });
        let rows = [size, handshake_row("one", "TLS_X", "default", 1.0), json!({ "unknown": 1 })];
        let parts = parts(&rows);
        assert_eq!(parts.len(), 2);
        assert_eq!(
            (&*parts[1].title, parts[1].sections[0].id),
            ("Results that name no machine", "size")
        );
    }

    #[test]
    fn labels_name_suites_and_threads() {
        let label = |cipher, threads| handshake("g", "s", cipher, threads);
        assert_eq!(label("TLS_CHACHA20_POLY1305_SHA256", "1"), "g + s, CHACHA20-POLY1305");
        assert_eq!(label("TLS_AES_128_CCM_8_SHA256", "24"), "g + s, AES-128-CCM-8, 24 threads");
        assert_eq!(label("other", "1"), "g + s, other");
    }
}
