"""``multipilot agree``: how close the simulator is to the kernel."""

from __future__ import annotations

import json
from fnmatch import fnmatch
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from multipilot import console
from multipilot._core import ScenarioError, SimulationError
from multipilot.agree import grid, page, worlds
from multipilot.agree.bearing import bearing
from multipilot.agree.grid import Cell
from multipilot.agree.judge import FEWEST_RUNS, Judged, Verdict, Whole, judge

BUDGET = "real time for the kernel's runs; what was not reached is left for a next call"

# Of a table that no terminal wraps.
WIDE = 120

JOBS = "kernel runs at once [default: as many as are measured not to disturb each other]"

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(help="Run one grid of scenarios in the simulator and in the kernel, and show how far they differ.")
def agree(
    quick: Annotated[bool, typer.Option(help="six short cells: a few minutes, a rough answer")] = False,
    budget: Annotated[str, typer.Option(help=BUDGET)] = "60m",
    out: Annotated[Path, typer.Option(help="where the kernel's runs are kept; the same folder resumes")] = Path(
        "results/agree"
    ),
    page_: Annotated[Path | None, typer.Option("--page", help="the report [default: OUT/agree.md]")] = None,
    only: Annotated[str, typer.Option(help="cells whose name matches, e.g. 'lia-*' or '*-3pc-*'")] = "*",
    runs: Annotated[
        int | None, typer.Option(help="kernel runs of each cell [default: as the variation demands]")
    ] = None,
    jobs: Annotated[int | None, typer.Option(help=JOBS)] = None,
    json_: Annotated[bool, typer.Option("--json", help="print one JSON document and nothing else")] = False,
) -> None:
    cells = [cell for cell in (grid.quick() if quick else grid.cells()) if fnmatch(cell.name, only)]
    if not cells:
        console.fail(f"--only {only}: no such cell; there are {', '.join(c.name for c in grid.cells()[:3])}, …")
    kernel = worlds.Kernel(out, console.seconds(budget), max(1, jobs or 1))
    try:
        # Before minutes of simulation, not after.
        out.mkdir(parents=True, exist_ok=True)
        sim = _simulate(cells, worlds.FIRST_SEEDS if quick else worlds.MOST_SEEDS)
        wanted = {cell: runs or (FEWEST_RUNS if quick else worlds.kernel_runs(sim[cell])) for cell in cells}
        two_stages = not (runs or quick)
        todo = kernel.missing(kernel.second_stage(wanted) if two_stages else wanted)
        if jobs is None and not quick and todo:
            found = bearing(out)
            kernel.jobs = found.jobs
            share = f"the heaviest cell kept {100 * found.share:.1f} % of its goodput alone"
            console.say(f"{found.jobs} kernel runs at once: {share}")
        complete = _measure(kernel, wanted)
        if two_stages:
            wanted = kernel.second_stage(wanted)
            complete = _measure(kernel, wanted)
    except (ScenarioError, SimulationError, console.RunFailed) as error:
        console.fail(str(error), console.RUN_FAILED)
    except console.CannotHere as error:
        console.fail(str(error), console.CANNOT_HERE)
    except OSError as error:
        console.fail(f"{error}; choose a folder that can be written with --out")
    except KeyboardInterrupt:
        console.say(f"stopped; the same call with --out {out} goes on from here")
        raise typer.Exit(130) from None
    whole = Whole([judge(cell, sim[cell], kernel.goodputs(cell, wanted[cell])) for cell in cells])
    target = page_ or out / "agree.md"
    page.write(whole, target, kernel.failures, quick, kernel.jobs)
    if json_:
        print(json.dumps(page.document(whole, kernel.failures), indent=1))
    else:
        _show(whole)
        print(page.headline(whole))
        print(target)
    for failure in kernel.failures:
        console.say(f"failed: {failure}")
    if not complete:
        console.say(f"{len(kernel.missing(wanted))} kernel runs are missing; the same call goes on with them")
    if kernel.failures:
        raise typer.Exit(console.RUN_FAILED)


def _measure(kernel: worlds.Kernel, wanted: dict[Cell, int]) -> bool:
    missing = kernel.missing(wanted)
    if missing:
        planned = sum(run.cost_s for run in missing) / 60 / kernel.jobs
        console.say(f"{len(missing)} of {sum(wanted.values())} kernel runs to do, {planned:.0f} min")
    return kernel.measure(wanted)


def _simulate(cells: list[Cell], most: int) -> dict[Cell, list[float]]:
    found = {}
    with console.progress() as bar:
        task = bar.add_task("simulator", total=len(cells))
        for cell in cells:
            bar.update(task, description=f"simulator {cell.name}")
            found[cell] = worlds.simulate(cell, most)
            bar.advance(task)
    return found


def _show(whole: Whole) -> None:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("cell")
    for title in ("kernel, Mbit/s", "simulator, Mbit/s", "difference"):
        table.add_column(title, justify="right")
    table.add_column("")
    for judged in whole.cells:
        style = {Verdict.AGREES: "green", Verdict.OFF: "red", Verdict.UNDECIDED: "yellow"}[judged.verdict]
        verdict = f"[{style}]{judged.verdict.value}[/]"
        table.add_row(judged.cell.label, _mean(judged, "kernel"), _mean(judged, "sim"), page.gap(judged), verdict)
    stdout = Console(highlight=False)
    stdout.print(table) if stdout.is_terminal else Console(highlight=False, width=WIDE).print(table)


def _mean(judged: Judged, world: str) -> str:
    mean = judged.kernel if world == "kernel" else judged.sim
    return f"{mean.mean:.2f} ± {mean.half:.2f}" if mean.n > 1 else (f"{mean.mean:.2f}" if mean.n else "–")


def main() -> None:
    console.run(app, "agree")
