"""First sketch of a converter: the target's signature, and an example call found by trying."""

from __future__ import annotations

import functools
import inspect
import keyword
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

# Usual arguments of functions of tensors, tried in this order.
_SHAPES = ("float32[batch,4]", "float32[batch,3,8,8]", "float32[batch,6,4]", "int64[batch,4]<4")

ANYTHING = "*args, **kwargs"


@dataclass(frozen=True)
class Sketch:
    """Draft of a converter: the target, its parameters as source, and a case as source or ''."""

    target: str
    function: str
    parameters: str = ANYTHING
    case: str = ""
    overrides: tuple[str, ...] = ()  # packs that convert the target already
    others: tuple[str, ...] = ()  # more names of the same thing

    @property
    def source(self) -> str:
        extra = [f"cases=[{self.case}]"] if self.case else []
        extra += [f"overrides={list(self.overrides)!r}".replace("'", '"')] if self.overrides else []
        words = [*(f'"{name}"' for name in (self.target, *self.others)), *extra]
        head = f"@converter({', '.join(words)})"
        if len(head) > 96:
            head = "@converter(\n" + "".join(f"    {word},\n" for word in words) + ")"
        remark = (
            ""
            if self.case
            else ('    # An example call makes the tests: cases=[case("float32[batch,4]")]\n')
        )
        return (
            f"{head}\n"
            f"def {self.function}(op, {self.parameters}):\n"
            f'    """{self.target} in ONNX."""\n'
            f"{remark}"
            "    # Say it with operators: return op.Mul(op.Sigmoid(x), x)\n"
            "    # Until then the calls of PyTorch inside of it are converted one by one; one with none,\n"
            "    # that is compiled or goes through NumPy, stays without a converter.\n"
            "    return NotImplemented\n"
        )


def sketches(targets: Iterable[str]) -> list[Sketch]:
    """Sketch each thing once, however many of its names are given, with a unique function name."""
    by_meaning: dict[Hashable, list[str]] = {}
    for target in dict.fromkeys(targets):
        by_meaning.setdefault(_meant(target), []).append(target)
    taken: Counter[str] = Counter()
    found = []
    for target, *others in by_meaning.values():
        one = replace(sketch(target), others=tuple(others))
        taken[one.function] += 1
        if (number := taken[one.function]) > 1:
            one = replace(one, function=f"{one.function}_{number}")
        found.append(one)
    return found


def _meant(target: str) -> Hashable:
    from hx.packs.targets import resolve

    try:
        return resolve(target, import_missing=True).meant
    except Exception:  # not installed, not importable: a name is all there is
        return target


def sketch(target: str) -> Sketch:
    """Sketch a converter from all that is known; a target not installed gets the bare minimum."""
    name = target.removesuffix(".forward").replace("::", ".").split(".")[-1]
    name = (
        "".join(f"_{c.lower()}" if c.isupper() else c for c in name).strip("_").replace("__", "_")
    )
    if not name.isidentifier() or keyword.iskeyword(name):
        name = f"convert_{name}"
    try:
        function = _function(target)
    except Exception:  # not installed, not importable: the author fills it in
        return Sketch(target, name)
    parameters = _parameters(function)
    if parameters in ("", ANYTHING):
        parameters = _of_operator(target) or ANYTHING
    return Sketch(target, name, parameters, _case(target, function), _converted_by(target))


def _converted_by(target: str) -> tuple[str, ...]:
    """Return the installed packs that convert the target under any name, for `overrides=`."""
    from hx import Registry

    registry = Registry.installed()
    names = registry.names(_meant(target))
    keys = [each.pack for each in registry.registrations if each.target in names]
    return tuple(dict.fromkeys(registry.label(key) for key in keys))


def _function(target: str) -> Any:
    from torch.autograd import Function

    from hx.packs.targets import resolve

    found = resolve(target, import_missing=True)
    if found.kind == "autograd" and found.owner.setup_context is Function.setup_context:
        return functools.partial(found.owner.forward, None)  # callers do not pass ctx
    if found.kind == "autograd":
        return found.owner.forward
    return found.function or getattr(found.owner, found.attribute)


def _parameters(function: Any) -> str:
    """Return the parameters as the converter writes them: names and plain defaults."""
    try:
        given = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return ""
    parts = []
    star = False
    for each in given:
        star = star or each.kind is each.VAR_POSITIONAL
        if each.kind is each.KEYWORD_ONLY and not star:
            parts.append("*")
            star = True
        mark = "*" * (each.kind is each.VAR_POSITIONAL) or "**" * (each.kind is each.VAR_KEYWORD)
        default = ""
        if each.default is not each.empty:
            plain = isinstance(each.default, (int, float, bool, str, type(None), tuple))
            default = f"={each.default!r}" if plain else "=None"
        parts.append(f"{mark}{each.name}{default}")
    return ", ".join(parts)


def _of_operator(target: str) -> str:
    """Return the parameters of a function not written in Python, from the operator it calls."""
    import torch

    from hx.packs.targets import resolve
    from hx.recording.calls.choices import MEANINGLESS

    namespace, _, name = str(resolve(target, import_missing=True).key).partition("::")
    packet = getattr(getattr(torch.ops, namespace, None), name, None) if name else None
    if packet is None:
        return ""
    overloads = [getattr(packet, each) for each in packet.overloads()]
    # Some are operators of TorchScript, for numbers: `add.int(int a, int b)`.
    overloads.sort(key=lambda each: not _takes_tensors(each))
    parts = []
    star = False
    for each in overloads[0]._schema.arguments:
        if each.name in MEANINGLESS:
            continue
        if each.kwarg_only and not star:
            parts.append("*")
            star = True
        own = "input" if each.name == "self" else each.name
        own = f"{own}_" if keyword.iskeyword(own) else own
        default = each.default_value
        if isinstance(default, list):  # a stride of [1, 1] is written 1
            default = default[0] if len(set(default)) == 1 else tuple(default)
        plain = isinstance(default, (int, float, bool, str, tuple))
        optional = each.has_default_value()
        parts.append(own + (f"={default if plain else None!r}" if optional else ""))
    return ", ".join(parts)


def _takes_tensors(overload: Any) -> bool:
    given = overload._schema.arguments
    return any("Tensor" in str(each.type) for each in given if each.name != "out")


def _case(target: str, function: Any) -> str:
    """Return the source of an example call that works, or ''."""
    import torch

    from hx.registration import case
    from hx.testing.calls import call_of

    needed = _needed(function)
    if needed is None:
        return ""
    module = target.endswith(".forward") or _is_module(target)
    needed -= module
    for specs in _guesses(needed):
        try:
            call = call_of(target, case(*specs))
            with torch.no_grad():
                result = call.model(*call.tensors)
        except Exception:  # the guess does not fit the function, whatever it raises
            continue
        if isinstance(result, torch.Tensor):
            return f"case({', '.join(repr(spec) for spec in specs).replace(chr(39), chr(34))})"
    return ""


def _needed(function: Any) -> int | None:
    """Count the required positional arguments; 1 if the signature is not known."""
    try:
        given = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 1
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(each.kind in positional and each.default is each.empty for each in given)


def _guesses(needed: int) -> Iterator[tuple[str, ...]]:
    for shape in _SHAPES:
        if 1 <= needed <= 3:
            yield (shape,) * needed


def _is_module(target: str) -> bool:
    from torch import nn

    from hx.packs.targets import resolve

    owner = resolve(target, import_missing=True).owner
    return isinstance(owner, type) and issubclass(owner, nn.Module)
