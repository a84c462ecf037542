"""Simple conversions for simple options, so that a listing does not wait for pydantic.

typer 0.29 converts every option through pydantic, whose import takes longer than all the rest of a
listing. The options of hx are flags, words, numbers and paths; those are converted here. With a
typer that lacks this hook, nothing changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args, get_origin

import typer

_PLAIN = {str: str, int: int, float: float, Path: Path, bool: bool}


def lighten(command: Any) -> Any:
    """Give all parameters of a command, and of those below it, simple conversions."""
    for parameter in command.params:
        _lighten(parameter)
    original = command.get_help_option
    command.get_help_option = lambda context: _lighten(original(context))
    for below in getattr(command, "commands", {}).values():
        lighten(below)
    return command


def _lighten(parameter: Any) -> Any:
    described = getattr(parameter, "type_descriptor", None)
    kind = _kind(getattr(described, "annotation", None))
    if kind is not None and hasattr(parameter, "_runtime_param"):
        parameter._runtime_param = _Light(kind, parameter.type_descriptor.parameter_info)
    return parameter


def _kind(annotation: Any) -> Any:
    """Return the simple type of an annotation (str for `list[str]`); None if typer converts it."""
    if get_origin(annotation) is list:
        annotation = get_args(annotation)[0]
    return annotation if annotation in _PLAIN else None


@dataclass(frozen=True)
class _Light:
    kind: type
    info: Any

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        if param.multiple or param.nargs == -1:
            return [self._one(each, param, ctx) for each in value or ()]
        return None if value is None else self._one(value, param, ctx)

    def _one(self, value: Any, param: Any, ctx: Any) -> Any:
        if self.kind is Path and not value:  # which Path takes as the current folder
            raise typer.BadParameter("it is empty.", ctx=ctx, param=param)
        try:
            made = _PLAIN[self.kind](value)
        except ValueError:
            what = "a whole number" if self.kind is int else f"a {self.kind.__name__}"
            raise typer.BadParameter(f"{value!r} is not {what}.", ctx=ctx, param=param) from None
        low, high = getattr(self.info, "min", None), getattr(self.info, "max", None)
        if (low is not None and made < low) or (high is not None and made > high):
            limits = f"not from {low} to {high}" if high is not None else f"less than {low}"
            raise typer.BadParameter(f"{made} is {limits}.", ctx=ctx, param=param)
        return made
