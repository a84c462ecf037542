"""`hx packs list|check|new`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hx.cli import options as o

if TYPE_CHECKING:
    from hx.packs.installed import Pack
    from hx.packs.pack_findings import Finding
    from hx.packs.registry import Registry

app = typer.Typer(help="List and check installed packs, or write a new one.", no_args_is_help=True)


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
    from hx.cli.output import STATUS, as_json, table
    from hx.packs.installed import requirements_unmet

    registry = o.registry_for(no_pack=no_pack, only_packs=only_packs)
    sound = [pack for pack in registry.packs if pack.status == "ok"]
    lacking = {pack.key: found for pack in sound if (found := requirements_unmet(pack))}
    if json:
        told = [pack.to_json() for pack in registry.packs]
        for each in told:
            each["findings"] += [found.to_json() for found in lacking.get(each["key"], ())]
        as_json("packs list", packs=told)
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
        _print_faults(pack, lacking.get(pack.key, ()))


def _print_faults(pack: Pack, lacking: Sequence[Finding]) -> None:
    """Print why a pack is out, what it lacks, and how many warnings there are about it."""
    from hx.cli.output import STATUS, note, paint, say, say_prose

    if pack.error:
        say()
        say(f"{paint(pack.key, 'bold')} is {paint(pack.status, STATUS[pack.status])}")
        say_prose(f"  {pack.error}")
        for finding in pack.findings:
            if finding.message == pack.error:
                for name, text in {"where": finding.place, "fix": finding.fix}.items():
                    if text:
                        say_prose(f"  {name + ':':<6} {text}")
    for finding in lacking:
        say()
        say_prose(f"{finding.message}\n  fix:   {finding.fix}")
    warned = [each for each in pack.findings if each.level == "warning"]
    if warned:
        note(f"{pack.key}: {len(warned)} to look at: hx packs check {pack.distribution}")


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

    Looks at hooks, targets and signatures, and prints each pack when it is done. Every finding has
    an id, a place and a fix. The standard pack, whose thousands of cases take minutes, is checked
    only if it is named. Exit code 3 says that a pack has errors.

    \b
    Examples:
      hx packs check
      hx packs check hx-spconv --no-cases
    """
    from hx.cli.output import Progress, as_json, note
    from hx.testing.check import examine
    from hx.text import amount

    chosen = _chosen(names or (), o.registry_for())
    checked = []
    with Progress() as progress:
        for pack in chosen:
            if not (progress.enabled or json):  # there it is told case by case
                of = "the cases of " * cases + amount(len(pack.registrations), "converter")
                note(f"checking {pack.key}: {of}")
            found, ran = examine(pack, cases, progress)
            checked.append((pack, found, ran))
            if not json:
                progress.wipe()
                _print_checked(pack, found, ran)
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
    elif not chosen:
        note("no third-party pack is installed; check the standard pack with: hx packs check hx")
    elif not any(found for _, found, _ in checked):
        note("" if broken else "all is well")
    if broken:
        raise typer.Exit(3)


def _chosen(names: Sequence[str], registry: Registry) -> list[Pack]:
    """Return the packs of these names; all third-party ones if none is named."""
    if names:
        return [pack for name in names for pack in registry.named(name)]
    return [pack for pack in registry.packs if pack.distribution != "hx"]


def _print_checked(pack: Pack, found: Sequence[Finding], ran: int) -> None:
    from hx.cli.output import STATUS, paint, say, say_prose
    from hx.text import amount

    wrong = pack.status == "ok" and any(each.level == "error" for each in found)
    state = paint("wrong", "red") if wrong else paint(pack.status, STATUS[pack.status])
    say(
        f"{paint(pack.key, 'bold')} {pack.version}: {state}, "
        f"{amount(len(pack.registrations), 'converter')}, {amount(ran, 'case')} run, "
        f"{amount(len(found), 'finding')}"
    )
    if pack.status in ("incompatible", "disabled"):
        say_prose(f"  {pack.error}")
    for finding in found:
        say_prose("  " + str(finding).replace("\n", "\n  "))


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
        typer.Option("--in", metavar="FOLDER", help="Where to write it; the current folder by default.",
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
