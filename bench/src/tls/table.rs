//! The rows as a table for people.

use std::fmt::Write;

use super::names::DEFAULT;
use super::{Row, Stack};

/// One line of the table.
struct Line {
    label: &'static str,
    value: fn(&Row) -> f64,
    digits: usize,
    /// Whether the providers' ratio says something.
    compared: bool,
}

const fn line(label: &'static str, digits: usize, value: fn(&Row) -> f64) -> Line {
    Line { label, value, digits, compared: false }
}

const fn compared(label: &'static str, digits: usize, value: fn(&Row) -> f64) -> Line {
    Line { label, value, digits, compared: true }
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

/// Width of a label, of a value, and of what a value is compared with.
const WIDTHS: (usize, usize, usize) = (24, 12, 13);

/// Renders rows of one [`compare`](super::compare): a column for each provider, and next to every
/// provider but the first its ratio to that one. Empty for no rows.
pub fn render(rows: &[Row]) -> String {
    let Some(first) = rows.first() else {
        return String::new();
    };
    let plural = if first.threads == 1 { "" } else { "s" };
    let group = match first.groups.as_str() {
        DEFAULT => format!("libssl's own groups ({})", first.group),
        _ => first.group.clone(),
    };
    let mut out = format!(
        "Full {} handshakes in memory: {}, certificates {}, {}\n\
         {}; {} thread{plural}, medians of {} slices\n\n",
        first.version, group, first.sig, first.cipher, first.openssl, first.threads, first.samples,
    );
    push_line(&mut out, rows, "", |row| row.provider.name().into(), None);
    if rows.iter().any(|row| row.stack == Stack::Rustls) {
        push_line(&mut out, rows, "TLS of", |row| row.stack.name().into(), None);
    }
    for line in LINES {
        let value = |row: &Row| format!("{:.*}", line.digits, (line.value)(row));
        let factor = |row: &Row| factor((line.value)(row) / (line.value)(first));
        let compared: Option<&dyn Fn(&Row) -> String> = match line.compared {
            true => Some(&factor),
            false => None,
        };
        push_line(&mut out, rows, line.label, value, compared);
    }
    let kem = |row: &Row| row.kem_provider.clone();
    push_line(&mut out, rows, "key exchange served by", kem, None);
    let signature = |row: &Row| row.signature_provider.clone();
    push_line(&mut out, rows, "signature served by", signature, None);
    out
}

/// One line: the label, a value for each row, and what every row but the first is compared with.
fn push_line(
    out: &mut String,
    rows: &[Row],
    label: &str,
    value: impl Fn(&Row) -> String,
    compared: Option<&dyn Fn(&Row) -> String>,
) {
    let mut line = format!("{label:<0$}", WIDTHS.0);
    for (index, row) in rows.iter().enumerate() {
        let value = value(row);
        // The provider's description may be wider than the column.
        let gap = if value.len() < WIDTHS.1 { "" } else { "  " };
        // Writing to a String cannot fail, so the results of `write!` carry nothing.
        let _ = write!(line, "{gap}{value:>0$}", WIDTHS.1);
        if index > 0 {
            let text = compared.map(|compared| compared(row)).unwrap_or_default();
            let _ = write!(line, "  {text:<0$}", WIDTHS.2 - 2);
        }
    }
    out.push_str(line.trim_end());
    out.push('\n');
}

/// A ratio in words: what is smaller is said to be so many times less.
fn factor(ratio: f64) -> String {
    if ratio < 1.0 { format!("{:.2}x less", 1.0 / ratio) } else { format!("{ratio:.2}x") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_read_as_people_say_them() {
        assert_eq!(factor(0.25), "4.00x less");
        assert_eq!(factor(1.0), "1.00x");
        assert_eq!(factor(3.1), "3.10x");
    }
}
