//! What was done to an endpoint.

use std::fmt;
use std::net::IpAddr;

/// One change of one endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndpointChange {
    pub address: IpAddr,
    pub what: What,
}

/// Kinds of changes, of endpoints and of subflows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    Added,
    /// Removed a while ago, and added again.
    AddedAgain,
    Removed,
    SetToBackup,
    SetToNormal,
    /// In backup state already; the peer was told again.
    BackupRepeated,
    /// In normal state already; the peer was told again.
    NormalRepeated,
    /// Somebody else's, removed from an untrusted interface until the daemon ends.
    TakenAway,
    GivenBack,
}

impl EndpointChange {
    pub(super) fn new(address: IpAddr, what: What) -> EndpointChange {
        EndpointChange { address, what }
    }
}

/// As the log says it.
impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            What::Added => "used",
            What::AddedAgain => "opened again",
            What::Removed => "no longer used",
            What::SetToBackup => "set to backup",
            What::SetToNormal => "set to normal",
            What::BackupRepeated => "in backup, told again",
            What::NormalRepeated => "normal, told again",
            What::TakenAway => "taken away until down",
            What::GivenBack => "given back",
        })
    }
}
