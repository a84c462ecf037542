"""Further valid inputs of a user, at other sizes: checked like the inputs of the recording."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from .. import dtypes
from ..errors import UsageError
from ..ir import dynamic_axes
from ..ir.call_arguments import Arguments
from ..ir.request import Call, Inputs, Request
from ..text import amount
from ..torchworld.modes.absent_weights import Slim
from .prepare import flat_inputs, parameters_of


def with_others(request: Request, others: Any, slim: Slim | None = None) -> Request:
    """Return the request with further inputs: a list of them, or a dict in which each has a name."""
    if others is None or (isinstance(others, (list, tuple, Mapping)) and not others):
        return request
    return with_other_inputs(request, other_inputs(request.call, others, slim))


def with_other_inputs(request: Request, others: Mapping[str, Inputs]) -> Request:
    """Return the request with further inputs, if these are like its own."""
    for name, tensors in others.items():
        for key, tensor in tensors.items():
            axes = request.sizes.get(key, {})
            _require_kind(f"{key} in {name}", tensor, request.call.tensors[key], axes)
        _require_sizes(name, tensors, request.sizes)
    return replace(request, others=dict(others))


def other_inputs(call: Call, others: Any, slim: Slim | None = None) -> dict[str, Inputs]:
    """Return the tensors of further inputs, whatever their sizes are."""
    if isinstance(others, Mapping):
        named = {str(name): each for name, each in others.items()}
    elif isinstance(others, (list, tuple)) and not hasattr(others, "_fields"):
        named = {f"others[{i}]": each for i, each in enumerate(others)}
    else:
        raise UsageError(
            f"others= has to be a list of inputs, and is {type(others).__name__}",
            hint="others=[(x, mask), (longer_x, longer_mask)], each as `args`",
        )
    recorded = flat_inputs(call.model, call.args, call.kwargs)
    keys = [key for key, leaf in recorded.items() if isinstance(leaf, torch.Tensor)]
    names = dict(zip(keys, call.names))
    found = {}
    for name, each in named.items():
        arguments = _arguments(name, each, call, names)
        leaves = flat_inputs(call.model, arguments.args, arguments.kwargs)
        _require_alike(name, leaves, recorded, names)
        found[name] = {
            names[key]: slim.given(key, leaves[key]) if slim else leaves[key] for key in keys
        }
    return found


def _arguments(name: str, each: Any, call: Call, names: Mapping[str, str]) -> Arguments:
    """Return the arguments that one entry of `others=` stands for."""
    if isinstance(each, Arguments):
        return each
    if not isinstance(each, Mapping):
        plain = isinstance(each, (list, tuple)) and not hasattr(each, "_fields")
        return Arguments(tuple(each) if plain else (each,), call.kwargs)
    parameters = parameters_of(call.model)
    known = {p.name for p in parameters} | call.kwargs.keys()
    unknown = [str(key) for key in each if key not in known]
    if unknown and len(call.args) == 1 and isinstance(call.args[0], Mapping):
        return Arguments((each,), call.kwargs)  # the model's one argument is such a dict
    if unknown and not any(p.kind is p.VAR_KEYWORD for p in parameters):
        raise UsageError(
            f"{name} names {unknown[0]!r}, which is no input",
            why=f"there are {', '.join(sorted(known))}",
            hint="a dict has the arguments by name; a tuple has them in their order",
        )
    by_place = [
        p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
    ]
    by_place = by_place[: len(call.args)]
    args = tuple(each.get(key, own) for key, own in zip(by_place, call.args))
    more = {key: value for key, value in each.items() if key not in by_place}
    return Arguments(args + call.args[len(by_place) :], {**call.kwargs, **more})


def _require_alike(
    name: str, leaves: Mapping[str, Any], recorded: Mapping[str, Any], names: Mapping[str, str]
) -> None:
    """Raise unless these arguments have the structure and the constants of the recorded ones."""
    for key, was in recorded.items():
        told = names.get(key, key)
        if key not in leaves:
            raise UsageError(
                f"{name} lacks {told}",
                hint="give each of the further inputs all that the first ones have",
            )
        now = leaves[key]
        if isinstance(was, torch.Tensor):
            if not isinstance(now, torch.Tensor):
                raise UsageError(
                    f"{told} in {name} is {_told(now)}, and a tensor in the recorded inputs"
                )
        elif not _is_same(now, was):
            raise UsageError(
                f"{told} in {name} is {_told(now)}, and {_told(was)} in the recorded inputs",
                why="whatever is not a tensor is fixed in the graph",
                hint="export it once for each, or give a tensor",
            )
    more = [key for key in leaves if key not in recorded]
    if more:
        raise UsageError(f"{name} has {more[0]}, which the recorded inputs do not have")


def _is_same(now: Any, was: Any) -> bool:
    try:
        return now is was or (type(now) is type(was) and bool(now == was))
    except Exception:  # an object that refuses ==, with an error of any kind
        return type(now) is type(was)


def _told(thing: Any) -> str:
    if isinstance(thing, torch.Tensor):
        return f"a tensor of shape {list(thing.shape)}"
    text = repr(thing)
    return text if len(text) < 40 else type(thing).__name__


def _require_kind(
    what: str, tensor: torch.Tensor, recorded: torch.Tensor, axes: Mapping[int, str]
) -> None:
    """Raise unless a tensor has the dtype, the rank and the fixed sizes of the recorded one."""
    if tensor.dtype != recorded.dtype:
        raise UsageError(
            f"{what} is {dtypes.name(tensor.dtype)}, and {dtypes.name(recorded.dtype)} in the recorded inputs",
            hint="a file takes one dtype for each input",
        )
    if tensor.dim() != recorded.dim():
        raise UsageError(
            f"{what} has shape {list(tensor.shape)}, and {list(recorded.shape)} in the recorded inputs",
            why=f"it has {amount(tensor.dim(), 'axis', 'axes')}, and not {recorded.dim()}",
        )
    if tensor.is_meta and not recorded.is_meta:
        raise UsageError(f"{what} is on the meta device: it has a shape, and no numbers")
    for axis, (now, was) in enumerate(zip(tensor.shape, recorded.shape)):
        if now != was and axis not in axes:
            raise UsageError(
                f"axis {axis} of {what} is {now}, and {was} in the recorded inputs",
                hint=f'name the axis, if it may change: dynamic={{"{what.split(" in ")[0]}": '
                f'{{{axis}: "n"}}}}',
            )


def _require_sizes(name: str, tensors: Inputs, sizes: dynamic_axes.Axes) -> None:
    """Raise unless one name of a size means one size, within its limits."""
    known: dict[str, tuple[int, str]] = {}
    sums: list[tuple[str, int, str]] = []
    for key, axes in sizes.items():
        for axis, word in axes.items():
            if dynamic_axes.is_sum(word):
                sums.append((key, axis, word))
                continue
            n = tensors[key].shape[axis]
            before, first = known.setdefault(word, (n, key))
            if before != n:
                raise UsageError(
                    f"in {name} {word!r} is {before} in {first} and {n} in {key}",
                    why="one name means one size",
                    hint="give the two sizes different names, or inputs that agree",
                )
            limit = sizes.limits[word]
            if not limit.hold(n):
                raise UsageError(
                    f"in {name} {word} is {n}, outside of its limits: {limit.in_words(word)}",
                    hint="give inputs that are within them, or other limits",
                )
    by_name = {word: n for word, (n, _) in known.items()}
    for key, axis, word in sums:
        n, total = tensors[key].shape[axis], dynamic_axes.total(word, by_name)
        if n != total:
            raise UsageError(f"in {name} axis {axis} of {key} is {n}, and {word} is {total}")
