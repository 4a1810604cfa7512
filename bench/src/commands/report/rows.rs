//! Selects rows for sections, and formats cells.

use gabion_rows::handshakes::Provider;
use serde::Serialize;

use super::chart::{Chart, number};

/// Distinct values, in the order in which they come.
pub fn distinct<T: PartialEq>(values: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut seen: Vec<T> = Vec::new();
    for value in values {
        if !seen.contains(&value) {
            seen.push(value);
        }
    }
    seen
}

/// Returns the last of the rows with equal keys: a later file corrects an earlier one.
pub fn latest<'r, R, K: PartialEq>(rows: &[&'r R], key: impl Fn(&'r R) -> K) -> Vec<&'r R> {
    let keys: Vec<K> = rows.iter().map(|row| key(row)).collect();
    let is_last = |at: &usize| !keys[at + 1..].contains(&keys[*at]);
    (0..rows.len()).filter(is_last).map(|at| rows[at]).collect()
}

/// Formats a number; a dash if it is missing.
pub fn cell(value: Option<f64>) -> String {
    value.filter(|value| !value.is_nan()).map_or("-".to_owned(), number)
}

/// A count, likewise.
pub fn count(value: Option<u64>) -> String {
    cell(value.map(|value| value as f64))
}

/// A text that may be missing.
pub fn text(value: Option<&str>) -> String {
    value.filter(|value| !value.is_empty()).unwrap_or("-").to_owned()
}

/// The word that a row has for one of several things.
pub fn word(value: &impl Serialize) -> String {
    let word = serde_json::to_value(value).ok();
    text(word.as_ref().and_then(serde_json::Value::as_str))
}

/// Returns the display name of a provider.
pub fn provider_name(provider: Provider) -> &'static str {
    match provider {
        Provider::Default => "OpenSSL alone",
        Provider::Gabion => "with Gabion",
        Provider::Offload => "with the core patch",
        Provider::AwsLcRs => "aws-lc-rs",
        Provider::Fips => "fips",
    }
}

/// A chart with a series for each of these providers.
pub fn of_providers(title: &str, providers: &[Provider]) -> Chart {
    let names: Vec<&str> = providers.iter().map(|provider| provider_name(*provider)).collect();
    Chart::new(title, &names)
}

/// Returns the label that distinguishes a handshake in its chart: group, signature, cipher and, if
/// there are several, threads.
pub fn handshake(group: &str, signature: &str, cipher: &str, threads: usize) -> String {
    if cipher.is_empty() {
        return format!("{group} + {signature}");
    }
    // Of TLS 1.3's names of suites the cipher is what tells them apart, not the hash.
    let short = cipher.trim_start_matches("TLS_");
    let short = short.rsplit_once("_SHA").map_or(short, |(cipher, _)| cipher);
    let threads = match threads {
        1 => String::new(),
        many => format!(", {many} threads"),
    };
    format!("{group} + {signature}, {}{threads}", short.replace('_', "-"))
}

/// Returns which handshake gains most, and how much; nothing where none was compared.
pub fn helps_most(gains: &[(f64, String)], who: &str) -> String {
    gains.iter().max_by(|a, b| a.0.total_cmp(&b.0)).map_or(String::new(), |(times, what)| {
        format!(" Where it helps most, {what}, {who} needs {times:.1} times less CPU.")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_name_suites_and_threads() {
        let label = |cipher, threads| handshake("g", "s", cipher, threads);
        assert_eq!(label("TLS_CHACHA20_POLY1305_SHA256", 1), "g + s, CHACHA20-POLY1305");
        assert_eq!(label("TLS_AES_128_CCM_8_SHA256", 24), "g + s, AES-128-CCM-8, 24 threads");
        assert_eq!(label("other", 1), "g + s, other");
        assert_eq!(label("", 1), "g + s");
    }
}
