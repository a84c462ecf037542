"""Error of a converter that lacks a parameter which the model's call passes."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch

from ...errors import ConverterError, TargetError
from ...packs import targets
from ...registration import Registration


def lacking_parameter(
    choice: Registration, args: tuple, kwargs: Mapping[str, Any]
) -> ConverterError | None:
    """Return the error for arguments that a converter does not take; None if it takes them."""
    try:
        signature = inspect.signature(choice.function)
    except (TypeError, ValueError):
        return None
    ours = list(signature.parameters.values())[1:]  # after op
    places = [p for p in ours if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    names = {p.name for p in ours if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    packed = [p for p in ours if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    kinds = {p.kind for p in packed}
    lacking: list[str] = []
    if len(args) > len(places) and inspect.Parameter.VAR_POSITIONAL not in kinds:
        theirs = _names(choice.target)
        lacking += [
            theirs[i] if i < len(theirs) else f"argument {i + 1}"
            for i in range(len(places), len(args))
        ]
    if inspect.Parameter.VAR_KEYWORD not in kinds:
        lacking += [name for name in kwargs if name not in names]
    what = f"the converter of {choice.target} ({choice.pack})"
    named = f"def {choice.function.__name__}{signature}"
    if lacking:
        told = " and ".join(lacking)
        return ConverterError(
            f"{what} has no parameter for {told}, which the model passes",
            why=f"converter: {choice.where}: {named}",
            hint=f"add {told} to its parameters, under the names and defaults of the target",
        )
    given = {p.name for p in places[: len(args)]} | set(kwargs)
    asked = [p.name for p in ours if p.default is p.empty and p not in packed]
    asked = [name for name in asked if name not in given]
    if not asked:
        return None
    told = " and ".join(asked)
    return ConverterError(
        f"{what} asks for {told}, which the model does not pass",
        why=f"converter: {choice.where}: {named}",
        hint=f"give {told} the default that the target has",
    )


def _names(target: str) -> list[str]:
    """Return the names of a target's parameters; none where Python does not know them."""
    try:
        found = targets.resolve(target)
    except TargetError:
        return []
    space, _, name = str(found.key).partition("::")
    packet = getattr(getattr(torch.ops, space), name, None) if name else None
    if packet is not None and hasattr(packet, "overloads"):
        schemas = [getattr(packet, each)._schema for each in packet.overloads()]
        longest = max(schemas, key=lambda schema: len(schema.arguments))
        return [argument.name for argument in longest.arguments]
    function = found.function if found.function is not None else found.raw
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return []
