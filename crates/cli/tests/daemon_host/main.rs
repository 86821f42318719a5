//! The daemon on a device whose links, clocks and neighbours misbehave, without the emulator. These tests need root and
//! MPTCP; with CI=true they fail where there is neither.

mod bad_days;
mod hosts;
mod starts;
mod transfers;
mod userspace;
