//! Request bodies: reading them before processing, and discarding them.

use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::{Body, Bytes, Incoming};

use crate::problem::Problem;

/// The time limit of a body.
const BODY: Duration = Duration::from_secs(30);

/// The number of bytes of an oversized body that are read and discarded, as a multiple of the
/// limit.
pub const FORGOTTEN: usize = 16;

/// Returns how much memory to reserve for a body, whose length may be unknown.
pub fn memory(length: Option<u64>, most: usize) -> usize {
    length.and_then(|length| usize::try_from(length).ok()).unwrap_or(most).min(most)
}

/// Reads and discards a body, up to a limit.
pub async fn forget(body: &mut Incoming, most: usize) {
    let all = async {
        let mut read = 0;
        while let Some(Ok(frame)) = body.frame().await {
            read += frame.into_data().map_or(0, |piece| piece.len());
            if read > most {
                break;
            }
        }
    };
    // Slow clients are disconnected.
    let _ = tokio::time::timeout(BODY, all).await;
}

/// Reads a body, up to a limit. For an oversized body, somewhat more is read and discarded, so that
/// the client gets the error: closing a connection with unread bytes would lose the answer.
pub async fn read(body: &mut Incoming, most: usize) -> Result<Bytes, Problem> {
    let of_time = |_| Problem::too_slow();
    tokio::time::timeout(BODY, within(body, most)).await.map_err(of_time)?
}

async fn within(body: &mut Incoming, most: usize) -> Result<Bytes, Problem> {
    // Allocate at most the announced length, and at most twice the received bytes.
    let length = memory(body.size_hint().exact(), most);
    let (mut bytes, mut read) = (Vec::new(), 0);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Problem::ends_early())?;
        let Ok(piece) = frame.into_data() else { continue };
        read += piece.len();
        if read <= most {
            if bytes.capacity() < read {
                bytes.reserve_exact((2 * read).min(length).max(read) - bytes.len());
            }
            bytes.extend_from_slice(&piece);
        } else if read > most.saturating_mul(FORGOTTEN) {
            break;
        }
    }
    if read > most { Err(Problem::too_large(most)) } else { Ok(Bytes::from(bytes)) }
}
