//! `gabion kms key`: keys of the service.

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

/// Make, show and change keys of the service
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
    /// Your name for this change: asked for again within 24 hours it is not done again, and has the same answer
    #[arg(long, global = true, value_name = "NAME")]
    op_id: Option<String>,
}

#[derive(Subcommand)]
enum Command {
    /// Make a key with its first version
    ///
    /// Example:
    ///   gabion kms key create release --algorithm ML-DSA-65
    #[command(verbatim_doc_comment, after_help = algorithms())]
    Create(Create),
    /// List keys in the order of their names
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
    /// Make a new version, which signs, encrypts or makes tags from now on
    ///
    /// Example:
    ///   gabion kms key create web --algorithm Ed25519 && gabion kms key rotate web
    #[command(verbatim_doc_comment)]
    Rotate(KeyArg),
    /// Say which versions may be used for what, and set labels
    ///
    /// Example:
    ///   gabion kms key create web --algorithm Ed25519 && gabion kms key rotate web
    ///   gabion kms key config web --min-sign 1 --label team=a --rotate-every 30d
    #[command(verbatim_doc_comment)]
    Config(Config),
    /// Make a key of a file, or one version more
    ///
    /// Example:
    ///   gabion keygen ML-DSA-65 --out key.pem
    ///   gabion kms key import release --algorithm ML-DSA-65 key.pem
    ///
    /// Key files are read as by `gabion sign`; a symmetric key is a file of its bytes. With --public the public key alone is
    /// taken. What comes is used once before it is kept. With --wrap nobody but the service sees the key, and with --wrapped
    /// FILE is one that was wrapped elsewhere.
    #[command(verbatim_doc_comment)]
    Import(ImportArgs),
    /// Write the private half of a version to a file, if the key allows that
    ///
    /// Example:
    ///   gabion kms key create web --algorithm Ed25519 && gabion kms key config web --exportable
    ///   gabion kms key export web --out web.pem
    ///
    /// With --wrap-for nobody but whoever has that key sees it. Wrapped for another service's `wrapping-key` it is imported
    /// there by `import --wrapped`, under the same name.
    #[command(verbatim_doc_comment)]
    Export(ExportArgs),
    /// Unwrap with a key of your own what `export --wrap-for` wrote, without a service
    ///
    /// Example:
    ///   gabion keygen X-Wing --out mine.pem --pub mine.pub
    ///   gabion kms key create web --algorithm Ed25519 && gabion kms key config web --exportable
    ///   gabion kms key export web --wrap-for mine.pub --out web.wrapped
    ///   gabion kms key open web --algorithm Ed25519 --key mine.pem --out web.pem web.wrapped
    ///
    /// Asks nobody, and needs no address and no token. The name and the algorithm are those of the key where it was exported: under
    /// others it does not open. That it opens does not say who wrapped it: everybody can who has your public key.
    #[command(verbatim_doc_comment)]
    Open(OpenArgs),
    /// Write the public key for which to wrap what is imported
    ///
    /// Example:
    ///   gabion kms key wrapping-key --out service.pem
    #[command(verbatim_doc_comment)]
    WrappingKey(WrappingKeyArgs),
    /// Take a version out of use
    ///
    /// Example:
    ///   gabion kms key create web --algorithm Ed25519 && gabion kms key disable web --version 1
    #[command(verbatim_doc_comment)]
    Disable(VersionArg),
    /// Put a version into use again
    ///
    /// Example:
    ///   gabion kms key create web --algorithm Ed25519 && gabion kms key disable web --version 1
    ///   gabion kms key enable web --version 1
    #[command(verbatim_doc_comment)]
    Enable(VersionArg),
    /// Destroy the versions before one, for good
    ///
    /// Example:
    ///   gabion kms key create web --algorithm Ed25519 && gabion kms key rotate web
    ///   gabion kms key config web --min-verify 2 --min-decrypt 2 && gabion kms key trim web --before 2
    #[command(verbatim_doc_comment)]
    Trim {
        #[command(flatten)]
        of: KeyArg,
        /// The first version that stays
        #[arg(long, value_name = "VERSION")]
        before: u32,
    },
    /// Delete a key: nothing uses it until it is restored
    ///
    /// Example:
    ///   gabion kms key create web --algorithm Ed25519 && gabion kms key delete web
    #[command(verbatim_doc_comment)]
    Delete(KeyArg),
    /// Restore a key that was deleted
    ///
    /// Example:
    ///   gabion kms key create web --algorithm Ed25519 && gabion kms key delete web
    ///   gabion kms key restore web
    #[command(verbatim_doc_comment)]
    Restore(KeyArg),
    /// Destroy a key that was deleted, for good
    ///
    /// Example:
    ///   gabion kms key create web --algorithm Ed25519 && gabion kms key delete web
    ///   gabion kms key destroy web
    ///
    /// With --expire-backups nobody reads a backup any more that may have it: the keys of their periods are destroyed, too, and
    /// with them whatever else these backups have, which is printed. It takes the action `backup` besides.
    #[command(verbatim_doc_comment)]
    Destroy {
        #[command(flatten)]
        of: KeyArg,
        /// Destroy the keys of all periods of backups that may have it; by the key's id it goes on where it stopped
        #[arg(long)]
        expire_backups: bool,
    },
}

#[derive(clap::Args)]
struct Create {
    /// What to call it: 1 to 64 of 0-9 A-Z a-z _ - .
    name: String,
    /// Its algorithm: one of those below, with or without capitals and hyphens
    #[arg(long)]
    algorithm: String,
    /// What it is for, a part of its id [default: transit]
    #[arg(long)]
    purpose: Option<String>,
    /// What it promises to conform to, for good: cnsa2, fips-alg or software; several times for several
    #[arg(long, value_name = "LABEL")]
    conformance: Vec<String>,
    /// Have the clock rotate it every so often: 12h, 30d, an hour at least [default: never]
    #[arg(long, value_name = "TIME", value_parser = period)]
    rotate_every: Option<u64>,
    /// Of ML-DSA: have it sign and verify mu alone, so that no message reaches the service, for good
    #[arg(long)]
    mu_required: bool,
    /// Have it sign JSON Web Tokens alone, for good, that live so long at most: 15m, 12h, 30d
    #[arg(long, value_name = "TIME", value_parser = lifetime)]
    jwt_max_lifetime: Option<u64>,
}

impl Create {
    /// The request as it is sent.
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
    /// The oldest version that signs, encrypts or makes tags; 0: the newest one alone
    #[arg(long, value_name = "VERSION")]
    min_sign: Option<u32>,
    /// The oldest version that verifies
    #[arg(long, value_name = "VERSION")]
    min_verify: Option<u32>,
    /// The oldest version that decrypts
    #[arg(long, value_name = "VERSION")]
    min_decrypt: Option<u32>,
    /// A label, instead of all that there are; several times for several
    #[arg(long = "label", value_name = "NAME=VALUE", value_parser = label)]
    labels: Vec<(String, String)>,
    /// Allow `export` to give out the private half, for good
    #[arg(long)]
    exportable: bool,
    /// Of ML-DSA: have it sign and verify mu alone, so that no message reaches the service, for good
    #[arg(long)]
    mu_required: bool,
    /// Have it sign JSON Web Tokens alone, for good, that live so long at most: 15m, 12h, 30d
    #[arg(long, value_name = "TIME", value_parser = lifetime)]
    jwt_max_lifetime: Option<u64>,
    /// When a use is answered: durable (the disk has its record), written (the system has it), default
    #[arg(long, value_parser = ["durable", "written", "default"])]
    class: Option<String>,
    /// From when on it makes nothing new: 2027-01-01T00:00:00Z, or milliseconds since 1970; 0: never
    #[arg(long, value_name = "TIME", value_parser = time)]
    expires: Option<u64>,
    /// Have the clock rotate it when its newest version is so old: 12h, 30d, an hour at least; 0: never
    #[arg(long, value_name = "TIME", value_parser = period)]
    rotate_every: Option<u64>,
}

/// Lists the algorithms of keys, in lines of a terminal's width.
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

/// Keys that are asked for together.
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

/// Destroys a key with the backups that have it. By its id, since its name is free as soon as that has begun.
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
