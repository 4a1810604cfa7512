//! What `keygen` and `import` have in common: where a new key goes, and how its making is watched.

use std::io::IsTerminal;
use std::num::NonZero;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::time::Instant;

use gabion_engine::keys::stateful::hss::Progress;
use gabion_state::{Encoding, Generated, Making, Surroundings, check_free};

use super::named_file;
use crate::failure::Failure;
use crate::files::{self, Access, Force, Output, Place};
use crate::keys::passin::PassIn;

/// Where a key that is made goes, and how it is kept.
#[derive(clap::Args)]
pub struct NewKeyArgs {
    /// File for the private key, which must not be there; its state is written beside it
    #[arg(long, value_name = "KEY")]
    out: PathBuf,
    /// File for the public key: SubjectPublicKeyInfo (RFC 9802) as PEM, or the bare key with --encoding lms
    #[arg(long = "pub", value_name = "PUB")]
    public: Option<PathBuf>,
    /// File that witnesses the newest state, in another folder, best on another disk; may be given several times
    /// [default: one in $XDG_STATE_HOME/gabion/anchors]
    #[arg(long = "anchor", value_name = "FILE")]
    anchors: Vec<PathBuf>,
    /// Threads to make the key with [default: as many as there are cores]
    #[arg(long, value_name = "T")]
    threads: Option<NonZero<usize>>,
    /// How raw keys and signatures are written: `hss` (RFC 8554, section 6), or `lms` for one level and the bare form
    #[arg(long, value_enum, default_value = "hss")]
    encoding: Form,
    /// Remaining signatures at which to warn [default: a hundredth of all]
    #[arg(long, value_name = "N")]
    warn_at: Option<u64>,
    /// Let key and anchors lie on a file system that other machines see, whose locks and syncs may not hold
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

/// A new key's places, which were looked at before there was work to lose.
pub struct NewKey {
    args: NewKeyArgs,
    public: Option<Place>,
}

impl NewKeyArgs {
    /// Looks at where everything goes.
    pub fn checked(
        self,
        around: &Surroundings,
        inputs: &[(&str, &std::path::Path)],
    ) -> Result<NewKey, Failure> {
        named_file("--out", &self.out)?;
        let shown = files::shown(&self.out, "-");
        if self.out.symlink_metadata().is_ok() {
            return Err(Failure::Usage(format!(
                "{shown} exists; a key that signing uses up is never replaced, with --force neither"
            )));
        }
        check_free(around, &self.out)?;
        let public = match &self.public {
            None => None,
            Some(path) => {
                let key = ("--out", self.out.as_path());
                let inputs = [inputs, &[key]].concat();
                let [place] = files::places([("--pub", path)], &inputs, self.force.existing())?;
                if *path == self.out {
                    return Err(Failure::Usage(format!(
                        "--out and --pub name the same file, {shown}; expected two"
                    )));
                }
                Some(place)
            }
        };
        Ok(NewKey { args: self, public })
    }
}

impl NewKey {
    /// Threads to make it with.
    pub fn threads(&self) -> NonZero<usize> {
        let cores = || std::thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
        self.args.threads.unwrap_or_else(cores)
    }

    /// Refuses several levels under the bare encoding, before the key is made.
    pub fn check_levels(&self, sets: &gabion_state::Sets) -> Result<(), Failure> {
        if self.args.encoding == Form::Lms && !sets.is_one_tree() {
            return Err(Failure::Usage(
                "--encoding lms is for keys of one level; leave it out for several".to_owned(),
            ));
        }
        Ok(())
    }

    /// Writes all files of the key, or none.
    pub fn write(
        self,
        around: &Surroundings,
        made: &Generated,
        next: u64,
        note: &str,
    ) -> Result<(), Failure> {
        let NewKey { args, public } = self;
        let passphrase = args.passin.as_ref().map(PassIn::password).transpose()?;
        let encoding = match args.encoding {
            Form::Hss => Encoding::Hss,
            Form::Lms => Encoding::Lms,
        };
        let bytes = match args.encoding {
            Form::Hss => made.spki(false)?,
            Form::Lms => made.public()[Encoding::Lms.left_out()..].to_vec(),
        };
        // Complete on the disk before there is a key, so that little can fail afterwards.
        let public = match public {
            None => None,
            Some(place) => {
                Some(Output::prepare(place, &bytes, Access::Public, args.force.existing())?)
            }
        };
        let making = Making {
            key: &args.out,
            passphrase: passphrase.as_deref().map(Vec::as_slice),
            encoding,
            next,
            warn_at: args.warn_at,
            anchors: &args.anchors,
            allow_network: args.allow_nfs,
            note,
        };
        made.write(around, &making)?;
        files::commit(public)
    }
}

/// Tells a terminal how far a key is.
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
