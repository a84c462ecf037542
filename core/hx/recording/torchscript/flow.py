"""Branches and loops of TorchScript: each becomes one If or Loop if a tensor or a size decides.

A block that writes to anything outside of it runs as in Python, and so does a block that no If or
Loop can hold: the choice of the block, or the number of rounds, is then fixed, and that is noted.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from torch.utils import _pytree as pytree

from ...errors import Unsupported
from ...findings import OPEN, Finding
from ...ir.sizes import dims, size_lists
from ...ir.sizes.size_polynomials import Atom, Poly
from ..memory.tensor_values import value_of
from ..recording import Recording
from .plain import is_number

# Tests of tensors that branches and loops of the graph can repeat.
TESTS: dict[str, Callable] = {
    "aten::Bool": lambda x: x, "aten::__not__": torch.logical_not,
    "aten::__and__": torch.logical_and, "aten::__or__": torch.logical_or,
}  # fmt: skip

UNSET = object()  # the result where a script has returned before
_ENDLESS = sys.maxsize  # rounds of a loop that a condition ends
# Nodes that change what they are given: a list, or an attribute; forks are not inspected.
_CHANGES = {"aten::append", "aten::extend", "aten::insert", "aten::pop", "aten::reverse",
            "aten::clear", "aten::_set_item", "aten::Delete", "aten::sort", "aten::remove",
            "prim::SetAttr", "prim::fork"}  # fmt: skip


class ScriptRun(Protocol):
    """A run of a graph, as far as its branches and loops need it."""

    recording: Recording
    decides: Deciding

    def block(self, block: Any, given: Sequence[Any]) -> Sequence[Any]: ...

    def truth(self, x: Any) -> bool: ...


# Branches.


def branch(run: ScriptRun, node: Any, test: Any) -> Sequence[Any]:
    """Run one block or the other; if a tensor decides, both, and the graph chooses."""
    first, second = node.blocks()
    if isinstance(test, torch.Tensor):
        found = None if _alone(run, node) else _either(run, node, test)
        if found is not None:
            return found
        test = run.truth(test)
    return run.block(first if test else second, [])


def _either(run: ScriptRun, node: Any, test: torch.Tensor) -> Sequence[Any] | None:
    """The results of both blocks, from which the graph chooses; None if it cannot."""
    first, second = node.blocks()
    before = _escape_count(run)
    took: list[tuple[list[Any], pytree.TreeSpec]] = []
    given: list[Sequence[Any]] = []  # by each side, not yet flattened

    def results(block: Any) -> list[Any]:
        values = run.block(block, [])
        if given:
            values = [_like(b) if a is UNSET else a for a, b in zip(values, given[0])]
        given.append(values)
        took.append(pytree.tree_flatten(values))
        return [_held(x) for x in took[-1][0]]

    if any(output.node().kind() == "prim::Uninitialized" for output in first.outputs()):
        # The second side has a form where the first has none: it goes first.
        first, second, test = second, first, torch.logical_not(test)
    try:
        found = torch.cond(test, lambda: results(first), lambda: results(second))
    except Exception as problem:
        # The block that is not taken may raise anything, and so may who compares the two.
        _note(run, "a branch", problem)
        return None
    if len(took) == 1:  # it is known which one
        return pytree.tree_unflatten(*took[0])
    (one, form), (other, also) = took
    # Equal results may differ in another run, if a side asked a question with another answer there.
    sure = _escape_count(run) == before
    made = [a if sure and _same(a, b) else x for a, b, x in zip(one, other, found)]
    if form != also or any(x is None and a is not None for a, x in zip(one, made)):
        _note(run, "a branch", "its sides give what is no tensor or number")
        return None
    return [
        run.truth(x) if isinstance(x, torch.Tensor) and _asks_else(run, output) else x
        for output, x in zip(node.outputs(), pytree.tree_unflatten(made, form))
    ]


def _escape_count(run: ScriptRun) -> int:
    """The number of times that a number or an answer has left the graph."""
    return sum(escape.count for escape in run.recording.findings.escapes.values())


def _like(x: Any) -> Any:
    """A placeholder of the form of a result: it is never read."""
    if not isinstance(x, torch.Tensor):
        return x
    with torch._C.DisableTorchFunction():  # it is of the other side, and has no value here
        shape, dtype = [1] * x.dim(), x.dtype
    return torch.zeros(shape, dtype=dtype)


def _held(x: Any) -> Any:
    """A block's result as a graph can hold it; None if it cannot."""
    if isinstance(x, bool):
        return torch.tensor(x)
    return x if isinstance(x, torch.Tensor) or is_number(x) else None


def _same(a: Any, b: Any) -> bool:
    if a is b:
        return True
    plain = type(a) is type(b) and isinstance(a, (bool, int, float, str))
    return plain and not dims.is_dynamic(a) and a == b


# Loops.


def loop(run: ScriptRun, node: Any, times: Any, goes_on: Any, *carried: Any) -> Sequence[Any]:
    """Run round by round; where the graph has to count the rounds, write a loop for the rest."""
    (body,) = node.blocks()
    i, state, tried = 0, list(carried), False
    while True:
        left = i < dims.plain(times)
        # Also where there are no rounds here: elsewhere there are some.
        if not tried and (dims.is_dynamic(times) or (left and isinstance(goes_on, torch.Tensor))):
            tried = True
            found = None if _alone(run, node) else _rounds(run, body, times, i, goes_on, state)
            if found is not None:
                return found
            if dims.is_dynamic(times):
                return _in_turn(run, body, times, goes_on, state)
        if not left or not run.truth(goes_on):
            break
        goes_on, *state = run.block(body, [i, *state])
        i += 1
    return state


def _in_turn(
    run: ScriptRun, body: Any, times: Any, goes_on: Any, state: Sequence[Any]
) -> Sequence[Any]:
    """Run rounds in Python; rounds of a `range` over a size become a loop, as in a model."""
    for i in size_lists.counted(times):
        if not run.truth(goes_on):
            break
        goes_on, *state = run.block(body, [i, *state])
    return state


def _rounds(
    run: ScriptRun, body: Any, times: Any, first: int, goes_on: Any, state: Sequence[Any]
) -> Sequence[Any] | None:
    """The results of the rest of a loop, from one round on; None if no graph can have it."""
    leaves, form = pytree.tree_flatten(state)
    kinds = [type(x) for x in leaves]
    if not all(isinstance(x, torch.Tensor) or is_number(x) for x in leaves):
        return None

    def as_state(tensors: Sequence[torch.Tensor]) -> Any:
        found = [_number(run, x, kind) for x, kind in zip(tensors, kinds)]
        return pytree.tree_unflatten(found, form)

    def is_on(again: torch.Tensor, i: torch.Tensor, *_: torch.Tensor) -> torch.Tensor:
        return again if most is None else torch.logical_and(again, i < most)

    def once(_: torch.Tensor, i: torch.Tensor, *now: torch.Tensor) -> tuple[torch.Tensor, ...]:
        again, *new = run.block(body, [_number(run, i, int), *as_state(now)])
        more, also = pytree.tree_flatten(new)
        if also != form:
            raise Unsupported(
                "a value that the loop carries has another structure in the next round"
            )
        return tuple(map(as_tensor, (again, i + 1, *more)))

    try:
        most = None if type(times) is int and times == _ENDLESS else as_tensor(times)
        begin = tuple(map(as_tensor, (goes_on, first, *leaves)))
        _, _, *ends = torch.while_loop(is_on, once, begin)
    except Exception as problem:
        # An error of the body, which then runs again, or of the comparison of carried values.
        _note(run, "the rounds of a loop", problem)
        return None
    return as_state(ends)


def as_tensor(x: Any) -> torch.Tensor:
    if isinstance(x, torch.Tensor):
        return x
    return torch.tensor(x, dtype=torch.float64) if isinstance(x, float) else torch.tensor(x)


def _number(run: ScriptRun, x: torch.Tensor, kind: type) -> Any:
    """The number in a tensor that a loop carries."""
    if issubclass(kind, torch.Tensor) or kind is bool:
        return x
    with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
        value = None if run.recording.running.busy else value_of(run.recording, x)
        now = x.item()
    if value is None or value.fixed:
        return now
    atom = Atom("item", (value,), now)
    return dims.DimFloat(atom) if issubclass(kind, float) else dims.dim(Poly.of(atom))


def _alone(run: ScriptRun, node: Any) -> bool:
    """Return True if the blocks of a node run as in plain Python, not as bodies of a graph.

    They do if nothing is recorded, or if a block changes something outside of it.
    """
    return run.recording.running.busy or _writes(node)


def _writes(node: Any) -> bool:
    """Return True if a block of a node changes something outside of it, judged by its nodes."""
    inner = [each for block in node.blocks() for each in block.nodes()]
    return any(_in_place(each.kind()) or _writes(each) for each in inner)


def _in_place(kind: str) -> bool:
    return kind in _CHANGES or (kind.endswith("_") and not kind.endswith("__"))


def _note(run: ScriptRun, what: str, why: Any) -> None:
    """Note why a decision is fixed; an incomplete recording of it left no trace in the graph."""
    found, messages = (
        Finding(OPEN, f"{what} of a script is fixed as recorded: {why}"),
        run.recording.findings.messages,
    )
    messages += [] if found in messages else [found]


# Who asks a truth value.


class Deciding:
    """A test for a truth value that only branches and loops ask: it may be a tensor."""

    def __init__(self, graph: Any) -> None:
        # Results of blocks, by name: the nodes, and the positions of their outputs.
        self._ends: dict[str, list[tuple[Any, int]]] = {}
        self._look(graph)

    def _look(self, block: Any) -> None:
        for node in block.nodes():
            for inner in node.blocks():
                for place, output in enumerate(inner.outputs()):
                    self._ends.setdefault(output.debugName(), []).append((node, place))
                self._look(inner)

    def __call__(self, output: Any, seen: frozenset[str] = frozenset()) -> bool:
        name = output.debugName()
        return name in seen or all(self._asks(use, name, seen | {name}) for use in output.uses())

    def _asks(self, use: Any, name: str, seen: frozenset[str]) -> bool:
        kind = use.user.kind()
        if kind in TESTS:
            return self(use.user.output(), seen)
        if kind == "prim::Return":
            found = [end for end in self._ends.get(name, ()) if end[1] == use.offset]
            return bool(found) and all(self._at_end(*end, seen) for end in found)
        return kind == "prim::If" or (kind == "prim::Loop" and use.offset == 1)

    def _at_end(self, node: Any, place: int, seen: frozenset[str]) -> bool:
        """Apply the same test to a result of a block."""
        if node.kind() == "prim::If":
            return self([*node.outputs()][place], seen)
        (body,) = node.blocks()
        goes_round = place and [[*node.outputs()][place - 1], [*body.inputs()][place]]
        return not goes_round or all(self(each, seen) for each in goes_round)


def is_truth(output: Any) -> bool:
    return output.type().kind() == "BoolType"


def _asks_else(run: ScriptRun, output: Any) -> bool:
    """Return True if a truth value is needed as a bool of Python."""
    return is_truth(output) and not run.decides(output)
