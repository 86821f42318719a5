"""A record in a notebook: a table, and pictures as Matplotlib figures in the report's light colours."""

from __future__ import annotations

import math
from html import escape
from typing import Literal

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from multipilot.record import Record
from multipilot.report import figures, grid, series, svg
from multipilot.report import summary as summaries
from multipilot.stats import Mean

# Rows of the table; a grid has thousands.
MOST_ROWS = 30


def plot(record: Record, variant: str | None) -> Figure:
    """See :meth:`Record.plot`."""
    found = summaries.variants(record)
    if not any(v.rows for v in found):
        raise ValueError("the record has no run: nothing to plot")
    with svg.light():
        return overview(record) if variant is None else _over_time(record, found, variant)


def overview(record: Record) -> Figure:
    """All variants, in the colours of a page: as bars, or as lines over the axis of a grid."""
    found = summaries.variants(record)
    lines = grid.of(found)
    if lines:
        drawn = grid.figure(lines)
        with svg.style():
            drawn.axes[0].legend()
        return drawn
    best = summaries.verdict(found).best
    singles, paths = summaries.singles(record, found), summaries.paths(record, found)
    drawn = figures.bars_figure(found, best, singles, paths)
    if any(v.path_share for v in found):
        _legend(drawn, paths, "outside lower right")
    return drawn


def _legend(figure: Figure, paths: list[str], where: Literal["upper right", "outside lower right"]) -> None:
    if len(paths) > 1:
        handles = [Line2D([], [], color=colour, lw=3, label=path) for path, colour in figures.colours(paths).items()]
        with svg.style():
            figure.legend(handles=handles, loc=where, ncols=len(paths))


def _over_time(record: Record, found: list[summaries.Variant], variant: str) -> Figure:
    names = [v.name for v in found]
    if variant not in names:
        raise KeyError(f"{variant!r} is no variant of this record: one of {', '.join(names)}")
    runs = series.runs(record, found, summaries.representative_seed(record, found))
    if not runs.get(variant):
        raise ValueError(f"{variant!r} left no telemetry: nothing to plot over time")
    top = figures.limits(list(runs.values()), series.end(runs))
    paths = summaries.paths(record, found)
    drawn = figures.timeline_figure(runs[variant], paths, top)
    drawn.suptitle(variant, x=0.02, ha="left", fontsize=10, fontweight="bold")
    drawn.subplots_adjust(top=0.9)
    _legend(drawn, paths, "upper right")
    return drawn


def table(record: Record) -> str:
    """The verdict and a line a variant."""
    found = summaries.variants(record)
    columns = [("Goodput, Mbit/s", [v.goodput for v in found]), ("Completion, s", [v.completion for v in found])]
    columns = [(name, means) for name, means in columns if any(not math.isnan(mean.mean) for mean in means)]
    head = "".join(f"<th>{name}</th>" for name in ("Variant", "Runs", *(name for name, _ in columns)))
    lines = []
    for index, variant in enumerate(found[:MOST_ROWS]):
        values = "".join(f"<td>{_value(means[index])}</td>" for _, means in columns)
        lines.append(f"<tr><td>{escape(variant.name)}</td><td>{len(variant.rows)}</td>{values}</tr>")
    more = len(found) - MOST_ROWS
    rest = f"<p>{more} more variants</p>" if more > 0 else ""
    verdict = f"<p>{escape(summaries.verdict(found).sentence)}</p>" if found else ""
    body = f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>{rest}" if found else ""
    return f"<p><code>{escape(repr(record))}</code></p>{verdict}{body}"


def _value(mean: Mean) -> str:
    if math.isnan(mean.mean):
        return "–"
    return figures.short(mean.mean) + ("" if math.isnan(mean.half) else f" ± {figures.short(mean.half)}")
