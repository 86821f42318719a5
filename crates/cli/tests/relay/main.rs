//! A device with two links, a relay, and servers behind it, in network namespaces. These tests need root; with CI=true they
//! fail where there is none.

mod away;
mod bad_days;
mod capture;
mod clients;
#[path = "../common/mod.rs"]
mod common;
mod coupling;
mod datagrams;
mod hosts;
#[path = "../common/namespace.rs"]
mod namespace;
mod ping;
mod probe;
mod program;
mod resolver;
mod router;
mod rules;
#[path = "../common/small.rs"]
mod small;
mod strangers;
mod traffic;
mod trial;

use common::multipilot;
