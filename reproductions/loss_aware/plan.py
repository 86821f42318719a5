"""What is measured: experiments in the simulator, and points chosen beforehand for the kernel."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from multipilot.papers.paper import Experiment, Point
from multipilot.papers.runs import traces_on

#: The controllers of the verdict: the paper's, and what a stock kernel has.
CONTROLLERS = ("balia", "linux-reno", "cubic", "bbr")
LA, MA = "loss-aware", "signal-aware"
#: MPTCP-LA, the paper's own rule.
RULE = "mptcp-la"

#: The paper's grid as the paper has it (BALIA, fixed buffers), and as people would: their controllers, tuned buffers.
WIFI, LTE = "3-wifi-loss", "3-lte-loss"
V_WIFI, V_LTE, V_CLEAN, V_BOTH = (f"verdict-{name}" for name in ("wifi-loss", "lte-loss", "no-loss", "both-lossy"))
LOSSES = (0.00001, 0.0001, 0.001, 0.01, 0.1)
LOSS_KEY = {
    name: f"paths.{path}.loss" for path, names in (("wifi", (WIFI, V_WIFI)), ("lte", (LTE, V_LTE))) for name in names
}

_PAIR = {"grid.paths.wifi.rate": '["10Mbit", "50Mbit"]', "grid.paths.lte.rate": '["10Mbit", "50Mbit"]'}

VERDICT = (
    Experiment(V_WIFI, _PAIR, ben=True, tables=False),
    Experiment(V_LTE, _PAIR, ben=True, tables=False),
    Experiment(V_CLEAN, {"grid.paths.slow.rate": "2Mbit"}, ben=True, tables=False),
    Experiment(V_BOTH, {"grid.paths.lte.loss": "[0.001, 0.05]"}, ben=True, tables=False),
)
SIZES = Experiment("7-sizes", {"grid.connections.0.bytes": '["1MB", "20MB"]'}, ben=True, tables=False)

#: An earlier transfer goes over the same paths for so many seconds; after a rest the measured one begins.
BEFORE, REST = 15, 5


def known(scenario: str) -> str:
    """What results call an experiment in which an earlier transfer has been on the paths."""
    return f"{scenario} once known"


def _after_another(paths: Sequence[str], direction: str, more: str = "") -> dict[str, str]:
    """Two connections in place of one. The earlier has a path manager of its own, and so is not under test."""
    common = f"paths = {json.dumps(paths)}, direction = {json.dumps(direction)}"
    measured = f'{{{common}, start = "{BEFORE + REST}s"{more}}}'
    before = f'{{name = "before", {common}, lasting = "{BEFORE}s", path_manager = "{LA}"}}'
    return {"connections": f"[{measured}, {before}]"}


_WIFI_LTE = _after_another(("wifi", "lte"), "upload")
_FAST_SLOW = _after_another(("fast", "slow"), "download")
#: Of the scenarios of 30 s: what is measured lasts as long as theirs.
_KNOWN = {
    name: {**(_FAST_SLOW if name == V_CLEAN else _WIFI_LTE), "duration": f"{BEFORE + REST + 30}s"}
    for name in (V_WIFI, V_LTE, V_CLEAN, V_BOTH)
}


def _once_known(first: Experiment, settings: Mapping[str, str]) -> Experiment:
    """Awareness alone: the stock runs and the yardsticks of the first verdict remember nothing."""
    aware = f'[{{controller = {json.dumps(CONTROLLERS)}, path_manager = "{LA}"}}]'
    return Experiment(
        first.scenario,
        first.quick,
        {**first.settings, **settings, "variants": aware},
        tables=False,
        label=known(first.key),
    )


EXPERIMENTS = (
    Experiment(WIFI, _PAIR, ben=True, tables=False),
    Experiment(LTE, _PAIR, ben=True, tables=False),
    *VERDICT,
    *(_once_known(first, _KNOWN[first.scenario]) for first in VERDICT),
    Experiment("5-dynamic-loss", settings={"sample_interval": "250ms"}),
    Experiment("6-path-failure", settings={"sample_interval": "100ms"}),
    Experiment("6-threshold", settings={"sample_interval": "250ms"}),
    Experiment("6-dead-primary"),
    Experiment("7-handover", settings={"sample_interval": "250ms"}),
    SIZES,
    _once_known(SIZES, _after_another(("wifi", "lte"), "upload", ', bytes = "1MB"')),
)


def on_traces(folder: Path) -> tuple[Experiment, ...]:
    """Two experiments for each trace. The scenario begins where the second one's measured connection does, so that all
    are over the same part of a trace.
    """
    found: list[Experiment] = []
    for name, settings in traces_on("lte", folder):
        first = Experiment("9-trace", {}, settings, ben=True, tables=False, label=f"9-trace {name}")
        found += [first, _once_known(first, _after_another(("wifi", "lte"), "download"))]
    return tuple(found)


def _rates(wifi: int, lte: int) -> dict[str, str]:
    return {"paths.wifi.rate": f"{wifi}Mbit", "paths.lte.rate": f"{lte}Mbit"}


def _grid(scenario: str, loss: str, controller: str, wifi: int = 50, lte: int = 50) -> Point:
    cell = {LOSS_KEY[scenario]: loss, **_rates(wifi, lte)}
    return Point(scenario, cell, controller, beside=(RULE, LA) if scenario in (WIFI, LTE) else (LA,), ben=True)


def _held_up(controller: str, rate: str, queue: str) -> Point:
    return Point(V_CLEAN, {"paths.slow.rate": rate, "paths.*.queue": queue}, controller, beside=(LA,), ben=True)


def _both(controller: str, wifi: str, lte: str) -> Point:
    cell = {"paths.wifi.loss": wifi, "paths.lte.loss": lte}
    return Point(V_BOTH, cell, controller, beside=(LA,), ben=True)


def _once_known_at(point: Point) -> Point:
    name = point.scenario
    return Point(name, point.cell, point.controller, LA, settings=_KNOWN[name], label=known(name))


#: Chosen before any was measured: the paper's figures first, then its grid as people would have it.
POINTS = (
    *(_grid(WIFI, loss, "balia") for loss in ("0.0001", "0.001", "0.01", "0.1")),
    Point("5-dynamic-loss", {}, "balia", beside=(RULE, LA, MA)),
    *(_grid(V_WIFI, loss, "linux-reno") for loss in ("0.001", "0.01", "0.1")),
    *(_grid(V_WIFI, loss, "balia") for loss in ("0.001", "0.01")),
    Point("6-path-failure", {}, "linux-reno", beside=(LA,)),
    *(_grid(LTE, loss, "balia") for loss in ("0.001", "0.01", "0.1")),
    _held_up("linux-reno", "2Mbit", "300p"),
    _held_up("balia", "2Mbit", "300p"),
    *(_grid(V_WIFI, "0.01", controller) for controller in ("cubic", "bbr")),
    _grid(WIFI, "0.01", "balia", 10, 50),
    _grid(WIFI, "0.01", "balia", 50, 10),
    Point("5-dynamic-loss", {}, "linux-reno", beside=(RULE, LA, MA)),
    Point("6-path-failure", {}, "balia", beside=(LA,)),
    Point("7-handover", {}, "linux-reno", beside=(LA, MA)),
    *(_grid(V_LTE, "0.01", controller) for controller in ("linux-reno", "cubic")),
    _held_up("linux-reno", "4Mbit", "300p"),
    _held_up("cubic", "2Mbit", "300p"),
    _held_up("bbr", "2Mbit", "300p"),
    _both("balia", "0.01", "0.01"),
    _both("linux-reno", "0.01", "0.05"),
    *(_grid(V_WIFI, "0.1", controller) for controller in ("cubic", "bbr")),
    # Cells from above, once known: their yardsticks and stock runs are these ones' too.
    *(
        _once_known_at(point)
        for point in (
            *(_grid(V_WIFI, "0.01", controller) for controller in ("linux-reno", "cubic", "balia")),
            _held_up("linux-reno", "2Mbit", "300p"),
            *(_grid(V_LTE, "0.01", controller) for controller in ("linux-reno", "cubic")),
            _held_up("cubic", "2Mbit", "300p"),
            _both("linux-reno", "0.01", "0.05"),
        )
    ),
)
