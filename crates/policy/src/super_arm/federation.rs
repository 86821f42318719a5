//! Federated MS-UCB: devices on the same links share counts and means, never what they sent.

use super::Arm;

/// ū_i = Σ_x u_i^x, v̄_i = Σ_x u_i^x v_i^x / ū_i: what one learner who had seen all of it would know.
pub fn merge<'a>(users: impl IntoIterator<Item = &'a [Arm]>) -> Vec<Arm> {
    let mut sum: Vec<Arm> = Vec::new();
    for arms in users {
        sum.resize(sum.len().max(arms.len()), Arm::default());
        for (total, arm) in sum.iter_mut().zip(arms) {
            total.join(*arm);
        }
    }
    sum
}

impl Arm {
    /// As if one had seen what both did. A report that no link can have given is passed over.
    pub fn join(&mut self, other: Arm) {
        if sound(&other) {
            self.weigh_in(other.mean, other.count);
        }
    }
}

/// The same against users that lie: a count weighs no more than twice the median count of the link, and of the means, ordered, the
/// outermost `trim` of the users at either end (0 to ½) are left out. Means beyond 0 and 1 are no rewards and do not count at all.
pub fn merge_trimmed(users: &[&[Arm]], trim: f64) -> Vec<Arm> {
    let links = users.iter().map(|u| u.len()).max().unwrap_or(0);
    let of = |link: usize| {
        let mut arms: Vec<Arm> = users
            .iter()
            .filter_map(|u| u.get(link).copied())
            .filter(sound)
            .collect();
        arms.sort_by(|a, b| a.count.total_cmp(&b.count));
        let Some(median) = arms.get(arms.len() / 2).map(|a| a.count) else {
            return Arm::default();
        };
        arms.sort_by(|a, b| a.mean.total_cmp(&b.mean));
        let out = (arms.len() as f64 * trim.clamp(0.0, 0.5)).floor() as usize;
        let out = out.min((arms.len() - 1) / 2);
        let kept = &arms[out..arms.len() - out];
        let mut total = Arm::default();
        for arm in kept {
            total.weigh_in(arm.mean, arm.count.min(2.0 * median));
        }
        total
    };
    (0..links).map(of).collect()
}

/// The form as printed, with user x's mean weighed 1/x: ten users who all say v come to 0.29 v. Kept for comparison.
pub fn merge_printed(users: &[&[Arm]]) -> Vec<Arm> {
    let links = users.iter().map(|u| u.len()).max().unwrap_or(0);
    let of = |link: usize| {
        let mut total = Arm::default();
        for (x, arm) in users.iter().filter_map(|u| u.get(link)).enumerate() {
            total.count += arm.count;
            total.mean += arm.mean / (x + 1) as f64 / users.len() as f64;
        }
        total
    };
    (0..links).map(of).collect()
}

/// A report that a link can have given.
fn sound(arm: &Arm) -> bool {
    arm.count.is_finite() && arm.count > 0.0 && (0.0..=1.0).contains(&arm.mean)
}
