//! The rows as a table for people.

use std::fmt::Write;

use super::Row;

/// One line of the table.
struct Line {
    label: &'static str,
    value: fn(&Row) -> f64,
    digits: usize,
    /// Whether the providers' ratio says something.
    compared: bool,
}

const fn line(label: &'static str, digits: usize, value: fn(&Row) -> f64) -> Line {
    Line {
        label,
        value,
        digits,
        compared: false,
    }
}

const fn compared(label: &'static str, digits: usize, value: fn(&Row) -> f64) -> Line {
    Line {
        label,
        value,
        digits,
        compared: true,
    }
}

const LINES: &[Line] = &[
    compared("server CPU, us", 1, |row| row.server_us),
    line("  20th percentile", 1, |row| row.spread.server_us.p20),
    line("  80th percentile", 1, |row| row.spread.server_us.p80),
    compared("client CPU, us", 1, |row| row.client_us),
    line("  20th percentile", 1, |row| row.spread.client_us.p20),
    line("  80th percentile", 1, |row| row.spread.client_us.p80),
    compared("handshakes a CPU second", 0, |row| row.handshakes_per_cpu_s),
    line("bytes, client to server", 0, |row| row.bytes_c2s as f64),
    line("bytes, server to client", 0, |row| row.bytes_s2c as f64),
    line("handshakes counted", 0, |row| row.handshakes as f64),
];

/// Renders rows of one [`compare`](super::compare): a column for each provider, and with two or
/// more how the last one compares with the first. Empty for no rows.
pub fn render(rows: &[Row]) -> String {
    let (Some(first), Some(last)) = (rows.first(), rows.last()) else {
        return String::new();
    };
    let mut out = format!(
        "Full {} handshakes in memory: {}, certificates {}, {}\n\
         {}; {} {}, medians of {} slices\n\n",
        first.version,
        first.group,
        first.sig,
        first.cipher,
        first.openssl,
        first.threads,
        if first.threads == 1 {
            "thread"
        } else {
            "threads"
        },
        first.samples,
    );
    // Writing to a String cannot fail, so the results of `write!` carry nothing.
    let _ = write!(out, "{:<24}", "");
    rows.iter().for_each(|row| {
        let _ = write!(out, "{:>12}", row.provider.name());
    });
    out.push('\n');
    for line in LINES {
        let _ = write!(out, "{:<24}", line.label);
        for row in rows {
            let _ = write!(out, "{:>12.*}", line.digits, (line.value)(row));
        }
        if line.compared && rows.len() > 1 {
            let factor = (line.value)(last) / (line.value)(first);
            let _ = match factor >= 1.0 {
                true => write!(out, "  {factor:>6.2}x"),
                false => write!(out, "  {:>6.2}x less", 1.0 / factor),
            };
        }
        out.push('\n');
    }
    for (label, name) in [
        (
            "key exchange served by",
            (|row| &row.kem_provider) as fn(&Row) -> &String,
        ),
        ("signature served by", |row| &row.signature_provider),
    ] {
        let _ = write!(out, "{label:<24}");
        rows.iter().for_each(|row| {
            let _ = write!(out, "{:>12}", name(row));
        });
        out.push('\n');
    }
    out
}
