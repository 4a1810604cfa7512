//! What is known of one algorithm on one backend, in one word.

use gabion_backend::Task;

/// What a test says, or that there is none. A wrong answer is never forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Verdict {
    Untested,
    Testing,
    Passed,
    Failed,
}

/// Tasks of an algorithm: a bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tasks(u16);

impl Tasks {
    /// One task.
    pub(super) fn one(task: Task) -> Self {
        Tasks(1 << task as u16)
    }

    pub(super) fn of(bits: u16) -> Self {
        Tasks(bits)
    }

    pub(super) fn bits(self) -> u16 {
        self.0
    }

    pub(super) fn has(self, task: Task) -> bool {
        self.0 & Tasks::one(task).0 != 0
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(super) fn and(self, others: Self) -> Self {
        Tasks(self.0 | others.0)
    }

    fn but(self, others: Self) -> Self {
        Tasks(self.0 & !others.0)
    }
}

/// What a backend did in a test that it passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Did {
    /// Tasks of which it ran a batch at least.
    done: Tasks,
    /// Tasks of which it ran none, and declined some.
    declined: Tasks,
}

impl Did {
    /// Nothing, whatever it is asked.
    pub(super) const NOTHING: Did = Did { done: Tasks(0), declined: Tasks(u16::MAX) };

    /// From what it did and what it declined, of which some may be the same.
    pub(super) fn new(done: Tasks, declined: Tasks) -> Self {
        Did { done, declined: declined.but(done) }
    }

    /// This and what it did in the test of another part. What it declines of one part it can't do of the whole.
    pub(super) fn and(self, other: Self) -> Self {
        Did { done: self.done.and(other.done), declined: self.declined.and(other.declined) }
    }

    /// Whether it ran a batch, which a backend does that is there.
    pub(super) fn anything(self) -> bool {
        !self.done.is_empty()
    }

    /// Whether it may be asked for a task; for any if none is named. What was tested without the backend, which
    /// did and declined nothing, is for all.
    pub(super) fn serves(self, task: Option<Task>) -> bool {
        match task {
            Some(task) => !self.declined.has(task),
            None => self.anything() || self.declined.is_empty(),
        }
    }
}

/// A verdict, what was done for it, and after how many losses of the backend it was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) verdict: Verdict,
    pub(super) did: Did,
    pub(super) losses: u64,
}

impl Known {
    pub(super) const NOTHING: Known = Known {
        verdict: Verdict::Untested,
        did: Did { done: Tasks(0), declined: Tasks(0) },
        losses: 0,
    };

    pub(super) fn new(verdict: Verdict, losses: u64) -> Self {
        Known { verdict, losses, ..Known::NOTHING }
    }

    /// Three bits of verdict, sixteen of each kind of tasks, and the losses' 24.
    pub(super) const fn word(self) -> u64 {
        self.verdict as u64
            | (self.did.done.0 as u64) << 3
            | (self.did.declined.0 as u64) << 19
            | self.losses << 35
    }

    pub(super) fn of(word: u64) -> Self {
        let verdict = match word & 7 {
            0 => Verdict::Untested,
            1 => Verdict::Testing,
            2 => Verdict::Passed,
            _ => Verdict::Failed,
        };
        let tasks = |from: u32| Tasks((word >> from) as u16);
        Known { verdict, did: Did { done: tasks(3), declined: tasks(19) }, losses: word >> 35 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_says_what_is_known() {
        let did = Did::new(Tasks::one(Task::Keygen), Tasks::one(Task::Verify));
        for verdict in [Verdict::Untested, Verdict::Testing, Verdict::Passed, Verdict::Failed] {
            let known = Known { verdict, did, losses: (1 << 24) - 1 };
            assert_eq!(Known::of(known.word()), known);
        }
        assert_eq!(Known::NOTHING.word(), 0);
    }

    #[test]
    fn what_was_done_once_is_not_declined() {
        let (sign, verify) = (Tasks::one(Task::Sign), Tasks::one(Task::Verify));
        let did = Did::new(verify, sign.and(verify));
        assert!(did.serves(Some(Task::Verify)) && !did.serves(Some(Task::Sign)));
        assert!(did.anything() && did.serves(None));
        // Of a part that it does nothing of.
        assert!(!did.and(Did::new(Tasks::default(), verify)).serves(Some(Task::Verify)));
        // All was declined; nothing was asked.
        assert!(!Did::new(Tasks::default(), sign).serves(None));
        assert!(Did::default().serves(None) && !Did::default().anything());
    }
}
