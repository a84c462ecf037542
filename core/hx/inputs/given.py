"""Inputs of a call from the command line: `--input`, `--inputs FILE`, or the model's own.

Names are those of the forward's parameters. Named inputs go to their parameters, inputs without a
name fill the remaining ones in order, and any others keep the model's own example.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hx.errors import InputError
from hx.free_memory import free_memory, gigabytes
from hx.inputs.spec import Loaded
from hx.ir.call_arguments import Arguments
from hx.ir.dynamic_axes import is_sum
from hx.ir.input_grammar import LIMITS, TensorSpec, choose_sizes, parse_input
from hx.text import did_you_mean
from hx.weights.tensor_files import read

COPIES_OF_INPUTS = 2  # an input exists twice: as given, and as a copy that the model may write to


@dataclass
class Call:
    """Arguments for `hx.export`, and the axes that may change, by input name."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    dynamic: dict[str, dict[int, str]] | str  # "auto": hx proposes them
    others: dict[str, Arguments] = field(default_factory=dict)  # further valid inputs, by file

    @property
    def named(self) -> dict[str, dict[int, str]]:
        """Axes that the user named."""
        return {} if isinstance(self.dynamic, str) else self.dynamic


def call_for(
    loaded: Loaded,
    texts: Iterable[str] = (),
    file: Path | None = None,
    dynamic: Iterable[str] = (),
    seed: int = 0,
    automatic: bool = False,
) -> Call:
    """Build the call of the model from the options of the command line.

    With `automatic`, the command takes `--dynamic auto`.
    """
    texts = list(texts)
    parsed = [parse_input(text) for text in texts]
    sizes = choose_sizes(spec for _, spec in parsed)
    _require_room({text: spec.bytes(sizes) for text, (_, spec) in zip(texts, parsed)})
    given = _read(loaded, file) if file is not None else []
    given += [(name, spec.make(sizes, seed + i)) for i, (name, spec) in enumerate(parsed)]
    given = [(name, _beside(loaded.model, value)) for name, value in given]
    specs = [None] * (len(given) - len(parsed)) + [spec for _, spec in parsed]
    signature = _signature(loaded)
    bound, where = _bind(signature, loaded, given, file, len(given) - len(parsed))
    axes: dict[str, dict[int, str]] = {}
    for name, spec in zip(where, specs):
        if isinstance(spec, TensorSpec) and spec.dynamic:
            axes[name] = spec.dynamic
    dynamic = list(dynamic)
    if "auto" in dynamic:
        _require_alone(dynamic, texts, axes, automatic)
        return dataclasses.replace(_call(signature, bound, {}), dynamic="auto")
    for name, extra in _dynamic(dynamic, bound).items():
        here = axes.setdefault(name, {})
        for axis, word in extra.items():
            _require_one(name, axis, here.get(axis), word)
            here[axis] = word
    return _call(signature, bound, axes)


def further_inputs(loaded: Loaded, call: Call, file: Path) -> Arguments:
    """Return the arguments of a call with the inputs of a file in the place of its own."""
    signature = _signature(loaded)
    own = dataclasses.replace(loaded, args=call.args, kwargs=call.kwargs)
    given = [(name, _beside(loaded.model, value)) for name, value in _read(loaded, file)]
    bound, _ = _bind(signature, own, given, file, len(given))
    made = _call(signature, bound, {})
    return Arguments(made.args, made.kwargs)


def names_of(files: Sequence[Path]) -> list[str]:
    """Return a name for each file: the last part of its path, where that tells them apart."""
    names = [file.name for file in files]
    return names if len(set(names)) == len(names) else [str(file) for file in files]


def _read(loaded: Loaded, file: Path) -> list[tuple[str | None, Any]]:
    """Return the inputs in a file, with their names where it has some."""
    content = read(file, times=COPIES_OF_INPUTS)
    if not isinstance(content, Mapping):
        several = content if isinstance(content, (tuple, list)) else (content,)
        return [(None, value) for value in several]
    if not all(isinstance(name, str) for name in content):
        raise InputError(f"{file} names its tensors with something other than words")
    return [(_maybe(name, loaded), value) for name, value in content.items()]


def _beside(model: Any, value: Any) -> Any:
    """Move a tensor to the device of the model's weights if that is a GPU."""
    held = next(model.parameters(), None) if hasattr(model, "parameters") else None
    return value.to(held.device) if held is not None and held.is_cuda else value


def _signature(loaded: Loaded) -> inspect.Signature:
    from hx.recording.prepare import parameters_of

    return inspect.Signature(parameters_of(loaded.model))


def _maybe(name: str, loaded: Loaded) -> str | None:
    """Return the name; None if numpy gave it to an array saved without one: arr_0, arr_1, ..."""
    known = _signature(loaded).parameters
    return None if name not in known and name.startswith("arr_") else name


def _bind(
    signature: inspect.Signature,
    loaded: Loaded,
    given: list[tuple[str | None, Any]],
    file: Path | None = None,
    filed: int = 0,
) -> tuple[dict[str, Any], list[str]]:
    """Bind arguments to parameter names; also return the parameter of each given one.

    The first `filed` of the given arguments were read from `file`.
    """
    parameters = [*signature.parameters.values()]
    plain = [p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    rest = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), None)
    named = next((p.name for p in parameters if p.kind is p.VAR_KEYWORD), None)
    bound = _own_inputs(signature, loaded, rest, named)
    taken = {name for name, _ in given if name}
    free = [name for name in plain if name not in taken]
    where: list[str] = []
    for i, (asked, value) in enumerate(given):
        name = asked or ""
        if asked is None:
            if not free and rest is None:
                raise InputError(
                    f"the model takes {len(plain)} inputs ({', '.join(plain)}), and "
                    f"{len(given)} are given"
                )
            name = free.pop(0) if free else f"{rest}_{sum(n.startswith(f'{rest}_') for n in where)}"
        elif name not in plain and named is None and not (rest and name.startswith(f"{rest}_")):
            raise _no_input(name, plain, file if i < filed else None)
        if name in where:
            raise InputError(
                f"the input {name!r} is given twice", hint="by one --input, or in the --inputs FILE"
            )
        bound[name] = value
        where.append(name)
    _require_all([p.name for p in parameters if p.default is p.empty and p.name in plain], bound)
    return bound, where


def _no_input(name: str, plain: list[str], file: Path | None) -> InputError:
    instead = f'write --input "{plain[0]}=float32[...]"' if plain else ""
    return InputError(
        f"the model has no input {name!r}" + (f", as {file} has it" if file is not None else ""),
        why=f"its forward takes {', '.join(plain) or 'nothing'}",
        hint=did_you_mean(name, plain, instead),
    )


def _own_inputs(
    signature: inspect.Signature, loaded: Loaded, rest: str | None, named: str | None
) -> dict[str, Any]:
    """Return the model's own example inputs by name; those of *rest are numbered."""
    try:
        own = signature.bind_partial(*loaded.args, **loaded.kwargs).arguments
    except TypeError as problem:
        raise InputError(
            f"the model's own example inputs do not fit its forward: {problem}",
            why=f"its forward takes {', '.join(signature.parameters) or 'nothing'}",
            hint="let SPEC return (module, inputs), with one input for each of these",
        ) from None
    bound: dict[str, Any] = {}
    for name, value in own.items():
        if name == rest:
            bound.update((f"{rest}_{i}", each) for i, each in enumerate(value))
        else:
            bound.update(value if name == named else {name: value})
    return bound


def _require_all(required: list[str], bound: dict[str, Any]) -> None:
    missing = [name for name in required if name not in bound]
    if missing:
        examples = " ".join(f'--input "{name}=float32[batch,...]"' for name in missing)
        raise InputError(
            f"there is no example for the model's input {', '.join(missing)}",
            hint=f"describe it by dtype and shape: {examples}",
        )


def _call(
    signature: inspect.Signature, bound: dict[str, Any], axes: dict[str, dict[int, str]]
) -> Call:
    """Return positional arguments up to the first gap, and the others by keyword."""
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
    """Parse `image:0=batch,2=h%8>=32` into {"image": {0: "batch", 2: "h%8>=32"}}."""
    names = list(bound)
    found: dict[str, dict[int, str]] = {}
    for text in texts:
        name, colon, axes = text.partition(":")
        pairs = [pair.partition("=") for pair in axes.split(",")] if colon else []
        good = [
            (axis.strip(), word.strip() or f"{name}_{axis.strip()}")
            for axis, _, word in pairs
            if re.fullmatch(r"-?[0-9]+", axis.strip())
            and (is_sum(word) or re.fullmatch(rf"([^\W\d]\w*\s*{LIMITS}*)?", word.strip()))
        ]
        if not pairs or len(good) != len(pairs):
            raise InputError(
                f"--dynamic {text!r} is not NAME:AXIS=WORD",
                why="an axis is a number, and a word begins with a letter",
                hint=f'write --dynamic "{names[0] if names else "x"}:0=batch"',
            )
        name = name.strip()
        inside = any(name.startswith(f"{known}_") for known in names)  # of a nested input
        if name not in names and not inside:
            raise InputError(
                f"--dynamic: no input {name!r}",
                hint=did_you_mean(name, names, f"inputs are {', '.join(names)}"),
            )
        rank = getattr(bound.get(name), "ndim", 0)
        for written, word in good:
            axis = int(written)
            axis += rank if -rank <= axis < 0 else 0
            _require_one(name, axis, found.get(name, {}).get(axis), word)
            found.setdefault(name, {})[axis] = word
    return found


def _require_alone(
    dynamic: Sequence[str],
    texts: Sequence[str],
    axes: Mapping[str, dict[int, str]],
    automatic: bool,
) -> None:
    """Raise if a command does not take `--dynamic auto`, or sizes are named beside it."""
    if not automatic:
        raise InputError(
            "--dynamic auto goes with hx export and hx scan only",
            hint="paste the options that hx export --dynamic auto prints",
        )
    if len(dynamic) > 1:
        raise InputError(
            "--dynamic auto finds all sizes itself",
            hint="leave the other --dynamic out, or name all of them",
        )
    if axes:
        words = ", ".join(word for each in axes.values() for word in each.values())
        raise InputError(
            f"--dynamic auto finds the sizes itself, and --input names {words}",
            hint=f'give numbers in --input, or leave "auto" out: {texts[0]}',
        )


def _require_one(name: str, axis: int, before: str | None, word: str) -> None:
    """Raise if an axis has two names; limits may follow a name."""
    first, second = (re.split("[<>%]", each)[0].strip() for each in (before or word, word))
    if first != second:
        raise InputError(f"axis {axis} of {name} has two names: {first} and {second}")


def _require_room(sizes: Mapping[str, int]) -> None:
    """Raise if there is no memory for the inputs to be made."""
    need, room = COPIES_OF_INPUTS * sum(sizes.values()), free_memory().memory
    if need > room:
        text = max(sizes, key=lambda each: sizes[each])
        raise InputError(
            f"there is not enough memory for --input {text!r}",
            why=f"a run takes {gigabytes(need)} for its inputs, and {gigabytes(room)} are left",
            hint="choose smaller sizes",
        )
