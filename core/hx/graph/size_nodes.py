"""Nodes that compute sizes: a Dim is computed again from the tensors that it came from."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch

from ..ir.sizes.bounds import never_negative
from ..ir.sizes.dims import Dim, DimFloat
from ..ir.sizes.size_polynomials import Atom, Poly, factors_of, text_of
from ..ir.value import Value
from .writers import GraphWriter

SHORTEST_LIST = 3  # sizes: fewer are not taken for a list
_WHOLE = {"mod": "Mod", "min": "Min", "max": "Max", "pow": "Pow", "and": "BitwiseAnd"}
_FLOATS = {"fadd": "Add", "fmul": "Mul", "fdiv": "Div", "fpow": "Pow", "fmin": "Min", "fmax": "Max",
           "flog": "Log", "fexp": "Exp", "fsin": "Sin", "fcos": "Cos", "ftanh": "Tanh", "fatan": "Atan",
           "ferf": "Erf"}  # fmt: skip


def _of_many(key: Any) -> bool:
    """Return True for the largest, or the smallest, of many sizes that are known at run time only."""
    if not isinstance(key, Atom) or key.kind not in ("max", "min"):
        return False
    if "many" not in key.facts:
        key.facts["many"] = not key.named() and _picked_from(key) >= SHORTEST_LIST
    return key.facts["many"]


def _is_total(key: Any) -> bool:
    """Return True for a number read from a tensor, and for a sum of such numbers."""
    if not isinstance(key, Poly):
        return False
    return all(
        c == 1 and len(mono) == 1 and mono[0].kind == "item" for mono, c in key.terms.items()
    )


def _of_all(key: Any) -> bool:
    return _of_many(key) or _is_total(key)


def _picked_from(atom: Atom) -> int:
    """Count the sizes of which it picks the largest, or the smallest."""
    if "picked from" not in atom.facts:
        inside = (poly.atom for poly in atom.args)
        atom.facts["picked from"] = sum(
            _picked_from(each) if each is not None and each.kind == atom.kind else 1
            for each in inside
        )
    return atom.facts["picked from"]


class Sizes:
    """Writes the nodes that compute sizes, mostly each once. A size is a one-element int64 vector."""

    def __init__(self, builder: GraphWriter) -> None:
        self.builder = weakref.proxy(builder)  # which holds this: no cycle keeps a graph alive
        self.named = builder.dialect.named_sizes
        self._known: dict[Any, Value] = {}
        self._log: list[Any] = []
        # Else anew for whoever reads it: what is written twice is merged in the end.
        self.once = True

    def mark(self) -> int:
        return len(self._log)

    def forget(self, mark: int) -> None:
        """Forget all that was written since `mark`: its nodes are gone."""
        for key in self._log[mark:]:
            self._known.pop(key, None)
        del self._log[mark:]

    @contextlib.contextmanager
    def _one_reader(self) -> Iterator[None]:
        """Write all that this reader needs twice, once.

        The largest of a list of sizes is shared by all readers: it is as long as the list, and each
        round that pads to it would be as long.
        """
        kept = self._known
        if not self.once:
            self._known = {key: value for key, value in kept.items() if _of_all(key)}
        try:
            yield
        finally:
            if not self.once:
                kept.update({key: value for key, value in self._known.items() if _of_all(key)})
            self._known = kept

    def _keep(self, key, value: Value) -> Value:
        self._known[key] = value
        self._log.append(key)
        return value

    def scope(self, empty: bool = False) -> dict:
        """Enter a subgraph, whose sizes are not visible outside. Return what `restore` takes.

        With `empty`, the sizes outside are not visible in it either.
        """
        kept = self._known
        self._known = {} if empty else dict(kept)
        return kept

    def restore(self, kept: dict) -> None:
        self._known = kept

    def _emit(self, op: str, *inputs, **attributes) -> Value:
        return self.builder.emit(op, list(inputs), attributes)[0]

    def vector(self, sizes) -> Value:
        """An int64 vector of ints and Dims."""
        items = [n if type(n) is Dim else int(n) for n in sizes]
        if not any(type(n) is Dim for n in items):
            return self.builder.number(items, torch.int64)
        key = ("vector", tuple(n.poly if type(n) is Dim else n for n in items))
        found = self._known.get(key)
        if found is None:
            with self._one_reader():
                parts = list(self._parts(items))
            found = parts[0] if len(parts) == 1 else self._emit("Concat", *parts, axis=0)
            # A copy of the value would lose what is in it: the elements belong to this node.
            found.elements = tuple(items)
            if self.once:
                self._keep(key, found)
        return found

    def _parts(self, items):
        """Yield runs of numbers as one constant, runs of axes of one value as one Shape node."""
        i = 0
        while i < len(items):
            end = i + 1
            if type(items[i]) is not Dim:
                while end < len(items) and type(items[end]) is not Dim:
                    end += 1
                yield self.builder.number(items[i:end], torch.int64)
            else:
                leaf = self._leaf(items[i].poly)
                if leaf is None:
                    yield self.size(items[i].poly)
                else:
                    value, axis = leaf
                    while end < len(items) and type(items[end]) is Dim:
                        if self._leaf(items[end].poly) != (value, axis + end - i):
                            break
                        end += 1
                    yield self._shape(value, axis, axis + end - i)
            i = end

    def _leaf(self, poly: Poly) -> tuple[Value, int] | None:
        if len(poly.terms) != 1:
            return None
        ((mono, c),) = poly.terms.items()
        atoms, c = factors_of(mono, c)
        if c != 1 or len(atoms) != 1 or atoms[0].kind != "size":
            return None
        return self._source(atoms[0])

    def _source(self, atom: Atom) -> tuple[Value, int]:
        source, axis = atom.args
        return self.named[source] if isinstance(source, str) else (source, axis)

    def _shape(self, value: Value, start: int, end: int) -> Value:
        key = ("shape", value, start, end)
        found = self._known.get(key)
        if found is None:
            whole = start == 0 and value.shape is not None and end == value.rank
            bounds = {} if whole else {"start": start, "end": end}
            found = self._keep(key, self._emit("Shape", value, **bounds))
        return found

    def size(self, poly: Poly) -> Value:
        """A polynomial, as a one-element vector."""
        constant = poly.constant
        if constant is not None:
            return self.builder.number([constant], torch.int64)
        found = self._known.get(poly)
        if found is None:
            found = self._keep(poly, self._sum(poly))
            found.elements = (Dim(poly),)
        return found

    def _sum(self, poly: Poly) -> Value:
        """Add up its terms; a running total continues from its last value."""
        if len(poly.terms) > 1 and _is_total(poly):
            for last in reversed(poly.terms):
                before = self._known.get(poly + Poly({last: -1}))
                if before is not None:
                    return self._emit("Add", before, self._term(last, 1))
        plus: list[Value] = []
        minus: list[Value] = []
        for mono, c in sorted(
            poly.terms.items(), key=lambda t: (not t[0], text_of(t[0][:1]), len(t[0]))
        ):
            (plus if c > 0 else minus).append(self._term(mono, abs(c)))
        total = plus[0] if plus else self.builder.number([0], torch.int64)
        for term in plus[1:]:
            total = self._emit("Add", total, term)
        for term in minus:
            total = self._emit("Sub", total, term)
        return total

    def _term(self, mono, c: int) -> Value:
        if not mono:
            return self.builder.number([c], torch.int64)
        atoms, c = factors_of(mono, c)
        factors = [self._atom(a) for a in atoms]
        if c != 1:
            factors.append(self.builder.number([c], torch.int64))
        total = factors[0]
        for factor in factors[1:]:
            total = self._emit("Mul", total, factor)
        return total

    def _atom(self, atom: Atom) -> Value:
        found = self._known.get(atom)
        if found is None:
            found = self._keep(atom, self._compute(atom))
        return found

    def _compute(self, atom: Atom) -> Value:
        kind, args = atom.kind, atom.args
        if kind == "size":
            value, axis = self._source(atom)
            return self._shape(value, axis, axis + 1)
        if kind == "item":
            return self._flat(args[0], torch.int64)
        if kind == "part":
            return self._emit(
                "Div", self._atom(args[0]), self.builder.number([args[1]], torch.int64)
            )
        if kind in ("floor", "ceil", "round", "trunc"):
            x = self.float(args[0])
            if kind != "trunc":
                x = self._emit(kind.capitalize(), x)
            return self.builder.cast(x, torch.int64)
        a, b = map(self.size, args)
        if kind == "div":
            if never_negative(args[0]) and never_negative(args[1]):
                return self._emit("Div", a, b)
            # ONNX divides integers towards zero, Python towards minus infinity.
            return self._emit("Div", self._emit("Sub", a, self._emit("Mod", a, b)), b)
        return self._emit(_WHOLE[kind], a, b)

    def _flat(self, value: Value, dtype) -> Value:
        if value.rank == 0:  # as a list of such is stacked
            flat = self._emit("Unsqueeze", value, [0])
        else:
            flat = self._emit("Reshape", value, [1]) if value.rank != 1 else value
        return self.builder.cast(flat, dtype)

    def float(self, atom: Atom) -> Value:
        """A float expression, as a one-element vector of doubles."""
        found = self._known.get(("float", atom))
        if found is None:
            # The innermost first: a sum that goes on for a thousand steps is as deep as that.
            for inner in _innermost_first(atom, lambda each: ("float", each) in self._known):
                found = self._keep(("float", inner), self._float(inner))
        assert found is not None
        return found

    def _float(self, atom: Atom) -> Value:
        kind, args = atom.kind, atom.args
        if kind == "fnum":
            return self.builder.number([args[0]], torch.float64)
        if kind == "int":
            return self.builder.cast(self.size(args[0]), torch.float64)
        if kind == "item":
            return self._flat(args[0], torch.float64)
        if kind in ("fatan", "ferf"):
            return self._of_float32(kind, self.float(args[0]))
        return self._emit(_FLOATS[kind], *map(self.float, args))

    def _of_float32(self, kind: str, x: Value) -> Value:
        """A function that onnxruntime has for float32 only; an angle is then made exact."""
        near = self._emit(_FLOATS[kind], self.builder.cast(x, torch.float32))
        y = self.builder.cast(near, torch.float64)
        if kind == "ferf":
            return y
        # With an error of e, sin(y) - x cos(y) is sin(e) times the root of 1 + x * x.
        off = self._emit("Sub", self._emit("Sin", y), self._emit("Mul", x, self._emit("Cos", y)))
        one = self.builder.number([1.0], torch.float64)
        root = self._emit("Sqrt", self._emit("Add", self._emit("Mul", x, x), one))
        return self._emit("Sub", y, self._emit("Div", off, root))

    def _counted_on(self, poly: Poly) -> Value:
        """Write a size like `size`, but write n as n + 0.

        Rounds are compared node by node, and the round after the one that reads n reads n + 1. Sizes
        that follow from values are read again in each round.
        """
        vector = self.size(poly)
        if self.once or () in poly.terms or not poly.named():
            return vector
        return self._emit("Add", vector, self.builder.number([0], torch.int64))

    def scalar(self, x: Dim | DimFloat, dtype: torch.dtype) -> Value:
        """A size as a scalar of a dtype."""
        key = ("scalar", dtype, x.poly if isinstance(x, Dim) else x.expr)
        found = self._known.get(key)
        if found is None:
            with self._one_reader():
                vector = self._counted_on(x.poly) if isinstance(x, Dim) else self.float(x.expr)
            found = self._emit("Squeeze", self.builder.cast(vector, dtype), [0])
            if isinstance(x, Dim) and dtype == torch.int64:
                found.elements = (x,)
            if self.once:
                self._keep(key, found)
        return found


def _innermost_first(atom: Atom, known: Callable[[Atom], bool]) -> Iterator[Atom]:
    """Yield the unknown parts of a float expression, innermost first, and the expression last."""
    waiting = [atom]
    while waiting:
        each = waiting[-1]
        floats = each.args if each.kind in _FLOATS else ()
        inner = [x for x in floats if not known(x)]
        waiting += inner
        if not inner:
            waiting.pop()
            if not known(each):
                yield each
