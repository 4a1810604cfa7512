//! The limit of concurrent uploads, and their counters.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use gabion_kms::model::Label;
use tokio::sync::Semaphore;

use super::options::Options;

/// Limits concurrent uploads, in total and per tenant.
pub struct UploadLimits {
    /// The maximum size of an upload in bytes.
    pub bytes_max: u64,
    most: usize,
    most_of_tenant: usize,
    /// The number of uploads by tenant.
    open: Mutex<HashMap<Label, usize>>,
    /// Slots for uploads that are being hashed: half of the processors, so that the other half
    /// serves other requests.
    pub hashing: Arc<Semaphore>,
    refused: AtomicU64,
    bytes: AtomicU64,
}

/// Permission for one upload, until it is dropped.
pub struct UploadPermit {
    of: Arc<UploadLimits>,
    tenant: Label,
}

impl UploadLimits {
    pub fn new(options: &Options) -> Arc<Self> {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        Arc::new(UploadLimits {
            bytes_max: options.stream_max,
            most: options.streams_max,
            most_of_tenant: options.streams_per_tenant_max,
            open: Mutex::default(),
            hashing: Arc::new(Semaphore::new((processors / 2).max(1))),
            refused: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        })
    }

    /// Returns a permit, or `None` if the tenant, or all tenants together, have reached the limit.
    pub fn take(self: &Arc<Self>, tenant: &Label) -> Option<UploadPermit> {
        let mut open = self.open();
        let (all, own) = (open.values().sum::<usize>(), open.get(tenant).copied().unwrap_or(0));
        if all >= self.most || own >= self.most_of_tenant {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        open.insert(tenant.clone(), own + 1);
        Some(UploadPermit { of: self.clone(), tenant: tenant.clone() })
    }

    /// Counts received bytes.
    pub fn count(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Returns the metrics in the Prometheus text format.
    pub fn text(&self) -> String {
        let open = self.open().values().sum::<usize>();
        let (refused, bytes) =
            (self.refused.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed));
        format!(
            "# TYPE kms_streams gauge\nkms_streams {open}\n# TYPE kms_streams_refused_total counter\n\
             kms_streams_refused_total {refused}\n# TYPE kms_stream_bytes_total counter\nkms_stream_bytes_total {bytes}\n"
        )
    }

    fn open(&self) -> MutexGuard<'_, HashMap<Label, usize>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for UploadPermit {
    fn drop(&mut self) {
        let mut open = self.of.open();
        if let Some(count) = open.get_mut(&self.tenant) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.tenant);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uploads_are_limited_per_tenant_and_in_total() {
        let options = Options { streams_max: 3, streams_per_tenant_max: 2, ..Options::default() };
        let streams = UploadLimits::new(&options);
        let take = |tenant: &str| streams.take(&Label::new("tenant", tenant).unwrap());
        let (first, second) = (take("a"), take("a"));
        assert!(first.is_some() && second.is_some() && take("a").is_none());
        let other = take("b");
        assert!(other.is_some() && take("b").is_none() && take("c").is_none());
        drop(first);
        assert!(streams.text().contains("\nkms_streams 2\n"), "{}", streams.text());
        assert!(streams.text().contains("\nkms_streams_refused_total 3\n"), "{}", streams.text());
        assert!(take("c").is_some());
        drop((second, other));
        assert!(streams.open().is_empty());
    }
}
