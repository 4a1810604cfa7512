//! Bytes of a TLS 1.3 connection on the wire: the sum of TCP payload, measured and predicted.
//!
//! ```text
//!  client ──socket──> relay, which counts ──socket──> server      (libssl of the bundle, loopback)
//!
//!  predicted = base + both key shares + certificates (DER) + CertificateVerify + 22 x records
//! ```
//!
//! A connection is a full handshake of one cipher suite with one certificate a side (its root is
//! known to the other side and not sent), one message each way, and a close_notify each way; no
//! tickets. The rest of a measured total is the base: hellos, extensions, message headers,
//! Finished. It is taken from one handshake of each mode, secp256r1 with RSA-2048, and every other
//! row has to agree with it. A client that offers a curve by itself sends one extension more, of 8
//! bytes, which counts as base.

mod exchange;
mod relay;
mod rows;
mod table;

use std::path::PathBuf;
use std::time::Duration;

pub use gabion_rows::connections::{Mode, Table, Wire as Row, WireFigures as Figures};
pub use table::render;

use crate::Error;
use crate::machine::Machine;
use crate::ossl::{Context, Ossl};
use crate::outcome::{self, Outcome};
use crate::pairs;
use crate::tls::{self, Provider};
use exchange::Parties;
pub(crate) use exchange::{ask, serve};
use relay::ByteCounts;
use rows::RowPlan;

/// The cipher suite of every row: that of the tables that were published.
pub const CIPHER: &str = "TLS_AES_256_GCM_SHA384";
/// The tolerated difference between a total and the formula: signatures in DER and Falcon's vary in
/// length.
pub const TOLERANCE: u64 = 16;
/// Longest time that any read of a socket may take.
const TIMEOUT: Duration = Duration::from_secs(20);
/// The messages of client and server.
const MESSAGES: [&[u8]; 2] = [b"hello wolfssl!", b"I hear you fa shizzle!"];
/// Longest plaintext of a record, RFC 8446, section 5.1.
const RECORD_MAX: usize = 1 << 14;
/// The overhead of a protected record: header, type of the content, tag.
const RECORD_OVERHEAD: u64 = 5 + 17;
/// The extension ec_point_formats, which a client sends that offers a curve by itself: type,
/// length, and a list of three.
const POINT_FORMATS: u64 = 4 + 1 + 3;

/// The options of a measurement.
#[derive(Debug, Clone)]
pub struct Config {
    /// The prefix of the OpenSSL installation.
    pub prefix: PathBuf,
    /// Folder of provider modules; `None` means `lib/ossl-modules` of the prefix.
    pub modules: Option<PathBuf>,
    /// The provider that serves both sides.
    pub provider: Provider,
    /// The rows to measure.
    pub table: Table,
}

/// The parts of a total that depend on the algorithms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Parts {
    key_shares: u64,
    certificates: u64,
    certificate_verify: u64,
    records: u64,
}

impl Parts {
    /// `certificates` are the lengths of those that are sent, one a side.
    fn new(group: &str, signature: &str, mode: Mode, certificates: &[usize]) -> Option<Parts> {
        let signed = pairs::signature_bytes(signature)?;
        // EncryptedExtensions and two Finished; a message and a close_notify each way; in mutual
        // mode a CertificateRequest.
        let mut records = 3 + 4 + (mode.sides() - 1);
        for der in certificates {
            // Type and length, context, list length, entry length, entry's extensions.
            records += (4 + 1 + 3 + 3 + der + 2).div_ceil(RECORD_MAX) as u64;
            // Type and length, scheme, signature length.
            records += (4 + 2 + 2 + signed).div_ceil(RECORD_MAX) as u64;
        }
        Some(Parts {
            key_shares: pairs::key_shares(group)? as u64,
            certificates: certificates.iter().sum::<usize>() as u64,
            certificate_verify: mode.sides() * signed as u64,
            records,
        })
    }

    fn bytes(&self) -> u64 {
        let records = self.records * RECORD_OVERHEAD;
        self.key_shares + self.certificates + self.certificate_verify + records
    }

    fn figures(&self, base: u64, counted: ByteCounts) -> Figures {
        Figures {
            total: counted.c2s + counted.s2c,
            bytes_c2s: counted.c2s,
            bytes_s2c: counted.s2c,
            predicted: base + self.bytes(),
            base,
            key_shares: self.key_shares,
            certificates: self.certificates,
            certificate_verify: self.certificate_verify,
            records: self.records,
        }
    }
}

/// Measures every row of the tables asked for, in their order.
///
/// # Errors
/// `NotReady` when OpenSSL or the provider does not load, `Failed` when a connection fails that
/// should not, or when a total is further than [`TOLERANCE`] from the formula's.
pub fn measure(config: &Config) -> Result<Vec<Row>, Error> {
    let prefix = std::fs::canonicalize(&config.prefix).unwrap_or_else(|_| config.prefix.clone());
    let ossl = Ossl::load(&prefix)?;
    let bench = |drafts: bool| -> Result<Bench, Error> {
        let modules = config.modules.as_deref();
        let context = tls::context_for(config.provider, ossl, modules, drafts)?;
        let bases = [base(&context, Mode::Server)?, base(&context, Mode::Mutual)?];
        Ok(Bench { context, bases, parties: Parties::default() })
    };
    // Two, since the switch for drafts makes everybody's ClientHello longer.
    let (mut settled, mut drafts) = (bench(false)?, bench(true)?);
    let machine = Machine::detect();
    let mut rows = Vec::new();
    for wanted in rows::planned(config.table) {
        let is_draft = wanted.signature.is_some_and(pairs::is_draft_in_tls);
        let bench = if is_draft { &mut drafts } else { &mut settled };
        let (status, note, figures) = outcome::fields(bench.connect(&wanted)?);
        rows.push(Row {
            table: wanted.table,
            cipher: CIPHER.to_owned(),
            old_authentication: wanted.old.map(|old| old.authentication.to_owned()),
            old_key_exchange: wanted.old.map(|old| old.key_exchange.to_owned()),
            old_total: wanted.old.map(|old| old.total),
            authentication: wanted.signature.map(str::to_owned),
            key_exchange: wanted.group.map(str::to_owned),
            mode: wanted.mode,
            chain: 1,
            tickets: 0,
            status,
            note,
            figures,
            provider: config.provider,
            openssl: ossl.version().to_owned(),
            machine: machine.clone(),
        });
    }
    Ok(rows)
}

/// The data that the rows of one library context share.
struct Bench {
    context: Context,
    /// Of server and mutual authentication.
    bases: [u64; 2],
    parties: Parties,
}

/// Returns the rest of a total after subtracting everything that depends on algorithms.
fn base(context: &Context, mode: Mode) -> Result<u64, Error> {
    let (group, signature) = ("secp256r1", "RSA-2048");
    let mut parties = Parties::default();
    let (counted, certificates) = parties.connect(context, group, signature, mode)?;
    let total = counted.c2s + counted.s2c;
    Parts::new(group, signature, mode, &certificates)
        .and_then(|parts| total.checked_sub(parts.bytes() + POINT_FORMATS))
        .ok_or_else(|| Error::Failed(format!("{total} bytes are fewer than their parts")))
}

impl Bench {
    fn connect(&mut self, wanted: &RowPlan) -> Result<Outcome<Figures>, Error> {
        let base = self.bases[wanted.mode.sides() as usize - 1];
        let (Some(group), Some(signature)) = (wanted.group, wanted.signature) else {
            return Ok(outcome::no_successor());
        };
        let connected = self.parties.connect(&self.context, group, signature, wanted.mode);
        let (counted, certificates) = match outcome::unless_missing(connected, group, signature)? {
            Ok(connected) => connected,
            Err(missing) => return Ok(Err(missing)),
        };
        let unknown = || Error::Failed(format!("no sizes are known of {group} and {signature}"));
        let parts = Parts::new(group, signature, wanted.mode, &certificates).ok_or_else(unknown)?;
        let base = if pairs::is_curve(group) { base + POINT_FORMATS } else { base };
        let figures = parts.figures(base, counted);
        if figures.total.abs_diff(figures.predicted) > TOLERANCE {
            return Err(Error::Failed(format!(
                "{group} with {signature} ({}) took {} bytes; the formula says {} (at most {TOLERANCE} \
             apart): {figures:?}",
                wanted.mode.name(),
                figures.total,
                figures.predicted
            )));
        }
        Ok(Ok(figures))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_add_up_as_the_messages_are_built() {
        let parts = Parts::new("MLKEM768", "ML-DSA-65", Mode::Server, &[5500]).unwrap();
        assert_eq!(parts.key_shares, 1184 + 1088);
        assert_eq!(parts.certificate_verify, 3309);
        assert_eq!(parts.records, 3 + 4 + 2);
        assert_eq!(parts.bytes(), 2272 + 5500 + 3309 + 9 * 22);
        let mutual = Parts::new("MLKEM768", "ML-DSA-65", Mode::Mutual, &[5500, 5400]).unwrap();
        assert_eq!(mutual.records, 3 + 4 + 1 + 4);
        // A certificate of more than 16 KiB takes a second record.
        let long = Parts::new("MLKEM768", "ML-DSA-65", Mode::Server, &[16_384]).unwrap();
        assert_eq!(long.records, 3 + 4 + 3);
        assert_eq!(Parts::new("MLKEM768", "DILITHIUM", Mode::Server, &[1]), None);
    }
}
