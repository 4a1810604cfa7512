//! `gabion bench engine --backend cuda`: what batches on a GPU cost.

use std::io::Write;

use crate::gpu::{self, Config, Event, Profile, Row};
use serde::Serialize;

use gabion_cli::failure::Failure;
use gabion_cli::stamp::StampedRow;

/// The backend whose rows these are.
pub const BACKEND: &str = "cuda";

/// Options that say something of a GPU only.
#[derive(clap::Args)]
pub struct Options {
    /// Number of the GPU, with --backend cuda
    #[arg(long, value_name = "N", default_value_t = 0)]
    device: u32,
    /// Host memory for batches in MiB, with --backend cuda
    #[arg(long, value_name = "MIB", default_value_t = gpu::MEMORY >> 20)]
    memory: usize,
    /// Device memory for each chunk in flight in MiB, with --backend cuda
    #[arg(long, value_name = "MIB", default_value_t = gpu::SLOT >> 20)]
    slot: usize,
    /// Also measure each kernel, with --backend cuda
    #[arg(long)]
    profile: bool,
    /// Omit the row with ordinary memory, with --backend cuda
    #[arg(long)]
    pinned_only: bool,
}

impl Options {
    /// Returns the name of an option that only applies to a GPU, if one was given.
    pub fn of_a_gpu(&self) -> Option<&'static str> {
        let is_asked = [
            ("--device", self.device != 0),
            ("--memory", self.memory != gpu::MEMORY >> 20),
            ("--slot", self.slot != gpu::SLOT >> 20),
            ("--profile", self.profile),
            ("--pinned-only", self.pinned_only),
        ];
        is_asked.into_iter().find(|asked| asked.1).map(|asked| asked.0)
    }

    /// Measures; `config` has the other options.
    pub fn run(&self, config: Config, is_json: bool) -> Result<u8, Failure> {
        let bytes = |option, mib: usize| {
            let bytes = mib.checked_mul(1 << 20).filter(|&bytes| bytes > 0);
            bytes.ok_or_else(|| {
                Failure::Usage(format!("{option} {mib} is out of range; expected MiB"))
            })
        };
        let memory = bytes("--memory", self.memory)?;
        let slot = bytes("--slot", self.slot)?;
        let (profile, ordinary) = (self.profile, !self.pinned_only);
        let config = Config { memory, slot, profile, ordinary, ..config };
        let mut table = Table { is_json, is_headed: false };
        let mut failed = None;
        gpu::measure_device(self.device, &config, |event| {
            let mut out = std::io::stdout().lock();
            let written = table.text(&event).and_then(|text| {
                let written = write!(out, "{text}").and_then(|()| out.flush());
                written.map_err(|cause| cause.to_string())
            });
            failed = written.err();
            failed.is_none()
        })?;
        match failed {
            None => Ok(0),
            Some(cause) => Err(Failure::NotReady(format!("cannot write the result: {cause}"))),
        }
    }
}

/// Rows as they come.
struct Table {
    is_json: bool,
    is_headed: bool,
}

impl Table {
    /// Returns the text for standard output; cases that were left out are reported on standard
    /// error.
    fn text(&mut self, event: &Event) -> Result<String, String> {
        match event {
            Event::LeftOut(why) => {
                eprintln!("left out: {why}");
                Ok(String::new())
            }
            Event::Row(row) if self.is_json => json(&**row),
            Event::Kernel(row) if self.is_json => json(&**row),
            Event::Row(row) => {
                let head = if self.is_headed { String::new() } else { head(row) };
                self.is_headed = true;
                Ok(head + &line(row))
            }
            Event::Kernel(row) => Ok(kernel_line(row)),
        }
    }
}

fn json<T: Serialize>(row: &T) -> Result<String, String> {
    let line = serde_json::to_string(&StampedRow::now(row)).map_err(|cause| cause.to_string())?;
    Ok(line + "\n")
}

fn head(row: &Row) -> String {
    format!(
        "{}, driver {}, {} multiprocessors at {} MHz at most; {}, {} cores\n\
         {:<32} {:>8} {:>7} {:<8} {:>12} {:>12} {:>10} {:>10} {:>13} {:>6} {:>6} {:>10}\n",
        row.device.name,
        row.device.driver,
        row.device.multiprocessors,
        row.device.clock_mhz,
        row.machine.cpu,
        row.machine.cores,
        "operation",
        "batch",
        "threads",
        "memory",
        "kernels/s",
        "end-to-end/s",
        "us p50",
        "us p99",
        "bytes to,from",
        "cores",
        "busy",
        "J/1000"
    )
}

fn line(row: &Row) -> String {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let name = format!(
        "{}:{}:{}",
        row.subject.algorithm,
        row.subject.operation.word(),
        match (&row.returns, row.subject.key) {
            (Some(returns), _) => returns.replace(", ", "+"),
            (None, key) => key.word().to_owned(),
        }
    );
    let of = row.end_to_end.as_ref();
    format!(
        "{:<32} {:>8} {:>7} {:<8} {:>12} {:>12} {:>10} {:>10} {:>13} {:>6} {:>6} {:>10}\n",
        name,
        row.batch,
        row.threads,
        row.memory.word(),
        or_dash(row.kernel.map(|kernel| format!("{:.0}", kernel.ops_per_s))),
        or_dash(of.map(|of| format!("{:.0}", of.ops_per_s))),
        or_dash(of.map(|of| format!("{:.1}", of.batch_us.p50))),
        or_dash(of.map(|of| format!("{:.1}", of.batch_us.p99))),
        or_dash(of.map(|of| format!("{:.0},{:.0}", of.bytes_to_device, of.bytes_from_device))),
        or_dash(of.map(|of| format!("{:.2}", of.cpu_cores))),
        or_dash(of.and_then(|of| of.device_busy).map(|busy| format!("{busy:.2}"))),
        or_dash(of.and_then(|of| of.joules_per_1000).map(|joules| format!("{joules:.4}"))),
    )
}

fn kernel_line(row: &Profile) -> String {
    format!(
        "    {:<36} {:>8} launches {:>10.3} ms {:>6.1} % {:>10.2} ns/op\n",
        row.kernel_name,
        row.launches,
        row.ms,
        row.share * 100.0,
        row.ns_per_op
    )
}

/// A size of a batch: `16`, `4k` for 4096, `1M` for 1048576.
pub fn size(text: &str) -> Result<usize, String> {
    let (digits, unit) = match text.strip_suffix('k') {
        Some(digits) => (digits, 1 << 10),
        None => text.strip_suffix('M').map_or((text, 1), |digits| (digits, 1 << 20)),
    };
    let number =
        digits.parse::<usize>().ok().filter(|_| digits.chars().all(|c| c.is_ascii_digit()));
    number
        .and_then(|number| number.checked_mul(unit))
        .ok_or_else(|| "expected a number, such as 16, 4k or 1M".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use gabion_rows::gpu::{Device, EndToEnd, HostMemory, Kernel};
    use gabion_rows::operations::{Key, Operation, Subject};

    fn row() -> Row {
        Row {
            subject: Subject {
                algorithm: "ML-KEM-768".into(),
                operation: Operation::Keygen,
                key: Key::Fresh,
            },
            returns: Some("ek, dk".into()),
            backend: "cuda".into(),
            batch: 4096,
            threads: 8,
            memory: HostMemory::Pinned,
            kernel: Some(Kernel { ops_per_s: 3e7, ns_per_op: 33.3, operations: 1 << 20 }),
            end_to_end: Some(EndToEnd {
                ops_per_s: 1.25e7,
                batch_us: crate::clock::Percentiles { p50: 812.25, p99: 901.0 },
                batches: 12,
                operations: 49_152,
                compared: 9000,
                seconds: 0.5,
                bytes_to_device: 64.2,
                bytes_from_device: 3588.0,
                cpu_cores: 0.5,
                device_busy: Some(0.41),
                joules_per_1000: None,
            }),
            device: Device {
                name: "A GPU".into(),
                driver: "13.0".into(),
                multiprocessors: 132,
                clock_mhz: 1980,
            },
            machine: Default::default(),
        }
    }

    #[test]
    fn sizes_are_read_with_their_units() {
        for (text, size_of) in
            [("1", 1), ("16", 16), ("4k", 4096), ("256k", 262_144), ("1M", 1 << 20)]
        {
            assert_eq!(size(text), Ok(size_of));
        }
        for bad in ["", "k", "-1", "+4k", "1G", "4 k", "99999999999999M"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_line_has_a_word_under_each_word_of_the_head() {
        let mut table = Table { is_json: false, is_headed: false };
        let text = table.text(&Event::Row(Box::new(row()))).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(lines[0].starts_with("A GPU, driver 13.0, 132 multiprocessors"), "{text}");
        assert!(lines[2].starts_with("ML-KEM-768:keygen:ek+dk "), "{text}");
        for (word, under) in [("batch", "4096"), ("end-to-end/s", "12500000"), ("J/1000", "-")] {
            let end = lines[1].find(word).unwrap() + word.len();
            assert!(lines[2][..end].ends_with(under), "{word}: {text}");
        }
        // The second row comes without a head.
        assert_eq!(table.text(&Event::Row(Box::new(row()))).unwrap().lines().count(), 1);
        assert_eq!(table.text(&Event::LeftOut("why".into())), Ok(String::new()));
    }

    #[test]
    fn rows_are_one_object_a_line_with_their_stamp() {
        let mut table = Table { is_json: true, is_headed: false };
        let text = table.text(&Event::Row(Box::new(row()))).unwrap();
        assert_eq!(text.matches('\n').count(), 1);
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        for field in ["algorithm", "returns", "kernel", "end_to_end", "device", "date", "gabion"] {
            assert!(json.get(field).is_some(), "{field}");
        }
        assert!(matches!(gabion_rows::read(&text).unwrap()[0].row, gabion_rows::Row::Gpu(_)));
    }
}
