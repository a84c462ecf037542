"""Checks of the call that a user gives, and names of its inputs."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from ..errors import InputError, UsageError
from ..ir import dynamic_axes
from ..ir.request import Call, Destination, Options, Request, Weights
from ..packs import nesting
from ..packs.pack_findings import brief
from ..text import amount, with_article
from ..torchworld.modes.absent_weights import Slim, plan
from ..torchworld.state import shallow
from . import torchscript
from .hooks import callables
from .roots import root_of

_STANDARD, _IN_MEMORY = Options(), Destination()


def arguments(call: Call, tensors: Mapping[str, torch.Tensor]) -> tuple[tuple, dict[str, Any]]:
    """The arguments of a call with other tensors in place of its own."""
    left = iter(call.names)

    def put(name: str, leaf: Any) -> Any:
        return tensors[next(left)] if isinstance(leaf, torch.Tensor) else nesting.own(leaf)

    args = tuple(nesting.replace(a, put) for a in call.args)
    kwargs = {k: nesting.replace(v, put) for k, v in call.kwargs.items()}
    return args, kwargs


def prepare(
    model: Any,
    args: Any,
    kwargs: Mapping[str, Any] | None,
    input_names: Sequence[str] | None,
    dynamic: Mapping[str, Any] | None,
    axes: Callable,
    *,
    weights: Any = None,
    dtype: Any = None,
    options: Options = _STANDARD,
    destination: Destination = _IN_MEMORY,
    dry: bool = False,
) -> tuple[Request, Slim | None]:
    """Check a call, and plan how the model runs without its weights, if it does.

    A `dry` run writes nothing, so contents of weights are not needed.
    """
    _require_outside_of_transforms()
    model = _unwrapped(model)
    if not isinstance(args, (tuple, list)) or hasattr(args, "_fields"):
        args = (args,)
    args, kwargs = tuple(args), dict(kwargs or {})
    # A function may be given the modules that it calls.
    given = any(isinstance(x, torch.nn.Module) for x in (*args, *kwargs.values()))
    root = root_of(functools.partial(model, *args, **kwargs) if given else model)
    slim = plan(root, weights, dtype, whole=not dry)
    if slim is not None:
        args = tuple(nesting.replace(a, slim.given) for a in args)
        kwargs = {k: nesting.replace(v, slim.given) for k, v in kwargs.items()}
    _require_fit(model, args, kwargs)
    pairs = _flat(model, args, kwargs)
    found = [(n, leaf) for n, leaf in pairs if isinstance(leaf, torch.Tensor)]
    names = nesting.unique([n for n, _ in found])
    _require_contents(pairs, None if dry or slim is not None else "the meta device")
    if input_names is not None:
        if len(input_names) > len(names):
            raise UsageError(
                f"input_names has {len(input_names)} names, and the call has "
                f"{amount(len(names), 'tensor')}: {', '.join(names)}"
            )
        require_names("input_names", input_names)
        names = nesting.unique([*input_names, *names[len(input_names) :]])
    tensors = {n: t for n, (_, t) in zip(names, found)}
    if isinstance(dynamic, torch.export.ShapesCollection):
        dynamic = dynamic.dynamic_shapes(model, args, kwargs)
    dynamic = dynamic_axes.of_tensors(dynamic, [isinstance(x, torch.Tensor) for _, x in pairs])
    dynamic = _by_inner_names(dynamic, model, args, kwargs)
    call = Call(model, root, args, kwargs, tensors)
    weights_there = Weights() if slim is None else Weights(True, slim.hollow, slim.dtype)
    return Request(call, axes(dynamic, tensors), weights_there, options, destination), slim


def _require_fit(model: Any, args: tuple, kwargs: dict[str, Any]) -> None:
    """Raise unless the arguments fit the signature of a model that no hook gives others.

    The signature of a ScriptModule has no defaults.
    """
    if isinstance(model, torch.jit.ScriptModule | torch.jit.ScriptFunction):
        return
    if isinstance(model, torch.nn.Module) and (
        model._forward_pre_hooks
        or torch.nn.modules.module._global_forward_pre_hooks
        or type(model).__call__ is not torch.nn.Module.__call__
    ):
        return
    parameters = _own_parameters_of(model)
    if not parameters:  # also of what has no signature
        return
    try:
        inspect.Signature(parameters).bind(*args, **kwargs)
    except TypeError as problem:
        if _fits_a_wrapper(model, args, kwargs):
            return
        names = ", ".join(each.name for each in parameters)
        needed = [each.name for each in parameters if each.default is each.empty]
        give = f"{', '.join(needed)}{',' * (len(needed) == 1)}"
        hint = "" if args or kwargs else f"give example inputs: hx.export(model, ({give}), path)"
        raise InputError(
            f"the inputs do not fit the model: {problem}",
            why=f"it takes {names}",
            hint=hint,
        ) from None


def _fits_a_wrapper(model: Any, args: tuple, kwargs: dict[str, Any]) -> bool:
    """Return True for a decorated function that takes what the function in it does not take."""
    function = model.forward if isinstance(model, torch.nn.Module) else model
    if not hasattr(function, "__wrapped__"):
        return False
    try:
        inspect.signature(function, follow_wrapped=False).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return False
    return True


def explained(problem: TypeError, model: Any, args: Any) -> InputError | None:
    """Return the error for a model that failed on inputs that are no tensors, or None."""
    if isinstance(args, Mapping) and {*args} <= {each.name for each in parameters_of(model)}:
        return InputError(
            f"the inputs are one dict, and the model raised {brief(problem)}",
            hint="inputs by name are keyword arguments: hx.export(model, kwargs=inputs)",
        )
    leaves = [leaf for _, leaf in nesting.leaves(args)]
    if not leaves or any(isinstance(leaf, torch.Tensor) for leaf in leaves):
        return None
    if isinstance(args, (str, os.PathLike)):
        return InputError(
            f"the inputs are {args!r}, which is no tensor",
            hint="the path comes third: hx.export(model, inputs, path)",
        )
    return InputError(
        f"no input is a tensor, and the model raised {brief(problem)}",
        hint="give the model example inputs: hx.export(model, (torch.randn(2, 3),), path)",
    )


def _require_outside_of_transforms() -> None:
    """Raise UsageError inside `torch.func.grad`, `vmap` and the like, where tensors are wrapped."""
    if torch._C._functorch.maybe_current_level() is not None:
        raise UsageError(
            "an export cannot be made inside of torch.func.grad, vmap or the like",
            why="tensors have no contents of their own there",
            hint="export before or after that; a model that calls them itself can be exported",
        )


def require_names(what: str, names: Sequence[str]) -> None:
    """Raise UsageError unless each name is a non-empty string and occurs once."""
    wrong = [name for name in names if not isinstance(name, str) or not name]
    if wrong:
        raise UsageError(f"{what}: {wrong[0]!r} is not a name")
    if len(set(names)) != len(names):
        raise UsageError(f"{what} repeats a name: {', '.join(names)}")


def _require_contents(pairs: list[tuple[str, Any]], meta: str | None) -> None:
    """Raise UsageError unless inputs are tensors with numbers in them."""
    alone = not any(isinstance(leaf, torch.Tensor) for _, leaf in pairs)
    for name, leaf in pairs:
        if isinstance(leaf, torch.Tensor):
            if type(leaf).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
                raise UsageError(
                    f"the input {name} is a {type(leaf).__name__}, whose class does the work of "
                    "operators itself: a graph has no such inputs",
                    hint="give the model plain tensors, and let it put them together",
                )
            if meta is not None and leaf.is_meta:
                raise UsageError(
                    f"the input {name} is on {meta}: it has a shape, and no numbers",
                    hint="the model is run once: give it an input with numbers",
                )
        elif alone and type(leaf).__module__ == "numpy" and hasattr(leaf, "__array_interface__"):
            raise UsageError(
                f"the input {name} is a NumPy array, which would be a constant",
                hint=f"torch.from_numpy({name})",
            )


def _unwrapped(model: Any) -> Any:
    """Return the original of a compiled module; raise if a module has no weights yet."""
    original = getattr(model, "_orig_mod", None)
    if isinstance(original, torch.nn.Module):
        model = original
    if isinstance(model, torch.export.ExportedProgram):
        model = model.module()
    if isinstance(model, type):
        raise UsageError(f"{model.__name__} is a class", hint=f"make one: {model.__name__}(...)")
    if not callable(model):
        weights = isinstance(model, Mapping) and all(
            isinstance(each, torch.Tensor) for each in model.values()
        )
        raise UsageError(
            f"{with_article(model)} cannot be called, so it is no model",
            hint="make the model, and give it these weights with load_state_dict"
            if weights
            else "pass a torch.nn.Module or a function of tensors",
        )
    for path, module in shallow.walk(root_of(model)):
        if isinstance(module, torch.nn.modules.lazy.LazyModuleMixin) and (
            module.has_uninitialized_params()  # type: ignore[misc]
        ):
            raise UsageError(
                f"{path or 'the model'} has parameters that are not initialized yet",
                hint="run the model once on an example before exporting it",
            )
    return model


def flat_inputs(model: Any, args: tuple, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Every leaf of a call by its flat name, tensors and others."""
    pairs = _flat(model, args, kwargs)
    return dict(zip(nesting.unique([n for n, _ in pairs]), (leaf for _, leaf in pairs)))


def _flat(model: Any, args: tuple, kwargs: Mapping[str, Any]) -> list[tuple[str, Any]]:
    pairs: list[tuple[str, Any]] = []
    for name, value in _named(parameters_of(model), args, dict(kwargs)):
        pairs.extend(nesting.leaves(value, name))
    return pairs


def _by_inner_names(dynamic: Any, model: Any, args: tuple, kwargs: dict) -> Any:
    """Rename the inputs in `dynamic=` from the names torch.export uses to the names hx uses.

    torch.export names the inputs of a wrapper after the wrapper's own parameters (`inputs_0`), takes
    `*xs` and `**kw` as one entry each, and lists the fields of a named tuple in order.
    """
    if not isinstance(dynamic, Mapping) or isinstance(dynamic, dynamic_axes.Axes):
        return dynamic
    own = _own_parameters_of(model)
    named = _named(parameters_of(model), args, kwargs)
    theirs = dict(named)
    said: dict[Any, Any] = {}
    for name, which in dynamic.items():
        kinds = [p.kind for p in own if p.name == name and name not in theirs]
        if kinds == [inspect.Parameter.VAR_POSITIONAL] and isinstance(which, (list, tuple)):
            said.update((f"{name}_{i}", each) for i, each in enumerate(which))
        elif kinds == [inspect.Parameter.VAR_KEYWORD] and isinstance(which, Mapping):
            said.update(which)
        else:
            said[name] = which
    if _is_open(own):
        both = zip(_named(own, args, kwargs), named)
        inner = {mine: other for (mine, _), (other, _) in both if other not in said}
        said = {inner.get(name, name): which for name, which in said.items()}
    return {name: dynamic_axes.by_fields(which, theirs.get(name)) for name, which in said.items()}


def parameters_of(model: Any) -> list[inspect.Parameter]:
    """Return the parameters of forward; for a wrapper with `*args, **kwargs`, of the module
    inside.
    """
    found = _own_parameters_of(model)
    if isinstance(model, torch.nn.Module) and _is_open(found):
        inner = [module for module in model._modules.values() if module is not None]
        if len(inner) == 1:
            return parameters_of(inner[0]) or found
    return found


def _is_open(parameters: list[inspect.Parameter]) -> bool:
    """Return True for `*args, **kwargs`: a wrapper's, which passes on all that it is given."""
    return [p.kind for p in parameters] == [
        inspect.Parameter.VAR_POSITIONAL,
        inspect.Parameter.VAR_KEYWORD,
    ]


def _own_parameters_of(model: Any) -> list[inspect.Parameter]:
    function = model.forward if isinstance(model, torch.nn.Module) else model
    function = callables.python_of(function) or function
    if isinstance(function, (torch._C.ScriptMethod, torch._C.ScriptFunction)):
        return torchscript.parameters_of(function)
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return []


def _named(parameters: list, args: tuple, kwargs: dict) -> list[tuple[str, Any]]:
    """Arguments with the names of forward's parameters."""
    out = []
    rest = None
    for i, value in enumerate(args):
        if rest is None and i < len(parameters):
            p = parameters[i]
            if p.kind is p.VAR_POSITIONAL:
                rest = (p.name, i)
            elif p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD):
                out.append((p.name, value))
                continue
        name, first = rest or ("input", 0)
        out.append((f"{name}_{i - first}", value))
    return out + list(kwargs.items())
