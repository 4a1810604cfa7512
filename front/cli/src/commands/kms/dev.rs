//! `gabion kms dev`: a server for trying out the service.

use std::net::SocketAddr;

use gabion_kms_server::dev::Dev;
use gabion_kms_server::{expires_ms, memory, rfc3339};
use serde_json::json;

use crate::failure::Failure;
use crate::ffi;

/// Run a development server with its keys in memory
///
/// Example:
///   gabion kms dev
///
/// Serves TLS 1.3 on this machine only, until SIGTERM or Ctrl-C. Prints its address, an
/// administrator token, the file with its certificate authority (the only file it writes), and
/// commands to paste.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Listening address of this machine and port; port 0 selects a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8200")]
    listen: SocketAddr,
    /// Print one JSON object once it serves: address, token, expires_ms, ca_file
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    // A client that disconnects early must not end the server.
    ffi::go_on_when_the_reader_is_gone();
    ffi::ignore_stray_signals(false);
    // Failures are ignored: this is a development server.
    let _ = (memory::no_dumps(), memory::lock_process());
    let server = Dev::start(args.listen)?;
    let (address, token) = (server.address().to_owned(), server.token().to_owned());
    let ca_file = server.authorities().display().to_string();
    let mut told = Ok(());
    // A server whose address is unknown is useless, so a failed print ends it.
    server.serve(|| {
        told = tell(args.json, &address, &token, &ca_file);
        told.is_ok()
    })?;
    told.map(|()| 0)
}

fn tell(as_json: bool, address: &str, token: &str, ca_file: &str) -> Result<(), Failure> {
    if as_json {
        let expires_ms = expires_ms(token);
        say!(
            "{}",
            json!({"address": address, "token": token, "expires_ms": expires_ms, "ca_file": ca_file})
        );
        return Ok(());
    }
    say!("address    {address}");
    say!("token      {token}");
    if let Some(ms) = expires_ms(token) {
        say!("ends       {}", rfc3339(ms));
    }
    say!("authority  {ca_file}");
    say!("");
    say!("Keys are in memory and end with this process. In another terminal:");
    say!("  export GABION_KMS_ADDR={address} GABION_KMS_TOKEN={token} GABION_KMS_CACERT={ca_file}");
    say!("  gabion kms key create release --algorithm ML-DSA-65");
    say!("  echo hi > hi.txt && gabion kms sign --key release --out hi.sig hi.txt");
    say!("  gabion kms verify --key release --sig hi.sig hi.txt");
    Ok(())
}

impl From<gabion_kms_server::Error> for Failure {
    fn from(error: gabion_kms_server::Error) -> Failure {
        let text = error.to_string();
        match error {
            gabion_kms_server::Error::Settings(_) => Failure::Usage(text),
            gabion_kms_server::Error::Kms(error) => match error.code().as_str() {
                "unseal_failed" | "backup_failed" => Failure::No(text),
                "bad_request" => Failure::Usage(text),
                _ => Failure::NotReady(text),
            },
            // Errors of sockets, files, threads, keys and TLS, and future variants.
            _ => Failure::NotReady(text),
        }
    }
}
