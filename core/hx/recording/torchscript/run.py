"""Runs the graph of a scripted or traced function node by node."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from ...errors import Unsupported, Where
from ...ir.sizes import dims
from ...ir.sizes.comparisons import SIGNS, Asked
from ...text import with_article
from ..reads.note_escapes import note_escape
from ..recording import Recording
from . import flow
from .plain import (
    ALSO_OF_LISTS,
    ASKED,
    COMPARED,
    DTYPES,
    FORMATS,
    OF_ALL,
    OF_LISTS,
    PLAIN,
    is_number,
    is_of,
)

_SAME = {"prim::unchecked_cast", "prim::unchecked_unwrap_optional", "prim::NumToTensor",
         "aten::_unwrap_optional", "aten::alias", "aten::wait"}  # fmt: skip
_SIGNS = {name: sign for name, ask in COMPARED.items() for sign, s in SIGNS.items() if s is ask}


def inlined(graph: Any) -> Any:
    """A copy of a graph with the graphs that it calls inlined."""
    with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
        graph = graph.copy()
        torch._C._jit_pass_inline(graph)
    return graph


def forked(node: Any) -> list[Any]:
    """The graph that a node runs in another thread, if it does."""
    return [inlined(node.g("Subgraph"))] if node.kind() == "prim::fork" else []


def is_known(kind: str) -> bool:
    """Return True if nodes of a kind can be run."""
    space, _, name = kind.partition("::")
    known = kind in _BUILT or kind in _STEPS or kind in _SAME or kind in ASKED or name in PLAIN
    return known or (space != "prim" and hasattr(getattr(torch.ops, space), name))


class Made:
    """An object of a scripted class; the run holds its attributes."""


class Run:
    """One run of a graph."""

    def __init__(self, recording: Recording, called: Any) -> None:
        self.recording, self.called = recording, called
        self.held: dict[str, Any] = {}  # values by their names in the graph
        # Tensors that stand in the graph, by id, and what they hold: a number.
        self.known: dict[int, tuple[torch.Tensor, int]] = {}
        # Comparisons of sizes that are tensors here, by id: how they are told, and what was asked.
        self.answers: dict[int, tuple[torch.Tensor, str, Asked]] = {}
        self.attributes: dict[tuple[Any, str], Any] = {}  # set in this run, by object and name
        self.at: Any = None  # the node that runs

    def place(self) -> Where | None:
        return None if self.at is None else _place(self.at)

    def graph(self, graph: Any, given: Sequence[Any]) -> Any:
        self.decides = flow.Deciding(graph)
        outer, self.recording.position.script = self.recording.position.script, self
        try:
            results = self.block(graph, given)
        finally:
            self.recording.position.script = outer
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
        """The outputs of a node for these inputs."""
        kind, self.at = node.kind(), node
        if kind in _BUILT:
            return _BUILT[kind](given)
        if kind in _STEPS:
            return _STEPS[kind](self, node, given)
        if kind in _SAME:
            return given or [None]
        return self.call(node, kind, given)

    def set_attribute(self, node: Any, given: list[Any]) -> list[Any]:
        owner, value = given
        self.attributes[owner, node.s("name")] = value
        if isinstance(owner, torch._C.ScriptObject):
            self.recording.findings.script_attributes.add((owner, node.s("name")))
        return []

    def call_method(self, node: Any, given: list[Any]) -> list[Any]:
        method = given[0]._get_method(node.s("name"))
        return [self.another(method).graph(inlined(method.graph), given)]

    def context_manager(self, node: Any, given: list[Any]) -> list[Any]:
        """Enter or leave a context manager that changes no result: no_grad, record_function."""
        manager = next(iter(node.inputs())).type().str()
        if not manager.startswith("__torch__.torch.autograd."):
            raise self.unknown(node, f"a context manager ({manager})")
        return [None] * node.outputsSize()

    def fork(self, node: Any, given: list[Any]) -> list[Any]:
        """The results of a graph for another thread: here it runs at once."""
        return [self.another(self.called).graph(graph, given) for graph in forked(node)]

    def another(self, called: Any) -> Run:
        """A run of another graph inside this one, with names of its own."""
        inner = Run(self.recording, called)
        inner.known, inner.answers, inner.attributes = self.known, self.answers, self.attributes
        return inner

    def constant(self, node: Any) -> Any:
        if node.output().type().kind() == "NoneType":
            return None
        x = self.named(node.output().toIValue())
        if isinstance(x, torch.Tensor) and x.dtype == torch.int64 and not x.dim():
            with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
                self.known[id(x)] = x, int(x)
        return x

    def attribute(self, owner: Any, name: str) -> Any:
        """An attribute that a script set in this run, or that its module has."""
        found = self.attributes.get((owner, name), self)
        if found is not self:
            return found
        of_script = isinstance(owner, torch._C.ScriptObject)
        return self.named(owner.getattr(name) if of_script else getattr(owner, name))

    def named(self, x: Any) -> Any:
        """An attribute of a module; a tensor was there before the recording, and gets its name."""
        if isinstance(x, torch.Tensor) and self.recording.memory.live.find(x) is None:
            self.recording.model.name_tensor(x, self.recording.model.names.get(id(x), ""))
        return x

    def call(self, node: Any, kind: str, given: list[Any]) -> Sequence[Any]:
        space, _, name = kind.partition("::")
        first = given[0] if given else None
        of_list = isinstance(first, list) and name in ALSO_OF_LISTS
        if name in OF_ALL or (name in OF_LISTS and not isinstance(first, torch.Tensor)) or of_list:
            return self.plain(node, name, given)
        if space in ("aten", "prim") and name in PLAIN and not any(map(self.has_tensor, given)):
            return self.plain(node, name, [self.known.get(id(x), (x, x))[1] for x in given])
        if kind in flow.TESTS and any(isinstance(x, torch.Tensor) for x in given):
            if flow.is_truth(node.output()) and self.decides(node.output()):
                return [flow.TESTS[kind](*map(flow.as_tensor, given))]
        if kind in ASKED:
            return [ASKED[kind](*given)]
        if space == "prim" and len(given) == 1 and hasattr(first, name):  # x.is_cuda, device.type
            return [getattr(first, name)]
        return self.operator(node, space, name, given)

    def has_tensor(self, x: Any) -> bool:
        """Return True for a tensor whose number is not known, and for a list with a tensor."""
        if isinstance(x, (list, tuple)):
            return any(isinstance(t, torch.Tensor) for t in x)
        return isinstance(x, torch.Tensor) and id(x) not in self.known

    def plain(self, node: Any, name: str, given: list[Any]) -> Sequence[Any]:
        if self.recording.running.busy:
            given = [dims.plain(x) for x in given]
        if name in COMPARED and any(map(dims.is_dynamic, given)):
            told = f" {_SIGNS[name]} ".join(str(getattr(x, "poly", x)) for x in given)
            if self.decides(node.output()) and all(map(is_number, given)):
                return [self.compared(told, COMPARED[name], *given)]
            asked = dims.asked(COMPARED[name], *given)
            note_escape(self.recording, "branch", told, _place(node), [asked])
        try:
            result = PLAIN[name](*given)
        except (TypeError, AttributeError) as problem:  # of a form that TorchScript has alone
            raise self.unknown(
                node, f"{name} of {', '.join(map(with_article, given))}"
            ) from problem
        return [result] * node.outputsSize()

    def compared(self, told: str, ask: Callable, a: Any, b: Any) -> torch.Tensor:
        """The answer as a tensor that follows from the sizes, for a branch."""
        from ..higher import condition
        from ..higher.part import Higher

        asked = dims.asked(ask, a, b)
        with Higher(self.recording, "torch.cond").engine():
            answer = torch.tensor(ask(dims.plain(a), dims.plain(b)))
            if isinstance(a, float) or isinstance(b, float):
                a, b = (self.recording.builder.number(x, torch.float64) for x in (a, b))
            self.recording.memory.live.bind(answer, condition.compared(self.recording, ask, a, b))
        self.answers[id(answer)] = answer, told, asked
        return answer

    def truth(self, x: Any) -> bool:
        """A truth value as a bool; one that follows from sizes is noted as a branch on them."""
        if not isinstance(x, torch.Tensor) or id(x) not in self.answers:
            return bool(x)
        answer, told, asked = self.answers[id(x)]
        note_escape(self.recording, "branch", told, self.place(), [asked])
        with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
            return bool(answer)

    def unknown(self, node: Any, what: str) -> Unsupported:
        return Unsupported(
            f"{_title(self.called)} is of TorchScript, and has {what} in it, which hx does not know",
            where=_place(node) or self.recording.position.where(),
            hint="export what it was scripted or traced from",
        )

    def operator(self, node: Any, space: str, name: str, given: list[Any]) -> Sequence[Any]:
        packet = getattr(getattr(torch.ops, space), name, None) if space != "prim" else None
        if packet is None:
            raise self.unknown(node, f"{space}::{name}")
        args, kwargs = _spelled(node.schema(), given)
        result: Any
        if (space, name) == ("aten", "to"):
            result = _to(args, kwargs)
        elif (space, name) in (("aten", "tensor"), ("aten", "as_tensor")):
            result = torch.tensor(args[0], dtype=kwargs.get("dtype"))
        else:
            result = packet(*args, **kwargs)
        return [result] if node.outputsSize() == 1 else result


def _raise(given: list[Any]) -> list[Any]:
    raise RuntimeError(given[0])


# Nodes whose outputs follow from their inputs alone.
_BUILT: dict[str, Callable[[list[Any]], Sequence[Any]]] = {
    "prim::CreateObject": lambda given: [Made()],
    "prim::ModuleContainerIndex": lambda given: [given[0].getattr(str(given[1]))],
    "prim::Uninitialized": lambda given: [flow.UNSET],
    "prim::ListConstruct": lambda given: [list(given)],
    "prim::TupleConstruct": lambda given: [tuple(given)],
    "prim::DictConstruct": lambda given: [dict(zip(given[::2], given[1::2]))],
    "prim::ListUnpack": lambda given: given[0],
    "prim::TupleUnpack": lambda given: given[0],
    "prim::TupleIndex": lambda given: [given[0][given[1]]],
    "prim::RaiseException": _raise,
    "prim::Print": lambda given: [],
    "aten::warn": lambda given: [],
}
# Nodes that the run of the graph has to see.
_STEPS: dict[str, Callable[[Run, Any, list[Any]], Sequence[Any]]] = {
    "prim::Constant": lambda run, node, given: [run.constant(node)],
    "prim::GetAttr": lambda run, node, given: [run.attribute(given[0], node.s("name"))],
    "prim::SetAttr": Run.set_attribute,
    "prim::CallMethod": Run.call_method,
    "prim::isinstance": lambda run, node, given: [
        any(is_of(given[0], each) for each in node.tys("types"))
    ],
    "prim::If": lambda run, node, given: flow.branch(run, node, given[0]),
    "prim::Loop": lambda run, node, given: flow.loop(run, node, *given),
    "prim::fork": Run.fork,
    "prim::Enter": Run.context_manager,
    "prim::Exit": Run.context_manager,
}


@functools.cache
def _parameters(schema: str) -> list[tuple[str, str, bool]]:
    found = torch._C.parse_schema(schema).arguments
    # TorchScript takes some parameters by position that Python takes by name only.
    return [(a.name, str(a.type), a.kwarg_only or a.name == "alpha") for a in found]


def _spelled(schema: str, given: list[Any]) -> tuple[list[Any], dict[str, Any]]:
    """Arguments in the form of Python: TorchScript numbers dtypes, and its numbers are tensors."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for (name, kind, by_name), x in zip(_parameters(schema), given):
        if name == "dtype" and type(x) is int:
            x = DTYPES[x]
        elif name == "memory_format" and type(x) is int:
            x = FORMATS[x]
        elif "Tensor" in kind:
            x = [_tensor(each) for each in x] if isinstance(x, list) else _tensor(x)
        if not by_name:
            args.append(x)
        elif x is not None and name not in ("layout", "pin_memory"):
            kwargs[name] = x
    return args, kwargs


def _tensor(x: Any) -> Any:
    return torch.tensor(x) if is_number(x) else x


def _to(args: list[Any], kwargs: Mapping[str, Any]) -> torch.Tensor:
    x, *more = args
    kinds = [k for k in (*more, kwargs.get("dtype")) if isinstance(k, torch.dtype)]
    kinds += [t.dtype for t in more if isinstance(t, torch.Tensor)]
    return x.to(kinds[0]) if kinds else x


def _title(called: Any) -> str:
    if isinstance(called, torch._C.ScriptMethod):
        owner: Any = called.owner
        return owner._type().name()
    return getattr(called, "name", "") or "the model"


def _place(node: Any) -> Where | None:
    """The source line of a node, if TorchScript still knows it."""
    found = re.search(r'File "([^"]+)", line (\d+)', node.sourceRange())
    return Where(found[1], int(found[2])) if found else None
