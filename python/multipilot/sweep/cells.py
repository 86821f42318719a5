"""What a sweep consists of. A cell is complete in itself, so that any machine can run it, and named by its content."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path, PurePath
from typing import Any

from multipilot import _core, toml
from multipilot._core import __version__
from multipilot.simulation import expand

SIMULATION, TRAINING = "simulation", "training"


@dataclass(frozen=True)
class Cell:
    """``text`` is a scenario as the sweep changed it, or the plan of a training as JSON."""

    kind: str
    text: str
    #: What tells it from its neighbours, for the data set and for people.
    scenario: str
    seed: int
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> str:
        return hashlib.sha256(f"{__version__}\n{self.kind}\n{self.text}".encode()).hexdigest()[:16]

    @property
    def name(self) -> str:
        return " ".join([self.scenario, *(f"{k}={v}" for k, v in self.settings.items()), f"seed {self.seed}"])


def simulations(
    scenarios: Sequence[str | Path],
    controllers: Sequence[str],
    axes: Mapping[str, Sequence[str]],
    fixed: Mapping[str, str],
    duration: str | None,
    seeds: Sequence[int],
) -> Iterator[Cell]:
    """Scenarios × controllers × values of the axes × seeds; ScenarioError where a combination is no scenario.

    Seeds vary fastest and controllers next, so that a sweep that ends early has whole comparisons.
    """
    keys = list(axes)
    for scenario in scenarios:
        document = _read(scenario)
        for values in itertools.product(*(axes[key] for key in keys)):
            chosen = dict(zip(keys, values, strict=True))
            wanted = {k: value_of(v) for k, v in {**fixed, **chosen}.items()}
            overrides = {key: v for k, v in wanted.items() for key in _keys(k, document, scenario)}
            for controller in controllers or [""]:
                settings = {**({"controller": controller} if controller else {}), **chosen}
                for seed in seeds:
                    text = expand(
                        scenario,
                        controllers=[controller] if controller else None,
                        duration=duration,
                        **{**overrides, "seed": seed},
                    )
                    yield Cell(SIMULATION, text, PurePath(scenario).stem, seed, settings)


def trainings(algorithms: Sequence[str], seeds: Sequence[int], plan: Mapping[str, int]) -> Iterator[Cell]:
    for seed in seeds:
        for algorithm in algorithms:
            text = json.dumps({**plan, "algorithm": algorithm, "seed": seed}, sort_keys=True)
            yield Cell(TRAINING, text, algorithm, seed)


def value_of(text: str) -> Any:
    """A value as ``--set`` takes it: TOML where it is some, else the text itself (``4MB``)."""
    try:
        return toml.loads(f"v = {text}")["v"]
    except toml.TOMLDecodeError:
        return text


def _read(scenario: str | Path) -> dict[str, Any]:
    """Empty where it is none: whoever checks scenarios says why."""
    try:
        file = Path(scenario)
        return toml.loads(file.read_text(encoding="utf-8") if file.is_file() else _core.builtin(str(scenario)) or "")
    except (OSError, ValueError):
        return {}


def _keys(key: str, document: dict[str, Any], scenario: str | Path) -> list[str]:
    """What has to be set for this key: its places in the file or, where the file's own grid has it, that axis."""
    own = list(_leaves(document.get("grid", {})))
    if key in own:
        return [f"grid.{key}"]
    for axis in own:
        if fnmatch(axis, key) or fnmatch(key, axis):
            raise ValueError(f"{key}: {scenario} has a grid of its own over {axis}; name that key")
    return _spread(key.split("."), document)


def _leaves(table: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def _spread(parts: Sequence[str], inside: Any) -> list[str]:
    """The keys that a dotted one with ``*`` stands for: all names of a table, all numbers of a list."""
    if not parts:
        return [""]
    names = list(inside) if isinstance(inside, dict) else [str(k) for k in range(len(inside or []))]
    found = []
    for name in names if parts[0] == "*" else [parts[0]]:
        within = inside.get(name) if isinstance(inside, dict) else inside[int(name)] if name in names else None
        found += [".".join([name, *filter(None, [rest])]) for rest in _spread(parts[1:], within)]
    return found
