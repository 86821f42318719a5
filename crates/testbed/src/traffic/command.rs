//! A program of the user's on a client host, in place of the built-in transfer. What it moved is what the emulated network
//! delivered.

use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::{killpg, Signal};
use nix::unistd::Pid;

use super::{Service, FIRST_PORT};
use crate::emulator::Traffic;
use crate::network::{address, SERVER};
use crate::plan::Group;

const LOOK: Duration = Duration::from_millis(10);
/// Of what the program says on stderr, at its end.
const LAST_WORDS: u64 = 1000;

pub struct Program {
    child: Child,
    stderr: std::fs::File,
}

impl Program {
    /// On the calling thread's host.
    pub fn start(
        text: &str,
        index: usize,
        host: usize,
        group: &Group,
        service: &Service,
    ) -> std::io::Result<Program> {
        let mut command = Command::new("sh");
        let port = FIRST_PORT + index as u16;
        let stderr = tempfile::tempfile()?;
        command
            .args(["-c", text])
            .env("MULTIPILOT_URL", format!("http://{SERVER}:{port}/"))
            .env("MULTIPILOT_SERVER", SERVER.to_string())
            .env(
                "MULTIPILOT_ADDRESS",
                address(host, group.paths[0]).to_string(),
            )
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(stderr.try_clone()?)
            .process_group(0);
        if service.flow.is_mptcp() {
            let congestion = service.flow.upload.then_some(service.congestion.as_str());
            mp_kernel::preload::apply(&mut command, congestion).map_err(std::io::Error::other)?;
        }
        // SAFETY: one system call, which is safe between fork and exec.
        unsafe {
            // Killed as we may be, the shell goes too. What it has started is the next run's to end.
            command.pre_exec(
                || match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) {
                    0 => Ok(()),
                    _ => Err(std::io::Error::last_os_error()),
                },
            );
        }
        Ok(Program {
            child: command.spawn()?,
            stderr,
        })
    }

    /// Waits for its end, with no more of it than an error if it failed.
    pub async fn wait(&mut self) -> Result<(), String> {
        let status = loop {
            match self.child.try_wait() {
                Ok(None) => tokio::time::sleep(LOOK).await,
                Ok(Some(status)) => break status,
                Err(e) => return Err(e.to_string()),
            }
        };
        if status.success() {
            return Ok(());
        }
        let words = self.last_words();
        Err(format!(
            "{status}{}{words}",
            if words.is_empty() { "" } else { ": " }
        ))
    }

    fn last_words(&mut self) -> String {
        let mut bytes = Vec::new();
        let length = self.stderr.metadata().map_or(0, |m| m.len());
        let _ = self
            .stderr
            .seek(SeekFrom::Start(length.saturating_sub(LAST_WORDS)));
        let _ = self.stderr.read_to_end(&mut bytes);
        let text = String::from_utf8_lossy(&bytes);
        text.lines().last().unwrap_or_default().trim().to_owned()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It leads its process group: this ends what it started too.
        let _ = killpg(Pid::from_raw(self.child.id() as i32), Signal::SIGKILL);
        let _ = self.child.wait();
    }
}

/// What the network delivered to or from one host, by path index.
pub fn delivered(traffic: &[(usize, Arc<Traffic>)], upload: bool) -> Vec<(usize, u64)> {
    let bytes = |t: &Traffic| {
        if upload {
            t.up.load(Ordering::Relaxed)
        } else {
            t.down.load(Ordering::Relaxed)
        }
    };
    traffic.iter().map(|(path, t)| (*path, bytes(t))).collect()
}

/// Whether data went without a Multipath TCP option.
pub fn went_plain(traffic: &[(usize, Arc<Traffic>)]) -> bool {
    traffic.iter().any(|(_, t)| t.plain.load(Ordering::Relaxed))
}
