"""Where a number comes from: commit, day, world, number of seeds, and a hash of the sources that decide it."""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from functools import cache
from pathlib import Path
from typing import Any

import multipilot
from multipilot import _core
from multipilot.papers.folder import reproductions
from multipilot.papers.results import KERNEL, RELAY, SIM
from multipilot.papers.sources import Sources

DONE = "done"
#: As `multipilot list --json` names the worlds' sources: kernel and relay are one crate.
_WORLDS = {SIM: "simulator", KERNEL: "kernel", RELAY: "kernel"}
#: Sources or commits of several records.
_MOST_NAMED = 3
#: Behind the commit of a tree that differs from it.
_CHANGED = "+"
#: Verdicts decide no result: a lock, and the page of all, are written while others are still to be.
_TRACKED = (
    "--untracked-files=no",
    "--",
    ":(top)",
    ":(top,exclude,glob)**/claims.lock",
    ":(top,exclude)reproductions/README.md",
)


#: Where a file that is in no commit can decide a result.
_DECIDING = tuple(f":(top){folder}" for folder in ("controllers", "crates", "python", "reproductions", "scenarios"))


@dataclass(frozen=True)
class Provenance:
    """Kept in the file ``done`` of a record."""

    commit: str
    date: str
    source: str
    seeds: int
    #: What was asked, whatever the sources: the same question of other sources is stale.
    question: str = ""
    seconds: float = 0.0

    def write(self, folder: Path) -> None:
        (folder / DONE).write_text(json.dumps(asdict(self)) + "\n", encoding="utf-8")

    @staticmethod
    def read(folder: Path) -> Provenance | None:
        """None where there is no such record, or one of a format before this one."""
        try:
            return Provenance(**json.loads((folder / DONE).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None


def today() -> str:
    return f"{datetime.now(timezone.utc):%Y-%m-%d}"


@cache
def commit(folder: Path) -> str:
    """Of the checkout that ``folder`` is in, with ``+`` if it has files, but for locks, that differ; else empty."""

    def git(*words: str) -> str:
        done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True)
        return done.stdout.strip() if done.returncode == 0 else ""

    try:
        head = git("rev-parse", "--short=10", "HEAD")
        changed = git("status", "--porcelain", *_TRACKED)
        changed = changed or git("ls-files", "--others", "--exclude-standard", "--", *_DECIDING)
        return head + _CHANGED if head and changed else head
    except OSError:
        return ""


def is_changed(commit: str) -> bool:
    """Whether the tree had changes that no commit has: nobody can look up what gave its numbers."""
    return commit.endswith(_CHANGED)


def package_origin() -> str:
    """``commit 0b68024f12`` of the checkout that this package is in, else the version that is installed."""
    checkout = Path(multipilot.__file__).parents[2]
    # An environment may lie within a checkout of something else.
    found = commit(checkout) if (checkout / "crates" / "simulator").is_dir() else ""
    return f"commit {found}" if found else f"multipilot {_core.__version__}"


def sources(command: str) -> dict[str, str]:
    """Hash of the sources that decide what each world measures, as the ``multipilot`` command was built from.

    A command that does not know its sources is known by its bytes.
    """
    done = subprocess.run([command, "list", "controllers", "--json"], capture_output=True, text=True)
    try:
        told: Mapping[str, Any] = json.loads(done.stdout).get("sources", {})
    except ValueError:
        told = {}
    bytes_of = "" if {*_WORLDS.values()} <= {*told} else _digest([Path(command)])
    return {world: str(told.get(name, bytes_of)) for world, name in _WORLDS.items()}


@cache
def simulator_source() -> str:
    """Of the simulator inside this package."""
    return str(getattr(_core, "__source__", "")) or _digest([Path(_core.__file__)])


@cache
def simulator_basis(*chosen: str) -> str:
    """Of the simulator inside this package, for scenarios with these words, and for no others."""
    checkout = Sources(reproductions().parent)
    built = simulator_source()
    return checkout.basis(SIM, frozenset(chosen)) if checkout.whole(SIM) == built else built


def of_files(*files: Path) -> str:
    """Hash of the Python modules that decide what they keep."""
    return _digest(files)


def _digest(files: Iterable[Path]) -> str:
    found = hashlib.sha256()
    for file in files:
        found.update(file.read_bytes())
    return found.hexdigest()[:16]


def said(found: Iterable[Provenance]) -> str:
    """``n = 5, commit 0b68024, 2026-11-22, sources 1f2e…`` of several records."""
    every = list(found)
    if not every:
        return ""

    def span(values: set[Any]) -> str:
        ordered = sorted(values)
        return str(ordered[0]) if len(ordered) == 1 else f"{ordered[0]} to {ordered[-1]}"

    def some(values: set[str]) -> str:
        ordered = sorted(values)
        return ", ".join(ordered) if len(ordered) <= _MOST_NAMED else f"{ordered[0]} and {len(ordered) - 1} others"

    commits = some({p.commit or "unknown" for p in every})
    return (
        f"n = {span({p.seeds for p in every})}, commit {commits}, {span({p.date for p in every})}, "
        f"sources {some({p.source for p in every})}"
    )
