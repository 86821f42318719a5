//! A radio that is run when something first asks what came of it: reading a scenario costs nothing of that.

use std::sync::OnceLock;

use mp_wireless::{Radio, Timeline};

/// The air of all scenarios that state the same radio for the same time.
#[derive(Debug)]
pub struct Air {
    radio: Radio,
    /// s
    duration: f64,
    timeline: OnceLock<Timeline>,
}

impl PartialEq for Air {
    fn eq(&self, other: &Air) -> bool {
        self.is(&other.radio, other.duration)
    }
}

impl Air {
    pub(crate) fn new(radio: Radio, duration: f64) -> Air {
        Air {
            radio,
            duration,
            timeline: OnceLock::new(),
        }
    }

    pub fn radio(&self) -> &Radio {
        &self.radio
    }

    /// What came of it. The first call takes up to half a minute.
    pub fn timeline(&self) -> &Timeline {
        self.timeline.get_or_init(|| self.radio.run(self.duration))
    }

    pub(crate) fn is(&self, radio: &Radio, duration: f64) -> bool {
        self.duration == duration && self.radio == *radio
    }
}
