"""``multipilot report DIR``: pictures of a record."""

from __future__ import annotations

import webbrowser
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from matplotlib.figure import Figure

from multipilot.console import fail, run, say
from multipilot.record import Record, RecordError
from multipilot.report import notebook, page, summary, svg, trial, write

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(help="Draw a record as one HTML file that opens offline: a bar per variant, and each subflow over time.")
def report(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="folder that `multipilot compare`, `sweep` or `try` wrote")
    ],
    out: Annotated[Path | None, typer.Option(help="file of the page [default: DIR/report.html]")] = None,
    parquet: Annotated[
        Path | None,
        typer.Option(help="also write rows, transfers, samples, decisions and intervals as Parquet to this folder"),
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(metavar="FILE.svg", help="also write the first picture of the page to this file")
    ] = None,
    open_: Annotated[bool, typer.Option("--open", help="show the page in the browser")] = False,
) -> None:
    try:
        written, first, label = _trial(folder, out) or _comparison(folder, out, parquet)
        if picture:
            picture.write_text(svg.standalone(first(), label), encoding="utf-8")
    except (RecordError, OSError) as error:
        fail(str(error))
    print(written)
    if open_:
        webbrowser.open(written.resolve().as_uri())


#: The page, its first picture, and what that shows in words.
Drawn = tuple[Path, Callable[[], Figure], str]


def _trial(folder: Path, out: Path | None) -> Drawn | None:
    """If this is what ``multipilot try`` wrote."""
    if not (folder / trial.FILE).is_file():
        return None
    document = trial.load(folder / trial.FILE)
    return trial.write(folder, out or folder / "report.html"), lambda: trial.figure(document), trial.label(document)


def _record(folder: Path) -> Record:
    from multipilot.sweep import dataset

    return dataset.record(folder) if dataset.is_one(folder) else Record.load(folder)


def _comparison(folder: Path, out: Path | None, parquet: Path | None) -> Drawn:
    record = _record(folder)
    if not record.row_dicts:
        raise RecordError(
            f"{folder}: no run has ended yet; run the comparison again with the same --out to complete it"
        )
    drawn = write(record, out or folder / "report.html")
    if parquet:
        for file in record.to_parquet(parquet):
            say(str(file))
    found = summary.variants(record)
    by = summary.goal(found)
    described = ", ".join(f"{v.name} {by.of(v).mean:.3g} {by.unit}" for v in found)
    return drawn, lambda: notebook.overview(record), f"{page.title(record)}: {described}"


def main() -> None:
    run(app, "report")
