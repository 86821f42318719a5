use mp_policy::path_manager::Probes;

use super::*;
use crate::adapter::tests::{backups, started, subflow};

/// The `n`th poll of a connection whose first path loses a twentieth, and more of the transfer than it carries.
fn one_loses(connection: &mut Connection, n: u32) -> u64 {
    let now_us = 50_000 * u64::from(n);
    let sent = match connection.adapter.paths[0].backup {
        true => 0,
        false => 50 * n,
    };
    // Of 150 packets 60 get to the stream.
    let stream = Some(60 * 1448 * u64::from(n));
    let both = [subflow(1, sent, sent / 20), subflow(2, 100 * n, 0)];
    let both = both.map(|s| Subflow { stream, ..s });
    connection.adapter.poll(now_us, both.into(), None);
    now_us
}

#[test]
fn a_connection_begins_with_what_those_before_it_have_learned() {
    let settings = PathSettings::default();
    let host = started(&settings);
    let begin = |now, over, known: &Memory| {
        Connection::new(now, &host, &settings, &[subflow(over, 0, 0)], known)
    };
    let (mut before, mut now) = (begin(0, 1, &Memory::new()), 0);
    (1..=160).for_each(|n| now = one_loses(&mut before, n));
    assert_eq!(backups(&before.adapter), [(1, true), (2, false)]);
    let known = together([before.adapter.export_state()]);

    let minute = 60_000_000;
    let over_the_other = begin(now + minute, 2, &known);
    assert_eq!(backups(&over_the_other.adapter), [(1, true), (2, false)]);
    let mut over_it = begin(now + minute, 1, &known);
    assert_eq!(
        backups(&over_it.adapter),
        [(1, false), (2, false)],
        "nothing else yet"
    );
    let both = [subflow(1, 10, 0), subflow(2, 0, 0)];
    over_it
        .adapter
        .poll(now + minute + 50_000, both.into(), None);
    assert_eq!(backups(&over_it.adapter), [(1, true), (2, false)]);
    let later = begin(now + 11 * minute, 2, &known);
    assert_eq!(
        backups(&later.adapter),
        [(1, false), (2, false)],
        "forgotten"
    );
}

#[test]
fn the_host_probes_the_paths_that_a_connection_has_in_backup() {
    let settings = PathSettings::default();
    let mut host = started(&settings);
    let mut connection = Connection::new(0, &host, &settings, &[subflow(1, 0, 0)], &Memory::new());
    let mut asked = Vec::new();
    for n in 1..=400 {
        one_loses(&mut connection, n);
        asked.extend(connection.probe_requests(&host.paths));
    }
    assert_eq!(backups(&connection.adapter), [(1, true), (2, false)]);
    assert!(asked.iter().all(|request| request.path == 0));
    // Every connection asks, and the host sends once.
    let [first, .., last] = asked[..] else {
        panic!("it has asked {} times", asked.len())
    };
    host.probe_requests();
    for request in [first, last] {
        host.ask_for_probes(request);
    }
    assert_eq!(host.probe_requests(), [first]);

    let probes = Probes {
        answered: 40,
        lost: 2,
    };
    host.paths[0].probes = probes;
    connection.hear(&host.paths);
    let known = connection.adapter.paths.iter().map(|p| p.probes);
    assert_eq!(known.collect::<Vec<_>>(), [probes, Probes::default()]);
}
