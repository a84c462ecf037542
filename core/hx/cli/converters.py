"""`hx converters list|show|try`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hx.cli import options as o
from hx.cli.converter_table import print_table, require_columns
from hx.cli.help_groups import OUTPUT, PACKS
from hx.cli.meant_targets import called_inside, matching, meant, near_names
from hx.cli.usual_names import PREFIXES, full_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from hx.packs.registry import Choice, Refusal, Registry
    from hx.registration import Registration

app = typer.Typer(help="List and show converters, or try new ones.", no_args_is_help=True)

Pattern = Annotated[
    str | None,
    typer.Argument(
        metavar="PATTERN",
        help="Part of a target, a glob, or a name such as +.",
        autocompletion=o.complete_target,
        show_default=False,
    ),
]
Fields = Annotated[
    str,
    typer.Option("--fields", metavar="NAMES", help="Columns, separated by commas."),
]
Sort = Annotated[str, typer.Option("--sort", metavar="NAME", help="Sort by this column.")]
Pack = Annotated[
    str | None,
    typer.Option(
        "--pack",
        metavar="PACK",
        help="Only those of this pack.",
        autocompletion=o.complete_pack,
        show_default=False,
        rich_help_panel=PACKS,
    ),
]
AtOpset = Annotated[
    int | None,
    typer.Option(
        "--opset",
        min=13,
        max=26,
        help="Only those for this opset.",
        show_default=False,
        rich_help_panel=OUTPUT,
    ),
]


@app.command("list")
def list_(
    pattern: Pattern = None,
    pack: Pack = None,
    opset: AtOpset = None,
    fields: Fields = "target,converter,pack,opsets,needs",
    sort: Sort = "target",
    use: o.Use = None,
    no_pack: o.NoPack = None,
    only_packs: o.OnlyPacks = None,
    json: o.Json = False,
) -> None:
    """List the converters of all installed packs, one row for each target.

    Columns: target, converter, pack, opsets, needs, complex, cases, file.

    \b
    Examples:
      hx converters list
      hx converters list conv
      hx converters list + --fields target,cases,file
      hx converters list "torch.nn.*.forward" --pack standard
      hx converters list --opset 13 --json
    """
    from hx.cli.output import as_json, note
    from hx.text import amount

    registry = o.registry_for(use, no_pack, only_packs)
    chosen = registry.pack(pack).key if pack else None
    columns = [name.strip() for name in fields.split(",") if name.strip()]
    require_columns([*columns, sort])
    named = matching(pattern, registry)
    found = [
        each
        for each in named
        if chosen in (None, each.pack) and (opset is None or each.covers(opset))
    ]
    found.sort(key=lambda each: (each.target, each.complex, each.pack, each.since or 0))
    if json:
        as_json("converters list", converters=[as_data(each) for each in found])
    else:
        print_table(found, columns, sort, registry)
        packs = amount(len({each.pack for each in found}), "pack")
        targets = amount(len({each.target for each in found}), "target")
        note(
            f"{targets}, {amount(len(found), 'converter')} in {packs}" if found else "0 converters"
        )
        if pattern and not named:
            near = ", ".join(near_names(pattern, registry))
            instead = f"names like it: {near}" if near else "hx converters list has all names"
            note(f"  hint:  {instead}; hx scan SPEC lists the calls that a model makes")
    o.tell_broken_packs(registry)


@app.command()
def show(
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            help="A target, or the end of one.",
            autocompletion=o.complete_target,
            show_default=False,
        ),
    ],
    opset: o.Opset = 20,
    use: o.Use = None,
    no_pack: o.NoPack = None,
    only_packs: o.OnlyPacks = None,
    json: o.Json = False,
) -> None:
    """Show who converts a target, why, and how.

    Each converter in order of precedence, with its conditions, its cases and its source.

    \b
    Examples:
      hx converters show Conv2d
      hx converters show F.conv2d
      hx converters show +
      hx converters show torch.nn.Conv2d.forward
      hx converters show relu --opset 13
    """
    from hx.cli.output import as_json, say, say_prose

    registry = o.registry_for(use, no_pack, only_packs)
    groups = meant(target, registry)
    followed = not groups
    if followed:
        groups = called_inside(target, registry)
        if groups and not json:
            say_prose(
                f"{target} has no converter of its own, and needs none: the calls inside of it "
                f"are converted. It calls {', '.join(names[0] for names in groups)}."
            )
            say()
    shown: list[dict[str, Any]] = []
    printed: set[str] = set()
    for names in groups:
        for complex in (False, True):
            choice, refused = registry.choose(names, opset, complex)
            for each, state in _states(choice, refused):
                shown.append({**as_data(each), "state": state})
                if json:
                    continue
                if each.complex and _source(each) in printed:
                    say_prose(f"{told(each)} is converted by the same function")
                    say()
                else:
                    _print_converter(each, state)
                    printed.add(_source(each))
            if choice is not None and choice.problem is not None and not json:
                say_prose(str(choice.problem))
    if not groups and not json:
        _print_why_none(target, registry)
    if json:
        as_json("converters show", opset=opset, followed=followed, converters=shown)


def _states(
    choice: Choice | None, refused: Sequence[Refusal]
) -> Iterator[tuple[Registration, str]]:
    """Yield the converters of a target in order of precedence, each with why it is used or not."""
    if choice is not None:
        first = choice.reason if choice.tie else f"used, {choice.reason}"
        for place, each in enumerate(choice.candidates):
            yield each, first if place == 0 or choice.tie else "not used"
    for refusal in refused:
        yield refusal.registration, f"not used: {refusal.reason}"


def _print_converter(each: Registration, state: str) -> None:
    from hx.cli.output import facts, paint, say

    say(paint(told(each), "bold"))
    facts(
        [
            ("state", state),
            ("converter", _signature(each)),
            ("pack", each.pack),
            ("where", str(each.where)),
            ("opsets", each.window),
            ("needs", ", ".join(each.requires)),
            ("domain", each.domain),
            ("priority", each.priority or None),
            ("overrides", ", ".join(each.overrides)),
            ("kept", "where it depends on no input, too" if each.kept else None),
            ("optional", "where it is chosen with --use" if each.optional else None),
            ("cases", "\n".join(_case(case) for case in each.cases[:5])),
        ]
    )
    say()
    say(_source(each))
    say()


def _print_why_none(target: str, registry: Registry) -> None:
    """Print what happens to a target without a converter."""
    from hx.cli.output import note, say_prose

    library = full_name(target).replace("::", ".").partition(".")[0]
    if library in ("torch", *PREFIXES):
        say_prose(
            f"{target} has no converter of its own, and needs none: the calls inside of it "
            "are converted, each by its own"
        )
    else:
        say_prose(
            f"{target} has no converter. What it calls of torch is converted by itself; what "
            f"it computes otherwise needs one: hx packs new my-pack --target {target}"
        )
    near = registry.nearest(target)
    if near:
        note(f"names like it: {', '.join(near)}")
    note("hx scan SPEC lists the calls that a model makes")


@app.command("try")
def try_(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="A Python file with converters.", show_default=False),
    ],
    spec: o.Spec,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write the graph to this file.",
            show_default=False,
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    input: o.Input = None,
    inputs: o.Inputs = None,
    weights: o.Weights = None,
    dynamic: o.Dynamic = None,
    opset: o.Opset = 20,
    use: o.Use = None,
    no_pack: o.NoPack = None,
    only_packs: o.OnlyPacks = None,
    strict: o.Strict = False,
    seed: o.Seed = 0,
    json: o.Json = False,
) -> None:
    """Try converters from a loose file on a model.

    The model is exported in memory, checked and run, without a package. Converters of FILE come
    before those of installed packs. Nothing is written without -o.

    \b
    Examples:
      hx converters try my_converters.py my_model.py:build
      hx converters try relu.py hx.demo:model -i "image=float32[batch,3,h,w]"
    """
    from hx.cli import export
    from hx.cli.destination_options import check_graph
    from hx.cli.output import Progress, as_json, note, warn
    from hx.errors import HxError
    from hx.inputs.spec import module_from_file
    from hx.text import amount

    path = check_graph(output) if output else None
    registry = o.registry_for(use, no_pack, only_packs, strict=strict)
    module = module_from_file(file, "FILE is a Python file with converters; SPEC comes behind it")
    registry.add(module, pack=file.name)
    with Progress() as progress:
        progress("loading the model")
        loaded, call = o.model_and_call(spec, registry, input, inputs, weights, dynamic, seed)
        try:
            program = export.run(
                loaded.model, call, path, opset=opset, strict=strict, packs=registry,
                progress=progress,
            )  # fmt: skip
        except HxError as problem:
            idle = [_idle(target, registry, opset, file.name) for target in _targets(module)]
            hint = problem.hint.partition("; hx export --keep-rejected")[0]  # there may be no FILE
            problem.hint = "\n         ".join([*filter(None, idle), hint])
            raise
    report = program.report
    tried = [_tried(target, registry, report, file.name) for target in _targets(module)]
    if json:
        unused = [each["target"] for each in tried if not each["converted"]]
        data = export.report_data(report)
        as_json("converters try", ok=True, unused=unused, tried=tried, report=data)
        return
    export.summary(report, path)
    for each in tried:
        if each["converted"]:
            calls = amount(each["converted"], "call")
            note(f"{each['target']}: {calls} converted by {file.name}")
        if each["why"]:
            warn(f"{each['target']} of {file.name} {each['why']}")


def _targets(module: Any) -> list[str]:
    from hx.registration import registrations

    return sorted({each.target for each in registrations(module)})


def _idle(target: str, registry: Registry, opset: int, pack: str) -> str:
    """Return why a target's converter could not be asked at all, or an empty string."""
    from hx.errors import TargetError
    from hx.packs.targets import resolve

    try:
        resolve(target)
    except TargetError as problem:
        return f"the converter of {target} answers for nothing: {problem.what}"
    why = _left_out(target, registry, opset, pack)
    return f"the converter of {target} {why}" if why else ""


def _tried(target: str, registry: Registry, report: Any, pack: str) -> dict[str, Any]:
    """Count the calls of a target that a loose file converted, with the reason for those it did not."""
    from hx.errors import TargetError
    from hx.packs.targets import resolve
    from hx.text import amount

    converted, declined = (report.calls.by_pack.get((pack, target, no), 0) for no in (False, True))
    why = ""
    if declined:
        why = f"declined {amount(declined, 'call')}: what they call inside was converted instead"
    elif not converted:
        why = _left_out(target, registry, report.opset, pack) or "was never called by this model"
        try:
            resolve(target)
        except TargetError as problem:
            why = f"answers for nothing: {problem.what}"
    return {"target": target, "converted": converted, "declined": declined, "why": why}


def _left_out(target: str, registry: Registry, opset: int, pack: str) -> str:
    """Return why no converter in a file can be used for a target, if that follows from its options."""
    reasons = []
    for complex in (False, True):
        choice, refused = registry.choose([target], opset, complex)
        reasons += [each.reason for each in refused if each.registration.pack == pack]
        mine = choice is not None and any(each.pack == pack for each in choice.candidates)
        if choice is not None and mine:
            first = choice.candidates[0]
            if first.pack == pack:
                return ""
            reasons.append(f"is not used: that of {registry.label(first.pack)} was chosen")
    return "; ".join(reasons)


def told(each: Registration) -> str:
    return f"{each.target}{' of complex numbers' * each.complex}"


def as_data(each: Registration) -> dict[str, Any]:
    return {
        "target": each.target,
        "converter": each.name,
        "pack": each.pack,
        "since": each.since,
        "until": each.until,
        "requires": list(each.requires),
        "domain": each.domain,
        "priority": each.priority,
        "overrides": list(each.overrides),
        "complex": each.complex,
        "kept": each.kept,
        "optional": each.optional,
        "cases": len(each.cases),
        "file": each.file,
        "line": each.line,
        "doc": each.doc,
    }


def _signature(each: Registration) -> str:
    import inspect

    try:
        return f"{each.name}{inspect.signature(each.function)}"
    except (TypeError, ValueError):
        return each.name


def _case(case: Any) -> str:
    def told(args: Any, kwargs: Any) -> str:
        return ", ".join([*map(_value, args), *(f"{k}={_value(v)}" for k, v in kwargs.items())])

    made = told(case.init, case.init_kwargs)
    return (f"({made})" if made else "") + f"({told(case.args, case.kwargs)})"


def _value(value: Any) -> str:
    return "lambda" if callable(value) else repr(value)


def _source(each: Registration) -> str:
    import inspect

    try:
        return inspect.getsource(each.function).rstrip()
    except (OSError, TypeError):
        return f"# the source of {each.name} is not at hand"
