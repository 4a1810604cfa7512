//! Where the arrays of a batch lie in a slot's memory.

/// Addresses of arrays are multiples of this.
const ALIGNMENT: usize = 256;

/// The most items that fit, of `most`: if some do, so do fewer.
pub(crate) fn largest_fit(most: usize, fits: impl Fn(usize) -> bool) -> usize {
    let (mut some, mut many) = (0, most + 1);
    while many - some > 1 {
        let half = some + (many - some) / 2;
        if fits(half) { some = half } else { many = half }
    }
    some
}

/// Items at the end of an array that may be the canary's.
const TAIL: usize = 2;

/// Lays out regions in a slot, one after the other.
#[derive(Default)]
pub(crate) struct Layout {
    end: usize,
    secret: usize,
    tails: Vec<Region>,
}

/// A region of a slot: its offset and length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Region {
    pub(crate) offset: usize,
    pub(crate) bytes: usize,
}

impl Layout {
    /// The next place, for `n` items of `each` bytes.
    pub(crate) fn array(&mut self, n: usize, each: usize) -> Region {
        let place = Region { offset: self.end, bytes: n * each };
        let tail = n.min(TAIL) * each;
        if tail > 0 {
            self.tails.push(Region { offset: place.offset + place.bytes - tail, bytes: tail });
        }
        self.end = (self.end + place.bytes).next_multiple_of(ALIGNMENT);
        place
    }

    /// Marks the end of the arrays with secrets.
    pub(crate) fn secrets_end(&mut self) {
        self.secret = self.end;
    }

    /// Bytes from the front that may hold secrets.
    pub(crate) fn secret(&self) -> usize {
        self.secret
    }

    /// Returns the ends of the arrays without secrets. They are cleared before a batch: an earlier
    /// batch's output for an equal canary would otherwise pass for this one's if a kernel did not
    /// run.
    pub(crate) fn tails(&self) -> Vec<Region> {
        self.tails.iter().copied().filter(|tail| tail.offset >= self.secret).collect()
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
    fn the_most_that_fit_are_found() {
        for most in [0, 1, 2, 99, 100, 101, 5000] {
            assert_eq!(largest_fit(most, |n| 100 + 7 * n <= 800), most.min(100));
            assert_eq!(largest_fit(most, |_| false), 0);
        }
    }

    #[test]
    fn places_do_not_overlap_and_are_aligned() {
        let mut layout = Layout::default();
        let places = [layout.array(3, 1184), layout.array(0, 5), layout.array(1, 1)];
        assert_eq!(places[0], Region { offset: 0, bytes: 3552 });
        assert_eq!(places[1], Region { offset: 3584, bytes: 0 });
        assert_eq!(places[2], Region { offset: 3584, bytes: 1 });
        assert_eq!((layout.bytes(), layout.secret()), (3840, 0));
        layout.secrets_end();
        layout.array(1, 7);
        assert_eq!((layout.bytes(), layout.secret()), (4096, 3840));
        layout.array(5, 100);
        let tails = [Region { offset: 3840, bytes: 7 }, Region { offset: 4096 + 300, bytes: 200 }];
        assert_eq!(layout.tails(), tails);
    }
}
