"""`hx view FILE`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from hx.cli import options as o
from hx.graph.file_nodes import operator_of
from hx.text import amount, bytes_text, first_line, tensor_text, torch_dtype

File = Annotated[Path, typer.Argument(metavar="FILE", help="An ONNX file.", show_default=False)]


def view(
    file: File,
    browser: Annotated[
        bool | None,
        typer.Option(
            "--browser/--no-browser",
            help="Open it in netron, if installed.",
            show_default=False,
        ),
    ] = None,
    json: o.Json = False,
) -> None:
    """Look at an ONNX file.

    Its inputs, outputs and operators; on a terminal also in netron, when that is installed.

    \b
    Examples:
      hx view demo.onnx
      hx view demo.onnx --no-browser
      hx view demo.onnx --json
    """
    import importlib.util

    from hx.cli.output import as_json, note
    from hx.cli.streams import data
    from hx.errors import UsageError
    from hx.weights.tensor_files import absent, near_file

    if not file.is_file():
        raise UsageError(absent(file), hint=near_file(file) or "hx export SPEC -o FILE writes one")
    netron = importlib.util.find_spec("netron") is not None
    if browser and not netron:
        raise UsageError(
            "--browser needs netron, which is not installed", hint="pip install netron"
        )
    found = _read(file)
    if json:
        as_json("view", **found)
    else:
        _show(file, found)
    if browser or (browser is None and not json and data().isatty()):
        if netron:
            _open(file)
        else:
            note("netron is not installed; `pip install netron` opens the graph in a browser")


def _show(file: Path, found: dict) -> None:
    from hx.cli.output import facts, plain, say, table

    facts(
        [
            ("file", f"{file} ({bytes_text(found['size'])})"),
            ("inputs", "\n".join(map(plain, found["inputs"]))),
            ("outputs", "\n".join(map(plain, found["outputs"]))),
            ("graph", f"{amount(found['nodes'], 'node')}, "
             f"{amount(found['initializers'], 'initializer')}"),
            ("opsets", ", ".join(f"{plain(d) or 'ai.onnx'} {v}" for d, v in found["opsets"].items())),
            ("producer", plain(found["producer"])),
        ]
    )  # fmt: skip
    say()
    table(["operator", "nodes"], [[name, str(n)] for name, n in found["operators"].items()])


def load(file: Path) -> Any:
    """Load the model in a file, without its external data."""
    import onnx

    from hx.errors import UsageError

    try:
        model = onnx.load(file, load_external_data=False)
        if not all(isinstance(name, str) for name in _names(model)):
            raise ValueError("its names are no text")  # protobuf gives such as bytes
    except Exception as problem:  # what protobuf raises for a file that is no model has no name
        raise UsageError(
            f"{file} is not an ONNX file, or is truncated",
            why=first_line(problem),
        ) from None
    if not model.graph.node and not model.graph.output:
        raise UsageError(f"{file} is not an ONNX file, or is truncated", why="it holds no graph")
    return model


def _names(model: Any) -> Iterator[Any]:
    yield from (model.producer_name, model.producer_version, model.graph.name)
    yield from (each.domain for each in model.opset_import)
    yield from (each.name for each in model.graph.initializer)
    for node in model.graph.node:
        yield from (node.name, node.domain, node.op_type, *node.input, *node.output)
        yield from (attribute.name for attribute in node.attribute)
    for value in (*model.graph.input, *model.graph.output):
        yield value.name
        yield from (dim.dim_param for dim in value.type.tensor_type.shape.dim)


def _read(file: Path) -> dict:
    from collections import Counter

    model = load(file)
    operators = Counter(operator_of(n) for n in model.graph.node)
    return {
        "file": str(file),
        "size": file.stat().st_size,
        "inputs": [edge(value) for value in model.graph.input],
        "outputs": [edge(value) for value in model.graph.output],
        "nodes": len(model.graph.node),
        "initializers": len(model.graph.initializer),
        "opsets": {each.domain: each.version for each in model.opset_import},
        "producer": f"{model.producer_name} {model.producer_version}".strip(),
        "operators": dict(sorted(operators.items(), key=lambda item: (-item[1], item[0]))),
    }


def edge(value: Any) -> str:
    """Describe an input or output of a file, as `x float32[batch,3]`."""
    import onnx

    tensor = value.type.tensor_type
    types = onnx.TensorProto.DataType
    known = tensor.elem_type in types.values()
    dtype = torch_dtype(types.Name(tensor.elem_type)) if known else f"type {tensor.elem_type}"
    dims = (dim.dim_param or (str(dim.dim_value) if dim.HasField("dim_value") else "?")
            for dim in tensor.shape.dim)  # fmt: skip
    return f"{value.name} {tensor_text(dtype, dims)}"


def _open(file: Path) -> None:
    import netron

    netron.start(str(file))
    netron.wait()
