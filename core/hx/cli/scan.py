"""`hx scan SPEC`: a dry run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from hx.cli import options as o
from hx.text import amount, relative_paths

if TYPE_CHECKING:
    from hx.packs.registry import Registry
    from hx.report import Report


def scan(
    spec: o.Spec,
    input: o.Input = None,
    inputs: o.Inputs = None,
    weights: o.Weights = None,
    meta: o.Meta = False,
    dynamic: o.Dynamic = None,
    opset: o.Opset = 20,
    use: o.Use = None,
    no_pack: o.NoPack = None,
    only_packs: o.OnlyPacks = None,
    require: o.Require = None,
    strict: o.Strict = False,
    seed: o.Seed = 0,
    json: o.Json = False,
) -> None:
    """See what an export would do, without writing anything.

    Lists the calls that are covered, missing or declined, and the values that leave the graph. If
    you name no size, the last lines are options for the sizes at which the model also runs, and
    hx export --dynamic auto proves them. Exit code 5 says that converters are missing.

    \b
    Examples:
      hx scan hx.demo:model
      hx scan my_model.py:build -i "x=float32[1,3,224,224]"
      hx scan timm:vit_tiny_patch16_224 --json
    """
    import hx
    from hx.cli.export import report_data
    from hx.cli.model_failures import model_failures
    from hx.cli.output import Progress, as_json

    registry = o.registry_for(use, no_pack, only_packs, require, strict)
    o.tell_broken_packs(registry)
    with Progress() as progress:
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
        progress("recording the model")
        with model_failures(loaded.model, call):
            report = hx.scan(
                loaded.model,
                call.args,
                kwargs=call.kwargs or None,
                dynamic=call.dynamic or "auto",
                opset=opset,
                packs=registry,
            )
    if json:
        as_json("scan", covered=not report.missing, report=report_data(report))
    else:
        _show(report, registry)
    if report.missing:
        raise typer.Exit(5)


def _show(report: Report, registry: Registry) -> None:
    """Print the calls of a model, what is missing, and the findings."""
    from hx.attempts import left_out
    from hx.cli.output import facts, note, paint, say, say_prose, table
    from hx.findings import OPEN, scaffold
    from hx.report.summary import proposed_sizes

    rows = [[target, str(n), "covered"] for target, n in sorted(report.converters.items())]
    absent = {m.target for m in report.missing}
    declined = {t: n for t, n in sorted(report.declined.items()) if t not in absent}
    rows += [[target, str(n), "declined"] for target, n in declined.items()]
    rows += [[m.target, str(m.count), "missing"] for m in report.missing]
    colours = {"covered": "green", "declined": "yellow", "missing": "red"}
    table(["target", "calls", "state"], rows, by_value=colours, shrink=[0])
    for missing in report.missing:
        say()
        say_prose(str(missing))
    without = [m for m in report.missing if not m.declined]
    if len(without) > 1:
        say_prose(f"\none pack for all: {scaffold(without)}")
    if without and (out := left_out(registry)):
        note(out)
    for finding in report.findings:
        text = relative_paths(str(finding))
        if finding.level == OPEN:
            say_prose(f"{paint(finding.level, 'yellow')}  {text}")
        else:
            note(f"{finding.level}  {text}")
    kinds = amount(len(report.converters), "target")
    note(f"{kinds} covered, {len(report.missing)} missing, {len(declined)} declined")
    proved = " (not proved yet)" if report.file.proposed else ""
    facts([("dynamic", proposed_sizes(report.file.proposed) + proved)], aside=True)
