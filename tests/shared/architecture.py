"""Measures of the source: large classes, complex functions, unclear docstrings, clocks, constants."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import grimp

ROOT = Path(__file__).parents[2]
PACKAGES = ("core/hx", "converters/hx_converters")
BRANCHES = (ast.If, ast.For, ast.While, ast.ExceptHandler, ast.IfExp, ast.comprehension,
            ast.BoolOp, ast.Assert)  # fmt: skip
UNCLEAR = ("What", "Whether", "Of", "By", "Where", "That", "Those", "As", "And")
CLOCK = re.compile(r"perf_counter|monotonic\(|time\.time\(")
FREE_MEMORY = re.compile(r"MemAvailable|virtual_memory|SC_AVPHYS|meminfo")


def sources() -> dict[Path, str]:
    """The text of every module, templates apart."""
    files = [f for package in PACKAGES for f in sorted((ROOT / package).rglob("*.py"))]
    return {f: f.read_text(encoding="utf-8") for f in files if "templates" not in f.parts}


def fields_of(node: ast.ClassDef) -> set[str]:
    """Names of the fields that a class declares, or sets on self."""
    declared = {
        n.target.id
        for n in node.body
        if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name)
    }
    stored = {
        n.attr
        for n in ast.walk(node)
        if isinstance(n, ast.Attribute)
        and isinstance(n.ctx, ast.Store)
        and isinstance(n.value, ast.Name)
        and n.value.id == "self"
    }
    return declared | stored


def in_circles() -> list[str]:
    """Files that import one another in circles."""
    graph = grimp.build_graph("hx", "hx_converters")
    found = []
    for module in sorted(graph.modules):
        circle = graph.find_upstream_modules(module) & graph.find_downstream_modules(module)
        if circle - {module}:
            found.append(module)
    return found


def measures() -> dict[str, list[str]]:
    """Places that break a rule, by rule."""
    found: dict[str, list[str]] = {
        "files of more than 500 lines": [],
        "classes of more than 15 fields": [],
        "functions of more than 20 branches": [],
        "docstrings that open with What, Whether, Of, By, Where or That": [],
        "numeric constants": [],
        "lines that read a clock": [],
        "lines that read free memory": [],
        "files that import from builtins": [],
    }
    names: Counter[str] = Counter()
    for file, text in sources().items():
        name = str(file.relative_to(ROOT))
        tree = ast.parse(text)
        names[file.stem] += file.stem != "__init__"
        lines = text.splitlines()
        if len(lines) > 500:
            found["files of more than 500 lines"].append(name)
        if re.search(r"^from builtins import", text, re.M):
            found["files that import from builtins"].append(name)
        for at, line in enumerate(lines, 1):
            if CLOCK.search(line) and not line.startswith(("import", "from")):
                found["lines that read a clock"].append(f"{name}:{at}")
            if FREE_MEMORY.search(line):
                found["lines that read free memory"].append(f"{name}:{at}")
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and len(fields_of(node)) > 15:
                found["classes of more than 15 fields"].append(f"{name}:{node.name}")
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                if sum(isinstance(n, BRANCHES) for n in ast.walk(node)) >= 20:
                    found["functions of more than 20 branches"].append(f"{name}:{node.name}")
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                doc = (ast.get_docstring(node) or "").split()
                if doc and doc[0].strip(".,:;") in UNCLEAR:
                    at = getattr(node, "lineno", 1)
                    found["docstrings that open with What, Whether, Of, By, Where or That"].append(
                        f"{name}:{at}"
                    )
        found["numeric constants"] += [f"{name}:{each}" for each in _constants(tree)]
    found["files in circles"] = in_circles()
    found["base names used twice"] = sorted(name for name, count in names.items() if count > 1)
    return found


def _constants(tree: ast.Module) -> list[str]:
    """Names of the constants of a module that hold a number."""
    return [
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, (ast.Constant, ast.BinOp))
        for target in node.targets
        if isinstance(target, ast.Name) and target.id.strip("_").isupper()
        if not (isinstance(node.value, ast.Constant) and isinstance(node.value.value, str))
    ]


if __name__ == "__main__":
    for rule, places in measures().items():
        print(f"{len(places):5} {rule}")
