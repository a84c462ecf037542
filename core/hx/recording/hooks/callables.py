"""The first door: Python callables that are hooked where they are, and TorchScript code.

It handles module forwards and functions of other libraries that have a converter; the `apply` of
custom autograd functions, for their converter or their `symbolic`; and scripted or traced code,
which no other door can see into with its sizes.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

from ...errors import HxError
from ...findings import FOLLOWED, Finding
from ...graph.op import Instead
from ...packs import symbolic, targets
from ...registration import Registration
from ...torchworld import stored_callables
from .. import torchscript
from ..calls import autocast
from ..calls.arguments import has_complex
from ..calls.ask_converter import DECLINED, convert
from ..calls.lifting import lift
from ..calls.real_calls import real_call
from ..memory import unrecorded_tensors
from ..memory.tensor_values import value_of
from ..recording import Recording

Handler = Callable[[Callable, tuple, Mapping[str, Any]], Any]


def hooks(recording: Recording) -> dict[Any, Handler]:
    """The handlers of plain Python functions, by function."""
    found: dict[Any, Handler] = {
        function: _foreign(recording, key) for function, key in recording.choices.functions.items()
    }
    for function, target in recording.choices.replaced.items():
        if function is not None:
            found.setdefault(function, _reporting(recording, target))
    for body, objects in recording.choices.objects.items():
        found[body] = _object(recording, objects, found.get(body))
    if (apply := _apply()) is not None:
        found[apply] = _applied(recording)
    return found


def places(recording: Recording) -> list[tuple[Any, str, Callable]]:
    """Other callables to hook where they are stored: owner, name, and the maker of a wrapper."""
    found = [
        (owner, name, _stored(recording, key)) for owner, name, key in recording.choices.places
    ]
    found += _elsewhere(recording, found)
    found += [(torch._C.ScriptFunction, "__call__", _scripted(recording))]
    found += [(torch._C.ScriptMethod, "__call__", _scripted(recording))]
    found += [(torch.Tensor, "_make_subclass", _renamed(recording, 1))]
    found += [(torch.Tensor, "as_subclass", _renamed(recording, 0))]
    found += [(torch.Tensor, "_make_wrapper_subclass", _wrapped(recording))]
    if _apply() is None:  # from 2.15 on it has no code
        hook = _applied(recording)
        found += [(torch.autograd.Function, "apply", _bound(hook))]
        found += [
            (owner, name, _named(hook))
            for owner, name, _ in stored_callables.held(
                *recording.model.searched(), targets.applies
            )
        ]
    return found


def _elsewhere(recording: Recording, known: list) -> list[tuple[Any, str, Callable]]:
    """Compiled functions, hooked wherever they are stored: `from ext import nms`, `self.nms = ext.nms`."""
    keys = {id(thing): (thing, key) for thing, key in recording.choices.compiled}
    if not keys:
        return []
    wanted = stored_callables.Among(thing for thing, _ in keys.values())
    there = {(id(owner), name) for owner, name, _ in known}
    return [
        (owner, name, _stored(recording, keys[id(thing)][1]))
        for owner, name, thing in stored_callables.held(*recording.model.searched(), wanted)
        if (id(owner), name) not in there
    ]


def _apply() -> Any:
    return targets.innermost(vars(torch.autograd.Function).get("apply"))


def _foreign(recording: Recording, key: Any) -> Handler:
    # PyTorch's own modules call functions that autocast knows: those are converted.
    own = (getattr(key, "__module__", None) or "").startswith("torch.nn.")

    def hook(original, args, kwargs):
        if recording.running.busy or (own and autocast.enabled()):
            return original(*args, **kwargs)
        asked = recording.choices.candidates(key, args, has_complex(args, kwargs))
        return ask(recording, asked, key, original, args, kwargs)

    return hook


def _object(
    recording: Recording, objects: Mapping[int, tuple], of_class: Handler | None
) -> Handler:
    """Handle `lib.blur(x)` where blur is an object: its converter is for this object alone."""

    def hook(original, args, kwargs):
        thing, key = objects.get(id(args[0]), (None, None)) if args else (None, None)
        if thing is None or recording.running.busy:
            return (of_class or _plainly)(original, args, kwargs)
        run = functools.partial(of_class or _plainly, original)

        def body(*rest, **named):
            return run((thing, *rest), named)

        asked = recording.choices.candidates(key, args[1:], has_complex(args, kwargs))
        return ask(recording, asked, key, body, args[1:], kwargs)

    return hook


def _plainly(original: Callable, args: tuple, kwargs: Mapping[str, Any]) -> Any:
    return original(*args, **kwargs)


def _reporting(recording: Recording, target: str) -> Handler:
    def hook(original, args, kwargs):
        text = f"{target} was replaced by other code: its converter is not asked, the body is"
        found, messages = Finding(FOLLOWED, text), recording.findings.messages
        if not recording.running.busy and found not in messages:
            messages.append(found)
        return original(*args, **kwargs)

    return hook


def _stored(recording: Recording, key: Any) -> Callable:
    return _bound(_foreign(recording, key))


def _bound(hook: Handler) -> Callable:
    """A handler as the maker of a wrapper."""
    return lambda original: lambda *args, **kwargs: hook(original, args, kwargs)


def _applied(recording: Recording) -> Handler:
    """Handle `Function.apply`, which all Functions share: the class is its first argument."""

    def hook(original, args, kwargs):
        cls = args[0]
        if recording.running.busy or not isinstance(cls, type):
            return original(*args, **kwargs)

        def run(*args, **kwargs):
            if recording.running.busy or torch.is_grad_enabled():
                return original(cls, *args, **kwargs)
            return _body(cls, args, kwargs)

        asked = _of_function(recording, cls, has_complex(args, kwargs))
        return ask(recording, asked, cls, run, args[1:], kwargs)

    return hook


def _named(hook: Handler) -> Callable:
    def wrapper(original: Any) -> Callable:
        def unbound(cls, *args, **kwargs):
            return original(*args, **kwargs)

        return lambda *args, **kwargs: hook(unbound, (original.__self__, *args), kwargs)

    return wrapper


def _of_function(recording: Recording, cls: type, complex: bool) -> Iterable[Registration]:
    for base in cls.__mro__:
        yield from recording.choices.candidates(base, (), complex)
    own = symbolic.of_function(cls)
    if own is not None and not complex:
        yield own


def _body(cls: Any, args: tuple, kwargs: Mapping[str, Any]) -> Any:
    """The result of `apply` without gradients: PyTorch's own makes views of inputs that come back."""
    context = cls._backward_cls()
    context.needs_input_grad = (False,) * len(args)
    if cls.setup_context == torch.autograd.Function.setup_context:
        return cls.forward(context, *args, **kwargs)
    bound = inspect.signature(cls.forward).bind(*args, **kwargs)
    bound.apply_defaults()
    result = cls.forward(*bound.args, **bound.kwargs)
    cls.setup_context(context, bound.args, result)
    return result


def ask(
    recording: Recording,
    candidates: Iterable[Registration],
    key: Any,
    original: Callable,
    args: tuple,
    kwargs: Mapping[str, Any],
) -> Any:
    """The result of a call, by the first converter that does not decline, or else by its body."""
    given, recording.running.told = None, True
    for choice in candidates:
        recording.running.busy = True
        try:
            with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
                given = given or lift(recording, args, kwargs)
                if recording.memory.unfilled:
                    unrecorded_tensors.require_filled(recording, given.tensors)
                run = real_call(recording, key, original, args, kwargs)
                result = convert(recording, choice, given, run)
        except HxError:
            raise
        except Exception as problem:
            recording.findings.raised.note(
                recording.memory.live,
                recording.position.where,
                problem,
                choice.target,
                original,
                args,
                kwargs,
            )
            raise
        finally:
            recording.running.busy = False
        if isinstance(result, Instead):
            return result.function(*args, **kwargs)
        if result is not DECLINED:
            return result
    return original(*args, **kwargs)


def _renamed(recording: Recording, place: int) -> Callable:
    """Handle `nn.Parameter(x)`: another object for the memory of x, which no door sees being made.

    The one is what is given at this place.
    """

    def wrapper(original: Callable) -> Callable:
        def make(*args, **kwargs):
            made = original(*args, **kwargs)
            if not recording.running.busy and len(args) > place:
                data = args[place]
                recording.running.busy = True
                try:
                    value_of(recording, data)
                    recording.memory.live.alias(made, recording.memory.live.entries[id(data)])
                finally:
                    recording.running.busy = False
            return made

        return make

    return wrapper


def _wrapped(recording: Recording) -> Callable:
    """Look for wrapper tensors from now on, if the model wraps tensors as it runs."""

    def wrapper(original: Callable) -> Callable:
        def make(*args, **kwargs):
            recording.memory.has_wrappers = True
            return original(*args, **kwargs)

        return make

    return wrapper


# TorchScript: its own interpreter calls operators, with sizes that are plain numbers by then.


def _scripted(recording: Recording) -> Callable:
    def wrapper(original: Callable) -> Callable:
        def call(self, *args, **kwargs):
            if recording.running.busy:
                return original(self, *args, **kwargs)
            python = python_of(self)
            if python is None or torchscript.steers(self):  # branches of Python take one way only
                return torchscript.run(recording, self, args, kwargs)
            return python(*args, **kwargs)

        return call

    return wrapper


def python_of(called: Any) -> Callable | None:
    """The Python function that was scripted: PyTorch keeps it, for torch.compile.

    A traced function has one too, and is not the same: the trace took one path through it.
    """
    if not isinstance(called, torch._C.ScriptFunction):
        return None
    scripted = getattr(called, "__name__", "") == "ScriptFunction"
    return getattr(called, "_torchdynamo_inline", None) if scripted else None
