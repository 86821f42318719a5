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

/// The same, and returns once `work` has called the function that it is given.
pub fn start_and_wait<F>(
    name: &'static str,
    namespace: Arc<NetNs>,
    work: impl FnOnce(Box<dyn FnOnce()>) -> F + Send + 'static,
) -> Result<Worker, Error>
where
    F: Future<Output = Result<(), Error>>,
{
    let (ready, wait) = std::sync::mpsc::channel();
    let thread = start(name, namespace, move || {
        work(Box::new(move || {
            // Fails only where nobody waits any more.
            let _ = ready.send(());
        }))
    })?;
    match wait.recv() {
        Ok(()) => Ok(thread),
        // It ended before it was ready: with an error.
        Err(_) => Err(match thread.join() {
            Ok(Err(e)) => e,
            _ => Error::Network(format!("the thread {name} panicked")),
        }),
    }
}
