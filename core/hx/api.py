"""The front door: `hx.export` and `hx.scan`."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from . import ways, whole
from .errors import (
    Asks,
    Differentiates,
    EscapeError,
    HxError,
    Leaves,
    MissingConverters,
    Rounds,
    Unsupported,
    UsageError,
    is_of_the_world,
)
from .graph import graph
from .packs import containers, passes, symbolic
from .packs.registry import Registry
from .program import Made, Program
from .proof import randomness
from .proof.cases import counted, othersizes, otherways
from .quiet import fewer_collections
from .recording import brought, heard
from .recording.capture import Capture, capture
from .recording.choices import Choices
from .recording.prepared import Prepared, prepare, require_names
from .registration import OPSETS
from .report import Escape, Report, scaffold
from .roomy import roomy
from .saving import destinations, save, wire
from .sizes import dynamic as dynamic_axes
from .surely import inside, within
from .tensors.structures import unique
from .world.modes import apart
from .world.world import aside

if TYPE_CHECKING:
    import onnx

Progress = Callable[[str], None]


@roomy
@within(fewer_collections)
@within(aside)
@within(apart)
def export(
    model: Any,
    args: Any = (),
    path: str | os.PathLike | None = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    dynamic: Mapping[str, Any] | None = None,
    opset: int = 20,
    verify: bool = True,
    strict: bool = False,
    external_data: bool | None = None,
    keep_rejected: str | os.PathLike | None = None,
    check_every_node: bool = False,
    weights: str | os.PathLike | None = None,
    dtype: Any = None,
    packs: Registry | None = None,
    progress: Progress | None = None,
) -> Program:
    """Runs `model(*args, **kwargs)` once, in eval mode, and writes what it did to `path` as ONNX.

    model          a torch.nn.Module, or a function of tensors
    args, kwargs   what it is called with; tensors in them become the inputs of the graph
    path           where to write; None keeps the graph in memory
    input_names    names for the inputs, in order; by default, and where there are fewer, those of
                   forward's parameters
    output_names   names for the outputs; by default the keys or fields of the result
    outputs        modules whose outputs are wanted instead: ["layer4", "avgpool"]
    dynamic        sizes that may change: {"x": {0: "batch", 2: "height"}}; the same name is the
                   same size everywhere. "height>=32<=512" has limits, and "height%8" is a multiple
                   of 8: the file is proved at such sizes, and promised for no others
    opset          13 to 26
    verify         run the file against the model: on the recorded inputs, on others, at other sizes,
                   and on the other side of what the model asks of sizes (`if n > 64`)
    strict         a value that leaves the graph is an error
    external_data  weights in a file of their own; None decides by size
    keep_rejected  where to put a file that failed its proof, for a look; else it is thrown away
    check_every_node  compare what every node gives with what the model had there: report.node_table
    weights        a file or folder that holds the weights: they are streamed from there, and the
                   model may be on the meta device (`with torch.device("meta"): model = ...`)
    dtype          "float16", "bfloat16", ...: floating-point weights and inputs are cast to it
    packs          a Registry; None takes the packs that are installed
    """
    registry = _registry(packs)
    if path is not None and not isinstance(path, (str, os.PathLike)):
        raise UsageError(f"path cannot be {path!r}", hint='a name, as "m.onnx", or None')
    options = (
        model, args, path, kwargs, input_names, output_names, outputs, dynamic, opset, verify,
        strict, external_data, keep_rejected, check_every_node, weights, dtype, registry,
        progress or (lambda stage: None),
    )  # fmt: skip
    return inside(containers.using(registry.containers), lambda _: _export(*options))


def _export(
    model, args, path, kwargs, input_names, output_names, outputs, dynamic, opset, verify, strict,
    external_data, keep_rejected, check_every_node, weights, dtype, registry, tell,
) -> Program:  # fmt: skip
    _check_opset(opset)
    for each in (path, keep_rejected):
        destinations.require_unused(each, weights)
    started = time.perf_counter()
    whole.imported("onnx", *(["onnxruntime"] if verify else []))
    prepared = prepare(
        model, args, kwargs, input_names, dynamic, dynamic_axes.axes, weights=weights, dtype=dtype
    )
    if output_names is not None:
        require_names("output_names", output_names)
    if output_names is not None and outputs is None:
        prepared.dynamic.of_outputs(dict.fromkeys(output_names))
    rest = (registry, opset, outputs, output_names, strict, tell)

    def write(staged: save.Staged) -> Program:
        program = _recorded(asked, *rest, require_best, staged)
        first = not failed or (isinstance(failed[0], Leaves) and asked.yes == heard.FIRST)
        keep = keep_rejected if first else None
        stages.append(staged)
        program.write(staged, path, verify, tell, keep, check_every_node)
        return program

    def require_best(captured: Capture, report: Report) -> None:
        if ways.leaves_more(report, asked, failed):
            raise Leaves("a number in a tensor became a plain one")
        if asked is not prepared:
            return
        # Where nothing is proved, a loop would be a guess: what was recorded is right where it was.
        if verify and (other := othersizes.in_rounds(captured)) is not None:
            rounds = Rounds("sizes say how many rounds there are")
            rounds.asked = bool(otherways.asked_in_rounds(captured))
            joined = rounds.asked or otherways.may_be_joined(captured)
            rounds.other = otherways.unasked(other) if joined and not check_every_node else other
            rounds.numbered = None if check_every_node else otherways.numbered(other)
            raise rounds
        asks = Asks("what is in a tensor decides which way the model goes")
        asks.joined = otherways.may_be_joined(captured)
        asks.until = otherways.until_ended(captured) if verify else ()
        asks.again = otherways.asked_in_rounds(captured)
        if (asks.joined or asks.until) and not check_every_node:
            raise asks

    failed: list[Exception] = []
    stages: list[save.Staged] = []
    for asked in ways.ways(prepared, failed, registry, opset):
        try:
            if path is None and not verify and not check_every_node:
                program = _recorded(asked, *rest, require_best)
            else:
                program = inside(save.Staged(path, external_data), write)
        except Exception as problem:
            # Once a way has failed, the next are there for its sake alone: whatever they raise, the
            # model's own errors among it, hides nothing of what is known.
            if not (failed or ways.may_be_of_its_way(problem)) or is_of_the_world(problem):
                raise
            failed.append(problem)
            continue
        for staged in stages:
            staged.forget()
        prepared.stand_ins.forget()
        program.report.notes += ways.told(asked, prepared) if failed else []
        beside = path is None or program.report.data_path is not None
        if external_data and program.report.initializers and not beside:
            small = f"every weight has less than {wire.SMALL} bytes"
            program.report.notes.append(f"{small}: all are in the file, and none beside it")
        ways.carried(asked, program.report)
        program.report.timings["total"] = time.perf_counter() - started
        return program
    raise ways.foremost(failed)


def _recorded(
    prepared, registry, opset, outputs, output_names, strict, tell, require_best, staged=None
) -> Program:
    started = time.perf_counter()
    tell("record")
    ahead = None
    if staged is not None and not (prepared.slim or prepared.laid_out or registry.passes):
        ahead = staged.ahead_of(prepared.size)
    captured = _captured(prepared, registry, opset, outputs, ahead)
    if prepared.follows:
        from .recording import fitted

        def again(sizes: othersizes.Sizes) -> Capture:
            there = replace(prepared, tensors=othersizes.at(prepared, sizes), follows=())
            return _captured(there, registry, opset, outputs)

        fitted.record(captured, [othersizes.sizes_of(prepared), *prepared.follows], again)
    counted.tell_often(captured)
    report = _report(captured, registry, opset)
    report.timings["record"] = time.perf_counter() - started
    try:
        _require_covered(report, registry)
        require_best(captured, report)
        # A condition that the graph computes went through Python and lost nothing there, nor did a
        # loop that is one in the graph.
        kept = ("branch", "bool", "range")
        escapes = [e for e in report.escapes if not (e.carried and e.kind in kept)]
        if strict and escapes:
            raise _escaped(escapes)
        return Program(Made(_made(captured, report, output_names, tell), captured), report)
    except HxError as problem:  # what is known so far is part of what went wrong
        if not report.packs:
            _count_nodes(report, captured)
        problem.report = report
        raise


def _captured(
    prepared: Prepared, registry: Registry, opset: int, outputs: Any, ahead: Any = None
) -> Capture:
    """A recording, joined with others or written as loops where that is asked for."""
    captured = capture(prepared, registry, opset, outputs, ahead=ahead)
    joins = otherways.may_be_joined(captured) or not prepared.rolls
    if prepared.one_of and joins:
        from .recording import both

        try:
            both.record(captured)
        except Unsupported:
            if not prepared.rolls:
                raise
            joins = False  # on other data there may be other numbers of rounds
    if prepared.until:
        from .recording.rolled import until

        until.record(captured)
    if prepared.rolls:
        from .recording import rolled

        if prepared.one_of and not joins:
            captured = rolled.both_ways(captured)
        else:
            rolled.record(captured)
        otherways.tell_apart(captured, otherways.BESIDE)
    elif prepared.apart:
        otherways.tell_apart(captured, prepared.apart)
    return captured


def _made(
    captured: Capture, report: Report, output_names: Sequence[str] | None, tell: Progress
) -> wire.Parts:
    started = time.perf_counter()
    tell("assemble")
    made = _assemble(captured, output_names, captured.opset)
    assembled = time.perf_counter()
    made, captured.rewrote = passes.run(made, captured.registry)
    report.timings["passes"] = time.perf_counter() - assembled
    _describe(report, made)
    shapes = {output["name"]: output["shape"] for output in report.outputs}
    report.notes += captured.prepared.dynamic.of_outputs(shapes)
    report.timings["assemble"] = time.perf_counter() - started - report.timings["passes"]
    return made


@roomy
@within(fewer_collections)
@within(aside)
@within(apart)
def scan(
    model: Any,
    args: Any = (),
    *,
    kwargs: Mapping[str, Any] | None = None,
    dynamic: Mapping[str, Any] | None = None,
    opset: int = 20,
    packs: Registry | None = None,
) -> Report:
    """A dry run: what is covered, what is missing and where, what declined, what escapes."""
    _check_opset(opset)
    registry = _registry(packs)

    def look(_: None) -> Report:
        prepared = prepare(model, args, kwargs, None, dynamic, dynamic_axes.axes, dry=True)
        try:
            captured = capture(prepared, registry, opset, None)
        except Differentiates as refused:
            from .recording.derivatives import traced

            other = traced(prepared, Choices(registry, opset), refused)
            if other is None:
                raise
            try:
                captured = capture(other, registry, opset, None)
            except Exception as problem:
                if is_of_the_world(problem):
                    raise
                raise refused from None  # what another way leads to hides nothing of it
        prepared.dynamic.of_outputs({name: None for name, _ in captured.outputs})
        if othersizes.in_rounds(captured) is not None:
            captured.notes.append(
                "as many rounds as a size says: where they are alike, export writes them as a loop"
            )
        if any(otherways.asked_again(captured, each) for each in otherways.until_ended(captured)):
            captured.notes.append(
                "rounds until values end them: where they are alike, export writes them as a loop"
            )
        elif otherways.may_be_joined(captured):
            captured.notes.append(
                "which way the model goes is asked of values: export records the other ways, too, "
                "and writes them as an If where they become one graph"
            )
        report = _report(captured, registry, opset)
        _count_nodes(report, captured)
        report.missing += brought.missing(captured)
        captured.recording.let_go()
        return report

    return inside(containers.using(registry.containers), look)


def _registry(packs: Any) -> Registry:
    if packs is None:
        return Registry.standing()
    if not isinstance(packs, Registry):
        raise UsageError(
            f"packs= is to be an hx.Registry, and is {packs!r}",
            hint="those that are installed are used without it; hx.Registry() has none",
        )
    return packs


def _check_opset(opset: int) -> None:
    if not isinstance(opset, int) or opset not in OPSETS:
        raise UsageError(
            f"opset {opset!r} is not between {OPSETS[0]} and {OPSETS[-1]}",
            hint="20 is a good choice when the runtime does not ask for another",
        )


def _assemble(captured: Capture, output_names: Sequence[str] | None, opset: int) -> wire.Parts:
    names = [name for name, _ in captured.outputs]
    if output_names is not None:
        if len(output_names) > len(names):
            raise UsageError(
                f"output_names has {len(output_names)} names, and the model returns "
                f"{len(names)}: {', '.join(names)}"
            )
        taken = [n for n, _ in captured.inputs if n in output_names]
        if taken:
            raise UsageError(f"output_names: {taken[0]!r} is the name of an input")
        named = unique([*output_names, *names[len(output_names) :]])
        captured.outputs = [(n, v) for n, (_, v) in zip(named, captured.outputs)]
    if not captured.outputs:
        raise UsageError("the model returned no tensor", hint="return the tensors you want")
    recording = captured.recording
    values = [(n, recording.as_output(v)) for n, v in captured.outputs]
    captured.check_constants()
    made = graph.build(
        recording.builder.nodes,
        [v for _, v in captured.inputs],
        values,
        opset=opset,
        domains=recording.builder.domains,
        classes=captured.classes,
        name=captured.name,
        folds=recording.folds,
    )
    recording.let_go()
    return made


def _report(captured: Capture, registry: Registry, opset: int) -> Report:
    recording = captured.recording
    report = Report(captured.name, opset=opset)
    report.installed = [
        {"pack": pack.key, "version": pack.version, "status": pack.status}
        for pack in registry.packs
    ]
    report.missing = sorted(recording.missing.values(), key=lambda m: (-m.count, m.target))
    for missing in report.missing:
        missing.nearest = registry.nearest(missing.target)
    report.escapes = list(recording.escapes.values())
    report.declined = dict(sorted(recording.declined.items()))
    report.changed_buffers = captured.changed_buffers
    report.notes = captured.notes
    captured.notes += randomness.notes(recording.builder.nodes)
    captured.notes += symbolic.passed_over(recording.builder.opset)
    report.converters = dict(sorted(recording.converted.items()))
    report.by_pack = recording.by_pack
    return report


def _count_nodes(report: Report, captured: Capture) -> None:
    """By pack, of a recording that no graph was made of."""
    origins = (node.origin for node in captured.recording.builder.nodes)
    report.packs = dict(Counter(origin.pack for origin in origins if origin is not None))


def _describe(report: Report, made: wire.Parts) -> None:
    import onnx

    def told(value: onnx.ValueInfoProto) -> dict[str, Any]:
        tensor = value.type.tensor_type
        return {
            "name": value.name,
            "dtype": onnx.TensorProto.DataType.Name(tensor.elem_type).lower(),
            "shape": [
                getattr(dim, kind) if (kind := dim.WhichOneof("value")) else None
                for dim in tensor.shape.dim
            ],
        }

    counted = made.by_pack()
    report.nodes = counted.total()
    report.packs = {pack: n for pack, n in counted.items() if pack}  # of what is left in the graph
    report.initializers = len(made.weights) + len(made.graph.initializer)
    report.inputs = [told(value) for value in made.graph.input]
    report.outputs = [told(value) for value in made.graph.output]


def _require_covered(report: Report, registry: Registry) -> None:
    if not report.missing:
        return
    without = [m for m in report.missing if not m.declined]
    count = len(without) or len(report.missing)
    none = (
        "no converter" if without else "a converter that declined, and nothing beneath to convert"
    )
    listed = "\n".join(f"  {m}" for m in report.missing)
    hint = "have the converter say what the call means, where it returns NotImplemented"
    if without:
        hint = left_out(registry) or (
            "a pack may have them: pip install it, and look with `hx converters list`"
        )
    if len(without) > 1:
        hint += f"\n         one pack for all: {scaffold(without)}"
    raise MissingConverters(
        f"{count} target{'s have' if count > 1 else ' has'} {none}\n{listed}",
        report.missing,
        hint=hint,
    )


def left_out(registry: Registry) -> str:
    """Where converters may be that are missing: in packs that were not asked, as the user says."""
    out = {pack.distribution: pack.error for pack in registry.packs if pack.status == "disabled"}
    return "; ".join(f"{name} may have them, which is {error}" for name, error in out.items())


def _escaped(escapes: list[Escape]) -> EscapeError:
    listed = "\n".join(f"  {e}" for e in escapes)
    return EscapeError(
        f"{len(escapes)} value{'s' if len(escapes) > 1 else ''} left the graph\n" + listed,
        where=escapes[0].where,
        why="strict=True allows none: what Python does with them may not be in the graph",
        hint="compute with tensors instead, or export without strict",
    )
