"""One cell in one world.

The simulator runs in this process; its values are kept until its sources change. The kernel and the relay run through
``multipilot compare``, one run a folder, and their runs are kept: they cost real time.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any

from multipilot import console, simulation
from multipilot.agree.drawn import AnyCell
from multipilot.agree.judge import runs_needed
from multipilot.children import Children, wait_for
from multipilot.files import replacing
from multipilot.papers.provenance import simulator_source
from multipilot.record import disturbed
from multipilot.stats import mean_of

# So many that the simulator's share of an interval is small beside the kernel's.
FIRST_SEEDS = 16
MOST_SEEDS = 128
SIM_HALF = 0.02

# All paths of a run together: how many such runs this machine bears at once is measured (see `bearing`).
BORNE_MBPS = 100.0

# What a run costs beside its duration: namespaces, emulated paths, hashing, removal.
OVERHEAD_S = 3.0


def simulate(cell: AnyCell, most: int = MOST_SEEDS) -> list[float]:
    """The cell's values (goodputs in Mbit/s) over enough seeds for an interval of ± 2 %, or ``most`` of them."""
    count = min(FIRST_SEEDS, most)
    while True:
        record = simulation.simulate(cell.scenario(), seeds=count, telemetry=False)
        goodputs = [value for row in record.row_dicts if (value := cell.value(row)) is not None]
        if count >= most or mean_of(goodputs).relative_half <= SIM_HALF:
            return goodputs
        count = min(most, 2 * count)


def simulated(cell: AnyCell, most: int, out: Path) -> list[float]:
    """As :func:`simulate`; kept as long as neither the cell nor the simulator changes."""
    kept = out / "sim" / f"{cell.folder}-{most}-{simulator_source()}.json"
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        goodputs = simulate(cell, most)
        with replacing(kept) as fresh:
            fresh.write_text(json.dumps(goodputs), encoding="utf-8")
    values: list[float] = json.loads(kept.read_text(encoding="utf-8"))
    return values


def kernel_runs(goodputs: Sequence[float]) -> int:
    """How many runs the kernel needs where runs vary as these do."""
    mean = mean_of(goodputs)
    return runs_needed(mean.std / mean.mean if mean.mean else 0.0)


@dataclass(frozen=True)
class RealRun:
    cell: AnyCell
    seed: int

    def folder(self, out: Path) -> Path:
        return out / "runs" / self.cell.folder / f"seed-{self.seed:03}"

    def document(self, out: Path) -> dict[str, Any]:
        """What the run left behind; empty where that is nothing."""
        try:
            document: dict[str, Any] = json.loads((self.folder(out) / "result.json").read_text(encoding="utf-8"))
        except (OSError, json.JSONDecodeError):
            return {}
        return document

    def result(self, out: Path) -> dict[str, Any] | None:
        """The row of a finished run that nothing disturbed."""
        rows = self.document(out).get("rows") or []
        whole = rows and not disturbed(rows[0]) and self.cell.value(rows[0]) is not None
        return dict(rows[0]) if whole else None

    def problem(self, out: Path) -> str:
        """Why there is no result, as far as the run left word of it."""
        document = self.document(out)
        notes = [note for row in document.get("rows") or [] for note in disturbed(row)]
        return "; ".join([*notes, *(str(failure["error"]) for failure in document.get("failed") or [])])

    @property
    def cost_s(self) -> float:
        return self.cell.duration_s + OVERHEAD_S


UnderWay = dict[Future["str | None"], RealRun]


@dataclass
class RealWorld:
    """The real side of a grid: what is done, what is wanted, and a budget of real time for the difference."""

    out: Path
    budget_s: float
    jobs: int = 1
    world: str = "kernel"
    failures: list[str] = field(default_factory=list)
    end: float | None = None
    children: Children = field(default_factory=Children)

    def goodputs(self, cell: AnyCell, runs: int) -> list[float]:
        """Of the runs that nothing disturbed."""
        rows = (RealRun(cell, seed).result(self.out) for seed in range(1, runs + 1))
        done = (cell.value(row) for row in rows if row)
        return [value for value in done if value is not None]

    def missing(self, wanted: dict[AnyCell, int]) -> list[RealRun]:
        """In turns over the cells, so that a budget that ends early leaves all of them about equally well known."""
        rounds = range(1, max(wanted.values(), default=0) + 1)
        runs = (RealRun(cell, seed) for seed in rounds for cell, count in wanted.items() if seed <= count)
        return [run for run in runs if run.result(self.out) is None]

    def measure(self, wanted: dict[AnyCell, int]) -> bool:
        """Do what is missing until it is done (True) or the budget is spent (False)."""
        self.do(self.missing(wanted))
        return not self.missing(wanted)

    def second_stage(self, first: dict[AnyCell, int]) -> dict[AnyCell, int]:
        """What is wanted once the first runs show how much the kernel varies (Stein, Ann. Math. Stat. 16, 1945).

        A cell whose first runs are not all there stays as it was.
        """
        wanted = {}
        for cell, count in first.items():
            goodputs = self.goodputs(cell, count)
            wanted[cell] = max(count, kernel_runs(goodputs)) if len(goodputs) == count else count
        return wanted

    def do(self, todo: Sequence[RealRun]) -> None:
        self.end = end = self.end or monotonic() + self.budget_s
        with console.progress() as bar, ThreadPoolExecutor(self.jobs) as pool:
            task = bar.add_task("real time", total=sum(run.cost_s for run in todo))
            under_way: UnderWay = {}
            try:
                for run in todo:
                    while under_way and not self._fits(run, under_way):
                        self._collect(under_way, bar, task)
                    if monotonic() + run.cost_s > end:
                        continue
                    bar.update(task, description=f"{run.cell.name} seed {run.seed}")
                    under_way[pool.submit(self._run, run)] = run
                while under_way:
                    self._collect(under_way, bar, task)
            except BaseException:
                self.children.stop()
                raise

    def _fits(self, run: RealRun, under_way: UnderWay) -> bool:
        load = run.cell.mbps + sum(other.cell.mbps for other in under_way.values())
        return len(under_way) < self.jobs and load <= self.jobs * BORNE_MBPS

    def _collect(
        self, under_way: dict[Future[str | None], RealRun], bar: console.Progress, task: console.TaskID
    ) -> None:
        future = next(as_completed(under_way))
        run = under_way.pop(future)
        error = future.result()
        if error:
            self.failures.append(f"{run.cell.name} seed {run.seed}: {error}")
        bar.advance(task, run.cost_s)

    def _run(self, run: RealRun) -> str | None:
        """The error's line where the run failed. A machine that cannot do it ends everything."""
        folder = run.folder(self.out)
        wait_for(folder)
        if run.result(self.out):
            return None
        # What an earlier call left here is no result.
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        # Another run of this cell may be at its own.
        scenario = folder.with_suffix(".toml")
        scenario.write_text(run.cell.scenario(), encoding="utf-8")
        call = [console.command(), "compare", str(scenario), "--world", self.world, "--seeds", "1"]
        call += ["--set", f"seed={run.seed}", "--out", str(folder), "--json"]
        code, lines = self.children.run(call)
        last = lines[-1] if lines else f"exit code {code}"
        if code == console.CANNOT_HERE:
            raise console.CannotHere(last)
        return None if run.result(self.out) else run.problem(self.out) or last
