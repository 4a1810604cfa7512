//! The GPU checks: properties of each GPU, and the batch size from which it is faster than one
//! core.

use std::time::{Duration, UNIX_EPOCH};

use gabion_engine::gpu::{self, Absent, Report};
use gabion_engine::{BACKEND_VARIABLE, Config, GPU_VARIABLE};
use pkcs8::der::DateTime;
use serde_json::{Value, json};

use super::{Check, Verdict};
use crate::failure::Failure;
use crate::table::{Align, Table};

/// The command that repeats the measurement.
const RENEW: &str = "gabion doctor --measure-gpu";

/// The detected GPUs, or the reason why no GPU is available.
pub struct Gpus(Result<Vec<Report>, Absent>);

impl Gpus {
    /// Opens the GPUs, if the environment allows them.
    pub fn find() -> Gpus {
        Gpus(gpu::report(&Config::from_environment()))
    }

    /// Measures every operation on the GPUs, for processes that start later.
    ///
    /// # Errors
    /// The reason why there is no GPU, or why the times could not be saved.
    pub fn measure() -> Result<Gpus, Failure> {
        let tell = |about: &gpu::DeviceDescription, algorithm: gabion_engine::Algorithm, task| {
            eprintln!("measuring {}: {algorithm} {task}", about.name);
        };
        let measured = gpu::measure(&Config::from_environment(), tell);
        let measured =
            measured.map_err(|why| Failure::NotReady(format!("no GPU to measure: {why}")))?;
        let mut reports = Vec::new();
        for (report, kept) in measured {
            if let (Err(cause), Some(file)) = (kept, &report.file) {
                let file = crate::files::shown(file, "-");
                let what = format!("cannot save the measurements in {file}: {cause}");
                return Err(Failure::NotReady(what));
            }
            reports.push(report);
        }
        Ok(Gpus(Ok(reports)))
    }

    /// Returns the reason why there is no GPU.
    pub fn absent(&self) -> Option<&Absent> {
        self.0.as_ref().err()
    }

    /// Returns one check per GPU, or one that states why no GPU is available.
    pub fn checks(&self) -> Vec<Check> {
        match &self.0 {
            Ok(reports) => reports.iter().map(of_report).collect(),
            Err(why) => {
                let wanted = Config::from_environment().backend;
                let is_wanted = wanted.is_some_and(|wanted| wanted.eq_ignore_ascii_case(gpu::NAME));
                vec![absent(why, is_wanted)]
            }
        }
    }

    /// Returns all properties of each GPU as JSON.
    pub fn json(&self) -> Value {
        match &self.0 {
            Ok(reports) => Value::Array(reports.iter().map(as_json).collect()),
            Err(_) => json!([]),
        }
    }

    /// Returns a table of the measurements for each GPU.
    pub fn tables(&self) -> Vec<String> {
        self.0.iter().flatten().filter_map(as_table).collect()
    }
}

/// Returns the check for a missing GPU.
fn absent(why: &Absent, is_wanted: bool) -> Check {
    if is_wanted {
        let detail = format!("{BACKEND_VARIABLE}={}: {why}", gpu::NAME);
        let mend = format!("unset {BACKEND_VARIABLE}");
        return Check::new("GPU", Verdict::Broken, detail).mended_by(&mend);
    }
    let detail = match why {
        Absent::Forbidden => format!("{GPU_VARIABLE} forbids it; everything works without"),
        why => format!("{why}; everything works without"),
    };
    Check::new("GPU", Verdict::Off, detail)
}

fn of_report(report: &Report) -> Check {
    let about = &report.about;
    let detail = format!(
        "{}, compute capability {}.{}, {} GiB, driver {}; serves batches{}",
        about.name,
        about.capability.0,
        about.capability.1,
        about.memory_bytes.div_ceil(1 << 30),
        about.driver,
        match report.costs.rows.is_empty() {
            true => format!(". Nothing was measured yet: {RENEW} does that"),
            false => {
                let faster = report.costs.rows.iter().filter(|row| row.crossover().is_some());
                format!(" of {}", crate::style::count(faster.count() as u64, "operation"))
            }
        }
    );
    Check::new("GPU", Verdict::Ok, detail)
}

/// Returns the UTC date of a measurement, or `None` for 0 seconds.
fn date(seconds: u64) -> Option<String> {
    let since = Duration::from_secs(seconds);
    let time = UNIX_EPOCH.checked_add(since).filter(|_| seconds > 0)?;
    DateTime::from_system_time(time).ok().map(|time| time.to_string())
}

fn as_json(report: &Report) -> Value {
    let Report { about, costs, file } = report;
    let points = |curve: &gpu::Curve| -> Vec<Value> {
        let point = |&(lanes, ns): &(usize, u64)| json!({ "lanes": lanes, "ns": ns });
        curve.points().iter().map(point).collect()
    };
    let rows: Vec<_> = costs
        .rows
        .iter()
        .map(|row| {
            json!({
                "algorithm": row.algorithm.name(),
                "operation": row.task.name(),
                "faster_from": row.crossover(),
                "gpu": points(&row.device),
                "core": points(&row.processor),
            })
        })
        .collect();
    json!({
        "name": about.name,
        "uuid": about.uuid,
        "capability": format!("{}.{}", about.capability.0, about.capability.1),
        "memory_bytes": about.memory_bytes,
        "driver": about.driver,
        "processor": costs.stamp.processor,
        "measured": date(costs.measured),
        "file": file,
        "costs": rows,
    })
}

/// Returns the measurements of a GPU as a table, or `None` without measurements.
fn as_table(report: &Report) -> Option<String> {
    let Report { about, costs, file } = report;
    if costs.rows.is_empty() {
        return None;
    }
    let mut table = Table::new(&[
        ("algorithm", Align::Left),
        ("operation", Align::Left),
        ("faster from", Align::Right),
        ("GPU, us", Align::Right),
        ("core, us", Align::Right),
        ("of lanes", Align::Right),
    ]);
    for row in costs.rows.iter().filter(|row| !row.device.points().is_empty()) {
        let lanes = row.device.points().last().map_or(1, |&(lanes, _)| lanes);
        let us = |ns: Option<u64>| ns.map_or("-".to_owned(), |ns| (ns / 1000).to_string());
        let from = row.crossover().map_or("never".to_owned(), |lanes| lanes.to_string());
        table.row([
            row.algorithm.name().to_owned(),
            row.task.name().to_owned(),
            from,
            us(row.device.at(lanes)),
            us(row.processor.at(lanes)),
            lanes.to_string(),
        ]);
    }
    let kept = match file {
        Some(file) => format!("kept in {}", crate::files::shown(file, "-")),
        None => "kept nowhere: neither XDG_CACHE_HOME nor HOME names a folder".to_owned(),
    };
    let when = date(costs.measured).unwrap_or_default();
    Some(format!(
        "{}: lanes of a batch from which on it is faster there than on one core ({})\n{table}\
         measured {when}, {kept}; again by: {RENEW}",
        about.name, costs.stamp.processor
    ))
}

#[cfg(test)]
mod tests {
    use gabion_engine::gpu::{Costs, Curve, DeviceDescription, Row, Stamp};
    use gabion_engine::{Algorithm, Task};

    use super::*;

    fn report(rows: Vec<Row>) -> Report {
        let about = DeviceDescription {
            name: "NVIDIA H100".to_owned(),
            uuid: "GPU-1".to_owned(),
            capability: (9, 0),
            memory_bytes: (80 << 30) - 1,
            driver: "580.95 (CUDA 13.0)".to_owned(),
        };
        let stamp = Stamp {
            gabion: "0.1.0".to_owned(),
            device: about.name.clone(),
            driver: about.driver.clone(),
            processor: "avx512".to_owned(),
        };
        let costs = Costs { stamp, measured: 1_764_184_000, rows };
        Report { about, costs, file: Some("/cache/gabion/gpu-GPU-1.txt".into()) }
    }

    fn row(task: Task, device: &[(usize, u64)]) -> Row {
        let processor = Curve::new(vec![(1, 10_000)]).unwrap();
        let device = Curve::new(device.to_vec()).unwrap();
        Row { algorithm: Algorithm::MlKem768, task, device, processor }
    }

    #[test]
    fn a_gpu_is_shown_with_what_was_measured_on_it() {
        let rows = vec![
            row(Task::Encaps, &[(1, 150_000), (1000, 150_000)]),
            row(Task::Decaps, &[(1, 50_000)]),
            row(Task::Keygen, &[]),
        ];
        let gpus = Gpus(Ok(vec![report(rows)]));
        let check = &gpus.checks()[0];
        assert_eq!((check.verdict, check.name.as_str()), (Verdict::Ok, "GPU"));
        for part in ["NVIDIA H100", "capability 9.0", "80 GiB", "CUDA 13.0", "of 1 operation"] {
            assert!(check.detail.contains(part), "{part}: {}", check.detail);
        }
        let table = gpus.tables().concat();
        for part in [
            "ML-KEM-768  encaps              16      150     10000      1000",
            "ML-KEM-768  decaps           never",
            "measured 2025-11-26T",
            "kept in /cache/gabion/gpu-GPU-1.txt; again by: gabion doctor --measure-gpu",
            "one core (avx512)",
        ] {
            assert!(table.contains(part), "{part}:\n{table}");
        }
        assert!(!table.contains("keygen"), "it does none: {table}");
        let json = gpus.json();
        assert_eq!(
            (&json[0]["costs"][0]["faster_from"], &json[0]["uuid"]),
            (&json!(16), &json!("GPU-1"))
        );
        assert_eq!(json[0]["costs"][1]["faster_from"], Value::Null);
        assert_eq!(json[0]["costs"][0]["gpu"][1], json!({ "lanes": 1000, "ns": 150_000 }));
        assert_eq!(json[0]["measured"].as_str().map(|date| &date[..10]), Some("2025-11-26"));
        for (field, value) in [
            ("name", json!("NVIDIA H100")),
            ("capability", json!("9.0")),
            ("memory_bytes", json!((80_u64 << 30) - 1)),
            ("driver", json!("580.95 (CUDA 13.0)")),
            ("processor", json!("avx512")),
            ("file", json!("/cache/gabion/gpu-GPU-1.txt")),
        ] {
            assert_eq!(json[0][field], value, "{field}");
        }
        let operations: Vec<_> =
            (0..3).map(|at| json[0]["costs"][at]["operation"].clone()).collect();
        assert_eq!(operations, [json!("encaps"), json!("decaps"), json!("keygen")]);
        assert_eq!(json[0]["costs"][0]["core"], json!([{ "lanes": 1, "ns": 10_000 }]));
    }

    #[test]
    fn times_that_are_kept_nowhere_are_said_to_be() {
        let unkept = Report { file: None, ..report(vec![row(Task::Encaps, &[(1, 1000)])]) };
        let both = Gpus(Ok(vec![unkept, report(vec![])]));
        let tables = both.tables();
        assert_eq!((tables.len(), both.checks().len()), (1, 2), "a line for each GPU");
        assert!(tables[0].contains("kept nowhere") && tables[0].contains("HOME"), "{}", tables[0]);
        assert_eq!(both.json()[0]["file"], Value::Null);
    }

    #[test]
    fn a_gpu_that_was_not_measured_says_how_to() {
        let mut unknown = report(vec![]);
        unknown.costs.measured = 0;
        let gpus = Gpus(Ok(vec![unknown]));
        assert!(gpus.checks()[0].detail.contains(RENEW));
        assert_eq!((gpus.tables().len(), &gpus.json()[0]["measured"]), (0, &Value::Null));
    }

    #[test]
    fn without_a_gpu_a_line_says_why() {
        let why = Absent::Unusable("no NVIDIA driver".to_owned());
        let check = absent(&why, false);
        assert_eq!(check.verdict, Verdict::Off);
        assert!(check.detail.starts_with("no NVIDIA driver;"), "{}", check.detail);
        let check = absent(&why, true);
        assert_eq!(check.verdict, Verdict::Broken);
        assert_eq!(check.detail, "GABION_BACKEND=cuda: no NVIDIA driver");
        assert_eq!(
            absent(&Absent::Forbidden, false).detail,
            "GABION_GPU forbids it; everything works without"
        );
        let none = Gpus(Err(Absent::NoDevice));
        assert_eq!((none.json(), none.tables().len(), none.checks().len()), (json!([]), 0, 1));
    }
}
