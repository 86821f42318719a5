//! Paths and shared links: the two directions, their rates, losses and queues.

use std::sync::Arc;
use std::time::Duration;

use indexmap::IndexMap;

use crate::defaults;
use crate::error::{did_you_mean, Error};
use crate::field::{Field, Section};
use crate::model::{
    Direction, Discipline, Loss, Path, Queue, QueueLimit, Rate, Rule, TransferDirection, RULES,
};
use crate::policer::policer;
use crate::sources::Traces;
use crate::trace::{self, TraceKind};
use crate::units::QueueSize;

pub const PATH_KEYS: &[&str] = &[
    "link", "rule", "rate", "trace", "radio", "delay", "jitter", "reorder", "loss", "policer",
    "queue", "downlink", "uplink",
];
pub const LINK_KEYS: &[&str] = &[
    "rate", "trace", "radio", "delay", "jitter", "reorder", "loss", "policer", "queue", "downlink",
    "uplink",
];
pub const DIRECTION_KEYS: &[&str] = &[
    "rate", "trace", "radio", "delay", "jitter", "reorder", "loss", "policer", "queue",
];
pub const QUEUE_KEYS: &[&str] = &[
    "limit",
    "discipline",
    "ecn",
    "target",
    "interval",
    "min",
    "max",
    "probability",
];
pub const GILBERT_ELLIOTT_KEYS: &[&str] = &["p", "r", "good", "bad"];

const LOSS: &str =
    "a probability from 0 to 1 (0.05 is 5 %), or { gilbert-elliott = { p = 0.001, r = 0.1 } }";
const JITTER: &str = "a range such as \"0..5ms\"";

/// Which directions carry data, for loss that is stated without a direction.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct DataFlow {
    pub down: bool,
    pub up: bool,
}

impl DataFlow {
    pub fn add(&mut self, direction: TransferDirection) {
        match direction {
            TransferDirection::Download => self.down = true,
            TransferDirection::Upload => self.up = true,
        }
    }

    /// A path that nothing uses is taken for a download's.
    pub fn or_down(self) -> Self {
        if self.down || self.up {
            self
        } else {
            DataFlow {
                down: true,
                up: false,
            }
        }
    }
}

/// A direction whose queue may still wait for its bandwidth-delay product.
struct Draft {
    direction: Direction,
    bdp: Option<f64>,
}

/// A path whose queues are not sized yet.
pub(crate) struct DraftPath {
    link: Option<String>,
    rule: Rule,
    down: Draft,
    up: Draft,
}

impl DraftPath {
    pub fn link(&self) -> Option<&str> {
        self.link.as_deref()
    }

    /// Propagation delay there and back.
    pub fn round_trip(&self) -> Duration {
        self.down
            .direction
            .delay
            .saturating_add(self.up.direction.delay)
    }

    pub fn finish(self, round_trip: Duration) -> Path {
        Path {
            link: self.link,
            rule: self.rule,
            down: self.down.finish(round_trip),
            up: self.up.finish(round_trip),
        }
    }
}

impl Draft {
    fn finish(mut self, round_trip: Duration) -> Direction {
        if let Some(multiple) = self.bdp {
            let QueueLimit::Packets(least) = self.direction.queue.limit else {
                return self.direction;
            };
            let rate = match &mut self.direction.rate {
                Rate::Unlimited => {
                    let most = defaults::QUEUE_UNLIMITED.max(least);
                    self.direction.queue.limit = QueueLimit::Packets(most);
                    return self.direction;
                }
                Rate::Constant(rate) => *rate as f64,
                Rate::Trace(trace) => {
                    if let TraceKind::Radio(link) = &mut Arc::make_mut(trace).kind {
                        link.queue = Some((multiple, round_trip));
                        return self.direction;
                    }
                    trace::mean_rate(&trace.kind)
                }
            };
            self.direction.queue.limit = sized(multiple, rate, round_trip, least);
        }
        self.direction
    }
}

/// So many bandwidth-delay products at a rate in bit/s.
pub(crate) fn sized(multiple: f64, rate: f64, round_trip: Duration, least: u64) -> QueueLimit {
    let bytes = multiple * rate * round_trip.as_secs_f64() / 8.0;
    let packets = (bytes / defaults::PACKET as f64).ceil() as u64;
    QueueLimit::Packets(packets.clamp(least, 100_000_000))
}

/// One `[paths.NAME]` (`links` are the names it may continue through) or `[links.NAME]` (`links` is `None`). `packet`: IP bytes
/// of a full segment.
pub(crate) fn path(
    field: &Field<'_>,
    links: Option<&IndexMap<String, DraftPath>>,
    data: DataFlow,
    traces: &Traces<'_>,
    packet: u64,
) -> Result<DraftPath, Error> {
    let section = Section::open(
        field,
        if links.is_some() {
            PATH_KEYS
        } else {
            LINK_KEYS
        },
    )?;
    let link = section
        .get("link")
        .map(|f| f.string().map(|name| (name, f.clone())))
        .transpose()?;
    if let (Some((name, field)), Some(links)) = (&link, links) {
        if !links.contains_key(*name) {
            let hint = did_you_mean(name, links.keys().map(String::as_str));
            return Err(field.error(
                format!("there is no [links.{name}]{hint}"),
                "the name of a shared link",
            ));
        }
    }
    let rule = section
        .get("rule")
        .map_or(Ok(Rule::None), |f| f.choice(RULES))?;
    let side = |key: &str, carries_data: bool| -> Result<Draft, Error> {
        let own = section
            .get(key)
            .map(|f| Section::open(&f, DIRECTION_KEYS))
            .transpose()?;
        direction(
            &section,
            own.as_ref(),
            key,
            link.is_some(),
            carries_data,
            traces,
            packet,
        )
    };
    let (down, up) = (side("downlink", data.down)?, side("uplink", data.up)?);
    Ok(DraftPath {
        link: link.map(|(name, _)| name.to_owned()),
        rule,
        down,
        up,
    })
}

fn direction(
    common: &Section<'_>,
    own: Option<&Section<'_>>,
    side: &str,
    has_link: bool,
    carries_data: bool,
    traces: &Traces<'_>,
    packet: u64,
) -> Result<Draft, Error> {
    let own_get = |key: &str| own.and_then(|o| o.get(key));
    let get = |key: &str| own_get(key).or_else(|| common.get(key));

    let states_rate = |s: &Section<'_>| {
        ["rate", "trace", "radio"]
            .iter()
            .any(|key| s.get(key).is_some())
    };
    let rate_section = own.filter(|o| states_rate(o)).unwrap_or(common);
    let sources = ["rate", "trace", "radio"].map(|key| rate_section.get(key));
    if let Some(second) = sources.iter().flatten().nth(1) {
        return Err(second.error("stands beside another source of the rate", "one of them"));
    }
    let over_radio = sources[2].is_some();
    let rate = match sources {
        [Some(field), ..] if matches!(field.string(), Ok("unlimited")) => Rate::Unlimited,
        [Some(field), ..] => Rate::Constant(field.rate()?),
        [_, Some(field), _] => Rate::Trace(traces.load(&field)?),
        [_, _, Some(field)] => Rate::Trace(traces.radio(&field)?),
        _ if has_link => Rate::Unlimited,
        _ => {
            let key = format!("{}.rate", common.path);
            let expected = format!("a rate such as \"50Mbit\", or a trace (for {side} too)");
            return Err(Error::new(common.at, &key, "missing", expected));
        }
    };
    // A radio's trace states the delay over time; queues are sized by what lies behind the access point.
    let wired = match over_radio {
        true => traces.wired_delay(),
        false => Duration::ZERO,
    };
    let delay = get("delay").map_or(Ok(wired), |f| f.duration())?;
    if delay > Duration::from_secs(3600) {
        return Err(get("delay").map_or_else(
            || common.error("", ""),
            |f| f.error("is above an hour", "less"),
        ));
    }
    let jitter = get("jitter").map(|f| f.range(JITTER)).transpose()?;
    let reorder = get("reorder").map_or(Ok(false), |f| f.boolean())?;
    let stated = own_get("loss").or_else(|| common.get("loss").filter(|_| carries_data));
    // A loss that does not count here is still checked.
    common.get("loss").map(|f| loss(&f)).transpose()?;
    let loss = stated.map_or(Ok(Loss::None), |f| loss(&f))?;
    let policer = get("policer").map_or(Ok(None), |f| policer(&f, packet))?;
    let (queue, bdp) = queue(get("queue"), matches!(rate, Rate::Unlimited))?;
    Ok(Draft {
        direction: Direction {
            rate,
            delay,
            jitter,
            reorder,
            loss,
            policer,
            queue,
        },
        bdp,
    })
}

pub(crate) fn loss(field: &Field<'_>) -> Result<Loss, Error> {
    let Ok(entries) = field.entries() else {
        field.number(LOSS)?;
        return Ok(match field.probability()? {
            0.0 => Loss::None,
            p => Loss::Bernoulli(p),
        });
    };
    let [("gilbert-elliott", inner)] = entries.as_slice() else {
        return Err(field.error("is no loss", LOSS));
    };
    let section = Section::open(inner, GILBERT_ELLIOTT_KEYS)?;
    let or = |key: &str, default: f64| section.get(key).map_or(Ok(default), |f| f.probability());
    Ok(Loss::GilbertElliott {
        p: section
            .require("p", "the probability to go from good to bad")?
            .probability()?,
        r: section
            .require("r", "the probability to go from bad to good")?
            .probability()?,
        good: or("good", 0.0)?,
        bad: or("bad", 1.0)?,
    })
}

/// The queue, and the multiple of the bandwidth-delay product that its limit still waits for.
fn queue(field: Option<Field<'_>>, unlimited: bool) -> Result<(Queue, Option<f64>), Error> {
    let fallback = match unlimited {
        true => (QueueLimit::Packets(defaults::QUEUE_UNLIMITED), None),
        false => (QueueLimit::Packets(defaults::QUEUE_FLOOR), Some(1.0)),
    };
    let (mut queue, mut bdp) = (
        Queue {
            limit: fallback.0,
            discipline: Discipline::DropTail,
            ecn: false,
        },
        fallback.1,
    );
    let Some(field) = field else {
        return Ok((queue, bdp));
    };
    let section = match field.table() {
        Ok(_) => Some(Section::open(&field, QUEUE_KEYS)?),
        Err(_) => None,
    };
    let limit = section
        .as_ref()
        .map_or(Some(field.clone()), |s| s.get("limit"));
    if let Some(field) = limit {
        (queue.limit, bdp) = match field.queue()? {
            QueueSize::Limit(QueueLimit::Packets(0) | QueueLimit::Bytes(0)) => {
                return Err(field.error("holds nothing", crate::units::QUEUE))
            }
            QueueSize::Limit(limit) => (limit, None),
            // A window must fit at all for anything to move.
            QueueSize::Bdp(multiple) => (QueueLimit::Packets(2), Some(multiple)),
        };
    }
    if let Some(section) = section {
        queue.discipline = discipline(&section)?;
        queue.ecn = section.boolean_or("ecn", false)?;
        if queue.ecn && queue.discipline == Discipline::DropTail {
            return Err(section.error(
                "a droptail queue marks nothing",
                "ecn with \"codel\" or \"red\"",
            ));
        }
    }
    Ok((queue, bdp))
}

fn discipline(section: &Section<'_>) -> Result<Discipline, Error> {
    #[derive(Clone, Copy, PartialEq)]
    enum Kind {
        DropTail,
        CoDel,
        Red,
    }
    let words = [
        ("droptail", Kind::DropTail),
        ("codel", Kind::CoDel),
        ("red", Kind::Red),
    ];
    let kind = section
        .get("discipline")
        .map_or(Ok(Kind::DropTail), |f| f.choice(&words))?;
    let foreign: &[&str] = match kind {
        Kind::DropTail => &["target", "interval", "min", "max", "probability"],
        Kind::CoDel => &["min", "max", "probability"],
        Kind::Red => &["target", "interval"],
    };
    if let Some(field) = foreign.iter().find_map(|key| section.get(key)) {
        return Err(field.error(
            "does not belong to this discipline",
            "target and interval with \"codel\"; min, max and probability with \"red\"",
        ));
    }
    Ok(match kind {
        Kind::DropTail => Discipline::DropTail,
        Kind::CoDel => Discipline::CoDel {
            target: section.duration_or("target", defaults::CODEL_TARGET)?,
            interval: section
                .get("interval")
                .map_or(Ok(defaults::CODEL_INTERVAL), |f| f.positive_duration())?,
        },
        Kind::Red => red(section)?,
    })
}

fn red(section: &Section<'_>) -> Result<Discipline, Error> {
    const PACKETS: &str = "thresholds in packets, above zero, min below max";
    let threshold = |key: &str| match section.require(key, PACKETS)?.number(PACKETS)? {
        n if n > 0.0 => Ok(n),
        n => Err(section.error(format!("{key} = {n} is out of range"), PACKETS)),
    };
    let (min, max) = (threshold("min")?, threshold("max")?);
    if min >= max {
        return Err(section.error(format!("min {min} is not below max {max}"), PACKETS));
    }
    let probability = section
        .get("probability")
        .map_or(Ok(defaults::RED_PROBABILITY), |f| f.probability())?;
    Ok(Discipline::Red {
        min,
        max,
        probability,
    })
}
