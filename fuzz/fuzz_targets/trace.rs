//! Any bytes are either refused in one line, or a trace whose times ascend and which can carry something.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mp_scenario::{trace, TraceKind};

fuzz_target!(|content: &[u8]| {
    for name in ["x.mahi", "x.csv", "x.csv.gz"] {
        match trace::parse(name, content) {
            Ok(TraceKind::Opportunities { times, period }) => {
                assert!(times.is_sorted() && times.last() == Some(&period) && !period.is_zero());
            }
            Ok(TraceKind::Steps(steps)) => {
                assert!(steps[0].at.is_zero() && steps.is_sorted_by(|a, b| a.at < b.at));
                assert!(steps.iter().any(|s| s.rate > 0) && steps.iter().all(|s| s.loss.is_none_or(|l| l <= 1.0)));
            }
            Ok(TraceKind::Radio(_)) => panic!("no file is a radio"),
            Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
        }
    }
});
