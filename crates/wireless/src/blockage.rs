//! What stands in the way: buildings, and people and vehicles that pass.

use rand_xoshiro::rand_core::{RngCore, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::mobility::Point;

/// Something tall and round. A sight line through it is none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Building {
    pub at: [f64; 2],
    pub radius: f64,
    /// From the ground up, metres.
    pub height: f64,
}

impl Building {
    /// Whether the straight line between two points runs through it.
    pub fn hides(&self, a: Point, b: Point) -> bool {
        let (dx, dy) = (b[0] - a[0], b[1] - a[1]);
        let (fx, fy) = (self.at[0] - a[0], self.at[1] - a[1]);
        let length = dx * dx + dy * dy;
        // Where along the line, 0 to 1, it comes nearest to the axis.
        let nearest = if length == 0.0 {
            0.0
        } else {
            ((fx * dx + fy * dy) / length).clamp(0.0, 1.0)
        };
        let apart = (fx - nearest * dx).hypot(fy - nearest * dy);
        apart < self.radius && a[2] + nearest * (b[2] - a[2]) < self.height
    }
}

/// Passers-by: blocked and free spells alternate, each of exponential length.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Blockage {
    /// Mean seconds between two spells.
    pub every: f64,
    /// Mean seconds of a spell.
    pub lasting: f64,
    /// dB that a spell costs: 20 and more for a person.
    pub loss_db: f64,
}

/// The spells of one link. Depends on its seed alone.
#[derive(Debug, Clone)]
pub struct Spells {
    model: Blockage,
    rng: Xoshiro256PlusPlus,
    blocked: bool,
    until: f64,
}

impl Spells {
    pub fn new(model: Blockage, seed: u64) -> Self {
        let mut spells = Spells {
            model,
            rng: Xoshiro256PlusPlus::seed_from_u64(seed),
            blocked: false,
            until: 0.0,
        };
        // As if it had gone on for ever: blocked at once with the share of time that it is.
        spells.blocked = spells.uniform() < model.lasting / (model.every + model.lasting);
        spells.until = spells.draw();
        spells
    }

    fn uniform(&mut self) -> f64 {
        ((self.rng.next_u64() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
    }

    fn draw(&mut self) -> f64 {
        let mean = if self.blocked {
            self.model.lasting
        } else {
            self.model.every
        };
        -mean * self.uniform().ln()
    }

    /// dB lost at a time not before the one asked last.
    pub fn at(&mut self, seconds: f64) -> f64 {
        while self.until <= seconds {
            self.blocked = !self.blocked;
            self.until += self.draw();
        }
        if self.blocked {
            self.model.loss_db
        } else {
            0.0
        }
    }
}
