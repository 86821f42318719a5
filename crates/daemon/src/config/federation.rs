//! `[federation]`

use std::collections::BTreeMap;
use std::path::PathBuf;

use mp_policy::path_manager::PathPolicy;
use mp_scenario::document::Section;
use mp_scenario::Error;

pub const KEYS: &[&str] = &["folder", "links"];

/// What MS-UCB sees is shared with other hosts.
#[derive(Debug, Clone, PartialEq)]
pub struct FederationConfig {
    /// Of the files that `multipilot federation join` carries.
    pub folder: PathBuf,
    /// What all call the link of an interface; one that is not named is called as here.
    pub links: BTreeMap<String, String>,
}

impl FederationConfig {
    pub(super) fn read(
        section: &Section<'_>,
        policy: PathPolicy,
    ) -> Result<FederationConfig, Error> {
        let field = section.require("folder", "a folder for what is shared")?;
        if policy != PathPolicy::MsUcbFederated {
            return Err(field.error(
                "shares what only one policy sees",
                "awareness.policy = \"ms-ucb-federated\"",
            ));
        }
        let mut links = BTreeMap::new();
        if let Some(names) = section.get("links") {
            for (interface, link) in names.entries()? {
                links.insert(interface.to_owned(), link.name()?.to_owned());
            }
        }
        Ok(FederationConfig {
            folder: PathBuf::from(field.string()?),
            links,
        })
    }
}
