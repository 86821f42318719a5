"""What an environment simulates, and what of it varies from episode to episode."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from multipilot import _core
from multipilot.simulation import Scenario, _given, _wishes

#: The base case of the paper: two paths of 100 Mbit/s, 40 ms of round trip and 400 packets of queue each.
BASE: dict[str, Any] = {
    "duration": "3600s",
    "paths": {name: {"rate": "100Mbit", "delay": "20ms", "queue": "400p"} for name in ("one", "two")},
    "variants": [{"controller": "ddpg-mpcc"}],
}

Ends = tuple[float, float] | None


@dataclass(frozen=True)
class Task:
    """A scenario, and ranges (low, high) that each path's conditions are drawn from anew in each episode.

    What is ``None`` stays as the scenario has it. The connections whose controller is ``ddpg-mpcc`` are steered from
    outside; whatever else the scenario has competes with them.
    """

    #: As :func:`multipilot.simulate` takes it.
    scenario: Scenario = field(default_factory=lambda: BASE)
    #: Mbit/s, uniform in the logarithm.
    rate_mbps: Ends = None
    #: Milliseconds, both ways together.
    rtt_ms: Ends = None
    #: Bandwidth-delay products, uniform in the logarithm.
    queue_bdp: Ends = None
    #: Probability of random loss, of a ``lossy`` path; the others have none.
    loss: Ends = None
    #: Seconds until a path's rate changes to another one of ``rate_mbps``.
    change_s: Ends = None
    #: Each subflow begins at a rate that has such a part of a full path's utility; ``None``: MPCC's slow start.
    start: Ends = (0.4, 0.7)
    #: Share of lossy paths.
    lossy: float = 0.5
    #: Packets of a path are late by 0 to so many milliseconds, in both directions.
    jitter_ms: Ends = None

    def given(self) -> _core.Given:
        return _given(self.scenario)

    def wishes(self, overrides: Mapping[str, Any] | None = None) -> _core.Wishes:
        return _wishes(None, None, None, None, None, overrides or {})

    def varied(self) -> _core.Varied:
        names = ("rate_mbps", "rtt_ms", "queue_bdp", "loss", "change_s", "start", "lossy", "jitter_ms")
        return {name: getattr(self, name) for name in names}
