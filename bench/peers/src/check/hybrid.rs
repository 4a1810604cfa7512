//! Hybrids, against each other and against the ML-KEM and the key exchange of all peers.

use super::{ROUNDS, Slot, disagree};
use crate::peer::{
    Encapsulation, Exchange, Form, Hybrid, HybridPair, HybridSet, Identity, Kem, Key, Operation,
    Peer, Randomness, Result,
};
use gabion_rows::inputs;

/// What other libraries have of the parts of a hybrid: composed, they encapsulate to every public key,
/// also where only one library has the whole.
pub struct Parts<'a> {
    kems: Vec<Slot<'a, dyn Kem>>,
    exchanges: Vec<Slot<'a, dyn Exchange>>,
}

impl Parts<'_> {
    /// The parts that `peers` have; none of X-Wing, which is more than they are.
    pub fn of<'a>(set: &HybridSet, peers: &'a [Box<dyn Peer>]) -> Result<Parts<'a>> {
        let mut parts = Parts { kems: vec![], exchanges: vec![] };
        if set.form == Form::XWing {
            return Ok(parts);
        }
        for (number, peer) in peers.iter().enumerate() {
            if let Some(kem) = peer.kem(set.kem)? {
                parts.kems.push((peer.identity(), kem));
            }
            let private: [u8; 48] = inputs::bytes(53, number as u64);
            if let Some(exchange) = peer.exchange(set.exchange, &private[..set.scalar])? {
                parts.exchanges.push((peer.identity(), exchange));
            }
        }
        Ok(parts)
    }

    /// How many of each there are at most: with so many turns, every one has had its own.
    pub fn turns(&self) -> usize {
        match self.kems.is_empty() || self.exchanges.is_empty() {
            true => 0,
            false => self.kems.len().max(self.exchanges.len()),
        }
    }

    /// Encapsulates by parts of two libraries, which turn says: who they are, and what comes of them.
    fn encapsulate(
        &mut self,
        set: &HybridSet,
        public: &[u8],
        (turn, round): (usize, usize),
    ) -> Result<(String, Encapsulation)> {
        let (kems, exchanges) = (self.kems.len(), self.exchanges.len());
        let (Identity { name: kem_name, .. }, kem) = &mut self.kems[turn % kems];
        let (Identity { name: curve_name, .. }, exchange) = &mut self.exchanges[turn % exchanges];
        let (kem_at, curve_at) = set.offsets(set.kem.ek, set.point);
        let mut ct = vec![0; set.kem.ct];
        let ek = &public[kem_at..][..set.kem.ek];
        let kem_secret = kem.encaps_fresh(ek, &inputs::kem_message(round), &mut ct)?;
        let secret = exchange.derive_fresh(&public[curve_at..][..set.point])?;
        let ct = set.join(&ct, exchange.public());
        Ok((format!("{kem_name} with {curve_name}"), (ct, set.join(&kem_secret, &secret))))
    }
}

/// Compares the hybrids of all peers.
///
/// To everybody's pair everybody encapsulates, fresh and cached, and so do the parts of other libraries;
/// the pair's library, and where it gives the private key out everybody, decapsulates to the same
/// secret. Keys and ciphertexts from given randomness are equal byte for byte. A changed ciphertext is
/// implicitly rejected; a wrong key and a wrong point are refused.
pub fn hybrid(
    set: &HybridSet,
    peers: &mut [Slot<'_, dyn Hybrid>],
    parts: &mut Parts<'_>,
) -> Result<()> {
    for round in 0..ROUNDS {
        let mut made: Option<(String, HybridPair)> = None;
        let mut given: Option<(String, Vec<u8>)> = None;
        for maker in 0..peers.len() {
            let pair = keygen(set, &mut peers[maker], round)?;
            if peers[maker].1.randomness(Operation::Keygen) == Randomness::Given {
                same(set, "make different keys of one seed", &mut made, &peers[maker], &pair)?;
            }
            for sender in 0..peers.len() {
                for key in [Key::Fresh, Key::Cached] {
                    let pair = keygen(set, &mut peers[maker], round)?;
                    let Some(sent) = encapsulate(set, &mut peers[sender], &pair, key, round)?
                    else {
                        continue;
                    };
                    let is_given =
                        peers[sender].1.randomness(Operation::Encaps) == Randomness::Given;
                    // Keys that were drawn are other ones each time.
                    if is_given && made.as_ref().is_some_and(|(_, made)| made.public == pair.public)
                    {
                        same(set, "encapsulate differently", &mut given, &peers[sender], &sent.0)?;
                    }
                    let name = peers[sender].0.name.clone();
                    decapsulate(set, peers, (maker, &pair), (&name, &sent))?;
                }
            }
            for turn in 0..parts.turns() {
                let pair = keygen(set, &mut peers[maker], round)?;
                let (name, sent) = parts.encapsulate(set, &pair.public, (turn, round))?;
                decapsulate(set, peers, (maker, &pair), (&name, &sent))?;
            }
            refuses(set, &mut peers[maker], round)?;
        }
    }
    Ok(())
}

/// Another pair, of the right lengths.
fn keygen(
    set: &HybridSet,
    (Identity { name, .. }, slot): &mut Slot<'_, dyn Hybrid>,
    round: usize,
) -> Result<HybridPair> {
    let pair = slot.keygen(&inputs::bytes(51, round as u64))?;
    let is_right = pair.public.len() == set.public()
        && pair.private.as_ref().is_none_or(|private| private.len() == set.private());
    if is_right { Ok(pair) } else { Err(disagree(format!("{}: {name}'s keys", set.name))) }
}

/// The first of what has to be equal is kept, and the others are compared with it.
fn same<T: PartialEq + Clone>(
    set: &HybridSet,
    what: &str,
    first: &mut Option<(String, T)>,
    (Identity { name, .. }, _): &Slot<'_, dyn Hybrid>,
    value: &T,
) -> Result<()> {
    match first {
        Some((other, first)) if first != value => {
            Err(disagree(format!("{}: {other} and {name} {what}", set.name)))
        }
        Some(_) => Ok(()),
        None => {
            *first = Some((name.to_string(), value.clone()));
            Ok(())
        }
    }
}

/// One encapsulation, of the right lengths; `None` where the peer has no such form of the key.
fn encapsulate(
    set: &HybridSet,
    (Identity { name, .. }, slot): &mut Slot<'_, dyn Hybrid>,
    pair: &HybridPair,
    key: Key,
    round: usize,
) -> Result<Option<Encapsulation>> {
    if !slot.does(Operation::Encaps, key) {
        return Ok(None);
    }
    let m = inputs::bytes(52, round as u64);
    let (ct, secret) = match key {
        Key::Fresh => slot.encaps_fresh(&pair.public, &m)?,
        Key::Cached => {
            slot.load(&pair.public)?;
            slot.encaps_cached(&m)?
        }
    };
    if ct.len() != set.ct() || secret.len() != set.secret() {
        return Err(disagree(format!("{}: lengths of {name}'s outputs", set.name)));
    }
    Ok(Some((ct, secret)))
}

/// The maker of the pair, with what it keeps, and everybody with the private key, if it is known, find
/// the sender's secret; another one, the same, for the ciphertext with another part of ML-KEM.
fn decapsulate(
    set: &HybridSet,
    peers: &mut [Slot<'_, dyn Hybrid>],
    (maker, pair): (usize, &HybridPair),
    (sender, (ct, secret)): (&str, &Encapsulation),
) -> Result<()> {
    let mut changed = ct.clone();
    changed[set.offsets(set.kem.ct, set.point).0] ^= 1;
    let (Identity { name, .. }, slot) = &mut peers[maker];
    let wrong = |name: &str| {
        disagree(format!("{}: {name} decapsulates what {sender} sent to another secret", set.name))
    };
    if slot.decaps_cached(ct)? != *secret {
        return Err(wrong(name));
    }
    // A pair that is used up has no second secret.
    let mut rejected = match slot.is_used_up() {
        true => None,
        false => Some(slot.decaps_cached(&changed)?),
    };
    if let Some(private) = &pair.private {
        for (Identity { name, .. }, slot) in
            peers.iter_mut().filter(|(_, slot)| slot.does(Operation::Decaps, Key::Fresh))
        {
            let other = slot.decaps_fresh(private, &changed)?;
            if slot.decaps_fresh(private, ct)? != *secret
                || rejected.as_ref().is_some_and(|same| *same != other)
            {
                return Err(wrong(name));
            }
            rejected = Some(other);
        }
    }
    match rejected {
        Some(rejected) if rejected == *secret => {
            Err(disagree(format!("{}: a changed ciphertext has the secret of the first", set.name)))
        }
        _ => Ok(()),
    }
}

/// Refuses a slot that takes an encapsulation key with a coefficient that is too large (FIPS 203, section
/// 7.2), a decapsulation key with another hash (section 7.3), or a wrong point in a key or a
/// ciphertext: of low order on Curve25519, off its curve otherwise. X-Wing takes every point.
fn refuses(set: &HybridSet, slot: &mut Slot<'_, dyn Hybrid>, round: usize) -> Result<()> {
    let pair = keygen(set, slot, round)?;
    let (Identity { name, .. }, slot) = slot;
    let m = inputs::bytes(52, round as u64);
    let takes = |what: &str| disagree(format!("{}: {name} takes {what}", set.name));
    let (ct, _) = slot.encaps_fresh(&pair.public, &m)?;
    let (kem_at, curve_at) = set.offsets(set.kem.ek, set.point);
    let mut public = pair.public.clone();
    public[kem_at..][..2].fill(0xff);
    if slot.encaps_fresh(&public, &m).is_ok() {
        return Err(takes("a coefficient that is too large"));
    }
    if set.form == Form::XWing {
        return Ok(());
    }
    let spoil = |bytes: &mut [u8]| match set.exchange {
        "X25519" => bytes.fill(0),
        _ => bytes[set.point - 1] ^= 1,
    };
    let mut public = pair.public;
    spoil(&mut public[curve_at..][..set.point]);
    let mut wrong = ct.clone();
    let curve_at = set.offsets(set.kem.ct, set.point).1;
    spoil(&mut wrong[curve_at..][..set.point]);
    if slot.encaps_fresh(&public, &m).is_ok() || slot.decaps_cached(&wrong).is_ok() {
        return Err(takes("a wrong point"));
    }
    if let Some(mut private) = pair.private
        && slot.does(Operation::Decaps, Key::Fresh)
    {
        let kem_at = set.offsets(set.kem.dk, set.scalar).0;
        private[kem_at + set.kem.dk - 64] ^= 1;
        if slot.decaps_fresh(&private, &ct).is_ok() {
            return Err(takes("a private key with another hash"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::peer::{Error, HYBRID_SETS};

    /// What a slot does wrong.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Fault {
        None,
        /// A secret of its own making.
        Secret,
        /// A cached key that is not the pair it made.
        Stale,
        /// Outputs the other way round.
        Order,
        /// Errors that are no errors to it.
        Takes,
        /// Another pair of the same seed.
        Seed,
    }

    struct Faulty(Box<dyn Hybrid>, Fault);

    impl Faulty {
        fn or_taken<T>(&self, result: Result<T>, taken: T) -> Result<T> {
            if self.1 == Fault::Takes { Ok(result.unwrap_or(taken)) } else { result }
        }
    }

    impl Hybrid for Faulty {
        fn source(&self) -> Randomness {
            self.0.source()
        }

        fn does(&self, operation: Operation, key: Key) -> bool {
            self.0.does(operation, key)
        }

        fn is_used_up(&self) -> bool {
            self.0.is_used_up()
        }

        fn keygen(&mut self, seed: &[u8; 96]) -> Result<HybridPair> {
            let mut seed = *seed;
            seed[0] ^= u8::from(self.1 == Fault::Seed);
            let pair = self.0.keygen(&seed)?;
            if self.1 == Fault::Stale {
                seed[1] ^= 1;
                self.0.keygen(&seed)?;
            }
            Ok(pair)
        }

        fn load(&mut self, public: &[u8]) -> Result<()> {
            self.0.load(public)
        }

        fn encaps_fresh(&mut self, public: &[u8], m: &[u8; 64]) -> Result<Encapsulation> {
            let result = self.0.encaps_fresh(public, m);
            let (mut ct, mut secret) = self.or_taken(result, (vec![], vec![]))?;
            match self.1 {
                Fault::Secret => secret[0] ^= 1,
                Fault::Order => ct.rotate_left(1088),
                _ => {}
            }
            Ok((ct, secret))
        }

        fn encaps_cached(&mut self, m: &[u8; 64]) -> Result<Encapsulation> {
            self.0.encaps_cached(m)
        }

        fn decaps_fresh(&mut self, private: &[u8], ct: &[u8]) -> Result<Vec<u8>> {
            self.0.decaps_fresh(private, ct)
        }

        fn decaps_cached(&mut self, ct: &[u8]) -> Result<Vec<u8>> {
            self.0.decaps_cached(ct)
        }
    }

    /// Checks every set that libraries inside this program have, the first slot with a fault.
    fn checked(fault: Fault) -> Vec<Result<()>> {
        let peers: Vec<Box<dyn Peer>> = vec![
            Box::new(crate::aws_lc::AwsLc::new()),
            crate::hybrids::libcrux(),
            crate::hybrids::x_wing(),
            crate::hybrids::rustls(),
        ];
        let has = |set: &&'static HybridSet| set.name != "SecP384r1MLKEM1024";
        let sets = HYBRID_SETS.iter().filter(has);
        let one = |set: &'static HybridSet| {
            let mut slots = Vec::new();
            for peer in &peers {
                if let Some(slot) = peer.hybrid(set)? {
                    let fault = if slots.is_empty() { fault } else { Fault::None };
                    slots.push((peer.identity(), Box::new(Faulty(slot, fault)) as Box<dyn Hybrid>));
                }
            }
            hybrid(set, &mut slots, &mut Parts::of(set, &peers)?)
        };
        sets.map(one).collect()
    }

    #[test]
    fn libraries_agree_with_each_other_and_with_parts() {
        let results = checked(Fault::None);
        assert!(results.len() == 3 && results.iter().all(Result::is_ok), "{results:?}");
    }

    #[test]
    fn a_faulty_library_is_found() {
        for fault in [Fault::Secret, Fault::Order, Fault::Takes] {
            let results = checked(fault);
            assert!(results.iter().all(Result::is_err), "{fault:?}: {results:?}");
        }
        // What is drawn has no seed, and the pair of rustls is used up by one that is stale.
        for fault in [Fault::Stale, Fault::Seed] {
            let [tls, _, x_wing] = &checked(fault)[..] else { unreachable!("three sets") };
            assert!(matches!(x_wing, Err(Error::Disagreement(_))), "{fault:?}: {x_wing:?}");
            assert!(tls.is_err() == (fault == Fault::Stale), "{fault:?}: {tls:?}");
        }
    }

    #[test]
    fn parts_are_where_the_standard_puts_them() {
        for set in &HYBRID_SETS {
            let (kem, curve) = (vec![1; set.kem.ek], vec![2; set.point]);
            let whole = set.join(&kem, &curve);
            assert_eq!(whole.len(), set.public());
            let (kem_at, curve_at) = set.offsets(set.kem.ek, set.point);
            assert_eq!(whole[kem_at..][..set.kem.ek], kem);
            assert_eq!(whole[curve_at..][..set.point], curve);
        }
        // RFC 10024; of X-Wing, draft-connolly-cfrg-xwing-kem, section 5.
        let lengths = HYBRID_SETS.map(|set| (set.public(), set.ct(), set.secret()));
        let expected = [(1216, 1120, 64), (1249, 1153, 64), (1665, 1665, 80), (1216, 1120, 32)];
        assert_eq!(lengths, expected);
    }
}
