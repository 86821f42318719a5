//! The line that `multipilot relay` prints and the device is given: `mp1:HOST:PORT#KEY.SECRET`.
//!
//! KEY is the relay's public key, SECRET lets one device enrol; both are base64url without padding.

use std::fmt;
use std::str::FromStr;

use data_encoding::BASE64URL_NOPAD;

#[derive(Clone, PartialEq, Eq)]
pub struct Line {
    /// A name or an address, without brackets.
    pub host: String,
    pub port: u16,
    pub key: [u8; 32],
    pub secret: [u8; 16],
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a line of multipilot relay ({0}); it looks so: mp1:HOST:PORT#KEY.SECRET")]
pub struct LineError(&'static str);

/// A relay's public key as its lines have it.
pub fn key_text(key: &[u8; 32]) -> String {
    BASE64URL_NOPAD.encode(key)
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (open, close) = if self.host.contains(':') {
            ("[", "]")
        } else {
            ("", "")
        };
        write!(
            f,
            "mp1:{open}{}{close}:{}#{}.{}",
            self.host,
            self.port,
            key_text(&self.key),
            BASE64URL_NOPAD.encode(&self.secret)
        )
    }
}

impl fmt::Debug for Line {
    /// Without the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Line({}:{})", self.host, self.port)
    }
}

impl FromStr for Line {
    type Err = LineError;

    fn from_str(text: &str) -> Result<Line, LineError> {
        let rest = text
            .trim()
            .strip_prefix("mp1:")
            .ok_or(LineError("a line begins with mp1:"))?;
        let (place, keys) = rest.split_once('#').ok_or(LineError("no #"))?;
        let (host, port) = place.rsplit_once(':').ok_or(LineError("no port"))?;
        let bare = match host.strip_prefix('[') {
            Some(inner) => inner
                .strip_suffix(']')
                .ok_or(LineError("no closing bracket"))?,
            None => host,
        };
        let plain = |c: char| c.is_ascii_alphanumeric() || ".-_:%".contains(c);
        if bare.is_empty()
            || bare.len() > 255
            || !bare.chars().all(plain)
            || (bare == host && host.contains(':'))
        {
            return Err(LineError("no host"));
        }
        let port = port
            .parse()
            .ok()
            .filter(|p| *p > 0)
            .ok_or(LineError("no port"))?;
        let (key, secret) = keys.split_once('.').ok_or(LineError("no secret"))?;
        Ok(Line {
            host: bare.to_owned(),
            port,
            key: decode(key).ok_or(LineError("the key is cut or misspelt"))?,
            secret: decode(secret).ok_or(LineError("the secret is cut or misspelt"))?,
        })
    }
}

fn decode<const N: usize>(text: &str) -> Option<[u8; N]> {
    BASE64URL_NOPAD
        .decode(text.as_bytes())
        .ok()?
        .try_into()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_line_is_read_as_it_was_written(key: [u8; 32], secret: [u8; 16], port in 1u16.., which in 0usize..3) {
            let host = ["relay.example", "192.0.2.1", "2001:db8::1"][which].to_owned();
            let line = Line { host, port, key, secret };
            prop_assert_eq!(line.to_string().parse::<Line>(), Ok(line));
        }

        #[test]
        fn any_text_is_refused_or_read_and_then_written_alike(text in "\\PC{0,120}") {
            if let Ok(line) = text.parse::<Line>() {
                prop_assert_eq!(line.to_string().parse::<Line>(), Ok(line));
            }
        }
    }

    #[test]
    fn a_wrong_line_says_what_is_wrong() {
        let good = Line {
            host: "a".into(),
            port: 1,
            key: [1; 32],
            secret: [2; 16],
        }
        .to_string();
        for (wrong, why) in [
            ("mp2:a:1#b.c".to_owned(), "begins with mp1:"),
            (good.replace('#', ""), "no #"),
            (good.replace(":1#", ":0#"), "no port"),
            (good.replace('.', ""), "no secret"),
            (good[..good.len() - 1].to_owned(), "secret is cut"),
            (good.replace("mp1:a", "mp1:"), "no host"),
        ] {
            let error = wrong.parse::<Line>().unwrap_err().to_string();
            assert!(error.contains(why), "{wrong}: {error}");
        }
    }
}
