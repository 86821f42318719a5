"""``multipilot report DIR``: pictures of a record."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from multipilot.console import fail, run, say
from multipilot.record import Record, RecordError
from multipilot.report import trial, write

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(help="Draw a record: a bar per variant, and each subflow over time, as one HTML file that opens offline.")
def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="what `multipilot compare`, `sweep` or `try` wrote")],
    out: Annotated[Path | None, typer.Option(help="the page [default: DIR/report.html]")] = None,
    parquet: Annotated[
        Path | None, typer.Option(help="also write rows, transfers, samples and decisions as Parquet to this folder")
    ] = None,
    open_: Annotated[bool, typer.Option("--open", help="show the page in the browser")] = False,
) -> None:
    try:
        page = _trial(folder, out) or _comparison(folder, out, parquet)
    except (RecordError, OSError) as error:
        fail(str(error))
    print(page)
    if open_:
        webbrowser.open(page.resolve().as_uri())


def _trial(folder: Path, out: Path | None) -> Path | None:
    """The page, if this is what ``multipilot try`` wrote."""
    if not (folder / trial.FILE).is_file():
        return None
    return trial.write(folder, out or folder / "report.html")


def _record(folder: Path) -> Record:
    from multipilot.sweep import dataset

    return dataset.record(folder) if dataset.is_one(folder) else Record.load(folder)


def _comparison(folder: Path, out: Path | None, parquet: Path | None) -> Path:
    record = _record(folder)
    if not record.row_dicts:
        raise RecordError(
            f"{folder}: no run has ended yet; run the comparison again with the same --out to complete it"
        )
    page = write(record, out or folder / "report.html")
    if parquet:
        for file in record.to_parquet(parquet):
            say(str(file))
    return page


def main() -> None:
    run(app, "report")
