"""What a paper is to this package: what to measure, and what to show of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from multipilot.papers.claims import Claims
from multipilot.papers.results import KERNEL

if TYPE_CHECKING:
    from multipilot.papers.claims.quantity import Values
    from multipilot.papers.page import Section
    from multipilot.papers.results import Results
    from multipilot.papers.runs import Runner


@dataclass(frozen=True)
class Experiment:
    """One scenario file, run whole in the simulator.

    ``quick`` are grid axes that ``--quick`` holds at one value, ``settings`` further changes to the file for this
    purpose (a sparser telemetry, say); both as ``--set KEY=VALUE`` takes them. ``ben`` measures the benefit of
    aggregation too. Without ``tables`` only the rows are kept: thousands of runs would fill the disk.
    """

    scenario: str
    quick: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    ben: bool = False
    tables: bool = True
    #: Seeds at most: runs in which nothing is drawn need one.
    most_seeds: int | None = None
    #: What results call it, where one scenario serves several experiments.
    label: str = ""
    #: The file's cases to run, where not all.
    cases: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        return self.label or self.scenario


@dataclass(frozen=True)
class Point:
    """One measurement in real time, on the kernel or over the relay: a variant in one cell of a scenario's grid, whose
    key ``case`` is a case's name.

    ``beside`` are further path managers to compare it with, in the same call, ``initial_paths`` and ``schedulers`` the
    choices of these to compare; ``settings``, ``ben`` and ``label`` as in an :class:`Experiment`. One run decides no
    claim: fewer points with five runs say more.
    """

    scenario: str
    cell: Mapping[str, str]
    controller: str
    path_manager: str = "fullmesh"
    beside: tuple[str, ...] = ()
    initial_paths: tuple[str, ...] = ()
    schedulers: tuple[str, ...] = ()
    ben: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)
    label: str = ""
    seeds: int = 5
    world: str = KERNEL

    @property
    def key(self) -> str:
        return self.label or self.scenario

    @property
    def runs(self) -> int:
        """With ``ben`` one more over each of two paths."""
        chosen = max(1, len(self.initial_paths)) * max(1, len(self.schedulers))
        return self.seeds * ((1 + len(self.beside)) * chosen + 2 * self.ben)

    @property
    def variant(self) -> str:
        """As results call it."""
        return "tcp" if (self.controller, self.path_manager) == ("reno", "single") else self.controller

    @property
    def name(self) -> str:
        where = " ".join(f"{key.removeprefix('paths.')}={value}" for key, value in self.cell.items())
        managers = {"fullmesh": "", "single": " over one path"}
        who = self.controller + managers.get(self.path_manager, f", {self.path_manager}")
        return f"{self.key} {where}: {who}" if where else f"{self.key}: {who}"


@dataclass(frozen=True)
class Item:
    """One thing that ``--only`` can name: a row of a table, a figure, a picture of the theory.

    ``show`` draws it from the results of its scenarios, as a section of the page.
    """

    name: str
    scenarios: tuple[str, ...]
    show: Callable[[Results], Section]


@dataclass(frozen=True)
class Own:
    """What a paper measures beside its scenarios, for the items that have none.

    ``measure`` puts it into ``Results.own``; the flag: only what was measured before. The path is that of the user's
    own data, if any.
    """

    measure: Callable[[Runner, Results, bool, Path | None], None]
    #: A small part of it, into ``Results.own`` too: the same sources give the same.
    sample: Callable[[Results], None]
    #: Hash of the sources that decide it.
    basis: Callable[[], str]


@dataclass(frozen=True)
class Paper:
    """``points`` are in order of importance: a budget that ends early has then measured what matters most."""

    name: str
    title: str
    source: str
    experiments: tuple[Experiment, ...]
    points: tuple[Point, ...]
    items: tuple[Item, ...]
    #: Further experiments on the traces in a folder that the user names.
    on_traces: Callable[[Path], tuple[Experiment, ...]] | None = None
    own: Own | None = None
    #: Seeds a variant in the simulator where the user names none.
    seeds: int = 20
    #: Paragraphs that open a page without claims, given what was measured; none where that says nothing yet.
    summary: Callable[[Results], list[str]] = lambda _: []
    claims: Claims = field(default_factory=Claims)
    #: What the claims are about and ``--json`` prints, by world (``sim``, ``kernel`` or ``theory``). Every name is
    #: there, measured or not.
    values: Callable[[Results, str], Values] = lambda _results, _world: {}
