//! The peer of tests/interop/rustls.sh: rustls over the engine.

// The other program with this file is in a workspace that Gabion is no part of, so that it can be built without it, and whose
// packages are not in our Cargo.lock: neither can depend on the other.
#[path = "../../../tests/interop/rustls/src/peer.rs"]
mod peer;

use std::sync::Arc;

use rustls::crypto::CryptoProvider;

/// The engine's provider with these groups.
fn provider(groups: &str) -> peer::Outcome<Arc<CryptoProvider>> {
    let named =
        |name: &str| gabion_rustls::groups::by_name(name).ok_or_else(|| format!("no group {name}"));
    let kx_groups = groups.split(':').map(named).collect::<Result<_, _>>()?;
    Ok(Arc::new(CryptoProvider { kx_groups, ..gabion_rustls::provider() }))
}

fn main() -> peer::Outcome<()> {
    peer::run(provider)
}
