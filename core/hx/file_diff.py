"""Differences between two ONNX files, module by module.

Nodes are aligned within the module that they came from, in order, by their operator. The module is
the path that hx notes in each node; in files from other tools, it is the path in the node's name. A
node in one file only was added or removed. A node in both files that has other attributes or reads
other constants was changed. Bodies of branches and loops are compared in the same way. Weights are
compared by name, in dtype, shape and contents.
"""

from __future__ import annotations

import difflib
import os
import zlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from hx.budget import BUDGET
from hx.errors import UsageError
from hx.graph.file_nodes import operator_of
from hx.text import first_line, tensor_text, torch_dtype


@dataclass
class Change:
    """Change of a node; `was` and `now` are empty for a node that is in one file only."""

    kind: str  # added, removed, changed
    op: str
    name: str
    source: str = ""
    target: str = ""
    what: str = ""  # the attribute or constant that changed
    was: str = ""
    now: str = ""


@dataclass
class Module:
    """Nodes of one module that differ."""

    path: str
    changes: list[Change] = field(default_factory=list)

    def count(self, kind: str) -> int:
        return len({(c.name, c.op) for c in self.changes if c.kind == kind})


@dataclass
class Weight:
    kind: str  # added, removed, changed
    name: str
    was: str = ""
    now: str = ""
    difference: float | None = None  # the largest, where only the contents changed


@dataclass
class Differences:
    """Differences from file A to file B."""

    nodes: tuple[int, int] = (0, 0)
    opsets: list[str] = field(default_factory=list)
    edges: list[str] = field(default_factory=list)  # inputs and outputs
    modules: list[Module] = field(default_factory=list)
    weights: list[Weight] = field(default_factory=list)

    @property
    def same(self) -> bool:
        return not (self.opsets or self.edges or self.modules or self.weights)

    def to_dict(self) -> dict[str, Any]:
        return {"same": self.same, **asdict(self)}


def compare(a: Path, b: Path) -> Differences:
    one, other = opened(a), opened(b)
    found = Differences((len(one), len(other)))
    found.opsets = list(_opsets(one.opset_imports, other.opset_imports))
    found.edges = [*_edges("input", one.inputs, other.inputs),
                   *_edges("output", one.outputs, other.outputs)]  # fmt: skip
    left, right = _by_module(one), _by_module(other)
    for path in dict.fromkeys([*left, *right]):
        changes = list(_nodes(left.get(path, []), right.get(path, [])))
        if changes:
            found.modules.append(Module(path, changes))
    found.weights = list(_weights(_named(one), _named(other)))
    return found


def opened(path: Path) -> Any:
    """Open the graph of a file, after a check that its weights are there."""
    try:
        graph = ir.load(path).graph
        for tensor in _named(graph).values():
            if isinstance(tensor, ir.ExternalTensor):
                _own(tensor).numpy()  # mapped, not read
        return graph
    except UsageError:
        raise
    except Exception as problem:  # whatever onnx and onnx_ir raise for it
        raise UsageError(f"{path} is damaged, or lacks its data", why=first(problem)) from None


def first(problem: BaseException) -> str:
    """Return the first cause: onnx_ir adds a level of context for each part that it reads."""
    while (before := problem.__cause__ or problem.__context__) is not None:
        problem = before
    return first_line(problem)


def _opsets(a: dict[str, int], b: dict[str, int]) -> Iterator[str]:
    for domain in dict.fromkeys([*a, *b]):
        if a.get(domain) != b.get(domain):
            yield f"{domain or 'ai.onnx'} {a.get(domain, 'none')} → {b.get(domain, 'none')}"


def _edges(kind: str, a: Any, b: Any) -> Iterator[str]:
    before, after = ({v.name: _described(v) for v in values} for values in (a, b))
    for name in dict.fromkeys([*before, *after]):
        if name not in after:
            yield f"{kind} {name} {before[name]} removed"
        elif name not in before:
            yield f"{kind} {name} {after[name]} added"
        elif before[name] != after[name]:
            yield f"{kind} {name} {before[name]} → {after[name]}"
    if list(before) != list(after) and set(before) == set(after):
        yield f"{kind}s in another order: {', '.join(before)} → {', '.join(after)}"


def _described(value: Any) -> str:
    dims = ["?"] if value.shape is None else map(_dim, value.shape)
    return tensor_text(_dtype(value.dtype), dims)


def _dim(dim: Any) -> str:
    return str(dim) if isinstance(dim, int) else str(getattr(dim, "value", None) or "?")


def _dtype(dtype: Any) -> str:
    return "?" if dtype is None else torch_dtype(dtype.name)


def _by_module(graph: Any) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for node in graph:
        found.setdefault(_module(node), []).append(node)
    return found


def _module(node: Any) -> str:
    known = node.metadata_props.get("hx.module")
    if known is not None:
        return known
    return (node.name or "").strip("/").rpartition("/")[0].replace("/", ".")


def _nodes(a: list[Any], b: list[Any]) -> Iterator[Change]:
    """Compare the nodes of one module in two files."""
    matcher = difflib.SequenceMatcher(
        None, [*map(operator_of, a)], [*map(operator_of, b)], autojunk=False
    )
    for tag, i, j, k, n in matcher.get_opcodes():
        if tag == "equal":
            for one, other in zip(a[i:j], b[k:n]):
                yield from _changed(one, other)
            continue
        yield from (_change("removed", node) for node in a[i:j])
        yield from (_change("added", node) for node in b[k:n])


def _change(kind: str, node: Any, what: str = "", was: str = "", now: str = "") -> Change:
    about = node.metadata_props
    source, target = about.get("hx.source", ""), about.get("hx.target", "")
    return Change(kind, operator_of(node), node.name or "", source, target, what, was, now)


def _changed(a: Any, b: Any) -> Iterator[Change]:
    for name in dict.fromkeys([*a.attributes, *b.attributes]):
        one, other = a.attributes.get(name), b.attributes.get(name)
        if _is_body(one) and _is_body(other):
            yield from _inside(one.value, other.value, b, name)
            continue
        was, now = _spelled(one), _spelled(other)
        if was != now:
            yield _change("changed", b, name, was, now)
    if len(a.inputs) != len(b.inputs):
        yield _change("changed", b, "inputs", str(len(a.inputs)), str(len(b.inputs)))
        return
    for place, (x, y) in enumerate(zip(a.inputs, b.inputs)):
        was, now = _read(x), _read(y)
        if was != now:
            yield _change("changed", b, f"input {place}", was, now)


def _is_body(attribute: Any) -> bool:
    return (
        attribute is not None and not attribute.is_ref() and isinstance(attribute.value, ir.Graph)
    )


def _inside(a: Any, b: Any, node: Any, name: str) -> Iterator[Change]:
    """Compare the bodies of a branch or loop: inputs, constants, nodes and outputs."""
    for graph in (a, b):
        for i, value in enumerate(graph.inputs):
            value.meta[_PLACE] = f"input {i} of {name}"
        for value in graph.initializers.values():
            value.meta[_PLACE] = _contents(value.const_value)
    yield from _nodes(list(a), list(b))
    was, now = (", ".join(map(_read, graph.outputs)) for graph in (a, b))
    if was != now:
        yield _change("changed", node, f"outputs of {name}", was, now)


_PLACE = "hx.place"  # key of a text that describes a value in a body, in place of its name


def _spelled(attribute: Any) -> str:
    if attribute is None:
        return "none"
    value = None if attribute.is_ref() else attribute.value
    if isinstance(value, ir.Graph):
        return f"a graph of {len(value)} nodes: {', '.join(operator_of(node) for node in value)}"
    if hasattr(value, "numpy"):
        return _contents(value)
    return str(list(value)) if isinstance(value, (tuple, list)) else str(value)


def _read(value: Any) -> str:
    """Describe the value that a node reads, without its own name, which may hold a number."""
    if value is None:
        return "none"
    if (place := value.meta.get(_PLACE)) is not None:
        return place
    if value.is_initializer() or value.const_value is not None:
        return value.name if _has_name(value) else _contents(value.const_value)
    producer = value.producer()
    if producer is None:
        return f"the input {value.name}"
    return f"{operator_of(producer)} of {_module(producer) or 'the model'}"


def _has_name(value: Any) -> bool:
    """Return True if an initializer is a parameter: constants of hx are called by a number."""
    return not (value.name or "").startswith("const")


def _contents(tensor: Any) -> str:
    if tensor.size <= BUDGET.elements.counter:
        return str(_own(tensor).numpy().tolist())
    bits = zlib.crc32(_own(tensor).tobytes()) & 0xFFFFFF
    return f"{_dtype(tensor.dtype)}[{','.join(map(_dim, tensor.shape))}] #{bits:06x}"


def _named(graph: Any) -> dict[str, Any]:
    return {
        name: value.const_value
        for name, value in graph.initializers.items()
        if _has_name(value) and value.const_value is not None
    }


def _weights(a: dict[str, Any], b: dict[str, Any]) -> Iterator[Weight]:
    for name in dict.fromkeys([*a, *b]):
        if name not in b:
            yield Weight("removed", name, was=_kind(a[name]))
        elif name not in a:
            yield Weight("added", name, now=_kind(b[name]))
        elif _kind(a[name]) != _kind(b[name]):
            yield Weight("changed", name, _kind(a[name]), _kind(b[name]))
        elif _own(a[name]).tobytes() != _own(b[name]).tobytes():
            yield Weight("changed", name, _kind(a[name]), _kind(b[name]), _apart(a[name], b[name]))


def unlike(path: Path, model: Any) -> list[str]:
    """Return the names of the weights that differ between a file and a model, in any dtype."""
    import torch

    from hx import dtypes

    own = dict([*model.named_parameters(remove_duplicate=False),
                *model.named_buffers(remove_duplicate=False)])  # fmt: skip
    found = []
    for name, tensor in _named(opened(path)).items():
        mine = own.get(name)
        if mine is None and (name := name.removesuffix(".transposed")) in own:
            mine = own[name].mT
        dtype = dtypes.FROM_NUMBER.get(tensor.dtype.value)
        if mine is None or dtype is None or mine.shape != tuple(tensor.shape):
            continue
        if mine.is_meta or mine.layout != torch.strided:
            continue
        bytes_ = mine.detach().cpu().to(dtype).contiguous().view(-1).view(torch.uint8).numpy()
        found += [name] if bytes_.tobytes() != _own(tensor).tobytes() else []
    return found


def _own(tensor: Any) -> Any:
    """Return a tensor whose bytes are in its model's own folder: a file may point to anything."""
    if isinstance(tensor, ir.ExternalTensor):
        folder, place = map(os.path.realpath, (tensor.base_dir, tensor.path))
        if os.path.commonpath([folder, place]) != folder or not Path(place).is_file():
            raise UsageError(
                f"{tensor.name!r} has its data in {os.fspath(tensor.location)!r}",
                why="that is no file in the folder of its model",
            )
    return tensor


def _kind(tensor: Any) -> str:
    return f"{_dtype(tensor.dtype)}[{','.join(map(_dim, tensor.shape))}]"


def _apart(a: Any, b: Any) -> float | None:
    try:
        with np.errstate(invalid="ignore"):
            gap = np.abs(a.numpy().astype(np.float64) - b.numpy().astype(np.float64))
    except (TypeError, ValueError):  # complex numbers, strings
        return None
    gap = gap[np.isfinite(gap)]
    return float(gap.max()) if gap.size else None
