"""Where learning helps: rewards of each actor beside MPCC's, condition by condition, and how they were learnt."""

from __future__ import annotations

from multipilot.papers.charts import Curve, Panel, draw
from multipilot.papers.page import Section, number, table
from multipilot.papers.results import Results
from multipilot.report import svg
from multipilot.stats import mean_of
from reproductions.ddpg.intervals import CONDITIONS, PLAIN, measured, who_ships


def show(results: Results) -> Section:
    found = measured(results)
    heads = [name for name in found.alone if name != PLAIN]
    rewards = []
    for condition in CONDITIONS:
        means = {name: mean_of(values[condition]) for name, values in found.alone.items()}
        if means:
            rewards.append([condition, *(number(means[name]) for name in (PLAIN, *heads) if name in means)])
    lines = []
    for name, actor in found.actors.items():
        late = [(one.late(what), digits) for what, digits in (("rate", 1), ("reward", 2)) for one in found.beside[name]]
        lines.append([name, f"<code>{actor.made_by}</code>", *(number(mean, digits) for mean, digits in late)])
    head = "actor | made by | rate beside<br>MPCC | that<br>MPCC's | reward<br>beside | that<br>MPCC's"
    training = [_training(found.training)] if found.training else []
    body = [
        table(["mean reward over 100 intervals a subflow", PLAIN, *heads], rewards),
        table(head, lines, names=2, style="wide"),
        draw(training, "Learning curves: reward in evaluation over steps", height=3.6),
    ]
    return Section(
        "Where learning helps, and where it does not",
        [
            "Reward is MPCC's utility over that of full paths without loss, what all actors are trained for."
            + ("" if lines else " Not measured."),
            f"{who_ships(results)} multipilot train trains DDPG, TD3 and twin-average DDPG; --data FOLDER puts others "
            "in.",
        ],
        body,
        [
            "First table: one connection alone, 12 evaluation seeds or more (4 with --quick), slow start included. "
            "Second: topology c, intervals 51 to 100, rates in Mbit/s a subflow."
        ],
    )


def _training(training: dict[str, list[dict[str, float]]]) -> Panel:
    curves = []
    for index, (name, entries) in enumerate(training.items()):
        tested = [e for e in entries if "reward" in e]
        x, y = [e["steps"] / 1e3 for e in tested], [e["reward"] for e in tested]
        curves.append(Curve(name, x, y, svg.PATHS[index % len(svg.PATHS)], bold=True))
    return Panel("Reward in evaluation", "thousand questions answered", "mean reward", curves, from_zero=False)
