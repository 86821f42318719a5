"""``multipilot sweep``: a grid of simulations or trainings, here or on a cluster, into one Parquet data set."""

from __future__ import annotations

import json
import os
import re
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from multipilot import console
from multipilot._core import ScenarioError
from multipilot.console import CANNOT_HERE, RUN_FAILED, fail, run, say
from multipilot.record import RecordError
from multipilot.stats import mean_of
from multipilot.sweep import cluster, dataset, pool
from multipilot.sweep.cells import Cell, simulations, trainings

INTERRUPTED = 130
ALGORITHMS = ("ddpg", "td3", "twin-average")
#: Failures that are told one by one.
TOLD = 5

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(help="Run a grid of scenarios, or training seeds, over all cores or a Ray cluster, into one data set.")
def sweep(
    scenarios: Annotated[
        list[str] | None,
        typer.Argument(metavar="[SCENARIO]...", help="scenario files, or names of built-in ones"),
    ] = None,
    controllers: Annotated[
        str, typer.Option(metavar="A,B", help="controllers in place of the scenarios' variants, one cell each")
    ] = "",
    vary: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=V1,V2", help="axis of the grid; may be repeated, also for the same key"),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="key of the scenarios, the same in all cells"),
    ] = None,
    duration: Annotated[
        str | None, typer.Option(help="upper bound of each run: seconds, or with a unit such as 500ms")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="runs of each cell")] = 1,
    first_seed: Annotated[int, typer.Option(min=0, help="seed of the first run; further runs count up from it")] = 1,
    train: Annotated[
        str, typer.Option(metavar="A,B", help=f"train actors in place of scenarios: {', '.join(ALGORITHMS)}")
    ] = "",
    rounds: Annotated[
        int | None, typer.Option(min=1, help="rounds of each training [default: as multipilot train]")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="processes on this machine [default: one per core]")
    ] = None,
    ray: Annotated[bool, typer.Option("--ray", help="run on Ray, on this machine")] = False,
    address: Annotated[str | None, typer.Option(help="address of a Ray cluster, e.g. auto or ray://head:10001")] = None,
    out: Annotated[Path, typer.Option(help="folder of the data set; runs that it holds are not repeated")] = Path(
        "results/sweep"
    ),
    as_json: Annotated[bool, typer.Option("--json", help="print the rows as one JSON document")] = False,
) -> None:
    count = workers or os.cpu_count() or 1
    try:
        cells = _cells(scenarios or [], controllers, vary or [], set_ or [], duration, seeds, first_seed, train, rounds)
        out.mkdir(parents=True, exist_ok=True)
        todo = [cell for cell in cells if not dataset.is_done(out, cell)]
        results = cluster.run_all(todo, count, address) if ray or address else pool.run_all(todo, count)
        failures, interrupted = _collect(results, out, len(cells), len(todo)) if todo else ([], False)
    except ImportError as error:
        fail(f"{cluster.NEEDS} ({error.name} is missing)", CANNOT_HERE)
    except ConnectionError as error:
        fail(f"--address {address}: no Ray cluster answers there ({str(error).splitlines()[0]})", CANNOT_HERE)
    except (ScenarioError, ValueError, OSError) as error:
        fail(_as_called(str(error), vary or []))
    try:
        rows = dataset.rows(out, cells)
    except RecordError as error:
        fail(str(error))
    _report(cells, todo, rows, failures, out, as_json)
    if interrupted:
        left = sum(not dataset.is_done(out, cell) for cell in cells)
        fail(f"interrupted with {left} of {len(cells)} runs to go: the same call goes on", INTERRUPTED)
    if failures:
        for line in failures[:TOLD]:
            say(f"multipilot: {line}")
        fail(f"{len(failures)} of {len(cells)} runs failed: the same call tries them again", RUN_FAILED)


def _cells(
    scenarios: list[str],
    controllers: str,
    vary: list[str],
    fixed: list[str],
    duration: str | None,
    seeds: int,
    first: int,
    train: str,
    rounds: int | None,
) -> list[Cell]:
    numbers = range(first, first + seeds)
    if bool(scenarios) == bool(train):
        raise ValueError("name scenarios, or algorithms by --train: the one or the other")
    if train:
        algorithms = _words(train)
        for name in algorithms:
            if name not in ALGORITHMS:
                raise ValueError(f"--train {name}: one of {', '.join(ALGORITHMS)}")
        return list(trainings(algorithms, numbers, {"rounds": rounds} if rounds else {}))
    axes: dict[str, list[str]] = {}
    for key, value in (_pair("--vary", text) for text in vary):
        axes.setdefault(key, []).extend(_words(value))
    values = dict(_pair("--set", text) for text in fixed)
    if duration and re.fullmatch(r"[\d.]+", duration):
        duration += "s"
    found = simulations(scenarios, _words(controllers), axes, values, duration, numbers)
    return list({cell.key: cell for cell in found}.values())


def _as_called(said: str, vary: list[str]) -> str:
    """Scenarios know of --set alone."""
    own = any(said.startswith(f"--set {text.partition('=')[0]}=") for text in vary)
    return said.replace("--set", "--vary", 1) if own else said


def _words(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _pair(option: str, text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip() or not value.strip():
        raise ValueError(f"{option} {text}: expected KEY=VALUE, e.g. paths.wifi.loss=0.01")
    return key.strip(), value.strip()


def _collect(results: pool.Results, out: Path, total: int, left: int) -> tuple[list[str], bool]:
    """Appends results as they come; what failed, and whether Ctrl-C ended it."""
    failures: list[str] = []
    with closing(results), console.progress() as progress:
        task = progress.add_task("sweep", total=total, completed=total - left)
        try:
            for cell, done in results:
                progress.update(task, description=cell.name[:60], advance=1)
                if done.error:
                    failures.append(done.error)
                else:
                    dataset.append(out, cell, done)
        except KeyboardInterrupt:
            return failures, True
    return failures, False


def _report(
    cells: list[Cell], todo: list[Cell], rows: list[dict[str, Any]], failures: list[str], out: Path, as_json: bool
) -> None:
    if as_json:
        document = {
            "schema": 1,
            "scenario": "sweep",
            "world": "sim",
            "data": str(out),
            "runs": len(cells),
            "already_done": len(cells) - len(todo),
            "failed": failures,
            "rows": rows,
        }
        print(json.dumps(document, indent=1))
        return
    stdout = Console(highlight=False)
    table = _summary(rows)
    stdout.print(table) if stdout.is_terminal else Console(highlight=False, width=120).print(table)
    print(out)


def _summary(rows: list[dict[str, Any]]) -> Table:
    """Means over the seeds; of trainings the last evaluation."""
    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    training = any("round" in row for row in rows)
    last: dict[str, dict[str, Any]] = {}
    for row in rows:
        if training:
            if row["reward"] is not None:
                last[row["key"]] = row
            continue
        settings = {k: v for k, v in row["settings"].items() if k != "controller"}
        where = " ".join(f"{k}={v}" for k, v in settings.items())
        groups.setdefault((row["scenario"], row["variant"], where), []).append(row)
    for row in last.values():
        groups.setdefault((row["scenario"], "", ""), []).append(row)
    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("scenario", "variant", "settings") if not training else ("algorithm", "", ""):
        table.add_column(title)
    figures = {"reward": "reward"} if training else {"goodput_mbps": "goodput, Mbit/s", "completion_s": "completion, s"}
    # Where transfers have no size, none has a time.
    figures = {key: title for key, title in figures.items() if any(row[key] is not None for row in rows)}
    for title in (*figures.values(), "runs"):
        table.add_column(title, justify="right")
    for names, found in groups.items():
        values = ([row[key] for row in found] for key in figures)
        table.add_row(*names, *map(_mean, values), str(len(found)))
    return table


def _mean(values: list[float | None]) -> str:
    """A mean leaves no run out."""
    return "–" if None in values else console.mean(mean_of(value for value in values if value is not None))


def main() -> None:
    run(app, "sweep")


if __name__ == "__main__":
    main()
