//! What rows of results become: a section for each kind.

use serde_json::Value;

use super::chart::{Chart, number};
use super::page::{Section, table};

/// The kinds of results, by what only their rows have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Tls,
    TlsSeed,
    Engine,
    Wire,
    Memory,
    Openssl,
    Pkeyutl,
    Size,
}

fn kind(row: &Value) -> Option<Kind> {
    let has = |field: &str| row.get(field).is_some();
    if has("old_group") {
        Some(Kind::TlsSeed)
    } else if has("server_us") {
        Some(Kind::Tls)
    } else if has("ns_per_op") && !has("peer") && !has("floor_cycles") {
        Some(Kind::Engine)
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

/// The machines that the rows were measured on, in a sentence.
pub fn machine(rows: &[Value]) -> String {
    let mut names: Vec<String> = Vec::new();
    for machine in rows.iter().filter_map(|row| row.get("machine")) {
        let name = format!(
            "{}, {} cores, {}, {}",
            text(machine, "cpu"),
            machine["cores"],
            text(machine, "kernel"),
            text(machine, "compiler")
        );
        if !names.contains(&name) {
            names.push(name);
        }
    }
    match names.is_empty() {
        true => "The results do not say what they were measured on.".to_owned(),
        false => format!("Measured on {}.", names.join("; ")),
    }
}

/// Every section that the rows have something for.
pub fn all(rows: &[Value]) -> Vec<Section> {
    let of = |wanted: Kind| -> Vec<&Value> {
        rows.iter().filter(|row| kind(row) == Some(wanted)).collect()
    };
    [
        tls(&of(Kind::Tls)),
        engine(&of(Kind::Engine)),
        wire(&of(Kind::Wire)),
        memory(&of(Kind::Memory)),
        tls_seed(&of(Kind::TlsSeed)),
        openssl(&of(Kind::Openssl)),
        pkeyutl(&of(Kind::Pkeyutl)),
        size(&of(Kind::Size)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// A field as text; a dash where it is missing or null.
fn text(row: &Value, field: &str) -> String {
    match &row[field] {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn cell(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), number)
}

/// Distinct values of a few fields, in the order in which they come.
fn distinct(rows: &[&Value], fields: &[&str]) -> Vec<Vec<String>> {
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
fn find<'r>(rows: &[&'r Value], fields: &[(&str, &str)]) -> Option<&'r Value> {
    rows.iter().rfind(|row| fields.iter().all(|(field, value)| text(row, field) == *value)).copied()
}

fn tls(rows: &[&Value]) -> Option<Section> {
    rows.first()?;
    let providers = distinct(rows, &["provider"]).concat();
    let names: Vec<&str> = providers.iter().map(String::as_str).collect();
    let mut charts = [
        Chart::new("Server CPU of a full handshake, microseconds (less is better)", &names),
        Chart::new("Client CPU of a full handshake, microseconds (less is better)", &names),
    ];
    let mut table_rows = Vec::new();
    let mut gains: Vec<(f64, String)> = Vec::new();
    for pair in distinct(rows, &["group", "sig", "cipher", "threads"]) {
        let label = format!("{} + {}", pair[0], pair[1]);
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
            let mut row = vec![label.clone(), (*name).to_owned(), pair[2].clone(), pair[3].clone()];
            row.extend(values);
            table_rows.push(row);
        }
    }
    let best = gains.iter().max_by(|a, b| a.0.total_cmp(&b.0)).map_or(String::new(), |best| {
        format!(" Where it helps most, {}, a server needs {:.1} times less CPU.", best.1, best.0)
    });
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
            "What one full TLS 1.3 handshake of OpenSSL's libssl costs each side: with OpenSSL's \
             own code (default) and with Gabion as a provider, nothing else changed.{best}"
        ),
        body: charts.map(|chart| chart.render()).concat()
            + &table("All figures", &head, &table_rows),
    })
}

fn engine(rows: &[&Value]) -> Option<Section> {
    rows.first()?;
    let mut body = String::new();
    for (title, key, operations) in [
        ("ML-KEM, key already expanded", "ML-KEM-", ["encaps", "decaps"]),
        ("ML-DSA, key already expanded", "ML-DSA-", ["sign", "verify"]),
    ] {
        let title = format!("{title}: operations a second, one core");
        let mut chart = Chart::new(&title, &["one at a time", "64 at a time"]);
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
                    find(rows, &wanted).and_then(|row| row["ops_per_s"].as_f64())
                };
                if let (Some(one), many) = (of("1"), of("64")) {
                    chart.group(format!("{name} {operation}"), vec![Some(one), many]);
                }
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
            cells
        })
        .collect();
    let head = [&fields[..], &["cycles", "ns, median", "operations/s"]].concat();
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
    let mut old =
        Chart::new("Bytes of a connection: the rows of 2022 and what followed", &["2022", "today"]);
    let mut today = Chart::new("Bytes of a connection, the server proves who it is", &["bytes"]);
    let mut table_rows = Vec::new();
    for row in rows {
        let total = row["total"].as_f64();
        if row["table"] == "seed" {
            let label =
                format!("{} + {}", text(row, "old_authentication"), text(row, "old_key_exchange"));
            old.group(label, vec![row["old_total"].as_f64(), total]);
        } else if row["mode"] == "server" {
            let label = format!("{} + {}", text(row, "key_exchange"), text(row, "authentication"));
            today.group(label, vec![total]);
        }
        let names = [
            "old_authentication",
            "old_key_exchange",
            "authentication",
            "key_exchange",
            "mode",
            "status",
        ];
        let mut cells: Vec<String> = names.iter().map(|field| text(row, field)).collect();
        for field in ["old_total", "total", "predicted", "bytes_c2s", "bytes_s2c"] {
            cells.push(cell(row[field].as_f64()));
        }
        table_rows.push(cells);
    }
    let head = [
        "2022: authentication",
        "2022: key exchange",
        "authentication",
        "key exchange",
        "mode",
        "status",
        "2022",
        "total",
        "predicted",
        "to server",
        "to client",
    ];
    Some(Section {
        id: "wire",
        title: "Bytes on the wire".into(),
        words: "TCP payload of a full handshake with one message and one goodbye each way, one \
                certificate a side, no tickets. Each total agrees within 16 bytes with the sum of \
                key shares, certificates, signatures, records and a base. A bar that is missing: \
                nothing followed the algorithm, or the provider does not serve it."
            .into(),
        body: old.render() + &today.render() + &table("All rows", &head, &table_rows),
    })
}

fn memory(rows: &[&Value]) -> Option<Section> {
    rows.first()?;
    let providers = distinct(rows, &["provider"]).concat();
    let names: Vec<&str> = providers.iter().map(String::as_str).collect();
    let mut chart = Chart::new("Heap of the server's side of a connection at most, bytes", &names);
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
        "2022: authentication",
        "2022: key exchange",
        "authentication",
        "key exchange",
        "provider",
        "status",
        "side",
        "allocations",
        "heap total",
        "heap peak",
        "stack",
        "2022: allocations",
        "2022: heap total",
        "2022: heap peak",
        "2022: stack",
        "process peak",
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
            let mut cells: Vec<String> = [
                "old_authentication",
                "old_key_exchange",
                "authentication",
                "key_exchange",
                "provider",
                "status",
            ]
            .iter()
            .map(|field| text(row, field))
            .collect();
            cells.push(side.to_owned());
            for part in [&usage["connection"], &usage["old"]] {
                for field in ["allocations", "heap_total", "heap_peak", "stack"] {
                    cells.push(cell(part[field].as_f64()));
                }
            }
            cells.push(cell(usage["process"]["heap_peak"].as_f64()));
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
        Chart::new("Both sides' CPU of a handshake, milliseconds (less is better)", &names);
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
            let mut cells: Vec<String> = ["old_group", "group", "sig", "provider", "status"]
                .iter()
                .map(|f| text(row, f))
                .collect();
            cells.push(side.to_owned());
            cells.push(cell(row["connections"].as_f64()));
            for part in [&row[side], &row[old]] {
                for field in ["connect_avg_ms", "rx_mb_s", "tx_mb_s"] {
                    cells.push(cell(part[field].as_f64()));
                }
            }
            cells.push(cell(row["last_byte_50k_ms"].as_f64()));
            table_rows.push(cells);
        }
    }
    let head = [
        "2022: group",
        "group",
        "certificates",
        "provider",
        "status",
        "side",
        "connections",
        "connect, ms",
        "rx, MB/s",
        "tx, MB/s",
        "2022: connect, ms",
        "2022: rx",
        "2022: tx",
        "last byte of 50 KiB, ms",
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

fn openssl(rows: &[&Value]) -> Option<Section> {
    rows.first()?;
    let (mut table_rows, mut ratio_rows) = (Vec::new(), Vec::new());
    for row in rows {
        for result in row["results"].as_array().into_iter().flatten() {
            let mut cells: Vec<String> =
                ["algorithm", "provider", "served_by"].iter().map(|f| text(result, f)).collect();
            for field in ["keygen", "encaps", "decaps", "sign", "verify"] {
                cells.push(cell(result[format!("{field}_per_s")].as_f64()));
            }
            table_rows.push(cells);
        }
        for ratio in row["ratios"].as_array().into_iter().flatten() {
            let mut cells: Vec<String> =
                ["slh_dsa", "ml_dsa", "provider"].iter().map(|f| text(ratio, f)).collect();
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
        for operation in ["sign", "verify", "process"] {
            let mut cells =
                vec![text(result, "algorithm"), text(result, "provider"), operation.into()];
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
    Some(Section {
        id: "size",
        title: "Size".into(),
        words: format!(
            "{} bytes when stripped. No family can be left out of a build; given are the bytes of \
             the functions and tables whose path names it.",
            cell(module["stripped_bytes"].as_f64())
        ),
        body: chart.render() + &table("All parts", &head, &table_rows),
    })
}
