//! The machine of rows that do not name theirs.
//!
//! Some rows have no machine, or a name that several have. The rows around them say which it was: those of
//! the same file, or those of the files whose names end alike, as bench/results has them
//! (`engine-epyc-zen4.ndjson`, `nginx-epyc-zen4.ndjson`).

use std::path::Path;

use serde_json::Value;

/// Gives every row that names no machine in full the one that the rows around it name. Where none does, a
/// name that may be several machines' gets the end of its file's name behind it.
pub fn name(files: &mut [(&Path, Vec<Value>)]) {
    let of_files: Vec<Option<Value>> = files
        .iter()
        .map(|(_, rows)| rows.iter().map(|row| &row["machine"]).find(|it| it.is_object()).cloned())
        .collect();
    for at in 0..files.len() {
        let end = end(files[at].0).map(str::to_owned);
        let is_alike = |other: usize| end.is_some() && self::end(files[other].0) == end.as_deref();
        let alike = || (0..files.len()).filter(|&other| is_alike(other));
        let machine =
            of_files[at].clone().or_else(|| alike().find_map(|other| of_files[other].clone()));
        for row in files[at].1.iter_mut().filter(|row| row.is_object()) {
            if row["machine"].is_object() {
                continue;
            }
            match (&machine, row["machine"].as_str(), &end) {
                (Some(machine), ..) => row["machine"] = machine.clone(),
                (None, Some(name), Some(end)) => {
                    row["machine"] = format!("{name} ({end})").into();
                }
                _ => {}
            }
        }
    }
}

/// What stands behind the first dash of a file's name, without its extension.
fn end(path: &Path) -> Option<&str> {
    let (_, end) = path.file_stem()?.to_str()?.split_once('-')?;
    Some(end).filter(|end| !end.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rows_have_the_machine_of_the_rows_around_them() {
        let named = json!({ "machine": { "cpu": "one" } });
        let coarse = json!({ "machine": "AMD EPYC" });
        let none = json!({ "a": 1 });
        let mut files = [
            (Path::new("x/nginx-zen4.ndjson"), vec![coarse.clone(), none.clone()]),
            (Path::new("y/tls-zen4.ndjson"), vec![none.clone(), named.clone()]),
            (Path::new("nginx-zen3.ndjson"), vec![coarse, none.clone()]),
            (Path::new("size.json"), vec![none.clone(), json!([1])]),
        ];
        name(&mut files);
        let machines = |at: usize| -> Vec<Value> {
            files[at].1.iter().map(|row| row["machine"].clone()).collect()
        };
        let machine = &named["machine"];
        assert_eq!(machines(0), [machine.clone(), machine.clone()]);
        assert_eq!(machines(1), [machine.clone(), machine.clone()]);
        assert_eq!(machines(2), [json!("AMD EPYC (zen3)"), Value::Null]);
        assert_eq!(machines(3), [Value::Null, Value::Null]);
    }
}
