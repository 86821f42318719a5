//! A thread inside a namespace, with a runtime of its own: what it opens belongs there.

use std::future::Future;
use std::sync::Arc;

use rattan_env::netns::NetNs;
use tokio::task::LocalSet;

use crate::error::Context;
use crate::Error;

pub type Worker = std::thread::JoinHandle<Result<(), Error>>;

/// Runs `work` on a thread called `name`; `work` is made there, so what it holds need not be `Send`.
pub fn start<F>(
    name: &str,
    namespace: Arc<NetNs>,
    work: impl FnOnce() -> F + Send + 'static,
) -> Result<Worker, Error>
where
    F: Future<Output = Result<(), Error>>,
{
    let body = move || {
        namespace
            .enter()
            .map_err(|e| Error::Network(e.to_string()))?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = runtime.context("cannot start a runtime")?;
        LocalSet::new().block_on(&runtime, work())
    };
    std::thread::Builder::new()
        .name(name.into())
        .spawn(body)
        .context("cannot start a thread")
}
