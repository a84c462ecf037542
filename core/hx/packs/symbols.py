"""Values, types and nodes in the form that functions for PyTorch's older exporter expect.

The names are PyTorch's. A `Symbol` passes for a `torch._C.Value`, so that the helpers of
`torch.onnx.symbolic_helper`, which ask with `isinstance`, treat it as one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from ..errors import BuilderError
from ..ir.sizes import dims
from ..ir.value import Constant, Value


class Lacks(BuilderError, AttributeError):
    """An attribute that a stand-in lacks: `hasattr` gives False, any other use raises."""


class StandIn:
    """Base of objects that pass `isinstance` checks for a class of PyTorch's."""

    _passes_for: str

    @property  # type: ignore[misc]  # one may set the class of any other object, and not of these
    def __class__(self):
        return getattr(torch._C, self._passes_for)


class Symbol(StandIn):
    """A value of the graph, or None in the place of one (`value`)."""

    _passes_for = "Value"

    def __init__(self, value: Value | None, op: Any, node: Node | None = None) -> None:
        self.value = value
        self._op = op
        self._node = node

    def type(self) -> Type:
        if self.value is None:
            return Type(None, None, "NoneType")
        return Type(self.value.dtype, self.value.shape)

    def setType(self, kind: Any) -> Symbol:
        """Set the dtype of an unknown operator's output; for all others the graph knows it."""
        if self.value is not None and self.value.dtype is None and isinstance(kind, Type):
            self.value.dtype = kind.dtype()
        return self

    def setTypeAs(self, other: Symbol) -> Symbol:
        return self.setType(other.type())

    def isCompleteTensor(self) -> bool:
        return self.value is not None and self.value.shape is not None and not self.value.dynamic

    def debugName(self) -> str:
        return "none" if self.value is None else self.value.label()

    def node(self) -> Node:
        if self._node is None:
            self._node = Node("prim::Param", (), (self,), self._contents)
        return self._node

    def _contents(self) -> torch.Tensor | None:
        """Return no contents for a weight: to PyTorch it is no constant, because it may be fed."""
        weight = isinstance(self.value, Constant) and self.value.name
        return None if self.value is None or weight else self._op.contents(self.value)

    def __repr__(self) -> str:
        return f"%{self.debugName()}"

    def __getattr__(self, name: str) -> Any:
        raise Lacks(
            f"a value of hx has no {name}()",
            hint="a converter can do without it: see `hx packs new`",
        )


class Listed(StandIn, list):
    """A list that an operator was given. To PyTorch it is a value: a constant, or made by a node."""

    _passes_for = "Value"

    def __init__(self, items: Iterable[Any], op: Any = None) -> None:
        super().__init__(items)
        self._op = op

    def node(self) -> Node:
        if self and all(type(x) is float for x in self):
            return Node("onnx::Constant", (), (self,), lambda: torch.tensor([*self]))
        return Node("prim::ListConstruct", [*map(self._one, self)], (self,))

    def _one(self, x: Any) -> Any:
        return Symbol(self._op.constant(x), self._op) if isinstance(x, int) else x

    def type(self) -> Type:
        first = self[0].type() if self and type(self[0]) is Symbol else Type(None, None)
        return Type(first.dtype(), None, "ListType")

    def debugName(self) -> str:
        return "list"


class Node(StandIn):
    """The node that made a value: its kind, its inputs, and the contents of a constant."""

    _passes_for = "Node"

    def __init__(
        self,
        kind: str,
        inputs: Sequence[Any] = (),
        outputs: Sequence[Any] = (),
        contents: Callable[[], torch.Tensor | None] = lambda: None,
    ) -> None:
        self._kind, self._inputs, self._outputs = kind, inputs, outputs
        self._contents = contents

    def kind(self) -> str:
        return self._kind if self._contents() is None else "onnx::Constant"

    def mustBeNone(self) -> bool:
        return self._kind == "prim::Constant"

    def inputs(self) -> list[Any]:
        return list(self._inputs)

    def outputs(self) -> list[Any]:
        return list(self._outputs)

    def output(self) -> Any:
        return self._outputs[0]

    def inputsSize(self) -> int:
        return len(self._inputs)

    def outputsSize(self) -> int:
        return len(self._outputs)

    def kindOf(self, name: str) -> str:
        return "t"

    def hasAttribute(self, name: str) -> bool:
        return name == "value" and self._contents() is not None

    def attributeNames(self) -> list[str]:
        return ["value"] if self.hasAttribute("value") else []

    def t(self, name: str) -> torch.Tensor:
        contents = self._contents()
        if name != "value" or contents is None:
            raise Lacks(f"{self._kind} has no tensor {name} that is known before the graph runs")
        return contents

    __getitem__ = t

    def sourceRange(self) -> str:
        return ""

    scopeName = sourceRange

    def __repr__(self) -> str:
        return self._kind

    def __getattr__(self, name: str) -> Any:
        raise Lacks(
            f"a node of hx has no {name}()",
            hint="a converter can do without it: see `hx packs new`",
        )


class Type(StandIn):
    """The type of a value. Sizes that may vary are None among `varyingSizes`."""

    def __init__(
        self, dtype: torch.dtype | None, shape: Sequence[Any] | None, kind: str = "TensorType"
    ) -> None:
        self._dtype, self._shape, self._passes_for = dtype, shape, kind

    def dtype(self) -> torch.dtype | None:
        return self._dtype

    def scalarType(self) -> str | None:
        if self._dtype is None:
            return None
        return _SCALARS.get(self._dtype, str(self._dtype).removeprefix("torch."))

    def dim(self) -> int | None:
        return None if self._shape is None else len(self._shape)

    def varyingSizes(self) -> list[int | None] | None:
        if self._shape is None:
            return None
        return [None if n is None or dims.is_dynamic(n) else int(n) for n in self._shape]

    def sizes(self) -> Sizes | None:
        varying = self.varyingSizes()
        return None if varying is None else Sizes(varying)

    def kind(self) -> str:
        return self._passes_for

    def isSubtypeOf(self, other: Any) -> bool:
        return other.kind() == self._passes_for

    def getElementType(self) -> Type:
        return Type(self._dtype, None)

    def with_sizes(self, sizes: Any) -> Type:
        return Type(self._dtype, None if sizes is None else tuple(sizes), self._passes_for)

    def with_dtype(self, dtype: torch.dtype) -> Type:
        return Type(dtype, self._shape, self._passes_for)

    def device(self) -> None:
        return None

    def __repr__(self) -> str:
        return f"{self.scalarType()}{self.varyingSizes()}"

    def __getattr__(self, name: str) -> Any:
        raise Lacks(f"the type of a value of hx has no {name}()")


class Sizes(list):
    """Sizes, each a number: reading one that may vary raises."""

    def __getitem__(self, at: Any) -> Any:
        found = super().__getitem__(at)
        if isinstance(at, slice):
            return Sizes(found)
        return self._known(found)

    def __iter__(self) -> Any:
        return map(self._known, super().__iter__())

    @staticmethod
    def _known(size: int | None) -> int:
        if size is None:
            raise BuilderError(
                "the symbolic function reads a size that may vary as a plain number",
                hint="make that size static (leave it out of dynamic=), or compute it in the graph: "
                'g.op("Shape", x)',
            )
        return size


_SCALARS = {
    torch.float32: "Float", torch.float64: "Double", torch.float16: "Half", torch.int64: "Long",
    torch.int32: "Int", torch.int16: "Short", torch.int8: "Char", torch.uint8: "Byte",
    torch.bool: "Bool", torch.bfloat16: "BFloat16", torch.complex64: "ComplexFloat",
    torch.complex128: "ComplexDouble",
}  # fmt: skip
