//! A device with two links, a relay, and servers behind it, in network namespaces. These tests need root; with CI=true they
//! fail where there is none.

mod capture;
#[path = "../common/mod.rs"]
mod common;
mod datagrams;
mod hosts;
#[path = "../common/namespace.rs"]
mod namespace;
mod probe;
mod program;
mod rules;
mod strangers;
mod traffic;
mod trial;

use common::multipilot;
