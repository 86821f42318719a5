//! One path connection as the flow drives it: TLS over a TCP socket, without waiting.

use std::cell::Cell;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, Connection, ServerConfig, ServerConnection};
use socket2::SockRef;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::keys;
use crate::wire::{Frame, Header, Malformed};

/// Bytes read at once.
const SCRATCH: usize = 1 << 16;
/// Of one connection before others have their turn.
const TURN: usize = 1 << 18;
/// For the last words of a connection that is done.
const FAREWELL: Duration = Duration::from_secs(5);

thread_local! {
    /// Where a thread reads to: one for each connection would be most of an idle one's memory.
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// With this thread's buffer.
pub fn with_scratch<T>(act: impl FnOnce(&mut [u8]) -> T) -> T {
    let mut buffer = BUFFER.take();
    buffer.resize(SCRATCH, 0);
    let done = act(&mut buffer);
    BUFFER.set(buffer);
    done
}

pub struct Carrier {
    stream: TcpStream,
    /// Elsewhere: a carrier is moved often, and a flow has room for eight.
    tls: Box<Connection>,
    /// Decrypted and not yet taken, from `taken` on.
    input: Vec<u8>,
    taken: usize,
    /// The peer sends no more; it said so itself.
    closed: bool,
    ended: bool,
    /// Bytes given to the socket and taken from it.
    carried: Arc<AtomicU64>,
}

impl Carrier {
    pub fn client(stream: TcpStream, config: Arc<ClientConfig>) -> io::Result<Carrier> {
        let name = ServerName::IpAddress(stream.peer_addr()?.ip().into());
        let tls = ClientConnection::new(config, name).map_err(io::Error::other)?;
        Ok(Carrier::new(stream, tls.into()))
    }

    pub fn server(stream: TcpStream, config: Arc<ServerConfig>) -> io::Result<Carrier> {
        let tls = ServerConnection::new(config).map_err(io::Error::other)?;
        Ok(Carrier::new(stream, tls.into()))
    }

    fn new(stream: TcpStream, mut tls: Connection) -> Carrier {
        // The flow itself gives no more than the socket takes.
        tls.set_buffer_limit(None);
        Carrier {
            stream,
            tls: Box::new(tls),
            input: Vec::new(),
            taken: 0,
            closed: false,
            ended: false,
            carried: Arc::default(),
        }
    }

    /// From now on, and with what was counted so far.
    pub fn count_in(&mut self, total: &Arc<AtomicU64>) {
        total.fetch_add(self.carried.load(Ordering::Relaxed), Ordering::Relaxed);
        self.carried = total.clone();
    }

    fn count(&self, bytes: usize) {
        self.carried.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    pub fn peer_certificates(&self) -> Option<&[rustls::pki_types::CertificateDer<'static>]> {
        self.tls.peer_certificates()
    }

    pub fn exporter(&self) -> io::Result<[u8; 32]> {
        self.tls
            .export_keying_material([0; 32], keys::EXPORTER, None)
            .map_err(io::Error::other)
    }

    /// Completes the TLS handshake.
    pub async fn shake_hands(&mut self) -> io::Result<()> {
        while self.tls.is_handshaking() {
            self.flush()?;
            if self.tls.is_handshaking() {
                self.more().await?;
            }
        }
        self.flush_all().await
    }

    /// Waits for more input, or for a socket that takes what is to be written.
    pub async fn more(&mut self) -> io::Result<()> {
        if self.ended {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        std::future::poll_fn(|cx| self.poll_ready(cx)).await;
        self.flush()?;
        self.receive().map(drop)
    }

    /// Ready when reading, or the writing that is due, may get on.
    pub fn poll_ready(&self, cx: &mut Context) -> Poll<()> {
        let read = !self.ended && self.stream.poll_read_ready(cx).is_ready();
        let written = self.blocked() && self.stream.poll_write_ready(cx).is_ready();
        if read || written {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }

    pub async fn flush_all(&mut self) -> io::Result<()> {
        loop {
            self.flush()?;
            if !self.blocked() {
                return Ok(());
            }
            self.stream.writable().await?;
        }
    }

    /// Takes what the socket has; whether there may be more.
    pub fn receive(&mut self) -> io::Result<bool> {
        with_scratch(|scratch| self.receive_into(scratch))
    }

    fn receive_into(&mut self, scratch: &mut [u8]) -> io::Result<bool> {
        let mut total = 0;
        while !self.ended && total < TURN {
            match self.stream.try_read(scratch) {
                Ok(0) => self.ended = true,
                Ok(count) => {
                    total += count;
                    self.count(count);
                    self.decrypt(&scratch[..count])?;
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(!self.ended)
    }

    fn decrypt(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() && !self.closed {
            if self.tls.read_tls(&mut bytes)? == 0 {
                break;
            }
            let state = self.tls.process_new_packets();
            let state = state.map_err(|e| io::Error::new(ErrorKind::InvalidData, e))?;
            let plain = state.plaintext_bytes_to_read();
            let from = self.input.len();
            self.input.resize(from + plain, 0);
            self.tls.reader().read_exact(&mut self.input[from..])?;
            (self.closed, self.ended) = (
                state.peer_has_closed(),
                self.ended || state.peer_has_closed(),
            );
        }
        Ok(())
    }

    /// Nothing more will come.
    pub fn ended(&self) -> bool {
        self.ended
    }

    /// The peer said that it is done, rather than breaking off.
    pub fn ended_well(&self) -> bool {
        self.closed
    }

    /// Input that was not taken yet.
    pub fn input(&self) -> &[u8] {
        &self.input[self.taken..]
    }

    pub fn take(&mut self, count: usize) {
        self.taken += count;
        if self.taken == self.input.len() {
            self.input.clear();
            self.taken = 0;
        }
    }

    /// Each whole frame that is there.
    pub fn frames<E: From<Malformed>>(
        &mut self,
        mut take: impl FnMut(Frame) -> Result<(), E>,
    ) -> Result<(), E> {
        while let Some((frame, length)) = Frame::decode(&self.input[self.taken..])? {
            take(frame)?;
            self.taken += length;
        }
        self.input.drain(..self.taken);
        self.taken = 0;
        Ok(())
    }

    /// The next frame by itself, where it has no payload.
    pub fn put(&mut self, frame: &Frame) {
        self.put_data(Header::of(frame), (&[], &[]));
    }

    /// As one TLS record.
    pub fn put_data(&mut self, header: Header, payload: (&[u8], &[u8])) {
        let parts = [
            IoSlice::new(header.bytes()),
            IoSlice::new(payload.0),
            IoSlice::new(payload.1),
        ];
        // It fails only where the connection has failed already, which the next read tells.
        let _ = self.tls.writer().write_vectored(&parts);
    }

    /// Gives back memory that bursts have left.
    pub fn rest(&mut self) {
        if self.input().is_empty() {
            (self.input, self.taken) = (Vec::new(), 0);
        }
    }

    pub fn put_bytes(&mut self, bytes: &[u8]) {
        let _ = self.tls.writer().write_all(bytes);
    }

    /// Gives the socket what it takes.
    pub fn flush(&mut self) -> io::Result<()> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut Socket(&self.stream)) {
                Ok(count) => self.count(count),
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// The socket did not take everything.
    pub fn blocked(&self) -> bool {
        self.tls.wants_write()
    }

    /// Lets what was written arrive before the connection is closed: unread input at a close would reset it. Whether the peer
    /// has closed it too.
    pub fn part(mut self) -> JoinHandle<bool> {
        let parting = async move {
            self.tls.send_close_notify();
            self.flush_all().await?;
            SockRef::from(&self.stream).shutdown(std::net::Shutdown::Write)?;
            loop {
                self.stream.readable().await?;
                match with_scratch(|scratch| self.stream.try_read(scratch)) {
                    Ok(0) => return Ok::<_, io::Error>(()),
                    Err(e) if e.kind() != ErrorKind::WouldBlock => return Err(e),
                    _ => {}
                }
            }
        };
        tokio::spawn(async move { matches!(timeout(FAREWELL, parting).await, Ok(Ok(()))) })
    }
}

struct Socket<'a>(&'a TcpStream);

impl Write for Socket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(parts)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::keys::Identity;
    use tokio::net::TcpListener;

    const PIECE: usize = 10_000;
    const PIECES: usize = 300;

    /// The device's and the relay's end of one connection.
    pub(crate) async fn pair() -> (Carrier, Carrier) {
        let (device, relay) = (Identity::fresh(), Identity::fresh());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let connecting = TcpStream::connect(listener.local_addr().unwrap());
        let (connected, accepted) = tokio::join!(connecting, listener.accept());
        let config = device.client(&relay.public());
        let mut client = Carrier::client(connected.unwrap(), config).unwrap();
        let mut server = Carrier::server(accepted.unwrap().0, relay.server()).unwrap();
        let (one, other) = tokio::join!(client.shake_hands(), server.shake_hands());
        assert!(one.is_ok() && other.is_ok());
        (client, server)
    }

    /// Sends and hears pieces at the same time, and renews its keys after so many.
    async fn exchange(carrier: &mut Carrier, renewal: usize) {
        let (mut sent, mut heard) = (0, 0);
        while sent < PIECES || heard < PIECES {
            match sent < PIECES && !carrier.blocked() {
                true => {
                    carrier.put_bytes(&[sent as u8; PIECE]);
                    sent += 1;
                    if sent % renewal == 0 {
                        carrier.tls.refresh_traffic_keys().unwrap();
                    }
                    carrier.flush().unwrap();
                    carrier.receive().unwrap();
                }
                false => carrier.more().await.unwrap(),
            }
            while carrier.input().len() >= PIECE {
                assert!(carrier.input()[..PIECE] == [heard as u8; PIECE]);
                carrier.take(PIECE);
                heard += 1;
            }
        }
        carrier.flush_all().await.unwrap();
    }

    #[tokio::test]
    async fn keys_are_renewed_in_the_middle_of_a_transfer() {
        let (mut client, mut server) = pair().await;
        let before = client.exporter().unwrap();
        tokio::join!(exchange(&mut client, 7), exchange(&mut server, 50));
        // The session stays the same: what was proven at its beginning holds.
        assert_eq!(client.exporter().unwrap(), before);
    }
}
