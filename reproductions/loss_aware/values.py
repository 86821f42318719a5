"""The values that ``claims.toml`` is about, by name. Every name is there in every world, measured or not.

    fig3.SIDE.KIND.LOSS      benefit under BALIA, mean over the pairs of rates; SIDE: wifi or lte, the lossy path
    pair.SIDE.KIND.LOSS      the same of the pair of 50 and 50 Mbit/s alone, which the kernel's points have too
    fig4.SIDE.KIND.RATE      Mbit/s, mean over pairs and losses at which the paper's rule acts; RATE: slow (up to 20 on
                             the lossy path) or fast
    fig5.CONTROLLER.KIND     Mbit/s over the 90 s
    walk.CONTROLLER.KIND     Mbit/s on a walk out of the Wi-Fi and back
    fig6.KIND.PATH.WHEN      Mbit/s on a path under BALIA, before, during and after the loss
    fig6.KIND.share.WHEN     the Wi-Fi's share of both
    harm.KIND                share of the verdict's cells whose benefit is below the limit
    harm3.KIND               the same of figure 3's cells
    failure.CONTROLLER.KIND.WHAT   goodput in order after the death: lowest (% of the rate that is left), full (s until
                             it is back there); used (s from the return of the path to its use). A run in which that
                             never happens counts with the time that it had. goodput: Mbit/s over the 90 s

KIND is stock, rule (MPTCP-LA, the paper's) or aware (this project's loss-aware); of harm stock, first or known. Each
value has one number a seed, so n counts seeds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from multipilot.papers.claims.quantity import Values
from multipilot.papers.results import Results
from multipilot.stats import Mean, mean_of
from reproductions.loss_aware.benefit import HARM, benefits, of
from reproductions.loss_aware.dynamic import DYNAMIC, FAILURE, HANDOVER, MANAGERS, goodputs, reactions, variant
from reproductions.loss_aware.plan import CONTROLLERS, LA, LOSS_KEY, LOSSES, LTE, RULE, WIFI
from reproductions.loss_aware.series import paths_of, runs_of
from reproductions.loss_aware.verdict import FIRST, KNOWN, STOCK, grid

SIDES = {"wifi": WIFI, "lte": LTE}
KINDS = {"stock": "fullmesh", "rule": RULE, "aware": LA}
#: Loss from which on MPTCP-LA sets a path to backup, as the paper has it.
THRESHOLDS = {"wifi": 0.0001, "lte": 0.01}
_PAIR = {"paths.wifi.rate": "50Mbit", "paths.lte.rate": "50Mbit"}
#: Seconds of figure 6's run, clear of the changes at 30 s and 60 s.
WHEN = {"before": (5, 30), "during": (33, 60), "after": (65, 89)}


def values(results: Results, world: str) -> Values:
    found: dict[str, Mean] = {}
    for side, scenario in SIDES.items():
        for kind, manager in KINDS.items():
            of_cells = partial(_by_seed, results, world, scenario, manager, side)
            for loss in LOSSES:
                found[f"fig3.{side}.{kind}.{100 * loss:g}%"] = of_cells("ben", _at(loss))
                cell = {LOSS_KEY[scenario]: f"{loss:.5f}".rstrip("0"), **_PAIR}
                found[f"pair.{side}.{kind}.{100 * loss:g}%"] = results.mean(
                    world, scenario, variant("balia", manager), "ben", cell
                )
            for name, fast in (("slow", False), ("fast", True)):
                found[f"fig4.{side}.{kind}.{name}"] = of_cells("goodput_mbps", _acted_on(THRESHOLDS[side], fast))
    for controller in CONTROLLERS:
        for manager, (name, _) in MANAGERS.items():
            kind = "rule" if manager == RULE else name.removeprefix("loss-")
            found[f"fig5.{controller}.{kind}"] = mean_of(goodputs(results, world, DYNAMIC, controller, manager))
            found[f"walk.{controller}.{kind}"] = mean_of(goodputs(results, world, HANDOVER, controller, manager))
        for kind, manager in KINDS.items():
            carried = mean_of(goodputs(results, world, FAILURE, controller, manager))
            reacted = {**reactions(results, world, controller, manager), "goodput": carried}
            found |= {f"failure.{controller}.{kind}.{what}": mean for what, mean in reacted.items()}
    for kind, manager in KINDS.items():
        found |= _rates(results, world, kind, manager)
    return found | _harm(results, world)


#: Whether cells with this loss and rate (Mbit/s) of the lossy path are to be kept.
_Kept = Callable[[float, float], bool]


def _at(wanted: float) -> _Kept:
    return lambda loss, _: math.isclose(loss, wanted)


def _acted_on(least: float, fast: bool) -> _Kept:
    return lambda loss, mbps: loss >= least and (mbps > 20) == fast


def _by_seed(
    results: Results,
    world: str,
    scenario: str,
    manager: str,
    side: str,
    column: str,
    keep: _Kept,
) -> Mean:
    """Of BALIA, one mean a seed over the cells to be kept."""
    seeds: dict[int, list[float]] = {}
    for cell, variants in results.cells(world, scenario).items():
        at = dict(cell)
        if keep(float(at[LOSS_KEY[scenario]]), float(at[f"paths.{side}.rate"].removesuffix("Mbit"))):
            for row in variants.get(variant("balia", manager), ()):
                if row.get(column) is not None:
                    seeds.setdefault(int(row["seed"]), []).append(float(row[column]))
    return mean_of(float(np.mean(one)) for one in seeds.values())


def _rates(results: Results, world: str, kind: str, manager: str) -> dict[str, Mean]:
    runs: dict[str, list[float]] = {
        f"fig6.{kind}.{what}.{when}": [] for what in ("wifi", "lte", "share") for when in WHEN
    }
    for row in runs_of(results, world, DYNAMIC, variant("balia", manager)):
        found = paths_of(row, 1.0, 89.0)
        if set(found) < {"wifi", "lte"}:
            continue
        for when, (first, last) in WHEN.items():
            rates = {}
            for path in ("wifi", "lte"):
                time = found[path].time[1:]
                rates[path] = float(found[path].rate()[(time > first) & (time <= last)].mean())
                runs[f"fig6.{kind}.{path}.{when}"].append(rates[path])
            if sum(rates.values()) > 0:
                runs[f"fig6.{kind}.share.{when}"].append(rates["wifi"] / sum(rates.values()))
    return {name: mean_of(one) for name, one in runs.items()}


def _harm(results: Results, world: str) -> dict[str, Mean]:
    cells = [b for found in grid(results, world).values() for b in found]
    shares = {}
    for name, kind in (("stock", STOCK), ("first", FIRST), ("known", KNOWN)):
        shares[f"harm.{name}"] = _share_harmed([b.each for c in CONTROLLERS for b in kind.of(cells, c)])
    printed = [b for scenario in SIDES.values() for b in benefits(results, world, scenario)]
    return shares | {
        f"harm3.{kind}": _share_harmed([b.each for b in of(printed, "balia", manager)])
        for kind, manager in KINDS.items()
    }


def _share_harmed(cells: list[Sequence[float]]) -> Mean:
    """Of cells with a benefit a seed; one share a seed."""
    seeds = min((len(one) for one in cells), default=0)
    return mean_of(float(np.mean([one[k] < HARM for one in cells])) for k in range(seeds))
