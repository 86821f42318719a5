//! Samples of a real transfer, by a controller of the kernel's own.

mod common;

use std::collections::BTreeMap;
use std::time::Duration;

use common::kernel_ready;
use common::lab::Lab;
use mp_kernel::choose::namespace_cookie;
use mp_kernel::telemetry::{Sample, Telemetry};

#[test]
fn both_subflows_are_sampled_at_the_interval_and_to_their_end() {
    if !kernel_ready() {
        return;
    }
    let lab = Lab::new(Some("20mbit"));
    let cookie = namespace_cookie(lab.a()).unwrap();
    let interval = Duration::from_millis(50);
    let telemetry = Telemetry::start(&[cookie], interval).unwrap();
    let upload = lab.upload("cubic", 6 << 20, || ());
    assert!(!upload.fallback);
    // Subflows close some time after the socket.
    std::thread::sleep(Duration::from_millis(500));
    let (samples, dropped) = telemetry.stop();
    assert_eq!(dropped, 0);
    assert!(
        samples.iter().all(|sample| sample.netns_cookie == cookie),
        "the other namespace is not watched"
    );
    let mut subflows: BTreeMap<_, Vec<&Sample>> = BTreeMap::new();
    for sample in &samples {
        subflows.entry(sample.local).or_default().push(sample);
    }
    let addresses: Vec<_> = subflows
        .keys()
        .map(|(address, _)| address.to_string())
        .collect();
    assert_eq!(addresses, ["10.77.1.1", "10.77.2.1"]);
    let token = samples[0].token;
    assert!(
        token != 0
            && samples
                .iter()
                .all(|sample| sample.token == token || sample.closed)
    );
    let mut delivered = 0;
    for series in subflows.values() {
        assert!(series.len() > 5, "{} samples", series.len());
        let last = series.last().unwrap();
        assert!(last.closed);
        assert_eq!(last.remote.1, common::lab::PORT);
        assert!(series
            .iter()
            .all(|s| s.cwnd > 0 && s.srtt_us > 0 && s.min_rtt_us <= s.srtt_us && !s.backup));
        for pair in series.windows(2) {
            assert!(pair[1].delivered_bytes >= pair[0].delivered_bytes);
            assert!(
                pair[1].closed || pair[1].time_ns - pair[0].time_ns >= interval.as_nanos() as u64
            );
        }
        delivered += last.delivered_bytes;
    }
    assert!(delivered >= 6 << 20, "{delivered} bytes acknowledged");
}

#[test]
fn samples_that_find_no_room_are_counted() {
    if !kernel_ready() {
        return;
    }
    let lab = Lab::new(None);
    let cookie = namespace_cookie(lab.a()).unwrap();
    // Every round trip of an unshaped path, into a buffer of 42 samples.
    let telemetry = Telemetry::with_buffer(&[cookie], Duration::ZERO, 4096).unwrap();
    lab.upload("cubic", 400 << 20, || ());
    let (samples, dropped) = telemetry.stop();
    assert!(
        !samples.is_empty() && dropped > 0,
        "{} samples, {dropped} dropped",
        samples.len()
    );
}
