"""What the paper leaves out: RFC 6356's three goals, a bottleneck that is full, what a stock kernel has, and where
the two RSF forms are not Reno.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial

from multipilot.papers.charts import NAMES, bars_of, draw
from multipilot.papers.claims.predicate import Check, Verdict
from multipilot.papers.page import Section, number, table
from multipilot.papers.results import KERNEL, SIM, WORLDS, Results, Row, over_competing, path_mbps, ratio
from multipilot.papers.tables import on_path
from multipilot.stats import Mean
from reproductions.rsf.printed import BDP, RIVALS, SHARED_BDP, SHARED_DEEP, TABLE, Numbers, of_connection

CONTROLLERS = (*RIVALS, "wvegas", "dalia", "rsf-db", "rsf-lb", "ld-mpsp", "reno", "cubic", "bbr")
#: A goal counts as met within this margin: runs of two minutes vary by some percent.
MARGIN = 0.05
#: Of both 20 ms paths of ``target-loss``.
LOSSES = ("0.001", "0.01", "0.03")


def against_best_path(results: Results, variant: str, world: str = SIM) -> Mean:
    """Goal 1: goodput over both paths / of one TCP on the better one. At least 1."""
    return ratio(
        results.mean(world, "goal-1-throughput", variant, "goodput_mbps"),
        results.mean(world, "goal-1-throughput", "tcp", "goodput_mbps"),
    )


def against_tcp(results: Results, variant: str, world: str = SIM) -> Mean:
    """Goal 2: goodput of the connection / of the TCP flow beside it at a shared bottleneck. At most 1."""
    return results.mean(world, "goal-2-no-harm", variant, over_competing)


def on_congested_path(results: Results, variant: str, world: str = SIM) -> Mean:
    """Goal 3: share of the connection's bytes on the path that four TCP flows congest. Below that of uncoupled Reno."""

    def read(row: Row) -> float | None:
        both = sum(row["path_mbps"].values())
        return row["path_mbps"]["one"] / both if both else None

    return results.mean(world, "goal-3-balance", variant, read)


_WORDS = {Verdict.HOLDS: ("yes", "met"), Verdict.CONTRADICTED: ("no", "missed"), Verdict.UNDECIDED: ("muted", "open")}


def _verdict(check: Check, shown: Mean) -> str:
    """Missed or met only where the whole interval is."""
    if math.isnan(shown.mean):
        return number(None)
    style, word = _WORDS[check.verdict]
    return f'{number(shown)} <span class="{style}">{word}</span>'


def goals(results: Results) -> Section:
    uncoupled = on_congested_path(results, "reno")
    lines = []
    for variant in CONTROLLERS:
        first, second, third = (f(results, variant) for f in (against_best_path, against_tcp, on_congested_path))
        if not any(m.n for m in (first, second, third)):
            continue
        checks = (
            (Check(first, low=1 - MARGIN), first),
            (Check(second, high=1 + 2 * MARGIN), second),
            (Check(ratio(third, uncoupled), high=1 - 2 * MARGIN), third),
        )
        lines.append([NAMES[variant], *(_verdict(check, shown) for check, shown in checks)])
    return Section(
        f"RFC 6356's three goals, {len(lines)} controllers",
        [
            "A multipath controller should do no worse than TCP on the best path, take no more than one TCP flow "
            "from a shared bottleneck, and move off congested paths.",
        ],
        [
            table(
                " | 1 · goodput / TCP on<br>the best path (≥ 1) | 2 · goodput / TCP at a<br>shared bottleneck (≤ 1) | "
                "3 · share of bytes on<br>the congested path",
                lines,
            )
        ],
        [
            f"Simulator, runs of 120 s. Goals 1 and 2 count as met within {100 * MARGIN:.0f} % and "
            f"{200 * MARGIN:.0f} %; goal 3 where the share lies at least {200 * MARGIN:.0f} % below uncoupled "
            "Reno's. A goal is met or missed where the whole interval is, and open otherwise. Goal 2: 20 Mbit/s, "
            "40 ms, one TCP beside the connection. Goal 3: four TCP flows on one path, one on the other. BBR and CUBIC "
            "on each subflow are measured against Reno, as RFC 6356 means TCP.",
        ],
    )


def share(results: Results, variant: str, world: str = SIM, cell: Mapping[str, str] = SHARED_BDP) -> Mean:
    """Goodput of five connections over that of five TCP flows at one full link."""
    return results.mean(world, "9-shared-bottleneck", variant, over_competing, cell)


def bottleneck(results: Results) -> Section:
    names = [*RIVALS, "rsf-db", "rsf-lb", "reno", "cubic", "bbr"]
    panels = [
        bars_of(f"Buffer of {words}", names, partial(share, results, cell=cell))
        for cell, words in ((SHARED_BDP, "1 BDP (150 ms)"), (SHARED_DEEP, "1000 packets (600 ms)"))
    ]
    return Section(
        "Share against TCP where the bottleneck is full",
        [
            "What figure 10 meant to show: five connections and five TCP flows through one link of 20 Mbit/s without "
            "random loss. 1 is a TCP flow's share. These buffers pass RSF-DB's target of 100 ms.",
        ],
        [draw(panels, "Goodput of multipath connections over that of TCP flows at a shared bottleneck", height=3.2)],
    )


def built_in(results: Results) -> Section:
    lines = []
    for row in TABLE:
        numbers = Numbers(results, row, row.cell)
        best = max((numbers.mean(v) for v in RIVALS), key=lambda m: -math.inf if math.isnan(m.mean) else m.mean)
        rsf, reno, cubic, bbr = (numbers.mean(v) for v in (row.rsf, "reno", "cubic", "bbr"))
        kernel = ratio(numbers.mean("bbr", KERNEL), numbers.mean(row.rsf, KERNEL))
        if rsf.n:
            means = (best, rsf, reno, cubic, bbr, ratio(rsf, reno), ratio(rsf, bbr), kernel)
            lines.append([row.id, row.title, *map(number, means)])
    return Section(
        "What a stock kernel has: Reno, CUBIC and BBR on each subflow",
        [
            "A stock kernel runs any of its controllers on each subflow without coupling. What they do to others is in "
            "the sections on a full bottleneck and on RFC 6356's goals.",
        ],
        [
            table(
                " |  | best of LIA,<br>OLIA, BALIA | RSF as the<br>paper ran it | Reno | CUBIC | BBR | "
                "RSF / Reno | RSF / BBR | BBR / RSF,<br>kernel",
                lines,
                names=2,
                style="wide",
            )
        ],
        ["Simulator, Mbit/s in the reading of each row."],
    )


def queue_ms(results: Results, variant: str, queue: str, world: str = SIM) -> Mean:
    """Queueing delay of path 2, which the connection has to itself, over the second half of the run."""

    def queueing(row: Row) -> float | None:
        found = on_path(row, "two")
        if found is None:
            return None
        time, srtt, least = (found[name].to_numpy() for name in ("time_s", "srtt_us", "min_rtt_us"))
        late = (time > time.max() / 2) & (srtt > 0) & (least > 0)
        return float((srtt[late].astype(float) - least[late]).mean()) / 1e3 if late.any() else None

    return results.mean(world, "target-delay", variant, queueing, {"paths.*.queue": queue})


def lost_a_second(results: Results, variant: str, loss: str, world: str = SIM) -> Mean:
    """Packets marked lost a second on a path, mean of both."""

    def read(row: Row) -> float | None:
        rates = []
        for path in ("one", "two"):
            found = on_path(row, path)
            if found is None or len(found) < 2:
                return None
            time, lost = (found[name].to_numpy().astype(float) for name in ("time_s", "lost"))
            rates.append((lost[-1] - lost[0]) / (time[-1] - time[0]))
        return float(sum(rates)) / len(rates)

    return results.mean(world, "target-loss", variant, read, {"paths.*.loss": loss})


def targets(results: Results) -> Section:
    """Where the two RSF forms are Reno, and where they are not."""
    delay, held = [], []
    for queue, words in (("40p", "48 ms, below d/2"), ("170p", "200 ms, twice d"), ("1000p", "1200 ms")):
        cell = {"paths.*.queue": queue}
        for variant in ("reno", "rsf-db"):
            on = {p: results.mean(SIM, "target-delay", variant, path_mbps(p), cell) for p in ("one", "two")}
            tcp = results.mean(SIM, "target-delay", variant, "competing_mbps", cell)
            if tcp.n:
                delay.append([words, NAMES[variant], number(on["one"]), number(tcp), number(on["two"])])
        queues = [queue_ms(results, v, queue) for v in ("reno", "rsf-db")]
        if queues[0].n:
            held.append([words, *(number(m, 0) for m in queues)])
    loss = []
    for value in LOSSES:
        cell = {"paths.*.loss": value}
        reno = results.mean(SIM, "target-loss", "reno", "goodput_mbps", cell)
        lb = results.mean(SIM, "target-loss", "rsf-lb", "goodput_mbps", cell)
        if reno.n:
            lost = [lost_a_second(results, v, value) for v in ("reno", "rsf-lb")]
            loss.append([f"{100 * float(value):g} %", *map(number, (reno, lb, ratio(lb, reno), *lost))])
    same = []
    for world, name in WORLDS.items():
        mean = results.column(world, "2-long-flows", of_connection, BDP)
        lia, reno, db, lb = map(mean, ("lia", "reno", "rsf-db", "rsf-lb"))
        if db.n:
            same.append([name, *map(number, (ratio(db, lia), ratio(db, reno), ratio(lb, reno)))])
    return Section(
        "Where RSF is Reno, and where it is not",
        [
            "RSF-DB's rule is Reno's while its queue stays below d/2 = 50 ms, RSF-LB's while a path loses fewer than "
            "μ/2 = 2 packets a second in its average over time. Lasting flows on scenario 2's paths lie below both.",
        ],
        [
            table(["Scenario 2, lasting flows", "RSF-DB / LIA", "RSF-DB / Reno", "RSF-LB / Reno"], same),
            table(
                ["Buffers of 10 Mbit/s paths, ten minutes", "", "path 1, beside TCP", "that TCP", "path 2, alone"],
                delay,
                names=2,
            ),
            table(["Queue of path 2, ms; d = 100 ms", "Reno", "RSF-DB"], held),
            table(
                "Loss of two 20 ms paths; μ = 4 packets/s | Reno | RSF-LB | RSF-LB / Reno | lost/s, Reno | "
                "lost/s, RSF-LB",
                loss,
            ),
        ],
        ["Mbit/s. Queue: mean of srtt − min RTT over the second half. Loss: packets marked lost a second, each path."],
    )
