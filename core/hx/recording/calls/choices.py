"""The choice of a converter for a call at a door, and of its arguments."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import torch

from ...errors import TargetError
from ...ir.sizes.dims import Dim, plain
from ...ir.value import Value
from ...packs import symbolic, targets
from ...packs.registry import Choice, Registry
from ...packs.targets import Target
from ...registration import Registration
from . import target_index
from .arguments import Arguments

# Names that torch accepts for the same parameter.
_SPELLINGS = {"axis": "dim", "keepdims": "keepdim", "x": "input", "a": "input", "x1": "input",
              "x2": "other"}  # fmt: skip


class Choices:
    """The converters of one export, by the key of what arrives."""

    def __init__(self, registry: Registry, opset: int) -> None:
        self._registry, self._opset = registry, opset
        answered = target_index.of(registry, opset)
        self.functions, self.places = answered.functions, answered.places
        self.compiled, self.objects = answered.compiled, answered.objects
        self.idle, self.replaced = answered.idle, answered.replaced
        self._by_key: dict[Any, list[tuple[Target, Choice]]] = answered.by_key
        self._complex: dict[Any, list[tuple[Target, Choice]]] = answered.complex
        self._adopted: dict[Any, list[tuple[Target, Choice]]] = {}
        self._ranked: dict[Any, list[tuple[Target, list[Choice]]]] = {}
        self._alone: dict[Any, Registration] = {}  # the converter of a key, whatever its arguments

    def named(self, target: str) -> bool:
        """Return True if there is a converter of a target under this name."""
        return target in self._registry.select(self._opset)

    def by_hand(self, choice: Registration) -> bool:
        return self._registry.is_by_hand(choice)

    def of(self, key: Any) -> bool:
        """Return True if there is a converter for this key."""
        known = key in self._by_key or key in self._complex or key in self._adopted
        return known or (isinstance(key, str) and self._adopt(key))

    def _entries(self, key: Any, complex: bool) -> list[tuple[Target, Choice]] | None:
        if complex:
            return self._complex.get(key)
        return self._by_key.get(key) or self._adopted.get(key)

    def _adopt(self, key: str) -> bool:
        """Adopt functions registered with PyTorch itself, for its older exporter."""
        found = symbolic.of_operator(key, self._opset)
        if found is None:
            return False
        choice = Choice(key, (found,), "registered with torch.onnx")
        self._adopted[key] = [(Target(key, "operator", key), choice)]
        return True

    def pick(self, key: Any, args: tuple = (), complex: bool = False) -> Registration | None:
        """The converter of a torch function, an operator or an autograd function."""
        alone = None if complex else self._alone.get(key)
        if alone is not None:
            return alone
        entries = self._entries(key, complex) or ()
        if len(entries) == 1 and entries[0][0].kind != "callable":
            found = entries[0][1].registration
            if not complex:
                self._alone[key] = found
            return found
        return next(self.candidates(key, args, complex), None)

    def candidates(
        self, key: Any, args: tuple = (), complex: bool = False
    ) -> Iterator[Registration]:
        """The converters to ask for a call, one after the other, until one does not decline.

        There are several only where classes share one function, inherited: the nearest class first.
        """
        entries = self._entries(key, complex)
        if entries is None:
            return
        if len(entries) == 1:
            target, choice = entries[0]
            if _is_of(target, args):
                yield choice.registration
            return
        subject = _class_of(entries[0][0], args)
        ranked = self._ranked.get((key, subject, complex))
        if ranked is None:
            ranked = self._ranked[key, subject, complex] = _rank(entries, args, subject)
        for target, choices in ranked:
            if len(choices) > 1:
                best = self._registry.pick([r for c in choices for r in c.candidates])
                choices[:] = [Choice(target.text, (best,), "by any name")]
            yield choices[0].registration

    def fit(self, choice: Registration, given: Arguments) -> tuple[tuple, dict]:
        """The arguments as the converter's signature spells them."""
        args, kwargs = given.args, given.kwargs
        for value in given.values:
            if _like_a_number(value.shape):
                args, kwargs = _with_numbers(choice.target, given)
                break
        form = _form(choice.function)
        if args:
            at = _packs_at(choice.target)
            if at is not None and len(args) > at and type(args[at]) in (int, Dim):
                args = (*args[:at], list(args[at:]))
        if kwargs and not form.takes_any and not kwargs.keys() <= form.names:
            args, kwargs = _renamed(choice.target, form, args, dict(kwargs))
        elif kwargs.get("out", 0) is None:
            kwargs = {k: v for k, v in kwargs.items() if k != "out"}
        return args, kwargs


def _renamed(target: str, form: _Form, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
    """The arguments under the names of a converter's parameters, without meaningless ones."""
    for name in [k for k in kwargs if k not in form.names]:
        other = _SPELLINGS.get(name)
        if other in form.names:
            kwargs[other] = kwargs.pop(name)
        elif name in ("input", "self", "tensor") and not args:
            args = (kwargs.pop(name),)
        elif name in MEANINGLESS:
            kwargs.pop(name)
        else:
            place = _place(target, name)
            known = place is not None and place < len(form.order)
            own = form.order[place] if place is not None and known else name
            if own not in kwargs and len(args) <= (place or 0):
                kwargs[own] = kwargs.pop(name)
    return args, kwargs


# Parameters that determine a result's place and layout, but not its contents.
MEANINGLESS = {"out", "memory_format", "layout", "device", "pin_memory", "requires_grad",
               "non_blocking", "copy", "generator", "names"}  # fmt: skip


def _class_of(target: Target, args: tuple) -> type | None:
    """The class that a method is called on; None for functions, which belong to none."""
    if target.kind != "callable" or not isinstance(target.owner, type) or not args:
        return None
    if isinstance(target.raw, staticmethod):
        return None
    if isinstance(target.raw, classmethod):
        return args[0] if isinstance(args[0], type) else None
    return type(args[0])


def _is_of(target: Target, args: tuple) -> bool:
    if target.kind != "callable" or not isinstance(target.owner, type):
        return True
    if isinstance(target.raw, staticmethod):
        return True
    subject = _class_of(target, args)
    return subject is not None and issubclass(subject, target.owner)


def _rank(entries: list, args: tuple, subject: type | None) -> list[tuple[Target, list[Choice]]]:
    """The entries that fit, those of one owner together, the owner nearest to the class first."""
    groups: dict[int, tuple[Target, list[Choice]]] = {}
    for target, choice in entries:
        if _is_of(target, args):
            own = id(target.owner) if target.kind == "callable" and subject is not None else 0
            groups.setdefault(own, (target, []))[1].append(choice)
    order = subject.__mro__ if subject is not None else ()
    return sorted(
        groups.values(),
        key=lambda g: order.index(g[0].owner) if g[0].owner in order else len(order),
    )


class _Form:
    __slots__ = ("names", "order", "takes_any")

    def __init__(self, function: Callable) -> None:
        parameters = list(inspect.signature(function).parameters.values())[1:]
        self.names = {p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
        self.order = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
        self.takes_any = any(p.kind == p.VAR_KEYWORD for p in parameters)


_form = functools.lru_cache(maxsize=8192)(_Form)


def _with_numbers(text: str, given: Arguments) -> tuple[tuple, dict]:
    """The arguments with a number in place of each tensor that stands where torch takes a number.

    One that only the graph knows becomes a size, where whole numbers are taken, and else stays.
    """
    at, whole, numbers = _packs_at(text), _takes(text, _WHOLE), _takes(text, _NUMBERS)

    # A list of numbers may be what a tensor may be as well: sum(x), with x one number.
    packed = range(at if at in whole else len(given.args), len(given.args))
    args = [
        _plain(given, x, i in whole or i in packed) if i in numbers or i in packed else x
        for i, x in enumerate(given.args)
    ]
    return tuple(args), {
        k: _plain(given, x, k in whole) if k in numbers else x for k, x in given.kwargs.items()
    }


def _plain(given: Arguments, x: Any, is_size: bool) -> Any:
    """The number in a tensor, or the size; anything without one is returned as it is."""
    if isinstance(x, (list, tuple)):
        several = any(isinstance(n, Value) for n in x)
        return type(x)([_plain(given, n, is_size) for n in x]) if several else x
    if not isinstance(x, Value) or (x.shape and not (is_size and _like_a_number(x.shape))):
        return x
    found = given.number(x)
    if found is None and is_size and not x.dtype.is_floating_point:
        found = given.size(x)
    return x if found is None else found


def _like_a_number(shape: tuple | None) -> bool:
    """Return True if torch may read a tensor of this shape as a number: rank 0, or one axis of 1.

    Two tuples of different lengths are compared size by size first, which is slow with dims.
    """
    return not shape or (len(shape) == 1 and plain(shape[0]) == 1)


@functools.cache
def _takes(text: str, kinds: frozenset[str]) -> frozenset[int | str]:
    """Positions and names of the parameters that are of some kinds, and of no other ones."""
    those: set[int | str] = set()
    other: set[int | str] = set()
    for overload in _overloads(text):
        for i, argument in enumerate(overload._schema.arguments):
            kind = str(argument.type).removeprefix("Optional[").removesuffix("]")
            (those if kind in kinds else other).add(argument.name)
            if not argument.kwarg_only:
                (those if kind in kinds else other).add(i)
    return frozenset(those - other)


_WHOLE = frozenset({"int", "SymInt", "List[int", "List[int]", "List[SymInt", "List[SymInt]"})
_NUMBERS = _WHOLE | {"float", "number", "bool", "List[float", "List[float]"}


@functools.cache
def _place(text: str, name: str) -> int | None:
    """The position of an operator's parameter; None if its overloads differ."""
    found = {
        i
        for overload in _overloads(text)
        for i, argument in enumerate(overload._schema.arguments)
        if argument.name == name and not argument.kwarg_only
    }
    return found.pop() if len(found) == 1 else None


def _overloads(text: str) -> list[Any]:
    """The overloads of a target that is an operator of PyTorch."""
    try:
        target = targets.resolve(text)
    except TargetError:
        return []
    # A Python function of torch's takes what the operator of its name takes.
    key = target.key if isinstance(target.key, str) else f"aten::{target.attribute}"
    if not key.startswith("aten::") or (key != target.key and target.kind != "torch"):
        return []
    packet = getattr(torch.ops.aten, key.removeprefix("aten::"), None)
    return [getattr(packet, name) for name in packet.overloads()] if packet is not None else []


@functools.cache
def _packs_at(text: str) -> int | None:
    """The position of the list for which torch takes single numbers: `x.view(2, 3)`."""
    for overload in _overloads(text):
        arguments = [a for a in overload._schema.arguments if not a.kwarg_only]
        for i, argument in enumerate(arguments[:2]):
            # Nothing may stand behind it: x.movedim(0, 1) names two axes, not a list of them.
            # Nor is a list beside a list meant: eq of two lists of numbers is an operator, too.
            before = [str(a.type) for a in arguments[:i]]
            alone = i + 1 == len(arguments) and before in ([], ["Tensor"])
            if alone and str(argument.type) in ("List[int]", "List[SymInt]") and argument.N is None:
                return i
    return None
