//! The rates of the operations in OpenSSL's own code: `openssl speed`.

use std::time::Duration;

use crate::engine::Operation;

use gabion_cli::openssl::Openssl;

/// Operations a second of one core, CPU time.
#[derive(Clone, Debug, PartialEq)]
pub struct Stock(Vec<(&'static str, Operation, f64)>);

/// Measures ML-KEM-768 and ML-DSA-65, a second for each operation; less in a shorter run.
///
/// # Errors
/// A sentence, when the command fails or says something unexpected.
pub fn measure(openssl: &Openssl<'_>, seconds: f64) -> Result<Stock, String> {
    // The command takes whole seconds; its overhead is 10 s at most.
    let each = if seconds >= 10.0 { "2" } else { "1" };
    let arguments = ["speed", "-mr", "-seconds", each, "ML-KEM-768", "ML-DSA-65"];
    read(&openssl.run_stock(&arguments, Duration::from_secs(60))?)
}

impl Stock {
    /// Operations a second, where they were measured.
    pub fn ops_per_s(&self, algorithm: &str, operation: Operation) -> Option<f64> {
        self.0.iter().find(|row| (row.0, row.1) == (algorithm, operation)).map(|row| row.2)
    }
}

/// Reads the lines for machines: `+F9:INDEX:keygen:encaps:decaps`, `+F10:INDEX:keygen:sign:verify`,
/// all in operations a second.
fn read(said: &str) -> Result<Stock, String> {
    use Operation::{Decaps, Encaps, Keygen, Sign, Verify};
    let lines = [
        ("+F9:", "ML-KEM-768", [Keygen, Encaps, Decaps]),
        ("+F10:", "ML-DSA-65", [Keygen, Sign, Verify]),
    ];
    let mut all = Vec::new();
    for (prefix, algorithm, operations) in lines {
        let line = said.lines().find_map(|line| line.strip_prefix(prefix));
        let values: Option<Vec<f64>> = line
            .map(|line| line.split(':').skip(1).filter_map(|value| value.parse().ok()).collect());
        match values {
            Some(values) if values.len() == operations.len() => {
                all.extend(
                    operations.into_iter().zip(values).map(|(op, value)| (algorithm, op, value)),
                );
            }
            _ => return Err(format!("openssl speed said nothing about {algorithm}")),
        }
    }
    Ok(Stock(all))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_for_machines_are_read() {
        let stock = read("+F9:13:31730.7:56353.1:36391.2\n+F10:10:6046.9:1054.5:6026.7\n").unwrap();
        assert_eq!(stock.ops_per_s("ML-KEM-768", Operation::Encaps), Some(56353.1));
        assert_eq!(stock.ops_per_s("ML-DSA-65", Operation::Verify), Some(6026.7));
        assert_eq!(stock.ops_per_s("ML-DSA-44", Operation::Verify), None);
        assert!(read("+F9:13:31730.7:56353.1\n").is_err());
    }
}
