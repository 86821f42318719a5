//! What was done to an endpoint.

use std::fmt;
use std::net::IpAddr;

/// One change of one endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndpointChange {
    pub address: IpAddr,
    pub kind: ChangeKind,
}

/// Kinds of changes, of endpoints and of subflows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
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
    pub(super) fn new(address: IpAddr, kind: ChangeKind) -> EndpointChange {
        EndpointChange { address, kind }
    }
}

/// As the log says it.
impl fmt::Display for ChangeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ChangeKind::Added => "used",
            ChangeKind::AddedAgain => "opened again",
            ChangeKind::Removed => "no longer used",
            ChangeKind::SetToBackup => "set to backup",
            ChangeKind::SetToNormal => "set to normal",
            ChangeKind::BackupRepeated => "in backup, told again",
            ChangeKind::NormalRepeated => "normal, told again",
            ChangeKind::TakenAway => "taken away until down",
            ChangeKind::GivenBack => "given back",
        })
    }
}
