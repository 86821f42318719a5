"""How every Python command of multipilot speaks: results on stdout, all else on stderr, errors on one line."""

from __future__ import annotations

import math
import os
import re
import shutil
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from multipilot.stats import Mean

__all__ = [
    "CannotHere",
    "Progress",
    "RunFailed",
    "TaskID",
    "command",
    "fail",
    "mean",
    "progress",
    "run",
    "say",
    "seconds",
    "stderr",
]

stderr = Console(stderr=True, highlight=False, soft_wrap=True)

RUN_FAILED = 1
WRONG_CALL = 2
CANNOT_HERE = 3
INTERRUPTED = 130


def say(message: str) -> None:
    stderr.print(message, markup=False)


def fail(message: str, code: int = WRONG_CALL) -> NoReturn:
    """One line to stderr and the exit code of the contract."""
    stderr.print(f"multipilot: {message}", markup=False)
    raise typer.Exit(code)


# Typer brings a Click of its own in some versions, and exports no base class of the errors of a call.
_WrongCall: Any = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")


def _interrupt(*_: object) -> NoReturn:
    # A second Ctrl-C would only break off the removal of what runs have left; SIGTERM may.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    raise KeyboardInterrupt


def run(app: typer.Typer, name: str) -> NoReturn:
    """Run ``multipilot NAME``, or the module of ``python -m``, and end the process; a wrong call is one line, as the
    Rust command has it."""
    module = getattr(sys.modules["__main__"], "__spec__", None)
    whole = f"python -m {module.name}" if module else f"multipilot {name}"
    # As Ctrl-C: what it started has sessions of its own, and would run on.
    for number in (signal.SIGINT, signal.SIGTERM):
        # A shell has its background jobs ignore Ctrl-C.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _interrupt)
    try:
        code = app(prog_name=whole, standalone_mode=False)
    except _WrongCall as error:
        # Without a command Click says the whole help.
        helped = type(error).__name__ == "NoArgsIsHelpError"
        said = "no command" if helped else _plainly(" ".join(error.format_message().split()).rstrip("."))
        stderr.print(f"multipilot: {said[:1].lower() + said[1:]}; see {whole} --help", markup=False)
        code = WRONG_CALL
    except typer.Abort:
        code = INTERRUPTED
    sys.exit(code or 0)


def _plainly(said: str) -> str:
    """Without the words of the library that some versions of Typer read values by."""
    said = re.sub(r"(: )(?:Value error|Assertion failed), ", r"\1", said)
    return re.sub(r"(: )Input should be (?=greater|less)", r"\1expected a value ", said).replace(
        ": Input should be ", ": expected "
    )


def command() -> str:
    """The ``multipilot`` command: of ``$MULTIPILOT``, beside this Python, on the PATH, or built in the checkout."""
    checkout = Path(__file__).parents[2] / "target" / "release" / "multipilot"
    beside = Path(sys.executable).parent / "multipilot"
    for found in (os.environ.get("MULTIPILOT"), str(beside), shutil.which("multipilot"), str(checkout)):
        if found and os.access(found, os.X_OK):
            return found
    fail(
        "the multipilot command is not to be found; build it with `make build`, or name it in $MULTIPILOT", CANNOT_HERE
    )


def mean(found: Mean, digits: int = 2) -> str:
    """``1.87 ± 0.05``; without an interval where one run says nothing of it, a dash where nothing was measured."""
    if math.isnan(found.mean):
        return "–"
    return f"{found.mean:.{digits}f}" + ("" if math.isnan(found.half) else f" ± {found.half:.{digits}f}")


def seconds(text: str) -> float:
    """``90s``, ``60m``, ``1.5h`` as seconds."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(s|m|min|h)", text.strip())
    if not match:
        fail(f'"{text}" is no length of time; give a number with its unit, e.g. 90s, 60m or 2h')
    return float(match[1]) * {"s": 1, "m": 60, "min": 60, "h": 3600}[match[2]]


class RunFailed(Exception):
    """A run without which nothing else makes sense failed; the message says why."""


class CannotHere(Exception):
    """This machine cannot do it; the message says what is missing."""


def progress() -> Progress:
    """A bar on stderr; nothing where that is no terminal."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeRemainingColumn(),
        console=stderr,
        disable=not stderr.is_terminal,
    )
