//! From slices to a row.

use std::collections::BTreeMap;

use super::slice::Slice;
use super::{Plan, Probe, Row, RowSpread, Spread};
use crate::Error;
use crate::machine::Machine;

/// Sums a provider's slices up.
///
/// # Errors
/// `Failed` when a slice took no CPU time, which only a broken clock can tell.
pub(super) fn row(
    probe: &Probe,
    plan: &Plan,
    slices: &[Slice],
    machine: Machine,
    openssl: &str,
) -> Result<Row, Error> {
    if slices.iter().any(|slice| slice.loop_ns == 0 || slice.handshakes == 0) {
        return Err(Error::Failed(
            "a slice shows no CPU time; this system's CLOCK_THREAD_CPUTIME_ID is not usable".into(),
        ));
    }
    let of = |value: &dyn Fn(&Slice) -> f64| -> Vec<f64> {
        let mut values: Vec<f64> = slices.iter().map(value).collect();
        values.sort_by(f64::total_cmp);
        values
    };
    let per_s = of(&|slice| slice.handshakes as f64 * 1e9 / slice.loop_ns as f64);
    let server = of(&|slice| slice.server_ns as f64 / 1e3 / slice.handshakes as f64);
    let client = of(&|slice| slice.client_ns as f64 / 1e3 / slice.handshakes as f64);
    let mut total = Slice::default();
    slices.iter().for_each(|slice| total.merge(slice));
    Ok(Row {
        group: probe.group.clone(),
        sig: plan.signature.name.into(),
        provider: probe.provider,
        cipher: probe.cipher.clone(),
        threads: plan.threads,
        handshakes: total.handshakes,
        handshakes_per_cpu_s: tenths(median(&per_s)),
        server_us: tenths(median(&server)),
        client_us: tenths(median(&client)),
        bytes_c2s: middle(&total.bytes_c2s),
        bytes_s2c: middle(&total.bytes_s2c),
        samples: slices.len(),
        machine,
        version: probe.version.clone(),
        signature_scheme: probe.signature_scheme.clone(),
        kem_provider: probe.kem_provider.clone(),
        signature_provider: probe.signature_provider.clone(),
        openssl: openssl.into(),
        spread: RowSpread {
            handshakes_per_cpu_s: spread(&per_s),
            server_us: spread(&server),
            client_us: spread(&client),
        },
        groups: plan.group.name.into(),
        stack: probe.stack,
    })
}

/// Tenths of a microsecond are already below what a slice can tell.
fn tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

/// Median of sorted values; the mean of the two middle ones for an even count.
pub(super) fn median(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => sorted[half],
        _ => (sorted[half - 1] + sorted[half]) / 2.0,
    }
}

/// A percentile by nearest rank of sorted values.
pub(super) fn percentile(sorted: &[f64], percent: usize) -> f64 {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied().unwrap_or(f64::NAN)
}

fn spread(sorted: &[f64]) -> Spread {
    Spread { p20: tenths(percentile(sorted, 20)), p80: tenths(percentile(sorted, 80)) }
}

/// Median of a histogram; 0 for an empty one.
fn middle(histogram: &BTreeMap<u64, u64>) -> u64 {
    let half = histogram.values().sum::<u64>().div_ceil(2);
    let mut seen = 0;
    for (value, count) in histogram {
        seen += count;
        if seen >= half {
            return *value;
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_percentiles() {
        assert_eq!(median(&[1.0, 2.0, 9.0]), 2.0);
        assert_eq!(median(&[1.0, 2.0, 3.0, 9.0]), 2.5);
        let ten: Vec<f64> = (1..=10).map(f64::from).collect();
        assert_eq!(spread(&ten), Spread { p20: 2.0, p80: 8.0 });
    }

    #[test]
    fn the_middle_of_a_histogram() {
        assert_eq!(middle(&BTreeMap::from([(699, 2), (700, 5), (701, 2)])), 700);
        assert_eq!(middle(&BTreeMap::from([(1489, 1)])), 1489);
        assert_eq!(middle(&BTreeMap::new()), 0);
    }
}
