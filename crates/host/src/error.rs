//! One line each: what, where, how to fix it.

/// What a host refuses, or this process may not do.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting or a file is wrong.
    #[error("{0}")]
    Usage(String),
    /// Another process manages the paths here.
    #[error("{0}")]
    Busy(String),
    /// This machine cannot do it, or this user may not.
    #[error("{0}")]
    Missing(String),
    #[error("{0}")]
    Failed(String),
}

impl From<mp_kernel::Error> for Error {
    fn from(error: mp_kernel::Error) -> Error {
        match error.exit_code() {
            2 => Error::Usage(error.to_string()),
            3 => Error::Missing(error.to_string()),
            _ => Error::Failed(error.to_string()),
        }
    }
}

impl From<mp_kernel::pm::Error> for Error {
    fn from(error: mp_kernel::pm::Error) -> Error {
        match error.errno() {
            Some(nix::libc::EPERM) => Error::Missing(format!(
                "{error}: it needs CAP_NET_ADMIN (run it with sudo)"
            )),
            _ => Error::Failed(error.to_string()),
        }
    }
}
