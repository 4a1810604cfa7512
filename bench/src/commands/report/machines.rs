//! The machine of rows that do not name theirs.
//!
//! Some rows have no machine, or a name that several have. The rows around them say which it was: those of
//! the same file, or those of the files whose names end alike, as bench/results has them
//! (`engine-epyc-zen4.ndjson`, `nginx-epyc-zen4.ndjson`).

use std::path::Path;

use gabion_rows::{Host, Record};

/// Completes the machine of rows that do not name one in full from other rows of the file. If no
/// row names it, an ambiguous name gets the end of the file's name as a suffix.
pub fn name(files: &mut [(&Path, Vec<Record>)]) {
    let is_machine = |place: &&Host| matches!(place, Host::Machine(_));
    let of_files: Vec<Option<Host>> = files
        .iter()
        .map(|(_, rows)| rows.iter().map(|row| &row.origin.machine).find(is_machine).cloned())
        .collect();
    for at in 0..files.len() {
        let end = end(files[at].0).map(str::to_owned);
        let is_alike = |other: usize| end.is_some() && self::end(files[other].0) == end.as_deref();
        let alike = || (0..files.len()).filter(|&other| is_alike(other));
        let machine =
            of_files[at].clone().or_else(|| alike().find_map(|other| of_files[other].clone()));
        for row in &mut files[at].1 {
            let place = &mut row.origin.machine;
            match (&machine, &*place, &end) {
                (_, Host::Machine(_), _) => {}
                (Some(machine), ..) => *place = machine.clone(),
                (None, Host::Name(name), Some(end)) => {
                    *place = Host::Name(format!("{name} ({end})"));
                }
                _ => {}
            }
        }
    }
}

/// Returns the part of a file's name after the first dash, without its extension.
fn end(path: &Path) -> Option<&str> {
    let (_, end) = path.file_stem()?.to_str()?.split_once('-')?;
    Some(end).filter(|end| !end.is_empty())
}

#[cfg(test)]
mod tests {
    use gabion_rows::machine::Machine;
    use gabion_rows::{Origin, Row};

    use super::*;

    #[test]
    fn rows_have_the_machine_of_the_rows_around_them() {
        let row = |machine: &Host| Record {
            origin: Origin { machine: machine.clone(), ..Origin::default() },
            row: Row::Other,
        };
        let named = Host::Machine(Machine { cpu: "one".into(), ..Machine::default() });
        let (coarse, none) = (Host::Name("AMD EPYC".into()), Host::Unknown);
        let mut files = [
            (Path::new("x/nginx-zen4.ndjson"), vec![row(&coarse), row(&none)]),
            (Path::new("y/tls-zen4.ndjson"), vec![row(&none), row(&named)]),
            (Path::new("nginx-zen3.ndjson"), vec![row(&coarse), row(&none)]),
            (Path::new("size.json"), vec![row(&none)]),
        ];
        name(&mut files);
        let machines = |at: usize| -> Vec<Host> {
            files[at].1.iter().map(|row| row.origin.machine.clone()).collect()
        };
        assert_eq!(machines(0), [named.clone(), named.clone()]);
        assert_eq!(machines(1), [named.clone(), named.clone()]);
        assert_eq!(machines(2), [Host::Name("AMD EPYC (zen3)".into()), Host::Unknown]);
        assert_eq!(machines(3), [Host::Unknown]);
    }
}
