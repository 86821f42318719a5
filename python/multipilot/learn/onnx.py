"""An actor's file as an ONNX model, for other runtimes.

    python -m multipilot.learn.onnx ACTOR.json [--out actor.onnx]

Input ``observation``: float32, (N, 3 × history). Output ``action``: float32, (N, 1), within -1 … 1.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from multipilot import _core, console
from multipilot.console import CANNOT_HERE, fail
from multipilot.files import replacing

#: Gemm and Tanh are the same since; the version of the format is the one of that time, so that older runtimes read it.
OPSET, IR_VERSION = 13, 8


def convert(actor: str) -> Any:
    """The ``onnx.ModelProto`` of an actor's file; ValueError where the text is none."""
    from onnx import TensorProto, checker, helper, numpy_helper

    _core.act(actor, b"")
    document = json.loads(actor)
    nodes, constants, below = [], [], "observation"
    for index, layer in enumerate(document["layers"]):
        names = [f"weights{index}", f"bias{index}"]
        parts = (np.array(layer[key], np.float32) for key in ("weights", "bias"))
        constants += [numpy_helper.from_array(part, name) for part, name in zip(parts, names, strict=True)]
        sums, above = f"sums{index}", "action" if layer is document["layers"][-1] else f"layer{index}"
        nodes.append(helper.make_node("Gemm", [below, *names], [sums]))
        nodes.append(helper.make_node(layer["activation"].capitalize(), [sums], [above]))
        below = above
    ends = [("observation", len(document["layers"][0]["weights"])), ("action", 1)]
    given, asked = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", width]) for name, width in ends)
    graph = helper.make_graph(nodes, "actor", [given], [asked], constants)
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="multipilot",
        producer_version=_core.__version__,
    )
    checker.check_model(model)
    return model


app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(help="Write an actor's file as an ONNX model.")
def main(
    actor: Annotated[Path, typer.Argument(metavar="ACTOR", help="the actor's file, JSON")],
    out: Annotated[Path, typer.Option(help="the model")] = Path("actor.onnx"),
) -> None:
    try:
        text = actor.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not a text"
        fail(f"{actor}: cannot read it ({why}); give an actor that `multipilot train` wrote")
    try:
        model = convert(text)
        with replacing(out) as fresh:
            fresh.write_bytes(model.SerializeToString())
    except ImportError as error:
        fail(f"this needs ONNX: pip install 'multipilot[onnx]' ({error.name} is missing)", CANNOT_HERE)
    except OSError as error:
        fail(f"{out}: cannot write it ({error.strerror}); choose another file with --out")
    except ValueError as error:
        fail(f"{actor}: {error}")
    print(out)


if __name__ == "__main__":
    console.run(app, "onnx")
