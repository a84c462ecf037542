"""What TorchScript holds, run in Python: its graph, node by node, so that every call is seen.

TorchScript's own interpreter calls operators with sizes that are plain numbers by then. Here sizes
stay sizes: arithmetic on numbers is Python's, and everything else is called as `torch.ops` has it.
"""

from __future__ import annotations

import functools
import inspect
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch

from ..errors import Unsupported, Where
from ..sizes import dims
from ..world import spellings

if TYPE_CHECKING:
    from .recording import Recording


def run(recording: Recording, called: Any, args: tuple, kwargs: Mapping[str, Any]) -> Any:
    """What a ScriptMethod or a ScriptFunction returns."""
    with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
        graph = called.graph.copy()
        torch._C._jit_pass_inline(graph)
    given = [*_owner(called), *args]
    for argument in called.schema.arguments[len(given) :]:
        given.append(kwargs.get(argument.name, argument.default_value))
    return _Run(recording, called).graph(graph, given)


def parameters_of(called: Any) -> list[inspect.Parameter]:
    names = [argument.name for argument in called.schema.arguments][len(_owner(called)) :]
    return [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in names]


def _owner(called: Any) -> list[Any]:
    return [called.owner] if isinstance(called, torch._C.ScriptMethod) else []


# Numbers, lists and strings: what Python does with them.


def _length(low: int, high: int, step: int) -> int:
    return max(0, (high - low + step - (1 if step > 0 else -1)) // step)


def _some(x: list, start: Any = None, stop: Any = None, step: int = 1) -> list:
    return x[start:stop:step]


def _div(a: Any, b: Any, rounding_mode: str | None = None) -> Any:
    return a / b if rounding_mode is None else a // b


def _sum(a: Any, b: Any, alpha: int = 1) -> Any:
    return a + (b if alpha == 1 else b * alpha)


def _less(a: Any, b: Any, alpha: int = 1) -> Any:
    return a - (b if alpha == 1 else b * alpha)


_ARITHMETIC: dict[str, Callable] = {
    "add": _sum, "sub": _less, "mul": operator.mul, "div": _div, "floordiv": operator.floordiv,
    "floor_divide": operator.floordiv, "remainder": operator.mod, "pow": operator.pow,
    "neg": operator.neg, "abs": abs,
}  # fmt: skip
_COMPARED: dict[str, Callable] = {
    "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "eq": operator.eq, "ne": operator.ne,
}  # fmt: skip
_PLAIN: dict[str, Callable] = {
    **_ARITHMETIC,
    **_COMPARED,
    "Int": spellings.whole, "Float": spellings.real, "Bool": bool, "str": str,
    "ceil": math.ceil, "floor": math.floor, "round": round, "sqrt": math.sqrt, "log": math.log,
    "exp": math.exp, "sin": math.sin, "cos": math.cos, "min": min, "max": max,
    "__and__": operator.and_, "__or__": operator.or_, "__not__": operator.not_,
    "__xor__": operator.xor, "__is__": operator.is_, "__isnot__": operator.is_not,
    "__getitem__": operator.getitem, "__contains__": operator.contains, "len": len, "list": list,
    "append": list.append, "extend": list.extend, "insert": list.insert, "pop": list.pop,
    "reverse": list.reverse, "clear": list.clear, "copy": list.copy, "slice": _some,
    "keys": lambda x: list(x), "values": lambda x: list(x.values()),
    "items": lambda x: list(x.items()), "get": dict.get, "_set_item": operator.setitem,
    "format": str.format, "__range_length": _length,
    "__derive_index": lambda i, start, step: start + i * step,
}  # fmt: skip
_OF_LISTS = {"__getitem__", "__contains__", "len", "list", "append",
             "extend", "insert", "pop", "reverse", "clear", "copy", "slice", "keys", "values",
             "items", "get", "_set_item", "format"}  # fmt: skip

_OF_ALL = {"__is__", "__isnot__"}

# Tensors: what is no operator, or one that gives plain numbers.

_DTYPES = [
    torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.float32,
    torch.float64, torch.complex32, torch.complex64, torch.complex128, torch.bool, torch.qint8,
    torch.quint8, torch.qint32, torch.bfloat16,
]  # fmt: skip
_FORMATS = [torch.contiguous_format, torch.preserve_format, torch.channels_last,
            torch.channels_last_3d]  # fmt: skip
_ASKED: dict[str, Callable] = {
    "aten::size": lambda x, dim=None: list(x.shape) if dim is None else x.shape[dim],
    "aten::dim": lambda x: x.dim(),
    "aten::numel": spellings.count,
    "aten::len": lambda x: x.shape[0],
    "aten::item": lambda x: _item(x),
    "aten::Int": spellings.whole,
    "aten::Float": spellings.real,
    "aten::Bool": bool,
    "aten::IntImplicit": spellings.whole,
    "aten::FloatImplicit": spellings.real,
    "aten::ScalarImplicit": lambda x: _item(x),
    "aten::is_floating_point": lambda x: x.is_floating_point(),
    "prim::dtype": lambda x: _DTYPES.index(x.dtype),
    "prim::device": lambda x: x.device,
    "prim::type": lambda x: x.type,
    "prim::is_cuda": lambda x: x.is_cuda,
    "prim::is_nested": lambda x: x.is_nested,
    "prim::requires_grad": lambda x: x.requires_grad,
    "prim::data": lambda x: x.detach(),
}


def _decides(node: Any) -> bool:
    """Whether what a node gives is only asked by branches."""
    uses = node.output().uses()
    return bool(uses) and all(use.user.kind() == "prim::If" for use in uses)


def _alike(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Whether two lists of results are the same but for their tensors."""
    kinds = [[isinstance(x, torch.Tensor) for x in each] for each in (one, other)]
    plain = zip(*([x for x in each if not isinstance(x, torch.Tensor)] for each in (one, other)))
    return kinds[0] == kinds[1] and all(
        a is b or (isinstance(a, (int, float, str)) and a == b) for a, b in plain
    )


def _item(x: Any) -> Any:
    return x.item() if isinstance(x, torch.Tensor) else x


_SAME = {"prim::unchecked_cast", "prim::unchecked_unwrap_optional", "prim::NumToTensor",
         "aten::_unwrap_optional", "aten::alias", "prim::Uninitialized"}  # fmt: skip


def _number(x: Any) -> bool:
    return isinstance(x, (int, float))


class _Run:
    """One run of a graph."""

    def __init__(self, recording: Recording, called: Any) -> None:
        self.recording, self.called = recording, called
        self.held: dict[str, Any] = {}  # values by their names in the graph
        self.known: dict[int, int] = {}  # what a tensor holds that stands in the graph, by id

    def graph(self, graph: Any, given: Sequence[Any]) -> Any:
        results = self.block(graph, given)
        kinds = [output.type().kind() for output in graph.outputs()]
        results = [_tensor(x) if kind == "TensorType" else x for x, kind in zip(results, kinds)]
        return results[0] if len(results) == 1 else tuple(results)

    def block(self, block: Any, given: Sequence[Any]) -> list[Any]:
        for name, x in zip(block.inputs(), given):
            self.held[name.debugName()] = x
        for node in block.nodes():
            results = self.node(node, [self.held[i.debugName()] for i in node.inputs()])
            for name, x in zip(node.outputs(), results):
                self.held[name.debugName()] = x
        # An output of a block may be named by the block around it.
        outputs = block.outputs() if hasattr(block, "outputs") else [*block.returnNode().inputs()]
        return [self.held[o.debugName()] for o in outputs]

    def node(self, node: Any, given: list[Any]) -> Sequence[Any]:
        kind = node.kind()
        if kind == "prim::Constant":
            return [self.constant(node)]
        if kind == "prim::GetAttr":
            return [self.named(given[0].getattr(node.s("name")))]
        if kind == "prim::If":
            return self.branch(node, given[0])
        if kind == "prim::Loop":
            return self.loop(node, *given)
        if kind in _SAME:
            return given or [None]
        if kind == "prim::ListConstruct":
            return [list(given)]
        if kind == "prim::TupleConstruct":
            return [tuple(given)]
        if kind == "prim::DictConstruct":
            return [dict(zip(given[::2], given[1::2]))]
        if kind in ("prim::ListUnpack", "prim::TupleUnpack"):
            return given[0]
        if kind == "prim::TupleIndex":
            return [given[0][given[1]]]
        if kind == "prim::RaiseException":
            raise RuntimeError(given[0])
        if kind in ("aten::warn", "prim::Print"):
            return []
        return self.call(node, kind, given)

    def constant(self, node: Any) -> Any:
        if node.output().type().kind() == "NoneType":
            return None
        x = self.named(node.output().toIValue())
        if isinstance(x, torch.Tensor) and x.dtype == torch.int64 and not x.dim():
            with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
                self.known[id(x)] = int(x)
        return x

    def named(self, x: Any) -> Any:
        """A tensor that the module has: it was there before the recording."""
        if isinstance(x, torch.Tensor) and self.recording.live.find(x) is None:
            self.recording.name_tensor(x, self.recording.names.get(id(x), ""))
        return x

    def branch(self, node: Any, test: Any) -> Sequence[Any]:
        """One block or the other; where a tensor decides, both, of which the graph takes one."""
        first, second = node.blocks()
        if isinstance(test, torch.Tensor):
            took: dict[Any, Sequence[Any]] = {}

            def tensors(block: Any) -> list[torch.Tensor]:
                took[block is first] = results = self.block(block, [])
                return [x for x in results if isinstance(x, torch.Tensor)]

            try:
                found = iter(torch.cond(test, lambda: tensors(first), lambda: tensors(second)))
                if _alike(*took.values()):
                    one = next(iter(took.values()))
                    return [next(found) if isinstance(x, torch.Tensor) else x for x in one]
            except Exception as problem:
                # The block that is not taken may raise anything, and so may who compares the two.
                note = f"a branch of a script is taken for good: {problem}"
                self.recording.notes += [] if note in self.recording.notes else [note]
            test = bool(test)
        return self.block(first if test else second, [])

    def loop(self, node: Any, times: Any, goes_on: Any, *carried: Any) -> Sequence[Any]:
        (body,) = node.blocks()
        if dims.is_dynamic(times):
            told = f"a loop of {times.poly} rounds"
            self.recording.escape("repeat", told, _place(node), [dims.asked(int, times)])
        i, state = 0, list(carried)
        while i < int(times) and goes_on:
            goes_on, *state = self.block(body, [i, *state])
            i += 1
        return state

    def call(self, node: Any, kind: str, given: list[Any]) -> Sequence[Any]:
        space, _, name = kind.partition("::")
        tensors = any(isinstance(x, torch.Tensor) and id(x) not in self.known for x in given)
        nested = any(
            isinstance(x, (list, tuple)) and any(isinstance(t, torch.Tensor) for t in x)
            for x in given
        )
        first = given[0] if given else None
        if name in _OF_ALL or (name in _OF_LISTS and not isinstance(first, torch.Tensor)):
            return self.plain(node, name, given)
        if space in ("aten", "prim") and name in _PLAIN and not tensors and not nested:
            return self.plain(node, name, [self.known.get(id(x), x) for x in given])
        if kind == "aten::Bool" and isinstance(first, torch.Tensor) and _decides(node):
            return [first]
        if kind in _ASKED:
            return [_ASKED[kind](*given)]
        return self.operator(node, space, name, given)

    def plain(self, node: Any, name: str, given: list[Any]) -> Sequence[Any]:
        if name in _COMPARED and any(map(dims.is_dynamic, given)):
            if _decides(node) and all(type(x) in (int, dims.Dim) for x in given):
                return [self.compared(_COMPARED[name], *given)]
            told = f" {name} ".join(str(getattr(x, "poly", x)) for x in given)
            asked = dims.asked(_COMPARED[name], *given)
            self.recording.escape("branch", told, _place(node), [asked])
        result = _PLAIN[name](*given)
        return [result] * node.outputsSize()

    def compared(self, ask: Callable, a: Any, b: Any) -> torch.Tensor:
        """The answer as a tensor that follows from the sizes, for a branch."""
        from .higher import condition
        from .higher.part import Higher

        with Higher(self.recording, "torch.cond").engine():
            answer = torch.tensor(ask(dims.plain(a), dims.plain(b)))
            self.recording.live.bind(answer, condition.compared(self.recording, ask, a, b))
        return answer

    def operator(self, node: Any, space: str, name: str, given: list[Any]) -> Sequence[Any]:
        packet = getattr(getattr(torch.ops, space), name, None) if space != "prim" else None
        if packet is None:
            raise Unsupported(
                f"{_title(self.called)} is of TorchScript, and has {space}::{name} in it, which "
                "hx does not know",
                where=_place(node) or self.recording.where(),
                hint="export what it was scripted or traced from",
            )
        args, kwargs = _spelled(node.schema(), given)
        result: Any
        if (space, name) == ("aten", "to"):
            result = _to(args, kwargs)
        elif (space, name) in (("aten", "tensor"), ("aten", "as_tensor")):
            result = torch.tensor(args[0], dtype=kwargs.get("dtype"))
        else:
            result = packet(*args, **kwargs)
        return [result] if node.outputsSize() == 1 else result


@functools.cache
def _parameters(schema: str) -> list[tuple[str, str, bool]]:
    found = torch._C.parse_schema(schema).arguments
    # What Python has by name only, some overloads of TorchScript have by place too.
    return [(a.name, str(a.type), a.kwarg_only or a.name == "alpha") for a in found]


def _spelled(schema: str, given: list[Any]) -> tuple[list[Any], dict[str, Any]]:
    """Arguments as Python spells them: TorchScript counts dtypes, and its numbers are tensors."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for (name, kind, by_name), x in zip(_parameters(schema), given):
        if name == "dtype" and type(x) is int:
            x = _DTYPES[x]
        elif name == "memory_format" and type(x) is int:
            x = _FORMATS[x]
        elif "Tensor" in kind:
            x = [_tensor(each) for each in x] if isinstance(x, list) else _tensor(x)
        if not by_name:
            args.append(x)
        elif x is not None and name not in ("layout", "pin_memory"):
            kwargs[name] = x
    return args, kwargs


def _tensor(x: Any) -> Any:
    return torch.tensor(x) if _number(x) else x


def _to(args: list[Any], kwargs: Mapping[str, Any]) -> torch.Tensor:
    x, *more = args
    kinds = [k for k in (*more, kwargs.get("dtype")) if isinstance(k, torch.dtype)]
    kinds += [t.dtype for t in more if isinstance(t, torch.Tensor)]
    return x.to(kinds[0]) if kinds else x


def _title(called: Any) -> str:
    if _owner(called):
        return called.owner._type().name()
    return getattr(called, "name", "") or "the model"


def _place(node: Any) -> Where | None:
    """The line that a node was written at, where TorchScript still knows it."""
    found = re.search(r'File "([^"]+)", line (\d+)', node.sourceRange())
    return Where(found[1], int(found[2])) if found else None
