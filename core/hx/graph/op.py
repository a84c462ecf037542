"""`op`, the graph builder as converters hold it: `op.Conv(x, w, strides=[2, 2])` writes a node.

Python numbers become constants of the dtype that fits beside them, lists of sizes become int64
vectors (computed in the graph where a size may vary), and parameters become initializers.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Sequence
from operator import eq
from typing import Any

import torch

from .. import dtypes
from ..errors import BuilderError, ConverterError, Unsupported
from ..ir import shapes
from ..ir.sizes import dims, size_lists
from ..ir.value import Absent, Body, Constant, Value
from ..tensor_quantization import quantization
from . import blocks, complex_pairs, sparse_values
from .writers import GraphWriter


@dataclasses.dataclass(slots=True, frozen=True)
class Instead:
    """A function that a converter returns to have it run in place of the target's own body."""

    function: Callable[..., Any]


class Op:
    """The graph builder as a converter sees it.

    op.Name(*inputs, **attributes)        a node of ONNX; outputs=N for one with several
    op("my.domain", "Name", *inputs)      a node of another domain; version=N imports that version,
                                          results=[(dtype, shape), ...] says what it returns, where
                                          a word in a shape is a size that the data decides
    op.opset                              the opset that is written
    op.result                             the real output of the call: .dtype, .rank, .shape
    op.cast(x, dtype)                     x itself, or a Cast of it
    op.constant(numbers, dtype)           a constant
    op.complex(real, imaginary)           a complex value of two real ones; None means zeros
    op.parts(z)                           those two again; op.parts(z, whole=True) writes zeros out
    op.joined(x), op.pair(z)              the same with both parts as the last axis of one value
    op.sparse(places, numbers, shape)     a sparse value: int64 places [axes, count], a number each
    op.is_sparse(x)                       whether a value is sparse: no node can read such a one
    op.elements(x)                        its places and numbers; None where they are rows
    op.dense(x)                           its dense form, and any other value as it is
    op.sizes(list)                        an int64 vector of sizes
    op.size(n)                            a size that may have come as a tensor with one number
    op.listed(sizes)                      the vector that these are all numbers of, as x.tolist()
                                          gives them; None for others
    op.times(list)                        how often a list repeats what it begins with, as [x] * n
                                          does; None where no size says that
    op.same(a, b)                         whether two sizes or shapes always are equal
    op.at_most(a, b)                      whether one size is never larger than another
    op.larger(a, b)                       the larger of two sizes, as a size
    op.some(count)                        whether a number of elements never is 0
    op.contents(x)                        the tensor of a value that is the same at every run
    op.memory_order(x)                    the axes as they lie in memory; None where it has gaps
    op.recorded(size, why, equals=None)   the size in the recording, noted as a branch on it
    op.rounds(size)                       the same, as a number of results: noted as a loop
                                          over the size
    op.seen(size)                         the same, noted nowhere: to choose between two ways that
                                          are both right at every size
    op.quantization(tensor)               scale, zero point and axis of a quantized tensor
    op.value(tensor)                      the value of a real tensor: a parameter, or one that the
                                          model computed
    op.body(function, *inputs)            what a function writes, as the body of a Loop, If or Scan;
                                          op.input(dtype, shape) makes its inputs
    op.assign(x, value)                   says that the call wrote `value` into the tensor of `x`
    op.instead(function)                  to be returned: it runs in place of the target's own body,
                                          and the calls inside are converted
    op.refuse(why, hint)                  stops the export with the user's line
    """

    __slots__ = ("_builder", "_call")

    def __init__(self, builder: GraphWriter, call=None) -> None:
        self._builder = builder
        self._call = call

    def __getattr__(self, name: str):
        if not name[0].isupper():
            raise AttributeError(
                f"op has no {name!r}: nodes are named as in ONNX, with a capital (op.Relu)"
            )
        setattr(Op, name, _writes(name))  # from now on it is found without asking here
        return getattr(self, name)

    def __call__(
        self,
        domain: str,
        name: Any = None,
        /,
        *inputs,
        outputs: int | None = None,
        version: int | None = None,
        results: Sequence[tuple] | None = None,
        **attributes,
    ):
        domain, name, inputs = _named(domain, name, inputs)
        if version is not None:
            self._builder.custom_domain(domain, version)
        values = self._builder.emit(name, list(inputs), attributes, outputs, domain, results)
        return values[0] if outputs is None and len(values) == 1 else tuple(values)

    @property
    def opset(self) -> int:
        return self._builder.opset

    @property
    def result(self):
        """The call's real result, in its own structure: tensors as .dtype, .rank, .shape."""
        return self._call.result()

    def cast(self, x, dtype: torch.dtype) -> Value:
        if not isinstance(x, Value):
            return self.constant(x, dtype)
        return self._builder.cast(x, dtype)

    def constant(self, x, dtype: torch.dtype | None = None) -> Value:
        if isinstance(x, torch.Tensor):
            return self._builder.constant(x if dtype is None else x.to(dtype))
        return self._builder.number(x, dtype or dtypes.natural(x))

    def complex(self, real: Value, imaginary: Value | None = None) -> Value:
        return complex_pairs.value(self, real, imaginary)

    def parts(self, z: Value, whole: bool = False) -> tuple[Value, Value | None]:
        return complex_pairs.full(self, z) if whole else complex_pairs.parts(self, z)

    def joined(self, x: Value) -> Value:
        return complex_pairs.joined(self, x)

    def pair(self, z: Value) -> Value:
        return complex_pairs.pair(self, z)

    def sparse(self, places: Value, numbers: Value, shape) -> Value:
        return sparse_values.value(self, places, numbers, shape)

    @staticmethod
    def is_sparse(x: Value) -> bool:
        return x.sparse is not None

    def elements(self, x: Value) -> tuple[Value, Value] | None:
        return sparse_values.elements(self, x)

    def dense(self, x: Value) -> Value:
        return sparse_values.dense(self, x)

    def sizes(self, x) -> Value:
        """An int64 vector of ints, Dims and scalars; a Value that already is one stays."""
        if isinstance(x, Value):
            return x
        return self._builder.sizes.vector([self.size(n) for n in x])

    def size(self, n):
        """A size that may have come as a tensor with one number in it."""
        if not isinstance(n, Value):
            return n
        given = getattr(self._call, "given", None) or getattr(self._call, "numbers", None)
        found = given.size(n) if given is not None else None
        if found is None:
            raise Unsupported("a size is a tensor whose value is only known when the file runs")
        return found

    @staticmethod
    def listed(numbers) -> Value | None:
        """Return the vector that a list of numbers was read from, if its length is known only at run time."""
        return shapes.listed(numbers)

    def times(self, items):
        """Return how often a list repeats its first items, if a size determines that."""
        if type(items) is not size_lists.Given or items.times is None:
            return None
        if (given := getattr(self._call, "given", None)) is not None:
            given.repeat_note = None
        return items.times

    @staticmethod
    def same(a, b) -> bool:
        """Return True if two sizes, or shapes, are equal in every run; never branches on a size."""
        if isinstance(a, (tuple, list)):
            return shapes.same_shape(a, b)
        return shapes.same(a, b)

    def memory_order(self, x: Value) -> list[int] | None:
        """The axes of a tensor from the slowest to the fastest, where no memory is skipped."""
        from ..tensor_bytes import memory_order

        given = getattr(self._call, "given", None)
        for tensor, value in zip(given.tensors, given.values) if given is not None else ():
            if value is x:
                return memory_order(tensor)
        return None

    @staticmethod
    def at_most(a, b) -> bool:
        """Return True if one size is known never to be larger than another."""
        return shapes.at_most(a, b)

    @staticmethod
    def larger(a, b):
        """The larger of two sizes; max() would make a plain number of it."""
        return dims.larger(a, b)

    def some(self, count) -> bool:
        """Return True if a number of elements is at least 1 whenever the inputs have elements."""
        if self._builder.lengths is not None and type(count) is dims.Dim:
            # It may be known of the first round alone, of what is cut out there: rounds are alike.
            atoms = {atom for mono in count.poly.terms for atom in mono}
            if any(atom.kind != "size" for atom in atoms):
                return False
        return shapes.some(count)

    def contents(self, x: Value) -> torch.Tensor | None:
        """Return the contents of a value that no input changes; None where they are not known."""
        if isinstance(x, Absent):
            return None
        if isinstance(x, Constant):
            return x.tensor
        given = getattr(self._call, "given", None)
        for tensor, value in zip(given.tensors, given.values) if given is not None else ():
            if value is x and value.fixed and not tensor.is_meta:
                return tensor
        return None

    def recorded(self, size, why: str, equals: int | None = None) -> int:
        """The size in the recording, on which the call chose between two ways: noted as a branch.

        `equals` is the number that decided; without it another size is another way.
        """
        asked = (int, size) if equals is None else (eq, size, equals)
        return self._decided("branch", size, why, *asked)

    def rounds(self, size) -> int:
        """The size in the recording, as a number of results; an escape notes the loop over them.

        `unbind` has as many results as an axis has rows.
        """
        if type(size) is dims.Dim and not size.poly.named():  # a number from data decides
            told = f"{dims.plain(size)} times, once for each that was found"
            return self._decided("rounds", size, told, int, size)
        told = f"{dims.plain(size)} times, over {dims.spelled(size)}"
        return self._decided("range", size, told, int, size)

    def _decided(self, kind: str, size, told: str, *asked) -> int:
        replayed = getattr(self._call, "replayed", False)  # a view again: told already
        if dims.is_dynamic(size) and self._call is not None and not replayed:
            if kind != "branch":
                self._call.many = size
            origin = self._builder.origin
            where = None if origin is None or not origin.file else origin.where
            self._builder.note_escape(kind, told, where, [dims.asked(*asked)])
        return dims.plain(size)

    @staticmethod
    def seen(size) -> int:
        """The size in the recording, where nothing but speed or the last digits depends on it."""
        return dims.plain(size)

    def value(self, x) -> Value:
        """The value of a real tensor: a parameter, or one that the model computed."""
        return x if isinstance(x, Value) else self._builder.value_of(x)

    def assign(self, x: Value, value: Value) -> None:
        self._call.assign(x, value)

    def instead(self, function) -> Instead:
        """Other Python code for the target, which takes the same arguments."""
        given = getattr(self._call, "given", None)
        if given is not None:
            _require_takes(function, given.args, given.kwargs)
        return Instead(function)

    def If(self, condition, *, then_branch: Body, else_branch: Body, outputs: int | None = None):
        values = blocks.write_if(self._builder, condition, then_branch, else_branch)
        return _as_asked("If", values, outputs)

    def Loop(self, rounds, going, *states, body: Body, outputs: int | None = None):
        values = blocks.write_loop(self._builder, rounds, going, states, body)
        return _as_asked("Loop", values, outputs)

    def Scan(self, *inputs, body: Body, num_scan_inputs: int, outputs=None, **attributes):
        first = len(inputs) - num_scan_inputs
        states, slices = inputs[:first], inputs[first:]
        values = blocks.write_scan(self._builder, states, slices, body, **attributes)
        return _as_asked("Scan", values, outputs)

    def body(self, function, *inputs: Value) -> Body:
        """A subgraph for op.If, op.Loop or op.Scan: what `function(*inputs)` writes."""
        with blocks.inner_nodes(self._builder) as nodes:
            outputs = function(*inputs)
        outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
        return blocks.block(inputs, outputs, nodes)

    def input(self, dtype, shape) -> Value:
        """A new value to serve as the input of a body."""
        return self._builder.value(dtype, shape)

    @staticmethod
    def quantization(tensor: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, int | None]:
        """Return scale, zero point and axis of a quantized tensor; None as axis for one scale."""
        return quantization(tensor)

    def refuse(self, why: str, hint: str = "") -> None:
        raise Unsupported(why, hint=hint)


def _require_takes(function, args: tuple, kwargs: dict) -> None:
    """Check the signature here, where the converter's line is known."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a compiled function without a signature
        return
    try:
        signature.bind(*args, **{k: v for k, v in kwargs.items() if k != "out"})  # hx writes that
    except TypeError as problem:
        name = getattr(function, "__name__", "the function")
        raise ConverterError(
            f"op.instead({name}): {name}{signature} does not take what the call has: {problem}",
            hint="it takes the arguments of the target, without op",
        ) from None


def _writes(name: str):
    """The method of this name, which writes such a node."""

    def node(self: Op, *inputs, outputs: int | None = None, **attributes):
        values = self._builder.emit(name, inputs, attributes, outputs)
        return values[0] if len(values) == 1 and outputs is None else tuple(values)

    return node


def _as_asked(name: str, values: list[Value], outputs: int | None):
    """The outputs of a node with bodies: one value, or a tuple as soon as `outputs` is given."""
    if outputs is not None and outputs != len(values):
        raise BuilderError(
            f"{name} has {len(values)} outputs, and outputs={outputs} asks for others"
        )
    return values[0] if outputs is None and len(values) == 1 else tuple(values)


def _named(domain: Any, name: Any, inputs: tuple) -> tuple[str, str, tuple]:
    """Domain, name and inputs of `op("com.acme", "Spline", x)`, or `op("com.acme::Spline", x)`."""
    if isinstance(domain, str) and "::" in domain:
        inputs = inputs if name is None and not inputs else (name, *inputs)
        domain, _, name = domain.partition("::")
    if not (isinstance(domain, str) and isinstance(name, str) and domain and name):
        raise BuilderError(
            f"op({domain!r}, {name!r}) names no operator",
            hint='write its domain and its name: op("com.acme", "Spline", x)',
        )
    return domain, name, inputs
