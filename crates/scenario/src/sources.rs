//! What a path's rate comes from beside a number: trace files, the radio, and files that the radio names.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::air::Air;
use crate::error::Error;
use crate::field::Field;
use crate::trace::{self, Trace};
use crate::ReadFile;

/// Trace files, each read once however many cells and directions name it.
pub(crate) struct Traces<'a> {
    read: &'a ReadFile<'a>,
    loaded: RefCell<HashMap<PathBuf, Arc<Trace>>>,
    /// Those of all cells, equal ones once; the number is that of the scenario which is being read.
    pub(crate) airs: RefCell<(Vec<Arc<Air>>, Option<usize>)>,
}

impl<'a> Traces<'a> {
    pub fn new(read: &'a ReadFile<'a>) -> Self {
        Traces {
            read,
            loaded: RefCell::default(),
            airs: RefCell::default(),
        }
    }

    /// The radio of the scenario that is being read.
    pub fn tuned(&self) -> Option<Arc<Air>> {
        let (airs, current) = &*self.airs.borrow();
        current.map(|i| airs[i].clone())
    }

    pub fn wired_delay(&self) -> Duration {
        self.tuned().map_or(Duration::ZERO, |air| {
            Duration::from_secs_f64(air.radio().delay.1)
        })
    }

    /// Any other file that a scenario names.
    pub fn file<T>(
        &self,
        field: &Field<'_>,
        expected: &str,
        parse: impl Fn(&str) -> Result<T, mp_wireless::csv::Problem>,
    ) -> Result<T, Error> {
        let file = PathBuf::from(field.string()?);
        let shown = file.display();
        let unread = |e: std::io::Error| field.error(format!("cannot read {shown}: {e}"), expected);
        let content = (self.read)(&file).map_err(unread)?;
        let bad = |place: String, what: String| Error::new(place, "", what, expected);
        let text =
            String::from_utf8(content).map_err(|_| bad(shown.to_string(), "is no text".into()))?;
        parse(&text).map_err(|p| bad(format!("{shown}:{}", p.line), p.what))
    }

    pub fn load(&self, field: &Field<'_>) -> Result<Arc<Trace>, Error> {
        let file = PathBuf::from(field.string()?);
        if let Some(trace) = self.loaded.borrow().get(&file) {
            return Ok(trace.clone());
        }
        let content = (self.read)(&file).map_err(|e| {
            field.error(
                format!("cannot read {}: {e}", file.display()),
                "a Mahimahi or CSV trace",
            )
        })?;
        let kind = trace::parse(&file.display().to_string(), &content)?;
        let trace = Arc::new(Trace {
            file: file.clone(),
            kind,
        });
        self.loaded.borrow_mut().insert(file, trace.clone());
        Ok(trace)
    }
}
