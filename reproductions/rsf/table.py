"""Table 2, with every controller and both worlds."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

import numpy as np

from multipilot.papers.charts import NAMES
from multipilot.papers.page import Section, number, table
from multipilot.papers.results import KERNEL, SIM, Results
from multipilot.simulation import default_mss
from multipilot.stats import Mean
from multipilot.theory.fluid import Network, WindowFluid
from multipilot.theory.rules import RULES
from reproductions.rsf.printed import DEEP, RIVALS, TABLE, Numbers, TableRow

#: RTT (s), loss and rate (Mbit/s) of the two paths, for the rows whose flows last long enough for a fluid model.
FLUID: dict[str, tuple[tuple[float, float, float], tuple[float, float, float]]] = {
    "2": ((0.15, 0.02, 10), (0.15, 0.02, 10)),
    "3": ((0.15, 0.10, 10), (0.15, 0.10, 10)),
    "4": ((0.15, 0.04, 20), (0.15, 0.04, 80)),
    "5": ((0.02, 0.03, 20), (0.02, 0.03, 20)),
    "6": ((0.15, 0.03, 20), (0.15, 0.0, 20)),
    "9": ((0.15, 0.02, 20), (0.15, 0.02, 20)),
}


def fluid(row: TableRow, controller: str) -> float | None:
    """Mbit/s in the row's reading by the fluid model: a connection has a fifth of each path."""
    if row.id not in FLUID or controller not in RULES:
        return None
    rtt, loss, rate = np.array(FLUID[row.id]).T
    capacity = rate * 1e6 / (1500 * 8) / 5
    model = WindowFluid(RULES[controller], Network.separate(rtt, loss, capacity, rtt))
    run = model.run(np.full(2, 4.0), 400, points=2)
    mbit = default_mss() * 8e-6
    each = float(model.rates(run)[:, -1].sum()) * mbit
    # A link that is full carries what it can: the fluid's queue rests where its loss meets the rule's.
    each = min(each, float(capacity.sum()) * mbit)
    return each * 5 if row.reading == "total" else each


COLUMNS = ("tcp", *RIVALS, "rsf-db", "rsf-lb", "reno", "cubic", "bbr")


def _cells(values: Iterable[Mean | float | None], gain: Mean | float | None) -> str:
    return "".join(f"<td>{number(v)}</td>" for v in values) + f'<td class="claim">{number(gain)}</td>'


def _lines(numbers: Numbers) -> list[str]:
    row = numbers.row
    paper = [row.paper.get("rsf" if v == row.rsf else v) for v in COLUMNS]
    lines = [f"<tr><td>paper</td>{_cells(paper, numbers.paper_gain)}</tr>"]
    shown = {"connection": "a connection", "total": "all together", "path": "a path"}
    means: list[Mean | float | None] = [numbers.mean(v) for v in COLUMNS]
    lines.append(f"<tr><td>simulator, {shown[row.reading]}</td>{_cells(means, numbers.gain())}</tr>")
    for reading in ("connection", "total"):
        if reading != row.reading:
            also = [None if v == "tcp" and row.tcp_competes else numbers.mean(v, SIM, reading).mean for v in COLUMNS]
            lines.append(f"<tr><td>simulator, {shown[reading]}</td>{_cells(also, None)}</tr>")
    kernel = [numbers.mean(v, KERNEL) for v in COLUMNS]
    if any(m.n for m in kernel):
        lines.append(f"<tr><td>kernel, {shown[row.reading]}</td>{_cells(kernel, numbers.gain(KERNEL))}</tr>")
    predicted = [fluid(row, v) for v in COLUMNS]
    if any(p is not None for p in predicted):
        best = max(p for v in RIVALS if (p := fluid(row, v)) is not None)
        rsf = fluid(row, row.rsf)
        lines.append(f"<tr><td>fluid model</td>{_cells(predicted, rsf / best if rsf else None)}</tr>")
    return lines


def show(results: Results) -> Section:
    """The whole of table 2."""
    head = ["", *(escape(NAMES[v]).replace(", ", ",<br>") for v in COLUMNS), "RSF / best<br>of the three"]
    body = []
    for row in TABLE:
        numbers = Numbers(results, row, row.cell)
        span = len(head)
        form = NAMES[row.rsf]
        body.append(
            f'<tr class="row"><td colspan="{span}">{row.id} · {escape(row.title)} · the paper ran {form}</td></tr>'
        )
        body += _lines(numbers)
        body.append(f'<tr class="why"><td colspan="{span}">{escape(row.note)}</td></tr>')
    html = (
        '<table class="wide"><thead><tr>'
        + "".join(f"<th>{h}</th>" for h in head)
        + "</tr></thead><tbody>"
        + "".join(body)
    )
    return Section(
        "Table 2: every scenario",
        [
            "Connections of two subflows, but for row 0, which has one path; five at a time, but for row 7. The "
            "paper's column RSF is one form or the other; ours has both, and what the paper leaves out: the same "
            "kernel with uncoupled Reno, and with CUBIC or BBR on each subflow. Buffers hold one bandwidth-delay "
            "product.",
        ],
        [html + "</tbody></table>"],
        [
            "Mbit/s. A connection's rate is over its own time; all together are over the time in which any of them "
            "runs. The fluid model knows lasting flows alone: no slow start, no timeouts, no end of file. In row 9 the "
            "first column is one of the five competing TCP flows beside RSF. A ratio needs all three others.",
        ],
    )


def show_deep(results: Results) -> Section:
    """Table 2 again with buffers of 1000 packets."""
    lines = []
    for row in TABLE:
        deep = {**row.cell, **DEEP}
        numbers, shallow = Numbers(results, row, deep), Numbers(results, row, row.cell)
        means = [numbers.mean(v) for v in COLUMNS]
        if not any(m.n for m in means):
            continue
        lines.append([row.id, escape(row.title), *map(number, (*means, numbers.gain(), shallow.gain()))])
    head = ["", "", *(escape(NAMES[v]).replace(", ", ",<br>") for v in COLUMNS), "RSF / best", "the same,<br>1 BDP"]
    return Section(
        "Table 2 with buffers of 1000 packets",
        [
            "The paper does not say how large its buffers were. Netem's default of 1000 packets is one to many times a "
            "bandwidth-delay product on these paths." + ("" if lines else " Not measured here."),
        ],
        [table(head, lines, names=2, style="wide")],
        ["Simulator, Mbit/s, in the reading of each row."],
    )
