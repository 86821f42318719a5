"""LD-MPSP's fluid: windows and prices run into the closed form."""

from __future__ import annotations

import numpy as np

from multipilot.papers.charts import Curve, Panel, draw
from multipilot.papers.page import Section, table
from multipilot.papers.results import Results
from multipilot.report import svg
from multipilot.theory.prices import WindowPrices, low_delay_equilibrium
from multipilot.theory.rules import LdMpsp

RTT, QUEUES, RATE = 0.02, (0.0, 0.005, 0.01, 0.015), 800.0


def show(_: Results) -> Section:
    size = len(QUEUES)
    fluid = WindowPrices(LdMpsp(), np.full(size, RTT), np.array(QUEUES), np.full(size, RATE), np.full(size, 2e5))
    windows, prices = low_delay_equilibrium(LdMpsp(), fluid.rtt, fluid.queue, fluid.capacity)
    run = fluid.run(windows * 0.5, prices * 0.5, 60.0)
    labels = [f"queue {q * 1e3:.0f} ms" for q in QUEUES]
    left = Panel(
        "Windows", "s", "packets",
        [Curve(labels[i], list(run.time), list(run.state[i]), svg.PATHS[i], markers=False) for i in range(size)],
    )  # fmt: skip
    right = Panel(
        "Prices", "s", "loss probability",
        [Curve(labels[i], list(run.time), list(run.state[size + i]), svg.PATHS[i], markers=False) for i in range(size)],
    )  # fmt: skip
    end = fluid.run(windows * 0.5, prices * 0.5, 600.0).end
    lines = [
        [labels[i], f"{end[i]:.2f}", f"{windows[i]:.2f}", f"{end[size + i]:.5f}", f"{prices[i]:.5f}"]
        for i in range(size)
    ]
    return Section(
        "LD-MPSP in theory: where window and loss come to rest",
        [
            "dw/dt = ((τ* − q)/τ*)/RTT − 2w²p/(3 RTT), dp/dt = (λ − θ)⁺/m with τ* = 20 ms. A longer queue leaves the "
            "window where it is, at what the link carries, and lowers the loss that holds it there: p = 3((τ* − "
            "q)/τ*)/(2w²).",
        ],
        [
            draw([left, right], "Windows and prices of four links over time", height=3.4),
            table(["link", "window, integrated", "closed form", "price, integrated", "closed form"], lines),
        ],
        [
            "At q = τ* the price is 0: nothing holds the window but its own queue. Above it the window shrinks "
            "without loss."
        ],
    )
