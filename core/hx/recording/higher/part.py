"""A function that the model passes to another, recorded into a graph of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from ...errors import Unaccounted, Unsupported
from ...graph import complex_pairs
from ...graph.blocks import block, inner_nodes
from ...graph.op import Op
from ...ir.sizes import dims
from ...ir.sizes.size_polynomials import Atom, Poly
from ...ir.value import Body, Node, Value
from ...text import with_article
from ..memory.tensor_values import output_value, value_of
from ..recording import Recording


@dataclass
class Part:
    """A function of the model, recorded into a graph of its own."""

    leaves: list[Any]  # tensors, numbers and None
    spec: Any
    values: list[Value | None]  # of each leaf that a graph can hold
    edges: list[Value]  # what the body gives for these
    nodes: list[Node]

    def body(self, inputs: Sequence[Value] = ()) -> Body:
        return block(inputs, self.edges, self.nodes)


class Higher:
    """One call of such a function, on its way into the graph."""

    def __init__(self, recording: Recording, target: str) -> None:
        self.recording = recording
        self.builder = recording.builder
        self.target = target
        self.origin = recording.position.origin(target, "hx")

    # Recording.

    def part(self, function: Callable[[], Any]) -> Part:
        """Record a function into nodes of its own."""
        self._read_all()
        live = self.recording.memory.live
        around, live.around = live.around, set(live.families.values())
        try:
            with inner_nodes(self.builder) as nodes:
                leaves, spec = pytree.tree_flatten(function())
                with self.engine():
                    values = [self.value(leaf) for leaf in leaves]
                    edges = [self.edge(value) for value in values if value is not None]
            return Part(leaves, spec, values, edges, nodes)
        finally:
            self._leave_inside(live.around)
            live.around = around

    def _read_all(self) -> None:
        """Read all tensors that were written to: a value computed inside is unknown outside."""
        recording = self.recording
        for entry in list(recording.memory.live.entries.values()):
            tensor = entry()
            if tensor is not None and entry.generation != entry.family.generation:
                try:
                    with self.engine():
                        value_of(recording, tensor)
                except Unaccounted:
                    continue  # whoever reads it will be told

    def _leave_inside(self, around: set) -> None:
        """Forget values of live tensors that were made inside: the outer graph has none for
        them.
        """
        live = self.recording.memory.live
        for entry in list(live.entries.values()):
            tensor = entry()
            if tensor is not None and entry.family not in around and not entry.value.is_constant:
                live.leave(tensor)

    @contextlib.contextmanager
    def engine(self) -> Iterator[None]:
        """`with self.engine():` calls of torch are the engine's own."""
        recording, builder = self.recording, self.builder
        busy, recording.running.busy = recording.running.busy, True
        outer, builder.origin = builder.origin, self.origin
        try:
            with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
                yield
        finally:
            recording.running.busy, builder.origin = busy, outer

    def value(self, leaf: Any) -> Value | None:
        if leaf is None:
            return None
        if isinstance(leaf, torch.Tensor):
            return value_of(self.recording, leaf)
        if isinstance(leaf, float):
            return self.builder.number(leaf, torch.float64)
        if isinstance(leaf, (bool, int)):
            return output_value(self.builder, leaf)
        raise Unsupported(
            f"{self.target}: a function returns {with_article(leaf)}, which a graph cannot hold",
            where=self.recording.position.where(),
        )

    def edge(self, value: Value) -> Value:
        """The form in which a value enters or leaves a body: both parts of complex numbers in one."""
        return (
            complex_pairs.pair(Op(self.builder), value)
            if value.dtype in complex_pairs.REAL
            else value
        )

    def input(
        self, like: Value, real: torch.Tensor, shape: Sequence[int]
    ) -> tuple[torch.Tensor, Value]:
        """A tensor for a function to be called with, and the input of the body that it is."""
        made = real.detach().clone()
        if like.dtype in complex_pairs.REAL:
            edge = self.builder.value(complex_pairs.REAL[like.dtype], (*shape, 2))
            self.recording.memory.live.bind(made, complex_pairs.joined(Op(self.builder), edge))
        else:
            edge = self.builder.value(like.dtype, shape)
            self.recording.memory.live.bind(made, edge)
        return made, edge

    # Results.

    def bind(
        self, real: torch.Tensor, value: Value, shape: Sequence[int | None] | None
    ) -> torch.Tensor:
        """A real result as the tensor that the model gets: no view of anything else."""
        made = real.detach().clone()
        told: list[int | None] = list(shape) if shape is not None else [None] * made.dim()
        sizes = [
            dims.Dim.leaf(value, axis, n) if size is None else size
            for axis, (size, n) in enumerate(zip(told, made.shape))
        ]
        value.sized([*sizes, 2] if made.is_complex() else sizes)
        if made.is_complex():
            value = complex_pairs.joined(Op(self.builder), value)
        self.recording.memory.live.bind(made, value)
        return made

    def outside(self, n: int, nodes: list[Node]) -> int | None:
        """A size of a body's output, if the graph around can compute it too."""
        if not isinstance(n, dims.Dim):
            return int(n)
        inside = {id(o) for node in nodes for o in node.outputs}
        return None if _reaches(n.poly, inside) else n

    def refuse(self, what: str, hint: str = "") -> None:
        raise Unsupported(
            f"{self.target}: {what}", where=self.recording.position.where(), hint=hint
        )

    def done(self) -> None:
        converted = self.recording.tallies.converted
        converted[self.target] = converted.get(self.target, 0) + 1

    def real(self, function: Callable[[], Any]) -> Any:
        """Call a function unrecorded and return PyTorch's own result.

        No mode may be active either: PyTorch's own operators of this kind check for one.
        """
        with self.engine(), _disable_current_modes():
            return function()


def _reaches(x: Any, inside: set[int]) -> bool:
    """Return True if a size was computed from a value that only exists inside a body."""
    if isinstance(x, Poly):
        return any(_reaches(atom, inside) for mono in x.terms for atom in mono)
    if isinstance(x, Atom):
        return any(_reaches(a, inside) for a in x.args)
    return isinstance(x, Value) and id(x) in inside


def kind(value: Value) -> tuple:
    return value.dtype, value.rank


def result_of(call: Higher, leaf: Any, value: Value, shape: Sequence[int | None] | None) -> Any:
    if isinstance(leaf, torch.Tensor):
        return call.bind(leaf, value, shape)
    value.sized(())
    if isinstance(leaf, int) and not isinstance(leaf, bool):
        return dims.dim(Poly.of(Atom("item", (value,), int(leaf))))
    if isinstance(leaf, float):
        return dims.DimFloat(Atom("item", (value,), float.__float__(leaf)))
    return call.refuse(f"a function returns {with_article(leaf)}, and not a tensor")


def check_carried(call: Higher, states: Sequence[Value], ends: Sequence[Value | None]) -> None:
    """Raise if a carried value changes its form from round to round."""
    if len(states) != len(ends):
        call.refuse(f"{len(states)} tensors are carried, and the function returns {len(ends)}")
    for state, end in zip(states, ends):
        if end is None or kind(end) != kind(state):
            call.refuse("what is carried changes its dtype or rank from step to step")
        elif tuple(map(dims.plain, end.shape or ())) != tuple(map(dims.plain, state.shape or ())):
            call.refuse("what is carried changes its shape from step to step")


def named(args: tuple, kwargs: dict, /, **parameters: Any) -> list[Any]:
    """Arguments in the order of the parameters, with their defaults."""
    given = {**parameters, **dict(zip(parameters, args)), **kwargs}
    return [given[name] for name in parameters]
