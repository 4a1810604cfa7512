//! SLH-DSA on eight lanes of SHA-256: which chain has which lane, and which hashes go side by side
//! (FIPS 205, section 11.2).
//!
//! A lane whose chain has ended takes the next one. A chain that is left alone goes on in general
//! registers, and so does a hash that nothing runs beside.
//!
//! Time depends on `start` and `steps` of the chains and on lengths, never on what is hashed.

use gabion_scheme::kernels::Kernels;
use gabion_scheme::kernels::slh::{SlhAddress, SlhChain, SlhHash};

use super::registers;
use super::sha256::{self, BLOCK, Chains, LANES, States};
use crate::memory::wipe;
use crate::portable::Portable;
use crate::slh::Queue;
use crate::slh::sha2::{for_each_block, in_groups};

/// Which chain a lane has, whether it is at PRF, and how many steps are to go.
#[derive(Clone, Copy, Default)]
struct Place {
    job: usize,
    is_prf: bool,
    left: u32,
}

/// All lanes, of which those below `count` have a chain.
struct Lanes {
    chains: Chains,
    places: [Place; LANES],
    count: usize,
}

impl Lanes {
    /// Writes words into the column of a lane.
    fn put(rows: &mut [[u32; LANES]], lane: usize, bytes: &[u8]) {
        for (row, bytes) in rows.iter_mut().zip(bytes.as_chunks().0) {
            row[lane] = u32::from_be_bytes(*bytes);
        }
    }

    /// Writes an address into the column of a lane.
    fn put_address(&mut self, lane: usize, address: &SlhAddress) {
        let compressed = address.compressed();
        Self::put(&mut self.chains.address[..4], lane, &compressed);
        // Bytes 16 and 17, and the rest: the hash address.
        let [.., c, d, e, f, g, h] = compressed;
        self.chains.address[4][lane] = u32::from_be_bytes([c, d, 0, 0]);
        self.chains.hash[lane] = u32::from_be_bytes([e, f, g, h]);
    }

    /// Begins a chain in a lane.
    fn begin(&mut self, lane: usize, jobs: &[SlhChain<'_>], job: usize) {
        let chain = &jobs[job];
        for (row, word) in self.chains.start.iter_mut().zip(chain.context.sha256) {
            row[lane] = word;
        }
        let is_prf = chain.sk_seed.is_some();
        let (address, left, value) = match chain.sk_seed {
            Some(secret) => (chain.address.of_secret(chain.start), 1, secret),
            None => (chain.address.with_hash(chain.start), chain.steps, &*chain.value),
        };
        self.put_address(lane, &address);
        Self::put(&mut self.chains.value, lane, value);
        self.places[lane] = Place { job, is_prf, left };
    }

    /// Goes on from PRF to F, or writes the value and says that the chain has ended.
    fn ends(&mut self, lane: usize, jobs: &mut [SlhChain<'_>]) -> bool {
        let place = &mut self.places[lane];
        let chain = &mut jobs[place.job];
        if place.is_prf && chain.steps > 0 {
            *place = Place { is_prf: false, left: chain.steps, ..*place };
            self.put_address(lane, &chain.address.with_hash(chain.start));
            return false;
        }
        for (bytes, row) in chain.value.as_chunks_mut().0.iter_mut().zip(&self.chains.value) {
            *bytes = row[lane].to_be_bytes();
        }
        true
    }

    /// Moves what is in one lane to another.
    fn move_lane(&mut self, from: usize, to: usize) {
        self.places[to] = self.places[from];
        let Chains { start, address, hash, value } = &mut self.chains;
        for row in start.iter_mut().chain(address).chain(value).chain([hash]) {
            row[to] = row[from];
        }
    }

    /// Finishes the chain of lane 0 by itself.
    fn finish_alone(&mut self, jobs: &mut [SlhChain<'_>]) {
        let Place { job, is_prf, left } = self.places[0];
        let chain = &mut jobs[job];
        if !is_prf {
            for (bytes, row) in chain.value.as_chunks_mut().0.iter_mut().zip(&self.chains.value) {
                *bytes = row[0].to_be_bytes();
            }
        }
        let done = if is_prf { 0 } else { chain.steps - left };
        Portable.slh_chain_many(&mut [SlhChain {
            context: chain.context,
            address: chain.address,
            sk_seed: chain.sk_seed.filter(|_| is_prf),
            start: chain.start + done,
            steps: chain.steps - done,
            value: chain.value,
        }]);
    }
}

/// Runs every chain to its end.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn chain_many(jobs: &mut [SlhChain<'_>]) {
    SlhChain::assert_all(jobs);
    match jobs.first().map(|job| job.context.n) {
        Some(16) => chain_many_of::<4>(jobs),
        Some(24) => chain_many_of::<6>(jobs),
        Some(_) => chain_many_of::<8>(jobs),
        None => {}
    }
}

/// The same, where values have V words. All lanes take steps together until one of them has no more.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn chain_many_of<const V: usize>(jobs: &mut [SlhChain<'_>]) {
    let zero = [0; LANES];
    let mut lanes = Lanes {
        chains: Chains { start: [zero; 8], address: [zero; 5], hash: zero, value: [zero; 8] },
        places: [Place::default(); LANES],
        count: 0,
    };
    let mut queue = Queue::new();
    while lanes.count < LANES {
        let Some(job) = queue.pop(jobs) else { break };
        lanes.begin(lanes.count, jobs, job);
        lanes.count += 1;
    }
    while lanes.count > 1 {
        let steps =
            lanes.places[..lanes.count].iter().fold(u32::MAX, |steps, place| steps.min(place.left));
        sha256::advance::<V>(&mut lanes.chains, steps);
        let mut lane = 0;
        while lane < lanes.count {
            lanes.places[lane].left -= steps;
            if lanes.places[lane].left > 0 || !lanes.ends(lane, jobs) {
                lane += 1;
            } else if let Some(job) = queue.pop(jobs) {
                lanes.begin(lane, jobs, job);
                lane += 1;
            } else {
                // What comes here from the last lane has its steps still to be counted.
                lanes.count -= 1;
                lanes.move_lane(lanes.count, lane);
            }
        }
    }
    if lanes.count == 1 {
        lanes.finish_alone(jobs);
    }
    wipe(core::slice::from_mut(&mut lanes.chains));
    registers::clear();
}

/// Runs every hash of the SHA-2 family with n = 16, H and T_l, which are SHA-256.
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
pub(super) fn hash_many(jobs: &mut [SlhHash<'_>]) {
    in_groups::<LANES>(jobs, |group| match group {
        [_] => Portable.slh_hash_many(group),
        _ => hash(group),
    });
}

/// Hashes eight messages at most, all of one length, side by side. Lanes beyond them repeat the first.
#[inline(never)]
#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn hash(jobs: &mut [SlhHash<'_>]) {
    let lanes: [&SlhHash<'_>; LANES] =
        core::array::from_fn(|lane| &jobs[if lane < jobs.len() { lane } else { 0 }]);
    let mut states = States::new(lanes.map(|job| &job.context.sha256));
    for_each_block::<LANES, BLOCK>(lanes, |blocks| states.absorb(blocks));
    for (job, row) in jobs.iter_mut().zip(states.take()) {
        registers::store(job.output, row);
    }
    registers::clear();
}
