"""Calls of the ``multipilot`` command that run beside each other, and end cleanly together."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Sequence


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
