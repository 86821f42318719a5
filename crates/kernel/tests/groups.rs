//! Plain TCP sockets whose state a controller shares because user space has put them into one group.

mod common;

use std::io::{Read, Write};
use std::os::fd::AsFd;

use common::lab::{self, eventually, Lab};
use common::{assert_all_had_slots, is_idle, private, turn};
use mp_controllers::MAX_SUBFLOWS;
use mp_kernel::choose;
use mp_kernel::controller::{self, Controller};
use mp_kernel::groups::{Groups, Member};
use socket2::{Protocol, Socket};

const TCP: Protocol = Protocol::TCP;

/// Connections from `a` to `b`, both ends of each.
struct Sockets<'a> {
    lab: &'a Lab,
    controller: &'a Controller,
    listener: Socket,
    pairs: Vec<(Socket, Socket)>,
}

impl<'a> Sockets<'a> {
    /// One over each of these paths.
    fn new(lab: &'a Lab, controller: &'a Controller, paths: &[u8]) -> Sockets<'a> {
        let listener = choose::inside(lab.b(), || lab::listen(TCP)).unwrap();
        let mut sockets = Sockets {
            lab,
            controller,
            listener,
            pairs: Vec::new(),
        };
        paths.iter().for_each(|path| sockets.add(*path));
        sockets
    }

    fn add(&mut self, path: u8) {
        let name = self.controller.kernel_name();
        let connect = || lab::connect_over(path, TCP, name);
        let from = choose::inside(self.lab.a(), connect).unwrap();
        let (to, _) = self.listener.accept().unwrap();
        self.pairs.push((from, to));
    }

    /// Some megabytes over each of them at once.
    fn carry(&mut self) {
        std::thread::scope(|scope| {
            for (from, to) in &mut self.pairs {
                scope.spawn(|| from.write_all(&[7; 1 << 20]).unwrap());
                scope.spawn(|| to.read_exact(&mut vec![0; 1 << 20]).unwrap());
            }
        });
    }

    fn put(&self, groups: &Groups, index: usize, member: Member) {
        groups.put(self.pairs[index].0.as_fd(), member).unwrap();
    }
}

fn taken(controller: &Controller) -> Vec<usize> {
    let mut slots = controller.connections().unwrap();
    slots.sort();
    slots
}

#[test]
fn sockets_of_a_group_are_subflows_of_one_connection_until_they_close() {
    let Some(_turn) = turn() else { return };
    let lab = Lab::new(Some("50mbit"));
    for ours in mp_controllers::all() {
        let (name, loaded) = (ours.name, private(ours.name, false));
        let groups = loaded.groups().unwrap().expect("ours have groups");
        let mut sockets = Sockets::new(&lab, &loaded, &[1, 2, 1]);
        sockets.carry();
        assert!(
            taken(&loaded).is_empty(),
            "{name}: nobody has been put anywhere"
        );
        for (index, group) in [(0, 7), (1, 7), (2, 8)] {
            sockets.put(&groups, index, Member::new(group, false));
        }
        sockets.carry();
        assert_eq!(taken(&loaded), [1, 2], "{name}");
        // A socket that has yet to connect is there from its first ACK on.
        sockets.add(2);
        sockets.put(&groups, 3, Member::new(8, false));
        sockets.carry();
        assert_eq!(taken(&loaded), [2, 2], "{name}");
        sockets.pairs.drain(..2);
        eventually(|| taken(&loaded) == [2]);
        drop(sockets);
        eventually(|| is_idle(&loaded));
        assert_all_had_slots(&loaded);
    }
}

#[test]
fn a_ninth_of_a_group_runs_uncoupled() {
    let Some(_turn) = turn() else { return };
    let lab = Lab::new(Some("50mbit"));
    let loaded = private("lia", false);
    let groups = loaded.groups().unwrap().expect("ours have groups");
    let mut sockets = Sockets::new(&lab, &loaded, &[1, 2, 1, 2, 1, 2, 1, 2, 1]);
    for index in 0..9 {
        sockets.put(&groups, index, Member::new(7, false));
    }
    sockets.carry();
    let counters = loaded.counters().unwrap().unwrap();
    assert_eq!(
        (taken(&loaded), counters.slots_full, counters.without_slot),
        (vec![MAX_SUBFLOWS], 1, 0),
        "{counters:?}"
    );
}

#[test]
fn a_member_is_a_backup_and_has_a_target_as_user_space_says() {
    let Some(_turn) = turn() else { return };
    let lab = Lab::new(Some("50mbit"));
    let loaded = private("ld-mpsp", true);
    let groups = loaded.groups().unwrap().expect("ours have groups");
    let mut sockets = Sockets::new(&lab, &loaded, &[1, 2]);
    let put = |sockets: &Sockets, target: Option<u64>| {
        for (index, backup) in [(0, false), (1, true)] {
            let member = Member::new(7, backup);
            let aiming = target.map_or(member, |target| member.aiming_at(target));
            sockets.put(&groups, index, aiming);
        }
    };
    let log = loaded.call_log().unwrap();
    // Of the last call: the target, and whether each of the two is a backup.
    let seen = || {
        let mut last = None;
        let dropped = log.drain(|call, _| {
            let subflows = call.connection.subflows.iter().filter(|s| s.owner != 0);
            let mut backups: Vec<_> = subflows.map(|s| (s.owner, s.backup)).collect();
            backups.sort();
            last = Some((call.connection.parameters[0], backups));
        });
        assert_eq!(dropped.unwrap(), 0);
        last.expect("there were calls")
    };
    // Owners are numbered in the order of joining: with the next ACK, and either socket's may be the first.
    sockets.put(&groups, 0, Member::new(7, false));
    sockets.carry();
    seen();
    put(&sockets, None);
    sockets.carry();
    let coupled = vec![(1, 0), (2, 1)];
    assert_eq!(seen(), (20_000, coupled.clone()), "as it is set");
    for target in [5_000, 9_000] {
        put(&sockets, Some(target));
        sockets.carry();
        assert_eq!(seen(), (target, coupled.clone()));
    }
    sockets.put(&groups, 0, Member::new(7, true));
    sockets.put(&groups, 1, Member::new(7, false));
    sockets.carry();
    assert_eq!(seen(), (9_000, vec![(1, 1), (2, 0)]), "since they joined");
}

#[test]
fn the_kernels_own_controllers_have_no_groups() {
    let Some(_turn) = turn() else { return };
    let reno = controller::acquire("linux-reno", &[]).unwrap();
    assert!(reno.groups().unwrap().is_none());
}
