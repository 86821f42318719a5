//! Modems: what ModemManager says of them on the system bus (D-Bus interfaces `org.freedesktop.ModemManager1.Modem` and
//! `….Modem.Signal`). It knows no channel quality indicator (CQI).
//!
//! All signals are received power over the whole band, as with Wi-Fi, so that one threshold serves both. LTE and 5G report
//! RSRP, the power of one subcarrier of 15 kHz: a loaded carrier of 20 MHz has 1,200 of them, 31 dB more.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::timeout;
use zbus::fdo::{DBusProxy, ObjectManagerProxy};
use zbus::zvariant::Value;
use zbus::Connection;

use super::Radio;

const SERVICE: &str = "org.freedesktop.ModemManager1";
const ROOT: &str = "/org/freedesktop/ModemManager1";
const MODEM: &str = "org.freedesktop.ModemManager1.Modem";
const SIGNAL: &str = "org.freedesktop.ModemManager1.Modem.Signal";
/// `MM_MODEM_PORT_TYPE_NET`
const NET: u32 = 2;
/// 10 lg 1200
const SUBCARRIERS_DB: f64 = 31.0;
/// Polling interval, and that which ModemManager is asked for.
const PAUSE: Duration = Duration::from_secs(5);
/// For all answers of ModemManager's.
const PATIENCE: Duration = Duration::from_secs(5);
/// The bus, or ModemManager, may come later.
const ABSENT: Duration = Duration::from_secs(30);

type Cells = HashMap<String, Cell>;
type Properties = HashMap<String, zbus::zvariant::OwnedValue>;

/// What a modem says of the cell that it is in.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub struct Cell {
    pub signal_dbm: Option<i32>,
    pub rsrq_db: Option<f64>,
    pub snr_db: Option<f64>,
}

/// Looks at all modems in the background until it is dropped.
pub struct Modems {
    cells: Arc<Mutex<Cells>>,
    task: tokio::task::JoinHandle<()>,
}

impl Modems {
    /// On the system bus, or what `DBUS_SYSTEM_BUS_ADDRESS` names.
    pub fn watch() -> Modems {
        let cells = Arc::<Mutex<Cells>>::default();
        let shared = cells.clone();
        let task = tokio::spawn(async move {
            loop {
                if let Ok(bus) = Connection::system().await {
                    // A service that hangs says nothing of the cell either.
                    while let Ok(Ok(found)) = timeout(PATIENCE, poll(&bus)).await {
                        *shared.lock().unwrap_or_else(PoisonError::into_inner) = found;
                        tokio::time::sleep(PAUSE).await;
                    }
                }
                shared
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .clear();
                tokio::time::sleep(ABSENT).await;
            }
        });
        Modems { cells, task }
    }

    pub fn cell(&self, interface: &str) -> Option<Cell> {
        let cells = self.cells.lock().unwrap_or_else(PoisonError::into_inner);
        cells.get(interface).copied()
    }
}

impl Drop for Modems {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Radio for Modems {
    fn signal_dbm(&mut self, interface: &str, _: Duration) -> Option<i32> {
        self.cell(interface)?.signal_dbm
    }
}

/// By network interface.
async fn poll(bus: &Connection) -> zbus::Result<Cells> {
    // A call to a service that is not there would start it.
    let there = DBusProxy::new(bus)
        .await?
        .name_has_owner(SERVICE.try_into()?)
        .await?;
    if !there {
        return Err(zbus::Error::Failure("no ModemManager".into()));
    }
    let root = ObjectManagerProxy::builder(bus)
        .destination(SERVICE)?
        .path(ROOT)?
        .build()
        .await?;
    let mut found = Cells::new();
    for (object, interfaces) in root.get_managed_objects().await? {
        let Some(modem) = interfaces.get(MODEM) else {
            continue;
        };
        let signal = interfaces.get(SIGNAL);
        if signal.is_some_and(|s| s.get("Rate").is_none_or(|rate| number(rate) == Some(0.0))) {
            // Refused to who may not, and then the coarse quality has to do.
            let seconds = PAUSE.as_secs() as u32;
            let _ = bus
                .call_method(Some(SERVICE), &object, Some(SIGNAL), "Setup", &seconds)
                .await;
        }
        let mut cell = signal.map(cell).unwrap_or_default();
        cell.signal_dbm = cell.signal_dbm.or_else(|| quality(modem));
        found.extend(ports(modem).into_iter().map(|port| (port, cell)));
    }
    Ok(found)
}

/// Names of the modem's network interfaces: `Ports` is a list of names and kinds.
fn ports(modem: &Properties) -> Vec<String> {
    let Some(Value::Array(all)) = modem.get("Ports").map(|v| &**v) else {
        return Vec::new();
    };
    let net = |port: &Value<'_>| match port {
        Value::Structure(port) => match port.fields() {
            [Value::Str(name), Value::U32(NET)] => Some(name.to_string()),
            _ => None,
        },
        _ => None,
    };
    all.iter().filter_map(net).collect()
}

/// Each figure of the newest technology that says it.
fn cell(signal: &Properties) -> Cell {
    let value = |technology: &str, key: &str| match signal.get(technology).map(|v| &**v) {
        Some(Value::Dict(all)) => all.iter().find_map(|(name, value)| {
            let named = matches!(name, Value::Str(name) if name.as_str() == key);
            named.then(|| number(value)).flatten()
        }),
        _ => None,
    };
    let whole = |technology| value(technology, "rssi");
    let one = |technology| value(technology, "rsrp").map(|dbm| dbm + SUBCARRIERS_DB);
    let powers = [
        one("Nr5g"),
        whole("Lte"),
        one("Lte"),
        whole("Umts"),
        whole("Gsm"),
    ];
    let possible = |dbm: &f64| (-150.0..0.0).contains(dbm);
    let dbm = powers.into_iter().flatten().find(possible);
    let ratio = |key| {
        let range = -50.0..=50.0; // ModemManager's word for "unknown" lies far below
        let all = ["Nr5g", "Lte"].into_iter().filter_map(|t| value(t, key));
        all.into_iter().find(|db| range.contains(db))
    };
    Cell {
        signal_dbm: dbm.map(|dbm| dbm.round() as i32),
        rsrq_db: ratio("rsrq"),
        snr_db: ratio("snr"),
    }
}

/// From ModemManager's per cent, which are −113 to −51 dBm.
fn quality(modem: &Properties) -> Option<i32> {
    let Some(Value::Structure(pair)) = modem.get("SignalQuality").map(|v| &**v) else {
        return None;
    };
    let percent = number(pair.fields().first()?).filter(|p| (1.0..=100.0).contains(p))?;
    Some((-113.0 + 0.62 * percent).round() as i32)
}

fn number(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::F64(number) => Some(*number),
        Value::U32(number) => Some(f64::from(*number)),
        Value::Value(inner) => number(inner),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zbus::zvariant::{OwnedValue, Value};

    fn properties(all: Vec<(&str, Value<'_>)>) -> Properties {
        let own = |(name, value): (&str, Value<'_>)| {
            (
                name.to_owned(),
                OwnedValue::try_from(value).expect("no file descriptors"),
            )
        };
        all.into_iter().map(own).collect()
    }

    fn strength(signal: &Properties) -> Option<i32> {
        cell(signal).signal_dbm
    }

    fn measured(values: &[(&str, f64)]) -> Value<'static> {
        let all: HashMap<String, Value<'static>> = values
            .iter()
            .map(|&(name, dbm)| (name.to_owned(), Value::from(dbm)))
            .collect();
        all.into()
    }

    #[test]
    fn a_modem_is_known_by_its_network_port() {
        let all: Vec<(String, u32)> = vec![
            ("cdc-wdm0".into(), 6),
            ("wwan0".into(), NET),
            ("ttyUSB2".into(), 3),
        ];
        assert_eq!(ports(&properties(vec![("Ports", all.into())])), ["wwan0"]);
        assert_eq!(ports(&properties(vec![])), [""; 0]);
    }

    #[test]
    fn the_newest_technology_that_speaks_counts_as_power_over_the_band() {
        let lte = || ("Lte", measured(&[("rssi", -62.4), ("rsrp", -93.0)]));
        let none = || ("Nr5g", measured(&[]));
        assert_eq!(strength(&properties(vec![none(), lte()])), Some(-62));
        assert_eq!(
            strength(&properties(vec![
                ("Nr5g", measured(&[("rsrp", -101.0)])),
                lte()
            ])),
            Some(-70)
        );
        assert_eq!(
            strength(&properties(vec![("Lte", measured(&[("rsrp", -93.0)]))])),
            Some(-62)
        );
        assert_eq!(
            strength(&properties(vec![("Umts", measured(&[("rssi", -88.0)]))])),
            Some(-88)
        );
        let unknown = measured(&[("rssi", f64::NAN)]);
        assert_eq!(strength(&properties(vec![("Gsm", unknown)])), None);
    }

    #[test]
    fn quality_and_noise_come_from_lte_while_5g_says_none() {
        let lte = measured(&[("rsrp", -93.0), ("rsrq", -11.0), ("snr", 14.2)]);
        let unknown = || ("Nr5g", measured(&[("rsrp", -101.0), ("rsrq", -32768.0)]));
        let both = cell(&properties(vec![unknown(), ("Lte", lte)]));
        let expected = Cell {
            signal_dbm: Some(-70),
            rsrq_db: Some(-11.0),
            snr_db: Some(14.2),
        };
        assert_eq!(both, expected);
        let alone = cell(&properties(vec![unknown()]));
        assert_eq!((alone.rsrq_db, alone.snr_db), (None, None));
    }

    #[test]
    fn without_a_measurement_the_quality_has_to_do() {
        let of =
            |percent: u32| quality(&properties(vec![("SignalQuality", (percent, true).into())]));
        assert_eq!((of(100), of(50), of(0)), (Some(-51), Some(-82), None));
    }
}
