//! `openssl speed`, algorithm by algorithm.

pub use gabion_rows::commands::{Ratio, SpeedRow as Row};

use super::{Openssl, Support, tenths};
use crate::Error;
use crate::Status;
use crate::tls::Provider;

/// The default algorithms; each SLH-DSA with the ML-DSA that it is compared with.
pub const ALGORITHMS: [&str; 7] = [
    "ML-KEM-768",
    "ML-KEM-1024",
    "ML-DSA-44",
    "ML-DSA-65",
    "ML-DSA-87",
    "SLH-DSA-SHAKE-128f",
    "SLH-DSA-SHAKE-256f",
];

/// Measures one algorithm: `seconds` for each operation, in `multi` processes if given. An
/// algorithm of the table that this OpenSSL with this provider lacks is a row without figures.
///
/// A process counts its CPU time. With `multi` the command counts elapsed time whatever it is told,
/// so on a busy machine such rows say how busy it is.
///
/// # Errors
/// `Usage` for a number out of range, `Failed` if no algorithm has this name, or it is neither a
/// KEM nor a signature algorithm of a provider.
pub fn measure(
    openssl: &Openssl,
    algorithm: &str,
    seconds: u32,
    multi: Option<u32>,
) -> Result<Row, Error> {
    check_range("--seconds", seconds, 3600)?;
    let mut arguments = vec!["-mr".to_owned(), "-seconds".to_owned(), seconds.to_string()];
    if let Some(multi) = multi {
        check_range("--multi", multi, 1024)?;
        arguments.extend(["-multi".to_owned(), multi.to_string()]);
    }
    let names = match openssl.look_up(algorithm)? {
        Support::Served { names, .. } => names,
        Support::NotServed(note) => {
            let status = Status::NotServed;
            return Ok(Row { status, note: Some(note), ..empty(algorithm, openssl.provider) });
        }
    };
    let (name, said) = run(openssl, &arguments, &names)?;
    let (kem, [keygen, second, third]) = read(&said).ok_or_else(|| {
        Error::Failed(format!(
            "`openssl speed {name}` gave no figures of a KEM or a signature algorithm; \
             `openssl list -kem-algorithms` and `-signature-algorithms` say what there is"
        ))
    })?;
    let of = |wanted: bool, value: f64| wanted.then(|| tenths(value));
    Ok(Row {
        keygen_per_s: Some(tenths(keygen)),
        sign_per_s: of(!kem, second),
        verify_per_s: of(!kem, third),
        encaps_per_s: of(kem, second),
        decaps_per_s: of(kem, third),
        ..empty(name, openssl.provider)
    })
}

/// Runs the command with the first of an algorithm's names that it knows: it knows only the first
/// name that its provider lists, and no listing tells which one. Returns this name and the output.
fn run<'n>(
    openssl: &Openssl,
    arguments: &[String],
    names: &'n [String],
) -> Result<(&'n str, String), Error> {
    let mut failure = Error::Failed("openssl speed was given no name".to_owned());
    for name in names {
        // A name in its place and not by -kem-algorithms, which measures RSA-15360, too.
        let words: Vec<_> = arguments.iter().chain([name]).map(Into::into).collect();
        match openssl.run("speed", &words) {
            Ok(output) => return Ok((name, super::text(output.stdout))),
            Err(Error::Failed(why)) if why.contains(UNKNOWN) => failure = Error::Failed(why),
            Err(error) => return Err(error),
        }
    }
    Err(failure)
}

/// The message of `openssl speed` for an unknown name.
const UNKNOWN: &str = "Unknown algorithm";

/// A row of a measured algorithm, without its figures.
fn empty(algorithm: &str, provider: Provider) -> Row {
    Row {
        algorithm: algorithm.to_owned(),
        provider,
        served_by: None,
        status: Status::Measured,
        note: None,
        keygen_per_s: None,
        sign_per_s: None,
        verify_per_s: None,
        encaps_per_s: None,
        decaps_per_s: None,
    }
}

fn check_range(option: &str, value: u32, most: u32) -> Result<(), Error> {
    if (1..=most).contains(&value) {
        return Ok(());
    }
    Err(Error::Usage(format!("{option} {value} is out of range; 1 to {most} is possible")))
}

/// Reads the line for machines, `+F9:INDEX:keygen:encaps:decaps` or
/// `+F10:INDEX:keygen:sign:verify`, in operations a second, and whether it is of a KEM. In several
/// processes the last such line is the sum.
fn read(said: &str) -> Option<(bool, [f64; 3])> {
    said.lines().rev().find_map(|line| {
        let (kem, rest) = match (line.strip_prefix("+F9:"), line.strip_prefix("+F10:")) {
            (Some(rest), _) => (true, rest),
            (_, Some(rest)) => (false, rest),
            _ => return None,
        };
        let values: Vec<f64> = rest.split(':').skip(1).filter_map(|v| v.parse().ok()).collect();
        let values: [f64; 3] = values.try_into().ok()?;
        values.iter().all(|value| *value > 0.0).then_some((kem, values))
    })
}

/// The ratios of every SLH-DSA row to ML-DSA of the same provider and category; none where that was not
/// measured, since a ratio across categories would compare two things at once.
pub fn ratios(rows: &[Row]) -> Vec<Ratio> {
    let slh = rows.iter().filter(|row| row.algorithm.to_ascii_uppercase().starts_with("SLH-DSA"));
    slh.filter_map(|slh| {
        let ml = partner(slh, rows)?;
        Some(Ratio {
            slh_dsa: slh.algorithm.clone(),
            ml_dsa: ml.algorithm.clone(),
            provider: slh.provider,
            keygen: hundredths(ml.keygen_per_s? / slh.keygen_per_s?),
            sign: hundredths(ml.sign_per_s? / slh.sign_per_s?),
            verify: hundredths(ml.verify_per_s? / slh.verify_per_s?),
        })
    })
    .collect()
}

/// The row of ML-DSA that a row of SLH-DSA is compared with: category 1 with 2, 3 with 3, 5 with 5.
fn partner<'r>(slh: &Row, rows: &'r [Row]) -> Option<&'r Row> {
    let same = match slh.algorithm.split('-').next_back() {
        Some(size) if size.starts_with("128") => "ML-DSA-44",
        Some(size) if size.starts_with("192") => "ML-DSA-65",
        _ => "ML-DSA-87",
    };
    rows.iter().find(|row| row.provider == slh.provider && row.algorithm.eq_ignore_ascii_case(same))
}

fn hundredths(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(algorithm: &str, figures: [f64; 3]) -> Row {
        Row {
            keygen_per_s: Some(figures[0]),
            sign_per_s: Some(figures[1]),
            verify_per_s: Some(figures[2]),
            ..empty(algorithm, Provider::Default)
        }
    }

    #[test]
    fn lines_for_machines_are_read() {
        let kem = read("+F9:13:31730.7:56353.1:36391.2\n").unwrap();
        assert_eq!(kem, (true, [31730.7, 56353.1, 36391.2]));
        let several = "Got: +F10:9:1.0:2.0:3.0 from 0\n+F10:9:10.0:20.0:30.0\n";
        assert_eq!(read(several).unwrap(), (false, [10.0, 20.0, 30.0]));
        for nothing in ["", "+F10:9:1.0:2.0\n", "+F9:1:0.0:1.0:1.0\n", "+F2:1:2:3:4:5\n"] {
            assert_eq!(read(nothing), None, "{nothing}");
        }
    }

    #[test]
    fn ratios_compare_with_the_same_category_only() {
        // The figures of a published run, of 16 processes: 102012.8 / 7360.8 = 13.86.
        let rows = [
            row("ML-DSA-44", [4000.0, 900.0, 200_000.0]),
            row("ml-dsa-87", [1000.0, 500.0, 102_012.8]),
            row("SLH-DSA-SHAKE-256f", [100.0, 5.0, 7360.8]),
            row("SLH-DSA-SHA2-128s", [10.0, 1.0, 1000.0]),
            row("SLH-DSA-SHA2-192s", [10.0, 1.0, 1000.0]),
        ];
        let ratios = ratios(&rows);
        assert_eq!(ratios.len(), 2);
        assert_eq!((ratios[0].verify, ratios[0].sign, ratios[0].keygen), (13.86, 100.0, 10.0));
        assert_eq!((ratios[1].ml_dsa.as_str(), ratios[1].verify), ("ML-DSA-44", 200.0));
    }

    #[test]
    fn the_usual_list_has_a_partner_for_every_slh_dsa() {
        let rows = ALGORITHMS.map(|name| row(name, [1.0; 3]));
        let pairs: Vec<_> =
            ratios(&rows).into_iter().map(|ratio| (ratio.slh_dsa, ratio.ml_dsa)).collect();
        let expected = [("SLH-DSA-SHAKE-128f", "ML-DSA-44"), ("SLH-DSA-SHAKE-256f", "ML-DSA-87")];
        assert_eq!(pairs, expected.map(|(slh, ml)| (slh.to_owned(), ml.to_owned())));
    }
}
