"""What transfers of each size gain by the choice of their first path."""

from __future__ import annotations

import numpy as np

from multipilot.papers import page
from multipilot.papers.charts import Curve, Panel, draw
from multipilot.papers.page import Section, number
from multipilot.report import svg
from multipilot.stats import Mean, mean_of
from reproductions.bandit.measure import KINDS, SIZE_LABELS, Draw, Measured
from reproductions.bandit.policies import CHOSEN, NAMES
from reproductions.bandit.stream import SIZES

COMPARED = ("wifi first", CHOSEN, "svm", "random", "single", "ndiffports", "backup", "fastest")
CALLED = {"fastest": "hindsight: the faster start", "single": "Wi-Fi alone", "ndiffports": "ndiffports on Wi-Fi"}
CALLED["backup"] = "LTE as backup"


def section(m: Measured) -> Section:
    """Over all draws: one value a draw."""
    head = ["completion time, mean s (median, 95th percentile)", *SIZE_LABELS]
    listed = []
    for policy in COMPARED:
        cells = []
        for size in SIZES:
            times = [d.of(policy)[0][_ordinary(d, size)] for d in m.draws]
            middle, tail = (float(np.mean([np.percentile(one, q) for one in times])) for q in (50, 95))
            cells.append(f"{number(mean_of(float(one.mean()) for one in times))} ({middle:.2f}, {tail:.2f})")
        listed.append([CALLED.get(policy, NAMES.get(policy, policy)), *cells])
    gained, could = (
        [mean_of(100 * d.saved(who, _ordinary(d, size)) for d in m.draws) for size in SIZES]
        for who in (CHOSEN, "fastest")
    )
    wins, loses = ([_share(m, size, sign) for size in SIZES] for sign in (-1, 1))
    x = [size / 1000 for size in SIZES]
    gain = Panel(
        "Mean completion time saved against fullmesh",
        "transfer, kB",
        "% saved",
        [
            Curve("bandit", x, gained, svg.PATHS[1], bold=True),
            Curve("hindsight: the faster start", x, could, svg.MUTED, dashed=True),
        ],
        log_x=True,
    )
    where = Panel(
        "Where the bandit wins and loses",
        "transfer, kB",
        "% of transfers",
        [
            Curve("more than 5 % faster", x, wins, svg.PATHS[1]),
            Curve("more than 5 % slower", x, loses, svg.PATHS[3]),
        ],
        log_x=True,
    )
    lead = [
        "Within the Wi-Fi's coverage, second half of the rounds, Reno. Hindsight starts always on the path that turns "
        "out faster. The second path joins a round trip after the first.",
    ]
    kinds = [
        [
            kind,
            *(number(mean_of(100 * d.saved(who, d.kind(kind)) for d in those), 1) for who in (CHOSEN, "fastest")),
            f"{sum(int(d.kind(kind).sum()) for d in those):,}",
        ]
        for kind in KINDS
        if (those := [d for d in m.draws if d.kind(kind).any()])
    ]
    split = page.table(["rounds", "the bandit saves, %", "hindsight saves, %", "rounds of all draws"], kinds)
    body = [draw([gain, where], "Gain by transfer size"), split, page.table(head, listed)]
    notes = [f"Means over {len(m.draws)} draws of the network with their intervals; percentiles: means of the draws'."]
    return Section("Completion time by transfer size", lead, body, notes)


def _ordinary(d: Draw, size: int) -> np.ndarray:
    chosen: np.ndarray = (d.size == size) & d.kind("ordinary")
    return chosen


def _share(m: Measured, size: int, sign: int) -> Mean:
    """Percent of the transfers that are more than 5 % slower (1) or faster (-1) than with Wi-Fi first."""

    def of(d: Draw) -> float:
        bandit, stock = (d.of(who)[0][_ordinary(d, size)] for who in (CHOSEN, "wifi first"))
        return 100 * float(np.mean(sign * (bandit / stock - 1) > 0.05))

    return mean_of(map(of, m.draws))
