//! What a service says of a store that was older than its audit log.

/// What came of a store that was older than its audit log: a line each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Again {
    /// That the store was upgraded to this program's format, and where a copy of the older one is.
    pub upgraded: Option<String>,
    /// What was taken away again.
    pub done: Vec<String>,
    /// What was not, and what to do about it.
    pub left: Vec<String>,
}

impl Again {
    /// Whether there is nothing to say.
    pub fn is_empty(&self) -> bool {
        self.upgraded.is_none() && self.done.is_empty() && self.left.is_empty()
    }

    /// All lines.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        let done = self.done.iter().map(|line| format!("restored: {line}, as before"));
        let upgraded = self.upgraded.iter().map(|line| format!("upgraded: {line}"));
        upgraded.chain(done).chain(self.left.iter().map(|line| format!("restored: look: {line}")))
    }
}
