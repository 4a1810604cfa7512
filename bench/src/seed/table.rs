//! The rows as a table for people.

use std::fmt::Write;

use super::{OldSide, Row, SideFigures};

/// Renders rows of one [`measure`](super::measure): two lines for each, the server's and the
/// client's. Empty for no rows.
pub fn render(rows: &[Row]) -> String {
    let Some(first) = rows.first() else {
        return String::new();
    };
    let mut out = format!(
        "TLS 1.3 connections in memory: {}, certificates {}; {}\n\
         CPU time of each side; `last byte` is both sides' to the end of 50 KiB, and `elapsed` what a\n\
         client waits for it over the loopback, in ms; hs/s are handshakes a second of elapsed time by\n\
         so many threads. 2022: another machine, elapsed time.\n\n",
        first.cipher, first.sig, first.openssl
    );
    // Writing to a String cannot fail, so the results of `write!` carry nothing.
    let _ = writeln!(
        out,
        "{:<21} {:<19} {:<8} {:<6} {:>7} {:>10} {:>8} {:>8} {:>9} {:>7}   2022: {:>5} {:>7} {:>8} {:>8}   \
         hs/s",
        "old group",
        "group",
        "prov.",
        "side",
        "conns",
        "connect ms",
        "rx MB/s",
        "tx MB/s",
        "last byte",
        "elapsed",
        "conns",
        "connect",
        "rx MB/s",
        "tx MB/s"
    );
    for row in rows {
        push_row(&mut out, row);
    }
    out
}

fn push_row(out: &mut String, row: &Row) {
    let head = format!(
        "{:<21} {:<19} {:<8}",
        row.old_group,
        row.group.as_deref().unwrap_or("-"),
        row.provider.name()
    );
    let Some(figures) = &row.figures else {
        let _ = writeln!(out, "{head} {}", row.status.name());
        return;
    };
    let side = |name: &str, now: &SideFigures, old: &OldSide| {
        format!(
            "{head} {name:<6} {:>7} {:>10.3} {:>8.1} {:>8.1} {:>9.3} {:>7.3} {:>13} {:>7.3} {:>8.1} {:>8.1}",
            figures.connections,
            now.connect_avg_ms,
            now.rx_mb_s,
            now.tx_mb_s,
            figures.last_byte_50k_ms,
            figures.last_byte_50k_elapsed_ms,
            old.connections,
            old.connect_avg_ms,
            old.rx_mb_s,
            old.tx_mb_s
        )
    };
    let counts: Vec<String> = figures
        .threads
        .iter()
        .map(|entry| format!("{}: {:.0}", entry.threads, entry.handshakes_per_s))
        .collect();
    let server = side("server", &figures.server, &row.old_server);
    let _ = writeln!(out, "{server}   {}", counts.join(", "));
    let _ = writeln!(out, "{}", side("client", &figures.client, &row.old_client));
}
