//! The page around the sections.

/// The measurements of one machine.
pub struct Part {
    /// The machine.
    pub title: String,
    /// The software that was measured.
    pub words: String,
    /// The sections.
    pub sections: Vec<Section>,
}

/// One section: a heading, a sentence, and its content as HTML.
pub struct Section {
    /// Anchor in the page, with the number of the machine behind it from the second on.
    pub id: &'static str,
    /// Heading.
    pub title: String,
    /// The description of the measurement, and how to read it.
    pub words: String,
    /// Charts and tables.
    pub body: String,
}

/// Text for HTML.
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A table that opens on a click; cells are text. The first column stands left, numbers right.
pub fn table(summary: &str, head: &[&str], rows: &[Vec<String>]) -> String {
    format!("<details><summary>{}</summary>{}</details>\n", escape(summary), shown(head, rows))
}

/// A table that is open: a short one.
pub fn shown(head: &[&str], rows: &[Vec<String>]) -> String {
    let mut out = String::from("<div class=\"t\"><table>\n<tr>");
    for name in head {
        out.push_str(&format!("<th>{}</th>", escape(name)));
    }
    out.push_str("</tr>\n");
    for row in rows {
        out.push_str("<tr>");
        for cell in row {
            let numeric = cell.starts_with(|first: char| first.is_ascii_digit())
                && !cell.contains(|letter: char| letter.is_ascii_alphabetic());
            let class = if numeric { " class=\"n\"" } else { "" };
            out.push_str(&format!("<td{class}>{}</td>", escape(cell)));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</table></div>\n");
    out
}

const STYLE: &str = "
:root { color-scheme: light dark; --ink: #1c2733; --quiet: #5b6b7b; --line: #d8dee5; --paper: #fff;
  --s0: #9aa7b4; --s1: #0b6e6e; --s2: #d08a1d; --s3: #7a4fa3; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6ebf0; --quiet: #9fb0c0; --line: #33404d;
  --paper: #12181f; --s0: #6b7a88; --s1: #35b0a8; --s2: #e0a544; --s3: #b08ad6; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 900px; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.7rem; margin: 0; } h2 { font-size: 1.4rem; margin: 3rem 0 .3rem; }
h3 { font-size: 1.2rem; margin: 2rem 0 .3rem; }
p { margin: .3rem 0 .8rem; } p.quiet, nav { color: var(--quiet); font-size: .9rem; }
nav a { color: inherit; margin-right: 1rem; }
figure { margin: 1rem 0; } figcaption { font-weight: 600; font-size: .9rem; margin-bottom: .2rem; }
.s0 { background: var(--s0); } .s1 { background: var(--s1); }
.s2 { background: var(--s2); } .s3 { background: var(--s3); }
.key { display: inline-block; margin-left: .8em; font-weight: 400; }
.key i { display: inline-block; width: .8em; height: .8em; border-radius: 2px; }
.g { display: grid; grid-template-columns: 38% 1fr; gap: 0 .6rem; align-items: center;
  margin: .5rem 0; font-size: .8rem; line-height: 1.3; } .l { text-align: right; }
.r { display: flex; align-items: center; gap: .35rem; height: 1.1rem; color: var(--quiet);
  font-size: .75rem; white-space: nowrap; }
.r i { height: .8rem; min-width: 1px; width: calc((100% - 5rem) * var(--v)); }
@media (max-width: 640px) { .g { grid-template-columns: 1fr; } .l { text-align: left; } }
summary { cursor: pointer; color: var(--quiet); font-size: .9rem; }
.t { overflow-x: auto; } table { border-collapse: collapse; font-size: .82rem; margin: .5rem 0; }
th, td { padding: .15rem .6rem; border-bottom: 1px solid var(--line); text-align: left;
  white-space: nowrap; } td.n { text-align: right; font-variant-numeric: tabular-nums; }
";

/// Renders the page: an index, and for each machine a heading, the measured software, its sections.
/// `made` is the line about the page's origin and date.
pub fn render(parts: &[Part], made: &str) -> String {
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width\">\n<title>Gabion: results</title>\n<style>{STYLE}</style>\n\
         <h1>Gabion: results</h1>\n<p class=\"quiet\">{}</p>\n",
        escape(made)
    );
    if parts.len() > 1 {
        out.push_str(
            "<p class=\"quiet\">Each machine has a separate part. Compare the bars of one chart; \
             figures of different machines differ for many reasons.</p>\n",
        );
    }
    for (at, part) in parts.iter().enumerate() {
        out.push_str(&format!("<nav>{}: ", escape(&part.title)));
        for section in &part.sections {
            let (id, title) = (anchor(section, at), escape(&section.title));
            out.push_str(&format!("<a href=\"#{id}\">{title}</a> "));
        }
        out.push_str("</nav>\n");
    }
    for (at, part) in parts.iter().enumerate() {
        let (title, words) = (escape(&part.title), escape(&part.words));
        out.push_str(&format!("<h2>{title}</h2>\n<p class=\"quiet\">{words}</p>\n"));
        for section in &part.sections {
            out.push_str(&format!(
                "<section id=\"{}\"><h3>{}</h3>\n<p>{}</p>\n{}</section>\n",
                anchor(section, at),
                escape(&section.title),
                escape(&section.words),
                section.body
            ));
        }
    }
    out.push_str("</html>\n");
    out
}

/// The anchor of a section of the machine at a place.
fn anchor(section: &Section, machine: usize) -> String {
    match machine {
        0 => section.id.to_owned(),
        later => format!("{}-{}", section.id, later + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_stands_alone_and_escapes_its_text() {
        let body = table("all <rows>", &["a", "b"], &[vec!["x & y".into(), "12.5".into()]]);
        let part = |title: &str, body: &str| Part {
            title: title.to_owned(),
            words: "with <x>".to_owned(),
            sections: vec![Section {
                id: "one",
                title: "One".into(),
                words: "A \"sentence\".".into(),
                body: body.to_owned(),
            }],
        };
        let page = render(&[part("a <machine>", &body), part("another", "")], "made <today>");
        for expected in [
            "made &lt;today&gt;",
            "<h2>a &lt;machine&gt;</h2>",
            "with &lt;x&gt;",
            "href=\"#one\"",
            "href=\"#one-2\"",
            "<section id=\"one-2\">",
            "<h2>another</h2>",
            "all &lt;rows&gt;",
            "x &amp; y",
            "class=\"n\">12.5",
        ] {
            assert!(page.contains(expected), "no {expected} in {page}");
        }
        for foreign in ["<script", "http:", "https:", "@import", "url("] {
            assert!(!page.contains(foreign), "{foreign} in {page}");
        }
    }
}
