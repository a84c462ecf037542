"""Writer of nodes: checks them against ONNX's own schemas, finds their dtypes and sizes.

Converters hold it as `op` (see `op`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .. import dtypes
from ..errors import BuilderError, Unaccounted, Unsupported
from ..ir import shape_rules, shapes
from ..ir.dialect import Dialect
from ..ir.sizes import dims
from ..ir.value import Absent, Constant, Node, Origin, Value
from . import complex_pairs, forms, schemas, sparse_values
from .attributes import coerced, no_dims, plain_attribute
from .casting import fit
from .equal_sizes import EqualSizes
from .lowering import LOWERINGS
from .op import Op
from .size_nodes import Sizes
from .writers import HasNodes

_ATTRIBUTE_IS_LIST = {6, 7, 8}  # FLOATS, INTS, STRINGS


class Builder:
    """The nodes of one graph, in the order in which they run."""

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self.opset = dialect.opset
        self.nodes: list[Node] = []
        self.origin: Origin | None = None
        self.sizes = Sizes(self)
        self.equal = EqualSizes()
        self.value_of: Any = None  # torch.Tensor -> Value, set by the recording
        self.keep: Any = None  # makes a constant over memory that may be written to, likewise
        self.entry_of: Any = None  # torch.Tensor -> its entry if it is recorded, likewise
        self.note_escape: Any = None  # notes that a size decided which way a converter goes
        self.added: Any = None  # told of each node
        self.lengths: Any = None  # knows what is as long as a loop, likewise
        self._constants: dict[Any, Constant] = {}
        self._forms: dict[tuple, forms.Form] = {}
        self._serial = 0

    @classmethod
    def over(cls, graph: HasNodes) -> Builder:
        """Return a writer that adds nodes, made of values alone, to a graph that was recorded.

        Each reader of a size gets nodes of its own, because a merge moves nodes to other places.
        """
        builder = cls(graph.dialect)
        builder.nodes, builder.sizes.once = graph.nodes, False
        return builder

    def end_recording(self) -> None:
        """Forget what leads to the model and its recording."""
        self.value_of = self.keep = self.entry_of = self.note_escape = None
        self.added = self.lengths = None

    # Values.

    def value(self, dtype, shape, name: str = "") -> Value:
        self._serial += 1
        return Value(dtype, shape, serial=self._serial, name=name)

    def constant(self, tensor: torch.Tensor, name: str = "") -> Constant:
        self._serial += 1
        return Constant(tensor, serial=self._serial, name=name)

    def kept(self, tensor: torch.Tensor, name: str) -> Constant:
        """Return a constant over memory that may be written to."""
        return (self.keep or self.constant)(tensor, name)

    def absent(self, tensor: torch.Tensor, content: Any, name: str) -> Constant:
        self._serial += 1
        return Absent(tensor, content, serial=self._serial, name=name)

    def number(self, x: Any, dtype: torch.dtype) -> Value:
        """A Python number, or a (nested) list of them, as a constant; a Dim as its computation."""
        if isinstance(x, (dims.Dim, dims.DimFloat)):
            return self.sizes.scalar(x, dtype)
        if type(x).__name__ == "ndarray":
            try:
                made = self.constant(torch.tensor(x, dtype=dtype))
            except TypeError as e:  # of words, or of objects
                raise dtypes.no_input(x) from e
            made.frozen = True
            return made
        if isinstance(x, (list, tuple)):
            if any(isinstance(n, dims.Dim) for n in x):
                return self.cast(self.sizes.vector(x), dtype)
            key: Any = (dtype, tuple(map(_exact, x)) if not _nested(x) else repr(x), "list")
        else:
            key = (dtype, _exact(x))
        found = self._constants.get(key)
        if found is None:
            try:
                found = self.constant(torch.tensor(x, dtype=dtype))
            except (TypeError, ValueError, RuntimeError) as e:
                raise dtypes.no_input(x) from e
            found.frozen = True
            if dtype == torch.int64 and found.rank <= 1 and not _nested(x):
                found.elements = tuple(x) if isinstance(x, (list, tuple)) else (x,)
            self._constants[key] = found
        return found

    def cast(self, x: Value, dtype: torch.dtype) -> Value:
        if x.sparse is not None and x.dtype != dtype:
            return sparse_values.cast(Op(self), x, dtype)
        return x if x.dtype == dtype else self.emit("Cast", [x], {"to": dtype})[0]

    # Nodes.

    def emit(
        self,
        op: str,
        inputs: Sequence[Any],
        attributes: dict,
        count: int | None = None,
        domain: str = "",
        results: Sequence[tuple] | None = None,
    ) -> list[Value]:
        """Add one operator in its newest form; returns its outputs."""
        if domain not in ("", "ai.onnx"):
            return self._custom(op, domain, inputs, attributes, count, results)
        given = self._given(op, inputs)
        key = forms.key_of(op, given, attributes, count)
        if key is not None and (form := self._forms.get(key)) is not None:
            return self._once_more(form, given)
        if complex_pairs.concerned(given, attributes):
            return complex_pairs.emit(Op(self), op, given, attributes, count)
        while given and given[-1] is None:
            given.pop()
        attributes = {k: v for k, v in attributes.items() if v is not None}
        if op == "Split" and count is None:
            count = _parts(given, attributes)
        schema = schemas.schema(op, self.opset)
        if schema is None or not self._fits(schema, given, attributes):
            lowered = self._lowered(schema, op, given, attributes, count)
            if lowered is not None:
                return lowered
            schema = self._check(schema, op, given, attributes)
        values, attributes = self._arguments(schema, op, given, attributes)
        if op == "Shape" and values[0].shape is not None:
            return [self._shape_known(op, schema, values, attributes)]
        if count is None:
            count = schema.min_outputs or 1
        around = fit(self, op, schema, values, attributes, count)
        if around is not None:
            return around
        outputs = self.append(op, schema, values, attributes, count)
        self._remember(key, self.nodes[-1], given)
        return outputs

    def _given(self, op: str, inputs: Sequence[Any]) -> list[Any]:
        """The inputs, with values in place of the model's tensors."""
        return [
            self._of(x, op) if type(x) not in forms.VALUES and isinstance(x, torch.Tensor) else x
            for x in inputs
        ]

    def _remember(self, key: tuple | None, node: Node, given: Sequence[Any]) -> None:
        """Keep the form of a node for the next equal one."""
        if self.lengths is not None and node.op in ("Concat", "Slice", "Split"):
            self.lengths.written(node)
        elif key is not None and (form := forms.form_of(node, given)) is not None:
            self._forms[key] = form

    def _lowered(self, schema, op, inputs, attributes, count) -> list[Value] | None:
        """The outputs of an operator in an older opset's form; None where it has none."""
        newest = schemas.schema(op, schemas.NEWEST)
        if op not in LOWERINGS or newest is schema:
            return None
        self._check(newest or schema, op, inputs, attributes)
        modern = self.lifted(newest, inputs) if newest is not None else inputs
        return LOWERINGS.write(Op(self), op, modern, attributes, count)

    def _arguments(self, schema, op, inputs, attributes) -> tuple[list[Any], dict]:
        """The inputs as values, and the attributes as ONNX types them."""
        if op.startswith("Reduce"):
            inputs = _counted_from_the_front(inputs)
        values: list[Any] = self.lifted(schema, inputs)
        attributes = self._attributes(schema, attributes) if attributes else {}
        if op == "Transpose" and attributes:
            _require_permutation(attributes["perm"], values[0])
        if op == "Reshape" and not attributes.get("allowzero"):
            self._simpler_shape(values)
            if "allowzero" in schema.attributes and _zero_is_zero(values[1]):
                attributes["allowzero"] = 1
        return values, attributes

    def _once_more(self, form: forms.Form, given: list) -> list[Value]:
        """Write a node of a known form again."""
        inputs: list[Any] = [given[x] if type(x) is int else x for x in form.inputs]
        outputs = []
        for one in form.outputs:
            self._serial += 1
            outputs.append(one.like(self._serial))
        node = Node(form.op, "", inputs, outputs, form.attributes, self.origin)
        for x in inputs:
            if isinstance(x, Constant):
                x.used = True
        self.enter(node)
        return outputs

    def _simpler_shape(self, values) -> None:
        """Write sizes that stay in place as 0 ("as before"): nothing to compute.

        If one size is left to compute, the operator infers it itself.
        """
        x, shape = values
        wanted = shape.elements
        if wanted is None or x.shape is None or shape.is_constant:
            return
        short = [
            0 if isinstance(n, dims.Dim) and i < len(x.shape) and shapes.same(n, x.shape[i]) else n
            for i, n in enumerate(wanted)
        ]
        rest = [i for i, n in enumerate(short) if type(n) is int and n == -1]
        if rest:
            # Said where it is known: of no elements, a runtime cannot say how large the rest is.
            (known,) = shape_rules.infer("Reshape", [x, shape], {}, 1)
            if known is not None and type(known[rest[0]]) is int:
                short[rest[0]] = known[rest[0]]
        left = [i for i, n in enumerate(short) if isinstance(n, dims.Dim)]
        if not left or (len(left) == 1 and 0 not in short and -1 not in short):
            for i in left:
                short[i] = -1
            plain = self.number(short, torch.int64)
            values[1] = plain

    def _shape_known(self, op, schema, values, attributes) -> Value:
        """A shape as a constant, if no size may vary; otherwise as a node with known elements."""
        whole = values[0].shape
        listed = whole[attributes.get("start", 0) : attributes.get("end", len(whole))]
        if not any(map(dims.is_dynamic, listed)):
            return self.number(list(listed), torch.int64)
        (made,) = self.append(op, schema, values, attributes, 1)
        made.elements = tuple(listed)
        return made

    def append(self, op, schema, values, attributes, count) -> list[Value]:
        outputs = []
        inferred = shape_rules.infer(op, values, attributes, count)
        for i, shape in enumerate(inferred):
            made = self.value(schemas.out_dtype(schema, i, values, attributes), None)
            if shape is not None:
                sizes = list(shape)
                for axis, n in enumerate(sizes):
                    if n is shapes.RUN_TIME:
                        sizes[axis] = self.equal.size_of(op, values, made, axis, len(sizes))
                made.sized(sizes)
            outputs.append(made)
        if op in _FORMS and all(v is None or v.fixed for v in values):
            for o in outputs:
                o.fixed = not (
                    self.dialect.unfolded and o.dtype is not None and o.dtype.is_floating_point
                )
        unknown = [o for o in outputs if o.shape is None]
        if unknown:
            varies = (
                op in _VARYING
                or shapes.by_contents(op, values)
                or any(v is not None and v.dynamic for v in values)
            )
            for o in unknown:
                o.dynamic = varies
        self._add(Node(op, "", values, outputs, attributes, self.origin))
        return outputs

    def _add(self, node: Node) -> None:
        numbers = False
        for value in (*node.inputs, *node.outputs):
            if value is not None:
                if value.sparse is not None:
                    raise sparse_values.edge(node.op)
                numbers = numbers or value.dtype in dtypes.COMPLEX
                if isinstance(value, Constant):
                    value.used = True
        if numbers:
            raise Unsupported(
                f"{node.op} would read or return complex numbers, which no edge of a graph can hold",
                hint="call torch.view_as_real before it, and torch.view_as_complex after it",
            )
        self.enter(node)

    def enter(self, node: Node) -> None:
        for output in node.outputs:
            output.node = node
        self.nodes.append(node)
        if self.added is not None:
            self.added(node)

    def _custom(self, op, domain, inputs, attributes, count, results) -> list[Value]:
        self.dialect.domains.setdefault(domain, 1)
        values = [self._loose(x) for x in inputs]
        if results is not None:
            outputs = self._described(results)
        else:
            outputs = [self.value(None, None) for _ in range(count or 1)]
            varies = any(v is not None and v.dynamic for v in values)
            for o in outputs:
                o.dynamic = varies
        plain = {k: plain_attribute(op, k, v) for k, v in attributes.items() if v is not None}
        self._add(Node(op, domain, values, outputs, plain, self.origin))
        return outputs

    def _described(self, results: Sequence[tuple]) -> list[Value]:
        """Values of given dtypes and shapes; a word in a shape is a size known at run time only."""
        outputs: list[Value] = []
        words: dict[str, int] = {}
        for dtype, shape in results:
            made = self.value(dtype, None)
            for axis, n in enumerate(shape):
                if isinstance(n, str):
                    words.setdefault(n, dims.Dim.unsure(made, axis))
            made.sized(words[n] if isinstance(n, str) else n for n in shape)
            outputs.append(made)
        return outputs

    def custom_domain(self, domain: str, version: int) -> None:
        self.dialect.domains[domain] = version

    # Checks.

    def _fits(self, schema, inputs, attributes) -> bool:
        return (
            len(inputs) <= schema.max_inputs
            and attributes.keys() <= schema.attributes.keys()
            and (not schema.required or all(name in attributes for name in schema.required))
            and schemas.words_fit(schema.op, attributes, schema.since)
        )

    def _check(self, schema, op, inputs, attributes):
        """The schema, or an error that says what is wrong with this call of it."""
        if schema is None:
            first = schemas.first_opset(op)
            if first is None:
                near = schemas.nearest(op)
                hint = (
                    f"did you mean {' or '.join(f'op.{n}' for n in near)}?"
                    if near
                    else (f'for an operator of your own write op("my.domain", "{op}", ...)')
                )
                raise BuilderError(f"ONNX has no operator {op}", hint=hint)
            if first <= self.opset:
                raise BuilderError(f"ONNX has deprecated {op}: opset {self.opset} lacks it")
            raise Unsupported(
                f"opset {self.opset} has no {op}: it came with opset {first}",
                hint=f"export with opset={first} or newer",
            )
        newest = schemas.schema(op) or schema
        known = newest.attributes.keys() | schema.attributes.keys()
        for name in attributes:
            if name not in known:
                listed = ", ".join(sorted(known)) or "none"
                raise BuilderError(f"{op} has no attribute {name}", hint=f"it has: {listed}")
        most = max(newest.max_inputs, schema.max_inputs)
        if len(inputs) > most:
            raise BuilderError(f"{op} takes at most {most} inputs, but got {len(inputs)}")
        least = schema.min_inputs
        if len(inputs) < least or any(x is None for x in inputs[:least]):
            raise BuilderError(f"{op} takes at least {least} inputs, but got {len(inputs)}")
        for name in schema.required:
            if name not in attributes:
                raise BuilderError(f"{op} needs the attribute {name}")
        if not self._fits(schema, inputs, attributes):
            raise Unsupported(
                f"{op} as written needs a newer opset than {self.opset}",
                hint=f"export with opset={self._first_that_fits(newest, inputs, attributes)} or newer",
            )
        return schema

    def _first_that_fits(self, newest, inputs, attributes) -> int:
        """The oldest opset that can express a call, if later forms only add to it."""
        for opset in range(self.opset + 1, newest.since):
            schema = schemas.schema(newest.op, opset)
            if schema is not None and self._fits(schema, inputs, attributes):
                return opset
        return newest.since

    # Inputs and attributes.

    def lifted(self, schema, inputs: list) -> list[Value | None]:
        """Give numbers and lists the dtype of the inputs that share their type parameter."""
        if len(inputs) < schema.min_inputs or len(inputs) > schema.max_inputs:
            self._check(schema, schema.op, inputs, {})
        values: list[Any] = [x if x is None or isinstance(x, Value) else _Pending for x in inputs]
        for i, x in enumerate(inputs):
            if values[i] is _Pending:
                values[i] = self.number(x, self._dtype_beside(schema, i, values, x))
        return values

    def _of(self, tensor: torch.Tensor, op: str) -> Value:
        try:
            return self.value_of(tensor)
        except Unaccounted as problem:
            raise BuilderError(
                f"an input of {op} is a tensor of shape {list(tensor.shape)} that the model does "
                "not have",
                hint="if it does not depend on what the model computes, pass op.constant(tensor)",
            ) from problem

    def _dtype_beside(self, schema, i, values, x) -> torch.dtype:
        parameter = schema.in_type(i)
        for j, other in enumerate(values):
            if isinstance(other, Value) and schema.in_type(j) == parameter:
                return other.dtype
        allowed = schema.allowed.get(parameter) or {dtypes.FROM_SPELLED.get(parameter)}
        natural = dtypes.natural(x)
        if natural in allowed or None in allowed:
            return natural
        for fallback in (torch.int64, torch.float32):
            if fallback in allowed:
                return fallback
        return next(iter(allowed))

    def _loose(self, x) -> Value | None:
        if x is None or isinstance(x, Value):
            return x
        if isinstance(x, torch.Tensor):
            return self.value_of(x)
        return self.number(x, dtypes.natural(x))

    def _attributes(self, schema, attributes: dict) -> dict:
        out = {}
        for name, v in attributes.items():
            kind = schema.attributes[name]
            if isinstance(v, torch.dtype):
                v = dtypes.NUMBER[v]
            no_dims(schema.op, name, v)
            try:
                if kind in _ATTRIBUTE_IS_LIST:
                    v = [coerced(kind, n) for n in (v if isinstance(v, (list, tuple)) else (v,))]
                elif kind in (1, 2, 3):
                    v = coerced(kind, v)
            except (TypeError, ValueError) as e:
                raise BuilderError(f"{schema.op}: attribute {name} cannot be {v!r}") from e
            out[name] = v
        return out


class _Pending:
    pass


def _counted_from_the_front(inputs: list) -> list:
    """Count axes of a reduction from the front, as onnxruntime needs for empty tensors."""
    x, *axes = inputs
    if axes and isinstance(axes[0], (list, tuple)) and isinstance(x, Value) and x.shape is not None:
        return [x, [a % x.rank if type(a) is int and a < 0 else a for a in axes[0]], *axes[1:]]
    return inputs


def _parts(inputs: Sequence[Any], attributes: dict) -> int | None:
    """Return the number of outputs of a Split, if its inputs or attributes state it."""
    sizes = inputs[1] if len(inputs) > 1 else None
    listed = sizes.elements if isinstance(sizes, Value) else sizes
    return len(listed) if isinstance(listed, (list, tuple)) else attributes.get("num_outputs")


def _require_permutation(perm: list[int], x: Value) -> None:
    """Check the order here: two Transposes become one, which would hide an error in the first."""
    rank = len(perm) if x.shape is None else len(x.shape)
    if sorted(perm) != list(range(rank)):
        raise BuilderError(
            f"Transpose: perm {perm} is not a permutation of the axes of an input of rank {rank}",
            hint="it names each axis once, counted from 0",
        )


def _zero_is_zero(shape: Value) -> bool:
    """Return True if a 0 in a shape at run time is a size, and does not mean "as before"."""
    listed = shape.elements or ()
    return not shape.is_constant and not any(type(n) is int and n in (0, -1) for n in listed)


# Operators that give the same elements in another form.
_FORMS = {"Reshape", "Transpose", "Unsqueeze", "Squeeze", "Flatten", "Slice", "Split", "Gather",
          "Expand", "Cast", "Identity"}  # fmt: skip

# Operators whose output sizes depend on what is in their inputs.
_VARYING = {"NonZero", "Unique", "Compress", "NonMaxSuppression", "Loop", "If", "SequenceAt"}


def _exact(x):
    # 0.0 and -0.0, 1 and True, nan and nan: keys that tell apart what differs in a file.
    return (type(x).__name__, repr(x)) if isinstance(x, (float, complex)) else (type(x), x)


def _nested(x) -> bool:
    return isinstance(x, (list, tuple)) and bool(x) and isinstance(x[0], (list, tuple))
