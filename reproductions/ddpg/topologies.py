"""Figures 4 and 5 and the sweep of rates: one connection over two paths beside single-path ones."""

from __future__ import annotations

from multipilot.papers.charts import Panel, draw
from multipilot.papers.page import Section, lines, table
from multipilot.papers.results import KERNEL, SIM, Measure, Results, path_mbps
from reproductions.ddpg import plan
from reproductions.ddpg.sections import Values, curves, label, of_rivals

QUEUES: Values = [(f"{p}p", float(p)) for p in (5, 10, 25, 50, 100, 200, 400, 1000)]
LOSSES: Values = [(f"{p / 100:g}", float(p)) for p in (0, 1, 2, 3, 4, 5, 6, 8, 10)]
SECOND_RATES: Values = [(f"{r}Mbit", float(r)) for r in (20, 50, 100, 200)]
#: The paper's default.
DEFAULT = {plan.QUEUE_KEY: "400p"}


def _panels(results: Results, scenario: str, axis: str, values: Values, x: str, log_x: bool, rival: str) -> list[Panel]:
    both: list[tuple[str, Measure]] = [("The connection over both paths", "goodput_mbps"), (rival, of_rivals)]
    return [
        Panel(title, x, "goodput, Mbit/s", *curves(results, scenario, measure, axis, values), log_x=log_x)
        for title, measure in both
    ]


def _table(results: Results, scenario: str, cell: dict[str, str], words: str) -> str:
    here: tuple[Measure, ...] = ("goodput_mbps", path_mbps("one"), path_mbps("two"), of_rivals)
    columns = [results.column(SIM, scenario, m, cell) for m in here]
    columns += [results.column(KERNEL, scenario, m, cell) for m in (here[0], of_rivals)]
    body = [
        [name, plan.RIVAL_NAMES[plan.RIVAL_OF[controller]], *cells]
        for controller in plan.CONTROLLERS
        for name, *cells in lines([controller], *columns, label=label, digits=1)
    ]
    head = (
        f"{words} | beside | goodput | path 1 | path 2 | a competing<br>flow | kernel:<br>goodput | "
        "kernel: a<br>competing flow"
    )
    return table(head, body, names=2)


def show_buffers(results: Results) -> Section:
    axis = "buffer of each path, packets"
    panels = _panels(results, plan.BUFFERS, plan.QUEUE_KEY, QUEUES, axis, True, "The competing flow on path 2")
    return Section(
        "Figure 4, topology a: the size of the buffers",
        [
            "The paper says: a multipath connection that does not exploit path 1, which it has alone, becomes more "
            "aggressive on path 2 and leaves less to the single-path connection there. It prints no values, so the "
            "claim is what can be compared.",
        ],
        [
            draw(panels, "Goodput over the size of the buffers, topology a", height=4.4),
            _table(results, plan.BUFFERS, DEFAULT, "400 packets, Mbit/s"),
        ],
        [
            "Two paths of 100 Mbit/s and 40 ms, runs of 60 s; full paths carry 94.7 Mbit/s of payload each. The "
            "competing flows are of the connection's own kind (table): PCC is MPCC without siblings."
        ],
    )


def show_loss(results: Results) -> Section:
    axis = "random loss of each path, %"
    panels = _panels(results, plan.LOSS, plan.LOSS_KEY, LOSSES, axis, False, "Each competing flow")
    return Section(
        "Figure 5, topology b: random loss",
        [
            "The paper says: MPTCP's window rules yield to loss at once, MPCC keeps its throughput and only falls at a "
            "loss several times as high. It prints no values.",
        ],
        [
            draw(panels, "Goodput over random loss, topology b", height=4.4),
            _table(results, plan.LOSS, {plan.LOSS_KEY: "0.02"}, "2 % loss, Mbit/s"),
        ],
        ["100 Mbit/s, 40 ms and 400 packets a path, 60 s, a competing single-path flow of the own kind on each."],
    )


def show_rates(results: Results) -> Section:
    axis = "rate of path 2, Mbit/s"
    panels = _panels(results, plan.RATES, plan.RATE_KEY, SECOND_RATES, axis, True, "Mean of the competing flows")
    columns = [results.column(SIM, plan.RATES, "goodput_mbps", {plan.RATE_KEY: rate}) for rate, _ in SECOND_RATES]
    body = lines(plan.CONTROLLERS, *columns, label=label, digits=1)
    return Section(
        "Topology b: paths of unlike rate",
        [
            "The paper varies bandwidth and shows no figure of it. The second path has 20 to 200 Mbit/s, the first "
            "100; a competing single-path flow of the connection's own kind is on each."
        ],
        [
            draw(panels, "Goodput over the rate of the second path", height=4.4),
            table(["Mbit/s", *(f"path 2: {r:.0f}" for _, r in SECOND_RATES)], body),
        ],
    )
