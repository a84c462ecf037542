"""A converter and the real call that it speaks for: asked, run, compared, bound."""

from __future__ import annotations

import dataclasses
import operator
from builtins import len  # their own: `world` hooks those of the model
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from ..errors import ConverterError, HxError, Unsupported
from ..graph.op import Op
from ..packs import containers
from ..sizes import dims
from ..tensors import accounts, quantized, sparse
from ..tensors.liveness import changed, geometry, storage_key
from ..tensors.values import Constant, Value
from ..tensors.views import parent_of, step_of, write
from ..words import a
from . import autocast
from .call import (
    Arguments,
    Call,
    Instead,
    ModelRaised,
    blame,
    check,
    is_as_recorded,
    pick,
    tensors_in,
)

if TYPE_CHECKING:
    from .recording import Recording

DECLINED = object()


def convert(recording: Recording, choice, given: Arguments, run: Callable[[], Any]) -> Any:
    """Asks a converter, runs the real call, checks that they agree, binds the results."""
    call = Call(choice, given, run)
    with (
        torch._C.DisableTorchFunction(),
        torch._C._DisableTorchDispatch(),
        asking(recording, call) as ask,
    ):
        outputs = ask()
        if outputs is not NotImplemented and not isinstance(outputs, Instead):
            for old, _ in call.assigned:
                for tensor, value in zip(given.tensors, given.values):
                    if value is old and not call.done:
                        recording.before_write((tensor,), {})
            real = call.real()
            settle(recording, choice, given, call, real, outputs)
            recording.tally(choice)
            if given.untold is not None:  # as many as there were in the recording
                kind, told, asked = given.untold
                recording.escape(kind, told, asked=asked)
            return real if isinstance(real, torch.Tensor) else with_sizes(choice, real, outputs)
        ask.undo()
    require_unwritten(recording, call)
    recording.tally(choice, declined=outputs is NotImplemented)
    return DECLINED if outputs is NotImplemented else outputs


class asking:
    """`with asking(recording, call) as ask: outputs = ask()` asks the call's converter.

    What is written inside is the converter's; an error takes back all of it, and names the
    converter. The doors of torch are shut around it, for all that a call takes at once.
    """

    __slots__ = ("_call", "_mark", "_origin", "_outer", "_recording", "_sizes")

    def __init__(self, recording: Recording, call: Call) -> None:
        self._recording, self._call = recording, call
        self._origin = recording.origin(call.choice.target, call.choice.pack)
        self._mark, self._sizes = len(recording.builder.nodes), recording.builder.sizes.mark()

    def __enter__(self) -> asking:
        builder = self._recording.builder
        self._outer, builder.origin = builder.origin, self._origin
        return self

    def __call__(self) -> Any:
        recording, choice = self._recording, self._call.choice
        args, kwargs = recording.choices.fit(choice, self._call.given)
        return choice.function(Op(recording.builder, self._call, recording), *args, **kwargs)

    def undo(self) -> None:
        del self._recording.builder.nodes[self._mark :]
        self._recording.builder.sizes.forget(self._sizes)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        call, self._recording.builder.origin = self._call, self._outer
        if error is None:
            return
        self.undo()
        if isinstance(error, ModelRaised):
            raise error.__cause__ or error  # the model's own, with the chain that it had
        if isinstance(error, (Exception, SystemExit)) and call.error is not error:
            own = _of_the_call(call, error)
            if own is not None:  # the chain that it had, and not what the converter said before
                raise own from own.__cause__
            where = self._origin.where if self._origin.file else self._recording.where()
            by_hand = self._recording.choices.by_hand(call.choice)
            raise blame(call.choice, error, where, by_hand) from (
                error if isinstance(error, HxError) else None
            )


def _of_the_call(call: Call, error: BaseException) -> Exception | None:
    """What the target itself raises, where a converter did: arguments that do not fit are the
    model's matter, and in the target's own words."""
    if call.done or (isinstance(error, HxError) and not isinstance(error, ConverterError)):
        return None
    try:
        call.real()
    except HxError:  # it cannot be run here
        return None
    except Exception as own:  # of any kind: it is raised in place of the converter's
        return own
    return None


def with_sizes(choice, real: Any, out: Any) -> Any:
    """A real result, with the sizes as the converter returned them: the real ones are numbers."""
    number = isinstance(real, (int, float)) and not isinstance(real, bool)
    if number and isinstance(out, (int, float)) and not isinstance(out, bool):
        if dims.plain(out) != real:
            raise ConverterError(
                f"the converter of {choice.target} ({choice.pack}) returned {dims.plain(out)}, "
                f"where the target returned {real}",
                why=f"converter: {choice.file}:{choice.line}",
            )
        return out if dims.is_dynamic(out) else real
    if isinstance(real, (tuple, list)) and isinstance(out, (tuple, list)):
        made: Any = [with_sizes(choice, r, o) for r, o in zip(real, out)]
        if all(map(operator.is_, made, real)):
            return real
        return type(real)(*made) if hasattr(real, "_fields") else type(real)(made)
    if isinstance(real, dict) and isinstance(out, dict):
        made = {k: with_sizes(choice, r, out.get(k, r)) for k, r in real.items()}
        return real if all(made[k] is r for k, r in real.items()) else type(real)(made)
    if dataclasses.is_dataclass(real) and not isinstance(real, type) and type(out) is type(real):
        fields = [f.name for f in dataclasses.fields(real) if f.init]
        made = {n: with_sizes(choice, getattr(real, n), getattr(out, n)) for n in fields}
        new = {n: x for n, x in made.items() if x is not getattr(real, n)}
        return dataclasses.replace(real, **new) if new else real
    return real


def require_unwritten(recording: Recording, call: Call) -> None:
    """A call whose converter declined runs again: it must not have changed anything."""
    found = ((recording.live.find(t), t) for t in call.given.tensors)
    if call.done and any(entry is not None and changed(entry, t) for entry, t in found):
        raise ConverterError(
            f"the converter of {call.choice.target} declined after the call had written to its "
            "arguments",
            why="op.result runs the call, and it cannot be run a second time",
            hint="decline before asking for op.result",
        )


def settle(recording: Recording, choice, given: Arguments, call: Call, real, outputs) -> None:
    """Binds the tensors of a real result to what the converter returned for them."""
    if not _bound_at_once(recording, call, real, outputs):
        _bind_each(recording, choice, given, call, real, outputs)
    if given.tensors:
        require_nothing_written(recording, choice, given)


def _bound_at_once(recording: Recording, call: Call, real: Any, out: Any) -> bool:
    """Whether a result is one new tensor with memory of its own, as most are. It is bound then."""
    if (
        type(out) is not Value
        or type(real) is not torch.Tensor
        or call.assigned
        or real.layout is not torch.strided
        or real.is_nested
        or real.is_quantized
        or not is_as_recorded(out, real)
    ):
        return False
    live, storage = recording.live, storage_key(real)
    if storage in live.families or live.find(real) is not None:
        return False
    live.bind(real, out, storage=storage)
    if call.given.tensors:
        recording.copies.made(recording, call.choice.target, call.given.tensors[0], real)
    return True


def _bind_each(recording: Recording, choice, given: Arguments, call: Call, real, outputs) -> None:
    """What each tensor of a result is, and what those that were there are since."""
    if isinstance(real, torch.Tensor):
        pairs: Any = [((), real)]
    else:
        pairs = list(tensors_in(real))
        require_structure(choice, real, outputs)
        require_described(recording, choice, real)
    arguments = set(map(id, given.tensors))
    written = []

    def checked(tensor: torch.Tensor, out: Any, path: tuple) -> Value:
        if is_as_recorded(out, tensor):
            return out
        if isinstance(out, Value) and out.dtype != tensor.dtype:
            out = autocast.result(recording, tensor, out)
        return check(choice, tensor, out, path)

    for path, tensor in pairs:
        try:
            out = pick(outputs, path) if path else outputs
        except (KeyError, IndexError, TypeError, AttributeError):
            raise ConverterError(
                f"the converter of {choice.target} ({choice.pack}) returned no value for "
                f"result{''.join(f'[{p!r}]' for p in path)}",
                why=f"converter: {choice.file}:{choice.line}",
            ) from None
        if tensor.layout is not torch.strided or tensor.is_nested:
            if tensor.is_nested or not isinstance(out, Value) or out.sparse is None:
                sparse.require_known(f"{choice.target} gives", tensor, recording.where())
            sparse.hold(recording, tensor)
        storage = storage_key(tensor)
        if tensor.is_quantized and (
            id(tensor) in arguments or not parent_of(recording, storage, given)
        ):
            out = quantized.rounded(recording.builder, out, tensor)
        if id(tensor) in arguments:
            entry = recording.live.find(tensor)
            if entry is not None and changed(entry, tensor):
                written.append((tensor, checked(tensor, out, path)))
            continue  # the same tensor came back: it is bound already
        value = checked(tensor, out, path)
        if given.traced and type(value) is Constant and not value.name:
            _hold_beside(recording, choice, value.tensor, tensor)
        if type(value) is Value or isinstance(value, Constant):
            parent = parent_of(recording, storage, given)
            if _is_known(recording, tensor, value):
                pass  # the converter knows it from before: its memory is shared as it was
            elif parent is None:
                recording.live.bind(tensor, value, storage=storage)
            elif value is parent.value and _same_place(tensor, parent()):
                recording.live.alias(tensor, parent)
            else:
                step = step_of(choice, given, parent, path, real)
                recording.live.bind(tensor, value, parent, step, storage)
    if given.tensors and isinstance(real, torch.Tensor):
        recording.copies.made(recording, choice.target, given.tensors[0], real)
    for old, new in call.assigned:
        for tensor, value in zip(given.tensors, given.values):
            if value is old:
                _require_apart(tensor)
                written.append((tensor, checked(tensor, new, ("written",))))
                break
    for tensor, value in written:
        write(recording, tensor, value)


def _hold_beside(recording: Recording, choice, said: torch.Tensor, real: torch.Tensor) -> None:
    """Notes a constant that a converter made of inputs, and that is not what they gave.

    It may be right: nobody may read what is in it. Where a proof fails, it is why.
    """
    if said.is_meta or said.device != real.device or real.is_quantized:
        return
    if real.layout is not torch.strided:
        return
    if not bool(((said == real) | ((said != said) & (real != real))).all()):
        recording.mistaken[
            f"the converter of {choice.target} ({choice.pack}) returned a constant, and the target "
            f"other numbers, at {recording.where()}; converter: {choice.file}:{choice.line}"
        ] = None


def _is_known(recording: Recording, tensor: torch.Tensor, value: Value) -> bool:
    """Whether a result is a tensor that is bound to this very value already."""
    entry = recording.live.find(tensor)
    if entry is None or changed(entry, tensor):
        return False
    return recording.value_of(tensor) is value


def _same_place(tensor: torch.Tensor, other: torch.Tensor | None) -> bool:
    """Whether two tensors are two objects for one piece of memory."""
    return other is not None and geometry(tensor) == geometry(other)


def require_structure(choice, real, outputs) -> None:
    if isinstance(real, (list, tuple)) and not (
        isinstance(outputs, (list, tuple)) and len(outputs) == len(real)
    ):
        got = len(outputs) if isinstance(outputs, (list, tuple)) else type(outputs).__name__
        raise ConverterError(
            f"the converter of {choice.target} ({choice.pack}) returned {got}, and the target "
            f"returns {type(real).__name__} of {len(real)}",
            why=f"converter: {choice.file}:{choice.line}",
        )


def require_described(recording: Recording, choice, real: Any) -> None:
    """That tensors of a result are where one looks: an object of any class may hide them."""
    if isinstance(real, (list, tuple)):
        for each in real:
            require_described(recording, choice, each)
    elif isinstance(real, dict):
        for each in real.values():
            require_described(recording, choice, each)
    elif containers.of(real) is None and not dataclasses.is_dataclass(real):
        plain = real is None or isinstance(real, (torch.Tensor, torch.nn.Module, type))
        for _, tensor in () if plain else tensors_in(getattr(real, "__dict__", {})):
            if recording.live.find(tensor) is None and id(tensor) not in recording.names:
                kind = type(real)
                raise ConverterError(
                    f"{choice.target} returns {a(real)}, which holds tensors, and no pack says how "
                    "to take it apart",
                    why=f"converter: {choice.file}:{choice.line}",
                    hint=f'describe it: Container("{kind.__module__}.{kind.__qualname__}", ...) in '
                    "hx_containers() of the pack",
                )


def require_nothing_written(recording: Recording, choice, given: Arguments) -> None:
    entries = recording.live.entries
    for tensor in given.tensors:
        entry = entries.get(id(tensor))
        if entry is None or entry() is not tensor:
            continue
        if entry.version >= 0 and entry.version == tensor._version:
            continue
        if changed(entry, tensor):
            if isinstance(entry.value, Constant) and entry.value.name:
                # A module that keeps statistics: the values that this call used were right.
                entry.version = tensor._version
                continue
            elsewhere = accounts.in_thread(recording)
            if elsewhere is not None:
                raise Unsupported(
                    "a tensor was written to in another thread, which a recording does not see",
                    where=elsewhere,
                    hint="write to it in the thread that calls the model",
                )
            raise Unsupported(
                f"{choice.target} wrote to an argument, and its converter does not say what",
                why=f"converter: {choice.file}:{choice.line}",
                hint="say it in the converter: op.assign(x, new_value)",
            )


def _require_apart(tensor: torch.Tensor) -> None:
    """That no two elements of a tensor that is written to are one and the same in memory."""
    size, stride, _ = geometry(tensor)
    if any(n > 1 and s == 0 for n, s in zip(size, stride)):
        raise Unsupported(
            "a part of an expanded tensor is written to, and with it every repetition of that part",
            why="expand (and broadcast_to, meshgrid) show one element at several places",
            hint="write to a copy: x.expand(...).clone()",
        )
