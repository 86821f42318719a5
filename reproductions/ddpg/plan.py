"""What is measured: controllers and their rivals, experiments in the simulator, points for the kernel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from multipilot.papers import charts
from multipilot.papers.paper import Experiment, Point
from multipilot.papers.runs import traces_on
from multipilot.report import svg

CONTROLLERS = ("mpcc", "mpcc-loss", "ddpg-mpcc", "lia", "olia", "balia", "wvegas", "reno", "cubic", "bbr")
#: Each against its own kind on one path: MPCC without siblings is PCC, a coupled window rule is Reno, wVegas is Vegas.
RIVAL_OF = {
    "mpcc": "pcc",
    "mpcc-loss": "pcc",
    "ddpg-mpcc": "pcc",
    "lia": "reno",
    "olia": "reno",
    "balia": "reno",
    "reno": "reno",
    "wvegas": "wvegas",
    "cubic": "cubic",
    "bbr": "bbr",
}
COLOURS = {
    **charts.COLOURS,
    "mpcc": svg.PATHS[1],
    "mpcc-loss": svg.PATHS[1],
    "mpcc-code": svg.BAR,
    "ddpg-mpcc": svg.PATHS[4],
}
NAMES = {
    **charts.NAMES,
    "mpcc": "MPCC",
    "mpcc-loss": "MPCC-loss",
    "mpcc-code": "MPCC-code",
    "ddpg-mpcc": "DDPG-MPCC",
    "pcc": "PCC",
    "linux-reno": "Reno",
}
RIVAL_NAMES = {"pcc": "PCC", "reno": "Reno", "wvegas": "Vegas", "cubic": "CUBIC", "bbr": "BBR"}
BOLD, DASHED = frozenset({"mpcc", "ddpg-mpcc"}), frozenset({"mpcc-loss", "reno"})

BUFFERS, LOSS, RATES = "4-buffers", "5-loss", "5-bandwidth"
AGAINST, OWN = "6-against-mpcc", "6-own-kind"
ALONE, LARGE, SHARED, VARYING, SHORT, UNSEEN = (
    "loss-alone",
    "loss-large-buffers",
    "shared-bottleneck",
    "varying-capacity",
    "short-flows",
    "unseen-paths",
)
QUEUE_KEY, LOSS_KEY, RATE_KEY, RIVAL_KEY, SIZE_KEY = (
    "paths.*.queue",
    "paths.*.loss",
    "paths.two.rate",
    "connections.rival.controller",
    "connections.short.bytes",
)
#: The single-path connections of each scenario that has any.
RIVALS = {BUFFERS: ("rival",), LOSS: ("rival-one", "rival-two"), RATES: ("rival-one", "rival-two")}


def rivals_cell(scenario: str, controller: str) -> dict[str, str]:
    """Keys that give the single-path connections of a scenario the rival of this controller."""
    return {f"connections.{name}.controller": RIVAL_OF[controller] for name in RIVALS[scenario]}


def _beside_own_kind(scenario: str, quick: Mapping[str, str]) -> Iterator[Experiment]:
    for rival in dict.fromkeys(RIVAL_OF.values()):
        tested = [c for c in CONTROLLERS if RIVAL_OF[c] == rival]
        settings = {f"grid.{key}": value for key, value in rivals_cell(scenario, tested[0]).items()}
        yield Experiment(scenario, quick, {**settings, "variants": _variants(tested)}, tables=False)


def _variants(controllers: Sequence[str]) -> str:
    listed = ", ".join(f'"{c}"' for c in controllers)
    return f'[{{controller = [{listed}], path_manager = "fullmesh"}}]'


EXPERIMENTS = (
    *_beside_own_kind(BUFFERS, {f"grid.{QUEUE_KEY}": '["50p", "400p"]'}),
    *_beside_own_kind(LOSS, {f"grid.{LOSS_KEY}": "[0, 0.02]"}),
    Experiment(ALONE, {f"grid.{LOSS_KEY}": "[0, 0.02, 0.05, 0.08]"}, tables=False),
    Experiment(LARGE, {f"grid.{LOSS_KEY}": "[0.02, 0.05, 0.08]"}, tables=False),
    Experiment(AGAINST, settings={"sample_interval": "200ms"}),
    Experiment(OWN, tables=False),
    Experiment(SHARED, {f"grid.{RIVAL_KEY}": '["reno", "bbr"]'}, tables=False),
    *_beside_own_kind(RATES, {f"grid.{RATE_KEY}": '["20Mbit", "200Mbit"]'}),
    Experiment(VARYING, settings={"sample_interval": "1s"}),
    Experiment(SHORT, {f"grid.{SIZE_KEY}": '["100kB", "1MB"]'}, tables=False),
    Experiment(UNSEEN, tables=False),
)


def on_traces(folder: Path) -> tuple[Experiment, ...]:
    """The second path carries what a recorded one did."""
    return tuple(Experiment(VARYING, {}, how, label=f"{VARYING} {name}") for name, how in traces_on("two", folder))


def _own(scenario: str, controller: str, **cell: str) -> Point:
    return Point(scenario, {**rivals_cell(scenario, controller), **cell}, controller)


#: Chosen before any was measured: how much loss is borne, the figures, who yields to whom, then the rest.
POINTS = (
    *(Point(ALONE, {LOSS_KEY: loss}, c) for loss in ("0.02", "0.05", "0.08") for c in ("mpcc", "bbr")),
    *(Point(ALONE, {LOSS_KEY: "0.02"}, c) for c in ("ddpg-mpcc", "reno")),
    *(Point(LARGE, {LOSS_KEY: loss}, c) for loss in ("0.05", "0.08") for c in ("mpcc", "bbr")),
    *(_own(BUFFERS, c, **{QUEUE_KEY: "400p"}) for c in ("mpcc", "ddpg-mpcc", "lia", "bbr")),
    *(_own(LOSS, c, **{LOSS_KEY: "0.02"}) for c in ("mpcc", "ddpg-mpcc", "lia", "bbr")),
    *(Point(AGAINST, {}, c) for c in ("ddpg-mpcc", "mpcc", "lia")),
    *(Point(SHARED, {RIVAL_KEY: rival}, c) for c in ("mpcc", "ddpg-mpcc", "lia") for rival in ("reno", "bbr")),
    *(Point(OWN, {}, c) for c in ("mpcc", "ddpg-mpcc")),
    *(Point(VARYING, {}, c) for c in ("mpcc", "ddpg-mpcc", "bbr", "lia")),
    *(_own(BUFFERS, c, **{QUEUE_KEY: "50p"}) for c in ("mpcc", "lia")),
    *(Point(SHORT, {SIZE_KEY: "1MB"}, c) for c in ("mpcc", "lia")),
)
