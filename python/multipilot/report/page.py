"""The page itself: one HTML file that needs nothing else, on any screen or on paper."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime, timezone
from html import escape
from importlib import resources
from pathlib import Path
from statistics import median
from typing import Any

from multipilot._core import __version__
from multipilot.record import Record
from multipilot.report import figures, grid, series, svg
from multipilot.report import summary as summaries
from multipilot.report.summary import Variant
from multipilot.stats import Mean

# Variants drawn over time before the rest is folded away.
MOST_OPEN = 8
# Lines of the scenario before it is folded away.
MOST_LINES = 40

Columns = list[tuple[str, str, list[Mean]]]


def write(record: Record, out: str | Path) -> Path:
    """Write the report of ``record`` to ``out`` and return its path."""
    out = Path(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(render(record), encoding="utf-8")
    return out


def render(record: Record) -> str:
    """The report as one self-contained HTML document."""
    found = summaries.variants(record)
    verdict = summaries.verdict(found)
    seed = summaries.representative_seed(record, found)
    paths = summaries.paths(record, found)
    singles = summaries.singles(record, found)
    heading = title(record)
    seeds = len({row.get("seed") for row in record.row_dicts})
    body = [
        "<header>",
        f'<p class="over"><span class="pill">{escape(_world(record))}</span>{escape(record.scenario)} · '
        f"{_size(found)} · {_plural(seeds, 'seed')}</p>",
        f"<h1>{escape(heading)}</h1>",
        _description(record),
        f'<p class="verdict">{escape(verdict.sentence)}</p>',
        "</header>",
        _warnings(summaries.warnings(record, found)),
        "<h2>Which does better</h2>",
        f'<p class="note">{_explain(seeds, grid.of(found) is not None, summaries.goal(found))}</p>',
        _pictures(found, verdict.best, singles, paths),
        _cells(found),
        "<h2>In figures</h2>",
        f'<div class="card scroll">{_table(found, verdict.best)}</div>',
        _over_time(record, found, seed, paths),
        "<h2>What was run</h2>",
        f'<div class="card">{_facts(record)}</div>',
        _scenario(record),
    ]
    return document(heading, body)


def document(title: str, body: Sequence[str], more_css: str = "") -> str:
    """A self-contained HTML document of these parts, in the style of all pages."""
    css = resources.files("multipilot.report").joinpath("style.css").read_text(encoding="utf-8") + more_css
    now = datetime.now(timezone.utc)
    footer = f"<footer>multipilot {escape(__version__)} drew this on {now:%Y-%m-%d %H:%M} UTC.</footer>"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)} – multipilot</title>\n<style>\n{css}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(part for part in [*body, footer] if part)
        + "\n</main>\n</body>\n</html>\n"
    )


def _pictures(found: list[Variant], best: frozenset[str], singles: dict[str, list[float]], paths: list[str]) -> str:
    """Lines over a grid's axis, else bars."""
    lines = grid.of(found)
    if lines:
        return grid.picture(lines)
    drawn = figures.bars(found, best, singles, paths) if found else []
    return f'<div class="card panels">{"".join(drawn)}</div>' if drawn else ""


def _cells(found: list[Variant]) -> str:
    """What these runs say of each cell of a grid."""
    each = summaries.verdicts(found)
    if len(each) < 2:
        return ""
    choices = {v.name: v.choice for v in found}
    rows = []
    for cell, (verdict, clear) in each.items():
        best = ", ".join(choices[name] for name in verdict.best) if clear else "–"
        sentence = verdict.sentence
        for name in sorted(choices, key=len, reverse=True):
            sentence = sentence.replace(name, choices[name])
        rows.append(f"<tr><td>{escape(cell)}</td><td>{escape(best)}</td><td>{escape(sentence)}</td></tr>")
    head = f"<th>Cell</th><th>Clearly best</th><th>{summaries.goal(found).title}</th>"
    table = f'<table class="words"><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table>'
    unfolded = " open" if len(each) <= MOST_LINES else ""
    return f'<details{unfolded}><summary>Cell by cell</summary><div class="card scroll">{table}</div></details>'


def title(record: Record) -> str:
    scenario = record.document.get("scenario")
    named = scenario.get("title") if isinstance(scenario, dict) else record.document.get("title")
    return str(named or record.scenario_table.get("title") or record.scenario or "A comparison")


def _description(record: Record) -> str:
    text = str(record.scenario_table.get("description", ""))
    return f'<p class="muted">{escape(text)}</p>' if text else ""


def _world(record: Record) -> str:
    names = {"kernel": "Linux kernel, emulated paths", "relay": "relay, emulated paths", "sim": "simulator"}
    return names.get(record.world, record.world)


def _size(found: list[Variant]) -> str:
    cells, choices = len({v.cell for v in found}), len({v.choice for v in found})
    variants = _plural(choices if cells > 1 else len(found), "variant")
    return f"{_plural(cells, 'cell')} · {variants}" if cells > 1 else variants


def _explain(seeds: int, lines: bool, goal: summaries.Goal) -> str:
    goodput = "Goodput is payload delivered in order, summed over the connections under test."
    if goal.shorter:
        goodput = f"The transfers have a size: the shortest completion time is the best. {goodput}"
    if seeds == 1:
        return f"One run of each variant, so no interval. {goodput}"
    marks = (
        "bands and ± are its 95 % interval" if lines else "whiskers and ± are its 95 % interval, dots the single runs"
    )
    return f"Mean over the seeds; {marks} (Student's t). {goodput}"


def _warnings(lines: list[str]) -> str:
    if not lines:
        return ""
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f'<div class="warnings" role="note"><strong>Know before you read on</strong><ul>{items}</ul></div>'


def _table(found: list[Variant], best: frozenset[str]) -> str:
    columns: Columns = [
        ("Goodput", "Mbit/s", [v.goodput for v in found]),
        ("Completion", "s", [v.completion for v in found]),
        ("Competing", "Mbit/s", [v.competing for v in found]),
        ("Jain", "fairness", [v.jain for v in found]),
        ("Ben", "aggregation", [v.ben for v in found]),
        ("Marked lost", "packets a run", [v.lost for v in found]),
    ]
    columns = [column for column in columns if any(not math.isnan(mean.mean) for mean in column[2])]
    papers = any(v.paper is not None for v in found)
    top: dict[str, float] = {}
    for v in found:
        if not math.isnan(v.goodput.mean):
            top[v.cell] = max(top.get(v.cell, 0.0), v.goodput.mean)
    head = "<th>Variant</th><th>Runs</th>" + "".join(f"<th>{name}<br>{unit}</th>" for name, unit, _ in columns)
    head += "<th>of best</th>" + ("<th>Paper<br>Mbit/s</th>" if papers else "") + "<th>Fallback</th>"
    lines = []
    for index, variant in enumerate(found):
        cells = f"<td>{escape(variant.name)}</td><td>{len(variant.rows)}</td>"
        cells += "".join(f"<td>{_cell(means[index], _decimals(means))}</td>" for _, _, means in columns)
        cells += f"<td>{_share(variant.goodput.mean, top.get(variant.cell, 0.0))}</td>"
        if papers:
            cells += f"<td>{'–' if variant.paper is None else f'{variant.paper:g}'}</td>"
        cells += f"<td>{variant.fallbacks or 'none'}</td>"
        lines.append(f'<tr class="best">{cells}</tr>' if variant.name in best else f"<tr>{cells}</tr>")
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def _decimals(means: list[Mean]) -> int:
    """One count of decimals for a column: three figures of its usual value."""
    sizes = [abs(mean.mean) for mean in means if mean.mean and not math.isnan(mean.mean)]
    return min(4, max(0, 2 - math.floor(math.log10(median(sizes))))) if sizes else 0


def _cell(mean: Mean, decimals: int) -> str:
    if math.isnan(mean.mean):
        return "–"
    text = f"{mean.mean:.{decimals}f}"
    return text if math.isnan(mean.half) else f'{text} <span class="half">± {mean.half:.{decimals}f}</span>'


def _share(value: float, top: float) -> str:
    return "–" if math.isnan(value) or not top else f"{100 * value / top:.0f} %"


def _over_time(record: Record, found: list[Variant], seed: int | None, paths: list[str]) -> str:
    runs = series.runs(record, found, seed)
    if not any(runs.values()):
        return '<h2>Over time</h2><p class="note">This record holds no telemetry.</p>'
    top = figures.limits(list(runs.values()), series.end(runs))
    cards = []
    for name, flows in runs.items():
        picture = (
            figures.timeline(name, flows, paths, top) if flows else '<p class="note">No telemetry of this run.</p>'
        )
        cards.append(f'<figure class="card"><h3>{escape(name)}</h3>{picture}</figure>')
    which = f"The runs with seed {seed}" if len(found) > 1 else f"The run with seed {seed}"
    why = (
        ", the seed nearest to the median of all variants" if len({r.get("seed") for r in record.row_dicts}) > 1 else ""
    )
    note = f'<p class="note">{which}{why}. Axes are the same for all variants.</p>'
    shown = f'<div class="grid">{"".join(cards[:MOST_OPEN])}</div>'
    rest = cards[MOST_OPEN:]
    folded = (
        f'<details><summary>{len(rest)} more variants</summary><div class="grid">{"".join(rest)}</div></details>'
        if rest
        else ""
    )
    dotted = any(flow.competing for flows in runs.values() for flow in flows)
    backup = any(flow.backup.any() for flows in runs.values() for flow in flows)
    return f"<h2>Over time</h2>{note}{_legend(paths, dotted, backup)}{shown}{folded}"


def _legend(paths: list[str], competing: bool, backup: bool) -> str:
    items = [
        f'<li><i style="background:var(--path-{index % len(svg.PATHS)})"></i>{escape(path)}</li>'
        for index, path in enumerate(paths)
    ]
    if competing:
        items.append('<li><i class="dotted"></i>competing flow</li>')
    if backup:
        items.append("<li>▂ at the foot: the subflow is in backup mode</li>")
    return f'<ul class="legend">{"".join(items)}</ul>'


def _facts(record: Record) -> str:
    """Every plain entry of the document, so that a run can be done again."""
    facts: list[tuple[str, str]] = [("World", _world(record))]
    for key, value in record.document.items():
        if key in ("schema", "rows", "world", "title", "notes", "scenario", "failed"):
            continue
        facts += _flatten(key, value)
    seeds = sorted({int(row["seed"]) for row in record.row_dicts if row.get("seed") is not None})
    facts.append(("Seeds", _range(seeds)))
    for key, label in (
        ("controller", "Controllers"),
        ("path_manager", "Path managers"),
        ("initial_path", "Initial paths"),
        ("scheduler", "Schedulers"),
    ):
        values = list(dict.fromkeys(str(row[key]) for row in record.row_dicts if row.get(key)))
        if values:
            facts.append((label, ", ".join(values)))
    if record.path:
        facts.append(("Record", str(record.path)))
    return (
        "<dl>" + "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts if value) + "</dl>"
    )


def _flatten(key: str, value: Any) -> list[tuple[str, str]]:
    label = key.replace("_", " ").capitalize()
    if isinstance(value, dict):
        return [
            (f"{label}, {name}".replace("_", " "), str(inner)) for name, inner in value.items() if inner is not None
        ]
    if isinstance(value, list):
        return [(label, ", ".join(map(str, value)))]
    return [] if value is None else [(label, str(value))]


def _range(seeds: list[int]) -> str:
    if len(seeds) > 2 and seeds == list(range(seeds[0], seeds[-1] + 1)):
        return f"{seeds[0]} to {seeds[-1]}"
    return ", ".join(map(str, seeds))


def _scenario(record: Record) -> str:
    if not record.scenario_text:
        return ""
    text = escape(record.scenario_text.strip())
    unfolded = " open" if text.count("\n") < MOST_LINES else ""
    return f'<details{unfolded}><summary>The scenario</summary><div class="card"><pre>{text}</pre></div></details>'


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
