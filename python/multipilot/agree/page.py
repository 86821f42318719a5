"""The truth report as Markdown with its drawing, and as JSON."""

from __future__ import annotations

import math
import os
import platform
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from multipilot import console
from multipilot._core import __version__
from multipilot.agree import drawn, judge
from multipilot.agree.judge import Judged, Verdict, Whole
from multipilot.agree.picture import draw
from multipilot.stats import Mean


def _how(world: str, drawn: bool) -> str:
    the = {"kernel": "the kernel", "relay": "the relay"}[world]
    chosen = DRAWN if drawn else {"kernel": KERNEL, "relay": RELAY}[world]
    return f"""\
A cell is one scenario that both worlds run: the simulator in virtual time, {the} on emulated paths in real time.
Both start from the same file; runs differ by their seed. Goodput is payload delivered in order by the connections under
test. The difference of the two means is a share of {the}'s, with Welch's 95 % interval.

- *agrees*: within {100 * judge.TOLERANCE:.0f} %, or the interval holds zero
- *undecided*: half the interval is wider than {100 * judge.WIDEST:.0f} % and the interval not wholly beyond
  {100 * judge.TOLERANCE:.0f} %, or too few runs to tell; counts as a miss
- *off*: anything else

{chosen}
Runs: n ≥ 2 (CV / 0.05)², and enough for half an interval of {100 * judge.PLANNED_HALF:.0f} %, between
{judge.FEWEST_RUNS} and {judge.MOST_RUNS}; in two stages, first with the simulator's coefficient of variation, then with
that of the real runs so far where it is larger (Stein, 1945). Other queues hold one bandwidth-delay product."""


KERNEL = """\
The cells were chosen before the kernel ran: eight controllers × loss 0, 0.1, 1, 3 % × round trip
20, 150 ms × rate 10, 50 Mbit/s × one or two paths as an orthogonal array of strength two (each level of a factor meets
each level of any other equally often), four shared bottlenecks (two subflows and one TCP flow, 20 Mbit/s, 40 ms), and
six queues without random loss (20 Mbit/s, 40 ms): CoDel and RED, each with drops and with ECN marks, and droptail
queues of 4 and 0.3 bandwidth-delay products."""

DRAWN = f"""\
The cells are drawn from the seed, each by its number: one to four unlike paths of {drawn.RANGES.rate_mbps[0]:g} to
{drawn.RANGES.rate_mbps[1]:g} Mbit/s, {drawn.RANGES.rtt_ms[0]:g} to {drawn.RANGES.rtt_ms[1]:g} ms of round trip, \
queues of {drawn.RANGES.queue[0]:g} to {drawn.RANGES.queue[1]:g} bandwidth-delay
products, half of them with {100 * drawn.RANGES.loss[0]:g} to {100 * drawn.RANGES.loss[1]:g} % of random loss, each \
uniform in the logarithm. All controllers come in turn.
A few cells are of short flows (compared by median completion), of a path that fails and returns, and of recorded
traces in place of the first path's rate."""

RELAY = """\
Each scheduler with BBR over two equal paths (30 Mbit/s, 20 ms) and over unlike ones (40 and 20 Mbit/s, 10 and 40 ms),
without loss and with 1 %. The relay gives each path a plain TCP connection and joins the stream itself; the simulator
has MPTCP with the same scheduler."""


def write(whole: Whole, page: Path, failures: list[str], quick: bool, jobs: int = 1) -> None:
    """The page and, beside it, the drawing that it shows."""
    page.parent.mkdir(parents=True, exist_ok=True)
    page.with_suffix(".svg").write_text(draw(whole), encoding="utf-8")
    page.write_text(text(whole, page.with_suffix(".svg").name, failures, quick, jobs), encoding="utf-8")


def headline(whole: Whole) -> str:
    median = whole.median_difference
    if math.isnan(median):
        return "No cell has been measured in both worlds yet."
    if whole.seed is not None:
        return _of_drawn(whole)
    return (
        f"Median |simulator − {whole.world}| {100 * median:.1f} % (aim: at most {100 * judge.MEDIAN_AIM:.0f} %); "
        f"{whole.count(Verdict.AGREES)} of {len(whole.cells)} cells agree, {100 * whole.share:.0f} % "
        f"(aim: at least {100 * judge.SHARE_AIM:.0f} %); {whole.count(Verdict.OFF)} off, "
        f"{whole.count(Verdict.UNDECIDED)} undecided, which count as misses."
    )


def _of_drawn(whole: Whole) -> str:
    off, open_ = whole.count(Verdict.OFF), whole.count(Verdict.UNDECIDED)
    worst = "; ".join(f"{judged.cell.label}: {gap(judged)}" for judged in whole.worst[:3])
    return (
        f"Median |simulator − {whole.world}| {100 * whole.median_difference:.1f} % (aim: at most "
        f"{100 * judge.MEDIAN_AIM:.0f} %: {whole.median_aim.value}); {off} of {len(whole.cells)} cells are "
        f"significantly off by more than {100 * judge.TOLERANCE:.0f} %, {open_} undecided "
        f"(aim: none: {whole.cells_aim.value}); "
        f"{100 * whole.share_significant:.0f} % of the measured cells differ significantly. Worst: {worst}."
    )


def document(whole: Whole, failures: list[str]) -> dict[str, Any]:
    return {
        "schema": 1,
        "median_difference": _number(whole.median_difference),
        "share_agreeing": _number(whole.share),
        "agrees": whole.agrees,
        "seed": whole.seed,
        "aims": {"median": whole.median_aim.value, "cells": whole.cells_aim.value},
        "share_significant": _number(whole.share_significant),
        "verdicts": {verdict.value: whole.count(verdict) for verdict in Verdict},
        "world": whole.world,
        "kernel": platform.release(),
        "multipilot": __version__,
        "failed": failures,
        "cells": [_cell(judged, whole.world) for judged in whole.cells],
    }


def text(whole: Whole, drawing: str, failures: list[str], quick: bool, jobs: int = 1) -> str:
    when = f"{datetime.now(timezone.utc):%Y-%m-%d}"
    call = " --world relay" if whole.world == "relay" else " --quick" if quick else ""
    if whole.seed is not None:
        call = f" --drawn --seed {whole.seed} --cells {len(whole.cells)}"
    unit = "Mbit/s" if whole.seed is None else "Mbit/s or ms"
    lines = [
        f"# Simulator against {whole.world}",
        "",
        f"`multipilot agree{call}` wrote this page on {when}: multipilot {__version__}, "
        f"Linux {platform.release()}, {os.cpu_count()} cores, {jobs} run{'s' if jobs > 1 else ''} at a time.",
        "",
        f"**{headline(whole)}**",
        "",
        f"![Each cell's difference with its 95 % interval, and the goodputs of both worlds]({drawing})",
        "",
        "## How to read it",
        "",
        _how(whole.world, whole.seed is not None),
        "",
        "## Cells",
        "",
        f"| cell | {whole.world}, {unit} | runs | simulator, {unit} | runs | difference | verdict |",
        "| --- | ---: | ---: | ---: | ---: | ---: | --- |",
    ]
    lines += [_line(judged) for judged in (whole.cells if whole.seed is None else whole.worst)]
    if failures:
        lines += ["", "## Runs that failed", "", *(f"- {failure}" for failure in failures)]
    return "\n".join([*lines, ""])


def _line(judged: Judged) -> str:
    real, sim = judged.real, judged.sim
    means = f"{console.mean(real)} | {real.n} | {console.mean(sim)} | {sim.n}"
    cell = judged.cell.label + (f" ({judged.cell.detail})" if judged.cell.detail else "")
    return f"| {cell.replace(' | ', ' + ')} | {means} | {gap(judged)} | {judged.verdict.value} |"


def gap(judged: Judged) -> str:
    found = judged.gap
    if math.isnan(found.mean):
        return "–"
    half = "" if math.isnan(found.half) else f" ± {100 * found.half:.1f}"
    return f"{100 * found.mean:+.1f}{half} %"


def _cell(judged: Judged, world: str) -> dict[str, Any]:
    cell = judged.cell
    return {
        **cell.facts(),
        **{f"{world}_{key}": value for key, value in _interval(judged.real).items()},
        **{f"sim_{key}": value for key, value in _interval(judged.sim).items()},
        "difference": _number(judged.gap.mean),
        "difference_half": _number(judged.gap.half),
        "verdict": judged.verdict.value,
    }


def _interval(mean: Mean) -> dict[str, float | int | None]:
    return {"mbps": _number(mean.mean), "half_mbps": _number(mean.half), "runs": mean.n}


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value
