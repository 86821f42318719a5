"""``multipilot paper NAME --check``: which verdicts may be of other results than the present sources give."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic

from multipilot import console
from multipilot.papers import sample
from multipilot.papers.claims import Claim, judge, lock
from multipilot.papers.claims.claim import THEORY
from multipilot.papers.cost import spell
from multipilot.papers.paper import Experiment, Item, Paper, Point
from multipilot.papers.provenance import of_files
from multipilot.papers.results import OWN, REAL, SIM, WORLDS, Results
from multipilot.papers.runs import Asked, Runner

#: Seconds that samples may take where nobody says; no further one begins after that.
SAMPLING_S = 60.0
_PARTS = 3
_UNSAMPLED = "the paper's Python has changed, and --check has not confirmed it"


def bases(paper: Paper, runner: Runner, world: str) -> dict[str, str]:
    """By claim, three hashes: of the scenarios and sources of its section's runs, of the paper's Python, of its
    test."""
    folder = paper.claims.folder
    assert folder is not None
    runs = {item.name: sample.fingerprint(_runs(paper, runner, item, world))[:6] for item in paper.items}
    code = of_files(*sorted(folder.glob("*.py")), *_deciding())[:6]
    derive = dict(paper.claims.derive)
    return {
        claim.id: f"{runs[claim.item]}.{code}.{sample.fingerprint([dict(claim.test), derive])[:6]}"
        for claim in paper.claims.all
        if world in claim.worlds
    }


def _deciding() -> list[Path]:
    """Modules of this package that decide a verdict, whatever the paper."""
    here = Path(__file__).parent
    names = (
        "results.py",
        "tables.py",
        "claims/predicate.py",
        "claims/quantity.py",
        "../stats.py",
        "../report/series.py",
    )
    return [here / name for name in names]


def _runs(paper: Paper, runner: Runner, item: Item, world: str) -> list[object]:
    if not item.scenarios:
        return [paper.own.basis()] if paper.own and world == SIM else []
    asked: Iterator[Asked] = (
        (runner.simulation(e) for e in paper.experiments if e.scenario in item.scenarios)
        if world == SIM
        else (runner.point(p) for p in paper.points if p.world == world and p.scenario in item.scenarios)
    )
    return [(one.subject, one.basis) for one in asked]


@dataclass
class Checked:
    """``lines`` say what is to be done; claims are by world."""

    lines: list[str] = field(default_factory=list)
    stale: dict[str, set[str]] = field(default_factory=dict)
    #: Of other sources, of which samples show that they give the same.
    confirmed: dict[str, set[str]] = field(default_factory=dict)

    def items(self, paper: Paper, world: str) -> set[str]:
        """Sections to measure again."""
        return {claim.item for claim in paper.claims.all if claim.id in self.stale.get(world, ())}


@dataclass
class _Entry:
    """A claim that has a verdict in a world, and which parts of its basis have changed."""

    claim: Claim
    commit: str
    runs: bool
    code: bool
    test: bool


def check(paper: Paper, runner: Runner, worlds: Sequence[str], sampling_s: float = SAMPLING_S) -> Checked:
    """Takes samples of the claims whose sources have changed."""
    found = Checked()
    if paper.claims.folder is None:
        return found
    kept = lock.read(paper.claims.folder)
    entries = {world: _entries(paper, runner, world, kept.get(world, {})) for world in worlds}
    asked = [e for world, some in entries.items() for e in some if _may_be_confirmed(e, world)]
    samples = kept.get(lock.SAMPLES, {})
    differing = _differing(paper, runner, {e.claim.item for e in asked}, samples, sampling_s)
    quiet = silent(paper, runner, samples)
    for world, some in entries.items():
        _judge(paper, world, some, differing, quiet, found)
    _compute(paper, kept.get(THEORY, {}), found)
    return found


def earlier(paper: Paper, runner: Runner) -> lock.Earlier:
    """Verdicts of the lock on what is measured in real time, and why each is stale. Takes no sample."""
    if paper.claims.folder is None:
        return {}
    kept = lock.read(paper.claims.folder)
    return {
        world: {e.claim.id: (kept[world][e.claim.id], _why(e, world, {e.claim.item: _UNSAMPLED})) for e in entries}
        for world in REAL
        if (entries := _entries(paper, runner, world, kept.get(world, {})))
    }


def _why(entry: _Entry, world: str, differing: Mapping[str, str], silent: Set[str] = frozenset()) -> str:
    """Why a verdict is stale; empty where nothing has changed, or a sample gives the same."""
    if entry.test:
        return "the test has changed, or the lock's format"
    if entry.code and entry.claim.item in silent:
        return "the paper's Python has changed, and no sample of the section yields a value"
    if _may_be_confirmed(entry, world):
        return differing.get(entry.claim.item, "")
    return "sources or scenarios of the points have changed" if entry.runs else ""


def _compute(paper: Paper, kept: Mapping[str, lock.Entry], found: Checked) -> None:
    """What is computed costs next to nothing: its verdicts are made again."""
    claims = [claim for claim in paper.claims.all if THEORY in claim.worlds]
    if claims:
        now = {j.claim.id: j.verdict.value for j in judge(paper.claims, paper.values(Results(), THEORY), THEORY)}
        other = [c for c in claims if kept.get(c.id, {}).get("verdict") != now[c.id]]
        if other:
            found.lines.append(_line(THEORY, claims, other, "stale, computed again the verdict is another"))


def _entries(paper: Paper, runner: Runner, world: str, kept: Mapping[str, lock.Entry]) -> list[_Entry]:
    now = bases(paper, runner, world)
    found = []
    for claim in paper.claims.all:
        one = kept.get(claim.id, {})
        if claim.id in now and "value" in one:
            was = str(one.get("basis", "")).split(".")
            was += [""] * (_PARTS - len(was))
            changed = [a != b for a, b in zip(was, now[claim.id].split("."), strict=True)]
            found.append(_Entry(claim, str(one.get("commit", "")), *changed))
    return found


def _may_be_confirmed(entry: _Entry, world: str) -> bool:
    """Samples are of the simulator. They say whether the Python reads rows as it did, of either world."""
    return not entry.test and ((entry.runs and world == SIM) or (entry.code and not entry.runs))


def _judge(
    paper: Paper,
    world: str,
    entries: list[_Entry],
    differing: Mapping[str, str],
    silent: Set[str],
    found: Checked,
) -> None:
    wanted = [claim for claim in paper.claims.all if world in claim.worlds and not claim.excuse]
    unmeasured = [c for c in wanted if c.id not in {e.claim.id for e in entries}]
    why = {e.claim.id: _why(e, world, differing, silent) for e in entries if e.runs or e.code or e.test}
    found.confirmed[world] = {name for name, told in why.items() if not told}
    found.stale[world] = {c.id for c in unmeasured} | {name for name, told in why.items() if told}
    if unmeasured:
        found.lines.append(_line(world, wanted, unmeasured, "not measured"))
    for told in dict.fromkeys(filter(None, why.values())):
        these = [e for e in entries if why.get(e.claim.id) == told]
        commits = ", ".join(sorted({e.commit for e in these}))
        line = _line(world, wanted, [e.claim for e in these], f"stale, {told} since {commits}")
        found.lines.append(line)
    if sure := found.confirmed[world]:
        console.say(
            f"{WORLDS[world]}: {len(sure)} of {len(wanted)} claims of other sources: their samples give the same"
        )


def _line(world: str, wanted: Sequence[Claim], these: Sequence[Claim], what: str) -> str:
    some = ", ".join(c.id for c in these[:3]) + (", …" if len(these) > 3 else "")
    return f"{WORLDS.get(world, world)}: {len(these)} of {len(wanted)} claims {what}: {some}"


def silent(paper: Paper, runner: Runner, samples: Mapping[str, lock.Entry]) -> set[str]:
    """Items of whose samples none yields a value: the same rows say nothing of how they are read."""
    told: dict[str, bool] = {}
    keys = [(e.scenario, sample.key(runner.simulation(e))) for e in paper.experiments]
    for scenario, key in (*keys, (OWN, OWN)):
        values = samples.get(key, {}).get("values", sample.NO_VALUES)
        told[scenario] = told.get(scenario, False) or values != sample.NO_VALUES
    return {item.name for item in paper.items if not any(told.get(name) for name in item.scenarios or (OWN,))}


def _differing(
    paper: Paper, runner: Runner, names: set[str], samples: Mapping[str, lock.Entry], sampling_s: float
) -> dict[str, str]:
    """Why results of an item may be others, by item; items whose samples give the same are left out."""
    items = [item for item in paper.items if item.name in names]
    scenarios = {scenario for item in items for scenario in item.scenarios or (OWN,)}
    experiments = [e for e in paper.experiments if e.scenario in scenarios]
    end = monotonic() + sampling_s
    why: dict[str, str] = {}
    with console.progress() as progress:
        own = [None] if OWN in scenarios else []
        for one in progress.track([*experiments, *own], description="samples"):
            name = one.scenario if one else OWN
            kept = samples.get(sample.key(runner.simulation(one)) if one else OWN)
            if kept is None:
                why[name] = "their scenarios have changed"
            elif monotonic() > end:
                why[name] = f"their samples take more than {spell(sampling_s)}"
            elif kept != (sample.take(paper, runner, one, kept["cell"]) if one else sample.take_own(paper)):
                why[name] = "a sample gives another result"
    return {
        item.name: told
        for item in items
        if (told := next((why[name] for name in item.scenarios or (OWN,) if name in why), ""))
    }


def renewed(paper: Paper, runner: Runner, found: Checked) -> Path:
    """Writes the present basis to the confirmed claims; verdicts, values and commits stay."""
    assert paper.claims.folder is not None
    kept = lock.read(paper.claims.folder)
    for world, names in found.confirmed.items():
        now = bases(paper, runner, world)
        for name in names:
            kept[world][name]["basis"] = now[name]
    return lock.write(paper.claims.folder, paper.name, kept)


def take_over(paper: Paper, runner: Runner, sampling_s: float = SAMPLING_S) -> list[str]:
    """Records of other sources become records of these where a sample of them gives the same; which experiments'."""
    end = monotonic() + sampling_s
    taken = []
    with console.progress() as progress:
        for experiment in progress.track(paper.experiments, description="records"):
            asked = runner.simulation(experiment)
            older = None if asked.done else asked.older()
            if older and monotonic() < end and sample.confirms(paper, runner, experiment, older):
                asked.take_over(older)
                taken.append(experiment.key)
    return taken


def costs(runner: Runner, world: str, experiments: Sequence[Experiment], points: Sequence[Point]) -> list[str]:
    """A line for each record that is missing or of older sources, and the cost of all in the end."""
    if world == SIM:
        cost = [(e, runner.cost(e)) for e in experiments]
        left = [(e, c) for e, c in cost if c.runs]
        lines = [f"simulator: {e.key}: {_state(runner.simulation(e))}, {c.runs:,} runs" for e, c in left]
        runs, seconds = sum(c.runs for _, c in left), sum(c.seconds for _, c in left)
        return [*lines, f"simulator: {runs:,} runs to do, {spell(seconds)} of simulated time"] if left else []
    asked = [(point, runner.point(point)) for point in points if point.world == world]
    missing = [(point, one) for point, one in asked if not one.done]
    lines = [f"{world}: {point.name}: {_state(one)}, {point.runs} runs" for point, one in missing]
    runs, seconds = sum(p.runs for p, _ in missing), sum(runner.longest(p) for p, _ in missing)
    return [*lines, f"{world}: {runs} runs to do, at most {spell(seconds)} of real time"] if missing else []


def _state(asked: Asked) -> str:
    older = asked.older()
    if older is None or older.origin is None:
        return "not measured"
    was = older.origin
    return f"stale, measured {was.date} at {was.commit or 'an unknown commit'} in {spell(was.seconds)}"
