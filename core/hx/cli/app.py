"""Command tree, in the order of `hx --help`."""

from __future__ import annotations

import importlib
from typing import Annotated, Any

import typer

from hx.cli.border import guard
from hx.cli.help_groups import grouped
from hx.cli.light import lighten

# Commands in the order of `hx --help`; each lives in the file of its name.
COMMANDS = ("export", "scan", "watch", "inspect", "verify", "diff", "view", "bench", "explain")
GROUPS = ("converters", "packs")
# Options behind the script of `hx watch` belong to the script.
SETTINGS = {"watch": {"allow_interspersed_args": False}}

app = typer.Typer(
    name="hx",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


@app.callback(invoke_without_command=True)
def root(
    context: typer.Context,
    show_version: Annotated[
        bool, typer.Option("--version", "-V", help="Show the versions that a bug report needs.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="With --version: print JSON.")] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show tracebacks instead of messages.")
    ] = False,
) -> None:
    """Turn PyTorch models into ONNX by watching them run once.

    \b
    Start here:
      hx export hx.demo:model -o demo.onnx
      hx export torchvision:resnet50 -o r.onnx -i "x=float32[batch,3,224,224]"
      hx scan my_model.py:build       what has a converter, and what lacks one
      hx watch train.py               which models a script calls, at which sizes
      hx converters list              what can be converted, by which pack
      hx packs new hx-mylib --target mylib.op    a package with a converter

    \b
    Exit codes:
      0  all is well                3  a pack is broken or missing
      1  the export failed          4  the graph and the model differ
      2  the command line is wrong  5  converters are missing
    """
    if show_version:
        from hx.cli.version import show

        show(json)
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


def in_order(words: list[str]) -> list[str]:
    """Rewrite `--json packs list` as `packs list --json`: common options may come first."""
    if words[:1] != ["--json"] or words[1:2] not in [[name] for name in (*COMMANDS, *GROUPS)]:
        return words
    _, *rest = words
    named = 2 if rest[0] in GROUPS else 1
    return [*rest[:named], "--json", *rest[named:]]


def command(first: str = "") -> Any:
    """Build the tree as one callable; if the first word is a command, only that command's part."""
    app.registered_commands.clear()  # of an earlier call, in another order
    app.registered_groups.clear()
    names = [first] if first in (*COMMANDS, *GROUPS) else [*COMMANDS, *GROUPS]
    for name in names:
        module = importlib.import_module(f"hx.cli.{name}")
        if name in GROUPS:
            app.add_typer(module.app, name=name)
        else:
            app.command(name, context_settings=SETTINGS.get(name))(getattr(module, name))
    tree = guard(lighten(grouped(typer.main.get_command(app))))
    if "export" in names:
        _let_certificate_be_bare(tree.commands["export"])
    return tree


def _let_certificate_be_bare(export: Any) -> None:
    """Let `--certificate` of `hx export` come without a value, which typer cannot express."""
    from hx.cli.certified import with_file

    parse = export.parse_args
    export.parse_args = lambda context, words: parse(context, with_file(words))
