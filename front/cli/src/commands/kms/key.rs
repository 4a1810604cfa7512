//! `gabion kms key`: manages keys of the service.

use std::collections::BTreeMap;

use clap::Subcommand;
use gabion_kms_client::Client;
use gabion_kms_server::KeyAlgorithm;
use gabion_kms_wire::native::{Changed, ConfigureKey, CreateKey};
use serde_json::json;

use super::open::{self, OpenArgs};
use super::period::{lifetime, period, time};
use super::print::key;
use super::transfer::{self, ExportArgs, ImportArgs, WrappingKeyArgs};
use super::{client, say_json};
use crate::failure::{Failure, spelt};

/// Create, show and change keys of the service
///
/// Example:
///   gabion kms key create release --algorithm ML-DSA-65 && gabion kms key rotate release
///
/// KEY is a key's name, or its id tenant/purpose/algorithm/uuid.
#[derive(clap::Parser)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
    /// Print JSON: the service's answer on one line
    #[arg(long, global = true)]
    json: bool,
    /// Idempotency key of this change: repeating it within 24 hours returns the first answer and
    /// changes nothing
    #[arg(long, global = true, value_name = "NAME")]
    op_id: Option<String>,
}

#[derive(Subcommand)]
enum Command {
    /// Create a key with its first version
    ///
    /// Example:
    ///   gabion kms key create release --algorithm ML-DSA-65
    #[command(verbatim_doc_comment, after_help = algorithms())]
    Create(Create),
    /// List keys by name
    ///
    /// Example:
    ///   gabion kms key create web --algorithm Ed25519 && gabion kms key list
    #[command(verbatim_doc_comment)]
    List,
    /// Show a key and its versions with their public keys
    ///
    /// Example:
    ///   gabion kms key create web --algorithm Ed25519 && gabion kms key show web
    #[command(verbatim_doc_comment)]
    Show(KeyArg),
    /// Create a new version, which is used from now on to sign, encrypt and compute tags
    ///
    /// Example:
    ///   gabion kms key create web --algorithm Ed25519 && gabion kms key rotate web
    #[command(verbatim_doc_comment)]
    Rotate(KeyArg),
    /// Change settings: labels, minimum versions, expiry, rotation
    ///
    /// Example:
    ///   gabion kms key create web --algorithm Ed25519 && gabion kms key rotate web
    ///   gabion kms key config web --min-sign 1 --label team=a --rotate-every 30d
    #[command(verbatim_doc_comment)]
    Config(Config),
    /// Import a key, or a further version, from a file
    ///
    /// Example:
    ///   gabion keygen ML-DSA-65 --out key.pem
    ///   gabion kms key import release --algorithm ML-DSA-65 key.pem
    ///
    /// Key files have the formats of `gabion sign`; a symmetric key is a file with its bytes. With
    /// --public, only the public key is imported. The service tests a key before it stores it. With
    /// --wrap, the key is encrypted for the service on this machine; with --wrapped, FILE was
    /// wrapped elsewhere.
    #[command(verbatim_doc_comment)]
    Import(ImportArgs),
    /// Export the private key of a version to a file, if the key is exportable
    ///
    /// Example:
    ///   gabion kms key create web --algorithm Ed25519 && gabion kms key config web --exportable
    ///   gabion kms key export web --out web.pem
    ///
    /// With --wrap-for, only the owner of that public key can read the export. If it is wrapped for
    /// the `wrapping-key` of another service, `import --wrapped` imports it there under the same
    /// name.
    #[command(verbatim_doc_comment)]
    Export(ExportArgs),
    /// Unwrap the output of `export --wrap-for` with your private key, without a service
    ///
    /// Example:
    ///   gabion keygen X-Wing --out mine.pem --pub mine.pub
    ///   gabion kms key create web --algorithm Ed25519 && gabion kms key config web --exportable
    ///   gabion kms key export web --wrap-for mine.pub --out web.wrapped
    ///   gabion kms key open web --algorithm Ed25519 --key mine.pem --out web.pem web.wrapped
    ///
    /// Works offline: needs neither an address nor a token. The name and the algorithm must be
    /// those of the exported key; otherwise unwrapping fails. Success does not prove who wrapped
    /// the key: every holder of your public key can.
    #[command(verbatim_doc_comment)]
    Open(OpenArgs),
    /// Print the public key that imported keys are wrapped with
    ///
    /// Example:
    ///   gabion kms key wrapping-key --out service.pem
    #[command(verbatim_doc_comment)]
    WrappingKey(WrappingKeyArgs),
    /// Disable a version
    ///
    /// Example:
    ///   gabion kms key create web --algorithm Ed25519 && gabion kms key disable web --version 1
    #[command(verbatim_doc_comment)]
    Disable(VersionArg),
    /// Enable a disabled version
    ///
    /// Example:
    ///   gabion kms key create web --algorithm Ed25519 && gabion kms key disable web --version 1
    ///   gabion kms key enable web --version 1
    #[command(verbatim_doc_comment)]
    Enable(VersionArg),
    /// Destroy all versions below a version, irreversibly
    ///
    /// Example:
    ///   gabion kms key create web --algorithm Ed25519 && gabion kms key rotate web
    ///   gabion kms key config web --min-verify 2 --min-decrypt 2 && gabion kms key trim web --before 2
    #[command(verbatim_doc_comment)]
    Trim {
        #[command(flatten)]
        of: KeyArg,
        /// Lowest version to keep
        #[arg(long, value_name = "VERSION")]
        before: u32,
    },
    /// Delete a key: it cannot be used until it is restored
    ///
    /// Example:
    ///   gabion kms key create web --algorithm Ed25519 && gabion kms key delete web
    #[command(verbatim_doc_comment)]
    Delete(KeyArg),
    /// Restore a deleted key
    ///
    /// Example:
    ///   gabion kms key create web --algorithm Ed25519 && gabion kms key delete web
    ///   gabion kms key restore web
    #[command(verbatim_doc_comment)]
    Restore(KeyArg),
    /// Destroy a deleted key, irreversibly
    ///
    /// Example:
    ///   gabion kms key create web --algorithm Ed25519 && gabion kms key delete web
    ///   gabion kms key destroy web
    ///
    /// With --expire-backups, all backups that may contain the key become unreadable: the keys of
    /// their periods are destroyed, along with access to everything else in these backups, which is
    /// printed. This also needs the action `backup`.
    #[command(verbatim_doc_comment)]
    Destroy {
        #[command(flatten)]
        of: KeyArg,
        /// Destroy the keys of all backup periods that may contain the key; repeat with the key's
        /// id to resume
        #[arg(long)]
        expire_backups: bool,
    },
}

#[derive(clap::Args)]
struct Create {
    /// Name: 1 to 64 of 0-9 A-Z a-z _ - .
    name: String,
    /// Algorithm: one of those below, in upper or lower case, with or without hyphens
    #[arg(long)]
    algorithm: String,
    /// Purpose, part of the key's id [default: transit]
    #[arg(long)]
    purpose: Option<String>,
    /// Conformance that can never be removed: cnsa2, fips-alg or software; may be given several
    /// times
    #[arg(long, value_name = "LABEL")]
    conformance: Vec<String>,
    /// Rotate automatically at this interval: 12h, 30d, at least one hour [default: never]
    #[arg(long, value_name = "TIME", value_parser = period)]
    rotate_every: Option<u64>,
    /// ML-DSA only: sign and verify only mu, so messages never reach the service; cannot be removed
    #[arg(long)]
    mu_required: bool,
    /// Sign only JSON Web Tokens, with this maximum lifetime: 15m, 12h, 30d; cannot be removed
    #[arg(long, value_name = "TIME", value_parser = lifetime)]
    jwt_max_lifetime: Option<u64>,
}

impl Create {
    /// Returns the request body.
    fn wire(self) -> CreateKey {
        CreateKey {
            name: self.name,
            algorithm: self.algorithm,
            purpose: self.purpose,
            tenant: None,
            conformance: Some(self.conformance).filter(|labels| !labels.is_empty()),
            rotate_period_s: self.rotate_every,
            mu_required: Some(true).filter(|_| self.mu_required),
            jwt_max_lifetime_s: self.jwt_max_lifetime,
        }
    }
}

#[derive(clap::Args)]
struct KeyArg {
    /// The key, by name or id
    key: String,
}

#[derive(clap::Args)]
struct VersionArg {
    #[command(flatten)]
    of: KeyArg,
    /// The version
    #[arg(long = "version", value_name = "VERSION")]
    number: u32,
}

#[derive(clap::Args)]
struct Config {
    #[command(flatten)]
    of: KeyArg,
    /// Lowest version that signs, encrypts or computes tags; 0: only the newest
    #[arg(long, value_name = "VERSION")]
    min_sign: Option<u32>,
    /// Lowest version that verifies
    #[arg(long, value_name = "VERSION")]
    min_verify: Option<u32>,
    /// Lowest version that decrypts
    #[arg(long, value_name = "VERSION")]
    min_decrypt: Option<u32>,
    /// A label; replaces all existing labels; may be given several times
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,
    /// Allow `export` of the private key; cannot be undone
    #[arg(long)]
    exportable: bool,
    /// ML-DSA only: sign and verify only mu, so messages never reach the service; cannot be removed
    #[arg(long)]
    mu_required: bool,
    /// Sign only JSON Web Tokens, with this maximum lifetime: 15m, 12h, 30d; cannot be removed
    #[arg(long, value_name = "TIME", value_parser = lifetime)]
    jwt_max_lifetime: Option<u64>,
    /// When a use is answered: durable (its audit record is on the disk), written (handed to the
    /// operating system), default
    #[arg(long, value_parser = ["durable", "written", "default"])]
    class: Option<String>,
    /// Expiry after which the key makes nothing new: 2027-01-01T00:00:00Z, or milliseconds since
    /// 1970; 0: never
    #[arg(long, value_name = "TIME", value_parser = time)]
    expires: Option<u64>,
    /// Rotate automatically when the newest version has this age: 12h, 30d, at least one hour; 0:
    /// never
    #[arg(long, value_name = "TIME", value_parser = period)]
    rotate_every: Option<u64>,
}

/// Lists the key algorithms, wrapped to the width of a terminal.
fn algorithms() -> String {
    let (mut text, mut len) = ("Algorithms:\n ".to_owned(), 1);
    for algorithm in KeyAlgorithm::all() {
        let name = algorithm.name();
        if len + 1 + name.len() > 100 {
            text.push_str("\n ");
            len = 1;
        }
        text.push(' ');
        text.push_str(name);
        len += 1 + name.len();
    }
    text
}

fn label(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Keys per request.
const PAGE: u32 = 1000;

/// Runs the command.
pub fn run(args: Args) -> Result<u8, Failure> {
    let args = match args {
        Args { command: Command::Open(of), json, .. } => return open::run(json, of),
        args => args,
    };
    let client = client()?;
    let client = match &args.op_id {
        Some(op_id) => client.with_op_id(op_id),
        None => client,
    };
    let json = args.json;
    match args.command {
        Command::Create(new) => key(json, &client.create(&new.wire())?),
        Command::List => list(&client, json),
        Command::Show(of) => show(&client, json, &of.key),
        Command::Rotate(of) => {
            let made = client.rotate(&of.key)?;
            if json {
                say_json(&made)
            } else {
                said(&format!("version {} is the newest from now on", made.version))
            }
        }
        Command::Config(config) => {
            let labels: BTreeMap<_, _> = config.labels.into_iter().collect();
            let to = ConfigureKey {
                min_sign: config.min_sign,
                min_verify: config.min_verify,
                min_decrypt: config.min_decrypt,
                labels: Some(labels).filter(|labels| !labels.is_empty()),
                exportable: Some(true).filter(|_| config.exportable),
                expires_ms: config.expires,
                class: config.class,
                rotate_period_s: config.rotate_every,
                mu_required: Some(true).filter(|_| config.mu_required),
                jwt_max_lifetime_s: config.jwt_max_lifetime,
            };
            key(json, &client.configure(&config.of.key, &to)?)
        }
        Command::Import(args) => transfer::import(&client, json, args),
        Command::Export(args) => transfer::export(&client, json, args),
        Command::WrappingKey(args) => transfer::wrapping_key(&client, json, args),
        Command::Open(args) => return open::run(json, args),
        Command::Disable(of) => {
            done(json, &client.disable(&of.of.key, of.number)?, "the version is disabled")
        }
        Command::Enable(of) => {
            done(json, &client.enable(&of.of.key, of.number)?, "the version is enabled")
        }
        Command::Trim { of, before } => {
            done(json, &client.trim(&of.key, before)?, "the versions before it are destroyed")
        }
        Command::Delete(of) => {
            done(json, &client.delete(&of.key)?, "the key is deleted; `restore` undoes that")
        }
        Command::Restore(of) => done(json, &client.restore(&of.key)?, "the key is restored"),
        Command::Destroy { of, expire_backups: true } => expire(&client, json, &of.key),
        Command::Destroy { of, expire_backups: false } => match client.destroy(&of.key)? {
            answer if json => say_json(&answer),
            _ => said("the key is destroyed"),
        },
    }?;
    Ok(0)
}

fn list(client: &Client, json: bool) -> Result<(), Failure> {
    let mut after: Option<String> = None;
    loop {
        let page = client.list(after.as_deref(), PAGE)?;
        for key in &page.keys {
            if json { say_json(key)? } else { said(&format!("{:<32} {}", key.name, key.id))? }
        }
        let Some(next) = page.next else { return Ok(()) };
        after = Some(next);
    }
}

fn show(client: &Client, json: bool, name: &str) -> Result<(), Failure> {
    let shown = client.show(name)?;
    let (mut versions, mut after) = (Vec::new(), 0);
    loop {
        let page = client.versions(name, after)?;
        versions.extend(page.versions);
        let Some(next) = page.next else { break };
        after = next;
    }
    if json {
        return say_json(&json!({"key": shown, "versions": versions}));
    }
    key(false, &shown)?;
    for version in &versions {
        say!("version {}  {}", version.version, version.state);
        if let Some(pem) = &version.public_key {
            say!("{}", pem.trim_end());
        }
    }
    Ok(())
}

/// Destroys a key and the backups that contain it. Uses the id, because the name becomes free as
/// soon as the destruction starts.
fn expire(client: &Client, json: bool, key: &str) -> Result<(), Failure> {
    let id = if key.contains('/') { key.to_owned() } else { client.show(key)?.id };
    let again = |failure: Failure| {
        let go_on = |text| {
            format!(
                "{text}\nthe key may be destroyed, and its backups not: ask again by its id, {id}"
            )
        };
        match failure {
            Failure::NotReady(text) => Failure::NotReady(go_on(text)),
            other => other,
        }
    };
    let destroyed = client.destroy_with_backups(&id).map_err(|error| again(error.into()))?;
    if json {
        return say_json(&destroyed);
    }
    said("the key is destroyed")?;
    let list = |what: &str, names: &Option<Vec<String>>| {
        names.iter().flatten().try_for_each(|name| said(&format!("{what} {}", spelt(name))))
    };
    list("expired    the period", &destroyed.expired_periods)?;
    list("unreadable", &destroyed.unreadable_backups)?;
    list("has it     and no period's key seals it, delete it:", &destroyed.plain_backups)?;
    match destroyed.keys_without_backup {
        None | Some(0) => Ok(()),
        Some(others) => {
            said(&format!("{others} other keys are in no backup that can be read: make one"))
        }
    }
}

fn done(json: bool, changed: &Changed, words: &str) -> Result<(), Failure> {
    if json { say_json(changed) } else { said(words) }
}

fn said(words: &str) -> Result<(), Failure> {
    say!("{words}");
    Ok(())
}
