//! Limits of passphrase attempts: each costs 64 MiB and about 100 ms (Argon2id), and
//! unauthenticated clients may make them while the service is sealed.
//!
//! ```text
//!   a network       burst of five, then one in five seconds; one of them at a time --> unauthenticated slot --\
//!   a certificate   the same for each                                              --> authenticated slot ----> Argon2id
//!   this machine    unlimited, one after the other                                 --> authenticated slot --/
//! ```
//!
//! - Each of the two slots runs one attempt at a time. Authenticated clients do not wait for
//!   unauthenticated ones.
//! - Rejected clients get an immediate error, with the time after which to retry. No key is derived
//!   for them.
//! - Shares are cheap and not limited here: enough of them unseal the service regardless of other
//!   clients.

use std::collections::{HashMap, HashSet, VecDeque};
use std::net::IpAddr;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use gabion_kms::gate::Peer;

use crate::net::connection_limits::network;
use crate::problem::Problem;

/// The burst of attempts.
const AT_ONCE: u32 = 5;

/// The interval at which the burst is refilled by one.
const EVERY: Duration = Duration::from_secs(5);

/// The maximum number of attempts that wait for a slot. Each takes a thread.
const WAITING_MAX: usize = 8;

/// How long attempts wait.
const WAIT_MAX: Duration = Duration::from_secs(10);

/// The maximum number of clients whose attempts are remembered.
const KNOWN_MAX: usize = 1024;

/// The source that passphrase attempts are counted against. Headers such as `X-Forwarded-For` are
/// ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClientAddress {
    /// A client at the server's own Unix socket.
    Local,
    /// A client with a certificate, by its SHA-256.
    Certificate([u8; 32]),
    /// A client at an IPv4 address or in an IPv6 /64 prefix.
    Network(IpAddr),
}

/// Limits the rate and the concurrency of passphrase attempts.
#[derive(Default)]
pub struct PassphraseThrottle {
    now: Mutex<ThrottleState>,
    freed: Condvar,
}

/// The attempts that run, wait, or were made recently.
#[derive(Default)]
struct ThrottleState {
    /// The slots of unauthenticated and of authenticated clients.
    lanes: [Lane; 2],
    /// The clients with a running or waiting attempt.
    under_way: HashSet<ClientAddress>,
    /// The time at which each client's token bucket is full again.
    spent: HashMap<ClientAddress, Instant>,
    came: u64,
}

#[derive(Default)]
struct Lane {
    is_taken: bool,
    waiting: VecDeque<u64>,
}

/// A running passphrase attempt, until it is dropped.
pub struct PassphraseAttempt<'a> {
    of: &'a PassphraseThrottle,
    client: ClientAddress,
}

impl ClientAddress {
    /// Returns the client of a connection, whose certificate was verified.
    pub fn of(peer: &Peer) -> Self {
        match (peer.certificate, peer.address) {
            (Some(digest), _) => ClientAddress::Certificate(digest),
            (None, Some(address)) => ClientAddress::Network(network(address)),
            (None, None) => ClientAddress::Local,
        }
    }

    /// Returns whether the client is unauthenticated.
    pub fn is_stranger(self) -> bool {
        matches!(self, ClientAddress::Network(_))
    }

    fn lane(self) -> usize {
        usize::from(!self.is_stranger())
    }
}

impl PassphraseThrottle {
    /// Waits for a slot. Has to be called before a key is derived.
    ///
    /// # Errors
    /// `busy`, with the time after which to retry, after too many attempts or if too many wait.
    pub fn begin(&self, client: ClientAddress) -> Result<PassphraseAttempt<'_>, Problem> {
        self.begin_within(client, WAIT_MAX)
    }

    fn begin_within(
        &self,
        client: ClientAddress,
        wait: Duration,
    ) -> Result<PassphraseAttempt<'_>, Problem> {
        let until = Instant::now() + wait;
        let mut now = self.now();
        now.may(client)?;
        let lane = client.lane();
        if now.lanes[lane].waiting.len() >= WAITING_MAX {
            return Err(others());
        }
        now.came += 1;
        let ticket = now.came;
        now.lanes[lane].waiting.push_back(ticket);
        if client != ClientAddress::Local {
            now.under_way.insert(client);
        }
        while now.lanes[lane].is_taken || now.lanes[lane].waiting.front() != Some(&ticket) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                now.lanes[lane].waiting.retain(|other| *other != ticket);
                now.under_way.remove(&client);
                // The next waiting attempt may run now.
                self.freed.notify_all();
                return Err(others());
            }
            let waited = self.freed.wait_timeout(now, left);
            now = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        now.lanes[lane].waiting.pop_front();
        now.lanes[lane].is_taken = true;
        now.charge(client, Instant::now());
        Ok(PassphraseAttempt { of: self, client })
    }

    fn now(&self) -> MutexGuard<'_, ThrottleState> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for PassphraseAttempt<'_> {
    fn drop(&mut self) {
        let mut now = self.of.now();
        now.lanes[self.client.lane()].is_taken = false;
        now.under_way.remove(&self.client);
        drop(now);
        self.of.freed.notify_all();
    }
}

impl ThrottleState {
    fn may(&self, client: ClientAddress) -> Result<(), Problem> {
        if self.under_way.contains(&client) {
            let why = "another passphrase attempt of this client is running";
            return Err(Problem::busy(why, 1));
        }
        let at = Instant::now();
        let Some(spent) = self.spent.get(&client) else { return Ok(()) };
        let ahead = spent.saturating_duration_since(at);
        match ahead.saturating_sub(EVERY * (AT_ONCE - 1)) {
            Duration::ZERO => Ok(()),
            left => {
                let why = "too many passphrase attempts of this client";
                let hint =
                    "shares are always accepted, and so is a passphrase at the server's own socket";
                Err(Problem::busy(why, left.as_secs() + 1).hint(hint))
            }
        }
    }

    fn charge(&mut self, client: ClientAddress, at: Instant) {
        if client == ClientAddress::Local {
            return;
        }
        if self.spent.len() >= KNOWN_MAX && !self.spent.contains_key(&client) {
            self.spent.retain(|_, spent| *spent > at);
            let oldest = self.spent.iter().min_by_key(|(_, spent)| **spent).map(|(who, _)| *who);
            if self.spent.len() >= KNOWN_MAX
                && let Some(oldest) = oldest
            {
                self.spent.remove(&oldest);
            }
        }
        let spent = self.spent.entry(client).or_insert(at);
        *spent = (*spent).max(at) + EVERY;
    }
}

fn others() -> Problem {
    Problem::busy("too many passphrase attempts are running", 1)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn network_of(last: u8) -> ClientAddress {
        ClientAddress::of(&Peer { address: Some([10, 0, 0, last].into()), certificate: None })
    }

    fn is_refused(begun: Result<PassphraseAttempt<'_>, Problem>) -> u64 {
        let problem = begun.err().unwrap();
        assert_eq!((problem.code, problem.status, problem.is_retryable), ("busy", 503, true));
        problem.retry_after_s.unwrap()
    }

    #[test]
    fn passphrase_guesses_are_limited_per_network() {
        let throttle = PassphraseThrottle::default();
        for _ in 0..AT_ONCE {
            drop(throttle.begin(network_of(1)).unwrap());
        }
        let again = is_refused(throttle.begin(network_of(1)));
        assert!((1..=EVERY.as_secs() + 1).contains(&again), "{again}");
        drop(throttle.begin(network_of(2)).unwrap());
        // An IPv6 /64 prefix counts as one client, and IPv4-mapped addresses count as IPv4.
        let of = |text: &str| {
            ClientAddress::of(&Peer { address: Some(text.parse().unwrap()), certificate: None })
        };
        assert_eq!(of("2001:db8::1"), of("2001:db8::2:3"));
        assert_ne!(of("2001:db8::1"), of("2001:db8:0:1::1"));
        is_refused(throttle.begin(of("::ffff:10.0.0.1")));
        // A certificate counts separately from its address, and this machine is not limited.
        let address = Some([10, 0, 0, 1].into());
        let known = ClientAddress::of(&Peer { address, certificate: Some([7; 32]) });
        drop(throttle.begin(known).unwrap());
        for _ in 0..3 * AT_ONCE {
            drop(throttle.begin(ClientAddress::of(&Peer::default())).unwrap());
        }
        // The bucket refills over time.
        let earlier = Instant::now() + EVERY * (AT_ONCE - 1);
        throttle.now().spent.insert(network_of(1), earlier);
        drop(throttle.begin(network_of(1)).unwrap());
    }

    #[test]
    fn known_clients_do_not_wait_for_unknown_ones() {
        let throttle = PassphraseThrottle::default();
        let first = throttle.begin(network_of(1)).unwrap();
        is_refused(throttle.begin(network_of(1)));
        is_refused(throttle.begin_within(network_of(2), Duration::from_millis(20)));
        let known = ClientAddress::Certificate([1; 32]);
        let one = throttle.begin(known).unwrap();
        is_refused(throttle.begin_within(ClientAddress::Local, Duration::from_millis(20)));
        drop(one);
        drop(throttle.begin(ClientAddress::Local).unwrap());
        // Waiting attempts run in turn, and their number is limited.
        thread::scope(|scope| {
            let waits = |last: u8| {
                let throttle = &throttle;
                scope.spawn(move || throttle.begin(network_of(last)).map(drop).is_ok())
            };
            let all: Vec<_> = (10..10 + WAITING_MAX as u8).map(waits).collect();
            while throttle.now().lanes[0].waiting.len() < WAITING_MAX {
                thread::sleep(Duration::from_millis(1));
            }
            is_refused(throttle.begin(network_of(99)));
            drop(first);
            assert!(all.into_iter().all(|one| one.join().unwrap()));
        });
        let now = throttle.now();
        assert!(now.under_way.is_empty() && now.lanes.iter().all(|lane| !lane.is_taken));
    }

    #[test]
    fn tracked_addresses_are_bounded() {
        let throttle = PassphraseThrottle::default();
        for number in 0..KNOWN_MAX as u32 + 100 {
            let address = Some(std::net::Ipv4Addr::from_bits(number).into());
            drop(throttle.begin(ClientAddress::of(&Peer { address, certificate: None })).unwrap());
        }
        assert_eq!(throttle.now().spent.len(), KNOWN_MAX);
    }
}
