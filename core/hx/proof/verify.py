"""Prove that a file computes what the model computes.

    proof = prove("m.onnx", [Case("recorded", feeds, expected), Case("fresh", ...)])
    proof.require()

The file is held against onnx's own checker (with full shape inference), then run in onnxruntime on
each case; results are compared in dtype, shape and value (see `hx.compare` for how close is close
enough), and shapes with what the graph declares. When values are off, the case is run once more
without onnxruntime's optimisations, to say whose fault it is.

torch, onnx and onnxruntime are imported when something is proved.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hx.proof.declared import Sizes
from hx.proof.proof import CaseCheck, OutputCheck, Proof
from hx.proof.randomness import drawn
from hx.proof.room import Loading
from hx.runtime import Refused, Session, as_pairs
from hx.saving import wire

if TYPE_CHECKING:
    import onnx
    import torch

    from hx.proof.compare import Difference


@dataclass
class Case:
    """Inputs by name, and the model's own outputs in the graph's order.

    `noise`, one number per output, is how far the model's output moves when its inputs move by one
    unit in the last place (see `jitter`); a model that magnifies rounding is given that much more.
    `computed` is a coarser dtype that the model computes in: an output in a finer one that comes
    from numbers of that is no more exact.
    """

    name: str  # "recorded", "fresh", "batch=1"
    feeds: Mapping[str, Any]
    expected: Sequence[Any]
    noise: Sequence[float] | None = None
    computed: Any = None
    exact: Sequence[
        torch.Tensor | None
    ] = ()  # the model's outputs in float64, where they are known
    rounds: float = 1.0  # how often its steps are taken, where a loop in the file goes round
    steps: float = 0.0  # and how many more there are than it has nodes
    steady: bool = False  # the model gives the same, whatever it draws: so has the file to


def prove(
    source: str | os.PathLike | bytes,
    cases: Sequence[Case],
    *,
    checker: bool = True,
    tolerance: float | None = None,
    custom_ops: Sequence[Any] = (),
    progress: Callable[[str], None] | None = None,
    load: Loading | None = None,
) -> Proof:
    """Check a file, or a serialised model, on each case.

    `tolerance` replaces the share of the largest value that an error may be, for all floats.
    `custom_ops` are libraries of onnxruntime kernels (paths), or classes of onnx's reference
    evaluator (`onnx.reference.op_run.OpRun`), which runs the nodes that need them.
    `load` says how the memory that there is allows it to be run.
    """
    load = load or Loading()
    start = time.perf_counter()
    tell = progress or (lambda stage: None)
    source = source if isinstance(source, bytes) else Path(source)
    proof = Proof(checked=checker)
    try:
        if checker:
            tell("checking")
            proof.checker = _checked(source)
            # The innermost: a body's node is quoted behind the one that it is in.
            proof.node = (re.findall(r"node name: ([^)]*)\)", proof.checker) or [""])[-1]
        if not proof.checker:
            model = wire.skeleton(source)
            proof.depth = depth(model)
            proof.not_run = load.refused
            proof.plain = load.plain
        if not proof.checker and not proof.not_run:
            tell("loading")
            proof.runtime, opened = loader(source, model, custom_ops)
            try:
                run = opened(not load.plain)
            except Refused as refused:
                proof.problem = _quoted(refused, model)
                proof.node = refused.node([node.name for node in model.graph.node]) or ""
            else:
                for case in cases:
                    tell(case.name)
                    proof.cases.append(_case(case, model, run, opened, proof.depth, tolerance))
    except MemoryError:
        proof.checked = bool(proof.depth)  # else it was the checker
        proof.not_run = "the memory that there is does not hold the file; `hx verify` proves it "
        proof.not_run += "where there is more, and with external data it needs less"
    except OSError as error:
        proof.problem = str(error)
    proof.seconds = time.perf_counter() - start
    return proof


def depth(model: onnx.ModelProto) -> int:
    """The longest way through the graph, in nodes; a function counts for all of its nodes."""
    functions = {(f.domain, f.name): len(f.node) for f in model.functions}
    reached: dict[str, int] = {}
    for node in model.graph.node:
        own = functions.get((node.domain, node.op_type), 1)
        own += sum(len(attribute.g.node) for attribute in node.attribute)
        at = own + max((reached.get(name, 0) for name in node.input), default=0)
        for name in node.output:
            reached[name] = at
    return max(reached.values(), default=0)


def _checked(source: Path | bytes) -> str:
    import onnx

    if isinstance(source, Path) and not source.stat().st_size:
        return "the file is empty"
    try:
        onnx.checker.check_model(
            source if isinstance(source, bytes) else os.fspath(source), full_check=True
        )
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        return str(error).strip()
    except MemoryError:
        raise
    except Exception as error:  # what protobuf raises for a file that is no model has no name
        return f"{type(error).__name__}: {error}".strip()
    return ""


Run = Callable[[Mapping[str, Any]], list]


def loader(
    source: Path | bytes, model: onnx.ModelProto, custom_ops: Sequence = ()
) -> tuple[str, Callable[[bool], Run]]:
    """What runs the file, and how to load it there: `load(optimized)(feeds)`.

    onnxruntime does; the nodes whose kernels are Python's, onnx's evaluator.
    """
    import onnxruntime

    name = f"onnxruntime {onnxruntime.__version__}"
    kernels = [op for op in custom_ops if isinstance(op, type) and _used(op, model)]
    names = ", ".join(sorted(f"{k.op_domain}::{k.__name__}" for k in kernels))  # type: ignore[attr-defined]
    libraries = [op for op in custom_ops if not isinstance(op, type)]
    if kernels:
        from hx.proof import beside

        name += f", and reference kernels ({names})"
        return name, lambda optimized: beside.loaded(source, kernels, libraries, optimized)
    return name, lambda optimized: Session(source, optimized=optimized, libraries=libraries).run


def _used(kernel: Any, model: onnx.ModelProto) -> bool:
    """Whether a node of the file, at whatever depth, is the kernel's operator."""
    wanted = (kernel.op_domain, kernel.__name__)

    def within(nodes: Any) -> bool:
        return any(
            (node.domain, node.op_type) == wanted
            or any(within(a.g.node) for a in node.attribute if a.HasField("g"))
            for node in nodes
        )

    return within(model.graph.node) or any(within(f.node) for f in model.functions)


def _case(
    case: Case,
    model: onnx.ModelProto,
    run: Run,
    load: Callable[[bool], Run],
    depth: int,
    tolerance: float | None,
) -> CaseCheck:
    start = time.perf_counter()
    check = CaseCheck(case.name)
    declared = {value.name: value for value in model.graph.input}
    feeds = {name: _tensor(value) for name, value in case.feeds.items()}
    sizes = Sizes()
    if not feeds.keys() <= declared.keys():
        check.problem = f"the graph's inputs are {list(declared)}, the case gives {list(feeds)}"
    for name in (name for name in declared if name in feeds):
        check.problem = check.problem or sizes.check(
            f"the input {name!r}", declared[name], feeds[name].shape
        )
    if len(case.expected) != len(model.graph.output):
        check.problem = (
            f"the graph has {len(model.graph.output)} outputs, the model {len(case.expected)}"
        )
    if not check.problem:
        try:
            results = run(feeds)
        except Refused as refused:
            check.problem = _quoted(refused, model)
        else:
            check.outputs = _outputs(case, model, results, sizes, depth, tolerance)
    if any(output.allowed and output.problem for output in check.outputs):
        check.note = _blame(case, model, feeds, load, depth, tolerance)
    check.seconds = time.perf_counter() - start
    return check


def _outputs(
    case: Case,
    model: onnx.ModelProto,
    results: Sequence[torch.Tensor],
    sizes: Sizes,
    depth: int,
    tolerance: float | None,
) -> list[OutputCheck]:
    from hx.proof.compare import as_near
    from hx.proof.halves import passed

    checks = []
    chance = set() if case.steady else drawn(model)
    coarse = passed(model) if case.computed is not None else ()
    for i, (declared, got, want) in enumerate(zip(model.graph.output, results, case.expected)):
        if declared.name in chance and tuple(got.shape) == tuple(_tensor(want).shape):
            want = got.to(_tensor(want).dtype)  # no two runs agree
        noise = case.noise[i] if case.noise else 0.0
        computed = case.computed if declared.name in coarse else None
        steps = int(depth * case.rounds + case.steps)
        found = compared(got, want, steps, noise, tolerance, computed)
        check = OutputCheck(
            declared.name,
            str(got.dtype).removeprefix("torch."),
            list(got.shape),
            **asdict(found),
            random=declared.name in chance,
            other_rank=got.dim() != _tensor(want).dim(),
        )
        exact = case.exact[i] if i < len(case.exact) else None
        if (
            check.problem
            and check.allowed
            and exact is not None
            and as_near(got, _tensor(want), exact)
        ):
            check.problem, check.as_near = "", True
        if not check.problem:
            check.problem = sizes.check("the output", declared, got.shape)
            check.misdeclared = bool(check.problem)
        checks.append(check)
    return checks


def compared(
    got: torch.Tensor,
    want: Any,
    depth: int,
    noise: float = 0.0,
    share: float | None = None,
    computed: torch.dtype | None = None,
) -> Difference:
    """What the file gives beside what the model gave; see `Case` for the rest."""
    import dataclasses

    from hx.proof.compare import Tolerance, coarser, difference

    expected = _tensor(want)
    if not hasattr(want, "dtype") and _kind(got.dtype) == _kind(expected.dtype):
        expected = expected.to(got.dtype)  # a Python number has a kind and no width
    tolerance = Tolerance.for_dtype(coarser(expected.dtype, computed), depth, noise)
    if share is not None and tolerance.share:
        tolerance = dataclasses.replace(tolerance, share=share)
    return difference(got, expected, tolerance)


def _kind(dtype: torch.dtype) -> tuple[bool, bool]:
    return dtype.is_floating_point, dtype.itemsize == 1 and str(dtype) == "torch.bool"


def _blame(
    case: Case,
    model: onnx.ModelProto,
    feeds: Mapping[str, Any],
    load: Callable[[bool], Run],
    depth: int,
    tolerance: float | None,
) -> str:
    try:
        plain = _outputs(case, model, load(False)(feeds), Sizes(), depth, tolerance)
    except Refused:
        return ""
    if any(output.problem for output in plain):
        return ""
    return "without onnxruntime's optimisations the same file is right: they are at fault"


STANDARD = ("", "ai.onnx", "ai.onnx.ml", "ai.onnx.preview.training", "com.microsoft")


def _without_kernel(model: onnx.ModelProto) -> list[str]:
    """What to say of operators that onnxruntime does not have: who wrote them, what they need."""
    functions = {(f.domain, f.name) for f in model.functions}
    found: dict[str, str] = {}
    for node in model.graph.node:
        if node.domain not in STANDARD and (node.domain, node.op_type) not in functions:
            about = {entry.key: entry.value for entry in node.metadata_props}
            by = f" (of {about['hx.target']}, by {about['hx.pack']})" if "hx.pack" in about else ""
            found.setdefault(f"{node.domain}::{node.op_type}", by)
    return [
        f"{name}{by} has no kernel here; its pack gives one with hx_reference_kernels(), and "
        "hx export --no-verify writes the file unproved"
        for name, by in found.items()
    ]


def _quoted(refused: Refused, model: onnx.ModelProto) -> str:
    """The message, and what the file says of the node that it quotes."""
    nodes = {node.name: node for node in model.graph.node}
    node = nodes.get(refused.node(list(nodes)) or "")
    text = str(refused)
    if "NOT_IMPLEMENTED" in text or "implementation for" in text:
        text += "\n(onnxruntime's CPU has no kernel for this operator at this version or dtype)"
    if "not a registered function/op" in text:
        text = "\n".join([text, *_without_kernel(model)])
    if node is None:
        return text
    domain = f"{node.domain}." if node.domain else ""
    lines = [text, f"node {node.name!r}: {domain}{node.op_type}({', '.join(node.input)})"]
    told = {
        "hx.target": "call",
        "hx.source": "line",
        "hx.module": "module",
        "hx.pack": "converter from",
        "namespace": "",  # the module again, for viewers
    }
    about = {entry.key: entry.value for entry in node.metadata_props}
    for key in (*(key for key in told if key in about), *(key for key in about if key not in told)):
        if about[key] and told.get(key, key):
            lines.append(f"  {told.get(key, key)}: {about[key]}")
    return "\n".join(lines)


def _tensor(value: Any) -> torch.Tensor:
    import numpy as np
    import torch

    from hx.tensors import memory

    if isinstance(value, torch.Tensor):
        tensor = value.detach()
    elif isinstance(value, np.ndarray):
        tensor = memory.of_numpy(value)
    else:  # a size is a number of a class of its own
        own = isinstance(value, int) and type(value) not in (bool, int)
        tensor = torch.as_tensor(int(value) if own else value)
    dense = tensor if tensor.layout is torch.strided else tensor.to_dense()
    return as_pairs(dense.cpu()).resolve_neg()
