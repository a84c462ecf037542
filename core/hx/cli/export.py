"""`hx export SPEC -o FILE`."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from hx.cli import options as o

SpecOrList = Annotated[
    str | None,
    typer.Argument(
        metavar="SPEC",
        help="The model: package.module:name, file.py:name, or scheme:name.",
        autocompletion=o.complete_spec,
        show_default=False,
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", metavar="FILE", help="The ONNX file to write.", show_default=False
    ),
]
Layers = Annotated[
    list[str] | None,
    typer.Option(
        "--output-layer",
        metavar="PATH",
        help="Output what the module at PATH returns (layer4) instead; may be repeated.",
        show_default=False,
    ),
]
External = Annotated[
    bool | None,
    typer.Option(
        "--external-data/--inline",
        help="Weights in a file of their own, or all in one file; else their size decides.",
        show_default=False,
    ),
]
Verify = Annotated[
    bool, typer.Option("--verify/--no-verify", help="Run the graph against the model.")
]
EveryNode = Annotated[
    bool,
    typer.Option(
        "--check-every-node", help="A table of every node's error, also when all is well."
    ),
]
KeepRejected = Annotated[
    bool,
    typer.Option(
        "--keep-rejected", help="Keep a file that failed its proof, as FILE.rejected.onnx."
    ),
]
Batch = Annotated[
    Path | None,
    typer.Option(
        "--batch",
        metavar="LIST",
        help="Export the models of a list in TOML instead; what is done already stays.",
        show_default=False,
    ),
]
Jobs = Annotated[
    int, typer.Option("--jobs", metavar="N", min=1, help="With --batch: how many at a time.")
]
Again = Annotated[
    bool, typer.Option("--again", help="With --batch: make what is done already, too.")
]
Reports = Annotated[
    list[Path] | None,
    typer.Option(
        "--report",
        metavar="FILE",
        help="A report as .html, .md or .json; also of an export that failed.",
        show_default=False,
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No summary.")]


def export(
    context: typer.Context,
    spec: SpecOrList = None,
    output: Output = None,
    input: o.Input = None,
    inputs: o.Inputs = None,
    weights: o.Weights = None,
    meta: o.Meta = False,
    dtype: o.Dtype = None,
    dynamic: o.Dynamic = None,
    opset: o.Opset = 20,
    output_layer: Layers = None,
    external_data: External = None,
    verify: Verify = True,
    check_every_node: EveryNode = False,
    keep_rejected: KeepRejected = False,
    report: Reports = None,
    strict: o.Strict = False,
    use: o.Use = None,
    no_pack: o.NoPack = None,
    only_packs: o.OnlyPacks = None,
    require: o.Require = None,
    seed: o.Seed = 0,
    batch: Batch = None,
    jobs: Jobs = 1,
    again: Again = False,
    json: o.Json = False,
    quiet: Quiet = False,
) -> None:
    """Export a model to ONNX, and prove that the file is right.

    The model is run once on its inputs, in eval mode. The graph is checked by onnx and run in
    onnxruntime on those inputs, on fresh ones, and at other sizes, among them those where a question
    of the model about a size (`if n > 64`) has another answer. FILE is written when all is well;
    otherwise it stays as it was.

    With --batch LIST every model of a list is exported, each in a process of its own. The list has
    a [[model]] for each, with spec, output, and the options below by their names. What stands above
    the first holds for all. Paths are relative to the folder of the list. A model that fails does
    not stop the rest. Called again, it makes what failed or has changed since. The exit code is the
    largest.

    \b
    A list:
      opset = 18
      [[model]]
      spec = "torchvision:resnet50"
      output = "resnet50.onnx"
      input = ["x=float32[batch,3,224,224]"]
      [[model]]
      spec = "llm.py:build"
      output = "llm.onnx"
      weights = "checkpoint/"
      meta = true
      verify = false

    \b
    Examples:
      hx export hx.demo:model -o demo.onnx
      hx export torchvision:resnet50 -o r.onnx -i "x=float32[batch,3,224,224]"
      hx export bert.py:build -o b.onnx -i "ids=int64[b,s]<30000" -w b.safetensors
      hx export zoo.unet:UNet -o u.onnx --inputs u.npz --dynamic "image:2=h,3=w"
      hx export hx.demo:model -o d.onnx --output-layer body --output-layer head
      hx export hx.demo:model -o d.onnx --check-every-node --report d.html
      hx export llm.py:build -o l.onnx --meta -w checkpoint/ --dtype float16
      hx export --batch models.toml --jobs 4
    """
    from hx.cli.output import Progress, as_json
    from hx.errors import HxError, UsageError

    if batch is not None:
        from hx.cli.batch import run_list

        run_list(context, batch, jobs, again, json, quiet)
    for option in ("jobs", "again"):
        source = context.get_parameter_source(option)
        if source is not None and source.name == "COMMANDLINE":
            raise UsageError(f"--{option} goes with --batch only", hint="hx export --batch LIST")
    if spec is None or output is None:
        raise UsageError(
            "there is no SPEC: what should be exported?" if spec is None else "there is no -o FILE",
            hint="hx export SPEC -o FILE, or hx export --batch LIST",
        )
    path = check_output(output)
    reports = [check_report(each) for each in report or ()]
    check_apart(path, reports, spec, weights, inputs)
    with Progress(not quiet) as progress:
        with failure_reported(reports, spec, opset):
            registry = o.registry_for(use, no_pack, only_packs, require, strict)
            o.tell_broken_packs(registry)
            progress("loading the model")
            loaded, call = o.model_and_call(
                spec, registry, input, inputs, weights, dynamic, seed, meta, streamed=True
            )
            program = run(
                loaded.model,
                call,
                path,
                outputs=output_layer or None,
                opset=opset,
                verify=verify,
                strict=strict,
                external_data=external_data,
                check_every_node=check_every_node,
                keep_rejected=path.with_suffix(".rejected.onnx") if keep_rejected else None,
                weights=loaded.weights,
                dtype=dtype,
                packs=registry,
                progress=progress,
            )
        if reports:
            progress("writing the report")
        for each in reports:
            try:
                program.report.write(each)
            except HxError as problem:
                problem.hint += f"; the graph is there: {path}"
                raise
    if json:
        as_json("export", ok=True, report=report_data(program.report))
    elif check_every_node:
        node_table(program.report)
    if not quiet:
        summary(program.report, path, reports)


def run(model: Any, call: Any, path: Path | None, **rest: Any) -> Any:
    import hx

    kwargs, dynamic = call.kwargs or None, call.dynamic or None
    return hx.export(model, call.args, path, kwargs=kwargs, dynamic=dynamic, **rest)


def check_report(path: Path) -> Path:
    from hx.errors import UsageError

    if path.suffix.lower() not in (".html", ".md", ".json"):
        raise UsageError(f"--report {path}: a report ends in .html, .md or .json")
    return check_output(path, "--report")


@contextlib.contextmanager
def failure_reported(paths: list[Path], spec: str, opset: int) -> Iterator[None]:
    """Reports an export that fails, however far it came: no report of an earlier one stays."""
    try:
        yield
    except Exception as problem:  # whatever it is: it is reported, and raised again
        if paths:
            from hx.cli.border import in_words
            from hx.cli.output import warn
            from hx.errors import HxError
            from hx.report import Report

            report = getattr(problem, "report", None) or Report(spec, opset=opset)
            report.failed = in_words(problem)
            for each in paths:
                try:
                    report.write(each)
                except HxError as lost:  # what went wrong first is what counts
                    warn(f"--report {each} cannot be written: {lost.why}")
        raise


def check_output(path: Path, option: str = "-o") -> Path:
    """Finds out before the work is done that its result could not be written."""
    from hx.errors import UsageError
    from hx.saving import destinations

    folder = path.absolute().parent
    problem = destinations.unfit(path) if str(path) != "-" else ""
    if problem:
        shown = ascii(str(path)).strip("'")
        file = "model.onnx" if option == "-o" else "report.html"
        raise UsageError(f"{option} {shown}: {problem}", hint=f"name a file, as {option} {file}")
    if path.is_dir():
        inside = path / ("model.onnx" if option == "-o" else "report.html")
        raise UsageError(f"{option} {path}: that is a folder", hint=f"write {option} {inside}")
    if str(path) == "-":
        raise UsageError(
            f"{option} -: hx writes to a file, not to stdout",
            hint=f"write {option} {'model.onnx' if option == '-o' else 'report.html'}",
        )
    first = next(each for each in (folder, *folder.parents) if each.exists())
    if not first.is_dir():
        raise UsageError(f"{option} {path}: {first} is a file, not a folder")
    if not folder.is_dir():
        raise UsageError(f"{option} {path}: there is no folder {folder}", hint=f"mkdir -p {folder}")
    if not os.access(folder, os.W_OK):
        raise UsageError(f"{option} {path}: the folder {folder} cannot be written to")
    return path


def check_apart(
    path: Path, reports: list[Path], spec: str, weights: Path | None, inputs: Path | None
) -> None:
    from hx.saving import destinations

    sources = [*destinations.of_spec(spec), *destinations.of_weights(weights)]
    if inputs is not None:
        sources.append(("the file of its inputs", inputs))
    destinations.require_apart(f"-o {path}", path, sources)
    for each in reports:
        sources.append(("the graph", path))
        destinations.require_apart(f"--report {each}", each, sources)


def report_data(report: Any) -> Any:
    import json

    return json.loads(report.to_json())


def node_table(report: Any) -> None:
    """What every node is off by, and what it may be, on stdout."""
    from hx.cli.output import note, table
    from hx.proof.nodes import relative
    from hx.words import amount

    rows = [
        [
            row.name,
            f"{row.dtype}[{','.join(map(str, row.shape))}]" if row.compared else "",
            f"{row.max_rel:.1e}" if row.compared else "",
            f"{row.allowed:.1e}" if row.compared else "",
            ("off" if row.problem else "ok") if row.compared else "inside",
            row.target.removeprefix("torch.nn.functional.").removeprefix("torch."),
            relative(row.source),
            row.pack,
        ]
        for row in report.node_table.rows
    ]
    heads = ["node", "result", "error", "allowed", "state", "call", "line", "pack"]
    if len(report.packs) < 2:
        heads, rows = heads[:-1], [row[:-1] for row in rows]
    by_state = {"off": "red", "ok": "green", "inside": "dim"}
    table(heads, rows, [None] * len(heads), by_state, shrink=[6, 5, 1, 0])
    note(
        f"{amount(len(rows), 'node')}, {len(report.node_table.compared)} compared with the model; "
        "those inside of a converter have nothing to be compared with"
    )


def summary(report: Any, path: Path | None, reports: list[Path] | tuple = ()) -> None:
    """What happened, in a screen at most, on stderr."""
    import sys

    from hx.cli.output import facts, note, paint
    from hx.summary import lines, outcome

    facts(lines(report, path, reports), aside=True)
    said, but = outcome(report)
    if said:
        note(paint(said, "yellow" if but else "green", sys.stderr))
