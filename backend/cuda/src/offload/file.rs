//! Measured times in a file, so that a process need not measure what another one did.
//!
//! ```text
//!   gabion-gpu-costs 1
//!   gabion 0.1.0
//!   device NVIDIA H100 80GB HBM3
//!   driver 580.95.05
//!   processor avx512
//!   measured 1764184000
//!   row ML-KEM-768 encaps device 1:150000 64:151000 processor 1:9000 8:60000
//! ```
//!
//! Times of another device, driver, processor or version count for nothing, and neither does a file that is anything else
//! than this: it is measured again. Nothing in it can do more than send batches the slower way.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use gabion_backend::Task;
use gabion_scheme::algorithms::Algorithm;

use super::curve::{Curve, Row};

/// The first line of the file.
const HEAD: &str = "gabion-gpu-costs 1";
/// A file is never longer.
const LEN_MAX: u64 = 64 << 10;
/// The tasks that are measured of every algorithm.
const TASKS: [Task; 5] = [Task::Keygen, Task::Encaps, Task::Decaps, Task::Sign, Task::Verify];

/// The configuration that times were measured with; they do not apply to any other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The version of Gabion.
    pub gabion: String,
    /// The device's name.
    pub device: String,
    /// The driver's version.
    pub driver: String,
    /// The processor's backend.
    pub processor: String,
}

/// Measured times of one device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Costs {
    /// The configuration that they were measured with.
    pub stamp: Stamp,
    /// The time of the last measurement, in seconds since 1970.
    pub measured: u64,
    /// A row for each operation.
    pub rows: Vec<Row>,
}

/// Returns the folder of cost files from the environment: `$XDG_CACHE_HOME/gabion`, or
/// `~/.cache/gabion`. `None` if neither is an absolute path.
pub(super) fn folder() -> Option<PathBuf> {
    let absolute =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
    Some(cache?.join("gabion"))
}

/// The file of a device in a folder.
pub(super) fn place(folder: &Path, uuid: &str) -> PathBuf {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    folder.join(format!("gpu-{}.txt", uuid.chars().map(plain).collect::<String>()))
}

/// The rows that a file has under a stamp, and when they were measured; none if it has no such.
pub(super) fn read(path: &Path, stamp: &Stamp) -> Option<Costs> {
    // Only regular files are opened: opening a pipe would block.
    if !fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut text = String::new();
    let read = fs::File::open(path).ok()?.take(LEN_MAX + 1).read_to_string(&mut text).ok()?;
    let costs = parse(&text).filter(|_| read as u64 <= LEN_MAX)?;
    (costs.stamp == *stamp).then_some(costs)
}

/// Replaces a file atomically.
///
/// # Errors
/// The system's error.
pub(super) fn write(path: &Path, costs: &Costs) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let new = path.with_extension(format!("{}.new", std::process::id()));
    // A leftover of an earlier process with this number.
    let _ = fs::remove_file(&new);
    let written = fs::File::create_new(&new)
        .and_then(|mut file| file.write_all(text(costs).as_bytes()))
        .and_then(|()| fs::rename(&new, path));
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written
}

fn text(costs: &Costs) -> String {
    let line = |value: &str| value.replace(['\n', '\r'], " ");
    let Costs { stamp, measured, rows } = costs;
    let mut text = format!(
        "{HEAD}\ngabion {}\ndevice {}\ndriver {}\nprocessor {}\nmeasured {measured}\n",
        line(&stamp.gabion),
        line(&stamp.device),
        line(&stamp.driver),
        line(&stamp.processor),
    );
    for row in rows {
        let _ = write!(text, "row {} {} device", row.algorithm.name(), row.task.name());
        for (name, curve) in [("", &row.device), (" processor", &row.processor)] {
            text.push_str(name);
            for (lanes, ns) in curve.points() {
                let _ = write!(text, " {lanes}:{ns}");
            }
        }
        text.push('\n');
    }
    text
}

fn parse(text: &str) -> Option<Costs> {
    let mut lines = text.lines();
    if lines.next()? != HEAD {
        return None;
    }
    let mut field = |name: &str| {
        let value = lines.next()?.strip_prefix(name)?.strip_prefix(' ')?;
        Some(value.to_owned())
    };
    let stamp = Stamp {
        gabion: field("gabion")?,
        device: field("device")?,
        driver: field("driver")?,
        processor: field("processor")?,
    };
    let measured = field("measured")?.parse().ok()?;
    let rows: Vec<_> = lines.map(row).collect::<Option<_>>()?;
    Some(Costs { stamp, measured, rows })
}

fn row(line: &str) -> Option<Row> {
    let mut words = line.split(' ');
    let (head, algorithm, task) = (words.next()?, words.next()?, words.next()?);
    let algorithm: Algorithm = algorithm.parse().ok()?;
    let task = TASKS.into_iter().find(|of| of.name() == task)?;
    if head != "row" || words.next()? != "device" {
        return None;
    }
    let (mut device, mut processor) = (Vec::new(), Vec::new());
    let mut points = &mut device;
    for word in words {
        if word == "processor" {
            points = &mut processor;
            continue;
        }
        let (lanes, ns) = word.split_once(':')?;
        points.push((lanes.parse().ok()?, ns.parse().ok()?));
    }
    Some(Row { algorithm, task, device: Curve::new(device)?, processor: Curve::new(processor)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs() -> Costs {
        let curve = |points: &[(usize, u64)]| Curve::new(points.to_vec()).unwrap();
        let stamp = Stamp {
            gabion: "0.1.0".to_owned(),
            device: "NVIDIA H100 80GB HBM3".to_owned(),
            driver: "580.95.05".to_owned(),
            processor: "avx512".to_owned(),
        };
        let encaps = Row {
            algorithm: Algorithm::MlKem768,
            task: Task::Encaps,
            device: curve(&[(1, 150_000), (64, 151_000)]),
            processor: curve(&[(1, 9000)]),
        };
        let sign = Row { task: Task::Sign, device: Curve::default(), ..encaps.clone() };
        let sign = Row { algorithm: Algorithm::SlhDsaSha2_128f, ..sign };
        Costs { stamp, measured: 1_764_184_000, rows: vec![encaps, sign] }
    }

    #[test]
    fn cost_file_roundtrips() {
        let folder = std::env::temp_dir().join(format!("gabion-costs-{}", std::process::id()));
        let path = place(&folder.join("gabion"), "GPU-1/../2");
        assert!(path.ends_with("gabion/gpu-GPU-1____2.txt"), "{}", path.display());
        let (costs, stamp) = (costs(), costs().stamp);
        assert_eq!(read(&path, &stamp), None);
        for _ in 0..2 {
            write(&path, &costs).unwrap();
            assert_eq!(read(&path, &stamp), Some(costs.clone()));
        }
        let other = Stamp { driver: "581".to_owned(), ..stamp.clone() };
        assert_eq!(read(&path, &other), None, "times of another driver");
        let left: Vec<_> = fs::read_dir(folder.join("gabion")).unwrap().collect();
        assert_eq!(left.len(), 1, "{left:?}");
        assert_eq!(read(&folder, &stamp), None, "a folder is no file");
        fs::write(&path, text(&costs) + &"\n".repeat(LEN_MAX as usize)).unwrap();
        assert_eq!(read(&path, &stamp), None, "too long");
        fs::remove_dir_all(&folder).unwrap();
        fs::write(&folder, "").unwrap();
        assert!(write(&path, &costs).is_err(), "there can't be such a folder");
        fs::remove_file(&folder).unwrap();
    }

    #[test]
    fn malformed_cost_files_are_refused() {
        let good = text(&costs());
        assert_eq!(parse(&good), Some(costs()));
        for (from, to) in [
            (HEAD, "gabion-gpu-costs 2"),
            ("measured 1", "measured -1"),
            ("row ML-KEM-768", "row ML-KEM-7"),
            ("64:151000", "64"),
            ("64:151000", "1:151000"),
            ("64:151000", "0x40:1"),
            (" encaps ", " decode "),
            ("row ML", "line ML"),
            ("driver 580.95.05\n", ""),
        ] {
            assert!(good.contains(from), "{from}");
            assert_eq!(parse(&good.replace(from, to)), None, "{from} -> {to}");
        }
        for end in 0..HEAD.len() + 60 {
            assert_eq!(parse(&good[..end]), None, "{end} bytes of it");
        }
    }
}
