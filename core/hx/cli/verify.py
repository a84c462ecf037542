"""`hx verify FILE SPEC`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hx.cli import options as o
from hx.cli.help_groups import OUTPUT, PROOF
from hx.cli.view import File, load
from hx.text import amount, first_few, relative_paths, tensor_text

if TYPE_CHECKING:
    from collections.abc import Callable

    import onnx

    from hx.findings import Finding
    from hx.inputs.given import Call
    from hx.inputs.spec import Loaded
    from hx.ir import dynamic_axes as axes
    from hx.ir.input_grammar import Limits
    from hx.packs.registry import Registry
    from hx.proof.proof import Proof

Layers = Annotated[
    list[str] | None,
    typer.Option(
        "--output-layer",
        metavar="PATH",
        help="The module whose output the file returns, as given at its export.",
        show_default=False,
        rich_help_panel=OUTPUT,
    ),
]
Certificate = Annotated[
    Path | None,
    typer.Option(
        "--certificate",
        metavar="CERTIFICATE",
        help="Compare the file with its certificate, without the model and without torch.",
        show_default=False,
        rich_help_panel=PROOF,
    ),
]
Key = Annotated[
    Path | None,
    typer.Option(
        "--key",
        metavar="KEY",
        help="Refuse a certificate that is not signed with this key.",
        show_default=False,
        rich_help_panel=PROOF,
    ),
]


def verify(
    context: typer.Context,
    file: File,
    spec: o.OptionalSpec = None,
    input: o.Input = None,
    inputs: o.ManyInputs = None,
    weights: o.Weights = None,
    meta: o.Meta = False,
    dtype: o.Dtype = None,
    dynamic: o.Dynamic = None,
    output_layer: Layers = None,
    certificate: Certificate = None,
    key: Key = None,
    no_pack: o.NoPack = None,
    only_packs: o.OnlyPacks = None,
    seed: o.Seed = 0,
    json: o.Json = False,
) -> None:
    """Check that an ONNX file computes what a model computes.

    The file may come from any exporter. It is checked by onnx and run in onnxruntime beside the
    model: on the given inputs, on fresh ones, and at other sizes where the file leaves sizes open.
    Exit code 4 says that it is wrong.

    With --certificate it is compared with what `hx export --certificate` recorded, in onnxruntime
    alone: all its bytes, and its results on the inputs in the certificate.

    \b
    Examples:
      hx verify demo.onnx hx.demo:model
      hx verify resnet50.onnx torchvision:resnet50 -w resnet50.safetensors
      hx verify --certificate demo.certificate.json demo.onnx
    """
    from hx.cli.model_failures import model_failures
    from hx.cli.output import Progress, as_json, note, paint, say_prose
    from hx.errors import UsageError
    from hx.findings import by_level
    from hx.weights.tensor_files import absent, near_file

    if certificate is not None:
        from hx.cli.certified import verify_certified

        return verify_certified(context, file, certificate, key, json)
    if spec is None or key is not None:
        raise UsageError(
            "there is no SPEC: what should the file be compared with?"
            if spec is None
            else "--key goes with --certificate only",
            hint="give FILE and SPEC, or --certificate and FILE: hx verify --help",
        )
    if not file.is_file():
        swapped = f"the file comes first: hx verify {spec} {file}" if Path(spec).is_file() else ""
        hint = swapped or near_file(file) or "hx export SPEC -o FILE writes one"
        raise UsageError(absent(file), hint=hint)
    registry = o.registry_for(no_pack=no_pack, only_packs=only_packs)
    with Progress() as progress:
        progress("loading the model")
        loaded, call = o.model_and_call(
            spec, registry, input, inputs, weights, dynamic, seed, meta, streamed=True
        )
        progress("running the model on other inputs")
        with model_failures(loaded.model, call):
            proof, findings = _prove(loaded, call, file, output_layer, registry, dtype, progress)
        if proof.wrong:
            findings += _other_weights(file, loaded.model)
    if json:
        as_json(
            "verify",
            ok=proof.ok,
            file=str(file),
            findings=[each.to_dict() for each in findings],
            proof=proof.to_dict(),
        )
    else:
        say_prose(proof.explain())
        for finding in by_level(findings):
            note(relative_paths(str(finding)))
        note(paint("ok", "green") if proof.ok else paint("wrong", "red"))
    if not proof.ok:
        raise typer.Exit(4)


def _prove(
    loaded: Loaded,
    call: Call,
    file: Path,
    layers: list[str] | None,
    registry: Registry,
    dtype: str | None,
    progress: Callable[[str], None],
) -> tuple[Proof, list[Finding]]:
    """Prove a file; also return findings about how the proof was made."""
    from hx import file_diff
    from hx.ir import dynamic_axes as axes
    from hx.ir.recipe import Recipe
    from hx.packs.kernels import op_runs
    from hx.proof.first_calls import settle_state
    from hx.proof.proving import prove_program
    from hx.proof.subject import Subject
    from hx.recording.layers import require_there
    from hx.recording.other_inputs import with_others
    from hx.recording.prepare import prepare
    from hx.recording.recorder import Recorder
    from hx.torchworld.state import shallow

    written = load(file)
    if any(tensor.external_data for tensor in written.graph.initializer):
        file_diff.opened(file)  # it reports errors in the external data
    open_dims, fixed = _dims(written)
    model = loaded.model
    given: dict[str, Any] = {"weights": loaded.weights, "dtype": dtype}
    said, _ = prepare(model, call.args, call.kwargs, None, call.named, axes.axes, **given)
    tensors = said.call.tensors
    names = list(tensors)
    if set(names) != set(open_dims) and len(names) == len(open_dims):
        names = list(open_dims)
    _require_given(written, list(open_dims), names)
    _require_shapes(written, names, list(tensors.values()))
    _require_dtypes(written, names, list(tensors.values()))
    dynamic = {name: open_dims[name] for name in names if open_dims.get(name)}
    limits = _limits(said.sizes, dict(zip(names, tensors)), dynamic, fixed)

    def limited(given: Any, inputs: Any) -> axes.Axes:
        made = axes.axes(given, inputs)
        made.limits.update(limits)
        return made

    request, slim = prepare(model, call.args, call.kwargs, names, dynamic, limited, **given)
    request = with_others(request, call.others, slim)
    recipe = Recipe(request, request.call.tensors)
    require_there(layers or (), dict(shallow.walk(request.call.root)))
    opset = next((o.version for o in written.opset_import if not o.domain), 0)
    recorder = Recorder(registry, opset, layers or None, slim)
    trace = recorder.unrecorded(recipe, [output.name for output in written.graph.output])
    subject = Subject.of(trace, recorder)
    subject.results = subject.runner.results(dict(recipe.inputs))
    settle_state(recorder, trace)
    proof = prove_program(subject, file, file, op_runs(registry.kernels), progress)
    return proof, trace.findings + subject.notes


def _limits(
    said: axes.Axes,
    names: dict[str, str],
    dynamic: dict[str, dict[int, str]],
    fixed: dict[str, dict[int, int]],
) -> dict[str, Limits]:
    """Return the limits that the user names, by the file's own names of these sizes.

    `names` maps the inputs of the file to those of the model.
    """
    from hx.errors import UsageError

    limits: dict[str, Limits] = {}
    for name, theirs in names.items():
        for axis, word in said.get(theirs, {}).items():
            if axis in fixed.get(name, {}):
                raise UsageError(
                    f"in the file axis {axis} of {name} is {fixed[name][axis]}, and never another "
                    f"size: {word} cannot change",
                    hint="export it with that axis dynamic, or verify it without",
                )
            if word in said.limits and axis in dynamic.get(name, {}):
                limits[dynamic[name][axis]] = said.limits[word]
    return limits


def _require_given(model: onnx.ModelProto, wanted: list[str], given: list[str]) -> None:
    """Raise unless the model is given exactly the inputs that the file takes."""
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


def _require_shapes(model: onnx.ModelProto, names: list[str], tensors: list[Any]) -> None:
    """Raise if an input has another rank, or a fixed size, in the file than in the model's call."""
    from hx.cli.view import edge
    from hx.errors import UsageError

    given = dict(zip(names, tensors))
    for value in model.graph.input:
        kind, tensor = value.type.tensor_type, given.get(value.name)
        if tensor is None or not kind.HasField("shape"):
            continue
        pair = tensor.is_complex()  # in a file its two parts are one more axis
        shape, dims = [*tensor.shape, *[2] * pair], kind.shape.dim
        fixed = [i for i, dim in enumerate(dims) if dim.HasField("dim_value")]
        axes = f"{amount(len(dims), 'axis', 'axes')}, and not {len(shape)}"
        if len(dims) == len(shape):
            wrong = [i for i in fixed if dims[i].dim_value != shape[i]]
            if not wrong:
                continue
            axes = f"size {dims[wrong[0]].dim_value} on axis {wrong[0]}, and no other"
        given_form = tensor_text(tensor.dtype, tensor.shape)
        raise UsageError(
            f"the file takes {edge(value)}; the model was given {given_form}",
            why=f"in the file it has {axes}",
            hint="check that the file was made from this model, or give inputs that it takes, with -i",
        )


def _require_dtypes(model: onnx.ModelProto, names: list[str], tensors: list[Any]) -> None:
    """Raise if an input has another dtype than the file takes."""
    from hx import dtypes
    from hx.cli.view import edge
    from hx.errors import UsageError
    from hx.graph.complex_pairs import REAL

    given = dict(zip(names, tensors))
    for value in model.graph.input:
        theirs = dtypes.FROM_NUMBER.get(value.type.tensor_type.elem_type)
        tensor = given.get(value.name)
        if theirs is None or tensor is None or REAL.get(tensor.dtype, tensor.dtype) == theirs:
            continue
        hint = "check that the file was made from this model, or give inputs that it takes, with -i"
        if theirs in dtypes.FLOATS and tensor.is_floating_point():
            hint = f"--dtype {dtypes.name(theirs)} casts the model and its inputs"
        given_form = tensor_text(tensor.dtype, tensor.shape)
        raise UsageError(
            f"the file takes {edge(value)}; the model was given {given_form}", hint=hint
        )


def _other_weights(file: Path, model: Any) -> list[Finding]:
    """Return a finding if the file is wrong because its weights differ from the model's."""
    from hx import file_diff
    from hx.findings import OPEN, Finding

    names = file_diff.unlike(file, model)
    if not names:
        return []
    text = f"the weights of the model are not those of the file: {first_few(names, 3)}"
    hint = "give it those that the file was made with (-w FILE), or seed what draws them"
    return [Finding(OPEN, text, hint=hint)]


def _dims(
    model: onnx.ModelProto,
) -> tuple[dict[str, dict[int, str]], dict[str, dict[int, int]]]:
    """Return the inputs of a file with their open axes, and with their fixed ones."""
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
