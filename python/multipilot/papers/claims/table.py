"""The table of claims that opens a page, its worlds side by side."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from html import escape

from multipilot.papers.claims.claim import THEORY, Claims
from multipilot.papers.claims.judge import Judgement, compared, differ
from multipilot.papers.claims.predicate import Verdict
from multipilot.papers.results import REAL, SIM, WORLDS

CSS = """
table.claims td { white-space: normal; vertical-align: top; text-align: left }
table.claims th { text-align: left }
table.claims td:nth-child(1) { min-width: 290px }
table.claims td:nth-child(n+3) { min-width: 150px }
table.claims small { display: block; color: var(--muted); font-size: 12px }
table.claims a { color: var(--accent); text-decoration: none }
.badge { display: inline-block; border-radius: 99px; padding: 0 9px; font-size: 12.5px; font-weight: 600; color: #fff }
.badge.holds { background: #1f7a4d }
.badge.contradicted { background: #b3261e }
.badge.undecided { background: #8a5a00 }
.badge.untestable { background: #626b76 }
@media (max-width: 640px) {
  table.claims, table.claims tbody, table.claims tr, table.claims td { display: block }
  table.claims thead { display: none }
  table.claims tr { padding: 10px 0; border-bottom: 1px solid var(--line) }
  table.claims td { border: 0; padding: 2px 0 }
  table.claims td:nth-child(1), table.claims td:nth-child(n+3) { min-width: 0 }
  table.claims td.none { display: none }
  table.claims td[data-of]::before { content: attr(data-of) ": "; color: var(--muted); font-size: 12px }
}
"""
NAMES = {**WORLDS, THEORY: "computed"}


def style_of(verdict: Verdict) -> str:
    return "untestable" if verdict is Verdict.UNTESTABLE else verdict.value


def badge(verdict: Verdict) -> str:
    return f'<span class="badge {style_of(verdict)}">{verdict.value}</span>'


def number(value: float, like: float | None = None) -> str:
    """Three significant digits, or as many decimals as ``like`` has; no exponent for what people read as a number."""
    size = abs(value if like is None else like)
    if size and not 1e-3 <= size < 1e5:
        return f"{value:.1e}"
    digits = 2 if size == 0 else max(0, 2 - math.floor(math.log10(size)))
    return f"{value:.{digits}f}"


def effect(judgement: Judgement) -> str:
    """``1.87 ± 0.05 ×, n = 5``; empty where nothing was measured."""
    mean = judgement.effect
    if mean is None or not mean.n or math.isnan(mean.mean):
        return ""
    count = mean.half == 0 and mean.mean.is_integer()
    half = "" if math.isnan(mean.half) or not mean.half else f" ± {number(mean.half, mean.mean)}"
    unit = f" {judgement.claim.unit}" if judgement.claim.unit else ""
    runs = f", n = {judgement.n}" if judgement.n else ""
    return f"{f'{mean.mean:.0f}' if count else number(mean.mean)}{half}{unit}{runs}"


_NONE = '<span class="muted">–</span>'


def _of(name: str, cell: str) -> str:
    """With the name of its column, for a narrow window that has no head, and no empty cells."""
    style = ' class="none"' if cell == _NONE else ""
    return f'<td{style} data-of="{name}">{cell}</td>'


def _cell(judgement: Judgement | None) -> str:
    if judgement is None:
        return _NONE
    if not judgement.measured:
        return f'<span class="muted">{judgement.why}</span>'
    parts = [badge(judgement.verdict)]
    if found := effect(judgement):
        parts.append(f"<small>{escape(found)}</small>")
    if judgement.check and judgement.check.effect.n and not (judgement.earlier and judgement.parts > 1):
        parts.append(f"<small>holds if {escape(judgement.check.wanted)}</small>")
    if judgement.why:
        parts.append(f"<small>{escape(judgement.why)}</small>")
    if one := judgement.earlier:
        stale = f"; <strong>stale</strong>: {escape(one.stale)}" if one.stale else ""
        parts.append(f"<small>not measured here: of claims.lock, commit {one.commit}, {one.date}{stale}</small>")
    return "".join(parts)


def html(claims: Claims, judged: Sequence[Judgement]) -> str:
    """One line a claim; whose claim it is, where that is not the paper's."""
    by_world = {w: {j.claim.id: j for j in judged if j.world == w} for w in NAMES}
    shown = [w for w in WORLDS if any(w in claim.worlds for claim in claims.all)] or [SIM]
    apart = {real: differ(judged, real) for real in REAL}
    rows = []
    for claim in claims.all:
        who = "" if claim.by == "the paper" else f" · claim of {claim.by}"
        place = f'<a href="#{escape(claim.item)}">{escape(claim.where)}</a>'
        text = f"{escape(claim.says)}<small>{place}{escape(who)}</small>"
        for real in REAL:
            if claim.id in apart[real]:
                text += f"<small><strong>simulator and {NAMES[real]} differ significantly</strong></small>"
        printed = _of("printed", escape(claim.paper) or _NONE)
        if THEORY in claim.worlds:
            computed = _cell(by_world[THEORY].get(claim.id))
            cells = f'<td colspan="{len(shown)}" data-of="computed">{computed}<small>computed, no world</small></td>'
        else:
            cells = "".join(_of(NAMES[w], _cell(by_world[w].get(claim.id))) for w in shown)
        rows.append(f'<tr id="claim-{escape(claim.id)}"><td>{text}</td>{printed}{cells}</tr>')
    head = "".join(f"<th>{name}</th>" for name in ("claim", "printed", *(NAMES[w] for w in shown)))
    return f'<table class="claims"><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table>'


def summary(judged: Sequence[Judgement]) -> str:
    """``Simulator: 9 claims hold, 12 are contradicted, …`` for each world that says something."""
    sentences = []
    for world, name in NAMES.items():
        mine = [j for j in judged if j.world == world]
        if not any(j.n or (world == THEORY and j.check) for j in mine):
            continue
        count = Counter(j.verdict for j in mine)
        missing = sum(j.verdict is Verdict.UNDECIDED and not j.n for j in mine)
        earlier, stale = sum(j.earlier is not None for j in mine), sum(bool(j.stale) for j in mine)
        parts = [
            f"{count[Verdict.HOLDS]} hold",
            f"{count[Verdict.CONTRADICTED]} are contradicted",
            f"{count[Verdict.UNDECIDED] - missing} are undecided",
            *([f"{missing} are not measured"] if missing else []),
            *([f"{count[Verdict.UNTESTABLE]} cannot be tested"] if count[Verdict.UNTESTABLE] else []),
            *([f"{earlier} have their verdict from claims.lock ({stale} of them stale)"] if earlier else []),
        ]
        sentences.append(f"{name[0].upper()}{name[1:]}: of {len(mine)} claims {', '.join(parts)}.")
    for real in REAL:
        if both := compared(judged, real):
            told = f"{len(both & differ(judged, real))} of the {len(both)} claims measured in both"
            sentences.append(f"Simulator and {NAMES[real]} differ significantly in {told}.")
    return " ".join(sentences) or "Nothing has been measured yet."
