"""What is measured: experiments in the simulator, and points chosen beforehand for the kernel."""

from __future__ import annotations

from pathlib import Path

from multipilot.papers.paper import Experiment, Point
from multipilot.papers.runs import trace_pairs

#: The controllers of the verdict: the paper's, and what a stock kernel has.
CONTROLLERS = ("balia", "linux-reno", "cubic", "bbr")
LA, MA = "loss-aware", "signal-aware"

#: The paper's grid as the paper has it (BALIA, fixed buffers), and as people would: their controllers, tuned buffers.
WIFI, LTE = "3-wifi-loss", "3-lte-loss"
V_WIFI, V_LTE, V_CLEAN, V_BOTH = (f"verdict-{name}" for name in ("wifi-loss", "lte-loss", "no-loss", "both-lossy"))
LOSSES = (0.00001, 0.0001, 0.001, 0.01, 0.1)
LOSS_KEY = {
    name: f"paths.{path}.loss" for path, names in (("wifi", (WIFI, V_WIFI)), ("lte", (LTE, V_LTE))) for name in names
}

_PAIR = {"grid.paths.wifi.rate": '["10Mbit", "50Mbit"]', "grid.paths.lte.rate": '["10Mbit", "50Mbit"]'}

EXPERIMENTS = (
    Experiment(WIFI, _PAIR, ben=True, tables=False),
    Experiment(LTE, _PAIR, ben=True, tables=False),
    Experiment(V_WIFI, _PAIR, ben=True, tables=False),
    Experiment(V_LTE, _PAIR, ben=True, tables=False),
    Experiment(V_CLEAN, {"grid.paths.slow.rate": "2Mbit"}, ben=True, tables=False),
    Experiment(V_BOTH, {"grid.paths.lte.loss": "[0.001, 0.05]"}, ben=True, tables=False),
    Experiment("5-dynamic-loss", settings={"sample_interval": "250ms"}),
    Experiment("6-path-failure", settings={"sample_interval": "100ms"}),
    Experiment("6-threshold", settings={"sample_interval": "250ms"}),
    Experiment("6-dead-primary"),
    Experiment("7-handover", settings={"sample_interval": "250ms"}),
    Experiment("7-sizes", {"grid.connections.0.bytes": '["1MB", "20MB"]'}, ben=True, tables=False),
)


def on_traces(folder: Path) -> tuple[Experiment, ...]:
    """One experiment for each pair ``NAME.up``, ``NAME.down`` of Mahimahi traces, packed by gzip or not."""
    return tuple(
        Experiment(
            "9-trace",
            {},
            {"paths.lte.down.trace": str(down), "paths.lte.up.trace": str(up)},
            ben=True,
            tables=False,
            label=f"9-trace {name}",
        )
        for name, down, up in trace_pairs(folder)
    )


def _rates(wifi: int, lte: int) -> dict[str, str]:
    return {"paths.wifi.rate": f"{wifi}Mbit", "paths.lte.rate": f"{lte}Mbit"}


def _grid(scenario: str, loss: str, controller: str, wifi: int = 50, lte: int = 50) -> Point:
    cell = {LOSS_KEY[scenario]: loss, **_rates(wifi, lte)}
    return Point(scenario, cell, controller, beside=(LA,), ben=True)


def _held_up(controller: str, rate: str, queue: str) -> Point:
    return Point(V_CLEAN, {"paths.slow.rate": rate, "paths.*.queue": queue}, controller, beside=(LA,), ben=True)


def _both(controller: str, wifi: str, lte: str) -> Point:
    cell = {"paths.wifi.loss": wifi, "paths.lte.loss": lte}
    return Point(V_BOTH, cell, controller, beside=(LA,), ben=True)


#: Chosen before any was measured: the paper's figures first, then its grid as people would have it.
POINTS = (
    *(_grid(WIFI, loss, "balia") for loss in ("0.0001", "0.001", "0.01", "0.1")),
    Point("5-dynamic-loss", {}, "balia", beside=(LA, MA)),
    *(_grid(V_WIFI, loss, "linux-reno") for loss in ("0.001", "0.01", "0.1")),
    *(_grid(V_WIFI, loss, "balia") for loss in ("0.001", "0.01")),
    Point("6-path-failure", {}, "linux-reno", beside=(LA,)),
    *(_grid(LTE, loss, "balia") for loss in ("0.001", "0.01", "0.1")),
    _held_up("linux-reno", "2Mbit", "300p"),
    _held_up("balia", "2Mbit", "300p"),
    *(_grid(V_WIFI, "0.01", controller) for controller in ("cubic", "bbr")),
    _grid(WIFI, "0.01", "balia", 10, 50),
    _grid(WIFI, "0.01", "balia", 50, 10),
    Point("5-dynamic-loss", {}, "linux-reno", beside=(LA, MA)),
    Point("6-path-failure", {}, "balia", beside=(LA,)),
    Point("7-handover", {}, "linux-reno", beside=(LA, MA)),
    *(_grid(V_LTE, "0.01", controller) for controller in ("linux-reno", "cubic")),
    _held_up("linux-reno", "4Mbit", "300p"),
    _held_up("cubic", "2Mbit", "300p"),
    _held_up("bbr", "2Mbit", "300p"),
    _both("balia", "0.01", "0.01"),
    _both("linux-reno", "0.01", "0.05"),
    *(_grid(V_WIFI, "0.1", controller) for controller in ("cubic", "bbr")),
)
