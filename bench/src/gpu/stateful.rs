//! Signatures of keys that signing uses up, for batches that verify them.

use std::num::NonZero;
use std::ops::ControlFlow;

use gabion_engine::keys::stateful::{Progress, Secret, StatefulKey};
use gabion_engine::{Algorithm, Engine, lms, xmss};

use crate::Error;
use crate::hbs::sets::{SETS, Secret as AnySecret};

/// The sets that are measured: one tree each, whose key takes a moment to make.
pub(super) const MEASURED: [(&str, Algorithm); 2] =
    [("L1_H10_W4", Algorithm::Hss), ("XMSS-SHA2_10_256", Algorithm::Xmss)];

/// Signatures that a key of these makes.
pub(super) const SIGNATURES: usize = 1 << 10;

/// A public key.
pub(super) enum Public {
    /// HSS.
    Hss(lms::VerifyKey),
    /// XMSS.
    Xmss(xmss::VerifyKey),
}

/// A key of a set, and its first signatures.
///
/// # Errors
/// `Usage` for an unknown set; `Failed` if the processor does not make them.
pub(super) fn signed(name: &str, messages: &[&[u8]]) -> Result<(Public, Vec<Vec<u8>>), Error> {
    let set = SETS.iter().find(|set| set.name() == name);
    let set = set.ok_or_else(|| Error::Usage(format!("there is no set {name}")))?;
    // Keys of this kind are made by a processor's kernels, whatever the environment says.
    let backend = gabion_backend::cpus().first().map(|backend| backend.name().to_owned());
    let engine = Engine::new(&gabion_engine::Config { backend, ..Default::default() })?;
    match set.secret()? {
        AnySecret::Hss(secret) => {
            let (key, signatures) = sign(&engine, &secret, messages)?;
            Ok((Public::Hss(key), signatures))
        }
        AnySecret::Xmss(secret) => {
            let (key, signatures) = sign(&engine, &secret, messages)?;
            Ok((Public::Xmss(key), signatures))
        }
    }
}

fn sign<S: Secret + Sync>(
    engine: &Engine,
    secret: &S,
    messages: &[&[u8]],
) -> Result<(S::Public, Vec<Vec<u8>>), Error>
where
    S::Public: Clone,
{
    let threads = std::thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
    let mut go_on = |_: Progress<'_>| ControlFlow::Continue(());
    let key = StatefulKey::generate(engine, secret, &[], threads, &mut go_on)?;
    let mut key = key.ok_or_else(|| Error::Failed("key generation was stopped".to_owned()))?;
    let signatures = key.testing_only_sign_at(0, messages)?;
    Ok((key.verify_key().clone(), signatures))
}
