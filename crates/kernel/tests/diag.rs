//! What sock_diag tells of connections, at both ends of a real one.

mod common;

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::lab::{sh, Lab};
use common::turn;
use mp_kernel::choose;
use mp_kernel::diag::Diag;
use mp_testing::Ends;

/// Looks at the connection of the namespace until told to end: what its subflows brought or had acknowledged, and what the
/// stream did, since the first look at two subflows.
fn watch(namespace: BorrowedFd<'_>, over: &AtomicBool) -> Vec<(u64, u64)> {
    let mut diag = choose::inside(namespace, || Diag::new().unwrap()).unwrap();
    let (mut seen, mut first) = (Vec::new(), None);
    while !over.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(10));
        let subflows = diag.subflows().unwrap();
        // A subflow that has been closed took its counts with it, and the connection may go before its subflows.
        let [one, other] = &subflows[..] else {
            continue;
        };
        assert_eq!(one.stream, other.stream);
        let Some(stream) = one.stream else { continue };
        let bytes = |s: &mp_kernel::diag::Subflow| s.tcp.bytes_acked + s.tcp.bytes_received;
        let now = (bytes(one) + bytes(other), stream);
        let since = first.get_or_insert(now);
        seen.push((now.0 - since.0, now.1.wrapping_sub(since.1)));
    }
    seen
}

#[test]
fn the_stream_stands_while_data_behind_a_hole_go_on_arriving() {
    let Some(_turn) = turn() else { return };
    let lab = Lab::new(Some("20mbit"));
    let over = AtomicBool::new(false);
    let (bytes, a, b) = (6 << 20, lab.namespace('a'), lab.namespace('b'));
    // So long that a watcher which is kept waiting sees the hole too.
    sh(&format!(
        "ip -n {a} rule add from 10.77.2.1 lookup 2
         ip -n {a} route add 10.77.1.0/24 dev p2 table 2 rto_min 2s"
    ));
    let looks = std::thread::scope(|scope| {
        let over = &over;
        let watchers = [lab.a(), lab.b()].map(|end| scope.spawn(move || watch(end, over)));
        let end = Ends(over);
        // What is under way on the second path is lost, and only a timeout has it sent again.
        let upload = lab.upload("reno", bytes, || {
            sh(&format!("ip -n {b} link set p2 down"));
        });
        drop(end);
        assert_eq!((upload.received, upload.fallback), (bytes, false));
        watchers.map(|w| w.join().unwrap())
    });
    for (end, looks) in ["sender", "receiver"].iter().zip(looks) {
        let (mut ahead, mut from) = (0, (0, 0));
        for &(subflows, stream) in &looks {
            if stream != from.1 {
                from = (subflows, stream);
            }
            ahead = ahead.max(subflows - from.0);
        }
        let last = looks.last().expect("the kernel tells of connections").1;
        eprintln!("{end}: {ahead} bytes ahead at most, {last} in order");
        assert!(ahead > 50_000, "{end}: {looks:?}");
        assert!((bytes / 3..=bytes + 1).contains(&last), "{end}: {looks:?}");
    }
}
