"""Twenty places with Wi-Fi and LTE, generated: what the links carry at each round, and what the radios say of it.

The paper's measurements (Cell vs Wi-Fi, MIT 2014) are no longer public. This generator keeps to what is published of
them and of the like:

* LTE is faster than Wi-Fi in 40 % of the measurements, and has the lower round-trip time in 20 % (Deng, Netravali,
  Sivaraman, Balakrishnan, IMC 2014);
* few places have one path that always wins, most are mixed (section VI of the paper);
* in recorded simultaneous walks Wi-Fi is below 1 Mbit/s in a sixth of the seconds, and the cell at least four times
  faster in a quarter: the user leaves the Wi-Fi's coverage and comes back;
* single readings say little of capacity: in 50,000 bandwidth tests of 2022 LTE's RSRP correlates by 0.18, Wi-Fi's RSSI
  by 0.14 to 0.29 and its link speed by 0.34 to 0.54 (github.com/mobilebandwidth).

Each path has a hidden quality, an AR(1) process over rounds. It moves capacity, round-trip time and loss, and the
readings see it through noise. In spells the user is out of the Wi-Fi's coverage, whatever its quality was; shares of
LTE that is faster are those of the rounds within it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from multipilot.bandit import context_names

Floats = npt.NDArray[np.float64]

PLACES = 20
PATHS = ("wifi", "lte")
FEATURES = context_names(list(PATHS))
#: How much of a path's quality lasts to the next round.
MEMORY = 0.9
#: Share of rounds out of the Wi-Fi's coverage, and mean length of such a spell in rounds.
LEAVING, SPELL = 0.2, 5.0
#: Share of places whose modem reports no CQI, and of rounds in which any reading is missing.
NO_CQI, MISSING = 0.3, 0.03


@dataclass(frozen=True)
class Place:
    """Conditions of each round at one place. Arrays have one row a round, and a column a path where they have two.

    ``real`` names the columns that were measured, not generated.
    """

    name: str
    #: Mbit/s.
    capacity: Floats
    #: Propagation there and back, ms.
    rtt_ms: Floats
    #: Probability that a packet is lost.
    loss: Floats
    #: One column for each of :data:`FEATURES`; NaN where missing.
    context: Floats
    real: frozenset[str] = field(default_factory=frozenset)
    #: Rounds out of the Wi-Fi's coverage, where that is known.
    left: npt.NDArray[np.bool_] | None = None

    @property
    def leaving(self) -> npt.NDArray[np.bool_]:
        return np.zeros(len(self), dtype=bool) if self.left is None else self.left

    def __len__(self) -> int:
        return len(self.capacity)


def generate(rounds: int, seed: int = 1, places: int = PLACES, leaving: float = LEAVING) -> list[Place]:
    """The places with ``rounds`` rounds each. A place keeps its character whatever their number, and whatever share of
    them is out of the Wi-Fi's coverage."""

    def place(number: int) -> Place:
        spells = _spells(rounds, leaving, np.random.default_rng([seed, number, 1]))
        return _place(number, rounds, np.random.default_rng([seed, number]), spells)

    return [place(number) for number in range(places)]


def _spells(rounds: int, share: float, rng: np.random.Generator) -> npt.NDArray[np.bool_]:
    """A Markov chain of two states with this share of the second one."""
    begins = share / ((1 - share) * SPELL)
    left = np.empty(rounds, dtype=bool)
    now = rng.random() < share
    for t, draw in enumerate(rng.random(rounds)):
        left[t] = now
        now = draw >= 1 / SPELL if now else draw < begins
    return left


def _place(number: int, rounds: int, rng: np.random.Generator, left: npt.NDArray[np.bool_]) -> Place:
    # Medians by place, Mbit/s: Wi-Fi varies more from place to place than a network of cells does.
    base = np.array([np.exp(rng.normal(np.log(11.0), 0.8)), np.exp(rng.normal(np.log(9.0), 0.5))])
    swing = rng.uniform(0.35, 1.0, 2)
    floor = np.array([np.exp(rng.normal(np.log(28.0), 0.35)), np.exp(rng.normal(np.log(43.0), 0.25))])
    has_cqi = rng.random() >= NO_CQI
    quality = _ar1(rounds, rng)
    noise, late = rng.normal(size=quality.shape), rng.normal(size=quality.shape)
    # The edge of coverage: a signal that few frames get through at the lowest rates.
    quality[left, 0] = -3 + 0.5 * noise[left, 0]
    capacity = np.clip(base * np.exp(swing * quality + 0.25 * noise), 0.3, 80.0)
    capacity[left, 0] = np.clip(np.exp(np.log(0.5) + 0.6 * late[left, 0]), 0.05, 5.0)
    rtt = floor * np.exp(-0.25 * quality + 0.1 * late)
    loss = np.clip(np.array([0.004, 0.001]) * np.exp(-1.0 * quality), 0.0, 0.08)
    told = readings(capacity, rtt, loss, quality, rng, has_cqi)
    return Place(f"place-{number + 1}", capacity, rtt, loss, told, left=left)


def _ar1(rounds: int, rng: np.random.Generator) -> Floats:
    quality = np.empty((rounds, 2))
    now = rng.normal(size=2)
    for row in quality:
        now = MEMORY * now + np.sqrt(1 - MEMORY**2) * rng.normal(size=2)
        row[:] = now
    return quality


def readings(
    capacity: Floats, rtt: Floats, loss: Floats, quality: Floats, rng: np.random.Generator, has_cqi: bool = True
) -> Floats:
    """What the radios and a probe say: each sees the quality of its path, or its link, through noise of its own."""
    rounds = len(capacity)

    def noise(scale: float) -> Floats:
        return scale * rng.normal(size=rounds)

    wifi, lte = quality[:, 0], quality[:, 1]
    told = {
        "wifi.rtt_ms": rtt[:, 0] * np.exp(noise(0.15)),
        "wifi.loss": np.clip(loss[:, 0] * np.exp(noise(0.8)), 0, 1),
        "wifi.dns_ms": rtt[:, 0] * np.exp(noise(0.4)) + 5,
        "wifi.udp_delta_ms": 2 + 6 * np.exp(-0.5 * wifi + noise(0.5)),
        "wifi.signal_dbm": np.round(np.clip(-63 + 7 * wifi + noise(10), -95, -30)),
        "wifi.link_speed_mbps": np.round(
            np.clip(70 * np.exp(0.3 * wifi + 0.2 * np.log(capacity[:, 0]) + noise(0.5)), 6, 866)
        ),
        "lte.rtt_ms": rtt[:, 1] * np.exp(noise(0.15)),
        "lte.loss": np.clip(loss[:, 1] * np.exp(noise(0.8)), 0, 1),
        "lte.signal_dbm": np.round(np.clip(-98 + 8 * lte + noise(16), -140, -50)),
        "lte.rsrq_db": np.round(np.clip(-11 + 2 * lte + noise(2), -19.5, -3)),
        "lte.snr_db": np.round(np.clip(10 + 5 * lte + noise(5), -10, 30)),
    }
    told["lte.signal_level"] = told["lte.signal_dbm"] + 140
    if has_cqi:
        told["lte.cqi"] = np.round(np.clip(9 + 2.5 * lte + noise(2), 1, 15))
    context = np.full((rounds, len(FEATURES)), np.nan)
    for name, values in told.items():
        context[:, FEATURES.index(name)] = values
    context[rng.random(context.shape) < MISSING] = np.nan
    return context
