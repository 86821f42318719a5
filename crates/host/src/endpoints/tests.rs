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
    elsewhere(|| {
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
            .unwrap()
            .done;
        assert_eq!(
            done,
            [EndpointChange::new(address(1), ChangeKind::AddedAgain)]
        );
        assert_eq!(there(&endpoints), all);
        assert!(!endpoints.differ(&wanted));
        // Its peers are told again that it is normal, and it stays so.
        let retry = Again {
            retry: vec![address(1)],
            ..Again::default()
        };
        let done = endpoints.apply(&wanted, &retry, &subflows).unwrap().done;
        let told = EndpointChange::new(address(1), ChangeKind::NormalRepeated);
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
}

/// In a network namespace of its own.
fn elsewhere(act: impl FnOnce() + Send + 'static) {
    if !nix::unistd::geteuid().is_root() {
        mp_testing::skip("network namespaces need root");
        return;
    }
    let elsewhere = std::thread::spawn(|| {
        nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
        act();
    });
    elsewhere.join().unwrap();
}

fn wanted(host: u8, interface: i32, backup: bool) -> Wanted {
    Wanted {
        address: address(host),
        interface,
        backup,
    }
}

/// The kernel takes only so many, and others have set most of them: the rest is done nevertheless.
#[test]
fn one_that_is_refused_stops_nothing_else() {
    elsewhere(|| {
        let mut endpoints = Endpoints::open().unwrap();
        let mut count = 1;
        while count < 255
            && endpoints
                .manager
                .add_endpoint(&Endpoint::new(address(count), Flags::SUBFLOW))
                .is_ok()
        {
            count += 1;
        }
        let wanted = [wanted(254, 1, false), wanted(1, 1, true)];
        let applied = endpoints.apply(&wanted, &Again::default(), &[]).unwrap();
        assert_eq!(
            applied.done,
            [EndpointChange::new(address(1), ChangeKind::SetToBackup)]
        );
        let why = applied.refused.unwrap().to_string();
        assert!(
            why.starts_with("no endpoint for 10.0.0.254: the kernel takes no more"),
            "{why}"
        );
        // One goes, and it is taken at the next review.
        let other = endpoints.list().unwrap()[1].clone();
        endpoints.manager.delete_endpoint(&other).unwrap();
        let applied = endpoints.apply(&wanted, &Again::default(), &[]).unwrap();
        assert_eq!(
            applied.done,
            [EndpointChange::new(address(254), ChangeKind::Added)]
        );
        assert!(applied.refused.is_none());
        endpoints.restore(&[]).unwrap();
    });
}

/// Others have taken its place, or its number, while it rested.
#[test]
fn one_that_finds_no_room_stays_owed() {
    elsewhere(|| {
        let mut endpoints = Endpoints::open().unwrap();
        let numbered = |id, host| Endpoint {
            id,
            ..Endpoint::new(address(host), Flags::SUBFLOW)
        };
        let owed = numbered(7, 1);
        endpoints.manager.add_endpoint(&owed).unwrap();
        let both = [subflow(7, 1), subflow(7, 2)];
        let again = Again {
            stuck: vec![address(1)],
            ..Again::default()
        };
        endpoints
            .apply(&[wanted(1, 1, false)], &again, &both)
            .unwrap();
        let mut host = 9;
        let mut id = 7;
        while endpoints.manager.add_endpoint(&numbered(id, host)).is_ok() {
            (host, id) = (host + 1, 0);
        }
        while !endpoints.removed.is_due() {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let none = Again::default();
        for _ in 0..2 {
            let applied = endpoints.apply(&[], &none, &[]).unwrap();
            let why = applied.refused.unwrap().to_string();
            assert!(why.starts_with("no endpoint for 10.0.0.1: "), "{why}");
        }
        let other = endpoints.list().unwrap()[1].clone();
        endpoints.manager.delete_endpoint(&other).unwrap();
        let there = |endpoints: &Endpoints| at(&endpoints.list().unwrap(), address(1)).is_some();
        assert!(!there(&endpoints));
        assert!(endpoints.apply(&[], &none, &[]).unwrap().refused.is_none());
        assert!(there(&endpoints));
        endpoints.restore(&[]).unwrap();
    });
}

#[test]
fn what_cannot_be_restored_is_left_to_the_next_one() {
    elsewhere(|| {
        let mut endpoints = Endpoints::open().unwrap();
        let owed = Endpoint::new(address(1), Flags::SUBFLOW);
        endpoints.before.owed = vec![owed.clone()];
        let file = endpoints.file.clone();
        let fill = |host| Endpoint::new(address(host), Flags::SUBFLOW);
        let full = |host: &u8| endpoints.manager.add_endpoint(&fill(*host)).is_err();
        assert!((9..=255).any(|host| full(&host)));
        let other = endpoints.list().unwrap()[1].clone();
        assert!(endpoints.restore(&[]).is_err());
        let saved: Before = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        assert_eq!(saved.owed, [owed]);
        let mut endpoints = Endpoints::open().unwrap();
        endpoints.before = saved;
        endpoints.manager.delete_endpoint(&other).unwrap();
        endpoints.restore(&[]).unwrap();
        assert!(!file.exists());
        let endpoints = Endpoints::open().unwrap();
        assert!(at(&endpoints.list().unwrap(), address(1)).is_some());
        endpoints.restore(&[]).unwrap();
    });
}

/// A modem that is plugged in again has its old address on a new interface.
#[test]
fn an_endpoint_follows_its_address_to_another_interface() {
    elsewhere(|| {
        let mut endpoints = Endpoints::open().unwrap();
        let none = Again::default();
        let both = [wanted(1, 7, false), wanted(2, 8, false)];
        endpoints.apply(&both, &none, &[]).unwrap();
        let both = [wanted(1, 9, false), wanted(2, 8, false)];
        let interfaces = |endpoints: &Endpoints| -> Vec<(IpAddr, Option<i32>)> {
            let mut list = endpoints.list().unwrap();
            list.sort_by_key(|e| e.address);
            list.iter().map(|e| (e.address, e.interface)).collect()
        };
        // A connection has no other subflow: it stays as long as that.
        endpoints.apply(&both, &none, &[subflow(7, 1)]).unwrap();
        assert_eq!(interfaces(&endpoints)[0], (address(1), Some(7)));
        endpoints.apply(&both, &none, &[]).unwrap();
        while interfaces(&endpoints).len() < 2 {
            endpoints.apply(&both, &none, &[]).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        let there = [(address(1), Some(9)), (address(2), Some(8))];
        assert_eq!(interfaces(&endpoints), there);
        endpoints.restore(&[]).unwrap();
        assert!(Endpoints::open().unwrap().list().unwrap().is_empty());
    });
}

/// As in a container whose /proc/sys is read-only.
#[test]
fn a_path_manager_that_cannot_be_changed_is_not_changed_back() {
    elsewhere(|| {
        nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNS).unwrap();
        let sh = "mount --make-rprivate / && mount --bind /proc/sys /proc/sys && mount -o remount,bind,ro /proc/sys";
        let mount = std::process::Command::new("sh").args(["-c", sh]).status();
        assert!(mount.unwrap().success());
        let mut endpoints = Endpoints::open().unwrap();
        let file = endpoints.file.clone();
        let why = endpoints.manage_new().unwrap_err().to_string();
        assert!(why.contains("/proc/sys/net/mptcp/pm_type"), "{why}");
        assert!(file.exists());
        endpoints.restore(&[]).unwrap();
        assert!(!file.exists());
    });
}
