//! One line of progress per stage on stderr: a bar with the remaining time on a terminal, and
//! occasional plain lines on a file or pipe.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Interval of the plain lines, so that a CI log stays readable.
const PLAIN_EVERY: Duration = Duration::from_secs(30);
/// Interval between updates of the bar.
const BAR_EVERY: Duration = Duration::from_millis(200);
const BAR_WIDTH: usize = 24;

/// Runs `work` as one stage.
pub(crate) fn run_stage<T>(
    name: &'static str,
    work: impl FnOnce() -> crate::Result<T>,
) -> crate::Result<T> {
    let stage = Stage::start(name, 0);
    let result = work();
    match &result {
        Ok(_) => stage.done(),
        Err(_) => stage.failed(),
    }
    result
}

/// The progress of one stage, from [`Stage::start`] to [`Stage::done`].
pub struct Stage {
    name: &'static str,
    steps: usize,
    begun: Instant,
    shown: Instant,
    terminal: bool,
}

impl Stage {
    /// Announces a stage of `steps` steps; 0 if their number is unknown.
    pub fn start(name: &'static str, steps: usize) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let now = Instant::now();
        let stage = Stage { name, steps, begun: now, shown: now, terminal };
        if terminal {
            stage.draw(0);
        } else {
            eprintln!("{name} ...");
        }
        stage
    }

    /// Reports that `step` steps are complete. Redraws at most once per interval.
    pub fn step(&mut self, step: usize) {
        let every = if self.terminal { BAR_EVERY } else { PLAIN_EVERY };
        if self.shown.elapsed() < every {
            return;
        }
        self.shown = Instant::now();
        if self.terminal {
            self.draw(step);
        } else {
            let text = self.position(step);
            eprintln!("{} ... {text}", self.name);
        }
    }

    /// Ends the line.
    pub fn done(self) {
        let took = duration_text(self.begun.elapsed());
        self.ended(&format!("done in {took}"));
    }

    /// Ends the line of a stage that failed.
    pub(crate) fn failed(self) {
        self.ended("failed");
    }

    /// Ends the line with the outcome of the stage.
    pub(crate) fn ended(self, what: &str) {
        if self.terminal {
            eprintln!("\r\x1b[K{:<34} {what}", self.name);
        } else {
            eprintln!("{} {what}", self.name);
        }
    }

    fn position(&self, step: usize) -> String {
        if self.steps == 0 || step == 0 {
            return format!("{} so far", duration_text(self.begun.elapsed()));
        }
        let step = step.min(self.steps);
        let left = self.begun.elapsed().mul_f64((self.steps - step) as f64 / step as f64);
        format!("{:>3}%, {} left", step * 100 / self.steps, duration_text(left))
    }

    fn draw(&self, step: usize) {
        let filled = match self.steps {
            0 => 0,
            steps => step.min(steps) * BAR_WIDTH / steps,
        };
        let bar: String = (0..BAR_WIDTH).map(|i| if i < filled { '#' } else { '.' }).collect();
        eprint!("\r\x1b[K{:<34} [{bar}] {}", self.name, self.position(step));
        // A disconnected terminal is no reason to abort a build.
        let _ = std::io::stderr().flush();
    }
}

/// Formats a duration: 75 s is `1 min 15 s`.
pub(crate) fn duration_text(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match (seconds / 60, seconds % 60) {
        (0, seconds) => format!("{seconds} s"),
        (minutes, seconds) => format!("{minutes} min {seconds:02} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_stay_within_the_stage() {
        let now = Instant::now();
        let stage = Stage { name: "x", steps: 4, begun: now, shown: now, terminal: false };
        assert!(stage.position(2).starts_with(" 50%"));
        assert!(stage.position(9).starts_with("100%, 0 s left"));
        assert_eq!(duration_text(Duration::from_secs(75)), "1 min 15 s");
    }
}
