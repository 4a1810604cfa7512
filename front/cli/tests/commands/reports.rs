//! What the command line reports: tables, JSON, exit codes, help.

#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Stdio};

use crate::harness::{ALGORITHMS, Done, Work, bundle, runs_long_checks};
use serde_json::Value;

#[test]
fn the_table_of_algorithms_has_every_field() {
    let work = Work::new();
    let rows = work.gabion(&["algorithms", "--json"]).ok().json();
    let names: Vec<&str> =
        rows.as_array().unwrap().iter().map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(names, gabion_engine::Algorithm::all().map(|one| one.name()).collect::<Vec<_>>());
    assert!(ALGORITHMS.iter().all(|name| names.contains(name)));
    for row in rows.as_array().unwrap() {
        for field in [
            "/standard",
            "/kind",
            "/category",
            "/security_bits",
            "/oid",
            "/oid_name",
            "/tls/name",
            "/tls/codepoint",
            "/openssl",
            "/wolfssl",
            "/oqs",
            "/old/name",
            "/old/codepoint",
            "/old/oid",
            "/old/sizes",
            "/parameters_oid",
            "/parts",
            "/signature_length_varies",
            "/prehash_oid",
            "/sizes/public_key",
            "/sizes/private_key",
            "/sizes/seed",
            "/backend",
        ] {
            // What an algorithm lacks is null, whole groups of columns too.
            let group = field.rsplit_once('/').unwrap().0;
            let lacks_group = row.pointer(group).is_some_and(serde_json::Value::is_null);
            assert!(lacks_group || row.pointer(field).is_some(), "{} has no {field}", row["name"]);
        }
        let sizes = &row["sizes"];
        match row["kind"].as_str().unwrap() {
            "kem" => assert!(sizes["ciphertext"].is_u64() && sizes["shared_secret"].is_u64()),
            "signature" => assert!(sizes["signature"].is_u64()),
            "key-exchange" => assert!(sizes["shared_secret"].is_u64()),
            other => panic!("{other}"),
        }
    }
    assert_eq!(rows[1]["tls"]["codepoint"], 0x0201);
    assert_eq!(rows[4]["oid"], "2.16.840.1.101.3.4.3.18");
    let wide = work.gabion(&["algorithms", "--wide"]).ok().text();
    assert_eq!(wide.lines().count(), names.len() + 1);
    assert!(wide.contains("2.16.840.1.101.3.4.3.18") && wide.contains("FIPS 204"), "{wide}");
    let text = work.gabion(&["algorithms"]).ok().text();
    assert_eq!(text.lines().count(), names.len() + 1);
    let longest = text.lines().map(|line| line.chars().count()).max();
    assert!(longest <= Some(80), "{longest:?} columns");
    assert!(!text.contains('\x1b'), "colour in a pipe");
}

#[test]
fn old_names_are_listed_with_what_followed() {
    let work = Work::new();
    let rows = work.gabion(&["algorithms", "--old", "--json"]).ok().json();
    let of = |name: &str| {
        let mut rows = rows.as_array().unwrap().iter();
        rows.find(|row| row["name"] == name).unwrap().clone()
    };
    assert_eq!(of("DILITHIUM_LEVEL3")["successor"], "ML-DSA-65");
    assert_eq!(of("DILITHIUM_LEVEL3")["sizes"]["output"], 3293);
    assert!(of("DILITHIUM_LEVEL3")["sizes"]["shared_secret"].is_null());
    // Every column of what was published of the KEMs.
    for (name, dropped, published) in [
        ("KYBER_LEVEL1", "KYBER_90S_LEVEL1", [800, 1632, 768, 32]),
        ("KYBER_LEVEL3", "KYBER_90S_LEVEL3", [1184, 2400, 1088, 32]),
        ("KYBER_LEVEL5", "KYBER_90S_LEVEL5", [1568, 3168, 1568, 32]),
    ] {
        for name in [name, dropped] {
            let sizes = &of(name)["sizes"];
            let columns = ["public_key", "private_key", "output", "shared_secret"];
            assert_eq!(columns.map(|column| sizes[column].as_u64().unwrap()), published, "{name}");
        }
    }
    assert_eq!(of("P384_KYBER_LEVEL3")["codepoint"], 12092);
    assert!(of("KYBER_90S_LEVEL5")["successor"].is_null());
    let text = work.gabion(&["algorithms", "--old"]).ok().text();
    assert_eq!(text.lines().count(), rows.as_array().unwrap().len() + 1);
    assert!(text.lines().next().unwrap().contains("secret"), "{text}");
    let dropped = text.lines().find(|line| line.starts_with("KYBER_90S_LEVEL1")).unwrap();
    assert!(dropped.split_whitespace().any(|cell| cell == "32"), "{dropped}");
    assert!(dropped.trim_end().ends_with("nothing"), "{dropped}");
}

#[test]
fn a_backend_that_is_not_there_is_no_ready_environment() {
    let work = Work::new();
    let mut command = work.command(&["algorithms"]);
    let done = Done::of(command.env("GABION_BACKEND", "abacus").output().unwrap());
    done.fails(3).says("abacus").says("portable");
    work.gabion(&["bench", "engine", "--backend", "abacus"]).fails(2).says("portable");
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let work = Work::new();
    let mut command = work.command(&["algorithms", "--json"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let done = Done::of(child.wait_with_output().unwrap());
    assert!(done.err.is_empty(), "{done:?}");
}

#[test]
fn a_disk_that_is_full_is_said() {
    let work = Work::new();
    for arguments in
        [&["algorithms"][..], &["algorithms", "--json"], &["doctor"], &["bench", "size"]]
    {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let done = Done::of(work.command(arguments).stdout(full).output().unwrap());
        done.fails(3).says("cannot write to standard output");
    }
}

#[test]
fn engine_rows_have_their_fields() {
    let work = Work::new();
    let arguments = [
        "bench",
        "engine",
        "--filter",
        "ML-KEM-768:(en|de)caps:",
        "--seconds",
        "0.01",
        "--batch",
        "2",
        "--threads",
        "2",
        "--backend",
        "portable",
        "--json",
    ];
    let text = work.gabion(&arguments).ok().text();
    let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let names: Vec<String> = rows
        .iter()
        .map(|row| {
            let text = |name: &str| row[name].as_str().unwrap().to_owned();
            format!("{}:{}:{}", text("algorithm"), text("operation"), text("key"))
        })
        .collect();
    assert_eq!(
        names,
        ["encaps:fresh", "encaps:cached", "decaps:fresh", "decaps:cached"]
            .map(|rest| format!("ML-KEM-768:{rest}"))
    );
    for row in &rows {
        assert_eq!(
            (&row["backend"], &row["batch"], &row["threads"]),
            (&"portable".into(), &2.into(), &2.into())
        );
        assert!(row["ns_per_op"]["p50"].as_f64().unwrap() > 0.0);
        assert!(row["ns_per_op"]["p99"].as_f64() >= row["ns_per_op"]["p50"].as_f64());
        assert!(row["ops_per_s"].as_f64().unwrap() > 0.0);
        assert!(row["samples"].as_u64().unwrap() > 0);
        assert!(row["core_cycles_per_op"].is_f64() && row["machine"]["cpu"].is_string());
    }
    for bad in [
        &["--filter", "("][..],
        &["--filter", "nothing"],
        &["--seconds", "0"],
        &["--batch", "0"],
        &["--threads", "x"],
    ] {
        let done = work.gabion(&[&["bench", "engine"][..], bad].concat()).fails(2);
        assert!(done.out.is_empty());
    }
}

fn names_and_verdicts(report: &Value) -> Vec<(String, String)> {
    let text = |check: &Value, name: &str| check[name].as_str().unwrap().to_owned();
    let checks = report["checks"].as_array().unwrap();
    checks.iter().map(|check| (text(check, "name"), text(check, "verdict"))).collect()
}

#[test]
fn doctor_without_a_bundle_says_how_to_get_one() {
    let work = Work::new();
    let place = work.path("nothing");
    let doctor = |arguments: &[&str]| {
        let mut command = work.command(arguments);
        Done::of(command.env("GABION_OPENSSL_PREFIX", &place).output().unwrap())
    };
    let report = doctor(&["doctor", "--json"]).ok().json();
    let all = names_and_verdicts(&report);
    assert!(all.contains(&("OpenSSL bundle".to_owned(), "off".to_owned())), "{all:?}");
    assert!(all.contains(&("backend portable".to_owned(), "ok".to_owned())), "{all:?}");
    let text = doctor(&["doctor"]).ok().text();
    let mend = "mend it: unset GABION_OPENSSL_PREFIX, or gabion bundle build --prefix ";
    assert!(text.contains(mend) && !text.contains('\x1b'), "{text}");
    // A folder that is there and no bundle is broken.
    std::fs::create_dir(&place).unwrap();
    let report = doctor(&["doctor", "--json"]);
    assert_eq!(report.code, Some(1));
    assert_eq!(report.json()["verdict"], "broken");
}

#[test]
fn doctor_says_why_there_is_no_gpu() {
    let work = Work::new();
    let doctor = |arguments: &[&str], variables: &[(&str, &str)]| {
        let mut command = work.command(arguments);
        command.env("GABION_OPENSSL_PREFIX", work.path("nothing")).envs(variables.iter().copied());
        Done::of(command.output().unwrap())
    };
    let off = ("GABION_GPU", "off");
    let report = doctor(&["doctor", "--json"], &[off]).ok().json();
    assert!(names_and_verdicts(&report).contains(&("GPU".to_owned(), "off".to_owned())));
    assert_eq!(report["gpus"], serde_json::json!([]));
    doctor(&["doctor", "--measure-gpu"], &[off]).fails(3).says("GABION_GPU");
    let report = doctor(&["doctor", "--json"], &[off, ("GABION_BACKEND", "cuda")]);
    assert_eq!(report.code, Some(1));
    let checks = report.json()["checks"].clone();
    let gpu = checks.as_array().unwrap().iter().find(|check| check["name"] == "GPU").unwrap();
    assert_eq!((&gpu["verdict"], &gpu["mend"]), (&"broken".into(), &"unset GABION_BACKEND".into()));
    assert!(
        gpu["detail"].as_str().unwrap().starts_with("GABION_BACKEND=cuda: GABION_GPU"),
        "{gpu}"
    );
    assert!(!checks.to_string().contains("backend choice"), "{checks}");
    // Whatever this machine has, each operation says why there is none.
    doctor(&["algorithms"], &[off, ("GABION_BACKEND", "cuda")]).fails(3).says("backend `cuda`");
}

/// Building the bundle again would mend nothing where a variable is the cause.
#[test]
fn doctor_names_the_variable_that_is_the_cause() {
    let Some(prefix) = bundle() else { return };
    let work = Work::new();
    let doctor = |name: &str, value: &str| {
        let mut command = work.command(&["doctor"]);
        command.env("GABION_OPENSSL_PREFIX", &prefix).env(name, value);
        Done::of(command.output().unwrap())
    };
    for (name, mend) in [
        ("TMPDIR", "set TMPDIR"),
        ("GABION_OPENSSL_CONF", "unset GABION_OPENSSL_CONF"),
        ("GABION_OPENSSL_FIPS_MODE", "set that variable"),
    ] {
        let text = doctor(name, "/nonexistent").text();
        assert!(text.contains(&format!("mend it: {mend}")), "{name}: {text}");
        assert!(!text.contains("bundle build --repair"), "{name}: {text}");
        assert!(text.lines().all(|line| line.len() < 260), "{name}: {text}");
    }
    let mut command = work.command(&["doctor"]);
    let done =
        Done::of(command.env_remove("HOME").env_remove("GABION_OPENSSL_PREFIX").output().unwrap());
    assert!(done.text().contains("mend it: set HOME, or GABION_OPENSSL_PREFIX"), "{done:?}");
    // The last words of preflight are no second advice beside the first.
    let mut command = work.command(&["preflight"]);
    command.env("GABION_OPENSSL_PREFIX", "/nonexistent");
    let done = Done::of(command.output().unwrap());
    assert!(done.err.contains("gabion bundle build") && !done.err.contains("--repair"), "{done:?}");
}

#[test]
fn doctor_warns_of_an_old_bundle() {
    let work = Work::new();
    for part in [
        "bin/openssl",
        "lib/libcrypto.so",
        "lib/libssl.so",
        "lib/ossl-modules/fips.so",
        "ssl/fipsmodule.cnf",
    ] {
        std::fs::create_dir_all(work.path(part).parent().unwrap()).unwrap();
        work.write(part, b"");
    }
    let manifest = |version: &str| {
        serde_json::json!({
            "version": version, "source_sha256": "", "options": [], "built": "2026-01-01T00:00:00Z",
            "fips_module_sha256": "", "gabion_version": "0.1.0",
        })
    };
    let bundle = |version: &str| {
        work.write("gabion-bundle.json", manifest(version).to_string());
        let mut command = work.command(&["doctor", "--json"]);
        let done = Done::of(command.env("GABION_OPENSSL_PREFIX", work.folder()).output().unwrap());
        let report = done.json();
        let checks = report["checks"].as_array().unwrap();
        checks.iter().find(|check| check["name"] == "OpenSSL bundle").unwrap().clone()
    };
    let old = bundle("3.5.4");
    assert_eq!(old["verdict"], "ok");
    let warning = old["warning"].as_str().unwrap();
    assert!(warning.contains("OpenSSL 3.5.4 is not 3.5."), "{old}");
    assert!(warning.contains("CVE-2026-45447"), "{old}");
    assert_eq!(old["mend"], "gabion bundle build");
    let of_another_line = bundle("3.6.3");
    let mend = of_another_line["mend"].as_str().unwrap();
    assert!(mend.starts_with("gabion bundle build --openssl 3.6."), "{of_another_line}");
    assert!(bundle("3.5.99")["warning"].is_null());
    assert!(bundle("3.99.0")["warning"].as_str().unwrap().contains("nothing is known"));
    std::fs::remove_file(work.path("lib/libssl.so")).unwrap();
    assert_eq!(bundle("3.99.0")["verdict"], "broken");
}

#[test]
fn doctor_finds_who_serves_and_reads_counters() {
    let Some(prefix) = bundle().filter(|prefix| prefix.join("lib/ossl-modules/gabion.so").exists())
    else {
        return;
    };
    let work = Work::new();
    let done = work.gabion(&["doctor", "--json"]);
    let report = done.json();
    let served: BTreeSet<String> = report["checks"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|check| check["served_by"] == "gabion")
        .map(|check| check["name"].as_str().unwrap().to_owned())
        .collect();
    for name in [
        "ML-KEM-768 keygen",
        "ML-KEM-768 encaps",
        "ML-KEM-768 decaps",
        "ML-DSA-65 keygen",
        "ML-DSA-65 sign",
        "ML-DSA-65 verify",
    ] {
        assert!(served.contains(name), "{name}: {report:#}");
    }
    assert_eq!(report["fips"]["validated"], false);
    let mut command = Command::new(prefix.join("bin/openssl"));
    command
        .args(["genpkey", "-algorithm", "ML-DSA-44", "-out"])
        .arg(work.path("key"))
        .env("OPENSSL_CONF", prefix.join("ssl/openssl-gabion.cnf"))
        .env("GABION_STATS", work.path("stats"));
    Done::of(command.output().unwrap()).ok();
    let counted = work.gabion(&["doctor", "--stats", "stats", "--json"]).ok().json();
    let keygen = |row: &&Value| row["algorithm"] == "ML-DSA-44" && row["operation"] == "keygen";
    let row = counted["counters"].as_array().unwrap().iter().find(keygen).unwrap();
    assert_eq!((&row["calls"], &row["errors"]), (&1.into(), &0.into()));
    let text = work.gabion(&["doctor", "--stats", "stats"]).ok().text();
    assert!(text.contains("ML-DSA-44  keygen"), "{text}");
    work.gabion(&["doctor", "--stats", "none"]).fails(2).says("none");
}

/// The path of a file of bench/results, and its rows.
fn results(name: &str) -> (String, Vec<Value>) {
    let path = format!("{}/../../bench/results/{name}.ndjson", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap();
    (path, text.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

/// The cells of the rows of a page's section, as text.
fn cells(page: &str, section: &str) -> Vec<Vec<String>> {
    let (_, section) = page.split_once(&format!("<section id=\"{section}\">")).unwrap();
    let (section, _) = section.split_once("</section>").unwrap();
    let text = |cell: &str| cell.split_once('>').unwrap().1.split('<').next().unwrap().to_owned();
    section
        .split("<tr>")
        .map(|row| row.split("<td").skip(1).map(text).collect())
        .filter(|row: &Vec<String>| !row.is_empty())
        .collect()
}

fn digits(cell: &str) -> f64 {
    cell.replace('\u{202f}', "").parse().unwrap_or_else(|_| panic!("{cell} is no number"))
}

#[test]
fn a_report_holds_the_engine_against_other_libraries() {
    let work = Work::new();
    let (engine, ours) = results("engine-epyc-zen4");
    let (peers, theirs) = results("peers-epyc-zen4");
    let done =
        work.gabion(&["report", "--out", "page.html", &peers, &engine]).ok().says("2 sections");
    assert!(!done.err.contains("nothing that a report shows"), "{done:?}");
    let page = String::from_utf8(work.read("page.html")).unwrap();
    // Other libraries had one of the machine's cores: it is one machine all the same.
    assert_eq!(page.matches("<h2>").count(), 1);
    let rows: Vec<_> = cells(&page, "peers").into_iter().filter(|row| row.len() == 9).collect();
    let alone: Vec<&Value> = ours.iter().filter(|row| row["batch"] == 1).collect();
    assert_eq!(rows.len(), alone.len());
    for (row, cells) in alone.into_iter().zip(&rows) {
        let fields = ["algorithm", "operation", "key"];
        assert!(fields.iter().zip(cells).all(|(field, cell)| row[*field] == **cell), "{cells:?}");
        // A known key may be taken as a fresh one, not the other way round.
        let same = |peer: &&Value| {
            let key = row["key"] == "cached" || peer["key"] == row["key"];
            key && fields[..2].iter().all(|field| peer[*field] == row[*field])
        };
        let cycles = |row: &Value| row["core_cycles_per_op"].as_f64().unwrap();
        let best = theirs.iter().filter(same).map(cycles).min_by(f64::total_cmp);
        let Some(best) = best else { continue };
        assert!((digits(&cells[6]) - best).abs() <= 0.5, "{cells:?}: {best}");
        assert!((digits(&cells[7]) - best / cycles(row)).abs() <= 0.0051, "{cells:?}");
    }
    let family = &cells(&page, "peers")[0];
    assert_eq!((&*family[0], family.len()), ("ML-KEM", 5));
    // Without the engine's there is nothing to hold them against, which it says.
    work.gabion(&["report", "--out", "alone.html", &peers]).ok().says("1 section in");
    let alone = String::from_utf8(work.read("alone.html")).unwrap();
    assert!(alone.contains("rows of `gabion bench engine`"));
}

#[test]
fn a_report_shows_servers_threads_and_switches() {
    let work = Work::new();
    let (nginx, served) = results("nginx-epyc-zen4");
    let (threads, counted) = results("threads-epyc-zen4");
    let (switches, switched) = results("switches-epyc-zen4");
    let arguments = ["report", "--out", "page.html", &nginx, &threads, &switches];
    let done = work.gabion(&arguments).ok().says("3 sections");
    assert!(!done.err.contains("nothing that a report shows"), "{done:?}");
    let page = String::from_utf8(work.read("page.html")).unwrap();
    // The rows of nginx and of the multiplier name no machine in full; the files around them do.
    assert_eq!((page.matches("<h2>").count(), page.contains("name no machine")), (1, false));
    assert!(page.contains("nginx 1.22.1: CPU of a worker for a new connection"));
    assert!(page.contains("a worker needs 4.3 times less CPU"), "1278.2 / 298.7");
    let rows = cells(&page, "servers");
    assert_eq!(rows.len(), served.len());
    for (row, cells) in served.iter().zip(&rows) {
        let provider = match row["provider"].as_str().unwrap() {
            "stock" => "OpenSSL alone",
            _ => "with Gabion",
        };
        assert_eq!((&row["server"], provider), (&(*cells[0]).into(), &*cells[4]));
        assert!(
            (digits(&cells[5]) - row["worker_us_per_connection"].as_f64().unwrap()).abs() < 0.6
        );
        assert_eq!(digits(&cells[8]), row["connections_per_s"].as_f64().unwrap());
    }
    let rows = cells(&page, "threads");
    assert_eq!(rows.len() * 2, counted.len());
    for (pair, cells) in counted.chunks(2).zip(&rows) {
        let [one, two] = [0, 1].map(|at| pair[at]["ops_per_s"].as_f64().unwrap());
        assert!((digits(&cells[5]) - two / one).abs() <= 0.0051, "{cells:?}");
    }
    let rows = cells(&page, "switches");
    assert_eq!(rows.len(), switched.len());
    for (row, cells) in switched.iter().zip(&rows) {
        assert_eq!(row["switch"], *cells[0]);
        for (field, cell) in ["p50_ratio", "cpu_ratio", "rate_ratio"].iter().zip(&cells[2..]) {
            assert!((digits(cell) - row[*field].as_f64().unwrap()).abs() <= 0.00051, "{cells:?}");
        }
    }
    // Servers of two machines that go by one name stay apart by the names of their files.
    let (other, _) = results("nginx-epyc-zen3");
    work.gabion(&["report", "--out", "two.html", &nginx, &other]).ok().says("2 sections");
    let two = String::from_utf8(work.read("two.html")).unwrap();
    assert!(two.contains("<h2>AMD EPYC (epyc-zen4)</h2>") && two.contains("(epyc-zen3)</h2>"));
}

#[test]
fn run_writes_what_it_shows_and_leaves_nothing_running() {
    if bundle().is_none_or(|prefix| !prefix.join("lib/ossl-modules/gabion.so").exists()) {
        return;
    }
    let work = Work::new();
    let text = work.gabion(&["run", "--seconds", "0.2"]).ok().text();
    for word in [
        "TLSv1.3",
        "X25519MLKEM768 (by gabion)",
        "ML-DSA-65 (signature by gabion)",
        "server CPU",
        "out/run.json",
    ] {
        assert!(text.contains(word), "{word}: {text}");
    }
    let report: Value = serde_json::from_slice(&work.read("out/run.json")).unwrap();
    let keys = |value: &Value| {
        let mut keys: Vec<String> = value.as_object().unwrap().keys().cloned().collect();
        keys.sort_unstable();
        keys
    };
    assert_eq!(keys(&report), ["commit", "date", "engine", "gabion", "openssl", "tls"]);
    assert_eq!(
        keys(&report["tls"]),
        [
            "cipher",
            "client_us",
            "group",
            "handshakes_per_cpu_s",
            "kem_provider",
            "server_us",
            "signature",
            "signature_provider",
            "version"
        ]
    );
    assert_eq!(report["tls"]["kem_provider"], "gabion");
    assert_eq!(report["tls"]["signature_provider"], "gabion");
    for field in ["handshakes_per_cpu_s", "server_us", "client_us"] {
        for provider in ["default", "gabion"] {
            assert!(report["tls"][field][provider].as_f64().unwrap() > 0.0, "{field} {provider}");
        }
    }
    assert_eq!(report["engine"].as_array().unwrap().len(), 12);
    // No server of ours: they run in a temporary folder, which is gone by now.
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let folder = std::fs::read_link(entry.path().join("cwd")).unwrap_or_default();
        let folder = folder.to_string_lossy();
        assert!(!(folder.contains("/gabion-") && folder.ends_with(" (deleted)")), "{folder}");
    }
}

#[test]
fn an_interrupted_run_cleans_up() {
    if bundle().is_none_or(|prefix| !prefix.join("lib/ossl-modules/gabion.so").exists()) {
        return;
    }
    let work = Work::new();
    let mut command = work.command(&["run", "--seconds", "20"]);
    std::fs::create_dir(work.path("tmp")).unwrap();
    command.env("TMPDIR", work.path("tmp")).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let inside = || std::fs::read_dir(work.path("tmp")).unwrap().flatten().next();
    // Its first command writes there, and by then the handler is set.
    let is_busy = || inside().is_some_and(|folder| folder.path().join("command.out").exists());
    let start = std::time::Instant::now();
    while !is_busy() && start.elapsed().as_secs() < 20 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert!(is_busy());
    Command::new("kill").arg("-INT").arg(child.id().to_string()).status().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(inside().is_none(), "its folder is still there");
}

#[test]
fn run_without_a_bundle_is_not_ready() {
    let work = Work::new();
    let mut command = work.command(&["run"]);
    command.env("GABION_OPENSSL_PREFIX", work.path("nothing"));
    Done::of(command.output().unwrap()).fails(3).says("gabion bundle build");
    assert!(!work.has("out"));
    if bundle().is_some() {
        let mut command = work.command(&["run"]);
        command.env("GABION_OPENSSL_FIPS_MODE", "only");
        Done::of(command.output().unwrap()).fails(3).says("no FIPS module");
    }
}

#[test]
fn run_refuses_an_output_that_cannot_be_before_it_measures() {
    if bundle().is_none_or(|prefix| !prefix.join("lib/ossl-modules/gabion.so").exists()) {
        return;
    }
    let work = Work::new();
    std::fs::write(work.path("file"), "theirs").unwrap();
    std::fs::create_dir(work.path("folder")).unwrap();
    for (out, problem) in [("folder", "is a folder"), ("file/run.json", "cannot make")] {
        let done = work.gabion(&["run", "--seconds", "0.2", "--out", out]).fails(2).says(problem);
        assert_eq!(done.text(), "", "nothing was begun");
    }
    assert_eq!(work.read("file"), b"theirs");
}

/// Every command, found as a user finds them: by the help of the one above.
fn commands(work: &Work, above: &[String]) -> Vec<Vec<String>> {
    let mut arguments = above.to_vec();
    arguments.push("--help".to_owned());
    let help = work.gabion(&arguments).ok().text();
    let mut all = vec![above.to_vec()];
    let Some((_, list)) = help.split_once("\nCommands:\n") else {
        return all;
    };
    let below = list
        .lines()
        .take_while(|line| !line.is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help");
    for name in below {
        all.extend(commands(work, &[above, &[name.to_owned()]].concat()));
    }
    all
}

/// The lines of a help text's first example.
fn example(help: &str) -> String {
    let (_, after) = help.split_once("Example").unwrap_or_else(|| panic!("no example: {help}"));
    let (_, after) = after.split_once('\n').unwrap();
    after.lines().take_while(|line| line.starts_with("  ")).collect::<Vec<_>>().join("\n")
}

/// Rows of a set with its floor and the slowest signature, beside other libraries' of this processor and of no other.
#[test]
fn hash_based_signatures_are_measured_beside_peers() {
    let work = Work::new();
    let bench = ["bench", "hbs", "--filter", "^L3_H5_W2:", "--seconds", "0.001"];
    let table = work.gabion(&bench).ok().text();
    assert!(
        table.contains("max/med") && table.contains("L3_H5_W2               13496 keygen"),
        "{table}"
    );
    let peer = |cpu: &Value, cycles: f64| {
        serde_json::json!({ "algorithm": "HSS-L3_H5_W2", "operation": "sign", "key": "cached",
            "backend": "wolfssl-5.9.4", "batch": 1, "threads": 1,
            "ns_per_op": { "p50": 1.0, "p99": 1.0 }, "core_cycles_per_op": cycles,
            "ops_per_s": 1.0, "samples": 1, "machine": { "cpu": cpu }, "randomness": "drawn",
            "peer": { "name": "", "version": "", "license": "", "build": "" } })
    };
    let lines = |peers: &[Value]| -> Vec<Value> {
        let text: Vec<String> = peers.iter().map(Value::to_string).collect();
        work.write("peers", text.join("\n"));
        let json = [&bench[..], &["--peers", "peers", "--json"]].concat();
        let text = work.gabion(&json).ok().text();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let of_elsewhere = lines(&[peer(&"another".into(), 1.0)]);
    assert!(of_elsewhere.iter().all(|row| row["peer"].is_null() && row["ratio"].is_null()));
    let cpu = &of_elsewhere[0]["machine"]["cpu"];
    let rows = lines(&[peer(cpu, 1e12)]);
    let of = |operation: &str, batch: u64| {
        let is_it = |row: &&Value| row["operation"] == operation && row["batch"] == batch;
        rows.iter().find(is_it).unwrap()
    };
    for (operation, batch) in
        [("keygen", 1), ("sign", 1), ("sign", 64), ("verify", 1), ("verify", 64)]
    {
        let row = of(operation, batch);
        assert_eq!((&row["set"], &row["signature_bytes"]), (&"L3_H5_W2".into(), &13496.into()));
        let number = |name: &str| row[name].as_f64().unwrap_or(0.0) > 0.0;
        for name in ["core_cycles_per_op", "ops_per_s", "floor_cycles", "over_floor"] {
            assert!(number(name), "{operation} {batch}: {name} of {row}");
        }
        assert_eq!(number("max_over_median"), operation == "sign", "{row}");
        assert_eq!(number("ratio") && row["peer"] == "wolfssl-5.9.4", operation == "sign", "{row}");
    }
    work.write("peers", "{\"a\": 1}");
    let no_peers = [&bench[..], &["--peers", "peers"]].concat();
    work.gabion(&no_peers).fails(2).says("no rows of other libraries");
    work.gabion(&["bench", "hbs", "--filter", "L9"]).fails(2).says("L2_H10_W4:sign");
    work.gabion(&["bench", "hbs", "--seconds", "0"]).fails(2).says("more than 0");
}

/// Rows of a set with its state on a disk: syncs are counted, and what was made is gone.
#[test]
fn durable_signatures_are_measured_beside_memory_and_a_sync() {
    if !runs_long_checks("bench hbs --durable") {
        return;
    }
    let work = Work::new();
    fs::create_dir(work.path("disk")).unwrap();
    let bench = ["bench", "hbs", "--durable", "--folder", "disk", "--seconds", "0.005"];
    let bench = [&bench[..], &["--filter", "^L3_H5_W2:"]].concat();
    let table = work.gabion(&bench).ok().text();
    assert!(table.contains("fdatasync") && table.lines().count() == 2 + 5, "{table}");
    let text = work.gabion(&[&bench[..], &["--json"]].concat()).ok().text();
    let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of: Vec<_> =
        rows.iter().map(|row| (row["batch"].as_u64(), row["reserve"].as_u64())).collect();
    let wanted = [(1, 1), (1, 64), (64, 64), (1, 1024), (1024, 1024)];
    assert_eq!(of, wanted.map(|(batch, reserve)| (Some(batch), Some(reserve))));
    for row in &rows {
        assert_eq!((&row["set"], &row["operation"]), (&"L3_H5_W2".into(), &"sign".into()));
        assert_eq!((&row["signature_bytes"], &row["threads"]), (&13496.into(), &1.into()));
        let number = |name: &str| row[name].as_f64().unwrap();
        for name in
            ["us_per_op", "memory_us_per_op", "fdatasync_us", "over_expected", "over_memory"]
        {
            assert!(number(name) > 0.0, "{name} of {row}");
        }
        // State and anchor for each reservation; the log's next segment now and then.
        let (syncs, reserve) = (number("syncs_per_op"), number("reserve"));
        let least = 2.0 / reserve;
        assert!((least - 1e-5..least + 0.01).contains(&syncs), "{row}");
        // What is expected was measured, with syncs in it.
        assert!(number("expected_us_per_op") > syncs * number("fdatasync_us"), "{row}");
        let over = number("us_per_op") / number("expected_us_per_op");
        assert!((number("over_expected") / over - 1.0).abs() < 0.05, "{row}");
        assert!(row["signatures"].as_u64() >= row["reserve"].as_u64().map(|reserve| 5 * reserve));
        assert!(row["machine"]["cpu"].is_string() && row["date"].is_string(), "{row}");
    }
    assert_eq!(fs::read_dir(work.path("disk")).unwrap().count(), 0);
    let durable = ["bench", "hbs", "--durable"];
    work.gabion(&[&durable[..], &["--filter", "L1_H10"]].concat()).fails(2).says("L1_H15_W4:sign");
    work.gabion(&[&durable[..], &["--folder", "none"]].concat()).fails(2).says("takes no files");
    work.gabion(&["bench", "hbs", "--folder", "disk"]).fails(2).says("--durable");
}

#[test]
fn help_opens_with_a_sentence_and_an_example_that_works() {
    let work = Work::new();
    let all = commands(&work, &[]);
    assert!(all.len() >= 17, "{all:?}");
    let runs_benchmarks = runs_long_checks("the examples of bench");
    for command in all {
        let help = work.gabion(&[&command[..], &["--help".to_owned()]].concat()).ok().text();
        let before = help.split("\nUsage:").next().unwrap();
        assert!(before.contains("Example"), "{command:?} has its example too late:\n{help}");
        let script = example(&help);
        assert!(script.contains("gabion"), "{command:?}: {script}");
        // These need a bundle, or build one, or their verdict is one of time; `bench_tables.rs` runs its tables.
        let needs = ["bundle", "exec", "provider", "run", "preflight", "doctor", "tls"];
        let tables = ["wire", "memory", "size", "openssl", "pkeyutl", "switches"];
        let is_named = |name: &String| needs.iter().chain(&tables).any(|named| named == name);
        let is_benchmark = command.iter().any(|name| name == "bench");
        if command.iter().any(is_named) || (is_benchmark && !runs_benchmarks) {
            continue;
        }
        let place = Work::new();
        let program = std::path::Path::new(env!("CARGO_BIN_EXE_gabion")).parent().unwrap();
        let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
        let mut shell = Command::new("sh");
        shell.args(["-e", "-c", &script.replace("--seconds 10", "--seconds 1")]);
        shell.env("PATH", path).current_dir(place.folder());
        shell.env("XDG_STATE_HOME", place.state_home());
        #[cfg(feature = "kms")]
        let _service = match &command[..] {
            // They serve until they are asked to end, or need a store in a file: `kms.rs` runs them.
            [kms] if kms == "kms" => continue,
            [kms, verb]
                if kms == "kms"
                    && [
                        "dev",
                        "serve",
                        "init",
                        "unseal",
                        "recover-admin",
                        "reseal",
                        "share",
                        "backup",
                        "restore",
                    ]
                    .contains(&verb.as_str()) =>
            {
                continue;
            }
            // So does a share; `kms_holders.rs` opens some.
            [kms, share, verb] if kms == "kms" && share == "share" && verb == "open" => continue,
            // In memory there is nothing to archive; `kms_audit.rs` does.
            [kms, audit, verb] if kms == "kms" && audit == "audit" && verb == "archive" => continue,
            [kms, ..] if kms == "kms" => Some(crate::kms::for_examples(&place, &mut shell)),
            _ => None,
        };
        Done::of(shell.output().unwrap()).ok();
    }
    work.gabion(&["no-such-command"]).fails(2);
    work.gabion(&["keygen", "--no-such-option"]).fails(2);
}
