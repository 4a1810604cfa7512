//! What a switch of the provider is worth, on this machine.
//!
//! ```text
//! cargo run --release -p gabion-bench --example switches -- PREFIX SWITCH GROUP SIGNATURE THREADS CONNECTIONS ROUNDS [MODULES]
//! ```
//!
//! CONNECTIONS is how many each thread has under way in asynchronous jobs; 0: one after the other, without.
//! PREFIX is an OpenSSL with the module (a bundle), or MODULES the folder of it. Prints one line of JSON.

use gabion_bench::tls::switches::{Config, measure};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [prefix, switch, group, signature, threads, connections, rounds, modules @ ..] = &words[..]
    else {
        return Err(
            "expected PREFIX SWITCH GROUP SIGNATURE THREADS CONNECTIONS ROUNDS [MODULES]".into()
        );
    };
    let row = measure(&Config {
        prefix: prefix.into(),
        modules: modules.first().map(Into::into),
        switch: switch.clone(),
        group: group.clone(),
        signature: signature.clone(),
        threads: threads.parse()?,
        connections: connections.parse()?,
        rounds: rounds.parse()?,
    })?;
    println!("{}", serde_json::to_string(&row)?);
    Ok(())
}
