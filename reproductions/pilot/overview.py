"""All cells in one picture, and the counts that open the page."""

from __future__ import annotations

from multipilot.papers.charts import draw
from multipilot.papers.page import Section
from multipilot.papers.results import KERNEL, SIM, Results
from reproductions.pilot import alone, fairness
from reproductions.pilot.cells import alone as alone_cells
from reproductions.pilot.cells import alone_at, beside, drawn_beside
from reproductions.pilot.plan import DRAWN


def summary(results: Results) -> list[str]:
    """Counts, all of them from the data; the drawn grid first, on which nothing was tuned."""
    parts = (
        ("Alone, drawn from a seed", alone.said(list(alone_at(results, SIM, DRAWN)))),
        ("Alone, chosen", alone.said(alone_cells(results, SIM))),
        ("Beside others, drawn from a seed", fairness.said(drawn_beside(results))),
        ("Beside others, chosen", fairness.said(beside(results, SIM))),
        ("Alone, on the Linux kernel", alone.said(alone_cells(results, KERNEL))),
        ("Beside others, on the Linux kernel", fairness.said(beside(results, KERNEL))),
    )
    return [f"{name}: {counts}" for name, counts in parts if counts]


def show(results: Results) -> Section:
    cells = (
        ("drawn", list(alone_at(results, SIM, DRAWN)), drawn_beside(results)),
        ("chosen", alone_cells(results, SIM), beside(results, SIM)),
    )
    panels = [[alone.dots(a, f"Alone, {what}"), fairness.shares(b, f"Beside others, {what}")] for what, a, b in cells]
    rows = [row for row in panels if any(panel.dots for panel in row)]
    label = "Ratios of pilot to the best other controller alone, and its shares beside others"
    return Section(
        "All cells",
        [
            "A dot for each cell, sorted, with its 95 % interval. Alone: pilot's goodput to that of the best other "
            "controller. Beside others: to that of one TCP flow in its place. The grey bands are level and fair."
            + ("" if rows else " Not measured."),
        ],
        [draw(row, label, height=3.2) for row in rows],
    )
