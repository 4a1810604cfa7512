//! A batch taken apart, for several threads: contiguous lanes, outputs where they are.

use super::{Batch, Keys};

impl Batch<'_> {
    /// The batch in pieces of `lanes` lanes, the last one shorter.
    ///
    /// # Panics
    /// If `lanes` is zero, or the batch was not checked.
    pub fn pieces(&mut self, lanes: usize) -> Vec<Batch<'_>> {
        assert!(lanes > 0, "a piece has a lane");
        let mut status = &mut *self.status;
        let mut rest = self.operation.reborrow();
        let mut pieces = Vec::with_capacity(status.len() / lanes + 1);
        while status.len() > lanes {
            let (first, others) = rest.split_at(lanes);
            let (of_first, of_others) = status.split_at_mut(lanes);
            pieces.push(Batch { operation: first, status: of_first });
            (rest, status) = (others, of_others);
        }
        pieces.push(Batch { operation: rest, status });
        pieces
    }
}

impl<'a, T> Keys<'a, T> {
    /// The keys of the lanes before `lane`, and those from there on; `len` bytes each where encoded.
    pub(super) fn split_at(self, lane: usize, len: usize) -> (Self, Self) {
        match self {
            Keys::Fresh(bytes) => {
                let (first, others) = bytes.split_at(lane * len);
                (Keys::Fresh(first), Keys::Fresh(others))
            }
            Keys::Known(keys) => {
                let (first, others) = keys.split_at(lane);
                (Keys::Known(first), Keys::Known(others))
            }
        }
    }

    pub(super) fn reborrow(&self) -> Keys<'_, T> {
        match self {
            Keys::Fresh(bytes) => Keys::Fresh(bytes),
            Keys::Known(keys) => Keys::Known(keys),
        }
    }
}

/// Builds an operation twice, from the halves of each of its arrays. An array of `each` has one element
/// a lane, one of `bytes` as many bytes a lane as the parameter set's function behind it says, one of `maybe`
/// the same if there is one; `_mut` marks outputs, and `keys` is [`Keys`].
macro_rules! halves {
    ($lane:ident, $family:ident::$variant:ident { $params:ident;
        $($kind:tt $field:ident $([$len:ident])?),* }) => {{
        $(let $field = halves!(@ $kind $field, $lane $(, $params.$len())?);)*
        (
            $family::$variant { params: $params, $($field: $field.0),* },
            $family::$variant { params: $params, $($field: $field.1),* },
        )
    }};
    (@ each $field:ident, $lane:ident) => { $field.split_at($lane) };
    (@ each_mut $field:ident, $lane:ident) => { $field.split_at_mut($lane) };
    (@ bytes $field:ident, $lane:ident, $len:expr) => { $field.split_at($lane * $len) };
    (@ bytes_mut $field:ident, $lane:ident, $len:expr) => { $field.split_at_mut($lane * $len) };
    (@ maybe $field:ident, $lane:ident, $len:expr) => {
        $field.map(|bytes| bytes.split_at($lane * $len)).unzip()
    };
    (@ keys $field:ident, $lane:ident, $len:expr) => { $field.split_at($lane, $len) };
}
pub(super) use halves;
