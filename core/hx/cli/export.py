"""`hx export SPEC`."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from hx.cli import options as o
from hx.cli.help_groups import MANY, OUTPUT, PROOF
from hx.text import amount, tensor_text

Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="The ONNX file to write; NAME.onnx if not given.",
        show_default=False,
        rich_help_panel=OUTPUT,
    ),
]
Layers = Annotated[
    list[str] | None,
    typer.Option(
        "--output-layer",
        metavar="PATH",
        help="Output the result of the module at PATH, such as layer4; may be repeated.",
        show_default=False,
        rich_help_panel=OUTPUT,
    ),
]
External = Annotated[
    bool | None,
    typer.Option(
        "--external-data/--inline",
        help="Write the weights to a file of their own, or into FILE; by default their size decides.",
        show_default=False,
        rich_help_panel=OUTPUT,
    ),
]
Verify = Annotated[
    bool,
    typer.Option(
        "--verify/--no-verify", help="Compare the file with the model.", rich_help_panel=PROOF
    ),
]
EveryNode = Annotated[
    bool,
    typer.Option(
        "--check-every-node",
        help="Show the error of every node, also if the file is right.",
        rich_help_panel=PROOF,
    ),
]
EffortName = Annotated[
    str,
    typer.Option(
        "--effort",
        metavar="low|normal|high",
        help="How many runs of the model to spend before nothing new is tried.",
        rich_help_panel=PROOF,
    ),
]
KeepRejected = Annotated[
    bool,
    typer.Option(
        "--keep-rejected",
        help="Keep a file that failed its proof, as FILE.rejected.onnx.",
        rich_help_panel=PROOF,
    ),
]
Batch = Annotated[
    Path | None,
    typer.Option(
        "--batch",
        metavar="LIST",
        help="Export the models of a list in TOML; those already done are skipped.",
        show_default=False,
        rich_help_panel=MANY,
    ),
]
On = Annotated[
    str,
    typer.Option(
        "--on",
        metavar="ENGINE",
        help="Where exports run: local, or ray, dask or slurm if hx-ENGINE is "
        "installed; ENGINE:ADDRESS is a cluster.",
        rich_help_panel=MANY,
    ),
]
Jobs = Annotated[
    int,
    typer.Option(
        "--jobs", metavar="N", min=1, help="How many to export at a time.", rich_help_panel=MANY
    ),
]
Again = Annotated[
    bool, typer.Option("--again", help="Export those already done, too.", rich_help_panel=MANY)
]
Sort = Annotated[
    str | None,
    typer.Option(
        "--sort",
        metavar="FIELD",
        help="Sort the results by this field; -FIELD puts the largest first.",
        show_default=False,
        rich_help_panel=MANY,
    ),
]
Fields = Annotated[
    str | None,
    typer.Option(
        "--fields",
        metavar="A,B",
        help="Columns of the table.",
        show_default=False,
        rich_help_panel=MANY,
    ),
]
Reports = Annotated[
    list[Path] | None,
    typer.Option(
        "--report",
        metavar="FILE",
        help="Write a report as .html, .md or .json, also if the export fails. With --batch: one of "
        "all models, as .html, .json or .parquet.",
        show_default=False,
        rich_help_panel=OUTPUT,
    ),
]
Certificate = Annotated[
    Path | None,
    typer.Option(
        "--certificate",
        metavar="[FILE]",
        help="Write a record of the proof, for hx verify --certificate; beside the output if no FILE "
        "is given.",
        show_default=False,
        rich_help_panel=PROOF,
    ),
]
SignWith = Annotated[
    Path | None,
    typer.Option(
        "--sign-with",
        metavar="KEY",
        help="Sign the certificate with the bytes of this file.",
        show_default=False,
        rich_help_panel=PROOF,
    ),
]
Verbose = Annotated[
    bool,
    typer.Option(
        "--verbose",
        "-v",
        help="Print a longer summary: all findings, cases and strategies.",
        rich_help_panel=OUTPUT,
    ),
]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print no summary.", rich_help_panel=OUTPUT)
]


def export(
    context: typer.Context,
    spec: o.OptionalSpec = None,
    output: Output = None,
    input: o.Input = None,
    inputs: o.ManyInputs = None,
    weights: o.Weights = None,
    meta: o.Meta = False,
    dtype: o.Dtype = None,
    dynamic: o.Dynamic = None,
    opset: o.Opset = 20,
    output_layer: Layers = None,
    external_data: External = None,
    verify: Verify = True,
    check_every_node: EveryNode = False,
    effort: EffortName = "normal",
    keep_rejected: KeepRejected = False,
    certificate: Certificate = None,
    sign_with: SignWith = None,
    report: Reports = None,
    strict: o.Strict = False,
    use: o.Use = None,
    no_pack: o.NoPack = None,
    only_packs: o.OnlyPacks = None,
    require: o.Require = None,
    seed: o.Seed = 0,
    batch: Batch = None,
    on: On = "local",
    jobs: Jobs = 1,
    again: Again = False,
    sort: Sort = None,
    fields: Fields = None,
    json: o.Json = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> None:
    """Export a model to ONNX, and prove that the file is right.

    The model is run once on its inputs, in eval mode. The graph is checked by onnx and run in
    onnxruntime on those inputs, on fresh ones, and at other sizes, among them those where a question
    of the model about a size (`if n > 64`) has another answer. FILE is written when all is well;
    otherwise it stays as it was.

    With --batch LIST, every model of a list is exported in a process of its own. The list has a
    [[model]] for each, with spec, output, a limit in seconds, and the options below by their names.
    Settings above the first apply to all. Paths are relative to the folder of the list.
    A model that fails does not stop the rest; one whose worker is lost is tried again. A second call
    exports only what failed or has changed. The exit code is the largest of all.

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
      hx export hx.demo:model
      hx export torchvision:resnet50 -o r.onnx -i "x=float32[batch,3,224,224]"
      hx export bert.py:build -o b.onnx -i "ids=int64[b,s]<30000" -w b.safetensors
      hx export zoo.unet:UNet -o u.onnx --inputs u.npz --dynamic "image:2=h,3=w"
      hx export hx.demo:model -o d.onnx --dynamic auto
      hx export hx.demo:model -o d.onnx --output-layer body --output-layer head
      hx export hx.demo:model -o d.onnx --check-every-node --report d.html
      hx export llm.py:build -o l.onnx --meta -w checkpoint/ --dtype float16
      hx export hx.demo:model -o d.onnx --certificate
      hx export --batch models.toml --jobs 4 --report all.html
      hx export --batch models.toml --on ray:auto --sort -seconds
    """
    from hx.cli.certified import certificate_plan
    from hx.cli.destination_options import check_apart, check_graph, check_report, default_output
    from hx.cli.output import Progress, as_json
    from hx.errors import UsageError

    if batch is not None:
        from hx.cli.batch import export_list

        export_list(context, batch, on, jobs, again, sort, fields, report or [], json, quiet)
    for option in o.given(context):
        if option in ("on", "jobs", "again", "sort", "fields"):
            raise UsageError(f"--{option} goes with --batch only", hint="hx export --batch LIST")
    if spec is None:
        raise UsageError(
            "there is no SPEC: what should be exported?",
            hint="hx export SPEC, or hx export --batch LIST",
        )
    path = default_output(spec) if output is None else check_graph(output)
    reports = [check_report(each, (".html", ".md", ".json")) for each in report or ()]
    record = certificate_plan(certificate, sign_with, path, verify)
    check_apart(path, [*reports, *record.paths], spec, weights, inputs or [])
    with Progress(not quiet) as progress:
        began = time.perf_counter()
        with failure_reported(reports, spec, opset, verbose):
            registry = o.registry_for(use, no_pack, only_packs, require, strict)
            o.tell_broken_packs(registry)
            progress("loading the model")
            loaded, call = o.model_and_call(
                spec,
                registry,
                input,
                inputs,
                weights,
                dynamic,
                seed,
                meta,
                streamed=True,
                automatic=True,
            )
            program = run(
                loaded.model,
                call,
                path,
                began=began,
                outputs=output_layer or None,
                opset=opset,
                verify=verify,
                strict=strict,
                external_data=external_data,
                check_every_node=check_every_node,
                effort=effort,
                keep_rejected=path.with_suffix(".rejected.onnx") if keep_rejected else None,
                weights=loaded.weights,
                dtype=dtype,
                packs=registry,
                progress=progress,
            )
        program.report.command = command_line()
        _write_reports(program.report, reports, path, progress)
        written = record.write(program, progress)
    if json:
        as_json("export", ok=True, report=report_data(program.report), certificates=record.paths)
    elif check_every_node:
        node_table(program.report)
    if not quiet:
        summary(program.report, path, reports, verbose, written)


def _write_reports(
    report: Any, places: list[Path], path: Path, progress: Callable[[str], None]
) -> None:
    """Write the report of an export whose graph is at `path`."""
    from hx.errors import HxError

    if places:
        progress("writing the report")
    for each in places:
        try:
            report.write(each)
        except HxError as problem:
            problem.hint += f"; the graph is there: {path}"
            raise


def run(model: Any, call: Any, path: Path | None, began: float | None = None, **rest: Any) -> Any:
    """Export a loaded model. The report counts the time since loading `began`."""
    import hx
    from hx.cli.model_failures import model_failures
    from hx.errors import HxError
    from hx.report.timeline import add_loading

    kwargs, dynamic, others = call.kwargs or None, call.dynamic or None, call.others or None
    export = hx.export  # imports what it needs
    loading = 0.0 if began is None else time.perf_counter() - began
    with model_failures(model, call):
        try:
            program = export(
                model, call.args, path, kwargs=kwargs, dynamic=dynamic, others=others, **rest
            )
        except HxError as problem:
            if problem.report is not None:
                add_loading(problem.report, loading)
            raise
    add_loading(program.report, loading)
    return program


@contextlib.contextmanager
def failure_reported(paths: list[Path], spec: str, opset: int, verbose: bool) -> Iterator[None]:
    """Write the report of an export that fails at any stage, so that no older report remains.

    With `verbose`, the strategies that were tried are shown, too.
    """
    try:
        yield
    except Exception as problem:  # any error is reported and raised again
        if paths:
            from hx.cli.border import in_words
            from hx.cli.output import warn
            from hx.errors import HxError
            from hx.report import Report
            from hx.report.sections import File

            report = getattr(problem, "report", None) or Report(spec, File(opset))
            report.failed, report.command = in_words(problem), command_line()
            for each in paths:
                try:
                    report.write(each)
                except HxError as lost:  # the first error counts
                    warn(f"--report {each} cannot be written: {lost.why}")
        if verbose and (report := getattr(problem, "report", None)) is not None:
            strategies(report)
        raise


def command_line() -> str:
    """Return the running command in a form that can be pasted."""
    import shlex
    import sys

    return shlex.join(["hx", *sys.argv[1:]])


def report_data(report: Any) -> Any:
    import json

    return json.loads(report.to_json())


def node_table(report: Any) -> None:
    """Print the error of every node, and the error allowed, on stdout."""
    from hx.cli.output import note, table
    from hx.proof.differences.nodes import relative

    rows = [
        [
            row.name,
            tensor_text(row.dtype, row.shape) if row.compared else "",
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


def strategies(report: Any) -> None:
    """Print a table of all strategies to stderr, if there was more than one."""
    import sys

    from hx.cli.output import note
    from hx.cli.streams import columns
    from hx.report.summary import strategies

    if found := strategies(report, columns(sys.stderr)):
        note(found)


def summary(
    report: Any,
    path: Path | None,
    reports: list[Path] | tuple = (),
    verbose: bool = False,
    certificate: str = "",
) -> None:
    """Print at most ten lines to stderr, open findings first; all lines with `verbose`."""
    import sys

    from hx.cli.output import facts, note, paint
    from hx.report.summary import lines, open_lines, outcome

    facts(open_lines(report, verbose), aside=True, colour="yellow")
    facts([*lines(report, path, reports, verbose), ("certificate", certificate)], aside=True)
    if verbose:
        strategies(report)
    said, but = outcome(report)
    if said:
        note(paint(said, "yellow" if but else "green", sys.stderr))
