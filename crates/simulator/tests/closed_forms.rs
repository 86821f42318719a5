//! What theory says of simple cases.

mod common;
use common::*;

#[test]
fn explore() {
    for (rate, delay, loss) in [
        (10, 10, 0.0),
        (100, 10, 0.0),
        (100, 10, 0.001),
        (100, 10, 0.01),
        (100, 10, 0.03),
        (100, 75, 0.001),
    ] {
        for c in ["reno", "cubic", "bbr"] {
            let s = scenario(vec![path(mbit(rate), ms(delay), 200, loss)], ms(60_000));
            let t = std::time::Instant::now();
            let (run, e) = mp_simulator::measure(&s, &variant(c), 1).unwrap();
            let el = t.elapsed().as_secs_f64();
            eprintln!(
                "{rate} Mbit {delay} ms p={loss} {c}: {:.3} Mbit/s, {} packets, {:.2} M/s, lost {}",
                goodput(&run),
                e.packets,
                e.packets as f64 / el / 1e6,
                run.samples.last().map_or(0, |s| s.lost)
            );
        }
    }
    for c in ["reno", "lia", "olia", "balia", "wvegas", "cubic", "bbr"] {
        for (l1, l2) in [(0.0, 0.0), (0.01, 0.01), (0.001, 0.01)] {
            let s = scenario(
                vec![
                    path(mbit(100), ms(10), 200, l1),
                    path(mbit(50), ms(20), 200, l2),
                ],
                ms(60_000),
            );
            let t = std::time::Instant::now();
            let (run, e) = mp_simulator::measure(&s, &variant(c), 1).unwrap();
            let el = t.elapsed().as_secs_f64();
            eprintln!(
                "100+50 {c} p={l1},{l2}: {:.3} Mbit/s, {} packets, {:.2} M/s {:?}",
                goodput(&run),
                e.packets,
                e.packets as f64 / el / 1e6,
                run.transfers[0].path_bytes
            );
        }
    }
}
