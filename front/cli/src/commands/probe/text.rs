//! Reports for people: one server in full, or several with a line each.

use std::fmt;

use gabion_probe::report::{Report, Verdict};

use crate::failure::{Failure, spelt};
use crate::style::{self, Colour};

/// The width of the titles, and of the texts after them.
const INDENT: usize = 15;
const WIDTH: usize = 84;
/// The widest column of targets.
const TARGET_WIDTH_MAX: usize = 48;

/// A report in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    PostQuantum,
    /// The key exchange is post-quantum, and something else is wrong.
    Problem,
    Classical,
    /// There was no handshake.
    Failed,
}

impl Outcome {
    fn of(report: &Report) -> Outcome {
        match (report.ok, report.post_quantum, report.key_exchange.is_some()) {
            (true, ..) => Outcome::PostQuantum,
            (_, true, _) => Outcome::Problem,
            (_, _, true) => Outcome::Classical,
            _ => Outcome::Failed,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Outcome::PostQuantum => "post-quantum",
            Outcome::Problem => "problem",
            Outcome::Classical => "classical",
            Outcome::Failed => "failed",
        }
    }

    /// Returns the verdict on a server.
    fn sentence(self) -> &'static str {
        match self {
            Outcome::Problem => "post-quantum, with a problem",
            other => other.word(),
        }
    }

    fn colour(self) -> Colour {
        match self {
            Outcome::PostQuantum => Colour::Green,
            Outcome::Problem | Outcome::Classical => Colour::Yellow,
            Outcome::Failed => Colour::Red,
        }
    }
}

/// Counts reports by their outcome.
#[derive(Debug, Default)]
pub struct Tally {
    post_quantum: u64,
    problem: u64,
    classical: u64,
    failed: u64,
}

impl Tally {
    /// Counts a report.
    pub fn count(&mut self, report: &Report) {
        let number = match Outcome::of(report) {
            Outcome::PostQuantum => &mut self.post_quantum,
            Outcome::Problem => &mut self.problem,
            Outcome::Classical => &mut self.classical,
            Outcome::Failed => &mut self.failed,
        };
        *number += 1;
    }

    fn all(&self) -> u64 {
        self.post_quantum + self.problem + self.classical + self.failed
    }

    /// Returns whether every report is that of a post-quantum connection.
    pub fn is_ok(&self) -> bool {
        self.all() == self.post_quantum
    }
}

/// The summary: `3 targets: 2 post-quantum, 1 classical`.
impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} post-quantum", style::count(self.all(), "target"), self.post_quantum)?;
        for (number, word) in [
            (self.problem, "post-quantum with a problem"),
            (self.classical, "classical"),
            (self.failed, "failed"),
        ] {
            if number > 0 {
                write!(f, ", {number} {word}")?;
            }
        }
        Ok(())
    }
}

/// Prints a report as a line.
///
/// # Errors
/// [`Failure::NotReady`] if standard output cannot be written.
pub fn print_line(report: &Report, width: usize) -> Result<(), Failure> {
    let outcome = Outcome::of(report);
    let word = format!("{:<13}", outcome.word());
    let word = style::paint(&word, outcome.colour(), style::is_colourful());
    let target = &report.target;
    let width = width.min(TARGET_WIDTH_MAX);
    let detail = match outcome {
        Outcome::Failed => {
            let problem = report.problems.first().map(String::as_str).unwrap_or_default();
            problem.to_owned()
        }
        _ => {
            let key = report.authentication.as_ref().map(|verdict| verdict.algorithm.as_str());
            let parts = [
                report.version.as_deref(),
                report.key_exchange.as_ref().map(|verdict| verdict.algorithm.as_str()),
                key,
                report.program.as_deref(),
            ];
            parts.into_iter().flatten().collect::<Vec<_>>().join("  ")
        }
    };
    say!("{word} {target:<width$}  {}", spelt(&crate::failure::plain(&detail)));
    Ok(())
}

/// Prints a report in full.
///
/// # Errors
/// [`Failure::NotReady`] if standard output cannot be written.
pub fn print(report: &Report) -> Result<(), Failure> {
    let line = |title: &str, text: &str| -> Result<(), Failure> {
        let mut title = title;
        for part in style::wrapped(text, WIDTH) {
            say!("{title:<INDENT$}{}", spelt(&part));
            title = "";
        }
        Ok(())
    };
    let verdict = |title: &str, verdict: &Verdict| -> Result<(), Failure> {
        let kind = if verdict.post_quantum { "post-quantum" } else { "not post-quantum" };
        line(title, &format!("{}, {kind}", verdict.algorithm))?;
        line("  why", &verdict.why)?;
        for (number, fix) in verdict.fix.iter().enumerate() {
            say!("{:<INDENT$}{}", if number == 0 { "  fix" } else { "" }, spelt(fix));
        }
        Ok(())
    };
    say!("verdict        {}", Outcome::of(report).sentence());
    let starttls = report.starttls.map_or_else(String::new, |protocol| format!(" ({protocol})"));
    say!("server         {}{starttls}", report.target);
    if let Some(program) = &report.program {
        line("program", program)?;
    }
    if let Some(version) = &report.version {
        let cipher = report.cipher.as_ref().map(|cipher| format!(", {cipher}"));
        line("version", &format!("{version}{}", cipher.unwrap_or_default()))?;
    }
    if let Some(key_exchange) = &report.key_exchange {
        verdict("key exchange", key_exchange)?;
        if report.hello_retry_request == Some(true) {
            line("  round trips", "one more, for a HelloRetryRequest")?;
        }
    }
    if let Some(authentication) = &report.authentication {
        verdict("authentication", authentication)?;
    }
    if report.version.is_some() && report.ssh.is_none() {
        print_tls(report, &line)?;
    }
    for attempt in &report.attempts {
        let bytes = attempt.bytes.map_or_else(String::new, |bytes| format!(", {bytes} bytes"));
        let result = attempt.error.as_deref().unwrap_or("answered");
        line("hello", &format!("{}{bytes}: {}", attempt.hello, crate::failure::plain(result)))?;
    }
    print_matrix(report, &line)
}

/// Prints which forms of the ClientHello got through, and how to ask for one of them.
fn print_matrix(
    report: &Report,
    line: &dyn Fn(&str, &str) -> Result<(), Failure>,
) -> Result<(), Failure> {
    for row in &report.matrix {
        let result = match (&row.error, row.post_quantum) {
            (Some(error), _) => crate::failure::plain(error),
            (None, true) => "post-quantum".into(),
            (None, false) => "not post-quantum".into(),
        };
        line("form", &format!("{}, {} bytes: {result}", row.form, row.bytes))?;
    }
    for (syntax, lines) in &report.ask_with {
        for (number, text) in lines.lines().enumerate() {
            let title = if number == 0 { syntax.as_str() } else { "" };
            say!("{title:<INDENT$}{}", spelt(text));
        }
    }
    Ok(())
}

/// Prints what only TLS has.
fn print_tls(
    report: &Report,
    line: &dyn Fn(&str, &str) -> Result<(), Failure>,
) -> Result<(), Failure> {
    line("signature", report.signature.as_deref().unwrap_or("unknown"))?;
    let verified = match report.verified {
        Some(true) => "verified",
        Some(false) => "not verified",
        None => "not verified (use --ca FILE)",
    };
    line("certificate", verified)?;
    for entry in &report.chain {
        line("", &format!("{}: {}, until {}", entry.subject, entry.key, entry.not_after))?;
        line("", &format!("  signed by {} with {}", entry.issuer, entry.signature))?;
    }
    if let Some(alpn) = &report.alpn {
        line("ALPN", alpn)?;
    }
    if let Some(resumption) = report.resumption {
        line("resumption", if resumption { "yes" } else { "no" })?;
    }
    let classical = match (&report.classical, &report.classical_error) {
        (Some(negotiated), _) => {
            let group = negotiated.group.as_deref().unwrap_or("no group");
            format!("a client without post-quantum groups gets {}, {group}", negotiated.version)
        }
        (None, Some(error)) => {
            format!("a client without post-quantum groups gets no connection: {error}")
        }
        (None, None) => "not known".to_owned(),
    };
    line("classical", &classical)
}
