use super::*;
use crate::adapter::tests::{backups, started, subflow};

#[test]
fn a_connection_begins_with_what_those_before_it_have_learned() {
    let settings = Settings::default();
    let host = started(&settings);
    let begin = |now, over, known: &Memory| {
        Connection::new(now, &host, &settings, &[subflow(over, 0, 0)], known)
    };
    let mut before = begin(0, 1, &Memory::new());
    let mut now = 0;
    for n in 1..=160 {
        now += 50_000;
        let sent = if before.adapter.paths[0].backup {
            0
        } else {
            50 * n
        };
        // Of 150 packets 60 get to the stream.
        let stream = Some(60 * 1448 * u64::from(n));
        let both = [subflow(1, sent, sent / 20), subflow(2, 100 * n, 0)];
        let both = both.map(|s| Subflow { stream, ..s });
        before.adapter.poll(now, both.into(), None);
    }
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
