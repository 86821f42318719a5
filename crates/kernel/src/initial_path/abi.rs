//! The structs of `controllers/bpf/initial_path.bpf.c` in Rust; the test compares their layouts.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// `struct mp_prefix`. IPv4 as ::ffff:a.b.c.d, here as everywhere.
#[derive(Debug, Clone, Copy, IntoBytes, Immutable)]
#[repr(C)]
pub struct Prefix {
    /// Bits, 0 to 128.
    pub length: u32,
    pub address: [u8; 16],
}

/// `struct mp_choice`
#[derive(Debug, Clone, Copy, IntoBytes, Immutable)]
#[repr(C)]
pub struct Choice {
    /// CLOCK_MONOTONIC; 0: never.
    pub expires_ns: u64,
    pub tag: u64,
    /// Index; 0: none.
    pub interface: u32,
    pub has_v4: u32,
    pub has_v6: u32,
    /// In network order, as the next field.
    pub v4: [u8; 4],
    pub v6: [u8; 16],
}

/// `struct mp_event`
#[derive(Debug, Clone, Copy, FromBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Event {
    pub time_ns: u64,
    pub netns_cookie: u64,
    pub socket: u64,
    pub tag: u64,
    pub bytes_acked: u64,
    pub bytes_received: u64,
    pub token: u32,
    pub srtt_us: u32,
    pub min_rtt_us: u32,
    pub local_port: u16,
    pub remote_port: u16,
    /// `enum mp_what`
    pub what: u8,
    /// `enum mp_start`
    pub start: u8,
    pub join: u8,
    pub unused: [u8; 5],
    pub local: [u8; 16],
    pub remote: [u8; 16],
}

#[cfg(test)]
#[test]
fn structs_match_the_layout_in_c() {
    use crate::layout::{assert_matches, layout_of};
    assert_matches(
        &["initial_path.bpf.c"],
        &[
            ("mp_prefix", layout_of!(Prefix: length, address)),
            (
                "mp_choice",
                layout_of!(Choice: expires_ns, tag, interface, has_v4, has_v6, v4, v6),
            ),
            (
                "mp_event",
                layout_of!(
                    Event: time_ns, netns_cookie, socket, tag, bytes_acked, bytes_received, token, srtt_us,
                    min_rtt_us, local_port, remote_port, what, start, join, unused, local, remote
                ),
            ),
        ],
    );
}
