//! `openssl pkeyutl` in a loop: a process for each signature, as a script signs.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Instant;

use gabion_engine::Kind;
pub use gabion_rows::commands::{PkeyutlRow as Row, Times};

use super::{Openssl, Support, in_table, tenths};
use crate::Error;
use crate::Status;

/// The default algorithms.
pub const ALGORITHMS: [&str; 2] = ["ML-DSA-87", "SLH-DSA-SHAKE-256f"];

/// Rejects names of algorithms that do not sign.
///
/// # Errors
/// `Usage`, with the names to use instead.
pub fn check_signs(algorithm: &str) -> Result<(), Error> {
    match in_table(algorithm).map(|row| row.kind) {
        None | Some(Kind::Signature) => Ok(()),
        Some(kind) => Err(Error::Usage(signs_nothing(algorithm, kind))),
    }
}

fn signs_nothing(algorithm: &str, kind: Kind) -> String {
    let what = if kind == Kind::Kem { "a KEM" } else { "a key exchange" };
    format!(
        "{algorithm} is {what}, and pkeyutl signs and verifies here; name a signature algorithm, such as \
         ML-DSA-65. `gabion bench openssl` measures KEMs"
    )
}

/// Measures one algorithm: `iterations` signatures and verifications of a message of `msg_bytes`,
/// in `folder`, which the caller removes. An algorithm of the table that this OpenSSL with this
/// provider lacks is a row without figures.
///
/// # Errors
/// `Usage` for a number out of range, `Failed` if no algorithm has this name, or its signatures do
/// not verify.
pub fn measure(
    openssl: &Openssl,
    algorithm: &str,
    (msg_bytes, iterations): (usize, usize),
    folder: &Path,
) -> Result<Row, Error> {
    if msg_bytes > 1 << 24 {
        let text = format!("--msg-bytes {msg_bytes} is out of range; 0 to 16777216 is possible");
        return Err(Error::Usage(text));
    }
    if !(1..=1_000_000).contains(&iterations) {
        let text = format!("--iterations {iterations} is out of range; 1 to 1000000 is possible");
        return Err(Error::Usage(text));
    }
    let mut row = Row {
        algorithm: algorithm.to_owned(),
        provider: openssl.provider,
        status: Status::Measured,
        note: None,
        msg_bytes,
        iterations,
        public_key_bytes: None,
        private_key_bytes: None,
        signature_bytes: None,
        sign: None,
        verify: None,
        process: None,
    };
    match openssl.look_up(algorithm)? {
        Support::Served { kem_only: true, .. } => {
            return Err(Error::Failed(signs_nothing(algorithm, Kind::Kem)));
        }
        Support::Served { names, .. } => {
            let main = in_table(algorithm).and(names.into_iter().next());
            row.algorithm = main.unwrap_or_else(|| algorithm.to_owned());
        }
        Support::NotServed(note) => {
            return Ok(Row { status: Status::NotServed, note: Some(note), ..row });
        }
    }
    time_all(openssl, &mut row, &Files { folder })?;
    Ok(row)
}

/// Makes a key, and fills in times and sizes.
fn time_all(openssl: &Openssl, row: &mut Row, files: &Files<'_>) -> Result<(), Error> {
    let message: Vec<u8> = (0..row.msg_bytes).map(|at| at as u8).collect();
    std::fs::write(files.path("message"), message)
        .map_err(|cause| Error::NotReady(format!("the message could not be written: {cause}")))?;
    openssl.run(
        "genpkey",
        &files.words(&["-algorithm", &row.algorithm, "-outform", "DER", "-out", "=key"]),
    )?;
    let public = ["-in", "=key", "-pubout", "-outform", "DER", "-out", "=public"];
    openssl.run("pkey", &files.words(&public))?;
    let sign = ["-sign", "-rawin", "-inkey", "=key", "-in", "=message", "-out", "=signature"];
    let verify = ["-verify", "-rawin", "-pubin", "-inkey", "=public", "-in", "=message"];
    let verify = [&verify[..], &["-sigfile", "=signature"]].concat();
    // In turns, so that what else the machine does meets all three.
    let mut taken = [const { Vec::new() }; 3];
    for _ in 0..row.iterations {
        taken[0].push(time(|| openssl.run("pkeyutl", &files.words(&sign)).map(drop))?);
        taken[1].push(time(|| openssl.run("pkeyutl", &files.words(&verify)).map(drop))?);
        taken[2].push(time(|| openssl.version().map(drop))?);
    }
    [row.sign, row.verify, row.process] = taken.map(|mut taken| Some(times(&mut taken)));
    row.public_key_bytes = Some(files.size("public")?);
    row.private_key_bytes = Some(files.size("key")?);
    row.signature_bytes = Some(files.size("signature")?);
    Ok(())
}

/// The files of one algorithm.
struct Files<'f> {
    folder: &'f Path,
}

impl Files<'_> {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Arguments; `=name` stands for the file of that name.
    fn words(&self, words: &[&str]) -> Vec<OsString> {
        let word = |word: &&str| match word.strip_prefix('=') {
            Some(name) => self.path(name).into_os_string(),
            None => OsString::from(*word),
        };
        words.iter().map(word).collect()
    }

    fn size(&self, name: &str) -> Result<usize, Error> {
        let path = self.path(name);
        match std::fs::metadata(&path) {
            Ok(found) if found.len() > 0 => Ok(found.len() as usize),
            _ => Err(Error::Failed(format!("openssl did not write {}", path.display()))),
        }
    }
}

/// Milliseconds that `work` takes.
fn time(work: impl FnOnce() -> Result<(), Error>) -> Result<f64, Error> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed().as_secs_f64() * 1e3)
}

/// Sums up times in milliseconds, of which there is one at least.
fn times(taken: &mut [f64]) -> Times {
    taken.sort_by(f64::total_cmp);
    let count = taken.len();
    let mean = taken.iter().sum::<f64>() / count as f64;
    // By nearest rank.
    let percentile = |percent: usize| taken[(count * percent).div_ceil(100).max(1) - 1];
    let thousandths = |value: f64| (value * 1e3).round() / 1e3;
    Times {
        mean_ms: thousandths(mean),
        median_ms: thousandths((taken[(count - 1) / 2] + taken[count / 2]) / 2.0),
        p95_ms: thousandths(percentile(95)),
        p99_ms: thousandths(percentile(99)),
        ops_per_s: tenths(1e3 / mean),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_summed_up_by_rank() {
        let mut taken: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        let sum = times(&mut taken);
        assert_eq!((sum.mean_ms, sum.median_ms), (50.5, 50.5));
        assert_eq!((sum.p95_ms, sum.p99_ms, sum.ops_per_s), (95.0, 99.0, 19.8));
        let one = times(&mut [4.0]);
        assert_eq!((one.median_ms, one.p99_ms, one.ops_per_s), (4.0, 4.0, 250.0));
    }
}
