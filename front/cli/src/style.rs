//! Colours on a terminal, disabled by NO_COLOR (<https://no-color.org>).

use std::io::IsTerminal;

/// Returns whether standard output should be coloured.
pub fn is_colourful() -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|value| value == "dumb");
    !refused && !dumb && std::io::stdout().is_terminal()
}

/// A colour of the terminal's palette.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// For success.
    Green,
    /// For warnings.
    Yellow,
    /// For failures.
    Red,
}

/// Returns `text` in a colour if `on` is true.
pub fn paint(text: &str, colour: Colour, on: bool) -> String {
    let code = match colour {
        Colour::Green => 32,
        Colour::Yellow => 33,
        Colour::Red => 31,
    };
    if on { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
}

/// Formats a count with its noun: `1 row`, `2 rows`.
pub fn count(number: impl Into<u64>, thing: &str) -> String {
    match number.into() {
        1 => format!("1 {thing}"),
        number => format!("{number} {thing}s"),
    }
}

/// Wraps a text at spaces into lines of at most `width` characters; a longer word gets a line to
/// itself.
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for paragraph in text.lines() {
        let mut line = String::new();
        for word in paragraph.split(' ') {
            if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
                lines.push(std::mem::take(&mut line));
            } else if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        lines.push(line);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plurals_and_word_wrapping() {
        assert_eq!([0u64, 1, 2].map(|n| count(n, "time")), ["0 times", "1 time", "2 times"]);
        assert_eq!(wrapped("one two three\nfour", 8), ["one two", "three", "four"]);
        assert_eq!(wrapped("longer-than-that one", 8), ["longer-than-that", "one"]);
        assert_eq!(wrapped("", 8), Vec::<String>::new());
    }

    #[test]
    fn colour_ends_where_it_began_and_can_be_off() {
        assert_eq!(paint("ok", Colour::Green, false), "ok");
        assert_eq!(paint("ok", Colour::Green, true), "\x1b[32mok\x1b[0m");
    }
}
