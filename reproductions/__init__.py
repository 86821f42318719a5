"""Reproductions of papers: one folder each, read by ``multipilot paper NAME``.

Here is what is particular to a paper: what is measured, what it claims, and what is drawn of it. Running, judging,
charts, tables and the page are ``multipilot.papers``.
"""
