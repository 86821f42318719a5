"""Beside others at one bottleneck: what pilot takes, and what it leaves."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from multipilot.papers.charts import draw
from multipilot.papers.page import Section, number, table
from multipilot.papers.results import KERNEL, SIM, Results
from reproductions.pilot.alone import flag
from reproductions.pilot.cells import beside, drawn_beside, place, title_of
from reproductions.pilot.judge import (
    FAIR,
    FAIR_SHARE,
    FROM_OTHERS,
    GREEDY,
    HARMS,
    KEEPS_AT_LEAST,
    SPARE,
    UNDECIDED,
    YIELDS,
    Beside,
    counted,
    tally,
    unfair_first,
)
from reproductions.pilot.pictures import Dots
from reproductions.pilot.plan import DRAWN_BESIDE, ON_KERNEL

RULE = (
    "Share: pilot's rate to that of one TCP flow of the competitors' kind in its place. Kept: the competitors' rate "
    f"beside pilot to theirs beside that flow. {HARMS.capitalize()}: less than {KEEPS_AT_LEAST} is kept. Otherwise "
    f"{FAIR} from {FAIR_SHARE[0]} to {FAIR_SHARE[1]} shares and {YIELDS} below. Above, it {SPARE} capacity where at "
    f"most {100 * FROM_OTHERS:.0f} % of what it has beyond one share is missing from the competitors' rate, and "
    f"{GREEDY} than its share elsewhere. One run decides nothing."
)
HEAD = (
    "cell | pilot,<br>Mbit/s | others,<br>Mbit/s | reference:<br>one flow | reference:<br>others | share | kept | "
    "verdict"
)


def _line(cell: Beside, name: str) -> list[str]:
    rates = (cell.own, cell.competing, cell.own_reference, cell.competing_reference)
    verdict = cell.verdict or "–"
    return [escape(name), *(number(rate, 1) for rate in rates), number(cell.share, 2), number(cell.keeps, 2),
            flag(verdict, [HARMS, GREEDY])]  # fmt: skip


def _cell_table(cells: Sequence[Beside]) -> str:
    return table(HEAD, [_line(cell, place(cell)) for cell in unfair_first(cells)], style="wide")


def shares(cells: Sequence[Beside], title: str) -> Dots:
    found = [(cell.share, verdict) for cell in cells if (verdict := cell.verdict)]
    return Dots(title, found, "pilot / one TCP flow in its place", FAIR_SHARE)


def _kept(cells: Sequence[Beside], title: str) -> Dots:
    found = [(cell.keeps, verdict) for cell in cells if (verdict := cell.verdict)]
    return Dots(title, found, "others beside pilot / beside their kind", (KEEPS_AT_LEAST, 1 / KEEPS_AT_LEAST))


def said(cells: Sequence[Beside]) -> str:
    found = tally(cell.verdict for cell in cells)
    return f"{counted(found, (FAIR, SPARE, UNDECIDED, YIELDS, GREEDY, HARMS))}." if found else ""


def _body(cells: Sequence[Beside], what: str) -> list[str]:
    if not said(cells):
        return []
    panels = [shares(cells, f"Share, {what}"), _kept(cells, f"Kept, {what}")]
    return [draw(panels, f"Shares of pilot and its competitors, {what}, sorted", height=3.4), _cell_table(cells)]


def _kernel(results: Results) -> str:
    """Other controllers at the same points too: what stock Linux would do there."""
    cells = [cell for ours in ON_KERNEL for cell in beside(results, KERNEL, ours) if cell.verdict]
    lines = [_line(cell, f"{cell.ours}, {place(cell)}") for cell in cells]
    head = HEAD.replace("pilot,", "it,")
    return table(head, lines, style="wide", title="On the Linux kernel: points chosen beforehand")


def show(results: Results) -> Section:
    cells = beside(results, SIM)
    return Section(
        "Beside others: what it takes and what it leaves",
        [
            "Two or three subflows and their competitors share one link of 40 ms a round trip. Losers first. "
            + (said(cells) or "Not measured."),
            RULE,
        ],
        [*_body(cells, "chosen cells"), _kernel(results)],
        [
            "All flows of a reference are alike, so one flow's rate is the mean of all; where one comes 15 s after the "
            "other, they are kept apart. Beside an older pilot the reference is a Reno beside an older Reno."
        ],
    )


def show_drawn(results: Results) -> Section:
    cells, title = drawn_beside(results), title_of(results, DRAWN_BESIDE)
    return Section(
        "The drawn grid beside others",
        [
            (f"{title}. " if title else "") + (said(cells) or "Not measured."),
            "A seed draws one link of 2 to 200 Mbit/s, 5 to 300 ms a round trip and a queue of 0.05 to 8 bdp; a "
            "quarter have loss up to 5 %. One to three subflows share it with one to eight TCP flows of Reno or CUBIC.",
            RULE,
        ],
        _body(cells, "drawn cells"),
    )
