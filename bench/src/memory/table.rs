//! The rows as a table for people.

use std::fmt::Write;

use super::{Row, Side, Usage};
use crate::wire::Table;

/// Renders rows of one [`measure`](super::measure): two lines for each, the server's and the
/// client's. Empty for no rows.
pub fn render(rows: &[Row]) -> String {
    let Some(first) = rows.first() else {
        return String::new();
    };
    let mut out = format!(
        "Memory of one TLS 1.3 connection, in bytes: full handshake, {}, the server proves who\n\
         it is with one certificate, one message each way. {}.\n\
         One connection: the second of a process, from SSL_new to SSL_free. Process peak: from\n\
         before libcrypto was loaded. Blocks count by the size that malloc gave them.\n",
        first.cipher, first.openssl,
    );
    for (table, title) in [(Table::Seed, "The rows of 2022"), (Table::Today, "Today's rows")] {
        let rows: Vec<&Row> = rows.iter().filter(|row| row.table == table).collect();
        if !rows.is_empty() {
            push_table(&mut out, table, title, &rows);
        }
    }
    out
}

fn push_table(out: &mut String, table: Table, title: &str, rows: &[&Row]) {
    let old = table == Table::Seed;
    // Writing to a String cannot fail, so the results of `write!` carry nothing.
    let _ = writeln!(out, "\n{title}");
    if old {
        let _ = write!(out, "{:<16} {:<21}   ", "2022: auth.", "2022: key exchange");
    }
    let _ = write!(
        out,
        "{:<13} {:<19} {:<8} {:<6} {:>7} {:>8} {:>8} {:>7} {:>9}",
        "auth.", "key exchange", "prov.", "side", "allocs", "total", "peak", "stack", "process"
    );
    if old {
        let _ = write!(out, "   2022: {:>6} {:>8} {:>8} {:>7}", "allocs", "total", "peak", "stack");
    }
    out.push('\n');
    for row in rows {
        for (name, side) in [("server", &row.server), ("client", &row.client)] {
            push_side(out, row, name, side.as_ref(), old);
        }
    }
    let mut notes: Vec<String> = Vec::new();
    for row in rows.iter().filter(|row| row.server.is_some()) {
        notes.extend(row.note.as_ref().map(|note| format!("{}: {note}.\n", names(row).0)));
    }
    notes.dedup();
    out.extend(notes);
}

/// The published names of a row.
fn names(row: &Row) -> (&str, &str) {
    (or_none(&row.old_authentication), or_none(&row.old_key_exchange))
}

fn or_none(name: &Option<String>) -> &str {
    name.as_deref().unwrap_or("-")
}

fn push_side(out: &mut String, row: &Row, name: &str, side: Option<&Side>, old: bool) {
    // One line says for both sides why there are no figures.
    if side.is_none() && name != "server" {
        return;
    }
    if old {
        let (authentication, key_exchange) = names(row);
        let _ = write!(out, "{authentication:<16} {key_exchange:<21}   ");
    }
    let _ = write!(
        out,
        "{:<13} {:<19} {:<8} {name:<6}",
        or_none(&row.authentication),
        or_none(&row.key_exchange),
        row.provider.name()
    );
    let Some(side) = side else {
        let _ = writeln!(out, " {}", row.status.name());
        return;
    };
    let figures = |usage: &Usage| {
        let stack = usage.stack.unwrap_or_default();
        format!(
            "{:>7} {:>8} {:>8} {stack:>7}",
            usage.allocations, usage.heap_total, usage.heap_peak
        )
    };
    let _ = write!(out, " {} {:>9}", figures(&side.connection), side.process.heap_peak);
    if let (true, Some(usage)) = (old, &side.old) {
        let _ = write!(out, "        {}", figures(usage));
    }
    out.push('\n');
}
