"""Learning curves as a picture.

    python -m multipilot.learn.curve DIR … --out FILE.svg

draws those of several folders of ``multipilot train`` together.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer
from matplotlib.figure import Figure

from multipilot import console
from multipilot.console import fail
from multipilot.report import svg

Entries = Sequence[Mapping[str, float]]


def curve(runs: Mapping[str, Entries], levels: Mapping[str, float] | None = None) -> str:
    """A file of SVG: reward over questions answered, of each run in evaluation and thinly in training, where noise is
    added; ``levels`` are lines to compare with."""
    with svg.style():
        figure = Figure(figsize=(7.2, 3.6), layout="constrained")
        axes = figure.subplots()
        for colour, (name, entries) in zip(svg.PATHS, runs.items(), strict=False):
            tested = [e for e in entries if "reward" in e]
            axes.plot(
                [e["steps"] / 1e3 for e in entries], [e["training_reward"] for e in entries], color=colour, lw=0.7
            )
            axes.plot(
                [e["steps"] / 1e3 for e in tested],
                [e["reward"] for e in tested],
                "o-",
                color=colour,
                lw=2.2,
                ms=4,
                label=name,
            )
        last = max((entries[-1]["steps"] / 1e3 for entries in runs.values() if entries), default=1.0)
        for name, level in (levels or {}).items():
            axes.axhline(level, color=svg.MUTED, lw=1.2, ls=(0, (4, 2)))
            axes.annotate(name, (last, level), xytext=(0, 3), textcoords="offset points", ha="right", color=svg.MUTED)
        axes.set_xlabel("thousand questions answered")
        axes.set_ylabel("mean reward")
        axes.legend(loc="lower right", title="evaluation; thin: training")
        return svg.standalone(figure, f"Learning curves: {', '.join(runs)}")


app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(help="Draw the learning curves of trainings as one picture.")
def main(
    folders: Annotated[list[Path], typer.Argument(metavar="DIR...", help="folders that multipilot train wrote")],
    out: Annotated[Path, typer.Option(help="the picture")] = Path("curve.svg"),
    level: Annotated[list[str] | None, typer.Option(help="NAME=REWARD, a line to compare with")] = None,
) -> None:
    try:
        levels = {name: float(value) for name, _, value in (item.partition("=") for item in level or [])}
    except ValueError:
        fail(f"--level {', '.join(level or [])}: expected NAME=REWARD, e.g. MPCC=0.52")
    try:
        runs = {folder.name: json.loads((folder / "curve.json").read_text(encoding="utf-8")) for folder in folders}
        out.write_text(curve(runs, levels), encoding="utf-8")
    except (OSError, ValueError) as error:
        fail(str(error))
    print(out)


if __name__ == "__main__":
    console.run(app, "curve")
