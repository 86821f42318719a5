"""Network namespaces that stand for hosts, and what runs in them."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest


def check() -> None:
    """Skips the test where it cannot run; under CI=true that is a failure."""
    cannot = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
    if importlib.util.find_spec("flwr") is None:
        cannot("federation across hosts needs Flower (multipilot[federation])")
    if os.geteuid() != 0:
        cannot("network namespaces need root")


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


class Spaces:
    """They go with the test, and their logs are in its folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names: list[str] = []

    def add(self, name: str) -> str:
        ip("netns", "add", name)
        self.names.append(name)
        ip("-n", name, "link", "set", "lo", "up")
        return name

    def wait(self, what: str, there: Callable[[], bool], seconds: float = 90) -> None:
        end = time.monotonic() + seconds
        while not there():
            logs = {f.name: f.read_text()[-800:] for f in self.folder.glob("*.log")}
            assert time.monotonic() < end, f"{what} did not come: {logs}"
            time.sleep(0.1)

    def end(self) -> None:
        for name in self.names:
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)
