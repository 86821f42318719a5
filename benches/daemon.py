#!/usr/bin/env python3
"""The daemon at work: what it costs, how soon it acts, and whether a download is ever slower than over the better path.

Prints one JSON document. What goes over the wire is taken at the client's interfaces: the kernel's byte counts, and the
MP_PRIO options of outgoing packets. Times count from the probe's start, which the emulator's clock leads by some
hundredths of a second. Needs root.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RATE = 20.0  # Mbit/s of either path
BINS = 10  # a second

PROBE = """
import json, os, select, socket, sys, time
sniffer = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0003))
began, due, bins, prio = time.monotonic(), 0.0, [], []
def counts():
    found = {}
    for line in open("/proc/thread-self/net/dev"):
        name, _, rest = line.partition(":")
        if name.strip() in ("wifi", "lte"):
            fields = rest.split()
            found[name.strip()] = int(fields[0]) + int(fields[8])
    return found
def options(packet):
    head = 14 + (packet[14] & 15) * 4
    at, end = head + 20, head + (packet[head + 12] >> 4) * 4
    while at < end and packet[at] != 0:
        if packet[at] == 1:
            at += 1
            continue
        if packet[at] == 30 and packet[at + 2] >> 4 == 5:
            yield packet[at + 2] & 1
        at += packet[at + 1]
while time.monotonic() - began < float(sys.argv[1]):
    now = time.monotonic() - began
    if now >= due:
        bins.append((now, counts()))
        due += 1 / BINS
    if select.select([sniffer], [], [], 0.01)[0]:
        packet, (interface, kind, direction, *_) = sniffer.recvfrom(200)
        if direction == 4 and kind == 0x0800 and packet[23] == 6:
            try:
                prio += [(time.monotonic() - began, interface, flag) for flag in options(packet)]
            except IndexError:
                pass
json.dump({"bins": bins, "prio": prio}, open("probe.json.new", "w"))
os.rename("probe.json.new", "probe.json")
"""


def emulate(
    binary: Path, folder: Path, seconds: float, *, upload: bool, controller: str, scenario: str, seed: int
) -> Any:
    """One transfer with the daemon beside it; what the probe saw."""
    script = f"""cd {folder}
preload=$LD_PRELOAD; unset LD_PRELOAD
ip mptcp endpoint flush
{binary} daemon --config daemon.toml --socket {folder}/control.sock 2> log & daemon=$!
while ! [ -S control.sock ]; do sleep 0.05; done
{sys.executable} probe.py {seconds} & probe=$!
LD_PRELOAD=$preload curl -s {"-T body ${MULTIPILOT_URL}0" if upload else "-o /dev/null $MULTIPILOT_URL"} & transfer=$!
wait $probe; kill $transfer $daemon; wait $daemon || true
"""
    (folder / "probe.py").write_text(PROBE.replace("BINS", str(BINS)))
    (folder / "script.sh").write_text(script)
    (folder / "daemon.toml").write_text(f'controller = "{controller}"\n')
    size = f"{int(seconds * 2 * RATE / 8) + 10}MB"
    if upload:
        with (folder / "body").open("wb") as body:
            body.truncate(int(size[:-2]) * 1_000_000)
    direction = '\ndirection = "upload"' if upload else ""
    (folder / "bench.toml").write_text(
        f"""duration = "{seconds + 5}s"
seed = {seed}
paths.wifi = {{ rate = "{RATE}Mbit", delay = "5ms", queue = "100p" }}
paths.lte = {{ rate = "{RATE}Mbit", delay = "37ms", queue = "400p" }}
{scenario}
[[connections]]{direction}
bytes = "{size}"
command = "sh {folder}/script.sh"
[[variants]]
controller = "{controller}"
"""
    )
    call = [str(binary), "compare", f"{folder}/bench.toml", "--world", "kernel", "--seeds", "1", "--json"]
    done = subprocess.run(call, stdout=subprocess.PIPE, check=False)
    if done.returncode:
        sys.exit(done.returncode)
    return json.loads((folder / "probe.json").read_text())


def runs(seeds: int, one: Callable[[Path, int], Any]) -> list[Any]:
    found = []
    for seed in range(1, seeds + 1):
        with tempfile.TemporaryDirectory() as folder:
            found.append(one(Path(folder), seed))
    return found


def rates(seen: Any, interface: str) -> list[tuple[float, float]]:
    """End of each bin, and Mbit/s over the last three of them."""
    bins = seen["bins"]
    return [
        (now, (of[interface] - before[interface]) * 8e-6 / (now - then))
        for (then, before), (now, of) in zip(bins, bins[3:], strict=False)
    ]


def outage(binary: Path, seeds: int) -> dict[str, Any]:
    """The Wi-Fi is dead for five seconds: when the LTE carries 90 % for good, and when the Wi-Fi is in use again, s."""

    def one(*, upload: bool) -> Callable[[Path, int], dict[str, float | None]]:
        def run(folder: Path, seed: int) -> dict[str, float | None]:
            events = (
                'events = [{ at = "5s", path = "wifi", outage = true }, { at = "10s", path = "wifi", outage = false }]'
            )
            seen = emulate(binary, folder, 16, upload=upload, controller="linux-reno", scenario=events, seed=seed)
            slow = [at - 5 for at, rate in rates(seen, "lte") if 5 < at < 10 and rate < 0.9 * RATE]
            used = [at - 10 for at, rate in rates(seen, "wifi") if at > 10 and rate > 0.1 * RATE]
            return {
                "full_rate_s": round(max(slow, default=0.0), 2),
                "in_use_s": round(min(used), 2) if used else None,
            }

        return run

    return {name: runs(seeds, one(upload=name == "upload")) for name in ("upload", "download")}


def flaps(binary: Path, seeds: int, seconds: float) -> list[float]:
    """Turns to backup per minute, with a loss at the threshold (`awareness.loss.threshold`)."""

    def run(folder: Path, seed: int) -> float:
        event = 'events = [{ at = "0s", path = "wifi", loss = 0.0003 }]'
        seen = emulate(binary, folder, seconds, upload=True, controller="lia", scenario=event, seed=seed)
        return round(sum(flag for _, _, flag in seen["prio"]) * 60 / seconds, 2)

    return runs(seeds, run)


CONNECTIONS = """
import socket, sys, time
server = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)
server.bind(("10.77.0.1", 0))
server.listen(600)
ends = []
for _ in range(int(sys.argv[1]) // 2):
    client = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)
    client.connect(server.getsockname())
    ends += [client, server.accept()[0]]
for end in ends:
    end.send(b"x")
print("ready", flush=True)
time.sleep(3600)
"""


def rest(binary: Path, seconds: int) -> dict[str, Any]:
    """Share of a core and resident memory, without connections and with 1,000 idle ones, in a namespace of its own."""
    script = f"""set -e; cd $FOLDER; ulimit -n 8192
ip link set lo up
ip link add d1 type veth peer name d2
ip address add 10.77.0.1/24 dev d1; ip link set d1 up; ip link set d2 up
{binary} daemon --socket $FOLDER/control.sock 2> log & daemon=$!
trap 'kill $daemon $load 2> /dev/null' EXIT
while ! [ -S control.sock ]; do sleep 0.05; done
measure() {{
    sleep 6
    a=$(cut -d' ' -f14,15 /proc/$daemon/stat); sleep {seconds}; b=$(cut -d' ' -f14,15 /proc/$daemon/stat)
    echo $1 $a $b $(grep VmRSS /proc/$daemon/status | tr -dc 0-9)
}}
measure none
{sys.executable} -c "$CONNECTIONS" 1000 > ready & load=$!
while ! grep -q ready ready; do sleep 0.1; done
measure 1000
{binary} status --json --socket $FOLDER/control.sock | grep '"connections"' >&2
"""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "FOLDER": folder, "CONNECTIONS": CONNECTIONS}
        call = ["unshare", "--net", "sh", "-c", script]
        out = subprocess.run(call, env=environment, stdout=subprocess.PIPE, check=True, text=True).stdout
    ticks = os.sysconf("SC_CLK_TCK")
    found = {}
    for line in out.splitlines():
        name, *numbers = line.split()
        user, system, user_after, system_after, memory = map(int, numbers)
        cpu = (user_after + system_after - user - system) / ticks / seconds
        found[name] = {"cpu_share": round(cpu, 5), "memory_mb": round(memory / 1024, 1)}
    return found


def never_slower(binary: Path, seeds: int) -> list[float]:
    """Goodput of a download with the daemon / over the LTE alone, one after the other in one run, 5 % loss on Wi-Fi."""

    def run(folder: Path, seed: int) -> float:
        (folder / "script.sh").write_text(f"""cd {folder}
ip mptcp endpoint flush
get() {{ curl -s -o /dev/null -w '%{{speed_download}}\\n' "$@" $MULTIPILOT_URL; }}
(unset LD_PRELOAD; get --interface lte > alone
{binary} daemon --socket {folder}/control.sock 2> log & echo $! > daemon)
while ! [ -S control.sock ]; do sleep 0.05; done
get > with; kill $(cat daemon)
""")
        (folder / "bench.toml").write_text(f"""duration = "60s"
seed = {seed}
paths.wifi = {{ rate = "40Mbit", delay = "5ms", queue = "150p", loss = 0.05 }}
paths.lte = {{ rate = "40Mbit", delay = "37ms", queue = "400p" }}
connections = [{{ bytes = "40MB", command = "sh {folder}/script.sh" }}]
variants = [{{ controller = "linux-reno" }}]
""")
        call = [str(binary), "compare", f"{folder}/bench.toml", "--world", "kernel", "--seeds", "1", "--json"]
        if code := subprocess.run(call, stdout=subprocess.DEVNULL, check=False).returncode:
            sys.exit(code)
        speed = {name: float((folder / name).read_text()) for name in ("alone", "with")}
        return round(speed["with"] / speed["alone"], 3)

    return runs(seeds, run)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--binary", type=Path, default=ROOT / "target/release/multipilot")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one seed, shorter runs: the order of magnitude")
    parser.add_argument("--only", default="rest,outage,flaps,never-slower", help="some of them, by comma")
    arguments = parser.parse_args()
    binary = arguments.binary.resolve()
    seeds = 1 if arguments.quick else arguments.seeds
    benches: dict[str, Callable[[], Any]] = {
        "rest": lambda: rest(binary, 10 if arguments.quick else 30),
        "outage": lambda: outage(binary, seeds),
        "flaps": lambda: flaps(binary, seeds, 30 if arguments.quick else 120),
        "never-slower": lambda: never_slower(binary, seeds),
    }
    print(json.dumps({name: benches[name]() for name in arguments.only.split(",")}, indent=2))


if __name__ == "__main__":
    main()
