"""Paper *drones*: multipath TCP over 802.11ay (Drones 7(1), 30, 2023).

air        what the radio alone says
beams      figures 7, 9 and 10
tables     tables 1 and 3: what is calibrated, what is predicted
transport  figures 8 and 10 with transport
flows      figures 5, 11 and 12
links      MS-UCB, alone and federated
cloning    delivery against extra bytes
balance    delay balancing beside other schedulers
factors    the parts of LD-MPSP, each by itself
series     rates over time and sums over transfers, out of a run's tables
theory     LD-MPSP's fluid
values     the values that claims.toml is about
"""

from __future__ import annotations

from pathlib import Path

from multipilot.papers.claims import load
from multipilot.papers.paper import Experiment, Item, Paper, Point
from multipilot.papers.results import RELAY
from reproductions.drones import balance, beams, cloning, factors, flows, links, tables, theory, transport
from reproductions.drones.values import values

#: Telemetry is drawn, so that each second is needed.
_SECONDS = {"sample_interval": "1s"}
#: At several Gbit/s a run takes seconds; one run decides no claim.
SEEDS = 5
#: The air does not depend on the seed of a run: draws of it are cells of the grid.
_DRAWS = {"grid.radio.seed": str(list(range(1, SEEDS + 1)))}
_ONE_DRAW = {"grid.radio.seed": "[1]"}

EXPERIMENTS = (
    Experiment(tables.BEST, most_seeds=SEEDS),
    Experiment(tables.HANDOFF, {"grid.radio.handoff": f'["20ms", "{tables.CALIBRATED}"]'}, most_seeds=SEEDS),
    Experiment(tables.MOBILE, most_seeds=SEEDS),
    Experiment(flows.LOSSY, {"duration": "20s"}, most_seeds=SEEDS),
    Experiment(flows.JOINING, settings=_SECONDS, most_seeds=SEEDS),
    Experiment(flows.DOWNLOADS, most_seeds=SEEDS),
    Experiment(transport.SCENARIO, {"duration": "10s", **_ONE_DRAW}, {**_SECONDS, **_DRAWS}, most_seeds=1),
    Experiment(
        transport.SCENARIO,
        {"duration": "4s", **_ONE_DRAW},
        {"duration": "15s", f"grid.{transport.COUNT}": str(list(beams.OTHER_COUNTS)), **_DRAWS},
        tables=False,
        most_seeds=1,
        label=transport.COUNTS,
        cases=transport.COUNTED,
    ),
    Experiment(cloning.SCENARIO, {"duration": "20s"}),
    Experiment(links.POPULATION, {"duration": "5s"}, most_seeds=SEEDS),
    Experiment(factors.SCENARIO, {"duration": "12s"}, _SECONDS, most_seeds=2 * SEEDS),
    Experiment(balance.SCENARIO, {"duration": "30s"}),
)


def _over_relay(
    scenario: str, cell: dict[str, str], controller: str, *schedulers: str, beside: tuple[str, ...] = ()
) -> Point:
    return Point(scenario, cell, controller, beside=beside, schedulers=schedulers, world=RELAY)


#: What the claims on schedulers and super-arms need, most important first.
POINTS = (
    *(
        _over_relay(factors.SCENARIO, {factors.LOSS: "0.02"}, c, *factors.SCHEDULERS, beside=("ms-ucb",))
        for c in ("ld-mpsp", "lia")
    ),
    _over_relay(factors.SCENARIO, {factors.LOSS: "0.001"}, "ld-mpsp", "default", "delay-balance"),
    *(_over_relay(cloning.SCENARIO, cloning.at(size, "0.2"), "bbr", "min-rtt", "cloning") for size in cloning.SIZES),
    _over_relay(balance.SCENARIO, {balance.SIZE: "1MB"}, "ld-mpsp", "min-rtt", "delay-balance"),
)

PAPER = Paper(
    name="drones",
    title="802.11ay for drones: beams, links and low delay",
    source="Drones 7(1), 30, 2023",
    claims=load(Path(__file__).with_name("claims.toml")),
    values=values,
    experiments=EXPERIMENTS,
    points=POINTS,
    items=(
        Item("tables", (tables.BEST, tables.HANDOFF, tables.MOBILE), tables.show),
        Item("handoff", (tables.HANDOFF,), tables.show_handoff),
        Item("fig5", (flows.LOSSY,), flows.lossy),
        Item("fig7", (), beams.overhead),
        Item("fig8", (transport.SCENARIO,), transport.show),
        Item("fig9", (), beams.energy),
        Item("fig10", (transport.SCENARIO,), beams.aggregate),
        Item("fig11", (flows.JOINING,), flows.joining),
        Item("fig12", (flows.DOWNLOADS,), flows.downloads),
        Item("ms-ucb", (links.POPULATION,), links.show),
        Item("cloning", (cloning.SCENARIO,), cloning.show),
        Item("balance", (balance.SCENARIO,), balance.show),
        Item("factors", (factors.SCENARIO,), factors.show),
        Item("theory", (), theory.show),
    ),
)
