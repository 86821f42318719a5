//! One server over HTTP or HTTPS: requests, and why they fail.

use std::error::Error as StdError;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use reqwest::header::{HeaderValue, AUTHORIZATION};
use reqwest::redirect::Policy;
use reqwest::tls::Version;
use reqwest::{Certificate, Method, StatusCode};
use rustls::{CertificateError, Error as TlsError};
use serde::de::DeserializeOwned;
use serde::Serialize;

use super::{lock, Settings};
use crate::wire::Problem;
use crate::{tls, Error};

/// For a request, its connection included.
const PATIENCE: Duration = Duration::from_secs(10);
const LONGEST_ANSWER: usize = 16 << 20;
/// Characters of a refusal that are logged.
const LONGEST_REASON: usize = 300;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestError {
    /// The server does not want this request, now or ever.
    Refused,
    /// It may want it later.
    Later,
    /// It was not reached.
    Away,
}

#[derive(Clone)]
pub struct HttpClient {
    http: reqwest::Client,
    settings: Arc<Settings>,
    token: HeaderValue,
    /// Why it did not work last, as it was logged.
    trouble: Arc<Mutex<Option<String>>>,
    /// The last answer that was neither one nor the other, as it was logged.
    odd: Arc<Mutex<Option<String>>>,
    /// Why the last request was refused, as it was logged.
    refused: Arc<Mutex<Option<String>>>,
}

impl HttpClient {
    pub fn new(settings: Settings) -> Result<HttpClient, Error> {
        // The one of this workspace; where the process has chosen another, that is used.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut token =
            HeaderValue::from_str(&format!("Bearer {}", settings.token)).map_err(|_| {
                Error::Usage("the token: expected one line of letters and digits".into())
            })?;
        token.set_sensitive(true);
        let mut http = reqwest::Client::builder()
            .tls_version_min(Version::TLS_1_3)
            .timeout(PATIENCE)
            // The token goes to this server and to no other.
            .redirect(Policy::none())
            .no_proxy();
        if let Some(ca) = &settings.ca {
            let der = tls::certificates(ca, CA)?;
            let all: Result<Vec<_>, _> = der.iter().map(|c| Certificate::from_der(c)).collect();
            let unusable = |e| Error::Usage(format!("{CA}: {}: {e}", ca.display()));
            http = http.tls_certs_only(all.map_err(unusable)?);
        }
        let http = http.build().map_err(|e| match &settings.ca {
            Some(ca) => Error::Usage(format!("{CA}: {}: {}", ca.display(), innermost(&e))),
            None => Error::Failed(format!("cannot set up TLS: {}", innermost(&e))),
        })?;
        Ok(HttpClient {
            http,
            settings: Arc::new(settings),
            token,
            trouble: Arc::default(),
            odd: Arc::default(),
            refused: Arc::default(),
        })
    }

    pub async fn post<Q: Serialize, A: DeserializeOwned>(
        &self,
        path: &str,
        body: &Q,
    ) -> Result<A, RequestError> {
        self.send(self.request(Method::POST, path).json(body)).await
    }

    pub async fn get<A: DeserializeOwned>(&self, path: &str) -> Result<A, RequestError> {
        self.send(self.request(Method::GET, path)).await
    }

    fn request(&self, method: Method, path: &str) -> reqwest::RequestBuilder {
        let url = self.settings.server.at(path);
        let request = self.http.request(method, url);
        request.header(AUTHORIZATION, self.token.clone())
    }

    async fn send<A: DeserializeOwned>(
        &self,
        request: reqwest::RequestBuilder,
    ) -> Result<A, RequestError> {
        let (status, body) = match receive(request).await {
            Ok(received) => received,
            Err(e) => {
                self.fails(self.why(&e));
                return Err(RequestError::Away);
            }
        };
        match status {
            StatusCode::OK => {
                let answer = serde_json::from_slice(&body);
                match &answer {
                    Ok(_) => self.works(),
                    Err(_) => self.fails("its answer is none of an edge server's".into()),
                }
                answer.map_err(|_| RequestError::Later)
            }
            StatusCode::BAD_REQUEST
            | StatusCode::PAYLOAD_TOO_LARGE
            | StatusCode::UNPROCESSABLE_ENTITY => {
                let problem = serde_json::from_slice::<Problem>(&body);
                self.refuses(problem.map_or_else(|_| status.to_string(), |p| p.error));
                Err(RequestError::Refused)
            }
            StatusCode::UNAUTHORIZED => {
                self.fails("it does not take this device's token (bandit.token-file)".into());
                Err(RequestError::Later)
            }
            status => {
                // To some requests only, as when its disk is full: logged once, and not over again in turns with its answers.
                self.once(&self.odd, format!("answers {status}; asked again later"));
                Err(RequestError::Later)
            }
        }
    }

    /// Logged once until it changes: a server that is away is asked again and again.
    fn fails(&self, why: String) {
        let what = format!("{why}; this device's own model chooses meanwhile");
        self.once(&self.trouble, what);
    }

    /// As of a path or a feature that the server does not know: logged once until it changes.
    fn refuses(&self, why: String) {
        let what = format!("refuses what this device sends: {}", printable(&why));
        self.once(&self.refused, what);
    }

    fn works(&self) {
        if lock(&self.trouble).take().is_some() {
            self.says("answers again");
        }
    }

    /// Unless it is what was logged last of its kind.
    fn once(&self, last: &Mutex<Option<String>>, what: String) {
        let mut last = lock(last);
        if last.as_ref() != Some(&what) {
            self.says(&what);
            *last = Some(what);
        }
    }

    fn says(&self, what: &str) {
        (self.settings.says)(&format!("edge server {}: {what}", self.settings.server));
    }

    fn why(&self, error: &reqwest::Error) -> String {
        let Some(TlsError::InvalidCertificate(wrong)) = tls_error(error) else {
            return match tls_error(error) {
                Some(TlsError::InvalidMessage(_)) => "it speaks no TLS: is it http://?".into(),
                Some(other) => format!("TLS: {other}"),
                None if error.is_timeout() => format!("no answer within {} s", PATIENCE.as_secs()),
                None => innermost(error),
            };
        };
        match wrong {
            CertificateError::UnknownIssuer => match &self.settings.ca {
                Some(ca) => format!("its certificate is of no CA in {} ({CA})", ca.display()),
                None => format!("its certificate is of no CA that this system trusts: a private one's file goes into {CA}"),
            },
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "its certificate has expired".into()
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                "its certificate is not valid yet: is this host's clock right?".into()
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                format!("its certificate is not for {}", self.settings.server.host())
            }
            other => format!("its certificate is refused: {other}"),
        }
    }
}

/// What the daemon calls the file of a private CA.
const CA: &str = "bandit.ca";

/// The server's words as one line of a log.
fn printable(words: &str) -> String {
    let plain = words.chars().filter(|c| !c.is_control());
    plain.take(LONGEST_REASON).collect()
}

async fn receive(request: reqwest::RequestBuilder) -> reqwest::Result<(StatusCode, Vec<u8>)> {
    let mut response = request.send().await?;
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        if body.len() + chunk.len() > LONGEST_ANSWER {
            // Cut off, it is no answer of a server's.
            break;
        }
        body.extend_from_slice(&chunk);
    }
    Ok((response.status(), body))
}

/// The next cause. What an I/O error wraps is one too, which `source` passes over.
fn cause<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a (dyn StdError + 'static)> {
    let wrapped = error
        .downcast_ref::<io::Error>()
        .and_then(io::Error::get_ref);
    match wrapped {
        Some(wrapped) => Some(wrapped),
        None => error.source(),
    }
}

fn chain<'a>(
    error: &'a (dyn StdError + 'static),
) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |e| cause(*e))
}

fn tls_error(error: &reqwest::Error) -> Option<&TlsError> {
    chain(error).find_map(|e| e.downcast_ref::<TlsError>())
}

fn innermost(error: &reqwest::Error) -> String {
    let last = chain(error).last().map(ToString::to_string);
    last.unwrap_or_default()
}
