//! What requests to the key management service cost: who asks, and the server.
//!
//! ```text
//!   Case ──> Served: `gabion kms` over a store in a file, a process of its own, on core 0
//!    │          │  each turn:  requests that do nothing | requests of the case      from core 1
//!    │          └─ clock of the server's process around each turn ──> server_us_per_op
//!    └────> the same verbs within this process, nothing told of them
//! ```
//!
//! Messages are of 128 bytes, keys are known, connections are kept. Where there is more than one client, nobody has a core
//! of their own.

mod process;
mod requests;
mod served;

use std::time::{Duration, Instant};

pub use gabion_rows::kms::Kms as Row;
use gabion_rows::kms::{Class, Latency, Request, Through};
use regex::Regex;

use crate::Error;
use crate::machine::Machine;
use requests::Asked;
use served::Served;
pub use served::serve;

/// What to measure.
#[derive(Clone, Debug)]
pub struct Config {
    /// Only rows whose `algorithm:request:class:through` matches.
    pub filter: Option<Regex>,
    /// Time for each row, in seconds; more than 0 and at most 3600.
    pub seconds: f64,
    /// Turns of a row; at least 1.
    pub rounds: usize,
}

/// A row to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Case {
    request: Request,
    algorithm: &'static str,
    through: Through,
    class: Option<Class>,
    clients: usize,
    batch: usize,
}

const ED25519: &str = "ed25519";
const ML_DSA: &str = "ml-dsa-65";

/// Bytes of a message.
const MESSAGE: usize = 128;

impl Case {
    /// Every one, those of one server together.
    fn all() -> Vec<Case> {
        let mut all = Vec::new();
        let mut https = |class, clients, batch, what: &[(Request, &'static str)]| {
            all.extend(what.iter().map(|(request, algorithm)| Case {
                request: *request,
                algorithm,
                through: Through::Https,
                class: Some(class),
                clients,
                batch,
            }));
        };
        let both = [(Request::Sign, ED25519), (Request::Sign, ML_DSA), (Request::Verify, ML_DSA)];
        https(Class::Written, 1, 1, &[(Request::Nothing, "")]);
        https(Class::Written, 1, 1, &both);
        https(Class::Written, 1, 64, &both[..2]);
        https(Class::Durable, 1, 1, &both);
        https(Class::Written, 8, 1, &both);
        https(Class::Durable, 8, 1, &both[..1]);
        let mut process = |request, algorithm, batch| {
            let (through, class) = (Through::Process, None);
            all.push(Case { request, algorithm, through, class, clients: 1, batch });
        };
        for batch in [1, 32, 64] {
            for request in [Request::Sign, Request::Verify, Request::Cold] {
                process(request, ED25519, batch);
                process(request, ML_DSA, batch);
            }
        }
        all
    }

    fn name(&self) -> String {
        let class = self.class.map_or("none", Class::word);
        let (request, through) = (self.request.word(), self.through.word());
        format!("{}:{request}:{class}:{through}", self.algorithm)
    }

    /// Whether a server that is there may be asked for another case, too.
    fn is_of_one_server(&self, other: &Case) -> bool {
        (self.class, self.clients > 1) == (other.class, other.clients > 1)
    }
}

/// Measures every row that the filter picks; `emit` gets each as soon as it is there, and ends the measurement by `false`.
///
/// # Errors
/// `Usage` for a value out of range or a filter that picks nothing; `NotReady` where no server starts; `Failed` when it
/// refuses what is asked.
pub fn measure(config: &Config, mut emit: impl FnMut(Row) -> bool) -> Result<(), Error> {
    if !(config.seconds > 0.0 && config.seconds <= 3600.0) {
        return Err(Error::Usage("the time of a row is more than 0 and at most 3600 s".to_owned()));
    }
    if config.rounds == 0 {
        return Err(Error::Usage("a row has at least one turn".to_owned()));
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
    let mut server: Option<(Case, Served)> = None;
    for case in cases {
        let row = match case.through {
            Through::Process => process::measured(&case, config, &machine)?,
            Through::Https => {
                if !server.as_ref().is_some_and(|(of, _)| of.is_of_one_server(&case)) {
                    drop(server.take());
                    let is_durable = case.class == Some(Class::Durable);
                    server = Some((case, Served::start(is_durable, case.clients == 1)?));
                }
                let Some((_, server)) = &server else {
                    return Err(Error::NotReady("there is no server".to_owned()));
                };
                asked(&case, config, &machine, server)?
            }
        };
        if !emit(row) {
            break;
        }
    }
    Ok(())
}

/// What one side of the turns has come to.
#[derive(Default)]
struct Turns {
    ns: Vec<u64>,
    server_ns: u64,
    took: Duration,
}

/// Asks a server, in turns with requests that do nothing.
fn asked(case: &Case, config: &Config, machine: &Machine, server: &Served) -> Result<Row, Error> {
    let _pinned = served::on_core(1, case.clients == 1);
    let asked = Asked::new(case, server)?;
    let nothing = Asked::new(&Case { request: Request::Nothing, batch: 1, ..*case }, server)?;
    let slice = Duration::from_secs_f64(config.seconds / config.rounds as f64);
    // To get warm: keys, connections, threads.
    asked.again_and_again(slice / 4)?;
    nothing.again_and_again(slice / 4)?;
    let (mut turns, mut floor, mut disk) = (Turns::default(), Turns::default(), Vec::new());
    for round in 0..config.rounds {
        for step in 0..2 {
            // Forwards and backwards by rounds.
            let (what, into) = match (round + step) % 2 {
                0 => (&asked, &mut turns),
                _ => (&nothing, &mut floor),
            };
            let (before, start) = (server.cpu_ns()?, Instant::now());
            into.ns.extend(what.again_and_again(slice)?);
            into.took += start.elapsed();
            into.server_ns += server.cpu_ns()?.saturating_sub(before);
        }
        if case.class == Some(Class::Durable) {
            server.sync_again_and_again(40, &mut disk)?;
        }
    }
    let requests = turns.ns.len();
    let of_all = (requests * case.batch) as f64;
    let (us, floor_us) = (Latency::of(turns.ns), Latency::of(floor.ns).p50);
    Ok(Row {
        request: case.request,
        algorithm: case.algorithm.to_owned(),
        through: case.through,
        class: case.class,
        clients: case.clients,
        batch: case.batch,
        us,
        server_us_per_op: Some(turns.server_ns as f64 / 1e3 / of_all),
        ops_per_s: of_all / turns.took.as_secs_f64(),
        floor_us: Some(floor_us),
        over_floor: Some(us.p50 / floor_us),
        fdatasync_us: Some(disk).filter(|disk| !disk.is_empty()).map(|disk| Latency::of(disk).p50),
        requests,
        rounds: config.rounds,
        machine: machine.clone(),
    })
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
        assert_eq!(changes, 3);
    }
}
