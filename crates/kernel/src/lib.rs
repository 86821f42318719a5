//! MPTCP and eBPF of the running kernel: what this machine can do ([`check`]), congestion controllers ([`controller`]) and the
//! networks that steer some ([`agent`]), who uses them ([`choose`]), which plain TCP sockets they couple ([`groups`]), MPTCP for unmodified programs ([`mptcpify`], [`preload`]),
//! which path connections start on ([`initial_path`]), what subflows do ([`mptcp_info`], [`diag`]), which exist ([`pm`], over [`netlink`]) and which
//! connections have none ([`fallback`]); TUN devices ([`tun`]), and connections that a listener takes for their target ([`transparent`]),
//! sockets that routing rules tell by a mark ([`mark`]); the allocator ([`memory`]).

pub mod agent;
pub mod cgroup;
pub mod check;
pub mod child;
pub mod choose;
pub mod controller;
pub mod diag;
pub mod fallback;
pub mod groups;
pub mod host;
pub mod initial_path;
pub mod interfaces;
pub mod mark;
pub mod memory;
pub mod mptcp_info;
pub mod mptcpify;
pub mod netlink;
pub mod pm;
pub mod preload;
pub mod transparent;
pub mod tun;

mod error;
#[cfg(test)]
mod layout;
mod mounts;
mod object;
mod prefix;
mod state;

pub use error::Error;
pub use object::{Call, CallLog, Shared};

pub type Result<T> = std::result::Result<T, Error>;
