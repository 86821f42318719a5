//! Algorithm 1 as its remark says it: again and again the (beam, chain, device) with the largest gain in total
//! throughput, until none gains: O(|I||R|³|B|).

use super::{Assignment, Duty, Problem};

pub fn greedy(problem: &Problem) -> Assignment {
    let mut chosen: Assignment = vec![None; problem.chains];
    let mut on_device = vec![0usize; problem.devices];
    // What the chosen chains leave at each device: in all, and from those that serve it.
    let mut heard = vec![0.0; problem.devices];
    let mut own = vec![0.0; problem.devices];
    let mut total = 0.0;
    loop {
        let mut best: Option<(f64, usize, Duty)> = None;
        let idle = (0..problem.chains).filter(|r| chosen[*r].is_none());
        // Where all chains are alike, one idle chain stands for all of them.
        for chain in idle.take(if problem.alike() { 1 } else { problem.chains }) {
            for device in (0..problem.devices).filter(|i| on_device[*i] < problem.streams) {
                for beam in 0..problem.beams {
                    let duty = Duty { beam, device };
                    let reached = with(problem, &chosen, &heard, &own, chain, duty);
                    if best.is_none_or(|(most, ..)| reached > most) {
                        best = Some((reached, chain, duty));
                    }
                }
            }
        }
        match best {
            Some((reached, chain, duty)) if reached > total => {
                for (device, all) in heard.iter_mut().enumerate() {
                    *all += problem.power(chain, duty.beam, device);
                }
                own[duty.device] += problem.power(chain, duty.beam, duty.device);
                on_device[duty.device] += 1;
                chosen[chain] = Some(duty);
                total = reached;
            }
            _ => return chosen,
        }
    }
}

/// Σ θ with one more chain at work, by products rather than sums of logarithms: one logarithm a candidate.
fn with(
    problem: &Problem,
    chosen: &[Option<Duty>],
    heard: &[f64],
    own: &[f64],
    chain: usize,
    more: Duty,
) -> f64 {
    let mut product = 1.0;
    let mut theta = 0.0;
    let mut count = |signal: f64, interference: f64| {
        product *= 1.0 + signal / (interference.max(0.0) + problem.noise);
        // Far from where a float ends.
        if product > 1e200 {
            theta += product.log2();
            product = 1.0;
        }
    };
    for (r, duty) in chosen.iter().enumerate() {
        let Some(d) = duty else { continue };
        let mut interference = heard[d.device] - own[d.device];
        if d.device != more.device {
            interference += problem.power(chain, more.beam, d.device);
        }
        count(problem.power(r, d.beam, d.device), interference);
    }
    count(
        problem.power(chain, more.beam, more.device),
        heard[more.device] - own[more.device],
    );
    theta + product.log2()
}
