"""Numbers and places in words."""

from __future__ import annotations

from typing import Any

from hx.proof.differences.nodes import relative
from hx.proof.proof import inputs_of
from hx.text import relative_paths, tensor_text, torch_dtype


def share(number: float | None) -> str:
    return "inf" if number is None else "0" if not number else f"{number:.1e}"


def place(source: str) -> str:
    """Shorten a place in code as much as possible."""
    if "/site-packages/" in source:
        return source.rpartition("/site-packages/")[2]
    return relative(source) if source else ""


def line_of(each: dict[str, Any]) -> str:
    """Return the place of an escape, or of a call without a converter."""
    return place(f"{each['file']}:{each['line']}")


def edge(each: dict[str, Any]) -> str:
    dims = ["?" if dim is None else dim for dim in each.get("shape") or ()]
    return f"{each['name']} {tensor_text(torch_dtype(each['dtype']), dims)}"


def verdict(found: dict[str, Any]) -> tuple[str, str]:
    """Return the first words of a report, and the rest."""
    state = found["state"]
    if state == "missing":
        count = len(found["missing"])
        return "Not exported.", f"{count} target{'s have' if count > 1 else ' has'} no converter."
    if state == "failed":
        return "Not exported:", relative_paths(found["failed"].partition("\n")[0])
    if state == "unverified":
        return "Not verified:", "it was not asked for."
    right = [case for case in found["proof"]["cases"] if not case["outside"]]
    if state == "wrong":
        return "Wrong.", "The file does not compute what the model computes, and was not written."
    outputs = [o for case in right for o in case["outputs"]]
    worst = max(outputs, key=lambda o: o["max_rel"] / o["allowed"] if o["allowed"] else 0.0)
    error = "All outputs equal"
    if worst["allowed"]:
        error = f"Max error {share(worst['max_rel'])} (limit {share(worst['allowed'])})"
    limits = ", ".join(found["promised"].values())
    within = f"for {limits} only, " if limits else ""
    return "Verified", f"{within}on {inputs_of([case['name'] for case in right])}. {error}."


def why(found: dict[str, Any]) -> list[str]:
    """List the known reasons why an export failed."""
    rest = found["failed"].splitlines()[1:] if found["state"] == "failed" else []
    return [relative_paths(line.strip()) for line in [*found["why"], *rest]]
