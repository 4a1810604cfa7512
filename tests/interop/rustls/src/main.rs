//! A peer of tests/interop/tls.sh: rustls over AWS-LC.

mod peer;

use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{self, ALL_KX_GROUPS};

/// AWS-LC with these groups.
fn provider(groups: &str) -> peer::Outcome<Arc<CryptoProvider>> {
    let named = |name: &str| {
        let same = |group: &str| group.eq_ignore_ascii_case(name);
        let found = ALL_KX_GROUPS.iter().find(|group| same(&format!("{:?}", group.name())));
        found.copied().ok_or_else(|| format!("no group {name}"))
    };
    let kx_groups = groups.split(':').map(named).collect::<Result<_, _>>()?;
    Ok(Arc::new(CryptoProvider { kx_groups, ..aws_lc_rs::default_provider() }))
}

fn main() -> peer::Outcome<()> {
    peer::run(provider)
}
