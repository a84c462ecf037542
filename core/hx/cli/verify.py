"""`hx verify FILE SPEC`."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hx.cli import options as o
from hx.cli.view import File, load

if TYPE_CHECKING:
    import onnx

    from hx.inputs.given import Call
    from hx.inputs.spec import Loaded
    from hx.packs.registry import Registry
    from hx.proof.proof import Proof

Layers = Annotated[
    list[str] | None,
    typer.Option(
        "--output-layer",
        metavar="PATH",
        help="The module whose output the file gives, as at its export.",
        show_default=False,
    ),
]


def verify(
    file: File,
    spec: o.Spec,
    input: o.Input = None,
    inputs: o.Inputs = None,
    weights: o.Weights = None,
    meta: o.Meta = False,
    dtype: o.Dtype = None,
    dynamic: o.Dynamic = None,
    output_layer: Layers = None,
    no_pack: o.NoPack = None,
    only_packs: o.OnlyPacks = None,
    seed: o.Seed = 0,
    json: o.Json = False,
) -> None:
    """Check that an ONNX file computes what a model computes.

    The file may come from any exporter. It is checked by onnx and run in onnxruntime beside the
    model: on the given inputs, on fresh ones, and at other sizes where the file leaves sizes open.
    Exit code 4 says that it is wrong.

    \b
    Examples:
      hx verify demo.onnx hx.demo:model
      hx verify resnet50.onnx torchvision:resnet50 -w resnet50.safetensors
    """
    from hx.cli.output import Progress, as_json, note, paint, say_prose
    from hx.errors import UsageError
    from hx.inputs.files import absent

    if not file.is_file():
        swapped = f"the file comes first: hx verify {spec} {file}" if Path(spec).is_file() else ""
        raise UsageError(absent(file), hint=swapped or "hx export SPEC -o FILE writes one")
    registry = o.registry_for(no_pack=no_pack, only_packs=only_packs)
    with Progress() as progress:
        progress("loading the model")
        loaded, call = o.model_and_call(
            spec, registry, input, inputs, weights, dynamic, seed, meta, streamed=True
        )
        progress("verifying")
        proof, notes = _prove(loaded, call, file, output_layer, registry, dtype)
        if proof.wrong:
            notes += _other_weights(file, loaded.model)
    if json:
        as_json("verify", ok=proof.ok, file=str(file), notes=notes, proof=proof.to_dict())
    else:
        say_prose(proof.explain())
        for text in notes:
            note(text)
        word = "not run" if not proof.wrong and not proof.ok else "wrong"
        note(paint("ok", "green") if proof.ok else paint(word, "red"))
    if not proof.ok:
        raise typer.Exit(4)


def _prove(
    loaded: Loaded,
    call: Call,
    file: Path,
    layers: list[str] | None,
    registry: Registry,
    dtype: str | None,
) -> tuple[Proof, list[str]]:
    """The proof of a file, and what is to be said about how it came about."""
    from hx import diff
    from hx.errors import UsageError, Where
    from hx.packs.kernels import op_runs
    from hx.proof.cases.asking import run
    from hx.proof.proving import prove_program
    from hx.recording.capture import Capture
    from hx.recording.layers import require_there
    from hx.recording.prepared import prepare
    from hx.report import Escape
    from hx.sizes import dynamic as axes
    from hx.world import shallow

    written = load(file)
    if any(tensor.external_data for tensor in written.graph.initializer):
        diff.opened(file)  # which says what is wrong with the data beside it
    open_dims, fixed = _dims(written)
    model = loaded.model
    given: dict[str, Any] = {"weights": loaded.weights, "dtype": dtype}
    prepared = prepare(model, call.args, call.kwargs, None, call.dynamic, axes.axes, **given)
    names = list(prepared.tensors)
    if set(names) != set(open_dims) and len(names) == len(open_dims):
        names = list(open_dims)
    _require_given(written, list(open_dims), names)
    _require_ranks(written, names, list(prepared.tensors.values()))
    _require_dtypes(written, names, list(prepared.tensors.values()))
    dynamic = {name: open_dims[name] for name in names if open_dims.get(name)}
    said, said_names = prepared.dynamic, list(prepared.tensors)
    prepared = prepare(model, call.args, call.kwargs, names, dynamic, axes.axes, **given)
    for name, theirs in zip(names, said_names):
        for axis, word in said.get(theirs, {}).items():
            if axis in fixed.get(name, {}):
                raise UsageError(
                    f"in the file axis {axis} of {name} is {fixed[name][axis]}, and never another "
                    f"size: {word} cannot change",
                    hint="export it with that axis dynamic, or verify it without",
                )
            if word in said.limits and axis in dynamic.get(name, {}):
                prepared.dynamic.limits[dynamic[name][axis]] = said.limits[word]
    # Nobody knows what left this graph while it was made: so other ways are tried, too.
    left = {None: Escape("unknown", Where("", 0), "")}
    asked = SimpleNamespace(each=[])
    unknown: Any = SimpleNamespace(escapes=left, questions=asked, spelled=False, builder=None)
    require_there(layers or (), dict(shallow.walk(prepared.root)))
    captured = Capture(prepared, unknown, [], [], [], layers or None)
    captured.real = run(captured, prepared.tensors)
    # For a recording, should only the parts of the file tell whether it is right.
    captured.outputs = [(output.name, None) for output in written.graph.output]
    captured.registry = registry
    captured.opset = next((o.version for o in written.opset_import if not o.domain), 0)
    proof = prove_program(captured, file, file, op_runs(registry.kernels))
    return proof, captured.notes


def _require_given(model: onnx.ModelProto, wanted: list[str], given: list[str]) -> None:
    """That the model is given what the file takes, by whatever names."""
    from hx.cli.view import edge
    from hx.errors import UsageError

    if set(wanted) == set(given):
        return
    lacking = [value for value in model.graph.input if value.name in {*wanted} - {*given}]
    forms = [edge(value).replace(" ", "=", 1) for value in lacking]
    more = ", ".join(name for name in given if name not in wanted)
    raise UsageError(
        f"the file takes {', '.join(wanted) or 'nothing'}; the model was given "
        f"{', '.join(given) or 'nothing'}",
        hint="give it what the file has: " + " ".join(f'-i "{form}"' for form in forms)
        if forms
        else f"verify it without {more}, or export it with {more}",
    )


def _require_ranks(model: onnx.ModelProto, names: list[str], tensors: list[Any]) -> None:
    """That an input has as many axes in the file as the model is given."""
    from hx.cli.view import edge
    from hx.errors import UsageError

    given = dict(zip(names, tensors))
    for value in model.graph.input:
        kind, tensor = value.type.tensor_type, given.get(value.name)
        if tensor is None or not kind.HasField("shape"):
            continue
        pair = tensor.is_complex()  # in a file its two parts are one more axis
        if len(kind.shape.dim) == tensor.dim() + pair:
            continue
        raise UsageError(
            f"the file takes {edge(value)}; the model was given {_form(tensor)}",
            why=f"a rank of {tensor.dim() + pair} is no rank of {len(kind.shape.dim)}",
            hint="look whether the file is of this model, or give inputs as the file takes them: -i",
        )


def _require_dtypes(model: onnx.ModelProto, names: list[str], tensors: list[Any]) -> None:
    """That an input is of the dtype that the file takes."""
    from hx.cli.view import edge
    from hx.errors import UsageError
    from hx.tensors import dtypes
    from hx.tensors.pairs import REAL

    given = dict(zip(names, tensors))
    for value in model.graph.input:
        theirs = dtypes.FROM_NUMBER.get(value.type.tensor_type.elem_type)
        tensor = given.get(value.name)
        if theirs is None or tensor is None or REAL.get(tensor.dtype, tensor.dtype) == theirs:
            continue
        hint = "look whether the file is of this model, or give inputs as the file takes them: -i"
        if theirs in dtypes.FLOATS and tensor.is_floating_point():
            hint = f"--dtype {dtypes.name(theirs)} casts the model and its inputs"
        raise UsageError(
            f"the file takes {edge(value)}; the model was given {_form(tensor)}", hint=hint
        )


def _form(tensor: Any) -> str:
    dtype = str(tensor.dtype).removeprefix("torch.")
    return f"{dtype}[{','.join(map(str, tensor.shape))}]"


def _other_weights(file: Path, model: Any) -> list[str]:
    """Of a file that is wrong: whether it is so because its weights are others than the model's."""
    from hx import diff

    names = diff.unlike(file, model)
    if not names:
        return []
    told = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return [
        f"the weights of the model are not those of the file: {told}; give it those that the file "
        "was made with (-w FILE), or seed what draws them"
    ]


def _dims(
    model: onnx.ModelProto,
) -> tuple[dict[str, dict[int, str]], dict[str, dict[int, int]]]:
    """The inputs of a file, each with the axes that it leaves open; and with those that it fixes."""
    stored = {each.name for each in model.graph.initializer}
    given = {
        value.name: list(enumerate(value.type.tensor_type.shape.dim))
        for value in model.graph.input
        if value.name not in stored
    }
    words = {
        name: {axis: dim.dim_param for axis, dim in dims if dim.dim_param.isidentifier()}
        for name, dims in given.items()
    }
    sizes = {
        name: {axis: dim.dim_value for axis, dim in dims if dim.HasField("dim_value")}
        for name, dims in given.items()
    }
    return words, sizes
