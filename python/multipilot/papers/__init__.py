"""Reproductions of papers: ``multipilot paper NAME``.

    paper    what a paper is here: scenarios to measure, kernel points, and a page made of the results
    runs     runs ``multipilot compare`` in both worlds, resumable, and keeps its rows
    results  rows by scenario, cell and variant, with means and intervals
    claims   what a paper claims, as data, and each claim's verdict
    charts   line charts and bars in the report's style
    page     the HTML page
    publish  a paper's page and document out of its results
    provenance  commit, date, seeds and sources of a record
    check    what is older than the code
    folder   where the reproductions are
    cli      the command

A paper is a package in the folder ``reproductions`` of the checkout that has a
:class:`~multipilot.papers.paper.Paper` as ``PAPER``; :mod:`.folder` finds it.
"""
