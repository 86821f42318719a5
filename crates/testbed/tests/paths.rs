//! What the emulated paths do to real MPTCP connections.

mod common;

use common::{bytes_on, can_run, goodput, run, scenario};

const TWO_PATHS: &str = r#"
    duration = "8s"
    [paths.a]
    rate = "20Mbit"
    delay = "10ms"
    [paths.b]
    rate = "40Mbit"
    delay = "20ms"
    [[variants]]
    controller = "cubic"
"#;

#[test]
fn two_paths_aggregate_and_the_body_arrives_whole() {
    if !can_run() {
        return;
    }
    let text = format!("{TWO_PATHS}\n[[connections]]\npaths = [\"a\", \"b\"]\nbytes = \"20MB\"");
    let run = run(&scenario(&text)).unwrap();
    let [transfer] = &run.transfers[..] else {
        panic!("{:?}", run.transfers)
    };
    assert_eq!(transfer.intact, Some(true));
    assert!(!transfer.fallback);
    assert!(goodput(transfer, &run) > 40.0);
    assert!(bytes_on(transfer, "a") > 3_000_000 && bytes_on(transfer, "b") > 6_000_000);
    for path in ["a", "b"] {
        assert!(run
            .samples
            .iter()
            .any(|s| s.path == path && s.cwnd > 10 && s.srtt_us > 20_000));
    }
}
