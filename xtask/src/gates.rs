//! `kms-gates NAME`: compares Criterion's figures of the key management service within a process,
//! by lanes, with gates; and writes bench/results/kms-criterion-NAME.csv, which has each figure
//! next to the previous file's.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// A backend of the engine, as the baseline of Criterion is called.
const LANES: [&str; 2] = ["engine", "portable"];

/// A figure: Criterion's group and name, and how many items one call is of.
struct Figure {
    name: &'static str,
    items: f64,
    /// Microseconds an item at most, by lanes.
    gates: [Option<f64>; 2],
}

/// The seed's gates: 20, 40 and 22 microseconds for an ordinary backend; its tighter ones of 18 and 35, and 15 for
/// batches, for a fast one.
const FIGURES: &[Figure] = &[
    Figure::gated("sign_bench/ed25519_sign_128B", 1.0, 18.0, 20.0),
    Figure::new("sign_bench/ml_dsa_65_sign_128B", 1.0),
    Figure::gated("verify_bench/ed25519_verify_128B", 1.0, 35.0, 40.0),
    Figure::new("verify_bench/ml_dsa_65_verify_128B", 1.0),
    Figure::new("batch_verify/ed25519_8", 8.0),
    Figure::gated("batch_verify/ed25519_32", 32.0, 15.0, 22.0),
    Figure::new("batch_verify/ed25519_64", 64.0),
    Figure::new("batch_verify/ml_dsa_65_8", 8.0),
    Figure::new("batch_verify/ml_dsa_65_32", 32.0),
    Figure::new("batch_verify/ml_dsa_65_64", 64.0),
    Figure::new("parallel_throughput/ed25519_sign_4x1000", 4000.0),
    Figure::new("parallel_throughput/ed25519_verify_4x1000", 4000.0),
    Figure::new("parallel_throughput/ed25519_sign_batch_4000", 4000.0),
    Figure::new("parallel_throughput/ed25519_verify_batch_4000", 4000.0),
    Figure::new("prehash/ed25519_sign_1MiB_pure", 1.0),
    Figure::new("prehash/ed25519_sign_1MiB_nonstandard_blake3", 1.0),
];

impl Figure {
    const fn new(name: &'static str, items: f64) -> Self {
        Figure { name, items, gates: [None; 2] }
    }

    const fn gated(name: &'static str, items: f64, fast: f64, ordinary: f64) -> Self {
        Figure { name, items, gates: [Some(fast), Some(ordinary)] }
    }
}

/// Prints the table, writes the file, and says whether every gate is met.
pub fn hold(root: &Path, criterion: &Path, name: &str) -> Result<bool, String> {
    let mut measured = Vec::new();
    for figure in FIGURES {
        let mut lanes = [0.0; 2];
        for (lane, us) in LANES.iter().zip(&mut lanes) {
            let path = criterion.join(figure.name).join(lane).join("estimates.json");
            *us = median(&path)? / 1e3 / figure.items;
        }
        measured.push(lanes);
    }
    let path = root.join(format!("bench/results/kms-criterion-{name}.csv"));
    let before = fs::read_to_string(&path).unwrap_or_default();
    let (table, is_met) = table(&measured);
    print!("{table}");
    let partial = path.with_extension("csv.new");
    fs::write(&partial, csv(&measured, &before))
        .and_then(|()| fs::rename(&partial, &path))
        .map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(is_met)
}

/// Nanoseconds of a call.
fn median(path: &Path) -> Result<f64, String> {
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = fs::read_to_string(path).map_err(|error| failed(&error))?;
    let estimates: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| failed(&error))?;
    let median = estimates["median"]["point_estimate"].as_f64();
    median.filter(|ns| *ns > 0.0).ok_or_else(|| failed(&"expected a median of more than 0"))
}

fn table(measured: &[[f64; 2]]) -> (String, bool) {
    let mut text = format!(
        "{:52} {:>12} {:>6} {:>12} {:>6} {:>9}\n",
        "us an item", "engine", "gate", "portable", "gate", "delta"
    );
    let mut is_met = true;
    for (figure, [engine, portable]) in FIGURES.iter().zip(measured) {
        let said = figure.gates.map(|gate| gate.map_or("-".to_owned(), |gate| gate.to_string()));
        let delta = (engine / portable - 1.0) * 100.0;
        let missed: Vec<&str> = LANES
            .iter()
            .zip([engine, portable])
            .zip(figure.gates)
            .filter(|((_, us), gate)| gate.is_some_and(|gate| **us > gate))
            .map(|((lane, _), _)| *lane)
            .collect();
        is_met &= missed.is_empty();
        let missed = if missed.is_empty() {
            String::new()
        } else {
            format!("  missed: {}", missed.join(", "))
        };
        let _ = writeln!(
            text,
            "{:52} {engine:>12.2} {:>6} {portable:>12.2} {:>6} {delta:>+8.1}%{missed}",
            figure.name, said[0], said[1]
        );
    }
    (text, is_met)
}

/// `bench,lane,us_per_item,before_us_per_item,delta_percent`, where nothing was measured before without the last two.
fn csv(measured: &[[f64; 2]], before: &str) -> String {
    let known = |bench: &str, lane: &str| {
        before.lines().find_map(|line| {
            let fields: Vec<&str> = line.split(',').collect();
            (fields.len() == 5 && fields[0] == bench && fields[1] == lane)
                .then(|| fields[2].parse::<f64>().ok())?
        })
    };
    let mut text = "bench,lane,us_per_item,before_us_per_item,delta_percent\n".to_owned();
    for (figure, lanes) in FIGURES.iter().zip(measured) {
        for (lane, us) in LANES.iter().zip(lanes) {
            let before = known(figure.name, lane);
            let delta =
                before.map(|before| format!("{before:.3},{:.1}", (us / before - 1.0) * 100.0));
            let delta = delta.unwrap_or_else(|| ",".to_owned());
            let _ = writeln!(text, "{},{lane},{us:.3},{delta}", figure.name);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_above_its_gate_misses_it_in_its_lane() {
        let mut measured = vec![[1.0, 2.0]; FIGURES.len()];
        let (text, is_met) = table(&measured);
        assert!(is_met && !text.contains("missed"), "{text}");
        // Of a fast backend less is asked to be above it.
        measured[0] = [19.0, 19.0];
        let (text, is_met) = table(&measured);
        let line = text.lines().nth(1).unwrap();
        assert!(!is_met && line.ends_with("missed: engine"), "{text}");
        measured[0] = [17.0, 21.0];
        let (text, is_met) = table(&measured);
        assert!(!is_met && text.lines().nth(1).unwrap().ends_with("missed: portable"), "{text}");
    }

    #[test]
    fn a_file_has_the_figures_of_the_one_before() {
        let first = csv(&vec![[10.0, 20.0]; FIGURES.len()], "");
        assert_eq!(first.lines().nth(1), Some("sign_bench/ed25519_sign_128B,engine,10.000,,"));
        let second = csv(&vec![[5.0, 30.0]; FIGURES.len()], &first);
        let lines: Vec<&str> = second.lines().skip(1).take(2).collect();
        assert_eq!(lines[0], "sign_bench/ed25519_sign_128B,engine,5.000,10.000,-50.0");
        assert_eq!(lines[1], "sign_bench/ed25519_sign_128B,portable,30.000,20.000,50.0");
    }
}
