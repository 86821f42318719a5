"""A record as one page: what was run, which variant did better, and why."""

from multipilot.report.page import render, write

__all__ = ["render", "write"]
