"""Where the reproductions are: no part of the installed package, for they need the checkout's scenarios."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from multipilot.papers.paper import Paper

PACKAGE = "reproductions"
NAMES = ("rsf", "loss-aware", "bandit", "ddpg", "drones", "pilot")


def reproductions(given: Path | None = None) -> Path:
    """As named, as opened before, below the current folder, or in the checkout that this package is in."""
    opened = sys.modules.get(PACKAGE)
    if opened is not None and given is None:
        return Path(opened.__path__[0])
    places = [given] if given else [Path(PACKAGE), Path(__file__).parents[3] / PACKAGE]
    for place in places:
        if (place / "__init__.py").is_file():
            return place.resolve()
    raise ValueError(f"no reproductions at {places[0]}: run in a checkout, or name their folder by --from")


def open_package(given: Path | None = None) -> None:
    """Makes ``import reproductions`` work wherever the folder is. The search path stays as it is."""
    if PACKAGE in sys.modules:
        return
    folder = reproductions(given)
    spec = spec_from_file_location(PACKAGE, folder / "__init__.py", submodule_search_locations=[str(folder)])
    assert spec is not None
    assert spec.loader is not None
    sys.modules[PACKAGE] = package = module_from_spec(spec)
    spec.loader.exec_module(package)


def load(name: str, given: Path | None = None) -> Paper:
    """The paper of that name, one of :data:`NAMES`. Raises ValueError where its folder is not to be found."""
    open_package(given)
    paper: Paper = import_module(f"{PACKAGE}.{name.replace('-', '_')}").PAPER
    return paper
