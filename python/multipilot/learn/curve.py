"""The learning curve as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from multipilot.papers.charts import Curve, Panel, draw
from multipilot.report import svg


def curve(entries: Sequence[Mapping[str, float]], title: str, levels: Mapping[str, float] | None = None) -> str:
    """SVG: reward over questions answered, in training (with noise) and evaluation; ``levels`` are lines to compare."""
    trained = [e for e in entries if "training_reward" in e]
    tested = [e for e in entries if "reward" in e]
    curves = [
        Curve(
            "training, with noise",
            [e["steps"] / 1e3 for e in trained],
            [e["training_reward"] for e in trained],
            svg.MUTED,
            markers=False,
        ),
        Curve("evaluation", [e["steps"] / 1e3 for e in tested], [e["reward"] for e in tested], svg.PATHS[0], bold=True),
    ]
    last = max((e["steps"] / 1e3 for e in entries), default=1.0)
    for colour, (name, level) in zip(svg.PATHS[1:], (levels or {}).items(), strict=False):
        curves.append(Curve(name, [0, last], [level, level], colour, dashed=True, markers=False))
    panel = Panel(title, "thousand questions answered", "mean reward", curves, from_zero=False)
    return draw([panel], f"Learning curve: {title}", height=3.6)
