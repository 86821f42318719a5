//! QUIC behind types of our own: an [`Endpoint`] a socket, a [`Channel`] a connection.
//!
//! Nobody but a device of the register gets an answer from the relay. The device's first packet has the knock in its
//! destination connection ID; whatever has none is dropped, before and after it has cost a key derivation.

use std::any::Any;
use std::fmt;
use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, UdpSocket};
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{ready, Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use mp_policy::scheduler::SubflowView;
use noq::congestion::{Controller, ControllerFactory};
use noq::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use noq::rustls::pki_types::CertificateDer;
use noq::{
    AckFrequencyConfig, AsyncUdpSocket, ClientConfig, ConnectionError, ConnectionId,
    EndpointConfig, IdleTimeout, MtuDiscoveryConfig, Runtime, ServerConfig, TokioRuntime,
    TransportConfig, UdpSender, VarInt,
};

use super::meter::Meter;
use super::paths::Wake;
use super::repeat::Known;
use crate::handshake::{is_wrong_key, Failed};
use crate::keys::{self, Identity, PublicKey};
use crate::lock;
use crate::wire::DATAGRAM_KNOCK_LENGTH;

const ALPN: &[u8] = b"multipilot-relay-1";
const VERSION: u32 = 1;
/// A path that nobody acknowledges for so long is closed.
const IDLE: Duration = Duration::from_secs(15);
/// Keeps the bindings of NATs, and tells of a path that has died while nothing is sent.
const KEEP_ALIVE: Duration = Duration::from_secs(5);
/// Waiting in the sender, bytes; the oldest are dropped.
const SEND_BUFFER: usize = 1 << 18;
const RECEIVE_BUFFER: usize = 1 << 20;
/// Of IPv6 on any link (RFC 8200), less its headers: searching upwards starts here.
const FIRST_MTU: u16 = 1280 - 48;
/// An acknowledgement for so many packets, at the latest after so long: each costs both ends as much as a packet.
const ACK_EVERY: u32 = 10;
const ACK_WITHIN: Duration = Duration::from_millis(5);
/// After it the path MTU is searched again where only large packets were lost: most often that was an overflow of a queue. The search
/// takes a few packets, and bulk does not fit meanwhile.
const AFTER_BLACK_HOLE: Duration = Duration::from_millis(250);
/// A relay closes with it where another process goes on in its place.
const HANDED_OVER: VarInt = VarInt::from_u32(1);
/// Received at once.
pub const BATCH: usize = 64;

/// Never in the way: a window of QUIC's would make calls wait. Bulk waits before it comes here ([`super::window`]).
#[derive(Clone)]
struct Measuring {
    meter: Arc<Mutex<Meter>>,
    base: Instant,
    wake: Arc<OnceLock<Arc<Wake>>>,
}

impl Measuring {
    fn new() -> Measuring {
        Measuring {
            meter: Arc::default(),
            base: Instant::now(),
            wake: Arc::default(),
        }
    }
}

impl fmt::Debug for Measuring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Measuring")
    }
}

const NO_LIMIT: u64 = 1 << 40;

impl Controller for Measuring {
    fn on_packet_sent(&mut self, now: Instant, bytes: u16, number: u64) {
        lock(&self.meter).on_sent(number, bytes.into(), now.duration_since(self.base));
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        number: u64,
        _: bool,
        _: &noq_proto::RttEstimator,
    ) {
        let since = |at: Instant| at.duration_since(self.base);
        lock(&self.meter).on_ack(number, bytes, since(sent), since(now));
    }

    fn on_end_acks(&mut self, _: Instant, in_flight: u64, _: bool, _: Option<u64>) {
        lock(&self.meter).set_in_flight(in_flight);
        if let Some(wake) = self.wake.get() {
            wake.on_acks();
        }
    }

    fn on_congestion_event(&mut self, _: Instant, _: Instant, _: bool, _: bool, _: u64, _: u64) {}

    fn on_packet_lost(&mut self, bytes: u16, _: u64, _: Instant) {
        lock(&self.meter).on_lost(bytes.into());
    }

    fn on_mtu_update(&mut self, mtu: u16) {
        lock(&self.meter).on_mtu(mtu.into());
    }

    fn window(&self) -> u64 {
        NO_LIMIT
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        NO_LIMIT
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

impl ControllerFactory for Measuring {
    fn build(self: Arc<Self>, _: Instant, mtu: u16) -> Box<dyn Controller> {
        lock(&self.meter).on_mtu(mtu.into());
        Box::new(Measuring::clone(&self))
    }
}

fn transport(measuring: &Measuring) -> Arc<TransportConfig> {
    let mut acks = AckFrequencyConfig::default();
    acks.ack_eliciting_threshold(VarInt::from_u32(ACK_EVERY - 1))
        .max_ack_delay(Some(ACK_WITHIN));
    let mut search = MtuDiscoveryConfig::default();
    search.black_hole_cooldown(AFTER_BLACK_HOLE);
    let mut config = TransportConfig::default();
    config
        .mtu_discovery_config(Some(search))
        .max_concurrent_bidi_streams(VarInt::from_u32(1))
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .max_idle_timeout(IdleTimeout::try_from(IDLE).ok())
        .keep_alive_interval(Some(KEEP_ALIVE))
        .initial_mtu(FIRST_MTU)
        .datagram_send_buffer_size(SEND_BUFFER)
        .datagram_receive_buffer_size(Some(RECEIVE_BUFFER))
        .ack_frequency_config(Some(acks))
        .congestion_controller_factory(Arc::new(measuring.clone()));
    Arc::new(config)
}

/// One QUIC connection: a path of the lane.
pub struct Channel {
    connection: noq::Connection,
    measuring: Measuring,
    /// The device's end has its socket to itself.
    _endpoint: Option<noq::Endpoint>,
}

impl Channel {
    /// Those that do not fit any more are lost, and all where the connection is not open any more.
    pub fn send(&self, datagrams: &[Bytes]) {
        let sent = self.connection.send_many_datagrams(datagrams);
        if let Err(noq::SendDatagramError::TooLarge) = sent {
            for datagram in datagrams {
                let _ = self.connection.send_datagram(datagram.clone());
            }
        }
    }

    /// What its acknowledgements wake.
    pub fn wakes(&self, wake: Arc<Wake>) {
        let _ = self.measuring.wake.set(wake);
    }

    /// Bytes of a datagram that fits.
    pub fn room(&self) -> usize {
        self.connection.max_datagram_size().unwrap_or(0)
    }

    /// Bytes of UDP payload, both ways together.
    pub fn carried(&self) -> u64 {
        let stats = self.connection.stats();
        stats.udp_tx.bytes + stats.udp_rx.bytes
    }

    pub fn view(&self) -> SubflowView {
        let takes = self.connection.datagram_send_buffer_space();
        let unsent = SEND_BUFFER.saturating_sub(takes) as u64;
        let now = self.measuring.base.elapsed();
        lock(&self.measuring.meter).view(unsent, takes as u64, now)
    }

    pub fn known(&self) -> Known {
        let meter = lock(&self.measuring.meter);
        Known {
            loss: meter.loss(),
            queue: meter.queue(),
        }
    }

    /// How many there are now, at the front of `batch`; [`None`] at the connection's end.
    pub async fn receive(&self, batch: &mut [Bytes]) -> Option<usize> {
        self.connection.read_many_datagrams(batch).await.ok()
    }

    pub fn exporter(&self) -> io::Result<[u8; 32]> {
        let mut exported = [0; 32];
        self.connection
            .export_keying_material(&mut exported, keys::EXPORTER, &[])
            .map_err(|_| io::Error::other("no keying material"))?;
        Ok(exported)
    }

    pub fn peer_key(&self) -> Option<PublicKey> {
        let identity = self.connection.peer_identity()?;
        let chain = identity.downcast::<Vec<CertificateDer>>().ok()?;
        keys::key_of(chain.first()?)
    }

    /// Says this on a stream of its own, and hears the answer of at most `most` bytes.
    pub async fn ask(&self, words: &[u8], most: usize) -> io::Result<Vec<u8>> {
        let (mut to, mut from) = self.connection.open_bi().await?;
        to.write_all(words).await?;
        to.finish().map_err(io::Error::other)?;
        from.read_to_end(most).await.map_err(io::Error::other)
    }

    /// What the peer asks, and the answer that `decide` gives.
    pub async fn answer(
        &self,
        most: usize,
        decide: impl FnOnce(&[u8]) -> io::Result<u8>,
    ) -> io::Result<()> {
        let (mut to, mut from) = self.connection.accept_bi().await?;
        let words = from.read_to_end(most).await.map_err(io::Error::other)?;
        to.write_all(&[decide(&words)?]).await?;
        to.finish().map_err(io::Error::other)
    }

    pub async fn closed(&self) {
        self.connection.closed().await;
    }

    /// The relay has closed it, and can be reached again at once.
    pub fn is_handed_over(&self) -> bool {
        let why = self.connection.close_reason();
        matches!(why, Some(ConnectionError::ApplicationClosed(close)) if close.error_code == HANDED_OVER)
    }

    pub fn close(&self) {
        self.connection.close(VarInt::from_u32(0), b"");
    }
}

fn endpoint_config() -> EndpointConfig {
    let mut config = EndpointConfig::default();
    config.grease_quic_bit(false);
    config.supported_versions(vec![VERSION]);
    config
}

/// The device's end, over a socket that leads to the relay. `knock` makes a new one for each connection.
pub async fn connect(
    socket: UdpSocket,
    relay: SocketAddr,
    identity: &ClientTls,
    knock: [u8; DATAGRAM_KNOCK_LENGTH],
) -> Result<Channel, Failed> {
    let endpoint = noq::Endpoint::new(endpoint_config(), None, socket, Arc::new(TokioRuntime))?;
    let measuring = Measuring::new();
    let mut config = ClientConfig::new(identity.0.clone());
    config.transport_config(transport(&measuring));
    config.initial_dst_cid_provider(Arc::new(move || ConnectionId::new(&knock)));
    // Raw public keys have no names; nor does the relay learn one.
    let connecting = endpoint
        .connect_with(config, relay, "relay.invalid")
        .map_err(io::Error::other)?;
    let connection = connecting.await.map_err(failed)?;
    Ok(Channel {
        connection,
        measuring,
        _endpoint: Some(endpoint),
    })
}

fn failed(error: ConnectionError) -> Failed {
    let tls = match &error {
        ConnectionError::TransportError(e) => e.crypto.as_deref(),
        _ => None,
    };
    let tls = tls.and_then(|e| e.downcast_ref::<noq::rustls::Error>());
    match tls.is_some_and(is_wrong_key) {
        true => Failed::WrongKey,
        false => io::Error::from(error).into(),
    }
}

/// TLS of the device's end.
#[derive(Clone)]
pub struct ClientTls(Arc<QuicClientConfig>);

impl ClientTls {
    pub fn new(config: &noq::rustls::ClientConfig) -> Option<ClientTls> {
        let mut config = config.clone();
        config.alpn_protocols = vec![ALPN.to_vec()];
        Some(ClientTls(Arc::new(config.try_into().ok()?)))
    }
}

/// The relay's end.
#[derive(Clone)]
pub struct Endpoint {
    endpoint: noq::Endpoint,
    tls: Arc<QuicServerConfig>,
    is_deaf: Arc<AtomicBool>,
}

impl Endpoint {
    pub fn listen(socket: UdpSocket, identity: &Identity) -> io::Result<Endpoint> {
        let mut config = noq::rustls::ServerConfig::clone(&identity.server());
        config.alpn_protocols = vec![ALPN.to_vec()];
        let tls: QuicServerConfig = config.try_into().map_err(io::Error::other)?;
        let tls = Arc::new(tls);
        let is_deaf = Arc::new(AtomicBool::new(false));
        let socket = Silent {
            socket: TokioRuntime.wrap_udp_socket(socket)?,
            is_deaf: is_deaf.clone(),
        };
        let endpoint = noq::Endpoint::new_with_abstract_socket(
            endpoint_config(),
            Some(ServerConfig::with_crypto(tls.clone())),
            Box::new(socket),
            Arc::new(TokioRuntime),
        )?;
        Ok(Endpoint {
            endpoint,
            tls,
            is_deaf,
        })
    }

    /// Tells the devices, and reads no packet any more: they are for another process that has the socket.
    pub fn close(&self) {
        self.is_deaf.store(true, Ordering::Relaxed);
        self.endpoint.close(HANDED_OVER, b"another process goes on");
    }

    /// The next connection that `admits` lets in by its knock, not yet established. [`None`] when the endpoint has ended.
    pub async fn accept<T>(
        &self,
        admits: impl Fn(&[u8; DATAGRAM_KNOCK_LENGTH]) -> Option<T>,
    ) -> Option<(Accepted, T)> {
        loop {
            let incoming = self.endpoint.accept().await?;
            let knock = incoming.orig_dst_cid();
            let known = <&[u8; DATAGRAM_KNOCK_LENGTH]>::try_from(&knock[..]).ok();
            let Some(secret) = known.and_then(&admits) else {
                incoming.ignore();
                continue;
            };
            let measuring = Measuring::new();
            let mut config = ServerConfig::with_crypto(self.tls.clone());
            config.transport_config(transport(&measuring));
            if let Ok(connecting) = incoming.accept_with(Arc::new(config)) {
                let accepted = Accepted {
                    connecting,
                    measuring,
                };
                return Some((accepted, secret));
            }
        }
    }
}

pub struct Accepted {
    connecting: noq::Connecting,
    measuring: Measuring,
}

impl Accepted {
    pub async fn establish(self) -> io::Result<Channel> {
        Ok(Channel {
            connection: self.connecting.await?,
            measuring: self.measuring,
            _endpoint: None,
        })
    }
}

/// A socket that drops what QUIC would answer to strangers: packets of other versions (with a list of versions), and first
/// packets without room for a knock (with a refusal).
#[derive(Debug)]
struct Silent {
    socket: Box<dyn AsyncUdpSocket>,
    /// What comes stays in the system's queue.
    is_deaf: Arc<AtomicBool>,
}

fn is_answered_to_strangers(packet: &[u8]) -> bool {
    let [first, version @ .., length] = packet.first_chunk::<6>().copied().unwrap_or_default();
    let long = first & 0x80 != 0;
    let initial = first & 0x30 == 0;
    let wrong_version = u32::from_be_bytes(version) != VERSION;
    // The device chooses that of its first packets only; those that follow have one of the relay's, of 8 bytes.
    long && (wrong_version || initial && length < 8)
}

impl AsyncUdpSocket for Silent {
    fn create_sender(&self) -> Pin<Box<dyn UdpSender>> {
        self.socket.create_sender()
    }

    fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [noq::udp::RecvMeta],
    ) -> Poll<io::Result<usize>> {
        if self.is_deaf.load(Ordering::Relaxed) {
            return Poll::Pending;
        }
        let count = ready!(self.socket.poll_recv(cx, bufs, meta))?;
        for (buffer, meta) in bufs.iter_mut().zip(meta.iter()).take(count) {
            let stride = meta.stride.max(1);
            for packet in buffer[..meta.len].chunks_mut(stride) {
                if is_answered_to_strangers(packet) {
                    // Without the fixed bit: what nobody reads on.
                    packet[0] = 0;
                }
            }
        }
        Poll::Ready(Ok(count))
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    fn max_receive_segments(&self) -> NonZeroUsize {
        self.socket.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.socket.may_fragment()
    }
}
