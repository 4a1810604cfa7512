//! Uploads: messages of any size as request bodies, which are hashed while they arrive.
//!
//! ```text
//!   head --> caller allowed? key allowed? --> a permit --> pieces of the body --> still allowed? --> sign, verify --> answer
//!            (a thread that may block)                     |                        (a thread that may block)
//!                                                          '-- one is hashed by a thread while the next one arrives
//! ```
//!
//! An arriving body takes the memory of two pieces, and a thread only for hashing. It does not keep
//! the service open: if the service is sealed meanwhile, the upload is rejected.

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

/// The number of bytes that are hashed at once: about a millisecond.
const PIECE: usize = 256 << 10;

/// The minimum number of bytes that must arrive in [`WAIT_MAX`], unless the body ends.
const PROGRESS_MIN: usize = 1 << 20;

/// How long a caller may take for [`PROGRESS_MIN`] bytes.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// The number of seconds after which a permit may be available.
const AGAIN_S: u64 = 1;

/// A piece, which is wiped when dropped, because a message may be secret.
type Piece = Zeroizing<Vec<u8>>;

/// A request with a message of any size as its body.
pub struct Upload<'a> {
    pub handler: &'static StreamHandler,
    pub from: &'a ConnectionPeer,
    /// Whether the client waits for `100 Continue`.
    pub is_expecting: bool,
}

/// Returns how much memory to reserve for a body, whose length may be unknown. Longer bodies than
/// usual ones need one of the few permits.
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
    // Read on for a while, so that the client gets the error. Clients that wait for `100 Continue`
    // send nothing, and slow ones are disconnected.
    let is_sent = has_started || !upload.is_expecting;
    if is_sent && problem.status != 408 {
        forget(body, most.saturating_mul(FORGOTTEN)).await;
    }
    Err(problem)
}

/// The error for a body, and whether reading it has started.
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
    // A body within the usual limit needs no permit.
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
    // From here on it counts as a running request.
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
    Problem::busy("the number of concurrent streamed messages is at its limit", AGAIN_S)
}

/// Charges for received bytes.
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
    /// The deadline of the current interval.
    ends: Instant,
    /// The number of bytes received in the current interval.
    got: usize,
    read: u64,
    most: u64,
}

/// A completely read body.
struct UploadBody {
    streaming: Box<StreamedMessage>,
    /// The bytes before the message.
    before: Vec<u8>,
    /// The bytes that are not hashed yet.
    last: Piece,
}

impl<'a> BodyReader<'a> {
    fn new(body: &'a mut Incoming, most: u64) -> Self {
        BodyReader { body, ends: Instant::now() + WAIT_MAX, got: 0, read: 0, most }
    }

    /// Reads the whole body.
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
                    // The server's own delay does not count.
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

    /// Returns the next bytes; `None` at the end.
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

/// Hashes pieces, one while the next one arrives.
struct Hasher {
    places: Arc<Semaphore>,
    now: HasherState,
}

/// The hash state, and memory for the next piece.
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

    /// Takes a piece once the previous one is hashed. Returns memory for the next one.
    async fn take(&mut self, piece: Piece) -> Result<Piece, Problem> {
        let (mut streaming, spare) = self.rest().await?;
        let place = self.places.clone().acquire_owned().await.map_err(|_| defect())?;
        let hash = move || {
            let _place = place;
            let mut piece = piece;
            streaming.add(&piece)?;
            // The old content stays in the buffer until it is overwritten or wiped on drop.
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
