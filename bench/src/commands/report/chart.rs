//! Bar charts as HTML: a group of bars for each label, a bar for each series. Text keeps its size on every
//! screen, which that of a picture does not.

use super::page::escape;

/// A chart under construction.
pub struct Chart {
    title: String,
    series: Vec<String>,
    groups: Vec<(String, Vec<Option<f64>>)>,
}

impl Chart {
    /// An empty chart; the title names the unit.
    pub fn new(title: &str, series: &[&str]) -> Chart {
        let series = series.iter().map(|name| (*name).to_owned()).collect();
        Chart { title: title.to_owned(), series, groups: Vec::new() }
    }

    /// Adds a group of bars, one for each series; a value that is missing has no bar.
    pub fn group(&mut self, label: impl Into<String>, values: Vec<Option<f64>>) {
        self.groups.push((label.into(), values));
    }

    /// The chart in a figure; nothing when it has no bar.
    pub fn render(&self) -> String {
        let all = self.groups.iter().flat_map(|(_, values)| values.iter().flatten());
        let most = all.copied().fold(0.0, f64::max);
        if most <= 0.0 {
            return String::new();
        }
        let mut out = format!("<figure><figcaption>{}", escape(&self.title));
        if self.series.len() > 1 {
            for (at, name) in self.series.iter().enumerate() {
                out.push_str(&format!(
                    " <span class=\"key\"><i class=\"s{at}\"></i> {}</span>",
                    escape(name)
                ));
            }
        }
        out.push_str("</figcaption>\n");
        for (label, values) in &self.groups {
            let label = escape(label);
            out.push_str(&format!("<div class=\"g\"><div class=\"l\">{label}</div><div>"));
            for (series, value) in values.iter().enumerate() {
                let Some(value) = value else { continue };
                out.push_str(&format!(
                    "<div class=\"r\"><i class=\"s{series}\" style=\"--v:{:.4}\"></i>{}</div>",
                    value / most,
                    number(*value)
                ));
            }
            out.push_str("</div></div>\n");
        }
        out.push_str("</figure>\n");
        out
    }
}

/// A number with as many digits as say something, and thousands apart.
pub fn number(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        _ => 2,
    };
    let text = format!("{value:.digits$}");
    let (whole, rest) = text.split_once('.').map_or((text.as_str(), None), |(w, r)| (w, Some(r)));
    let mut out = String::new();
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) && digit.is_ascii_digit() {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    match rest {
        Some(rest) if rest.chars().any(|digit| digit != '0') => format!("{out}.{rest}"),
        _ => out,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_their_values() {
        let mut chart = Chart::new("bytes <of> it", &["a", "b"]);
        chart.group("one & two", vec![Some(50.0), None]);
        chart.group("three", vec![Some(100.0), Some(25.0)]);
        let html = chart.render();
        assert_eq!(html.matches("class=\"r\"").count(), 3);
        for expected in
            ["bytes &lt;of&gt; it", "one &amp; two", "--v:0.5000", "--v:0.2500\"></i>25<"]
        {
            assert!(html.contains(expected), "no {expected} in {html}");
        }
        assert_eq!(Chart::new("nothing", &["a"]).render(), "");
    }

    #[test]
    fn numbers_read_well() {
        assert_eq!(number(1_234_567.8), "1\u{202f}234\u{202f}568");
        assert_eq!(
            (number(12.34), number(3.0), number(0.456)),
            ("12.3".into(), "3".into(), "0.46".into())
        );
    }
}
