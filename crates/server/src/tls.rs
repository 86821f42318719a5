//! TLS of the listener: version 1.3, with certificate and key from PEM files.

use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::ServerConfig;
use tokio_rustls::TlsAcceptor;

use crate::config::TlsFiles;
use crate::follow::Followed;
use crate::Error;

pub struct Tls {
    files: TlsFiles,
    followed: Followed,
    current: Arc<Current>,
    pub acceptor: TlsAcceptor,
}

/// The certificate that the next connection sees.
#[derive(Debug)]
struct Current(RwLock<Arc<CertifiedKey>>);

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(
            self.0
                .read()
                .unwrap_or_else(PoisonError::into_inner)
                .clone(),
        )
    }
}

impl Tls {
    pub fn load(files: TlsFiles) -> Result<Tls, Error> {
        let followed = Followed::new(&[&files.cert, &files.key]);
        let current = Arc::new(Current(RwLock::new(Arc::new(read(&files)?))));
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&TLS13])
            .map_err(|e| Error::Failed(format!("TLS: {e}")))?
            .with_no_client_auth()
            .with_cert_resolver(current.clone());
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Tls {
            files,
            followed,
            current,
            acceptor: TlsAcceptor::from(Arc::new(config)),
        })
    }

    pub fn changed(&self) -> bool {
        self.followed.changed()
    }

    /// Connections that are open keep the certificate that they were opened with.
    pub fn reload(&self) -> Result<(), Error> {
        let fresh = Arc::new(read(&self.files)?);
        *self
            .current
            .0
            .write()
            .unwrap_or_else(PoisonError::into_inner) = fresh;
        Ok(())
    }
}

fn read(files: &TlsFiles) -> Result<CertifiedKey, Error> {
    let TlsFiles { cert, key } = files;
    let chain = certificates(cert, "--tls-cert")?;
    let secret = PrivateKeyDer::from_pem_slice(&bytes(key, "--tls-key")?).map_err(|_| {
        let path = key.display();
        Error::Usage(format!(
            "--tls-key: {path}: no private key in it: expected PEM without a password"
        ))
    })?;
    CertifiedKey::from_der(chain, secret, &ring::default_provider()).map_err(|e| {
        Error::Usage(format!(
            "--tls-cert: {}: does not go with the key {}: {e}",
            cert.display(),
            key.display()
        ))
    })
}

/// The certificates of a PEM file, one at least; `setting` is what errors call it.
pub fn certificates(file: &Path, setting: &str) -> Result<Vec<CertificateDer<'static>>, Error> {
    let text = bytes(file, setting)?;
    let all = CertificateDer::pem_slice_iter(&text).collect::<Result<Vec<_>, _>>();
    all.ok().filter(|all| !all.is_empty()).ok_or_else(|| {
        let path = file.display();
        Error::Usage(format!(
            "{setting}: {path}: no certificate in it: expected PEM"
        ))
    })
}

fn bytes(file: &Path, setting: &str) -> Result<Vec<u8>, Error> {
    let read = std::fs::read(file);
    read.map_err(|e| Error::Usage(format!("{setting}: {}: {e}", file.display())))
}
