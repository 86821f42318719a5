"""The Rust crates, bound. Use the functions of :mod:`multipilot`, which document these."""

from typing import TypedDict

__version__: str

class ScenarioError(ValueError): ...
class SimulationError(RuntimeError): ...

class Given(TypedDict):
    kind: str
    value: str

class Wishes(TypedDict):
    set: list[str]
    duration: str | None
    controllers: list[str]
    path_managers: list[str]
    schedulers: list[str]

class Tables:
    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...

def controllers() -> str: ...
def schedulers() -> str: ...
def path_managers() -> str: ...
def expand(source: Given, wishes: Wishes) -> str: ...
def simulate(
    source: Given, wishes: Wishes, seeds: int, threads: int, telemetry: bool
) -> tuple[str, str, Tables, Tables]: ...
