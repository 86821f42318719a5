use mp_policy::path_manager::{Received, Sent};

use super::*;

fn subflow(token: u32, host: u8, tcp: TcpInfo) -> Subflow {
    Subflow {
        token,
        cookie: u64::from(token) << 8 | u64::from(host),
        local: ([10, 0, 0, host], 1).into(),
        remote: ([10, 9, 9, 9], 80).into(),
        backup: false,
        tcp,
        stream: None,
    }
}

fn poll(sampler: &mut Sampler, now_us: u64, subflows: Vec<Subflow>) {
    let path_of = |ip: IpAddr| match ip {
        IpAddr::V4(v4) => Some(usize::from(v4.octets()[3])),
        IpAddr::V6(_) => None,
    };
    let silent = |activities: &[Activity]| vec![false; activities.len()];
    sampler.poll(now_us, 50_000, subflows, 2, path_of, silent);
}

fn received(bytes: u64, segments: u32, out_of_order: u32) -> TcpInfo {
    TcpInfo {
        bytes_received: bytes,
        data_segs_in: segments,
        rcv_mss: 1000,
        rcv_ooopack: out_of_order,
        rtt: 300_000,
        rcv_rtt: 20_000,
        min_rtt: 10_000,
        ..TcpInfo::default()
    }
}

#[test]
fn the_figures_of_subflows_agree_with_those_of_their_path() {
    let mut sampler = Sampler::default();
    for step in 0..40u64 {
        let grown = received(step * step * 10_000, step as u32, 0);
        let other = received(step * 70_000, step as u32, 0);
        let subflows = vec![
            subflow(1, 0, grown),
            subflow(2, 0, other),
            subflow(3, 1, other),
        ];
        poll(&mut sampler, step * 50_000, subflows);
        for (at, path) in sampler.paths.iter().enumerate() {
            let on = sampler.subflows.iter().filter(|s| s.path == Some(at));
            let sum: f64 = on.clone().map(|s| s.rate).sum();
            assert!((path.rate - sum).abs() < 1e-6 * (1.0 + sum), "{path:?}");
            for subflow in on {
                assert_eq!(Some(subflow.rtt_us), path.counters.srtt_us);
            }
        }
    }
    assert!(sampler.paths[0].rate > 1e6);
}

#[test]
fn what_was_before_the_first_poll_does_not_count() {
    let mut sampler = Sampler::default();
    poll(
        &mut sampler,
        0,
        vec![subflow(1, 0, received(5_000_000, 5_000, 70))],
    );
    let counters = sampler.paths[0].counters;
    assert_eq!((counters.bytes(), counters.packets()), (0, 0));
    assert_eq!(sampler.paths[0].subflows, 1);
}

#[test]
fn a_receiver_counts_what_arrives_and_takes_its_own_rtt_for_stale() {
    let mut sampler = Sampler::default();
    for (i, holes) in [0, 0, 30, 30, 55].into_iter().enumerate() {
        let n = i as u32 * 100;
        poll(
            &mut sampler,
            u64::from(n),
            vec![subflow(1, 0, received(u64::from(n) * 1000, n, holes))],
        );
    }
    let counters = sampler.paths[0].counters;
    let received = Received {
        packets: 400,
        out_of_order: 55,
        bytes: 400_000,
        silent: false,
    };
    assert_eq!(counters.received, Some(received));
    assert_eq!(counters.sent, Some(Sent::default()));
    let rtts = (counters.srtt_us, counters.min_rtt_us);
    assert_eq!(rtts, (Some(20_000), Some(10_000)));
}

#[test]
fn a_sender_counts_retransmissions_less_the_needless() {
    let mut sampler = Sampler::default();
    let sent = |n: u32, retransmitted, needless| TcpInfo {
        bytes_acked: u64::from(n) * 1000,
        data_segs_out: n,
        unacked: n / 10,
        total_retrans: retransmitted,
        dsack_dups: needless,
        rtt: 30_000,
        ..TcpInfo::default()
    };
    poll(&mut sampler, 0, vec![subflow(1, 1, sent(0, 0, 0))]);
    poll(&mut sampler, 1, vec![subflow(1, 1, sent(100, 7, 2))]);
    let counters = sampler.paths[1].counters;
    let sent = Sent {
        packets: 100,
        lost: 5,
        bytes: 100_000,
        in_flight: 10,
    };
    assert_eq!(counters.sent, Some(sent));
    assert_eq!(counters.srtt_us, Some(30_000));
    assert_eq!(sampler.paths[0].counters.srtt_us, None, "no subflow");
}

#[test]
fn what_had_come_before_is_no_new_payload() {
    let mut sampler = Sampler::default();
    let mut arrived = |now_us: u64, tcp: TcpInfo| {
        poll(&mut sampler, now_us, vec![subflow(1, 0, tcp)]);
        sampler.paths[0].counters.bytes()
    };
    arrived(0, received(0, 0, 0));
    assert_eq!(arrived(50_000, received(9_000, 9, 0)), 9_000);
    assert_eq!(arrived(300_000, received(9_000, 10, 0)), 9_000);
    assert_eq!(arrived(550_000, received(10_000, 19, 8)), 18_000);
    assert_eq!(arrived(560_000, received(19_000, 20, 8)), 19_000);
}

#[test]
fn data_that_wait_for_others_have_not_got_to_the_stream() {
    let mut sampler = Sampler::default();
    let mut sample = |n: u32, stream: Option<u64>| {
        let both = [0, 1].map(|host| Subflow {
            stream,
            ..subflow(1, host, received(u64::from(n) * 1000, n, 0))
        });
        poll(&mut sampler, u64::from(n), both.into());
        let payload: u64 = sampler.paths.iter().map(|p| p.received_bytes).sum();
        (payload, sampler.in_order)
    };
    // The sequence number wraps, as it may.
    sample(0, Some(u64::MAX - 99));
    assert_eq!(sample(10, Some(u64::MAX - 99)), (20_000, 0));
    assert_eq!(
        sample(20, Some(39_900)),
        (40_000, 40_000),
        "the hole is full"
    );
    assert_eq!(sample(30, None), (60_000, 60_000), "nobody tells");
    assert_eq!(sample(40, Some(7)), (80_000, 80_000), "not since when");
    assert_eq!(sample(50, Some(1 << 60)), (100_000, 100_000), "set anew");
}

#[test]
fn counters_stay_when_their_subflow_goes() {
    let mut sampler = Sampler::default();
    poll(&mut sampler, 0, vec![subflow(1, 0, received(0, 0, 0))]);
    poll(&mut sampler, 1, vec![subflow(1, 0, received(9_000, 9, 0))]);
    poll(&mut sampler, 2, vec![]);
    assert_eq!(sampler.paths[0].counters.bytes(), 9_000);
    assert_eq!(
        (sampler.paths[0].subflows, sampler.connections.len()),
        (0, 0)
    );
}

#[test]
fn a_connection_is_present_where_it_has_a_subflow_since_it_was_first_seen() {
    let mut sampler = Sampler::default();
    let tcp = received(0, 0, 0);
    poll(&mut sampler, 5, vec![subflow(1, 0, tcp)]);
    let both = vec![subflow(1, 0, tcp), subflow(2, 0, tcp), subflow(2, 1, tcp)];
    poll(&mut sampler, 9, both);
    let on = |path| {
        let mut all: Vec<(u64, bool)> = sampler
            .present_on(path)
            .map(|p| (p.since_us, p.here))
            .collect();
        all.sort_unstable();
        all
    };
    assert_eq!(on(0), [(5, true), (9, true)]);
    assert_eq!(on(1), [(5, false), (9, true)]);
}
