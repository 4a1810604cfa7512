//! All peers against each other, before anything is timed: a call that fails, or computes
//! something else, is often a fast one.

mod hybrid;

pub use hybrid::{Parts, hybrid};

use crate::peer::{
    Dsa, DsaSet, Error, Exchange, Identity, Kem, KemSet, Key, Operation, Randomness, Result,
    Secret, Signer,
};
use gabion_rows::inputs;

/// Keys tried for each parameter set, each with one message.
const ROUNDS: usize = 8;

/// A peer and its key slot.
pub type Slot<'a, T> = (&'a Identity, Box<T>);

fn disagree(what: impl Into<String>) -> Error {
    Error::Disagreement(what.into())
}

/// Compares the ML-KEM of all peers.
///
/// Keys and ciphertexts from given randomness are equal byte for byte; everybody's ciphertext
/// decapsulates to its secret at everybody's, fresh and cached; a changed ciphertext is
/// implicitly rejected to the same secret everywhere.
pub fn kem(set: &KemSet, peers: &mut [Slot<'_, dyn Kem>]) -> Result<()> {
    for round in 0..ROUNDS {
        let (ek, dk) = kem_keys(set, peers, round)?;
        let seed = inputs::kem_seed(round);
        for (_, peer) in peers.iter_mut() {
            peer.load(&seed, &ek, &dk)?;
        }
        let mut given: Option<(String, Vec<u8>)> = None;
        for sender in 0..peers.len() {
            for cached in [false, true] {
                let Some((ct, secret)) = encapsulate(set, &mut peers[sender], &ek, round, cached)?
                else {
                    continue;
                };
                let (Identity { name, .. }, peer) = &peers[sender];
                if peer.randomness(Operation::Encaps) == Randomness::Given {
                    match &given {
                        Some((first, same)) if *same != ct => {
                            return Err(disagree(format!(
                                "{}: {first} and {name} encapsulate differently",
                                set.name
                            )));
                        }
                        Some(_) => {}
                        None => given = Some((name.to_string(), ct.clone())),
                    }
                }
                let name = name.to_string();
                decapsulate_everywhere(set, peers, &dk, &ct, Some((&name, secret)))?;
                let mut changed = ct;
                changed[round] ^= 1;
                decapsulate_everywhere(set, peers, &dk, &changed, None)?;
            }
        }
    }
    Ok(())
}

/// The key pair of `round`, equal for all peers that are given the seed; a pair that a peer drew
/// itself has to work elsewhere.
fn kem_keys(
    set: &KemSet,
    peers: &mut [Slot<'_, dyn Kem>],
    round: usize,
) -> Result<(Vec<u8>, Vec<u8>)> {
    let mut agreed: Option<(String, Vec<u8>, Vec<u8>)> = None;
    let mut drawn = None;
    for index in 0..peers.len() {
        let (mut ek, mut dk) = (vec![0; set.ek], vec![0; set.dk]);
        let (Identity { name, .. }, peer) = &mut peers[index];
        let name = name.to_string();
        if !peer.does(Operation::Keygen, Key::Fresh) {
            continue;
        }
        peer.keygen(&inputs::kem_seed(round), &mut ek, &mut dk)?;
        if peer.randomness(Operation::Keygen) == Randomness::Drawn {
            for other in 0..peers.len() {
                let Some((ct, secret)) = encapsulate(set, &mut peers[other], &ek, round, false)?
                else {
                    continue;
                };
                let other_takes_it = peers[other].1.does(Operation::Decaps, Key::Fresh);
                if peers[index].1.decaps_fresh(&dk, &ct)? != secret
                    || other_takes_it && peers[other].1.decaps_fresh(&dk, &ct)? != secret
                {
                    return Err(disagree(format!(
                        "{}: {} cannot use a key made by {name}",
                        set.name, peers[other].0.name
                    )));
                }
            }
            drawn = Some((ek, dk));
            continue;
        }
        match &agreed {
            Some((first, first_ek, first_dk)) if *first_ek != ek || *first_dk != dk => {
                return Err(disagree(format!(
                    "{}: {first} and {name} make different keys of one seed",
                    set.name
                )));
            }
            Some(_) => {}
            None => agreed = Some((name, ek, dk)),
        }
    }
    // A drawn pair serves where nobody is given the seed: nobody then loads by seed either.
    agreed
        .map(|(_, ek, dk)| (ek, dk))
        .or(drawn)
        .ok_or_else(|| Error::Environment("no library is left to make keys".to_owned()))
}

/// One encapsulation; `None` where the peer has no cached form.
fn encapsulate(
    set: &KemSet,
    (_, peer): &mut Slot<'_, dyn Kem>,
    ek: &[u8],
    round: usize,
    cached: bool,
) -> Result<Option<(Vec<u8>, Secret)>> {
    let mut ct = vec![0; set.ct];
    let m = inputs::kem_message(round);
    let secret = match cached {
        false => peer.encaps_fresh(ek, &m, &mut ct)?,
        true if peer.keeps_key(Operation::Encaps) => peer.encaps_cached(&m, &mut ct)?,
        true => return Ok(None),
    };
    Ok(Some((ct, secret)))
}

/// Every peer's secret for `ct` is that of the sender, or without one that of the first peer.
fn decapsulate_everywhere(
    set: &KemSet,
    peers: &mut [Slot<'_, dyn Kem>],
    dk: &[u8],
    ct: &[u8],
    sender: Option<(&str, Secret)>,
) -> Result<()> {
    let mut expected = sender.map(|(name, secret)| (name.to_owned(), secret));
    for (Identity { name, .. }, peer) in peers.iter_mut() {
        let mut secrets = Vec::new();
        if peer.does(Operation::Decaps, Key::Fresh) {
            secrets.push(peer.decaps_fresh(dk, ct)?);
        }
        if peer.does(Operation::Decaps, Key::Cached) {
            secrets.push(peer.decaps_cached(ct)?);
        }
        for secret in secrets {
            match &expected {
                Some((first, same)) if *same != secret => {
                    return Err(disagree(format!(
                        "{}: {name} decapsulates to another secret than {first}",
                        set.name
                    )));
                }
                Some(_) => {}
                None => expected = Some((name.to_string(), secret)),
            }
        }
    }
    Ok(())
}

/// Compares the ML-DSA of all peers.
///
/// Keys, and signatures where signing is deterministic, are equal byte for byte; everybody's
/// signature verifies at everybody's, fresh and cached, and a changed one nowhere.
pub fn dsa(set: &DsaSet, peers: &mut [Slot<'_, dyn Dsa>]) -> Result<()> {
    for round in 0..ROUNDS {
        let mut agreed: Option<(String, Vec<u8>, Vec<u8>)> = None;
        for (Identity { name, .. }, peer) in peers.iter_mut() {
            let (mut pk, mut sk) = (vec![0; set.pk], vec![0; set.sk]);
            peer.keygen(&inputs::dsa_seed(round), &mut pk, &mut sk)?;
            match &agreed {
                Some((first, first_pk, first_sk)) if *first_pk != pk || *first_sk != sk => {
                    return Err(disagree(format!(
                        "{}: {first} and {name} make different keys of one seed",
                        set.name
                    )));
                }
                Some(_) => {}
                None => agreed = Some((name.to_string(), pk, sk)),
            }
        }
        let Some((_, pk, sk)) = agreed else {
            return Ok(());
        };
        for (_, peer) in peers.iter_mut() {
            peer.load(&pk, &sk)?;
        }
        dsa_signatures(set, peers, &pk, &sk, &inputs::message(round))?;
    }
    Ok(())
}

fn dsa_signatures(
    set: &DsaSet,
    peers: &mut [Slot<'_, dyn Dsa>],
    pk: &[u8],
    sk: &[u8],
    message: &[u8],
) -> Result<()> {
    let mut given: Option<(String, Vec<u8>)> = None;
    for signer in 0..peers.len() {
        for cached in [false, true] {
            let (Identity { name, .. }, peer) = &mut peers[signer];
            let name = name.to_string();
            let mut sig = vec![0; set.sig];
            match cached {
                false => peer.sign_fresh(sk, message, &mut sig)?,
                true if peer.keeps_key(Operation::Sign) => peer.sign_cached(message, &mut sig)?,
                true => continue,
            }
            if peer.randomness(Operation::Sign) == Randomness::Given {
                match &given {
                    Some((first, same)) if *same != sig => {
                        return Err(disagree(format!(
                            "{}: {first} and {name} sign differently",
                            set.name
                        )));
                    }
                    Some(_) => {}
                    None => given = Some((name.clone(), sig.clone())),
                }
            }
            let mut changed = sig.clone();
            changed[set.sig / 2] ^= 1;
            for (Identity { name: verifier, .. }, peer) in peers.iter_mut() {
                let mut right = peer.verify_fresh(pk, message, &sig)?
                    && !peer.verify_fresh(pk, message, &changed)?;
                if peer.keeps_key(Operation::Verify) {
                    right &= peer.verify_cached(message, &sig)?
                        && !peer.verify_cached(message, &changed)?;
                }
                if !right {
                    return Err(disagree(format!(
                        "{}: {verifier} misjudges a signature by {name}",
                        set.name
                    )));
                }
            }
        }
    }
    Ok(())
}

/// Refuses a slot that does not verify its own signature, or verifies a changed one.
pub fn signer(name: &str, identity: &Identity, slot: &mut dyn Signer) -> Result<()> {
    let message = inputs::message(0);
    let mut signature = slot.sign(&message)?;
    let good = slot.verify(&message, &signature)?;
    let middle = signature.len() / 2;
    if let Some(byte) = signature.get_mut(middle) {
        *byte ^= 1;
    }
    if good && !slot.verify(&message, &signature)? {
        return Ok(());
    }
    Err(Error::Disagreement(format!(
        "{name}: {} does not verify its own signature, or verifies a changed one",
        identity.name
    )))
}

/// Compares the key exchanges of all peers, each with a pair of its own.
///
/// Every two derive the same secret from both sides, fresh and cached, from the slot's pair and
/// from a generated one; nobody takes a public key that is no point, or one of low order.
pub fn exchange(name: &str, peers: &mut [Slot<'_, dyn Exchange>]) -> Result<()> {
    for one in 0..peers.len() {
        let made = peers[one].1.keygen()?;
        let public = peers[one].1.public().to_vec();
        for other in 0..peers.len() {
            let theirs = peers[other].1.public().to_vec();
            let secrets = [
                peers[one].1.derive_fresh(&theirs)?,
                peers[one].1.derive_cached(&theirs)?,
                peers[other].1.derive_fresh(&public)?,
                peers[other].1.derive_cached(&public)?,
            ];
            let [first, rest @ ..] = &secrets;
            if first.iter().all(|&byte| byte == 0) || rest.iter().any(|secret| secret != first) {
                return Err(disagree(format!(
                    "{name}: {} and {} derive different secrets",
                    peers[one].0.name, peers[other].0.name
                )));
            }
            // A generated pair is seen from outside only: its public key is to be one.
            if peers[other].1.derive_fresh(&made)? != peers[other].1.derive_cached(&made)? {
                return Err(disagree(format!(
                    "{name}: {} derives two secrets from one key of {}",
                    peers[other].0.name, peers[one].0.name
                )));
            }
        }
        // All zero is of low order on Curve25519; the changed point is off its curve.
        let mut wrong = vec![0; public.len()];
        if name != "X25519" {
            wrong.copy_from_slice(&public);
            wrong[public.len() - 1] ^= 1;
        }
        if peers[one].1.derive_fresh(&wrong).is_ok() || peers[one].1.derive_cached(&wrong).is_ok() {
            return Err(disagree(format!("{name}: {} takes a wrong point", peers[one].0.name)));
        }
    }
    Ok(())
}
