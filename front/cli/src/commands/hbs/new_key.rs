//! Options and checks shared by `keygen` and `import`: the files of a new key, and progress output.

use std::io::IsTerminal;
use std::num::NonZero;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Instant;

use gabion_engine::keys::stateful::Progress;
use gabion_state::{
    Encoding, Environment, GeneratedKey, KeyFileOptions, Paths, ResumableKey, ResumableSectors,
    Sets, check_place, discard, status,
};
use zeroize::Zeroizing;

use super::named_file;
use crate::failure::{Failure, plain};
use crate::files::{self, Access, Force, Output, Place};
use crate::keys::passin::PassIn;

/// The options for the files of a new key.
#[derive(clap::Args)]
pub struct NewKeyArgs {
    /// File for the private key; must not exist. The state files are written next to it
    #[arg(long, value_name = "KEY")]
    out: PathBuf,
    /// File for the public key: SubjectPublicKeyInfo (RFC 9802) as PEM, or the bare key with
    /// --encoding lms
    #[arg(long = "pub", value_name = "PUB")]
    public: Option<PathBuf>,
    /// Anchor: a file in another folder, preferably on another disk, that records the newest state;
    /// may be given several times
    /// [default: one in $XDG_STATE_HOME/gabion/anchors]
    #[arg(long = "anchor", value_name = "FILE")]
    anchors: Vec<PathBuf>,
    /// Threads for key generation [default: number of cores]
    #[arg(long, value_name = "T")]
    threads: Option<NonZero<usize>>,
    /// Encoding of raw keys and signatures: `hss` (RFC 8554, section 6), or `lms` for one level,
    /// without the level count
    #[arg(long, value_enum, default_value = "hss")]
    encoding: Form,
    /// Warn when this many signatures remain [default: a hundredth of all]
    #[arg(long, value_name = "N")]
    warn_at: Option<u64>,
    /// Allow the key and its anchors on a network file system, whose locks and syncs may be
    /// unreliable
    #[arg(long)]
    allow_nfs: bool,
    /// Password to encrypt the private key with: pass:TEXT, env:NAME, file:PATH, fd:NUMBER or stdin
    #[arg(long, value_name = "SOURCE")]
    passin: Option<PassIn>,
    #[command(flatten)]
    force: Force,
}

/// [`Encoding`] on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Form {
    Hss,
    Lms,
}

/// The checked files and password of a new key, collected before the expensive key generation.
pub struct NewKey {
    args: NewKeyArgs,
    /// The private keys, one per sector, and the anchors of each.
    keys: Vec<(PathBuf, Vec<PathBuf>)>,
    public: Option<Place>,
    password: Option<Zeroizing<Vec<u8>>>,
}

impl NewKeyArgs {
    /// Checks all output paths and reads the password. With several sectors, `--out` and the
    /// anchors get a number as a suffix. `goes_on` states whether the generation of a key is
    /// resumed.
    pub fn checked(
        self,
        around: &Environment,
        inputs: &[(&str, &Path)],
        sectors: u32,
        goes_on: bool,
    ) -> Result<NewKey, Failure> {
        named_file("--out", &self.out)?;
        let is_passin = self.passin.as_ref().is_some_and(PassIn::is_stdin);
        let mut standard = vec![("--passin", is_passin)];
        standard.extend(inputs.iter().map(|(name, file)| (*name, files::is_standard_input(file))));
        files::one_standard_input(&standard)?;
        let numbered = |name: &PathBuf, number: u32| {
            let mut name = name.clone().into_os_string();
            if sectors > 1 {
                name.push(format!("-{number}"));
            }
            PathBuf::from(name)
        };
        let key = |number| {
            let anchors = self.anchors.iter().map(|anchor| numbered(anchor, number)).collect();
            (numbered(&self.out, number), anchors)
        };
        let keys: Vec<(PathBuf, Vec<PathBuf>)> = (0..sectors).map(key).collect();
        if let Some((key, _)) = keys.iter().find(|(key, _)| key.symlink_metadata().is_ok()) {
            let shown = files::shown(key, "-");
            let is_begun =
                |(key, _): &(PathBuf, _)| Paths::new(key).part.symlink_metadata().is_ok();
            return Err(Failure::Usage(match sectors > 1 && keys.iter().any(is_begun) {
                true => format!(
                    "{shown} exists, but other sectors of the key are unfinished; if it is not in use, \
                     remove its files and its anchor; the same command then generates it again and resumes the \
                     others"
                ),
                false => format!(
                    "{shown} exists; a stateful key is never replaced, not even with --force"
                ),
            }));
        }
        let public = self.public_place(&keys, inputs)?;
        for (key, anchors) in &keys {
            check_place(around, key, anchors, self.allow_nfs, goes_on)?;
        }
        let password = self.passin.as_ref().map(PassIn::password).transpose()?;
        if password.as_ref().is_some_and(|password| password.is_empty()) {
            return Err(Failure::Usage(
                "--passin gives an empty password, which protects nothing; give a password or omit --passin"
                    .to_owned(),
            ));
        }
        Ok(NewKey { args: self, keys, public, password })
    }

    fn encoding(&self) -> Encoding {
        match self.encoding {
            Form::Hss => Encoding::Hss,
            Form::Lms => Encoding::Lms,
        }
    }

    /// Returns the place of the public key, which must be neither a file of the key nor an input.
    fn public_place(
        &self,
        keys: &[(PathBuf, Vec<PathBuf>)],
        inputs: &[(&str, &Path)],
    ) -> Result<Option<Place>, Failure> {
        let paths: Vec<Paths> = keys.iter().map(|(key, _)| Paths::new(key)).collect();
        let unfinished: Vec<PathBuf> = paths.iter().flat_map(Paths::unfinished).collect();
        let files = paths.iter().flat_map(Paths::all).chain(unfinished.iter().map(|file| &**file));
        let mut taken: Vec<_> = files.map(|file| ("a file of --out", file)).collect();
        let anchors = keys.iter().flat_map(|(_, anchors)| anchors);
        taken.extend(anchors.map(|anchor| ("--anchor", anchor.as_path())));
        taken.extend(keys.iter().map(|(key, _)| ("--out", key.as_path())));
        let password = self.passin.as_ref().and_then(PassIn::file).map(|file| ("--passin", file));
        for (option, input) in inputs.iter().copied().chain(password) {
            // Such a name would be taken for a leftover file of the key.
            if let Some(mark) = files::mark_of_input(input)
                && taken.iter().any(|(_, file)| files::mark_of_input(file).as_ref() == Some(&mark))
            {
                return Err(Failure::Usage(format!(
                    "{option} has the name of a file of --out, {}; expected another",
                    files::shown(input, "standard input")
                )));
            }
        }
        let Some(path) = &self.public else { return Ok(None) };
        let inputs: Vec<_> = inputs.iter().copied().chain(password).collect();
        let outputs = [("--pub", path.as_path())];
        Ok(files::places_of(outputs, &inputs, &taken, self.force.existing())?.pop())
    }
}

impl NewKey {
    /// Returns the number of threads for key generation.
    pub fn threads(&self) -> NonZero<usize> {
        let cores = || std::thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
        self.args.threads.unwrap_or_else(cores)
    }

    /// Starts or resumes a key without sectors: see [`ResumableKey`].
    pub fn begun(&self, around: &Environment, sets: &Sets) -> Result<ResumableKey, Failure> {
        let (key, anchors) = self.keys.first().ok_or_else(not_made)?;
        let password = self.password.as_deref().map(Vec::as_slice);
        let begun = ResumableKey::begin(around, key, sets, password, anchors)?;
        if begun.is_resumed() {
            eprintln!("note: resuming the key in {}.part", files::shown(key, "-"));
        }
        Ok(begun)
    }

    /// Starts or resumes the keys of all sectors: see [`ResumableSectors`].
    pub fn begun_sectors(
        &self,
        around: &Environment,
        sets: &Sets,
    ) -> Result<ResumableSectors, Failure> {
        let password = self.password.as_deref().map(Vec::as_slice);
        let begun = ResumableSectors::begin(around, &self.keys, sets, password)?;
        if begun.is_resumed() {
            let there = self.keys.iter().map(|(key, _)| Paths::new(key).part);
            let there = there.filter(|part| part.symlink_metadata().is_ok()).count();
            eprintln!("note: resuming the sectors in {there} files, KEY-N.part");
        }
        Ok(begun)
    }

    /// Fails before key generation if the sets do not support the requested encoding.
    pub fn check_encoding(&self, sets: &Sets) -> Result<(), Failure> {
        if !sets.has(self.args.encoding()) {
            return Err(Failure::Usage(
                "--encoding lms is for keys of LMS with one level; leave it out for others"
                    .to_owned(),
            ));
        }
        Ok(())
    }

    /// Writes the files of all keys, or none.
    pub fn write(
        self,
        around: &Environment,
        made: &[GeneratedKey],
        next: u64,
        note: &str,
    ) -> Result<(), Failure> {
        let NewKey { args, keys, public, password } = self;
        let first = made.first().ok_or_else(not_made)?;
        let encoding = args.encoding();
        let bytes = match encoding {
            Encoding::Hss => first.spki(false)?,
            Encoding::Lms => first.public()[Encoding::Lms.omitted_len()..].to_vec(),
        };
        // The public key is complete on the disk before the private key exists, so that little can
        // fail afterwards.
        let public = match public {
            None => None,
            Some(place) => {
                Some(Output::prepare(place, &bytes, Access::Public, args.force.existing())?)
            }
        };
        let mut written = 0;
        let done = made.iter().zip(&keys).try_for_each(|(made, (key, anchors))| {
            let making = KeyFileOptions {
                key,
                passphrase: password.as_deref().map(Vec::as_slice),
                encoding,
                next,
                warn_at: args.warn_at,
                anchors,
                allow_network: args.allow_nfs,
                note,
            };
            made.write(around, &making)?;
            written += 1;
            Ok(())
        });
        let done = done.and_then(|()| files::commit(public));
        if done.is_err() {
            // Only the keys that this call created.
            keys[..written].iter().for_each(|(key, _)| discard(around, key));
        }
        // All sectors have the same sets.
        if let (Ok(()), Some((key, _))) = (&done, keys.first())
            && let Ok(status) = status(around, key)
        {
            status.warnings.iter().for_each(|warning| eprintln!("warning: {}", plain(warning)));
        }
        done
    }
}

/// Returns the failure for a key generation that ended without a key and without an interruption.
pub fn not_made() -> Failure {
    Failure::NotReady("the key was not generated".to_owned())
}

/// Returns a callback that prints the progress to a terminal.
pub fn watched() -> impl FnMut(Progress<'_>) -> ControlFlow<()> {
    let (begun, is_terminal) = (Instant::now(), std::io::stderr().is_terminal());
    let mut said = begun;
    move |Progress { done, all, .. }: Progress<'_>| {
        let is_due = said.elapsed().as_millis() >= 200 && begun.elapsed().as_secs() >= 1;
        if is_terminal && is_due && done > 0 {
            said = Instant::now();
            let left = begun.elapsed().as_secs_f64() / f64::from(done) * f64::from(all - done);
            let part = u64::from(done) * 100 / u64::from(all);
            eprint!("\rmaking the key: {part} %, {left:.0} s left \x1b[K");
            if done == all {
                eprintln!();
            }
        }
        ControlFlow::Continue(())
    }
}
