use std::io;

/// One line: what, where, how to fix it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// This machine cannot do it (exit code 3).
    #[error("{0}")]
    Missing(String),
    /// The scenario asks for something that the kernel world does not have (exit code 2).
    #[error("{0}")]
    Unsupported(String),
    #[error("stopped")]
    Stopped,
    #[error("{what}: {source}")]
    System { what: String, source: io::Error },
    #[error(transparent)]
    Controller(#[from] mp_kernel::Error),
    #[error(transparent)]
    PathManager(#[from] mp_kernel::pm::Error),
    #[error("cannot set up the emulated network: {0}")]
    Network(String),
}

impl Error {
    /// As the command's contract has it.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Missing(_) => 3,
            Error::PathManager(mp_kernel::pm::Error::Unavailable(_)) => 3,
            Error::Unsupported(_) => 2,
            Error::Controller(e) => e.exit_code(),
            _ => 1,
        }
    }
}

/// Turns an error of the system into "what: why".
pub(crate) trait Context<T> {
    fn context(self, what: impl Into<String>) -> Result<T, Error>;
}

impl<T, E: Into<io::Error>> Context<T> for Result<T, E> {
    fn context(self, what: impl Into<String>) -> Result<T, Error> {
        self.map_err(|e| Error::System {
            what: what.into(),
            source: e.into(),
        })
    }
}
