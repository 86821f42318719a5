"""Figures 3 and 4: the benefit over loss, and throughput of the stock connection against the aware one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from multipilot.papers.charts import draw
from multipilot.papers.page import Section, number, table
from multipilot.papers.results import KERNEL, SIM, Results
from multipilot.papers.spread import Boxes, Cloud, Scatter, Series
from multipilot.report import svg
from multipilot.stats import Mean, mean_of
from reproductions.loss_aware.benefit import Benefit, benefits, of, over_seeds
from reproductions.loss_aware.plan import LA, LOSS_KEY, LOSSES, LTE, RULE, WIFI

SIDES = {WIFI: "Wi-Fi", LTE: "LTE"}
STOCK_COLOUR, LA_COLOUR, MA_COLOUR, KNOWN_COLOUR = svg.PATHS[1], svg.PATHS[0], svg.PATHS[2], svg.PATHS[3]
RULE_COLOUR = svg.PATHS[4]
#: By path manager, in the order of the page: the paper's rule stands before ours.
KINDS = {"fullmesh": ("stock", STOCK_COLOUR), RULE: ("MPTCP-LA", RULE_COLOUR), LA: ("loss-aware", LA_COLOUR)}
#: By loss, from light to heavy.
LOSS_COLOURS = (svg.PATHS[5], svg.PATHS[2], svg.PATHS[0], svg.PATHS[3], svg.PATHS[4])


def percent(loss: float) -> str:
    return f"{100 * loss:g} %"


def with_loss(found: Sequence[Benefit], scenario: str, loss: float) -> list[Benefit]:
    return [b for b in found if math.isclose(float(b.at(LOSS_KEY[scenario]) or "nan"), loss)]


def _series(manager: str, scenario: str, sim: list[Benefit], kernel: list[Benefit]) -> Series:
    def values(found: list[Benefit]) -> list[list[float]]:
        mine = of(found, "balia", manager)
        return [[b.mean.mean for b in with_loss(mine, scenario, loss)] for loss in LOSSES]

    return Series(*KINDS[manager], values(sim), values(kernel))


def _median_of_pairs(found: Sequence[Benefit], scenario: str, loss: float, manager: str) -> Mean:
    return over_seeds(with_loss(of(found, "balia", manager), scenario, loss), median)


def show_benefit(results: Results) -> Section:
    panels, rows = [], []
    for scenario, name in SIDES.items():
        sim, kernel = (benefits(results, world, scenario) for world in (SIM, KERNEL))
        letter = "a" if scenario == WIFI else "b"
        panels.append(
            Boxes(
                f"{letter} · loss on the {name}",
                [percent(loss) for loss in LOSSES],
                [_series(manager, scenario, sim, kernel) for manager in KINDS],
                f"loss on the {name}",
                "benefit of aggregation",
                rule=0.0,
            )
        )
        for loss in LOSSES if sim else ():
            cells = with_loss(of(sim, "balia", "fullmesh"), scenario, loss)
            rows.append(
                [
                    name,
                    percent(loss),
                    *(number(_median_of_pairs(sim, scenario, loss, manager)) for manager in KINDS),
                    number(mean_of(b.with_maximum for b in cells).mean),
                    number(over_seeds(cells)),
                ]
            )
    head = (
        "lossy path | loss | stock, median<br>of the pairs | MPTCP-LA,<br>the same | loss-aware,<br>the same | "
        "stock, mean with<br>the best Cᵢ | stock, mean with<br>the median Cᵢ"
    )
    return Section(
        "Figure 3: the benefit of aggregation over loss",
        [
            "BALIA over 25 pairs of rates, 10 to 50 Mbit/s each, with fixed buffers as in the paper. A benefit of 1 "
            "is the sum of both paths, 0 the better path alone; below 0 the user is better off without multipath. "
            "In the paper's text it is zero or negative from 0.01 % of loss on the Wi-Fi on, from 1 % on the LTE on.",
        ],
        [
            draw(panels, "Box plots of the benefit of aggregation by loss: stock, MPTCP-LA and loss-aware", height=4.0),
            table(head, rows, names=2),
        ],
        [
            "Each box is made of the pairs' means over the seeds; squares are runs on the Linux kernel. Medians are "
            "over the pairs in one seed, with the interval over the seeds. The paper's Cᵢ is the best of ten "
            "single-path runs, here of one for each seed, which makes every benefit lower; the verdict further down "
            "uses the median.",
            "The paper prints its figures as pictures alone, so its values can be compared by what its text says "
            "of them. Buffers are fixed at 4 and 6 MiB; the paper does not say its size. The verdict has buffers that "
            "tune themselves.",
        ],
    )


def _clouds(sim: list[Benefit], kernel: list[Benefit], scenario: str, manager: str) -> list[Cloud]:
    def pairs(found: list[Benefit], loss: float) -> list[tuple[float, float]]:
        stock = {b.cell: b.goodput.mean for b in with_loss(of(found, "balia", "fullmesh"), scenario, loss)}
        aware = {b.cell: b.goodput.mean for b in with_loss(of(found, "balia", manager), scenario, loss)}
        return [(stock[cell], aware[cell]) for cell in stock if cell in aware]

    return [
        Cloud(percent(loss), colour, pairs(sim, loss), pairs(kernel, loss))
        for loss, colour in zip(LOSSES, LOSS_COLOURS, strict=True)
    ]


def show_throughput(results: Results) -> Section:
    rows = []
    for manager in (RULE, LA):
        who = KINDS[manager][0]
        panels = []
        for letter, (scenario, name) in zip("ab", SIDES.items(), strict=True):
            sim, kernel = (benefits(results, world, scenario) for world in (SIM, KERNEL))
            clouds = _clouds(sim, kernel, scenario, manager)
            panels.append(Scatter(f"{letter} · loss on the {name}", clouds, "stock, Mbit/s", f"{who}, Mbit/s"))
        rows.append(draw(panels, f"Throughput with {who} over stock throughput, one dot a pair of rates", height=5.0))
    return Section(
        "Figure 4: throughput, stock against MPTCP-LA and loss-aware",
        [
            "The same runs. Above the line awareness is faster. The paper finds it much faster where the lossy "
            "Wi-Fi has more than 20 Mbit/s, comparable below.",
        ],
        rows,
        ["One dot a pair of rates and loss, means over the seeds."],
    )
