"""LD-MPSP taken apart: controller, cloning, delay balancing and super-arms, each by itself and with the others."""

from __future__ import annotations

from itertools import product

from multipilot.papers.charts import NAMES
from multipilot.papers.page import Section, number, table
from multipilot.papers.results import RELAY, SIM, Measure, Results, mean_over
from multipilot.papers.tables import round_trip
from multipilot.stats import Mean

SCENARIO = "factors"
LOSS = "paths.*.loss"
LOSSES = ("0.001", "0.02")
CONTROLLERS = ("lia", "ld-mpsp")
#: `min-rtt` is the control of the two that send a stream without end by lowest RTT too.
SCHEDULERS = {
    "default": "",
    "min-rtt": "lowest RTT",
    "cloning": "cloning",
    "delay-balance": "balancing",
    "ld-mpsp": "balancing, cloning",
}
MANAGERS = {"fullmesh": "", "ms-ucb": "super-arms"}
#: What is measured of each combination, by the name in the values.
WHAT: dict[str, Measure] = {"goodput": "goodput_mbps", "rtt": round_trip}
COMBINATIONS = tuple(product(CONTROLLERS, SCHEDULERS, MANAGERS))


def mean(results: Results, combination: tuple[str, str, str], loss: str, what: str, world: str = SIM) -> Mean:
    controller, scheduler, manager = combination
    rows = results.select(
        world, SCENARIO, {LOSS: loss}, controller=controller, scheduler=scheduler, path_manager=manager
    )
    return mean_over(rows, WHAT[what])


def show(results: Results) -> Section:
    lines = []
    for controller, scheduler, manager in COMBINATIONS:
        parts = [part for part in (SCHEDULERS[scheduler], MANAGERS[manager]) if part]
        line = [" + ".join([NAMES[controller], *parts])]
        columns = [(world, loss, what) for world in (SIM, RELAY) for loss in LOSSES for what in WHAT]
        means = [mean(results, (controller, scheduler, manager), loss, what, world) for world, loss, what in columns]
        lines.append([*line, *(number(one, 1) for one in means)])
    head = [f"{what}, {float(loss):.1%} loss" for loss in LOSSES for what in ("Mbit/s", "RTT ms")]
    return Section(
        "LD-MPSP part by part",
        [
            "One download without end over five links of 5 to 40 Mbit/s, whose round trips change between 12 and 40 ms "
            "every three seconds. Each part of LD-MPSP stands alone and with the others, and beside LIA with the same "
            "parts. RTT: mean smoothed round trip of the subflows that carry data.",
        ],
        [table(["parts", *head, *(f"relay:<br>{name}" for name in head)], lines, style="wide")],
        [
            "Balancing splits blocks of packets by delay, and sets the target of LD-MPSP; without it the target is "
            "20 ms. Cloning sends by lowest RTT first, and so does balancing in a stream without end; Linux' scheduler "
            "sends by the queue that empties first. What a part gains by more than this order is its difference from "
            "lowest RTT. "
            "Super-arms (MS-UCB) use three of the five links at a time. Over the relay the device's bandit chooses "
            "them for both directions.",
        ],
    )
