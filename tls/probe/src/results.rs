//! Results files: one report a line, appended as targets finish, so that an interrupted run can be
//! resumed.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::report::Report;
use crate::target::{Protocol, StartTls, Target};

/// The longest line that is read.
const LINE_LEN_MAX: u64 = 1 << 20;
/// How each line begins. An incomplete line of another kind is kept, because it is not ours.
const LINE_START: &[u8] = b"{\"target\":";

/// A results file that cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResultsError {
    /// The file cannot be opened, read or written.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// Another process has locked the file.
    #[error("another process is using it")]
    InUse,
    /// A line is not a report.
    #[error("line {line} is not a report of `gabion probe`: {cause}")]
    Line {
        /// The number of the line, from 1.
        line: usize,
        /// Why.
        cause: String,
    },
}

/// A results file, open for appending.
#[derive(Debug)]
pub struct Results {
    file: File,
}

/// The identity of a target.
type Key = (String, Protocol, Option<StartTls>);

impl Results {
    /// Opens a results file, or creates it. Hands the reports on the targets to `receive`, and
    /// removes these targets from the list. Targets without a handshake stay in the list, and so do
    /// those whose certificate was not verified if `has_authorities`. An incomplete last line, as an
    /// interrupted run leaves it, is removed.
    ///
    /// # Errors
    /// [`ResultsError`] if the file cannot be read, is in use, or has a line that is not a report.
    pub fn open(
        path: &Path,
        targets: &mut Vec<Target>,
        has_authorities: bool,
        mut receive: impl FnMut(Report),
    ) -> Result<Results, ResultsError> {
        if path.exists() && !path.is_file() {
            return Err(io::Error::new(ErrorKind::InvalidInput, "it is not a regular file").into());
        }
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
        // A file system without locks gets none.
        if flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
            return Err(ResultsError::InUse);
        }
        let mut wanted: HashSet<Key> = targets.iter().map(key).collect();
        let mut reader = BufReader::new(&mut file);
        let (mut text, mut complete) = (Vec::new(), 0);
        for line in 1.. {
            text.clear();
            let len = (&mut reader).take(LINE_LEN_MAX).read_until(b'\n', &mut text)?;
            let is_complete = text.last() == Some(&b'\n');
            let is_cut =
                !is_complete && (text.starts_with(LINE_START) || LINE_START.starts_with(&text));
            if len == 0 || (is_cut && (len as u64) < LINE_LEN_MAX) {
                break;
            }
            let wrong = |cause| ResultsError::Line { line, cause };
            let mut report: Report =
                serde_json::from_slice(&text).map_err(|cause| wrong(cause.to_string()))?;
            if report.target.is_empty() {
                return Err(wrong("it has no target".to_owned()));
            }
            complete += len as u64;
            report.ok = report.is_ok();
            let is_tls = report.protocol == Protocol::Tls;
            let is_complete = report.key_exchange.is_some()
                && (report.verified.is_some() || !(has_authorities && is_tls));
            if is_complete
                && wanted.remove(&(report.target.clone(), report.protocol, report.starttls))
            {
                receive(report);
            }
        }
        if complete < file.metadata()?.len() {
            file.set_len(complete)?;
        }
        file.seek(SeekFrom::End(0))?;
        targets.retain(|target| wanted.contains(&key(target)));
        Ok(Results { file })
    }

    /// Appends a report.
    ///
    /// # Errors
    /// The operating system's error, or that the report is longer than [`Results::open`] reads.
    pub fn append(&mut self, report: &Report) -> io::Result<()> {
        let mut line = serde_json::to_vec(report)?;
        line.push(b'\n');
        if line.len() as u64 > LINE_LEN_MAX {
            return Err(io::Error::other("the report is too long"));
        }
        // One call, so that a line is complete even if the process is killed.
        self.file.write_all(&line)
    }
}

fn key(target: &Target) -> Key {
    (target.to_string(), target.protocol(), target.starttls())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Verdict;
    use crate::target::Opening;

    fn targets() -> Vec<Target> {
        Target::parse_list("a:1\nb:1\nb:1 ssh\nc:1\n", Opening::default()).unwrap()
    }

    fn report(target: &str, protocol: Protocol) -> Report {
        let key_exchange = Some(Verdict::default());
        Report { target: target.to_owned(), protocol, key_exchange, ..Report::default() }
    }

    #[test]
    fn reports_in_the_file_are_not_asked_for_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results");
        let mut left = targets();
        let mut results = Results::open(&path, &mut left, false, |_| panic!("a report")).unwrap();
        assert_eq!(left.len(), 4);
        for (target, protocol) in
            [("a:1", Protocol::Tls), ("b:1", Protocol::Ssh), ("z:1", Protocol::Tls)]
        {
            results.append(&report(target, protocol)).unwrap();
        }
        // The process was killed while it wrote.
        results.file.write_all(b"{\"target\":\"c:1\",\"pro").unwrap();
        drop(results);
        for _ in 0..2 {
            let (mut left, mut read) = (targets(), Vec::new());
            Results::open(&path, &mut left, false, |report| read.push(report.target)).unwrap();
            assert_eq!(read, ["a:1", "b:1"]);
            let left: Vec<_> =
                left.iter().map(|left| (left.to_string(), left.protocol())).collect();
            let expected = [("b:1".to_owned(), Protocol::Tls), ("c:1".to_owned(), Protocol::Tls)];
            assert_eq!(left, expected);
        }
    }

    #[test]
    fn incomplete_reports_are_asked_for_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results");
        let open = |has_authorities, left: &mut Vec<Target>| {
            let mut read = Vec::new();
            let opened = Results::open(&path, left, has_authorities, |report| read.push(report));
            (opened.unwrap(), read)
        };
        let (mut results, _) = open(false, &mut Vec::new());
        let ok = Report { ok: true, post_quantum: true, ..report("a:1", Protocol::Tls) };
        let failed = Report { key_exchange: None, ..report("b:1", Protocol::Tls) };
        for report in [ok.clone(), failed, report("b:1", Protocol::Ssh)] {
            results.append(&report).unwrap();
        }
        // The file is in use.
        let again = Results::open(&path, &mut Vec::new(), false, |_| {}).unwrap_err();
        assert!(matches!(again, ResultsError::InUse), "{again}");
        drop(results);
        let (mut left, mut names) = (targets(), Vec::new());
        let (_, read) = open(false, &mut left);
        names.extend(left.iter().map(Target::to_string));
        assert_eq!((read.len(), &names[..]), (2, &["b:1".to_owned(), "c:1".to_owned()][..]));
        // Certificates that were not verified.
        let mut left = targets();
        let (mut results, read) = open(true, &mut left);
        assert_eq!((read.len(), left.len()), (1, 3));
        let wrong = Report { verified: Some(false), ..ok };
        results.append(&wrong).unwrap();
        drop(results);
        let (_, read) = open(true, &mut targets());
        assert!(read.iter().any(|report| report.verified == Some(false) && !report.ok));
        // A report that could not be read again is not written.
        let (mut results, _) = open(true, &mut targets());
        let long = Report { problems: vec!["x".repeat(1 << 20)], ..report("c:1", Protocol::Tls) };
        assert!(results.append(&long).is_err());
    }

    #[test]
    fn other_files_are_refused_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("passwd");
        for text in ["root:x:0\nsecond", "one line", "{}", "\n"] {
            std::fs::write(&path, text).unwrap();
            let error =
                Results::open(&path, &mut targets(), false, |_| {}).unwrap_err().to_string();
            assert!(error.starts_with("line 1 is not a report"), "{error}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
        assert!(Results::open(folder.path(), &mut targets(), false, |_| {}).is_err());
    }
}
