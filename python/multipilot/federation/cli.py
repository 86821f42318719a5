"""``multipilot federation``: share what MS-UCB has seen between hosts."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Annotated

import typer

from multipilot.console import CANNOT_HERE, RUN_FAILED, fail, run
from multipilot.console import seconds as as_seconds
from multipilot.federation import files
from multipilot.federation.bandit import Known

INTERRUPTED = 130
NEEDS = "federation across hosts needs Flower: pip install 'multipilot[federation]'"

app = typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True)
Address = Annotated[str, typer.Argument(metavar="HOST:PORT", help="address of the server")]


@app.command(help="Merge the statistics of devices, round after round. Prints the last state as JSON.")
def serve(
    address: Address = "127.0.0.1:8470",
    rounds: Annotated[int, typer.Option(min=1, help="rounds until all clients end")] = 1_000_000,
    interval: Annotated[str, typer.Option(help="time between two rounds, e.g. 5s or 1m")] = "5s",
    trim: Annotated[
        float,
        typer.Option(min=0.0, max=0.5, help="share of the means left out at either end, against devices that lie"),
    ] = 0.25,
    trust: Annotated[bool, typer.Option("--trust", help="trust all devices: plain sums, no means left out")] = False,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="file of the merged statistics, replaced each round")
    ] = None,
    tls: Annotated[
        tuple[Path, Path, Path] | None,
        typer.Option(metavar="CA CERT KEY", help="PEM files; without them anyone can read and report statistics"),
    ] = None,
) -> None:
    def heard(known: Known, _: int) -> None:
        if out:
            files.save(out, known)

    pause = as_seconds(interval)
    try:
        from multipilot.federation import flower

        certificates = (tls[0].read_bytes(), tls[1].read_bytes(), tls[2].read_bytes()) if tls else None
        print(files.show(flower.serve(address, rounds, pause, None if trust else trim, heard, certificates)))
    except ImportError as error:
        fail(f"{NEEDS} ({error.name} is missing)", CANNOT_HERE)
    except OSError as error:
        fail(str(error))
    except RuntimeError as error:
        fail(f"{address}: {str(error).splitlines()[0]}", RUN_FAILED)
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None


@app.command(help="Report the statistics of one device, and write the merged ones of all devices.")
def join(
    address: Address,
    device: Annotated[str, typer.Option(help="unique name of this device, the same after a restart")],
    own: Annotated[Path, typer.Option(metavar="FILE", help="statistics of this device: {link: [count, mean reward]}")],
    known: Annotated[
        Path,
        typer.Option(
            metavar="FILE", help="the merged statistics, replaced each round; new connections start with them"
        ),
    ],
    root_certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="CA certificate (PEM) of a server with TLS")
    ] = None,
) -> None:
    try:
        from multipilot.federation import flower

        files.load(own)
        flower.join(address, device, lambda: files.load(own), lambda k: files.save(known, k), root_certificate)
    except ImportError as error:
        fail(f"{NEEDS} ({error.name} is missing)", CANNOT_HERE)
    except (OSError, ValueError) as error:
        fail(str(error))
    except KeyboardInterrupt:
        raise typer.Exit(INTERRUPTED) from None


def main() -> None:
    logging.basicConfig(format="multipilot: %(message)s")
    logging.getLogger("multipilot.federation").setLevel(logging.INFO)
    run(app, "federation")


if __name__ == "__main__":
    main()
