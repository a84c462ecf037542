"""`hx watch SCRIPT`: the models that a script calls, and the sizes that change."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hx.cli import options as o
from hx.text import amount, relative_paths, tensor_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from hx.errors import HxError
    from hx.inputs.watched_models import WatchedModel
    from hx.ir.proposed_sizes import Proposal
    from hx.packs.registry import Registry


def complete_script(incomplete: str) -> list[str]:
    """Complete the path of a script: folders, and Python files."""
    folder, start = os.path.split(incomplete)
    found = sorted(each for each in Path(folder).glob("*") if each.name.startswith(start))
    folders = [f"{each}/" for each in found if each.is_dir()]
    return folders + [str(each) for each in found if each.suffix == ".py"]


Script = Annotated[
    Path,
    typer.Argument(
        metavar="SCRIPT",
        help="A Python script that calls the model.",
        autocompletion=complete_script,
        show_default=False,
    ),
]
Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="ARGS", help="Arguments of the script, options among them.", show_default=False
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Export the model to this ONNX file, and prove it on the calls of the script.",
        show_default=False,
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="CLASS",
        help="The class of the model to export, if the script calls several.",
        show_default=False,
    ),
]


def watch(
    script: Script,
    words: Words = None,
    output: Output = None,
    model: Model = None,
    opset: o.Opset = 20,
    strict: o.Strict = False,
    use: o.Use = None,
    no_pack: o.NoPack = None,
    only_packs: o.OnlyPacks = None,
    json: o.Json = False,
) -> None:
    """Run a script, and see its models and which sizes change.

    The script runs as with python. hx watches its calls of modules in all threads, but not in other
    processes, and not the calls that a module makes inside. An axis whose size differs between calls
    is dynamic, and equal sizes share a name. With -o the model is exported, and the file is proved on
    the calls of the script as well. Options of hx go before the script; everything after it belongs
    to the script.

    \b
    Examples:
      hx watch train.py --epochs 1
      hx watch -o net.onnx train.py --epochs 1
      hx watch -o net.onnx --model Net train.py
    """
    from hx.cli.destination_options import check_apart, check_graph
    from hx.cli.export import command_line, report_data
    from hx.cli.output import as_json, note, say
    from hx.inputs import scripts
    from hx.packs import containers

    registry = o.registry_for(use, no_pack, only_packs, None, strict)
    o.tell_broken_packs(registry)
    given = list(words or ())
    if output is not None:
        check_apart(check_graph(output), [], str(script), None, [])
    code, command = scripts.compiled(script), command_line()
    with containers.using(registry.containers), scripts.as_main(script, given) as module:
        models, ended = _watched(module, code)
        if ended:
            note(f"{script} ended with sys.exit({ended!r})")
        shown = [each for each in models if each.has_weights and not each.inside] or models
        if model is not None:
            shown = [_named(models, model, script)]
        elif output is not None:
            _require_one(shown, script)
        if output is not None:
            [chosen] = shown
            report = _exported(chosen, output, registry, opset, strict, quiet=json)
            report.command = command
            if json:
                told = [_data(chosen, report.file.proposed or {})]
                as_json("watch", script=str(script), models=told, report=report_data(report))
            return
        proposals = [_proposal(each, opset, registry) for each in shown]
    if json:
        told = [_data(each, found) for each, found in zip(shown, proposals)]
        as_json("watch", script=str(script), models=told)
        return
    for each, found in zip(shown, proposals):
        _tell(each, found)
        say()
    _tell_rest(models, shown)
    several = f" --model {shown[0].name}" if len(shown) > 1 else ""
    file = f"{shown[0].name.lower()}.onnx"
    note(f"export and prove it: hx watch -o {file}{several} {shlex.join([str(script), *given])}")


def _watched(module: Any, code: Any) -> tuple[list[WatchedModel], object]:
    """Run the script; return its models, and what it gave to sys.exit()."""
    from hx.cleanup import run_inside
    from hx.errors import UsageError
    from hx.hooks.outermost_calls import OutermostCalls
    from hx.inputs import scripts
    from hx.inputs.watched_models import watched_models

    calls = OutermostCalls()

    def run(_: Any) -> object:
        ended = scripts.run(module, code)
        calls.wait()
        return ended

    ended = run_inside(calls, run)
    models = watched_models(calls.modules)
    if not models:
        script = module.__file__
        end = f", and ended with sys.exit({ended!r})" if ended else ""
        why = "calls are seen as model(x), not as model.forward(x), and not in other processes"
        hint = f"let the script call the model, or name it: hx export {script}:NAME"
        if ended:
            hint = f"it has to run by itself: {scripts.in_python(module)}"
        raise UsageError(f"{script} called no torch.nn.Module{end}", why=why, hint=hint)
    return models, ended


def _named(models: Sequence[WatchedModel], name: str, script: Path) -> WatchedModel:
    from hx.errors import UsageError

    found = next((each for each in models if each.name == name), None)
    if found is None:
        known = ", ".join(each.name for each in models)
        raise UsageError(f"{script} calls no model {name!r}", hint=f"it calls {known}")
    return found


def _require_one(models: Sequence[WatchedModel], script: Path) -> None:
    from hx.errors import UsageError

    if len(models) > 1:
        known = ", ".join(each.name for each in models)
        raise UsageError(
            f"{script} calls {len(models)} models: {known}",
            hint=f"say which to export, before the script: --model {models[0].name}",
        )


def _exported(
    model: WatchedModel, path: Path, registry: Registry, opset: int, strict: bool, quiet: bool
) -> Any:
    """Export a model with the calls of the script, print the summary, and return the report."""
    from hx.cli.export import run, summary
    from hx.cli.output import Progress, note
    from hx.inputs.given import Call

    example = model.example
    call = Call(example.args, example.kwargs, "auto", dict(model.others))
    with Progress() as progress:
        program = run(
            model.module, call, path, opset=opset, strict=strict, packs=registry, progress=progress
        )
    if not quiet:
        note(_head(model))
        summary(program.report, path)
    return program.report


def _proposal(model: WatchedModel, opset: int, registry: Registry) -> Proposal | HxError:
    """Return the sizes that may change: those that do, or else those that the model accepts."""
    from hx.errors import HxError
    from hx.exporter import propose

    example = model.example
    try:
        return propose(
            model.module,
            example.args,
            kwargs=example.kwargs,
            others=model.others,
            opset=opset,
            packs=registry,
        )
    except HxError as problem:  # one model that cannot be recorded hides no other
        return problem


def _tell(model: WatchedModel, found: Proposal | HxError) -> None:
    from hx.cli.output import facts
    from hx.ir.dynamic_axes import is_sum
    from hx.ir.proposed_sizes import words_of
    from hx.report.summary import proposed_sizes

    proposal = found if isinstance(found, dict) else {}
    shapes = [{name: tuple(t.shape) for name, t in each.items()} for each in model.tensors]
    ranges = []
    for word, axes in words_of(proposal).items():
        if is_sum(word):
            continue
        seen = [each[name][axis] for each in shapes for name, axis in axes]
        low, high = min(seen), max(seen)
        ranges.append(f"{word} {low} to {high}" if low < high else f"{word} {low}")
    trial = len(shapes) == 1 and proposal
    facts(
        [
            ("model", _head(model)),
            ("inputs", ", ".join(_inputs(model, proposal))),
            ("sizes", ", ".join(ranges)),
            ("dynamic", proposed_sizes(found) if isinstance(found, dict) else ""),
            ("fails", str(found) if not isinstance(found, dict) else ""),
            ("by trial", "all calls have one shape; the model also ran at others" if trial else ""),
            ("left out", _left_out(model)),
        ]
    )


def _head(model: WatchedModel) -> str:
    place = f" ({relative_paths(model.place)})" if model.place else ""
    shapes = amount(len(model.calls), "shape")
    return f"{model.name}{place}, {amount(model.count, 'call')}, {shapes}"


def _inputs(model: WatchedModel, proposal: Proposal) -> list[str]:
    from hx.budget import BUDGET

    found = [
        f"{name} {tensor_text(tensor.dtype, _sizes(tensor.shape, proposal.get(name, {})))}"
        for name, tensor in model.tensors[0].items()
    ]
    few = BUDGET.shown.summary
    return [*found[:few], *[f"and {len(found) - few} more"] * (len(found) > few)]


def _sizes(shape: Iterable[int], axes: Mapping[int, str]) -> list[Any]:
    """Return the names of the sizes that may change, and the other sizes."""
    return [axes.get(axis, n) for axis, n in enumerate(shape)]


def _left_out(model: WatchedModel) -> str:
    parts = []
    if model.other_arguments:
        parts.append(f"calls with other arguments, of {amount(model.other_arguments, 'shape')}")
    if model.left_out:
        parts.append(f"{amount(model.left_out, 'call')} at further shapes")
    return ", ".join(parts)


def _tell_rest(models: Sequence[WatchedModel], shown: Sequence[WatchedModel]) -> None:
    """Name losses, and parts of models that were called by themselves."""
    from hx.cli.output import note

    rest = [each.name for each in models if each not in shown]
    if rest:
        note(f"also called: {', '.join(rest)}; --model NAME takes one of them")


def _data(model: WatchedModel, found: Proposal | HxError) -> dict[str, Any]:
    from hx.hooks.describe import described
    from hx.ir.proposed_sizes import as_options

    proposal = found if isinstance(found, dict) else {}
    return {
        "name": model.name,
        "place": model.place,
        "calls": model.count,
        "inputs": [{name: described(t) for name, t in each.items()} for each in model.tensors],
        "other_arguments": model.other_arguments,
        "left_out": model.left_out,
        "dynamic": proposal,
        "options": as_options(proposal),
        "problem": "" if isinstance(found, dict) else str(found),
    }
