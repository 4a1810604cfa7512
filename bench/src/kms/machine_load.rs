//! The machine's other load during a measurement, from /proc.

use std::fs;

pub use gabion_rows::kms::MachineLoad;

use super::server::ServerProcess;
use crate::Error;
use crate::cpu_time::process_cpu_ns;

/// Nanoseconds of a tick of /proc/stat: the kernel's USER_HZ is 100 on every machine that we know.
const TICK_NS: f64 = 1e7;

/// Watches the machine turn by turn.
#[derive(Default)]
pub struct Watch {
    all: Turn,
    disturbed: usize,
}

/// Counters at one moment, in ticks of /proc/stat, and nanoseconds of the measured processes.
#[derive(Clone, Copy, Default)]
pub struct Counts {
    total: u64,
    busy: u64,
    stolen: u64,
    own_ns: u64,
}

/// The counters of a turn, in ticks.
#[derive(Clone, Copy, Default)]
struct Turn {
    total: f64,
    stolen: f64,
    others: f64,
}

impl Watch {
    /// Runs a turn of this process and a server.
    pub fn turn<T>(
        &mut self,
        server: Option<&ServerProcess>,
        run: impl FnOnce() -> Result<T, Error>,
    ) -> Result<T, Error> {
        let before = Counts::now(server)?;
        let ran = run()?;
        self.record_turn(before, server)?;
        Ok(ran)
    }

    /// Records a turn that began with the counts `before`.
    pub fn record_turn(
        &mut self,
        before: Counts,
        server: Option<&ServerProcess>,
    ) -> Result<(), Error> {
        let turn = Turn::between(before, Counts::now(server)?);
        self.all = self.all.and(turn);
        if turn.share(turn.stolen + turn.others) > MachineLoad::OTHERS_MAX {
            self.disturbed += 1;
        }
        Ok(())
    }

    /// Returns the load of all recorded turns.
    pub fn load(&self) -> MachineLoad {
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let load = load.split_whitespace().next().and_then(|load| load.parse().ok());
        let Watch { all, disturbed } = *self;
        let (steal, others) = (all.share(all.stolen), all.share(all.others));
        MachineLoad { load: load.unwrap_or(0.0), steal, others, disturbed }
    }
}

impl Counts {
    /// Returns the counters at this moment, with those of this process and of a running server.
    pub fn now(server: Option<&ServerProcess>) -> Result<Self, Error> {
        let of_server = server.map_or(Ok(0), ServerProcess::cpu_ns)?;
        let text = fs::read_to_string("/proc/stat").unwrap_or_default();
        let counts = Counts::of(&text).unwrap_or_default();
        Ok(Counts { own_ns: of_server + process_cpu_ns(), ..counts })
    }

    /// Parses the first line of /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal;
    /// the following fields are included in those already.
    fn of(stat: &str) -> Option<Self> {
        let fields = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
        let fields = fields.take(8).map(str::parse).collect::<Result<Vec<u64>, _>>().ok()?;
        let [user, nice, system, idle, iowait, irq, softirq, stolen] = fields[..] else {
            return None;
        };
        let busy = user + nice + system + irq + softirq;
        Some(Counts { total: busy + idle + iowait + stolen, busy, stolen, own_ns: 0 })
    }
}

impl Turn {
    fn between(before: Counts, after: Counts) -> Self {
        let ticks = |of: fn(Counts) -> u64| of(after).saturating_sub(of(before)) as f64;
        let own = ticks(|counts| counts.own_ns) / TICK_NS;
        // Ticks are coarse: of a short turn they may be fewer than what was measured by nanoseconds.
        let others = (ticks(|counts| counts.busy) - own).max(0.0);
        Turn { total: ticks(|counts| counts.total), stolen: ticks(|counts| counts.stolen), others }
    }

    fn and(self, other: Turn) -> Turn {
        Turn {
            total: self.total + other.total,
            stolen: self.stolen + other.stolen,
            others: self.others + other.others,
        }
    }

    /// Returns the share of the total; 0 for an empty interval.
    fn share(&self, ticks: f64) -> f64 {
        if self.total > 0.0 { ticks / self.total } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_of_other_processes_excludes_the_measured() {
        let of = |text: &str, own_ns| Counts { own_ns, ..Counts::of(text).unwrap() };
        let before = of("cpu  100 1 50 1000 10 2 3 4 7 7\ncpu0 1", 5_000_000);
        // 200 ticks: 80 idle, 10 stolen, 110 busy, of which the measured have 90.
        let after = of("cpu  160 1 98 1070 20 2 5 14 9 9\ncpu0 1", 905_000_000);
        let turn = Turn::between(before, after);
        assert_eq!((turn.total, turn.stolen, turn.others), (200.0, 10.0, 20.0));
        assert_eq!(turn.share(turn.stolen + turn.others), 0.15);
        assert_eq!(Turn::between(after, after).share(1.0), 0.0);
        for none in ["", "cpu0 1 2 3 4 5 6 7 8", "cpu  1 2 3", "cpu  1 2 3 4 5 6 7 x"] {
            assert!(Counts::of(none).is_none(), "{none}");
        }
    }

    #[test]
    fn load_of_an_idle_machine_is_a_fraction() {
        let mut watch = Watch::default();
        let spin = || {
            let start = std::time::Instant::now();
            while start.elapsed().as_millis() < 120 {}
            Ok(())
        };
        watch.turn(None, spin).unwrap();
        let around = watch.load();
        // Other tests run in parallel.
        assert!((0.0..=1.0).contains(&around.others) && (0.0..=1.0).contains(&around.steal));
        assert!(watch.all.total >= 10.0, "{}", watch.all.total);
    }
}
