"""`hx diff A.onnx B.onnx`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hx.cli import options as o
from hx.cli.view import load

if TYPE_CHECKING:
    from hx.file_diff import Change, Differences, Weight

A = Annotated[Path, typer.Argument(metavar="A", help="An ONNX file.", show_default=False)]
B = Annotated[Path, typer.Argument(metavar="B", help="Another.", show_default=False)]
SIGN = {"added": ("+", "green"), "removed": ("-", "red"), "changed": ("~", "yellow")}


def diff(
    a: A,
    b: B,
    exit_code: Annotated[
        bool, typer.Option("--exit-code", help="Exit with 1 when they differ.")
    ] = False,
    json: o.Json = False,
) -> None:
    """See what differs between two exports, by module.

    Nodes that were added, removed or changed, weights, inputs, outputs and opsets.

    \b
    Examples:
      hx diff before.onnx after.onnx
      hx diff before.onnx after.onnx --json
    """
    from hx.cli.output import as_json, note

    found = _compare(a, b)
    if json:
        as_json("diff", a=str(a), b=str(b), **found.to_dict())
    else:
        _show(found)
        note("the same" if found.same else _summary(found))
    if exit_code and not found.same:
        raise typer.Exit(1)


def _compare(a: Path, b: Path) -> Differences:
    from hx.errors import UsageError
    from hx.weights.tensor_files import absent

    for path in (a, b):
        if not path.is_file():
            raise UsageError(absent(path), hint="hx export SPEC -o FILE writes one")
        load(path)
    from hx import file_diff

    try:
        return file_diff.compare(a, b)
    except UsageError:
        raise
    except Exception as problem:  # what protobuf raises for a file that is no model has no name
        raise UsageError(
            f"{a} or {b} is damaged, or lacks its data", why=file_diff.first(problem)
        ) from None


def _show(found: Differences) -> None:
    from hx.cli.output import paint, plain, say

    for text in [*(f"opset {each}" for each in found.opsets), *found.edges]:
        say(f"{paint('~', 'yellow')} {plain(text)}")
    for module in found.modules:
        counts = " ".join(
            paint(f"{sign}{module.count(kind)}", colour)
            for kind, (sign, colour) in SIGN.items()
            if module.count(kind)
        )
        say(f"{paint(plain(module.path) or 'the model itself', 'bold')}  {counts}")
        for change in module.changes:
            say(f"  {_node(change)}")
    if found.weights:
        say(paint("weights", "bold"))
        for weight in found.weights:
            say(f"  {_weight(weight)}")


def _node(change: Change) -> str:
    from hx.cli.output import paint, plain
    from hx.proof.differences.nodes import relative

    sign, colour = SIGN[change.kind]
    where = plain(f"  {relative(change.source)}" if change.source else "")
    what = f" {change.what}: {change.was} → {change.now}" if change.what else ""
    told = plain(f"{change.op} {change.name}{what}")
    return f"{paint(sign, colour)} {told}{paint(where, 'dim')}"


def _weight(weight: Weight) -> str:
    from hx.cli.output import paint, plain

    sign, colour = SIGN[weight.kind]
    kinds = " → ".join(dict.fromkeys(kind for kind in (weight.was, weight.now) if kind))
    apart = "" if weight.difference is None else f", largest difference {weight.difference:.1e}"
    return f"{paint(sign, colour)} {plain(weight.name)} {kinds}{apart}"


def _summary(found: Any) -> str:
    from hx.text import amount

    parts = [
        f"{sum(module.count(kind) for module in found.modules)} {kind}"
        for kind in SIGN
        if any(module.count(kind) for module in found.modules)
    ]
    told = (
        [f"nodes: {', '.join(parts)} ({found.nodes[0]} before, {found.nodes[1]} now)"]
        if parts
        else []
    )
    told += [amount(len(found.weights), "weight") + " changed"] if found.weights else []
    told += ["inputs or outputs differ"] if found.edges else []
    return "; ".join(told) or "opsets differ"
