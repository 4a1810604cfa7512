//! Reports as metrics, in the text format of Prometheus.

use std::fmt;

use gabion_probe::report::Report;
use gabion_probe::time::parse_rfc3339;

/// The samples of each metric. A metric's samples have to follow one another, so they are kept
/// until the last report.
#[derive(Debug, Default)]
pub struct Metrics {
    samples: [String; METRICS.len()],
}

/// Names and descriptions.
const METRICS: [(&str, &str); 7] = [
    ("gabion_probe_success", "Whether a handshake was completed."),
    ("gabion_probe_post_quantum", "Whether the key exchange is post-quantum."),
    ("gabion_probe_authentication_post_quantum", "Whether the authentication is post-quantum."),
    ("gabion_probe_certificate_verified", "Whether the certificate verified with --ca."),
    (
        "gabion_probe_certificate_not_after_seconds",
        "The last second of the server certificate's validity, as a Unix time.",
    ),
    ("gabion_probe_duration_seconds", "The duration of the probe."),
    ("gabion_probe_info", "What was negotiated."),
];

impl Metrics {
    /// Adds a report.
    pub fn add(&mut self, report: &Report) {
        let protocol = match report.starttls {
            Some(starttls) => starttls.as_str(),
            None if report.protocol == gabion_probe::target::Protocol::Ssh => "ssh",
            None => "tls",
        };
        let target = [("target", report.target.as_str()), ("protocol", protocol)];
        let truth = |is_true: bool| if is_true { "1" } else { "0" }.to_owned();
        let not_after = report.chain.first().and_then(|leaf| parse_rfc3339(&leaf.not_after));
        let values = [
            Some(truth(report.key_exchange.is_some())),
            Some(truth(report.post_quantum)),
            report.authentication.as_ref().map(|verdict| truth(verdict.post_quantum)),
            report.verified.map(truth),
            not_after.map(|seconds| seconds.to_string()),
            Some(format!("{:.3}", report.duration_ms as f64 / 1e3)),
        ];
        for ((samples, (name, _)), value) in self.samples.iter_mut().zip(METRICS).zip(values) {
            if let Some(value) = value {
                samples.push_str(&format!("{name}{} {value}\n", labels(&target)));
            }
        }
        let text = |value: &'_ Option<String>| value.clone().unwrap_or_default();
        let key = report.chain.first().map(|leaf| leaf.key.clone()).unwrap_or_default();
        let [version, group, signature, program] =
            [&report.version, &report.group, &report.signature, &report.program].map(text);
        let info = [
            target[0],
            target[1],
            ("version", &version),
            ("group", &group),
            ("signature", &signature),
            ("key", &key),
            ("program", &program),
        ];
        let (name, _) = METRICS[METRICS.len() - 1];
        if let Some(samples) = self.samples.last_mut() {
            samples.push_str(&format!("{name}{} 1\n", labels(&info)));
        }
    }
}

impl fmt::Display for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (samples, (name, help)) in self.samples.iter().zip(METRICS) {
            if !samples.is_empty() {
                write!(f, "# HELP {name} {help}\n# TYPE {name} gauge\n{samples}")?;
            }
        }
        Ok(())
    }
}

/// Formats labels. Backslashes, quotes and ends of lines in values are escaped.
fn labels(labels: &[(&str, &str)]) -> String {
    let escaped = |value: &str| {
        value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n").replace('\r', " ")
    };
    let labels: Vec<String> =
        labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
    format!("{{{}}}", labels.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gabion_probe::report::ChainEntry;

    #[test]
    fn samples_of_a_metric_follow_one_another_and_labels_are_escaped() {
        let mut metrics = Metrics::default();
        for (target, program) in [("a:1", "x\"\\\ny"), ("b:1", "")] {
            let leaf = ChainEntry {
                not_after: "1970-01-02T00:00:00Z".to_owned(),
                ..ChainEntry::default()
            };
            metrics.add(&Report {
                target: target.to_owned(),
                program: Some(program.to_owned()),
                chain: vec![leaf],
                duration_ms: 1_500,
                ..Report::default()
            });
        }
        let text = metrics.to_string();
        assert!(text.starts_with("# HELP gabion_probe_success "), "{text}");
        for lines in [
            "gabion_probe_post_quantum{target=\"a:1\",protocol=\"tls\"} 0\n\
             gabion_probe_post_quantum{target=\"b:1\",protocol=\"tls\"} 0\n",
            "gabion_probe_certificate_not_after_seconds{target=\"a:1\",protocol=\"tls\"} 86400\n",
            "gabion_probe_duration_seconds{target=\"a:1\",protocol=\"tls\"} 1.500\n",
            "program=\"x\\\"\\\\\\ny\"} 1\n",
        ] {
            assert!(text.contains(lines), "{lines}: {text}");
        }
        assert!(!text.contains("certificate_verified"), "{text}");
    }
}
