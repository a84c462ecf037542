"""Comparison of every node of a file with the model's own values.

The model is recorded once more and its tensors are kept. The file runs with the same values as
outputs, without onnxruntime's optimisations. At most `BUDGET.bytes.kept_tensors` and as many of
results are held at a time; the rest is compared in turns, each with a recording of its own.

The recording also shows memory that changed between two recorded calls though neither wrote to it.
Compiled code did that, and nothing else could have noticed.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hx.budget import BUDGET
from hx.graph.file_nodes import metadata_of, operator_of
from hx.graph.model_parts import Parts
from hx.recording.calls import compiled_calls
from hx.saving import model_file

from ..sessions.tapped import Tapped

if TYPE_CHECKING:
    import onnx
    import torch

    from ...recording.trace import Trace
    from ..file_proof import Case
    from ..subject import Subject

_OF_A_CALL = "hx.target", "hx.source", "hx.module"


@dataclass
class NodeCheck:
    """Check of one node."""

    name: str
    op: str
    module: str = ""
    target: str = ""
    pack: str = ""
    source: str = ""
    depth: int = 0
    dtype: str = ""
    shape: list[int] = field(default_factory=list)
    problem: str = ""
    max_abs: float = 0.0
    max_rel: float = 0.0  # the largest error as a share of the largest value
    rms_rel: float = 0.0
    allowed: float = 0.0
    own_rel: float = 0.0  # the largest error as a share of its own element

    @property
    def compared(self) -> bool:
        """False if the model has no tensor to compare."""
        return bool(self.dtype)

    @property
    def where(self) -> str:
        place = self.source or "code outside of the model"
        return f"{place} (in {self.module})" if self.module else place


@dataclass
class NodeTable:
    rows: list[NodeCheck]
    parts: Parts | None = None  # the graph of the last recording, for comparison with another
    unseen: str = ""  # a write that no recorded call made
    outputs: Sequence[torch.Tensor] = ()  # results of the file, if it ran

    @property
    def first_off(self) -> NodeCheck | None:
        return next((row for row in self.rows if row.problem), None)

    def to_dict(self) -> list[dict[str, Any]]:
        return [{**dataclasses.asdict(row), "compared": row.compared} for row in self.rows]

    @property
    def compared(self) -> list[NodeCheck]:
        return [row for row in self.rows if row.compared]


def check_nodes(
    subject: Subject,
    path: Path,
    case: Case,
    *,
    target: Path | None = None,
    custom_ops: Sequence[Any] = (),
    until_off: bool = False,
    at_once: bool = False,
    budget: int = BUDGET.bytes.kept_tensors,
    recorded: Recorded | None = None,
    tapped: Tapped | None = None,
) -> NodeTable:
    """Return the table for the inputs of one case; `until_off` ends with the turn of the first
    mistake, and `at_once` with the mistake itself.

    `target` is the final path if `path` is a hidden file. `recorded` is the recording of the first
    turn, if it exists already, and `tapped` runs the file. Raises `Refused` where the file cannot
    run.
    """
    from ..random.randomness import drawn
    from .halves import passed

    model = model_file.skeleton(path)
    listed = list(rows_of(model))
    rows = {name: row for row, outputs in listed for name in outputs if name}
    coarse = passed(model) if case.computed is not None else ()
    chance = drawn(model)  # random values differ in every run
    table = NodeTable([row for row, _ in listed])
    tapped = tapped or Tapped(path, target or path, model, custom_ops)
    turn = turns = 0
    while turn <= turns:
        table.parts, names, kept = recorded or recorded_of(
            subject, case, Kept(budget, turn), model.graph
        )
        recorded = None
        there = ((names.get(id(v)), t) for v, t in kept.pairs)
        wanted = {name: t for name, t in there if name in rows and name not in chance}
        table.unseen = table.unseen or kept.unseen
        if wanted:
            results = tapped(list(wanted), case.feeds)
            table.outputs = [results[output.name] for output in model.graph.output]
            _compare_all(rows, results, wanted, dict.fromkeys(coarse, case.computed), at_once)
        if until_off and table.first_off is not None:
            break
        turn, turns = turn + 1, (kept.size - 1) // budget
    return table


class Kept:
    """Copies of the tensors of a recording that belong to one turn."""

    def __init__(self, budget: int, turn: int) -> None:
        self.pairs: list[tuple[Any, torch.Tensor]] = []
        self.size = 0
        self.unseen = ""
        self._from, self._to = budget * turn, budget * (turn + 1)
        self._of: dict[int, torch.Tensor] = {}

    def add(self, value: Any, tensor: torch.Tensor) -> None:
        """Note that `tensor` now stands for `value`."""
        import torch

        if tensor.is_complex() and value.parts is not None:
            halves = torch.view_as_real(tensor.detach().resolve_conj()).unbind(-1)
            for part, half in zip(value.parts, halves):
                if part is not None:
                    self.add(part, half)
            return
        if value.is_constant or tensor.is_meta or tensor.layout != torch.strided:
            return
        if self.room_for(value, tensor):
            plain = tensor.dequantize() if tensor.is_quantized else tensor.detach()
            copy = plain.to("cpu", copy=True)
            self.pairs.append((value, copy))
            self._of[id(value)] = copy
        self.size += tensor.numel() * tensor.element_size()

    def room_for(self, value: Any, tensor: torch.Tensor) -> bool:
        """Return True if the memory of this tensor is kept in this turn."""
        return self._from <= self.size < self._to

    def look(self, value: Any, tensor: torch.Tensor, where: Any, frame: Any = None) -> None:
        """Check that `tensor`, which is about to be read as `value`, has not changed unseen."""
        known = self._of.get(id(value))
        tensor = tensor.dequantize() if tensor.is_quantized else tensor
        if known is None or self.unseen or _same(known, tensor):
            return
        node = value.node
        made = (
            "that is an input"
            if node is None or node.origin is None
            else f"made at {node.origin.where}"
        )
        self.unseen = (
            f"unseen: a tensor of shape {list(tensor.shape)} {made} had other contents at {where}, "
            "and no recorded call wrote to it: code that hx cannot see did, between these lines"
        )
        if found := compiled_calls.calls(frame):
            self.unseen += (
                f" ({', or '.join(map(str, found[-3:]))}); {compiled_calls.how(found[-1])}"
            )


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    from ...tensor_bytes import same_numbers

    if a.shape != b.shape or a.dtype != b.dtype:
        return True  # another view of the same memory has the same contents
    return same_numbers(a, b.to(a.device))  # kept copies are on the CPU


class Recorded(NamedTuple):
    """Recording of a case: its graph, the names of its values, and their tensors."""

    parts: Parts
    names: dict[int, str]
    kept: Kept


def recorded_of(subject: Subject, case: Case, kept: Kept, file: onnx.GraphProto) -> Recorded:
    """Record a case, and name its values as the file does."""
    parts, names = record_again(subject, case, kept)
    if subject.recipe.flow.reorders:
        there = _called(parts.graph, file)
        names = {of: there[name] for of, name in names.items() if name in there}
    return Recorded(parts, names, kept)


def _called(graph: onnx.GraphProto, file: onnx.GraphProto) -> dict[str, str]:
    """Map the values of another recording to the file's names, if loops or branches are unrolled
    there.

    Names differ between the two. The outputs of a call are matched with those of the same call in
    the file, if the file has as many nodes of it outside of loops and branches.
    """
    ours, theirs = _by_call(graph), _by_call(file)
    pairs = [
        (node, other)
        for call, nodes in ours.items()
        if len(nodes) == len(theirs.get(call, ()))
        for node, other in zip(nodes, theirs[call])
    ]
    inputs = {info.name: info.name for info in graph.input}
    return inputs | {
        name: other_name
        for node, other in pairs
        for name, other_name in zip(node.output, other.output)
    }


def _by_call(graph: onnx.GraphProto) -> dict[tuple, list[onnx.NodeProto]]:
    found: dict[tuple, list[onnx.NodeProto]] = {}
    for node in graph.node:
        about = metadata_of(node)
        call = (node.domain, node.op_type, len(node.output), *map(about.get, _OF_A_CALL))
        found.setdefault(call, []).append(node)
    return found


def record_again(
    subject: Subject, case: Case, kept: Kept | None = None
) -> tuple[Parts, dict[int, str]]:
    """Return the graph of a recording of the case, and the names of its values."""
    return again(subject, case, kept)[1:]


def again(
    subject: Subject, case: Case, kept: Kept | None = None
) -> tuple[Trace, Parts, dict[int, str]]:
    """Record the case; return the recording, its graph, and the names of its values."""
    from ...graph import graph

    flow = dataclasses.replace(subject.recipe.flow, until=None)
    recipe = dataclasses.replace(subject.recipe, inputs=dict(case.feeds), flow=flow)
    found = subject.recorder.record(recipe, keep=kept, one_thread=True)
    names: dict[int, str] = {}
    made = graph.build(
        found.nodes,
        [v for _, v in found.inputs],
        [(n, value) for (n, _), (_, value) in zip(subject.trace.outputs, found.outputs)],
        opset=subject.recorder.opset,
        domains=found.graph.dialect.domains,
        classes=found.classes,
        name=found.name,
        names=names,
    )
    return found, made, names


def rows_of(model: onnx.ModelProto) -> Iterator[tuple[NodeCheck, list[str]]]:
    """Return a row for each node of the main graph, with the names of its outputs."""
    reached: dict[str, int] = {}
    for node in model.graph.node:
        about = metadata_of(node)
        depth = 1 + max((reached.get(name, 0) for name in node.input), default=0)
        reached.update(dict.fromkeys(node.output, depth))
        row = NodeCheck(
            node.name,
            operator_of(node),
            about.get("hx.module", ""),
            about.get("hx.target", ""),
            about.get("hx.pack", ""),
            about.get("hx.source", ""),
            depth,
        )
        yield row, list(node.output)


def _compare_all(
    rows: Mapping[str, NodeCheck],
    results: dict[str, torch.Tensor],
    wanted: Mapping[str, torch.Tensor],
    computed: Mapping[str, Any],
    at_once: bool,
) -> None:
    """Compare values in the order of the file: all of them, or up to the first that is off."""
    for name in (name for name in rows if name in wanted):
        _compare(rows[name], results.pop(name), wanted[name], computed.get(name))
        if at_once and rows[name].problem:
            return


def _compare(row: NodeCheck, got: torch.Tensor, want: torch.Tensor, computed: Any = None) -> None:
    """Write the result of a comparison into the row: the worst of several outputs."""
    from .compare import Tolerance, coarser, difference

    tolerance = Tolerance.for_dtype(coarser(want.dtype, computed), row.depth)
    found = difference(got, want, tolerance)
    row.own_rel = max(row.own_rel, own_share(got, want))
    if row.compared and not _worse(found, row):
        return
    row.dtype, row.shape = str(want.dtype).removeprefix("torch."), list(want.shape)
    row.problem, row.max_abs, row.max_rel = found.problem, found.max_abs, found.max_rel
    row.rms_rel, row.allowed = found.rms_rel, found.allowed


def own_share(got: torch.Tensor, want: torch.Tensor) -> float:
    """Return the largest error as a share of its own element, of floats."""
    if got.shape != want.shape or not want.is_floating_point() or got.equal(want):
        return 0.0
    a, b = got.double(), want.double()
    off = (a - b).abs().where(b.isfinite(), 0.0)
    return float((off / b.abs().clamp(min=1e-300)).where(off != 0, 0.0).nan_to_num(0.0).max())


def _worse(found: Any, row: NodeCheck) -> bool:
    return (bool(found.problem), found.max_rel) > (bool(row.problem), row.max_rel)


def relative(source: str) -> str:
    """Shorten a place in code if it is below the current folder."""
    file, colon, line = source.rpartition(":")
    here = os.path.relpath(file) if file else source
    return source if here.startswith("..") else f"{here}{colon}{line}"
