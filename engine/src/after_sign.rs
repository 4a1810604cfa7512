//! Signatures that are verified before they are given out, where the configuration asks for it.

use gabion_scheme::message::Message;
use gabion_scheme::{Status, ct};

use crate::error::Error;
use crate::keys::signature::{SigningKey, VerifyKey};
use crate::route::Engine;

impl Engine {
    /// Verifies new signatures, laid out as in [`Engine::sign_many`]. A signature that does not
    /// verify is wiped, its lane gets [`Status::Fault`], and the backend is tested again.
    ///
    /// # Errors
    /// No healthy backend; then no signature may be released.
    pub(crate) fn check_signed(
        &self,
        keys: &[&SigningKey],
        messages: &[Message<'_>],
        signatures: &mut [u8],
        lengths: &mut [usize],
        status: &mut [Status],
    ) -> Result<(), Error> {
        let Some(algorithm) = keys.first().map(|key| key.algorithm()) else { return Ok(()) };
        if !self.verifies_after_sign() {
            return Ok(());
        }
        let public: Vec<VerifyKey> = keys.iter().map(|key| key.public()).collect();
        let public: Vec<&VerifyKey> = public.iter().collect();
        let mut verdicts = vec![Status::NotRun; keys.len()];
        if let Err(error) = self.verify_many(&public, messages, signatures, lengths, &mut verdicts)
        {
            ct::wipe(signatures);
            lengths.fill(0);
            status.fill(Status::NotRun);
            return Err(error);
        }
        let mut is_sound = true;
        let room = signatures.len() / keys.len();
        let lanes = signatures.chunks_exact_mut(room).zip(lengths);
        for ((status, verdict), (signature, length)) in status.iter_mut().zip(verdicts).zip(lanes) {
            if status.is_ok() && !verdict.is_ok() {
                ct::wipe(signature);
                (*status, *length) = (Status::Fault, 0);
                is_sound = false;
            }
        }
        if !is_sound {
            self.suspect(algorithm, "made a signature that does not verify");
        }
        Ok(())
    }
}
