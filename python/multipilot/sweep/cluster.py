"""The same on Ray: this machine's cores, or a cluster by its address."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from multipilot.sweep.cells import Cell
from multipilot.sweep.pool import ATTEMPTS, Results
from multipilot.sweep.work import Done, run

#: Cells handed to Ray at once, for each worker: enough to keep it busy, few enough to forget quickly.
AHEAD = 4

NEEDS = "--ray and --address need Ray: pip install 'multipilot[sweep]'"


def run_all(cells: Sequence[Cell], workers: int, address: str | None) -> Results:
    """Results as they come; a cell whose worker dies is begun again by Ray.

    Raises:
        ImportError: Ray is not installed.
        ConnectionError: No cluster answers at the address.
    """
    import ray

    # A driver that ends takes its cells with it; nothing of them is on disk.
    if address:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    else:
        ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    try:
        begin = ray.remote(num_cpus=1, max_retries=ATTEMPTS - 1)(run)
        resources: Any = ray.cluster_resources  # untyped in Ray
        ahead = AHEAD * max(1, int(resources().get("CPU", workers)))
        todo = iter(cells)
        under_way: dict[Any, Cell] = {}
        while True:
            while len(under_way) < ahead and (cell := next(todo, None)) is not None:
                under_way[begin.options(name=cell.name).remote(cell)] = cell
            if not under_way:
                return
            (ready,), _ = ray.wait(list(under_way))
            cell = under_way.pop(ready)
            try:
                done = ray.get(ready)
            except ray.exceptions.RayError as error:
                done = Done(error=f"{cell.name}: {str(error).strip().splitlines()[0]}")
            yield cell, done
    finally:
        ray.shutdown()
