"""Calls of the ``multipilot`` command that run beside each other, and end cleanly together."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fcntl import LOCK_EX, LOCK_NB, flock
from pathlib import Path

from multipilot.console import fail, say


class Children:
    """May be used by several threads at once; ``stop`` by the one that heard of Ctrl-C."""

    def __init__(self) -> None:
        self._running: list[subprocess.Popen[str]] = []

    def run(self, call: Sequence[str], heard: Callable[[str], None] = lambda _: None) -> tuple[int, list[str]]:
        """Exit code, and what the call said on its standard error, without empty lines; ``heard`` has each at once."""
        # A session of its own: Ctrl-C comes to it once, from `stop`, and it removes its namespaces before it ends.
        process = subprocess.Popen(
            call, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        self._running.append(process)
        lines = []
        try:
            for line in process.stderr or ():
                if line.strip():
                    lines.append(line.rstrip("\n"))
                    heard(lines[-1])
            process.wait()
        except BaseException:
            self.stop()
            raise
        finally:
            self._running.remove(process)
        return process.returncode, lines

    def stop(self) -> None:
        """Ask the calls under way to clean up after themselves, and wait until they have."""
        for process in list(self._running):
            process.send_signal(signal.SIGINT)
        for process in list(self._running):
            process.wait()


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Refuses a folder in which another call puts its runs. The lock ends with this process, however that ends."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("wb") as file:
        try:
            flock(file, LOCK_EX | LOCK_NB)
        except BlockingIOError:
            fail(f"{folder}: another call works there; wait for it, or choose another folder with --out")
        yield


def wait_for(folder: Path) -> None:
    """A comparison outlives the command that began it where that is killed, and does what the next one would."""
    lock = folder / ".lock"
    if not lock.exists():
        return
    with lock.open("rb") as file:
        try:
            flock(file, LOCK_EX | LOCK_NB)
        except BlockingIOError:
            say(f"{folder}: the comparison that an earlier call began there still runs; waiting for it")
            flock(file, LOCK_EX)
