//! The relay world: our schedulers on real sockets, over emulated paths.

mod common;

use std::sync::atomic::AtomicBool;

use common::{bytes_on, only, scenario, turn};
use mp_record::Run;
use mp_testbed::run_over_relay;

/// Two unlike paths, and a body whose hash is checked.
const TWO_PATHS: &str = r#"
    duration = "60s"
    sample_interval = "20ms"
    paths.near = { rate = "20Mbit", delay = "5ms" }
    paths.far = { rate = "10Mbit", delay = "30ms" }
"#;
const BYTES: u64 = 6_000_000;
/// Of HTTP, at most.
const HEADERS: u64 = 1000;

fn relayed(text: &str) -> Run {
    let scenario = scenario(text);
    let (variant, seed) = (&scenario.variants[0], scenario.seed);
    let stop = AtomicBool::new(false);
    let run =
        run_over_relay(&scenario, variant, seed, &mut |_| (), &stop).expect("the run succeeds");
    for t in &run.transfers {
        eprintln!("{t:?}, notes {:?}", run.notes);
    }
    run
}

fn with(scheduler: &str, direction: &str) -> Run {
    relayed(&format!(
        "{TWO_PATHS}\nconnections = [{{ bytes = \"{BYTES}B\", direction = \"{direction}\" }}]\n\
         variants = [{{ scheduler = \"{scheduler}\" }}]"
    ))
}

#[test]
fn every_byte_arrives_and_the_paths_that_brought_it_are_counted() {
    let Some(_turn) = turn() else { return };
    for direction in ["download", "upload"] {
        let run = with("round-robin", direction);
        let transfer = only(&run);
        assert_eq!((transfer.bytes, transfer.intact), (BYTES, Some(true)));
        assert!(transfer.multipath && !transfer.fallback && transfer.end_s.is_some());
        let on = ["near", "far"].map(|path| bytes_on(transfer, path));
        assert!(on[0] > 0 && on[1] > 0, "{direction}: {on:?}");
        // Once, and what was sent again.
        let (sum, most) = (on[0] + on[1], 2 * (BYTES + HEADERS));
        assert!((BYTES..=most).contains(&sum), "{direction}: {on:?}");
        for path in ["near", "far"] {
            let mut samples = run.samples.iter().filter(|s| s.path == path);
            let measured = samples.any(|s| s.delivered_bytes > 0 && s.srtt_us > 0 && s.cwnd > 0);
            assert!(measured, "{direction}: no sample of {path}");
        }
    }
}

#[test]
fn the_kernels_subflows_carry_a_device_over_mptcp() {
    let Some(_turn) = turn() else { return };
    for direction in ["download", "upload"] {
        let run = relayed(&format!(
            "{TWO_PATHS}\nconnections = [{{ bytes = \"{BYTES}B\", direction = \"{direction}\" }}]\n\
             variants = [{{ carrier = \"mptcp\" }}]"
        ));
        let transfer = only(&run);
        assert_eq!((transfer.bytes, transfer.intact), (BYTES, Some(true)));
        assert!(transfer.multipath && !transfer.fallback, "{direction}");
        let on = ["near", "far"].map(|path| bytes_on(transfer, path));
        assert!(
            on.iter().all(|bytes| *bytes > 100_000),
            "{direction}: {on:?}"
        );
        assert!(on[0] + on[1] >= BYTES, "{direction}: {on:?}");
        for path in ["near", "far"] {
            let mut samples = run.samples.iter().filter(|s| s.path == path);
            let measured = samples.any(|s| s.delivered_bytes > 0 && s.srtt_us > 0 && s.cwnd > 0);
            assert!(measured, "{direction}: no sample of {path}");
        }
    }
}

/// The same file and seed: only the scheduler differs.
#[test]
fn the_variants_scheduler_decides_what_the_paths_carry() {
    let Some(_turn) = turn() else { return };
    let redundant = with("redundant", "download");
    let single = with("min-rtt", "download");
    let copies = |run: &Run| {
        let on = ["near", "far"].map(|path| bytes_on(only(run), path));
        assert_eq!(only(run).intact, Some(true));
        (on[0] + on[1]).saturating_sub(BYTES + HEADERS)
    };
    let (many, few) = (copies(&redundant), copies(&single));
    assert!(many > BYTES / 10, "redundant sent {many} bytes twice");
    assert!(
        few < many,
        "min-rtt sent {few} bytes twice, redundant {many}"
    );
}

#[test]
fn a_transfer_outlives_the_silent_death_of_a_path() {
    let Some(_turn) = turn() else { return };
    let run = relayed(&format!(
        "{TWO_PATHS}\nconnections = [{{ bytes = \"{BYTES}B\" }}]\n\
         events = [{{ at = \"300ms\", path = \"near\", outage = true }}]\n\
         variants = [{{ scheduler = \"default\" }}]"
    ));
    let transfer = only(&run);
    assert_eq!((transfer.bytes, transfer.intact), (BYTES, Some(true)));
    assert!(bytes_on(transfer, "far") > BYTES / 2);
}

#[test]
fn plain_tcp_and_relayed_connections_run_side_by_side() {
    let Some(_turn) = turn() else { return };
    let run = relayed(&format!(
        "{TWO_PATHS}\n[[connections]]\nname = \"relayed\"\nbytes = \"1MB\"\ncount = 3\n\
         [[connections]]\nname = \"plain\"\nprotocol = \"tcp\"\npaths = [\"far\"]\nbytes = \"1MB\"\n"
    ));
    assert_eq!(run.transfers.len(), 4);
    for transfer in &run.transfers {
        assert_eq!((transfer.bytes, transfer.intact), (1_000_000, Some(true)));
        assert_eq!(transfer.multipath, transfer.connection == "relayed");
    }
}

#[test]
fn a_coupled_controller_runs_on_the_relays_connections() {
    let Some(_turn) = turn() else { return };
    let run = relayed(&format!(
        "{TWO_PATHS}\nconnections = [{{ bytes = \"{BYTES}B\" }}]\nvariants = [{{ controller = \"olia\" }}]"
    ));
    let transfer = only(&run);
    assert_eq!((transfer.bytes, transfer.intact), (BYTES, Some(true)));
}

/// Two good links and a bad one, of which MS-UCB uses two at a time.
const THREE_PATHS: &str = r#"
    duration = "90s"
    sample_interval = "20ms"
    paths.bad = { rate = "1Mbit", delay = "100ms", queue = "20p" }
    paths.fast = { rate = "20Mbit", delay = "5ms" }
    paths.near = { rate = "20Mbit", delay = "10ms" }
"#;

fn with_super_arms(variant: &str, bytes: u64, direction: &str) -> Run {
    relayed(&format!(
        "{THREE_PATHS}\nconnections = [{{ bytes = \"{bytes}B\", direction = \"{direction}\" }}]\n\
         variants = [{{ path_manager = \"ms-ucb\", {variant} }}]"
    ))
}

/// Share of the time in which a path was in backup.
fn in_backup(run: &Run, path: &str) -> f64 {
    let of = || run.samples.iter().filter(|s| s.path == path);
    of().filter(|s| s.backup).count() as f64 / of().count().max(1) as f64
}

#[test]
fn super_arms_leave_out_the_bad_link_in_both_directions() {
    let Some(_turn) = turn() else { return };
    for direction in ["download", "upload"] {
        let bytes = 40_000_000;
        let run = with_super_arms("scheduler = \"default\"", bytes, direction);
        let transfer = only(&run);
        assert_eq!((transfer.bytes, transfer.intact), (bytes, Some(true)));
        let paths = ["bad", "fast", "near"];
        let backup = paths.map(|path| in_backup(&run, path));
        let said = format!("{direction}: in backup {backup:.2?} of the time");
        // It is tried now and then; which of the others goes with it is chance.
        assert!(backup[0] > backup[1].max(backup[2]), "{said}");
        let on = paths.map(|path| bytes_on(transfer, path));
        assert!(on[0] < on[1].min(on[2]), "{said}, bytes {on:?}");
    }
}

/// Controller with the scheduler's target, cloning and delay balancing, super-arms.
#[test]
fn the_whole_of_ld_mpsp_runs_over_the_relay() {
    let Some(_turn) = turn() else { return };
    for direction in ["download", "upload"] {
        let whole = "controller = \"ld-mpsp\", scheduler = \"ld-mpsp\"";
        let run = with_super_arms(whole, BYTES, direction);
        let transfer = only(&run);
        assert_eq!((transfer.bytes, transfer.intact), (BYTES, Some(true)));
        assert!(in_backup(&run, "bad") > 0.0);
    }
}
