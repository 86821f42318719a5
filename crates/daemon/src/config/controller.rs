//! `controller` and `parameters`

use mp_kernel::controller::DEFAULT;
use mp_scenario::document::{self, Field};
use mp_scenario::Error;

const SYSTEM: &str = "system";

/// Congestion controller of new sockets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ControllerConfig {
    /// [`DEFAULT`], or the system's if that cannot be loaded.
    Automatic,
    System,
    Named(String),
}

impl ControllerConfig {
    pub(super) fn read(field: &Field<'_>) -> Result<ControllerConfig, Error> {
        let name = document::controller_or(field, Some(SYSTEM))?;
        Ok(match name.as_str() {
            SYSTEM => ControllerConfig::System,
            _ => ControllerConfig::Named(name),
        })
    }

    /// `None`: the system's.
    pub fn wanted(&self) -> Option<&str> {
        match self {
            ControllerConfig::Automatic => Some(DEFAULT),
            ControllerConfig::System => None,
            ControllerConfig::Named(name) => Some(name),
        }
    }
}

pub(super) fn parameters(
    table: &Field<'_>,
    controller: &ControllerConfig,
) -> Result<Vec<(String, u64)>, Error> {
    let ours = |name: &&str| mp_controllers::find(name).is_some();
    let Some(controller) = controller.wanted().filter(ours) else {
        return Err(table.error(
            "belong to no controller",
            "a controller of multipilot's own beside them",
        ));
    };
    let read = |(name, field): (&str, Field<'_>)| {
        let value = document::parameter(controller, name, &field)?;
        Ok((name.to_owned(), value))
    };
    table.entries()?.into_iter().map(read).collect()
}
