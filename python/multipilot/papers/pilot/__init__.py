"""The report on controller *pilot*: judged against stock Linux, alone and beside others. No paper, but a page alike.

plan      what is measured, and which points on the kernel; the table of mechanisms
drawn     the judging grid, drawn from a seed
judge     when a controller is better, and when it is fair
cells     cells out of results, and words for them
alone     what it carries alone, chosen cells and drawn ones
fairness  what it takes and leaves beside others
delay     how long the queues get
ablation  what each mechanism is worth
pictures  a dot for each cell
overview  all cells in one picture, and the counts that open the page
"""

from __future__ import annotations

from multipilot.papers.paper import Item, Paper
from multipilot.papers.pilot import ablation, alone, delay, fairness, overview
from multipilot.papers.pilot.plan import (
    ABLATION_ALONE,
    ABLATION_BESIDE,
    DELAY,
    DRAWN,
    DRAWN_BESIDE,
    DRAWN_REFERENCE,
    EXPERIMENTS,
    LINKS,
    LOSS,
    POINTS,
    RIVAL,
    SEEDS,
    TRACE,
    WALKS,
    on_traces,
)

_ALONE = (LOSS, LINKS, WALKS)
_JUDGED = (DRAWN, DRAWN_BESIDE, DRAWN_REFERENCE, *_ALONE, *RIVAL)

PAPER = Paper(
    name="pilot",
    title="Pilot: judged against stock Linux",
    source="a report of this project, not of a paper",
    summary=overview.summary,
    experiments=EXPERIMENTS,
    points=POINTS,
    items=(
        Item("overview", "All cells", _JUDGED, overview.show),
        Item("drawn", "The drawn grid, alone", (DRAWN,), alone.show_drawn, alone.drawn_rows),
        Item(
            "drawn-fairness",
            "The drawn grid, beside others",
            (DRAWN_BESIDE, DRAWN_REFERENCE),
            fairness.show_drawn,
            fairness.drawn_rows,
        ),
        Item("alone", "Alone", (*_ALONE, TRACE), alone.show, alone.rows),
        Item("fairness", "Beside others", tuple(RIVAL), fairness.show, fairness.rows),
        Item("delay", "Queueing delay", (DELAY,), delay.show, delay.rows),
        Item("ablation", "Ablation", (ABLATION_ALONE, ABLATION_BESIDE), ablation.show, ablation.rows),
    ),
    on_traces=on_traces,
    seeds=SEEDS,
)
