//! The parameter sets of XMSS and XMSS^MT (RFC 8391, section 5; SP 800-208, section 5), by the numbers
//! that stand in keys and by their names.

use crate::kernels::xmss::XmssFamily;

/// Most layers of trees.
pub const LAYERS_MAX: u32 = 12;

/// One tree, or layers of them. Both number their sets from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// XMSS.
    Xmss,
    /// XMSS^MT.
    XmssMt,
}

impl Scheme {
    /// All its sets, by their numbers.
    pub fn sets(self) -> &'static [Set] {
        match self {
            Scheme::Xmss => &XMSS,
            Scheme::XmssMt => &XMSSMT,
        }
    }

    /// Returns the name of its row.
    pub const fn name(self) -> &'static str {
        match self {
            Scheme::Xmss => "XMSS",
            Scheme::XmssMt => "XMSSMT",
        }
    }

    /// Most bytes of a signature, whatever its key: of the set with the highest and the most trees, and 64 bytes of hash.
    pub const fn signature_len_max(self) -> usize {
        match self {
            Scheme::Xmss => set((self, 6, ""), (Sha512, 512), 20, 1).signature_len(),
            Scheme::XmssMt => set((self, 16, ""), (Sha512, 512), 60, 12).signature_len(),
        }
    }
}

/// A parameter set.
#[derive(Debug, PartialEq, Eq)]
pub struct Set {
    /// The standard's name.
    pub name: &'static str,
    /// One tree, or layers of them.
    pub scheme: Scheme,
    /// The number of the registry "XMSS Signatures" or "XMSS^MT Signatures".
    pub number: u32,
    /// The hash function.
    pub family: XmssFamily,
    /// Bytes of a hash value.
    pub n: usize,
    /// Height of all layers together.
    pub h: u32,
    /// Layers.
    pub d: u32,
}

use XmssFamily::{Sha256, Sha512, Shake128, Shake256};

const fn set(
    (scheme, number, name): (Scheme, u32, &'static str),
    (family, bits): (XmssFamily, usize),
    h: u32,
    d: u32,
) -> Set {
    Set { name, scheme, number, family, n: bits / 8, h, d }
}

/// The sets of XMSS with these hash functions: the first number, the name's part, n in bits.
macro_rules! xmss {
    ($($first:literal $hash:literal $bits:literal $family:ident;)*) => {
        [$(
            set((Scheme::Xmss, $first, concat!("XMSS-", $hash, "_10_", $bits)), ($family, $bits), 10, 1),
            set((Scheme::Xmss, $first + 1, concat!("XMSS-", $hash, "_16_", $bits)), ($family, $bits), 16, 1),
            set((Scheme::Xmss, $first + 2, concat!("XMSS-", $hash, "_20_", $bits)), ($family, $bits), 20, 1),
        )*]
    };
}

/// One of XMSS^MT.
macro_rules! mt {
    ($number:expr, $hash:literal, $h:literal / $d:literal, $bits:literal, $family:ident) => {
        set(
            (Scheme::XmssMt, $number, concat!("XMSSMT-", $hash, "_", $h, "/", $d, "_", $bits)),
            ($family, $bits),
            $h,
            $d,
        )
    };
}

/// Those of XMSS^MT.
macro_rules! xmssmt {
    ($($first:literal $hash:literal $bits:literal $family:ident;)*) => {
        [$(
            mt!($first, $hash, 20 / 2, $bits, $family),
            mt!($first + 1, $hash, 20 / 4, $bits, $family),
            mt!($first + 2, $hash, 40 / 2, $bits, $family),
            mt!($first + 3, $hash, 40 / 4, $bits, $family),
            mt!($first + 4, $hash, 40 / 8, $bits, $family),
            mt!($first + 5, $hash, 60 / 3, $bits, $family),
            mt!($first + 6, $hash, 60 / 6, $bits, $family),
            mt!($first + 7, $hash, 60 / 12, $bits, $family),
        )*]
    };
}

/// All sets of XMSS. RFC 8391's SHAKE is SHAKE128 if n is 32, and SHAKE256 if n is 64.
pub static XMSS: [Set; 21] = xmss! {
    1 "SHA2" 256 Sha256;
    4 "SHA2" 512 Sha512;
    7 "SHAKE" 256 Shake128;
    10 "SHAKE" 512 Shake256;
    13 "SHA2" 192 Sha256;
    16 "SHAKE256" 256 Shake256;
    19 "SHAKE256" 192 Shake256;
};

/// All sets of XMSS^MT.
pub static XMSSMT: [Set; 56] = xmssmt! {
    0x01 "SHA2" 256 Sha256;
    0x09 "SHA2" 512 Sha512;
    0x11 "SHAKE" 256 Shake128;
    0x19 "SHAKE" 512 Shake256;
    0x21 "SHA2" 192 Sha256;
    0x29 "SHAKE256" 256 Shake256;
    0x31 "SHAKE256" 192 Shake256;
};

impl Set {
    /// The set of a scheme with this number.
    pub fn from_number(scheme: Scheme, number: u32) -> Option<&'static Set> {
        scheme.sets().iter().find(|set| set.number == number)
    }

    /// The set with this name, in letters of either case; `XMSS^MT-` for `XMSSMT-`. wolfSSL's names are the
    /// standards'.
    pub fn from_name(name: &str) -> Option<&'static Set> {
        let is_name = |set: &&Set| match name.get(..8) {
            Some(head) if head.eq_ignore_ascii_case("XMSS^MT-") => {
                let rest = set.name.strip_prefix("XMSSMT-");
                rest.is_some_and(|rest| rest.eq_ignore_ascii_case(&name[8..]))
            }
            _ => set.name.eq_ignore_ascii_case(name),
        };
        XMSS.iter().chain(&XMSSMT).find(is_name)
    }

    /// Returns whether it is one of SP 800-208, of which there are keys that sign; the others
    /// verify only.
    pub const fn can_sign(&self) -> bool {
        match self.family {
            Sha256 => true,
            Shake256 => self.n <= 32,
            Sha512 | Shake128 => false,
        }
    }

    /// Height of one tree.
    pub const fn tree_height(&self) -> u32 {
        self.h / self.d
    }

    /// Chains of a one-time signature: len (RFC 8391, section 3.1.1), where w is 16.
    pub const fn chains(&self) -> usize {
        2 * self.n + 3
    }

    /// Bytes of an index: four, and as many as are needed in XMSS^MT (section 4.2.3).
    pub const fn index_len(&self) -> usize {
        match self.scheme {
            Scheme::Xmss => 4,
            Scheme::XmssMt => self.h.div_ceil(8) as usize,
        }
    }

    /// Bytes of a public key: a number, root and SEED.
    pub const fn public_key_len(&self) -> usize {
        4 + 2 * self.n
    }

    /// Bytes of a layer's part of a signature: values and path.
    pub const fn layer_len(&self) -> usize {
        (self.chains() + self.tree_height() as usize) * self.n
    }

    /// Bytes of a signature.
    pub const fn signature_len(&self) -> usize {
        self.index_len() + self.n + self.d as usize * self.layer_len()
    }

    /// Returns how many signatures a key makes.
    pub const fn signatures(&self) -> u64 {
        1 << self.h
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers and names of RFC 8391, sections 8 and 5.3 and 5.4, and of SP 800-208, section 5.
    #[test]
    fn sets_are_those_of_the_standards() {
        for scheme in [Scheme::Xmss, Scheme::XmssMt] {
            for (i, set) in scheme.sets().iter().enumerate() {
                assert_eq!(set.number as usize, i + 1, "{}", set.name);
                assert!(set.scheme == scheme && set.family.has(set.n));
                assert!(set.h % set.d == 0 && set.d <= LAYERS_MAX);
                assert_eq!(Set::from_number(scheme, set.number), Some(set));
                let name = set.name.replace("XMSSMT", "xmss^mt");
                assert_eq!(Set::from_name(&name), Some(set));
                let hash = match (set.family, set.n) {
                    (Sha256 | Sha512, _) => "SHA2",
                    (Shake128, _) | (Shake256, 64) => "SHAKE",
                    (Shake256, _) => "SHAKE256",
                };
                let height = match scheme {
                    Scheme::Xmss => format!("XMSS-{hash}_{}", set.h),
                    Scheme::XmssMt => format!("XMSSMT-{hash}_{}/{}", set.h, set.d),
                };
                assert_eq!(set.name, format!("{height}_{}", 8 * set.n));
            }
        }
        for (number, name) in [
            (1, "XMSS-SHA2_10_256"),
            (6, "XMSS-SHA2_20_512"),
            (9, "XMSS-SHAKE_20_256"),
            (10, "XMSS-SHAKE_10_512"),
            (13, "XMSS-SHA2_10_192"),
            (16, "XMSS-SHAKE256_10_256"),
            (21, "XMSS-SHAKE256_20_192"),
            (1, "XMSSMT-SHA2_20/2_256"),
            (0x10, "XMSSMT-SHA2_60/12_512"),
            (0x15, "XMSSMT-SHAKE_40/8_256"),
            (0x1e, "XMSSMT-SHAKE_60/3_512"),
            (0x24, "XMSSMT-SHA2_40/4_192"),
            (0x29, "XMSSMT-SHAKE256_20/2_256"),
            (0x38, "XMSSMT-SHAKE256_60/12_192"),
        ] {
            assert_eq!(Set::from_name(name).map(|set| set.number), Some(number), "{name}");
        }
        assert_eq!(Set::from_number(Scheme::Xmss, 0), None);
        assert_eq!(Set::from_number(Scheme::Xmss, 22), None);
        assert_eq!(Set::from_number(Scheme::XmssMt, 57), None);
        assert_eq!(["", "XMSS", "XMSS-SHA2_10_255"].map(Set::from_name), [None; 3]);
    }

    /// RFC 8391, sections 5.3 and 5.4; the last two from SP 800-208, section 5.
    #[test]
    fn sizes_are_those_of_the_standards() {
        for (name, public, signature) in [
            ("XMSS-SHA2_10_256", 68, 2500),
            ("XMSS-SHA2_16_256", 68, 2692),
            ("XMSS-SHA2_20_256", 68, 2820),
            ("XMSS-SHA2_10_512", 132, 9092),
            ("XMSS-SHA2_20_512", 132, 9732),
            ("XMSSMT-SHA2_20/2_256", 68, 4963),
            ("XMSSMT-SHA2_20/4_256", 68, 9251),
            ("XMSSMT-SHAKE_40/4_256", 68, 9893),
            ("XMSSMT-SHAKE_40/8_256", 68, 18469),
            ("XMSSMT-SHA2_60/12_512", 132, 104_520),
            ("XMSSMT-SHAKE256_60/6_256", 68, 14824),
            ("XMSS-SHA2_10_192", 52, 1492),
            ("XMSS-SHAKE256_16_192", 52, 1636),
        ] {
            let sizes = Set::from_name(name).map(|set| (set.public_key_len(), set.signature_len()));
            assert_eq!(sizes, Some((public, signature)), "{name}");
        }
        for scheme in [Scheme::Xmss, Scheme::XmssMt] {
            let most = scheme.sets().iter().map(Set::signature_len).max();
            assert_eq!(most, Some(scheme.signature_len_max()));
        }
    }
}
