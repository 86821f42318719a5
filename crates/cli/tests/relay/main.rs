//! A device with two links, a relay, and servers behind it, in network namespaces. These tests need root; with CI=true they
//! fail where there is none.

mod away;
mod bad_days;
mod bypass;
#[path = "../common/ca.rs"]
mod ca;
mod capture;
mod clients;
#[path = "../common/mod.rs"]
mod common;
mod coupling;
mod datagrams;
mod firewall;
mod held;
mod hosts;
mod leak;
mod middlebox;
mod moves;
mod mptcp;
#[path = "../common/namespace.rs"]
mod namespace;
mod narrow;
mod nat;
mod ping;
mod priorities;
mod probe;
mod program;
mod resolved;
mod resolver;
mod router;
mod rules;
mod several;
#[path = "../common/small.rs"]
mod small;
mod strangers;
mod successor;
mod traffic;
mod trial;

use common::multipilot;
