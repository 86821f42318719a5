"""How much random loss MPCC bears: measured, beside its closed form and beside BBR."""

from __future__ import annotations

import math

from multipilot.papers.charts import Curve, Mark, Panel, draw
from multipilot.papers.page import Section, number, table
from multipilot.papers.results import KERNEL, SIM, Results, ratio
from multipilot.report import svg
from multipilot.stats import Mean
from reproductions.ddpg.plan import ALONE, COLOURS, LARGE, LOSS_KEY
from reproductions.ddpg.sections import Values, curves, label, resting_goodput, resting_rate

LOSSES: Values = [(f"{p / 100:g}", float(p)) for p in (0, 1, 2, 3, 4, 5, 6, 7, 8, 10)]
CONTROLLERS = ("mpcc", "mpcc-loss", "mpcc-code", "ddpg-mpcc", "lia", "reno", "cubic", "bbr")
CAPACITY = 200.0
#: Of MPCC's published code, whose rates are in bytes/s.
CODE_BETA = 11


def over_bbr(results: Results, controller: str, loss: str, world: str = SIM, scenario: str = ALONE) -> Mean:
    cell = {LOSS_KEY: loss}
    return ratio(
        results.mean(world, scenario, controller, "goodput_mbps", cell),
        results.mean(world, scenario, "bbr", "goodput_mbps", cell),
    )


def _ratio_panel(results: Results) -> Panel:
    drawn, marks = [], []
    for controller in ("mpcc", "ddpg-mpcc"):
        for scenario, words in ((ALONE, ""), (LARGE, ", large buffers")):
            found = [(x, over_bbr(results, controller, v, scenario=scenario)) for v, x in LOSSES]
            known = [(x, m) for x, m in found if m.n]
            if known:
                x, y = zip(*known, strict=True)
                name = f"{label(controller)} / BBR{words}"
                drawn.append(Curve(name, x, y, COLOURS[controller], bold=not words, dashed=bool(words)))
        for value, at in LOSSES:
            if (mean := over_bbr(results, controller, value, KERNEL)).n:
                marks.append(Mark(at, mean, COLOURS[controller], "kernel"))
    level = Curve("1", [0, 10], [1.0, 1.0], svg.MUTED, dashed=True, markers=False)
    return Panel("Over BBR on each subflow", "random loss, %", "ratio of goodputs", [*drawn, level], marks)


def _panels(results: Results) -> list[Panel]:
    fine = [x / 10 for x in range(101)]
    rest = [resting_goodput(x / 100, CAPACITY) for x in fine]
    closed = Curve("closed form X*(L)", fine, rest, svg.INK, dashed=True, markers=False)
    found = []
    for scenario, words in ((ALONE, "Linux' default buffers"), (LARGE, "Buffers of 64 MiB")):
        drawn, marks = curves(results, scenario, "goodput_mbps", LOSS_KEY, LOSSES, CONTROLLERS)
        found.append(Panel(words, "random loss of each path, %", "goodput, Mbit/s", [*drawn, closed], marks))
    return found


def _table(results: Results, scenario: str, words: str) -> str:
    lines = []
    for value, percent in LOSSES:
        mean = {
            (c, w): results.mean(w, scenario, c, "goodput_mbps", {LOSS_KEY: value})
            for c in ("mpcc", "ddpg-mpcc", "bbr")
            for w in (SIM, KERNEL)
        }
        if not mean["mpcc", SIM].n:
            continue
        rest = resting_rate(percent / 100)
        lines.append(
            [
                f"{percent:g} %",
                "∞" if math.isinf(rest) else f"{rest:,.1f}" if rest < 1e4 else f"{rest:.0e}",
                number(resting_goodput(percent / 100, CAPACITY), 1),
                *(number(mean[c, SIM], 1) for c in ("mpcc", "ddpg-mpcc", "bbr")),
                number(over_bbr(results, "mpcc", value, SIM, scenario)),
                *(number(mean[c, KERNEL], 1) for c in ("mpcc", "bbr")),
                number(over_bbr(results, "mpcc", value, KERNEL, scenario)),
            ]
        )
    head = [
        words, "X*(L),<br>Mbit/s", "closed<br>form", "MPCC", "DDPG-<br>MPCC", "BBR", "MPCC<br>/ BBR",
        "kernel:<br>MPCC", "kernel:<br>BBR", "kernel:<br>ratio",
    ]  # fmt: skip
    return table(head, lines, style="wide")


def show(results: Results) -> Section:
    return Section(
        "How much random loss MPCC bears, beside BBR",
        [
            "One connection alone over both paths. MPCC's utility X^0.9 − 11.35 L X has its peak at X*(L) = "
            "(0.9/(11.35 L))^10, in Mbit/s for the whole connection: "
            + ", ".join(f"{resting_rate(percent / 100):,.1f} at {percent} %" for percent in (4, 5, 6, 8))
            + ". In its authors' units, bytes/s with β 11 (MPCC-code), the peak is at "
            f"{resting_rate(0.02, beta=CODE_BETA) * 8e-6:.1f} Mbit/s at 2 %.",
            "Linux' default buffers are 4 MiB to send and 6 MiB to receive.",
        ],
        [
            draw(_panels(results), "Goodput over random loss, alone, with two sizes of buffers", height=4.4),
            draw([_ratio_panel(results)], "Goodput over that of BBR", height=3.4),
            _table(results, ALONE, "default<br>buffers"),
            _table(results, LARGE, "64 MiB"),
        ],
        ["60 s a run, Mbit/s of payload; “closed form”: the lower of X* and 200 Mbit/s, less loss and headers."],
    )
