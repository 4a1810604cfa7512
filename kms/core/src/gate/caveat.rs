//! Caveats: the restrictions of a token.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use super::action::Actions;
use crate::clock::parse_ms;
use crate::error::Error;
use crate::model::{Label, NAME_MAX};
use crate::text::{hex, of_hex};

/// A restriction of a token. The list is closed. Caveats only remove permissions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Caveat {
    /// The token expires at this time, in milliseconds since 1970.
    Expires(u64),
    /// The token is limited to one tenant.
    Tenant(Label),
    /// The token is limited to keys with this name prefix. Requests that concern no key are denied.
    KeyPrefix(String),
    /// The token is limited to these actions.
    Actions(Actions),
    /// The token is limited to clients in this network.
    Cidr(Cidr),
    /// The token is bound to a client certificate with this SHA-256 (RFC 8705, `x5t#S256`).
    Cnf([u8; 32]),
    /// The maximum number of items of a request.
    BatchMax(u32),
}

/// A network prefix, such as `10.0.0.0/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    address: IpAddr,
    bits: u8,
}

const EXPIRES: u8 = 1;
const TENANT: u8 = 2;
const KEY_PREFIX: u8 = 3;
const ACTIONS: u8 = 4;
const CIDR: u8 = 5;
const CNF: u8 = 6;
const BATCH_MAX: u8 = 7;

impl Caveat {
    /// Creates a caveat for a prefix of key names.
    ///
    /// # Errors
    /// A text that no key name begins with.
    pub fn key_prefix(text: &str) -> Result<Self, Error> {
        // A name may not end with `-` or `.`, but a prefix may.
        let begins = |text: &str| Label::new("key", &format!("{text}x")).is_ok();
        match !text.is_empty() && text.len() < NAME_MAX && begins(text) {
            true => Ok(Caveat::KeyPrefix(text.to_owned())),
            false => Err(Error::Parameter(
                "invalid key prefix: no key name can begin like that".to_owned(),
            )),
        }
    }

    /// Encodes the caveat: kind, two-byte length, value.
    pub(super) fn encode(&self) -> Vec<u8> {
        let (kind, value) = match self {
            Caveat::Expires(ms) => (EXPIRES, ms.to_be_bytes().to_vec()),
            Caveat::Tenant(tenant) => (TENANT, tenant.as_str().as_bytes().to_vec()),
            Caveat::KeyPrefix(prefix) => (KEY_PREFIX, prefix.as_bytes().to_vec()),
            Caveat::Actions(actions) => (ACTIONS, actions.bits().to_be_bytes().to_vec()),
            Caveat::Cidr(cidr) => (CIDR, cidr.encode()),
            Caveat::Cnf(digest) => (CNF, digest.to_vec()),
            Caveat::BatchMax(most) => (BATCH_MAX, most.to_be_bytes().to_vec()),
        };
        let mut bytes = vec![kind];
        // No value is longer than a name or a digest.
        bytes.extend_from_slice(&(value.len() as u16).to_be_bytes());
        bytes.extend_from_slice(&value);
        bytes
    }

    /// Decodes the first caveat in `rest` and advances it; `None` if the caveat is unknown or
    /// malformed.
    pub(super) fn decode(rest: &mut &[u8]) -> Option<Self> {
        let (&[kind, high, low], after) = rest.split_first_chunk::<3>()?;
        let len = usize::from(u16::from_be_bytes([high, low]));
        let (value, after) = after.split_at_checked(len)?;
        *rest = after;
        let text = || std::str::from_utf8(value).ok();
        Some(match kind {
            EXPIRES => Caveat::Expires(u64::from_be_bytes(value.try_into().ok()?)),
            TENANT => Caveat::Tenant(Label::new("tenant", text()?).ok()?),
            KEY_PREFIX => Caveat::key_prefix(text()?).ok()?,
            ACTIONS => {
                Caveat::Actions(Actions::of_bits(u64::from_be_bytes(value.try_into().ok()?))?)
            }
            CIDR => Caveat::Cidr(Cidr::decode(value)?),
            CNF => Caveat::Cnf(value.try_into().ok()?),
            BATCH_MAX => Caveat::BatchMax(u32::from_be_bytes(value.try_into().ok()?)),
            _ => return None,
        })
    }
}

impl fmt::Display for Caveat {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Caveat::Expires(ms) => write!(out, "expires={ms}"),
            Caveat::Tenant(tenant) => write!(out, "tenant={tenant}"),
            Caveat::KeyPrefix(prefix) => write!(out, "key_prefix={prefix}"),
            Caveat::Actions(actions) => write!(out, "actions={actions}"),
            Caveat::Cidr(cidr) => write!(out, "cidr={cidr}"),
            Caveat::Cnf(digest) => write!(out, "cnf={}", hex(digest)),
            Caveat::BatchMax(most) => write!(out, "batch_max={most}"),
        }
    }
}

impl FromStr for Caveat {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let refused = || {
            let text: String = text.chars().take(80).collect();
            Error::Parameter(format!(
                "`{text}` is no caveat; expected expires=TIME (RFC 3339, or milliseconds since 1970), tenant=NAME, key_prefix=TEXT, actions=A,B, cidr=NET/BITS, \
                 cnf=SHA256 or batch_max=N"
            ))
        };
        let (kind, value) = text.split_once('=').ok_or_else(refused)?;
        match kind {
            "expires" => parse_ms(value).map(Caveat::Expires).ok_or_else(refused),
            "tenant" => Label::new("tenant", value).map(Caveat::Tenant),
            "key_prefix" => Caveat::key_prefix(value),
            "actions" => value.parse().map(Caveat::Actions),
            "cidr" => value.parse().map(Caveat::Cidr),
            "cnf" => of_hex(value).map(Caveat::Cnf).ok_or_else(refused),
            "batch_max" => value.parse().map(Caveat::BatchMax).map_err(|_| refused()),
            _ => Err(refused()),
        }
    }
}

impl Cidr {
    /// Creates a network prefix. The bits after the prefix have to be zero.
    ///
    /// # Errors
    /// A prefix longer than the address; bits after the prefix that are set.
    pub fn new(address: IpAddr, bits: u8) -> Result<Self, Error> {
        match Self::of(address, bits) {
            Some(cidr) => Ok(cidr),
            None => Err(Error::Parameter(format!(
                "invalid network `{address}/{bits}`: the prefix is too long, or bits after it are set"
            ))),
        }
    }

    fn of(address: IpAddr, bits: u8) -> Option<Self> {
        let (value, width) = number(address);
        let is_network = u32::from(bits) <= width && value == first(value, bits);
        // IPv4-mapped IPv6 addresses are compared as IPv4 addresses.
        (is_network && address.to_canonical() == address).then_some(Cidr { address, bits })
    }

    /// Returns whether the network contains an address.
    pub fn contains(&self, address: IpAddr) -> bool {
        let ((of, width), (value, other)) = (number(self.address), number(address.to_canonical()));
        width == other && first(value, self.bits) == of
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![self.bits];
        match self.address {
            IpAddr::V4(address) => bytes.extend_from_slice(&address.octets()),
            IpAddr::V6(address) => bytes.extend_from_slice(&address.octets()),
        }
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let (&bits, address) = bytes.split_first()?;
        let v4 = <[u8; 4]>::try_from(address).ok().map(IpAddr::from);
        let v6 = <[u8; 16]>::try_from(address).ok().map(IpAddr::from);
        Self::of(v4.or(v6)?, bits)
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.address, self.bits)
    }
}

impl FromStr for Cidr {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let parts = || {
            let (address, bits) = text.split_once('/')?;
            Some((address.parse().ok()?, bits.parse().ok()?))
        };
        let (address, bits) = parts().ok_or_else(|| {
            let text: String = text.chars().take(60).collect();
            Error::Parameter(format!(
                "invalid network `{text}`; expected a prefix such as 10.0.0.0/8 or ::1/128"
            ))
        })?;
        Self::new(address, bits)
    }
}

/// Returns an address as a left-aligned number, and its length in bits.
fn number(address: IpAddr) -> (u128, u32) {
    match address {
        IpAddr::V4(address) => (u128::from(address.to_bits()) << 96, 32),
        IpAddr::V6(address) => (address.to_bits(), 128),
    }
}

/// Returns the number with all but its highest `bits` bits cleared.
fn first(value: u128, bits: u8) -> u128 {
    match u32::from(bits) {
        0 => 0,
        bits => value & u128::MAX << 128u32.saturating_sub(bits),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caveat_is_written_and_read() {
        let digest = "cnf=".to_owned() + &"0a".repeat(32);
        for text in [
            "expires=1790000000000",
            "tenant=default",
            "key_prefix=web-",
            "actions=sign,verify",
            "cidr=10.0.0.0/8",
            "cidr=0.0.0.0/0",
            "cidr=2001:db8::/32",
            "batch_max=64",
            &digest,
        ] {
            let caveat: Caveat = text.parse().unwrap();
            assert_eq!(caveat.to_string(), text);
            let bytes = caveat.encode();
            assert_eq!(Caveat::decode(&mut &bytes[..]), Some(caveat));
            for place in 0..bytes.len() {
                assert_eq!(Caveat::decode(&mut &bytes[..place]), None, "{text} {place}");
            }
        }
        let date = "expires=2026-09-21T16:13:20+02:00".parse::<Caveat>();
        assert_eq!(date.unwrap(), Caveat::Expires(1_790_000_000_000));
        for bad in [
            "",
            "expires=2026-09-21",
            "expires",
            "expires=x",
            "tenant=",
            "tenant=a/b",
            "key_prefix=",
            "key_prefix=-a",
            "actions=fly",
            "cidr=10.0.0.1/8",
            "cidr=10.0.0.0/33",
            "cidr=::ffff:10.0.0.0/104",
            "cnf=0a",
            "batch_max=-1",
            "colour=red",
        ] {
            assert!(bad.parse::<Caveat>().is_err(), "{bad}");
        }
        let unknown = [200, 0, 1, 7];
        assert_eq!(Caveat::decode(&mut &unknown[..]), None);
    }

    #[test]
    fn a_network_contains_its_addresses() {
        let is_in = |net: &str, address: &str| {
            net.parse::<Cidr>().unwrap().contains(address.parse().unwrap())
        };
        assert!(is_in("10.0.0.0/8", "10.255.0.1") && !is_in("10.0.0.0/8", "11.0.0.0"));
        assert!(
            is_in("10.0.0.0/8", "::ffff:10.1.2.3"),
            "the same, as a socket of version 6 has it"
        );
        assert!(!is_in("0.0.0.0/0", "::1") && is_in("::/0", "::1") && !is_in("::/0", "10.0.0.1"));
        assert!(is_in("192.0.2.7/32", "192.0.2.7") && !is_in("192.0.2.7/32", "192.0.2.6"));
        assert!(is_in("2001:db8::/127", "2001:db8::1") && !is_in("2001:db8::/127", "2001:db8::2"));
    }
}
