"""Hooks on Python callables for one thread, which leave no trace.

A plain Python function is hooked through its `__code__`, so that every reference to it is caught
wherever it is stored. Anything else is hooked where it is stored. A thread that hooks something
sees its own handler, every other thread the original, and the last one to leave restores it.

Interrupts are survived as follows: each change is registered before it is made, undoing may run any
number of times and looks at what is left to do, and an `__exit__` that was cut short before its
first line is made up for when the context manager dies.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import operator
import sys
import threading
import types
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ..budget import BUDGET
from ..cleanup import Reversible
from ..errors import TargetError

Handler = Callable[[types.FunctionType, tuple, dict], Any]

_lock = threading.RLock()  # re-entered when a collected `_Patching` undoes itself in here
_codes: dict[types.FunctionType, _Code] = {}  # functions hooked now, with their handlers
_slots: dict[int, _Slot] = {}  # the same for attributes, by the id of what is installed there
# Things in modules stay for good, and their stand-ins serve again; keyed by the original's id.
_spare: dict[int, _Slot] = {}
_spare_codes: dict[types.FunctionType, _Code] = {}  # the same for functions of PyTorch
_MISSING: Any = object()
_CALL = "<hx: the dispatcher goes here>"


class _Stack(threading.local):
    """The handlers of each thread; not a context variable, which new threads may inherit."""

    def __init__(self) -> None:
        self.entries: list[tuple[Callable, object]] = []
        self.beneath: list[tuple[Callable, object]] = []


class _Code:
    """A function whose code is swapped while any thread hooks it."""

    def __init__(self, function: types.FunctionType) -> None:
        self.function = function
        self.code = function.__code__
        self.users: set[object] = set()
        self.stack = stack = _Stack()
        self.original = original = _copy(function, self.code)

        def under(*args: Any, **kwargs: Any) -> Any:
            beneath = stack.beneath
            if beneath:
                return beneath[-1][0](original, args, kwargs)
            return original(*args, **kwargs)

        def dispatch(args: tuple, kwargs: dict) -> Any:
            entries = stack.entries
            if entries:
                return entries[-1][0](under if stack.beneath else original, args, kwargs)
            return under(*args, **kwargs)

        self.trampoline = _trampoline(self.code, dispatch)

    def put(self) -> None:
        self.function.__code__ = self.trampoline

    def take_back(self) -> str:
        function = self.function
        if function.__code__ is self.trampoline:
            function.__code__ = self.code
        if function.__code__ is self.code:
            return ""
        return f"the code of {function.__module__}.{function.__qualname__}"

    def forget(self) -> None:
        _codes.pop(self.function, None)
        if _stays(self.function):
            if len(_spare_codes) >= BUDGET.objects.cached:
                _spare_codes.clear()
            _spare_codes[self.function] = self

    def fits(self) -> bool:
        """Return True if the function is as it was when this was made."""
        now, was = self.function, self.original
        return (
            now.__code__ is self.code
            and now.__defaults__ is was.__defaults__
            and now.__kwdefaults__ is was.__kwdefaults__
            and len(vars(now)) == len(vars(was))
            and all(map(operator.is_, vars(now).values(), vars(was).values()))
        )


def _stays(function: types.FunctionType) -> bool:
    """Return True for a function or a method of PyTorch that is no part of another function."""
    home = str(function.__module__)
    return home.partition(".")[0] == "torch" and "<locals>" not in function.__qualname__


def behind(thing: Any) -> Any:
    """The function behind a replacement of hx; anything else is itself."""
    return vars(thing).get("__hx_behind__", thing) if hasattr(thing, "__dict__") else thing


class _Slot:
    """An object that is replaced, at one or more places, while any thread hooks it."""

    def __init__(self, raw: Any) -> None:
        self.raw = raw
        self.users: set[object] = set()
        self.stack = stack = _Stack()
        self.places: list[tuple[Any, str, bool]] = []  # owner, name, whether its own
        inner = raw.__func__ if isinstance(raw, (staticmethod, classmethod)) else raw
        if not callable(inner):
            raise TargetError(f"{raw!r} cannot be called, so it cannot be hooked")
        self.original: Callable = inner

        def switch(*args: Any, **kwargs: Any) -> Any:
            entries = stack.entries
            return (entries[-1][0] if entries else inner)(*args, **kwargs)

        if isinstance(inner, type):
            switch = _class_like(inner, switch)
        else:
            functools.update_wrapper(switch, inner)
            for name in ("cache_info", "cache_clear"):  # other attributes of functions of functools
                if hasattr(inner, name):
                    setattr(switch, name, getattr(inner, name))
        switch.__hx_behind__ = inner  # type: ignore[attr-defined]
        if isinstance(raw, (classmethod, types.ClassMethodDescriptorType)):
            self.installed: Any = classmethod(switch)
        elif isinstance(raw, staticmethod) or not hasattr(type(raw), "__get__"):
            # A builtin that is stored on a class does not bind, and so its stand-in must not.
            self.installed = staticmethod(switch)
        else:
            self.installed = switch
        self.bare = switch  # modules and instances bind nothing

    def holds(self, value: Any) -> bool:
        return value is self.installed or value is self.bare

    def is_mine(self) -> bool:
        """Return True if this thread alone uses it."""
        return self.users <= {token for _, token in (*self.stack.entries, *self.stack.beneath)}

    def put(self) -> None:
        for owner, name, _ in self.places:
            value = _own(owner, name)
            if value is not self.installed and value is not self.bare:
                _set(owner, name, self.installed if isinstance(owner, type) else self.bare)

    def take_back(self) -> str:
        theirs = ""
        for owner, name, own in self.places:
            value = _own(owner, name)
            if self.holds(value):
                _set(owner, name, self.raw if own else _MISSING)
            elif value is not (self.raw if own else _MISSING):
                theirs = f"{getattr(owner, '__name__', type(owner).__name__)}.{name}"
        return theirs

    def forget(self) -> None:
        _slots.pop(id(self.bare), None)
        _slots.pop(id(self.installed), None)
        if all(isinstance(owner, types.ModuleType) for owner, _, _ in self.places):
            if len(_spare) >= BUDGET.objects.cached:
                _spare.clear()
            _spare[id(self.raw)] = self
        self.places = []


class _Patching(Reversible):
    """A context manager that enters all or nothing; `prepare` returns the hooks and handlers."""

    def __init__(
        self, prepare: Callable[[_Patching], Iterable[tuple[Any, Callable]]], beneath: bool = False
    ) -> None:
        self._prepare = prepare
        self._beneath = beneath
        self._spots: list[Any] = []
        self._entries: list[tuple[list, tuple]] = []
        self._token = object()  # stands for self, which must be able to die while it is registered
        self._modules: set[str] | None = None  # modules imported before, if that matters

    # Each critical section is one call on the line of its `with`: leaving the block then has no
    # line of its own, at which a debugger or a tracer could raise while the lock is held.

    def _set_up(self) -> _Patching:
        with _lock: self._install()  # noqa: E701  # one line, as said above  # fmt: skip
        return self

    def __del__(self) -> None:
        # Reached open only if an interrupt came between the body and the first line of __exit__.
        if self._open:
            self.close()

    def _install(self) -> None:
        token = self._token
        for spot, handler in self._prepare(self):
            if not self._spots or self._spots[-1] is not spot:
                self._spots.append(spot)
            spot.users.add(token)
            entry = (handler, token)
            entries = spot.stack.beneath if self._beneath else spot.stack.entries
            self._entries.append((entries, entry))
            entries.append(entry)
            spot.put()

    def _undo(self) -> None:
        theirs: list[str] = []
        with _lock: self._remove(theirs)  # noqa: E701  # fmt: skip
        for what in theirs:
            said = f"{what} was replaced by somebody else while it was hooked; left as it is now"
            warnings.warn(said, RuntimeWarning, stacklevel=4)

    def _remove(self, theirs: list[str]) -> None:
        if self._modules is not None and self._modules != sys.modules.keys():
            # A module imported meanwhile may hold a stand-in.
            imported = [sys.modules.get(name) for name in sys.modules.keys() - self._modules]
            for slot in self._spots:
                slot.places += _holding(slot, imported)
        for entries, entry in self._entries:
            if entries and entries[-1] is entry:  # as it mostly is
                entries.pop()
            else:
                entries[:] = [e for e in entries if e is not entry]
        for spot in reversed(self._spots):
            spot.users.discard(self._token)
            if not spot.users:
                replaced = spot.take_back()
                spot.forget()
                if replaced:
                    theirs.append(replaced)
        self._entries.clear()
        self._spots.clear()


def is_hooked(function: types.FunctionType) -> bool:
    """Return True if this thread runs something else in place of a function's code."""
    spot = _codes.get(function)
    return spot is not None and bool(spot.stack.beneath)


def own_code(function: types.FunctionType) -> types.CodeType:
    """The function's own code, whether it is hooked or not."""
    spot = _codes.get(function)
    return spot.code if spot is not None and spot.users else function.__code__


def hooks(handlers: Mapping[Any, Handler], *, beneath: bool = False) -> _Patching:
    """`with hooks({function: handler}): ...` calls `handler(original, args, kwargs)` instead.

    In this thread only. Positional arguments, with defaults filled in, are in `args`. Of several
    handlers the last one in is called. One that is `beneath` counts as part of the function: the
    others, also those that came earlier, get it as their `original`.
    """
    for function in handlers:
        if not isinstance(function, types.FunctionType):
            raise TargetError(
                f"{function!r} is not a plain Python function",
                hint="hook it where it is stored: patching.attributes([(owner, name, wrapper)])",
            )

    def prepare(user: _Patching) -> Iterable[tuple[_Code, Callable]]:
        for function, handler in handlers.items():
            spot = _codes.get(function)
            if spot is None or (not spot.users and function.__code__ is not spot.trampoline):
                spot = _spare_codes.pop(function, None)
                if spot is None or not spot.fits():
                    spot = _Code(function)
                user._spots.append(spot)  # before it is registered: an undo has to forget it
                _codes[function] = spot
            elif function.__code__ is not spot.trampoline:
                raise TargetError(f"{function.__qualname__}: its code was replaced while hooked")
            yield spot, handler

    return _Patching(prepare, beneath)


def attributes(
    places: Iterable[tuple[Any, str, Callable[[Callable], Callable]]],
) -> _Patching:
    """`with attributes([(owner, name, make_wrapper)]): ...` replaces things without code to swap.

    `make_wrapper(original)` returns the callable for this thread; for a method `original` takes
    `self` first. Modules imported inside of the block have the originals after it.
    """
    wanted = list(places)

    def prepare(user: _Patching) -> Iterable[tuple[_Slot, Callable]]:
        user._modules = set(sys.modules)
        for owner, name, make in wanted:
            raw = _own(owner, name)
            own = raw is not _MISSING
            if not own:
                raw = _inherited(owner, name)
            slot = _slots.get(id(raw)) if own else None
            if slot is None:
                slot = _spare.get(id(raw)) or _Slot(raw)
            user._spots.append(slot)
            _slots[id(slot.bare)] = _slots[id(slot.installed)] = slot
            if not _listed(slot.places, (owner, name, own)):
                slot.places.append((owner, name, own))
            yield slot, make(slot.original)

    return _Patching(prepare)


@contextlib.contextmanager
def bare() -> Iterator[None]:
    """Undo, in the block, what this thread has replaced, except what other threads use, too."""
    with _lock:
        slots = {id(slot): slot for slot in _slots.values() if slot.is_mine()}.values()
        for slot in slots:
            slot.take_back()
    try:
        yield
    finally:
        with _lock:
            for slot in slots:
                if slot.users:
                    slot.put()


def _listed(places: list[tuple[Any, str, bool]], place: tuple[Any, str, bool]) -> bool:
    return any(p[0] is place[0] and p[1] == place[1] for p in places)


def _own(owner: Any, name: str) -> Any:
    if type(owner) is types.ModuleType:  # as nearly all are
        return owner.__dict__.get(name, _MISSING)
    if isinstance(owner, types.CellType):  # a variable of a function that is around another
        try:
            return owner.cell_contents
        except ValueError:  # it has none by now
            return _MISSING
    if type(owner) is dict:  # a table of functions
        return owner.get(name, _MISSING)
    if not hasattr(owner, "__dict__"):
        raise TargetError(f"{owner!r} has no attributes that can be replaced")
    return vars(owner).get(name, _MISSING)


def _inherited(owner: Any, name: str) -> Any:
    holders = [h for h in getattr(owner, "__mro__", ()) if name in vars(h)]
    # An instance's attribute comes from its class, bound.
    found = vars(holders[0])[name] if holders else getattr(owner, name, _MISSING)
    if found is _MISSING:
        raise TargetError(f"{getattr(owner, '__name__', owner)!r} has no attribute {name!r}")
    return found


def _set(owner: Any, name: str, value: Any) -> None:
    """Set an attribute without the owner's `__setattr__`, except on classes, which must notice."""
    if type(owner) is types.ModuleType and value is not _MISSING:
        owner.__dict__[name] = value
        return
    if isinstance(owner, types.CellType):
        owner.cell_contents = value
        return
    if not isinstance(owner, type):
        space = owner if type(owner) is dict else vars(owner)
        if value is _MISSING:
            space.pop(name, None)
        else:
            space[name] = value
        return
    try:
        delattr(owner, name) if value is _MISSING else setattr(owner, name, value)
    except (TypeError, AttributeError) as e:
        raise TargetError(f"{owner.__qualname__}.{name} cannot be replaced", why=str(e)) from e


def _holding(slot: _Slot, modules: list[Any]) -> list[tuple[Any, str, bool]]:
    """The globals of modules that hold the stand-in, and that the slot does not list yet."""
    modules = [m for m in modules if isinstance(m, types.ModuleType)]
    found = [(m, k, True) for m in modules for k, v in list(vars(m).items()) if slot.holds(v)]
    return [place for place in found if not _listed(slot.places, place)]


def _class_like(cls: type, switch: Callable) -> Any:
    """A stand-in for a class, which `isinstance(x, range)` still takes for the class."""

    class Like(type):
        def __call__(self, *args, **kwargs):
            return switch(*args, **kwargs)

        def __getattribute__(self, name):
            return getattr(cls, name)

        def __instancecheck__(self, x):
            return isinstance(x, cls)

        def __subclasscheck__(self, other):
            return issubclass(other, cls)

        def __eq__(self, other):
            return other is self or other is cls

        def __hash__(self):
            return hash(cls)

    return Like(cls.__name__, (), {})


def _copy(function: types.FunctionType, code: types.CodeType) -> types.FunctionType:
    copy = types.FunctionType(
        code, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    functools.update_wrapper(copy, function)
    vars(copy).pop("__wrapped__")
    vars(copy).update(vars(function))
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


def _trampoline(code: types.CodeType, dispatch: Callable) -> types.CodeType:
    """Code with the parameters, free variables and place of `code` that only calls `dispatch`."""
    count = code.co_posonlyargcount, code.co_argcount, code.co_kwonlyargcount
    flags = code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    total = count[1] + count[2] + flags.bit_count()
    form = _form(*count, flags, code.co_varnames[:total], code.co_freevars)
    names = ("co_name", "co_qualname", "co_filename", "co_firstlineno")  # qualname from 3.11 on
    changes: dict[str, Any] = {n: getattr(code, n) for n in names if hasattr(code, n)}
    consts = tuple(dispatch if c == _CALL else c for c in form.co_consts)
    return form.replace(co_consts=consts, **changes)


@functools.lru_cache(maxsize=4096)
def _form(
    posonly: int, args: int, kwonly: int, flags: int, names: tuple[str, ...], free: tuple[str, ...]
) -> types.CodeType:
    """Compile a form once for each parameter list: most forwards are `(self, x)`."""
    # Names are replaced afterwards, since comprehensions have parameters such as `.0`.
    spelled = [f"__hx_{i}" for i in range(len(names))]
    positional, only, rest = spelled[:args], spelled[args : args + kwonly], spelled[args + kwonly :]
    star = rest.pop(0) if flags & inspect.CO_VARARGS else ""
    double = rest.pop(0) if flags & inspect.CO_VARKEYWORDS else ""
    head = [*positional[:posonly], *(["/"] if posonly else []), *positional[posonly:]]
    head += [f"*{star}"] if star else ["*"] if only else []
    head += [*only, *([f"**{double}"] if double else [])]
    tail = [*positional, *([f"*{star}"] if star else [])]
    keys = [f"{names[args + i]!r}: {name}" for i, name in enumerate(only)]
    keys += [f"**{double}"] if double else []
    source = "def outer():\n"
    source += "".join(f"  {name} = None\n" for name in free)
    source += f"  def inner({', '.join(head)}):\n"
    source += "".join(f"    if 0: {name}\n" for name in free)  # free in it, and never run
    source += f"    __hx = {_CALL!r}; return __hx(({''.join(t + ',' for t in tail)}), "
    source += f"{{{', '.join(keys)}}})\n  return inner\n"
    space: dict[str, Any] = {}
    exec(compile(source, "<hx>", "exec"), space)
    code = space["outer"]().__code__
    return code.replace(co_varnames=(*names, *code.co_varnames[len(names) :]))
