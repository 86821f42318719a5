//! Any text is either refused in one line, or an actor whose actions are numbers or openly none.
#![no_main]

use libfuzzer_sys::fuzz_target;
use mp_policy::actor::Actor;

fuzz_target!(|text: &str| {
    match Actor::parse(text) {
        Ok(actor) => {
            for observation in [vec![0.0; actor.inputs()], vec![1e30; actor.inputs() + 1], vec![f32::NAN]] {
                let action = actor.act(&observation);
                assert!(action.is_nan() || (-1.0..=1.0).contains(&action), "{action}");
            }
        }
        Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
    }
});
