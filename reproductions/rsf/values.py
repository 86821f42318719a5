"""The values that ``claims.toml`` is about, by name. Every name is there in every world, measured or not.

rowN.VARIANT             row N of table 2, in the row's reading; row7s: at eight arrivals a second
figN.VARIANT.VALUE       figures 3, 5, 6 and 7 at a value of their axis
jain.VARIANT             figure 4
eight.VARIANT            eight flows at once, all together
early., late.VARIANT     figure 9: the first ten seconds after the failure, and from ten seconds after it on
beside.VARIANT           figure 10: one of the five TCP flows beside it
shared.VARIANT           share against TCP at the full bottleneck
goal1., goal2., goal3.   RFC 6356
long.VARIANT             lasting flows on scenario 2's paths
lb.VARIANT.LOSS          goodput on two 20 ms paths; lost.VARIANT.LOSS: packets lost a second on each
queue.VARIANT.BUFFER     ms of queue on a path of its own
"""

from __future__ import annotations

from multipilot.papers.claims.claim import THEORY
from multipilot.papers.claims.quantity import Values
from multipilot.papers.results import Results
from multipilot.stats import Mean
from reproductions.rsf import fairness, theory
from reproductions.rsf.figures import between, over_time
from reproductions.rsf.printed import BDP, EIGHT_A_SECOND, TABLE, VARIANTS, Numbers, of_all, of_connection, of_rival
from reproductions.rsf.sweeps import SWEEPS

_FAILURE = ("tcp", "lia", "olia", "balia", "rsf-lb", "reno")
BUFFERS = ("40p", "170p", "1000p")


def values(results: Results, world: str) -> Values:
    if world == THEORY:
        return theory.values()
    found: dict[str, Mean] = {}
    for row in TABLE:
        numbers = Numbers(results, row, row.cell)
        for variant in VARIANTS:
            found[f"row{row.id}.{variant}"] = numbers.mean(variant, world)
            if row.id == "7":
                found[f"row7s.{variant}"] = numbers.at(EIGHT_A_SECOND).mean(variant, world)
    for sweep in SWEEPS:
        for variant in VARIANTS:
            series = sweep.series(results, world, variant)
            found |= {f"{sweep.name}.{variant}.{v}": m for (v, _), m in zip(sweep.values, series, strict=True)}
    at_4_mb = {"connections.*.bytes": "4MB", **BDP}
    for v in VARIANTS:
        found[f"jain.{v}"] = results.mean(world, "2-loss-2-percent", v, "jain", at_4_mb)
        found[f"beside.{v}"] = results.mean(world, "9-competing-tcp", v, of_rival, BDP)
        found[f"shared.{v}"] = fairness.share(results, v, world)
        found[f"long.{v}"] = results.mean(world, "2-long-flows", v, of_connection, BDP)
        found[f"eight.{v}"] = results.mean(world, "7-eight-flows", v, of_all)
        found[f"goal1.{v}"] = fairness.against_best_path(results, v, world)
        found[f"goal2.{v}"] = fairness.against_tcp(results, v, world)
        found[f"goal3.{v}"] = fairness.on_congested_path(results, v, world)
    for v in _FAILURE:
        runs = over_time(results, world, v)
        found[f"early.{v}"], found[f"late.{v}"] = between(runs, 50, 60), between(runs, 60, 95)
    for v in ("reno", "rsf-db", "rsf-lb"):
        for loss in fairness.LOSSES:
            found[f"lb.{v}.{loss}"] = results.mean(world, "target-loss", v, "goodput_mbps", {"paths.*.loss": loss})
            found[f"lost.{v}.{loss}"] = fairness.lost_a_second(results, v, loss, world)
        for queue in BUFFERS:
            found[f"queue.{v}.{queue}"] = fairness.queue_ms(results, v, queue, world)
    return found
