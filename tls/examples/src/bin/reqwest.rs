//! A reqwest client, with reqwest's feature `rustls-no-provider`: the installed provider is the one that it takes.
//!
//! ```text
//! cargo run -p gabion-rustls-examples --bin reqwest PORT ROOTS
//! ```

use gabion_rustls_examples::Outcome;
use reqwest::{Certificate, Client};

#[tokio::main]
async fn main() -> Outcome<()> {
    gabion_rustls::install_default().map_err(|_| "another provider was installed before")?;
    let (port, roots) = gabion_rustls_examples::server_to_ask()?.ok_or("expected PORT ROOTS")?;
    let roots = Certificate::from_pem_bundle(&std::fs::read(roots)?)?;
    // The server is on this machine, which no proxy reaches.
    let client = Client::builder().tls_certs_only(roots).no_proxy().build()?;
    let answer = client.get(format!("https://localhost:{port}/")).send().await?;
    println!("{}", answer.status());
    print!("{}", answer.error_for_status()?.text().await?);
    Ok(())
}
