"""Federation across hosts on Flower: a server that merges, clients that tell and hear.

A round: the server sends all clients what is known, each answers with what its own device has seen since it began.
Answers are totals, so that one that is lost costs nothing but time; what a device told stays when the device goes. A
device that joins late hears everything in its first round.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from logging import INFO, WARNING, getLogger
from pathlib import Path
from typing import Any

# Flower reports home unless it is told not to before it is imported.
os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")

import grpc
from flwr.client import Client, start_client
from flwr.common import Code, FitIns, FitRes, Parameters, Status
from flwr.server import ServerConfig, start_server
from flwr.server.client_manager import ClientManager
from flwr.server.client_proxy import ClientProxy
from flwr.server.strategy import Strategy

from multipilot.federation import files
from multipilot.federation.bandit import Known, merge

DEVICE = "device"
LONGEST_DEVICE = 64
#: Devices whose reports are kept at most.
MOST_DEVICES = 100_000
#: Seconds until a server that is away is tried again.
AGAIN = 1.0
log = getLogger("multipilot.federation")
# A line for every message is too much, and what it warns of is not the caller's to mend.
getLogger("flwr").setLevel("ERROR")


def _pack(known: Known) -> Parameters:
    return Parameters(tensors=[files.show(known).encode()], tensor_type="json")


def _unpack(parameters: Parameters) -> Known:
    return files.read(parameters.tensors[0]) if parameters.tensors else {}


class Merging(Strategy):
    """All devices in every round. ``trim`` as in :func:`multipilot.federation.merge`; ``heard`` gets each result."""

    def __init__(
        self, trim: float | None, interval: float, heard: Callable[[Known, int], None] = lambda known, devices: None
    ) -> None:
        self.trim = trim
        self.interval = interval
        self.heard = heard
        self.reports: dict[str, Known] = {}

    @property
    def known(self) -> Known:
        return merge(self.reports.values(), self.trim)

    def initialize_parameters(self, client_manager: ClientManager) -> Parameters:
        return _pack({})

    def configure_fit(
        self, server_round: int, parameters: Parameters, client_manager: ClientManager
    ) -> list[tuple[ClientProxy, FitIns]]:
        if server_round > 1:
            time.sleep(self.interval)
        while client_manager.num_available() == 0:
            time.sleep(min(self.interval, 0.2))
        instructions = FitIns(_pack(self.known), {})
        return [(client, instructions) for client in client_manager.all().values()]

    def aggregate_fit(self, server_round: int, results: Any, failures: Any) -> tuple[Parameters, dict[str, Any]]:
        for _, answer in results:
            self._take(answer)
        if failures:
            log.log(WARNING, "round %d: %d devices did not answer", server_round, len(failures))
        known = self.known
        log.log(INFO, "round %d: %d devices, %d links", server_round, len(self.reports), len(known))
        self.heard(known, len(self.reports))
        return _pack(known), {}

    def _take(self, answer: FitRes) -> None:
        device = answer.metrics.get(DEVICE)
        if not isinstance(device, str) or not 0 < len(device) <= LONGEST_DEVICE:
            log.log(WARNING, "an answer without a device's name was left out")
            return
        if device not in self.reports and len(self.reports) >= MOST_DEVICES:
            log.log(WARNING, "%s was left out: there are %d devices", device, MOST_DEVICES)
            return
        try:
            self.reports[device] = _unpack(answer.parameters)
        except ValueError as error:
            log.log(WARNING, "%s was left out: %s", device, error)

    def configure_evaluate(self, server_round: int, parameters: Parameters, client_manager: ClientManager) -> list[Any]:
        return []

    def aggregate_evaluate(self, server_round: int, results: Any, failures: Any) -> tuple[None, dict[str, Any]]:
        return None, {}

    def evaluate(self, server_round: int, parameters: Parameters) -> None:
        return None


def serve(
    address: str,
    rounds: int,
    interval: float,
    trim: float | None,
    heard: Callable[[Known, int], None],
    certificates: tuple[bytes, bytes, bytes] | None = None,
) -> Known:
    """Merges for so many rounds; then all clients end. ``certificates``: of the authority, the server's, its key."""
    strategy = Merging(trim, interval, heard)
    # A device that is gone must not hold up a round for long.
    config = ServerConfig(num_rounds=rounds, round_timeout=max(10.0, 3 * interval))
    start_server(server_address=address, config=config, strategy=strategy, certificates=certificates)
    return strategy.known


class Device(Client):
    """Tells what ``own`` returns, hands what it hears to ``heard``."""

    def __init__(self, name: str, own: Callable[[], Known], heard: Callable[[Known], None]) -> None:
        self.name = name
        self.own = own
        self.heard = heard

    def fit(self, ins: FitIns) -> FitRes:
        self.heard(_unpack(ins.parameters))
        return FitRes(Status(Code.OK, ""), _pack(self.own()), 1, {DEVICE: self.name})


def join(
    address: str,
    name: str,
    own: Callable[[], Known],
    heard: Callable[[Known], None],
    root_certificate: Path | None = None,
) -> None:
    """Takes part until the server ends; one that is not there, or goes away, is waited for."""
    certificate = root_certificate.read_bytes() if root_certificate else None
    while True:
        try:
            return start_client(
                server_address=address,
                client=Device(name, own, heard).to_client(),
                insecure=certificate is None,
                root_certificates=certificate,
            )
        except grpc.RpcError as error:
            why = error.code().name if isinstance(error, grpc.Call) else type(error).__name__
            log.log(WARNING, "%s: %s, trying again", address, why)
            time.sleep(AGAIN)
