//! The initial path, learnt by a bandit: for one program (`multipilot run`) or for this host (the daemon).

mod learner;
mod remote;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use mp_kernel::initial_path::{Choices, Prefix};
use serde::{Deserialize, Serialize};

pub use learner::{Host, Learner};
pub use remote::Remote;

/// What the next connection will start on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Offer {
    /// `None`: as the routing table has it.
    pub interface: Option<String>,
    /// `server`, `device` or `stock`.
    pub by: String,
    /// For people.
    pub why: String,
    /// Choices so far, this one included.
    pub decisions: u64,
    /// Connections from whose end something was learnt.
    pub outcomes: u64,
    /// Events of connections that were lost: nothing was learnt from those.
    #[serde(default)]
    pub events_lost: u64,
}

/// Destinations that the routing table alone decides about.
const NEAR: [Prefix; 5] = [
    prefix(IpAddr::V4(Ipv4Addr::LOCALHOST), 8),
    prefix(IpAddr::V4(Ipv4Addr::new(169, 254, 0, 0)), 16),
    prefix(IpAddr::V6(Ipv6Addr::LOCALHOST), 128),
    prefix(IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0)), 10),
    prefix(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 32),
];

const fn prefix(address: IpAddr, bits: u8) -> Prefix {
    Prefix { address, bits }
}

/// These destinations, and those that only this host or its neighbours have, stay the routing table's.
pub fn exempt_near(
    choices: &Choices,
    near: impl IntoIterator<Item = Prefix>,
) -> Result<(), mp_kernel::Error> {
    let mut all = NEAR.into_iter().chain(near);
    all.try_for_each(|prefix| choices.exempt(prefix))
}
