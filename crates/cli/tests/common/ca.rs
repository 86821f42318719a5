//! A CA of a test's own, and certificates of it.
#![allow(dead_code)] // each test file uses its own part

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{
    date_time_ymd, BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair,
};

pub struct Ca(CertifiedIssuer<'static, KeyPair>);

/// Where a certificate and its key are.
pub struct Signed {
    pub cert: PathBuf,
    pub key: PathBuf,
}

impl Ca {
    pub fn new(name: &str) -> Ca {
        let mut params = CertificateParams::new([]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        Ca(CertifiedIssuer::self_signed(params, key).unwrap())
    }

    /// The CA's own certificate, for those who are to trust it.
    pub fn file(&self, path: PathBuf) -> PathBuf {
        fs::write(&path, self.0.pem()).unwrap();
        path
    }

    /// Signs for a name; what a former call wrote in the folder is overwritten.
    pub fn sign(&self, folder: &Path, name: &str) -> Signed {
        self.write(folder, CertificateParams::new([name.to_owned()]).unwrap())
    }

    /// One that was valid until the end of 2020.
    pub fn sign_expired(&self, folder: &Path, name: &str) -> Signed {
        let mut params = CertificateParams::new([name.to_owned()]).unwrap();
        params.not_after = date_time_ymd(2020, 12, 31);
        self.write(folder, params)
    }

    fn write(&self, folder: &Path, params: CertificateParams) -> Signed {
        let key = KeyPair::generate().unwrap();
        let cert = params.signed_by(&key, &self.0).unwrap();
        let signed = Signed {
            cert: folder.join("cert.pem"),
            key: folder.join("key.pem"),
        };
        fs::write(&signed.cert, cert.pem()).unwrap();
        fs::write(&signed.key, key.serialize_pem()).unwrap();
        signed
    }
}
