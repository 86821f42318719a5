//! Signals over time, and from a text file.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use super::Radio;

/// From `at` on, an interface has this signal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signal {
    /// After the start of whoever reads it.
    pub at: Duration,
    pub interface: String,
    pub dbm: i32,
}

/// Signals in the order in which they begin to hold; of those of an interface that hold, the last counts.
#[derive(Debug, Clone, Default)]
pub struct SignalTrace(pub Vec<Signal>);

impl Radio for SignalTrace {
    fn signal_dbm(&mut self, interface: &str, since_start: Duration) -> Option<i32> {
        let holds = |s: &&Signal| s.interface == interface && s.at <= since_start;
        self.0.iter().rev().find(holds).map(|s| s.dbm)
    }
}

/// From a text file that another program keeps up to date, or from a recorded trace. Lines are
///
/// ```text
/// INTERFACE DBM            now: the last line of an interface counts
/// SECONDS INTERFACE DBM    from so many seconds after the daemon's start on
/// ```
pub struct FileRadio {
    file: PathBuf,
    read: Option<(SystemTime, u64)>,
    lines: SignalTrace,
}

impl FileRadio {
    /// It need not be there yet.
    pub fn new(file: PathBuf) -> FileRadio {
        FileRadio {
            file,
            read: None,
            lines: SignalTrace::default(),
        }
    }

    fn refresh(&mut self) {
        let stamp = fs::metadata(&self.file)
            .ok()
            .and_then(|m| Some((m.modified().ok()?, m.len())));
        if stamp != self.read || stamp.is_none() {
            self.read = stamp;
            let text = fs::read_to_string(&self.file).unwrap_or_default();
            self.lines = SignalTrace(text.lines().filter_map(parse).collect());
        }
    }
}

impl Radio for FileRadio {
    fn signal_dbm(&mut self, interface: &str, since_start: Duration) -> Option<i32> {
        self.refresh();
        self.lines.signal_dbm(interface, since_start)
    }
}

fn parse(line: &str) -> Option<Signal> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (at, interface, dbm) = match words[..] {
        [name, dbm] => ("0", name, dbm),
        [at, name, dbm] => (at, name, dbm),
        _ => return None,
    };
    let at = Duration::try_from_secs_f64(at.parse().ok()?).ok()?;
    Some(Signal {
        at,
        interface: interface.to_owned(),
        dbm: dbm.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_again_when_it_changes_and_a_trace_goes_by_time() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("signals");
        let mut radio = FileRadio::new(file.clone());
        assert_eq!(radio.signal_dbm("wlan0", Duration::ZERO), None);
        fs::write(&file, "wlan0 -60\nnonsense\n").unwrap();
        assert_eq!(radio.signal_dbm("wlan0", Duration::ZERO), Some(-60));
        assert_eq!(radio.signal_dbm("wwan0", Duration::ZERO), None);
        fs::write(&file, "0 wlan0 -60\n2.5 wlan0 -81\n").unwrap();
        let at = |radio: &mut FileRadio, s| radio.signal_dbm("wlan0", Duration::from_secs(s));
        assert_eq!(
            (at(&mut radio, 1), at(&mut radio, 3)),
            (Some(-60), Some(-81))
        );
        fs::remove_file(&file).unwrap();
        assert_eq!(at(&mut radio, 3), None);
    }
}
