//! Messages that are bodies themselves, of any size: hashed as they come.
//!
//! ```text
//!   head --> may they, may the key? --> a place --> pieces of the body --> may they still? --> sign, verify --> answer
//!            (a thread that may wait)               |                      (a thread that may wait)
//!                                                   '-- one is hashed by a thread while the next one comes
//! ```
//!
//! While a body comes it has two pieces of memory, and a thread only for what is hashed. It keeps no service open: one that
//! is sealed meanwhile refuses it.

use std::sync::Arc;
use std::time::Duration;

use gabion_kms::service::{self, StreamedMessage};
use http_body_util::BodyExt;
use hyper::body::{Body, Bytes, Incoming};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};
use zeroize::Zeroizing;

use super::pending_caller::PendingCaller;
use crate::api::streams::{StreamHandler, StreamRequest};
use crate::api::{Call, KeySelector, Reply};
use crate::blocking::{BlockingTask, defect, run_blocking};
use crate::lifecycle::state::State;
use crate::net::peer::ConnectionPeer;
use crate::parse::body::{FORGOTTEN, forget};
use crate::problem::Problem;

/// Bytes that are hashed at once: about a millisecond.
const PIECE: usize = 256 << 10;

/// The minimum number of bytes that must arrive in [`WAIT_MAX`], unless the body ends.
const PROGRESS_MIN: usize = 1 << 20;

/// How long a caller may take for [`PROGRESS_MIN`] bytes.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// In how many seconds there may be a place.
const AGAIN_S: u64 = 1;

/// A piece, wiped when it is let go: a message may be secret.
type Piece = Zeroizing<Vec<u8>>;

/// A request whose body is a message of any size.
pub struct Upload<'a> {
    pub handler: &'static StreamHandler,
    pub from: &'a ConnectionPeer,
    /// Whether the caller waits for a word before the body.
    pub is_expecting: bool,
}

/// How much memory to reserve for a body of a length that may not be known: one that is longer than any other body has one of
/// the few places that there are.
pub fn memory(length: Option<u64>, body_max: usize) -> usize {
    let short = length.and_then(|length| usize::try_from(length).ok());
    short.filter(|&length| length <= body_max).unwrap_or(0).min(2 * PIECE)
}

/// Answers an upload.
pub async fn answer(
    upload: &Upload<'_>,
    call: Call,
    body: &mut Incoming,
) -> Result<Reply, Problem> {
    let (state, most) = (call.state.clone(), call.state.body_max);
    let answered = answer_body(upload, call, &state, body).await;
    let Refusal { problem, has_started } = match answered {
        Ok(reply) => return Ok(reply),
        Err(refused) => refused,
    };
    // It is read on for a while, so that who sends it hears why; who waits for a word sends nothing, and who is too slow is
    // hung up on.
    let is_sent = has_started || !upload.is_expecting;
    if is_sent && problem.status != 408 {
        forget(body, most.saturating_mul(FORGOTTEN)).await;
    }
    Err(problem)
}

/// Why a body is refused, and whether any of it was waited for.
struct Refusal {
    problem: Problem,
    has_started: bool,
}

impl From<Problem> for Refusal {
    fn from(problem: Problem) -> Self {
        Refusal { problem, has_started: false }
    }
}

async fn answer_body(
    upload: &Upload<'_>,
    call: Call,
    state: &Arc<State>,
    body: &mut Incoming,
) -> Result<Reply, Refusal> {
    let (handler, length) = (upload.handler, body.size_hint().exact());
    if length.is_some_and(|length| length > state.upload_limits.bytes_max) {
        return Err(Problem::too_long(state.upload_limits.bytes_max).into());
    }
    let begin = move || {
        let request = (handler.begin)(&call, length).map_err(|problem| call.refusal(problem));
        (call, request)
    };
    let (mut call, request) = run_blocking(begin).await?;
    let (request, streaming) = request?;
    // One that is as short as any body needs no place of the few that there are.
    let is_short = length.is_some_and(|length| length <= state.body_max as u64);
    let place = match is_short {
        true => None,
        false => Some(state.upload_limits.take(&request.selector.tenant).ok_or_else(busy)?),
    };
    let (service, who) = call.caller.take().ok_or_else(defect)?;
    let caller = PendingCaller::new(&service, who);
    drop(service);
    let mut reader = BodyReader::new(body, state.upload_limits.bytes_max);
    let hasher = Hasher::new(streaming, state.upload_limits.hashing.clone());
    let body_read = reader
        .all(hasher, &request, |bytes| charge(&caller, &call, &request.selector, bytes))
        .await;
    let body_read = body_read.map_err(|problem| Refusal { problem, has_started: true })?;
    drop(place);
    let resumed = caller.resume(state, upload.from);
    call.caller = Some(resumed.map_err(|problem| Refusal { problem, has_started: true })?);
    // From here on it is a request that was read.
    let _running = state.run();
    let end = move || finish(handler, &call, &request, body_read);
    Ok(run_blocking(end).await??)
}

/// Hashes the last piece and answers.
fn finish(
    handler: &StreamHandler,
    call: &Call,
    request: &StreamRequest,
    body_read: UploadBody,
) -> Result<Reply, Problem> {
    let UploadBody { mut streaming, before, last } = body_read;
    let added = streaming.add(&last).map_err(Problem::from);
    let answered = added.and_then(|()| (handler.end)(call, request, &streaming, &before));
    answered.map_err(|problem| call.refusal(problem))
}

fn busy() -> Problem {
    Problem::busy("as many messages come in pieces as there may be at a time", AGAIN_S)
}

/// Charges for bytes that came.
fn charge(
    caller: &PendingCaller,
    call: &Call,
    selector: &KeySelector,
    bytes: usize,
) -> Result<(), Problem> {
    let service = caller.service(&call.state)?;
    call.state.upload_limits.count(bytes);
    service.charge_bytes(&service::Call::new(caller.who(), &call.id), &selector.key(), bytes);
    Ok(())
}

/// Reads a body and enforces its minimum rate and its maximum size.
struct BodyReader<'a> {
    body: &'a mut Incoming,
    /// When enough of it has to be there.
    ends: Instant,
    /// Bytes that came since the span began.
    got: usize,
    read: u64,
    most: u64,
}

/// A body that was read to its end.
struct UploadBody {
    streaming: Box<StreamedMessage>,
    /// What stood before the message.
    before: Vec<u8>,
    /// What was not hashed yet.
    last: Piece,
}

impl<'a> BodyReader<'a> {
    fn new(body: &'a mut Incoming, most: u64) -> Self {
        BodyReader { body, ends: Instant::now() + WAIT_MAX, got: 0, read: 0, most }
    }

    /// Reads all of it.
    async fn all(
        &mut self,
        mut hasher: Hasher,
        request: &StreamRequest,
        charge: impl Fn(usize) -> Result<(), Problem>,
    ) -> Result<UploadBody, Problem> {
        let mut before = Vec::with_capacity(request.before);
        let mut piece = Piece::default();
        while let Some(bytes) = self.next().await? {
            let (of_before, mut rest) =
                bytes.split_at(bytes.len().min(request.before - before.len()));
            before.extend_from_slice(of_before);
            while !rest.is_empty() {
                let (now, later) = rest.split_at(rest.len().min(PIECE - piece.len()));
                piece.extend_from_slice(now);
                rest = later;
                if piece.len() == PIECE {
                    charge(PIECE)?;
                    let start = Instant::now();
                    piece = hasher.take(piece).await?;
                    // Nobody but the server is slow here.
                    self.ends += start.elapsed();
                }
            }
        }
        if before.len() < request.before {
            return Err(Problem::ends_before(request.before));
        }
        charge(piece.len())?;
        Ok(UploadBody { streaming: hasher.end().await?, before, last: piece })
    }

    /// The next bytes; none at the end.
    async fn next(&mut self) -> Result<Option<Bytes>, Problem> {
        loop {
            let frame = timeout_at(self.ends, self.body.frame()).await;
            let Some(frame) = frame.map_err(|_| Problem::too_slow_stream())? else {
                return Ok(None);
            };
            let frame = frame.map_err(|_| Problem::ends_early())?;
            let Ok(bytes) = frame.into_data() else { continue };
            self.got = self.got.saturating_add(bytes.len());
            if self.got >= PROGRESS_MIN {
                (self.got, self.ends) = (0, Instant::now() + WAIT_MAX);
            }
            self.read += bytes.len() as u64;
            match self.read > self.most {
                true => return Err(Problem::too_long(self.most)),
                false => return Ok(Some(bytes)),
            }
        }
    }
}

/// Hashes pieces, one while the next one comes.
struct Hasher {
    places: Arc<Semaphore>,
    now: HasherState,
}

/// The hash's state, and memory for the next piece.
type HashResult = Result<(Box<StreamedMessage>, Piece), gabion_kms::Error>;

/// The state of a [`Hasher`].
enum HasherState {
    Idle(Box<StreamedMessage>, Piece),
    Busy(BlockingTask<HashResult>),
    Finished,
}

impl Hasher {
    fn new(streaming: StreamedMessage, places: Arc<Semaphore>) -> Self {
        Hasher { places, now: HasherState::Idle(Box::new(streaming), Piece::default()) }
    }

    /// Takes a piece, once the one before it is hashed, and gives memory for the next one.
    async fn take(&mut self, piece: Piece) -> Result<Piece, Problem> {
        let (mut streaming, spare) = self.rest().await?;
        let place = self.places.clone().acquire_owned().await.map_err(|_| defect())?;
        let hash = move || {
            let _place = place;
            let mut piece = piece;
            streaming.add(&piece)?;
            // What it had is wiped with its memory, once.
            piece.clear();
            Ok((streaming, piece))
        };
        self.now = HasherState::Busy(BlockingTask::start(hash)?);
        Ok(spare)
    }

    async fn end(mut self) -> Result<Box<StreamedMessage>, Problem> {
        Ok(self.rest().await?.0)
    }

    async fn rest(&mut self) -> Result<(Box<StreamedMessage>, Piece), Problem> {
        match std::mem::replace(&mut self.now, HasherState::Finished) {
            HasherState::Idle(streaming, spare) => Ok((streaming, spare)),
            HasherState::Busy(task) => Ok(task.join().await??),
            HasherState::Finished => Err(defect()),
        }
    }
}
