"""The values that ``claims.toml`` is about, by name. Every name is there in every world, measured or not.

table.ROW.PHY        Gbit/s, tables 1 and 3
fig5.VARIANT.RETRIES.WHAT   WHAT: goodput, rival (Mbit/s), share (of both)
fig7.CASE.DEVICES    ms of beam training in each beacon interval; world theory
fig8.CASE            Gbit/s; fig10.CASE.DEVICES: with so many devices
fig9.CASE            Mbit/J of the radio alone, five draws of passers-by; world theory
fig11.VARIANT.WHEN   Gbit/s of the connection: before any Reno flow comes, and after all have left; swing: % of change
                     from second to second
fig12.VARIANT.SIZE   utility
cloning.SCHEDULER.SIZE.LOSS.WHAT   WHAT: p50, p99 (ms of a run's deliveries), extra (share of the bytes)
balance.SCHEDULER.SIZE             ms, median of a run's blocks
factors.CONTROLLER.SCHEDULER.MANAGER.LOSS.WHAT   WHAT: goodput (Mbit/s), rtt (ms)
"""

from __future__ import annotations

from collections.abc import Callable

from multipilot.papers.claims.claim import THEORY
from multipilot.papers.claims.quantity import Values, constant
from multipilot.papers.results import Measure, Results, Row
from multipilot.stats import Mean, mean_of
from reproductions.drones import balance, beams, cloning, factors, flows, tables, transport
from reproductions.drones.series import extra_bytes, quantile, rate_over_time

#: Seconds of figure 11: the first Reno flow comes at 10 s, the last leaves at 100 s.
WHEN = {"before": (5, 10), "after": (-10, None)}

LOSSY: dict[str, Measure] = {"goodput": "goodput_mbps", "rival": "competing_mbps", "share": flows.share}


def values(results: Results, world: str) -> Values:
    if world == THEORY:
        return _radio()
    found: dict[str, Mean] = {}
    for row in tables.ROWS:
        for phy in tables.PHYS:
            found[f"table.{row.name}.{phy.removeprefix('edmg-')}"] = tables.measured(results, row, phy, world)
    for variant in ("lia", "ld-mpsp"):
        for retries in flows.RETRIES:
            for what, read in LOSSY.items():
                cell = {flows.RETRY: str(retries)}
                found[f"fig5.{variant}.{retries}.{what}"] = results.mean(world, flows.LOSSY, variant, read, cell)
    for case in transport.NAMES:
        found[f"fig8.{case}"] = transport.gbps(results, case, world=world)
    for case in transport.COUNTED:
        for count in beams.DEVICES:
            found[f"fig10.{case}.{count}"] = transport.gbps(results, case, count, world)
    for variant in ("ld-mpsp", "dalia"):
        for when in WHEN:
            found[f"fig11.{variant}.{when}"] = results.mean(world, flows.JOINING, variant, _joined(when))
        found[f"fig11.{variant}.swing"] = results.mean(world, flows.JOINING, variant, flows.swing)
    for variant in ("lia", "ld-mpsp", "dalia"):
        for size in flows.SIZES:
            found[f"fig12.{variant}.{size}"] = results.mean(
                world, flows.DOWNLOADS, variant, flows.utility_of, {flows.SIZE: size}
            )
    for scheduler in cloning.COLOURS:
        for size in cloning.SIZES:
            for loss, share in (("0.0", "0"), ("0.2", "0.2")):
                rows = cloning.rows_at(results, scheduler, size, share, world)
                for what, of in (("p50", quantile(0.5)), ("p99", quantile(0.99)), ("extra", extra_bytes)):
                    found[f"cloning.{scheduler}.{size}.{loss}.{what}"] = mean_of(map(of, rows))
    for combination in factors.COMBINATIONS:
        for loss in factors.LOSSES:
            for name in factors.WHAT:
                value = factors.mean(results, combination, loss, name, world)
                found[".".join(["factors", *combination, loss, name])] = value
    for scheduler in balance.SCHEDULERS:
        for size in balance.SIZES:
            rows = balance.rows_at(results, scheduler, size, world)
            found[f"balance.{scheduler}.{size}"] = mean_of(map(quantile(0.5), rows))
    return found


def _radio() -> Values:
    """Frame times are certain."""
    found = {f"fig7.{row['case']}.{row['devices']}": constant(row["training_ms"]) for row in beams.training()}
    return found | {f"fig9.{case}": value for case, value in beams.efficiency().items()}


def _joined(when: str) -> Callable[[Row], float | None]:
    first, last = WHEN[when]

    def read(row: Row) -> float | None:
        if row["folder"] is None:
            return None
        return float(rate_over_time(row, 0)[first:last].mean())

    return read
