"""How many runs of the kernel this machine bears at once, measured and not assumed."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from multipilot import console
from multipilot.agree.grid import Cell
from multipilot.agree.worlds import RealRun, RealWorld

# The cell that loads the machine most, for finding out how many runs it bears at once.
HEAVIEST = Cell("heaviest", "linux-reno", 0.0, 20, 50, 2, duration_s=6)
UNDISTURBED = 0.98
MOST_JOBS = 6


@dataclass(frozen=True)
class Bearing:
    """How many runs at once leave each other undisturbed, and the goodput by which that was judged (share of alone)."""

    jobs: int
    share: float


def bearing(out: Path) -> Bearing:
    """The heaviest cell alone, then more and more at once, until one of them loses more than 2 % of its goodput."""
    kernel = RealWorld(out / "bearing", budget_s=3600)
    shutil.rmtree(kernel.out, ignore_errors=True)
    seed = 0
    alone, found = 0.0, Bearing(1, 1.0)
    for count in range(1, MOST_JOBS + 1):
        kernel.jobs = count
        runs = [RealRun(HEAVIEST, seed + index + 1) for index in range(count)]
        seed += count
        kernel.do(runs)
        goodputs = [float(row["goodput_mbps"]) for run in runs if (row := run.result(kernel.out))]
        if len(goodputs) < count:
            if count == 1:
                raise console.RunFailed(kernel.failures[-1])
            break
        alone = alone or goodputs[0]
        share = min(goodputs) / alone
        if share < UNDISTURBED:
            break
        found = Bearing(count, share)
    return found
