//! A QUIC server and its client, for benches/relay.py: what HTTP/3 has of the links, without HTTP.
//!
//! ```text
//! quic serve ADDRESS:PORT                 prints its key, then answers each stream with zeros without end
//! quic fetch ADDRESS:PORT KEY SECONDS     prints what has come in this time, Mbit/s
//! ```
//! Congestion control is CUBIC (noq's default), windows are 16 MiB.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use data_encoding::HEXLOWER;
use mp_relay::keys::Identity;
use noq::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use noq::{ClientConfig, Endpoint, ServerConfig, TransportConfig, VarInt};

type Failed = Box<dyn Error + Send + Sync>;

const WINDOW: u32 = 1 << 24;
const BLOCK: usize = 1 << 16;

fn transport() -> Arc<TransportConfig> {
    let mut config = TransportConfig::default();
    config
        .stream_receive_window(VarInt::from_u32(WINDOW))
        .receive_window(VarInt::from_u32(WINDOW))
        .send_window(WINDOW.into());
    Arc::new(config)
}

async fn serve(address: SocketAddr) -> Result<(), Failed> {
    let identity = Identity::fresh();
    let tls: QuicServerConfig = rustls::ServerConfig::clone(&identity.server()).try_into()?;
    let mut config = ServerConfig::with_crypto(Arc::new(tls));
    config.transport_config(transport());
    let endpoint = Endpoint::server(config, address)?;
    println!("{}", HEXLOWER.encode(&identity.public()));
    while let Some(incoming) = endpoint.accept().await {
        tokio::spawn(async move {
            let connection = incoming.await?;
            let (mut to, mut from) = connection.accept_bi().await?;
            from.read_to_end(1).await?;
            while to.write_all(&[0; BLOCK]).await.is_ok() {}
            Ok::<(), Failed>(())
        });
    }
    Ok(())
}

async fn fetch(address: SocketAddr, key: &str, time: Duration) -> Result<f64, Failed> {
    let key = HEXLOWER.decode(key.as_bytes())?;
    let key = key.try_into().map_err(|_| "a key has 32 bytes")?;
    let tls: QuicClientConfig =
        rustls::ClientConfig::clone(&Identity::fresh().client(&key)).try_into()?;
    let mut config = ClientConfig::new(Arc::new(tls));
    config.transport_config(transport());
    let any = SocketAddr::new(std::net::Ipv4Addr::UNSPECIFIED.into(), 0);
    let endpoint = Endpoint::client(any)?;
    let connection = endpoint
        .connect_with(config, address, "server.invalid")?
        .await?;
    let (mut to, from) = connection.open_bi().await?;
    to.write_all(b"x").await?;
    to.finish()?;
    // noq 1.4 breaks a stream off that has more than 2,048 packets behind a loss, unless it is read as they come.
    let mut from = from.into_unordered();
    let (began, mut size) = (Instant::now(), 0);
    while let Some(left) = time.checked_sub(began.elapsed()) {
        let reading = tokio::time::timeout(left, from.read_chunk(BLOCK));
        match reading.await {
            Ok(chunk) => size += chunk?.ok_or("the server has ended")?.bytes.len(),
            Err(_) => break,
        }
    }
    connection.close(VarInt::from_u32(0), b"");
    endpoint.wait_idle().await;
    Ok(8e-6 * size as f64 / time.as_secs_f64())
}

#[tokio::main]
async fn main() -> Result<(), Failed> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", address] => serve(address.parse()?).await,
        ["fetch", address, key, seconds] => {
            let time = Duration::from_secs_f64(seconds.parse()?);
            println!("{:.2}", fetch(address.parse()?, key, time).await?);
            Ok(())
        }
        _ => Err("quic serve ADDRESS:PORT | quic fetch ADDRESS:PORT KEY SECONDS".into()),
    }
}
