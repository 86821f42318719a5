//! The daemon on a device whose links, clocks and neighbours misbehave, without the emulator. These tests need root and
//! MPTCP; with CI=true they fail where there is neither.

mod bad_days;
#[path = "../common/ca.rs"]
mod ca;
#[path = "../common/mod.rs"]
mod common;
mod controller;
mod fallback;
#[path = "../common/foreign.rs"]
mod foreign;
mod hosts;
mod initial_path;
mod mptcpify;
#[path = "../common/namespace.rs"]
mod namespace;
mod sessions;

mod taken;
mod transfers;
mod up;
mod userspace;
