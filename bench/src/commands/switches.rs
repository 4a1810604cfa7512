//! `gabion bench switches`: the same handshakes with a switch of the provider on and off.

use crate::tls::switches::{ALONE_MAX, Config, LoneVerdict, Ratios, Row, USUAL, measure};
use clap::{Parser, ValueEnum};

use super::setup::{Setup, lines, print};
use gabion_cli::failure::Failure;
use gabion_cli::table::{Align, Table};

/// Measure handshakes with a switch of the provider on and off, in alternation
///
/// A round is a quarter of a second with the switch on and one with it off; client and server run
/// on one thread. Every ratio is on divided by off, computed in two ways: the median of the rounds'
/// ratios, and the ratio of the medians of all slices. If they contradict each other, the machine
/// was busy or changed its speed, and the row is inconclusive.
#[derive(Parser)]
#[command(after_help = "Example:
  gabion bench switches --switch key-pools --group X25519MLKEM768 --sig ML-DSA-65\n
Groups and signatures are those of `gabion bench tls`.\n
Exits 1 if a handshake fails, or if a single connection on one thread is slower with a switch: its p50
is above 1.02 times that without, by either of the two ratios. If only one ratio is above, the result
is inconclusive. Exits 3 if the bundle or the provider does not load.")]
pub struct Args {
    /// Switch to measure; may be given several times [default: all]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "NAME")]
    switch: Vec<SwitchName>,
    /// Key exchange groups [default: X25519MLKEM768; without --group, --sig, --threads and
    /// --connections: the rows of docs/reference/provider-measurements.md]
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    group: Vec<String>,
    /// Algorithms of the server's and the root's keys [default: ML-DSA-65, or as for --group]
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    sig: Vec<String>,
    /// Number of threads [default: 1, or as for --group]
    #[arg(long, value_name = "T")]
    threads: Option<usize>,
    /// Concurrent connections per thread in asynchronous jobs; 0: one after the other, without jobs
    /// [default: 1 for async-jobs, 0 for the others, or as for --group]
    #[arg(long, value_name = "N")]
    connections: Option<usize>,
    /// Number of rounds per row, half a second each
    #[arg(long, value_name = "N", default_value_t = 20)]
    rounds: usize,
    #[command(flatten)]
    setup: Setup,
    /// Print one JSON object per line, for each row as soon as it is measured
    #[arg(long)]
    json: bool,
}

/// `--switch`.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SwitchName {
    /// Key pairs for TLS key shares made ahead
    KeyPools,
    /// X25519 by itself, such as a client's second key share, is served by gabion
    X25519,
    /// Operations in asynchronous jobs pause and run together
    AsyncJobs,
}

impl SwitchName {
    /// Returns the name in the provider's section of a configuration file.
    fn name(self) -> &'static str {
        match self {
            SwitchName::KeyPools => "key-pools",
            SwitchName::X25519 => "x25519",
            SwitchName::AsyncJobs => "async-jobs",
        }
    }

    /// Returns the default number of connections of a thread: without jobs, `async-jobs` has no
    /// effect.
    fn connections(self) -> usize {
        usize::from(self == SwitchName::AsyncJobs)
    }
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    let json = args.json;
    let mut rows = Vec::new();
    for config in configs(args)? {
        let row = measure(&config)?;
        if json {
            print(&lines(std::slice::from_ref(&row))?)?;
        }
        rows.push(row);
    }
    if !json {
        print(&render(&rows))?;
    }
    verdict(&rows)
}

/// Returns the measurements, row by row.
fn configs(args: Args) -> Result<Vec<Config>, Failure> {
    let (prefix, modules) = args.setup.places()?;
    let row = |(switch, group, signature, threads, connections): (&str, &str, &str, _, _)| Config {
        prefix: prefix.clone(),
        modules: modules.clone(),
        switch: switch.to_owned(),
        group: group.to_owned(),
        signature: signature.to_owned(),
        threads,
        connections,
        rounds: args.rounds,
    };
    let switches = match args.switch.is_empty() {
        true => SwitchName::value_variants(),
        false => &args.switch[..],
    };
    let named = !args.group.is_empty() || !args.sig.is_empty();
    if !named && args.threads.is_none() && args.connections.is_none() {
        let is_wanted = |name: &str| switches.iter().any(|switch| switch.name() == name);
        return Ok(USUAL.into_iter().filter(|usual| is_wanted(usual.0)).map(row).collect());
    }
    let or = |given: Vec<String>, usual: &str| match given.is_empty() {
        true => vec![usual.to_owned()],
        false => given,
    };
    let (groups, signatures) = (or(args.group, "X25519MLKEM768"), or(args.sig, "ML-DSA-65"));
    let threads = args.threads.unwrap_or(1);
    let mut configs = Vec::new();
    for switch in switches {
        let connections = args.connections.unwrap_or(switch.connections());
        for group in &groups {
            for signature in &signatures {
                configs.push(row((switch.name(), group, signature, threads, connections)));
            }
        }
    }
    Ok(configs)
}

fn render(rows: &[Row]) -> String {
    let Some(first) = rows.first() else {
        return String::new();
    };
    let mut table = Table::new(&[
        ("switch", Align::Left),
        ("group", Align::Left),
        ("certificates", Align::Left),
        ("threads", Align::Right),
        ("conns", Align::Right),
        ("p50 on, us", Align::Right),
        ("off, us", Align::Right),
        ("p50 ratios", Align::Right),
        ("of rounds", Align::Right),
        ("CPU ratios", Align::Right),
        ("rate ratios", Align::Right),
        ("alone", Align::Left),
    ]);
    for row in rows {
        let both =
            |of: fn(&Ratios) -> f64| format!("{:.3}, {:.3}", of(&row.paired), of(&row.of_medians));
        table.row([
            row.switch.clone(),
            row.group.clone(),
            row.sig.clone(),
            row.threads.to_string(),
            row.connections.to_string(),
            format!("{:.1}", row.on.p50_us),
            format!("{:.1}", row.off.p50_us),
            both(|ratios| ratios.p50_ratio),
            format!("{:.3} to {:.3}", row.p50_spread.p20, row.p50_spread.p80),
            both(|ratios| ratios.cpu_ratio),
            both(|ratios| ratios.rate_ratio),
            row.alone.map_or("-", LoneVerdict::name).to_owned(),
        ]);
    }
    format!(
        "Handshakes with a switch on, over those with it off: {}, {} rounds.\nRatios: the median of \
         the rounds', then that of the medians; 20th and 80th percentile of the rounds' p50.\n\n{table}",
        first.openssl, first.rounds
    )
}

/// Exit code 0 where no connection alone is slower, or a failure that says which is or may be.
fn verdict(rows: &[Row]) -> Result<u8, Failure> {
    let mut faults = Vec::new();
    for row in rows {
        let (paired, of_medians) = (row.paired.p50_ratio, row.of_medians.p50_ratio);
        let ratios = format!("p50 {paired:.3} by rounds, {of_medians:.3} by medians");
        let what = format!("{}, {} with {}", row.switch, row.group, row.sig);
        match row.alone {
            None | Some(LoneVerdict::NotSlower) => {}
            Some(LoneVerdict::Slower) => faults.push(format!(
                "{what}: one connection alone is slower: {ratios}; at most {ALONE_MAX} is expected"
            )),
            Some(LoneVerdict::Undecided) => faults.push(format!(
                "{what}: the two ratios do not agree whether one connection alone is slower than \
                 {ALONE_MAX}: {ratios}; measure again on a quiet machine, with more --rounds"
            )),
        }
    }
    match faults.is_empty() {
        true => Ok(0),
        false => Err(Failure::No(faults.join("\n"))),
    }
}

#[cfg(test)]
mod tests {
    use crate::machine::Machine;
    use crate::tls::Spread;
    use crate::tls::switches::Figures;

    use super::*;

    fn asked(words: &[&str]) -> Vec<Config> {
        let args = Args::try_parse_from([&["switches"], words].concat()).unwrap();
        configs(args).unwrap()
    }

    #[test]
    fn without_names_the_usual_rows_are_measured() {
        let all = asked(&[]);
        assert_eq!(all.len(), USUAL.len());
        let pools = asked(&["--switch", "key-pools", "--rounds", "3"]);
        assert!(pools.iter().all(|config| config.switch == "key-pools" && config.rounds == 3));
        assert!(pools.iter().any(|config| config.signature == "ML-DSA-65"));
        assert!(!pools.is_empty() && pools.len() < all.len());
    }

    #[test]
    fn names_make_a_row_of_each_pair_and_switch() {
        let rows = asked(&["--group", "MLKEM768,x25519", "--sig", "ECDSA-P-256"]);
        let said: Vec<_> = rows
            .iter()
            .map(|row| (&*row.switch, &*row.group, &*row.signature, row.threads, row.connections))
            .collect();
        assert_eq!(
            said,
            [
                ("key-pools", "MLKEM768", "ECDSA-P-256", 1, 0),
                ("key-pools", "x25519", "ECDSA-P-256", 1, 0),
                ("x25519", "MLKEM768", "ECDSA-P-256", 1, 0),
                ("x25519", "x25519", "ECDSA-P-256", 1, 0),
                ("async-jobs", "MLKEM768", "ECDSA-P-256", 1, 1),
                ("async-jobs", "x25519", "ECDSA-P-256", 1, 1),
            ]
        );
        let rows = asked(&["--switch", "async-jobs", "--threads", "2", "--connections", "8"]);
        assert_eq!((rows.len(), rows[0].threads, rows[0].connections), (1, 2, 8));
        assert_eq!((&*rows[0].group, &*rows[0].signature), ("X25519MLKEM768", "ML-DSA-65"));
    }

    /// The usual rows with these verdicts, by place.
    fn rows(alone: impl Fn(usize) -> Option<LoneVerdict>) -> Vec<Row> {
        let figures = Figures { p50_us: 1.0, p99_us: 2.0, cpu_us: 1.0, handshakes_per_s: 1.0 };
        let ratios = Ratios { p50_ratio: 1.5, cpu_ratio: 1.0, rate_ratio: 1.0 };
        let row = |(place, config): (usize, Config)| Row {
            switch: config.switch,
            group: config.group,
            sig: config.signature,
            threads: config.threads,
            connections: config.connections,
            rounds: config.rounds,
            on: figures,
            off: figures,
            paired: ratios,
            p50_spread: Spread { p20: 1.0, p80: 1.0 },
            of_medians: ratios,
            alone: alone(place),
            machine: Machine::detect(),
            openssl: String::new(),
        };
        asked(&[]).into_iter().enumerate().map(row).collect()
    }

    #[test]
    fn verdict_lists_slower_single_connections() {
        assert_eq!(verdict(&rows(|_| None)).unwrap(), 0);
        assert_eq!(verdict(&rows(|_| Some(LoneVerdict::NotSlower))).unwrap(), 0);
        let failure = verdict(&rows(|place| match place {
            1 => Some(LoneVerdict::Slower),
            2 => Some(LoneVerdict::Undecided),
            _ => Some(LoneVerdict::NotSlower),
        }));
        let Err(Failure::No(text)) = failure else { panic!("{failure:?}") };
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 2, "{text}");
        assert!(lines[0].contains("X25519MLKEM768 with ML-DSA-65: one connection alone is slower"));
        assert!(lines[1].contains("MLKEM768 with ECDSA-P-256: the two ratios do not agree"));
    }
}
