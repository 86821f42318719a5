#!/usr/bin/env python3
"""Hours of mixed traffic over the relay while its links change and die: does memory grow, is every body whole?

Prints one JSON document. A device with two links runs ``run --relay - --all`` in one network namespace, the relay and
servers are in another; the rates of the links follow Mahimahi traces (``--traces``), or a random drive. Downloads and
uploads whose bodies are compared by SHA-256, short connections, idle ones, a call and UDP queries from new sockets go
on all the time. A link dies silently or goes down every two minutes, both at once every tenth time. Every ten seconds
memory, descriptors, threads and sockets of both ends are read. Needs root.
"""

from __future__ import annotations

import argparse
import errno
import gzip
import hashlib
import itertools
import json
import math
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from relay_host import ROOT, Host, rollup, running
from relay_programs import SERVER

#: Of /proc/PID/smaps_rollup, kB. What is private would be free without the process; the rest are pages of files.
MEMORY = {"resident": ("Rss",), "proportional": ("Pss",), "private": ("Private_Clean", "Private_Dirty")}
SAMPLE_S = 10
#: tbf takes no rate of 0.
LEAST_BPS = 50_000


def body(seed: int, size: int) -> bytes:
    return random.Random(seed).randbytes(size)


# --- The servers


def exactly(end: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        if not (more := end.recv(min(1 << 16, size - len(data)))):
            raise ConnectionError("ended early")
        data += more
    return bytes(data)


def answer(end: socket.socket) -> None:
    """``get SEED SIZE``: the body; ``put SEED SIZE`` and the body: its digest; ``echo``: itself; until the end."""
    with suppress(OSError), end, end.makefile("rb") as lines:
        for line in lines:
            what, *numbers = line.split()
            if what == b"get":
                end.sendall(body(*map(int, numbers)))
            elif what == b"put":
                end.sendall(hashlib.sha256(lines.read(int(numbers[1]))).digest())
            else:
                end.sendall(line)


def echo(port: int) -> None:
    end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    end.bind((SERVER, port))
    while True:
        data, peer = end.recvfrom(2048)
        end.sendto(data, peer)


def serve() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    for port in (53, 4000):
        threading.Thread(target=echo, args=(port,), daemon=True).start()
    listener = socket.create_server((SERVER, 80), backlog=256)
    print("ready", flush=True)
    while True:
        threading.Thread(target=answer, args=(listener.accept()[0],), daemon=True).start()


# --- The programs of the device


class Programs:
    """Each in a thread of its own until the end; what they have seen, by name."""

    def __init__(self, seconds: float) -> None:
        self.until = time.monotonic() + seconds
        self.lock = threading.Lock()
        self.counts: dict[str, int] = {}

    def count(self, what: str, by: int = 1) -> None:
        with self.lock:
            self.counts[what] = self.counts.get(what, 0) + by

    def connect(self) -> socket.socket:
        # An outage of every link is part of it.
        return socket.create_connection((SERVER, 80), timeout=180)

    def transfer(self, way: str, dice: random.Random) -> None:
        seed, size = dice.randrange(1 << 30), int(10 ** dice.uniform(4, 6.7))
        data = body(seed, size)
        with self.connect() as end:
            end.sendall(f"{way} {seed} {size}\n".encode())
            if way == "get":
                whole = exactly(end, size) == data
            else:
                end.sendall(data)
                whole = exactly(end, 32) == hashlib.sha256(data).digest()
        self.count(f"{way}: whole" if whole else f"{way}: WRONG")
        self.count(f"{way}: bytes", size)

    def short(self, dice: random.Random) -> None:
        seed = dice.randrange(1 << 30)
        with self.connect() as end:
            end.sendall(f"get {seed} 2000\n".encode())
            whole = exactly(end, 2000) == body(seed, 2000)
        self.count("short: whole" if whole else "short: WRONG")
        time.sleep(0.2)

    def idle(self, dice: random.Random) -> None:
        with self.connect() as end:
            time.sleep(dice.uniform(5, 90))
            end.sendall(b"echo\n")
            self.count("idle: whole" if exactly(end, 5) == b"echo\n" else "idle: WRONG")

    def query(self, dice: random.Random) -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as end:
            end.settimeout(2)
            question = dice.randbytes(40)
            try:
                end.sendto(question, (SERVER, 53))
                self.count("query: answered" if end.recv(100) == question else "query: WRONG")
            except OSError:
                self.count("query: unanswered")
        time.sleep(0.5)

    def call(self) -> None:
        end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        end.connect((SERVER, 4000))
        end.settimeout(0.5)

        def listen() -> None:
            while time.monotonic() < self.until:
                with suppress(OSError):
                    end.recv(200)
                    self.count("call: back")

        threading.Thread(target=listen, daemon=True).start()
        while time.monotonic() < self.until:
            with suppress(OSError):
                end.send(bytes(160))
            self.count("call: sent")
            time.sleep(0.02)

    def repeat(self, name: str, act: Callable[[random.Random], None], seed: int) -> None:
        dice = random.Random(seed)
        while time.monotonic() < self.until:
            try:
                act(dice)
            except OSError as error:
                self.count(f"{name}: {errno.errorcode.get(error.errno or 0, type(error).__name__)}")
                time.sleep(1)

    def run(self) -> None:
        acts: list[tuple[str, Callable[[random.Random], None]]] = [
            ("get", lambda dice: self.transfer("get", dice)),
            ("get", lambda dice: self.transfer("get", dice)),
            ("put", lambda dice: self.transfer("put", dice)),
            ("short", self.short),
            ("query", self.query),
            *[("idle", self.idle)] * 30,
        ]
        threads = [
            threading.Thread(target=self.repeat, args=(*act, seed), daemon=True) for seed, act in enumerate(acts)
        ]
        threads.append(threading.Thread(target=self.call, daemon=True))
        for thread in threads:
            thread.start()
        for thread in threads:
            # A connection may have to end first.
            thread.join(max(0.0, self.until + 240 - time.monotonic()))
            self.count("stuck", thread.is_alive())
        print(json.dumps(dict(sorted(self.counts.items()))))


# --- The links


def of_trace(file: Path) -> list[int]:
    """bit/s of each second of a Mahimahi trace: a line is the ms of a chance to send 1500 bytes."""
    text = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    times = [int(line) for line in text.split()]
    rates = [0] * (times[-1] // 1000 + 1)
    for at in times:
        rates[at // 1000] += 1500 * 8
    return rates


def drive(dice: random.Random) -> list[int]:
    """A quarter of an hour in which the rate wanders between .1 and 40 Mbit/s."""
    level, rates = 1.0, []
    for _ in range(900):
        level = min(1.6, max(-1.0, level + dice.gauss(0, 0.25)))
        rates.append(int(10**level * 1e6))
    return rates


class Links:
    """Two links whose rates change every second, and which die now and then."""

    def __init__(self, it: Host, traces: Path | None, seed: int) -> None:
        self.it, self.dice = it, random.Random(seed)
        files = sorted(traces.glob("*.down*")) if traces else []
        if traces and len(files) < 2:
            sys.exit(f"--traces {traces}: needs NAME.down and NAME.up of two links at least")
        ups = [Path(re.sub(r"\.down(\.gz)?$", r".up\1", str(file))) for file in files]
        pairs = [tuple(map(of_trace, pair)) for pair in zip(files, ups, strict=True)]
        self.names = [re.sub(r"\.down(\.gz)?$", "", file.name) for file in files[:2]] or ["random drive"] * 2
        self.rates = pairs[:2] or [(drive(self.dice), drive(self.dice)) for _ in range(2)]
        self.deaths: dict[str, int] = {}

    def tc(self, verb: str, second: int) -> None:
        for namespace, way in ((self.it.server, 0), (self.it.device, 1)):
            rates = [max(of[way][second % len(of[way])], LEAST_BPS) for of in self.rates]
            lines = [
                f"qdisc {verb} dev l{link} root tbf rate {rate} burst 8kb latency 200ms"
                for link, rate in enumerate(rates, 1)
            ]
            subprocess.run(["tc", "-n", namespace, "-batch", "-"], input="\n".join(lines), text=True, check=True)

    def begin(self) -> None:
        self.tc("add", 0)

    def die(self, link: int, silently: bool, seconds: float) -> None:
        it, name = self.it, f"l{link}"
        if silently:
            ends = ((it.device, 2), (it.server, 1))
            for namespace, other in ends:
                where = f"10.77.{link}.{other} dev {name} lladdr 02:00:00:00:00:99 nud permanent"
                subprocess.run(["ip", "-n", namespace, "neigh", "replace", *where.split()], check=True)
            time.sleep(seconds)
            for namespace, other in ends:
                where = f"10.77.{link}.{other} dev {name}"
                subprocess.run(["ip", "-n", namespace, "neigh", "del", *where.split()], check=True)
        else:
            subprocess.run(["ip", "-n", it.device, "link", "set", name, "down"], check=True)
            time.sleep(seconds)
            subprocess.run(["ip", "-n", it.device, "link", "set", name, "up"], check=True)
            route = f"default via 10.77.{link}.2 dev {name} metric {link}"
            subprocess.run(["ip", "-n", it.device, "route", "replace", *route.split()], check=True)

    def live(self, over: threading.Event, pause: float) -> None:
        number = 0
        while not over.wait(self.dice.uniform(0.7, 1.3) * pause):
            number += 1
            silently, seconds = self.dice.random() < 0.5, self.dice.uniform(2, 25)
            links = [1, 2] if number % 10 == 0 else [self.dice.randint(1, 2)]
            dying = [threading.Thread(target=self.die, args=(link, silently, seconds)) for link in links]
            for thread in dying:
                thread.start()
            for thread in dying:
                thread.join()
            kind = f"{'both links' if len(links) == 2 else 'a link'} {'silently' if silently else 'down'}"
            self.deaths[kind] = self.deaths.get(kind, 0) + 1


# --- What the ends take


def read_end(pid: int) -> dict[str, float]:
    process = Path(f"/proc/{pid}")
    memory = rollup(pid)
    found: dict[str, float] = {f"{name} kB": sum(memory[key] for key in keys) for name, keys in MEMORY.items()}
    found["descriptors"] = len(list((process / "fd").iterdir()))
    found["threads"] = len(list((process / "task").iterdir()))
    # Of its whole namespace, in which nobody else has many.
    sockets = (process / "net/sockstat").read_text()
    for kind in ("TCP", "UDP"):
        line = next(line for line in sockets.splitlines() if line.startswith(f"{kind}:"))
        numbers = dict(re.findall(r"(\w+) (\d+)", line))
        found[f"{kind} sockets"] = int(numbers["inuse"]) + int(numbers.get("orphan", 0))
    return found


def slope(times: list[float], values: list[float]) -> tuple[float, float]:
    """Per hour, and half of its 95 % interval: least squares, the residuals taken for AR(1)."""
    count = len(times)
    at, level = sum(times) / count, sum(values) / count
    spread = sum((t - at) ** 2 for t in times)
    rise = sum((t - at) * (v - level) for t, v in zip(times, values, strict=True)) / spread
    rest = [v - level - rise * (t - at) for t, v in zip(times, values, strict=True)]
    power = sum(r * r for r in rest)
    follows = sum(a * b for a, b in itertools.pairwise(rest)) / power if power else 0.0
    follows = min(max(follows, 0.0), 0.98)
    error = math.sqrt(power / max(count - 2, 1) / spread * (1 + follows) / (1 - follows))
    return 3600 * rise, 3600 * 1.96 * error


#: More than that an hour, significantly, is a leak; by the end of a name.
LEAKS = {"private kB": 1000.0, "descriptors": 20.0, "threads": 1.0, "sockets": 20.0}


def verdicts(samples: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    # Buffers and tables grow to what the traffic needs first.
    kept = [sample for sample in samples if sample["s"] >= samples[-1]["s"] / 4]
    times = [sample["s"] for sample in kept]
    for end in ("device", "relay"):
        for name in kept[0][end]:
            values = [sample[end][name] for sample in kept]
            hourly, half = slope(times, values)
            limit = next((limit for suffix, limit in LEAKS.items() if name.endswith(suffix)), None)
            leaks = limit is not None and hourly - half > 0 and hourly > limit
            yield {
                "end": end,
                "of": name,
                "first": values[0],
                "last": values[-1],
                "most": max(values),
                "per_hour": round(hourly, 1),
                "half": round(half, 1),
                "limit": limit,
                "leaks": leaks,
            }


def soak(binary: Path, minutes: float, traces: Path | None, seed: int) -> dict[str, Any]:
    with ExitStack() as stack:
        it = Host(binary, stack)
        links = Links(it, traces, seed)
        links.begin()
        server = stack.enter_context(running(it.server, sys.executable, __file__, "--serve"))
        assert server.stdout is not None
        server.stdout.readline()
        # Nothing is to take another way while the links are dead.
        ends = {"device": it.capture("--leak", "block").pid, "relay": it.relay.pid}
        over = threading.Event()
        stack.callback(over.set)
        deaths = threading.Thread(target=links.live, args=(over, min(120, minutes * 6)))
        deaths.start()
        stack.callback(deaths.join)
        call = ["ip", "netns", "exec", it.device, sys.executable, __file__, "--programs", str(60 * minutes)]
        programs = subprocess.Popen(call, stdout=subprocess.PIPE, text=True)
        stack.callback(programs.kill)
        samples: list[dict[str, Any]] = []
        began = time.monotonic()
        while programs.poll() is None:
            second = int(time.monotonic() - began)
            links.tc("change", second)
            if second < 60 * minutes and second >= SAMPLE_S * len(samples):
                samples.append({"s": second, **{end: read_end(pid) for end, pid in ends.items()}})
            time.sleep(1 - (time.monotonic() - began) % 1)
        over.set()
        counts = json.loads(programs.communicate()[0])
        deaths.join()
        return {
            "minutes": minutes,
            "links": links.names,
            "deaths": links.deaths,
            "programs": counts,
            "wrong": sum(count for what, count in counts.items() if what.endswith("WRONG")),
            "verdicts": list(verdicts(samples)),
            "samples": samples,
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--binary", type=Path, default=ROOT / "target/release/multipilot")
    parser.add_argument("--minutes", type=float, default=120)
    parser.add_argument("--traces", type=Path, help="folder of Mahimahi traces, NAME.down and NAME.up, maybe with .gz")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="two minutes: whether it works, not whether it leaks")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--programs", type=float, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        return serve()
    if arguments.programs:
        return Programs(arguments.programs).run()
    minutes = 2 if arguments.quick else arguments.minutes
    print(json.dumps(soak(arguments.binary.resolve(), minutes, arguments.traces, arguments.seed)))
    return None


if __name__ == "__main__":
    main()
