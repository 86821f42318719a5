"""multipilot in Python: simulate scenarios, read records, draw reports.

>>> import multipilot
>>> record = multipilot.simulate("wifi-lte", seeds=8)  # doctest: +SKIP
>>> record.rows.select(["variant", "goodput_mbps"]).to_pandas()  # doctest: +SKIP
"""

from multipilot._core import Controller, ScenarioError, SimulationError, __version__
from multipilot.record import Record, RecordError
from multipilot.simulation import (
    expand,
    list_controllers,
    list_initial_paths,
    list_path_managers,
    list_scenarios,
    list_schedulers,
    simulate,
)

__all__ = [
    "Controller",
    "Record",
    "RecordError",
    "ScenarioError",
    "SimulationError",
    "__version__",
    "expand",
    "list_controllers",
    "list_initial_paths",
    "list_path_managers",
    "list_scenarios",
    "list_schedulers",
    "simulate",
]
