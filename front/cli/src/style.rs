//! Colour, on a terminal only, and not where NO_COLOR is set (<https://no-color.org>).

use std::io::IsTerminal;

/// Whether to colour standard output.
pub fn is_colourful() -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|value| value == "dumb");
    !refused && !dumb && std::io::stdout().is_terminal()
}

/// A colour of the terminal's palette.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// For what is well.
    Green,
    /// For what may be looked at.
    Yellow,
    /// For what is broken.
    Red,
}

/// `text` in a colour, if `on`.
pub fn paint(text: &str, colour: Colour, on: bool) -> String {
    let code = match colour {
        Colour::Green => 32,
        Colour::Yellow => 33,
        Colour::Red => 31,
    };
    if on { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_ends_where_it_began_and_can_be_off() {
        assert_eq!(paint("ok", Colour::Green, false), "ok");
        assert_eq!(paint("ok", Colour::Green, true), "\x1b[32mok\x1b[0m");
    }
}
