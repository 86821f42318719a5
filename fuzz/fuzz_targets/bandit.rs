//! Any bytes are either refused in one line, or a bandit that decides, learns, and comes back from its own file the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mp_policy::bandit::file::{decode, encode};

fuzz_target!(|content: &[u8]| {
    let mut bandit = match decode("fuzz.json", content) {
        Ok(bandit) => bandit,
        Err(error) => return assert!(!error.to_string().contains('\n'), "{error}"),
    };
    assert_eq!(encode(&decode("again", &encode(&bandit)).expect("its own file")), encode(&bandit));
    let arms = bandit.arms().len();
    for context in [&[][..], &[1.0, f64::NAN, -1e300], &[f64::INFINITY; 9]] {
        let decision = bandit.decide(context);
        assert!(decision.arm < arms && (0.0..=1.0).contains(&decision.probability), "{decision:?}");
        bandit.update(context, decision.arm, context.is_empty());
        assert!(bandit.predict(context).iter().all(|p| (0.0..=1.0).contains(p)), "{:?}", bandit.predict(context));
    }
});
