"""The simulator as an environment for reinforcement learning.

``Lanes``           many simulations in the native core, each stopped where a subflow asks for a rate; no extra package
``SubflowEnv``      Gymnasium: one subflow is the agent (also ``gymnasium.make("multipilot/Subflow-v0")``)
``SubflowVectorEnv``  the same, many side by side, in native threads
``ConnectionEnv``   Gymnasium: a whole connection is the agent (``multipilot/Connection-v0``)

The last three need Gymnasium: ``pip install 'multipilot[learn]'``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from multipilot.env.lanes import FACTS, Asked, Lanes
from multipilot.env.task import BASE, Task

if TYPE_CHECKING:
    from multipilot.env.gym import ConnectionEnv, SubflowEnv, SubflowVectorEnv

__all__ = ["BASE", "FACTS", "Asked", "ConnectionEnv", "Lanes", "SubflowEnv", "SubflowVectorEnv", "Task"]


def __getattr__(name: str) -> Any:
    if name in ("ConnectionEnv", "SubflowEnv", "SubflowVectorEnv"):
        try:
            from multipilot.env import gym
        except ImportError as error:
            raise ImportError(
                f"multipilot.env.{name} needs Gymnasium: pip install 'multipilot[learn]' ({error.name} is missing)"
            ) from None
        return getattr(gym, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
