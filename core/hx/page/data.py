"""What there is to tell about an export: its report, and the graph by node and by module."""

from __future__ import annotations

import math
import platform
from importlib import metadata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hx.report import Report

SCHEMA = 1
LIBRARIES = ("hx", "torch", "onnx", "onnx-ir", "onnxruntime", "numpy")
# Calls of the model that mean a change of dtype: any other Cast was put in by a converter.
CASTS = ("to", "type", "type_as", "float", "double", "half", "bfloat16", "int", "long", "short",
         "bool", "char", "byte", "cfloat", "cdouble", "_to_copy")  # fmt: skip


def gather(report: Report) -> dict[str, Any]:
    """Everything that a page shows, as plain data."""
    program = report.program
    found = report.to_dict()
    found.pop("node_checks")
    nodes: list[dict[str, Any]] = []
    edges: list[tuple[int, int]] = []
    ends: dict[str, list[str]] = {"inputs": [], "outputs": []}
    if program is not None:
        nodes, edges, ends = graph_of(program.model, report.node_table)
    return {
        **found,
        "title": report.name,
        "state": _state(report),
        "why": report.why,
        "versions": _versions(),
        "packs_installed": report.installed,
        "nodes_by_name": nodes,
        "edges": edges,
        "ends": ends,
        "modules": _modules(nodes, program),
        "casts": _casts(nodes),
        "checked": report.node_table is not None,
    }


def _state(report: Report) -> str:
    if report.missing:
        return "missing"
    if report.proof is not None and report.proof.wrong:
        return "wrong"
    if report.failed:
        return "failed"
    if report.proof is None:
        return "unverified"
    return "verified" if report.proof.ok else "unverified"


def graph_of(model: Any, table: Any) -> tuple[list[dict], list[tuple[int, int]], dict]:
    """Nodes with what is known of each, edges by place, and the inputs and outputs.

    Places count the graph's inputs first, then its nodes, then its outputs, so that every edge
    goes from a smaller number to a larger one.
    """
    graph = model.graph
    checks = {} if table is None else {row.name: row for row in table.rows}
    inputs = [value.name for value in graph.inputs]
    outputs = [value.name for value in graph.outputs]
    made = {name: i for i, name in enumerate(inputs)}
    nodes = []
    edges = []
    for place, node in enumerate(graph, len(inputs)):
        edges += [(made[name], place) for name in sorted(_reads(node)) if name in made]
        made.update((value.name, place) for value in node.outputs if value.name)
        nodes.append(_node(node, checks.get(node.name)))
    edges += [
        (made[name], len(inputs) + len(nodes) + i) for i, name in enumerate(outputs) if name in made
    ]
    return nodes, list(dict.fromkeys(edges)), {"inputs": inputs, "outputs": outputs}


def _reads(node: Any) -> set[str]:
    """Names of the values that a node reads, those of the graphs in it included."""
    names = {value.name for value in node.inputs if value is not None}
    for attribute in node.attributes.values():
        if not attribute.is_ref() and hasattr(attribute.value, "outputs"):
            for inner in attribute.value:
                names |= _reads(inner)
            names |= {value.name for value in attribute.value.outputs}
    return names


def _node(node: Any, check: Any) -> dict[str, Any]:
    about = node.metadata_props
    first = node.outputs[0] if node.outputs else None
    shape = None if first is None or first.shape is None else list(first.shape)
    found = {
        "name": node.name,
        "op": f"{node.domain}::{node.op_type}" if node.domain else node.op_type,
        "module": about.get("hx.module", ""),
        "target": about.get("hx.target", ""),
        "pack": about.get("hx.pack", ""),
        "source": about.get("hx.source", ""),
        "dtype": "" if first is None or first.dtype is None else _dtype(first.dtype.name),
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


def _dtype(name: str) -> str:
    return {"FLOAT": "float32", "DOUBLE": "float64"}.get(name, name.lower())


def _number(x: float) -> float | None:
    return x if math.isfinite(x) else None  # JSON has no inf


def strain(node: dict[str, Any]) -> float:
    """The share of what a node may be off by that it is off by; above 1 is wrong."""
    if node["problem"]:
        return math.inf
    return (node["error"] or 0.0) / node["allowed"] if node["allowed"] else 0.0


def _modules(nodes: list[dict[str, Any]], program: Any) -> list[dict[str, Any]]:
    """The tree of modules laid flat: kind, nodes, time and largest error, children included."""
    costs = {} if program is None else _costs(program)
    paths = dict.fromkeys([*costs, ""] if nodes else costs)
    for node in nodes:
        parts = node["module"].split(".") if node["module"] else []
        paths.update(dict.fromkeys(".".join(parts[:i]) for i in range(1, len(parts) + 1)))
    classes = {} if program is None else program.classes
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
                f"{each['dtype']}[{','.join(map(str, each['shape']))}]" for each in cost.output
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


def _seconds(path: str, costs: dict[str, Any]) -> float | None:
    """What a module took; of a list of modules, which is not called itself, what is in it."""
    cost = costs.get(path)
    if cost is None or cost.calls:
        return None if cost is None else cost.seconds
    below = [
        each.seconds
        for each in costs.values()
        if each.calls and each.name.startswith(f"{path}.") and each.depth == cost.depth + 1
    ]
    return sum(below) if below else None


def _as_a_tree(paths: list[str], costs: dict[str, Any]) -> list[str]:
    """Each path, then those below it, in the order in which they, or what is in them, ran."""
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


def _costs(program: Any) -> dict[str, Any]:
    """What each module of the model costs in PyTorch, by a run of its own."""
    import torch

    from hx.hooks.inspection import inspect

    prepared = program._captured.prepared
    if not isinstance(prepared.model, torch.nn.Module) or prepared.slim is not None:
        return {}  # no modules, or not the weights that were exported
    args, kwargs = prepared.with_tensors(prepared.tensors)
    return {layer.name: layer for layer in inspect(prepared.model, args, kwargs).layers}


def _casts(nodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Casts that no call of the model asked for, by the call whose converter needed them."""
    found: dict[tuple[str, str], int] = {}
    for node in nodes:
        own = node["target"].replace("::", ".").rpartition(".")[2]
        if node["op"] == "Cast" and own not in CASTS:
            key = node["target"], node["source"]
            found[key] = found.get(key, 0) + 1
    return [{"target": t, "source": s, "count": n} for (t, s), n in found.items()]


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for name in LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
