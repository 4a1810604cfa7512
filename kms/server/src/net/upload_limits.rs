//! How many messages may come in pieces at a time, and what was counted of them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use gabion_kms::model::Label;
use tokio::sync::Semaphore;

use super::options::Options;

/// Messages that come in pieces.
pub struct Streams {
    /// Most bytes of one.
    pub bytes_max: u64,
    most: usize,
    most_of_tenant: usize,
    /// By tenant.
    open: Mutex<HashMap<Label, usize>>,
    /// Places of those of which a piece is hashed: half of the processors, so that the other half has time for others.
    pub hashing: Arc<Semaphore>,
    refused: AtomicU64,
    bytes: AtomicU64,
}

/// A place, until it is dropped.
pub struct StreamPlace {
    of: Arc<Streams>,
    tenant: Label,
}

impl Streams {
    pub fn new(options: &Options) -> Arc<Self> {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        Arc::new(Streams {
            bytes_max: options.stream_max,
            most: options.streams_max,
            most_of_tenant: options.streams_per_tenant_max,
            open: Mutex::default(),
            hashing: Arc::new(Semaphore::new((processors / 2).max(1))),
            refused: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        })
    }

    /// A place; none where the tenant, or all of them together, have as many as there may be.
    pub fn take(self: &Arc<Self>, tenant: &Label) -> Option<StreamPlace> {
        let mut open = self.open();
        let (all, own) = (open.values().sum::<usize>(), open.get(tenant).copied().unwrap_or(0));
        if all >= self.most || own >= self.most_of_tenant {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        open.insert(tenant.clone(), own + 1);
        Some(StreamPlace { of: self.clone(), tenant: tenant.clone() })
    }

    /// Counts bytes that came.
    pub fn count(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// What was counted, in the text format of Prometheus.
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

impl Drop for StreamPlace {
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
    fn a_tenant_has_so_many_places_and_all_together_so_many() {
        let options = Options { streams_max: 3, streams_per_tenant_max: 2, ..Options::default() };
        let streams = Streams::new(&options);
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
