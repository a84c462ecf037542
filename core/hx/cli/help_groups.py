"""Help of a command: its options in groups, and what SPEC may be."""

from __future__ import annotations

from typing import Any

# Groups of options, in the order in which help shows them; others have no group.
INPUTS, OUTPUT, PROOF, PACKS, MANY = (
    "Inputs and weights", "Output", "Proof", "Packs", "Many models, with --batch",
)  # fmt: skip
ORDER = (INPUTS, OUTPUT, PROOF, PACKS, MANY, "")


def grouped(command: Any) -> Any:
    """Make a command, and those below it, show their options in groups."""
    below = getattr(command, "commands", {})
    for each in below.values():
        grouped(each)
    if not below:
        command.format_options = lambda context, formatter: _write(command, context, formatter)
    return command


def options_by_group(parameters: list[Any]) -> dict[str, list[Any]]:
    """Return the options in the order of their groups, or in one group if they are few."""
    options = [each for each in parameters if each.param_type_name == "option"]
    if len(options) <= 10:  # one list of so few is easier to read
        return {"": options} if options else {}
    return {
        group: found
        for group in ORDER
        if (found := [each for each in options if (each.rich_help_panel or "") == group])
    }


def _write(command: Any, context: Any, formatter: Any) -> None:
    parameters = command.get_params(context)
    arguments = [each for each in parameters if each.param_type_name == "argument"]
    others = [
        (each.metavar or each.name.upper(), each.get_help_record(context)[1])
        for each in arguments
        if each.metavar != "SPEC"
    ]
    if others:
        with formatter.section("Arguments"):
            formatter.write_dl(others)
    if len(others) < len(arguments):
        with formatter.section("SPEC, the model"):
            formatter.write_dl(_forms_of_spec())
    groups = options_by_group(parameters)
    for group, options in groups.items():
        title = group or ("Options" if len(groups) == 1 else "Other options")
        with formatter.section(title):
            formatter.write_dl([each.get_help_record(context) for each in options])


def _forms_of_spec() -> list[tuple[str, str]]:
    """List the forms of a SPEC, and the model sources of installed packs."""
    from hx.packs.registry import Registry

    return [
        ("file.py:NAME", "NAME in a file: a module, a class of them, or a function that"
                         " returns a module or (module, inputs)"),
        ("package.module:NAME", "the same, in an installed package"),
        *((f"{each.scheme}:NAME", each.doc) for each in Registry.installed().sources),
    ]  # fmt: skip
