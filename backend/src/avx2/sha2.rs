//! What SHA-256 and SHA-512 in lanes of AVX2 share: the order of rounds and words.

/// The exclusive or of three.
macro_rules! xor {
    ($a:expr, $b:expr, $c:expr) => {
        _mm256_xor_si256(_mm256_xor_si256($a, $b), $c)
    };
}
pub(super) use xor;

/// In place of the schedule in the last rounds.
macro_rules! nothing {
    ($w:ident, $i:expr) => {};
}
pub(super) use nothing;

/// Eight rounds, each followed by the word of the schedule that takes the place of the one it used,
/// for sixteen rounds later.
macro_rules! eight_rounds {
    ($round:ident, $next:ident($($more:ident),*), $w:ident, $k:ident, $i:literal, $differ:ident;
     $a:ident $b:ident $c:ident $d:ident $e:ident $f:ident $g:ident $h:ident) => {
        $round!($w[$i], $k[$i], $differ; $a $b $c $d $e $f $g $h);
        $next!($w, $i $(, $more)*);
        $round!($w[$i + 1], $k[$i + 1], $differ; $h $a $b $c $d $e $f $g);
        $next!($w, $i + 1 $(, $more)*);
        $round!($w[$i + 2], $k[$i + 2], $differ; $g $h $a $b $c $d $e $f);
        $next!($w, $i + 2 $(, $more)*);
        $round!($w[$i + 3], $k[$i + 3], $differ; $f $g $h $a $b $c $d $e);
        $next!($w, $i + 3 $(, $more)*);
        $round!($w[$i + 4], $k[$i + 4], $differ; $e $f $g $h $a $b $c $d);
        $next!($w, $i + 4 $(, $more)*);
        $round!($w[$i + 5], $k[$i + 5], $differ; $d $e $f $g $h $a $b $c);
        $next!($w, $i + 5 $(, $more)*);
        $round!($w[$i + 6], $k[$i + 6], $differ; $c $d $e $f $g $h $a $b);
        $next!($w, $i + 6 $(, $more)*);
        $round!($w[$i + 7], $k[$i + 7], $differ; $b $c $d $e $f $g $h $a);
        $next!($w, $i + 7 $(, $more)*);
    };
}
pub(super) use eight_rounds;
