//! Generates the part of gabion.h that depends on the table of algorithms.

use std::fmt::Write as _;

use gabion_engine::ALGORITHMS;

use crate::algorithms::Sizes;

/// The markers around the generated part.
pub const BEGIN: &str = "/* sizes: begin */\n";
/// See [`BEGIN`].
pub const END: &str = "/* sizes: end */\n";

/// Returns the macros of every algorithm of this interface: its name and its sizes in bytes.
pub fn sizes() -> String {
    let mut text = String::new();
    for row in &ALGORITHMS {
        let sizes = Sizes::from(row);
        if sizes.ciphertext == 0 && sizes.signature == 0 {
            continue;
        }
        let name = format!("GABION_{}", row.name.to_uppercase().replace(['-', '.'], "_"));
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "#define {name} \"{}\"", row.name);
        for (what, size) in [
            ("PUBLIC_KEY", sizes.public_key),
            ("PRIVATE_KEY", sizes.private_key),
            ("SEED", sizes.seed),
            ("CIPHERTEXT", sizes.ciphertext),
            ("SHARED_SECRET", sizes.shared_secret),
            ("SIGNATURE", sizes.signature),
        ] {
            if size > 0 {
                let _ = writeln!(text, "#define {name}_{what}_BYTES {size}");
            }
        }
        text.push('\n');
    }
    text.truncate(text.trim_end().len() + 1);
    text
}

/// Returns the header with the generated part updated; `None` if the markers are missing.
pub fn renewed(header: &str) -> Option<String> {
    let (before, rest) = header.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some([before, BEGIN, &sizes(), END, after].concat())
}
