//! The sets of a key, and their names.
//!
//! ```text
//!   LMS_SHA256_M32_H10:LMOTS_SHA256_N32_W4,LMS_..:LMOTS_..    a pair for each level, the top one first
//!   LMS_SHA256_M32_H10_W4                                     the same of one level; without _W4, w is 2
//!   WC_LMS_PARM_L2_H10_W4, WC_LMS_PARM_SHA256_192_L1_H5_W8    wolfSSL's
//! ```

use std::fmt;
use std::str::FromStr;

use gabion_engine::Algorithm;
use gabion_engine::keys::stateful::hss::Levels;
use gabion_engine::lms::{LM_OTS, LMS, LmOts, Lms, LmsFamily};

/// What a file calls HSS.
pub(crate) const KIND_HSS: u8 = 1;
/// The width that a tree gets where nobody names one, as wolfSSL's.
const W: u32 = 2;

/// The sets of a private key, by kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sets {
    /// Those of each level of HSS.
    Hss(Levels),
}

/// How signatures and raw public keys of HSS are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// As HSS (RFC 8554, section 6), also where there is one level.
    #[default]
    Hss,
    /// As LMS: one level, and no word in front that says so.
    Lms,
}

impl Sets {
    /// The algorithm.
    pub fn algorithm(&self) -> Algorithm {
        match self {
            Sets::Hss(_) => Algorithm::Hss,
        }
    }

    /// How many signatures such a key makes.
    pub fn signatures(&self) -> u64 {
        match self {
            Sets::Hss(levels) => levels.signatures(),
        }
    }

    /// Whether there is one tree.
    pub fn is_one_tree(&self) -> bool {
        match self {
            Sets::Hss(levels) => levels.sets().len() == 1,
        }
    }

    /// Bytes of a signature in an encoding.
    pub fn signature_len(&self, encoding: Encoding) -> usize {
        match self {
            Sets::Hss(levels) => levels.signature_len() - encoding.left_out(),
        }
    }

    /// Numbers of the sets, level by level.
    pub(crate) fn encode(&self) -> Vec<u8> {
        match self {
            Sets::Hss(levels) => {
                let codes = levels.sets().iter().map(|(lms, ots)| [lms.typecode, ots.typecode]);
                codes.flatten().flat_map(u32::to_be_bytes).collect()
            }
        }
    }

    /// What [`Sets::encode`] gave for a kind.
    pub(crate) fn decode(kind: u8, bytes: &[u8]) -> Option<Self> {
        if kind != KIND_HSS {
            return None;
        }
        let (codes, rest) = bytes.as_chunks::<4>();
        let codes: Vec<u32> = codes.iter().map(|code| u32::from_be_bytes(*code)).collect();
        let (pairs, odd) = codes.as_chunks::<2>();
        let sets =
            pairs.iter().map(|[lms, ots]| Lms::of_typecode(*lms).zip(LmOts::of_typecode(*ots)));
        let sets: Vec<_> = sets.collect::<Option<_>>()?;
        let is_whole = rest.is_empty() && odd.is_empty();
        is_whole.then(|| Levels::new(&sets).ok().map(Sets::Hss)).flatten()
    }
}

impl Encoding {
    /// Bytes at the front of a signature or public key of HSS that this encoding leaves out.
    pub fn left_out(self) -> usize {
        match self {
            Encoding::Hss => 0,
            Encoding::Lms => 4,
        }
    }
}

impl fmt::Display for Sets {
    /// As the standard names sets; `LMS:LMOTS` for each level.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Sets::Hss(levels) => {
                let names =
                    levels.sets().iter().map(|(lms, ots)| format!("{}:{}", lms.name, ots.name));
                f.write_str(&names.collect::<Vec<_>>().join(","))
            }
        }
    }
}

impl FromStr for Sets {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let upper = text.trim().to_ascii_uppercase();
        let sets = match upper.strip_prefix("WC_LMS_PARM_") {
            Some(name) => of_wolfssl(name),
            None => upper.split(',').map(|level| pair(level.trim())).collect(),
        };
        let sets = sets.ok_or_else(|| {
            format!(
                "unknown set `{text}`; expected a set that `gabion hbs params` lists, such as \
                 LMS_SHA256_M32_H15_W2, pairs such as LMS_SHA256_M32_H10:LMOTS_SHA256_N32_W4 with `,` between \
                 levels, or a name of wolfSSL's, such as WC_LMS_PARM_L2_H10_W8"
            )
        })?;
        Levels::new(&sets).map(Sets::Hss).map_err(|error| format!("`{text}`: {error}"))
    }
}

type Pair = (&'static Lms, &'static LmOts);

/// One level: `LMS:LMOTS`, `LMS_Ww` or `LMS`.
fn pair(text: &str) -> Option<Pair> {
    let tree = |name: &str| LMS.iter().find(|lms| lms.name == name);
    if let Some((lms, ots)) = text.split_once(':') {
        return tree(lms).zip(LM_OTS.iter().find(|known| known.name == ots));
    }
    let (name, w) = match text.rsplit_once("_W") {
        Some((name, w)) => (name, w.parse().ok()?),
        None => (text, W),
    };
    let lms = tree(name)?;
    Some((lms, one_time((lms.family, lms.n), w)?))
}

fn one_time(hash: (LmsFamily, usize), w: u32) -> Option<&'static LmOts> {
    LM_OTS.iter().find(|ots| (ots.family, ots.n) == hash && ots.w == w)
}

/// `L2_H10_W8`, `SHA256_192_L1_H5_W1`, `SHAKE_..`, `SHAKE192_..`: all levels are alike.
fn of_wolfssl(name: &str) -> Option<Vec<Pair>> {
    let hashes = [
        ("SHA256_192_", (LmsFamily::Sha256, 24)),
        ("SHAKE192_", (LmsFamily::Shake256, 24)),
        ("SHAKE_", (LmsFamily::Shake256, 32)),
        ("", (LmsFamily::Sha256, 32)),
    ];
    let (rest, hash) =
        hashes.iter().find_map(|(prefix, hash)| Some((name.strip_prefix(prefix)?, *hash)))?;
    let [levels, h, w] = rest.split('_').collect::<Vec<_>>().try_into().ok()?;
    let number = |text: &str, letter| text.strip_prefix(letter)?.parse::<u32>().ok();
    let (levels, h, w) = (number(levels, 'L')?, number(h, 'H')?, number(w, 'W')?);
    let lms = LMS.iter().find(|lms| (lms.family, lms.n) == hash && lms.h == h)?;
    (levels <= 8).then_some(vec![(lms, one_time(hash, w)?); levels as usize])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(text: &str) -> String {
        text.parse::<Sets>().unwrap().to_string()
    }

    #[test]
    fn names_of_standards_and_of_wolfssl_are_read() {
        let one = "LMS_SHA256_M32_H10:LMOTS_SHA256_N32_W4";
        for text in [one, "LMS_SHA256_M32_H10_W4", "wc_lms_parm_l1_h10_w4"] {
            assert_eq!(named(text), one);
        }
        assert_eq!(named("LMS_SHA256_M32_H15"), "LMS_SHA256_M32_H15:LMOTS_SHA256_N32_W2");
        let two = [one, one].join(",");
        assert_eq!(named(&two), two);
        assert_eq!(named("WC_LMS_PARM_L2_H10_W4"), two);
        let others = [
            ("WC_LMS_PARM_SHA256_192_L1_H5_W8", "LMS_SHA256_M24_H5:LMOTS_SHA256_N24_W8"),
            ("WC_LMS_PARM_SHAKE_L1_H5_W1", "LMS_SHAKE_M32_H5:LMOTS_SHAKE_N32_W1"),
            ("WC_LMS_PARM_SHAKE192_L1_H20_W2", "LMS_SHAKE_M24_H20:LMOTS_SHAKE_N24_W2"),
        ];
        for (wolfssl, pair) in others {
            assert_eq!(named(wolfssl), pair);
        }
    }

    #[test]
    fn every_set_comes_back_from_its_name_and_its_numbers() {
        for lms in &LMS {
            for ots in LM_OTS.iter().filter(|ots| (ots.family, ots.n) == (lms.family, lms.n)) {
                let sets = Sets::Hss(Levels::new(&[(lms, ots)]).unwrap());
                assert_eq!(sets.to_string().parse(), Ok(sets.clone()));
                assert_eq!(format!("{}_W{}", lms.name, ots.w).parse(), Ok(sets.clone()));
                assert_eq!(Sets::decode(KIND_HSS, &sets.encode()), Some(sets));
            }
        }
    }

    #[test]
    fn what_is_no_set_is_refused_with_what_was_expected() {
        for text in
            ["", "LMS", "LMS_SHA256_M32_H5:", "LMS_SHA256_M32_H5_W3", "HSS", "WC_LMS_PARM_L1"]
        {
            let refused = text.parse::<Sets>().unwrap_err();
            assert!(refused.contains("gabion hbs params"), "{text}: {refused}");
        }
        let mixed = "LMS_SHA256_M32_H5:LMOTS_SHA256_N32_W4,LMS_SHAKE_M32_H5:LMOTS_SHAKE_N32_W4";
        assert!(mixed.parse::<Sets>().unwrap_err().contains("several hash functions"));
        let nine = ["LMS_SHA256_M32_H5_W8"; 9].join(",");
        assert!(nine.parse::<Sets>().unwrap_err().contains("1 to 8"));
        assert!("WC_LMS_PARM_L9_H5_W8".parse::<Sets>().is_err());
    }
}
