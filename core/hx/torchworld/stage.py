"""The meeting point of a thread's watchers and the calls that they want to see.

All watchers of a thread stand in one flat list, in a stated order: what rewrites comes before what
only looks, and of each kind the first entered comes first. Module calls are seen through the
engine's hook on `Module._call_impl`, functions of PyTorch through its own override protocol,
other Python functions through the engine's hooks on them.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from ..cleanup import Reversible
from ..packs import targets
from . import gradient_hooks, patching, torch_bodies
from .watched_places import Places

# In eval mode these compute their children's part themselves, in one fused operator, unless
# something listens to PyTorch's functions.
_FUSED = (
    torch.nn.TransformerEncoder,
    torch.nn.TransformerEncoderLayer,
    torch.nn.MultiheadAttention,
)


class Watcher:
    """A watcher of the calls of its places, which may change them. This one does nothing."""

    rewrites = False
    every_function = False  # all functions of PyTorch, not only those of `places`

    def __init__(self, places: Places) -> None:
        self.places = places
        self.owner = gradient_hooks.Owner(quiet(), self.rewrites)
        # True if calls have to be seen through PyTorch's own protocol.
        hooked = all(each.hooked is not None for each in places.functions)
        self.listens = self.every_function or not hooked or _hides(places)

    def enter(self, name: str, args: tuple, kwargs: dict) -> tuple[tuple, dict, Any]:
        """Return the arguments, changed or not, before a call, and a token for what follows."""
        return args, kwargs, None

    def change(self, name: str, token: Any, output: Any) -> Any:
        """Return the output, changed or not, after a call."""
        return output

    def leave(self, name: str, token: Any, output: Any, visit: object) -> None:
        """See the final output, after all changes. `visit` stands for this call in
        `backward.on`.
        """

    def failed(self, name: str, token: Any) -> None:
        """The call raised."""

    def start(self) -> None:
        """The block is entered."""

    def stop(self) -> None:
        """The block is left, in whatever way; may be called again."""
        self.owner.withdraw()


class _Stage:
    """The watchers of one thread."""

    def __init__(self) -> None:
        self.watchers: list[Watcher] = []
        self.paused = 0
        self.modules: dict[int, list[tuple[Watcher, str, Any]]] = {}
        self.functions: dict[Any, list[tuple[Watcher, str, Any]]] = {}
        self.every: list[Watcher] = []
        self.mode: _Functions | None = None
        self.above: list[Any] = []  # the modes above it, while it is taken out

    def sort(self) -> None:
        """Rebuild the tables of watchers by place, whenever a watcher is added or removed."""
        modules: dict[int, list] = {}
        functions: dict[Any, list] = {}
        ordered = sorted(self.watchers, key=lambda w: not w.rewrites)  # stable
        for watcher in ordered:
            for name, module in watcher.places.modules.items():
                modules.setdefault(id(module), []).append((watcher, name, None))
            for each in watcher.places.functions:
                functions.setdefault(each.key, []).append((watcher, each.name, each.first))
        self.modules, self.functions = modules, functions
        self.every = [w for w in ordered if w.every_function]


class _Here(threading.local):
    def __init__(self) -> None:
        self.stage = _Stage()


_here = _Here()


class quiet:
    """`with quiet():` what runs in this thread is not watched."""

    def __enter__(self) -> None:
        _here.stage.paused += 1

    def __exit__(self, *exc: object) -> None:
        _here.stage.paused = max(0, _here.stage.paused - 1)


def _on_module(original: Callable, args: tuple, kwargs: dict) -> Any:
    stage = _here.stage
    wanted = stage.modules.get(id(args[0]))
    if not wanted or stage.paused:
        return original(*args, **kwargs)
    module = args[0]
    return _visit(stage, wanted, lambda *a, **k: original(module, *a, **k), args[1:], kwargs)


def _on_python(key: Any) -> patching.Handler:
    def handler(original: Callable, args: tuple, kwargs: dict) -> Any:
        stage = _here.stage
        return _on_function(stage, stage.functions.get(key), original, args, kwargs)

    return handler


def _on_function(stage: _Stage, wanted: Any, call: Callable, args: tuple, kwargs: dict) -> Any:
    if not wanted or stage.paused:
        return call(*args, **kwargs)
    chosen = [each for each in wanted if each[2] is None or (args and args[0] is each[2])]
    return _visit(stage, chosen, call, args, kwargs) if chosen else call(*args, **kwargs)


def _visit(stage: _Stage, wanted: list, call: Callable, args: tuple, kwargs: dict) -> Any:
    """One call that a watcher wants to see."""
    visit = object()
    entered: list[tuple[Watcher, str, Any]] = []
    try:
        with quiet():
            for watcher, name, _ in wanted:
                args, kwargs, token = watcher.enter(name, args, kwargs)
                entered.append((watcher, name, token))
        output = call(*args, **kwargs)
        with quiet():
            for watcher, name, token in entered:
                output = watcher.change(name, token, output)
            while entered:
                watcher, name, token = entered[0]
                watcher.leave(name, token, output, visit)
                entered.pop(0)
    except BaseException:
        for watcher, name, token in entered:
            watcher.failed(name, token)
        raise
    return output


class _Functions(TorchFunctionMode):
    """A mode that sees PyTorch's functions, also inside of its composite Python functions."""

    def __init__(self, stage: _Stage) -> None:
        super().__init__()
        self.stage = stage
        self._keys: dict[Any, Any] = {}
        self._opening: list[Any] = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        stage = self.stage
        func = torch_bodies.handed(func)
        if stage.paused or stage.mode is not self:
            return func(*args, **kwargs)
        key = self._keys.get(func)
        if key is None:
            key = self._keys[func] = targets.identify(func)
        wanted = stage.functions.get(key, ())
        if stage.every:
            wanted = [*wanted, *((watcher, func, None) for watcher in stage.every)]
        return _on_function(stage, wanted, self._opened(func), args, kwargs)

    def _opened(self, func: Callable) -> Callable:
        """The function, with the calls in its body in sight."""
        stage = self.stage
        # Nothing but a whole list of functions is wanted: the outermost calls are those.
        if not stage.functions or not torch_bodies.can_open(func) or func in self._opening:
            return func

        def call(*args: Any, **kwargs: Any) -> Any:
            # Once more under the same name, it called super(): PyTorch's own code does the rest.
            self._opening.append(func)
            try:
                with self:
                    return torch_bodies.opened(func)(*args, **kwargs)
            finally:
                self._opening.pop()

        return call


class Hold:
    """A watcher at work in this thread; when it is dropped, or dies, everything is restored."""

    watcher: Watcher | None = None  # here for `__del__`, when an interrupt came within `__init__`

    def __init__(self, watcher: Watcher) -> None:
        self._stage = _here.stage
        places = watcher.places
        hooked: dict[Any, patching.Handler] = {torch.nn.Module._call_impl: _on_module}
        for each in places.functions:
            if each.hooked is not None:
                hooked[each.hooked] = _on_python(each.key)
        self._patching = patching.hooks(hooked, beneath=True)
        self._eager = _eager(places)
        self._paused = self._stage.paused
        self.watcher = watcher

    def take(self) -> None:
        assert self.watcher is not None
        stage = self._stage
        self._eager.__enter__()
        self._patching.__enter__()
        stage.watchers.append(self.watcher)
        stage.sort()
        self.watcher.start()
        if self.watcher.listens and stage.mode is None:
            stage.mode = _Functions(stage)
            torch._C._push_on_torch_function_stack(stage.mode)

    def drop(self) -> None:
        """Undo everything; may run any number of times."""
        watcher = self.watcher
        if watcher is None:
            return
        stage = self._stage
        stage.watchers[:] = [w for w in stage.watchers if w is not watcher]
        stage.sort()
        if stage.mode is not None and not any(w.listens for w in stage.watchers):
            _take_out(stage)
        stage.paused = self._paused  # as it was, whatever an interrupt kept from being undone
        self._patching.__exit__(None, None, None)
        watcher.stop()
        self._eager.__exit__()
        self.watcher = None

    def __del__(self) -> None:
        # At work still, if an interrupt came between the body and the end of the block.
        if self.watcher is not None:
            self.drop()


class Session(Reversible):
    """A context manager around a watcher."""

    _hold: Hold | None = None

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher

    def _set_up(self) -> Any:
        self._hold = Hold(self._watcher)
        self._hold.take()
        return self

    def _undo(self) -> None:
        if self._hold is not None:
            self._hold.drop()
            self._hold = None


def _hides(places: Places) -> bool:
    """Return True if a fused operator would do the work of a module that is watched."""
    wanted = {id(module) for module in places.modules.values()}
    every = places.model.modules() if places.model is not None and wanted else ()
    fused = [module for module in every if isinstance(module, _FUSED)]
    inside = (child for outer in fused for child in outer.modules() if child is not outer)
    return any(id(child) in wanted for child in inside)


def _take_out(stage: _Stage) -> None:
    """Remove the mode from PyTorch's stack, wherever it is by now."""
    if _here.stage is stage:
        above = stage.above
        while torch._C._len_torch_function_stack() and stage.mode not in above[-1:]:
            above.append(torch._C._pop_torch_function_stack())
        while above:
            if above[-1] is not stage.mode:
                torch._C._push_on_torch_function_stack(above[-1])
            above.pop()
    stage.mode = None


def as_now() -> Callable[[], None]:
    """Return a function that undoes `lift`, for when its mode is popped from PyTorch's stack."""
    stage = _here.stage
    return functools.partial(setattr, stage, "mode", stage.mode)


def lift() -> None:
    """Let this stage see the thread's functions first, before the modes that came meanwhile."""
    stage = _here.stage
    if stage.mode is not None:
        stage.mode = _Functions(stage)  # the former one is passed through from now on
        torch._C._push_on_torch_function_stack(stage.mode)


class _eager:
    """Run code compiled by torch.compile as it was written; do nothing if there is none."""

    def __init__(self, places: Places) -> None:
        modules: Iterable[Any] = places.model.modules() if places.model is not None else ()
        self._compiled = places.compiled or any(
            "_orig_mod" in getattr(m, "_modules", ()) or m._compiled_call_impl is not None
            for m in modules
        )
        self._stance: Any = None

    def __enter__(self) -> None:
        if self._compiled:
            self._stance = torch.compiler.set_stance("force_eager")

    def __exit__(self, *exc: object) -> None:
        stance, self._stance = self._stance, None
        if stance is not None:
            stance.__exit__(None, None, None)
