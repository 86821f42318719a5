"""Which sources of the checkout decide a result: those that every run of a world uses, and of what a scenario chooses
only what it names."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Set
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from multipilot.bandit import policies
from multipilot.papers.results import KERNEL, RELAY, SIM
from multipilot.simulation import list_path_managers, list_schedulers

#: The crates whose build scripts list the sources of their world.
_CRATES = {SIM: "simulator", KERNEL: "testbed", RELAY: "testbed"}
_KINDS = frozenset({".rs", ".c", ".h", ".json"})

_MANAGERS = {entry["name"] for entry in list_path_managers()}
_AWARE = {name for name in _MANAGERS if name.endswith("-aware")}
_ARMS = {name for name in _MANAGERS if name.startswith("ms-ucb")}
#: In files of their names. The others' part is what they all use.
_SMALL = _MANAGERS - _AWARE - _ARMS - {"fullmesh", "single"}
_INITIAL = {*policies()}
#: Beyond those that Linux has.
_MANAGED = _MANAGERS - {"fullmesh", "backup", "ndiffports", "single"}
#: The learning environment, which no scenario names.
ENVIRONMENT = "multipilot.env"

#: Schedulers are in files of their names. The default one is Linux' own, and what min-rtt has the others use too.
_SCHEDULERS = {entry["name"] for entry in list_schedulers()} - {"default", "min-rtt"}

#: By the start of a file's path: the words of a scenario of which one chooses it. Controllers' headers are found by
#: name. Every other file of a world is for all of its runs. An empty set: no result depends on it.
CHOSEN: Mapping[str, Set[str]] = {
    **{f"crates/policy/src/scheduler/{name.replace('-', '_')}": {name} for name in _SCHEDULERS},
    **{f"crates/policy/src/path_manager/{name.replace('-', '_')}": {name} for name in _SMALL},
    "controllers/bpf/contention": set(),
    "controllers/bpf/proof": set(),
    # What a host reads of its radios and links: a scenario tells of them itself.
    **{f"crates/host/src/radio/{part}.rs": set() for part in ("air", "lookup", "mod", "modem", "wifi")},
    # A testbed has a bandit and path managers of its own, but for the kernel's endpoints, on links that it trusts.
    **{f"crates/host/src/endpoints/{part}.rs": set() for part in ("left", "untrusted")},
    "crates/host/src/initial_path/": set(),
    "crates/host/src/userspace": set(),
    "crates/kernel/src/agent": {"ddpg-mpcc"},
    # How orders get to the kernel, which tests hold against the kernel, and what only a host asks of it.
    **{f"crates/kernel/src/{part}": set() for part in ("host.rs", "interfaces.rs", "lib.rs", "netlink.rs", "pm/")},
    "crates/policy/actors/": {"ddpg-mpcc"},
    "crates/policy/src/actor/": {"ddpg-mpcc"},
    "crates/policy/src/balance": {"delay-balance", "ld-mpsp"},
    "crates/policy/src/bandit/": _INITIAL,
    "crates/policy/src/cloning": {"cloning", "ld-mpsp"},
    "crates/policy/src/path_manager/awareness": _AWARE,
    "crates/policy/src/path_manager/ms_ucb": _ARMS,
    "crates/policy/src/scheduler/cloning": {"cloning", "ld-mpsp"},
    "crates/policy/src/scheduler/delay_balance": {"delay-balance", "ld-mpsp"},
    "crates/policy/src/super_arm/": _ARMS,
    "crates/record/src/experience": set(),
    "crates/record/src/folder": set(),
    "crates/scenario/src/radio/": {"radio"},
    "crates/simulator/src/env/": {ENVIRONMENT},
    "crates/simulator/src/pcapng/": set(),
    "crates/simulator/src/linux/bbr/": {"bbr"},
    "crates/simulator/src/linux/cubic": {"cubic"},
    "crates/testbed/src/trial/": set(),
    "crates/wireless/": {"radio"},
}
_NEVER: Set[str] = frozenset()
#: On the kernel Linux manages paths and schedules, unless a scenario names one of these. Over the relay there are
#: streams alone, which come by its proxy and use all paths.
IN_ONE_WORLD: Mapping[str, Mapping[str, Set[str]]] = {
    SIM: {"controllers/bpf/": _NEVER},
    KERNEL: {
        "crates/host/": _MANAGED,
        "crates/policy/src/": _MANAGED | _INITIAL | {"ddpg-mpcc"},
        **dict.fromkeys(("crates/relay/src/", "crates/testbed/src/relay"), _NEVER),
    },
    RELAY: {
        **dict.fromkeys(("crates/host/", "crates/policy/src/path_manager", "crates/testbed/src/aware"), _ARMS),
        "crates/host/src/endpoints": _NEVER,
        **dict.fromkeys((f"crates/relay/src/{part}" for part in ("capture", "datagram", "probe", "resolver")), _NEVER),
    },
}
#: What all controllers are made of.
_BASE = ("mp.h", "mp_math.h")
_INCLUDED = re.compile(r'^#include "([^"]+)"$', re.MULTILINE)


class Sources:
    """Of a checkout, or of any folder; without the crates there no world has sources."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._files: dict[str, dict[str, bytes]] = {}

    def files(self, world: str) -> Mapping[str, bytes]:
        """Content by path, in the order in which the build script hashes them."""
        if world not in self._files:
            script = self.root / "crates" / _CRATES[world] / "build.rs"
            listed = re.findall(r'^ +"([^"]+)",$', script.read_text("utf-8"), re.MULTILINE) if script.exists() else []
            self._files[world] = {
                str(file.relative_to(self.root)): file.read_bytes()
                for folder in listed
                for file in sorted((self.root / folder).rglob("*"))
                if file.suffix in _KINDS and file.is_file()
            }
        return self._files[world]

    def whole(self, world: str) -> str:
        """Of all, as crates/sources.rs computes it for the command: whether that was built from these."""
        found = hashlib.sha256()
        for name, content in self.files(world).items():
            found.update(f"{name}\0{len(content)}\0".encode() + content)
        return found.hexdigest()[:16] if self.files(world) else ""

    def used(self, world: str, words: Set[str]) -> list[str]:
        """The files that decide a run of a scenario with these words."""
        headers = self._headers(words)
        chosen = {**CHOSEN, **IN_ONE_WORLD[world]}
        return [name for name in self.files(world) if _is_used(name, chosen, headers, words)]

    def basis(self, world: str, words: Set[str]) -> str:
        """Of the used files, less comments and tests."""
        found = hashlib.sha256()
        for name in self.used(world, words):
            found.update(name.encode() + b"\0" + _deciding(self.files(world)[name]))
        return found.hexdigest()[:10]

    def _headers(self, words: Set[str]) -> set[str]:
        """The headers of the controllers among the words, and those that they include."""
        left = [*_BASE, *(f"{word.replace('-', '_')}.h" for word in words)]
        found: set[str] = set()
        while left:
            name = left.pop()
            text = self._controllers.get(name)
            if text is not None and name not in found:
                found.add(name)
                left += _INCLUDED.findall(text)
        return found

    @cached_property
    def _controllers(self) -> dict[str, str]:
        folder = self.root / "controllers"
        return {file.name: file.read_text("utf-8") for file in folder.glob("*.h")}


def _is_used(name: str, chosen: Mapping[str, Set[str]], headers: Set[str], words: Set[str]) -> bool:
    path = Path(name)
    if path.stem in ("tests", "fixture") or "tests" in path.parts:
        return False
    if path.parts[:-1] == ("controllers",):
        return path.name in headers
    return all(not words.isdisjoint(by) for start, by in chosen.items() if name.startswith(start))


@cache
def _deciding(content: bytes) -> bytes:
    """Without lines of comment, and without the tests, which are last in a file (clippy's items_after_test_module)."""
    text = content.decode("utf-8", "replace").split("\n#[cfg(test)]\nmod tests {\n")[0]
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("//")).encode()


def words(given: Any) -> Iterator[str]:
    """Keys and texts of a scenario: what it may choose by."""
    if isinstance(given, str):
        yield given
    elif isinstance(given, Mapping):
        yield from given
        for value in given.values():
            yield from words(value)
    elif isinstance(given, list):
        for value in given:
            yield from words(value)
