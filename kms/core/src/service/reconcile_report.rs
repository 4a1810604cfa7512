//! The report about a store that was older than its audit log.

/// The report about a store that was older than its audit log: a line for each change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReconcileReport {
    /// Says that the store was upgraded to this program's format, and where a copy of the older
    /// store is.
    pub upgraded: Option<String>,
    /// The restrictions that were reapplied.
    pub done: Vec<String>,
    /// The changes that were not reapplied, and what to do about them.
    pub left: Vec<String>,
}

impl ReconcileReport {
    /// Returns whether the report is empty.
    pub fn is_empty(&self) -> bool {
        self.upgraded.is_none() && self.done.is_empty() && self.left.is_empty()
    }

    /// Returns all lines.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        let done = self.done.iter().map(|line| format!("restored: {line}, as before"));
        let upgraded = self.upgraded.iter().map(|line| format!("upgraded: {line}"));
        upgraded.chain(done).chain(self.left.iter().map(|line| format!("restored: look: {line}")))
    }
}
