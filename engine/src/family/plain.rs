//! Messages that are signed as they are: Ed25519, HSS and XMSS have neither a context nor a
//! pre-hash.

use gabion_scheme::message::Message;
use gabion_scheme::{Algorithm, Status};

use crate::error::Error;
use crate::memory;

/// The message itself, where it comes in no other form.
fn plain<'a>(message: &Message<'a>) -> Option<&'a [u8]> {
    match *message {
        Message::Pure { context: [], message } => Some(message),
        _ => None,
    }
}

/// Refuses every other form, by its name.
pub(super) fn check(algorithm: Algorithm, message: &Message<'_>) -> Result<(), Error> {
    let operation = match message {
        Message::Pure { context: [], .. } => return Ok(()),
        Message::Pure { .. } => "sign with a context",
        Message::Prehash { .. } => "sign a digest",
        Message::Mu(_) => "sign a representative mu",
        Message::Internal(_) => "sign a formatted message",
    };
    let algorithm = algorithm.name();
    Err(Error::Input(gabion_scheme::Error::Unsupported { algorithm, operation }))
}

/// Runs the lanes whose message is plain; the others are refused.
pub(super) fn each<'m>(
    messages: &[Message<'m>],
    status: &mut [Status],
    run: impl FnOnce(&[usize], &[&'m [u8]], &mut [Status]) -> Result<(), Error>,
) -> Result<(), Error> {
    let (mut lanes, mut texts) = (memory::room(messages.len())?, memory::room(messages.len())?);
    for (lane, message) in messages.iter().enumerate() {
        if let Some(text) = plain(message) {
            lanes.push(lane);
            texts.push(text);
        }
    }
    if lanes.len() == status.len() {
        return run(&lanes, &texts, status);
    }
    let mut verdicts = memory::filled(lanes.len(), Status::NotRun)?;
    run(&lanes, &texts, &mut verdicts)?;
    status.fill(Status::InvalidInput);
    for (lane, verdict) in lanes.into_iter().zip(verdicts) {
        status[lane] = verdict;
    }
    Ok(())
}
