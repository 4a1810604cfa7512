//! Where the arrays of a batch lie in a slot's memory.

/// Addresses of arrays are multiples of this.
const ALIGNMENT: usize = 256;

/// Gives out places in a slot, one after the other.
#[derive(Default)]
pub(crate) struct Layout {
    end: usize,
    secret: usize,
}

/// A place in a slot: so many bytes from there on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) offset: usize,
    pub(crate) bytes: usize,
}

impl Layout {
    /// The next place, for `n` items of `each` bytes.
    pub(crate) fn array(&mut self, n: usize, each: usize) -> Place {
        let place = Place { offset: self.end, bytes: n * each };
        self.end = (self.end + place.bytes).next_multiple_of(ALIGNMENT);
        place
    }

    /// Says that secrets are in the arrays up to here, and in none after them.
    pub(crate) fn secrets_end(&mut self) {
        self.secret = self.end;
    }

    /// Bytes from the front that may hold secrets.
    pub(crate) fn secret(&self) -> usize {
        self.secret
    }

    /// Bytes of all of it.
    pub(crate) fn bytes(&self) -> usize {
        self.end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_do_not_overlap_and_are_aligned() {
        let mut layout = Layout::default();
        let places = [layout.array(3, 1184), layout.array(0, 5), layout.array(1, 1)];
        assert_eq!(places[0], Place { offset: 0, bytes: 3552 });
        assert_eq!(places[1], Place { offset: 3584, bytes: 0 });
        assert_eq!(places[2], Place { offset: 3584, bytes: 1 });
        assert_eq!((layout.bytes(), layout.secret()), (3840, 0));
        layout.secrets_end();
        layout.array(1, 7);
        assert_eq!((layout.bytes(), layout.secret()), (4096, 3840));
    }
}
