//! Signing over a batch, with refilled and speculative attempts (FIPS 204, Algorithms 2, 4 and 7).
//!
//! ```text
//!   round r:   slot  0     1     2     3     4     5     6     7
//!              op    0     1     2     3     4     5     6     7     op 2 and 5 are accepted
//!   round r+1  op    0     1     3     4     6     7     8     9     8 and 9 take their places
//!   at last    op    4     4     9     9  ...                         few are left: next attempts
//! ```
//!
//! A round gives every slot one attempt (one iteration of Algorithm 7's loop) and runs each
//! station over all slots: one sponge call for the masks y, one for c~, one for SampleInBall's
//! streams. Nothing but an operation's next attempt number lives from round to round.
//!
//! When several attempts of one operation share a round, they are judged in their order and the
//! first accepted one is the signature, so it is the one that the sequential loop finds.

use super::challenge;
use super::hint;
use super::keys::{SecretVectors, SigningKey};
use super::message::mu_sponge;
use super::params::{ATTEMPTS_MAX, Params};
use super::{Scratch, resize, resize_arrays, reveal};
use crate::ct;
use crate::error::Status;
use crate::kernels::{DsaPoly, KemPoly, Kernels, Sponge, Xof};
use crate::message::{Header, Message};

/// One iteration of the loop of Algorithm 7.
#[derive(Clone, Copy)]
pub(super) struct Attempt {
    op: usize,
    /// Counts from 0; kappa = number * l.
    number: usize,
}

/// Returns how many attempts of each operation go into a round when `active` operations are in
/// flight.
///
/// With one, spare lanes idle; with more, masks and commitments behind an accepted attempt are
/// wasted. With eight lanes and one operation in flight, two attempts of ML-DSA-44 took the fewest
/// cycles, three of ML-DSA-65, one of ML-DSA-87.
///
/// That follows from the masks: 2 l of ML-DSA-44 fill eight lanes, 3 l of ML-DSA-65 fill 15 of
/// 16, one l of ML-DSA-87 seven of eight, where also the fewest attempts are rejected.
fn attempts_per_op(p: &Params, lanes: usize, active: usize) -> usize {
    let (alone, in_flight) = match p.l {
        4 => (2, 2),
        5 => (3, 4),
        _ => (1, 1),
    };
    (lanes.min(in_flight) / active.max(1)).clamp(1, alone)
}

/// Signs `messages[op]` with `keys[op]` into `sigs[op]` (contiguous, `sig_len` bytes each).
///
/// `rnd[op]` is fresh randomness for the hedged variant and 32 zero bytes for the deterministic
/// one (Algorithm 2, lines 5 to 8). `status[op]` becomes [`Status::Ok`];
/// [`Status::InvalidInput`] if the message has the wrong form (see [`Message::check`]);
/// [`Status::Fault`] if [`ATTEMPTS_MAX`] attempts found no signature. Unless it is `Ok`, the
/// signature's bytes are zero.
///
/// # Panics
/// If lengths do not fit each other or the keys are of different parameter sets.
pub fn sign<K: Kernels>(
    kernels: &K,
    keys: &[&SigningKey],
    messages: &[Message<'_>],
    rnd: &[[u8; 32]],
    sigs: &mut [u8],
    status: &mut [Status],
    scratch: &mut Scratch,
) {
    let n = keys.len();
    assert!(messages.len() == n && rnd.len() == n && status.len() == n, "one of each per op");
    let Some(first) = keys.first() else {
        assert!(sigs.is_empty(), "one signature per op");
        return;
    };
    let p = first.params();
    assert!(keys.iter().all(|key| key.params() == p), "keys of one parameter set");
    assert_eq!(sigs.len(), n * p.sig_len(), "one signature per op");
    ct::secret(rnd);
    sigs.fill(0);
    for (status, message) in status.iter_mut().zip(messages) {
        *status = match message.check() {
            Ok(()) => Status::NotRun,
            Err(_) => Status::InvalidInput,
        };
    }
    mask_seeds(kernels, keys, messages, rnd, status, scratch);
    run_rounds(kernels, p, keys, sigs, status, scratch);
    scratch.wipe_of_signing();
}

/// Algorithm 7's loop of every operation whose status is [`Status::NotRun`]: rounds until none is
/// left.
fn run_rounds<K: Kernels>(
    kernels: &K,
    p: &Params,
    keys: &[&SigningKey],
    sigs: &mut [u8],
    status: &mut [Status],
    s: &mut Scratch,
) {
    let slots = kernels.lanes().max(1);
    let mut waiting = 0;
    s.active.clear();
    s.tried.clear();
    s.tried.resize(keys.len(), 0);
    loop {
        while waiting < keys.len() && s.active.len() < slots {
            if status[waiting] == Status::NotRun {
                s.active.push(waiting);
            }
            waiting += 1;
        }
        if s.active.is_empty() {
            return;
        }
        plan(p, slots, s);
        commit(kernels, p, keys, s);
        challenge_all(kernels, p, s);
        judge(kernels, p, keys, sigs, status, s);
        s.active.retain(|&op| status[op] == Status::NotRun);
    }
}

/// mu = H(tr || M', 64) and rho'' = H(K || rnd || mu, 64) of every operation (Algorithm 7, lines
/// 6 and 7).
fn mask_seeds<K: Kernels>(
    kernels: &K,
    keys: &[&SigningKey],
    messages: &[Message<'_>],
    rnd: &[[u8; 32]],
    status: &[Status],
    s: &mut Scratch,
) {
    let n = keys.len();
    let runs = |op: &usize| status[*op] == Status::NotRun;
    s.headers.clear();
    s.headers.extend(messages.iter().map(Header::new));
    resize_arrays(&mut s.mu, n);
    let mus = s.mu.iter_mut().zip(&s.headers).enumerate().filter(|(op, _)| runs(op));
    let mus = mus.filter_map(|(op, (mu, header))| {
        mu_sponge(keys[op].verify_key().tr(), &messages[op], header, mu)
    });
    s.jobs.run(kernels, mus);
    resize_arrays(&mut s.rho_mask, n);
    let seeds =
        s.rho_mask.iter_mut().enumerate().filter(|(op, _)| runs(op)).map(|(op, out)| {
            Sponge::new(Xof::Shake256, [keys[op].k_seed(), &rnd[op], &s.mu[op]], out)
        });
    s.jobs.run(kernels, seeds);
}

/// Selects the round's attempts: the next ones of every operation in flight.
fn plan(p: &Params, slots: usize, s: &mut Scratch) {
    let width = attempts_per_op(p, slots, s.active.len());
    s.attempts.clear();
    for &op in &s.active {
        let next = usize::from(s.tried[op]);
        let end = ATTEMPTS_MAX.min(next + width);
        s.attempts.extend((next..end).map(|number| Attempt { op, number }));
    }
}

/// Algorithm 7, lines 11 to 14, for every attempt: y, w = A y, and its halves w1 and w0.
fn commit<K: Kernels>(kernels: &K, p: &Params, keys: &[&SigningKey], s: &mut Scratch) {
    let n = s.attempts.len();
    // ExpandMask (Algorithm 34): y[r] = BitUnpack(H(rho'' || kappa + r, 32 c)).
    s.nonces.clear();
    s.nonces.extend(
        s.attempts.iter().flat_map(|attempt| {
            (0..p.l).map(|r| ((attempt.number * p.l + r) as u16).to_le_bytes())
        }),
    );
    resize(&mut s.squeezed, n * p.l * p.z_len());
    let masks = s.squeezed.chunks_exact_mut(p.z_len()).zip(&s.nonces).enumerate().map(
        |(i, (out, nonce))| {
            let rho_mask = &s.rho_mask[s.attempts[i / p.l].op];
            Sponge::new(Xof::Shake256, [&rho_mask[..], nonce], out)
        },
    );
    s.jobs.run(kernels, masks);

    resize(&mut s.y, n * p.l);
    resize(&mut s.w1, n * p.k);
    resize(&mut s.w0, n * p.k);
    resize(&mut s.w1_bytes, n * p.w1_len());
    resize(&mut s.vectors, p.l + p.k + 2);
    resize(&mut s.small, p.l.max(p.k) + 1);
    let (y_hat, rest) = s.vectors.split_at_mut(p.l);
    let w = &mut rest[..p.k];
    for (i, attempt) in s.attempts.iter().enumerate() {
        let y = &mut s.y[i * p.l..][..p.l];
        let squeezed = s.squeezed[i * p.l * p.z_len()..].chunks_exact(p.z_len());
        for (poly, bytes) in y.iter_mut().zip(squeezed) {
            kernels.dsa_bit_unpack(p.z_bits, p.gamma1, bytes, poly);
        }
        y_hat.clone_from_slice(y);
        kernels.dsa_ntt(y_hat);
        kernels.dsa_matvec(w, keys[attempt.op].verify_key().a_hat(), y_hat);
        kernels.dsa_inv_ntt(w);
        let (w1, w0) = (&mut s.w1[i * p.k..][..p.k], &mut s.w0[i * p.k..][..p.k]);
        let encoded = s.w1_bytes[i * p.w1_len()..].chunks_exact_mut(32 * p.w1_bits);
        for (((w, w1), w0), bytes) in w.iter().zip(w1).zip(w0).zip(encoded) {
            kernels.dsa_decompose(p.gamma2, w, w1, w0);
            kernels.dsa_simple_bit_pack(p.w1_bits, w1, bytes);
        }
    }
}

/// Line 15 and the stream of line 16: c~ = H(mu || w1Encode(w1), lambda / 4), and H(c~).
fn challenge_all<K: Kernels>(kernels: &K, p: &Params, s: &mut Scratch) {
    let n = s.attempts.len();
    resize_arrays(&mut s.c_tilde, n);
    let sponges = s.c_tilde.iter_mut().zip(&s.attempts).enumerate().map(|(i, (out, attempt))| {
        let w1 = &s.w1_bytes[i * p.w1_len()..][..p.w1_len()];
        Sponge::new(Xof::Shake256, [&s.mu[attempt.op][..], w1], &mut out[..p.c_tilde_len])
    });
    s.jobs.run(kernels, sponges);
    // The standard treats c~ as public also where the attempt is rejected: it is a hash of w1,
    // which hides y as it does in a signature, and SampleInBall runs in variable time on it.
    ct::declassify(&s.c_tilde);
    resize_arrays(&mut s.ball, n);
    let balls = s.ball.iter_mut().zip(&s.c_tilde);
    s.jobs.run(kernels, balls.map(|(out, c)| challenge::sponge(&c[..p.c_tilde_len], out)));
}

/// Lines 18 to 33 for every attempt in order, and the signature of the first that is good.
fn judge<K: Kernels>(
    kernels: &K,
    p: &Params,
    keys: &[&SigningKey],
    sigs: &mut [u8],
    status: &mut [Status],
    s: &mut Scratch,
) {
    for (i, attempt) in s.attempts.iter().enumerate() {
        let op = attempt.op;
        if status[op] != Status::NotRun {
            // An earlier attempt of this round was accepted.
            continue;
        }
        s.tried[op] = attempt.number as u16 + 1;
        let c_tilde = &s.c_tilde[i][..p.c_tilde_len];
        let c = &mut s.vectors[0];
        challenge::sample_vartime(p, &s.ball[i], c, challenge::squeezer(kernels, c_tilde));
        let slot = Slot {
            c_tilde,
            y: &s.y[i * p.l..][..p.l],
            w1: &s.w1[i * p.k..][..p.k],
            w0: &mut s.w0[i * p.k..][..p.k],
        };
        let sig = &mut sigs[op * p.sig_len()..][..p.sig_len()];
        if respond(kernels, keys[op], slot, (&mut s.vectors, &mut s.small), sig) {
            status[op] = Status::Ok;
        } else if usize::from(s.tried[op]) == ATTEMPTS_MAX {
            status[op] = Status::Fault;
        }
    }
}

/// One attempt's values.
struct Slot<'a> {
    c_tilde: &'a [u8],
    y: &'a [DsaPoly],
    w1: &'a [DsaPoly],
    /// LowBits(w) at first, then r0, then r0 + c t0.
    w0: &'a mut [DsaPoly],
}

/// Lines 18 to 33 of Algorithm 7: writes the signature and says true if the attempt is good.
/// The work space holds c in the first of its `l + k + 2` polynomials and has `max(k, l) + 1`
/// small ones.
///
/// Polynomial after polynomial, with r0 first: its check fails most often per polynomial (17 of
/// 100 at ML-DSA-65, z 9 of 100), so a rejected attempt costs the fewest inverse NTTs. The order
/// does not matter for the result, which is rejection whichever check fails.
fn respond<K: Kernels>(
    kernels: &K,
    key: &SigningKey,
    slot: Slot<'_>,
    (work, small): (&mut [DsaPoly], &mut [KemPoly]),
    sig: &mut [u8],
) -> bool {
    let p = key.params();
    let SecretVectors { s_small_hat, t0_hat } = key.vectors(kernels);
    let (s1_hat, s2_hat) = s_small_hat.split_at(p.l);
    let (c, rest) = work.split_at_mut(1);
    let (product, rest) = rest.split_at_mut(1);
    let (z, rest) = rest.split_at_mut(p.l);
    let hints = &mut rest[..p.k];
    let (c_small, products) = small.split_at_mut(1);
    for (x, &y) in c_small[0].0.iter_mut().zip(&c[0].0) {
        *x = y as i16;
    }
    kernels.kem_ntt(c_small);

    // r0 = LowBits(w - c s2), which is w0 - c s2 exactly when its norm passes.
    let cs2 = &mut products[..p.k];
    kernels.kem_matvec(cs2, s2_hat, c_small);
    for (r0, cs2) in slot.w0.iter_mut().zip(cs2) {
        kernels.kem_inv_ntt(std::slice::from_mut(cs2));
        kernels.dsa_sub_small(r0, cs2);
        if !reveal(kernels.dsa_norm_below(std::slice::from_ref(r0), p.gamma2 - p.beta)) {
            return false;
        }
    }
    // z = y + c s1.
    let cs1 = &mut products[..p.l];
    kernels.kem_matvec(cs1, s1_hat, c_small);
    for ((z, y), cs1) in z.iter_mut().zip(slot.y).zip(cs1) {
        kernels.kem_inv_ntt(std::slice::from_mut(cs1));
        z.clone_from(y);
        kernels.dsa_add_small(z, cs1);
        if !reveal(kernels.dsa_norm_below(std::slice::from_ref(z), p.gamma1 - p.beta)) {
            return false;
        }
    }
    // The hint that carries w - c s2 + c t0 back to w1.
    kernels.dsa_ntt(c);
    let mut ones = 0;
    for (row, t0) in t0_hat.iter().enumerate() {
        kernels.dsa_pointwise(product, &c[0], std::slice::from_ref(t0));
        kernels.dsa_inv_ntt(product);
        if !reveal(kernels.dsa_norm_below(product, p.gamma2)) {
            return false;
        }
        kernels.dsa_add(&mut slot.w0[row..=row], product);
        ones += kernels.dsa_make_hint(p.gamma2, &slot.w0[row], &slot.w1[row], &mut hints[row]);
    }
    if !reveal(ones <= p.omega) {
        return false;
    }
    encode(kernels, p, slot.c_tilde, z, hints, sig);
    true
}

/// sigEncode (Algorithm 26).
fn encode<K: Kernels>(
    kernels: &K,
    p: &Params,
    c_tilde: &[u8],
    z: &[DsaPoly],
    hints: &[DsaPoly],
    sig: &mut [u8],
) {
    // An accepted attempt's z and h are the signature.
    ct::declassify(z);
    ct::declassify(hints);
    let (head, rest) = sig.split_at_mut(p.c_tilde_len);
    head.copy_from_slice(c_tilde);
    let (z_bytes, hint_bytes) = rest.split_at_mut(p.l * p.z_len());
    for (poly, bytes) in z.iter().zip(z_bytes.chunks_exact_mut(p.z_len())) {
        kernels.dsa_bit_pack(p.z_bits, p.gamma1, poly, bytes);
    }
    hint::pack_vartime(p, hints, hint_bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithms::Algorithm;
    use crate::ml_dsa::params;

    #[test]
    fn rounds_never_have_more_attempts_than_lanes() {
        for algorithm in [Algorithm::MlDsa44, Algorithm::MlDsa65, Algorithm::MlDsa87] {
            let p = params(algorithm).expect("an ML-DSA set");
            for lanes in 1..=64 {
                for active in 1..=lanes {
                    let width = attempts_per_op(p, lanes, active);
                    assert!(width >= 1 && width * active <= lanes, "{lanes} {active} {width}");
                }
            }
            assert_eq!(attempts_per_op(p, 1, 1), 1, "one lane has nothing to speculate with");
        }
    }
}
