"""`hx inspect SPEC`: the model as it runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hx.cli import options as o
from hx.text import bytes_text, rounded, tensor_text, time_text

if TYPE_CHECKING:
    from hx.hooks.inspection import Cost, Inspection, Layer

Functions = Annotated[
    bool, typer.Option("--functions", "-f", help="Show PyTorch's functions under each module.")
]
Depth = Annotated[
    int | None,
    typer.Option(
        "--depth", metavar="N", min=0, help="Levels of modules to show.", show_default=False
    ),
]
Watch = Annotated[bool, typer.Option("--watch", help="Print each module as soon as it has run.")]
Warmup = Annotated[
    int | None,
    typer.Option(
        "--warmup",
        metavar="N",
        min=0,
        help="Runs before the measured one; 1, or 0 with --watch.",
        show_default=False,
    ),
]


def inspect(
    spec: o.Spec,
    input: o.Input = None,
    inputs: o.Inputs = None,
    weights: o.Weights = None,
    functions: Functions = False,
    depth: Depth = None,
    watch: Watch = False,
    warmup: Warmup = None,
    no_pack: o.NoPack = None,
    only_packs: o.OnlyPacks = None,
    seed: o.Seed = 0,
    json: o.Json = False,
) -> None:
    """Show the modules of a model as they run.

    A tree of its modules, in the order in which they ran: what each returned, its parameters,
    calls, time, and the memory of the activations that were made inside. --functions adds
    what functions made on the way.

    \b
    Examples:
      hx inspect hx.demo:model
      hx inspect hx.demo:model --functions
      hx inspect torchvision:resnet50 -i "x=float32[8,3,224,224]" --depth 1
      hx inspect timm:vit_tiny_patch16_224 --watch
    """
    from hx.cli.model_failures import model_failures
    from hx.cli.output import Progress, as_json, note
    from hx.hooks import inspection
    from hx.packs import containers

    registry = o.registry_for(no_pack=no_pack, only_packs=only_packs)
    o.tell_broken_packs(registry)
    with containers.using(registry.containers), Progress(not watch) as progress:
        progress("loading the model")
        loaded, call = o.model_and_call(spec, registry, input, inputs, weights, None, seed)
        progress("running")
        with model_failures(loaded.model, call):
            found = inspection.inspect(
                loaded.model,
                call.args,
                call.kwargs,
                functions=functions,
                warmup=(0 if watch else 1) if warmup is None else warmup,
                tell=_teller(loaded.model, depth) if watch else None,
            )
    if json:
        as_json("inspect", modules=[_data(layer, functions) for layer in _shown(found, depth)])
        return
    if not watch:
        _table(found, depth)
    root = found.root
    note(
        f"{rounded(root.parameters)} parameters ({bytes_text(root.parameter_bytes)}), "
        f"{bytes_text(root.memory)} of activations, {time_text(root.seconds)}"
    )


def _shown(found: Inspection, depth: int | None) -> list[Layer]:
    return [layer for layer in found.layers if depth is None or layer.depth <= depth]


def _data(layer: Layer, functions: bool) -> dict[str, Any]:
    from dataclasses import asdict

    data = asdict(layer)
    data["functions"] = list(data["functions"].values())
    for name in ("order", *([] if functions else ["functions"])):
        del data[name]
    return {"path": data.pop("name"), "kind": data.pop("kind"), **data}


def _table(found: Inspection, depth: int | None) -> None:
    from hx.cli.output import table

    heads = ["module", "output", "params", "calls", "time", "memory"]
    colours = [None, "cyan", None, None, None, None]
    rows = _rows(_shown(found, depth))
    table(heads, rows, colours, shrink=[0, 1], numbers=range(2, len(heads)))


def _rows(layers: list[Layer]) -> Iterator[list[str]]:
    for i, layer in enumerate(layers):
        below = [x.depth for x in layers[i + 1 :]]
        stem = _stem(layer.depth, below, "├ ", "└ ")
        own = layer.name.rpartition(".")[2]
        label = f"{own} {layer.kind}".strip()
        yield [stem + label, *_cells(layer, rounded(layer.parameters) if layer.parameters else "")]
        has_children = bool(below) and below[0] > layer.depth
        under = _stem(layer.depth, below, "│ ", "  ") + ("│ " if has_children else "  ")
        for cost in layer.functions.values():
            yield [f"{under}{_short(cost.name)}()", *_cells(cost, "")]


def _cells(cost: Cost, parameters: str) -> list[str]:
    if not cost.calls:
        return ["not run", parameters, "0", "", ""]
    memory = bytes_text(cost.memory) if cost.memory else ""
    return [_output(cost), parameters, str(cost.calls), time_text(cost.seconds), memory]


def _output(cost: Cost) -> str:
    return ", ".join(tensor_text(each["dtype"], each["shape"]) for each in cost.output)


def _stem(depth: int, below: list[int], branch: str, last: str) -> str:
    """Return the tree's lines before a module; `below` holds the depths of those after it.

    The line of the module itself is `branch`, or `last` if it is the last one of its parent.
    """
    if depth == 0:
        return ""
    bars = ["│ " if _goes_on(level, below) else "  " for level in range(1, depth)]
    return "".join([*bars, branch if _goes_on(depth, below) else last])


def _goes_on(level: int, below: list[int]) -> bool:
    """Return whether another module of this level follows under the same parent."""
    return next((depth == level for depth in below if depth <= level), False)


def _short(target: str) -> str:
    return target.removeprefix("torch.nn.functional.").removeprefix("torch.")


def _teller(model: Any, depth: int | None) -> Any:
    """Make a callback that prints each module at once, so that a long run can be followed."""
    import sys

    from hx.cli.output import note, say

    size = max((len(name) for name, _ in model.named_modules()), default=0)

    def tell(layer: Layer) -> None:
        if depth is None or layer.depth <= depth:
            name = (layer.name or layer.kind).ljust(size)
            # On stderr with --json: stdout is for data.
            write = note if "--json" in sys.argv else say
            write(f"{name}  {time_text(layer.seconds):>8}  {_output(layer)}")

    return tell
