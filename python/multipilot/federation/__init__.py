"""MS-UCB from Python, and federation: devices on the same links share counts and mean rewards, never what they sent.

bandit  the learner of one device, and what it knows
files   what is known, as a file that others read
flower  server and clients on Flower, across hosts

>>> from multipilot.federation import SuperArms, merge
>>> device = SuperArms(["wifi", "lte", "ap-3"], size=2, seed=1)
>>> device.learn({link: 0.5 for link in device.choose()})
>>> newcomer = SuperArms(["wifi", "lte", "ap-3"], size=2, seed=2)
>>> newcomer.begin_with(merge([device.own]))
"""

from __future__ import annotations

from multipilot.federation.bandit import Known, SuperArms, merge

__all__ = ["Known", "SuperArms", "merge"]
