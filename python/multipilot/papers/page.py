"""The page of a paper: sections with a lead, pictures, tables and the command that makes them again."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape

from multipilot.papers.claims.table import CSS
from multipilot.report.page import document
from multipilot.stats import Mean

EXTRA_CSS = """
.lead { margin: 0 0 12px; max-width: 78ch }
.verdict + .lead { margin-top: 16px }
.verdict + .note { margin-top: 12px }
.origin { color: var(--muted); font-size: 12.5px; margin: 10px 0 0 }
.origin + .origin, .origin + .again { margin-top: 0 }
.again { color: var(--muted); font-size: 12.5px; margin: 10px 0 0 }
.again code { font: 12.5px ui-monospace, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; color: var(--ink) }
nav { font-size: 14px; margin: 18px 0 0; columns: 2; column-gap: 32px }
nav a, p a { color: var(--accent); text-decoration: none }
nav a { display: block; padding: 1px 0 }
td.name, th.name { text-align: left; padding-left: 0 }
table.wide tr.row td { border-bottom: 0; padding-top: 14px; white-space: normal; font-weight: 600 }
table.wide tr.why td { white-space: normal; text-align: left; color: var(--muted); padding: 2px 0 14px }
table.wide { font-size: 13px }
table.wide td:first-child { white-space: normal }
table.wide th, table.wide td { padding: 5px 5px; vertical-align: top }
table.wide th { font-size: 12px; vertical-align: bottom }
table.wide td .half { display: block; font-size: 11px; line-height: 1.2 }
table.wide th:first-child, table.wide td:first-child { padding-left: 0 }
td.claim { font-weight: 650; color: var(--accent) }
.no { color: var(--warn); font-weight: 600 }
.yes { color: #1f7a4d }
p.equation { font-family: "STIX Two Math", "Cambria Math", "DejaVu Serif", serif; margin: 4px 0 12px 24px }
section { margin-top: 40px }
section h2 { margin-top: 0 }
.card + .card { margin-top: 12px }
.card + .note { margin-top: 10px }
@media (max-width: 640px) { nav { columns: 1 } }
"""


@dataclass(frozen=True)
class Section:
    """``body`` is HTML: pictures and tables; empty ones are left out. ``lead`` and ``notes`` are plain paragraphs."""

    title: str
    lead: Sequence[str]
    body: Sequence[str]
    notes: Sequence[str] = ()
    #: The item's.
    name: str = ""
    #: Where its numbers come from, one line a world.
    origins: Sequence[str] = ()


def card(html: str) -> str:
    return f'<div class="card scroll">{html}</div>'


def paragraph(text: str, style: str = "lead") -> str:
    return f'<p class="{style}">{escape(text)}</p>'


def number(mean: Mean | float | None, digits: int = 2) -> str:
    """A table cell: the mean, and half its interval where it has one."""
    if mean is None:
        return '<span class="muted">–</span>'
    if isinstance(mean, float):
        return f"{mean:.{digits}f}" if not math.isnan(mean) else number(None)
    if math.isnan(mean.mean):
        return '<span class="muted">–</span>'
    half = "" if math.isnan(mean.half) else f' <span class="half">± {mean.half:.{digits}f}</span>'
    return f"{mean.mean:.{digits}f}{half}"


def lines(
    names: Iterable[str],
    *columns: Callable[[str], Mean],
    label: Callable[[str], str] = str,
    digits: int | Sequence[int] = 2,
) -> list[list[str]]:
    """A table's line for each name of which anything was measured."""
    places = [digits] * len(columns) if isinstance(digits, int) else digits
    found = [(name, [column(name) for column in columns]) for name in names]
    return [
        [label(name), *(number(mean, place) for mean, place in zip(means, places, strict=True))]
        for name, means in found
        if any(mean.n for mean in means)
    ]


def table(
    head: str | Sequence[str], rows: Sequence[Sequence[str]], names: int = 1, style: str = "", title: str = ""
) -> str:
    """Cells are HTML, of a head also as ``one | two``; the first ``names`` columns read as text. Empty without rows. A
    column in which nothing was measured is left out.
    """
    if not rows:
        return ""
    if isinstance(head, str):
        head = [cell.strip() for cell in head.split("|")]
    kept = [k for k in range(len(head)) if k < names or any(row[k] != number(None) for row in rows)]
    head, rows = [head[k] for k in kept], [[row[k] for k in kept] for row in rows]

    def line(cells: Sequence[str], tag: str) -> str:
        return "".join(
            f'<{tag} class="name">{cell}</{tag}>' if index < names else f"<{tag}>{cell}</{tag}>"
            for index, cell in enumerate(cells)
        )

    body = "".join(f"<tr>{line(row, 'td')}</tr>" for row in rows)
    opening = f'<table class="{style}">' if style else "<table>"
    heading = f"<h3>{escape(title)}</h3>" if title else ""
    return f"{heading}{opening}<thead><tr>{line(head, 'th')}</tr></thead><tbody>{body}</tbody></table>"


def render(
    paper: str,
    title: str,
    source: str,
    summary: Sequence[str],
    facts: str,
    sections: Sequence[Section],
    claims: Sequence[str] = (),
) -> str:
    """The whole page, one HTML document that needs no network. ``claims`` is HTML that comes before all sections."""
    contents = "".join(f'<a href="#{s.name}">{escape(s.title)}</a>' for s in sections)
    opening = f'<section id="claims"><h2>Claims</h2>{"".join(map(card, claims))}</section>' if claims else ""
    body = [
        f'<header><p class="over"><span class="pill">paper {escape(paper)}</span>{escape(source)}</p>',
        f"<h1>{escape(title)}</h1>",
        *(f'<p class="{"verdict" if i == 0 else "lead"}">{escape(text)}</p>' for i, text in enumerate(summary)),
        f'<p class="note">{escape(facts)}</p></header>',
        opening,
        f"<nav>{contents}</nav>",
        *(_section(paper, section) for section in sections),
    ]
    return document(title, body, EXTRA_CSS + CSS)


def _section(paper: str, section: Section) -> str:
    return "\n".join(
        [
            f'<section id="{section.name}"><h2>{escape(section.title)}</h2>',
            *(paragraph(text) for text in section.lead),
            *(card(html) for html in section.body if html),
            *(paragraph(text, "note") for text in section.notes),
            *(paragraph(text, "origin") for text in section.origins),
            f'<p class="again">Again: <code>multipilot paper {paper} --only {section.name}</code></p></section>',
        ]
    )
