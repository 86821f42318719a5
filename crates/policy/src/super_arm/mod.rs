//! MS-UCB: which n of I links a connection should use, learnt from the delay of those it used.
//!
//! A round uses a super-arm S of n links and tells a reward of each link in it (a semi-bandit). The next one is
//!
//! ```text
//! S(t+1) = argmax_{|S|=n} Σ_{i∈S} [ v_i + √((n+1)·ln(t+1) / u_i) ]
//! ```
//!
//! with v_i the mean reward of link i and u_i how often it was seen: LLR (Gai, Krishnamachari, Jain, "Combinatorial
//! Network Optimization with Unknown Variables", IEEE/ACM ToN 2012) on a sum, whose best super-arm is simply the n
//! largest indices. Until every link was seen, super-arms are random but for one that was not.
//!
//! [`federation`] joins what several users of the same links know.

pub mod federation;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};

/// Links at most: a super-arm is a set of bits.
pub const MAX_LINKS: usize = 64;

/// What is known of a link.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Arm {
    /// u: how often it was seen; less where the past is discounted.
    pub count: f64,
    /// v: its mean reward, 0 to 1.
    pub mean: f64,
}

impl Arm {
    pub(crate) fn add(&mut self, reward: f64) {
        self.weigh_in(reward, 1.0);
    }

    fn weigh_in(&mut self, mean: f64, weight: f64) {
        self.count += weight;
        self.mean += (mean - self.mean) * weight / self.count;
    }

    fn remove(&mut self, reward: f64) {
        self.count -= 1.0;
        if self.count < 0.5 {
            *self = Arm::default();
        } else {
            self.mean -= (reward - self.mean) / self.count;
        }
    }
}

/// How much of the past counts, for links that change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Past {
    /// All of it: for links that stay as they are.
    All,
    /// An outcome weighs this factor less in each later round (Garivier and Moulines, ALT 2011).
    Discounted(f64),
    /// The last rounds alone (the same).
    Window(u32),
}

/// 1 − delay/reference, within 0 and 1: the reward of a link. The reference is fixed for all links and rounds, e.g. 100 ms.
pub fn reward(delay_us: f64, reference_us: f64) -> f64 {
    if !delay_us.is_finite() || reference_us.is_nan() || reference_us <= 0.0 {
        return 0.0;
    }
    (1.0 - delay_us / reference_us).clamp(0.0, 1.0)
}

/// The reward as printed, whose reference is the slowest link of the chosen super-arm. It prefers bad company: delays of
/// {10, 10} score 0 each, those of {10, 100} 0.9 and 0. Kept for comparison.
pub fn printed_reward(delay_us: f64, chosen_us: &[f64]) -> f64 {
    let slowest = chosen_us.iter().copied().fold(0.0, f64::max);
    reward(delay_us, slowest)
}

/// A set of links. Bit `i`: link `i`.
pub type SuperArm = u64;

pub fn links(set: SuperArm) -> impl Iterator<Item = usize> {
    (0..MAX_LINKS).filter(move |i| set >> i & 1 == 1)
}

#[derive(Debug, Clone)]
pub struct MsUcb {
    arms: Vec<Arm>,
    size: usize,
    past: Past,
    /// Rounds told of, those of others that were taken over included.
    rounds: f64,
    /// Rewards of rounds within a window, oldest first.
    recent: VecDeque<Vec<(u8, f64)>>,
    draw: Xoshiro256PlusPlus,
}

impl MsUcb {
    /// Chooses `size` of `links` links (64 at most).
    pub fn new(links: usize, size: usize, past: Past, seed: u64) -> MsUcb {
        let links = links.min(MAX_LINKS);
        MsUcb {
            arms: vec![Arm::default(); links],
            size: size.min(links),
            past,
            rounds: 0.0,
            recent: VecDeque::new(),
            draw: Xoshiro256PlusPlus::seed_from_u64(seed),
        }
    }

    pub fn arms(&self) -> &[Arm] {
        &self.arms
    }

    /// More links appear; they have not been seen.
    pub fn grow(&mut self, links: usize, size: usize) {
        let links = links.min(MAX_LINKS).max(self.arms.len());
        self.arms.resize(links, Arm::default());
        self.size = size.min(links);
    }

    /// v_i + √((n+1)·ln(t+1) / u_i); infinite while the link was not seen.
    pub fn index(&self, link: usize) -> f64 {
        let Some(arm) = self.arms.get(link).filter(|a| a.count > 0.0) else {
            return f64::INFINITY;
        };
        let t = match self.past {
            Past::All => self.rounds,
            // As many as the past that counts.
            Past::Discounted(factor) => self.rounds.min(1.0 / (1.0 - factor).max(1e-9)),
            Past::Window(rounds) => self.rounds.min(f64::from(rounds)),
        };
        arm.mean + libm::sqrt((self.size + 1) as f64 * libm::log(t + 1.0) / arm.count)
    }

    /// The super-arm of the next round, of the links marked; fewer than n where fewer are.
    pub fn choose(&mut self, available: SuperArm) -> SuperArm {
        let mut order = [(0.0f64, 0u64, 0u8); MAX_LINKS];
        let mut count = 0;
        for link in (0..self.arms.len()).filter(|l| available >> l & 1 == 1) {
            // Ties, and links that were not seen, come in random order.
            order[count] = (self.index(link), self.draw.next_u64(), link as u8);
            count += 1;
        }
        let order = &mut order[..count];
        let unseen = order.iter().filter(|o| o.0 == f64::INFINITY).count();
        if unseen > 0 && unseen < self.size {
            // The rest of the super-arm is random, too: nothing is known well yet.
            let known = order.iter_mut().filter(|o| o.0 < f64::INFINITY);
            known.for_each(|o| o.0 = 0.0);
        }
        order.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let chosen = order.iter().take(self.size);
        chosen.fold(0, |set, o| set | 1 << o.2)
    }

    /// What came of a round: links that were used, each with its reward. One that is no number counts as 0.
    pub fn update(&mut self, rewards: &[(usize, f64)]) {
        self.rounds += 1.0;
        if let Past::Discounted(factor) = self.past {
            self.arms.iter_mut().for_each(|a| a.count *= factor);
        }
        let clean = |r: f64| if r.is_nan() { 0.0 } else { r.clamp(0.0, 1.0) };
        for &(link, reward) in rewards {
            if let Some(arm) = self.arms.get_mut(link) {
                arm.add(clean(reward));
            }
        }
        if let Past::Window(rounds) = self.past {
            let seen = |&(link, reward): &(usize, f64)| {
                (link < self.arms.len()).then(|| (link as u8, clean(reward)))
            };
            self.recent
                .push_back(rewards.iter().filter_map(seen).collect());
            while self.recent.len() > rounds.max(1) as usize {
                for (link, reward) in self.recent.pop_front().unwrap_or_default() {
                    self.arms[usize::from(link)].remove(reward);
                }
            }
        }
    }

    /// Begins with what others know of the links: what a new connection receives in its handshake.
    pub fn take_over(&mut self, arms: &[Arm]) {
        for (own, other) in self.arms.iter_mut().zip(arms) {
            if other.count.is_finite() && other.count > 0.0 && other.mean.is_finite() {
                *own = Arm {
                    count: other.count,
                    mean: other.mean.clamp(0.0, 1.0),
                };
            }
        }
        let seen: f64 = self.arms.iter().map(|a| a.count).sum();
        self.rounds = self.rounds.max(seen / self.size.max(1) as f64);
        self.recent.clear();
    }
}
