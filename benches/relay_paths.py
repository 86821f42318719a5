"""What one flow gets of two links: shares of their sum, and whether it is ever slower than over the better one."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

from relay_host import interrupt

from multipilot.agree.drawn import LOSSY, RANGES
from multipilot.papers.runs import trace_pairs

#: The relay's own choice, and the controller where ours cannot be loaded.
SCHEDULER, CONTROLLER, FALLBACK = "min-rtt", "pilot", "bbr"
#: Of the kernel's MPTCP beside it, over its one scheduler.
KERNEL = ("bbr", "cubic")
#: First link, second link, Mbit/s of both.
PATHS = {
    "30 + 30 Mbit/s, 20 ms": ('rate = "30Mbit", delay = "10ms"', 'rate = "30Mbit", delay = "10ms"', 60),
    "40 + 20 Mbit/s, 10 and 40 ms": ('rate = "40Mbit", delay = "5ms"', 'rate = "20Mbit", delay = "20ms"', 60),
    "the same, 1 % loss on the second": (
        'rate = "40Mbit", delay = "5ms"',
        'rate = "20Mbit", delay = "20ms", loss = 0.01',
        60,
    ),
    "50 + 50 Mbit/s, 10 and 74 ms, 1 % loss on both": (
        'rate = "50Mbit", delay = "5ms", loss = 0.01',
        'rate = "50Mbit", delay = "37ms", loss = 0.01',
        100,
    ),
    "33 + 2.8 Mbit/s, 20 and 50 ms, queues of 1000 packets": (
        'rate = "33Mbit", delay = "10ms", queue = "1000p"',
        'rate = "2.8Mbit", delay = "25ms", queue = "1000p"',
        35.8,
    ),
}
#: Of the pairs: another one draws others.
DRAW = 20261125
#: Of a flow over the relay, at most.
WINDOWS = 'buffers = { send = "16MiB", receive = "16MiB" }\n'


def compare(binary: Path, scenario: str, world: str, *options: str) -> list[dict[str, Any]]:
    """The rows of one comparison."""
    with tempfile.TemporaryDirectory() as folder:
        call = [str(binary), "compare", "-", "--world", world, "--seeds", "1", "--json", "--out", f"{folder}/record"]
        pipe: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "start_new_session": True}
        with subprocess.Popen([*call, *options], **pipe) as running:
            try:
                printed, _ = running.communicate(scenario)
            finally:
                interrupt(running)
        if running.returncode:
            sys.exit(f"multipilot compare ended with exit code {running.returncode}")
        return list(json.loads(printed)["rows"])


def controller(binary: Path) -> str:
    """The relay's default on this machine."""
    call = [str(binary), "check", "-", "--world", "relay", "--controllers", CONTROLLER]
    quiet: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    checked = subprocess.run(call, input='paths.a.rate = "1Mbit"', text=True, check=False, **quiet)
    return FALLBACK if checked.returncode else CONTROLLER


def variant(name: str) -> str:
    return f'variants = [{{ scheduler = "{SCHEDULER}", controller = "{name}" }}]'


def shares(binary: Path, runs: int, seconds: int) -> dict[str, Any]:
    """Goodput of one flow / sum of the links' rates, by case and direction, over the relay and the kernel's MPTCP."""
    own = controller(binary)
    worlds = {"relay": variant(own), "kernel": f"variants = [{{ controller = {json.dumps(KERNEL)} }}]"}
    found: dict[str, dict[str, list[float]]] = {}
    # In turns: a drift of the machine touches all alike.
    for seed, (case, (first, second, rate)), direction in product(
        range(1, runs + 1), PATHS.items(), ("download", "upload")
    ):
        text = f"""seed = {seed}
duration = "{seconds}s"
paths.a = {{ {first} }}
paths.b = {{ {second} }}
connections = [{{ direction = "{direction}" }}]
"""
        of = found.setdefault(f"{case}, {direction}", {})
        for world, variants in worlds.items():
            for row in compare(binary, text + variants, world):
                way = "relay" if world == "relay" else f"MPTCP, {row['controller']}"
                of.setdefault(way, []).append(round(row["goodput_mbps"] / rate, 3))
    return {"controller": own, "scheduler": SCHEDULER, "cases": found}


def pairs(binary: Path, world: str, count: int, seconds: int) -> dict[str, Any]:
    """Goodput of one download over two random links / that of plain TCP over the better one, both with the relay's
    controller; 1 where it is more."""
    draws, own = Random(DRAW), controller(binary)
    text = f'duration = "{seconds}s"\npaths.one.rate = "10Mbit"\npaths.two.rate = "10Mbit"\n{variant(own)}\n'
    # MPTCP of the simulator stands for the relay, which has windows of its own and begins over the nearer link.
    if world == "sim":
        text += WINDOWS
    for number in range(1, count + 1):
        links = sorted((RANGES.link(draws, LOSSY) for _ in range(2)), key=lambda link: link.rtt_ms)
        text += f'[[cases]]\nname = "{number}: {links[0]} | {links[1]}"\n'
        text += f"paths.one = {links[0].toml()}\npaths.two = {links[1].toml()}\n"
    ratios = ratios_to_better(binary, text, world)
    return {"controller": own, "scheduler": SCHEDULER, "world": world, "draw": DRAW, "ratios": ratios}


def traces(binary: Path, world: str, folder: Path, seconds: int) -> dict[str, Any]:
    """The same of each Mahimahi trace in `folder` beside 20 Mbit/s, 20 ms."""
    own = controller(binary)
    text = f"""duration = "{seconds}s"
paths.one = {{ rate = "20Mbit", delay = "10ms", queue = "100p" }}
paths.two = {{ rate = "12Mbit", delay = "30ms", queue = "300p" }}
{variant(own)}
"""
    for name, down, up in trace_pairs(folder):
        text += f'[[cases]]\nname = "{name}"\npaths.two.downlink.trace = "{down}"\npaths.two.uplink.trace = "{up}"\n'
    ratios = ratios_to_better(binary, text, world)
    return {"controller": own, "scheduler": SCHEDULER, "world": world, "ratios": ratios}


def ratios_to_better(binary: Path, scenario: str, world: str) -> dict[str, float]:
    """By case, goodput / that of plain TCP over the better path; 1 where it is more."""
    rows = compare(binary, scenario, world, "--ben")
    # Below 0 the benefit is the share that is missing.
    return {" ".join(row["cell"].values()): round(1 + min(row["ben"], 0), 3) for row in rows if row["ben"] is not None}
