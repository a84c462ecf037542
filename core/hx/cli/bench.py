"""`hx bench SPEC`: an export measured beside the least it could take, and beside torch.onnx."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from hx.cli import options as o
from hx.text import bytes_text, time_text

if TYPE_CHECKING:
    from hx.bench import Result, Row

Against = Annotated[
    str,
    typer.Option(
        "--against",
        metavar="RIVALS",
        help="dynamo, torchscript, both with a comma between them, or none.",
    ),
]
Rounds = Annotated[int, typer.Option("--rounds", min=1, help="Exports to measure on each side.")]
Patience = Annotated[
    float,
    typer.Option(
        "--patience",
        metavar="SECONDS",
        help="Skip the remaining rounds of a side that has exported for this long.",
    ),
]
Limit = Annotated[
    float,
    typer.Option(
        "--limit",
        metavar="SECONDS",
        min=0,
        help="Stop a rival that takes longer for one export; 0 waits for it.",
    ),
]
Threads = Annotated[
    int,
    typer.Option(
        "--threads", min=0, help="Threads of torch and onnxruntime; 0 is one for each core."
    ),
]


def bench(
    spec: o.Spec,
    against: Against = "dynamo,torchscript",
    rounds: Rounds = 5,
    patience: Patience = 60.0,
    limit: Limit = 600.0,
    threads: Threads = 0,
    input: o.Input = None,
    inputs: o.Inputs = None,
    weights: o.Weights = None,
    dynamic: o.Dynamic = None,
    opset: o.Opset = 20,
    use: o.Use = None,
    no_pack: o.NoPack = None,
    only_packs: o.OnlyPacks = None,
    seed: o.Seed = 0,
    json: o.Json = False,
) -> None:
    """Measure an export: time, memory, and the graph that comes out.

    hx is compared with the floor (one eager forward, and a raw write of the weights) and with the
    exporters of torch.onnx, with their defaults. Each side runs in its own process; they take turns,
    and the median counts. Memory is the peak above the loaded model, in a process that does nothing
    else and frees large blocks at once. The files then take turns in onnxruntime. Finally, each side
    exports once in a new process, which is timed from its start: imports, the model, the export, and
    for hx the proof.

    \b
    Examples:
      hx bench hx.demo:model
      hx bench torchvision:resnet50 -i "x=float32[b,3,224,224]" --against dynamo
      hx bench my_model.py:build --against none --rounds 20 --threads 1 --json
    """
    from hx.bench import RIVALS, Job, compare
    from hx.cli.output import Progress, as_json
    from hx.errors import UsageError

    rivals = [] if against.strip() in ("", "none") else o.several([against])
    unknown = [name for name in rivals if name not in RIVALS]
    if "none" in unknown:
        raise UsageError("--against none goes alone", hint="leave it out, or the others")
    if unknown:
        raise UsageError(
            f"--against {unknown[0]!r} is not known",
            hint=f"choose from {', '.join(RIVALS)}, and none",
        )
    job = Job(
        spec,
        list(input or ()),
        None if inputs is None else str(inputs),
        None if weights is None else str(weights),
        list(dynamic or ()),
        seed,
        opset,
        list(use or ()),
        o.several(no_pack),
        o.several(only_packs),
        threads,
    )
    with Progress() as progress:
        found = compare(job, dict.fromkeys(rivals), rounds, patience, limit, progress)
    ours = found["hx"]
    if json:
        as_json("bench", ok=not ours.exit_code, rounds=rounds, **found.to_dict())
    else:
        _show(found)
    if ours.exit_code:
        raise typer.Exit(ours.exit_code)


def _show(found: Result) -> None:
    from hx.cli.output import note

    heads = ["side", "export", "by hx", "memory", "nodes", "file", "latency", "by hx", "error"]
    cells = [_cells(row, found["hx"]) for row in found.rows if not row.failed]
    _table(heads, cells)
    _show_processes(found)
    for row in found.rows:
        if row.failed or row.wrong or row.proof_failed:
            note(f"{row.side}: {row.failed or row.wrong or f'proof: {row.proof_failed}'}")
    floor, ours = found["floor"], found["hx"]
    if floor.times.forward is not None:
        note(
            f"floor: forward {time_text(floor.times.forward)}, weights {bytes_text(floor.file.size or 0)}"
        )
    if ours.times.parts:
        parts = ", ".join(f"{name} {time_text(each)}" for name, each in ours.times.parts.items())
        proof = "" if ours.times.proof is None else f"; proof apart: {time_text(ours.times.proof)}"
        note(f"hx: {parts}{proof}")


def _show_processes(found: Result) -> None:
    """Print whole processes beside each other: imports, the model, one export; hx with its proof."""
    from hx.cli.output import say

    ours = found["hx"]
    rows = [row for row in found.rows if row.times.process is not None]
    if ours.times.process is None:
        return
    cells = []
    for row in rows:
        took = row.times.process or 0.0
        does = "start, import, load, export" + (", prove" if row is ours else "")
        does = "start, import, load, run, write weights" if row.side == "floor" else does
        by_hx = "" if row is ours else _ratio(took / ours.times.process)
        cells.append([row.side, time_text(took), by_hx, does])
    say()
    _table(["side", "process", "by hx", "does"], cells, left=1)


def _table(heads: list[str], cells: list[list[str]], left: int = 0) -> None:
    """Print a table whose columns are numbers, but for the first and the last `left` ones."""
    from hx.cli.output import table

    colours = ["cyan", *[None] * (len(heads) - 1)]
    table(heads, cells, colours, numbers=range(1, len(heads) - left))


def _ratio(x: float) -> str:
    return f"{x:.1f}x" if x >= 10 else f"{x:.2f}x"


def _cells(row: Row, ours: Row) -> list[str]:
    def times(x: float | None) -> str:
        return "" if x is None or row is ours else _ratio(x)

    export = (
        row.times.seconds / ours.times.seconds if row.times.seconds and ours.times.seconds else None
    )
    return [
        row.side,
        "" if row.times.seconds is None else time_text(row.times.seconds),
        times(export),
        "" if row.memory is None else bytes_text(row.memory),
        "" if row.file.nodes is None else f"{row.file.nodes:,}",
        "" if row.file.size is None else bytes_text(row.file.size),
        "" if row.latency is None else time_text(row.latency),
        times(row.latency_of_hx),
        "" if row.error is None else f"{row.error:.1e}",
    ]
