"""Runs the model once and writes down what it does.

A call of the model arrives at one of three doors, and the outermost that knows it wins:

1. *callables*: module forwards and functions of other libraries, hooked by `patching`;
2. *torch functions*: seen through PyTorch's own override protocol (`FunctionDoor`);
3. *ATen operators*: what runs beneath a torch function that nobody converts, and what reaches
   PyTorch from code that no other door can see (`OperatorDoor`).

At each, a converter is asked. One that declines (returns NotImplemented) lets the original body
run, and the calls inside are asked instead.
"""

from __future__ import annotations

import threading
import weakref
from builtins import len  # their own: `world` hooks those of the model
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from . import accounts, dims, known, opening, patching, targets
from .builder import Builder
from .call import (
    Arguments,
    Call,
    ModelRaised,
    Replayed,
    Step,
    blame,
    check,
    lift,
    pick,
    retyped,
    substitute,
    tensors_in,
)
from .choices import Choices
from .errors import ConverterError, HxError, Unaccounted, Unsupported, Where
from .liveness import Entry, Family, Live, geometry, storage_key
from .op import Op
from .origins import Frames
from .report import Escape, Missing
from .values import Constant, Origin, Value
from .writing import by_positions, positions, read_again, write_back

_local = threading.local()
# Where sizes are reckoned with on behalf of whoever called.
_CARRIERS = {dims.__file__, str(Path(__file__).with_name("carriers.py")), patching.__file__}
DECLINED = object()
COUNTED_LATER = -2


def current() -> Recording | None:
    return getattr(_local, "recording", None)


class Recording:
    """The state of one run: which values live, which nodes are written, what was noticed."""

    def __init__(self, choices: Choices, opset: int, guard: Any = None) -> None:
        self.builder = Builder(opset)
        self.builder.value_of = self.value_of
        self.choices = choices
        self.guard = guard
        self.live = Live()
        self.frames = Frames()
        self.names: dict[int, str] = {}  # id of a parameter, buffer or attribute -> its name
        self.named: list[torch.Tensor] = []  # keeps those ids from being reused
        self.escapes: dict[tuple, Escape] = {}
        self.missing: dict[str, Missing] = {}
        self.declined: dict[str, int] = {}
        self.converted: dict[str, int] = {}  # calls by target
        self.notes: list[str] = []
        self.scopes: list[tuple[str, str]] = []
        self.model: Any = None
        self.states: set[int] = set()  # ids of the attribute dicts of its modules
        self.constants: dict[int, weakref.WeakSet[Constant]] = {}  # by the tensor's storage
        self.given: dict[str, torch.Tensor] = {}  # the inputs, as the model gets them
        self.busy = False  # inside the engine, a converter, or a body that one speaks for
        self.written: list[Any] = []  # families that the present call wrote to
        self.operators = 0  # how many ran beneath it under another name
        self.beneath: tuple[Any, Any] | None = (
            None  # torch function whose operators are being asked
        )
        self.sized = False  # whether that function was given a size that may vary
        self.unfilled = False  # compiled code got memory that it fills by itself
        self._actions: dict[Any, Callable] = {}
        self._opening: list[Any] = []

    # Values.

    def value_of(self, tensor: torch.Tensor) -> Value:
        """The value that a real tensor stands for."""
        entry = self.live.find(tensor)
        if entry is None:
            entry = self._account(tensor)
        elif entry.generation != entry.family.generation:
            return self.live.read(entry, self._read_again)
        return entry.value

    def constant(self, tensor: torch.Tensor, name: str = "") -> Constant:
        # Another name for the same memory: what is known of a tensor must not keep it alive.
        with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
            made = self.builder.constant(tensor.detach(), name)
        if not name and _is_corner(tensor):
            made.freeze()  # a view would keep all of the memory that it shows a corner of
        elif not tensor.is_meta:
            self.constants.setdefault(storage_key(tensor), weakref.WeakSet()).add(made)
        return made

    def _written_constant(self, tensor: torch.Tensor) -> Constant:
        """What a constant holds after a write; a buffer is put back when the recording ends."""
        made = self.constant(tensor)
        made.freeze()
        return made

    def as_output(self, x: Any) -> Value:
        """A result of the model as a value: tensors are, numbers and sizes become scalars."""
        if isinstance(x, Value):
            return x
        kind = (
            torch.bool
            if isinstance(x, bool)
            else torch.int64
            if isinstance(x, int)
            else torch.float32
        )
        return self.builder.number(x, kind)

    def name_tensor(self, tensor: torch.Tensor, name: str) -> None:
        """A tensor that was there before the recording: a parameter, buffer or attribute."""
        if id(tensor) not in self.names:
            self.names[id(tensor)] = name
            self.named.append(tensor)

    def _account(self, tensor: torch.Tensor) -> Entry:
        """The entry of a tensor that no recorded call returned, if its origin is known."""
        return accounts.account(self, tensor)

    # Where we are.

    def where(self) -> Where:
        frame = self.frames.user(2)
        scope = self.scopes[-1][0] if self.scopes else ""
        if frame is None:
            return Where("", 0, scope)
        return Where(frame.f_code.co_filename, frame.f_lineno, scope, frame.f_code.co_name)

    def _origin(self, target: str, pack: str) -> Origin:
        frame = self.frames.user(2)
        scope, module = self.scopes[-1] if self.scopes else ("", "")
        if frame is None:
            return Origin(target, pack, scope, module, None, 0)
        return Origin(target, pack, scope, module, frame.f_code, frame.f_lineno)

    def escape(self, kind: str, detail: str, where: Where | None = None) -> None:
        """A traced value left the graph."""
        where = where or self.where()
        key = (kind, where.file, where.line)
        found = self.escapes.get(key)
        if found is None:
            self.escapes[key] = Escape(kind, where, detail)
        else:
            found.count += 1

    def _size_left(self, kind: str, detail: str) -> None:
        # PyTorch's own checks compare sizes all the time; a branch is one in the model's code.
        import sys

        frame = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename in _CARRIERS:
            frame = frame.f_back  # type: ignore[assignment]
        if frame is not None and not self.frames._machinery(frame.f_code):
            self.escape(kind, detail)

    # Calls.

    def call(self, key: Any, func: Callable, args: tuple, kwargs: dict, door: Door) -> Any:
        """A call that arrived at a door of torch: does it, and writes what it means."""
        action = self._actions.get((key, door.level))
        if action is None:
            action = self._actions[key, door.level] = self._classify(key, func, door)
        return action(key, func, args, kwargs, door)

    def _classify(self, key: Any, func: Callable, door: Door) -> Callable:
        """What to do with every call of a function, decided once."""
        special = known.SPECIAL.get(key)
        if special is not None:
            return special.__get__(self)
        if self.choices.of(key):
            return Recording._converted.__get__(self)
        if known.in_place_base(key) is not None:
            return Recording._in_place.__get__(self)
        if door.level == "function" and opening.can_open(func):
            return Recording._opened.__get__(self)
        return Recording._leaf.__get__(self)

    def _converted(self, key, func, args, kwargs, door) -> Any:
        given = lift(self, args, kwargs)
        choice = self.choices.pick(key, args)
        run = self._runner(key, func, args, kwargs, given)
        if self.unfilled and key not in known.VIEWS:
            accounts.require_filled(self, given.tensors, accounts.written(key, func, args, kwargs))
        if not given.traced and door.level != "callable" and known.is_pure(key, func):
            if not self._views_of_weights(key, given):
                return self._fold(key, choice, given, run, known.mutated(func, args, kwargs))
        elif not given.traced and door.level == "function" and opening.can_open(func):
            return self._opened(key, func, args, kwargs, door)  # the calls inside are folded
        if "out" in kwargs and kwargs["out"] is not None:
            return self._out(key, choice, given, run, args, kwargs)
        result = self.convert(choice, given, run)
        if result is DECLINED:
            return self._beneath(key, func, args, kwargs, door, given)
        return result

    def _beneath(self, key, func, args, kwargs, door, given) -> Any:
        """A converter declined, or there is none: the calls inside are asked."""
        if door.level == "function" and opening.can_open(func):
            return self._opened(key, func, args, kwargs, door)
        return self._leaf(key, func, args, kwargs, door, given, asked=True)

    def _views_of_weights(self, key, given: Arguments) -> bool:
        """A view of a weight stays a node: folded, it would be stored a second time."""
        return key in known.VIEWS and any(
            v.name and v.tensor.numel() > 256 if isinstance(v, Constant) else v.fixed
            for v in given.values
        )

    def _runner(self, key, func, args, kwargs, given: Arguments) -> Callable[[], Any]:
        def run():
            if known.writes(key, func, args, kwargs):
                self._before_write(args, kwargs)
            return self.quietly(func, args, kwargs)

        return run

    def quietly(self, func, args, kwargs) -> Any:
        """Runs a body whose inner calls are not recorded."""
        with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
            return func(*args, **kwargs)

    def _before_write(self, args, kwargs) -> None:
        """Keeps what readers of a constant saw, before its memory changes."""
        written = [args[0]] if args else []
        written.append(kwargs.get("out"))
        for _, tensor in tensors_in(written):
            for constant in self.constants.get(storage_key(tensor), ()):
                constant.freeze()
            if self.guard is not None:
                self.guard.before_write(tensor)

    def _fold(self, key, choice, given: Arguments, run, written=()) -> Any:
        """Nothing in it depends on an input: having run it is enough."""
        result = run()
        if known.in_place_base(key) in known.TURNS:
            entry = self.live.find(given.tensors[0])
            if entry is not None:
                self.live.reform(entry, self._written_constant(given.tensors[0]), None)
        for tensor in written:
            # An operator's write is not counted yet: it has to be told.
            entry = self.live.find(tensor)
            if entry is not None:
                self._constants_written(entry, tensor)
                self.written.append(entry.family)
        self.bind_constants(result, given, choice)
        return result

    def _constants_written(self, entry: Entry, tensor: torch.Tensor) -> None:
        if entry.family.root.fixed:
            self.live.refresh(entry, self._written_constant)
        else:  # a corner of memory that holds traced values elsewhere
            self.write(tensor, self._written_constant(tensor))

    def bind_constants(self, result, given: Arguments, choice=None) -> None:
        for tensor in given.tensors:
            entry = self.live.find(tensor)
            if entry is not None and _changed(entry, tensor):
                self._constants_written(entry, tensor)
        for path, tensor in tensors_in(result):
            if self.live.find(tensor) is not None:
                continue
            parent = self._parent(tensor, given)
            step = None
            if parent is not None and choice is not None:
                step = self._step(choice, given, parent, path, result)
            if step is not None and parent is not None and not parent.value.is_constant:
                # A constant-looking view of memory that holds traced values.
                whole: Any = parent()
                value = self._replay(step, self.value_of(whole))
            else:
                value = self.constant(tensor)
            self.live.bind(tensor, value, parent if step is not None else None, step)

    def convert(self, choice, given: Arguments, run: Callable[[], Any]) -> Any:
        """Asks a converter, runs the real call, checks that they agree, binds the results."""
        builder = self.builder
        mark, sizes = len(builder.nodes), builder.sizes.mark()
        outer = builder.origin
        builder.origin = self._origin(choice.target, choice.pack)
        call = Call(choice, given, run)
        outputs: Any = NotImplemented
        try:
            with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
                args, kwargs = self.choices.fit(choice, given)
                outputs = choice.function(Op(builder, call, self), *args, **kwargs)
        except ModelRaised as e:
            self._undo(mark, sizes)
            raise e.__cause__ or e  # noqa: B904 - the model's own, with the chain that it had
        except (HxError, Exception) as e:
            if call.error is e:
                raise
            self._undo(mark, sizes)
            raise blame(choice, e, builder.origin.where) from (
                e if isinstance(e, HxError) else None
            )
        finally:
            builder.origin = outer
        if outputs is NotImplemented:
            self._undo(mark, sizes)
            self.declined[choice.target] = self.declined.get(choice.target, 0) + 1
            if call.done and any(
                _changed(found, t)
                for t in given.tensors
                if (found := self.live.find(t)) is not None
            ):
                raise ConverterError(
                    f"the converter of {choice.target} declined after the call had written to its "
                    "arguments",
                    why="op.result runs the call, and it cannot be run a second time",
                    hint="decline before asking for op.result",
                )
            return DECLINED
        try:
            real = call.real()
        except BaseException:
            self._undo(mark, sizes)
            raise
        origin = builder.origin
        builder.origin = self._origin(choice.target, choice.pack)
        try:
            with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
                self._settle(choice, given, call, real, outputs)
        except HxError as e:
            raise blame(choice, e, builder.origin.where) from None
        finally:
            builder.origin = origin
        self.converted[choice.target] = self.converted.get(choice.target, 0) + 1
        return real

    def _undo(self, mark: int, sizes: int) -> None:
        del self.builder.nodes[mark:]
        self.builder.sizes.forget(sizes)

    def _settle(self, choice, given: Arguments, call: Call, real, outputs) -> None:
        """Binds the tensors of a real result to what the converter returned for them."""
        if isinstance(real, torch.Tensor):
            pairs: Any = [((), real)]
        else:
            pairs = list(tensors_in(real))
            self._same_structure(choice, real, outputs)
        arguments = {id(t): v for t, v in zip(given.tensors, given.values)}
        written = []
        for path, tensor in pairs:
            try:
                out = pick(outputs, path)
            except (KeyError, IndexError, TypeError, AttributeError):
                raise ConverterError(
                    f"the converter of {choice.target} ({choice.pack}) returned no value for "
                    f"result{''.join(f'[{p!r}]' for p in path)}",
                    why=f"converter: {choice.file}:{choice.line}",
                ) from None
            if id(tensor) in arguments:
                entry = self.live.find(tensor)
                if entry is not None and _changed(entry, tensor):
                    written.append((tensor, check(choice, tensor, out, path)))
                continue  # the same tensor came back: it is bound already
            value = check(choice, tensor, out, path)
            if type(value) is Value or isinstance(value, Constant):
                parent = self._parent(tensor, given)
                if parent is None:
                    self.live.bind(tensor, value)
                else:
                    step = self._step(choice, given, parent, path, real)
                    self.live.bind(tensor, value, parent, step)
        for old, new in call.assigned:
            for tensor, value in zip(given.tensors, given.values):
                if value is old:
                    written.append((tensor, check(choice, tensor, new, ("written",))))
                    break
        for tensor, value in written:
            self.write(tensor, value)
        if given.tensors:
            self._nothing_else_written(choice, given)

    def _same_structure(self, choice, real, outputs) -> None:
        if isinstance(real, (list, tuple)) and not (
            isinstance(outputs, (list, tuple)) and len(outputs) == len(real)
        ):
            got = len(outputs) if isinstance(outputs, (list, tuple)) else type(outputs).__name__
            raise ConverterError(
                f"the converter of {choice.target} ({choice.pack}) returned {got}, and the target "
                f"returns {type(real).__name__} of {len(real)}",
                why=f"converter: {choice.file}:{choice.line}",
            )

    def _nothing_else_written(self, choice, given: Arguments) -> None:
        for tensor in given.tensors:
            entry = self.live.find(tensor)
            if entry is not None and _changed(entry, tensor):
                if isinstance(entry.value, Constant) and entry.value.name:
                    # A module that keeps statistics: the values that this call used were right.
                    entry.version = tensor._version
                    continue
                raise Unsupported(
                    f"{choice.target} wrote to an argument, and its converter does not say what",
                    why=f"converter: {choice.file}:{choice.line}",
                    hint="say it in the converter: op.assign(x, new_value)",
                )

    def write(self, tensor: torch.Tensor, value: Value) -> None:
        entry = self.live.find(tensor)
        if entry is None:
            entry = self._account(tensor)
        self.written.append(entry.family)
        if not any(m is not entry for m in entry.family.alive()):
            self.live.write(entry, value, lambda f, e, v: v)
        else:
            self.live.write(
                entry, value, lambda f, e, v: write_back(self.builder, f, e, v, self._replay)
            )

    # Views.

    def _read_again(self, family: Family, entry: Entry) -> Value:
        try:
            return read_again(self.builder, family, entry, self._replay)
        except Unaccounted:
            if not self.missing:
                raise
            # It follows from something that has no converter, and that is what is going to be told.
            return self.builder.value(entry.value.dtype, entry.value.shape)

    def _parent(self, tensor: torch.Tensor, given: Arguments) -> Entry | None:
        """The argument whose memory a result shares."""
        if not given.tensors:
            return None
        family = self.live.families.get(storage_key(tensor))
        if family is None:
            return None
        for argument in given.tensors:
            entry = self.live.find(argument)
            if entry is not None and entry.family is family:
                return entry
        return None

    def _step(self, choice, given: Arguments, parent: Entry, path: tuple, real) -> Step:
        value = next(v for t, v in zip(given.tensors, given.values) if t is parent())
        from .call import describe

        fixed = not given.sized and all(v is value or v.fixed for v in given.values)
        return Step(choice, given.args, given.kwargs, value, path, describe(real), fixed)

    def _replay(self, step: Step, value: Value) -> Value:
        """The same view of other contents."""
        if step is None:
            raise Unaccounted("a view was made by a call that has no converter")
        choice = step.choice
        given = Arguments(
            substitute(step.args, step.parent, value),
            substitute(step.kwargs, step.parent, value),
            [], [], True,
        )  # fmt: skip
        call = Replayed(retyped(step.spec, value.dtype))
        with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
            args, kwargs = self.choices.fit(choice, given)
            outputs = choice.function(Op(self.builder, call, self), *args, **kwargs)  # type: ignore[arg-type]
        return pick(outputs, step.output)

    # In-place forms and out=.

    def _in_place(self, key, func, args, kwargs, door) -> Any:
        """x.add_(y) is x.add(y), written into x."""
        given = lift(self, args, kwargs)
        run = self._runner(key, func, args, kwargs, given)
        base = known.in_place_base(key)
        if not given.traced and known.is_pure(base, func):
            return self._fold(key, None, given, run, known.mutated(func, args, kwargs))
        choice = self.choices.pick(base, args)
        if choice is None:
            return self._leaf(key, func, args, kwargs, door, given, asked=True)
        if base in known.TURNS:
            return self._written(choice, given, run, [args[0]], self._turn)
        return self._written(choice, given, run, [args[0]], self._put)

    def _put(self, choice, given: Arguments, tensor: torch.Tensor, value: Value) -> None:
        self.write(tensor, self._shaped_like(tensor, value))

    def _turn(self, choice, given: Arguments, tensor: torch.Tensor, value: Value) -> None:
        entry = self.live.find(tensor)
        assert entry is not None
        step = self._step(choice, given, entry, (), tensor)
        self.live.reform(entry, check(choice, tensor, value, ()), step)

    def _out(self, key, choice, given: Arguments, run, args, kwargs) -> Any:
        """f(x, out=y) is f(x), written into y."""
        out = kwargs["out"]
        plain = {k: v for k, v in given.kwargs.items() if k != "out"}
        without = Arguments(given.args, plain, given.tensors, given.values, given.traced)
        places = list(out) if isinstance(out, (list, tuple)) else [out]
        return self._written(choice, without, run, places, self._put)

    def _written(
        self, choice, given: Arguments, run, places: list[torch.Tensor], put: Callable
    ) -> Any:
        """Calls a converter, and writes what it returns into tensors that were there before."""
        builder = self.builder
        outer, builder.origin = builder.origin, self._origin(choice.target, choice.pack)
        mark, sizes = len(builder.nodes), builder.sizes.mark()
        call = Call(choice, given, run)
        try:
            with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
                args, kwargs = self.choices.fit(choice, given)
                outputs = choice.function(Op(builder, call, self), *args, **kwargs)
                if outputs is NotImplemented:
                    raise Unsupported(
                        f"{choice.target} has no ONNX form for this call written in place",
                        hint="write the call without its trailing underscore or out=",
                    )
                real = call.real()
                listed = list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]
                for tensor, value in zip(places, listed):
                    put(choice, given, tensor, value)
        except ModelRaised as e:
            self._undo(mark, sizes)
            raise e.__cause__ or e  # noqa: B904
        except Exception as e:
            if call.error is e:
                raise
            self._undo(mark, sizes)
            raise blame(choice, e, builder.origin.where) from (
                e if isinstance(e, HxError) else None
            )
        finally:
            builder.origin = outer
        self.converted[choice.target] = self.converted.get(choice.target, 0) + 1
        return real

    def _shaped_like(self, tensor: torch.Tensor, value: Value) -> Value:
        """A result as it is after having been written into a tensor: cast and broadcast."""
        value = self.builder.cast(value, tensor.dtype)
        old = self.live.find(tensor)
        if value.shape is None or tuple(map(dims.plain, value.shape)) != tuple(tensor.shape):
            if old is not None and old.value.shape is not None:
                op = Op(self.builder)
                known_shape = old.value.shape
                if tuple(map(dims.plain, known_shape)) == tuple(tensor.shape):
                    return op.Expand(value, op.sizes(known_shape))
            value.shape = tuple(tensor.shape)
        return value

    # Functions without a converter.

    def _opened(self, key, func, args, kwargs, door) -> Any:
        """A Python function of torch: its body runs, and the calls inside arrive here again."""
        if func in self._opening:
            # It called super(), or itself by its public name: PyTorch's own code does the rest.
            return self._leaf(key, func, args, kwargs, door)
        self._opening.append(func)
        self.busy = False
        try:
            with door:
                return opening.opened(func)(*args, **kwargs)
        finally:
            self.busy = True
            self._opening.pop()

    def _leaf(self, key, func, args, kwargs, door, given=None, asked=False) -> Any:
        """No converter, and no Python body: the ATen operators beneath are asked."""
        given = given or lift(self, args, kwargs)
        if not given.traced and not asked:
            if known.is_random(key):
                return self._random(key, func, args, kwargs)
            run = self._runner(key, func, args, kwargs, given)
            choice = self.choices.pick(key, args)  # one may know a view, though all is known
            return self._fold(key, choice, given, run, known.mutated(func, args, kwargs))
        if door.level == "operator":
            return self._absent(key, func, args, kwargs, given)
        outer, self.beneath, self.operators = (self.beneath, self.sized), (func, key), 0
        self.sized = given.sized
        self.busy = False
        try:
            result = func(*args, **kwargs)
        finally:
            self.busy = True
            self.beneath, self.sized = outer
        loose = [t for _, t in tensors_in(result) if self.live.find(t) is None]
        if self.operators and (given.sized or any(v.dynamic for v in given.values)):
            self.escape("baked", f"{known.spelled(func, key)} computes sizes outside of Python")
        if loose:
            self._note_missing(known.spelled(func, key), given, "")
            for tensor in loose:
                self._opaque(tensor)
        elif not self.operators and not any(True for _ in tensors_in(result)):
            self._actions[key, door.level] = Recording._pass.__get__(self)
        return result

    def _random(self, key, func, args, kwargs) -> Any:
        name = known.spelled(func, key)
        self._note_missing(name, lift(self, args, kwargs), "it draws random numbers")
        result = self.quietly(func, args, kwargs)
        for _, tensor in tensors_in(result):
            if self.live.find(tensor) is None:
                self._opaque(tensor)
        return result

    def _pass(self, key, func, args, kwargs, door) -> Any:
        """It told something about a tensor, and returned none."""
        result = self.quietly(func, args, kwargs)
        if any(True for _ in tensors_in(result)):
            return self._leaf(key, func, args, kwargs, door, asked=True)
        return result

    def _absent(self, key, func, args, kwargs, given: Arguments) -> Any:
        """An operator that nobody converts: noted, and the recording goes on to find the rest."""
        run = self._runner(key, func, args, kwargs, given)
        result = run()
        written = known.mutated(func, args, kwargs)
        fresh = [t for _, t in tensors_in(result) if self.live.find(t) is None]
        if fresh and not written:
            views = [t for t in fresh if self._by_positions(t)]
            if len(views) == len(fresh):
                return result
        if not fresh and not written:
            if key in known.READS and given.traced:
                self.escape(known.READS[key], "a value was read outside of Python's sight")
            return result
        name = known.spelled(*(self.beneath or (func, key)))
        self._note_missing(name, given, "" if self.beneath is None else str(key))
        for tensor in fresh:
            self._opaque(tensor)
        for tensor in written:
            self.write(tensor, self.builder.value(tensor.dtype, tensor.shape))
        return result

    def _by_positions(self, tensor: torch.Tensor) -> bool:
        """Whether it is a view of memory that is known, at sizes that cannot vary."""
        family = self.live.family_of(tensor)
        if self.sized or family is None or family.root.dynamic or family.root.dtype != tensor.dtype:
            return False
        if tensor.is_conj() or tensor.is_neg():
            return False
        places = positions(family.geometry, geometry(tensor))
        if (places < 0).any():
            return False
        outer, self.builder.origin = self.builder.origin, self._origin("a view in memory", "hx")
        try:
            value = by_positions(self.builder, family.root, places, tensor)
        finally:
            self.builder.origin = outer
        self.live.bind(tensor, value)
        return True

    def _opaque(self, tensor: torch.Tensor) -> None:
        """A stand-in, so that everything missing is found in one run; it never is written out."""
        self.live.bind(tensor, self.builder.value(tensor.dtype, tensor.shape))

    def _note_missing(self, target: str, given: Arguments, detail: str) -> None:
        found = self.missing.get(target)
        if found is None:
            found = self.missing[target] = Missing(target, detail)
        found.add(self.where(), [(t.dtype, tuple(t.shape)) for t in given.tensors], detail)


def _is_corner(tensor: torch.Tensor) -> bool:
    if tensor.is_meta or tensor.layout != torch.strided:
        return False
    return 4 * tensor.numel() * tensor.element_size() < tensor.untyped_storage().nbytes()


def _changed(entry: Entry, tensor: torch.Tensor) -> bool:
    if entry.version == COUNTED_LATER:
        entry.version = -1 if tensor.is_inference() else tensor._version
    return entry.version >= 0 and tensor._version != entry.version


class Door:
    """What the two doors of torch share."""

    level = ""

    recording: Recording
    _keys: dict[Any, Any]

    def arrived(self, func, args: tuple, kwargs: dict) -> Any:
        recording = self.recording
        if recording.busy:
            return func(*args, **kwargs)
        key = self._keys.get(func)
        if key is None:
            key = self._keys[func] = targets.identify(func)
        recording.busy = True
        recording.written.clear()
        if recording.beneath is not None and recording.beneath[1] != key:
            recording.operators += 1
        try:
            result = recording.call(key, func, args, kwargs, self)
            if self.level == "operator" and recording.beneath is None:
                accounts.from_compiled(recording, key, func, args, result)
            return result
        except HxError as e:
            if e.where is None:
                e.where = recording.where()
            raise
        finally:
            recording.busy = False
            if self.level == "operator":
                # PyTorch counts the write of an operator when its handler has returned.
                for family in recording.written:
                    for member in family.members:
                        member.version = COUNTED_LATER


class FunctionDoor(Door, TorchFunctionMode):
    level = "function"

    def __init__(self, recording: Recording) -> None:
        TorchFunctionMode.__init__(self)
        self.recording = recording
        self._keys = {}

    def __torch_function__(self, func, types, args=(), kwargs=None):
        return self.arrived(func, args, kwargs or {})


class OperatorDoor(Door, TorchDispatchMode):
    level = "operator"

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # or PyTorch would import its compiler for the first call

    def __init__(self, recording: Recording) -> None:
        TorchDispatchMode.__init__(self)
        self.recording = recording
        self._keys = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return self.arrived(func, args, kwargs or {})
