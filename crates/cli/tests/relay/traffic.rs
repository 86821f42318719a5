//! What programs see of the relay while links come and go.

use std::sync::atomic::{AtomicU64, Ordering};

use mp_policy::scheduler;

use crate::hosts::{until, Hosts, SERVER};
use crate::program::{get, put, LEFT};

const MB: u64 = 1_000_000;

#[test]
fn an_unmodified_program_transfers_over_both_links() {
    let Some(hosts) = Hosts::new("40mbit") else {
        return;
    };
    for work in ["get", "put"] {
        let before = [1, 2].map(|link| hosts.carried(link));
        assert_eq!(
            hosts.run(
                &["--scheduler", "round-robin"],
                &format!("{work} {SERVER} {}", 6 * MB)
            ),
            "whole"
        );
        for (link, before) in [1, 2].into_iter().zip(before) {
            let carried = hosts.carried(link) - before;
            // Half of it where both keep up.
            assert!(carried > MB / 2, "{work}: link {link} carried {carried}");
        }
    }
}

#[test]
fn what_a_program_has_sent_arrives_after_its_end() {
    let Some(hosts) = Hosts::new("4mbit") else {
        return;
    };
    // Far less than sockets and the device's end hold: the program is gone before the links have carried it.
    let said = hosts.run(&[], &format!("leave {SERVER} {}", 2 * MB));
    assert_eq!(said, "left");
    until("the server has it", || LEFT.lock().unwrap().is_some());
    assert_eq!(LEFT.lock().unwrap().take().unwrap(), "whole");
}

#[test]
fn one_link_can_be_chosen() {
    let Some(hosts) = Hosts::new("40mbit") else {
        return;
    };
    let before = hosts.carried(1);
    assert_eq!(
        hosts.run(&["--link", "lte"], &format!("get {SERVER} {}", 2 * MB)),
        "whole"
    );
    // Neighbour discovery, at most.
    assert!(hosts.carried(1) - before < 10_000);
    let reply = hosts
        .run_as("home", &hosts.line, &["--link", "lan"], "")
        .output()
        .unwrap();
    assert_eq!(reply.status.code(), Some(2));
    assert_eq!(
        String::from_utf8_lossy(&reply.stderr),
        "multipilot: --link lan: there is no such interface\n"
    );
}

#[test]
fn every_scheduler_carries_a_stream_whole() {
    let Some(hosts) = Hosts::new("80mbit") else {
        return;
    };
    for scheduler in scheduler::all() {
        for work in ["get", "put"] {
            let said = hosts.run(
                &["--scheduler", scheduler.name],
                &format!("{work} {SERVER} {}", 2 * MB),
            );
            assert_eq!(said, "whole", "{} {work}", scheduler.name);
        }
    }
}

#[track_caller]
pub fn in_the_middle(happens: impl Fn(&Hosts)) {
    if let Some(mut hosts) = Hosts::new("20mbit") {
        in_the_middle_of(&mut hosts, 12 * MB, happens);
    }
}

/// Enough for a link to be used again before all is carried, also on a busy machine.
#[track_caller]
pub fn in_the_middle_of_much(happens: impl Fn(&Hosts)) {
    if let Some(mut hosts) = Hosts::new("20mbit") {
        in_the_middle_of(&mut hosts, 48 * MB, happens);
    }
}

/// Something happens in the middle of a download and an upload of this size that go on at the same time.
pub fn in_the_middle_of(hosts: &mut Hosts, size: u64, happens: impl Fn(&Hosts)) {
    hosts.socks(&["--scheduler", "min-rtt"]);
    let (down, up) = (
        hosts.through_socks(SERVER).unwrap(),
        hosts.through_socks(SERVER).unwrap(),
    );
    let received = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let download =
            scope.spawn(|| get(down, size, &mut |at| received.store(at, Ordering::Relaxed)));
        let upload = scope.spawn(|| put(up, size));
        until("some of it is there", || {
            received.load(Ordering::Relaxed) > size.min(12 * MB) / 6
        });
        happens(hosts);
        let results = (download.join().unwrap(), upload.join().unwrap());
        assert_eq!(results, ("whole".into(), "whole".into()));
    });
}

#[test]
fn a_link_that_goes_down_and_comes_back_does_not_break_flows() {
    in_the_middle_of_much(|hosts| {
        let before = hosts.carried(2);
        hosts.set_link(1, "down");
        until("the other link carries", || hosts.carried(2) > before + MB);
        hosts.set_link(1, "up");
        hosts.route(1);
        let before = hosts.carried(1);
        until("the link is used again", || {
            hosts.carried(1) > before + 100_000
        });
    });
}

#[test]
fn a_link_that_dies_silently_does_not_break_flows() {
    in_the_middle(|hosts| hosts.silence(1));
}

#[test]
fn flows_are_independent_and_refusals_are_told() {
    let Some(mut hosts) = Hosts::new("40mbit") else {
        return;
    };
    hosts.socks(&[]);
    // A reader that stops reading keeps nobody else waiting.
    let mut stuck = hosts.through_socks(SERVER).unwrap();
    std::io::Write::write_all(&mut stuck, b"get 50000000\n").unwrap();
    let results: Vec<_> = std::thread::scope(|scope| {
        let flow = |i: u64| {
            let stream = hosts.through_socks(SERVER).unwrap();
            scope.spawn(move || {
                if i.is_multiple_of(2) {
                    get(stream, MB, &mut |_| ())
                } else {
                    put(stream, MB)
                }
            })
        };
        let flows: Vec<_> = (0..10).map(flow).collect();
        flows.into_iter().map(|flow| flow.join().unwrap()).collect()
    });
    assert_eq!(results, vec!["whole"; 10]);
    assert_eq!(
        hosts.through_socks("10.99.0.2:81").err(),
        Some(5),
        "nobody listens there"
    );
    assert_eq!(
        hosts.through_socks("127.0.0.1:80").err(),
        Some(2),
        "not allowed"
    );
    assert_eq!(
        hosts.through_socks("no-such-name.invalid:80").err(),
        Some(4)
    );
    drop(stuck);
}

#[test]
fn a_program_sees_why_a_connection_failed() {
    let Some(hosts) = Hosts::new("40mbit") else {
        return;
    };
    assert_eq!(hosts.run(&[], &format!("connect {SERVER}")), "Ok(())");
    assert_eq!(
        hosts.run(&[], "connect 10.99.0.2:81"),
        "Err(ConnectionRefused)"
    );
    assert_eq!(
        hosts.run(&[], "connect 192.168.7.7:80"),
        "Err(PermissionDenied)"
    );
}

#[test]
fn a_relay_that_is_gone_is_named() {
    let Some(mut hosts) = Hosts::new("20mbit") else {
        return;
    };
    hosts.last().kill().unwrap();
    hosts.last().wait().unwrap();
    let mut run = hosts.run_as("home", &hosts.line, &[], &format!("connect {SERVER}"));
    let reply = run.output().unwrap();
    let said = String::from_utf8_lossy(&reply.stderr);
    assert_eq!(reply.status.code(), Some(1));
    assert!(
        said.starts_with("multipilot: relay 10.99.0.1:443: over ") && said.lines().count() == 1,
        "{said}"
    );
}
