//! Copies of checkpoints in a second folder. An attacker who rolls back the store together with its
//! log has to roll back this folder, too.
//!
//! ```text
//!   FOLDER/checkpoint     the newest one
//!         /2026-11-26     the last one of each day (UTC)
//! ```

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

use gabion_kms::AuditError;
use gabion_kms::audit::Checkpoint;
use gabion_kms::clock::{now_ms, rfc3339};
use gabion_kms::service::Service;

use super::panics::{BackgroundThread, PanicCounters};
use crate::error::Error;

/// The maximum size of a checkpoint in bytes. Typical ones have about 4 KB.
const NOTE_MAX: u64 = 64 << 10;

/// The interval at which newer checkpoints are copied.
const INTERVAL: Duration = Duration::from_secs(1);

/// How long the shutdown waits for a folder that does not respond.
const END: Duration = Duration::from_secs(2);

/// Counts checkpoints that could not be copied.
#[derive(Default)]
pub struct MirrorFailures(AtomicU64);

impl MirrorFailures {
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Copies checkpoints to a second folder on its own thread, until it is dropped. The folder may be
/// on a network file system, so no other thread waits for it.
pub struct CheckpointMirror {
    stop: Option<mpsc::Sender<()>>,
    ended: Mutex<mpsc::Receiver<()>>,
}

impl CheckpointMirror {
    /// Starts the thread. It calls `newest` every second.
    pub fn start(
        folder: PathBuf,
        mut newest: impl FnMut() -> Option<Checkpoint> + Send + 'static,
        failures: Arc<MirrorFailures>,
        panics: Arc<PanicCounters>,
    ) -> Result<Self, Error> {
        let ((stop, stopped), (end, ended)) = (mpsc::channel(), mpsc::channel());
        let run = move || {
            let mut written = 0;
            let mut write_one = || {
                let Some(newest) = newest().filter(|newest| newest.size > written) else {
                    return;
                };
                match write_checkpoint(&folder, &newest) {
                    Ok(()) => written = newest.size,
                    Err(_) => _ = failures.0.fetch_add(1, Ordering::Relaxed),
                }
            };
            let mut write = || _ = panics.catch(BackgroundThread::CheckpointMirror, &mut write_one);
            while stopped.recv_timeout(INTERVAL) == Err(mpsc::RecvTimeoutError::Timeout) {
                write();
            }
            write();
            let _ = end.send(());
        };
        let thread = thread::Builder::new().name("gabion-kms-copies".to_owned()).spawn(run);
        thread.map_err(Error::system("start a thread"))?;
        Ok(CheckpointMirror { stop: Some(stop), ended: Mutex::new(ended) })
    }
}

impl Drop for CheckpointMirror {
    fn drop(&mut self) {
        self.stop = None;
        let ended = self.ended.get_mut().unwrap_or_else(PoisonError::into_inner);
        let _ = ended.recv_timeout(END);
    }
}

/// Checks that a log continues from the newest checkpoint in the second folder. The folder may be
/// empty the first time.
///
/// # Errors
/// The log does not continue from it, or the file is not a checkpoint of this log.
pub fn check(folder: &Path, service: &Service) -> Result<(), gabion_kms::Error> {
    let refused = |reason: String| {
        let at = format!("its copy in {}", folder.display());
        gabion_kms::Error::from(AuditError::Damaged { at, reason })
    };
    let mut note = String::new();
    match File::open(folder.join("checkpoint")) {
        Ok(file) => file.take(NOTE_MAX).read_to_string(&mut note),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => Err(error),
    }
    .map_err(|error| refused(error.to_string()))?;
    let log = service.log();
    let known = Checkpoint::read(&log.vkeys(), &note)?;
    let known = known.ok_or_else(|| refused("it is not a checkpoint of this log".to_owned()))?;
    let size = log.size();
    if size < known.size {
        let was = known.size;
        let reason =
            format!("the log has {size} records, and had {was}: an older copy of log and store?");
        return Err(refused(reason));
    }
    service.checkpoint()?;
    match log.root_at(known.size)? == known.root {
        true => Ok(()),
        false => Err(refused("the log does not go on from there".to_owned())),
    }
}

/// Writes a checkpoint as the newest one, and as that of the day.
fn write_checkpoint(folder: &Path, checkpoint: &Checkpoint) -> io::Result<()> {
    let day: String = rfc3339(now_ms()).chars().take(10).collect();
    for name in ["checkpoint", &day] {
        let part = folder.join(format!("{name}.partial"));
        let mut file = File::create(&part)?;
        file.write_all(checkpoint.note.as_bytes())?;
        file.sync_all()?;
        fs::rename(&part, folder.join(name))?;
    }
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::lifecycle::service_host::ServiceHost;

    #[test]
    fn a_panic_ends_no_copies() {
        let folder = tempfile::tempdir().unwrap();
        let (host, _) = ServiceHost::in_memory().unwrap();
        host.maintenance.tick();
        let (panics, mut asked) = (Arc::new(PanicCounters::default()), 0);
        let newest = move || {
            asked += 1;
            assert!(asked > 1, "planted");
            host.seal.checkpoint()
        };
        let at = folder.path().to_owned();
        let copies = CheckpointMirror::start(at, newest, Arc::default(), panics.clone()).unwrap();
        let begun = Instant::now();
        while !folder.path().join("checkpoint").exists() {
            assert!(begun.elapsed() < Duration::from_secs(60), "no copy came");
            thread::sleep(Duration::from_millis(20));
        }
        drop(copies);
        assert!(panics.text().contains("{thread=\"copies\"} 1\n"), "{}", panics.text());
    }
}
