"""`hx packs list|check|new`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hx.cli import options as o

app = typer.Typer(help="Installed packs: see, check, and write them.", no_args_is_help=True)


@app.command("list")
def list_(
    no_pack: o.NoPack = None,
    only_packs: o.OnlyPacks = None,
    json: o.Json = False,
) -> None:
    """List installed packs, also those that are broken, and why.

    \b
    Examples:
      hx packs list
      hx packs list --json
    """
    from hx.cli.output import STATUS, as_json, note, paint, say, say_prose, table

    registry = o.registry_for(no_pack=no_pack, only_packs=only_packs)
    if json:
        as_json("packs list", packs=[pack.to_json() for pack in registry.packs])
        return
    rows = []
    for pack in registry.packs:
        gives = ", ".join(
            f"{n} {what if n != 1 else what[:-1]}" for what, n in pack.counts.items() if n
        )
        gives = gives.replace("passe", "pass") if "1 passe" in gives else gives
        api = str(pack.api or "")
        rows.append([pack.key, pack.version, pack.status, api, gives])
    table(["pack", "version", "status", "api", "gives"], rows, by_value=STATUS, shrink=[4])
    for pack in registry.packs:
        if pack.error:
            say()
            say(f"{paint(pack.key, 'bold')} is {paint(pack.status, STATUS[pack.status])}")
            say_prose(f"  {pack.error}")
            for finding in pack.findings:
                if finding.message == pack.error:
                    facts = {"where": finding.place, "fix": finding.fix}
                    for name, text in facts.items():
                        if text:
                            say_prose(f"  {name + ':':<6} {text}")
        told = [each for each in pack.findings if each.level == "warning"]
        if told:
            note(f"{pack.key}: {len(told)} to look at: hx packs check {pack.distribution}")


@app.command()
def check(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PACK",
            help="Packs; all third-party ones if none is named.",
            autocompletion=o.complete_pack,
            show_default=False,
        ),
    ] = None,
    cases: Annotated[
        bool, typer.Option("--cases/--no-cases", help="Also run the cases of the converters.")
    ] = True,
    json: o.Json = False,
) -> None:
    """Check installed packs, and run the cases of their converters.

    Looks at hooks, targets and signatures. Every finding has an id, a place and a fix. Exit code
    3 says that a pack has errors.

    \b
    Examples:
      hx packs check
      hx packs check hx-spconv --no-cases
    """
    from hx.cli.output import STATUS, Progress, as_json, note, paint, say, say_prose
    from hx.testing.check import examine
    from hx.words import amount

    registry = o.registry_for()
    others = [pack for pack in registry.packs if pack.distribution != "hx"]
    chosen = (
        [pack for name in names or () for pack in registry.named(name)]
        or others
        or list(registry.packs)
    )
    checked = []
    with Progress() as progress:
        for pack in chosen:
            if not (progress.enabled or json):  # there it is told case by case
                of = "the cases of " * cases + amount(len(pack.registrations), "converter")
                note(f"checking {pack.key}: {of}")
            checked.append((pack, *examine(pack, cases, progress)))
    broken = any(f.level == "error" for _, findings, _ in checked for f in findings) or any(
        pack.status == "incompatible" for pack in chosen
    )
    if json:
        as_json(
            "packs check",
            ok=not broken,
            packs=[
                {**pack.to_json(), "findings": [f.to_json() for f in found], "cases_run": ran}
                for pack, found, ran in checked
            ],
        )
    else:
        for pack, found, ran in checked:
            wrong = pack.status == "ok" and any(each.level == "error" for each in found)
            state = paint("wrong", "red") if wrong else paint(pack.status, STATUS[pack.status])
            say(f"{paint(pack.key, 'bold')} {pack.version}: {state}, "
                f"{amount(len(pack.registrations), 'converter')}, {amount(ran, 'case')} run, "
                f"{amount(len(found), 'finding')}")  # fmt: skip
            if pack.status in ("incompatible", "disabled"):
                say_prose(f"  {pack.error}")
            for finding in found:
                say_prose("  " + str(finding).replace("\n", "\n  "))
        note("" if broken or any(found for _, found, _ in checked) else "all is well")
    if broken:
        raise typer.Exit(3)


@app.command()
def new(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Name of the distribution.", show_default=False)
    ],
    target: Annotated[
        list[str],
        typer.Option(
            "--target", "-t", metavar="TARGET", help="What it converts.", show_default=False
        ),
    ],
    folder: Annotated[
        Path | None,
        typer.Option("--in", metavar="FOLDER", help="Where to write it; here if not said.",
                     show_default=False),
    ] = None,
    json: o.Json = False,
) -> None:  # fmt: skip
    """Write a complete pack, whose tests pass as they are.

    Package metadata, a converter for each target with its signature, tests, CI and a README.

    \b
    Examples:
      hx packs new hx-mylib --target mylib.ops.swirl
      hx packs new hx-acme -t acme.Spline.forward -t acme::knots --in ~/packs
    """
    from hx.cli.output import as_json, note, say
    from hx.scaffold import write

    root, files = write(name, target, folder or Path())
    if json:
        as_json("packs new", folder=str(root), files=[str(file) for file in files])
        return
    for file in files:
        say(str(root / file))
    note(f"next:  cd {root} && pip install -e . pytest && pytest")
