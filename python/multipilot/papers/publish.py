"""A paper's page and document: its claims, its sections, and where every number comes from."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from math import isnan
from pathlib import Path
from typing import Any

from multipilot.console import RunFailed
from multipilot.papers import page
from multipilot.papers.claims import Claims, Judgement, judge, lock, table
from multipilot.papers.claims.claim import THEORY
from multipilot.papers.claims.claim import WORLDS as JUDGED
from multipilot.papers.claims.picture import picture
from multipilot.papers.claims.quantity import CERTAIN, Values
from multipilot.papers.paper import Experiment, Item, Paper, Point
from multipilot.papers.provenance import commit, is_changed, said, today
from multipilot.papers.results import OWN, REAL, WORLDS, Results


@dataclass(frozen=True)
class Published:
    html: str
    document: dict[str, Any]


def publish(paper: Paper, results: Results, names: Sequence[str], earlier: lock.Earlier | None = None) -> Published:
    """The page of these items. Claims that belong to others are left out, and what was not measured has its earlier
    verdict.
    """
    items = [item for item in paper.items if item.name in names]
    claims = replace(paper.claims, all=tuple(c for c in paper.claims.all if c.item in names))
    values = _values(paper, results)
    judged = _judged_or_earlier(claims, values, earlier or {})
    opening = [table.summary(judged)] if claims.all else paper.summary(results) or ["Nothing has been measured yet."]
    cards = [table.html(claims, judged), *filter(None, [picture(claims, judged)])] if claims.all else []
    sections = [_section(paper, item, results, judged) for item in items]
    html = page.render(paper.name, paper.title, paper.source, opening, _facts(results), sections, cards)
    document: dict[str, Any] = {
        "schema": 1,
        "scenario": paper.name,
        "world": "+".join(w for w in WORLDS if results.has(w)),
        "claims": [
            {"claim": j.claim.id, "world": j.world, **lock.entry(j, asdict(j.earlier) if j.earlier else {})}
            for j in judged
        ],
        "origins": [
            {"world": world, "scenario": scenario, **asdict(one)}
            for (world, scenario), found in results.provenance.items()
            for one in found
        ],
        "values": [
            {"world": world, "name": name, "mean": one.mean, "half": None if isnan(one.half) else one.half, "n": one.n}
            for world, found in values.items()
            for name, one in found.items()
            if 0 < one.n < CERTAIN
        ],
    }
    return Published(html, document)


def of_lock(paper: Paper) -> list[Judgement]:
    """Every claim in every world: computed, or as the lock has it."""
    assert paper.claims.folder is not None
    return _judged_or_earlier(paper.claims, _values(paper, Results()), lock.fresh(paper.claims.folder))


def _judged_or_earlier(claims: Claims, values: Mapping[str, Values], earlier: lock.Earlier) -> list[Judgement]:
    return [_or_earlier(j, earlier) for j in _judged(claims, values)]


def _or_earlier(judgement: Judgement, earlier: lock.Earlier) -> Judgement:
    found = None if judgement.measured else earlier.get(judgement.world, {}).get(judgement.claim.id)
    return lock.recalled(judgement, *found) if found else judgement


def _values(paper: Paper, results: Results) -> dict[str, Values]:
    return {world: paper.values(results, world) for world in JUDGED}


def _judged(claims: Claims, values: Mapping[str, Values]) -> list[Judgement]:
    return [j for world, found in values.items() for j in judge(claims, found, world)]


def _records(paper: Paper, item: Item) -> set[str]:
    """Keys of what a section is about: an experiment may have a label in place of its scenario's name."""
    asked: tuple[Experiment | Point, ...] = (*paper.experiments, *paper.points)
    return {one.key for one in asked if one.scenario in item.scenarios} if item.scenarios else {OWN}


def _section(paper: Paper, item: Item, results: Results, judged: Sequence[Judgement]) -> page.Section:
    """With what its claims came out as, and where its numbers come from."""
    section = item.show(results)
    mine = [j for j in judged if j.claim.item == item.name and j.prose]
    prose = [f"{WORLDS[j.world].capitalize()}: {j.prose}" if j.world in REAL else j.prose for j in mine]
    found = {world: results.origins(world, _records(paper, item)) for world in WORLDS}
    origins = [f"{name.capitalize()}: {said(found[world])}." for world, name in WORLDS.items() if found[world]]
    return replace(section, name=item.name, lead=[*section.lead, *prose], origins=origins)


def _facts(results: Results) -> str:
    runs = {world: sum(row["world"] == world for row in results.rows) for world in WORLDS}
    parts = [
        f"{name.capitalize()}: {runs[world]} runs, {said(results.origins(world))}."
        for world, name in WORLDS.items()
        if runs[world] and results.origins(world)
    ]
    kernel = next((f for (w, _), fs in results.folders.items() if w in REAL for f in fs), None)
    if kernel:
        parts.append(f"Linux {json.loads((kernel / 'result.json').read_text(encoding='utf-8')).get('kernel')}.")
    parts.append(
        "A claim holds where the whole 95 % interval of its effect meets the condition, is contradicted where the "
        "whole interval misses it (of a claim with several parts one, widened for their number), and is undecided "
        "otherwise; one run decides nothing. ± and bands are 95 % intervals over the seeds (Student's t, Welch). "
        "Goodput is payload delivered in order."
    )
    return " ".join(parts)


def as_text(document: dict[str, Any]) -> str:
    """One row a line: smaller than indented rows, and two documents still compare line by line."""
    lists = ("claims", "origins", "values")
    found = json.dumps({**document, **{key: [] for key in lists}}, indent=1)
    for key in lists:
        lines = ",\n  ".join(json.dumps(row) for row in document[key])
        if lines:
            found = found.replace(f'"{key}": []', f'"{key}": [\n  {lines}\n ]')
    return found


def locked(
    paper: Paper,
    results: Results,
    bases: Mapping[str, Mapping[str, str]],
    samples: Mapping[str, lock.Entry],
    scenarios: Path,
) -> Path:
    """Writes ``claims.lock`` beside the paper's ``claims.toml``: the verdicts on all claims that the results decide.

    ``bases`` are by world and claim. Raises RunFailed for records of a tree with uncommitted changes.
    """
    folder = paper.claims.folder
    if folder is None:
        raise ValueError(f"paper {paper.name} has no claims.toml")
    origins: dict[str, dict[str, dict[str, str]]] = {world: {} for world in (*WORLDS, THEORY)}
    records_of = {item.name: _records(paper, item) for item in paper.items}
    for claim in paper.claims.all:
        origins[THEORY][claim.id] = {"commit": commit(scenarios), "date": today()}
        for world in WORLDS:
            if found := results.origins(world, records_of[claim.item]):
                if changed := sorted({p.commit for p in found if is_changed(p.commit)}):
                    raise RunFailed(
                        f"--lock: records of section {claim.item} were measured in a tree with changes that are in no "
                        f"commit ({', '.join(changed)}): remove them and measure again"
                    )
                last = max(found, key=lambda p: p.date)
                basis = bases.get(world, {}).get(claim.id, "")
                origins[world][claim.id] = {"commit": last.commit, "date": last.date, "basis": basis}
    names = [claim.id for claim in paper.claims.all]
    judged = _judged(paper.claims, _values(paper, results))
    verdicts = lock.updated(lock.read(folder), judged, origins, names)
    return lock.write(folder, paper.name, {**verdicts, lock.SAMPLES: dict(samples)})
