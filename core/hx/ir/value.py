"""Edges of the graph, as converters see them: each stands for a tensor of the recording."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import Where
from .sizes import dims

if TYPE_CHECKING:
    import torch


Size = Sequence[int]  # ints and Dims


@dataclass(slots=True, eq=False)
class Origin:
    """The call of the model that a node came from."""

    target: str
    pack: str
    scope: str
    module: str  # class of the innermost module
    file: str  # the file of the call; empty if not known
    line: int
    function: str = ""

    @property
    def where(self) -> Where:
        return Where(self.file, self.line, self.scope, self.function)


class Value:
    """A tensor of the recording, or a converter's intermediate result.

    `shape` holds ints, and Dims where the size may differ at run time; None while it is unknown.
    """

    __slots__ = ("_node", "_serial", "dtype", "dynamic", "elements", "fixed", "name", "pair",
                 "parts", "shape", "sparse")  # fmt: skip

    def __init__(self, dtype, shape, *, serial: int = 0, name: str = "") -> None:
        self.dtype: torch.dtype = dtype
        self.shape: tuple[int, ...] | None = None if shape is None else tuple(shape)
        self.name = name
        self._node: weakref.ref[Node] | None = None
        self._serial = serial
        self.dynamic = self.shape is None or _varies(self.shape)
        # Known contents: the sizes in an int64 vector or scalar, else None.
        self.elements: tuple | None = None
        self.fixed = self.is_constant  # made from constants alone: a weight in another form
        # The parts of a complex value in the graph: see `complex_pairs`.
        self.parts: tuple[Value, Value | None] | None = None
        self.pair: Value | None = None
        self.sparse: Elements | None = None  # the parts of a sparse value: see `sparse_values`

    is_constant = False

    def like(self, serial: int = 0) -> Value:
        """Another value of this dtype and these sizes, with nothing else known."""
        made = Value.__new__(Value)
        made.dtype, made.shape, made.dynamic = self.dtype, self.shape, self.dynamic
        made.fixed, made.name, made._serial = self.fixed, "", serial
        made._node = made.elements = made.parts = made.pair = made.sparse = None
        return made

    @property
    def node(self) -> Node | None:
        """Return the node that writes it. The graph owns the node, and the node its outputs."""
        return None if self._node is None else self._node()

    @node.setter
    def node(self, node: Node) -> None:
        self._node = weakref.ref(node)

    def sized(self, shape) -> None:
        """Set the sizes."""
        self.shape = tuple(shape)
        self.dynamic = _varies(self.shape)

    @property
    def rank(self) -> int:
        if self.shape is None:
            raise TypeError(f"the rank of {self.label()} is not known")
        return len(self.shape)

    ndim = rank

    def size(self, axis: int) -> int:
        assert self.shape is not None
        return self.shape[axis]

    def numel(self) -> int:
        total = 1
        for n in self.shape or ():
            total = total * n
        return total

    def label(self) -> str:
        return self.name or f"v{self._serial}"

    def made_by(self) -> str:
        """Return a text for people: its name, or the function called: `nonzero`, `x[...]`."""
        node = self.node
        if self.name or node is None or node.origin is None:
            return self.name or "a tensor"
        target = node.origin.target.removesuffix(".forward").rpartition(".")[2]
        return "x[...]" if target == "__getitem__" else target.rpartition("::")[2].strip("_")

    def __repr__(self) -> str:
        dtype = str(self.dtype).removeprefix("torch.")
        sizes = (
            "?"
            if self.shape is None
            else ", ".join(str(n.poly) if isinstance(n, dims.Dim) else str(n) for n in self.shape)
        )
        return f"<{self.label()}: {dtype}[{sizes}]>"

    def __bool__(self):
        raise TypeError("a Value has no truth value: test `is None`, or `is_constant`")

    def __iter__(self):
        raise TypeError("a Value cannot be iterated over: split it with op.Split")

    # Arithmetic on a Value is a slip: nodes are built with op.Add(...), which has a name to show.


_PLAIN = frozenset({int})


def _varies(shape: Size) -> bool:
    return not _PLAIN.issuperset(map(type, shape)) and any(map(dims.is_dynamic, shape))


class Constant(Value):
    """A value whose contents are known: a parameter, a buffer, or a tensor made from no input.

    It refers to the real tensor without copying it. `freeze` keeps the present contents, before
    somebody writes to that tensor.
    """

    __slots__ = ("__weakref__", "_few", "frozen", "tensor", "used", "version")

    is_constant = True

    def __init__(self, tensor, *, serial: int = 0, name: str = "") -> None:
        super().__init__(tensor.dtype, tensor.shape, serial=serial, name=name)
        self.tensor = tensor
        self.version = _version(tensor)
        self.frozen = False
        self.used = False
        self._few: tuple[Any, ...] | None = None

    def freeze(self) -> None:
        if not self.frozen:
            self.tensor = self.tensor.detach().clone()
            self.frozen = True

    def written(self) -> bool:
        return not self.frozen and _version(self.tensor) != self.version

    def item(self):
        return self.tensor.item()

    def tolist(self):
        return self.tensor.tolist()

    def few_contents(self) -> tuple[Any, ...] | None:
        """Return what a tensor of few elements holds, read once; None for others and after writes."""
        if self.written():
            return None
        if self._few is None:
            from .. import tensor_bytes

            self._few = tensor_bytes.few_contents(self.tensor)
        return self._few or None


class Absent(Constant):
    """A weight whose contents are read when the graph is written, and not known until then.

    So it is no constant to a converter, and what is computed from it is computed in the graph.
    """

    __slots__ = ("content",)

    is_constant = False

    def __init__(self, tensor, content: Any, *, serial: int = 0, name: str = "") -> None:
        super().__init__(tensor, serial=serial, name=name)
        self.content = content

    def freeze(self) -> None:
        """Do nothing: a write while the model is recorded does not change the contents."""


def _version(tensor) -> int:
    # Tensors made under inference_mode keep no version.
    return -1 if tensor.is_inference() else tensor._version


class Node:
    """One ONNX node, before naming. Its attributes may be another's, too: they are not written to."""

    __slots__ = (
        "__weakref__",
        "attributes",
        "domain",
        "inputs",
        "notes",
        "op",
        "origin",
        "outputs",
    )

    def __init__(
        self,
        op: str,
        domain: str,
        inputs: list[Value | None],
        outputs: list[Value],
        attributes: dict[str, Any],
        origin: Origin | None = None,
    ) -> None:
        self.op = op
        self.domain = domain
        self.inputs = inputs
        self.outputs = outputs
        self.attributes = attributes
        self.origin = origin
        self.notes: dict[str, str] = {}  # more of its metadata in the file

    @property
    def bodies(self) -> list[Body]:
        """Return its subgraphs: the sides of an If, the round of a Loop or Scan."""
        return [x for x in self.attributes.values() if type(x) is Body] if self.attributes else []


@dataclass(slots=True, eq=False)
class Body:
    """A subgraph: the value of a graph attribute (If, Loop, Scan)."""

    inputs: list[Value]
    outputs: list[Value]
    nodes: list[Node]


class Elements:
    """The parts of a sparse value: int64 places [axes, count], and the numbers there."""

    __slots__ = ("dense", "numbers", "places")

    def __init__(self, places: Value | None = None, numbers: Value | None = None) -> None:
        self.places, self.numbers = places, numbers  # of a constant: made when first asked for
        self.dense: Value | None = None
