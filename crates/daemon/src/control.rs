//! The control socket: one JSON object a line each way. Root may use it, and the members of one group.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{json, Value};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixListener;
use tokio::sync::{mpsc, oneshot};

pub use crate::config::SOCKET;
use crate::{config, Error};

const LONGEST_LINE: u64 = 1 << 20;
/// Who says nothing for so long is let go.
const PATIENCE: Duration = Duration::from_secs(60);
/// A daemon that takes longer hangs.
const ANSWER: Duration = Duration::from_secs(20);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "lowercase", deny_unknown_fields)]
pub enum Request {
    Status,
    /// Reads the configuration again.
    Reload,
    /// Hands this host's connections to a relay, until the daemon ends; from root alone.
    Relay(Box<config::RelayOverride>),
    /// Puts things back as they were, and ends the daemon.
    Down,
}

/// A request with where its answer goes.
pub type PendingRequest = (Request, oneshot::Sender<Value>);

/// Removed when dropped.
pub struct ControlSocket {
    path: PathBuf,
    task: tokio::task::JoinHandle<()>,
}

impl ControlSocket {
    pub fn listen(
        path: &Path,
        group: Option<&str>,
        calls: mpsc::Sender<PendingRequest>,
    ) -> Result<ControlSocket, Error> {
        let failed = |what: &str, e: &dyn std::fmt::Display| {
            Error::Failed(format!("{what} {}: {e}", path.display()))
        };
        if UnixStream::connect(path).is_ok() {
            return Err(Error::Busy(format!(
                "a multipilot daemon listens on {} already: multipilot down ends it, or give this one another --socket",
                path.display()
            )));
        }
        let group = group.map(group_id).transpose()?;
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)
                .map_err(|e| failed("cannot create the folder of", &e))?;
        }
        // Nobody may find it before it has its owner and mode.
        let fresh = path.with_extension(format!("{}", std::process::id()));
        let _ = std::fs::remove_file(&fresh);
        let listener = UnixListener::bind(&fresh).map_err(|e| failed("cannot listen on", &e))?;
        let mode = if group.is_some() { 0o660 } else { 0o600 };
        nix::unistd::chown(&fresh, None, group).map_err(|e| failed("cannot give away", &e))?;
        std::fs::set_permissions(&fresh, std::fs::Permissions::from_mode(mode))
            .and_then(|()| std::fs::rename(&fresh, path))
            .map_err(|e| failed("cannot listen on", &e))?;
        let task = tokio::spawn(async move {
            loop {
                match listener.accept().await {
                    Ok((stream, _)) => drop(tokio::spawn(serve(stream, calls.clone()))),
                    // Out of descriptors, most likely: others end.
                    Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
                }
            }
        });
        Ok(ControlSocket {
            path: path.to_owned(),
            task,
        })
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        self.task.abort();
        let _ = std::fs::remove_file(&self.path);
    }
}

pub(crate) fn group_id(name: &str) -> Result<nix::unistd::Gid, Error> {
    match nix::unistd::Group::from_name(name) {
        Ok(Some(group)) => Ok(group.gid),
        _ => Err(Error::Usage(format!(
            "control.group: there is no group {name}: groupadd --system {name}"
        ))),
    }
}

async fn serve(stream: tokio::net::UnixStream, calls: mpsc::Sender<PendingRequest>) {
    let root = stream.peer_cred().is_ok_and(|peer| peer.uid() == 0);
    let (reader, mut writer) = stream.into_split();
    let mut reader = tokio::io::BufReader::new(reader);
    loop {
        let mut line = String::new();
        let mut limited = (&mut reader).take(LONGEST_LINE);
        match tokio::time::timeout(PATIENCE, limited.read_line(&mut line)).await {
            Ok(Ok(length)) if length > 0 => {}
            _ => return,
        }
        if !line.ends_with('\n') {
            let most = LONGEST_LINE >> 20;
            let answer = json!({"error": format!("a request of more than {most} MiB, or one without an end")});
            let _ = writer.write_all(format!("{answer}\n").as_bytes()).await;
            return;
        }
        let answer = match serde_json::from_str::<Request>(&line) {
            Ok(Request::Relay(_)) if !root => {
                json!({"error": "only root may choose a relay: sudo multipilot up --relay LINE", "code": 3})
            }
            Ok(request) => ask(request, &calls).await,
            Err(e) => json!({"error": format!("no request of the control socket: {e}")}),
        };
        if writer
            .write_all(format!("{answer}\n").as_bytes())
            .await
            .is_err()
        {
            return;
        }
    }
}

/// From inside the daemon.
pub async fn ask(request: Request, calls: &mpsc::Sender<PendingRequest>) -> Value {
    let (answer, answered) = oneshot::channel();
    let gone = || json!({"error": "the daemon is ending"});
    if calls.send((request, answer)).await.is_err() {
        return gone();
    }
    answered.await.unwrap_or_else(|_| gone())
}

/// From another process: one request, one answer.
pub fn request(socket: &Path, request: Request) -> Result<Value, Error> {
    let shown = socket.display();
    let mut stream = UnixStream::connect(socket).map_err(|e| match e.kind() {
        std::io::ErrorKind::PermissionDenied => Error::Denied(format!(
            "{shown}: only root and the group of control.group may use it: call it by sudo, or join that group"
        )),
        std::io::ErrorKind::NotFound | std::io::ErrorKind::ConnectionRefused => {
            Error::Down(format!("no multipilot daemon listens on {shown}"))
        }
        _ => Error::Down(format!("no multipilot daemon listens on {shown} ({e})")),
    })?;
    let failed = |e: &dyn std::fmt::Display| Error::Failed(format!("{shown}: {e}"));
    let line = serde_json::to_string(&request).expect("plain data") + "\n";
    stream
        .set_read_timeout(Some(ANSWER))
        .and_then(|()| stream.write_all(line.as_bytes()))
        .map_err(|e| failed(&e))?;
    let mut answer = String::new();
    let length = BufReader::new(stream)
        .read_line(&mut answer)
        .map_err(|e| match e.kind() {
            std::io::ErrorKind::WouldBlock => {
                failed(&format!("no answer within {} s", ANSWER.as_secs()))
            }
            _ => failed(&e),
        })?;
    if length == 0 {
        return Err(failed(
            &"the daemon has ended without an answer; its log says why",
        ));
    }
    let answer: Value = serde_json::from_str(&answer).map_err(|e| failed(&e))?;
    let code = answer.get("code").and_then(Value::as_u64);
    match answer.get("error").and_then(Value::as_str) {
        Some(error) if code == Some(2) => Err(Error::Usage(error.to_owned())),
        Some(error) if code == Some(3) => Err(Error::Missing(error.to_owned())),
        Some(error) => Err(Error::Failed(error.to_owned())),
        None => Ok(answer),
    }
}
