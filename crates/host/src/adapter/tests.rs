use super::*;
use crate::{Glob, InterfaceRule};
use mp_kernel::mptcp_info::TcpInfo;
use mp_policy::awareness;
use mp_policy::link::{decide, Priority};
use mp_policy::path_manager::{PathPolicy, Role};

fn interface(index: i32, name: &str, up: bool) -> Interface {
    Interface {
        index,
        name: name.into(),
        up,
        addresses: vec![[10, 0, 0, index as u8].into()],
    }
}

pub(crate) fn subflow(host: u8, packets: u32, losses: u32) -> Subflow {
    Subflow {
        token: 7,
        cookie: host.into(),
        local: ([10, 0, 0, host], 1000).into(),
        remote: ([10, 9, 9, 9], 80).into(),
        backup: false,
        stream: None,
        tcp: TcpInfo {
            bytes_acked: u64::from(packets) * 1448,
            data_segs_out: packets,
            unacked: 10,
            total_retrans: losses,
            rtt: 10_000,
            min_rtt: 10_000,
            ..TcpInfo::default()
        },
    }
}

fn with_rules(rules: &[(&str, Rule)]) -> PathSettings {
    let rule = |&(name, rule): &(&str, Rule)| InterfaceRule {
        interface: Glob::new(name),
        rule,
    };
    PathSettings {
        rules: rules.iter().map(rule).collect(),
        ..PathSettings::default()
    }
}

pub(crate) fn started(settings: &PathSettings) -> Adapter {
    let mut adapter = Adapter::new(settings);
    adapter.set_interfaces(
        0,
        vec![interface(1, "wlan0", true), interface(2, "wwan0", true)],
        settings,
    );
    adapter.start(0);
    adapter
}

pub(crate) fn backups(adapter: &Adapter) -> Vec<(i32, bool)> {
    adapter
        .wanted()
        .iter()
        .map(|w| (w.interface, w.backup))
        .collect()
}

/// Polls every 50 ms, from the last one on, until so many seconds. While the first path is in use it loses every 20th packet,
/// and of 150 packets 60 get to the stream.
fn harm(adapter: &mut Adapter, last: &mut u32, seconds: u32, stream: &mut u64) -> u64 {
    while *last < seconds * 20 {
        *last += 1;
        let normal = !adapter.paths[0].backup;
        *stream += 1448 * if normal { 60 } else { 100 };
        let sent = if normal { *last * 50 } else { 0 };
        let both = [subflow(1, sent, sent / 20), subflow(2, *last * 100, 0)];
        let stream = Some(*stream);
        let both = both.map(|s| Subflow { stream, ..s });
        adapter.poll(u64::from(*last) * 50_000, both.into(), None);
    }
    u64::from(*last) * 50_000
}

#[test]
fn every_interface_becomes_an_endpoint_and_goes_with_its_link() {
    let settings = PathSettings::default();
    let mut adapter = started(&settings);
    assert_eq!(backups(&adapter), [(1, false), (2, false)]);
    adapter.set_interfaces(
        1,
        vec![interface(1, "wlan0", false), interface(2, "wwan0", true)],
        &settings,
    );
    assert_eq!(backups(&adapter), [(2, false)]);
    adapter.set_interfaces(2, vec![interface(2, "wwan0", true)], &settings);
    adapter.set_interfaces(
        3,
        vec![interface(5, "wlan0", true), interface(2, "wwan0", true)],
        &settings,
    );
    assert_eq!(
        backups(&adapter),
        [(5, false), (2, false)],
        "unplugged and back under its name"
    );
}

#[test]
fn a_renamed_interface_and_a_new_address_are_followed() {
    let settings = with_rules(&[("lan9", Rule::Metered)]);
    let mut adapter = started(&settings);
    let mut renamed = interface(1, "lan9", true);
    renamed.addresses = vec![[10, 0, 0, 77].into()];
    adapter.set_interfaces(1, vec![renamed, interface(2, "wwan0", true)], &settings);
    adapter.poll(50_000, vec![], None);
    let wanted = adapter.wanted();
    assert_eq!(wanted[0].address, IpAddr::from([10, 0, 0, 77]));
    assert!(wanted[0].backup, "the rule of its new name holds");
}

#[test]
fn rules_hold_and_ignored_interfaces_are_no_paths() {
    let mut settings = with_rules(&[("wwan0", Rule::Metered), ("wlan1", Rule::Untrusted)]);
    settings.ignore = vec![Glob::new("docker*")];
    let mut adapter = Adapter::new(&settings);
    let all = ["wlan0", "wwan0", "wlan1", "docker0"];
    let interfaces = |up: bool| {
        let of = |(i, name): (usize, &&str)| interface(i as i32 + 1, name, up || i > 0);
        all.iter().enumerate().map(of).collect()
    };
    adapter.set_interfaces(0, interfaces(true), &settings);
    adapter.start(0);
    assert_eq!(backups(&adapter), [(1, false), (2, true)]);
    adapter.set_interfaces(1, interfaces(false), &settings);
    assert_eq!(backups(&adapter), [(2, false)], "the metered one stands in");
}

#[test]
fn a_lossy_path_goes_to_backup_with_its_reason_and_returns() {
    let mut settings = PathSettings::default();
    settings.awareness.backup_time.first_us = 2_000_000;
    let mut adapter = started(&settings);
    let (mut last, mut stream) = (0, 0);
    let now = harm(&mut adapter, &mut last, 4, &mut stream);
    assert_eq!(backups(&adapter), [(1, true), (2, false)]);
    assert_eq!(adapter.reasons(now), [Some(Reason::Loss), None]);
    harm(&mut adapter, &mut last, 6, &mut stream);
    assert_eq!(backups(&adapter), [(1, false), (2, false)]);
    assert_eq!(adapter.paths[0].switches, 2);
}

#[test]
fn a_path_that_all_connections_have_lost_is_opened_again() {
    let settings = PathSettings::default();
    let mut adapter = started(&settings);
    adapter.again();
    let mut now = 0;
    let mut reopened = Vec::new();
    for _ in 0..400 {
        now += 50_000;
        adapter.poll(now, vec![subflow(2, 1, 0)], None);
        if !adapter.again().missing.is_empty() {
            reopened.push(now / 1_000_000);
        }
    }
    assert_eq!(reopened, [4, 9, 16], "with growing patience");
    // One comes before the next try: a new connection's first.
    assert!(!adapter.paths[0].is_open());
    adapter.poll(now + 50_000, vec![subflow(1, 1, 0), subflow(2, 1, 0)], None);
    assert_eq!(backups(&adapter), [(1, false), (2, false)]);
    let presence = &mut adapter.paths[0].presence;
    let change = presence.poll(now + 100_000, true, true, std::iter::empty());
    assert_eq!(change, None, "no longer missing");
}

#[test]
fn a_connection_that_uses_no_path_misses_none() {
    let settings = PathSettings::default();
    let mut adapter = started(&settings);
    adapter.again();
    let local = Subflow {
        local: ([127, 0, 0, 1], 1).into(),
        ..subflow(9, 1, 0)
    };
    for poll in 1..200 {
        adapter.poll(poll * 50_000, vec![local.clone()], None);
    }
    assert!(adapter.again().is_empty());
    assert_eq!(backups(&adapter), [(1, false), (2, false)]);
}

/// Behind two routers of one make.
#[test]
fn an_address_that_two_interfaces_have_is_one_endpoint() {
    let settings = PathSettings::default();
    let mut adapter = Adapter::new(&settings);
    let twin = Interface {
        index: 3,
        ..interface(1, "eth0", true)
    };
    adapter.set_interfaces(0, vec![interface(1, "wlan0", true), twin], &settings);
    adapter.start(0);
    assert_eq!(backups(&adapter), [(1, false)]);
}

#[test]
fn an_interface_whose_new_name_is_ignored_is_let_go() {
    let settings = PathSettings {
        ignore: vec![Glob::new("veth*")],
        ..PathSettings::default()
    };
    let mut adapter = started(&settings);
    let all = vec![interface(1, "veth0", true), interface(2, "wwan0", true)];
    adapter.set_interfaces(1, all, &settings);
    assert_eq!(backups(&adapter), [(2, false)]);
}

/// Its own retransmissions would find out late that the path is back.
#[test]
fn a_path_that_is_dead_under_its_subflow_gets_a_new_one() {
    let settings = PathSettings::default();
    let mut adapter = started(&settings);
    adapter.again();
    let mut now = 0;
    for n in 1..=40 {
        now += 50_000;
        adapter.poll(
            now,
            vec![subflow(1, 50 * n, 0), subflow(2, 100 * n, 0)],
            None,
        );
    }
    let mut renewed = Vec::new();
    let stuck = subflow(1, 2_001, 0);
    let mut dead = stuck.clone();
    dead.tcp.bytes_acked = 2_000 * 1448;
    for n in 1..=600u32 {
        now += 50_000;
        let mut seen = vec![subflow(2, 4_000 + n * 100, 0)];
        // The host sees no handshake that goes unanswered.
        seen.extend(renewed.is_empty().then(|| dead.clone()));
        adapter.poll(now, seen, None);
        let again = adapter.again();
        assert!(again.missing.is_empty());
        renewed.extend(again.stuck.first().map(|_| now / 100_000));
    }
    // The new one is to carry data from its handshake on.
    assert_eq!(backups(&adapter), [(1, false), (2, false)]);
    assert_eq!(adapter.reasons(now), [Some(Reason::Stalled), None]);
    let apart: Vec<u64> = renewed.windows(2).map(|w| w[1] - w[0]).collect();
    assert_eq!(apart, [60, 120], "{renewed:?}");
    let fresh = Subflow {
        cookie: 99,
        ..subflow(1, 0, 0)
    };
    adapter.poll(now + 50_000, vec![fresh, subflow(2, 70_000, 0)], None);
    assert_eq!(backups(&adapter), [(1, false), (2, false)]);
}

#[test]
fn what_is_there_is_taken_over() {
    let settings = PathSettings::default();
    let mut adapter = Adapter::new(&settings);
    adapter.set_interfaces(0, vec![interface(1, "wlan0", true)], &settings);
    adapter.take_over([10, 0, 0, 1].into(), false);
    adapter.start(0);
    assert_eq!(backups(&adapter), [(1, false)]);
    assert!(adapter.again().is_empty(), "no subflow is disturbed");
}

/// Five interfaces.
fn five(settings: &PathSettings, known: &Memory) -> Adapter {
    let mut adapter = Adapter::new(settings);
    let all = (1..=5).map(|i| interface(i, &format!("eth{i}"), true));
    adapter.set_interfaces(0, all.collect(), settings);
    adapter.import_state(known, 0);
    adapter.start(0);
    adapter
}

fn used(adapter: &Adapter) -> Vec<usize> {
    let normal = |i: &usize| adapter.paths[*i].is_normal();
    (0..5).filter(normal).collect()
}

#[test]
fn ms_ucb_has_three_interfaces_at_a_time_carry_data_and_comes_to_the_fast_ones() {
    let settings = PathSettings {
        policy: PathPolicy::MsUcbFederated,
        awareness: awareness::Config::rules(),
        ..PathSettings::default()
    };
    let mut adapter = five(&settings, &Memory::new());
    // Packets that each carries in 50 ms while it is not backup.
    let pace = [2, 400, 300, 3, 350];
    let (mut sent, mut now, mut good) = ([0u32; 5], 0, 0);
    for n in 0..1200 {
        now += 50_000;
        let used = used(&adapter);
        assert_eq!(used.len(), 3);
        good += u32::from(n > 600 && used == [1, 2, 4]);
        used.iter().for_each(|&i| sent[i] += pace[i]);
        let subflows = (0..5).map(|i| subflow(i as u8 + 1, sent[i], 0));
        adapter.poll(now, subflows.collect(), None);
    }
    assert!(good > 200, "{good} of 599 polls");
    assert_eq!(adapter.reasons(now).iter().flatten().count(), 2);
    let switches: u64 = adapter.paths.iter().map(|p| p.switches).sum();
    assert!(switches < 900, "{switches}: a round is longer than a poll");
    // Another connection that hears of it begins where this one is.
    let told = together([adapter.export_state(), adapter.export_state()]);
    let count = |of: &Memory| of["eth1"].worth().count;
    assert!((count(&told) - 2.0 * count(&adapter.export_state())).abs() < 1e-6);
    assert_eq!(used(&five(&settings, &told)), [1, 2, 4]);
}

#[test]
fn a_relays_links_are_backup_unless_the_bandit_has_chosen_them() {
    let settings = PathSettings {
        policy: PathPolicy::MsUcb,
        awareness: awareness::Config::rules(),
        ..with_rules(&[("eth1", Rule::Untrusted)])
    };
    let mut adapter = five(&settings, &Memory::new());
    let priorities = |adapter: &Adapter| -> Vec<Option<Priority>> {
        let links = adapter.paths.iter().map(PathState::link);
        links.map(|link| decide(&link).priority).collect()
    };
    for n in 1..200 {
        let subflows = (0..5).map(|i| subflow(i + 1, 100 * n, 0));
        adapter.poll(50_000 * u64::from(n), subflows.collect(), None);
        let all = priorities(&adapter);
        let count = |wanted| all.iter().filter(|p| **p == wanted).count();
        assert_eq!(all[0], None, "the user's rule excludes it");
        assert_eq!(count(Some(Priority::Normal)), 3);
        assert_eq!(count(Some(Priority::Backup)), 1);
    }
    // One that goes makes room for the one that was left out.
    let at = used(&adapter)[0];
    let all = (1..=5).map(|i| interface(i, &format!("eth{i}"), i as usize != at + 1));
    adapter.set_interfaces(10_000_000, all.collect(), &settings);
    let backup = |(i, p): (usize, &Option<Priority>)| *p == Some(Priority::Backup) && i != at;
    assert!(!priorities(&adapter).iter().enumerate().any(backup));
}

#[test]
fn a_lossy_path_goes_when_what_arrives_does_not_get_to_the_stream() {
    let in_backup = |in_order: u64| {
        let mut adapter = started(&PathSettings::default());
        for step in 1..=160 {
            let stream = Some(u64::from(step) * in_order * 1448);
            let both = [subflow(1, 50 * step, step / 2), subflow(2, 100 * step, 0)];
            let both = both.map(|s| Subflow { stream, ..s });
            adapter.poll(u64::from(step) * 50_000, both.into(), None);
        }
        backups(&adapter)
    };
    assert_eq!(in_backup(150), [(1, false), (2, false)]);
    assert_eq!(in_backup(60), [(1, true), (2, false)]);
}

/// What it carries at first says nothing of its path; what it carries after that does.
#[test]
fn a_connection_that_begins_slowly_does_not_bring_a_path_in_backup_back_at_once() {
    let settings = PathSettings::default();
    let mut adapter = started(&settings);
    let (mut now, mut sent, mut streams) = (0, [0; 2], [0; 2]);
    let mut poll = |adapter: &mut Adapter, token: u32, packets: u32| {
        let in_backup = adapter.paths[0].backup;
        let steps = if in_backup { [0, packets] } else { [50, 100] };
        sent = [sent[0] + steps[0], sent[1] + steps[1]];
        let stream = &mut streams[token as usize - 7];
        *stream += 1448 * u64::from(if in_backup { packets } else { 60 });
        let stream = Some(*stream);
        let of = |host: u8, n: u32, losses: u32| Subflow {
            token,
            stream,
            cookie: u64::from(token) << 8 | u64::from(host),
            ..subflow(host, n, losses)
        };
        now += 50_000;
        let both = [of(1, sent[0], sent[0] / 20), of(2, sent[1], 0)];
        adapter.poll(now, both.into(), None);
        adapter.paths[0].backup
    };
    let first = (0..100).filter(|_| poll(&mut adapter, 7, 160)).count();
    assert!(
        first > 20 && adapter.paths[0].backup,
        "{first} of 100 polls"
    );
    let slow = (0..58).filter(|_| poll(&mut adapter, 8, 10)).count();
    assert_eq!(slow, 58);
    let slower = (0..40).filter(|_| poll(&mut adapter, 8, 10)).count();
    assert!((10..30).contains(&slower), "{slower} of 40 polls");
}

#[test]
fn a_peer_that_goes_on_sending_over_a_path_in_backup_is_told_again() {
    let settings = with_rules(&[("wlan0", Rule::Metered)]);
    let mut adapter = started(&settings);
    let mut told = Vec::new();
    for n in 1..=60 {
        let both = [1, 2].map(|host: u8| {
            let mut s = subflow(host, 0, 0);
            (s.tcp.data_segs_in, s.tcp.rcv_mss) = (n * 50, 1448);
            s.tcp.bytes_received = u64::from(n) * 50 * 1448;
            Subflow {
                backup: host == 1,
                ..s
            }
        });
        adapter.poll(u64::from(n) * 50_000, both.into(), None);
        told.extend(adapter.again().retry);
    }
    assert_eq!(told, [IpAddr::from([10, 0, 0, 1])]);
}

#[test]
fn a_peer_that_stays_away_from_a_restored_path_is_told_again() {
    let settings = with_rules(&[("wlan0", Rule::Metered)]);
    let mut adapter = started(&settings);
    let mut told = Vec::new();
    for n in 1..=80 {
        let now = u64::from(n) * 50_000;
        if n == 20 {
            adapter.reconfigure(now, &settings, &PathSettings::default());
        }
        let backup = adapter.paths[0].backup;
        let both = [1, 2].map(|host: u8| {
            let mut s = subflow(host, 0, 0);
            if host == 2 {
                (s.tcp.data_segs_in, s.tcp.rcv_mss) = (n * 50, 1448);
                s.tcp.bytes_received = u64::from(n) * 50 * 1448;
            }
            Subflow {
                backup: host == 1 && backup,
                ..s
            }
        });
        adapter.poll(now, both.into(), None);
        told.extend(adapter.again().retry);
    }
    assert!(!adapter.paths[0].backup);
    assert_eq!(told, [IpAddr::from([10, 0, 0, 1])]);
}

/// Uploads, downloads, and connections that come and go: no view claims what the host cannot know.
#[test]
fn every_view_keeps_the_contract() {
    let received = |host: u8, packets: u32, holes: u32| {
        let mut s = subflow(host, 0, 0);
        s.tcp = TcpInfo {
            bytes_received: u64::from(packets) * 1448,
            data_segs_in: packets,
            rcv_ooopack: holes,
            rcv_mss: 1448,
            rcv_rtt: 12_000,
            ..s.tcp
        };
        s
    };
    let mut adapter = started(&PathSettings::default());
    let mut roles = Vec::new();
    let mut before: Option<(u64, Vec<Path>, Vec<Slot>, u64)> = None;
    for n in 1..=600u32 {
        let now = u64::from(n) * 50_000;
        let flows = match n {
            ..200 => vec![subflow(1, n * 50, n / 9), subflow(2, n * 20, 0)],
            200..250 => vec![],
            _ => vec![received(1, n * 50, n / 2 * 30), received(2, n * 20, 0)],
        };
        adapter.poll(now, flows, None);
        let (paths, slots) = (adapter.path_views(), adapter.slots());
        let view = adapter.view(now, &paths, &slots);
        let earlier = before.as_ref().map(|(at, paths, slots, bytes)| View {
            now_us: *at,
            paths,
            subflows: slots,
            bytes: *bytes,
            ..view
        });
        assert_eq!(view.check(earlier.as_ref()), Ok(()));
        let bytes = view.bytes;
        roles.push(view.role);
        before = Some((now, paths, slots, bytes));
    }
    assert_eq!((roles[199], roles[599]), (Role::Sender, Role::Receiver));
    let of = adapter.slots()[0].counters;
    assert_eq!(of.sent.map(|s| s.in_flight), Some(10), "of the requests");
    assert!(of.received.is_some_and(|r| r.out_of_order > 0 && !r.silent));
}
