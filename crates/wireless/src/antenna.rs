//! A sector codebook: one beam a codeword, on a panel that looks to one side.
//!
//! The beam is the reference antenna of the 802.11ad channel model (Maltsev et al., IEEE 802.11-09/0334r8): Gaussian
//! main lobe, constant side lobes, gain by the beam's widths; here with a width of its own in azimuth and in elevation.

use crate::mobility::Point;

/// Widths at half power and directions of all sectors, degrees; panels share a full turn evenly.
#[derive(Debug, Clone, PartialEq)]
pub struct Codebook {
    pub azimuths: Vec<f64>,
    pub elevations: Vec<f64>,
    pub azimuth_width: f64,
    pub elevation_width: f64,
    pub panels: u32,
}

impl Default for Codebook {
    /// Paper *drones*, table 2: 27 sectors, azimuth −80:20:80, elevation −45:45:45. Two panels look to all sides.
    fn default() -> Self {
        Codebook {
            azimuths: (-4..=4).map(|k| 20.0 * f64::from(k)).collect(),
            elevations: vec![-45.0, 0.0, 45.0],
            azimuth_width: 20.0,
            elevation_width: 45.0,
            panels: 2,
        }
    }
}

impl Codebook {
    /// Sectors of one panel: what a sweep trains.
    pub fn sectors(&self) -> usize {
        self.azimuths.len() * self.elevations.len()
    }

    /// Beams of all panels.
    pub fn beams(&self) -> usize {
        self.sectors() * self.panels as usize
    }

    /// Azimuth (from +x, counter-clockwise) and elevation of a beam, degrees.
    pub fn direction(&self, beam: usize) -> (f64, f64) {
        let panel = beam / self.sectors();
        let sector = beam % self.sectors();
        let facing = 360.0 * panel as f64 / f64::from(self.panels);
        (
            facing + self.azimuths[sector / self.elevations.len()],
            self.elevations[sector % self.elevations.len()],
        )
    }

    /// dBi on the beam's axis: a uniform aperture of these widths.
    pub fn peak_dbi(&self) -> f64 {
        let half = |degrees: f64| (degrees.to_radians() / 2.0).sin();
        20.0 * 1.6162f64.log10()
            - 10.0 * (half(self.azimuth_width) * half(self.elevation_width)).log10()
    }

    /// dBi away from the main lobe.
    pub fn side_dbi(&self) -> f64 {
        let width = (self.azimuth_width * self.elevation_width)
            .sqrt()
            .to_radians();
        -0.4111 * width.to_degrees().ln() - 10.579
    }

    /// dBi of a beam towards a direction.
    pub fn gain_dbi(&self, beam: usize, azimuth: f64, elevation: f64) -> f64 {
        let (axis, tilt) = self.direction(beam);
        let turn = (azimuth - axis + 540.0).rem_euclid(360.0) - 180.0;
        let off = (2.0 * turn / self.azimuth_width).powi(2)
            + (2.0 * (elevation - tilt) / self.elevation_width).powi(2);
        // 3.01 dB down at half the width, and never below the side lobes.
        (self.peak_dbi() - 3.01 * off).max(self.side_dbi())
    }

    /// The beam with most gain towards a direction, and that gain in dBi.
    pub fn best(&self, azimuth: f64, elevation: f64) -> (usize, f64) {
        (0..self.beams())
            .map(|beam| (beam, self.gain_dbi(beam, azimuth, elevation)))
            .max_by(|a, b| a.1.total_cmp(&b.1))
            .unwrap_or((0, self.side_dbi()))
    }
}

/// Azimuth and elevation in degrees from one point towards another.
pub fn direction(from: Point, to: Point) -> (f64, f64) {
    let [dx, dy, dz] = [to[0] - from[0], to[1] - from[1], to[2] - from[2]];
    (
        dy.atan2(dx).to_degrees(),
        dz.atan2(dx.hypot(dy)).to_degrees(),
    )
}
