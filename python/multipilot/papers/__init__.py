"""Reproductions of papers: ``multipilot paper NAME``.

    paper    what a paper is here: scenarios to measure, kernel points, and a page made of the results
    runs     runs ``multipilot compare`` in both worlds, resumable, and keeps its rows
    results  rows by scenario, cell and variant, with means and intervals
    charts   line charts and bars in the report's style
    page     the HTML page
    cli      the command

A paper is a module that builds a :class:`~multipilot.papers.paper.Paper`; ``PAPERS`` of the command lists them.
"""
