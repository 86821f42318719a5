"""``multipilot train``: train an actor for ddpg-mpcc in the simulator."""

from __future__ import annotations

import hashlib
import json
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from multipilot import console
from multipilot.console import CANNOT_HERE, fail, run, say
from multipilot.papers.provenance import package_origin

if TYPE_CHECKING:
    from multipilot.learn.training import Plan, Trainer

ALGORITHMS = ("ddpg", "td3", "twin-average")
INTERRUPTED = 130
NEEDS = "training needs JAX: pip install 'multipilot[learn]'"

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(help="Train the network that steers ddpg-mpcc, in the simulator; Ctrl-C keeps the actor trained so far.")
def train(
    algorithm: Annotated[str, typer.Argument(metavar="ALGORITHM", help=" | ".join(ALGORITHMS))] = "td3",
    seed: Annotated[int, typer.Option(help="seed of networks, noise and paths")] = 1,
    rounds: Annotated[int, typer.Option(min=1, help="rounds of training: one episode in each lane")] = 28,
    lanes: Annotated[int, typer.Option(min=1, help="parallel simulations")] = 16,
    steps: Annotated[int, typer.Option(min=2, help="decisions in an episode, over both subflows")] = 400,
    history: Annotated[int, typer.Option(min=1, max=64, help="monitor intervals that the actor sees")] = 4,
    logs: Annotated[
        int,
        typer.Option(
            min=0, help="number of first rounds in which plain MPCC steers; as many as --rounds: offline training"
        ),
    ] = 0,
    records: Annotated[
        list[Path] | None,
        typer.Option(
            "--records",
            metavar="FOLDER",
            help="record of kernel runs that the rounds of --logs learn from, in place of simulated MPCC; repeatable",
        ),
    ] = None,
    loss: Annotated[float, typer.Option(min=0, max=0.5, help="highest random loss of a lossy path")] = 0.05,
    lossy: Annotated[float, typer.Option(min=0, max=1, help="share of the paths that are lossy")] = 0.5,
    jitter: Annotated[float, typer.Option(min=0, help="largest jitter of a path, ms")] = 0.0,
    beta: Annotated[
        int | None, typer.Option(min=0, help="weight of loss in the reward, thousandths [default: the controller's]")
    ] = None,
    competing: Annotated[
        int, typer.Option(min=0, help="two connections share the paths in one of N rounds; 0: never")
    ] = 0,
    threads: Annotated[int, typer.Option(min=1, help="threads of the simulator")] = 1,
    resume: Annotated[bool, typer.Option("--resume", help="continue from the checkpoint in --out")] = False,
    out: Annotated[
        Path | None, typer.Option(help="folder of checkpoint, curve and actor [default: results/train/ALGORITHM-SEED]")
    ] = None,
    tensorboard: Annotated[
        bool, typer.Option("--tensorboard", help="write the curve as TensorBoard events to --out, too")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print the result as one JSON document")] = False,
) -> None:
    if algorithm not in ALGORITHMS:
        fail(f'there is no algorithm "{algorithm}": one of {", ".join(ALGORITHMS)}')
    try:
        from multipilot.learn.training import CHECKPOINT, Plan, Trainer, conditions
    except ImportError as error:
        fail(f"{NEEDS} ({error.name} is missing)", CANNOT_HERE)
    if records and not logs:
        fail("--records needs --logs N: the rounds that learn from them")
    folder = out or Path("results/train") / f"{algorithm}-{seed}"
    plan = Plan(
        algorithm,
        seed,
        rounds,
        lanes,
        steps,
        history,
        logs=logs,
        records=tuple(map(str, records or ())),
        competing=competing,
        threads=threads,
        task=conditions(loss, lossy, jitter, beta),
    )
    checkpoint = folder / CHECKPOINT
    if resume and not checkpoint.exists():
        fail(f"{checkpoint} is missing: there is nothing to resume; leave --resume out to begin")
    if not resume and checkpoint.exists():
        fail(f"{checkpoint} exists: --resume goes on from it, another --out begins anew")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        trainer = Trainer.resume(plan, folder) if resume else Trainer.begin(plan)
        interrupted = _run(trainer, folder, _events(folder) if tensorboard else None)
    except (ValueError, OSError) as error:
        fail(str(error))
    if not trainer.curve:
        fail("interrupted in the first round: nothing was learnt yet", INTERRUPTED)
    given = {"loss": (loss, 0.05), "lossy": (lossy, 0.5), "jitter": (jitter, 0.0), "beta": (beta, None)}
    others = "".join(f" --{name} {value:g}" for name, (value, default) in given.items() if value != default)
    document = finish(trainer, folder, others)
    if as_json:
        print(json.dumps(document, indent=1))
    else:
        print(document["actor"])
    if interrupted:
        fail(f"interrupted after round {trainer.round}: --resume goes on", INTERRUPTED)


def _events(folder: Path) -> Any:
    """Where TensorBoard reads; only ``--tensorboard`` needs its package."""
    try:
        from tensorboard.summary import Writer
    except ImportError as error:
        fail(
            f"--tensorboard needs TensorBoard: pip install 'multipilot[tensorboard]' ({error.name} is missing)",
            CANNOT_HERE,
        )
    return Writer(str(folder))


def _run(trainer: Trainer, folder: Path, events: Any) -> bool:
    """Rounds until the plan is done, with a checkpoint after each; whether Ctrl-C ended it."""
    stop: list[int] = []

    def heed(number: int, _: Any) -> None:
        stop.append(number)
        if len(stop) > 1:  # twice: now
            raise KeyboardInterrupt
        say("stopping after this round (again: at once)")

    before = signal.signal(signal.SIGINT, heed)
    try:
        with console.progress() as progress:
            task = progress.add_task("training", total=trainer.plan.rounds, completed=trainer.round)
            while trainer.round < trainer.plan.rounds and not stop:
                trainer.run_round()
                trainer.save(folder)
                last = trainer.curve[-1]
                if events:
                    for name in last.keys() - {"round", "steps"}:
                        events.add_scalar(name, last[name], int(last["steps"]))
                    events.flush()
                if "reward" in last:
                    beside = f", beside a competing flow {last['competing']:.3f}" if "competing" in last else ""
                    text = f"round {trainer.round}: reward {last['reward']:.3f}{beside}, loss {last['loss']:.4f}"
                    progress.console.print(text, markup=False)
                progress.update(task, completed=trainer.round)
    except KeyboardInterrupt:
        pass
    finally:
        signal.signal(signal.SIGINT, before)
        if events:
            events.close()
    return bool(stop)


def origin(plan: Plan, rounds: int, conditions: str = "") -> str:
    """The command that makes an actor again, and the sources that it needs for that."""
    return (
        f"multipilot train {plan.algorithm} --seed {plan.seed} --rounds {rounds} --lanes {plan.lanes} "
        f"--steps {plan.steps} --history {plan.history}"
        + (f" --logs {plan.logs}" if plan.logs else "")
        + "".join(f" --records {folder}" for folder in plan.records)
        + conditions
        + (f" --competing {plan.competing}" if plan.competing else "")
        + f", {package_origin()}"
    )


def finish(trainer: Trainer, folder: Path, conditions: str = "") -> dict[str, Any]:
    """Writes actor and curve; the document that ``--json`` prints. ``conditions``: options of other conditions."""
    from multipilot.learn.curve import curve
    from multipilot.learn.networks import export
    from multipilot.learn.training import ACTOR, merit

    plan = trainer.plan
    made_by = origin(plan, trainer.round, conditions)
    file = folder / ACTOR
    export(trainer.best or trainer.state.actor, file, made_by)
    levels = trainer.levels()
    picture = curve({f"{plan.algorithm}, seed {plan.seed}": trainer.curve}, levels)
    (folder / "curve.svg").write_text(picture, encoding="utf-8")
    evaluated = [entry for entry in trainer.curve if "reward" in entry]
    return {
        "schema": 1,
        "algorithm": plan.algorithm,
        "seed": plan.seed,
        "rounds": trainer.round,
        "steps": trainer.curve[-1]["steps"],
        "actor": str(file),
        "sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
        "made_by": made_by,
        "evaluation": max(evaluated, key=merit, default=None),
        "levels": levels,
        "rows": trainer.curve,
    }


def main() -> None:
    run(app, "train")


if __name__ == "__main__":
    main()
