//! What observes this host's connections and acts on them, for the daemon, the testbed and `multipilot run`.
//!
//! | module | observes or changes | by |
//! | --- | --- | --- |
//! | [`links`] | interfaces and their addresses | rtnetlink |
//! | [`sampler`] | what connections do on each path | sock_diag (`tcp_info`, `mptcp_info`), by [`mp_kernel::diag`] |
//! | [`radio`] | signals and rates of interfaces | nl80211, ModemManager, sysfs, a file |
//! | [`probe`] | echo requests over a path | ICMP sockets |
//! | [`events`] | connections that begin and end | generic netlink `mptcp_pm` |
//! | [`endpoints`] | endpoints, limits and the default congestion controller | generic netlink `mptcp_pm`, sysctl |
//! | [`userspace`] | the subflows of single connections | generic netlink `mptcp_pm` |
//! | [`initial_path`] | the interface that connections start on | BPF, by [`mp_kernel::initial_path`] |
//!
//! [`adapter`] is between these and a path manager of [`mp_policy`], which decides. Nothing here has a configuration file, a
//! control socket or a life cycle: whoever runs it has those.

#![forbid(unsafe_code)]

pub mod adapter;
pub mod claim;
pub mod endpoints;
mod error;
pub mod events;
pub mod initial_path;
pub mod links;
mod path_settings;
pub mod probe;
pub mod radio;
pub mod sampler;
pub mod userspace;

pub use error::Error;
pub use path_settings::{Glob, InterfaceRule, PathSettings};
