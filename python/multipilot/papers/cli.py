"""``multipilot paper NAME``: measure what a paper claims, in both worlds, and show it beside the paper's figures."""

from __future__ import annotations

import json
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import Annotated, NoReturn

import typer

from multipilot import console
from multipilot.children import alone
from multipilot.console import CANNOT_HERE, RUN_FAILED, CannotHere, RunFailed, fail, run, say
from multipilot.papers import check, overview, sample
from multipilot.papers.cost import Cost, Meter, spell
from multipilot.papers.folder import NAMES, load, reproductions
from multipilot.papers.paper import Experiment, Paper, Point
from multipilot.papers.provenance import commit, is_changed, simulator_source
from multipilot.papers.publish import as_text, locked, publish
from multipilot.papers.results import KERNEL, REAL, RELAY, SIM, Results
from multipilot.papers.runs import Runner, find_scenarios

WORLDS = {"sim": (SIM,), "kernel": (KERNEL,), "relay": (RELAY,), "all": (SIM, *REAL)}
QUICK_SEEDS = 3
INTERRUPTED = 130

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(help="Reproduce a paper: run its scenarios, and write one page with its figures beside ours.")
def paper(
    name: Annotated[str, typer.Argument(metavar="PAPER", help=" | ".join(NAMES))],
    world: Annotated[
        str | None, typer.Option(help="sim, kernel, relay or all [default: all that this machine can run]")
    ] = None,
    only: Annotated[str | None, typer.Option(metavar="ITEM,…", help="these items only, e.g. table2,fig5")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="simulator, few seeds, under two minutes")] = False,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="runs of each variant in the simulator [default: 20; pilot: 16]")
    ] = None,
    budget: Annotated[
        str,
        typer.Option(
            help="real time for kernel and relay, e.g. 30m or 2h; the next call continues with the rest. With "
            "--check --lock: time for samples"
        ),
    ] = "60m",
    jobs: Annotated[int, typer.Option(min=1, max=16, help="parallel points of kernel or relay")] = 1,
    out: Annotated[Path | None, typer.Option(help="folder of records and page [default: results/PAPER]")] = None,
    source: Annotated[
        Path | None,
        typer.Option("--from", metavar="FOLDER", help="folder of the reproductions [default: that of the checkout]"),
    ] = None,
    scenarios: Annotated[Path | None, typer.Option(help="folder of the paper's scenario files")] = None,
    traces: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="folder of Mahimahi traces, for papers with an experiment on them"),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH",
            help="paper bandit: folder of radio tests, in place of the generator; paper ddpg: folder of trained actors",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="print the figures as one JSON document")] = False,
    checked: Annotated[
        bool,
        typer.Option(
            "--check",
            help="list stale verdicts (by samples, if sources differ) and the cost of measuring again",
        ),
    ] = False,
    lock: Annotated[
        bool,
        typer.Option(
            "--lock",
            help="write the verdicts into the paper's claims.lock; with --check renew those that samples confirm",
        ),
    ] = False,
) -> None:
    if name not in NAMES:
        fail(f'there is no paper "{name}": one of {", ".join(NAMES)}')
    try:
        chosen = load(name, source)
    except ValueError as error:
        fail(str(error))
    if world not in (None, *WORLDS):
        fail(f"--world {world}: one of {', '.join(WORLDS)}")
    worlds = WORLDS[world or ("sim" if quick else "all")]
    known = [item.name for item in chosen.items]
    wanted = known if only is None else [part.strip() for part in only.split(",") if part.strip()]
    for part in wanted:
        if part not in known:
            fail(f"--only {part}: one of {', '.join(known)}")
    if data is not None and chosen.own is None:
        fail(f"--data: paper {chosen.name} has no use for it")
    if data is not None and not data.exists():
        fail(f"--data {data}: no such file or folder")
    if traces is not None:
        chosen = _with_traces(chosen, traces)
    folder = out or Path("results") / name
    seconds = console.seconds(budget)
    command = console.command()
    try:
        runner = Runner(
            paper=name,
            out=folder,
            scenarios=find_scenarios(name, scenarios),
            command=command,
            seeds=seeds or (QUICK_SEEDS if quick else chosen.seeds),
            quick=quick,
        )
        if checked:
            _check(chosen, runner, worlds, wanted, lock, seconds if lock else check.SAMPLING_S)
            return
        if lock and data is not None:
            raise ValueError("--lock with --data: the lock has the verdicts on the paper's own data alone")
        if lock:
            refuse_to_lock(chosen, runner)
        with alone(folder):
            results, refusal, failed = _measure(chosen, runner, worlds, wanted, seconds, jobs, data)
            page = publish(chosen, results, wanted, check.earlier(chosen, runner))
            (folder / "index.html").write_text(page.html, encoding="utf-8")
            (folder / "result.json").write_text(as_text(page.document), encoding="utf-8")
            if lock:
                bases = {world: check.bases(chosen, runner, world) for world in (SIM, *REAL)}
                samples = sample.kept(chosen, runner, results)
                written = locked(chosen, results, bases, samples, runner.scenarios)
                say(f"verdicts: {written}, {overview.write(reproductions())}")
    except (ValueError, OSError) as error:
        fail(str(error))
    except RunFailed as error:
        fail(str(error), RUN_FAILED)
    except KeyboardInterrupt:
        fail(f"interrupted: the same call with --out {folder} goes on where this one stopped", INTERRUPTED)
    if as_json:
        print(json.dumps(page.document, indent=1))
    else:
        print(folder / "index.html")
    if refusal is not None:
        if world not in (None, "sim"):
            fail(f"{refusal} (the page holds the simulator's part; --world sim asks for no more)", CANNOT_HERE)
        say(f"no runs in real time: {refusal}")
    if failed:
        raise typer.Exit(RUN_FAILED)


def _check(
    chosen: Paper, runner: Runner, worlds: tuple[str, ...], wanted: list[str], lock: bool, sampling_s: float
) -> None:
    """Exit code 1 if a verdict is stale or missing; of a paper without claims, if a record is."""
    if other := _other_sources(chosen, runner):
        say(f"samples are not of this checkout: {other}")
    if lock:
        refuse_to_lock(chosen, runner)
        if taken := check.take_over(chosen, runner, sampling_s):
            say(f"records of other sources taken over, their samples give the same: {', '.join(taken)}")
    claims = replace(chosen.claims, all=tuple(c for c in chosen.claims.all if c.item in wanted))
    found = check.check(replace(chosen, claims=claims), replace(runner, quick=False), worlds, sampling_s)
    lines = [*found.lines]
    for world in worlds:
        items = found.items(chosen, world) if chosen.claims.all else set(wanted)
        lines += check.costs(runner, world, *_asked(chosen, [name for name in wanted if name in items]))
    print("\n".join(lines) or f"paper {chosen.name}: all verdicts are of these sources, or of the same results")
    if lock and any(found.confirmed.values()):
        say(f"basis renewed: {check.renewed(chosen, runner, found)}")
    if lines:
        raise typer.Exit(RUN_FAILED)


def refuse_to_lock(chosen: Paper, runner: Runner) -> None:
    """A basis is of the checkout's sources, so that what ran has to be built from them, and be the whole."""
    if chosen.claims.folder is None:
        fail(f"--lock: paper {chosen.name} has no claims")
    if runner.quick:
        fail("--lock: not with --quick, which measures a part of what the claims are about")
    if other := _other_sources(chosen, runner):
        fail(f"--lock: {other}")
    if is_changed(commit(runner.scenarios)):
        fail(f"--lock: {runner.scenarios} is in a tree with changes that are in no commit: commit them first")


def _other_sources(chosen: Paper, runner: Runner) -> str:
    """Why what runs is not what the checkout has; empty where it is."""
    built = [*runner.sources.values(), *([simulator_source()] if chosen.own else [])]
    if {*built} <= {runner.checkout.whole(world) for world in (SIM, KERNEL)}:
        return ""
    return f"{runner.command} is built from other sources than {runner.checkout.root}: make build python"


def _asked(chosen: Paper, wanted: list[str]) -> tuple[list[Experiment], list[Point]]:
    """What the wanted items show."""
    scenarios = {s for item in chosen.items if item.name in wanted for s in item.scenarios}
    return (
        [e for e in chosen.experiments if e.scenario in scenarios],
        [p for p in chosen.points if p.scenario in scenarios],
    )


def _with_traces(chosen: Paper, traces: Path) -> Paper:
    if chosen.on_traces is None:
        fail(f"--traces: paper {chosen.name} has no experiment on traces")
    further = chosen.on_traces(traces)
    if not further:
        fail(f"--traces {traces}: no trace there (a pair NAME.up and NAME.down, or either with .gz)")
    return replace(chosen, experiments=(*chosen.experiments, *further))


def _measure(
    chosen: Paper,
    runner: Runner,
    worlds: tuple[str, ...],
    wanted: list[str],
    seconds: float,
    jobs: int,
    data: Path | None = None,
) -> tuple[Results, CannotHere | None, int]:
    """What was measured, why a real world refused if it did, and how many of its points failed."""
    results = Results()
    experiments, points = _asked(chosen, wanted)
    missing = [p for p in points if not runner.measure(p, results, recall=True) and p.world in worlds]
    with console.progress() as progress:
        if chosen.own is not None and any(not i.scenarios for i in chosen.items if i.name in wanted):
            own = progress.add_task("simulator  rounds and policies", total=None)
            chosen.own.measure(runner, results, SIM not in worlds, data)
            progress.remove_task(own)
        recall = SIM not in worlds
        costs = [Cost(0, 0.0) if recall else runner.cost(e) for e in experiments]
        if runs := sum(cost.runs for cost in costs):
            say(f"simulator: {runs:,} runs to do, {spell(sum(c.seconds for c in costs))} of simulated time")
        meter = Meter(progress, sum(cost.seconds for cost in costs))
        for experiment, cost in zip(experiments, costs, strict=True):
            meter.begin(experiment.key, cost)
            runner.simulate(experiment, results, recall, meter.heard)
        meter.end()
        return results, *_in_real_time(missing, runner, results, seconds, jobs, progress)


def _in_real_time(
    missing: list[Point], runner: Runner, results: Results, budget_s: float, jobs: int, progress: console.Progress
) -> tuple[CannotHere | None, int]:
    """A point begins only if by its estimate it ends within the budget."""
    failed, refusal, end = 0, None, monotonic() + budget_s
    task = progress.add_task("points", total=len(missing), visible=bool(missing))
    under_way: dict[Future[float], Point] = {}
    todo = deque(missing)
    if missing:
        rest = sum(_estimate(point, results) for point in missing) / jobs
        say(f"{len(missing)} points to measure, about {spell(rest)} in real time")
    with ThreadPoolExecutor(jobs) as pool:
        try:
            while (todo or under_way) and refusal is None:
                while todo and len(under_way) < jobs and monotonic() + _estimate(todo[0], results) <= end:
                    point = todo.popleft()
                    progress.update(task, description=f"{point.world}  {point.name}")
                    under_way[pool.submit(_timed, runner, point)] = point
                if not under_way:
                    say(f"the budget is spent with {len(todo)} points to go: call again with the same --out")
                    break
                done = next(as_completed(under_way))
                point = under_way.pop(done)
                try:
                    say(f"{point.world}: {point.name}: {done.result():.0f} s")
                except CannotHere as error:
                    refusal = error
                except RunFailed as error:
                    say(f"{point.name}: {error}")
                    failed += 1
                progress.advance(task)
        except BaseException:
            runner.children.stop()
            raise
    # In the paper's order, in whichever they ended.
    for point in missing:
        runner.measure(point, results, recall=True)
    if failed:
        say(f"{failed} points failed: call again with the same --out to try them once more")
    return refusal, failed


def _timed(runner: Runner, point: Point) -> float:
    begun = monotonic()
    runner.measure(point, Results())
    return monotonic() - begun


def _estimate(point: Point, results: Results) -> float:
    """Seconds of real time that a point will take: what its runs took in the simulator, and the setting up."""
    elapsed = results.mean(SIM, point.key, point.variant, "elapsed_s", point.cell)
    return point.runs * ((elapsed.mean if elapsed.n else 60.0) + 3.0)


def main() -> NoReturn:
    run(app, "paper")


if __name__ == "__main__":
    main()
