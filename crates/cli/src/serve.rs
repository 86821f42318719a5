//! `multipilot serve`: the edge server in the foreground, as a service manager wants it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use mp_server::config::TlsFiles;
use mp_server::{api, config, tokens, Config};

use crate::outcome::{self, Failure, Outcome};

const AFTER: &str = "\
Tokens and certificates are read again when their files change: a revoked token stays valid for at most one second. Other hosts \
reach the server over HTTPS only, unless --insecure allows plain HTTP.";

#[derive(clap::Args)]
#[command(after_help = AFTER)]
#[command(group = clap::ArgGroup::new("instead").args(["new_token", "tokens", "revoke", "backup", "restore", "openapi", "check"]))]
pub struct ServeArgs {
    /// Configuration [default: /etc/multipilot/server.toml, if it exists]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address and port to listen on, in place of the configured address
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with = "instead")]
    listen: Option<SocketAddr>,
    /// Serve HTTPS with this certificate, followed by its intermediate certificates (PEM)
    #[arg(
        long,
        value_name = "FILE",
        requires = "tls_key",
        conflicts_with = "instead"
    )]
    tls_cert: Option<PathBuf>,
    /// The certificate's private key (PEM)
    #[arg(
        long,
        value_name = "FILE",
        requires = "tls_cert",
        conflicts_with = "instead"
    )]
    tls_key: Option<PathBuf>,
    /// Serve plain HTTP to other hosts: anyone on the network path can read and use the tokens
    #[arg(long, conflicts_with_all = ["tls_cert", "instead"])]
    insecure: bool,
    /// Folder of the outcomes and the tokens, in place of the configured one
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Only make a token for a device, and show it once
    #[arg(long, value_name = "NAME")]
    new_token: Option<String>,
    /// With --new-token: make an operator's token, which may also read the statistics
    #[arg(long, requires = "new_token")]
    operator: bool,
    /// Only list the names and roles of the tokens
    #[arg(long)]
    tokens: bool,
    /// Only revoke the token of a name
    #[arg(long, value_name = "NAME")]
    revoke: Option<String>,
    /// Only copy the database to a file, also while a server runs
    #[arg(long, value_name = "FILE")]
    backup: Option<PathBuf>,
    /// Only replace the database by this backup
    #[arg(long, value_name = "FILE")]
    restore: Option<PathBuf>,
    /// Only validate a configuration
    #[arg(long, value_name = "FILE", conflicts_with_all = ["config", "data"])]
    check: Option<PathBuf>,
    /// Only print the API's description (OpenAPI, JSON)
    #[arg(long)]
    openapi: bool,
}

pub fn main(args: &ServeArgs) -> Outcome {
    if let Some(file) = &args.check {
        let config = Config::load(file).map_err(outcome::usage)?;
        mp_server::check(&config)?;
        outcome::print(&format!("{}: valid\n", file.display()));
        return Ok(());
    }
    if args.openapi {
        let document = api::document().to_pretty_json();
        outcome::print(&format!("{}\n", document.map_err(outcome::usage)?));
        return Ok(());
    }
    let default = Path::new(config::DEFAULT_FILE);
    let mut config = match &args.config {
        Some(file) => Config::load(file).map_err(outcome::usage)?,
        None if default.exists() => Config::load(default).map_err(outcome::usage)?,
        None => Config::default(),
    };
    config.data = args.data.clone().unwrap_or(config.data);
    config.listen = args.listen.unwrap_or(config.listen);
    config.insecure |= args.insecure;
    if let (Some(cert), Some(key)) = (&args.tls_cert, &args.tls_key) {
        config.tls = Some(TlsFiles {
            cert: cert.clone(),
            key: key.clone(),
        });
    }
    match only(args, &config)? {
        Some(said) => {
            outcome::print(&said);
            Ok(())
        }
        None => Ok(mp_server::run(config, |scheme, address| {
            let url = format!("{scheme}://{address}");
            outcome::say(&format!("multipilot: serving on {url} (Ctrl-C ends it)"));
        })?),
    }
}

/// Does what was asked for in place of serving, and says what came of it.
fn only(args: &ServeArgs, config: &Config) -> Result<Option<String>, Failure> {
    let file = config.token_file();
    if let Some(name) = &args.new_token {
        let role = match args.operator {
            true => tokens::TokenRole::Operator,
            false => tokens::TokenRole::Device,
        };
        let token = tokens::create(&file, name, role)?;
        return Ok(Some(format!("{token}\n")));
    }
    if args.tokens {
        let tokens = tokens::Tokens::load(&file)?;
        let lines = tokens.list().into_iter();
        if lines.len() == 0 {
            outcome::say("multipilot: there is no token; --new-token NAME makes one");
        }
        return Ok(Some(
            lines
                .map(|(name, role)| format!("{name} {role}\n"))
                .collect(),
        ));
    }
    if let Some(name) = &args.revoke {
        tokens::revoke(&file, name)?;
        return Ok(Some(String::new()));
    }
    if let Some(to) = &args.backup {
        let outcomes = mp_server::backup(config, to)?;
        return Ok(Some(format!("{}: {outcomes} outcomes\n", to.display())));
    }
    if let Some(from) = &args.restore {
        let outcomes = mp_server::restore(config, from)?;
        let folder = config.data.display();
        return Ok(Some(format!("{folder}: {outcomes} outcomes\n")));
    }
    Ok(None)
}
