//! The record of an algorithm's self-test on one backend, in one word.

use gabion_backend::Task;

/// The result of a test, if any. A wrong answer is never forgotten.
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
    pub(super) fn single(task: Task) -> Self {
        Tasks(1 << task as u16)
    }

    pub(super) fn from_bits(bits: u16) -> Self {
        Tasks(bits)
    }

    pub(super) fn bits(self) -> u16 {
        self.0
    }

    pub(super) fn has(self, task: Task) -> bool {
        self.0 & Tasks::single(task).0 != 0
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(super) fn and(self, others: Self) -> Self {
        Tasks(self.0 | others.0)
    }

    fn without(self, others: Self) -> Self {
        Tasks(self.0 & !others.0)
    }
}

/// The tasks that a backend supported in a test that it passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TaskSupport {
    /// Tasks of which it ran a batch at least.
    done: Tasks,
    /// Tasks of which it ran none, and declined some.
    declined: Tasks,
}

impl TaskSupport {
    /// The empty set of tasks.
    pub(super) const NONE: TaskSupport = TaskSupport { done: Tasks(0), declined: Tasks(u16::MAX) };

    /// Creates it from the tasks that ran and those that were declined, which may overlap.
    pub(super) fn new(done: Tasks, declined: Tasks) -> Self {
        TaskSupport { done, declined: declined.without(done) }
    }

    /// Combines this record with that of another part. A task that the backend declines for one
    /// part is not supported for the whole.
    pub(super) fn and(self, other: Self) -> Self {
        TaskSupport { done: self.done.and(other.done), declined: self.declined.and(other.declined) }
    }

    /// Returns whether any task ran, which shows that the backend is there.
    pub(super) fn ran_any(self) -> bool {
        !self.done.is_empty()
    }

    /// Returns whether the backend may run a task, or any task if `task` is `None`. If the test ran
    /// without the backend, nothing was declined, and every task is allowed.
    pub(super) fn allows(self, task: Option<Task>) -> bool {
        match task {
            Some(task) => !self.declined.has(task),
            None => self.ran_any() || self.declined.is_empty(),
        }
    }
}

/// A self-test's verdict, the tasks it covered, and the number of the backend's losses at that
/// time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TestRecord {
    pub(super) verdict: Verdict,
    pub(super) support: TaskSupport,
    pub(super) losses: u64,
}

impl TestRecord {
    pub(super) const UNTESTED: TestRecord = TestRecord {
        verdict: Verdict::Untested,
        support: TaskSupport { done: Tasks(0), declined: Tasks(0) },
        losses: 0,
    };

    pub(super) fn new(verdict: Verdict, losses: u64) -> Self {
        TestRecord { verdict, losses, ..TestRecord::UNTESTED }
    }

    /// Three bits of verdict, sixteen of each kind of tasks, and the losses' 24.
    pub(super) const fn word(self) -> u64 {
        self.verdict as u64
            | (self.support.done.0 as u64) << 3
            | (self.support.declined.0 as u64) << 19
            | self.losses << 35
    }

    pub(super) fn from_word(word: u64) -> Self {
        let verdict = match word & 7 {
            0 => Verdict::Untested,
            1 => Verdict::Testing,
            2 => Verdict::Passed,
            _ => Verdict::Failed,
        };
        let tasks = |from: u32| Tasks((word >> from) as u16);
        TestRecord {
            verdict,
            support: TaskSupport { done: tasks(3), declined: tasks(19) },
            losses: word >> 35,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_record_roundtrips_through_its_word() {
        let support = TaskSupport::new(Tasks::single(Task::Keygen), Tasks::single(Task::Verify));
        for verdict in [Verdict::Untested, Verdict::Testing, Verdict::Passed, Verdict::Failed] {
            let record = TestRecord { verdict, support, losses: (1 << 24) - 1 };
            assert_eq!(TestRecord::from_word(record.word()), record);
        }
        assert_eq!(TestRecord::UNTESTED.word(), 0);
    }

    #[test]
    fn task_support_tracks_ran_and_declined_tasks() {
        let (sign, verify) = (Tasks::single(Task::Sign), Tasks::single(Task::Verify));
        let support = TaskSupport::new(verify, sign.and(verify));
        assert!(support.allows(Some(Task::Verify)) && !support.allows(Some(Task::Sign)));
        assert!(support.ran_any() && support.allows(None));
        // Of a part that it does nothing of.
        assert!(
            !support.and(TaskSupport::new(Tasks::default(), verify)).allows(Some(Task::Verify))
        );
        // All was declined; nothing was asked.
        assert!(!TaskSupport::new(Tasks::default(), sign).allows(None));
        assert!(TaskSupport::default().allows(None) && !TaskSupport::default().ran_any());
    }
}
