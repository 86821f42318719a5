"""How every Python command of multipilot speaks: results on stdout, all else on stderr, errors on one line."""

from __future__ import annotations

from typing import NoReturn

import typer
from rich.console import Console

stderr = Console(stderr=True, highlight=False, soft_wrap=True)

RUN_FAILED = 1
WRONG_CALL = 2
CANNOT_HERE = 3


def say(message: str) -> None:
    stderr.print(message, markup=False)


def fail(message: str, code: int = WRONG_CALL) -> NoReturn:
    """One line to stderr and the exit code of the contract."""
    stderr.print(f"error: {message}", markup=False)
    raise typer.Exit(code)
