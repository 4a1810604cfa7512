//! Selects the cheapest of several backends for a batch.
//!
//! The order of the backends decides, except between backends that both know their costs: there a
//! later one with a lower cost replaces an earlier one. Costs are requested only if at least two
//! backends could run the batch.

use gabion_backend::Task;
use gabion_scheme::Algorithm;

use super::slot::Slot;

/// Returns the index in `slots` of the next backend to try, among those whose bit is in `untried`;
/// `None` if no untried one is known to be fit, or may be.
pub(super) fn cheapest(
    slots: &[Slot],
    untried: u64,
    algorithm: Algorithm,
    task: Task,
    lanes: usize,
) -> Option<usize> {
    let is_untried = |at: usize| untried >> at & 1 == 1;
    let could_run =
        |&(at, slot): &(usize, &Slot)| is_untried(at) && slot.may_be_fit(algorithm, task);
    let mut could = slots.iter().enumerate().filter(could_run);
    let (mut best, mut slot) = could.next()?;
    let mut cost = None;
    for (at, other) in could {
        if !(slot.backend.knows_costs() && other.backend.knows_costs()) {
            continue;
        }
        cost = cost.or_else(|| slot.cost(algorithm, task, lanes));
        let of_other = other.cost(algorithm, task, lanes);
        if of_other.zip(cost).is_some_and(|(other, best)| other < best) {
            (best, slot, cost) = (at, other, of_other);
        }
    }
    Some(best)
}
