"""Runs scenarios through ``multipilot compare``, in either world, and keeps what is done.

Each call has a folder of its own below ``OUT/records``. A finished folder is not run again; one that was interrupted is
taken up where it stopped, for ``compare`` itself resumes with the same ``--out``.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import Any

from multipilot import simulation, toml
from multipilot.children import Children, wait_for
from multipilot.console import CANNOT_HERE, CannotHere, RunFailed, seconds
from multipilot.papers.cost import Cost, of_comparison
from multipilot.papers.folder import reproductions
from multipilot.papers.paper import Experiment, Point
from multipilot.papers.provenance import DONE, Provenance, commit, sources, today
from multipilot.papers.results import SIM, Results, Row
from multipilot.papers.sources import Sources, words
from multipilot.record import disturbed, drop_disturbed

#: Telemetry is not drawn but where an experiment asks for it; a row needs none.
SPARSE = {"sample_interval": "10s"}


#: By paper, the folder that the user named.
_named: dict[str, Path] = {}


def find_scenarios(paper: str, folder: Path | None = None) -> Path:
    """The paper's folder of scenarios: as named, below the current folder, or beside the reproductions."""
    folder = folder or _named.get(paper)
    places = [folder] if folder else [Path("scenarios") / paper, reproductions().parent / "scenarios" / paper]
    for place in places:
        if place.is_dir():
            if folder:
                _named[paper] = place.resolve()
            return place.resolve()
    raise ValueError(f"no scenarios at {places[0]}: run from the checkout, or name their folder by --scenarios")


def trace_pairs(folder: Path) -> Iterator[tuple[str, Path, Path]]:
    """Name, downlink and uplink of each pair ``NAME.down``, ``NAME.up`` of Mahimahi traces, packed by gzip or not."""
    for down in sorted([*folder.glob("*.down"), *folder.glob("*.down.gz")]):
        up = down.with_name(down.name.replace(".down", ".up"))
        if up.exists():
            yield down.name.split(".down")[0], down.resolve(), up.resolve()


def traces_on(path: str, folder: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Name of each pair, and the settings by which a path carries what was recorded."""
    for name, down, up in trace_pairs(folder):
        yield name, {f"paths.{path}.downlink.trace": str(down), f"paths.{path}.uplink.trace": str(up)}


@dataclass(frozen=True)
class Asked:
    """One call of ``compare``, and the folder of its record."""

    world: str
    scenario: str
    label: str
    settings: Mapping[str, str]
    seeds: int
    ben: bool
    #: Hash of the scenario as expanded, its traces and the seeds.
    question: str
    #: The same whatever the seeds.
    subject: str
    #: Of the sources that decide the answer; the folder's name has a hash of the question and it.
    basis: str
    folder: Path

    @property
    def done(self) -> bool:
        return (self.folder / DONE).exists()

    @property
    def origin(self) -> Provenance | None:
        return Provenance.read(self.folder)

    def older(self) -> Asked | None:
        """The latest record that answers the same question by other sources."""
        beside = self.folder.parent.glob(f"{self.scenario}-{self.label}-*")
        others = [replace(self, folder=folder) for folder in beside if folder != self.folder]
        found = [(one.origin.date, one) for one in others if one.origin and one.origin.question == self.question]
        return max(found, key=lambda dated: dated[0])[1] if found else None

    def take_over(self, older: Asked) -> None:
        """Its record, as one of these sources. Commit and date stay those of the runs."""
        assert older.origin is not None
        origin = replace(older.origin, source=self.basis)
        # What an interrupted call has left there.
        shutil.rmtree(self.folder, ignore_errors=True)
        older.folder.rename(self.folder)
        origin.write(self.folder)


@dataclass
class Runner:
    """``out`` is where everything is kept; ``quick`` and ``seeds`` concern the simulator alone."""

    paper: str
    out: Path
    scenarios: Path
    command: str
    seeds: int
    quick: bool = False
    children: Children = field(default_factory=Children)

    def simulate(
        self,
        experiment: Experiment,
        results: Results,
        recall: bool = False,
        heard: Callable[[str], None] = lambda _: None,
    ) -> None:
        """The whole grid of a scenario (its chosen cells with ``quick``). ``recall``: only what was run before."""
        asked = self.simulation(experiment)
        if recall and not asked.done:
            return
        self._compare(asked, heard)
        if not experiment.tables:
            shutil.rmtree(asked.folder / "runs", ignore_errors=True)
        results.add(SIM, experiment.key, self._read(asked.folder), asked.folder, Provenance.read(asked.folder))

    def cost(self, experiment: Experiment) -> Cost:
        """Of what :meth:`simulate` would have to run."""
        asked = self.simulation(experiment)
        if asked.done:
            return Cost(0, 0.0)
        return of_comparison(self._file(asked.scenario), asked.settings, asked.seeds, asked.ben)

    def simulation(self, experiment: Experiment) -> Asked:
        settings = {**SPARSE, **experiment.settings, **(experiment.quick if self.quick else {})}
        if experiment.cases:
            settings["cases"] = _only(experiment.cases, self._file(experiment.scenario))
        label = experiment.label.replace(" ", "-") or "all"
        seeds = min(self.seeds, experiment.most_seeds or self.seeds)
        return self._asked(SIM, experiment.scenario, label, settings, seeds, experiment.ben)

    def measure(self, point: Point, results: Results, recall: bool = False) -> bool:
        """One point in real time; with ``recall`` only if it was measured before. Whether there is a result now."""
        asked = self.point(point)
        if recall and not asked.done:
            return False
        self._compare(asked)
        document = self._read(asked.folder)
        if notes := [note for row in document["rows"] for note in disturbed(row)]:
            (asked.folder / DONE).unlink()
            drop_disturbed(asked.folder)
            if not recall:
                raise RunFailed(f"{len(notes)} disturbed runs, to be measured again: {notes[0]}")
            return False
        results.add(point.world, point.key, document, asked.folder, Provenance.read(asked.folder))
        return True

    def point(self, point: Point) -> Asked:
        managers = ", ".join(f'"{name}"' for name in (point.path_manager, *point.beside))
        managers = f"[{managers}]" if point.beside else managers
        further = {"initial_path": point.initial_paths, "scheduler": point.schedulers}
        rest = "".join(f", {key} = {json.dumps(names)}" for key, names in further.items() if names)
        variants = f'[{{controller = "{point.controller}", path_manager = {managers}{rest}}}]'
        settings = {**point.settings, **self._held(point.scenario, point.cell), "variants": variants}
        return self._asked(point.world, point.scenario, point.variant, settings, point.seeds, point.ben)

    @contextmanager
    def once(self, experiment: Experiment, cell: Mapping[str, str]) -> Iterator[Results]:
        """All variants in one cell of a simulation, first seed; kept as long as the context."""
        asked, results = self.simulation(experiment), Results()
        with TemporaryDirectory(prefix="multipilot-") as folder:
            settings = {**asked.settings, **self._held(asked.scenario, cell)}
            one = replace(asked, settings=settings, seeds=1, folder=Path(folder) / "once")
            self._compare(one)
            results.add(SIM, experiment.key, self._read(one.folder), one.folder)
            yield results

    def kept(self, asked: Asked) -> list[Row] | None:
        """Rows of a record; none where there is no such record."""
        return self._read(asked.folder)["rows"] if asked.done else None

    def _held(self, scenario: str, cell: Mapping[str, str]) -> dict[str, str]:
        """Settings that hold a grid at one cell."""
        found = {f"grid.{key}": value for key, value in cell.items() if key != "case"}
        if "case" in cell:
            found["cases"] = _only((cell["case"],), self._file(scenario))
        return found

    def longest(self, point: Point) -> float:
        """Seconds of real time that a point takes at most: its runs at full length, and the setting up."""
        asked = self.point(point)
        text = simulation.expanded(self._file(asked.scenario), asked.settings)
        return point.runs * (seconds(toml.loads(text)["duration"]) + 3.0)

    def _asked(
        self, world: str, scenario: str, label: str, settings: Mapping[str, str], seeds: int, ben: bool
    ) -> Asked:
        """What is asked for names the folder, and the sources that answer: others make another record."""
        file = self._file(scenario)
        text = simulation.expanded(file, settings)
        document = toml.loads(text)
        traces = [*_traces(document, file.parent)]
        # Where the checkout lies decides nothing.
        text = text.replace(f"{file.parent.resolve()}/", "")
        question, subject = _digest([text, *traces, seeds, ben]), _digest([text, *traces, ben])
        basis = self.basis(world, frozenset(words(document)))
        folder = self.out / "records" / world / f"{scenario}-{label}-{_digest([question, basis])}"
        return Asked(world, scenario, label, settings, seeds, ben, question, subject, basis, folder)

    def basis(self, world: str, chosen: Set[str]) -> str:
        """Of the sources that decide a run; of all sources where the command is not built from this checkout's."""
        return self.checkout.basis(world, chosen) if self.is_built_here(world) else self.sources[world]

    def is_built_here(self, world: str) -> bool:
        return self.checkout.whole(world) == self.sources[world]

    @cached_property
    def checkout(self) -> Sources:
        return Sources(reproductions().parent)

    def _file(self, scenario: str) -> Path:
        return self.scenarios / f"{scenario}.toml"

    @cached_property
    def sources(self) -> Mapping[str, str]:
        """What the command was built from, by world."""
        return sources(self.command)

    def _compare(self, asked: Asked, heard: Callable[[str], None] = lambda _: None) -> None:
        if asked.done:
            return
        wait_for(asked.folder)
        begun, made_of = monotonic(), commit(self.scenarios)
        file = self._file(asked.scenario)
        call = [self.command, "compare", str(file), "--world", asked.world, "--seeds", str(asked.seeds)]
        call += ["--out", str(asked.folder), "--json", *(["--ben"] if asked.ben else [])]
        for key, value in asked.settings.items():
            call += ["--set", f"{key}={value}"]
        code, lines = self.children.run(call, heard)
        if code:
            raise _failure(code, lines or [f"exit code {code}"])
        origin = Provenance(
            made_of, today(), asked.basis, asked.seeds, asked.question,
            round(monotonic() - begun, 1),
        )  # fmt: skip
        origin.write(asked.folder)

    def _read(self, folder: Path) -> dict[str, Any]:
        file = folder / "result.json"
        if not file.exists():
            raise RunFailed(f"{file} is missing: remove {folder} and run again")
        document: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return document


def _digest(parts: list[Any]) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:10]


def _traces(given: Any, folder: Path) -> Iterator[str]:
    """Hash of each file that a scenario names as a trace."""
    if isinstance(given, list):
        for entry in given:
            yield from _traces(entry, folder)
    elif isinstance(given, Mapping):
        for key, value in given.items():
            if str(key).rsplit(".", 1)[-1] == "trace" and isinstance(value, str) and (folder / value).is_file():
                yield hashlib.sha256((folder / value).read_bytes()).hexdigest()
            else:
                yield from _traces(value, folder)


def _only(wanted: tuple[str, ...], file: Path) -> str:
    """Some of the file's cases, as ``--set cases=…`` takes them."""
    cases = {entry.get("name"): entry for entry in toml.loads(file.read_text(encoding="utf-8")).get("cases", [])}
    for name in wanted:
        if name not in cases:
            raise ValueError(f'{file}: there is no case "{name}"')
    return _inline([cases[name] for name in wanted])


def _inline(value: Any) -> str:
    """TOML on one line; numbers, truth and text are written as in JSON."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(key)} = {_inline(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_inline(entry) for entry in value) + "]"
    return json.dumps(value, ensure_ascii=False)


def _failure(code: int, lines: list[str]) -> Exception:
    message = lines[-1].removeprefix("multipilot: ")
    if code == CANNOT_HERE:
        return CannotHere(message)
    # The last line counts the failed runs; the line of the first one says why.
    reason = next((line.removeprefix("multipilot: ") for line in lines[:-1] if line.startswith("multipilot: ")), "")
    return RunFailed(f"{message}: {reason}" if reason else message)
