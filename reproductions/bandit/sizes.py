"""What transfers of each size gain by the choice of their first path."""

from __future__ import annotations

import numpy as np

from multipilot.papers import page
from multipilot.papers.charts import Curve, Panel, draw
from multipilot.papers.page import Section
from multipilot.report import svg
from reproductions.bandit.measure import KINDS, SIZE_LABELS, Draw
from reproductions.bandit.policies import CHOSEN, NAMES
from reproductions.bandit.stream import SIZES

COMPARED = ("wifi first", CHOSEN, "svm", "random", "single", "ndiffports", "backup", "fastest")
CALLED = {"fastest": "hindsight: the faster start", "single": "Wi-Fi alone", "ndiffports": "ndiffports on Wi-Fi"}
CALLED["backup"] = "LTE as backup"


def section(m: Draw) -> Section:
    head = ["completion time, mean s (median, 95th percentile)", *SIZE_LABELS]
    listed = []
    for policy in COMPARED:
        cells = []
        for size in SIZES:
            times = m.of(policy)[0][(m.size == size) & m.late]
            cells.append(f"{times.mean():.2f} ({np.median(times):.2f}, {np.percentile(times, 95):.2f})")
        listed.append([CALLED.get(policy, NAMES.get(policy, policy)), *cells])
    bandit, stock = (m.of(policy)[0] for policy in (CHOSEN, "wifi first"))
    gained, could, loses, wins = [], [], [], []
    for size in SIZES:
        chosen = (m.size == size) & m.late
        gained.append(m.saved(CHOSEN, chosen))
        could.append(m.saved("fastest", chosen))
        wins.append(float(np.mean(bandit[chosen] < 0.95 * stock[chosen])))
        loses.append(float(np.mean(bandit[chosen] > 1.05 * stock[chosen])))
    x = [size / 1000 for size in SIZES]
    gain = Panel(
        "Mean completion time saved against fullmesh",
        "transfer, kB",
        "% saved",
        [
            Curve("bandit", x, [100 * v for v in gained], svg.PATHS[1], bold=True),
            Curve("hindsight: the faster start", x, [100 * v for v in could], svg.MUTED, dashed=True),
        ],
        log_x=True,
    )
    where = Panel(
        "Where the bandit wins and loses",
        "transfer, kB",
        "% of transfers",
        [
            Curve("more than 5 % faster", x, [100 * v for v in wins], svg.PATHS[1]),
            Curve("more than 5 % slower", x, [100 * v for v in loses], svg.PATHS[3]),
        ],
        log_x=True,
    )
    parts = ", ".join(f"{100 * v:.0f} % at {name}" for v, name in zip(gained, SIZE_LABELS, strict=True))
    bound = ", ".join(f"{100 * v:.0f} %" for v in could)
    lead = [
        f"Mean completion time saved: {parts}. Hindsight, starting always on the path that turns out faster, "
        f"would save {bound}. The second path joins a round trip after the first.",
        f"More than 5 % slower than with Wi-Fi first: {100 * float(np.mean(loses)):.0f} % of the transfers; faster by "
        f"as much: {100 * float(np.mean(wins)):.0f} %. Second half of the rounds; Reno.",
    ]
    kinds = [
        [
            kind,
            *(f"{100 * m.saved(who, m.kind(kind)):+.0f} %" for who in (CHOSEN, "fastest")),
            f"{m.kind(kind).sum():,}",
        ]
        for kind in KINDS
        if m.kind(kind).any()
    ]
    split = page.table(["rounds", "the bandit saves", "hindsight saves", "n"], kinds)
    body = [draw([gain, where], "Gain by transfer size"), split, page.table(head, listed)]
    return Section("Completion time by transfer size", lead, body)
