"""Runs scenarios through ``multipilot compare``, in either world, and keeps what is done.

Each call has a folder of its own below ``OUT/records``. A finished folder is not run again; one that was interrupted is
taken up where it stopped, for ``compare`` itself resumes with the same ``--out``.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fcntl import LOCK_EX, LOCK_NB, flock
from functools import cached_property
from pathlib import Path
from time import monotonic
from typing import Any

from multipilot.agree.worlds import BUSY
from multipilot.children import Children
from multipilot.console import CANNOT_HERE, CannotHere, RunFailed, say
from multipilot.papers.cost import Cost, of_comparison
from multipilot.papers.paper import Experiment, Point
from multipilot.papers.results import KERNEL, SIM, Results

#: Telemetry is not drawn but where an experiment asks for it; a row needs none.
SPARSE = {"sample_interval": "10s"}


def find_scenarios(paper: str, folder: Path | None = None) -> Path:
    """The paper's folder of scenarios: as named, below the current folder, or in the checkout."""
    places = [folder] if folder else [Path("scenarios") / paper, Path(__file__).parents[3] / "scenarios" / paper]
    for place in places:
        if place.is_dir():
            return place.resolve()
    raise ValueError(f"no scenarios at {places[0]}: run from the checkout, or name their folder by --scenarios")


def trace_pairs(folder: Path) -> Iterator[tuple[str, Path, Path]]:
    """Name, downlink and uplink of each pair ``NAME.down``, ``NAME.up`` of Mahimahi traces, packed by gzip or not."""
    for down in sorted([*folder.glob("*.down"), *folder.glob("*.down.gz")]):
        up = down.with_name(down.name.replace(".down", ".up"))
        if up.exists():
            yield down.name.split(".down")[0], down.resolve(), up.resolve()


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
        settings, seeds, folder = self._simulation(experiment)
        if recall and not (folder / "done").exists():
            return
        self._compare(SIM, experiment.scenario, settings, seeds, folder, experiment.ben, heard)
        if not experiment.tables:
            shutil.rmtree(folder / "runs", ignore_errors=True)
        results.add(SIM, experiment.key, self._read(folder), folder)

    def cost(self, experiment: Experiment) -> Cost:
        """Of what :meth:`simulate` would have to run."""
        settings, seeds, folder = self._simulation(experiment)
        if (folder / "done").exists():
            return Cost(0, 0.0)
        return of_comparison(self._file(experiment.scenario), settings, seeds, experiment.ben)

    def _simulation(self, experiment: Experiment) -> tuple[dict[str, str], int, Path]:
        settings = {**SPARSE, **experiment.settings, **(experiment.quick if self.quick else {})}
        label = experiment.label.replace(" ", "-") or "all"
        seeds = min(self.seeds, experiment.most_seeds or self.seeds)
        return settings, seeds, self._folder(SIM, experiment.scenario, label, settings, seeds, experiment.ben)

    def on_kernel(self, point: Point, results: Results, recall: bool = False) -> bool:
        """One point; with ``recall`` only if it was measured before. Whether there is a result now."""
        managers = ", ".join(f'"{name}"' for name in (point.path_manager, *point.beside))
        managers = f"[{managers}]" if point.beside else managers
        variants = f'[{{controller = "{point.controller}", path_manager = {managers}}}]'
        cell = {f"grid.{key}": value for key, value in point.cell.items()}
        settings = {**point.settings, **cell, "variants": variants}
        folder = self._folder(KERNEL, point.scenario, point.variant, settings, 1, point.ben)
        if recall and not (folder / "done").exists():
            return False
        self._compare(KERNEL, point.scenario, settings, 1, folder, point.ben)
        document = self._read(folder)
        # A run that its emulated paths could not keep up with measured the machine's load.
        if any(BUSY in note for row in document["rows"] for note in row.get("notes", [])):
            (folder / "done").unlink()
            (folder / "result.json").unlink()
            if not recall:
                raise RunFailed(f"{BUSY}: the emulated paths did not keep their times")
            return False
        results.add(KERNEL, point.key, document, folder)
        return True

    def _folder(
        self, world: str, scenario: str, label: str, settings: Mapping[str, str], seeds: int, ben: bool
    ) -> Path:
        """What is asked for names the folder: other seeds, settings or text of the scenario are another record.

        In the simulator another build is one too. The kernel's points cost real time, and stay.
        """
        file = self._file(scenario)
        more = [*(["ben"] if ben else []), *([self._build] if world == SIM else [])]
        asked = json.dumps([file.read_text(encoding="utf-8"), dict(settings), seeds, *more], sort_keys=True)
        digest = hashlib.sha256(asked.encode()).hexdigest()[:10]
        return self.out / "records" / world / f"{scenario}-{label}-{digest}"

    def _file(self, scenario: str) -> Path:
        return self.scenarios / f"{scenario}.toml"

    @cached_property
    def _build(self) -> str:
        return hashlib.sha256(Path(self.command).read_bytes()).hexdigest()

    def _compare(
        self,
        world: str,
        scenario: str,
        settings: Mapping[str, str],
        seeds: int,
        folder: Path,
        ben: bool,
        heard: Callable[[str], None] = lambda _: None,
    ) -> None:
        if (folder / "done").exists():
            return
        _wait_for(folder)
        call = [self.command, "compare", str(self._file(scenario)), "--world", world, "--seeds", str(seeds)]
        call += ["--out", str(folder), "--json", *(["--ben"] if ben else [])]
        for key, value in settings.items():
            call += ["--set", f"{key}={value}"]
        code, lines = self.children.run(call, heard)
        if code:
            raise _failure(code, lines or [f"exit code {code}"])
        (folder / "done").touch()

    def _read(self, folder: Path) -> dict[str, Any]:
        file = folder / "result.json"
        if not file.exists():
            raise RunFailed(f"{file} is missing: remove {folder} and run again")
        document: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        return document


def _wait_for(folder: Path) -> None:
    """A comparison outlives the paper's command where that is killed, and does what this one would."""
    lock = folder / ".lock"
    if not lock.exists():
        return
    with lock.open("rb") as file:
        try:
            flock(file, LOCK_EX | LOCK_NB)
        except BlockingIOError:
            say(f"{folder}: the comparison that an earlier call began there still runs; waiting for it")
            flock(file, LOCK_EX)


def _failure(code: int, lines: list[str]) -> Exception:
    message = lines[-1].removeprefix("multipilot: ")
    if code == CANNOT_HERE:
        return CannotHere(message)
    # The last line counts the failed runs; the line of the first one says why.
    reason = next((line.removeprefix("multipilot: ") for line in lines[:-1] if line.startswith("multipilot: ")), "")
    return RunFailed(f"{message}: {reason}" if reason else message)


class Budget:
    """Seconds that kernel runs may still take: one is started only if its estimate fits."""

    def __init__(self, seconds: float, clock: Callable[[], float] = monotonic) -> None:
        self.end = clock() + seconds
        self.clock = clock

    def allows(self, seconds: float) -> bool:
        return self.clock() + seconds <= self.end
