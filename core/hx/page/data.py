"""Contents of a report page: the report of an export, and the graph by node and by module."""

from __future__ import annotations

import math
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from importlib import metadata
from typing import Any, Protocol

from hx.graph.file_nodes import operator_of
from hx.proof.differences.nodes import NodeTable
from hx.text import tensor_text, torch_dtype

LIBRARIES = ("hx", "torch", "onnx", "onnx-ir", "onnxruntime", "numpy")
# Calls of the model that change a dtype: any other Cast comes from a converter.
CASTS = ("to", "type", "type_as", "float", "double", "half", "bfloat16", "int", "long", "short",
         "bool", "char", "byte", "cfloat", "cdouble", "_to_copy")  # fmt: skip


class ModuleCost(Protocol):
    """Cost of a module in PyTorch."""

    name: str
    seconds: float
    calls: int
    depth: int
    order: int
    parameters: int
    output: list[dict[str, Any]]


@dataclass
class Examined:
    """Graph, the errors of its nodes, and the model's modules."""

    model: Any  # an onnx_ir.Model
    table: NodeTable | None
    classes: dict[str, str]  # of modules, by path
    costs: Mapping[str, ModuleCost]  # by path


def gather(found: dict[str, Any], examined: Examined | None) -> dict[str, Any]:
    """Return the contents of a page as plain data: a report, and its graph."""
    nodes: list[dict[str, Any]] = []
    if examined is not None:
        nodes = nodes_of(examined.model, examined.table)
    return {
        **found,
        "title": found["name"],
        "versions": versions(),
        "date": datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %Z"),
        "nodes_by_name": nodes,
        "modules": _modules(nodes, examined),
        "casts": _casts(nodes),
        "checked": examined is not None and examined.table is not None,
    }


def nodes_of(model: Any, table: NodeTable | None) -> list[dict[str, Any]]:
    """Return the nodes of a graph, with all that is known of each."""
    checks = {} if table is None else {row.name: row for row in table.rows}
    return [_node(node, checks.get(node.name)) for node in model.graph]


def _node(node: Any, check: Any) -> dict[str, Any]:
    about = node.metadata_props
    first = node.outputs[0] if node.outputs else None
    shape = None if first is None or first.shape is None else list(first.shape)
    found = {
        "name": node.name,
        "op": operator_of(node),
        "module": about.get("hx.module", ""),
        "target": about.get("hx.target", ""),
        "pack": about.get("hx.pack", ""),
        "source": about.get("hx.source", ""),
        "dtype": "" if first is None or first.dtype is None else torch_dtype(first.dtype.name),
        "shape": None
        if shape is None
        else [d if isinstance(d, int) else str(getattr(d, "value", None) or "?") for d in shape],
        "error": None,
        "allowed": None,
        "problem": "",
    }
    if check is not None and check.compared:
        exact = not check.allowed  # whole numbers and truth values are equal or wrong
        found.update(
            error=_number(check.max_rel),
            allowed=None if exact else _number(check.allowed),
            problem=check.problem,
        )
    return found


def _number(x: float) -> float | None:
    return x if math.isfinite(x) else None  # JSON has no inf


def strain(node: dict[str, Any]) -> float:
    """Return the error of a node as a share of its limit; above 1 is wrong."""
    if node["problem"]:
        return math.inf
    return (node["error"] or 0.0) / node["allowed"] if node["allowed"] else 0.0


def _modules(nodes: list[dict[str, Any]], examined: Examined | None) -> list[dict[str, Any]]:
    """Return the tree of modules as a list: kind, nodes, time and largest error, with children."""
    costs = {} if examined is None else examined.costs
    paths = dict.fromkeys([*costs, ""] if nodes else costs)
    for node in nodes:
        parts = node["module"].split(".") if node["module"] else []
        paths.update(dict.fromkeys(".".join(parts[:i]) for i in range(1, len(parts) + 1)))
    classes = {} if examined is None else examined.classes
    rows: dict[str, dict[str, Any]] = {}
    for path in _as_a_tree(list(paths), costs):
        cost = costs.get(path)
        rows[path] = {
            "path": path,
            "kind": classes.get(path, ""),
            "depth": path.count(".") + 1 if path else 0,
            "nodes": 0,
            "own": 0,
            "seconds": _seconds(path, costs),
            "parameters": None if cost is None else cost.parameters,
            "output": "" if cost is None else ", ".join(
                tensor_text(each["dtype"], each["shape"]) for each in cost.output
            ),
            "error": None,
            "allowed": None,
            "problem": "",
        }  # fmt: skip
    for node in nodes:
        rows[node["module"]]["own"] += 1
        parts = node["module"].split(".") if node["module"] else []
        for i in range(len(parts) + 1):
            row = rows[".".join(parts[:i])]
            row["nodes"] += 1
            if node["error"] is None and not node["problem"]:
                continue
            if row["error"] is None or strain(node) > strain(row):
                row.update((key, node[key]) for key in ("error", "allowed", "problem"))
    return list(rows.values())


def _seconds(path: str, costs: Mapping[str, ModuleCost]) -> float | None:
    """Return the seconds of a module, or of its children if it is a list, which is never called."""
    cost = costs.get(path)
    if cost is None or cost.calls:
        return None if cost is None else cost.seconds
    below = [
        each.seconds
        for each in costs.values()
        if each.calls and each.name.startswith(f"{path}.") and each.depth == cost.depth + 1
    ]
    return sum(below) if below else None


def _as_a_tree(paths: list[str], costs: Mapping[str, ModuleCost]) -> list[str]:
    """Yield each path, then those below it, in the order in which they, or modules in them, ran."""
    below: dict[str, list[str]] = {}
    first: dict[str, int] = {}
    for path in paths:
        if path:
            below.setdefault(path.rpartition(".")[0], []).append(path)
        order = getattr(costs.get(path), "order", -1)
        parts = path.split(".")
        for i in range(1, len(parts) + 1):
            above = ".".join(parts[:i])
            if order >= 0:
                first[above] = min(first.get(above, order), order)
    for beside in below.values():
        beside.sort(key=lambda path: first.get(path, len(costs)))
    out: list[str] = []
    stack = [""] if "" in paths else []
    while stack:
        path = stack.pop()
        out.append(path)
        stack.extend(reversed(below.get(path, [])))
    return out


def _casts(nodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Count casts that no call of the model asked for, by the call whose converter needed them."""
    found: dict[tuple[str, str], int] = {}
    for node in nodes:
        own = node["target"].replace("::", ".").rpartition(".")[2]
        if node["op"] == "Cast" and own not in CASTS:
            key = node["target"], node["source"]
            found[key] = found.get(key, 0) + 1
    return [{"target": t, "source": s, "count": n} for (t, s), n in found.items()]


def versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries that make a file."""
    found = {"python": platform.python_version()}
    for name in LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
