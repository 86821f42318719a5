//! Where a server is: `https://HOST`, with a port where it is not 443.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use reqwest::Url;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin(Url);

impl Origin {
    /// Whether others hear what is said on the way there: plain HTTP that leaves this host.
    pub fn is_exposed(&self) -> bool {
        let host = self.host();
        let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
        let private = match address {
            Ok(address) => address.to_canonical().is_loopback(),
            Err(_) => host == "localhost",
        };
        self.0.scheme() == "http" && !private
    }

    pub fn host(&self) -> &str {
        self.0.host_str().expect("checked when it was made")
    }

    pub(super) fn at(&self, path: &str) -> Url {
        let mut url = self.0.clone();
        url.set_path(path);
        url
    }
}

impl FromStr for Origin {
    type Err = String;

    fn from_str(text: &str) -> Result<Origin, String> {
        let url = Url::parse(text).map_err(|e| e.to_string())?;
        if !["http", "https"].contains(&url.scheme()) {
            return Err("neither https:// nor http://".into());
        }
        let bare = url.path() == "/" && url.query().is_none() && url.fragment().is_none();
        let anonymous = url.username().is_empty() && url.password().is_none();
        match bare && anonymous && url.host_str().is_some_and(|host| !host.is_empty()) {
            true => Ok(Origin(url)),
            false => Err("more than a host and a port".into()),
        }
    }
}

/// Plain HTTP.
impl From<SocketAddr> for Origin {
    fn from(address: SocketAddr) -> Origin {
        let url = format!("http://{address}");
        url.parse().expect("an address is a host and a port")
    }
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0.as_str().trim_end_matches('/'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_and_a_port_are_taken_and_nothing_more() {
        for (text, shown) in [
            ("https://edge.example", "https://edge.example"),
            ("https://edge.example:9463/", "https://edge.example:9463"),
            ("http://10.0.0.9:9463", "http://10.0.0.9:9463"),
            ("https://[2001:db8::9]:9463", "https://[2001:db8::9]:9463"),
        ] {
            assert_eq!(text.parse::<Origin>().unwrap().to_string(), shown);
        }
        for wrong in [
            "",
            "edge.example",
            "10.0.0.9:9463",
            "ftp://edge.example",
            "https://",
            "https://me:secret@edge.example",
            "https://edge.example/v1",
            "https://edge.example/?a",
            "https://edge.example:99999",
        ] {
            assert!(wrong.parse::<Origin>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn clear_text_stays_on_this_host_or_is_exposed() {
        let exposed = |text: &str| text.parse::<Origin>().unwrap().is_exposed();
        for fine in [
            "https://10.0.0.9",
            "http://127.0.0.1:1",
            "http://127.9.9.9",
            "http://[::1]:1",
            "http://[::ffff:127.0.0.1]",
            "http://localhost:1",
        ] {
            assert!(!exposed(fine), "{fine}");
        }
        for wrong in [
            "http://10.0.0.9",
            "http://[2001:db8::1]",
            "http://edge.example",
            "http://localhost.example",
        ] {
            assert!(exposed(wrong), "{wrong}");
        }
    }
}
