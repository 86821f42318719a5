"""``claims.toml``: a paper's claims one by one, in the format of docs/reference/claims.md."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from multipilot import toml
from multipilot.papers.claims.predicate import Verdict, kind_of
from multipilot.papers.claims.quantity import Values, Wrong, quantity
from multipilot.papers.results import KERNEL, SIM
from multipilot.papers.results import WORLDS as MEASURED

THEORY = "theory"
#: The key of a template for every verdict.
ALWAYS = "always"
WORLDS = (*MEASURED, THEORY)
_PLACE = re.compile(r"\{([^{}|]+)(?:\|([^{}]+))?\}")
#: Numbers in digits and in words.
_NUMBER = re.compile(
    r"\d+(?:[.,]\d+)*|\b(?:hal(?:f|ves|ved)|(?:third|quarter|fifth|sixth|seventh|eighth|ninth|tenth|hundredth|thousandth)s?"
    r"|twice|thrice|doubl\w+|tripl\w+|two|three|four|five|six|seven|eight|nine|ten|dozens?"
    r"|most(?:ly)?|nearly|about|always|never)\b"
)


@dataclass(frozen=True)
class Claim:
    id: str
    where: str
    says: str
    item: str
    test: Mapping[str, Any]
    unit: str = ""
    paper: str = ""
    by: str = "the paper"
    worlds: tuple[str, ...] = (SIM, KERNEL)
    prose: Mapping[str, str] = field(default_factory=dict)

    @property
    def excuse(self) -> str:
        """Why it cannot be tested; empty where it can."""
        return str(self.test.get("none", ""))

    def template(self, verdict: Verdict) -> str:
        """What is said for every verdict, and the remark on this one; empty where there is neither."""
        return " ".join(filter(None, (self.prose.get(ALWAYS), self.prose.get(verdict.value))))

    def names(self) -> set[str]:
        """The values that its templates cite."""
        return {name for text in self.prose.values() for name, _ in _PLACE.findall(text)} - {"effect"}


@dataclass(frozen=True)
class Claims:
    all: tuple[Claim, ...] = ()
    derive: Mapping[str, Any] = field(default_factory=dict)
    #: The folder of ``claims.toml`` and ``claims.lock``.
    folder: Path | None = None

    def values(self, measured: Values, world: str) -> Values:
        """With the derived ones, which may build on those before them. Theory has none."""
        found = dict(measured)
        if world == THEORY:
            return found
        for name, given in self.derive.items():
            found[name] = quantity(given, found)
        return found


_REQUIRED = ("id", "where", "says", "item", "test")
_OPTIONAL = ("unit", "paper", "by", "worlds", "prose")
#: In the text of a claim with ``for``: where the value of this name comes.
_BLANK = re.compile(r"<([a-z]+)>")


def load(file: Path) -> Claims:
    try:
        document = toml.loads(file.read_text(encoding="utf-8"))
        strange = set(document) - {"worlds", "derive", "claim"}
        if strange:
            raise Wrong(f"{', '.join(sorted(strange))}: expected worlds, [derive] and [[claim]]")
        worlds = document.get("worlds", (SIM, KERNEL))
        found = tuple(_claim({"worlds": worlds, **one}) for entry in document.get("claim", []) for one in _each(entry))
        twice = {c.id for c in found if sum(c.id == other.id for other in found) > 1}
        if twice:
            raise Wrong(f"there are two claims {', '.join(sorted(twice))}")
        return Claims(found, document.get("derive", {}), file.parent)
    except (Wrong, toml.TOMLDecodeError) as error:
        raise Wrong(f"{file}: {error}") from None


def _each(entry: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A claim for each line of its ``for``, with the line's values in place of ``<name>``."""
    for line in entry.get("for", [{}]):
        yield {key: _put(given, line) for key, given in entry.items() if key != "for"}


def _put(given: Any, line: Mapping[str, Any]) -> Any:
    if isinstance(given, Mapping):
        return {key: _put(one, line) for key, one in given.items()}
    if isinstance(given, list):
        return [_put(one, line) for one in given]
    if not isinstance(given, str):
        return given
    blanks = _BLANK.findall(given)
    if missing := [name for name in blanks if name not in line]:
        raise Wrong(f'"{given}": no {missing[0]} in for')
    # A number stays one where it is all there is.
    return line[blanks[0]] if given == f"<{''.join(blanks)}>" else _BLANK.sub(lambda at: str(line[at[1]]), given)


def _claim(entry: Mapping[str, Any]) -> Claim:
    name = entry.get("id", "?")
    missing = [key for key in _REQUIRED if key not in entry]
    strange = [key for key in entry if key not in (*_REQUIRED, *_OPTIONAL)]
    if missing or strange:
        raise Wrong(f"claim {name}: " + ", ".join([f"no {k}" for k in missing] + [f"{k} is no key" for k in strange]))
    if not re.fullmatch(r"[A-Za-z0-9-]+", name):
        raise Wrong(f"claim {name}: an id has letters, digits and hyphens")
    kind_of(entry["test"])
    worlds = tuple(entry["worlds"])
    if not set(worlds) <= set(WORLDS):
        raise Wrong(f"claim {name}: worlds are {', '.join(WORLDS)}")
    for verdict, text in entry.get("prose", {}).items():
        if verdict not in {ALWAYS, *(v.value for v in Verdict)}:
            raise Wrong(f"claim {name}: there is no verdict {verdict}")
        own = _numbers(_PLACE.sub("", text)) - _numbers(f"{entry['where']} {entry['says']} {entry.get('unit', '')}")
        if own:
            raise Wrong(
                f"claim {name}: a template cites computed values and what where, says or unit have, "
                f"no number of its own: {', '.join(sorted(own))}"
            )
    return Claim(**{**entry, "worlds": worlds})


def _numbers(text: str) -> set[str]:
    return set(_NUMBER.findall(text.lower()))


def fill(text: str, values: Values) -> str | None:
    """None where a value that the template cites was not measured. Raises Wrong where there is no such value."""
    known = True

    def put(found: re.Match[str]) -> str:
        nonlocal known
        mean = quantity(found[1], values)
        known = known and mean.n > 0
        return format(mean.mean, found[2] or ".2f").replace("%", " %")

    filled = _PLACE.sub(put, text)
    return filled if known else None
