//! Nothing is left behind: at the end, when stopped, after kill −9, with two runs at once.

mod common;

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{namespaces_of, run, scenario, turn};
use mp_testbed::Error;

const LONG: &str =
    "duration = \"60s\"\npaths.a = { rate = \"10Mbit\" }\npaths.b = { rate = \"10Mbit\" }\n\
                    variants = [{ controller = \"lia\" }]";
const SHORT: &str = "duration = \"1s\"\npaths.a = { rate = \"10Mbit\" }";
/// Set in the process that is to be killed.
const VICTIM: &str = "MULTIPILOT_TEST_VICTIM";

#[test]
fn a_stopped_run_ends_at_once_and_leaves_nothing() {
    let Some(_turn) = turn() else { return };
    let (scenario, stop) = (scenario(LONG), AtomicBool::new(false));
    let mut last = 0.0;
    let started = Instant::now();
    let mut progress = |elapsed: f64| {
        assert!(elapsed >= last);
        last = elapsed;
        stop.store(elapsed > 0.5, Ordering::Relaxed);
    };
    let result = mp_testbed::run(&scenario, &scenario.variants[0], 1, &mut progress, &stop);
    assert!(matches!(result, Err(Error::Stopped)), "{result:?}");
    assert!(started.elapsed() < Duration::from_secs(45));
    assert!(last > 0.5);
    assert_eq!(ours(), Vec::<String>::new());
}

#[test]
fn a_panic_in_the_callers_code_leaves_nothing() {
    let Some(_turn) = turn() else { return };
    let scenario = scenario(LONG);
    let result = std::panic::catch_unwind(|| {
        let stop = AtomicBool::new(false);
        mp_testbed::run(
            &scenario,
            &scenario.variants[0],
            1,
            &mut |_| panic!("as the test wants"),
            &stop,
        )
    });
    assert!(result.is_err());
    assert_eq!(ours(), Vec::<String>::new());
}

#[test]
fn the_next_run_collects_what_a_killed_one_left() {
    if std::env::var_os(VICTIM).is_some() {
        run(LONG);
        return;
    }
    let Some(_turn) = turn() else { return };
    let mut victim = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_next_run_collects_what_a_killed_one_left"])
        .env(VICTIM, "1")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let started = Instant::now();
    while namespaces_of(&[victim.id()]).len() < 3 {
        assert!(
            started.elapsed() < Duration::from_secs(90),
            "the victim did not begin"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_secs(1));
    victim.kill().unwrap();
    victim.wait().unwrap();
    let left = namespaces_of(&[victim.id()]);
    assert!(left.len() >= 3, "kill −9 left only {left:?}");
    run(SHORT);
    let process = victim.id();
    assert_eq!(
        namespaces_of(&[process, std::process::id()]),
        Vec::<String>::new()
    );
}

#[test]
fn two_runs_at_once_do_not_disturb_each_other() {
    let Some(_turn) = turn() else { return };
    let text = "duration = \"60s\"\npaths.a = { rate = \"10Mbit\", delay = \"5ms\" }\n\
                paths.b = { rate = \"10Mbit\", delay = \"5ms\" }\nconnections = [{ bytes = \"5MB\" }]\n\
                variants = [{ controller = \"lia\" }]";
    std::thread::scope(|scope| {
        let runs: Vec<_> = (0..2).map(|_| scope.spawn(|| run(text))).collect();
        for run in runs {
            let run = run.join().unwrap();
            let transfer = common::only(&run);
            assert_eq!((transfer.intact, transfer.fallback), (Some(true), false));
            common::both_carried(transfer, 500_000);
        }
    });
    assert_eq!(ours(), Vec::<String>::new());
}

#[test]
fn many_runs_hold_no_more_than_one() {
    let Some(_turn) = turn() else { return };
    let count = || {
        ["fd", "task"].map(|of| {
            let all = std::fs::read_dir(format!("/proc/self/{of}")).unwrap();
            all.count()
        })
    };
    // A thread that has been joined is there for a moment more.
    let settled = || {
        let looks = (0..50).map(|_| {
            std::thread::sleep(Duration::from_millis(10));
            count()
        });
        looks.reduce(|a, b| [a[0].min(b[0]), a[1].min(b[1])])
    };
    run(SHORT);
    let before = settled();
    run(SHORT);
    assert_eq!(settled(), before);
}

fn ours() -> Vec<String> {
    namespaces_of(&[std::process::id()])
}
