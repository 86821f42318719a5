"""Figures 4 and 5 and the sweep of rates: one connection over two paths beside single-path ones."""

from __future__ import annotations

from multipilot.papers.charts import Panel, draw
from multipilot.papers.ddpg.plan import (
    BUFFERS,
    CONTROLLERS,
    LOSS,
    LOSS_KEY,
    QUEUE_KEY,
    RATE_KEY,
    RATES,
    RIVAL_NAMES,
    RIVAL_OF,
)
from multipilot.papers.ddpg.sections import Values, curves, label, of_rivals, on_path
from multipilot.papers.page import Section, number, table
from multipilot.papers.results import KERNEL, SIM, Measure, Results

QUEUES: Values = [(f"{p}p", float(p)) for p in (5, 10, 25, 50, 100, 200, 400, 1000)]
LOSSES: Values = [(f"{p / 100:g}", float(p)) for p in (0, 1, 2, 3, 4, 5, 6, 8, 10)]
SECOND_RATES: Values = [(f"{r}Mbit", float(r)) for r in (20, 50, 100, 200)]
#: The paper's default.
DEFAULT = {QUEUE_KEY: "400p"}


def _panels(
    results: Results, scenario: str, axis: str, values: Values, x_label: str, log_x: bool, rival: str
) -> list[Panel]:
    mine, marks = curves(results, scenario, "goodput_mbps", axis, values)
    theirs, their_marks = curves(results, scenario, of_rivals, axis, values)
    return [
        Panel("The connection over both paths", x_label, "goodput, Mbit/s", mine, marks, log_x=log_x),
        Panel(rival, x_label, "goodput, Mbit/s", theirs, their_marks, log_x=log_x),
    ]


def _table(results: Results, scenario: str, cell: dict[str, str], words: str) -> str:
    measures: list[Measure] = ["goodput_mbps", on_path("one"), on_path("two"), of_rivals]
    lines = []
    for controller in CONTROLLERS:
        here = [results.mean(SIM, scenario, controller, m, cell) for m in measures]
        kernel = [results.mean(KERNEL, scenario, controller, m, cell) for m in (measures[0], measures[3])]
        if here[0].n:
            rival = RIVAL_NAMES[RIVAL_OF[controller]]
            lines.append([label(controller), rival, *(number(m, 1) for m in here), *(number(m, 1) for m in kernel)])
    head = [words, "beside", "goodput", "path 1", "path 2", "a rival", "kernel:<br>goodput", "kernel:<br>a rival"]
    return table(head, lines, names=2)


def show_buffers(results: Results) -> Section:
    return Section(
        "fig4",
        "Figure 4, topology a: the size of the buffers",
        [
            "The paper says: a multipath connection that does not exploit path 1, which it has alone, becomes more "
            "aggressive on path 2 and leaves less to the single-path connection there. It prints no values, so the "
            "claim is what can be compared.",
        ],
        [
            draw(
                _panels(
                    results, BUFFERS, QUEUE_KEY, QUEUES, "buffer of each path, packets", True, "Its rival on path 2"
                ),
                "Goodput over the size of the buffers, topology a",
                height=4.4,
            ),
            _table(results, BUFFERS, DEFAULT, "400 packets, Mbit/s"),
        ],
        [
            "Two paths of 100 Mbit/s and 40 ms, runs of 60 s; full paths carry 94.7 Mbit/s of payload each. Rivals "
            "are of the connection's own kind (table): PCC is MPCC without siblings."
        ],
    )


def show_loss(results: Results) -> Section:
    return Section(
        "fig5",
        "Figure 5, topology b: random loss",
        [
            "The paper says: MPTCP's window rules yield to loss at once, MPCC keeps its throughput and only falls at a "
            "loss several times as high. It prints no values.",
        ],
        [
            draw(
                _panels(results, LOSS, LOSS_KEY, LOSSES, "random loss of each path, %", False, "Each of its rivals"),
                "Goodput over random loss, topology b",
                height=4.4,
            ),
            _table(results, LOSS, {LOSS_KEY: "0.02"}, "2 % loss, Mbit/s"),
        ],
        ["100 Mbit/s, 40 ms and 400 packets a path, a single-path rival of the connection's own kind on each, 60 s."],
    )


def show_rates(results: Results) -> Section:
    lines = []
    for controller in CONTROLLERS:
        found = [results.mean(SIM, RATES, controller, "goodput_mbps", {RATE_KEY: v}) for v, _ in SECOND_RATES]
        if any(m.n for m in found):
            lines.append([label(controller), *(number(m, 1) for m in found)])
    return Section(
        "bandwidth",
        "Topology b: paths of unlike rate",
        [
            "The paper varies bandwidth and shows no figure of it. The second path has 20 to 200 Mbit/s, the first "
            "100; a single-path rival of the connection's own kind is on each."
        ],
        [
            draw(
                _panels(results, RATES, RATE_KEY, SECOND_RATES, "rate of path 2, Mbit/s", True, "Mean of its rivals"),
                "Goodput over the rate of the second path",
                height=4.4,
            ),
            table(["Mbit/s", *(f"path 2: {r:.0f}" for _, r in SECOND_RATES)], lines),
        ],
    )
