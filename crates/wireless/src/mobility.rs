//! Where a device is at a time: standing, on an ellipse, on a line to and fro, or along waypoints from a file.

use std::f64::consts::TAU;

/// x, y, z in metres.
pub type Point = [f64; 3];

pub fn distance(a: Point, b: Point) -> f64 {
    a.iter()
        .zip(b)
        .map(|(a, b)| (a - b).powi(2))
        .sum::<f64>()
        .sqrt()
}

#[derive(Debug, Clone, PartialEq)]
pub enum Mobility {
    Fixed(Point),
    Ellipse(Ellipse),
    /// From one end to the other and back, m/s.
    Line {
        from: Point,
        to: Point,
        speed: f64,
        /// Metres ahead of the start.
        ahead: f64,
    },
    /// Straight between the points, resting at the last: seconds and places.
    Waypoints(Vec<(f64, Point)>),
}

impl Mobility {
    pub fn at(&self, seconds: f64) -> Point {
        match self {
            Mobility::Fixed(point) => *point,
            Mobility::Ellipse(ellipse) => ellipse.at(seconds),
            Mobility::Line {
                from,
                to,
                speed,
                ahead,
            } => {
                let length = distance(*from, *to);
                if length == 0.0 {
                    return *from;
                }
                let along = (ahead + speed * seconds).rem_euclid(2.0 * length);
                between(*from, *to, along.min(2.0 * length - along) / length)
            }
            Mobility::Waypoints(points) => follow(points, seconds),
        }
    }
}

fn between(a: Point, b: Point, share: f64) -> Point {
    std::array::from_fn(|i| a[i] + (b[i] - a[i]) * share)
}

fn follow(points: &[(f64, Point)], seconds: f64) -> Point {
    let next = points.partition_point(|(at, _)| *at <= seconds);
    match (next.checked_sub(1).map(|i| points[i]), points.get(next)) {
        (Some((t0, a)), Some(&(t1, b))) => between(a, b, (seconds - t0) / (t1 - t0)),
        (Some((_, a)), None) => a,
        (None, Some(&(_, b))) => b,
        (None, None) => [0.0; 3],
    }
}

/// A level ellipse that is flown at constant speed.
#[derive(Debug, Clone, PartialEq)]
pub struct Ellipse {
    centre: Point,
    semi_axes: [f64; 2],
    speed: f64,
    /// Metres ahead of the start, which is at the end of the first semi-axis.
    ahead: f64,
    /// Length of the arc up to each of the steps around.
    arcs: Vec<f64>,
}

const STEPS: usize = 4096;

impl Ellipse {
    /// `phase` is the share of a lap that lies behind it at time 0.
    pub fn new(centre: Point, semi_axes: [f64; 2], speed: f64, phase: f64) -> Self {
        let [a, b] = semi_axes;
        let slope = |angle: f64| (a * angle.sin()).hypot(b * angle.cos());
        let width = TAU / STEPS as f64;
        let mut arcs = Vec::with_capacity(STEPS + 1);
        let mut length = 0.0;
        arcs.push(0.0);
        for i in 0..STEPS {
            // Simpson's rule: there is no closed form for the arc of an ellipse.
            let from = i as f64 * width;
            length +=
                width / 6.0 * (slope(from) + 4.0 * slope(from + width / 2.0) + slope(from + width));
            arcs.push(length);
        }
        Ellipse {
            centre,
            semi_axes,
            speed,
            ahead: phase * length,
            arcs,
        }
    }

    /// Metres around.
    pub fn perimeter(&self) -> f64 {
        self.arcs[STEPS]
    }

    fn at(&self, seconds: f64) -> Point {
        let perimeter = self.perimeter();
        if perimeter == 0.0 {
            return self.centre;
        }
        let along = (self.ahead + self.speed * seconds).rem_euclid(perimeter);
        let next = self
            .arcs
            .partition_point(|arc| *arc <= along)
            .clamp(1, STEPS);
        let (low, high) = (self.arcs[next - 1], self.arcs[next]);
        let step = (next - 1) as f64 + (along - low) / (high - low);
        let angle = TAU * step / STEPS as f64;
        let ([x, y, z], [a, b]) = (self.centre, self.semi_axes);
        [x + a * angle.cos(), y + b * angle.sin(), z]
    }
}
