//! Every allocation there is: (|B||I| + 1)^|R| of them.

use super::{Assignment, Duty, Problem};

/// The best of all. For small cases: three chains, four beams and three devices are 2,197 allocations.
pub fn exhaustive(problem: &Problem) -> Assignment {
    let choices = problem.beams * problem.devices + 1;
    let mut number = vec![0usize; problem.chains];
    let duty = |n: usize| {
        n.checked_sub(1).map(|n| Duty {
            beam: n / problem.devices,
            device: n % problem.devices,
        })
    };
    let mut best = (0.0, vec![None; problem.chains]);
    loop {
        let assignment: Assignment = number.iter().map(|n| duty(*n)).collect();
        if problem.allows(&assignment) {
            let reached = problem.throughput(&assignment);
            if reached > best.0 {
                best = (reached, assignment);
            }
        }
        // Counts up, a digit a chain.
        let Some(digit) = number.iter().position(|n| n + 1 < choices) else {
            return best.1;
        };
        number[..digit].fill(0);
        number[digit] += 1;
    }
}
