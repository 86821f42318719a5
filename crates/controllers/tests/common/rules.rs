//! Increases in packets per acknowledged packet. `w` packets, `t` seconds, `i` the subflow that is acknowledged.

pub struct Path {
    pub w: f64,
    pub t: f64,
}

impl Path {
    pub fn rate(&self) -> f64 {
        self.w / self.t
    }
}

impl From<&mp_controllers::Subflow> for Path {
    fn from(subflow: &mp_controllers::Subflow) -> Self {
        Self {
            w: subflow.cwnd as f64,
            t: subflow.srtt_us as f64 / 1e6,
        }
    }
}

pub fn paths(subflows: &[mp_controllers::Subflow]) -> Vec<Path> {
    subflows.iter().map(Path::from).collect()
}

fn total(paths: &[Path]) -> f64 {
    paths.iter().map(Path::rate).sum()
}

fn largest(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(0.0, f64::max)
}

/// a/W before the cap: RFC 6356.
pub fn lia_coupled(paths: &[Path]) -> f64 {
    largest(paths.iter().map(|p| p.w / p.t.powi(2))) / total(paths).powi(2)
}

pub fn lia(paths: &[Path], i: usize) -> f64 {
    lia_coupled(paths).min(1.0 / paths[i].w)
}

pub fn dalia(paths: &[Path], i: usize) -> f64 {
    let shortest = paths.iter().map(|p| p.t).fold(f64::INFINITY, f64::min);
    (lia_coupled(paths) * shortest / paths[i].t).min(1.0 / paths[i].w)
}

/// Khalili 2013; `l` bytes between losses.
pub fn olia_alpha(paths: &[Path], l: &[f64], i: usize) -> f64 {
    let quality = |k: usize| l[k] / paths[k].t.powi(2);
    let best = largest((0..paths.len()).map(quality));
    let widest = largest(paths.iter().map(|p| p.w));
    // equal but for the rounding of floating point
    let in_best = |k: usize| quality(k) >= best * (1.0 - 1e-12);
    let in_widest = |k: usize| paths[k].w == widest;
    let n = paths.len() as f64;
    let count = |f: &dyn Fn(usize) -> bool| (0..paths.len()).filter(|&k| f(k)).count() as f64;
    let collected = count(&|k| in_best(k) && !in_widest(k));
    if collected == 0.0 {
        0.0
    } else if in_widest(i) {
        -1.0 / (n * count(&in_widest))
    } else if in_best(i) {
        1.0 / (n * collected)
    } else {
        0.0
    }
}

pub fn olia(paths: &[Path], l: &[f64], i: usize) -> f64 {
    paths[i].w / paths[i].t.powi(2) / total(paths).powi(2) + olia_alpha(paths, l, i) / paths[i].w
}

pub fn balia_alpha(paths: &[Path], i: usize) -> f64 {
    largest(paths.iter().map(Path::rate)) / paths[i].rate()
}

/// Peng 2016.
pub fn balia(paths: &[Path], i: usize) -> f64 {
    let a = balia_alpha(paths, i);
    paths[i].rate() / paths[i].t / total(paths).powi(2) * (1.0 + a) / 2.0 * (4.0 + a) / 5.0
}

/// The window that a loss leaves.
pub fn balia_after_loss(paths: &[Path], i: usize) -> f64 {
    paths[i].w * (1.0 - balia_alpha(paths, i).min(1.5) / 2.0)
}

/// Reno's increase times (budget - load)/load: both RSF rules.
pub fn rsf(w: f64, budget: f64, load: f64) -> f64 {
    let ratio = if load == 0.0 {
        1.0
    } else {
        (budget - load) / load
    };
    ratio.min(1.0) / w
}

/// Paper's algorithm 3; delays in one unit.
pub fn ld_mpsp(w: f64, target: f64, queue: f64) -> f64 {
    ((target - queue) / target).max(-1.0) / w
}
