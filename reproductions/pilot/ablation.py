"""What each of pilot's mechanisms is worth: the same cells with one left out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from html import escape
from itertools import chain
from statistics import fmean

from multipilot.papers.page import Section, table
from multipilot.papers.results import SIM, Results, Row, mean_over
from multipilot.stats import Mean
from reproductions.pilot.alone import flag
from reproductions.pilot.judge import BETTER, WORSE, judged, relative, tally
from reproductions.pilot.plan import ABLATION, ABLATION_ALONE, ABLATION_BESIDE

_BIT = re.compile(r"\bwithout=(\d+)")
#: What is looked at where: what it carries alone, what it takes and what it leaves beside another.
LOOKS: tuple[tuple[str, str, str], ...] = (
    ("goodput alone", ABLATION_ALONE, "goodput_mbps"),
    ("goodput beside Reno", ABLATION_BESIDE, "goodput_mbps"),
    ("what Reno keeps", ABLATION_BESIDE, "competing_mbps"),
)


def bit_of(row: Row) -> int:
    found = _BIT.search(row["variant"])
    return int(found[1]) if found else 0


@dataclass(frozen=True)
class Effect:
    """Of leaving one mechanism out, over all cells of one look: ratios of without to with."""

    bit: int
    look: str
    cells: int
    mean: float
    worse: int
    better: int


def _by_bit(rows: Iterable[Row], column: str) -> dict[int, Mean]:
    by_bit: dict[int, list[Row]] = {bit: [] for bit in (0, *ABLATION)}
    for row in rows:
        by_bit[bit_of(row)].append(row)
    return {bit: mean_over(found, column) for bit, found in by_bit.items()}


def effects(results: Results) -> Iterator[Effect]:
    for look, scenario, column in LOOKS:
        cells = [
            _by_bit(chain.from_iterable(variants.values()), column)
            for variants in results.cells(SIM, scenario).values()
        ]
        for bit in ABLATION:
            ratios = [ratio for cell in cells if (ratio := relative(cell[bit], cell[0])).n]
            if ratios:
                counts = tally(map(judged, ratios))
                mean = fmean(ratio.mean for ratio in ratios)
                yield Effect(bit, look, len(ratios), mean, counts[WORSE], counts[BETTER])


def show(results: Results) -> Section:
    found = list(effects(results))
    lines = [
        [
            escape(ABLATION[one.bit]),
            one.look,
            str(one.cells),
            f"{one.mean:.2f}",
            flag(str(one.worse), [str(n) for n in range(1, one.cells + 1)]),
            str(one.better),
        ]
        for one in sorted(found, key=lambda one: (one.bit, [name for name, *_ in LOOKS].index(one.look)))
    ]
    head = ["left out", "of what", "cells", "mean ratio<br>to the whole", "cells<br>worse", "cells<br>better"]
    return Section(
        "Ablation: what each mechanism is worth",
        [
            "Pilot with one mechanism left out, beside all of it: some of the cells alone, and two subflows beside one "
            "Reno. A cell is worse or better where the whole interval says so, as above."
            + ("" if lines else " Not measured."),
        ],
        [table(head, lines, names=2)],
    )
