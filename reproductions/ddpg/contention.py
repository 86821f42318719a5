"""Figures 6 to 8, topology c: DDPG-MPCC beside MPCC, and two connections of one kind."""

from __future__ import annotations

from functools import partial

import numpy as np

from multipilot.papers.charts import Curve, Panel, bars_of, draw
from multipilot.papers.page import Section, lines, number, table
from multipilot.papers.results import KERNEL, SIM, Results, ratio
from multipilot.report import svg
from multipilot.stats import Mean, mean_of
from reproductions.ddpg import over_time
from reproductions.ddpg.intervals import INTERVALS, PLAIN, Course, Measured, measured, who_ships
from reproductions.ddpg.plan import AGAINST, COLOURS, CONTROLLERS, OWN
from reproductions.ddpg.sections import broken, label

#: Intervals that are drawn as one point.
STEP = 5
WORDS = {"rate": "sending rate a subflow, Mbit/s", "utility": "utility", "reward": "reward"}


def _over_time(course: Course, what: str) -> list[Mean]:
    values: np.ndarray = getattr(course, what)
    blocks = values.reshape(len(values), -1, STEP).mean(axis=2)
    return [mean_of(float(v) for v in column) for column in blocks.T]


def _panel(found: Measured, name: str, what: str) -> Panel:
    x = list(np.arange(INTERVALS // STEP) * STEP + STEP / 2)
    tested, rival = found.beside[name]
    both = name == PLAIN
    drawn = [
        Curve(
            "MPCC" if both else "DDPG-MPCC",
            x,
            _over_time(tested, what),
            svg.INK if both else COLOURS["ddpg-mpcc"],
            bold=True,
            markers=False,
        ),
        Curve(
            "the other MPCC" if both else "MPCC beside it",
            x,
            _over_time(rival, what),
            COLOURS["mpcc"],
            True,
            markers=False,
        ),
    ]
    title = "Two MPCC" if both else f"Actor: {name}"
    return Panel(title, "monitor interval", WORDS[what], drawn, from_zero=what == "rate")


def _show(title: str, what: str, lead: str, notes: list[str], results: Results) -> Section:
    found = measured(results)
    order = [n for n in found.beside if n != PLAIN][:2] + [n for n in found.beside if n == PLAIN]
    body = [draw([_panel(found, n, what) for n in order], title, height=3.6)] if order else []
    late = []
    for actor, (tested, rival) in found.beside.items():
        late.append(
            [
                "two MPCC" if actor == PLAIN else f"DDPG-MPCC ({actor}) beside MPCC",
                number(tested.late(what)),
                number(rival.late(what)),
                number(ratio(tested.late(what), rival.late(what)) if what == "rate" else None),
            ]
        )
    head = [f"{WORDS[what]}, intervals 51–100", "the first", "the second", "ratio"]
    return Section(title, [lead], [*body, table(head, late)], notes)


_HOW = (
    "Both connections begin at once, 100 Mbit/s, 40 ms and 400 packets a path; the first 100 intervals of each "
    f"subflow, means over its two subflows and the evaluation seeds, {STEP} intervals a point. --data FOLDER adds the "
    "actors that multipilot train wrote."
)


def show_rate(results: Results) -> Section:
    return _show(
        "Figure 6, topology c: sending rates",
        "rate",
        "The paper says: the learned controller starts low, rises over 100 intervals and ends above MPCC without "
        "harm to it.",
        [f"{_HOW} {who_ships(results)}"],
        results,
    )


def show_utility(results: Results) -> Section:
    return _show(
        "Figure 7: utilities",
        "utility",
        "The paper says: utility follows the rate and ends above MPCC's. Utility can be far below zero: a round trip "
        "that grows by 1 % over an interval costs 9 times the rate (γ = 900).",
        ["U of each interval, rates in Mbit/s, α 0.9, β 11.35, γ 900. Same runs as figure 6."],
        results,
    )


def show_reward(results: Results) -> Section:
    return _show(
        "Figure 8: rewards",
        "reward",
        "The paper says: the reward rises sharply over the intervals. Our reward is what training uses: U over the "
        "utility of full paths without loss, between −1 and 1; a falling round trip earns nothing.",
        ["Same runs as figure 6."],
        results,
    )


def show_pairs(results: Results) -> Section:
    def mean(world: str, scenario: str, measure: str, controller: str) -> Mean:
        return results.mean(world, scenario, controller, measure)

    columns = [partial(mean, world, AGAINST, m) for world in (SIM, KERNEL) for m in ("goodput_mbps", "competing_mbps")]
    columns += [
        partial(mean, SIM, OWN, "goodput_mbps"),
        *(partial(mean, world, OWN, "jain") for world in (SIM, KERNEL)),
    ]
    bars = bars_of(
        "Jain's index, two of a kind",
        CONTROLLERS,
        lambda c, world: mean(world, OWN, "jain", c),
        broken,
        COLOURS,
        low=0.4,
    )
    head = (
        "Mbit/s | beside<br>MPCC | that<br>MPCC | kernel:<br>beside | kernel: that<br>MPCC | "
        "two of a kind,<br>mean | Jain | kernel:<br>Jain"
    )
    return Section(
        "Topology c: who shares with whom",
        [
            "Each controller beside one MPCC connection on both paths, and beside its own kind, which comes ten "
            "seconds later.",
        ],
        [
            draw(
                [over_time.panel(results, c, label(c)) for c in ("ddpg-mpcc", "lia")],
                "Goodput over time of DDPG-MPCC and of LIA beside MPCC",
                height=3.6,
            ),
            draw([bars], "Jain's index of two connections of one kind", height=3.4),
            table(head, lines(CONTROLLERS, *columns, label=label, digits=(1, 1, 1, 1, 1, 2, 2)), style="wide"),
        ],
        [
            "Runs of 60 s. Jain's index of two is 1 where they have the same and 0.5 where one has all; each over "
            "its own time."
        ],
    )
