//! The parameter sets of a key, and their names.
//!
//! ```text
//!   LMS_SHA256_M32_H10:LMOTS_SHA256_N32_W4,LMS_..:LMOTS_..    a pair for each level, the top one first
//!   LMS_SHA256_M32_H10_W4                                     the same of one level; without _W4, w is 2
//!   WC_LMS_PARM_L2_H10_W4, WC_LMS_PARM_SHA256_192_L1_H5_W8    wolfSSL's
//!   XMSS-SHA2_10_256, XMSSMT-SHA2_20/2_256                    a set of XMSS or XMSS^MT; wolfSSL's names are these
//! ```

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use gabion_engine::Algorithm;
use gabion_engine::keys::stateful::hss::Levels;
use gabion_engine::lms::{LM_OTS, LMS, LmOts, Lms, LmsFamily};
use gabion_engine::xmss::{Scheme, Set};

use crate::record::Reader;

/// The code of HSS in key files.
const KIND_HSS: u8 = 1;
/// The codes of XMSS and XMSS^MT, whose set numbers overlap.
const KINDS_XMSS: [(u8, Scheme); 2] = [(2, Scheme::Xmss), (3, Scheme::XmssMt)];
/// The code of one sector of an LMS key.
const KIND_SECTOR: u8 = 4;
/// The default Winternitz width, as in wolfSSL.
const W: u32 = 2;

/// The sets of a private key, by kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sets {
    /// The sets of each HSS level.
    Hss(Levels),
    /// A set of XMSS or XMSS^MT that can generate keys ([`Set::can_sign`]).
    Xmss(&'static Set),
}

/// The encoding of signatures and raw public keys of HSS. XMSS has only the first one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// HSS (RFC 8554, section 6), also for a single level.
    #[default]
    Hss,
    /// LMS: a single level, without the level count.
    Lms,
}

impl Sets {
    /// Returns the algorithm.
    pub fn algorithm(&self) -> Algorithm {
        match self {
            Sets::Hss(_) => Algorithm::Hss,
            Sets::Xmss(set) => set.scheme.into(),
        }
    }

    /// Returns the number of signatures of a key with these sets.
    pub fn signatures(&self) -> u64 {
        match self {
            Sets::Hss(levels) => levels.signatures(),
            Sets::Xmss(set) => set.signatures(),
        }
    }

    /// Returns the indexes of a key with these sets; for a sector, its share.
    pub fn indexes(&self) -> Range<u64> {
        match self {
            Sets::Hss(levels) => levels.indexes(),
            Sets::Xmss(set) => 0..set.signatures(),
        }
    }

    /// Returns whether the key has only one tree.
    pub fn is_one_tree(&self) -> bool {
        match self {
            Sets::Hss(levels) => levels.sets().len() == 1,
            Sets::Xmss(set) => set.d == 1,
        }
    }

    /// Returns whether its signatures support an encoding.
    pub fn has(&self, encoding: Encoding) -> bool {
        match (self, encoding) {
            (Sets::Hss(_) | Sets::Xmss(_), Encoding::Hss) => true,
            (Sets::Hss(_), Encoding::Lms) => self.is_one_tree(),
            (Sets::Xmss(_), Encoding::Lms) => false,
        }
    }

    /// Returns the length of a signature in an encoding.
    pub fn signature_len(&self, encoding: Encoding) -> usize {
        match self {
            Sets::Hss(levels) => levels.signature_len() - encoding.omitted_len(),
            Sets::Xmss(set) => set.signature_len(),
        }
    }

    /// Returns the code of the sets in key files.
    pub(crate) fn kind(&self) -> u8 {
        match self {
            Sets::Hss(levels) if levels.sectors().0 > 1 => KIND_SECTOR,
            Sets::Hss(_) => KIND_HSS,
            Sets::Xmss(set) => {
                let kind = KINDS_XMSS.iter().find(|(_, scheme)| *scheme == set.scheme);
                kind.map_or(0, |(kind, _)| *kind)
            }
        }
    }

    /// Returns whether a key with these sets can sign. A sector cannot until its authentication
    /// path to the root is known.
    pub(crate) fn is_whole(&self) -> bool {
        match self {
            Sets::Hss(levels) => levels.sectors().0 == 1 || !levels.way().is_empty(),
            Sets::Xmss(_) => true,
        }
    }

    /// Encodes the numbers of the sets, level by level.
    pub(crate) fn encode(&self) -> Vec<u8> {
        match self {
            Sets::Hss(levels) => {
                let codes = levels.sets().iter().map(|(lms, ots)| [lms.typecode, ots.typecode]);
                let mut bytes: Vec<u8> = codes.flatten().flat_map(u32::to_be_bytes).collect();
                let (count, number) = levels.sectors();
                if count > 1 {
                    // The count comes first, since the path has no fixed length.
                    bytes.splice(..0, [count, number].map(u32::to_be_bytes).concat());
                    bytes.extend_from_slice(levels.way());
                }
                bytes
            }
            Sets::Xmss(set) => set.number.to_be_bytes().to_vec(),
        }
    }

    /// Decodes the result of [`Sets::encode`] for a code.
    pub(crate) fn decode(kind: u8, bytes: &[u8]) -> Option<Self> {
        if let Some((_, scheme)) = KINDS_XMSS.iter().find(|(known, _)| *known == kind) {
            let number = u32::from_be_bytes(bytes.try_into().ok()?);
            let set = Set::from_number(*scheme, number).filter(|set| set.can_sign());
            return set.map(Sets::Xmss);
        }
        if kind == KIND_SECTOR {
            let (head, rest) = bytes.split_at_checked(16)?;
            let (numbers, codes) = head.split_at(8);
            let Sets::Hss(levels) = Sets::decode(KIND_HSS, codes)? else { return None };
            let mut reader = Reader(numbers);
            let [count, number] = [reader.array()?, reader.array()?].map(u32::from_be_bytes);
            return levels.sector(count, number, rest).ok().map(Sets::Hss);
        }
        if kind != KIND_HSS {
            return None;
        }
        let (codes, rest) = bytes.as_chunks::<4>();
        let codes: Vec<u32> = codes.iter().map(|code| u32::from_be_bytes(*code)).collect();
        let (pairs, odd) = codes.as_chunks::<2>();
        let sets =
            pairs.iter().map(|[lms, ots]| Lms::from_typecode(*lms).zip(LmOts::from_typecode(*ots)));
        let sets: Vec<_> = sets.collect::<Option<_>>()?;
        let is_whole = rest.is_empty() && odd.is_empty();
        is_whole.then(|| Levels::new(&sets).ok().map(Sets::Hss)).flatten()
    }
}

impl Encoding {
    /// Returns how many leading bytes of an HSS signature or public key this encoding omits.
    pub fn omitted_len(self) -> usize {
        match self {
            Encoding::Hss => 0,
            Encoding::Lms => 4,
        }
    }
}

impl fmt::Display for Sets {
    /// Formats the sets by their standard names, with `LMS:LMOTS` for each level.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Sets::Hss(levels) => {
                let names =
                    levels.sets().iter().map(|(lms, ots)| format!("{}:{}", lms.name, ots.name));
                f.write_str(&names.collect::<Vec<_>>().join(","))?;
                match levels.sectors() {
                    (1, _) => Ok(()),
                    (count, number) => write!(f, ", sector {number} of {count}"),
                }
            }
            Sets::Xmss(set) => f.write_str(set.name),
        }
    }
}

impl FromStr for Sets {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let upper = text.trim().to_ascii_uppercase();
        if let Some(set) = Set::from_name(&upper) {
            return match set.can_sign() {
                true => Ok(Sets::Xmss(set)),
                false => Err(format!(
                    "`{text}` only verifies, because it is not in SP 800-208; expected one with SHA2 or SHAKE256, and 192 or 256"
                )),
            };
        }
        let sets = match upper.strip_prefix("WC_LMS_PARM_") {
            Some(name) => of_wolfssl(name),
            None => upper.split(',').map(|level| pair(level.trim())).collect(),
        };
        let sets = sets.ok_or_else(|| {
            format!(
                "unknown set `{text}`; expected a set that `gabion hbs params` lists, such as \
                 LMS_SHA256_M32_H15_W2 or XMSS-SHA2_16_192, pairs such as LMS_SHA256_M32_H10:LMOTS_SHA256_N32_W4 with `,` between \
                 levels, or a name of wolfSSL's, such as WC_LMS_PARM_L2_H10_W8"
            )
        })?;
        Levels::new(&sets).map(Sets::Hss).map_err(|error| format!("`{text}`: {error}"))
    }
}

type Pair = (&'static Lms, &'static LmOts);

/// Parses one level: `LMS:LMOTS`, `LMS_Ww` or `LMS`.
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

/// Parses a wolfSSL name: `L2_H10_W8`, `SHA256_192_L1_H5_W1`, `SHAKE_..`, `SHAKE192_..`. All levels
/// have the same sets.
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
    let ots = one_time(hash, w)?;
    // The count is checked before memory is allocated for it.
    (levels <= 8).then(|| vec![(lms, ots); levels as usize])
}

#[cfg(test)]
mod tests {
    use super::*;
    use gabion_engine::xmss::{XMSS, XMSSMT};

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
                assert_eq!(Sets::decode(sets.kind(), &sets.encode()), Some(sets));
            }
        }
    }

    #[test]
    fn sectors_come_back_from_their_numbers_with_the_way_up() {
        let sets = Levels::new(&[(&LMS[1], &LM_OTS[2])]).unwrap();
        // A sector that is being generated has no authentication path.
        let begun = Sets::Hss(sets.clone().sector(4, 3, &[]).unwrap());
        assert_eq!(Sets::decode(begun.kind(), &begun.encode()), Some(begun.clone()));
        let sector = Sets::Hss(sets.clone().sector(4, 3, &[5; 64]).unwrap());
        assert!(!begun.is_whole() && sector.is_whole() && Sets::Hss(sets.clone()).is_whole());
        assert_eq!(Sets::decode(sector.kind(), &sector.encode()), Some(sector.clone()));
        assert_eq!((sector.indexes(), sector.is_one_tree()), (768..1024, true));
        assert!(sector.to_string().ends_with("sector 3 of 4"));
        let bytes = sector.encode();
        for len in (0..bytes.len()).filter(|len| *len != begun.encode().len()) {
            assert_eq!(Sets::decode(KIND_SECTOR, &bytes[..len]), None, "{len}");
        }
        assert_eq!(Sets::decode(KIND_HSS, &bytes), None);
    }

    #[test]
    fn sets_of_xmss_that_sign_come_back_and_the_others_are_refused() {
        let all: Vec<&Set> = XMSS.iter().chain(&XMSSMT).collect();
        let (signing, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|set| set.can_sign());
        assert_eq!((signing.len(), others.len()), (4 * 11, 3 * 11));
        for set in signing {
            let sets = Sets::Xmss(set);
            assert_eq!(set.name.to_lowercase().parse(), Ok(sets.clone()));
            assert_eq!(Sets::decode(sets.kind(), &sets.encode()), Some(sets.clone()));
            assert!(sets.has(Encoding::Hss) && !sets.has(Encoding::Lms));
        }
        for set in others {
            assert!(set.name.parse::<Sets>().unwrap_err().contains("only verifies"));
            let sets = Sets::Xmss(set);
            assert_eq!(Sets::decode(sets.kind(), &sets.encode()), None);
        }
        // The same number means different sets in the two schemes.
        let [one, many] = [2, 3].map(|kind| Sets::decode(kind, &[0, 0, 0, 1]).unwrap().to_string());
        assert_eq!([&*one, &*many], ["XMSS-SHA2_10_256", "XMSSMT-SHA2_20/2_256"]);
    }

    #[test]
    fn malformed_parameter_sets_are_refused() {
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
        // A number too large to allocate is rejected like any other.
        for levels in ["9", "4294967295", "99999999999"] {
            assert!(format!("WC_LMS_PARM_L{levels}_H5_W8").parse::<Sets>().is_err());
        }
    }
}
