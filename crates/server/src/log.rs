//! Log lines of the server and of the daemon: to the journal with their fields under systemd, else as text.

use std::os::fd::AsFd;

use nix::sys::stat::fstat;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Debug lines of the daemon, if this variable says `debug`.
const VARIABLE: &str = "MULTIPILOT_LOG";

/// For the process; one that has a log already keeps it. `writer` takes the text.
pub fn start(writer: impl for<'a> MakeWriter<'a> + Send + Sync + 'static) {
    let asked = std::env::var(VARIABLE).ok();
    let level = asked.and_then(|level| level.parse().ok());
    let levels = Targets::new()
        .with_default(LevelFilter::INFO)
        .with_target("mp_daemon", level.unwrap_or(LevelFilter::INFO));
    let journal = is_journal().then(tracing_journald::layer);
    let _ = match journal {
        Some(Ok(journal)) => tracing_subscriber::registry()
            .with(levels)
            .with(journal)
            .try_init(),
        _ => tracing_subscriber::registry()
            .with(levels)
            .with(
                tracing_subscriber::fmt::layer()
                    .with_writer(writer)
                    .with_ansi(false)
                    .with_target(false),
            )
            .try_init(),
    };
}

/// Whether stderr is the journal's, as `systemd.exec(5)` says of `$JOURNAL_STREAM`: shells below a service inherit the
/// variable and have another stderr.
pub fn is_journal() -> bool {
    let Ok(stream) = std::env::var("JOURNAL_STREAM") else {
        return false;
    };
    fstat(std::io::stderr().as_fd()).is_ok_and(|s| stream == format!("{}:{}", s.st_dev, s.st_ino))
}
