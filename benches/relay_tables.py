"""The tables of benches/relay.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tables import middle, table

ENDS = ("device", "relay")


def show_shares(of: dict[str, Any]) -> None:
    cases = of["cases"]
    ways = list(next(iter(cases.values())))
    table(
        f"One flow / sum of the links' rates; relay: {of['scheduler']} and {of['controller']}; median (least … most)",
        ["case", *ways],
        ([case, *(middle(some[way], 3) for way in ways)] for case, some in cases.items()),
    )


def show_voice(ways: dict[str, list[dict[str, float]]]) -> None:
    table(
        "One-way times of a call of 50 packets of 160 bytes a second beside an upload, 40 + 20 Mbit/s, 10 and 40 ms "
        "one way (aim: 99 % within 18 ms). MPTCP carries the upload alone",
        ["upload over", "median, ms", "99 %, ms", "lost, %", "upload, Mbit/s"],
        (
            [
                way,
                *(middle((run[key] for run in runs), 1) for key in ("p50_ms", "p99_ms")),
                middle((100 * run["lost"] for run in runs), 2),
                middle((run["upload_mbps"] for run in runs), 1),
            ]
            for way, runs in ways.items()
        ),
    )


def show_call(cases: dict[str, dict[str, list[float]]]) -> None:
    rows = [
        [case, way, middle((100 * run for run in runs), 2)]
        for case, ways in cases.items()
        for way, runs in ways.items()
    ]
    table(
        "Lost packets of a call of 250 packets of 1,200 bytes a second, one way (aims: .2 % and 0)",
        ["case", "over", "lost, %"],
        rows,
    )


def show_quic(cases: dict[str, dict[str, list[dict[str, float]]]]) -> None:
    rows = [
        [case, way, *(middle((run[key] for run in runs), 1) for key in ("mbps", "p50", "p99"))]
        for case, ways in cases.items()
        for way, runs in ways.items()
    ]
    table(
        "A download over QUIC with CUBIC, and round trips of a small UDP flow beside it",
        ["case", "over", "download, Mbit/s", "round trip, median, ms", "99 %, ms"],
        rows,
    )


def show_silence(cases: dict[str, dict[str, list[dict[str, float]]]]) -> None:
    aims = iter((".3", ".1"))
    rows = [
        [case, aim, way, *(middle(run[key] for run in runs) for key in ("before_s", "after_s"))]
        for (case, ways), aim in zip(cases.items(), aims, strict=False)
        for way, runs in ways.items()
    ]
    table(
        "Longest time of a download without a byte, s: in the 2 s before the event, and after it; 30 + 30 Mbit/s, "
        "round trip 10 ms",
        ["event", "aim (≤)", "over", "before", "after"],
        rows,
    )


def show_pages(ways: dict[str, list[float]]) -> None:
    table(
        "A page of 2 kB over links of 20 ms: median time in round trips (aim: no more than over the better link)",
        ["over", "round trips"],
        ([way, middle(runs)] for way, runs in ways.items()),
    )


def show_busy(of: dict[str, Any]) -> None:
    table(
        f"Growth of private memory by downloads, MB a flow; bandwidth-delay product {of['bdp_mb']:.2f} MB "
        f"(aim: {2 * of['bdp_mb'] + 1:.1f})",
        ["flows", *ENDS],
        ([count, *(middle(run[end] for run in runs) for end in ENDS)] for count, runs in of["flows"].items()),
    )


def show_host(of: dict[str, Any]) -> None:
    rows = []
    for name, what in (("tcp", "round trip, TCP"), ("udp", "round trip, UDP"), ("connect", "connect()")):
        aim = "0.3 more" if name != "connect" else ""
        rows.append([f"{what}, ms", aim, middle(of["direct_ms"][name]), middle(of["captured_ms"][name])])
    for name, aims in (("tcp", ("0.20", "0.15")), ("udp", ("0.8", "0.8"))):
        for end, aim in zip(ENDS, aims, strict=True):
            cost = middle(run[end] for run in of[f"{name}_cpu"])
            rows.append([f"CPU of the {end}, {name.upper()}, s per Gbit", aim, "", cost])
    rows.append(["UDP packets lost at 300 Mbit/s", "", "", middle(of["udp_lost"], 4)])
    for when in ("idle", "after"):
        for end, used in of[f"memory_{when}_mb"].items():
            text = f"{used['VmRSS']} ({used['RssAnon']})"
            rows.append([f"memory of the {end}, {when} (anonymous), MB", "12" if when == "idle" else "", "", text])
    table("A whole host over the relay, links without rate", ["figure", "aim (≤)", "directly", "captured"], rows)


def show_beside(runs: list[dict[str, Any]]) -> None:
    rows = []
    for name, what in (("udp", "a small UDP flow"), ("tcp", "a TCP connection")):
        for at in ("p50", "p99"):
            cells = (middle((run[when][name][at] for run in runs), 1) for when in ("alone", "beside"))
            rows.append([f"round trip of {what}, {at}, ms", *cells])
    rows.append(["UDP of 60 Mbit/s arrives, Mbit/s", "", middle((run["bulk_mbps"] for run in runs), 1)])
    table("Beside bulk UDP over 20 + 20 Mbit/s, relay", ["figure", "alone", "beside"], rows)


def show_flows(runs: list[dict[str, Any]]) -> None:
    rows = []
    for when, what, aim in (("idle", "idle", "12"), ("held", f"with {runs[0]['opened']} idle flows", "60")):
        for end in ENDS:
            cells = (middle((run[when][end][kind] for run in runs), 1) for kind in ("VmRSS", "RssAnon"))
            rows.append([f"memory of the {end} {what}, MB", aim, *cells])
    table("Flows that nobody uses", ["figure", "aim (≤)", "resident", "of it anonymous"], rows)


def show_rivals(ways: dict[str, list[dict[str, Any]]]) -> None:
    rows = []
    for way, runs in ways.items():
        costs = [middle((run["cpu_ms"][end] for run in runs), 2) for end in ENDS]
        most = [middle((1e3 / run["cpu_ms"]["relay"] for run in runs), 0)]
        held = [middle((run["held_mb"][end]["VmRSS"] for run in runs), 1) for end in ENDS]
        rows.append([way, *costs, *most, *held])
    header = ["", "device, CPU ms", "relay, CPU ms", "a second of the relay's core"]
    table(
        "A connection through the SOCKS proxy with a byte each way, and 1,000 that are idle",
        [*header, "device with 1,000, MB", "relay, MB"],
        rows,
    )


def show_pairs(worlds: dict[str, dict[str, Any]]) -> None:
    rows = []
    for world, of in worlds.items():
        ratios = list(of["ratios"].values())
        reached = sum(ratio >= 0.95 for ratio in ratios) / len(ratios)
        rows.append([world, len(ratios), f"{reached:.1%}", f"{min(ratios):.2f}"])
    table(
        "Random pairs of links, one download each: at least .95 of plain TCP over the better link (aim: 99 %). The "
        "simulator has MPTCP with the relay's scheduler and controller",
        ["", "pairs", "reach it", "least ratio"],
        rows,
    )


SHOW: dict[str, Callable[[Any], None]] = {
    "shares": show_shares,
    "voice": show_voice,
    "call": show_call,
    "quic": show_quic,
    "silence": show_silence,
    "pages": show_pages,
    "busy": show_busy,
    "host": show_host,
    "beside": show_beside,
    "flows": show_flows,
    "rivals": show_rivals,
    "pairs": show_pairs,
}


def show_relay(figures: dict[str, Any]) -> None:
    for name, of in figures.items():
        SHOW[name](of)
