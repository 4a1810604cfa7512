//! The limit of connections per address.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The length of an IPv6 prefix that belongs to one network: its holder can use every address in
/// it.
const NETWORK_BITS: u32 = 64;

/// Limits the connections of each IPv4 address and each IPv6 /64 prefix.
pub struct ConnectionLimits {
    most: usize,
    taken: Mutex<HashMap<IpAddr, usize>>,
}

/// Permission for one connection, until it is dropped.
pub struct ConnectionPermit {
    of: Arc<ConnectionLimits>,
    address: IpAddr,
}

impl ConnectionLimits {
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(ConnectionLimits { most, taken: Mutex::default() })
    }

    /// Returns a permit, or `None` if the address has reached its limit.
    pub fn take(self: &Arc<Self>, address: IpAddr) -> Option<ConnectionPermit> {
        let address = network(address);
        let mut taken = self.taken();
        let count = taken.entry(address).or_insert(0);
        (*count < self.most).then(|| {
            *count += 1;
            ConnectionPermit { of: self.clone(), address }
        })
    }

    fn taken(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        let mut taken = self.of.taken();
        if let Some(count) = taken.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                taken.remove(&self.address);
            }
        }
    }
}

/// Returns the /64 prefix of an IPv6 address, or the IPv4 address itself.
pub fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            Ipv6Addr::from_bits(address.to_bits() >> NETWORK_BITS << NETWORK_BITS).into()
        }
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_limited_per_address() {
        let limits = ConnectionLimits::new(2);
        let take = |text: &str| limits.take(text.parse().unwrap());
        let first = take("10.0.0.1");
        let second = take("::ffff:10.0.0.1");
        assert!(first.is_some() && second.is_some() && take("10.0.0.1").is_none());
        assert!(take("10.0.0.2").is_some());
        drop(first);
        assert!(take("10.0.0.1").is_some());
        // Both are in one network.
        let both = [take("2001:db8::1"), take("2001:db8::2:3")];
        assert!(both.iter().all(Option::is_some) && take("2001:db8::9").is_none());
        assert!(take("2001:db8:0:1::1").is_some());
        drop((second, both));
        assert!(limits.taken().is_empty());
    }
}
