//! The state that requests share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use super::service_host::ServiceHost;
use crate::error::Error;
use crate::net::client_certificates::ClientVerifier;
use crate::net::connection_limits::ConnectionLimits;
use crate::net::handshakes::Handshakes;
use crate::net::memory_budget::MemoryBudget;
use crate::net::options::Options;
use crate::net::tls::Tls;
use crate::net::upload_limits::UploadLimits;

/// The state that requests share.
pub struct State {
    pub host: Arc<ServiceHost>,
    pub body_max: usize,
    /// The server's certificate and the client verifier.
    tls: Option<Arc<Tls>>,
    /// The number of connections by address.
    pub connection_limits: Arc<ConnectionLimits>,
    /// The memory budget of requests and answers.
    pub budget: Arc<MemoryBudget>,
    /// The limits of uploads.
    pub upload_limits: Arc<UploadLimits>,
    /// The number of connections that were closed because of the limit per address.
    refused: AtomicU64,
    /// The completed TLS handshakes.
    pub handshakes: Handshakes,
    /// The number of TLS handshakes that failed or timed out.
    handshakes_failed: AtomicU64,
    /// The OpenAPI description.
    pub description: &'static str,
    is_draining: AtomicBool,
    /// The prefix of request ids, which differs between two runs of a server.
    run: u32,
    requests: AtomicU64,
    /// The number of running requests.
    running: AtomicUsize,
    /// The number of answers by the first digit of their status, from 1.
    answers: [AtomicU64; 5],
}

/// A request that was read and is not answered yet.
pub struct RunningRequest<'a> {
    of: &'a AtomicUsize,
    is_alone: bool,
}

impl RunningRequest<'_> {
    /// Returns whether no other request was running when it arrived.
    pub fn is_alone(&self) -> bool {
        self.is_alone
    }
}

impl Drop for RunningRequest<'_> {
    fn drop(&mut self) {
        self.of.fetch_sub(1, Ordering::Relaxed);
    }
}

impl State {
    /// Creates the state of a server with an OpenAPI description.
    ///
    /// # Errors
    /// No randomness.
    pub fn new(
        host: Arc<ServiceHost>,
        options: &Options,
        description: &'static str,
    ) -> Result<Self, Error> {
        let mut run = [0; 4];
        getrandom::fill(&mut run).map_err(|error| Error::Settings(error.to_string()))?;
        Ok(State {
            host,
            body_max: options.body_max,
            tls: options.tls.clone(),
            connection_limits: ConnectionLimits::new(options.connections_per_address_max),
            budget: MemoryBudget::new(options.body_max),
            upload_limits: UploadLimits::new(options),
            refused: AtomicU64::new(0),
            handshakes: Handshakes::default(),
            handshakes_failed: AtomicU64::new(0),
            description,
            is_draining: AtomicBool::new(false),
            run: u32::from_le_bytes(run),
            requests: AtomicU64::new(0),
            running: AtomicUsize::new(0),
            answers: std::array::from_fn(|_| AtomicU64::new(0)),
        })
    }

    /// Returns the current client verifier; `None` if the server does not ask for client
    /// certificates.
    pub fn clients(&self) -> Option<Arc<ClientVerifier>> {
        self.tls.as_ref()?.clients()
    }

    /// Returns the warnings: problems that do not stop the server.
    pub fn warnings(&self) -> Vec<&'static str> {
        let of_tls = self.tls.as_ref().map(|tls| tls.warnings()).unwrap_or_default();
        [self.host.warnings(), of_tls].concat()
    }

    /// Returns a unique request id.
    pub fn request_id(&self) -> String {
        format!("{:08x}-{:x}", self.run, self.requests.fetch_add(1, Ordering::Relaxed))
    }

    /// Counts a running request until the result is dropped.
    pub fn run(&self) -> RunningRequest<'_> {
        let others = self.running.fetch_add(1, Ordering::Relaxed);
        RunningRequest { of: &self.running, is_alone: others == 0 }
    }

    pub fn count(&self, status: u16) {
        let place = usize::from(status / 100).clamp(1, 5) - 1;
        self.answers[place].fetch_add(1, Ordering::Relaxed);
    }

    pub fn count_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    pub fn count_failed_handshake(&self) {
        self.handshakes_failed.fetch_add(1, Ordering::Relaxed);
    }

    /// Announces that the server is about to end.
    pub fn drain(&self) {
        self.is_draining.store(true, Ordering::Release);
    }

    /// Returns the reasons why no requests are served.
    pub fn reasons(&self) -> Vec<&'static str> {
        let draining = self.is_draining.load(Ordering::Acquire).then_some("draining");
        self.host.reason().into_iter().chain(draining).collect()
    }

    /// Returns the server's metrics in the Prometheus text format.
    pub fn metrics(&self) -> String {
        let mut text = "# TYPE kms_http_answers_total counter\n".to_owned();
        for (place, count) in self.answers.iter().enumerate() {
            let (class, count) = (place + 1, count.load(Ordering::Relaxed));
            text.push_str(&format!("kms_http_answers_total{{status=\"{class}xx\"}} {count}\n"));
        }
        let refused = self.refused.load(Ordering::Relaxed);
        text.push_str("# TYPE kms_connections_refused_total counter\n");
        text.push_str(&format!("kms_connections_refused_total {refused}\n"));
        text.push_str(&self.handshakes.text());
        let failed = self.handshakes_failed.load(Ordering::Relaxed);
        text.push_str("# TYPE kms_handshakes_failed_total counter\n");
        text.push_str(&format!("kms_handshakes_failed_total {failed}\n"));
        text.push_str(&self.budget.text());
        text.push_str(&self.upload_limits.text());
        let failed = self.host.maintenance.mirror_failures().count();
        text.push_str("# TYPE kms_checkpoint_copies_failed_total counter\n");
        text.push_str(&format!("kms_checkpoint_copies_failed_total {failed}\n"));
        text.push_str(&self.host.maintenance.panics().text());
        text.push_str(&self.tls.as_ref().map(|tls| tls.metrics()).unwrap_or_default());
        text
    }
}
