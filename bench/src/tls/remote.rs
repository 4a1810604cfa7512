//! A lane in a separate process: OpenSSL's code offloaded to libgabion by the core patch.
//!
//! ```text
//!   this process                         the same program again, with GABION_OFFLOAD=1
//!   Remote ── Order, one line of JSON ──> serve: opens its lane, checks a handshake
//!          <── Answer: the handshake ────
//!          ── "slice" ──────────────────> shakes hands for one slice
//!          <── Answer: what it took ─────
//!          ── end of input ─────────────> ends; libcrypto tells on standard error what was served
//! ```
//!
//! The switch is read once in a process, so on and off do not fit in one. The slices take turns all
//! the same, and this process only waits while the other one works.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Mutex;

use serde::{Deserialize, Serialize};

use super::credentials::Credentials;
use super::slice::Slice;
use super::{Plan, Probe, Provider};
use crate::Error;

/// The switch of the core patch.
pub(crate) const SWITCH: &str = "GABION_OFFLOAD";

/// The measurement that the other process is to make.
#[derive(Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) prefix: PathBuf,
    pub(super) modules: Option<PathBuf>,
    pub(super) group: String,
    pub(super) signature: String,
    pub(super) cipher: Option<String>,
    pub(super) threads: usize,
    pub(super) slice_s: f64,
    pub(super) credentials: Credentials,
}

/// The answer of the other process; an error ends it.
#[derive(Serialize, Deserialize)]
pub(super) enum Answer {
    Ready(Probe),
    Slice(Slice),
    Error(String),
}

/// The other process.
pub(super) struct Remote {
    pipes: Mutex<Pipes>,
}

struct Pipes {
    child: Child,
    answers: BufReader<ChildStdout>,
}

pub(super) fn broken(what: &str, cause: impl std::fmt::Display) -> Error {
    Error::NotReady(format!("the process of the lane `offload`: {what}: {cause}"))
}

impl Remote {
    /// Starts the process after a first one showed, by its counters, that libgabion serves there.
    pub(super) fn start(
        program: &Path,
        prefix: &Path,
        plan: &Plan,
        credentials: &Credentials,
    ) -> Result<(Remote, Probe), Error> {
        let (trial, _) = Remote::spawn(program, prefix, plan, credentials)?;
        trial.finish(plan, 1)?;
        let (remote, mut probe) = Remote::spawn(program, prefix, plan, credentials)?;
        probe.provider = Provider::Offload;
        if let Some(server) = plan.group.exchange.served_by_core_patch() {
            probe.kem_provider = server;
        }
        if plan.signature.post_quantum {
            probe.signature_provider = "libgabion".into();
        }
        Ok((remote, probe))
    }

    fn spawn(
        program: &Path,
        prefix: &Path,
        plan: &Plan,
        credentials: &Credentials,
    ) -> Result<(Remote, Probe), Error> {
        let mut child = Command::new(program)
            .arg("tls-lane")
            .env(SWITCH, "1")
            .env("GABION_OFFLOAD_REPORT", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|cause| broken("it does not start", cause))?;
        let answers = child.stdout.take().ok_or_else(|| broken("no pipe", "stdout"))?;
        let remote =
            Remote { pipes: Mutex::new(Pipes { child, answers: BufReader::new(answers) }) };
        let order = Order {
            prefix: prefix.to_path_buf(),
            modules: plan.modules.clone(),
            group: plan.group.name.into(),
            signature: plan.signature.name.into(),
            cipher: plan.cipher.clone(),
            threads: plan.threads,
            slice_s: plan.slice_s,
            credentials: credentials.clone(),
        };
        let order = serde_json::to_string(&order).map_err(|cause| broken("its order", cause))?;
        match remote.ask(&order)? {
            Answer::Ready(probe) => Ok((remote, probe)),
            _ => Err(broken("it answered", "a slice that was not requested")),
        }
    }

    /// Sends a line and reads one.
    fn ask(&self, line: &str) -> Result<Answer, Error> {
        let mut pipes = self.pipes.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let Pipes { child, answers } = &mut *pipes;
        let input = child.stdin.as_mut().ok_or_else(|| broken("it is asked", "after its end"))?;
        // A process that has ended tells why in its last line, or on standard error.
        let _ = input.write_all(format!("{line}\n").as_bytes());
        let mut text = String::new();
        answers.read_line(&mut text).map_err(|cause| broken("no answer", cause))?;
        match serde_json::from_str(&text) {
            Ok(Answer::Error(why)) => Err(Error::Failed(format!("the lane `offload`: {why}"))),
            Ok(answer) => Ok(answer),
            Err(cause) => Err(broken("its answer", cause)),
        }
    }

    /// One slice, as long as the order said.
    pub(super) fn slice(&self) -> Result<Slice, Error> {
        match self.ask("slice")? {
            Answer::Slice(slice) => Ok(slice),
            _ => Err(broken("it answered", "something else than a slice")),
        }
    }

    /// Ends the process and judges its counters: what was measured has to be libgabion's work.
    pub(super) fn finish(self, plan: &Plan, handshakes: u64) -> Result<(), Error> {
        let pipes = self.pipes.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
        // Waiting closes its input first, which is its end.
        let output = pipes.child.wait_with_output().map_err(|cause| broken("its end", cause))?;
        judge(&String::from_utf8_lossy(&output.stderr), plan, handshakes)
    }
}

/// Reads what the patched libcrypto told about itself.
fn judge(report: &str, plan: &Plan, handshakes: u64) -> Result<(), Error> {
    let mut needed: Vec<&str> = Vec::new();
    if plan.group.exchange.is_post_quantum() {
        needed.extend(["encaps", "decaps"]);
    }
    if plan.signature.post_quantum {
        needed.extend(["sign", "verify"]);
    }
    judge_counts(report, &needed, handshakes, "handshakes")
}

/// Refuses a report of the core patch in which libgabion did not do each of the operations `needed` so many times, for
/// as many of `what`, or failed once.
pub(crate) fn judge_counts(
    report: &str,
    needed: &[&str],
    times: u64,
    what: &str,
) -> Result<(), Error> {
    let line = report.lines().find_map(|line| line.strip_prefix("gabion offload: served "));
    let Some((served, failed)) = line.and_then(|line| line.split_once(" failed ")) else {
        let said = report.lines().last().unwrap_or("it said nothing");
        return Err(Error::NotReady(format!(
            "nothing was offloaded to libgabion, so nothing is measured: {said}. \
             `gabion bundle build --core-offload` builds a libcrypto that can; give its folder \
             with --prefix"
        )));
    };
    let count = |text: &str, name: &str| -> u64 {
        let value = text.split(' ').find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
        value.and_then(|value| value.parse().ok()).unwrap_or(0)
    };
    for name in needed {
        let (done, missed) = (count(served, name), count(failed, name));
        if done < times || missed > 0 {
            return Err(Error::Failed(format!(
                "libgabion served {done} times `{name}` and failed {missed} times in {times} \
                 {what}; the rest was OpenSSL's own code"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    #[test]
    fn only_a_full_count_passes() {
        let plan = Plan::new(&Config::new("/nowhere".into())).unwrap();
        let report = |served: &str, failed: &str| {
            format!("gabion offload: on: /x\ngabion offload: served {served} failed {failed}\n")
        };
        let all = "keygen=3 import=9 encaps=3 decaps=3 sign=3 verify=6";
        let none = "keygen=0 import=0 encaps=0 decaps=0 sign=0 verify=0";
        assert_eq!(judge(&report(all, none), &plan, 3), Ok(()));
        assert!(judge(&report(all, none), &plan, 4).is_err());
        assert!(judge(&report(all, &none.replace("sign=0", "sign=1")), &plan, 3).is_err());
        let off = judge("gabion offload: off: no such file", &plan, 1).unwrap_err().to_string();
        assert!(off.contains("no such file") && off.contains("--core-offload"), "{off}");
        assert!(judge("", &plan, 0).is_err());
    }
}
