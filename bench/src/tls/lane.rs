//! One provider's endpoints, the check that it serves, and the slices that are timed.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, Mutex};
use std::time::{Duration, Instant};

use super::credentials::{Credentials, HOST};
use super::names::Exchange;
use super::remote::Remote;
use super::rustls::ConfigPair;
use super::slice::{Handshake, Slice, TURNS_MAX};
use super::{Config, Plan, Probe, Provider, Stack, Witness};
use crate::Error;
use crate::cpu_time::thread_cpu_ns;
use crate::ossl::{
    self, Certificate, Connection, Context, Endpoint, Key, Negotiation, Ossl, Step, Wire,
};

/// One provider, ready to shake hands.
pub(super) struct Lane {
    place: Location,
    /// The checked handshake, whose parameters every later one has to repeat.
    pub(super) probe: Probe,
}

/// The location of a lane's handshakes: this process, another one, or rustls in this one.
enum Location {
    Local { server: Endpoint, client: Endpoint },
    Remote(Remote),
    Rustls(ConfigPair),
}

impl Lane {
    /// Configures rustls with the provider, and makes and checks one handshake.
    pub(super) fn rustls(
        provider: Provider,
        plan: &Plan,
        credentials: &Credentials,
    ) -> Result<Lane, Error> {
        let (ends, probe) = ConfigPair::open(provider, plan, credentials)?;
        let mut lane = Lane { place: Location::Rustls(ends), probe };
        lane.check(plan)?;
        Ok(lane)
    }

    /// Makes the handshake that every later one has to repeat.
    fn check(&mut self, plan: &Plan) -> Result<(), Error> {
        let (handshake, negotiated) = self.shake(true)?;
        check_negotiated(self.probe.provider, plan, negotiated.as_ref())?;
        (self.probe.bytes_c2s, self.probe.bytes_s2c) = (handshake.bytes_c2s, handshake.bytes_s2c);
        if let Some(negotiated) = negotiated {
            self.probe.version = negotiated.version;
            self.probe.group = negotiated.group;
            self.probe.signature_scheme = negotiated.signature;
            self.probe.cipher = negotiated.cipher;
        }
        Ok(())
    }

    /// Starts a process with the core patch's switch on, which makes and checks one handshake.
    pub(super) fn in_process(
        config: &Config,
        prefix: &Path,
        plan: &Plan,
        credentials: &Credentials,
    ) -> Result<Lane, Error> {
        let program = config.program.as_deref().ok_or_else(|| {
            Error::Usage("the provider `offload` needs a program that serves its lane".into())
        })?;
        let (remote, probe) = Remote::start(program, prefix, plan, credentials)?;
        Ok(Lane { place: Location::Remote(remote), probe })
    }

    /// Ends the lane's process, if it has one, which has to report these handshakes.
    pub(super) fn finish(self, plan: &Plan, handshakes: u64) -> Result<(), Error> {
        match self.place {
            Location::Local { .. } | Location::Rustls(_) => Ok(()),
            Location::Remote(remote) => remote.finish(plan, handshakes),
        }
    }

    /// Loads the provider into a separate context, and makes and checks one handshake.
    pub(super) fn open(
        ossl: &'static Ossl,
        provider: Provider,
        plan: &Plan,
        credentials: &Credentials,
        witness: &mut dyn Witness,
    ) -> Result<Lane, Error> {
        let context = plan.context(ossl, provider)?;
        let key = Key::from_der(&context, &credentials.leaf_key)?;
        let leaf = Certificate::from_der(&context, &credentials.leaf)?;
        let root = Certificate::from_der(&context, &credentials.root)?;
        let (kem_provider, signature_provider) = serving_providers(&context, plan, &key, &root)
            .map_err(|error| cannot_serve(provider, error))?;
        let (group, cipher) = (plan.group.list(), plan.cipher.as_deref());
        let setup = |error: ossl::Error| match error {
            // OpenSSL knows every group of our table, so what is wrong is the suite.
            ossl::Error::Call(text) => Error::Usage(text),
            error => error.into(),
        };
        let server = Endpoint::server(&context, group, cipher, &key, &leaf).map_err(setup)?;
        let client = Endpoint::client(&context, group, cipher, &root).map_err(setup)?;
        let probe = Probe {
            stack: Stack::Openssl,
            provider,
            version: String::new(),
            group: String::new(),
            signature_scheme: String::new(),
            cipher: String::new(),
            kem_provider,
            signature_provider,
            bytes_c2s: 0,
            bytes_s2c: 0,
        };
        let mut lane = Lane { place: Location::Local { server, client }, probe };
        lane.check_serving(plan)?;
        witness.before(provider).map_err(Error::Failed)?;
        lane.check(plan)?;
        witness.after(&lane.probe).map_err(Error::Failed)?;
        Ok(lane)
    }

    /// Refuses a provider that is loaded and yet would leave its work to another one: OpenSSL
    /// falls back without a word, and default's figures would stand in its name.
    fn check_serving(&self, plan: &Plan) -> Result<(), Error> {
        let wanted = self.probe.provider.name();
        let left = |what: &str, server: &str| {
            Err(Error::NotReady(format!(
                "the provider `{wanted}` is loaded, but {what} would be served by `{server}`; \
                 nothing was measured. Is the module older than this program? `gabion doctor` \
                 shows what is offered"
            )))
        };
        let ours = |post_quantum: bool| post_quantum || self.probe.provider != Provider::Gabion;
        if ours(plan.group.exchange.is_post_quantum()) && self.probe.kem_provider != wanted {
            return left(plan.group.name, &self.probe.kem_provider);
        }
        if ours(plan.signature.post_quantum) && self.probe.signature_provider != wanted {
            return left(plan.signature.name, &self.probe.signature_provider);
        }
        Ok(())
    }

    /// Makes one full handshake; with `tell`, also returns its parameters.
    fn shake(&self, tell: bool) -> Result<(Handshake, Option<Negotiation>), Error> {
        match &self.place {
            Location::Local { server, client } => shake(server, client, tell),
            Location::Rustls(ends) => ends.shake(tell),
            Location::Remote(_) => {
                Err(Error::Failed("the lane's handshakes are made elsewhere".into()))
            }
        }
    }

    /// Shakes hands for `length`, and checks the last handshake like the first.
    pub(super) fn slice(&self, plan: &Plan, length: Duration) -> Result<Slice, Error> {
        let mut slice = Slice::default();
        let start = Instant::now();
        let cpu_start = thread_cpu_ns();
        loop {
            let last = start.elapsed() >= length;
            let (handshake, negotiated) = self.shake(last)?;
            slice.add(&handshake);
            if last {
                slice.loop_ns = thread_cpu_ns() - cpu_start;
                check_negotiated(self.probe.provider, plan, negotiated.as_ref())?;
                return Ok(slice);
            }
        }
    }
}

/// Makes one full handshake over memory; with `tell`, also returns its parameters.
pub(super) fn shake(
    server: &Endpoint,
    client: &Endpoint,
    tell: bool,
) -> Result<(Handshake, Option<Negotiation>), Error> {
    let wire = Wire::new(client)?;
    let mut client = Connection::new(client, &wire, HOST)?;
    let mut server = Connection::new(server, &wire, HOST)?;
    let mut handshake = Handshake::default();
    let (mut client_step, mut server_step) = (Step::Waiting, Step::Waiting);
    for _ in 0..TURNS_MAX {
        if client_step == Step::Waiting {
            let start = thread_cpu_ns();
            let status = client.advance();
            handshake.client_ns += thread_cpu_ns() - start;
            client_step = client.judge(status)?;
        }
        if server_step == Step::Waiting {
            let start = thread_cpu_ns();
            let status = server.advance();
            handshake.server_ns += thread_cpu_ns() - start;
            server_step = server.judge(status)?;
        }
        if (client_step, server_step) == (Step::Finished, Step::Finished) {
            (handshake.bytes_c2s, handshake.bytes_s2c) = wire.bytes();
            return Ok((handshake, tell.then(|| client.negotiated())));
        }
    }
    Err(Error::Failed(format!("a handshake did not finish within {TURNS_MAX} turns of both sides")))
}

/// Fails if a handshake did not negotiate the requested parameters.
fn check_negotiated(
    provider: Provider,
    plan: &Plan,
    found: Option<&Negotiation>,
) -> Result<(), Error> {
    let Some(found) = found else {
        return Err(Error::Failed("a finished handshake told nothing about itself".into()));
    };
    let differs = |what: &str, asked: &str, found: &str| {
        if asked.eq_ignore_ascii_case(found) {
            return Ok(());
        }
        Err(Error::Failed(format!(
            "with the provider `{}` the {what} {found} was negotiated; {asked} was asked for",
            provider.name()
        )))
    };
    differs("version", "TLSv1.3", &found.version)?;
    differs("group", plan.group.negotiated(), &found.group)?;
    differs("signature scheme", plan.signature.scheme, &found.signature)?;
    if let Some(cipher) = &plan.cipher {
        differs("cipher suite", cipher, &found.cipher)?;
    }
    if found.resumed {
        return Err(Error::Failed("a session was resumed; full handshakes are due".into()));
    }
    if !found.verified {
        return Err(Error::Failed("the client did not verify the certificate".into()));
    }
    Ok(())
}

/// Returns the names of the providers that serve the key exchange and the signatures in `context`.
fn serving_providers(
    context: &Context,
    plan: &Plan,
    key: &Key,
    root: &Certificate,
) -> Result<(String, String), ossl::Error> {
    let exchange = match plan.group.exchange {
        // OpenSSL's hybrids look up the ML-KEM in them by name, so that may be another provider's.
        // A provider that serves no more than that does not serve the group.
        Exchange::Kem { name, .. } => ossl::kem_provider(context, name)?,
        Exchange::Derive { algorithm, shape } => ossl::derive_provider(context, algorithm, shape)?,
    };
    // The digest names the scheme's hash; it is `None` for algorithms that hash internally.
    let signer = key.signing_provider(plan.signature.digest)?;
    let verifier = root.verifying_provider(plan.signature.digest)?;
    if signer != verifier {
        return Err(ossl::Error::Call(format!(
            "{} is signed by the provider `{signer}` but verified by `{verifier}`",
            plan.signature.name
        )));
    }
    Ok((exchange, signer))
}

/// A provider that lacks the algorithms is no failed handshake: none was tried.
fn cannot_serve(provider: Provider, error: ossl::Error) -> Error {
    match error {
        ossl::Error::Call(text) => Error::NotReady(format!(
            "the provider `{}` cannot serve this handshake: {text}; nothing was measured",
            provider.name()
        )),
        error => error.into(),
    }
}

/// Runs all slices of all lanes and returns, for each lane, its slices.
///
/// The same threads work through the whole schedule, and start every slice together: a provider
/// never shares a slice with another one, and what OpenSSL sets up once per thread is set up in
/// the first slice, which is not counted.
pub(super) fn measure(lanes: &[Lane], plan: &Plan) -> Result<Vec<Vec<Slice>>, Error> {
    let schedule = schedule(lanes.len(), plan.slices);
    let length = Duration::from_secs_f64(plan.slice_s);
    let (barrier, stop) = (Barrier::new(plan.threads), AtomicBool::new(false));
    let slices = Mutex::new(vec![vec![Slice::default(); plan.slices]; lanes.len()]);
    let failure: Mutex<Option<Error>> = Mutex::new(None);
    let work = |thread: usize| {
        for turn in &schedule {
            barrier.wait();
            // A thread that failed keeps coming to the barrier, or the others would wait forever.
            if stop.load(Ordering::Relaxed) {
                continue;
            }
            let measured = match &lanes[turn.lane].place {
                Location::Local { .. } | Location::Rustls(_) => {
                    lanes[turn.lane].slice(plan, length)
                }
                // That process starts all threads; here, one thread waits for it, and the others
                // wait too.
                Location::Remote(remote) if thread == 0 => remote.slice(),
                Location::Remote(_) => continue,
            };
            match measured {
                Ok(slice) => {
                    if let Some(index) = turn.slice {
                        lock(&slices)[turn.lane][index].merge(&slice);
                    }
                }
                Err(error) => {
                    stop.store(true, Ordering::Relaxed);
                    lock(&failure).get_or_insert(error);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..plan.threads).map(|i| scope.spawn(move || work(i))).collect();
        for thread in running {
            // The end of the scope alone does not wait for the thread's own clean-up, in which
            // OpenSSL uses the library contexts; they may be freed once this function returns.
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
    });
    match lock(&failure).take() {
        Some(error) => Err(error),
        None => Ok(std::mem::take(&mut *lock(&slices))),
    }
}

/// One entry of the schedule: a lane's turn, and the number of its slice (`None`: warming up).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Turn {
    lane: usize,
    slice: Option<usize>,
}

/// Each lane warms up once; then the lanes take turns, forwards and backwards by rounds, so that
/// none of them always runs first after another one's caches.
fn schedule(lanes: usize, slices: usize) -> Vec<Turn> {
    let mut turns: Vec<Turn> = (0..lanes).map(|lane| Turn { lane, slice: None }).collect();
    for index in 0..slices {
        for position in 0..lanes {
            let lane = if index % 2 == 0 { position } else { lanes - 1 - position };
            turns.push(Turn { lane, slice: Some(index) });
        }
    }
    turns
}

/// A panic of another thread ends the scope anyway; until then its data is still whole.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::Config;

    fn negotiated() -> Negotiation {
        Negotiation {
            version: "TLSv1.3".into(),
            group: "X25519MLKEM768".into(),
            signature: "mldsa65".into(),
            cipher: "TLS_AES_128_GCM_SHA256".into(),
            resumed: false,
            verified: true,
        }
    }

    #[test]
    fn unexpected_negotiation_is_refused() {
        let plan = Plan::new(&Config {
            cipher: Some("tls_aes_128_gcm_sha256".into()),
            ..Config::new("/nowhere".into())
        })
        .unwrap();
        let check = |found: &Negotiation| check_negotiated(Provider::Gabion, &plan, Some(found));
        assert_eq!(check(&negotiated()), Ok(()));
        type Change = fn(&mut Negotiation);
        let change: [(Change, &str); 6] = [
            (|found| found.version = "TLSv1.2".into(), "TLSv1.2 was negotiated; TLSv1.3 was"),
            (|found| found.group = "x25519".into(), "x25519 was negotiated; X25519MLKEM768 was"),
            (|found| found.signature = "none".into(), "none was negotiated; mldsa65 was asked for"),
            (|found| found.cipher = "TLS_AES_256_GCM_SHA384".into(), "cipher suite"),
            (|found| found.resumed = true, "resumed"),
            (|found| found.verified = false, "did not verify"),
        ];
        for (change, expected) in change {
            let mut found = negotiated();
            change(&mut found);
            let text = check(&found).unwrap_err().to_string();
            assert!(text.contains(expected), "{text}");
        }
        assert!(check_negotiated(Provider::Gabion, &plan, None).is_err());
    }

    #[test]
    fn lanes_take_turns_and_change_who_starts() {
        let order: Vec<usize> = schedule(2, 3).iter().map(|turn| turn.lane).collect();
        assert_eq!(order, [0, 1, 0, 1, 1, 0, 0, 1]);
        assert!(schedule(2, 3)[..2].iter().all(|turn| turn.slice.is_none()));
        assert_eq!(schedule(1, 10).len(), 11);
    }
}
