"""Libraries that generate Python code for the sizes that they get, and keep it: einx.

    einx.where("b j, b j d, ", mask, x, 0.0)      ->      torch.reshape(mask, (2, 6, 1)), ...

Such a library is asked for that code twice, at sizes that are prime numbers: the factors of the
numbers in it then show which sizes they are products of. The code runs with sizes in place of these
numbers. If any other number depends on the sizes, the library runs as it always does.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from ...ir.sizes import dims
from ..recording import Recording

# Larger than what such code says by itself, and small enough for a product of five in 64 bits.
_FIRST = (2003, 2011, 2017, 2027, 2029, 2039, 2053, 2063)
_SECOND = (3001, 3011, 3019, 3023, 3037, 3041, 3049, 3061)


def hooks(recording: Recording) -> dict[Any, Callable]:
    """The handlers of the library's functions, by function."""
    library = sys.modules.get("einx")
    if library is None or not recording.builder.sizes.named:
        return {}
    known = [x for x in vars(library).values() if isinstance(x, types.FunctionType)]
    return {f: _handler(recording, f) for f in known if _writes_code(f)}


def _writes_code(function: types.FunctionType) -> bool:
    """Return True if a function can return the code for a call."""
    own = function.__code__
    named = own.co_varnames[: own.co_argcount + own.co_kwonlyargcount]
    return "__wrapped__" in vars(function) and "graph" in named


def _handler(recording: Recording, function: types.FunctionType) -> Callable:
    signature = inspect.signature(function)

    def handle(original: Callable, args: tuple, kwargs: dict) -> Any:
        if recording.running.busy or kwargs.get("graph"):
            return original(*args, **kwargs)
        shapes = [x.shape for x in [*args, *kwargs.values()] if isinstance(x, torch.Tensor)]
        numbers = [x for x in kwargs.values() if type(x) is dims.Dim]
        sizes = {n.poly: n for n in [*sum(shapes, ()), *numbers] if type(n) is dims.Dim}
        if not sizes or len(sizes) > len(_FIRST):
            return original(*args, **kwargs)
        code = _asked(recording, original, args, kwargs, shapes, list(sizes))
        if code is None:
            return original(*args, **kwargs)
        space: dict[str, Any] = dict(zip(_names(len(sizes)), sizes.values()))
        space["__builtins__"] = builtins  # those of the model, which follow sizes
        exec(code, space)
        return space["op"](*_tensors(signature, args, kwargs))

    return handle


def _asked(
    recording: Recording, original: Callable, args: tuple, kwargs: dict, shapes: list, sizes: list
) -> types.CodeType | None:
    """The code for all sizes; None where there is none."""
    recording.running.busy = True
    try:
        first, second = (
            _text(original, args, kwargs, shapes, dict(zip(sizes, primes)))
            for primes in (_FIRST, _SECOND)
        )
        return _code_with_sizes(first, second, len(sizes))
    except Exception:  # it does not take such sizes, or writes other code for each
        return None
    finally:
        recording.running.busy = False


def _text(original: Callable, args: tuple, kwargs: dict, shapes: list, primes: dict) -> str:
    """The code that the library generates for tensors, and numbers, of these sizes."""
    left = iter(shapes)

    def at(n: Any) -> Any:
        return primes[n.poly] if type(n) is dims.Dim else n

    def other(x: Any) -> Any:
        if isinstance(x, torch.Tensor):
            return torch.empty([*map(at, next(left))], dtype=x.dtype, device="meta")
        return at(x)

    given, named = [other(x) for x in args], {k: other(x) for k, x in kwargs.items()}
    return str(original(*given, **{**named, "graph": True}))


def _names(count: int) -> Iterator[str]:
    return (f"_size_{i}" for i in range(count))


def _code_with_sizes(first: str, second: str, count: int) -> types.CodeType:
    """The code that two texts share, with products of sizes in place of the numbers that differ."""
    one, other = ast.parse(first), ast.parse(second)
    pairs = list(zip(ast.walk(one), ast.walk(other)))
    made: dict[int, ast.expr] = {}
    for a, b in pairs:
        if isinstance(a, ast.Constant) and isinstance(b, ast.Constant) and a.value != b.value:
            made[id(a)] = _product(a.value, b.value, count)
            b.value = a.value
    if ast.dump(one) != ast.dump(other):
        raise ValueError("it writes other code for other sizes")

    class Sized(ast.NodeTransformer):
        def visit_Constant(self, node: ast.Constant) -> ast.expr:
            return ast.copy_location(made.get(id(node), node), node)

    return compile(ast.fix_missing_locations(Sized().visit(one)), "<written>", "exec")


def _product(a: Any, b: Any, count: int) -> ast.expr:
    """A number that was `a` and `b`, as a product of sizes."""
    factors = []
    for name, p, q in zip(_names(count), _FIRST, _SECOND):
        while a % p == 0 and b % q == 0:
            a, b = a // p, b // q
            factors.append(name)
    if a != b:
        raise ValueError("a number that is no product of sizes")
    return ast.parse(" * ".join([*factors, str(a)]), mode="eval").body


def _tensors(signature: inspect.Signature, args: Sequence, kwargs: dict) -> list[Any]:
    """The arguments for the code: those that the signature calls tensors."""
    bound = signature.bind(*args, **{k: x for k, x in kwargs.items() if k != "graph"})
    bound.apply_defaults()
    found: list[Any] = []
    for name, each in signature.parameters.items():
        if getattr(each.annotation, "__name__", each.annotation) == "Tensor":
            several = each.kind is inspect.Parameter.VAR_POSITIONAL
            found += bound.arguments[name] if several else [bound.arguments[name]]
    return found
