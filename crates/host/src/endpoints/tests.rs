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
        // Its peers are told again that it is normal, and it stays so.
        let retry = Again {
            retry: vec![address(1)],
            ..Again::default()
        };
        let done = endpoints.apply(&wanted, &retry, &subflows).unwrap();
        let told = EndpointChange::new(address(1), What::NormalRepeated);
        assert_eq!(done, [told]);
        let flags = endpoints.list().unwrap();
        assert!(flags.iter().all(|e| !e.flags.backup));
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
