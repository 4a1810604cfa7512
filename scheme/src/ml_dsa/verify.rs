//! Verification over a batch (FIPS 204, Algorithms 3, 5 and 8). Everything here is public.

use super::challenge;
use super::hint;
use super::keys::VerifyKey;
use super::message::mu_sponge;
use super::params::Params;
use super::{Scratch, resize, resize_arrays};
use crate::error::Status;
use crate::kernels::{DsaPoly, Kernels, Sponge, Xof};
use crate::message::{Header, Message};

/// Operations per lane that share their sponge calls: more than one, so that messages of
/// different lengths can be sorted into full groups; few, so that buffers stay in the cache.
const OPS_PER_LANE: usize = 4;

/// Verifies `sigs[op]` (contiguous, `sig_len` bytes each) of `messages[op]` under `keys[op]`.
///
/// `status[op]` becomes [`Status::Ok`] if the signature is good, [`Status::InvalidSignature`] if
/// not, [`Status::InvalidInput`] if the message has the wrong form (see [`Message::check`]).
/// Time depends on all inputs, which are public.
///
/// # Panics
/// If lengths do not fit each other or the keys are of different parameter sets.
pub fn verify<K: Kernels>(
    kernels: &K,
    keys: &[&VerifyKey],
    messages: &[Message<'_>],
    sigs: &[u8],
    status: &mut [Status],
    scratch: &mut Scratch,
) {
    let Some(first) = keys.first() else {
        assert!(messages.is_empty() && sigs.is_empty() && status.is_empty(), "one key per op");
        return;
    };
    let p = first.params();
    assert!(keys.iter().all(|key| key.params() == p), "keys of one parameter set");
    assert!(messages.len() == keys.len() && status.len() == keys.len(), "one of each per op");
    assert_eq!(sigs.len(), keys.len() * p.sig_len(), "one signature per op");
    let step = OPS_PER_LANE * kernels.lanes().max(1);
    for (((keys, messages), sigs), status) in keys
        .chunks(step)
        .zip(messages.chunks(step))
        .zip(sigs.chunks(step * p.sig_len()))
        .zip(status.chunks_mut(step))
    {
        verify_chunk(kernels, p, keys, messages, sigs, status, scratch);
    }
}

fn verify_chunk<K: Kernels>(
    kernels: &K,
    p: &'static Params,
    keys: &[&VerifyKey],
    messages: &[Message<'_>],
    sigs: &[u8],
    status: &mut [Status],
    s: &mut Scratch,
) {
    let sigs: Vec<Parts<'_>> =
        sigs.chunks_exact(p.sig_len()).map(|sig| Parts::of(p, sig)).collect();
    for ((status, message), sig) in status.iter_mut().zip(messages).zip(&sigs) {
        *status = match message.check() {
            Err(_) => Status::InvalidInput,
            Ok(()) if !hint::is_well_formed(p, sig.hint) => Status::InvalidSignature,
            Ok(()) => Status::NotRun,
        };
    }
    hash_inputs(kernels, keys, messages, &sigs, status, s);

    // Lines 9 and 10: the polynomials, one operation after the other.
    resize(&mut s.w1_bytes, keys.len() * p.w1_len());
    resize(&mut s.vectors, p.l + 2 * p.k + 2);
    for (op, w1_bytes) in s.w1_bytes.chunks_exact_mut(p.w1_len()).enumerate() {
        let runs = status[op] == Status::NotRun;
        if runs && !commitment(kernels, keys[op], &sigs[op], &s.ball[op], &mut s.vectors, w1_bytes)
        {
            status[op] = Status::InvalidSignature;
        }
    }

    // Line 12: c~' = H(mu || w1Encode(w1'), lambda / 4), and line 13.
    let runs = |op: &usize| status[*op] == Status::NotRun;
    resize_arrays(&mut s.c_tilde, keys.len());
    let outputs = s.c_tilde.iter_mut().enumerate().filter(|(op, _)| runs(op));
    let sponges = outputs.map(|(op, out)| {
        let w1 = &s.w1_bytes[op * p.w1_len()..][..p.w1_len()];
        Sponge::new(Xof::Shake256, [&s.mu[op][..], w1], &mut out[..p.c_tilde_len])
    });
    s.jobs.run(kernels, sponges);
    for ((status, sig), c_tilde) in status.iter_mut().zip(&sigs).zip(&s.c_tilde) {
        if *status == Status::NotRun {
            let same = c_tilde[..p.c_tilde_len] == *sig.c_tilde;
            *status = if same { Status::Ok } else { Status::InvalidSignature };
        }
    }
}

/// mu (Algorithm 8, line 7) and SampleInBall's stream (line 8) of all operations that run, in one
/// call.
fn hash_inputs<K: Kernels>(
    kernels: &K,
    keys: &[&VerifyKey],
    messages: &[Message<'_>],
    sigs: &[Parts<'_>],
    status: &[Status],
    s: &mut Scratch,
) {
    let runs = |op: &usize| status[*op] == Status::NotRun;
    s.headers.clear();
    s.headers.extend(messages.iter().map(Header::new));
    resize_arrays(&mut s.mu, keys.len());
    resize_arrays(&mut s.ball, keys.len());
    let balls = s.ball.iter_mut().enumerate().filter(|(op, _)| runs(op));
    let balls = balls.map(|(op, out)| challenge::sponge(sigs[op].c_tilde, out));
    let mus = s.mu.iter_mut().zip(&s.headers).enumerate().filter(|(op, _)| runs(op));
    let mus =
        mus.filter_map(|(op, (mu, header))| mu_sponge(keys[op].tr(), &messages[op], header, mu));
    s.jobs.run(kernels, mus.chain(balls));
}

/// A signature's three parts (sigDecode, Algorithm 27).
struct Parts<'a> {
    c_tilde: &'a [u8],
    z: &'a [u8],
    hint: &'a [u8],
}

impl<'a> Parts<'a> {
    fn of(p: &Params, sig: &'a [u8]) -> Self {
        let (c_tilde, rest) = sig.split_at(p.c_tilde_len);
        let (z, hint) = rest.split_at(p.l * p.z_len());
        Parts { c_tilde, z, hint }
    }
}

/// w1' = UseHint(h, A z - c t1 2^d), encoded (Algorithm 8, lines 8 to 10 and w1Encode, Algorithm
/// 28). False if z is out of range (line 13). `work` has `l + 2 k + 2` polynomials.
fn commitment<K: Kernels>(
    kernels: &K,
    key: &VerifyKey,
    sig: &Parts<'_>,
    ball: &[u8; challenge::BALL_LEN],
    work: &mut [DsaPoly],
    w1_bytes: &mut [u8],
) -> bool {
    let p = key.params();
    let (z, rest) = work.split_at_mut(p.l);
    let (w, rest) = rest.split_at_mut(p.k);
    let (ct1, rest) = rest.split_at_mut(p.k);
    let (c, h) = rest.split_at_mut(1);
    let h = &mut h[0];
    for (poly, bytes) in z.iter_mut().zip(sig.z.chunks_exact(p.z_len())) {
        kernels.dsa_bit_unpack(p.z_bits, p.gamma1, bytes, poly);
    }
    if !kernels.dsa_norm_below(z, p.gamma1 - p.beta) {
        return false;
    }
    challenge::sample_vartime(p, ball, &mut c[0], challenge::squeezer(kernels, sig.c_tilde));
    kernels.dsa_ntt(c);
    kernels.dsa_ntt(z);
    kernels.dsa_matvec(w, key.a_hat(), z);
    kernels.dsa_pointwise(ct1, &c[0], key.t1_hat(kernels));
    kernels.dsa_sub(w, ct1);
    kernels.dsa_inv_ntt(w);
    let encoded = w1_bytes.chunks_exact_mut(32 * p.w1_bits);
    for (row, (poly, bytes)) in w.iter().zip(encoded).enumerate() {
        hint::unpack_row(p, sig.hint, row, h);
        let w1 = &mut ct1[row];
        kernels.dsa_use_hint(p.gamma2, h, poly, w1);
        kernels.dsa_simple_bit_pack(p.w1_bits, w1, bytes);
    }
    true
}
