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

import functools
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hx.free_memory import no_memory
from hx.graph.file_nodes import metadata_of
from hx.proof.declared import Sizes
from hx.proof.proof import CaseCheck, Difference, OutputCheck, Proof
from hx.proof.sessions.open_file import OpenFile, Run
from hx.runtime import Refused, as_pairs
from hx.saving import model_file

if TYPE_CHECKING:
    import onnx
    import torch


@dataclass
class Case:
    """Inputs by name, and the model's own outputs in the graph's order.

    `noise`, one number per output, is how far the model's output moves when its inputs move by one
    unit in the last place (see `jitter`); a model that magnifies rounding gets that much more
    tolerance. `computed` is a coarser dtype that the model computes in: an output in a finer dtype
    that is computed from such numbers is no more exact.
    """

    name: str  # "recorded", "fresh", "batch=1"
    feeds: Mapping[str, Any]
    expected: Sequence[Any]
    noise: Sequence[float] | None = None
    computed: Any = None
    exact: Sequence[
        torch.Tensor | None
    ] = ()  # the model's outputs in float64, where they are known
    rounds: float = 1.0  # how often the steps of a loop in the file run
    steps: float = 0.0  # steps in addition to the nodes
    far: bool = False  # one of its sizes is far larger than recorded
    beyond: bool = False  # its values go beyond the recorded range
    special: str = ""  # what they are, if kernels differ there by right or by fault: NaN
    lines: int = 0  # lines of the model's code that ran for it, if counted
    steady: bool = False  # the model's results do not depend on its draws
    # The cases that count if the file fails this one: itself, if float64 confirms its results.
    confirmed: Callable[[], list[Case]] | None = None


def prove(
    source: str | os.PathLike | bytes | OpenFile,
    cases: Iterable[Case],
    *,
    checker: bool = True,
    custom_ops: Sequence[Any] = (),
    progress: Callable[[str], None] | None = None,
    proof: Proof | None = None,
    blames: bool = True,
) -> Proof:
    """Check a file, a serialised model or an open file on each case, as the cases come.

    The results are added to `proof`, where one is given. A wrong case runs without onnxruntime's
    optimisations as well if it `blames` them for what is right then.

    `custom_ops` are libraries of onnxruntime kernels (paths), or classes of onnx's reference
    evaluator (`onnx.reference.op_run.OpRun`), which runs the nodes that need them.
    """
    start = time.perf_counter()
    tell = progress or (lambda stage: None)
    if not isinstance(source, (bytes, OpenFile)):
        source = Path(source)
    file = source if isinstance(source, OpenFile) else OpenFile(source, custom_ops)
    proof = Proof() if proof is None else proof
    proof.checked = checker
    try:
        if checker:
            tell("checking the file")
            proof.checker = _checked(file.source)
            # The innermost comes last: a node in a body is quoted after the node that has the body.
            proof.node = (re.findall(r"node name: ([^)]*)\)", proof.checker) or [""])[-1]
        if not proof.checker:
            model, proof.depth = file.model, file.depth
            proof.plain = not file.optimised
            tell("loading the file")
            proof.runtime = file.runtime
            try:
                run = file.load(not proof.plain)
            except Refused as refused:
                proof.problem = _quoted(refused, model)
                proof.node = refused.node([node.name for node in model.graph.node]) or ""
            else:
                proof.seconds = time.perf_counter() - start  # without waiting for cases
                total = f" of {len(cases)}" if isinstance(cases, Sequence) else ""
                for place, case in enumerate(cases, 1):
                    tell(f"comparing the file with the model, {place}{total}")
                    proof.cases.append(_case(case, file, run))
                    if blames:
                        blame(file, case, proof.cases[-1])
                    proof.seconds += proof.cases[-1].seconds
    except MemoryError as error:
        raise no_memory("the proof of the file") from error
    except OSError as error:
        proof.problem = str(error)
    return proof


def _checked(source: Path | bytes) -> str:
    import onnx

    if isinstance(source, Path) and not source.stat().st_size:
        return "the file is empty"
    try:
        # The checker copies all weights, several times, and looks at none of them.
        light = None if isinstance(source, bytes) else model_file.outline(source)
        whole = source if isinstance(source, bytes) else os.fspath(source)
        onnx.checker.check_model(whole if light is None else light, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        return str(error).strip()
    except MemoryError:
        raise
    except Exception as error:  # protobuf's error for a file that is no model has no name
        return f"{type(error).__name__}: {error}".strip()
    return ""


def _case(
    case: Case,
    file: OpenFile,
    run: Run,
) -> CaseCheck:
    start, model = time.perf_counter(), file.model
    check = CaseCheck(case.name, special=bool(case.special))
    declared = {value.name: value for value in model.graph.input}
    feeds = {name: graph_tensor(value) for name, value in case.feeds.items()}
    sizes = Sizes()
    if not feeds.keys() <= declared.keys():
        check.problem = f"the graph's inputs are {list(declared)}, the case gives {list(feeds)}"
    for name in (name for name in declared if name in feeds):
        check.problem = check.problem or sizes.check(
            f"the input {name!r}", declared[name], feeds[name].shape
        )
    if len(case.expected) != len(model.graph.output):
        check.problem = (
            f"the graph has {len(model.graph.output)} outputs, the model {len(case.expected)}; "
            "a graph always has as many, so return one tensor of them (torch.stack, pad_sequence)"
        )
    if not check.problem:
        try:
            results = run(feeds)
        except Refused as refused:
            check.problem = _quoted(refused, model)
        else:
            check.outputs = _outputs(case, file, results, sizes)
    check.seconds = time.perf_counter() - start
    return check


def _outputs(
    case: Case,
    file: OpenFile,
    results: Sequence[torch.Tensor],
    sizes: Sizes,
) -> list[OutputCheck]:
    from hx.proof.differences.allowance import longest_reduction
    from hx.proof.differences.compare import as_near
    from hx.proof.differences.halves import passed

    model = file.model
    longest = functools.cache(lambda: longest_reduction(model, sizes.values))
    checks = []
    chance = set() if case.steady else file.drawn
    coarse = passed(model) if case.computed is not None else ()
    for i, (declared, got, want) in enumerate(zip(model.graph.output, results, case.expected)):
        if declared.name in chance and tuple(got.shape) == tuple(graph_tensor(want).shape):
            want = got.to(graph_tensor(want).dtype)  # random values differ in every run
        noise = case.noise[i] if case.noise else 0.0
        computed = case.computed if declared.name in coarse else None
        steps = int(file.depth * case.rounds + case.steps)
        found = compared(got, want, steps, noise, computed)
        if found.problem and found.allowed:
            found = compared(got, want, steps, noise, computed, longest())
        check = OutputCheck(
            **vars(found),
            name=declared.name,
            dtype=str(got.dtype).removeprefix("torch."),
            shape=list(got.shape),
            random=declared.name in chance,
            other_rank=got.dim() != graph_tensor(want).dim(),
        )
        exact = case.exact[i] if i < len(case.exact) else None
        if (
            check.problem
            and check.allowed
            and exact is not None
            and as_near(got, graph_tensor(want), exact, longest())
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
    computed: torch.dtype | None = None,
    longest: int = 1,
) -> Difference:
    """Compare a result of the file with the model's; see `Case` for the other parameters."""
    from hx.proof.differences.compare import Tolerance, coarser, difference

    expected = graph_tensor(want)
    if not hasattr(want, "dtype") and _kind(got.dtype) == _kind(expected.dtype):
        expected = expected.to(got.dtype)  # a Python number has a kind and no width
    tolerance = Tolerance.for_dtype(coarser(expected.dtype, computed), depth, noise, longest)
    return difference(got, expected, tolerance)


def _kind(dtype: torch.dtype) -> tuple[bool, bool]:
    return dtype.is_floating_point, dtype.itemsize == 1 and str(dtype) == "torch.bool"


def blame(file: OpenFile, case: Case, check: CaseCheck) -> None:
    """Note in a check if the file is right without onnxruntime's optimisations."""
    if check.note or not any(output.allowed and output.problem for output in check.outputs):
        return
    feeds = {name: graph_tensor(value) for name, value in case.feeds.items()}
    try:
        plain = _outputs(case, file, file.load(False)(feeds), Sizes())
    except Refused:
        return
    if not any(output.problem for output in plain):
        check.note = BLAMED


BLAMED = "without onnxruntime's optimisations the same file is right: they are at fault"
STANDARD = ("", "ai.onnx", "ai.onnx.ml", "ai.onnx.preview.training", "com.microsoft")


def _without_kernel(model: onnx.ModelProto) -> list[str]:
    """List the operators that onnxruntime lacks, with their converters and packs."""
    functions = {(f.domain, f.name) for f in model.functions}
    found: dict[str, str] = {}
    for node in model.graph.node:
        if node.domain not in STANDARD and (node.domain, node.op_type) not in functions:
            about = metadata_of(node)
            by = f" (of {about['hx.target']}, by {about['hx.pack']})" if "hx.pack" in about else ""
            found.setdefault(f"{node.domain}::{node.op_type}", by)
    return [
        f"{name}{by} has no kernel here; its pack gives one with hx_reference_kernels(), and "
        "hx export --no-verify writes the file unproved"
        for name, by in found.items()
    ]


def _quoted(refused: Refused, model: onnx.ModelProto) -> str:
    """Return the message, and what is known about the node that it quotes."""
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
    about = metadata_of(node)
    for key in (*(key for key in told if key in about), *(key for key in about if key not in told)):
        if about[key] and told.get(key, key):
            lines.append(f"  {told.get(key, key)}: {about[key]}")
    return "\n".join(lines)


def graph_tensor(value: Any) -> torch.Tensor:
    """Return an input or result of the model in the form that a graph has for it."""
    import numpy as np
    import torch

    from hx import tensor_bytes

    if isinstance(value, torch.Tensor):
        tensor = value.detach()
    elif isinstance(value, np.ndarray):
        tensor = tensor_bytes.of_numpy(value)
    else:  # a size is a number of its own class
        own = isinstance(value, int) and type(value) not in (bool, int)
        tensor = torch.as_tensor(int(value) if own else value)
    dense = tensor if tensor.layout is torch.strided else tensor.to_dense()
    return as_pairs(dense.cpu()).resolve_neg()
