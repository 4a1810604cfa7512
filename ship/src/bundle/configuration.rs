//! Writes the configuration files of a bundle.

use super::Layout;
use crate::{Result, replace_file};

/// The name and property of Gabion's provider.
pub(crate) const PROVIDER_NAME: &str = "gabion";

/// Returns the text of `openssl-gabion.cnf`, which activates the default provider and prefers
/// Gabion's.
///
/// The bundle's `openssl.cnf` is included first, for `openssl req`, `ca` and `ts`; the second
/// `openssl_conf` replaces the one in it. The module is named by its full path, so that
/// OPENSSL_MODULES may point to another folder.
pub(crate) fn gabion_conf(layout: &Layout) -> String {
    format!(
        "# Written by `gabion bundle build`, which replaces it; keep your own changes elsewhere.\n\
         # The default provider and Gabion's; where both have an algorithm, Gabion's is taken.\n\
         .include {openssl_cnf}\n\
         \n\
         [default]\n\
         openssl_conf = gabion_init\n\
         \n\
         [gabion_init]\n\
         providers = gabion_providers\n\
         alg_section = gabion_algorithms\n\
         \n\
         [gabion_providers]\n\
         default = gabion_default\n\
         {PROVIDER_NAME} = gabion_module\n\
         \n\
         [gabion_default]\n\
         activate = 1\n\
         \n\
         [gabion_module]\n\
         module = {module}\n\
         activate = 1\n\
         \n\
         [gabion_algorithms]\n\
         # The question mark makes it a preference: what Gabion lacks still comes from default.\n\
         default_properties = ?provider={PROVIDER_NAME}\n",
        openssl_cnf = layout.ssl().join("openssl.cnf").display(),
        module = layout.gabion_module().display(),
    )
}

/// Returns the text of `openssl-fips.cnf`, which activates the FIPS provider and sets `fips=yes`
/// for every fetch.
///
/// The provider `base` contains encoders and decoders but no cryptography. With
/// `config_diagnostics`, an error in this file makes the program that reads it fail instead of
/// silently using the defaults.
pub(crate) fn fips_conf(layout: &Layout) -> String {
    format!(
        "# Written by `gabion bundle build`, which replaces it; keep your own changes elsewhere.\n\
         # Only the FIPS provider's approved algorithms. The fips.so built here is FIPS code, not a\n\
         # validated module.\n\
         .include {openssl_cnf}\n\
         .include {fipsmodule_cnf}\n\
         \n\
         [default]\n\
         config_diagnostics = 1\n\
         openssl_conf = fips_init\n\
         \n\
         [fips_init]\n\
         providers = fips_providers\n\
         alg_section = fips_algorithms\n\
         \n\
         [fips_providers]\n\
         fips = fips_sect\n\
         base = fips_base\n\
         \n\
         [fips_base]\n\
         activate = 1\n\
         \n\
         [fips_algorithms]\n\
         default_properties = fips=yes\n",
        openssl_cnf = layout.ssl().join("openssl.cnf").display(),
        fipsmodule_cnf = layout.fipsmodule_conf().display(),
    )
}

/// Writes both files for a bundle at `named` into the tree at `tree`; the two paths differ while a
/// build is staged. Returns whether something changed.
pub(crate) fn write_configuration(tree: &Layout, named: &Layout) -> Result<bool> {
    let gabion = replace_file(&tree.gabion_conf(), gabion_conf(named).as_bytes(), 0o644)?;
    let fips = replace_file(&tree.fips_conf(), fips_conf(named).as_bytes(), 0o644)?;
    Ok(gabion || fips)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_file_names_its_default_property_and_absolute_paths() {
        let layout = Layout::at("/p");
        let gabion = gabion_conf(&layout);
        assert!(gabion.contains("\ndefault_properties = ?provider=gabion\n"));
        assert!(gabion.contains("\nmodule = /p/lib/ossl-modules/gabion.so\n"));
        let fips = fips_conf(&layout);
        assert!(fips.contains("\ndefault_properties = fips=yes\n"));
        assert!(fips.contains("\n.include /p/ssl/fipsmodule.cnf\n"));
        assert!(!fips.contains("gabion.so"));
    }

    #[test]
    fn writing_twice_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let layout = Layout::at(folder.path());
        std::fs::create_dir(layout.ssl()).unwrap();
        assert!(write_configuration(&layout, &layout).unwrap());
        assert!(!write_configuration(&layout, &layout).unwrap());
    }
}
