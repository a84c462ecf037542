"""The inputs of a call from the command line: `--input`, `--inputs FILE`, or the model's own.

Names are those of the forward's parameters. What is given by name goes to that parameter, what
has no name fills the parameters that are left, in order; the rest stays the model's own example.
"""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hx.errors import UsageError
from hx.inputs.files import read
from hx.inputs.grammar import LIMITS, TensorSpec, choose_sizes, parse_input
from hx.inputs.spec import Loaded
from hx.proof.room import left, told

TIMES = 2  # an input is there as it is given, and as the model gets it, which may write to it


@dataclass
class Call:
    """What `hx.export` gets: arguments, and the axes that may change, by input name."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    dynamic: dict[str, dict[int, str]]


def call_for(
    loaded: Loaded,
    texts: Iterable[str] = (),
    file: Path | None = None,
    dynamic: Iterable[str] = (),
    seed: int = 0,
) -> Call:
    """The call of the model that the options of the command line describe."""
    texts = list(texts)
    parsed = [parse_input(text) for text in texts]
    sizes = choose_sizes(spec for _, spec in parsed)
    _require_room({text: spec.bytes(sizes) for text, (_, spec) in zip(texts, parsed)})
    given: list[tuple[str | None, Any]] = []
    if file is not None:
        content = read(file, times=TIMES)
        if isinstance(content, Mapping):
            if not all(isinstance(name, str) for name in content):
                raise UsageError(f"{file} names its tensors with something other than words")
            given += [(_maybe(name, loaded), value) for name, value in content.items()]
        else:
            several = content if isinstance(content, (tuple, list)) else (content,)
            given += [(None, value) for value in several]
    given += [(name, spec.make(sizes, seed + i)) for i, (name, spec) in enumerate(parsed)]
    given = [(name, _beside(loaded.model, value)) for name, value in given]
    specs = [None] * (len(given) - len(parsed)) + [spec for _, spec in parsed]
    signature = _signature(loaded)
    bound, where = _bind(signature, loaded, given, file, len(given) - len(parsed))
    axes: dict[str, dict[int, str]] = {}
    for name, spec in zip(where, specs):
        if isinstance(spec, TensorSpec) and spec.dynamic:
            axes[name] = spec.dynamic
    for name, extra in _dynamic(dynamic, bound).items():
        here = axes.setdefault(name, {})
        for axis, word in extra.items():
            _require_one(name, axis, here.get(axis), word)
            here[axis] = word
    return _call(signature, bound, axes)


def _beside(model: Any, value: Any) -> Any:
    """A tensor where the model's weights are, if that is a GPU."""
    held = next(model.parameters(), None) if hasattr(model, "parameters") else None
    return value.to(held.device) if held is not None and held.is_cuda else value


def _signature(loaded: Loaded) -> inspect.Signature:
    from hx.recording.prepared import parameters_of

    return inspect.Signature(parameters_of(loaded.model))


def _maybe(name: str, loaded: Loaded) -> str | None:
    """numpy calls arrays that were saved without a name arr_0, arr_1, ..."""
    known = _signature(loaded).parameters
    return None if name not in known and name.startswith("arr_") else name


def _bind(
    signature: inspect.Signature,
    loaded: Loaded,
    given: list[tuple[str | None, Any]],
    file: Path | None = None,
    filed: int = 0,
) -> tuple[dict[str, Any], list[str]]:
    """All arguments by parameter name, and where each of the given ones went.

    The first `filed` of them come from a file.
    """
    parameters = signature.parameters
    plain = [p.name for p in parameters.values() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    rest = next((p.name for p in parameters.values() if p.kind is p.VAR_POSITIONAL), None)
    named = next((p.name for p in parameters.values() if p.kind is p.VAR_KEYWORD), None)
    bound: dict[str, Any] = {}
    try:
        own = signature.bind_partial(*loaded.args, **loaded.kwargs).arguments
    except TypeError as problem:
        raise UsageError(
            f"the model's own example inputs do not fit its forward: {problem}"
        ) from None
    for name, value in own.items():
        if name == rest:
            bound.update((f"{rest}_{i}", each) for i, each in enumerate(value))
        else:
            bound.update(value if name == named else {name: value})
    taken = {name for name, _ in given if name}
    free = [name for name in plain if name not in taken]
    where: list[str] = []
    for i, (asked, value) in enumerate(given):
        name = asked or ""
        if asked is None:
            if not free and rest is None:
                raise UsageError(
                    f"the model takes {len(plain)} inputs ({', '.join(plain)}), and "
                    f"{len(given)} are given"
                )
            name = free.pop(0) if free else f"{rest}_{sum(n.startswith(f'{rest}_') for n in where)}"
        elif name not in plain and named is None and not (rest and name.startswith(f"{rest}_")):
            near = difflib.get_close_matches(name, plain, 1)
            raise UsageError(
                f"the model has no input {name!r}" + (f", as {file} has it" if i < filed else ""),
                why=f"its forward takes {', '.join(plain) or 'nothing'}",
                hint=f"did you mean {near[0]}?" if near else "",
            )
        if name in where:
            raise UsageError(
                f"the input {name!r} is given twice", hint="by one --input, or in the --inputs FILE"
            )
        bound[name] = value
        where.append(name)
    missing = [
        p.name
        for p in parameters.values()
        if p.default is p.empty and p.name in plain and p.name not in bound
    ]
    if missing:
        examples = " ".join(f'--input "{name}=float32[batch,...]"' for name in missing)
        raise UsageError(
            f"the model has no example for {', '.join(missing)}",
            hint=f"describe it with its own dtype and shape: {examples}",
        )
    return bound, where


def _call(
    signature: inspect.Signature, bound: dict[str, Any], axes: dict[str, dict[int, str]]
) -> Call:
    """Positional arguments as far as there is no gap, and the others by keyword."""
    args: list[Any] = []
    left = dict(bound)
    gap = False
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            for name in [n for n in bound if n.startswith(f"{parameter.name}_")]:
                args.append(left.pop(name))
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            gap = gap or parameter.name not in left
            if not gap:
                args.append(left.pop(parameter.name))
    return Call(tuple(args), left, axes)


def _dynamic(texts: Iterable[str], bound: Mapping[str, Any]) -> dict[str, dict[int, str]]:
    """`image:0=batch,2=h%8>=32` -> {"image": {0: "batch", 2: "h%8>=32"}}."""
    names = list(bound)
    found: dict[str, dict[int, str]] = {}
    for text in texts:
        name, colon, axes = text.partition(":")
        pairs = [pair.partition("=") for pair in axes.split(",")] if colon else []
        good = [
            (axis.strip(), word.strip() or f"{name}_{axis.strip()}")
            for axis, _, word in pairs
            if re.fullmatch(r"-?[0-9]+", axis.strip())
            and re.fullmatch(rf"([^\W\d]\w*\s*{LIMITS}*)?", word.strip())
        ]
        if not pairs or len(good) != len(pairs):
            raise UsageError(
                f"--dynamic {text!r} is not NAME:AXIS=WORD",
                why="an axis is a number, and a word begins with a letter",
                hint=f'write --dynamic "{names[0] if names else "x"}:0=batch,2=height"',
            )
        name = name.strip()
        if name not in names:
            raise UsageError(f"--dynamic: no input {name!r}", hint=f"inputs are {', '.join(names)}")
        rank = getattr(bound[name], "ndim", 0)
        for written, word in good:
            axis = int(written)
            axis += rank if -rank <= axis < 0 else 0
            _require_one(name, axis, found.get(name, {}).get(axis), word)
            found.setdefault(name, {})[axis] = word
    return found


def _require_one(name: str, axis: int, before: str | None, word: str) -> None:
    """That an axis is called by one name; its limits may be said beside that."""
    first, second = (re.split("[<>%]", each)[0].strip() for each in (before or word, word))
    if first != second:
        raise UsageError(f"axis {axis} of {name} is called {first}, and {second}")


def _require_room(sizes: Mapping[str, int]) -> None:
    """That there is memory for inputs that are about to be made."""
    need, room = TIMES * sum(sizes.values()), left().memory
    if need > room:
        text = max(sizes, key=lambda each: sizes[each])
        raise UsageError(
            f"there is no memory for --input {text!r}",
            why=f"a run takes {told(need)} for its inputs, and {told(room)} are left",
            hint="give it smaller sizes",
        )
