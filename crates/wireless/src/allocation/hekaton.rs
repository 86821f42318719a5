//! An abstraction of HEKATON from its published description: each user gets its best codeword, one chain each, and a
//! zero-forcing precoder in baseband takes the interference between them away, at the price of signal.

use super::{mu_mimo, Problem, Served};

pub fn hekaton(problem: &Problem) -> Served {
    let mut assignment = mu_mimo(problem);
    loop {
        let served: Vec<usize> = (0..problem.chains)
            .filter(|r| assignment[*r].is_some())
            .collect();
        if let Some(snr) = zero_forced(problem, &assignment, &served) {
            return Served { assignment, snr };
        }
        // Users whose channels are alike cannot be told apart: the last of them waits for another round.
        match served.last() {
            Some(last) => assignment[*last] = None,
            None => {
                return Served {
                    snr: vec![0.0; problem.chains],
                    assignment,
                }
            }
        }
    }
}

/// SNR_k = 1/([(HHᵀ)⁻¹]_kk ς²), H the amplitudes of the chains' beams at the users; `None` where H is singular.
fn zero_forced(
    problem: &Problem,
    assignment: &super::Assignment,
    served: &[usize],
) -> Option<Vec<f64>> {
    let n = served.len();
    let amplitude = |user: usize, chain: usize| {
        let device = assignment[served[user]].map(|d| d.device);
        let beam = assignment[served[chain]].map(|d| d.beam);
        match (beam, device) {
            (Some(beam), Some(device)) => problem.power(served[chain], beam, device).sqrt(),
            _ => 0.0,
        }
    };
    let entry =
        |i: usize, j: usize| -> f64 { (0..n).map(|k| amplitude(i, k) * amplitude(j, k)).sum() };
    let unit = |i: usize, j: usize| f64::from(u8::from(i == j));
    let mut gram: Vec<Vec<f64>> = (0..n)
        .map(|i| {
            (0..n)
                .map(|j| entry(i, j))
                .chain((0..n).map(|j| unit(i, j)))
                .collect()
        })
        .collect();
    invert(&mut gram)?;
    let mut snr = vec![0.0; problem.chains];
    for (i, &chain) in served.iter().enumerate() {
        snr[chain] = 1.0 / (gram[i][n + i] * problem.noise);
    }
    snr.iter()
        .all(|s| s.is_finite() && *s >= 0.0)
        .then_some(snr)
}

/// Gauss–Jordan with pivots, on [A | 1].
fn invert(rows: &mut [Vec<f64>]) -> Option<()> {
    let n = rows.len();
    let scale = rows
        .iter()
        .map(|r| r[..n].iter().fold(0.0f64, |m, v| m.max(v.abs())))
        .fold(0.0, f64::max);
    for column in 0..n {
        let pivot =
            (column..n).max_by(|a, b| rows[*a][column].abs().total_cmp(&rows[*b][column].abs()))?;
        if rows[pivot][column].abs() <= 1e-12 * scale {
            return None;
        }
        rows.swap(column, pivot);
        let head = rows[column][column];
        rows[column].iter_mut().for_each(|v| *v /= head);
        let source = rows[column].clone();
        for (i, row) in rows.iter_mut().enumerate() {
            let factor = row[column];
            if i != column && factor != 0.0 {
                row.iter_mut()
                    .zip(&source)
                    .for_each(|(v, s)| *v -= factor * s);
            }
        }
    }
    Some(())
}
