//! What a service says of a store that was older than its audit log.

/// The report about a store that was older than its audit log: a line for each change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReconcileReport {
    /// That the store was upgraded to this program's format, and where a copy of the older one is.
    pub upgraded: Option<String>,
    /// What was taken away again.
    pub done: Vec<String>,
    /// What was not, and what to do about it.
    pub left: Vec<String>,
}

impl ReconcileReport {
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
