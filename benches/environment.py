#!/usr/bin/env python3
"""Steps a second of the environment: the core's own, and what Python gets of them.

benches/environment.py [--quick]    prints one JSON document; without Gymnasium its environments are left out
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from multipilot.env import Lanes, Task

ROOT = Path(__file__).resolve().parent.parent


def task(train: int) -> Task:
    """As crates/simulator/benches/env.rs has it."""
    path = {"rate": "100Mbit", "delay": "12ms", "queue": "400p"}
    scenario = {
        "duration": "10h",
        "segment_train": train,
        "paths": {"a": path},
        "variants": [{"controller": "ddpg-mpcc"}],
    }
    return Task(scenario, start=(0.95, 0.95))


def rate(step: Callable[[], Any], count: int, each: int) -> float:
    for _ in range(100):
        step()
    start = perf_counter()
    for _ in range(count):
        step()
    return each * count / (perf_counter() - start)


def of_lanes(train: int, lanes: int, count: int) -> float:
    world = Lanes(task(train), lanes, history=1, steps=1 << 31, agents=1)
    world.step()
    actions = np.zeros(lanes, np.float32)
    return rate(lambda: world.step(actions), count // lanes, lanes)


def of_gymnasium(train: int, count: int) -> float:
    from multipilot.env import SubflowEnv

    env = SubflowEnv(task(train), history=1, steps=1 << 31)
    env.reset(seed=1)
    action = np.zeros(1, np.float32)
    return rate(lambda: env.step(action), count, 1)


def main() -> None:
    some = ["--quick"] if "--quick" in sys.argv[1:] else []
    call = ["cargo", "bench", "--quiet", "--locked", "-p", "mp-simulator", "--bench", "env", "--", *some]
    rows = json.loads(subprocess.run(call, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout)
    count = 2_000 if some else 30_000
    for named, train in (("packet by packet", 1), ("trains of 64", 64)):
        for lanes in (1, 16):
            case = f"Python, {named}, {lanes} side by side" if lanes > 1 else f"Python, {named}"
            rows.append({"case": case, "steps_per_s": round(of_lanes(train, lanes, count))})
        try:
            rows.append({"case": f"Gymnasium, {named}", "steps_per_s": round(of_gymnasium(train, count))})
        except ImportError as error:
            print(error, file=sys.stderr)
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
