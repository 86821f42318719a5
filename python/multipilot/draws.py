"""Links drawn at random from a seed, so that nobody chose them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from random import Random

Ends = tuple[float, float]
NAMES = ("one", "two", "three", "four")
#: Packets of 1500 bytes that the shortest queue holds: 0.05 bandwidth-delay products of a slow link are less than one.
LEAST_QUEUE = 10


def between(draws: Random, ends: Ends) -> float:
    """Uniform in the logarithm."""
    low, high = (math.log(end) for end in ends)
    return math.exp(low + (high - low) * draws.random())


def whole(draws: Random, least: int, most: int) -> int:
    return least + int((most - least + 1) * draws.random())


@dataclass(frozen=True)
class Link:
    rate_mbps: float
    rtt_ms: float
    queue_packets: int
    loss: float
    jitter_ms: float

    @property
    def bdp(self) -> float:
        """The queue in bandwidth-delay products."""
        return self.queue_packets * 12 / (self.rate_mbps * self.rtt_ms)

    def toml(self, rate: str = "") -> str:
        """Its keys, or others for its rate; the delay is half the round trip, jitter that of the data's direction."""
        keys = [rate or f'rate = "{self.rate_mbps:g}Mbit"', f'queue = "{self.queue_packets}p"', f"loss = {self.loss:g}"]
        if self.jitter_ms:
            keys.append(f'downlink.jitter = "0..{self.jitter_ms:g}ms"')
        return f'{{ {", ".join(keys)}, delay = "{self.rtt_ms / 2:g}ms" }}'

    def __str__(self) -> str:
        """At most 46 letters: four of them have to fit into the 200 of a case's name."""
        loss = f" {100 * self.loss:.2g} %" if self.loss else ""
        jitter = f" +{self.jitter_ms:.2g} ms" if self.jitter_ms else ""
        return f"{self.rate_mbps:.3g} Mbit/s {self.rtt_ms:.3g} ms {self.bdp:.2g} bdp{loss}{jitter}"


@dataclass(frozen=True)
class Ranges:
    """Each drawn from uniformly in the logarithm."""

    rate_mbps: Ends
    rtt_ms: Ends
    #: Bandwidth-delay products.
    queue: Ends
    loss: Ends
    jitter_ms: Ends = (0.2, 10.0)

    def link(self, draws: Random, lossy: float, jittery: float = 0.0) -> Link:
        """``lossy`` and ``jittery`` are the shares of links with any loss or jitter."""
        every = (self.rate_mbps, self.rtt_ms, self.queue, self.loss, self.jitter_ms)
        rate, rtt, queue, loss, jitter = (between(draws, ends) for ends in every)
        # Drawn whether used or not: a share that changes leaves the other links as they were.
        is_lossy, is_jittery = draws.random() < lossy, draws.random() < jittery
        return Link(
            rate_mbps=float(f"{rate:.3g}"),
            rtt_ms=float(f"{rtt:.3g}"),
            queue_packets=max(LEAST_QUEUE, round(queue * rate * rtt / 12)),
            loss=float(f"{loss:.2g}") if is_lossy else 0.0,
            jitter_ms=float(f"{jitter:.2g}") if is_jittery else 0.0,
        )
