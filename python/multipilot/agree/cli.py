"""``multipilot agree``: how close the simulator is to the kernel, or to the relay."""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import Enum
from fnmatch import fnmatch
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from multipilot import console
from multipilot._core import ScenarioError, SimulationError, __version__
from multipilot.agree import drawn, grid, page, worlds
from multipilot.agree.bearing import bearing
from multipilot.agree.drawn import AnyCell, Trace
from multipilot.agree.judge import FEWEST_RUNS, Verdict, Whole, judge
from multipilot.children import alone
from multipilot.papers.runs import trace_pairs

BUDGET = "real time for the runs, e.g. 30m or 2h; the next call continues with the rest"

# Of a table that no terminal wraps.
WIDE = 120

JOBS = "parallel runs [default: as many as are measured not to disturb each other]"


class World(str, Enum):
    """What the simulator is held against."""

    KERNEL = "kernel"
    RELAY = "relay"


app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(help="Run one grid of scenarios in the simulator and in real time, and show how far they differ.")
def agree(
    world: Annotated[
        World, typer.Option(help="kernel: its MPTCP; relay: our relay, with each scheduler")
    ] = World.KERNEL,
    quick: Annotated[bool, typer.Option(help="six short cells: a few minutes, a rough answer")] = False,
    drawn_: Annotated[bool, typer.Option("--drawn", help="cells drawn at random in place of the chosen ones")] = False,
    seed: Annotated[str | None, typer.Option(help="with --drawn: seed of the cells [default: the version]")] = None,
    count: Annotated[
        int | None, typer.Option("--cells", min=1, help=f"with --drawn: number of cells [default: {drawn.CELLS}]")
    ] = None,
    traces: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="with --drawn: folder of Mahimahi traces, in pairs NAME.down and NAME.up"),
    ] = None,
    budget: Annotated[str, typer.Option(help=BUDGET)] = "60m",
    out: Annotated[
        Path | None,
        typer.Option(
            help="folder of the runs; the same folder resumes [default: results/agree, agree-relay or agree-drawn]"
        ),
    ] = None,
    page_: Annotated[Path | None, typer.Option("--page", help="file of the report [default: OUT/agree.md]")] = None,
    only: Annotated[str, typer.Option(help="cells whose name matches, e.g. 'lia-*' or '*-3pc-*'")] = "*",
    runs: Annotated[
        int | None, typer.Option(min=1, help="runs of each cell [default: by the variation between runs]")
    ] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help=JOBS)] = None,
    json_: Annotated[bool, typer.Option("--json", help="print one JSON document and nothing else")] = False,
) -> None:
    relay = world is World.RELAY
    if relay and quick:
        console.fail("--quick: the relay's grid is short already; choose some of it with --only")
    if drawn_ and (relay or quick):
        console.fail("--drawn: the kernel's own grid; leave out --quick and --world relay")
    if not drawn_ and any(given is not None for given in (seed, count, traces)):
        console.fail("--seed, --cells and --traces concern drawn cells: add --drawn")
    seed = (seed or __version__) if drawn_ else None
    every: Sequence[AnyCell] = grid.relay() if relay else grid.quick() if quick else grid.cells()
    if seed is not None:
        every = drawn.draw(seed, count or drawn.CELLS, _recorded(traces))
    cells = [cell for cell in every if fnmatch(cell.name, only)]
    if not cells:
        console.fail(f"--only {only}: no such cell; there are {', '.join(c.name for c in every[:3])}, …")
    out = out or Path("results/agree-relay" if relay else "results/agree-drawn" if drawn_ else "results/agree")
    # The relay itself takes part of this machine: one run at a time.
    real = worlds.RealWorld(out, console.seconds(budget), jobs or 1, world.value)
    try:
        # Before minutes of simulation, not after.
        with alone(out):
            sim = _simulate(cells, worlds.FIRST_SEEDS if quick else worlds.MOST_SEEDS, out)
            wanted = {cell: runs or (FEWEST_RUNS if quick else worlds.kernel_runs(sim[cell])) for cell in cells}
            two_stages = not (runs or quick)
            todo = real.missing(real.second_stage(wanted) if two_stages else wanted)
            if jobs is None and not quick and not relay and todo:
                found = bearing(out)
                real.jobs = found.jobs
                share = f"the heaviest cell kept {100 * found.share:.1f} % of its goodput alone"
                console.say(f"{found.jobs} runs at once: {share}")
            complete = _measure(real, wanted)
            if two_stages:
                wanted = real.second_stage(wanted)
                complete = _measure(real, wanted)
    except (ScenarioError, SimulationError, console.RunFailed) as error:
        console.fail(str(error), console.RUN_FAILED)
    except console.CannotHere as error:
        console.fail(str(error), console.CANNOT_HERE)
    except OSError as error:
        console.fail(f"{error}; choose a folder that can be written with --out")
    except KeyboardInterrupt:
        console.say(f"stopped; the same call with --out {out} goes on from here")
        raise typer.Exit(130) from None
    whole = Whole([judge(cell, sim[cell], real.goodputs(cell, wanted[cell])) for cell in cells], world.value, seed)
    target = page_ or out / "agree.md"
    try:
        page.write(whole, target, real.failures, quick, real.jobs)
    except OSError as error:
        console.fail(f"{error}; choose a file that can be written with --page")
    if json_:
        print(json.dumps(page.document(whole, real.failures), indent=1))
    else:
        _show(whole)
        print(page.headline(whole))
        print(target)
    for failure in real.failures:
        console.say(f"failed: {failure}")
    if not complete:
        console.say(f"{len(real.missing(wanted))} runs are missing; the same call goes on with them")
    if real.failures:
        raise typer.Exit(console.RUN_FAILED)


def _recorded(folder: Path | None) -> list[Trace]:
    if folder is None:
        return []
    found = [Trace(*pair) for pair in trace_pairs(folder)]
    return found or console.fail(f"--traces {folder}: no trace there (a pair NAME.up, NAME.down, or with .gz)")


def _measure(real: worlds.RealWorld, wanted: dict[AnyCell, int]) -> bool:
    missing = real.missing(wanted)
    if missing:
        planned = sum(run.cost_s for run in missing) / 60 / real.jobs
        console.say(f"{len(missing)} of {sum(wanted.values())} runs to do, {planned:.0f} min")
    return real.measure(wanted)


def _simulate(cells: list[AnyCell], most: int, out: Path) -> dict[AnyCell, list[float]]:
    found = {}
    with console.progress() as bar:
        task = bar.add_task("simulator", total=len(cells))
        for cell in cells:
            bar.update(task, description=f"simulator {cell.name}")
            found[cell] = worlds.simulated(cell, most, out)
            bar.advance(task)
    return found


def _show(whole: Whole) -> None:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("cell")
    for title in (f"{whole.world}, Mbit/s", "simulator, Mbit/s", "difference"):
        table.add_column(title, justify="right")
    table.add_column("")
    for judged in whole.cells if whole.seed is None else whole.worst:
        style = {Verdict.AGREES: "green", Verdict.OFF: "red", Verdict.UNDECIDED: "yellow"}[judged.verdict]
        verdict = f"[{style}]{judged.verdict.value}[/]"
        table.add_row(judged.cell.label, console.mean(judged.real), console.mean(judged.sim), page.gap(judged), verdict)
    stdout = Console(highlight=False)
    stdout.print(table) if stdout.is_terminal else Console(highlight=False, width=WIDE).print(table)


def main() -> None:
    console.run(app, "agree")
