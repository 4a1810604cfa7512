//! The parts of `/metrics` other than counters: the help text of each metric, and the state of the
//! process.

use std::path::Path;

use gabion_kms_wire::native::Status;
use rustix::process::{Resource, getrlimit};

/// The metrics and their help texts. A test fails if a server has a metric that is missing here.
const HELP: &[(&str, &str)] = &[
    (
        "kms_administrator_not_after_seconds",
        "Expiry time of the last token that can make tokens, in seconds since 1970.",
    ),
    ("kms_audit_disk_free_bytes", "Free bytes on the disk of the audit log."),
    ("kms_auto_rotation_keys", "Keys with automatic rotation."),
    ("kms_auto_rotation_keys_failing", "Keys whose last automatic rotation failed."),
    ("kms_auto_rotations_failed_total", "Failed automatic rotations."),
    ("kms_auto_rotations_total", "Automatic rotations."),
    ("kms_batch_len", "Items of batches."),
    ("kms_build_info", "Always 1; the label is the version of the server."),
    (
        "kms_checkpoint_copies_failed_total",
        "Checkpoints that could not be copied to audit.checkpoints.",
    ),
    ("kms_coalesced_len", "Requests per coalesced call."),
    (
        "kms_connections_refused_total",
        "Connections that were closed because their address had reached its limit.",
    ),
    ("kms_failures_total", "Failed operations."),
    ("kms_handshakes_failed_total", "TLS handshakes that failed or took too long."),
    ("kms_http_answers_total", "Answers by the class of their status."),
    ("kms_op_latency_seconds", "Durations of operations."),
    ("kms_ops_total", "Operations by verb and algorithm."),
    ("kms_panics_total", "Panics of background threads."),
    ("kms_queue_refused_total", "Requests that were rejected because a queue was full."),
    ("kms_queue_wait_seconds", "Waiting times of requests in queues."),
    ("kms_quota_refused_total", "Requests that were rejected by a quota."),
    ("kms_request_memory_bytes", "Memory reserved for request bodies and answers, in bytes."),
    (
        "kms_request_memory_refused_total",
        "Requests that were rejected because there was no memory for their body.",
    ),
    ("kms_sealed", "Whether the service is sealed: 1 or 0."),
    ("kms_store_bytes", "Size of the store: its file and its write-ahead log."),
    ("kms_store_disk_free_bytes", "Free bytes on the disk of the store."),
    ("kms_stream_bytes_total", "Received bytes of streamed messages."),
    ("kms_streams", "Streamed messages in progress."),
    ("kms_streams_refused_total", "Streamed messages that were rejected because of a limit."),
    (
        "kms_tls_certificate_not_after_seconds",
        "Expiry time of the server's certificate, in seconds since 1970.",
    ),
    (
        "kms_tls_client_authority_not_after_seconds",
        "Earliest expiry time of the client certificate authorities, in seconds since 1970.",
    ),
    (
        "kms_tls_client_revocations_not_after_seconds",
        "Earliest expiry time of the revocation lists, in seconds since 1970.",
    ),
    (
        "kms_tls_handshakes_total",
        "Completed TLS handshakes by version, key exchange group and the server's signature scheme.",
    ),
    ("kms_tls_reload_failures_total", "Failed reloads of the TLS files."),
    ("kms_tls_reloads_total", "Reloads of the TLS files."),
    ("kms_together_len", "Old name of kms_coalesced_len, which replaces it in the next release."),
    ("kms_unauthenticated_total", "Requests whose caller could not be authenticated."),
    ("process_max_fds", "The limit of open file descriptors."),
    ("process_open_fds", "Open file descriptors."),
    ("process_resident_memory_bytes", "Resident memory in bytes."),
];

/// Inserts a HELP line before each TYPE line.
pub fn with_help(text: &str) -> String {
    let mut out = String::with_capacity(2 * text.len());
    for line in text.lines().filter(|line| !line.starts_with("# HELP ")) {
        let name = line.strip_prefix("# TYPE ").and_then(|rest| rest.split(' ').next());
        let help = name.and_then(|name| HELP.iter().find(|(known, _)| *known == name));
        if let Some((name, help)) = help {
            out.push_str(&format!("# HELP {name} {help}\n"));
        }
        out.push_str(line);
        out.push('\n');
    }
    out
}

/// The files and folders of a server.
pub struct Disks<'a> {
    /// The store's file.
    pub store: Option<&'a Path>,
    /// The folder of the audit log.
    pub audit: Option<&'a Path>,
}

/// Returns the state of the seal, of the process and of its disks. Values that the system does not
/// provide are left out.
pub fn process(status: &Status, disks: &Disks<'_>) -> String {
    let mut out = format!(
        "# TYPE kms_build_info gauge\nkms_build_info{{version=\"{}\"}} 1\n",
        status.version
    );
    let fds = std::fs::read_dir("/proc/self/fd").ok().map(|fds| fds.count() as u64);
    for (name, value) in [
        ("kms_sealed", Some(u64::from(status.sealed))),
        ("process_resident_memory_bytes", resident_bytes()),
        ("process_open_fds", fds),
        ("process_max_fds", getrlimit(Resource::Nofile).current),
        ("kms_audit_disk_free_bytes", disks.audit.and_then(free_bytes)),
        ("kms_store_disk_free_bytes", disks.store.and_then(Path::parent).and_then(free_bytes)),
        ("kms_store_bytes", disks.store.and_then(store_bytes)),
    ] {
        if let Some(value) = value {
            out.push_str(&format!("# TYPE {name} gauge\n{name} {value}\n"));
        }
    }
    out
}

/// Returns the free bytes on the disk of a folder that the process may use.
fn free_bytes(folder: &Path) -> Option<u64> {
    let said = rustix::fs::statvfs(folder).ok()?;
    Some(said.f_bavail.saturating_mul(said.f_frsize))
}

fn store_bytes(path: &Path) -> Option<u64> {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    let len = |path: &Path| path.metadata().map(|file| file.len());
    // The log does not exist before the first write.
    Some(len(path).ok()? + len(Path::new(&log)).unwrap_or(0))
}

fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1024)
}
