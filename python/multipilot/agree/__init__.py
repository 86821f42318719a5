"""Simulator against kernel, or against the relay: the same scenarios in both worlds, compared by their means.

The grid, the number of runs and the rule of judgement are fixed before anything is measured: see :mod:`.grid` and
:mod:`.judge`.
"""
