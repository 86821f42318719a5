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
    schedulers: Sequence[str] | None = None,
    duration: str | float | None = None,
    threads: int | None = None,
    telemetry: bool = True,
    **overrides: Any,
) -> Record:
    """Simulate every variant of a scenario with ``seeds`` seeds each, over all cores.

    The same scenario and seeds give the same record on any machine and with any number of threads.

    Args:
        scenario: A file, the text of one (anything with a line break), or a dictionary of the same shape.
        seeds: Runs of each variant; run k has the scenario's seed + k.
        controllers: These in place of the scenario's; likewise ``path_managers`` and ``schedulers``.
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
        ValueError: No seeds, or an empty list of controllers, path managers or schedulers.
    """
    if seeds < 1:
        raise ValueError(f"seeds: {seeds} is no number of runs; give 1 or more")
    source, wishes = _given(scenario), _wishes(controllers, path_managers, schedulers, duration, overrides)
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
    schedulers: Sequence[str] | None = None,
    duration: str | float | None = None,
    **overrides: Any,
) -> str:
    """The scenario as TOML with every default filled in, checked as :func:`simulate` would check it."""
    return _core.expand(_given(scenario), _wishes(controllers, path_managers, schedulers, duration, overrides))


def expanded(file: Path, settings: Mapping[str, str]) -> str:
    """:func:`expand` of a file with settings as ``compare --set KEY=VALUE`` takes them; a grid stays as it is."""
    wishes = _wishes(None, None, None, None, {})
    return _core.expand(_given(file), {**wishes, "set": [f"{key}={value}" for key, value in settings.items()]})


@cache
def default_mss() -> int:
    """Payload of a full segment, bytes, in a scenario that does not say (``mss``)."""
    found = re.search(r"^mss = (\d+)$", expand({"paths": {"any": {"rate": "1Mbit"}}}), re.MULTILINE)
    assert found, "an expanded scenario spells every default out"
    return int(found[1])


def list_controllers() -> list[dict[str, Any]]:
    """Congestion controllers: name, summary, source, what they steer (``window`` or ``rate``), parameters."""
    return _entries(_core.controllers())


def list_schedulers() -> list[dict[str, Any]]:
    """Schedulers: name, summary, source."""
    return _entries(_core.schedulers())


def list_path_managers() -> list[dict[str, Any]]:
    """Path managers: name, summary, source."""
    return _entries(_core.path_managers())


def _entries(text: str) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = json.loads(text)
    return entries


def _given(scenario: Scenario) -> _core.Given:
    if isinstance(scenario, Mapping):
        return {"kind": "json", "value": json.dumps(scenario, default=str)}
    if isinstance(scenario, str) and "\n" in scenario:
        return {"kind": "toml", "value": scenario}
    return {"kind": "file", "value": os.fspath(scenario)}


def _wishes(
    controllers: Sequence[str] | None,
    path_managers: Sequence[str] | None,
    schedulers: Sequence[str] | None,
    duration: str | float | None,
    overrides: Mapping[str, Any],
) -> _core.Wishes:
    return {
        "set": [f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in _dotted(overrides)],
        "duration": f"{duration}s" if isinstance(duration, (int, float)) else duration,
        "controllers": _names("controllers", controllers),
        "path_managers": _names("path_managers", path_managers),
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
