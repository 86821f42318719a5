//! How a path connection begins: knock, TLS, proof, welcome. Whoever cannot knock gets no byte.

use std::io::{self, ErrorKind};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mp_policy::path_manager::Backoff;
use rustls::{ClientConfig, ServerConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::carrier::Carrier;
use crate::devices::Register;
use crate::keys::{self, Secret, PROOF_LENGTH};
use crate::lock;
use crate::wire::{Frame, Knock, Malformed, Refusal, KNOCK_LENGTH};

/// At the device's end.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// After failures in a row; what waits for a connection waits for the first that succeeds.
pub const RETRY: Backoff = Backoff {
    first_us: 250_000,
    most_us: 3_000_000,
};

#[derive(Debug, thiserror::Error)]
pub enum Failed {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Malformed(#[from] Malformed),
    /// Something else answers there.
    #[error("what answers has another key than the line says: if the relay's key is new, multipilot relay --new-device NAME makes a line with it")]
    WrongKey,
    #[error("the connection was closed without an answer, as a relay does with a line that it does not know or that is too old: multipilot relay --new-device NAME makes another")]
    NoAnswer,
    /// The relay does not take this device.
    #[error("this line belongs to another device: multipilot relay --new-device NAME makes one for this")]
    Refused,
    /// It would, and something is wrong with it.
    #[error("the relay could not store this device's key: its own messages say why")]
    NotStored,
}

impl Failed {
    /// Whether it says that the relay does not take this device, on whichever link and lane it comes.
    pub fn is_of_enrolment(&self) -> bool {
        !matches!(self, Failed::Io(_) | Failed::Malformed(_))
    }
}

/// The relay says so.
impl From<Refusal> for Failed {
    fn from(refusal: Refusal) -> Failed {
        match refusal {
            Refusal::UnknownKey => Failed::Refused,
            _ => Failed::NotStored,
        }
    }
}

/// Whoever answers there is not the relay of the line.
pub fn is_wrong_key(error: &rustls::Error) -> bool {
    matches!(error, rustls::Error::InvalidCertificate(_))
}

/// The device's part.
pub async fn connect(
    mut stream: TcpStream,
    config: Arc<ClientConfig>,
    secret: &Secret,
) -> Result<Carrier, Failed> {
    stream.write_all(&secret.knock().encode()).await?;
    let mut carrier = Carrier::client(stream, config)?;
    carrier.shake_hands().await.map_err(unanswered)?;
    let proof = secret.proof(&carrier.exporter()?);
    carrier.put_bytes(&proof);
    carrier.flush_all().await?;
    loop {
        if let Some((frame, length)) = Frame::decode(carrier.input())? {
            let Frame::Welcome(status) = frame else {
                return Err(Malformed("no welcome").into());
            };
            status?;
            carrier.take(length);
            return Ok(carrier);
        }
        carrier.more().await?;
    }
}

/// Why a relay does not go on with TLS.
fn unanswered(error: io::Error) -> Failed {
    let tls = error
        .get_ref()
        .and_then(|e| e.downcast_ref::<rustls::Error>());
    match (tls, error.kind()) {
        (Some(tls), _) if is_wrong_key(tls) => Failed::WrongKey,
        (_, ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset) => Failed::NoAnswer,
        _ => error.into(),
    }
}

/// The secret that a new connection knocks with. [`None`]: a stranger, who gets no answer.
pub async fn knock(
    stream: &mut TcpStream,
    register: &Mutex<Register>,
) -> io::Result<Option<Secret>> {
    let mut knock = [0; KNOCK_LENGTH];
    stream.read_exact(&mut knock).await?;
    Ok(Knock::decode(&knock).and_then(|knock| lock(register).admit(&knock)))
}

/// The relay's part from there on. `admit` is asked once it is known who it is: with [`None`] there is no answer.
pub async fn accept<T>(
    stream: TcpStream,
    config: Arc<ServerConfig>,
    secret: &Secret,
    register: &Mutex<Register>,
    admit: impl FnOnce() -> Option<T>,
) -> Result<(Carrier, T), Failed> {
    let mut carrier = Carrier::server(stream, config)?;
    carrier.shake_hands().await?;
    while carrier.input().len() < PROOF_LENGTH {
        carrier.more().await?;
    }
    let proof = carrier.input()[..PROOF_LENGTH]
        .try_into()
        .expect("just measured");
    let key = carrier
        .peer_certificates()
        .and_then(|chain| keys::key_of(chain.first()?));
    let proven = secret.proves(&carrier.exporter()?, &proof);
    carrier.take(PROOF_LENGTH);
    let taken = match key {
        Some(key) if proven => lock(register).accepts(secret, &key),
        _ => Ok(false),
    };
    let status = match taken {
        Ok(true) => Ok(()),
        Ok(false) => Err(Refusal::UnknownKey),
        Err(_) => Err(Refusal::Failed),
    };
    let refused = || io::Error::from(ErrorKind::PermissionDenied).into();
    if status.is_err() {
        carrier.put(&Frame::Welcome(status));
        carrier.part();
        return Err(refused());
    }
    let admitted = admit().ok_or_else(refused)?;
    carrier.put(&Frame::Welcome(status));
    carrier.flush()?;
    Ok((carrier, admitted))
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;
    use crate::devices::Store;
    use crate::keys::Identity;

    /// The relay may not write its register: both ends say so, and the device tries again.
    #[tokio::test]
    async fn an_enrolment_that_cannot_be_stored_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path()).unwrap();
        let secret = Secret::derive(&store.add("a", "h", 1).unwrap().secret);
        let (relay, device) = (store.identity().unwrap(), Identity::fresh());
        let register = Mutex::new(Register::new(store).unwrap());
        // Not for root either.
        let lock = folder.path().join("lock");
        std::fs::remove_file(&lock).unwrap();
        std::fs::create_dir(&lock).unwrap();

        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let connecting = TcpStream::connect(listener.local_addr().unwrap());
        let (connected, accepted) = tokio::join!(connecting, listener.accept());
        let mut stream = accepted.unwrap().0;
        let config = device.client(&relay.public());
        let there = connect(connected.unwrap(), config, &secret);
        let here = async {
            let known = knock(&mut stream, &register).await.unwrap().unwrap();
            accept(stream, relay.server(), &known, &register, || Some(())).await
        };
        let (told, failed) = tokio::join!(there, here);
        assert!(matches!(told, Err(Failed::NotStored)));
        assert!(failed.is_err());
    }
}
