"""How often multipath does harm, by controller: without awareness, with it, cold start and warm start."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from multipilot.papers.charts import NAMES, draw, short
from multipilot.papers.page import Section, number, table
from multipilot.papers.results import KERNEL, SIM, Results
from multipilot.papers.spread import Boxes, Series
from reproductions.loss_aware.benefit import BEYOND, HARM, HEADER, WIDEST, Benefit, Verdict, benefits, of, verdict
from reproductions.loss_aware.pictures import KNOWN_COLOUR, LA_COLOUR, STOCK_COLOUR
from reproductions.loss_aware.plan import BEFORE, CONTROLLERS, LA, REST, V_BOTH, V_CLEAN, V_LTE, V_WIFI

SETS = {
    V_WIFI: "loss on the Wi-Fi, 0.001 to 10 %, 25 pairs of rates",
    V_LTE: "loss on the LTE, 0.001 to 10 %, 25 pairs of rates",
    V_CLEAN: "no loss, rates as 1 to 20, buffers of 20 to 1000 packets",
    V_BOTH: "loss on both, 0.1 to 5 % each",
}


@dataclass(frozen=True)
class Kind:
    """What is compared: without awareness, with it at a cold start, and at a warm start."""

    name: str
    manager: str
    known: bool
    colour: str

    def of(self, found: Iterable[Benefit], controller: str) -> list[Benefit]:
        return of(found, controller, self.manager, self.known)


STOCK = Kind("stock", "fullmesh", False, STOCK_COLOUR)
FIRST = Kind("loss-aware, cold start", LA, False, LA_COLOUR)
KNOWN = Kind("loss-aware, warm start", LA, True, KNOWN_COLOUR)
KINDS = (STOCK, FIRST, KNOWN)
#: By scenario.
Grid = Mapping[str, list[Benefit]]


def grid(results: Results, world: str) -> Grid:
    return {name: benefits(results, world, name) for name in SETS}


def judged(cells: Grid, kind: Kind, controllers: Sequence[str] = CONTROLLERS) -> Verdict | None:
    """Over all sets of the grid."""
    return verdict(b for found in cells.values() for c in controllers for b in kind.of(found, c))


def verdict_line(name: str, who: str, found: Verdict) -> list[str]:
    return [
        name,
        who,
        str(found.cells),
        _count(found.harmed),
        f"{100 * found.harmed / found.cells:.1f} %",
        _count(found.beyond),
        f"{found.undecided} ({found.open})",
        f"{100 * found.missed / found.cells:.0f} %",
        f"{found.mean:+.2f}",
        f"{found.lowest:+.2f}",
    ]


def _count(harmed: int) -> str:
    return f'<span class="{"no" if harmed else "muted"}">{harmed}</span>'


HEAD = (
    " |  | cells | significantly<br>worse | share | beyond MPTCP's<br>own header | undecided (of<br>these may harm) | "
    "missed, with<br>the undecided | mean<br>benefit | lowest"
)


def totals(cells: Grid, kinds: Sequence[Kind] = KINDS) -> list[list[str]]:
    """A line for each controller and kind, and the sums where there are several controllers."""
    groups: list[tuple[str, tuple[str, ...]]] = [(NAMES[c], (c,)) for c in CONTROLLERS]
    if len({b.controller for found in cells.values() for b in found}) > 1:
        groups.append(("all", CONTROLLERS))
    return [
        verdict_line(name, kind.name, found)
        for name, controllers in groups
        for kind in kinds
        if (found := judged(cells, kind, controllers))
    ]


def _by_set(cells: Grid) -> list[list[str]]:
    lines = []
    for name, found in cells.items():
        for controller in CONTROLLERS:
            kinds = [v for kind in KINDS if (v := verdict(kind.of(found, controller)))]
            if len(kinds) > 1:
                counts = [(v.harmed, v.beyond, v.open, f"{v.mean:+.2f}") for v in kinds]
                arrows = (" → ".join(map(str, column)) for column in zip(*counts, strict=True))
                lines.append([escape(SETS[name]), short(controller), str(kinds[0].cells), *arrows])
    return lines


ARROWS = "stock → cold start → warm start"
BY_SET = f"{ARROWS} |  | cells | significantly<br>worse | beyond the<br>header | undecided,<br>may harm | mean benefit"


def _side_by_side(cells: Grid, left: Iterable[Benefit]) -> list[list[str]]:
    """These cells as all kinds found them."""
    every = {(b.scenario, b.cell, b.controller, b.manager, b.known): b for found in cells.values() for b in found}
    lines = []
    for b in left:
        kinds = [every.get((b.scenario, b.cell, b.controller, kind.manager, kind.known)) for kind in KINDS]
        lines.append(
            [
                short(b.controller),
                escape(", ".join(f"{key.removeprefix('paths.')} {value}" for key, value in b.cell)),
                *(number(one.mean, 2) if one else "–" for one in kinds),
                f"{b.goodput.mean:.1f}",
                f"{b.best_single:.1f}",
            ]
        )
    return lines


SIDE_BY_SIDE = ["", "cell", "benefit,<br>stock", "cold<br>start", "warm<br>start", "Mbit/s", "best path<br>alone"]


def _worst(cells: Grid, most: int = 12) -> list[Benefit]:
    """The cells in which awareness leaves harm, lowest first: warm start, where that was measured."""
    every = [b for found in cells.values() for b in found]
    last = KNOWN if any(b.known for b in every) else FIRST
    harmed = [b for c in CONTROLLERS for b in last.of(every, c) if b.harms]
    return sorted(harmed, key=lambda b: b.mean.mean)[:most]


ON_KERNEL = "On the Linux kernel: points chosen beforehand"
ON_KERNEL_KNOWN = "On the Linux kernel, points of these once more: warm start"


def show(results: Results) -> Section:
    cells, points = grid(results, SIM), grid(results, KERNEL)
    again = [b for found in points.values() for b in found if b.known]
    values = [
        (kind, [[b.mean.mean for found in cells.values() for b in kind.of(found, c)] for c in CONTROLLERS])
        for kind in KINDS
    ]
    boxes = Boxes(
        "Benefit over all cells",
        [*map(short, CONTROLLERS)],
        [Series(kind.name, kind.colour, one) for kind, one in values if any(one)],
        "",
        "benefit of aggregation",
        rule=0.0,
    )
    body = [
        table(HEAD, totals(cells), names=2, style="wide"),
        draw([boxes] if boxes.series else [], "Box plots of the benefit of all cells by controller", height=3.6),
        *(
            table(head, lines, names=2, style="wide", title=title)
            for title, head, lines in (
                (ON_KERNEL, HEAD, totals(points, (STOCK, FIRST))),
                (ON_KERNEL_KNOWN, SIDE_BY_SIDE, _side_by_side(points, again)),
                ("By kind of cell", BY_SET, _by_set(cells)),
                ("Where awareness still leaves harm, lowest first", SIDE_BY_SIDE, _side_by_side(cells, _worst(cells))),
            )
        ),
    ]
    return Section(
        "The verdict: how often is multipath worse than the better path alone?",
        [
            f"A cell is significantly worse where the whole 95 % interval of its benefit lies below −{-HARM}; the aim "
            f"with awareness is none. An interval wider than ±{WIDEST} is undecided, and counted as missed even where "
            "all of it lies far above zero. MPTCP's own header takes 1.9 % of each packet's payload, so a connection "
            f"that uses nothing but the better path has a benefit of −{HEADER}: harm beyond the header is where the "
            f"whole interval lies below −{-BEYOND:.3f}.",
            "Awareness is judged twice. Cold start: a transfer of 30 s begins with paths of which nothing is known, "
            f"and what it costs until something is counts. Warm start: a transfer of {BEFORE} s has gone over "
            f"them, {REST} s later the one of 30 s begins that is measured, against the same baselines.",
        ],
        body,
        [
            "Buffers tune themselves, as on a user's machine. The single paths' Cᵢ are medians over the seeds and "
            "count as known; the interval is that of the multipath runs. A benefit above zero is measured against the "
            "worse path's rate, so where that path is slow or very lossy a few hundred kbit/s make a wide interval.",
            "The stock runs and the single paths remember nothing of an earlier transfer (Linux' cache of metrics is "
            "not modelled), so both verdicts share them. The earlier transfer still delivers what it had sent when its "
            "time was up; where that takes longer than the pause, both compete. By kind of cell, arrows lead from "
            "stock over the cold start to the warm start.",
        ],
    )
