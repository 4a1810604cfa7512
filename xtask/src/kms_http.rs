//! The endpoint table of docs/reference/kms-http.md, from the server's table of routes, which is
//! also the source of its OpenAPI description. `xtask kms-http` writes it; `tidy` compares it.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

const ROUTES: &str = "kms/server/src/http/routes.rs";
const PAGE: &str = "docs/reference/kms-http.md";
const BEGIN: &str = "<!-- The table is written by `cargo run -p xtask -- kms-http`. -->\n";
const END: &str = "<!-- End of the table. -->\n";

/// Writes the table into the page, and returns it.
pub fn write(root: &Path) -> Result<String, String> {
    let table = table(&read(root, ROUTES)?)?;
    let page = with_table(&read(root, PAGE)?, &table)?;
    fs::write(root.join(PAGE), page).map_err(|error| format!("{PAGE}: {error}"))?;
    Ok(table)
}

/// Reports a page whose table differs from the routes.
pub fn check(root: &Path, findings: &mut Vec<String>) {
    let is_current = || {
        let page = read(root, PAGE)?;
        Ok::<_, String>(with_table(&page, &table(&read(root, ROUTES)?)?)? == page)
    };
    match is_current() {
        Ok(true) => {}
        Ok(false) => findings
            .push(format!("{PAGE}: differs from {ROUTES}; run `cargo run -p xtask -- kms-http`")),
        Err(error) => findings.push(error),
    }
}

fn read(root: &Path, file: &str) -> Result<String, String> {
    fs::read_to_string(root.join(file)).map_err(|error| format!("{file}: {error}"))
}

/// Replaces the text between the markers of a page.
fn with_table(page: &str, table: &str) -> Result<String, String> {
    let parts =
        page.split_once(BEGIN).and_then(|(before, rest)| Some((before, rest.split_once(END)?.1)));
    let (before, after) = parts.ok_or_else(|| format!("{PAGE}: the markers are missing"))?;
    Ok(format!("{before}{BEGIN}\n{table}\n{END}{after}"))
}

/// Returns a Markdown row for each route outside of Vault's API.
fn table(routes: &str) -> Result<String, String> {
    let mut table = String::from("| endpoint | effect |\n|---|---|\n");
    let mut rows = 0;
    for line in routes.lines().map(str::trim).filter(|line| line.starts_with("route!(")) {
        // Prefixes such as `may [Sign]`, then "METHOD" "path" "name" "summary".
        let mut texts = line.split('"');
        let prefixes = texts.next().unwrap_or_default();
        let mut texts = texts.step_by(2);
        let (Some(method), Some(path), Some(_), Some(summary)) =
            (texts.next(), texts.next(), texts.next(), texts.next())
        else {
            continue;
        };
        if ["/v1/transit/", "/v1/sys/", "/v1/auth/"].iter().any(|vaults| path.starts_with(vaults)) {
            continue;
        }
        let is_open = prefixes.contains("(open ") || prefixes.contains("(health ");
        let token = if is_open { " No token needed." } else { "" };
        let _ = writeln!(table, "| `{method} {path}` | {summary}{token} |");
        rows += 1;
    }
    if rows == 0 { Err(format!("{ROUTES}: no routes found")) } else { Ok(table) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_become_rows_between_the_markers() {
        let routes = "    (quick $($row:tt)*) => { Route { ..route!(quick $($row)*) } };\n\
             route!(health \"GET\" \"/healthz\" \"healthz\" \"Checks it.\" system::healthz),\n\
             route!(may [Sign] \"POST\" \"/v1/kms/sign\" \"sign\" \"Signs.\" a::b, query &[\n\
             route!(\"GET\" \"/v1/sys/mounts\" \"mounts\" \"Lists.\" vault::mounts),\n";
        let table = table(routes).unwrap();
        let rows: Vec<&str> = table.lines().skip(2).collect();
        let wanted = [
            "| `GET /healthz` | Checks it. No token needed. |",
            "| `POST /v1/kms/sign` | Signs. |",
        ];
        assert_eq!(rows, wanted);
        let page = with_table(&format!("a\n{BEGIN}old\n{END}b\n"), &table).unwrap();
        assert_eq!(page, format!("a\n{BEGIN}\n{table}\n{END}b\n"));
        assert_eq!(with_table(&page, &table).unwrap(), page);
        assert!(with_table("a\n", &table).is_err() && super::table("").is_err());
    }
}
