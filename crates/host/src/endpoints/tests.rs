use mp_kernel::pm::Flags;

use super::*;
use crate::adapter::Again;

pub(super) fn subflow(token: u32, host: u8) -> Subflow {
    Subflow {
        token,
        cookie: 0,
        local: ([10, 0, 0, host], 1).into(),
        remote: ([10, 9, 9, 9], 80).into(),
        backup: false,
        tcp: Default::default(),
        stream: None,
    }
}

pub(super) fn address(host: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, host])
}

#[test]
fn one_subflow_of_each_connection_stays_and_it_is_one_that_works() {
    let silent = |token, host, ms, backup| {
        let mut s = subflow(token, host);
        (s.tcp.last_data_recv, s.tcp.last_ack_recv) = (ms, ms);
        s.tcp.rto = 250_000;
        Subflow { backup, ..s }
    };
    let ours = [address(1), address(2)];
    let stay = |subflows: &[Subflow]| lifelines(&ours, subflows);
    assert_eq!(stay(&[]), [] as [IpAddr; 0]);
    let dead_first = [silent(7, 1, 9_000, false), silent(7, 2, 5, false)];
    assert_eq!(stay(&dead_first), [address(2)]);
    let resting_first = [silent(7, 1, 0, true), silent(7, 2, 40, false)];
    assert_eq!(stay(&resting_first), [address(2)]);
    let dying_first = [silent(7, 1, 700, false), silent(7, 2, 100, true)];
    assert_eq!(stay(&dying_first), [address(2)]);
    let mut timed_out = [silent(7, 1, 300, false), silent(7, 2, 100, true)];
    assert_eq!(stay(&timed_out), [address(1)]);
    timed_out[0].tcp.backoff = 1;
    assert_eq!(stay(&timed_out), [address(2)]);
    let elsewhere = [silent(7, 1, 0, false), silent(7, 3, 90, false)];
    assert_eq!(
        stay(&elsewhere),
        [] as [IpAddr; 0],
        "nobody deletes that one"
    );
    let two = [
        silent(7, 1, 10, false),
        silent(8, 1, 50, false),
        silent(8, 2, 10, false),
    ];
    assert_eq!(stay(&two), [address(1)], "as few as possible");
}

#[test]
fn one_that_is_made_anew_rests_until_the_peer_knows() {
    if !nix::unistd::geteuid().is_root() {
        mp_testing::skip("network namespaces need root");
        return;
    }
    let elsewhere = std::thread::spawn(|| {
        nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
        let wanted = [1, 2].map(|host| Wanted {
            address: address(host),
            interface: 1,
            backup: false,
        });
        let mut endpoints = Endpoints::open().unwrap();
        // Somebody else's.
        let other = Endpoint {
            id: 7,
            ..Endpoint::new(address(1), Flags::SUBFLOW)
        };
        endpoints.manager.add_endpoint(&other).unwrap();
        let mut subflows = [subflow(7, 1), subflow(7, 2)];
        subflows[1].tcp.rto = 300_000;
        let there = |endpoints: &Endpoints| -> Vec<(u8, IpAddr)> {
            let list = endpoints.list().unwrap();
            list.into_iter().map(|e| (e.id, e.address)).collect()
        };
        endpoints
            .apply(&wanted, &Again::default(), &subflows)
            .unwrap();
        let all = there(&endpoints);
        assert_eq!((all.len(), all[0]), (2, (7, address(1))));
        let again = Again {
            stuck: vec![address(1)],
            ..Again::default()
        };
        endpoints.apply(&wanted, &again, &subflows).unwrap();
        assert_eq!(there(&endpoints), all[1..]);
        // Killed now, the next one finds what it owes.
        let saved: Before = serde_json::from_slice(&fs::read(&endpoints.file).unwrap()).unwrap();
        assert_eq!(saved.owed, [other]);
        while !endpoints.differ(&wanted) {
            assert_eq!(there(&endpoints), all[1..]);
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let done = endpoints
            .apply(&wanted, &Again::default(), &subflows)
            .unwrap();
        assert_eq!(done, [EndpointChange::new(address(1), What::AddedAgain)]);
        assert_eq!(there(&endpoints), all);
        assert!(!endpoints.differ(&wanted));
        // The same, but its link goes meanwhile.
        endpoints.apply(&wanted, &again, &subflows).unwrap();
        while !endpoints.removed.is_due() {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        endpoints
            .apply(&wanted[1..], &Again::default(), &subflows)
            .unwrap();
        assert_eq!(there(&endpoints), all);
        endpoints.restore(&[]).unwrap();
    });
    elsewhere.join().unwrap();
}

#[test]
fn an_endpoint_stays_while_a_connection_has_no_other() {
    let both = [subflow(7, 1), subflow(7, 2)];
    assert!(!indispensable(address(1), &[], &both));
    assert!(indispensable(address(1), &[address(2)], &both));
    let another = [subflow(7, 1), subflow(7, 2), subflow(8, 1)];
    assert!(indispensable(address(1), &[], &another));
    assert!(!indispensable(address(3), &[], &another));
}
