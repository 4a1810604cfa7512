//! Deterministic ECDSA against RFC 6979, A.2.5 to A.2.7: the message "sample" under the curve's hash.

use super::{Curve, Hedge, SignatureInput, der, public_key, sign, verify};

/// Private key, r and s.
const ANSWERS: [(Curve, [&str; 3]); 3] = [
    (
        Curve::P256,
        [
            "c9afa9d845ba75166b5c215767b1d6934e50c3db36e89b127b8a622b120f6721",
            "efd48b2aacb6a8fd1140dd9cd45e81d69d2c877b56aaf991c34d0ea84eaf3716",
            "f7cb1c942d657c41d436c7a1b6e29f65f3e900dbb9aff4064dc4ab2f843acda8",
        ],
    ),
    (
        Curve::P384,
        [
            "6b9d3dad2e1b8c1c05b19875b6659f4de23c3b667bf297ba9aa47740787137d896d5724e4c70a825\
                 f872c9ea60d2edf5",
            "94edbb92a5ecb8aad4736e56c691916b3f88140666ce9fa73d64c4ea95ad133c81a648152e44acf9\
                 6e36dd1e80fabe46",
            "99ef4aeb15f178cea1fe40db2603138f130e740a19624526203b6351d0a3a94fa329c145786e679e\
                 7b82c71a38628ac8",
        ],
    ),
    (
        Curve::P521,
        [
            "00fad06daa62ba3b25d2fb40133da757205de67f5bb0018fee8c86e1b68c7e75caa896eb32f1f47c\
                 70855836a6d16fcc1466f6d8fbec67db89ec0c08b0e996b83538",
            "00c328fafcbd79dd77850370c46325d987cb525569fb63c5d3bc53950e6d4c5f174e25a1ee9017b5\
                 d450606add152b534931d7d4e8455cc91f9b15bf05ec36e377fa",
            "00617cce7cf5064806c467f678d3b4080d6f1cc50af26ca209417308281b68af282623eaa63e5b5c\
                 0723d8b8c37ff0777b1a20f8ccb1dccc43997f1ee0e44da4a67a",
        ],
    ),
];

#[test]
fn the_answers_are_those_of_the_rfc() {
    for (curve, [scalar, r, s]) in ANSWERS {
        let [private, r, s] =
            [scalar, r, s].map(|digits| base16ct::mixed::decode_vec(digits).unwrap());
        let sample = SignatureInput::Message(b"sample");
        let made = sign(curve, &private, sample, Hedge::None).unwrap();
        assert_eq!(made, [r, s].concat(), "{curve:?}");
        let public = public_key(curve, &private).unwrap();
        assert_eq!(verify(curve, &public, sample, &made), Ok(true));
        assert_eq!(verify(curve, &public, SignatureInput::Message(b"simple"), &made), Ok(false));
        let encoded = der::to_der(&made);
        assert_eq!(der::from_der(curve, &encoded), Some(made));
        // A second leading zero is another encoding of the same number.
        let head = if curve == Curve::P521 { 3 } else { 2 };
        let mut loose = encoded.clone();
        loose.insert(head + 2, 0);
        loose[head - 1] += 1;
        loose[head + 1] += 1;
        assert_eq!(der::from_der(curve, &loose), None, "{curve:?}");
    }
}
