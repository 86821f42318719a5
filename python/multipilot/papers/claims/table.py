"""The table of claims that opens a page: its worlds side by side, and one picture of them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from multipilot.papers.charts import draw
from multipilot.papers.claims.claim import THEORY, Claims
from multipilot.papers.claims.judge import Judgement, compared, differ
from multipilot.papers.claims.predicate import Verdict
from multipilot.papers.results import KERNEL, REAL, RELAY, SIM, WORLDS
from multipilot.report import svg

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
#: Of the picture: shape, colour and height beside the line.
MARKS = {SIM: ("o", svg.PATHS[0], -0.14), KERNEL: ("s", svg.PATHS[1], 0.14), RELAY: ("^", svg.PATHS[2], 0.14)}


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


@dataclass(frozen=True)
class Forest:
    """Effects over the middle of what the claim allows, for the claims that name a value: 1 is the paper's."""

    title: str
    lines: Sequence[tuple[str, float, Sequence[Judgement]]]

    def paint(self, axes: Axes) -> None:
        for y, (_, centre, judged) in enumerate(self.lines):
            check = next(j.check for j in judged if j.check)
            axes.barh(y, (check.high - check.low) / centre, left=check.low / centre, height=0.62, color=svg.GRID, lw=0)
            for one in judged:
                mean = one.effect
                if mean is None or not mean.n:
                    continue
                half = None if math.isnan(mean.half) else mean.half / centre
                shape, colour, shift = MARKS[one.world]
                at = mean.mean / centre
                axes.errorbar(at, y + shift, xerr=half, fmt=shape, color=colour, ms=5, capsize=2, lw=1.2)
        axes.axvline(1, color=svg.MUTED, lw=1, ls=(0, (4, 3)))
        axes.set_yticks(range(len(self.lines)), [name for name, _, _ in self.lines])
        axes.invert_yaxis()
        axes.set_xlim(left=0)
        axes.grid(axis="y", visible=False)
        axes.set_xlabel("ours over the printed value (grey: what counts as the same)")
        axes.legend(
            handles=[
                Line2D([], [], ls="", marker=shape, color=colour, label=NAMES[world])
                for world, (shape, colour, _) in MARKS.items()
                if any(one.world == world for _, _, judged in self.lines for one in judged)
            ],
            # Above the axes: within them it would hide bars where there are few.
            loc="lower right",
            bbox_to_anchor=(1, 1),
            ncols=2,
        )


def picture(claims: Claims, judged: Sequence[Judgement]) -> str:
    """Empty where no claim with a printed value was measured. Stale verdicts are left out."""
    lines = []
    for claim in claims.all:
        mine = [j for j in judged if j.claim is claim and j.check and j.n and not j.stale]
        if mine and "of" in claim.test:
            lines.append((claim.id, float(claim.test["of"]), mine))
    if not lines:
        return ""
    forest = Forest("Measured over printed values", lines)
    said = "Each claim's measured value over the value that the paper prints"
    return draw([forest], said, height=0.8 + 0.3 * len(lines))
