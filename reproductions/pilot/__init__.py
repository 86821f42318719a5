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
values    values by name
overview  all cells in one picture, and the counts that open the page
"""

from __future__ import annotations

from multipilot.papers.paper import Item, Paper
from reproductions.pilot import ablation, alone, delay, fairness, overview, plan
from reproductions.pilot.values import values

_ALONE = (plan.LOSS, plan.LINKS, plan.WALKS)
_JUDGED = (plan.DRAWN, plan.DRAWN_BESIDE, plan.DRAWN_REFERENCE, *_ALONE, *plan.RIVAL)

PAPER = Paper(
    name="pilot",
    title="Pilot: judged against stock Linux",
    source="a report of this project, not of a paper",
    summary=overview.summary,
    experiments=plan.EXPERIMENTS,
    points=plan.POINTS,
    items=(
        Item("overview", _JUDGED, overview.show),
        Item("drawn", (plan.DRAWN,), alone.show_drawn),
        Item("drawn-fairness", (plan.DRAWN_BESIDE, plan.DRAWN_REFERENCE), fairness.show_drawn),
        Item("alone", (*_ALONE, plan.TRACE), alone.show),
        Item("fairness", tuple(plan.RIVAL), fairness.show),
        Item("delay", (plan.DELAY,), delay.show),
        Item("ablation", (plan.ABLATION_ALONE, plan.ABLATION_BESIDE), ablation.show),
    ),
    values=values,
    on_traces=plan.on_traces,
    seeds=plan.SEEDS,
)
