//! Runs the `curl` commands of the pages about the key management service against `gabion kms dev`.

use std::path::Path;
use std::process::Command;

use crate::harness::{CommandResult, Work};
use crate::kms::for_examples;

/// Returns the code blocks of a page that contain `curl` commands.
fn blocks(page: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
    let text = std::fs::read_to_string(path).unwrap();
    let mut blocks: Vec<String> = vec![String::new()];
    for line in text.lines() {
        match (line.strip_prefix("    "), blocks.last_mut()) {
            (Some(code), Some(block)) => block.push_str(&format!("{code}\n")),
            (None, Some(block)) if !block.is_empty() => blocks.push(String::new()),
            (None, _) | (Some(_), None) => {}
        }
    }
    blocks.into_iter().filter(|block| block.contains("curl ")).collect()
}

#[test]
fn every_line_of_curl_on_the_pages_is_answered() {
    if Command::new("curl").arg("--version").output().is_err() {
        eprintln!("skipped: the curl commands of the pages about the KMS: curl is not installed");
        return;
    }
    let pages = [("reference/kms-http.md", 6), ("operate/kms.md", 3), ("guide/kms-transit.md", 5)];
    for (page, least) in pages {
        let blocks = blocks(page);
        let lines = |block: &String| {
            block
                .lines()
                .filter(|line| line.starts_with("curl ") || line.starts_with("kms "))
                .count()
        };
        let count: usize = blocks.iter().map(lines).sum();
        assert!(count >= least, "{page}: {count} lines");
        let work = Work::new();
        // A refused request fails and prints the reason.
        work.write(".curlrc", "silent\nshow-error\nfail-with-body\nmax-time = 30\nwrite-out = \"\\n%{http_code}\\n\"\n");
        let mut shell = Command::new("sh");
        shell.args(["-ec", &blocks.concat()]).current_dir(work.folder());
        shell.env("CURL_HOME", work.folder());
        let _server = for_examples(&work, &mut shell);
        let done = CommandResult::of(shell.output().unwrap()).ok();
        let answered = done.text().lines().filter(|line| *line == "200").count();
        assert_eq!(answered, count, "{page}: {done:?}");
    }
}
