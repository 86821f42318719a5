//! Keys: an Ed25519 pair for each end, pinned as raw public keys (RFC 7250) in TLS 1.3, and the secret of a line.
//!
//! The secret never crosses the network. From it both ends derive the knock's key, with which the device begins each
//! connection ([`crate::wire::Knock`]) and, inside TLS, proves that it is the one who knocked: the proof covers the
//! session's exporter, so that a knock that somebody else takes over is worth nothing.

use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{Ed25519KeyPair, KeyPair};
use ring::{digest, hmac};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::AlwaysResolvesClientRawPublicKeys;
use rustls::crypto::ring as provider;
use rustls::crypto::{
    verify_tls13_signature_with_raw_key, CryptoProvider, WebPkiSupportedAlgorithms,
};
use rustls::pki_types::{
    CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime,
};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::sign::CertifiedKey;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, ServerConfig,
    SignatureScheme, SupportedCipherSuite,
};

use crate::wire::{DatagramKnock, Knock, ID_LENGTH, MAC_LENGTH};
use crate::Error;

pub type PublicKey = [u8; 32];
pub const PROOF_LENGTH: usize = 32;
/// Of TLS: what a proof is bound to.
pub const EXPORTER: &[u8] = b"EXPORTER-multipilot-relay-1";

/// SubjectPublicKeyInfo of an Ed25519 key, up to the key itself (RFC 8410).
const SPKI: [u8; 12] = [
    0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00,
];

/// From the operating system.
pub fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    SystemRandom::new()
        .fill(&mut bytes)
        .expect("the operating system has random numbers");
    bytes
}

/// One end's pair of keys.
#[derive(Clone)]
pub struct Identity {
    certified: Arc<CertifiedKey>,
    public: PublicKey,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Identity")
    }
}

impl Identity {
    /// The pair in a file, which is made where there is none.
    pub fn open(file: &Path) -> Result<Identity, Error> {
        match Self::read(file)? {
            Some(identity) => Ok(identity),
            None => Self::create(file),
        }
    }

    /// The pair in a file, if there is one.
    pub fn read(file: &Path) -> Result<Option<Identity>, Error> {
        match fs::read(file) {
            Ok(bytes) => Self::from_pkcs8(&bytes).map(Some).ok_or_else(|| {
                Error::Usage(format!(
                    "{}: not a key of multipilot; remove it to have a new one made",
                    file.display()
                ))
            }),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(Error::failed(file.display(), e)),
        }
    }

    pub fn fresh() -> Identity {
        Self::from_pkcs8(&pkcs8()).expect("made by the library that reads it")
    }

    fn create(file: &Path) -> Result<Identity, Error> {
        let failed = |e: io::Error| Error::failed(file.display(), e);
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        let bytes = pkcs8();
        let beside = file.with_extension(format!("{}.new", std::process::id()));
        // What a killed process of this number has left; not through a link of whom the folder belongs to.
        let _ = fs::remove_file(&beside);
        let mut new = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&beside)
            .map_err(failed)?;
        let written = new
            .write_all(&bytes)
            .and_then(|()| mp_files::belong_to_folder(&new, file))
            .and_then(|()| new.sync_all());
        // A link, not a rename: another process may have made a key meanwhile, and that one is the host's.
        let linked = written.and_then(|()| fs::hard_link(&beside, file));
        let _ = fs::remove_file(&beside);
        match linked {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => Err(failed(e)),
            _ => Self::read(file)?.ok_or_else(|| {
                Error::Failed(format!(
                    "{}: a link to a file that is not there: mount it, or remove the link",
                    file.display()
                ))
            }),
        }
    }

    fn from_pkcs8(bytes: &[u8]) -> Option<Identity> {
        let public = Ed25519KeyPair::from_pkcs8(bytes)
            .ok()?
            .public_key()
            .as_ref()
            .try_into()
            .ok()?;
        let key = provider::sign::any_eddsa_type(&PrivatePkcs8KeyDer::from(bytes.to_vec())).ok()?;
        let certificate = CertificateDer::from(spki(&public));
        Some(Identity {
            certified: Arc::new(CertifiedKey::new(vec![certificate], key)),
            public,
        })
    }

    pub fn public(&self) -> PublicKey {
        self.public
    }

    /// TLS towards the relay of this key, and no other.
    pub fn client(&self, relay: &PublicKey) -> Arc<ClientConfig> {
        let verifier = Arc::new(Pinned {
            key: Some(*relay),
            algorithms: algorithms(),
        });
        let mut config = ClientConfig::builder_with_provider(suites())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("the provider has TLS 1.3")
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(
                self.certified.clone(),
            )));
        config.resumption = rustls::client::Resumption::disabled();
        config.enable_sni = false;
        Arc::new(config)
    }

    /// TLS with any device that has a key; whose it is, [`key_of`] says.
    pub fn server(&self) -> Arc<ServerConfig> {
        let verifier = Arc::new(Pinned {
            key: None,
            algorithms: algorithms(),
        });
        let mut config = ServerConfig::builder_with_provider(suites())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("the provider has TLS 1.3")
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(
                self.certified.clone(),
            )));
        config.send_tls13_tickets = 0;
        Arc::new(config)
    }
}

fn pkcs8() -> Vec<u8> {
    let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new());
    document
        .expect("the operating system has random numbers")
        .as_ref()
        .to_vec()
}

fn spki(public: &PublicKey) -> Vec<u8> {
    [&SPKI[..], public].concat()
}

/// Of a raw public key as TLS has it.
pub fn key_of(certificate: &CertificateDer) -> Option<PublicKey> {
    certificate.as_ref().strip_prefix(&SPKI)?.try_into().ok()
}

fn algorithms() -> WebPkiSupportedAlgorithms {
    provider::default_provider().signature_verification_algorithms
}

/// AES-128 first: half the cost of AES-256 in the rounds, and ChaCha20 where the other end has no AES in hardware.
fn suites() -> Arc<CryptoProvider> {
    use provider::cipher_suite::{TLS13_AES_128_GCM_SHA256, TLS13_CHACHA20_POLY1305_SHA256};
    let mut cipher_suites: Vec<SupportedCipherSuite> =
        vec![TLS13_AES_128_GCM_SHA256, TLS13_CHACHA20_POLY1305_SHA256];
    if !aes_in_hardware() {
        cipher_suites.reverse();
    }
    Arc::new(CryptoProvider {
        cipher_suites,
        ..provider::default_provider()
    })
}

fn aes_in_hardware() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("aes");
    #[cfg(target_arch = "aarch64")]
    return std::arch::is_aarch64_feature_detected!("aes");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    return false;
}

/// Accepts an Ed25519 raw public key: this one, or any.
#[derive(Debug)]
struct Pinned {
    key: Option<PublicKey>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Pinned {
    fn check(&self, certificate: &CertificateDer) -> Result<(), rustls::Error> {
        let key = key_of(certificate).ok_or(CertificateError::BadEncoding)?;
        match self.key {
            Some(pinned) if pinned != key => {
                Err(CertificateError::ApplicationVerificationFailure.into())
            }
            _ => Ok(()),
        }
    }

    fn signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let key = SubjectPublicKeyInfoDer::from(certificate.as_ref());
        verify_tls13_signature_with_raw_key(message, &key, signature, &self.algorithms)
    }

    fn no_tls12() -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("TLS 1.2 is not spoken here".into()))
    }
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.check(end_entity)
            .map(|()| ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Self::no_tls12()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for Pinned {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        self.check(end_entity)
            .map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Self::no_tls12()
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ED25519]
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

/// What both ends derive from a line's secret.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    pub id: [u8; ID_LENGTH],
    pub key: [u8; 32],
}

impl Secret {
    pub fn derive(secret: &[u8; 16]) -> Secret {
        let hash =
            |label: &str| digest::digest(&digest::SHA256, &[label.as_bytes(), secret].concat());
        let mut derived = Secret {
            id: [0; ID_LENGTH],
            key: [0; 32],
        };
        derived
            .id
            .copy_from_slice(&hash("multipilot relay 1 id").as_ref()[..ID_LENGTH]);
        derived
            .key
            .copy_from_slice(hash("multipilot relay 1 key").as_ref());
        derived
    }

    fn hmac(&self) -> hmac::Key {
        hmac::Key::new(hmac::HMAC_SHA256, &self.key)
    }

    pub fn knock(&self) -> Knock {
        let mut knock = Knock {
            id: self.id,
            nonce: random(),
            mac: [0; MAC_LENGTH],
        };
        let tag = hmac::sign(&self.hmac(), &knock.signed());
        knock.mac.copy_from_slice(&tag.as_ref()[..MAC_LENGTH]);
        knock
    }

    /// In constant time.
    pub fn verifies(&self, knock: &Knock) -> bool {
        let tag = hmac::sign(&self.hmac(), &knock.signed());
        same(&tag.as_ref()[..MAC_LENGTH], &knock.mac)
    }

    pub fn datagram_knock(&self) -> DatagramKnock {
        let mut knock = DatagramKnock {
            id: [0; 4],
            nonce: random(),
            mac: [0; 8],
        };
        knock.id.copy_from_slice(&self.id[..4]);
        knock.mac = self.datagram_mac(&knock);
        knock
    }

    /// In constant time.
    pub fn verifies_datagram(&self, knock: &DatagramKnock) -> bool {
        same(&self.datagram_mac(knock), &knock.mac)
    }

    fn datagram_mac(&self, knock: &DatagramKnock) -> [u8; 8] {
        let signed = [b"multipilot relay 1 datagrams", &knock.id[..], &knock.nonce].concat();
        let mut mac = [0; 8];
        mac.copy_from_slice(&hmac::sign(&self.hmac(), &signed).as_ref()[..8]);
        mac
    }

    /// That the end of this TLS session knows the secret; `exporter` is the session's.
    pub fn proof(&self, exporter: &[u8; 32]) -> [u8; PROOF_LENGTH] {
        let tag = hmac::sign(
            &self.hmac(),
            &[b"multipilot relay 1 proof", &exporter[..]].concat(),
        );
        tag.as_ref().try_into().expect("SHA-256 has 32 bytes")
    }

    /// In constant time.
    pub fn proves(&self, exporter: &[u8; 32], proof: &[u8; PROOF_LENGTH]) -> bool {
        same(&self.proof(exporter), proof)
    }
}

fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len()
        && std::hint::black_box(a.iter().zip(b).fold(0, |differ, (x, y)| differ | (x ^ y))) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_file_is_its_owners_and_stays_the_same() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        let first = Identity::open(&file).unwrap().public();
        assert_eq!(Identity::open(&file).unwrap().public(), first);
        assert_eq!(
            fs::metadata(&file).unwrap().permissions().mode() & 0o777,
            0o600
        );
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        fs::write(&file, b"no key").unwrap();
        assert!(Identity::open(&file)
            .unwrap_err()
            .to_string()
            .contains("remove it"));
    }

    #[test]
    fn a_key_on_a_disk_that_is_not_mounted_is_said_so() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        std::os::unix::fs::symlink(folder.path().join("disk/key"), &file).unwrap();
        let said = Identity::open(&file).unwrap_err().to_string();
        assert!(
            said.contains("a link to a file that is not there"),
            "{said}"
        );
    }

    #[test]
    fn a_knock_verifies_with_its_own_secret_alone() {
        let (a, b) = (Secret::derive(&[1; 16]), Secret::derive(&[2; 16]));
        let knock = a.knock();
        assert!(a.verifies(&knock) && !b.verifies(&knock));
        assert_ne!(a.knock().nonce, knock.nonce);
        let mut changed = knock;
        changed.nonce[0] ^= 1;
        assert!(!a.verifies(&changed));
        let proof = a.proof(&[3; 32]);
        assert!(
            a.proves(&[3; 32], &proof)
                && !a.proves(&[4; 32], &proof)
                && !b.proves(&[3; 32], &proof)
        );
    }
}
