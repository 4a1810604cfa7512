//! `gabion report`, as a script sees it.

use gabion_cli_testing::Work;
use serde_json::Value;

/// The path of a file of bench/results, and its rows.
fn results(name: &str) -> (String, Vec<Value>) {
    let path = format!("{}/results/{name}.ndjson", env!("CARGO_MANIFEST_DIR"));
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
        work.bench(&["report", "--out", "page.html", &peers, &engine]).ok().says("2 sections");
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
    work.bench(&["report", "--out", "alone.html", &peers]).ok().says("1 section in");
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
    let done = work.bench(&arguments).ok().says("3 sections");
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
    work.bench(&["report", "--out", "two.html", &nginx, &other]).ok().says("2 sections");
    let two = String::from_utf8(work.read("two.html")).unwrap();
    assert!(two.contains("<h2>AMD EPYC (epyc-zen4)</h2>") && two.contains("(epyc-zen3)</h2>"));
}
