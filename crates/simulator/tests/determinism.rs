//! The same file and seed give the same bits: on any number of threads, on any machine.

mod common;
use common::*;

use std::fmt::Write;
use std::path::Path;

fn busy() -> mp_scenario::Scenario {
    let mut s = scenario(
        vec![
            path(mbit(20), ms(10), 60, 0.005),
            path(mbit(10), ms(40), 60, 0.0),
        ],
        ms(10_000),
    );
    s.connections[0].bytes = Some(300_000);
    s.connections[0].count = 8;
    s.connections[0].arrivals = Some(6.0);
    s.connections.push(connection(&["b", "a"]));
    s
}

#[test]
fn any_number_of_threads_gives_the_same_runs() {
    let s = busy();
    let seeds: Vec<u64> = (0..12).collect();
    for controller in ["lia", "cubic", "bbr"] {
        let v = variant(controller);
        let one: Vec<_> = seeds
            .iter()
            .map(|&seed| mp_simulator::simulate(&s, &v, seed))
            .collect();
        assert!(
            one.windows(2).all(|w| w[0] != w[1]),
            "seeds make no difference"
        );
        for threads in [1, 2, 5, 40] {
            assert_eq!(mp_simulator::simulate_many(&s, &v, &seeds, threads), one);
        }
    }
}

/// Goodput over buffer and loss, to the byte. What changes here changes results: look at it, and where it is meant, set
/// UPDATE_SNAPSHOTS=1.
#[test]
fn throughput_over_buffer_and_loss() {
    let mut table = String::from("controller  queue  loss   bytes on a   bytes on b  delivered\n");
    for controller in ["reno", "lia", "olia", "balia", "cubic", "bbr"] {
        for queue in [10, 50, 200] {
            for loss in [0.0, 0.001, 0.01, 0.05] {
                let paths = vec![
                    path(mbit(20), ms(10), queue, loss),
                    path(mbit(10), ms(30), queue, loss),
                ];
                let run = simulate(&scenario(paths, ms(10_000)), &variant(controller), 1);
                let t = &run.transfers[0];
                let on = |i: usize| t.path_bytes.get(i).map_or(0, |p| p.1);
                let _ = writeln!(
                    table,
                    "{controller:10}  {queue:5}  {loss:5} {:11}  {:11}  {:9}",
                    on(0),
                    on(1),
                    t.bytes
                );
            }
        }
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots/throughput.txt");
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, &table).unwrap();
    }
    assert_eq!(table, std::fs::read_to_string(&file).unwrap());
}
