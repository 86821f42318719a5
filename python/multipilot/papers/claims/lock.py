"""``claims.lock``: the verdicts in git, one line a claim and world, and one a sample, to be read in a diff.

Written by ``multipilot paper NAME --lock``. What a call did not measure keeps its line, with the commit that did.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from multipilot import toml
from multipilot.files import replacing
from multipilot.papers.claims.claim import THEORY, WORLDS, Claims
from multipilot.papers.claims.judge import Judgement, Origin
from multipilot.papers.claims.predicate import Verdict
from multipilot.stats import Mean

NAME = "claims.lock"
#: Beside the worlds.
SAMPLES = "samples"
Entry = dict[str, Any]
Lock = dict[str, dict[str, Entry]]
#: Entries by world and claim, each with why it is stale, if it is.
Earlier = Mapping[str, Mapping[str, tuple[Entry, str]]]
_HEAD = "# Written by `multipilot paper {paper} --lock`, not by hand. low and high: 95 % interval; n: runs.\n"


def read(folder: Path) -> Lock:
    """By world and claim; empty where there is no lock."""
    file = folder / NAME
    return toml.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def fresh(folder: Path) -> Earlier:
    """The measured entries of a lock, none of them called stale."""
    return {
        world: {name: (one, "") for name, one in lines.items() if "value" in one}
        for world, lines in read(folder).items()
    }


def entry(judgement: Judgement, origin: Mapping[str, str]) -> Entry:
    found: Entry = {"verdict": judgement.verdict.value}
    mean = judgement.effect
    if mean is not None and mean.n and not math.isnan(mean.mean):
        found["value"] = _short(mean.mean)
        if not math.isnan(mean.half):
            found |= {"low": _short(mean.low), "high": _short(mean.high)}
    found["n"] = judgement.n
    return {**found, **origin} if judgement.measured and judgement.check else found


def recalled(judgement: Judgement, kept: Entry, stale: str) -> Judgement:
    """The verdict that a lock has on a claim which was not measured now."""
    half = (kept["high"] - kept["low"]) / 2 if "low" in kept else math.nan
    effect = Mean(kept["value"], half, kept["n"], math.nan)
    check = replace(judgement.check, effect=effect) if judgement.check else None
    origin = Origin(str(kept.get("commit", "")), str(kept.get("date", "")), stale)
    return replace(judgement, verdict=Verdict(kept["verdict"]), check=check, prose="", earlier=origin)


def updated(
    before: Lock,
    judged: Sequence[Judgement],
    origins: Mapping[str, Mapping[str, Mapping[str, str]]],
    claims: Sequence[str],
) -> Lock:
    """``origins`` are by world and claim. Claims that no longer exist go; what was not measured now stays as it was.
    What never was is left out.
    """
    found: Lock = {}
    for world in WORLDS:
        fresh = {j.claim.id: j for j in judged if j.world == world}
        lines: dict[str, Entry] = {}
        for name in claims:
            kept = before.get(world, {}).get(name)
            if name not in fresh:
                continue
            if fresh[name].measured:
                kept = entry(fresh[name], origins.get(world, {}).get(name, {}))
            if kept:
                lines[name] = kept
        if lines:
            found[world] = lines
    return found


def write(folder: Path, paper: str, lock: Lock) -> Path:
    text = _HEAD.format(paper=paper)
    for world, lines in lock.items():
        text += f"\n[{world}]\n"
        for name, one in lines.items():
            text += f"{name} = {{ " + ", ".join(f"{key} = {json.dumps(value)}" for key, value in one.items()) + " }\n"
    file = folder / NAME
    with replacing(file) as fresh:
        fresh.write_text(text, encoding="utf-8")
    return file


def _short(value: float) -> float:
    """Four significant digits."""
    return float(f"{value:.4g}")


def unspoken(claims: Claims, lock: Lock) -> list[str]:
    """Claims that have templates, but none for a verdict in the lock: their page would fall silent."""
    return [
        f"{claim.id}, {world}: {one['verdict']}"
        for world, lines in lock.items()
        for claim in claims.all
        if claim.prose and (one := lines.get(claim.id)) and (one["n"] or world == THEORY)
        if not claim.template(Verdict(one["verdict"]))
    ]
