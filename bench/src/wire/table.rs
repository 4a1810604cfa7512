//! The rows as tables for people.

use std::fmt::Write;

use super::{Mode, Row, Table};
use crate::pairs;

/// Renders rows of one [`measure`](super::measure): the published table with old and new names,
/// then today's, a column for each signature. Empty for no rows.
pub fn render(rows: &[Row]) -> String {
    let Some(first) = rows.first() else {
        return String::new();
    };
    let mut out = format!(
        "TCP payload of a TLS 1.3 connection, in bytes: full handshake, {}, one\n\
         certificate a side (its root is not sent), one message and one close_notify each way, no\n\
         tickets. {}, provider {}.\n\
         `predicted` is base + key shares + certificates + CertificateVerify + 22 a record, with the\n\
         base of {}; every row agrees within 16 bytes.\n",
        first.cipher,
        first.openssl,
        first.provider.name(),
        bases(rows)
    );
    let of = |table: Table| rows.iter().filter(move |row| row.table == table);
    if of(Table::Seed).next().is_some() {
        push_seed(&mut out, of(Table::Seed));
    }
    for mode in [Mode::Server, Mode::Mutual] {
        let rows: Vec<&Row> =
            of(Table::Today).filter(|row| row.mode == mode && !is_draft(row)).collect();
        if !rows.is_empty() {
            push_today(&mut out, mode, &rows);
        }
    }
    let drafts: Vec<&Row> = of(Table::Today).filter(|row| is_draft(row)).collect();
    if !drafts.is_empty() {
        push_drafts(&mut out, &drafts);
    }
    out
}

/// Returns whether the row's signature has no settled codepoint in TLS.
fn is_draft(row: &Row) -> bool {
    row.authentication.as_deref().is_some_and(pairs::is_draft_in_tls)
}

/// `secp256r1 and RSA-2048: 512 (server), 600 (mutual)`.
fn bases(rows: &[Row]) -> String {
    let base = |mode: Mode| {
        let row = rows.iter().find(|row| row.mode == mode && row.figures.is_some())?;
        Some(format!("{} ({})", row.figures?.base, mode.name()))
    };
    let both: Vec<String> = [Mode::Server, Mode::Mutual].into_iter().filter_map(base).collect();
    format!("secp256r1 and RSA-2048, {}", both.join(" and "))
}

fn push_seed<'r>(out: &mut String, rows: impl Iterator<Item = &'r Row>) {
    // Writing to a String cannot fail, so the results of `write!` carry nothing.
    let _ = writeln!(
        out,
        "\n{:<17} {:<21} {:>6}   {:<12} {:<19} {:<7} {:>6} {:>10}",
        "authentication",
        "key establishment",
        "2022",
        "today",
        "today",
        "mode",
        "total",
        "predicted"
    );
    for row in rows {
        let figures = match row.figures {
            Some(figures) => format!("{:>6} {:>10}", figures.total, figures.predicted),
            None => row.status.name().to_owned(),
        };
        let _ = writeln!(
            out,
            "{:<17} {:<21} {:>6}   {:<12} {:<19} {:<7} {figures}",
            or_none(&row.old_authentication),
            or_none(&row.old_key_exchange),
            row.old_total.unwrap_or_default(),
            or_none(&row.authentication),
            or_none(&row.key_exchange),
            row.mode.name(),
        );
    }
}

fn or_none(name: &Option<String>) -> &str {
    name.as_deref().unwrap_or("-")
}

fn push_today(out: &mut String, mode: Mode, rows: &[&Row]) {
    let mut signatures: Vec<&str> = Vec::new();
    let mut groups: Vec<&str> = Vec::new();
    for row in rows {
        for (name, names) in
            [(&row.authentication, &mut signatures), (&row.key_exchange, &mut groups)]
        {
            match name.as_deref() {
                Some(name) if !names.contains(&name) => names.push(name),
                _ => {}
            }
        }
    }
    let _ = write!(out, "\n{:<20}", format!("{} authentication", mode.name()));
    for signature in &signatures {
        let _ = write!(out, " {signature:>12}");
    }
    out.push('\n');
    for group in groups {
        let _ = write!(out, "{group:<20}");
        for signature in &signatures {
            let row = rows.iter().find(|row| {
                (row.key_exchange.as_deref(), row.authentication.as_deref())
                    == (Some(group), Some(*signature))
            });
            let _ = write!(out, " {:>12}", total(row.copied()));
        }
        out.push('\n');
    }
}

/// A line for each signature, a column for each mode; all rows have one group.
fn push_drafts(out: &mut String, rows: &[&Row]) {
    let group = rows.first().and_then(|row| row.key_exchange.as_deref()).unwrap_or("-");
    let _ = writeln!(
        out,
        "\nwithout a settled codepoint, behind the provider's switch; {group}\n{:<20} {:>12} {:>12}",
        "authentication",
        Mode::Server.name(),
        Mode::Mutual.name()
    );
    for row in rows.iter().filter(|row| row.mode == Mode::Server) {
        let _ = write!(out, "{:<20}", or_none(&row.authentication));
        for mode in [Mode::Server, Mode::Mutual] {
            let of =
                |other: &&&Row| (&other.authentication, other.mode) == (&row.authentication, mode);
            let _ = write!(out, " {:>12}", total(rows.iter().find(of).copied()));
        }
        out.push('\n');
    }
}

/// A row's total, as a cell.
fn total(row: Option<&Row>) -> String {
    let figures = row.and_then(|row| row.figures);
    figures.map_or("not served".to_owned(), |figures| figures.total.to_string())
}
