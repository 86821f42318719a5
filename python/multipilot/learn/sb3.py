"""The actor's file of a policy that Stable-Baselines3 trained on ``multipilot/Subflow-v0``.

    python -m multipilot.learn.sb3 MODEL.zip [--algorithm td3|ddpg|sac] [--out actor.json]

DDPG, TD3 and SAC with ``MlpPolicy``: their deterministic action is the tanh of a perceptron, as the file has it. PPO
and A2C cut a linear layer off at ±1, which the file cannot say; ``VecNormalize`` changes what the policy sees, and is
not in the model.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from multipilot import console
from multipilot.console import CANNOT_HERE, fail
from multipilot.learn.actor import FEATURES, Layer, write

ALGORITHMS = {"ddpg": "DDPG", "td3": "TD3", "sac": "SAC"}


def layers(model: Any) -> list[Layer]:
    """Of a model's actor; ValueError where it is none that multipilot can run."""
    actor = getattr(model.policy, "actor", None)
    kind = type(model).__name__
    if actor is None or kind not in ALGORITHMS.values():
        raise ValueError(f"{kind}: its actor is no tanh of a perceptron; train with one of {', '.join(ALGORITHMS)}")
    shape = model.observation_space.shape
    if len(shape) != 1 or shape[0] % FEATURES or model.action_space.shape != (1,):
        raise ValueError(
            f"observations {shape} and actions {model.action_space.shape}: expected those of multipilot/Subflow-v0"
        )
    # SAC squashes the mean of its Gaussian itself.
    modules = [*actor.latent_pi, actor.mu, None] if hasattr(actor, "latent_pi") else list(actor.mu)
    names = ["Tanh" if module is None else type(module).__name__ for module in modules]
    found = []
    for linear, name, activation in zip(modules[::2], names[::2], names[1::2], strict=True):
        if name != "Linear" or activation not in ("ReLU", "Tanh"):
            raise ValueError(f"{name} and {activation}: expected Linear layers, each with ReLU or Tanh (MlpPolicy)")
        weights, bias = (np.asarray(part.detach().cpu(), float) for part in (linear.weight, linear.bias))
        found.append(Layer(weights.T, bias, activation.lower()))
    return found


def export(model: Any, path: Path, made_by: str | None = None) -> None:
    """Writes the actor of a trained model."""
    write(layers(model), path, made_by or f"Stable-Baselines3 {type(model).__name__}, {model.num_timesteps} steps")


app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(help="Write the actor's file of a policy that Stable-Baselines3 trained.")
def main(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="file that model.save() wrote")],
    algorithm: Annotated[str, typer.Option(help=" | ".join(ALGORITHMS))] = "td3",
    out: Annotated[Path, typer.Option(help="file of the actor")] = Path("actor.json"),
) -> None:
    if algorithm not in ALGORITHMS:
        fail(f'there is no algorithm "{algorithm}" here: one of {", ".join(ALGORITHMS)}')
    try:
        import stable_baselines3
    except ImportError as error:
        fail(f"this needs Stable-Baselines3: pip install 'multipilot[sb3]' ({error.name} is missing)", CANNOT_HERE)
    try:
        export(getattr(stable_baselines3, ALGORITHMS[algorithm]).load(model, device="cpu"), out)
    except (ValueError, OSError) as error:
        fail(f"{model}: {error}")
    print(out)


if __name__ == "__main__":
    console.run(app, "sb3")
