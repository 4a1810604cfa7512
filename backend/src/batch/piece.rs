//! How small the pieces may be that a large batch is cut into for several threads, where each runs on a
//! processor.

use gabion_scheme::Algorithm;
use gabion_scheme::algorithms::Family;

use super::Task;

/// The minimum lanes of a piece: enough for every flow to fill its registers and to refill rejected
/// lanes, and, at some microseconds a lane, ten times the cost of starting a thread.
const LANES_MIN: usize = 64;
/// The minimum lanes of a piece of a hybrid, half of whose work is a curve's: tens of microseconds
/// a lane.
const HYBRID_LANES_MIN: usize = 16;
/// The minimum lanes of a piece of slow algorithms, which do not gain from more lanes: they fill
/// registers with one lane or not at all.
const SLOW_LANES_MIN: usize = 4;

/// Lanes of a piece at least that a processor runs, where a large batch is cut for several threads.
pub fn of_processor(algorithm: Algorithm, task: Task) -> usize {
    let info = algorithm.info();
    match info.family {
        // A key of RSA takes longer than anything else here.
        _ if task == Task::Keygen && info.has_rsa() => 1,
        Family::MlKem | Family::MlDsa | Family::Ed25519 => LANES_MIN,
        Family::Ecdh if algorithm == Algorithm::X25519 => LANES_MIN,
        Family::Hybrid => HYBRID_LANES_MIN,
        Family::SlhDsa
        | Family::FnDsa
        | Family::Hss
        | Family::Xmss
        | Family::Ecdh
        | Family::Ecdsa
        | Family::Composite => SLOW_LANES_MIN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_takes_longer_than_a_thread_to_start() {
        let composite = Algorithm::MlDsa65Rsa3072PssSha512;
        assert_eq!(of_processor(composite, Task::Keygen), 1);
        assert_eq!(of_processor(composite, Task::Sign), 4);
        assert_eq!(of_processor(Algorithm::X25519, Task::Derive), 64);
        assert_eq!(of_processor(Algorithm::EcdhP256, Task::Derive), 4);
        assert_eq!(of_processor(Algorithm::MlKem768, Task::Keygen), 64);
    }
}
