//! Costs of requests to the key management service, for the client and the server.
//!
//! ```text
//!   Case ──> Served: `gabion kms` over a store in a file, a process of its own, on core 0
//!    │          │  each turn, forwards or backwards:   requests of the case                    from core 1
//!    │          │                                      the same, answered once written (where the case is durable)
//!    │          │                                      requests that do nothing
//!    │          └─ clock of the server's process around each ──> server_us_per_op
//!    ├────> Served over many keys, started anew each turn: a start, and keys that nothing is kept of
//!    └────> the same verbs within this process, nothing told of them
//! ```
//!
//! Messages have 128 bytes, keys are known, connections are kept. With more than one client, all
//! share the cores. Clients wait for an answer before the next request, unless requests are due:
//! those come at random times, at half the maximum rate, and the latency of a late request counts
//! from when it was due.

mod cold;
mod fill;
mod machine_load;
mod process;
mod requests;
mod server;

use std::time::{Duration, Instant};

use gabion_kms_server::Coalesce;
pub use gabion_rows::kms::Kms as Row;
use gabion_rows::kms::{Durability, Latency, MachineLoad, Request, Transport};
use machine_load::Watch;
use regex::Regex;

use crate::Error;
use crate::machine::Machine;
use requests::PreparedRequest;
use server::ServerProcess;
pub use server::serve;

/// The options of a measurement.
#[derive(Clone, Debug)]
pub struct Config {
    /// Only rows whose `algorithm:request:class:through` matches; `:due` follows where requests are due.
    pub filter: Option<Regex>,
    /// Time for each row, in seconds; more than 0 and at most 3600.
    pub seconds: f64,
    /// Turns of a row; at least 1.
    pub rounds: usize,
    /// Keys of the store that starts are measured with; at least 1.
    pub keys: usize,
    /// The requests that the server coalesces: `any`, `tenant` or `off`.
    pub coalesce: String,
}

/// A row to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Case {
    request: Request,
    algorithm: &'static str,
    through: Transport,
    class: Option<Durability>,
    clients: usize,
    /// Whether requests are due, rather than sent after the one before.
    is_due: bool,
    batch: usize,
}

const ED25519: &str = "ed25519";
const ML_DSA: &str = "ml-dsa-65";

/// Bytes of a message.
const MESSAGE: usize = 128;

/// Clients of requests that are due: as many connections as a client keeps.
const DUE_CLIENTS: usize = 16;

impl Case {
    /// Every one, those of one server together.
    fn all() -> Vec<Case> {
        let mut all = Vec::new();
        let mut https = |class, clients, batch, what: &[(Request, &'static str)]| {
            all.extend(what.iter().map(|(request, algorithm)| Case {
                request: *request,
                algorithm,
                through: Transport::Https,
                class: Some(class),
                clients,
                is_due: clients == DUE_CLIENTS,
                batch,
            }));
        };
        let both = [(Request::Sign, ED25519), (Request::Sign, ML_DSA), (Request::Verify, ML_DSA)];
        https(Durability::Written, 1, 1, &[(Request::HealthCheck, "")]);
        https(Durability::Written, 1, 1, &both);
        https(Durability::Written, 1, 64, &both[..2]);
        https(Durability::Durable, 1, 1, &both);
        https(Durability::Written, 8, 1, &both);
        https(Durability::Durable, 8, 1, &both);
        https(Durability::Written, DUE_CLIENTS, 1, &both);
        https(Durability::Durable, DUE_CLIENTS, 1, &both[..1]);
        https(
            Durability::Written,
            1,
            1,
            &[(Request::Start, ED25519), (Request::ColdSign, ED25519)],
        );
        let mut process = |request, algorithm, batch| {
            let (through, class) = (Transport::Process, None);
            all.push(Case { request, algorithm, through, class, clients: 1, is_due: false, batch });
        };
        for batch in [1, 32, 64] {
            for request in [Request::Sign, Request::Verify, Request::Fresh, Request::Cold] {
                process(request, ED25519, batch);
                process(request, ML_DSA, batch);
            }
        }
        all
    }

    fn name(&self) -> String {
        let class = self.class.map_or("none", Durability::word);
        let (request, through) = (self.request.word(), self.through.word());
        let due = if self.is_due { ":due" } else { "" };
        format!("{}:{request}:{class}:{through}{due}", self.algorithm)
    }

    /// Returns whether a server that is there may be asked for another case, too.
    fn is_of_one_server(&self, other: &Case) -> bool {
        (self.clients > 1, self.is_of_many_keys()) == (other.clients > 1, other.is_of_many_keys())
    }

    /// Returns whether it is about a store with many keys.
    fn is_of_many_keys(&self) -> bool {
        matches!(self.request, Request::Start | Request::ColdSign)
    }

    /// A row of it in which nothing was measured yet.
    fn row(&self, machine: &Machine) -> Row {
        Row {
            service: None,
            coalesce: None,
            request: self.request,
            algorithm: self.algorithm.to_owned(),
            through: self.through,
            class: self.class,
            clients: self.clients,
            due_per_s: None,
            batch: self.batch,
            keys: None,
            us: Latency::default(),
            server_us_per_op: None,
            server_waited_us_per_op: None,
            ops_per_s: 0.0,
            floor_us: None,
            floor_p99_us: None,
            over_floor: None,
            written_us: None,
            paused_us: None,
            fdatasync_us: None,
            fdatasync_p99_us: None,
            resident_kib: None,
            requests: 0,
            rounds: 0,
            around: MachineLoad::default(),
            machine: machine.clone(),
        }
    }
}

/// Measures every row that the filter picks; `emit` gets each as soon as it is measured, and ends
/// the measurement by returning `false`.
///
/// # Errors
/// `Usage` for a value out of range or a filter that picks nothing; `NotReady` if no server starts;
/// `Failed` if it refuses a request.
pub fn measure(config: &Config, mut emit: impl FnMut(Row) -> bool) -> Result<(), Error> {
    if !(config.seconds > 0.0 && config.seconds <= 3600.0) {
        return Err(Error::Usage("the time of a row is more than 0 and at most 3600 s".to_owned()));
    }
    if config.rounds == 0 {
        return Err(Error::Usage("a row has at least one turn".to_owned()));
    }
    if config.keys == 0 {
        return Err(Error::Usage("a start is measured with at least one key".to_owned()));
    }
    if let Err(why) = config.coalesce.parse::<Coalesce>() {
        return Err(Error::Usage(format!("`--coalesce {}`: {why}", config.coalesce)));
    }
    let wants = |case: &Case| match &config.filter {
        Some(filter) => filter.is_match(&case.name()),
        None => true,
    };
    let cases: Vec<Case> = Case::all().into_iter().filter(wants).collect();
    if cases.is_empty() {
        let text = "no row matches the filter; rows are named like ml-dsa-65:sign:written:https";
        return Err(Error::Usage(text.to_owned()));
    }
    let machine = Machine::detect();
    let mut server: Option<(Case, ServerProcess)> = None;
    let (many, others): (Vec<Case>, Vec<Case>) =
        cases.into_iter().partition(|case| case.is_of_many_keys());
    for case in others {
        let row = match case.through {
            Transport::Process => process::measure(&case, config, &machine)?,
            Transport::Https => {
                if !server.as_ref().is_some_and(|(of, _)| of.is_of_one_server(&case)) {
                    drop(server.take());
                    server =
                        Some((case, ServerProcess::start(case.clients == 1, 0, &config.coalesce)?));
                }
                let Some((_, server)) = &server else {
                    return Err(Error::NotReady("there is no server".to_owned()));
                };
                measure_case(&case, config, &machine, server)?
            }
        };
        if !emit(row) {
            return Ok(());
        }
    }
    drop(server);
    if many.is_empty() {
        return Ok(());
    }
    // With one key first: what a start takes that has nothing to do with how many there are.
    let sizes: &[usize] = if config.keys > 1 { &[1, config.keys] } else { &[1] };
    for keys in sizes {
        for row in cold::measure(&many, *keys, config, &machine)? {
            if row.requests > 0 && !emit(row) {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// The sums of one side of the turns.
struct Side {
    asked: PreparedRequest,
    /// The pause before each request.
    pause: Duration,
    ns: Vec<u64>,
    server_ns: u64,
    waited_ns: u64,
    took: Duration,
}

impl Side {
    fn new(case: &Case, server: &ServerProcess) -> Result<Self, Error> {
        let asked = PreparedRequest::new(case, server)?;
        let (pause, took) = (Duration::ZERO, Duration::ZERO);
        Ok(Side { asked, pause, ns: Vec::new(), server_ns: 0, waited_ns: 0, took })
    }

    /// Asks for a slice of time: as often as it can, or when requests are due.
    fn run(
        &mut self,
        slice: Duration,
        due_per_s: Option<f64>,
        turn: u64,
        server: &ServerProcess,
    ) -> Result<(), Error> {
        let (cpu, waited) = (server.cpu_ns()?, server.waited_ns()?);
        let start = Instant::now();
        self.ns.extend(match due_per_s {
            Some(per_s) => self.asked.when_due(per_s, slice, turn)?,
            None => self.asked.again_and_again(slice, self.pause)?,
        });
        self.took += start.elapsed();
        self.server_ns += server.cpu_ns()?.saturating_sub(cpu);
        self.waited_ns += server.waited_ns()?.saturating_sub(waited);
        Ok(())
    }

    fn latency(&self) -> Latency {
        Latency::of(self.ns.clone())
    }
}

/// Measures a case against a server, in turns with health checks.
fn measure_case(
    case: &Case,
    config: &Config,
    machine: &Machine,
    server: &ServerProcess,
) -> Result<Row, Error> {
    let on_own_core = || server::pin_to_core(1, case.clients == 1);
    let pinned = on_own_core();
    let is_durable = case.class == Some(Durability::Durable);
    let slice = Duration::from_secs_f64(config.seconds / config.rounds as f64);
    let mut sides = vec![Side::new(case, server)?];
    sides.push(Side::new(&Case { request: Request::HealthCheck, batch: 1, ..*case }, server)?);
    if is_durable {
        let written = Case { class: Some(Durability::Written), ..*case };
        sides.push(Side::new(&written, server)?);
        if case.clients == 1 {
            sides.push(Side { pause: server::PAUSE, ..Side::new(&written, server)? });
        }
    }
    // To get warm: keys, connections, threads.
    for side in &sides {
        side.asked.again_and_again(slice / 4, side.pause)?;
    }
    let due_per_s = match case.is_due {
        true => Some(half_of_most(&sides[0].asked, slice)?),
        false => None,
    };
    drop(pinned);
    let (mut watch, mut disk) = (Watch::default(), Vec::new());
    for round in 0..config.rounds {
        // Forwards and backwards by rounds.
        if round > 0 {
            sides.reverse();
        }
        watch.turn(Some(server), || {
            let pinned = on_own_core();
            sides
                .iter_mut()
                .try_for_each(|side| side.run(slice, due_per_s, round as u64, server))?;
            drop(pinned);
            match is_durable {
                true => server.sync_again_and_again(40, &mut disk),
                false => Ok(()),
            }
        })?;
    }
    if config.rounds.is_multiple_of(2) {
        sides.reverse();
    }
    let (around, rounds) = (watch.load(), config.rounds);
    let coalesce = Some(config.coalesce.clone()).filter(|_| case.clients > 1);
    let row = Row { coalesce, due_per_s, around, rounds, ..case.row(machine) };
    Ok(complete_row(case, &sides, disk, row))
}

/// Half as many requests a second as there can be.
fn half_of_most(asked: &PreparedRequest, slice: Duration) -> Result<f64, Error> {
    let start = Instant::now();
    let requests = asked.again_and_again(slice, Duration::ZERO)?.len();
    Ok(requests as f64 / start.elapsed().as_secs_f64() / 2.0)
}

/// Completes a row from its sides: the case, health checks, and the written case without pauses and with them.
fn complete_row(case: &Case, sides: &[Side], disk: Vec<u64>, row: Row) -> Row {
    let turns = &sides[0];
    let requests = turns.ns.len();
    let of_all = (requests * case.batch) as f64;
    let (us, floor) = (turns.latency(), sides[1].latency());
    let synced = Some(disk).filter(|disk| !disk.is_empty()).map(Latency::of);
    Row {
        us,
        server_us_per_op: Some(turns.server_ns as f64 / 1e3 / of_all),
        server_waited_us_per_op: Some(turns.waited_ns as f64 / 1e3 / of_all),
        ops_per_s: of_all / turns.took.as_secs_f64(),
        floor_us: Some(floor.p50),
        floor_p99_us: Some(floor.p99),
        over_floor: Some(us.p50 / floor.p50),
        written_us: sides.get(2).map(|side| side.latency().p50),
        paused_us: sides.get(3).map(|side| side.latency().p50),
        fdatasync_us: synced.map(|synced| synced.p50),
        fdatasync_p99_us: synced.map(|synced| synced.p99),
        requests,
        ..row
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_one_server_stand_together_and_no_two_are_the_same() {
        let all = Case::all();
        for (place, case) in all.iter().enumerate() {
            assert!(!all[..place].contains(case), "{case:?}");
        }
        let https: Vec<&Case> = all.iter().filter(|case| case.class.is_some()).collect();
        let changes = https.windows(2).filter(|two| !two[0].is_of_one_server(two[1])).count();
        // One client, several, and many keys.
        assert_eq!(changes, 2);
    }
}
