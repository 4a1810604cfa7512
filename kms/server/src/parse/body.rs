//! Bodies that are read before anything is done with them, and those that are read for nothing.

use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::{Body, Bytes, Incoming};

use crate::problem::Problem;

/// How long a body may take.
const BODY: Duration = Duration::from_secs(30);

/// How many times the limit is read of a body that is too long.
pub const FORGOTTEN: usize = 16;

/// How much memory to reserve for a body of a length that may not be known.
pub fn memory(length: Option<u64>, most: usize) -> usize {
    length.and_then(|length| usize::try_from(length).ok()).unwrap_or(most).min(most)
}

/// Reads a body and forgets it, up to a limit.
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
    // Who is too slow is hung up on.
    let _ = tokio::time::timeout(BODY, all).await;
}

/// Reads a body, up to a limit. Somewhat more is read and forgotten, so that who sends it hears why it is refused: a
/// connection that is closed with bytes unread loses the answer, too.
pub async fn read(body: &mut Incoming, most: usize) -> Result<Bytes, Problem> {
    let of_time = |_| Problem::too_slow();
    tokio::time::timeout(BODY, within(body, most)).await.map_err(of_time)?
}

async fn within(body: &mut Incoming, most: usize) -> Result<Bytes, Problem> {
    // No more than its length is made room for, and no more than twice of what came.
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
