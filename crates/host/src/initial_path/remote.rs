//! The edge server, and what it calls this host's interfaces.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use mp_kernel::initial_path::Finished;
use mp_kernel::interfaces::Interface;
use mp_policy::bandit::context::{Reading, READINGS};
use mp_server::client::{Choice, Client, Settings};
use mp_server::wire::Context;

use crate::Error;

pub struct Remote {
    client: Client,
    location: String,
    /// Interface to path; one that is not named is called as here.
    paths: BTreeMap<String, String>,
    /// Makes the names of this process's outcomes differ from those of any other.
    stamp: u128,
}

impl Remote {
    /// `settings`: where the server is and how it is reached.
    pub fn start(
        settings: Settings,
        location: &str,
        paths: BTreeMap<String, String>,
    ) -> Result<Remote, Error> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        Ok(Remote {
            client: Client::start(settings).map_err(|e| Error::Failed(e.to_string()))?,
            location: location.to_owned(),
            paths,
            stamp: since.map_or(0, |d| d.as_nanos()),
        })
    }

    fn path<'a>(&'a self, interface: &'a str) -> &'a str {
        self.paths.get(interface).map_or(interface, String::as_str)
    }

    /// The interface of a path.
    pub fn arm(&self, arms: &[Interface], path: &str) -> Option<usize> {
        arms.iter().position(|arm| self.path(&arm.name) == path)
    }

    /// Asks; `values` are the readings of all arms.
    pub fn choose(&self, arms: &[Interface], there: &[bool], values: &[f64]) -> Choice {
        let mut context = Context::new();
        for (arm, values) in arms.iter().zip(values.chunks(READINGS)) {
            for (reading, value) in Reading::ALL.iter().zip(values) {
                // The server takes no report with a reading that cannot be.
                if reading.range().contains(value) {
                    let name = format!("{}.{reading}", self.path(&arm.name));
                    context.insert(name, Some(*value));
                }
            }
        }
        let open = arms.iter().zip(there).filter(|(_, there)| **there);
        let paths: Vec<String> = open
            .map(|(arm, _)| self.path(&arm.name).to_owned())
            .collect();
        self.client.choose(&self.location, &context, Some(&paths))
    }

    /// What came of a connection that started on this interface; no number where it failed.
    pub fn report(
        &self,
        choice: &Choice,
        interface: &str,
        finished: &Finished,
        throughput_mbps: f64,
        latency_ms: f64,
    ) {
        let started = Choice {
            path: Some(self.path(interface).to_owned()),
            ..choice.clone()
        };
        let id = format!("{:x}-{:x}", self.stamp, finished.started_ns);
        let mbps = Some(throughput_mbps).filter(|v| v.is_finite());
        let latency = Some(latency_ms).filter(|v| v.is_finite());
        let outcome = started.outcome(id, mbps.unwrap_or(0.0), latency);
        self.client.report(outcome);
    }
}
