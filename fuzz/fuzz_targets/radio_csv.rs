//! Any text is either refused in one line with its number, or waypoints or channels whose times ascend from 0.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mp_wireless::csv;

fuzz_target!(|text: &str| {
    match csv::waypoints(text) {
        Ok(points) => {
            assert!(points[0].0 == 0.0 && points.is_sorted_by(|a, b| a.0 < b.0));
            assert!(points.iter().all(|(_, place)| place.iter().all(|v| v.is_finite())));
        }
        Err(problem) => assert!(!problem.what.contains('\n') && problem.line > 0, "{problem:?}"),
    }
    match csv::channels(text) {
        Ok(all) => {
            for series in &all {
                assert!(series.loss[0].0 == 0.0 && series.loss.is_sorted_by(|a, b| a.0 < b.0));
                assert!(series.loss.iter().all(|(_, loss)| *loss >= 0.0) && series.at(1e12) >= 0.0);
            }
        }
        Err(problem) => assert!(!problem.what.contains('\n') && problem.line > 0, "{problem:?}"),
    }
});
