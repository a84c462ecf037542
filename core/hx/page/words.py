"""Numbers and places in words."""

from __future__ import annotations

from typing import Any

from hx.proof.nodes import relative
from hx.proof.proof import inputs_of


def share(number: float | None) -> str:
    return "inf" if number is None else "0" if not number else f"{number:.1e}"


def seconds(number: float) -> str:
    if number < 1e-3:
        return f"{number * 1e6:.0f} µs"
    return f"{number * 1e3:.1f} ms" if number < 1 else f"{number:.1f} s"


def size(number: float) -> str:
    for unit in ("B", "kB", "MB"):
        if number < 1000:
            return f"{number:.0f} {unit}"
        number /= 1000
    return f"{number:.2f} GB"


def place(source: str) -> str:
    """A place in code, as short as it can be."""
    if "/site-packages/" in source:
        return source.rpartition("/site-packages/")[2]
    return relative(source) if source else ""


def line_of(each: dict[str, Any]) -> str:
    """The place of an escape, or of a call that nobody converts."""
    return place(f"{each['file']}:{each['line']}")


def edge(each: dict[str, Any]) -> str:
    dims = ", ".join("?" if dim is None else str(dim) for dim in each.get("shape") or ())
    dtype = {"float": "float32", "double": "float64"}.get(each["dtype"], each["dtype"])
    return f"{each['name']} {dtype}[{dims}]"


def verdict(found: dict[str, Any]) -> tuple[str, str]:
    """The first words of a report, and what follows."""
    state = found["state"]
    if state == "missing":
        count = len(found["missing"])
        return "Not exported.", f"{count} target{'s have' if count > 1 else ' has'} no converter."
    if state == "failed":
        return "Not exported:", found["failed"].partition("\n")[0]
    if state == "unverified":
        why = found["proof"]["not_run"] if found["proof"] else "it was not asked for"
        return "Not verified:", f"{why}."
    cases = [case["name"] for case in found["proof"]["cases"]]
    if state == "wrong":
        return "Wrong.", "The file does not compute what the model computes, and was not written."
    outputs = [o for case in found["proof"]["cases"] for o in case["outputs"]]
    worst = max(outputs, key=lambda o: o["max_rel"] / o["allowed"] if o["allowed"] else 0.0)
    error = "All equal"
    if worst["allowed"]:
        error = f"Largest error {share(worst['max_rel'])}, {share(worst['allowed'])} allowed"
    return "Verified", f"on {inputs_of(cases)}. {error}."


def why(found: dict[str, Any]) -> list[str]:
    """What is known of why an export failed."""
    rest = found["failed"].splitlines()[1:] if found["state"] == "failed" else []
    return [*found["why"], *(line.strip() for line in rest)]
