//! Connections that asked for MPTCP and are plain TCP, for people.

use mp_kernel::fallback::Counts;

/// How many are what, and what to do about it.
pub fn summary(counts: Counts) -> String {
    let mptcp = counts.mptcp;
    match counts.fell_back() {
        0 => format!("{mptcp} MPTCP, 0 fell back to TCP"),
        fell_back => format!(
            "{mptcp} MPTCP, {fell_back} fell back to TCP ({}); multipilot run --relay takes all links to any server",
            counts.reasons()
        ),
    }
}
