#!/usr/bin/env python3
"""The servers and clients of benches/relay.py, each a process in one of its network namespaces.

``relay_programs.py NAME ARGUMENT…``: calls the function of this name, and prints what it returns as JSON; arguments are
JSON too. Times are the monotonic clock's, which all processes of a machine share. ``CONGESTION`` in the environment is
the congestion control of all TCP sockets.
"""

from __future__ import annotations

import itertools
import json
import os
import resource
import signal
import socket
import statistics
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

SERVER = "198.51.100.2"
ECHO, SINK_UDP, SOURCE, KEEP, SINK, PAGE = 7, 9, 19, 21, 23, 8080
#: The same server over MPTCP, on a port so much higher.
OVER_MPTCP = 10_000
IPPROTO_MPTCP = 262
SO_RCVBUFFORCE = 33
TCP_CONGESTION = 13
PAGE_BYTES = 2000
#: Number and time of sending, ns.
STAMP = struct.Struct("!QQ")


def tcp_socket(mptcp: bool = False) -> socket.socket:
    end = socket.socket(socket.AF_INET, socket.SOCK_STREAM, IPPROTO_MPTCP if mptcp else 0)
    if control := os.environ.get("CONGESTION"):
        end.setsockopt(socket.IPPROTO_TCP, TCP_CONGESTION, control.encode())
    return end


def connect_to(port: int, mptcp: bool = False) -> socket.socket:
    end = tcp_socket(mptcp)
    end.connect((SERVER, port + mptcp * OVER_MPTCP))
    return end


def udp_socket(port: int) -> socket.socket:
    end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    end.connect((SERVER, port))
    return end


# --- The servers


def answer_echo(end: socket.socket) -> None:
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while data := end.recv(65536):
        end.sendall(data)


def answer_source(end: socket.socket) -> None:
    block = bytes(1 << 20)
    with suppress(OSError):
        while True:
            end.sendall(block)


def answer_sink(end: socket.socket) -> None:
    """Swallows all, then says how much it was."""
    size = 0
    with suppress(OSError), end:
        while data := end.recv(1 << 20):
            size += len(data)
        end.sendall(size.to_bytes(8, "big"))


def answer_page(end: socket.socket) -> None:
    with suppress(OSError), end:
        if end.recv(1024):
            end.sendall(bytes(PAGE_BYTES))


def accept(port: int, mptcp: bool, backlog: int, take: Callable[[socket.socket], None]) -> None:
    listener = tcp_socket(mptcp)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((SERVER, port + mptcp * OVER_MPTCP))
    listener.listen(backlog)

    def loop() -> None:
        while True:
            take(listener.accept()[0])

    threading.Thread(target=loop, daemon=True).start()


def answer(port: int, act: Callable[[socket.socket], None], mptcp: bool = False) -> None:
    accept(port, mptcp, 256, lambda end: threading.Thread(target=act, args=(end,), daemon=True).start())


def serve() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
    for port, act in ((ECHO, answer_echo), (PAGE, answer_page), (SOURCE, answer_source), (SINK, answer_sink)):
        answer(port, act)
    # A kernel may have no MPTCP.
    with suppress(OSError):
        for port, act in ((SOURCE, answer_source), (SINK, answer_sink)):
            answer(port, act, mptcp=True)
    kept: list[socket.socket] = []
    accept(KEEP, False, 4096, kept.append)
    server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    server.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 25)
    server.bind((SERVER, SINK_UDP))
    print("ready", flush=True)
    count = 0
    while True:
        data, peer = server.recvfrom(2048)
        if data[:1] == b"?":
            server.sendto(str(count).encode(), peer)
            count = 0
        elif data[:1] == b"!":
            server.sendto(data, peer)
        else:
            count += 1


def receive(port: int) -> list[float]:
    """One-way times of what :func:`send` sends, ms, until nothing came for 3 s; a copy does not count."""
    end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    end.bind((SERVER, port))
    print("ready", flush=True)
    took: dict[int, float] = {}
    end.settimeout(60)
    with suppress(TimeoutError):
        while True:
            data = end.recv(2048)
            number, sent = STAMP.unpack_from(data)
            took.setdefault(number, round((time.monotonic_ns() - sent) / 1e6, 3))
            end.settimeout(3)
    return list(took.values())


# --- The clients


def clock(act: Callable[[], Any], times: int, pause: float = 0.0) -> float:
    """Median, ms."""
    took = []
    for _ in range(times):
        began = time.perf_counter()
        act()
        took.append(1e3 * (time.perf_counter() - began))
        time.sleep(pause)
    return statistics.median(took)


def tcp() -> float:
    end = connect_to(ECHO)
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return clock(lambda: (end.send(b"x"), end.recv(1)), 300, 0.005)


def connect() -> float:
    return clock(lambda: connect_to(ECHO).close(), 100, 0.02)


def udp() -> float:
    end = udp_socket(SINK_UDP)
    end.settimeout(1)
    return clock(lambda: (end.send(b"!2345"), end.recv(64)), 300, 0.005)


def page(times: int) -> float:
    """A connection, a request, 2 kB and the end."""

    def load() -> None:
        with connect_to(PAGE) as end:
            end.sendall(bytes(200))
            if len(end.recv(PAGE_BYTES, socket.MSG_WAITALL)) != PAGE_BYTES:
                sys.exit("a page ended early")

    return clock(load, times, 0.1)


def download(seconds: float, proxy: int | None = None) -> float:
    """Gbit."""
    end = connect_to(SOURCE) if proxy is None else socks(proxy, SOURCE)
    size, until = 0, time.monotonic() + seconds
    while time.monotonic() < until:
        size += len(end.recv(1 << 20))
    return 8 * size / 1e9


def upload(seconds: float, mptcp: bool) -> float:
    """Mbit/s until the last byte was there."""
    end, block = connect_to(SINK, mptcp), bytes(1 << 16)
    began = time.monotonic()
    while time.monotonic() < began + seconds:
        end.sendall(block)
    end.shutdown(socket.SHUT_WR)
    size = int.from_bytes(end.recv(8, socket.MSG_WAITALL), "big")
    return 8e-6 * size / (time.monotonic() - began)


def spread(kind: str, seconds: float) -> dict[str, float]:
    end = connect_to(ECHO) if kind == "tcp" else udp_socket(SINK_UDP)
    if kind == "tcp":
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    else:
        end.settimeout(1)
    took, lost, until = [], 0, time.monotonic() + seconds
    while time.monotonic() < until:
        began = time.perf_counter()
        try:
            end.send(b"!2345")
            end.recv(64)
            took.append(1e3 * (time.perf_counter() - began))
        except TimeoutError:
            lost += 1
        time.sleep(0.02)
    took.sort()
    return {"p50": round(took[len(took) // 2], 1), "p99": round(took[len(took) * 99 // 100], 1), "lost": lost}


def stream(seconds: float, mbps: float, size: int = 1300) -> list[int]:
    """Packets sent, and those that arrived."""
    end = udp_socket(SINK_UDP)
    end.settimeout(5)
    data, began, sent = bytes(size), time.monotonic(), 0
    while (now := time.monotonic() - began) < seconds:
        while sent * size * 8 < now * mbps * 1e6:
            end.send(data)
            sent += 1
        time.sleep(0.0005)
    time.sleep(0.5)
    end.send(b"?")
    return [sent, int(end.recv(64))]


def send(port: int, count: int, every: float, size: int) -> int:
    """Packets for :func:`receive`, one each so many seconds."""
    end, began = udp_socket(port), time.monotonic()
    for number in range(count):
        time.sleep(max(0.0, began + number * every - time.monotonic()))
        # A link that has just gone refuses it: lost.
        with suppress(OSError):
            end.send(STAMP.pack(number, time.monotonic_ns()).ljust(size, b"\0"))
    return count


def silence(at: float, seconds: float, mptcp: bool, link: str | None = None) -> dict[str, float]:
    """The longest time of a download without a byte, s: in the two seconds before ``at``, and in so many afterwards.
    ``link`` is taken down then."""
    end = connect_to(SOURCE, mptcp)
    if link:
        down = ["ip", "link", "set", link, "down"]
        threading.Timer(at - time.monotonic(), subprocess.run, (down,), {"check": True}).start()
    times = []
    while (left := at + seconds - time.monotonic()) > 0:
        end.settimeout(left)
        try:
            size = len(end.recv(1 << 20))
        except OSError:
            break
        if not size:
            break
        times.append(time.monotonic())
    if not times or times[0] > at - 4:
        sys.exit("the download began too late: is the machine busy?")
    gaps = list(itertools.pairwise([*times, at + seconds]))
    # The emulator's clock leads by some hundredths of a second.
    apart = at - 0.1
    return {
        "before_s": max((b - a for a, b in gaps if at - 2 < b <= apart), default=2.0),
        "after_s": max(b - a for a, b in gaps if b > apart),
    }


def hold(count: int, proxy: int | None = None) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (count + 100, count + 100))
    ends = [connect_to(KEEP) if proxy is None else socks(proxy, KEEP) for _ in range(count)]
    print(len(ends), flush=True)
    sys.stdin.read()


def socks(proxy: int, port: int) -> socket.socket:
    end = socket.create_connection(("127.0.0.1", proxy))
    end.sendall(bytes((5, 1, 0)))
    end.recv(2, socket.MSG_WAITALL)
    end.sendall(bytes((5, 1, 0, 1)) + socket.inet_aton(SERVER) + port.to_bytes(2, "big"))
    if end.recv(10, socket.MSG_WAITALL)[1] != 0:
        sys.exit("the SOCKS proxy refuses a connection")
    return end


def churn(proxy: int, seconds: float, width: int = 32) -> int:
    until, counts = time.monotonic() + seconds, []

    def one() -> None:
        count = 0
        while time.monotonic() < until:
            with socks(proxy, ECHO) as end:
                end.sendall(b"x")
                count += len(end.recv(1))
        counts.append(count)

    threads = [threading.Thread(target=one) for _ in range(width)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts)


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]](*map(json.loads, sys.argv[2:]))))
