"""A graph that is right part by part, where rounding or ties decide what comes out in the end.

A model may ask which of two numbers is larger that only rounding tells apart: a threshold, an
argmax, a place in a sorted list. PyTorch and onnxruntime do not round alike, and after such a
question everything may differ, though nothing is wrong. The results prove nothing then, but the
parts do: each value that the model had becomes an input of the file, and what the file makes of it
from the model's own values before it an output. Where all of these agree, within what one step may
be off by, the graph computes what the model computes, step by step; a mistake in it, and a size or
a number that was baked in, would show in its own part.

But a part is held to its largest value, and a later step may live on small ones: the logarithm of a
sigmoid that onnxruntime rounds to 0. So something must be there that rounding may decide, where the
results part: such a question, of numbers that are not whole; or numbers that are alike to the last
digits, and what is computed of them is not; or a model that itself gives that different an answer
when its inputs move by a unit in the last place.

Which of equal elements is picked is such a question, too: PyTorch and onnxruntime each pick one, and
what follows from the one may be nothing like what follows from the other (see `ties`).

No part shows what onnxruntime makes of several nodes together. Where the file is right without such
optimizations, and wrong with them, time after time, it was not rounding that decided.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import HxError, is_of_the_world
from ..registration import OPSETS
from ..runtime import Refused
from ..saving import wire
from ..saving.claims import Hidden
from ..surely import inside
from . import ties
from .nodes import BUDGET, Kept, NodeCheck, NodeTable, Recorded, check_nodes, recorded_of
from .tapped import Loaded, Tapped

if TYPE_CHECKING:
    import onnx
    import torch

    from ..recording.capture import Capture
    from .verify import Case, Run


LAST_DIGITS = 1e-5  # what a few dozen roundings of float32 leave of an element's own digits
_PARTS = ("before", "scale", "zero")
# Operators that jump: of two inputs that only rounding tells apart they may make different things.
_JUMP = frozenset(
    """ArgMax ArgMin Ceil DynamicQuantizeLinear Equal Floor Greater GreaterOrEqual GridSample Hardmax
    IsInf IsNaN Less LessOrEqual Mod NonMaxSuppression NonZero QuantizeLinear Round Sign TopK
    Unique""".split()
)  # fmt: skip


class Parts:
    """The parts of a file, held against the model's; what runs them is loaded once."""

    def __init__(
        self, captured: Capture, path: Path, target: Path, custom_ops: Sequence[Any] = ()
    ) -> None:
        self._captured, self._path, self._target = captured, path, target
        self._custom_ops = custom_ops

    @functools.cached_property
    def _model(self) -> onnx.ModelProto:
        return wire.skeleton(self._path)

    @functools.cached_property
    def _tapped(self) -> Tapped:
        return Tapped(self._path, self._target, self._model, self._custom_ops)

    @functools.cached_property
    def _apart(self) -> _Apart:
        return _Apart(self._path, self._target, self._model.graph, self._custom_ops)

    def what_decides(
        self, case: Case, magnifies: Callable[[], bool], another: Callable[[int], list[Case]]
    ) -> str:
        """Why and where the results part, if all parts are right on these inputs; else nothing.

        `magnifies` says whether rounding of the inputs moves the model as far as the results are
        apart; `another` draws inputs of the same sizes, and asks the model.
        """
        if self._captured.opset not in OPSETS:  # a file of somebody else's
            return ""
        try:
            recorded = recorded_of(self._captured, case, Kept(BUDGET, 0), self._model.graph)
        except Exception as problem:  # the model's own, of any kind: it refuses to run again
            if is_of_the_world(problem):
                raise
            return ""  # then there are no parts to look at
        try:
            tied = self._right(case, recorded)
            if tied is None:
                return ""
            table = check_nodes(
                self._captured, self._path, case, target=self._target, until_off=True,
                custom_ops=self._custom_ops, recorded=recorded, tapped=self._tapped,
            )  # fmt: skip
            first = table.first_off
            if not tied and not _jumps(self._model.graph, table, first) and not magnifies():
                return ""
            drawn = itertools.chain.from_iterable(map(another, range(2)))
            cases = itertools.chain([case], drawn)
            if _by_optimizer(self._path, cases, self._custom_ops, table.outputs):
                return ""
        except (Refused, HxError, OSError):  # what does not run again proves nothing
            return ""
        equal = [row for row in table.rows if row.name in tied]
        picked = ", ".join(map(_place, equal))
        calls = [(row.target, row.where) for row in equal]
        if equal and (first is None or (first.target, first.where) in calls):
            return f"ties decide at {picked}"
        rounded = f"rounding decides at {_place(first) if first else 'the end of the graph'}"
        return f"{rounded}, and ties at {picked}" if equal else rounded

    def _right(self, case: Case, recorded: Recorded) -> set[str] | None:
        """The nodes that pick others of equal elements, if all parts are right but for that."""
        from .halves import passed
        from .verify import compared

        _, names, kept = recorded
        if kept.size > BUDGET or kept.unseen:
            return None
        model = self._model
        made = {name for node in model.graph.node for name in node.output if name}
        values = {names[id(v)]: t for v, t in kept.pairs if names.get(id(v)) in made}
        coarse = passed(model) if case.computed is not None else ()
        ends = {o.name: want for o, want in zip(model.graph.output, case.expected)}
        if any(
            compared(values[name], want, 1).problem for name, want in ends.items() if name in values
        ):
            return None  # the model does not agree with itself

        def right(name: str, got: torch.Tensor) -> bool:
            want = values[name] if name in values else ends[name]
            if name in steps:
                got, want = _before_rounding(steps[name], want)
            computed = case.computed if name in coarse else None
            return not compared(got, want, 1, computed=computed).problem

        results, steps, picked = self._apart(case.feeds, values)
        tied = set()
        for name, got in results.items():
            if right(name, got):
                continue
            pick, x = picked.get(name, (None, None))
            want = values[name] if name in values else ends[name]
            if pick is None or not ties.same(pick, x, got, want.cpu()):
                return None
            tied.add(pick.node)
        return tied


def _by_optimizer(
    path: Path,
    cases: Iterable[Case],
    custom_ops: Sequence[Any],
    written: Sequence[torch.Tensor] = (),
) -> bool:
    """Whether it is right each time as it is written, and wrong each time as it is optimized.

    `written`, where it is known, is what it has given for the first case as it is written.
    """
    from .verify import compared, depth, loader

    model = wire.skeleton(path)
    if any(node.op_type == "QuantizeLinear" for node in model.graph.node):
        return False  # optimized, steps are computed in whole numbers, which rounds otherwise
    steps = depth(model)

    def right(results: Iterable[torch.Tensor], case: Case) -> bool:
        pairs = zip(results, case.expected, strict=True)
        return all(
            not compared(got, want, steps, computed=case.computed).problem for got, want in pairs
        )

    cases = iter(cases)
    first = next(cases)
    if written and not right(written, first):
        return False
    load = loader(path, model, custom_ops)[1]
    plain, optimized = load(False), load(True)
    return all(
        right(plain(case.feeds), case) and not right(optimized(case.feeds), case)
        for case in itertools.chain([first], cases)
    )


def _place(row: NodeCheck) -> str:
    return f"{row.op} of {row.target or '?'} at {row.where}"


def _jumps(graph: onnx.GraphProto, table: NodeTable, off: NodeCheck | None) -> bool:
    """Whether a number is asked which of two it is, from the last results that agree to where they
    part; or whether these agree in all digits but the last."""
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
    """The values that no rounding can have moved: whole numbers, truth values, texts."""
    from ..tensors import dtypes

    listed = [
        (info.name, info.type.tensor_type.elem_type) for info in (*graph.input, *graph.value_info)
    ]
    listed += [(weight.name, weight.data_type) for weight in graph.initializer]
    rounded = {number for number, kind in dtypes.FROM_NUMBER.items() if kind.is_floating_point}
    return {"", *(name for name, number in listed if number and number not in rounded)}


def _to_whole(node: Any) -> bool:
    from ..tensors import dtypes

    to = [a.i for a in node.attribute if a.name == "to"] if node.op_type == "Cast" else []
    kind = dtypes.FROM_NUMBER.get(to[0]) if to else None
    return kind is not None and not kind.is_floating_point


def _before_rounding(steps: tuple, want: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """What was rounded to steps, and the nearest number to it that is rounded as the model's was."""
    import torch

    before, scale, zero, axis = steps
    if scale.dim():
        scale, zero = (n.reshape(-1, *[1] * (before.dim() - 1 - axis)) for n in (scale, zero))
    ends = torch.iinfo(zero.dtype)
    low, high = ((n - zero.to(scale.dtype)) * scale for n in (ends.min, ends.max))
    got = torch.minimum(torch.maximum(before, low), high)
    return got, torch.minimum(torch.maximum(got, want - scale / 2), want + scale / 2)


class _Apart:
    """A file that takes each value as an input, and gives what it makes of those before it."""

    def __init__(
        self, path: Path, target: Path, graph: onnx.GraphProto, custom_ops: Sequence[Any]
    ) -> None:
        self._path, self._target, self._custom_ops = path, target, custom_ops
        self._graph, self._rounded = graph, _rounded(graph)
        self._loaded = Loaded(path)

    def __call__(
        self, feeds: Mapping[str, torch.Tensor], values: Mapping[str, torch.Tensor]
    ) -> tuple[dict[str, torch.Tensor], dict[str, tuple], dict[str, tuple]]:
        """What the file makes of each value, and of its outputs, from the model's values before it.

        And for those that it rounds to steps: what they were before, the scale, the zero point, and
        the axis that these are along. And for indices that may differ where elements are equal: how
        they pick, and from which elements.
        """
        listed = [output.name for output in self._graph.output]
        given = {**feeds, **values}
        picks = ties.picks(self._graph, given, dict.fromkeys([*values, *listed]))
        kinds = {name: tensor.dtype for name, tensor in values.items()}

        def load(hidden: Hidden) -> Run:
            from .verify import loader

            model = self._taken_apart(kinds, picks)
            copy = hidden.create(self._target).path
            copy.write_bytes(model.SerializeToString())
            return loader(copy, model, self._custom_ops)[1](False)

        results = self._loaded.run(
            (list(kinds.items()), list(picks.items())), lambda: inside(Hidden(), load), given
        )
        found = dict(zip(dict.fromkeys([*listed, *values]), results))
        rest = iter(results[len(found) :])
        steps = {
            name: (*itertools.islice(rest, 3), axis) for name, (*_, axis) in self._rounded.items()
        }
        return found, steps, {name: (pick, next(rest)) for name, pick in picks.items()}

    def _taken_apart(self, kinds: Mapping[str, Any], picks: Mapping[str, ties.Pick]) -> Any:
        import onnx

        from ..tensors import dtypes

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
    """What is rounded to steps, and from what: its name, scale and zero point, and their axis."""
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
