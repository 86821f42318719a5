//! Files that stand in for a model: waypoints of a device, and path loss that was measured or ray-traced.

use crate::mobility::Point;

/// Lines of a file that are refused beyond.
const LIMIT: usize = 2_000_000;

/// What is wrong with a file, and in which line (from 1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub line: usize,
    pub what: String,
}

impl Problem {
    fn new(line: usize, what: impl Into<String>) -> Self {
        Problem {
            line,
            what: what.into(),
        }
    }
}

fn lines<'a>(text: &'a str, header: &'a str) -> impl Iterator<Item = (usize, Vec<&'a str>)> {
    text.lines()
        .enumerate()
        .map(|(i, line)| (i + 1, line.trim()))
        .filter(move |(_, line)| {
            !line.is_empty() && !line.starts_with('#') && !line.starts_with(header)
        })
        .map(|(number, line)| (number, line.split(',').map(str::trim).collect()))
}

fn number(line: usize, cell: &str, what: &str) -> Result<f64, Problem> {
    match cell.parse::<f64>() {
        Ok(value) if value.is_finite() && value.abs() < 1e9 => Ok(value),
        _ => {
            let short: String = cell.chars().take(40).filter(|c| !c.is_control()).collect();
            Err(Problem::new(line, format!("\"{short}\" is no {what}")))
        }
    }
}

pub const WAYPOINTS: &str = "time_s,x_m,y_m,z_m with times ascending from 0";

/// Waypoints: `time_s,x_m,y_m,z_m`, with or without that header.
pub fn waypoints(text: &str) -> Result<Vec<(f64, Point)>, Problem> {
    let mut points: Vec<(f64, Point)> = Vec::new();
    for (line, cells) in lines(text, "time_s") {
        let [time, x, y, z] = cells[..] else {
            return Err(Problem::new(line, format!("has {} columns", cells.len())));
        };
        let time = number(line, time, "time")?;
        let place = [
            number(line, x, "place")?,
            number(line, y, "place")?,
            number(line, z, "place")?,
        ];
        match points.last() {
            None if time != 0.0 => return Err(Problem::new(line, "does not begin at 0")),
            Some((last, _)) if time <= *last => {
                return Err(Problem::new(line, "does not come after the line before"))
            }
            _ if points.len() >= LIMIT => return Err(Problem::new(line, "is one too many")),
            _ => points.push((time, place)),
        }
    }
    if points.is_empty() {
        return Err(Problem::new(1, "holds no waypoint"));
    }
    Ok(points)
}

pub const CHANNEL: &str = "time_s,device,ap,loss_db with times ascending from 0 for each pair";

/// Path loss of one device to one access point, in force from each time on.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    pub device: String,
    pub ap: String,
    /// Seconds and dB.
    pub loss: Vec<(f64, f64)>,
}

impl Series {
    pub fn at(&self, seconds: f64) -> f64 {
        let next = self.loss.partition_point(|(at, _)| *at <= seconds);
        self.loss[next.saturating_sub(1)].1
    }
}

/// Channels: `time_s,device,ap,loss_db`, with or without that header. Loss is between isotropic antennas, with blockage
/// and all.
pub fn channels(text: &str) -> Result<Vec<Series>, Problem> {
    let mut all: Vec<Series> = Vec::new();
    let mut count = 0usize;
    for (line, cells) in lines(text, "time_s") {
        let [time, device, ap, loss] = cells[..] else {
            return Err(Problem::new(line, format!("has {} columns", cells.len())));
        };
        if device.is_empty() || ap.is_empty() {
            return Err(Problem::new(line, "names no device or no access point"));
        }
        let entry = (
            number(line, time, "time")?,
            number(line, loss, "loss in dB")?,
        );
        if entry.1 < 0.0 {
            return Err(Problem::new(line, "is a gain: path loss is above 0 dB"));
        }
        count += 1;
        if count > LIMIT {
            return Err(Problem::new(line, "is one too many"));
        }
        let pairs = all.len();
        let found = all.iter_mut().find(|s| s.device == device && s.ap == ap);
        match found {
            Some(series) if series.loss.last().is_some_and(|(last, _)| entry.0 <= *last) => {
                return Err(Problem::new(
                    line,
                    "does not come after the pair's line before",
                ))
            }
            Some(series) => series.loss.push(entry),
            None if entry.0 != 0.0 => {
                return Err(Problem::new(line, "does not begin at 0 for its pair"))
            }
            None if pairs >= 4096 => return Err(Problem::new(line, "names too many pairs")),
            None => all.push(Series {
                device: device.to_owned(),
                ap: ap.to_owned(),
                loss: vec![entry],
            }),
        }
    }
    if all.is_empty() {
        return Err(Problem::new(1, "holds no channel"));
    }
    Ok(all)
}
