use std::fmt::Display;

use crate::check::Missing;

/// One line: what, where, how to fix it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// This machine cannot do it: exit code 3.
    #[error("{0}")]
    Missing(#[from] Missing),
    /// The call is wrong: exit code 2.
    #[error("{0}")]
    Usage(String),
    /// It should have worked: exit code 1.
    #[error("{0}")]
    Failed(String),
    /// The kernel took no BPF program of ours.
    #[error("{what}")]
    Refused {
        what: String,
        /// As libbpf has it: for a log, where it may be long.
        detail: String,
    },
}

impl From<mp_parameter::Refused<'_>> for Error {
    fn from(refused: mp_parameter::Refused<'_>) -> Error {
        Error::Usage(refused.to_string())
    }
}

impl Error {
    /// As the command's contract has it.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Missing(_) => 3,
            Error::Usage(_) => 2,
            Error::Failed(_) | Error::Refused { .. } => 1,
        }
    }
}

/// Turns an error of the system into "what: why".
pub(crate) trait Context<T> {
    fn context(self, what: impl Display) -> Result<T, Error>;
}

impl<T, E: Display> Context<T> for Result<T, E> {
    fn context(self, what: impl Display) -> Result<T, Error> {
        self.map_err(|why| Error::Failed(format!("{what}: {why}")))
    }
}
