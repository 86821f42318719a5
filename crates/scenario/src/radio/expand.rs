//! What a radio section implies, spelled out: a path for each link of each device, a connection for each device.

use mp_wireless::{Links, Radio};

use super::names;
use crate::tree::{Node, Table, Value};

/// In `[[connections]]`: one such connection from each device, over that device's links.
pub const EACH_DEVICE: &str = "each_device";

/// The names of all devices, as far as the section can be read; what is wrong with it is said elsewhere.
fn devices_of(radio: &Table) -> Vec<String> {
    let Some(Value::Table(devices)) = radio.get("devices").map(|n| &n.value) else {
        return Vec::new();
    };
    let count = |entry: &Node| match &entry.value {
        Value::Table(t) => match t.get("count")?.value {
            Value::Integer(n) => Some(n.clamp(0, 128) as u64),
            _ => None,
        },
        _ => None,
    };
    (devices.iter())
        .flat_map(|(name, entry)| {
            let count = count(entry);
            names(name, count.unwrap_or(1), count.is_some())
        })
        .collect()
}

fn links_of(radio: &Table) -> usize {
    let aps = match radio.get("aps").map(|n| &n.value) {
        Some(Value::Table(aps)) => aps.len(),
        _ => 0,
    };
    match radio.get("links").map(|n| &n.value) {
        Some(Value::Integer(n)) => (*n).clamp(0, aps as i64) as usize,
        Some(_) => aps,
        None => match Radio::default().links {
            Links::Roaming(n) => n.min(aps),
            Links::All => aps,
        },
    }
}

fn path_name(device: &str, link: usize) -> String {
    format!("{device}-{link}")
}

/// Names of the paths that the radio of a tree implies.
pub(crate) fn paths(root: &Node) -> Vec<String> {
    let radio = root.table().and_then(|top| top.get("radio")?.table());
    radio.map_or(Vec::new(), |radio| {
        let links = links_of(radio);
        let of = |device: String| (0..links).map(move |link| path_name(&device, link));
        devices_of(radio).into_iter().flat_map(of).collect()
    })
}

/// Spells out what a radio section implies: a path for each link of each device, a connection for each device.
pub(crate) fn expand(root: &Node) -> Node {
    let mut root = root.clone();
    let Value::Table(top) = &mut root.value else {
        return root;
    };
    let Some(radio_node) = top.get("radio").cloned() else {
        return root;
    };
    let Value::Table(radio) = &radio_node.value else {
        return root;
    };
    let at = &radio_node.at;
    let (devices, links) = (devices_of(radio), links_of(radio));
    let paths = top
        .entry("paths".into())
        .or_insert_with(|| Node::new(Value::Table(Table::new()), at));
    if let Value::Table(paths) = &mut paths.value {
        for device in &devices {
            for link in 0..links {
                let mut path = match radio.get("path").map(|n| &n.value) {
                    Some(Value::Table(common)) => common.clone(),
                    _ => Table::new(),
                };
                let source: Table = [
                    ("device", Value::String(device.clone())),
                    ("link", Value::Integer(link as i64)),
                ]
                .map(|(key, value)| (key.to_owned(), Node::new(value, at)))
                .into();
                path.insert("radio".into(), Node::new(Value::Table(source), at));
                paths
                    .entry(path_name(device, link))
                    .or_insert_with(|| Node::new(Value::Table(path), at));
            }
        }
    }
    if let Some(Value::Array(connections)) = top.get_mut("connections").map(|n| &mut n.value) {
        *connections = connections
            .iter()
            .enumerate()
            .flat_map(|(i, c)| each_device(c, i, &devices, links))
            .collect();
    }
    root
}

fn each_device(connection: &Node, index: usize, devices: &[String], links: usize) -> Vec<Node> {
    let asks = |t: &Table| matches!(t.get(EACH_DEVICE), Some(n) if n.value == Value::Bool(true));
    let Value::Table(table) = &connection.value else {
        return vec![connection.clone()];
    };
    if !asks(table) {
        return vec![connection.clone()];
    }
    let single = matches!(table.get("protocol"), Some(n) if n.value == Value::String("tcp".into()));
    let of = |device: &String| {
        let at = &connection.at;
        let string = |text: String| Node::new(Value::String(text), at);
        let mut table = table.clone();
        table.shift_remove(EACH_DEVICE);
        let stem = match table.get("name").map(|n| &n.value) {
            Some(Value::String(name)) => format!("{name}-{device}"),
            _ if index == 0 => device.clone(),
            _ => format!("{device}-{index}"),
        };
        let count = if single { links.min(1) } else { links.min(8) };
        let paths = (0..count).map(|l| string(path_name(device, l))).collect();
        table.insert("name".into(), string(stem));
        table.insert("client".into(), string(device.clone()));
        table
            .entry("paths".into())
            .or_insert_with(|| Node::new(Value::Array(paths), at));
        Node {
            value: Value::Table(table),
            ..connection.clone()
        }
    };
    devices.iter().map(of).collect()
}
