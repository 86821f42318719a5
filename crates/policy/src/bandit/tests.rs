//! What holds for every policy.

use super::*;

/// Two features; arm 0 pays where the first is positive, arm 1 where it is negative, both noisily.
fn world(draw: &mut Draw) -> (Vec<f64>, [bool; 2]) {
    let x = vec![draw.normal(), draw.normal()];
    let p = logistic::sigmoid(3.0 * x[0]);
    let rewards = [draw.unit() < p, draw.unit() < 1.0 - p];
    (x, rewards)
}

fn bandit(policy: Policy, seed: u64) -> Bandit {
    Bandit::new(Settings::new(policy), ["wifi", "lte"], ["a", "b"], seed).unwrap()
}

#[test]
fn every_policy_learns_which_arm_pays_where() {
    for (name, policy) in Policy::NAMED {
        let mut b = bandit(*policy, 3);
        let mut draw = Draw::new(11);
        let mut late = 0;
        for t in 0..2000 {
            let (x, rewards) = world(&mut draw);
            let arm = b.decide(&x).arm;
            b.update(&x, arm, rewards[arm]);
            late += u32::from(t >= 1500 && rewards[arm]);
        }
        // Best possible: E σ(3|z|) = 0.83; blind: 0.5.
        assert!(late > 360, "{name}: {late} of 500");
    }
}
