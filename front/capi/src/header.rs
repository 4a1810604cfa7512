//! The part of gabion.h that the table of algorithms decides.

use std::fmt::Write as _;

use gabion_engine::ALGORITHMS;

use crate::algorithms::Sizes;

/// What stands before and after that part.
pub const BEGIN: &str = "/* sizes: begin */\n";
/// See [`BEGIN`].
pub const END: &str = "/* sizes: end */\n";

/// The macros of every algorithm that this interface has: its name, then its sizes in bytes.
pub fn sizes() -> String {
    let mut text = String::new();
    for row in &ALGORITHMS {
        let sizes = Sizes::from(row);
        if sizes.ciphertext == 0 && sizes.signature == 0 {
            continue;
        }
        let name = format!("GABION_{}", row.name.to_uppercase().replace(['-', '.'], "_"));
        // Writing to a String does not fail.
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

/// The header with that part as it has to be; `None` if the header has no place for it.
pub fn renewed(header: &str) -> Option<String> {
    let (before, rest) = header.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some([before, BEGIN, &sizes(), END, after].concat())
}
