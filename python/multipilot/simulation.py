"""The simulator as a function: a scenario in, a record out."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from multipilot import _core
from multipilot.record import DECISIONS, SAMPLES, TRANSFERS, Record

Scenario = str | Path | Mapping[str, Any]


def simulate(
    scenario: Scenario,
    *,
    seeds: int = 1,
    controllers: Sequence[str] | None = None,
    path_managers: Sequence[str] | None = None,
    initial_paths: Sequence[str] | None = None,
    schedulers: Sequence[str] | None = None,
    duration: str | float | None = None,
    threads: int | None = None,
    telemetry: bool = True,
    **overrides: Any,
) -> Record:
    """Simulate every variant of a scenario with ``seeds`` seeds each, over all cores.

    The same scenario and seeds give the same record on any machine and with any number of threads.

    Args:
        scenario: A file, the name of a built-in one (:func:`list_scenarios`), a text (anything with a line break), or a
            dictionary of the same shape. A file comes before a built-in one of its name; a ``Path`` is always a file.
        seeds: Runs of each variant; run k has the scenario's seed + k.
        controllers: These in place of the scenario's; likewise ``path_managers``, ``initial_paths`` and
            ``schedulers``.
        duration: Upper bound of a run: seconds, or text with a unit such as ``"2min"``.
        threads: At once; by default one a core.
        telemetry: Whether to keep each subflow's samples over time. Without them a batch of many seeds stays small.
        **overrides: Other keys of the scenario, nested (``paths={"wifi": {"loss": 0.01}}``) or dotted
            (``**{"paths.wifi.loss": 0.01}``).

    Returns:
        A record with one row a run, in the order of cells, variants and seeds.

    Raises:
        ScenarioError: The scenario or an override is wrong; the message names the place and what was expected.
        SimulationError: A run could not be done.
        TypeError: An argument of another type, such as a string where a list of names belongs.
        ValueError: No seeds, or an empty list of controllers, path managers, initial paths or schedulers.
    """
    if isinstance(seeds, bool) or not isinstance(seeds, int):
        raise TypeError(f"seeds: {seeds!r} is no whole number; give the number of runs")
    if seeds < 1:
        raise ValueError(f"seeds: {seeds} is no number of runs; give 1 or more")
    source = _given(scenario)
    wishes = _wishes(controllers, path_managers, initial_paths, schedulers, duration, overrides)
    workers = threads if threads is not None else os.cpu_count() or 1
    document, text, transfers, samples, decisions = _core.simulate(source, wishes, seeds, workers, telemetry)
    return Record(
        document=json.loads(document),
        transfers=pa.table(transfers).cast(TRANSFERS),
        samples=pa.table(samples).cast(SAMPLES),
        decisions=pa.table(decisions).cast(DECISIONS),
        scenario_text=text,
    )


def expand(
    scenario: Scenario,
    *,
    controllers: Sequence[str] | None = None,
    path_managers: Sequence[str] | None = None,
    initial_paths: Sequence[str] | None = None,
    schedulers: Sequence[str] | None = None,
    duration: str | float | None = None,
    **overrides: Any,
) -> str:
    """The scenario as TOML with every default filled in, checked as :func:`simulate` would check it."""
    return _core.expand(
        _given(scenario), _wishes(controllers, path_managers, initial_paths, schedulers, duration, overrides)
    )


def expanded(file: Path, settings: Mapping[str, str]) -> str:
    """:func:`expand` of a file with settings as ``compare --set KEY=VALUE`` takes them; a grid stays as it is."""
    wishes = _wishes(None, None, None, None, None, {})
    return _core.expand(_given(file), {**wishes, "set": [f"{key}={value}" for key, value in settings.items()]})


@cache
def default_mss() -> int:
    """Payload of a full segment, bytes, in a scenario that does not say (``mss``)."""
    found = re.search(r"^mss = (\d+)$", expand({"paths": {"any": {"rate": "1Mbit"}}}), re.MULTILINE)
    assert found, "an expanded scenario spells every default out"
    return int(found[1])


def list_controllers() -> list[dict[str, Any]]:
    """Congestion controllers, Linux' own too: name, summary, source, kind (``window`` or ``rate``), whether they are
    coupled, worlds, parameters."""
    return _entries(_core.controllers())


def list_schedulers() -> list[dict[str, Any]]:
    """Schedulers: name, summary, source, worlds, parameters."""
    return _entries(_core.schedulers())


def list_path_managers() -> list[dict[str, Any]]:
    """Path managers: name, summary, source, worlds, parameters."""
    return _entries(_core.path_managers())


def list_initial_paths() -> list[dict[str, Any]]:
    """Ways to choose the initial path: name, summary, source, worlds, parameters."""
    return _entries(_core.initial_paths())


def list_scenarios() -> list[dict[str, Any]]:
    """Built-in scenarios: name, summary, description, number of cells."""
    return _entries(_core.scenarios())


def _entries(text: str) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = json.loads(text)
    return entries


def _given(scenario: Scenario) -> _core.Given:
    if isinstance(scenario, Mapping):
        return {"kind": "json", "value": json.dumps(scenario, default=_as_text)}
    if isinstance(scenario, str):
        return {"kind": "toml" if "\n" in scenario else "name", "value": scenario}
    if isinstance(scenario, os.PathLike):
        return {"kind": "file", "value": os.fspath(scenario)}
    raise TypeError(f"scenario: is {type(scenario).__name__}; give a file, a name, a text, or a dictionary")


def _as_text(value: Any) -> str:
    if isinstance(value, os.PathLike):
        return str(os.fspath(value))
    raise TypeError(f"scenario: {value!r} is no value of a scenario; give text, numbers, lists and dictionaries")


def _wishes(
    controllers: Sequence[str] | None,
    path_managers: Sequence[str] | None,
    initial_paths: Sequence[str] | None,
    schedulers: Sequence[str] | None,
    duration: str | float | None,
    overrides: Mapping[str, Any],
) -> _core.Wishes:
    return {
        "set": [
            f"{key}={json.dumps(value, ensure_ascii=False, default=_as_text)}" for key, value in _dotted(overrides)
        ],
        "duration": f"{duration}s" if isinstance(duration, (int, float)) else duration,
        "controllers": _names("controllers", controllers),
        "path_managers": _names("path_managers", path_managers),
        "initial_paths": _names("initial_paths", initial_paths),
        "schedulers": _names("schedulers", schedulers),
    }


def _names(argument: str, names: Sequence[str] | None) -> list[str]:
    if isinstance(names, str):
        raise TypeError(f'{argument}: "{names}" is one text; give a list, e.g. ["{names}"]')
    if names is not None and not names:
        raise ValueError(f"{argument}: an empty list leaves nothing to run; leave it out for the scenario's own")
    return list(names or [])


def _dotted(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _dotted(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value
