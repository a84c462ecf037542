"""Resolution of dotted strings to the things they name, and of arriving calls to the same keys.

`resolve("torch.Tensor.__add__").key == identify(func)` for every `func` that `1 + x`, `x + 1`,
`torch.add(x, 1)` or `x.add(1)` hand to the doors of the recording.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import re
import sys
import types
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._ops import HigherOrderOperator, OpOverload, OpOverloadPacket

from ..errors import TargetError
from ..text import did_you_mean
from .dunders import CANONICAL

# Methods that put `self` elsewhere than the function and the operator of the same name do.
# Found by comparing all 500 methods with the schemas of their operators: only these two have
# `self` anywhere but first (`torch.where(condition, x, y)`, `torch.polygamma(n, x)`).
METHODS_APART = frozenset({"where", "polygamma"})

# C functions that look overridable and never arrive: they build tensors from outside data.
_NEVER_ARRIVE = frozenset({"from_numpy", "frombuffer", "from_file", "range"})

_HOMES = ("_VariableFunctions", "_nn", "_fft", "_linalg", "_special", "_sparse", "_nested")
_SLOT = type(torch._C.TensorBase.__getitem__)
_BOUND_SLOT = type(torch._C.TensorBase.shape.__get__)  # type: ignore[attr-defined]
_MISSING: Any = object()


class NotImportable(TargetError):
    """A package is installed, but importing it fails: its contents are unknown."""


class NotInstalled(TargetError):
    """The package of a target is not installed: no model can use the target either."""


@dataclass(frozen=True, slots=True)
class Target:
    """The thing that a target string names.

    kind is one of
      operator   a C function of torch, a C method of Tensor, or an operator of torch.ops
      torch      a Python function of the torch API that arrives through the function mode
      callable   a module's forward or any other Python callable: it has to be patched
      autograd   a subclass of autograd.Function: its apply
      absent     it belongs to a package that nobody has imported, so no call can come from it
    """

    text: str
    kind: str
    key: Hashable  # the result of `identify` when it arrives; the function for callables
    owner: Any = field(default=None, compare=False)  # the class or module that the text names
    attribute: str = field(default="", compare=False)
    raw: Any = field(default=None, compare=False)  # as in the vars() of the class that holds it
    # The innermost plain Python function: what to hook for kind callable, and for kind autograd
    # the apply, which all Functions share (the key, their class, is its first argument).
    function: types.FunctionType | None = field(default=None, compare=False)

    @property
    def meant(self) -> Hashable:
        """A key shared by all names of one thing; an inherited method has a key of its own."""
        if self.kind == "absent":
            return self.text
        own = self.kind == "callable" and isinstance(self.owner, type)
        return self.key, self.owner if own else None


def identify(func: Any) -> Hashable:
    """The key of a function as it arrives in `__torch_function__` or `__torch_dispatch__`."""
    kind = type(func)
    if kind is OpOverload:
        return _operator_key(func._schema.name)
    if kind is OpOverloadPacket:
        return _operator_key(func._qualified_op_name)
    if kind is types.FunctionType:
        # Tensor.__pow__ is a Python wrapper around TensorBase.pow, and arrives as the wrapper.
        wrapped = func.__dict__.get("__wrapped__")
        return identify(wrapped) if type(wrapped) is types.MethodDescriptorType else func
    if kind is types.BuiltinFunctionType and (func.__module__ or "").partition(".")[0] == "torch":
        return f"aten::{func.__name__}"
    if kind is types.MethodDescriptorType and _of_tensor(func):
        name = func.__name__
        return f"Tensor.{name}" if name in METHODS_APART else _operator_key(f"aten::{name}")
    if kind is _SLOT and _of_tensor(func):
        return f"Tensor.{func.__name__}"
    if kind is _BOUND_SLOT and isinstance(func.__self__, types.GetSetDescriptorType):
        # A new object at each access, so that its name has to stand for it.
        return f"Tensor.{func.__self__.__name__}.{func.__name__}"
    if kind is types.GetSetDescriptorType and _of_tensor(func):
        return f"Tensor.{func.__name__}.__get__"
    if isinstance(func, HigherOrderOperator):
        return f"higher_order::{func.name()}"
    return func


def _of_tensor(descriptor: Any) -> bool:
    return descriptor.__objclass__ in (torch.Tensor, torch._C.TensorBase)


def _operator_key(name: str) -> str:
    space, _, rest = name.partition("::")
    return f"aten::{CANONICAL.get(rest, rest)}" if space == "aten" else name


def resolve(text: str, *, import_missing: bool = False) -> Target:
    """Resolve `text`. Raises TargetError when it names nothing, or nothing that can be hooked.

    A package that is installed but not imported yet is left alone (kind "absent"), unless
    `import_missing`: a model that uses it has imported it.
    """
    known = _resolved.get(text)
    if known is not None and _reached(known[0]) is known[1]:
        return known[2]
    defined = _operators.get(text)
    if defined is not None and getattr(defined.owner, defined.attribute, None) is defined.raw:
        return defined
    operator = re.fullmatch(r"(\w+)::(\w+)(?:\.(\w+))?", text)
    if operator is None and not re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)+", text):
        raise TargetError(
            f"{text!r} is not a target",
            hint="write it as package.module.Class.method, torch.relu or library::operator",
        )
    parts = text.split(".")
    if operator is not None:
        return _resolve_operator(text, *operator.groups(), import_missing=import_missing)
    if parts[:2] == ["torch", "ops"] and len(parts) >= 4:
        return _resolve_operator(text, *[*parts[2:], None][:3], import_missing=import_missing)
    found = _walk(text, parts, import_missing)
    if found is None:
        return Target(text, "absent", None)
    target = _classify(text, *found)
    # A class means one of its methods, which may be replaced while the class stays.
    if not isinstance(found[-1], type) and _reached(parts) is found[-1]:
        _resolved[text] = parts, found[-1], target
    return target


def path_of(text: str) -> tuple[Any, list[str]] | None:
    """Return an object and the names to look up from it, for a resolved text; None if unknown."""
    if text in _resolved:
        return sys.modules, _resolved[text][0]
    if text in _operators:
        return _operators[text].owner, [_operators[text].attribute]
    return None


# Operators that a module defines which is not named as they are.
_DEFINED_BY = {"quantized_decomposed": "torch.ao.quantization.fx._decomposed"}
# Names resolved before, valid while they still lead to the same thing: (parts, thing, target).
_resolved: dict[str, tuple[list[str], Any, Target]] = {}
_operators: dict[str, Target] = {}


def _reached(parts: list[str]) -> Any:
    """Look up a dotted name along modules and classes that are loaded; None if that fails."""
    value: Any = sys.modules.get(parts[0])
    for part in parts[1:]:
        if type(value) is types.ModuleType:
            value = vars(value).get(part)
        else:
            value = getattr(value, part, None) if isinstance(value, type) else None
        if value is None:
            return None
    return value


def _resolve_operator(
    text: str, space: Any, name: Any, overload: Any = None, *, import_missing: bool
) -> Target:
    library = getattr(torch.ops, space)
    found = getattr(library, name, None)
    module = _DEFINED_BY.get(space, space)
    if found is None and module != space and module not in sys.modules and not import_missing:
        return Target(text, "absent", None)  # a look for the module imports what is around it
    if found is None and space not in _namespaces():
        if module not in sys.modules and importlib.util.find_spec(module) is None:
            raise NotInstalled(
                f"{text}: nothing has defined operators in {space!r}",
                hint=f"import the library that defines {space}::{name} before the export",
            )
        if not import_missing:
            return Target(text, "absent", None)
        _import(text, module)
        found = getattr(library, name, None)
    if found is None:
        known = {q.partition(".")[0] for q in _names() if q.startswith(f"{space}::")}
        hint = _nearest(f"{space}::{name}", known)
        raise TargetError(f"{text}: no operator {name!r} in {space}", hint=hint)
    if isinstance(found, OpOverloadPacket) and overload and not hasattr(found, overload):
        hint = _nearest(overload, found.overloads())
        raise TargetError(f"{text}: {space}::{name} has no overload {overload!r}", hint=hint)
    _operators[text] = target = Target(text, "operator", identify(found), library, name, found)
    return target


def _names() -> list[str]:
    return torch._C._dispatch_get_all_op_names()


def _namespaces() -> set[str]:
    return {name.partition("::")[0] for name in _names()} | {"higher_order"}


def _walk(text: str, parts: list[str], import_missing: bool) -> tuple[Any, str, Any, Any] | None:
    """(owner, attribute, raw, value) of the last part, or None where it would take an import."""
    if parts[0] not in sys.modules:
        if importlib.util.find_spec(parts[0]) is None:
            raise NotInstalled(
                f"{text}: no package {parts[0]!r} is installed here",
                hint=f"install {parts[0]}, or check the spelling",
            )
        if not import_missing:
            return None
        _import(text, parts[0])
    value: Any = sys.modules[parts[0]]
    owner, raw = None, value
    for i, part in enumerate(parts[1:], 1):
        owner, path = value, ".".join(parts[:i])
        if isinstance(owner, types.ModuleType):
            raw = value = _of_module(text, owner, part, import_missing)
            if value is None:
                return None
        else:
            raw = _raw(owner, part)
            value = getattr(owner, part, _MISSING)
        if value is _MISSING:
            raise TargetError(f"{text}: {path} has no {part!r}", hint=_nearest(part, dir(owner)))
    return owner, parts[-1], raw, value


def _of_module(text: str, module: types.ModuleType, name: str, may_import: bool) -> Any:
    """An attribute or submodule; None when finding out would import something."""
    found = vars(module).get(name, sys.modules.get(f"{module.__name__}.{name}", _MISSING))
    if found is not _MISSING:
        return found
    below = hasattr(module, "__path__") and importlib.util.find_spec(f"{module.__name__}.{name}")
    if below and not may_import:
        return None  # before a lazy package is asked for all its names, which may take it long
    lazy = hasattr(module, "__getattr__")
    if may_import or (lazy and name not in dir(module)):
        found = getattr(module, name, _MISSING)
        if found is not _MISSING:
            return found
    if lazy and not may_import:
        # Packages such as transformers import a module when one of its names is first asked for.
        # A model that uses the name may have loaded it from the defining module.
        inside = module.__name__ + "."
        for other, loaded in list(sys.modules.items()):
            if other.startswith(inside) and isinstance(loaded, types.ModuleType):
                value = vars(loaded).get(name)
                if getattr(value, "__module__", None) == other:
                    return value
        if name in dir(module):
            return None
    return _import(text, f"{module.__name__}.{name}") if below else _MISSING


def _import(text: str, name: str) -> Any:
    try:
        return importlib.import_module(name)
    except Exception as e:  # whatever a library does as it is imported
        raise NotImportable(
            f"{text}: importing {name} failed", why=f"{type(e).__name__}: {e}"
        ) from e


def _raw(owner: Any, name: str) -> Any:
    for holder in getattr(owner, "__mro__", ()):
        if name in vars(holder):
            return vars(holder)[name]
    return inspect.getattr_static(owner, name, None)


def _nearest(name: str, names: Iterable[str]) -> str:
    return did_you_mean(name, names, "check the spelling and the version", 3)


def _methods(kind: type) -> list[str]:
    """Return a class's own methods that a model may call: by name, or as `thing(x)`."""
    return [
        name
        for name, raw in vars(kind).items()
        if (name == "__call__" or name[0] != "_") and innermost(raw) is not None
    ]


def _classify(text: str, owner: Any, attribute: str, raw: Any, value: Any) -> Target:
    base = torch.autograd.Function
    if isinstance(value, type):
        owner, attribute = value, _called_method(text, value)
        value = raw = _raw(owner, attribute)
    if (applied := applies(value)) is not None:  # swish = Swish.apply
        owner, attribute = applied, "apply"
    if isinstance(owner, type) and issubclass(owner, base) and attribute == "apply":
        return Target(text, "autograd", owner, owner, attribute, raw, innermost(raw))
    if isinstance(value, torch.nn.Module):
        kind = type(value)
        raise TargetError(
            f"{text} is a module, and what is converted is the forward of its class",
            hint=f"name that: {kind.__module__}.{kind.__qualname__}",
        )
    if attribute == "forward" and innermost(raw) is torch.nn.Module.forward:
        raise TargetError(f"{text}: {owner.__name__} does not define forward")

    value = getattr(value, "_opoverload", value)  # a torch.library.custom_op
    if isinstance(value, (OpOverload, OpOverloadPacket, HigherOrderOperator)):
        return Target(text, "operator", identify(value), owner, attribute, raw)
    in_tensor = isinstance(owner, type) and issubclass(torch.Tensor, owner)
    subject = raw if in_tensor or isinstance(raw, types.GetSetDescriptorType) else value
    key = identify(subject)
    if isinstance(key, str) and (type(subject) is not types.BuiltinFunctionType or _homed(subject)):
        return Target(text, "operator", key, owner, attribute, raw)
    if arrives(subject):
        return Target(text, "torch", key, owner, attribute, raw)
    return _any_callable(text, owner, attribute, raw, value)


def _called_method(text: str, kind: type) -> str:
    """Return the method that a model calls when it uses a class; raise where that is not clear."""
    if issubclass(kind, torch.nn.Module):
        return "forward"
    if issubclass(kind, torch.autograd.Function) and kind is not torch.autograd.Function:
        return "apply"
    methods = [f"{text}.{name}" for name in _methods(kind)[:3]]
    raise TargetError(
        f"{text} is a class",
        hint=f"name a method of it: {', '.join(methods)}" if methods else "",
    )


def _any_callable(text: str, owner: Any, attribute: str, raw: Any, value: Any) -> Target:
    """Return the target for Python code that torch does not know."""
    function = innermost(raw)
    if not callable(value) and function is None:
        raise TargetError(f"{text} is {type(value).__name__}, which nobody calls")
    chosen: Hashable = function if function is not None else value
    try:
        hash(chosen)
    except TypeError:
        chosen = text
    return Target(text, "callable", chosen, owner, attribute, raw, function)


def applies(x: Any) -> type | None:
    """The autograd function whose `apply` something is, as `swish = Swish.apply` keeps it."""
    if type(x) not in (types.MethodType, types.BuiltinMethodType):
        return None
    cls, name = getattr(x, "__self__", None), getattr(x, "__name__", "")
    known = isinstance(cls, type) and issubclass(cls, torch.autograd.Function)
    return cls if known and name == "apply" else None


def _homed(func: Any) -> bool:
    name = func.__name__
    homes = (getattr(torch._C, home, None) for home in _HOMES)
    return name not in _NEVER_ARRIVE and any(getattr(h, name, None) == func for h in homes)


@functools.cache
def _overridable() -> frozenset[Any]:
    return frozenset(f for f in torch.overrides.get_testing_overrides() if inspect.isfunction(f))


def arrives(func: Any) -> bool:
    """Return True if a Python function hands itself to the function mode.

    Not all of the torch API does: F.sigmoid and F.upsample only call others that do, so that
    their own name never arrives. `get_testing_overrides` misses some (F.hardswish).
    """
    if not isinstance(func, types.FunctionType):
        return False
    if (func.__module__ or "").partition(".")[0] != "torch":
        return False
    return "handle_torch_function" in func.__code__.co_names or func in _overridable()


def innermost(value: Any) -> types.FunctionType | None:
    """The plain Python function under staticmethods, bound methods, partials and decorators."""
    found, seen = None, set()
    while value is not None and id(value) not in seen:
        seen.add(id(value))
        if isinstance(value, types.FunctionType):
            found = value
            value = vars(value).get("__wrapped__")
        elif isinstance(value, (functools.partial, functools.partialmethod)):
            value = value.func
        elif isinstance(value, (staticmethod, classmethod, types.MethodType)):
            value = value.__func__
        else:
            value = getattr(value, "__dict__", {}).get("__wrapped__")
    return found
