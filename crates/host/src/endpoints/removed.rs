//! Endpoints that were deleted a moment ago.
//!
//! Until the peer knows ([`removal::rest_us`]) they rest.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use mp_kernel::diag::Subflow;
use mp_kernel::pm::Endpoint;
use mp_policy::path_manager::removal;

use super::standing;

#[derive(Debug, Default)]
pub struct Removed(Vec<Entry>);

#[derive(Debug)]
struct Entry {
    endpoint: Endpoint,
    again: bool,
    until: Instant,
}

impl Removed {
    /// `again`: to be added once it has rested.
    pub fn note(&mut self, endpoint: Endpoint, again: bool, subflows: &[Subflow]) {
        let rest_us = removal::rest_us(endpoint.address, &standing(subflows));
        let until = Instant::now() + Duration::from_micros(rest_us.into());
        self.0.retain(|e| e.endpoint.address != endpoint.address);
        self.0.push(Entry {
            endpoint,
            again,
            until,
        });
    }

    pub fn rests(&self, address: IpAddr) -> bool {
        let now = Instant::now();
        let resting = |e: &Entry| e.endpoint.address == address && e.until > now;
        self.0.iter().any(resting)
    }

    /// One has rested.
    pub fn is_due(&self) -> bool {
        let now = Instant::now();
        self.0.iter().any(|e| e.until <= now)
    }

    /// Those that have rested and are to be added again.
    pub fn rested(&mut self) -> Vec<Endpoint> {
        let now = Instant::now();
        let rested = self.0.extract_if(.., |e| e.until <= now);
        rested.filter(|e| e.again).map(|e| e.endpoint).collect()
    }

    pub fn again(&self) -> impl Iterator<Item = &Endpoint> {
        self.0.iter().filter(|e| e.again).map(|e| &e.endpoint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mp_kernel::pm::Flags;

    use super::super::tests::address;

    fn subflow(host: u8, rto_ms: u32) -> Subflow {
        let mut subflow = super::super::tests::subflow(7, host);
        subflow.tcp.rto = rto_ms * 1000;
        subflow
    }

    #[test]
    fn what_has_rested_comes_once() {
        let endpoint = |host| Endpoint::new(address(host), Flags::SUBFLOW);
        let mut removed = Removed::default();
        removed.note(endpoint(1), true, &[]);
        removed.note(endpoint(2), false, &[subflow(1, 60_000)]);
        assert!(!removed.rests(endpoint(1).address) && removed.rests(endpoint(2).address));
        assert!(removed.is_due());
        assert_eq!(removed.rested(), [endpoint(1)]);
        assert!(!removed.is_due() && removed.rested().is_empty());
        assert_eq!(removed.again().count(), 0);
        // Deleted once more: from now on.
        removed.note(endpoint(2), true, &[]);
        assert!(!removed.rests(endpoint(2).address));
        assert_eq!(removed.again().collect::<Vec<_>>(), [&endpoint(2)]);
    }
}
