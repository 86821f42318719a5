"""Worker processes of this machine. One that dies costs the cell it had, which is begun again elsewhere.

The standard library's pools do not do: ProcessPoolExecutor gives up everything when one worker is killed, and
multiprocessing.Pool waits for ever for what that worker had.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess

from multipilot.sweep.cells import Cell
from multipilot.sweep.work import Done, run

#: How often a cell is begun before it counts as one that kills its workers.
ATTEMPTS = 3

Results = Generator[tuple[Cell, Done], None, None]

# Threads of JAX and of the simulator do not survive a fork.
_SPAWN = multiprocessing.get_context("spawn")


def _serve(pipe: Connection) -> None:
    # Ctrl-C is the parent's to handle, which then ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(EOFError, BrokenPipeError):
        while True:
            pipe.send(run(pipe.recv()))


@dataclass
class _Worker:
    process: SpawnProcess
    pipe: Connection
    cell: Cell | None = None

    @classmethod
    def start(cls) -> _Worker:
        mine, theirs = _SPAWN.Pipe()
        process = _SPAWN.Process(target=_serve, args=(theirs,), daemon=True)
        process.start()
        theirs.close()
        return cls(process, mine)

    def give(self, cell: Cell) -> None:
        self.cell = cell
        # A worker that has just died is found when its pipe is read.
        with suppress(BrokenPipeError):
            self.pipe.send(cell)

    def end(self) -> None:
        if self.process.is_alive() and self.process.pid is not None:
            os.kill(self.process.pid, signal.SIGKILL)
        self.process.join()
        self.pipe.close()


def run_all(cells: Sequence[Cell], workers: int) -> Results:
    """Results as they come. Closing the iterator ends the workers."""
    todo = deque(cells)
    begun: dict[str, int] = {}
    crew = [_Worker.start() for _ in range(min(workers, len(todo)))]
    try:
        for worker in crew:
            _next(worker, todo, begun)
        while any(worker.cell for worker in crew):
            ready = set(wait([worker.pipe for worker in crew if worker.cell]))
            for place, worker in enumerate(crew):
                if worker.pipe not in ready or worker.cell is None:
                    continue
                cell = worker.cell
                try:
                    done = worker.pipe.recv()
                except (EOFError, OSError):
                    worker.end()
                    crew[place] = worker = _Worker.start()
                    if begun[cell.key] < ATTEMPTS:
                        todo.appendleft(cell)
                        _next(worker, todo, begun)
                        continue
                    done = Done(error=f"{cell.name}: its worker was killed {ATTEMPTS} times")
                _next(worker, todo, begun)
                yield cell, done
    finally:
        for worker in crew:
            worker.end()


def _next(worker: _Worker, todo: deque[Cell], begun: dict[str, int]) -> None:
    worker.cell = None
    if todo:
        cell = todo.popleft()
        begun[cell.key] = begun.get(cell.key, 0) + 1
        worker.give(cell)
