"""Figures 6 to 8, topology c: DDPG-MPCC beside MPCC, and two connections of one kind."""

from __future__ import annotations

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
    title, first, second, colour = (
        ("Two MPCC", "MPCC", "the other MPCC", svg.INK)
        if name == PLAIN
        else (f"Actor: {name}", "DDPG-MPCC", "MPCC beside it", COLOURS["ddpg-mpcc"])
    )
    drawn = [
        Curve(who, x, _over_time(course, what), tint, bold=True, markers=False)
        for who, course, tint in ((first, tested, colour), (second, rival, COLOURS["mpcc"]))
    ]
    return Panel(title, "monitor interval", WORDS[what], drawn, from_zero=what == "rate")


def _show(title: str, what: str, lead: str, notes: list[str], results: Results) -> Section:
    found = measured(results)
    order = [n for n in found.beside if n != PLAIN][:2] + [n for n in found.beside if n == PLAIN]
    body = [draw([_panel(found, n, what) for n in order], title, height=3.6)] if order else []
    late = []
    for actor, (tested, rival) in found.beside.items():
        who = "two MPCC" if actor == PLAIN else f"DDPG-MPCC ({actor}) beside MPCC"
        first, second = tested.late(what), rival.late(what)
        late.append([who, number(first), number(second), number(ratio(first, second) if what == "rate" else None)])
    head = [f"{WORDS[what]}, intervals 51–100", "the first", "the second", "ratio"]
    return Section(title, [lead], [*body, table(head, late)], notes)


#: The actor whose seed of training was chosen so (docs/notes/2026-11-21-trained-actor.md).
_CHOSEN_HERE = "multipilot train td3 --seed 3 --rounds 28 "
_HOW = (
    "Both connections begin at once, 100 Mbit/s, 40 ms and 400 packets a path; the first 100 intervals of each "
    f"subflow, means over its two subflows and the evaluation seeds, {STEP} intervals a point. --data FOLDER adds the "
    "actors that multipilot train wrote."
)


def show_rate(results: Results) -> Section:
    notes = [f"{_HOW} {who_ships(results)}"]
    if any(a.shipped and a.made_by.startswith(_CHOSEN_HERE) for a in measured(results).actors.values()):
        notes.append("Of three seeds of training the shipped one was chosen on this topology, which favours it here.")
    return _show(
        "Figure 6, topology c: sending rates",
        "rate",
        "The paper says: the learned controller starts low, rises over 100 intervals and ends above MPCC without "
        "harm to it.",
        notes,
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
    shown = [(w, AGAINST, what) for w in (SIM, KERNEL) for what in ("goodput_mbps", "competing_mbps")]
    shown += [(SIM, OWN, "goodput_mbps"), (SIM, OWN, "jain"), (KERNEL, OWN, "jain")]
    columns = [results.column(*one) for one in shown]
    title = "Jain's index, two of a kind"
    bars = bars_of(title, CONTROLLERS, lambda c, w: results.mean(w, OWN, c, "jain"), broken, COLOURS, low=0.4)
    head = (
        "Mbit/s | beside<br>MPCC | that<br>MPCC | kernel:<br>beside | kernel: that<br>MPCC | "
        "two of a kind,<br>sum | Jain | kernel:<br>Jain"
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
