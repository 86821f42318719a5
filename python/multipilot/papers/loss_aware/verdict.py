"""How often multipath does harm, by controller, without awareness and with it."""

from __future__ import annotations

import math
from html import escape
from typing import Any

from multipilot.papers.charts import NAMES, draw
from multipilot.papers.loss_aware.benefit import HARM, WIDEST, Benefit, Verdict, benefits, of, verdict
from multipilot.papers.loss_aware.pictures import LA_COLOUR, STOCK_COLOUR, row
from multipilot.papers.loss_aware.plan import CONTROLLERS, V_BOTH, V_CLEAN, V_LTE, V_WIFI
from multipilot.papers.page import Section, table
from multipilot.papers.results import KERNEL, SIM, Results
from multipilot.papers.spread import Boxes, Series

SETS = {
    V_WIFI: "loss on the Wi-Fi, 0.001 to 10 %, 25 pairs of rates",
    V_LTE: "loss on the LTE, 0.001 to 10 %, 25 pairs of rates",
    V_CLEAN: "no loss, rates as 1 to 20, buffers of 20 to 1000 packets",
    V_BOTH: "loss on both, 0.1 to 5 % each",
}


def _all(results: Results, world: str) -> dict[str, list[Benefit]]:
    return {name: benefits(results, world, name) for name in SETS}


def judged(results: Results, world: str, controller: str, aware: bool) -> Verdict | None:
    """Over all sets of the grid."""
    return verdict(b for found in _all(results, world).values() for b in of(found, controller, aware))


def verdict_line(name: str, who: str, found: Verdict) -> list[str]:
    harmed = f'<span class="{"no" if found.harmed else "muted"}">{found.harmed}</span>'
    return [
        name,
        who,
        str(found.cells),
        harmed,
        f"{100 * found.harmed / found.cells:.1f} %",
        f"{found.undecided} ({found.open})",
        f"{100 * found.missed / found.cells:.0f} %",
        f"{found.mean:+.2f}",
        f"{found.lowest:+.2f}",
    ]


HEAD = [
    "",
    "",
    "cells",
    "surely<br>harmed",
    "share",
    "undecided (of<br>these may harm)",
    "missed, with<br>the undecided",
    "mean<br>benefit",
    "lowest",
]


def _totals(results: Results, world: str) -> list[list[str]]:
    lines = []
    for controller in CONTROLLERS:
        for aware in (False, True):
            found = judged(results, world, controller, aware)
            if found:
                lines.append(verdict_line(NAMES[controller], "loss-aware" if aware else "stock", found))
    return lines


def _by_set(results: Results) -> list[list[str]]:
    lines = []
    for name, found in _all(results, SIM).items():
        for controller in CONTROLLERS:
            stock, aware = (verdict(of(found, controller, a)) for a in (False, True))
            if stock and aware:
                lines.append(
                    [
                        escape(SETS[name]),
                        NAMES[controller].split(",")[0],
                        str(stock.cells),
                        f"{stock.harmed} → {aware.harmed}",
                        f"{stock.open} → {aware.open}",
                        f"{stock.mean:+.2f} → {aware.mean:+.2f}",
                        f"{stock.lowest:+.2f} → {aware.lowest:+.2f}",
                    ]
                )
    return lines


BY_SET = ["stock → loss-aware", "", "cells", "surely<br>harmed", "undecided,<br>may harm", "mean benefit", "lowest"]


def worst(results: Results, most: int = 8) -> list[list[str]]:
    """The cells that awareness does not mend, lowest first."""
    cells = [b for found in _all(results, SIM).values() for c in CONTROLLERS for b in of(found, c, True) if b.harms]
    cells.sort(key=lambda b: b.mean.mean)
    lines = []
    for b in cells[:most]:
        where = ", ".join(f"{key.removeprefix('paths.')} {value}" for key, value in b.cell)
        half = "" if math.isnan(b.mean.half) else f' <span class="half">± {b.mean.half:.2f}</span>'
        lines.append(
            [
                NAMES[b.controller],
                escape(where),
                f"{b.mean.mean:+.2f}{half}",
                f"{b.goodput.mean:.1f}",
                f"{b.best_single:.1f}",
            ]
        )
    return lines


def show(results: Results) -> Section:
    totals, kernel = _totals(results, SIM), _totals(results, KERNEL)
    body = []
    if totals:
        body.append(table(HEAD, totals, names=2))
        sets = _all(results, SIM)
        groups = [NAMES[c].split(",")[0] for c in CONTROLLERS]

        def values(aware: bool) -> list[list[float]]:
            return [[b.mean.mean for f in sets.values() for b in of(f, c, aware)] for c in CONTROLLERS]

        boxes = Boxes(
            "Benefit over all cells",
            groups,
            [Series("stock", STOCK_COLOUR, values(False)), Series("loss-aware", LA_COLOUR, values(True))],
            "",
            "benefit of aggregation",
            rule=0.0,
        )
        body.append(draw([boxes], "Box plots of the benefit of all cells by controller", height=3.6))
    if kernel:
        body.append(
            "<h3>On the Linux kernel: points chosen beforehand, one run each</h3>" + table(HEAD, kernel, names=2)
        )
    if totals:
        body.append("<h3>By kind of cell</h3>" + table(BY_SET, _by_set(results), names=2, style="wide"))
        left = worst(results)
        if left:
            body.append(
                "<h3>Where awareness still leaves harm, lowest first</h3>"
                + table(["", "cell", "benefit", "Mbit/s", "best path alone"], left, names=2)
            )
    return Section(
        "verdict",
        "The verdict: how often is multipath worse than the better path alone?",
        [
            f"A cell is surely harmed where the whole 95 % interval of its benefit lies below −{-HARM}; the aim with "
            f"awareness is none. An interval wider than ±{WIDEST} is undecided, and counted as missed even where "
            "all of it lies far above zero.",
            _said(results),
        ],
        body,
        [
            "Buffers tune themselves, as on a user's machine. The single paths' Cᵢ are medians over the seeds and "
            "count as known; the interval is that of the multipath runs. A benefit above zero is measured against "
            "the worse path's rate, so where that path is slow or very lossy a few hundred kbit/s make a wide "
            "interval.",
            "Runs last 30 s and begin with paths of which nothing is known: what awareness costs until it knows "
            "is in these numbers.",
        ],
    )


def _said(results: Results) -> str:
    parts = []
    for controller in CONTROLLERS:
        stock, aware = (judged(results, SIM, controller, a) for a in (False, True))
        if stock and aware:
            parts.append(f"{NAMES[controller].split(',')[0]} {stock.harmed} → {aware.harmed} of {aware.cells}")
    return f"Surely harmed in the simulator, stock → loss-aware: {'; '.join(parts)}." if parts else "Not measured."


def rows(results: Results) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for world in (SIM, KERNEL):
        for controller in CONTROLLERS:
            for aware in (False, True):
                one = judged(results, world, controller, aware)
                if one:
                    found.append(
                        {
                            "world": world,
                            "controller": controller,
                            "path_manager": "loss-aware" if aware else "fullmesh",
                            "cells": one.cells,
                            "harmed": one.harmed,
                            "share_harmed": one.harmed / one.cells,
                            "undecided": one.undecided,
                            "undecided_may_harm": one.open,
                            "share_missed": one.missed / one.cells,
                            "mean_ben": one.mean,
                            "lowest_ben": one.lowest,
                            "paper": None,
                        }
                    )
    found += [row(b) for world in (SIM, KERNEL) for cells in _all(results, world).values() for b in cells]
    return found
