"""Proof part by part of a graph whose end results depend on rounding or ties.

A model may ask which of two numbers is larger when only rounding tells them apart: a threshold, an
argmax, a place in a sorted list. PyTorch and onnxruntime do not round alike, and after such a
question everything may differ, though nothing is wrong. The results prove nothing then, but the
parts do: each value that the model had becomes an input of the file, and the file's result from the
model's own earlier values becomes an output. If all of these agree within the limit for one step,
the graph computes what the model computes, step by step; a mistake in it, or a size or a number
that was baked in, would show in its own part.

But a part is held to its largest value, and a later step may depend on small ones: the logarithm of
a sigmoid that onnxruntime rounds to 0. So there must be a place, where the results part, at which
rounding may decide. This is a question as above about numbers that are not whole; or numbers that
agree in all but the last digits, and whose results do not agree; or a model whose own answer
differs as much when its inputs move by a unit in the last place.

The pick among equal elements is such a question, too: PyTorch and onnxruntime each pick one, and
the results from there on may be very different (see `ties`).

No part shows errors of onnxruntime's optimizations across several nodes. If the file is right
without these optimizations, and wrong with them, time after time, rounding did not decide.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ...budget import BUDGET
from ...cleanup import run_inside
from ...errors import HxError, Where, is_environment_error
from ...graph.file_nodes import metadata_of
from ...registration import OPSETS
from ...runtime import Refused
from ...saving.claims import Hidden
from ..sessions.tapped import Loaded, Tapped
from . import ties
from .nodes import (
    Kept,
    NodeCheck,
    NodeTable,
    Recorded,
    check_nodes,
    own_share,
    recorded_of,
    rows_of,
)

if TYPE_CHECKING:
    import onnx
    import torch

    from ..file_proof import Case
    from ..sessions.open_file import OpenFile, Run
    from ..subject import Subject


LAST_DIGITS = 1e-5  # rest of an element's own digits after a few dozen roundings of float32
# Operators whose exact result is rounded, to one unit in the last place or another.
_EXACT = frozenset("Abs Add Clip Div Max Min Mul Neg Relu Sqrt Sub Where".split())
_PARTS = ("before", "scale", "zero")
# Operators that jump: their results may differ for inputs that only rounding tells apart.
_JUMP = frozenset(
    """ArgMax ArgMin Ceil DynamicQuantizeLinear Equal Floor Greater GreaterOrEqual GridSample Hardmax
    IsInf IsNaN Less LessOrEqual Mod NonMaxSuppression NonZero QuantizeLinear Round Sign TopK
    Unique""".split()
)  # fmt: skip


class Decision(NamedTuple):
    """Why and where the results of file and model part, though no part is wrong."""

    why: str = ""
    where: Where | None = None


NOTHING = Decision()


class Outcome(NamedTuple):
    """Comparison of the parts of a file with the model's own values."""

    values: dict[str, torch.Tensor]  # the model's own
    wrong: dict[str, Any]  # those that the file does not make of the others
    tied: set[str]  # nodes that pick other equal elements
    losses: list[str]  # that packs declare


class Parts:
    """Parts of a file, compared with the model's; the session that runs them is loaded once."""

    def __init__(self, subject: Subject, file: OpenFile, target: Path) -> None:
        self._subject, self._file, self._target = subject, file, target
        assert isinstance(file.source, Path)
        self._path, self._custom_ops, self._model = file.source, file.custom_ops, file.model

    @functools.cached_property
    def _tapped(self) -> Tapped:
        return Tapped(self._path, self._target, self._model, self._custom_ops)

    @functools.cached_property
    def _apart(self) -> _Apart:
        return _Apart(self._path, self._target, self._model.graph, self._custom_ops)

    def what_decides(
        self, case: Case, magnifies: Callable[[], bool], another: Callable[[int], list[Case]]
    ) -> Decision:
        """Return why and where the results part, if all parts are right on these inputs.

        `magnifies` returns whether rounding of the inputs moves the model as far as the results differ;
        `another` draws inputs of the same sizes, and runs the model.
        """
        recorded = self._recorded(case)
        if recorded is None:
            return NOTHING
        try:
            found = self._right(case, recorded)
            if found is None:
                return NOTHING
            tied, lossy = found
            table = check_nodes(
                self._subject, self._path, case, target=self._target, until_off=True, at_once=True,
                custom_ops=self._custom_ops, recorded=recorded, tapped=self._tapped,
            )  # fmt: skip
            first = table.first_off
            if lossy:
                return Decision(f"{', '.join(lossy)} by choice")
            if not tied and not _jumps(self._model.graph, table, first) and not magnifies():
                return NOTHING
            drawn = itertools.chain.from_iterable(map(another, range(2)))
            cases = itertools.chain([case], drawn)
            if _by_optimizer(self._file, cases, table.outputs):
                return NOTHING
        except (Refused, HxError, OSError):  # a case that cannot run again proves nothing
            return NOTHING
        equal = [row for row in table.rows if row.name in tied]
        picked = ", ".join(dict.fromkeys(map(_place, equal)))
        calls = [(row.target, row.where) for row in equal]
        if equal and (first is None or (first.target, first.where) in calls):
            return Decision(f"ties decide at {picked}", line_of(equal[0]))
        rounded = f"rounding decides at {_place(first) if first else 'the end of the graph'}"
        why = f"{rounded}, and ties at {picked}" if equal else rounded
        return Decision(why, line_of(first or next(iter(equal), None)))

    def _recorded(self, case: Case) -> Recorded | None:
        """Return a recording of the case; None if there are no parts to compare."""
        if self._subject.recorder.opset not in OPSETS:  # hx did not write this file
            return None
        kept = Kept(BUDGET.bytes.kept_tensors, 0)
        try:
            return recorded_of(self._subject, case, kept, self._model.graph)
        except Exception as problem:  # the model's own error, of any kind: it refuses to run again
            if is_environment_error(problem):
                raise
            return None

    def outcome(self, case: Case) -> Outcome | None:
        """Return how the parts compare with the model's; None if there are none to compare."""
        recorded = self._recorded(case)
        try:
            return None if recorded is None else self._outcome(case, recorded)
        except (Refused, HxError, OSError):
            return None

    def rows_of(self, names: Collection[str]) -> Iterator[tuple[str, NodeCheck]]:
        """Yield values in the order of the file, with what makes them."""
        for row, outputs in rows_of(self._model):
            yield from ((name, row) for name in outputs if name in names)

    def tied(self, case: Case, recorded: Recorded) -> str:
        """Return where ties decide, if only ties set the file's parts apart from the recording."""
        try:
            found = self._right(case, recorded)
        except (Refused, HxError, OSError):
            return ""
        nodes = {node.name: node for node in self._model.graph.node}
        picked = dict.fromkeys(nodes[name].op_type for name in sorted(found[0])) if found else {}
        return f"ties decide at {', '.join(picked)}" if picked else ""

    @functools.cached_property
    def _losses(self) -> dict[str, tuple[float, str]]:
        """Return the declared loss of each value's converter, with its target and pack."""
        found = {}
        for node in self._model.graph.node:
            about = metadata_of(node)
            target, pack = about.get("hx.target", ""), about.get("hx.pack", "")
            if loss := self._subject.recorder.registry.loss(target, pack):
                found.update(dict.fromkeys(node.output, (loss, f"{target} of {pack}")))
        return found

    def _right(self, case: Case, recorded: Recorded) -> tuple[set[str], list[str]] | None:
        """Return the nodes that pick other equal elements, and the losses that packs declare.

        None if a part is wrong for another reason.
        """
        found = self._outcome(case, recorded)
        return None if found is None or found.wrong else (found.tied, found.losses)

    def _outcome(self, case: Case, recorded: Recorded) -> Outcome | None:
        expected = self._expected(case, recorded)
        if expected is None or not expected.is_consistent():
            return None
        results, steps, picked = self._apart(case.feeds, expected.values)
        single = self._single(expected.values.keys())
        tied: set[str] = set()
        wrong: dict[str, Any] = {}
        lost: dict[str, tuple[float, float]] = {}  # target and pack -> the most lost, and the limit
        for name, got in results.items():
            if expected.agrees(name, got, steps.get(name), name in single):
                continue
            want = expected.of(name)
            if (loss := self._declared_loss(name, got, want)) is not None:
                whose, off, limit = loss
                lost[whose] = max(off, lost.get(whose, (0.0,))[0]), limit
                continue
            pick, x = picked.get(name, (None, None))
            if pick is not None and ties.same(pick, x, got, want.cpu()):
                tied.add(pick.node)
            else:
                wrong[name] = want
        losses = [
            f"{whose} loses {most:.1e} of the largest value, and may lose {limit:.1e}"
            for whose, (most, limit) in lost.items()
        ]
        return Outcome(expected.values, wrong, tied, losses)

    def _single(self, known: Set[str]) -> set[str]:
        """Return the values that one exact operator gives from values of the model."""
        nodes = [node for node in self._model.graph.node if node.op_type != "Constant"]
        unknown = {name for node in nodes for name in node.output if name not in known}
        return {
            node.output[0]
            for node in nodes
            if node.op_type in _EXACT and not node.domain and unknown.isdisjoint(node.input)
        }

    def _expected(self, case: Case, recorded: Recorded) -> _Expected | None:
        """Return the model's values for the parts; None if too many are missing."""
        from .halves import passed

        _, names, kept = recorded
        if kept.size > BUDGET.bytes.kept_tensors or kept.unseen:
            return None
        model = self._model
        made = {name for node in model.graph.node for name in node.output if name}
        values = {names[id(v)]: t for v, t in kept.pairs if names.get(id(v)) in made}
        outputs = {o.name: want for o, want in zip(model.graph.output, case.expected)}
        coarse = passed(model) if case.computed is not None else ()
        return _Expected(values, outputs, dict.fromkeys(coarse, case.computed))

    def _declared_loss(
        self, name: str, got: torch.Tensor, want: Any
    ) -> tuple[str, float, float] | None:
        """Return whose converter loses so much by choice, its loss, and the declared limit."""
        from ..file_proof import compared

        limit, whose = self._losses.get(name, (0.0, ""))
        off = compared(got, want, 1).max_rel if limit else 0.0
        return (whose, off, limit) if limit and off <= limit else None


@dataclass(frozen=True)
class _Expected:
    """The model's own values for the parts of a file, by name."""

    values: dict[str, torch.Tensor]  # those of nodes
    outputs: dict[str, Any]
    computed: dict[str, torch.dtype]  # dtypes of values that are no more exact than these

    def of(self, name: str) -> Any:
        return self.values[name] if name in self.values else self.outputs[name]

    def is_consistent(self) -> bool:
        """Return True if the recorded outputs are those of the case."""
        from ..file_proof import compared

        both = self.outputs.keys() & self.values.keys()
        return not any(compared(self.values[x], self.outputs[x], 1).problem for x in both)

    def agrees(self, name: str, got: torch.Tensor, steps: tuple | None, exact: bool) -> bool:
        """Return True if a part is right; `steps` describes how its value is quantized.

        Each element of an `exact` part is right but for its last bits.
        """
        from ..file_proof import compared

        want, computed = self.of(name), self.computed.get(name)
        if steps is not None:
            got, want = _before_rounding(steps, want)
        if compared(got, want, 1, computed=computed).problem:
            return False
        if not exact or computed is not None or not got.is_floating_point():
            return True
        import torch

        return own_share(got, want) <= 4 * torch.finfo(got.dtype).eps


def _by_optimizer(
    file: OpenFile, cases: Iterable[Case], written: Sequence[torch.Tensor] = ()
) -> bool:
    """Return True if the file is right as written, and wrong when optimized, in each case.

    `written` holds its results for the first case as written, if they are known.
    """
    from ..file_proof import compared

    if any(node.op_type == "QuantizeLinear" for node in file.model.graph.node):
        return False  # optimized nodes compute in whole numbers, which round differently

    def right(results: Iterable[torch.Tensor], case: Case) -> bool:
        pairs = zip(results, case.expected, strict=True)
        return all(
            not compared(got, want, file.depth, computed=case.computed).problem
            for got, want in pairs
        )

    cases = iter(cases)
    first = next(cases)
    if written and not right(written, first):
        return False
    plain, optimized = file.load(False), file.load(True)
    return all(
        right(plain(case.feeds), case) and not right(optimized(case.feeds), case)
        for case in itertools.chain([first], cases)
    )


def line_of(row: NodeCheck | None) -> Where | None:
    """Return the line of a node's call."""
    file, _, line = ("" if row is None else row.source).rpartition(":")
    return Where(file, int(line), row.module) if row and file and line.isdigit() else None


def _place(row: NodeCheck) -> str:
    return f"{row.op} of {row.target or '?'} at {row.where}"


def _jumps(graph: onnx.GraphProto, table: NodeTable, off: NodeCheck | None) -> bool:
    """Return True if rounding may decide where the results part.

    Either a node asks which of two a number is, between the last results that agree and the first
    that do not; or those that agree do so in all digits but the last.
    """
    makers = {name: node for node in graph.node for name in node.output if name}
    whole = _whole_numbers(graph)
    agree = {row.name: row for row in table.compared if not row.problem}
    apart = 0.0
    ends = [node for node in graph.node if off is not None and node.name == off.name]
    waiting, seen = ends or [makers[o.name] for o in graph.output if o.name in makers], set()
    while waiting:
        node = waiting.pop()
        if (node.op_type in _JUMP or _to_whole(node)) and not whole.issuperset(node.input):
            return True
        for name in node.input:
            maker = makers.get(name)
            if maker is None or name in seen:
                continue
            seen.add(name)
            if maker.name in agree:
                apart = max(apart, agree[maker.name].own_rel)
            else:
                waiting.append(maker)
    return 0 < apart <= LAST_DIGITS


def _whole_numbers(graph: Any) -> set[str]:
    """Return the values that no rounding can change: whole numbers, booleans, strings."""
    from ... import dtypes

    listed = [
        (info.name, info.type.tensor_type.elem_type) for info in (*graph.input, *graph.value_info)
    ]
    listed += [(weight.name, weight.data_type) for weight in graph.initializer]
    rounded = {number for number, kind in dtypes.FROM_NUMBER.items() if kind.is_floating_point}
    return {"", *(name for name, number in listed if number and number not in rounded)}


def _to_whole(node: Any) -> bool:
    from ... import dtypes

    to = [a.i for a in node.attribute if a.name == "to"] if node.op_type == "Cast" else []
    kind = dtypes.FROM_NUMBER.get(to[0]) if to else None
    return kind is not None and not kind.is_floating_point


def _before_rounding(steps: tuple, want: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the value before rounding to steps, and the nearest one that rounds as the model's."""
    import torch

    before, scale, zero, axis = steps
    if scale.dim():
        scale, zero = (n.reshape(-1, *[1] * (before.dim() - 1 - axis)) for n in (scale, zero))
    ends = torch.iinfo(zero.dtype)
    low, high = ((n - zero.to(scale.dtype)) * scale for n in (ends.min, ends.max))
    got = torch.minimum(torch.maximum(before, low), high)
    return got, torch.minimum(torch.maximum(got, want - scale / 2), want + scale / 2)


class _Apart:
    """File that takes each value as an input, and computes it from the values before it."""

    def __init__(
        self, path: Path, target: Path, graph: onnx.GraphProto, custom_ops: Sequence[Any]
    ) -> None:
        self._path, self._target, self._custom_ops = path, target, custom_ops
        self._graph, self._rounded = graph, _rounded(graph)
        self._loaded = Loaded(path)

    def __call__(
        self, feeds: Mapping[str, torch.Tensor], values: Mapping[str, torch.Tensor]
    ) -> tuple[dict[str, torch.Tensor], dict[str, tuple], dict[str, tuple]]:
        """Compute each value of the file, and its outputs, from the model's values before it.

        The second result holds, for values that are rounded to steps: the value before, the scale,
        the zero point, and their axis. The third holds, for indices that may differ where elements
        are equal: how they pick, and from which elements.
        """
        listed = [output.name for output in self._graph.output]
        given = {**feeds, **values}
        picks = ties.picks(self._graph, given, dict.fromkeys([*values, *listed]))
        kinds = {name: tensor.dtype for name, tensor in values.items()}

        def load(hidden: Hidden) -> Run:
            from ..sessions.open_file import loader

            model = self._taken_apart(kinds, picks)
            copy = hidden.create(self._target).path
            copy.write_bytes(model.SerializeToString())
            return loader(copy, model, self._custom_ops)[1](False)

        results = self._loaded.run(
            (list(kinds.items()), list(picks.items())), lambda: run_inside(Hidden(), load), given
        )
        found = dict(zip(dict.fromkeys([*listed, *values]), results))
        rest = iter(results[len(found) :])
        steps = {
            name: (*itertools.islice(rest, 3), axis) for name, (*_, axis) in self._rounded.items()
        }
        return found, steps, {name: (pick, next(rest)) for name, pick in picks.items()}

    def _taken_apart(self, kinds: Mapping[str, Any], picks: Mapping[str, ties.Pick]) -> Any:
        import onnx

        from ... import dtypes

        model = onnx.load(self._path, load_external_data=False)
        graph = model.graph
        own = {name: f"{name}::made" for name in kinds}
        for node in graph.node:
            node.output[:] = [own.get(name, name) for name in node.output]
        known = [info for info in graph.value_info if info.name not in own]
        del graph.value_info[:]
        graph.value_info.extend(known)
        listed = [output.name for output in graph.output]
        for output in graph.output:
            output.name = own.get(output.name, output.name)
        more = [own[name] for name in kinds if name not in listed]
        beside = {
            f"{name}::{part}": source
            for name, (*sources, _) in self._rounded.items()
            for part, source in zip(_PARTS, sources)
        }
        beside |= {f"{name}::picked from": pick.source for name, pick in picks.items()}
        for made, source in beside.items():
            graph.node.append(onnx.helper.make_node("Identity", [source], [made]))
        graph.output.extend(onnx.ValueInfoProto(name=made) for made in (*more, *beside))
        graph.input.extend(
            onnx.helper.make_tensor_value_info(name, dtypes.number(kind), None)
            for name, kind in kinds.items()
        )
        return model


def _rounded(graph: Any) -> dict[str, tuple[str, str, str, int]]:
    """Map each value that is rounded to steps to its source, scale, zero point, and their axis."""
    makers = {name: node for node in graph.node for name in node.output}
    found = {}
    for node in graph.node:
        if node.op_type != "DequantizeLinear" or node.domain or len(node.input) < 3:
            continue
        maker = makers.get(node.input[0])
        same = maker is not None and maker.op_type == "QuantizeLinear" and not maker.domain
        if maker is not None and same and list(maker.input[1:]) == list(node.input[1:]):
            axis = next((a.i for a in node.attribute if a.name == "axis"), 1)
            found[node.output[0]] = (maker.input[0], node.input[1], node.input[2], axis)
    return found
