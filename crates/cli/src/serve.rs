//! `multipilot serve`: the edge server in the foreground, as a service manager wants it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use mp_server::{api, config, tokens, Config, Error};

use crate::outcome::{self, Failure, Outcome};

#[derive(clap::Args)]
pub struct Serve {
    /// Configuration (default: /etc/multipilot/server.toml, where there is one)
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where to listen, in place of the configured address
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    /// Folder of the experience and the tokens, in place of the configured one
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Only make a token for a device, and show it this once (a server that runs takes it up on SIGHUP)
    #[arg(long, value_name = "NAME", conflicts_with_all = ["listen", "check", "openapi"])]
    new_token: Option<String>,
    /// The token is an operator's, who also sees the figures
    #[arg(long, requires = "new_token")]
    operator: bool,
    /// Only see whether a configuration is right
    #[arg(long, value_name = "FILE", conflicts_with_all = ["config", "listen", "data"])]
    check: Option<PathBuf>,
    /// Only print the API's description (OpenAPI, JSON)
    #[arg(long)]
    openapi: bool,
}

pub fn main(args: &Serve) -> Outcome {
    if let Some(file) = &args.check {
        Config::load(file).map_err(outcome::usage)?;
        outcome::print(&format!("{}: right\n", file.display()));
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
    if let Some(name) = &args.new_token {
        let role = match args.operator {
            true => tokens::Role::Operator,
            false => tokens::Role::Device,
        };
        let token = tokens::create(&config.token_file(), name, role).map_err(of_server)?;
        outcome::print(&format!("{token}\n"));
        return Ok(());
    }
    mp_server::run(config, |address| {
        outcome::say(&format!(
            "multipilot: serving on http://{address} (Ctrl-C ends it)"
        ));
    })
    .map_err(of_server)
}

fn of_server(error: Error) -> Failure {
    let line = error.to_string();
    match error {
        Error::Usage(_) => Failure::Usage(line),
        Error::Busy(_) | Error::Failed(_) => Failure::Run(line),
    }
}
