"""Alone on its paths: what pilot carries beside the best of the others, chosen cells and drawn ones."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from statistics import fmean

from multipilot.papers.charts import NAMES, draw, short
from multipilot.papers.page import Section, number, table
from multipilot.papers.results import KERNEL, SIM, Results
from reproductions.pilot.cells import alone, alone_at, title_of, words
from reproductions.pilot.judge import MARGIN, ORDER, WIDEST, WORSE, Alone, counted, judged, losers_first, tally
from reproductions.pilot.pictures import Dots
from reproductions.pilot.plan import ALONE, DRAWN, OTHERS, PILOT, TRACE

SHORT = {PILOT: "pilot", **{name: short(name) for name in OTHERS}}
RULE = (
    f"The ratio is pilot's mean to that of the best other controller, with Welch's 95 % interval of the difference. "
    f"Better or worse: the whole interval lies more than {100 * MARGIN:.0f} % from 1. Undecided: it does not, and is "
    f"wider than ±{100 * WIDEST:.0f} %. The best other is chosen by the same runs, cell by cell, which favours it."
)


def flag(verdict: str, bad: Sequence[str]) -> str:
    return f'<span class="no">{verdict}</span>' if verdict in bad else verdict


def _line(cell: Alone, name: str) -> list[str]:
    return [
        escape(name),
        *(number(cell.goodput[c], 1) for c in ALONE),
        SHORT.get(cell.best or "", "–"),
        number(cell.ratio, 2),
        flag(cell.verdict, [WORSE]),
    ]


def _cell_table(cells: Sequence[Alone], title: str = "") -> str:
    head = ["cell", *(f"{SHORT[c]},<br>Mbit/s" for c in ALONE), "best<br>other", "ratio", "verdict"]
    return table(head, [_line(cell, _name(cell)) for cell in losers_first(cells)], style="wide", title=title)


def _name(cell: Alone) -> str:
    where = cell.scenario.removeprefix(f"{TRACE} ") + ": " if cell.scenario.startswith(f"{TRACE} ") else ""
    return where + words(cell.cell)


def dots(cells: Sequence[Alone], title: str) -> Dots:
    found = [(cell.ratio, cell.verdict) for cell in cells if cell.ratio.n]
    return Dots(title, found, "pilot / best other", (1 - MARGIN, 1 + MARGIN))


def _against_each(cells: Sequence[Alone]) -> str:
    """Pilot against every other by itself: the best of several is a hard opponent."""
    lines = []
    for other in OTHERS:
        ratios = [ratio for cell in cells if (ratio := cell.to(other)).n]
        if ratios:
            counts = tally(map(judged, ratios))
            mean = fmean(ratio.mean for ratio in ratios)
            lines.append([NAMES[other], str(len(ratios)), *(str(counts[v]) for v in ORDER), f"{mean:.2f}"])
    return table(["pilot against", "cells", *ORDER, "mean ratio"], lines)


def _body(cells: Sequence[Alone], what: str) -> list[str]:
    if not said(cells):
        return []
    title = f"Alone, all {what} cells"
    picture = draw([dots(cells, title)], f"{title}: a dot for each cell, sorted, with its interval", height=3.4)
    return [picture, _against_each(cells), _cell_table(cells)]


def said(cells: Sequence[Alone]) -> str:
    """Counts as a sentence; empty where nothing was measured."""
    known = [cell for cell in cells if cell.ratio.n]
    if not known:
        return ""
    mean = fmean(cell.ratio.mean for cell in known)
    return f"{counted(tally(cell.verdict for cell in known), ORDER[::-1])}; mean ratio {mean:.2f}."


def show(results: Results) -> Section:
    cells = alone(results, SIM)
    points = [cell for cell in alone(results, KERNEL) if cell.ratio.n]
    body = [*_body(cells, "chosen"), _cell_table(points, "On the Linux kernel: points chosen beforehand")]
    return Section(
        "Alone: what it carries",
        [
            "One connection over two unlike paths, 10 and 74 ms a round trip unless the cell says otherwise: random "
            "loss, short and managed queues, jitter, bursts, unequal and varying rates. Losers first. "
            + (said(cells) or "Not measured."),
            RULE,
        ],
        body,
        ["Chosen cells, on some of which the controller was tuned; the drawn grid has cells that it was not."],
    )


def show_drawn(results: Results) -> Section:
    cells = list(alone_at(results, SIM, DRAWN))
    title = title_of(results, DRAWN)
    return Section(
        "The drawn grid: links that nobody chose",
        [
            (f"{title}. " if title else "") + (said(cells) or "Not measured."),
            "A seed draws one to four paths of 2 to 200 Mbit/s, 5 to 300 ms a round trip and queues of 0.05 to 8 bdp; "
            "half of them have loss up to 5 %, a third jitter up to 10 ms. Rules of pilot were changed after a look "
            "at the cells of the shipped draw.",
            "A path is named by its rate, round trip, queue, loss and, after a +, jitter.",
            RULE,
        ],
        _body(cells, "drawn"),
        ["Another seed: python -m reproductions.pilot.drawn SEED FOLDER, then --scenarios FOLDER."],
    )
