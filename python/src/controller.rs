//! One connection under a congestion controller, driven by hand: for experiments and for checking a rule by numbers.

use std::collections::HashMap;

use mp_controllers::{Ack, Connection, Controller as Rule, Subflow, FRACTION_BITS, MAX_SUBFLOWS};
use mp_parameter::Refused;
use pyo3::exceptions::{PyIndexError, PyKeyError, PyValueError};
use pyo3::prelude::*;

type Facts = HashMap<String, u64>;

/// One connection under a congestion controller, driven by hand: the code that kernel and simulator run.
#[pyclass(module = "multipilot._core")]
pub struct Controller {
    rule: &'static Rule,
    connection: Connection,
}

#[pymethods]
impl Controller {
    #[new]
    #[pyo3(signature = (name, **parameters))]
    fn new(name: &str, parameters: Option<Facts>) -> PyResult<Controller> {
        let rule = mp_controllers::find(name).ok_or_else(|| {
            let known: Vec<_> = mp_controllers::all().iter().map(|c| c.name).collect();
            PyValueError::new_err(format!(
                "no controller {name:?}; there are {}",
                known.join(", ")
            ))
        })?;
        let mut connection = rule.connection();
        for (key, value) in parameters.unwrap_or_default() {
            let index = rule.check(&key, value).map_err(|refused| match refused {
                Refused::Unknown { .. } => PyKeyError::new_err(refused.to_string()),
                Refused::OutOfRange { .. } => PyValueError::new_err(refused.to_string()),
            })?;
            connection.parameters[index] = value;
        }
        Ok(Controller { rule, connection })
    }

    #[getter]
    fn name(&self) -> &'static str {
        self.rule.name
    }

    #[pyo3(signature = (now_us=0, **facts))]
    fn join(&mut self, now_us: u64, facts: Option<Facts>) -> PyResult<usize> {
        let slots = &self.connection.subflows;
        let slot = slots
            .iter()
            .position(|s| s.owner == 0)
            .ok_or_else(|| PyIndexError::new_err(format!("all {MAX_SUBFLOWS} slots are taken")))?;
        let mut subflow = Subflow {
            owner: slot as u64 + 1,
            mss: 1428,
            cwnd: 10,
            ..Subflow::default()
        };
        state_facts(&mut subflow, facts.unwrap_or_default())?;
        self.connection.subflows[slot] = subflow;
        self.rule.init(&mut self.connection, slot, now_us);
        Ok(slot)
    }

    #[pyo3(signature = (slot, **facts))]
    fn update(&mut self, slot: usize, facts: Option<Facts>) -> PyResult<()> {
        let slot = self.taken(slot)?;
        state_facts(
            &mut self.connection.subflows[slot],
            facts.unwrap_or_default(),
        )
    }

    fn subflow(&self, slot: usize) -> PyResult<HashMap<&'static str, f64>> {
        let s = &self.connection.subflows[self.taken(slot)?];
        let fraction = s.cwnd_fraction as f64 / (1u64 << FRACTION_BITS) as f64;
        Ok(HashMap::from([
            ("cwnd", s.cwnd as f64 + fraction),
            ("ssthresh", s.ssthresh as f64),
            ("pacing_rate", s.pacing_rate as f64),
        ]))
    }

    #[pyo3(signature = (slot, now_us=0))]
    fn on_rtt(&mut self, slot: usize, now_us: u64) -> PyResult<()> {
        let slot = self.taken(slot)?;
        self.rule.on_rtt(&mut self.connection, slot, now_us);
        Ok(())
    }

    #[pyo3(signature = (slot, acked=1, now_us=0, is_cwnd_limited=true))]
    fn on_ack(
        &mut self,
        slot: usize,
        acked: u64,
        now_us: u64,
        is_cwnd_limited: bool,
    ) -> PyResult<()> {
        let slot = self.taken(slot)?;
        let ack = Ack {
            now_us,
            acked,
            is_cwnd_limited: is_cwnd_limited.into(),
            max_packets_out: self.connection.subflows[slot].cwnd,
        };
        self.rule.on_ack(&mut self.connection, slot, &ack);
        Ok(())
    }

    #[pyo3(signature = (slot, now_us=0))]
    fn on_interval(&mut self, slot: usize, now_us: u64) -> PyResult<()> {
        let slot = self.taken(slot)?;
        self.rule.on_interval(&mut self.connection, slot, now_us);
        Ok(())
    }

    #[pyo3(signature = (slot, now_us=0))]
    fn on_loss(&mut self, slot: usize, now_us: u64) -> PyResult<u64> {
        let slot = self.taken(slot)?;
        Ok(self.rule.on_loss(&mut self.connection, slot, now_us))
    }

    fn on_undo(&mut self, slot: usize) -> PyResult<u64> {
        let slot = self.taken(slot)?;
        Ok(self.rule.on_undo(&mut self.connection, slot))
    }

    fn on_close(&mut self, slot: usize) -> PyResult<()> {
        let slot = self.taken(slot)?;
        self.rule.on_close(&mut self.connection, slot);
        Ok(())
    }
}

impl Controller {
    fn taken(&self, slot: usize) -> PyResult<usize> {
        match self.connection.subflows.get(slot) {
            Some(subflow) if subflow.owner != 0 => Ok(slot),
            _ => Err(PyIndexError::new_err(format!(
                "no subflow in slot {slot}; join() gives one"
            ))),
        }
    }
}

fn state_facts(subflow: &mut Subflow, facts: Facts) -> PyResult<()> {
    for (name, value) in facts {
        *match name.as_str() {
            "mss" => &mut subflow.mss,
            "rtt_us" => &mut subflow.rtt_us,
            "srtt_us" => &mut subflow.srtt_us,
            "min_rtt_us" => &mut subflow.min_rtt_us,
            "queue_owd_us" => &mut subflow.queue_owd_us,
            "delivered" => &mut subflow.delivered,
            "lost" => &mut subflow.lost,
            "backup" => &mut subflow.backup,
            "cwnd" => &mut subflow.cwnd,
            "ssthresh" => &mut subflow.ssthresh,
            _ => {
                return Err(PyKeyError::new_err(format!(
                    "no fact {name:?} of a subflow; controllers/mp.h lists them"
                )))
            }
        } = value;
    }
    Ok(())
}
