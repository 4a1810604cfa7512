//! `--matrix`: which forms of the ClientHello a network path lets through, and which of those stay
//! post-quantum.
//!
//! ```text
//!   FORMS --> one handshake each --> rows: survived? post-quantum?
//!                                     |
//!                                     +--> the first form that is both: its configuration (advice)
//! ```
//!
//! Middleboxes drop hellos for their size, their segments, their records or their codepoints, and
//! report no error. A hello with a key share of ML-KEM has about 1,400 bytes: it just fits one
//! segment. With a share of X25519 only it has 250, and a server that prefers the hybrid asks for
//! its share with a HelloRetryRequest; boxes that inspect the first hello let the second one pass.

mod advice;
mod client;

use std::io::{Read, Write};

use rustls::pki_types::ServerName;

pub use self::advice::ask_with;
use self::client::HelloOutcome;
use crate::raw;
use crate::report::MatrixRow;

/// How a ClientHello is made and sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// The name in reports.
    pub name: &'static str,
    /// Whether the hybrid group is offered.
    pub has_hybrid: bool,
    /// Whether the only key share is one of X25519.
    pub is_share_small: bool,
    /// Whether the signature schemes of ML-DSA are offered.
    pub has_ml_dsa: bool,
    /// Whether the handshake message is split into several records.
    pub has_split_records: bool,
    /// Whether the hello is sent in several TCP segments, the first of which ends before its SNI.
    pub has_split_segments: bool,
}

const WHOLE: Form = Form {
    name: "one segment",
    has_hybrid: true,
    is_share_small: false,
    has_ml_dsa: true,
    has_split_records: false,
    has_split_segments: false,
};

/// Every form, the one that costs a client least first. The last one is no way out: it shows
/// whether the path lets TLS 1.3 through at all.
pub const FORMS: &[Form] = &[
    WHOLE,
    Form { name: "without ML-DSA", has_ml_dsa: false, ..WHOLE },
    Form { name: "X25519 first", is_share_small: true, ..WHOLE },
    Form { name: "X25519 first, without ML-DSA", is_share_small: true, has_ml_dsa: false, ..WHOLE },
    Form { name: "split records", has_split_records: true, ..WHOLE },
    Form { name: "split segments", has_split_segments: true, ..WHOLE },
    Form {
        name: "all of it",
        has_hybrid: true,
        is_share_small: true,
        has_ml_dsa: false,
        has_split_records: true,
        has_split_segments: true,
    },
    Form { name: "classical", has_hybrid: false, has_ml_dsa: false, ..WHOLE },
];

/// Attempts one handshake for each of [`FORMS`]. `connect` opens a connection without a delay for
/// small segments (TCP_NODELAY), after the STARTTLS dialogue if there is one; the connection's
/// deadlines limit the time.
pub fn ask<S: Read + Write>(
    mut connect: impl FnMut() -> Result<S, String>,
    server_name: &ServerName<'static>,
) -> Vec<MatrixRow> {
    let attempt = |form: &Form| {
        let sent = match connect() {
            Ok(mut stream) => client::handshake(&mut stream, form, server_name),
            Err(cause) => HelloOutcome { bytes: 0, group: Err(cause) },
        };
        let form = form.name.to_owned();
        let (group, error) = match sent.group {
            Ok(group) => (group, None),
            Err(cause) => (None, Some(cause)),
        };
        MatrixRow {
            form,
            bytes: sent.bytes,
            survived: error.is_none(),
            post_quantum: group.is_some_and(raw::is_group_post_quantum),
            error,
        }
    };
    FORMS.iter().map(attempt).collect()
}

/// Returns the first form that survived and stayed post-quantum.
#[must_use]
pub fn best(rows: &[MatrixRow]) -> Option<&'static Form> {
    let row = rows.iter().find(|row| row.survived && row.post_quantum)?;
    FORMS.iter().find(|form| form.name == row.form)
}
