//! Run times of batches by their number of lanes, on a device and on the host processor.

use gabion_backend::Task;
use gabion_scheme::algorithms::Algorithm;

/// More lanes than this no batch is thought to have when it is asked from where on the device is faster.
const LANES_MAX: usize = 1 << 20;

/// Measured times: lanes, which grow, and nanoseconds of a batch of so many.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Curve(Vec<(usize, u64)>);

impl Curve {
    /// Returns the curve through points whose lanes grow from 1 or more; `None` for any others.
    pub fn new(points: Vec<(usize, u64)>) -> Option<Self> {
        let first = points.first().is_none_or(|&(lanes, _)| lanes > 0);
        let grows = points.windows(2).all(|pair| pair[0].0 < pair[1].0);
        (first && grows).then_some(Curve(points))
    }

    /// The points.
    pub fn points(&self) -> &[(usize, u64)] {
        &self.0
    }

    /// Nanoseconds of a batch: on the line between two points, and beyond the last one in proportion to it. None
    /// without a point.
    pub fn at(&self, lanes: usize) -> Option<u64> {
        let after = self.0.partition_point(|&(of_point, _)| of_point < lanes);
        let ns = match (after.checked_sub(1).map(|before| self.0[before]), self.0.get(after)) {
            (None, first) => first.map(|&(_, ns)| u128::from(ns))?,
            (Some((from, ns)), Some(&(to, next))) => {
                let (span, along) = ((to - from) as u128, (lanes - from) as u128);
                let (ns, next) = (u128::from(ns), u128::from(next));
                (ns * (span - along) + next * along) / span
            }
            (Some((last, ns)), None) => u128::from(ns) * lanes as u128 / last as u128,
        };
        Some(u64::try_from(ns).unwrap_or(u64::MAX))
    }
}

/// One operation of one algorithm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The operation.
    pub task: Task,
    /// The times on the device, copies included; empty if the device does not support the
    /// operation.
    pub device: Curve,
    /// The times on one thread of the processor.
    pub processor: Curve,
}

impl Row {
    /// Lanes from which on the device is faster than one thread of the processor; none if it never is, up to 2^20.
    pub fn crossover(&self) -> Option<usize> {
        let is_faster = |lanes: usize| {
            let times = self.device.at(lanes).zip(self.processor.at(lanes));
            times.is_some_and(|(device, processor)| device < processor)
        };
        // The times are lines between a few points: what is faster at a point and at its double is so in between.
        let mut yes = 1;
        while !is_faster(yes) {
            if yes >= LANES_MAX {
                return None;
            }
            yes *= 2;
        }
        let mut no = yes / 2;
        while yes - no > 1 {
            let middle = no + (yes - no) / 2;
            if is_faster(middle) { yes = middle } else { no = middle }
        }
        Some(yes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(points: &[(usize, u64)]) -> Curve {
        Curve::new(points.to_vec()).unwrap()
    }

    fn row(device: &[(usize, u64)], processor: &[(usize, u64)]) -> Row {
        let (device, processor) = (curve(device), curve(processor));
        Row { algorithm: Algorithm::MlKem768, task: Task::Encaps, device, processor }
    }

    #[test]
    fn batch_cost_is_interpolated() {
        let curve = curve(&[(1, 100), (11, 200), (111, 1200)]);
        assert_eq!(
            [0, 1, 6, 11, 61, 111, 222].map(|lanes| curve.at(lanes).unwrap()),
            [100, 100, 150, 200, 700, 1200, 2400]
        );
        assert_eq!(Curve::default().at(5), None);
        assert_eq!(self::curve(&[(1, u64::MAX)]).at(usize::MAX), Some(u64::MAX));
    }

    #[test]
    fn points_that_do_not_grow_are_no_curve() {
        for points in [vec![(0, 1)], vec![(2, 1), (2, 3)], vec![(2, 1), (1, 3)]] {
            assert_eq!(Curve::new(points.clone()), None, "{points:?}");
        }
        assert!(Curve::new(vec![]).is_some());
    }

    #[test]
    fn crossover_is_the_smallest_faster_batch() {
        // 10 us a lane against 150 us and next to nothing: 16 lanes cost more than 150 us.
        let device = [(1, 150_000), (1 << 20, 150_100)];
        assert_eq!(row(&device, &[(1, 10_000)]).crossover(), Some(16));
        assert_eq!(row(&[(1, 1)], &[(1, 10_000)]).crossover(), Some(1));
        assert_eq!(row(&[(1, 20_000)], &[(1, 10_000)]).crossover(), None);
        assert_eq!(row(&[], &[(1, 10_000)]).crossover(), None);
    }
}
