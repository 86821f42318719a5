"""``reproductions/README.md``: the verdicts of every paper's ``claims.lock`` in one page that needs no building.

Written with each lock. A test compares the two.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from multipilot.files import replacing
from multipilot.papers.claims import Judgement, table
from multipilot.papers.claims.claim import THEORY
from multipilot.papers.claims.judge import differ
from multipilot.papers.claims.predicate import Verdict
from multipilot.papers.folder import NAMES, load, reproductions
from multipilot.papers.paper import Paper
from multipilot.papers.publish import of_lock
from multipilot.papers.results import KERNEL, REAL, RELAY, SIM

NAME = "README.md"
_HEAD = """# Reproductions

`multipilot paper NAME` measures the claims of a paper and draws its tables and figures beside ours. Here are the
verdicts of all claims, from each folder's `claims.lock`: the whole 95 % interval decides, or the verdict is
*undecided*. A value counts as the printed one within 10 %, unless the claim says otherwise. Only an interval widened
for the number of its parts contradicts a claim of several parts. Values of the theory are computed. [How claims are
judged, and how to measure again](../docs/reference/claims.md).

Written by `multipilot paper NAME --lock`, not by hand.
"""
_COLUMNS = {SIM: "simulator", KERNEL: "kernel", RELAY: "relay"}


def text() -> str:
    papers = [paper for paper in map(load, NAMES) if paper.claims.all]
    of = {paper.name: of_lock(paper) for paper in papers}
    lines = [_HEAD, "| paper | world | claims | hold | contradicted | undecided | not measured | not testable |"]
    lines.append("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for paper in papers:
        for world, name in {**_COLUMNS, THEORY: "computed"}.items():
            lines += _counts(paper.name, name, [j for j in of[paper.name] if j.world == world])
    lines += ["", *_own(papers, of)]
    for paper in papers:
        lines += ["", f"## {paper.name}", "", paper.title + ".", "", *_table(paper, of[paper.name])]
    return "\n".join(lines) + "\n"


def write(folder: Path) -> Path:
    """``folder``: of the reproductions."""
    file = folder / NAME
    with replacing(file) as fresh:
        fresh.write_text(text(), encoding="utf-8")
    return file


def _counts(paper: str, world: str, mine: Sequence[Judgement]) -> list[str]:
    if not mine:
        return []
    missing = sum(not j.measured for j in mine)
    count = Counter(j.verdict for j in mine)
    undecided = count[Verdict.UNDECIDED] - missing
    numbers = (len(mine), count[Verdict.HOLDS], count[Verdict.CONTRADICTED], undecided, missing)
    return [f"| *{paper}* | {world} | {' | '.join(map(str, (*numbers, count[Verdict.UNTESTABLE])))} |"]


def _own(papers: Sequence[Paper], of: dict[str, list[Judgement]]) -> list[str]:
    """What this project says of itself and the measurements do not bear out."""
    lines = [
        "## Contradicted claims of this project",
        "",
        "| paper | claim | measured |",
        "| --- | --- | --- |",
    ]
    for paper in papers:
        for j in of[paper.name]:
            if j.claim.by == "this project" and j.verdict is Verdict.CONTRADICTED:
                world = f"{_COLUMNS.get(j.world, 'computed')}: "
                lines.append(f"| *{paper.name}* | {j.claim.says} | {world}{table.effect(j)} |")
    return lines


def _table(paper: Paper, judged: Sequence[Judgement]) -> list[str]:
    by = {(j.world, j.claim.id): j for j in judged}
    worlds = [world for world in _COLUMNS if any(world in claim.worlds for claim in paper.claims.all)]
    apart = {name for real in REAL for name in differ(judged, real)}
    names = [_COLUMNS[world] for world in worlds]
    lines = [f"| claim | printed | {' | '.join(names)} |", f"| --- | --- | {' | '.join('---' for _ in names)} |"]
    for claim in paper.claims.all:
        whose = "" if claim.by == "the paper" else f" *Claim of {claim.by}.*"
        differs = " *Simulator and real world differ significantly.*" if claim.id in apart else ""
        if THEORY in claim.worlds:
            cells = [_cell(by.get((THEORY, claim.id))), *("" for _ in worlds[1:])]
        else:
            cells = [_cell(by.get((world, claim.id))) for world in worlds]
        says = f"{claim.says}{whose}{differs} `{claim.id}`"
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in (says, claim.paper, *cells)) + " |")
    return lines


def _cell(judgement: Judgement | None) -> str:
    if judgement is None:
        return ""
    if not judgement.measured:
        return "not measured"
    verdict = judgement.verdict.value
    known = f"**{verdict}**" if verdict in (Verdict.HOLDS.value, Verdict.CONTRADICTED.value) else verdict
    parts = [known, judgement.why if judgement.verdict is Verdict.UNTESTABLE else table.effect(judgement)]
    return ": ".join(filter(None, parts))


if __name__ == "__main__":
    print(write(reproductions()))
