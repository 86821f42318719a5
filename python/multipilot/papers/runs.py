"""Runs scenarios through ``multipilot compare``, in either world, and keeps what is done.

Each call has a folder of its own below ``OUT/records``. A finished folder is not run again; one that was interrupted is
taken up where it stopped, for ``compare`` itself resumes with the same ``--out``.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from multipilot.console import CANNOT_HERE
from multipilot.papers.paper import Experiment, Point
from multipilot.papers.results import KERNEL, SIM, Results

#: Telemetry is not drawn but where an experiment asks for it; a row needs none.
SPARSE = {"sample_interval": "10s"}


class RunError(RuntimeError):
    """A comparison failed; the message is its own. ``code`` is the exit code of the contract."""

    def __init__(self, message: str, code: int = 1) -> None:
        super().__init__(message)
        self.code = code


class CannotHere(RunError):
    """This machine cannot do the kernel world."""


def find_command() -> str:
    """The multipilot command: on the PATH, or as cargo left it in the checkout."""
    root = Path(__file__).parents[3]
    for candidate in (shutil.which("multipilot"), root / "target/release/multipilot", root / "target/debug/multipilot"):
        if candidate and Path(candidate).exists():
            return str(candidate)
    raise RunError("multipilot is not on the PATH: build it with `make build`, or add its folder to the PATH", 2)


def find_scenarios(paper: str, folder: Path | None = None) -> Path:
    """The paper's folder of scenarios: as named, below the current folder, or in the checkout."""
    places = [folder] if folder else [Path("scenarios") / paper, Path(__file__).parents[3] / "scenarios" / paper]
    for place in places:
        if place.is_dir():
            return place.resolve()
    raise RunError(f"no scenarios at {places[0]}: run from the checkout, or name their folder by --scenarios", 2)


@dataclass
class Runner:
    """``out`` is where everything is kept; ``quick`` and ``seeds`` concern the simulator alone."""

    paper: str
    out: Path
    scenarios: Path
    command: str
    seeds: int
    quick: bool = False

    def simulate(self, experiment: Experiment, results: Results, recall: bool = False) -> None:
        """The whole grid of a scenario (its chosen cells with ``quick``). ``recall``: only what was run before."""
        settings = {**SPARSE, **experiment.settings, **(experiment.quick if self.quick else {})}
        folder = self._folder(SIM, experiment.scenario, "all", settings, self.seeds)
        if recall and not (folder / "done").exists():
            return
        self._compare(SIM, experiment.scenario, settings, self.seeds, folder)
        self._add(SIM, experiment.scenario, folder, results)

    def on_kernel(self, point: Point, results: Results, recall: bool = False) -> bool:
        """One point; with ``recall`` only if it was measured before, which the answer tells."""
        variants = f'[{{controller = "{point.controller}", path_manager = "{point.path_manager}"}}]'
        pins = {f"grid.{key}": value for key, value in point.cell.items()}
        settings = {**pins, "variants": variants}
        folder = self._folder(KERNEL, point.scenario, point.variant, settings, 1)
        if not recall or (folder / "done").exists():
            self._compare(KERNEL, point.scenario, settings, 1, folder)
            self._add(KERNEL, point.scenario, folder, results)
            return True
        return False

    def _folder(self, world: str, scenario: str, label: str, settings: Mapping[str, str], seeds: int) -> Path:
        """What is asked for names the folder: other seeds, settings or text of the scenario are another record."""
        file = self.scenarios / f"{scenario}.toml"
        asked = json.dumps([file.read_text(encoding="utf-8"), dict(settings), seeds], sort_keys=True)
        digest = hashlib.sha256(asked.encode()).hexdigest()[:10]
        return self.out / "records" / world / f"{scenario}-{label}-{digest}"

    def _compare(self, world: str, scenario: str, settings: Mapping[str, str], seeds: int, folder: Path) -> None:
        if (folder / "done").exists():
            return
        file = self.scenarios / f"{scenario}.toml"
        call = [self.command, "compare", str(file), "--world", world, "--seeds", str(seeds)]
        call += ["--out", str(folder), "--json"]
        for key, value in settings.items():
            call += ["--set", f"{key}={value}"]
        _run(call)
        (folder / "done").touch()

    def _add(self, world: str, scenario: str, folder: Path, results: Results) -> None:
        file = folder / "result.json"
        if not file.exists():
            raise RunError(f"{file} is missing: remove {folder} and run again")
        results.add(world, scenario, json.loads(file.read_text(encoding="utf-8")), folder)


def _run(call: list[str]) -> None:
    with subprocess.Popen(call, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        try:
            _, messages = process.communicate()
        except KeyboardInterrupt:
            # The terminal's Ctrl-C reached the child too; it removes its namespaces before it ends.
            process.wait()
            raise
    if process.returncode:
        lines = [line for line in messages.strip().splitlines() if line.strip()] or ["no message"]
        message = f"{' '.join(call[1:3])}: {lines[-1].removeprefix('error: ')}"
        raise (CannotHere if process.returncode == CANNOT_HERE else RunError)(message, process.returncode)


class Budget:
    """Seconds that kernel runs may still take. Each counts what it took; one is started only if its estimate fits."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.end = clock() + seconds
        self.clock = clock

    def allows(self, seconds: float) -> bool:
        return self.clock() + seconds <= self.end


def parse_budget(text: str) -> float:
    """``90s``, ``60m`` or ``2h`` in seconds."""
    units = {"s": 1, "m": 60, "min": 60, "h": 3600}
    number = text.rstrip("smihn")
    unit = text[len(number) :]
    try:
        if unit not in units or float(number) < 0:
            raise ValueError
        return float(number) * units[unit]
    except ValueError:
        raise ValueError(f'--budget {text}: write a duration such as "90s", "60m" or "2h"') from None
