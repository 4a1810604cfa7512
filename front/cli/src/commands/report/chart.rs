//! Bar charts as inline SVG: a group of bars for each label, a bar for each series.

use super::page::escape;

/// Width of a chart, of its labels, and of the room for the value behind a bar.
const WIDTH: f64 = 940.0;
const LABELS: f64 = 360.0;
const VALUES: f64 = 80.0;
/// Height of a bar, and the room between groups.
const BAR: f64 = 15.0;
const GAP: f64 = 9.0;

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

    /// The chart as SVG in a figure; nothing when it has no bar.
    pub fn render(&self) -> String {
        let all = self.groups.iter().flat_map(|(_, values)| values.iter().flatten());
        let most = all.copied().fold(0.0, f64::max);
        if most <= 0.0 {
            return String::new();
        }
        let group = self.series.len() as f64 * BAR + GAP;
        let height = self.groups.len() as f64 * group + GAP;
        let mut out = format!("<figure><figcaption>{}", escape(&self.title));
        if self.series.len() > 1 {
            for (at, name) in self.series.iter().enumerate() {
                out.push_str(&format!(" <span class=\"key s{at}\"></span> {}", escape(name)));
            }
        }
        out.push_str(&format!(
            "</figcaption>\n<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
             aria-label=\"{}\">\n",
            escape(&self.title)
        ));
        for (at, (label, values)) in self.groups.iter().enumerate() {
            let top = at as f64 * group + GAP;
            let middle = top + self.series.len() as f64 * BAR / 2.0 + 4.0;
            let end = LABELS - 8.0;
            out.push_str(&format!(
                "<text x=\"{end}\" y=\"{middle}\" text-anchor=\"end\">{}</text>\n",
                escape(label)
            ));
            for (series, value) in values.iter().enumerate() {
                let Some(value) = value else { continue };
                let y = top + series as f64 * BAR;
                let long = value / most * (WIDTH - LABELS - VALUES);
                out.push_str(&format!(
                    "<rect class=\"s{series}\" x=\"{LABELS}\" y=\"{y}\" width=\"{long:.1}\" \
                     height=\"{:.1}\"><title>{}: {}</title></rect>\n<text class=\"v\" x=\"{:.1}\" \
                     y=\"{:.1}\">{}</text>\n",
                    BAR - 2.0,
                    escape(label),
                    number(*value),
                    LABELS + long + 5.0,
                    y + BAR - 4.5,
                    number(*value)
                ));
            }
        }
        out.push_str("</svg></figure>\n");
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
        let svg = chart.render();
        assert_eq!(svg.matches("<rect").count(), 3);
        for expected in
            ["bytes &lt;of&gt; it", "one &amp; two", "width=\"500.0\"", "width=\"250.0\""]
        {
            assert!(svg.contains(expected), "no {expected} in {svg}");
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
