//! The capabilities that the provider reports to libssl: TLS groups and signature schemes, from the
//! table of algorithms.

use std::ffi::{CStr, CString, c_int, c_uint, c_void};

use gabion_engine::{AlgorithmInfo, Family, Kind};

use crate::error::Failure;
use crate::ffi::{Callback, Param};
use crate::key_types::{KEY_TYPES, KeyType};
use crate::provider::Provider;

/// TLS 1.3 and whatever comes after it (0: no highest version); never DTLS.
const TLS_MIN: c_int = 0x0304;
const TLS_MAX: c_int = 0;
const DTLS_NEVER: c_int = -1;
/// Where X25519 may be used, as the default provider says: from TLS 1.0 on, and in DTLS.
const TLS_1_0: c_int = 0x0301;
const DTLS_1_0: c_int = 0xfeff;

/// The optional rows to report.
#[derive(Clone, Copy)]
pub struct CapabilityFilter {
    /// The signature schemes without a settled codepoint, too.
    pub drafts: bool,
    /// The group of X25519 by itself. libssl takes a group from the provider only that serves its
    /// keys, and drops the entries of others.
    pub x25519: bool,
}

impl CapabilityFilter {
    /// Returns the capabilities that a provider is configured to report.
    pub fn of(provider: &Provider) -> Self {
        CapabilityFilter { drafts: provider.tls_drafts, x25519: provider.x25519 }
    }

    fn has(self, info: &AlgorithmInfo) -> bool {
        match info.kind {
            Kind::KeyExchange => self.x25519,
            Kind::Kem | Kind::Signature => self.drafts || !is_draft_scheme(info),
        }
    }
}

/// Reports the entries of a capability. Returns 1 even without entries: on 0, libssl fails to make
/// a context.
///
/// # Errors
/// A text of the table that is not a C string.
pub fn report(
    name: &CStr,
    offers: CapabilityFilter,
    callback: Callback,
    argument: *mut c_void,
) -> Result<c_int, Failure> {
    let is = |wanted: &str| name.to_bytes().eq_ignore_ascii_case(wanted.as_bytes());
    let groups = match () {
        () if is("TLS-GROUP") => true,
        () if is("TLS-SIGALG") => false,
        () => return Ok(1),
    };
    let rows = KEY_TYPES
        .into_iter()
        .filter(|key_type| key_type.is_built() && key_type.hash.is_none())
        .map(KeyType::info);
    let is_asked = |info: &&AlgorithmInfo| (info.kind != Kind::Signature) == groups;
    for info in rows.filter(|info| is_asked(info) && offers.has(info)) {
        let going_on = match groups {
            true => report_group(info, callback, argument),
            false => report_scheme(info, callback, argument),
        }?;
        if going_on == 0 {
            return Ok(0);
        }
    }
    Ok(1)
}

/// Returns whether TLS has no settled codepoint for a signature algorithm. The codepoints of
/// SLH-DSA are from draft-reddy-tls-slhdsa, those of Falcon are private to Open Quantum Safe and
/// wolfSSL. libssl offers every reported scheme, so these would lengthen every ClientHello.
fn is_draft_scheme(info: &AlgorithmInfo) -> bool {
    info.kind == Kind::Signature && info.family != Family::MlDsa
}

fn c_string(text: &str) -> Result<CString, Failure> {
    CString::new(text).map_err(|_| Failure::Misuse("a name in the table holds a zero byte"))
}

/// Reports a group under each of its names: libssl takes several entries of one number.
fn report_group(
    info: &AlgorithmInfo,
    callback: Callback,
    argument: *mut c_void,
) -> Result<c_int, Failure> {
    // An algorithm that TLS does not know is passed over.
    let Some(tls) = info.tls else { return Ok(1) };
    // Groups of the default provider have its names. A private group has the name of its users, and
    // an old codepoint has the name that belongs to it.
    let other = info.oqs.filter(|oqs| info.openssl.is_empty() && *oqs != tls.name);
    let before = info.tls_before.map(|before| (before.name, before.number));
    let other = before.or(other.map(|name| (name, tls.number)));
    for (name, number) in [Some((tls.name, tls.number)), other].into_iter().flatten() {
        if report_group_name(info, number, name, callback, argument)? == 0 {
            return Ok(0);
        }
    }
    Ok(1)
}

fn report_group_name(
    info: &AlgorithmInfo,
    number: u16,
    name: &str,
    callback: Callback,
    argument: *mut c_void,
) -> Result<c_int, Failure> {
    let (group, algorithm) = (c_string(name)?, c_string(info.name)?);
    let (id, bits) = (c_uint::from(number), c_uint::from(info.security_bits));
    // The default provider's name for the parameter set; each KEM has only one set and needs no
    // name.
    let (internal, is_kem, tls_min, dtls, dtls_max) = match info.kind {
        Kind::Kem => (c"", 1, TLS_MIN, DTLS_NEVER, DTLS_NEVER),
        Kind::KeyExchange | Kind::Signature => {
            (algorithm.as_c_str(), 0, TLS_1_0, DTLS_1_0, TLS_MAX)
        }
    };
    let params = [
        Param::utf8(c"tls-group-name", &group),
        Param::utf8(c"tls-group-name-internal", internal),
        Param::utf8(c"tls-group-alg", &algorithm),
        Param::uint(c"tls-group-id", &id),
        Param::uint(c"tls-group-sec-bits", &bits),
        Param::uint(c"tls-group-is-kem", &is_kem),
        Param::int(c"tls-min-tls", &tls_min),
        Param::int(c"tls-max-tls", &TLS_MAX),
        Param::int(c"tls-min-dtls", &dtls),
        Param::int(c"tls-max-dtls", &dtls_max),
        Param::END,
    ];
    // SAFETY: the core's callback; the list is terminated, and the data it points to outlives the
    // call.
    Ok(unsafe { callback(params.as_ptr(), argument) })
}

/// Without these entries libssl drops the schemes, since the keys come from this provider.
fn report_scheme(
    info: &AlgorithmInfo,
    callback: Callback,
    argument: *mut c_void,
) -> Result<c_int, Failure> {
    let (Some(tls), Some(oid)) = (info.tls, info.oid) else { return Ok(1) };
    let (iana, algorithm, oid) = (c_string(tls.name)?, c_string(info.name)?, c_string(oid)?);
    let (id, bits) = (c_uint::from(tls.number), c_uint::from(info.security_bits));
    let params = [
        Param::utf8(c"tls-sigalg-iana-name", &iana),
        Param::utf8(c"tls-sigalg-name", &algorithm),
        Param::utf8(c"tls-sigalg-oid", &oid),
        Param::uint(c"tls-sigalg-code-point", &id),
        Param::uint(c"tls-sigalg-sec-bits", &bits),
        Param::int(c"tls-min-tls", &TLS_MIN),
        Param::int(c"tls-max-tls", &TLS_MAX),
        Param::int(c"tls-min-dtls", &DTLS_NEVER),
        Param::int(c"tls-max-dtls", &DTLS_NEVER),
        Param::END,
    ];
    // SAFETY: the core's callback; the list is terminated, and the data it points to outlives the
    // call.
    Ok(unsafe { callback(params.as_ptr(), argument) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ffi::ParamsIn;

    /// Counts its calls in `argument`, and stops at the second.
    unsafe extern "C" fn count(params: *const Param, argument: *mut c_void) -> c_int {
        // SAFETY: the caller passes a list with an end and a counter.
        unsafe {
            let least = ParamsIn::new(params).int(c"tls-min-tls");
            assert!([Ok(Some(0x0304)), Ok(Some(0x0301))].contains(&least));
            *argument.cast::<c_int>() += 1;
            c_int::from(*argument.cast::<c_int>() != 2)
        }
    }

    #[test]
    fn a_capability_without_entries_is_no_failure() {
        let mut calls: c_int = 10;
        let mut ask = |name, drafts, x25519| {
            let (before, offers) = (calls, CapabilityFilter { drafts, x25519 });
            let answer = report(name, offers, count, std::ptr::from_mut(&mut calls).cast());
            (answer, calls - before)
        };
        // Three ML-KEM, four registered hybrids, a registered one that was private, and two private
        // ones by two names each.
        assert_eq!(ask(c"TLS-GROUP", false, false), (Ok(1), 13));
        // And X25519.
        assert_eq!(ask(c"TLS-GROUP", true, true), (Ok(1), 14));
        assert_eq!(ask(c"tls-sigalg", false, true), (Ok(1), 3));
        // And twelve SLH-DSA, four Falcon.
        assert_eq!(ask(c"tls-sigalg", true, false), (Ok(1), 19));
        assert_eq!(ask(c"SOMETHING-NEW", true, true), (Ok(1), 0));
        calls = 0;
        let offers = CapabilityFilter { drafts: false, x25519: false };
        let answer = report(c"TLS-GROUP", offers, count, std::ptr::from_mut(&mut calls).cast());
        assert_eq!((answer, calls), (Ok(0), 2), "a callback that stops is heard");
    }
}
