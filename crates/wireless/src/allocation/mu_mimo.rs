//! MU-MIMO of 802.11ad as the baseline: sector sweeps give each user its best sector, users are served in their order, one
//! chain each, and nothing is done about interference.

use super::{Assignment, Duty, Problem};

pub fn mu_mimo(problem: &Problem) -> Assignment {
    (0..problem.chains)
        .map(|chain| {
            (chain < problem.devices).then(|| Duty {
                beam: problem.best_beam(chain, chain),
                device: chain,
            })
        })
        .collect()
}
