//! The Rust structs are laid out as the C compiler lays out those of mp.h.

use std::mem::{offset_of, size_of};

use mp_controllers::{Ack, Connection, Subflow};

#[test]
fn structs_match_the_c_layout() {
    extern "C" {
        static mp_layout: [usize; 32];
    }
    let expected = [
        size_of::<Connection>(),
        size_of::<Subflow>(),
        size_of::<Ack>(),
        offset_of!(Connection, subflows),
        offset_of!(Subflow, owner),
        offset_of!(Subflow, mss),
        offset_of!(Subflow, rtt_us),
        offset_of!(Subflow, srtt_us),
        offset_of!(Subflow, min_rtt_us),
        offset_of!(Subflow, queue_owd_us),
        offset_of!(Subflow, delivered),
        offset_of!(Subflow, lost),
        offset_of!(Subflow, backup),
        offset_of!(Subflow, in_flight),
        offset_of!(Subflow, ce),
        offset_of!(Subflow, phase),
        offset_of!(Subflow, app_limited),
        offset_of!(Subflow, unsacked),
        offset_of!(Subflow, data_una),
        offset_of!(Subflow, data_next),
        offset_of!(Subflow, data_end),
        offset_of!(Subflow, data_window),
        offset_of!(Subflow, cwnd),
        offset_of!(Subflow, ssthresh),
        offset_of!(Subflow, cwnd_fraction),
        offset_of!(Subflow, prior_cwnd),
        offset_of!(Subflow, pacing_rate),
        offset_of!(Subflow, state),
        offset_of!(Ack, now_us),
        offset_of!(Ack, acked),
        offset_of!(Ack, is_cwnd_limited),
        offset_of!(Ack, max_packets_out),
    ];
    // SAFETY: a constant of native.c with as many entries.
    assert_eq!(unsafe { mp_layout }, expected);
}
