"""multipilot in Python: simulate scenarios, read records, draw reports."""

from multipilot._core import __version__
from multipilot.record import Record, RecordError

__all__ = ["Record", "RecordError", "__version__"]
