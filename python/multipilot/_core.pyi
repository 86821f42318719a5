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

class Controller:
    """One connection under a congestion controller, driven by hand: the code that kernel and simulator run.

    A subflow's facts are integers named as in ``controllers/mp.h``: ``mss``, ``rtt_us``, ``srtt_us``, ``min_rtt_us``,
    ``queue_owd_us``, ``delivered``, ``lost``, ``backup``, ``cwnd``, ``ssthresh``. The caller keeps them up, the
    controller decides on windows and rates.

    >>> lia = Controller("lia")
    >>> a, b = (lia.join(cwnd=100, ssthresh=50, srtt_us=20_000) for _ in range(2))
    >>> lia.on_ack(a, acked=100)
    >>> lia.subflow(a)["cwnd"]  # α/W = 1/(4w) of a packet each
    100.25
    """

    def __init__(self, name: str, **parameters: int) -> None: ...
    @property
    def name(self) -> str: ...
    def join(self, now_us: int = 0, **facts: int) -> int:
        """A new subflow's slot."""
    def update(self, slot: int, **facts: int) -> None: ...
    def subflow(self, slot: int) -> dict[str, float]:
        """``cwnd`` (packets, with its fraction), ``ssthresh`` (packets), ``pacing_rate`` (bytes/s; 0: none)."""
    def on_rtt(self, slot: int, now_us: int = 0) -> None: ...
    def on_ack(self, slot: int, acked: int = 1, now_us: int = 0, is_cwnd_limited: bool = True) -> None: ...
    def on_interval(self, slot: int, now_us: int = 0) -> None: ...
    def on_loss(self, slot: int, now_us: int = 0) -> int:
        """The new ssthresh in packets."""
    def on_undo(self, slot: int) -> int:
        """The window to restore in packets."""
    def on_close(self, slot: int) -> None: ...

class Tables:
    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...

def controllers() -> str: ...
def schedulers() -> str: ...
def path_managers() -> str: ...
def expand(source: Given, wishes: Wishes) -> str: ...
def simulate(
    source: Given, wishes: Wishes, seeds: int, threads: int, telemetry: bool
) -> tuple[str, str, Tables, Tables]: ...
