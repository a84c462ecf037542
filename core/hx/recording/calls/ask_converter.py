"""A converted call: ask the converter, run the real call, compare both, bind the results."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable
from typing import Any

import torch

from ...errors import ConverterError, Differentiates, HxError, Unsupported
from ...graph.op import Instead, Op
from ...ir.sizes import dims
from ...ir.value import Constant, Value
from ...packs import containers
from ...tensor_bytes import equal_numbers, geometry, storage_key
from ...text import with_article
from ..memory import quantized, sparse_tensors, unrecorded_tensors
from ..memory.constants import freeze_before_write
from ..memory.live_tensors import changed
from ..memory.possible_copies import note_possible_copy
from ..memory.tensor_values import value_of
from ..memory.tensor_writes import write
from ..memory.view_families import parent_of, step_of
from ..reads.note_escapes import note_escape
from ..recording import Recording
from . import autocast
from .arguments import Arguments, pick, tensors_in
from .call import Call, ModelRaised, blame, check, is_as_recorded
from .lacking_parameters import lacking_parameter

DECLINED = object()


def convert(recording: Recording, choice, given: Arguments, run: Callable[[], Any]) -> Any:
    """The real result of a call that its converter wrote to the graph, or what it returned instead."""
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
                        freeze_before_write(recording, (tensor,), {})
            real = call.real()
            settle(recording, choice, given, call, real, outputs)
            recording.tallies.count(choice)
            if given.repeat_note is not None:  # as many as there were in the recording
                kind, told, asked = given.repeat_note
                note_escape(recording, kind, told, asked=asked)
            return real if isinstance(real, torch.Tensor) else with_sizes(choice, real, outputs)
        ask.undo()
    require_unwritten(recording, call)
    recording.tallies.count(choice, declined=outputs is NotImplemented)
    return DECLINED if outputs is NotImplemented else outputs


class asking:
    """`with asking(recording, call) as ask: outputs = ask()` asks the call's converter.

    Nodes written inside belong to the converter; an error removes them and names the converter.
    The caller shuts the doors of torch, once for the whole call.
    """

    __slots__ = ("_call", "_mark", "_origin", "_outer", "_recording", "_sizes")

    def __init__(self, recording: Recording, call: Call) -> None:
        self._recording, self._call = recording, call
        self._origin = recording.position.origin(call.choice.target, call.choice.pack)
        self._mark, self._sizes = len(recording.builder.nodes), recording.builder.sizes.mark()

    def __enter__(self) -> asking:
        builder = self._recording.builder
        self._outer, builder.origin = builder.origin, self._origin
        return self

    def __call__(self) -> Any:
        recording, choice = self._recording, self._call.choice
        args, kwargs = recording.choices.fit(choice, self._call.given)
        try:
            return choice.function(Op(recording.builder, self._call), *args, **kwargs)
        except TypeError as error:
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:
                raise  # from within the converter
            raise lacking_parameter(choice, args, kwargs) or error from None

    def undo(self) -> None:
        del self._recording.builder.nodes[self._mark :]
        self._recording.builder.sizes.forget(self._sizes)

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        call, self._recording.builder.origin = self._call, self._outer
        if error is None:
            return
        self.undo()
        if isinstance(error, ModelRaised):
            raise error.__cause__ or error  # the model's own, with its chain
        if isinstance(error, (Exception, SystemExit)) and call.error is not error:
            own = _error_of_target(call, error)
            if own is not None:  # with its own chain, and without the converter's error
                raise own from own.__cause__
            where = self._origin.where if self._origin.file else self._recording.position.where()
            by_hand = self._recording.choices.by_hand(call.choice)
            raise blame(call.choice, error, where, by_hand) from (
                error if isinstance(error, HxError) else None
            )


def _error_of_target(call: Call, error: BaseException) -> Exception | None:
    """The error of the target itself, if it raises where its converter did.

    Arguments that do not fit are the model's mistake, and the target says it best. A kernel that does
    not exist is no mistake of the model: the reason why hx cannot convert the call says more.
    """
    theirs = isinstance(error, HxError) and not isinstance(error, (ConverterError, Unsupported))
    if call.done or theirs or isinstance(error, Differentiates):
        return None
    try:
        call.real()
    except HxError:  # it cannot be run here
        return None
    except NotImplementedError as own:
        return None if isinstance(error, Unsupported) else own
    except Exception as own:  # of any kind: it is raised in place of the converter's
        return own
    return None


def with_sizes(choice, real: Any, out: Any) -> Any:
    """A real result with the sizes that the converter returned: the real ones are plain numbers."""
    if _is_number(real) and _is_number(out):
        if dims.plain(out) != real:
            raise ConverterError(
                f"the converter of {choice.target} ({choice.pack}) returned {dims.plain(out)}, "
                f"but {choice.target} itself returned {real}",
                why=f"converter: {choice.where}",
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
        return _fields_with_sizes(choice, real, out)
    return real


def _is_number(x: Any) -> bool:
    return isinstance(x, (int, float)) and not isinstance(x, bool)


def _fields_with_sizes(choice, real: Any, out: Any) -> Any:
    """A dataclass with the sizes that the converter returned."""
    names = [f.name for f in dataclasses.fields(real) if f.init]
    made = {n: with_sizes(choice, getattr(real, n), getattr(out, n)) for n in names}
    new = {n: x for n, x in made.items() if x is not getattr(real, n)}
    return dataclasses.replace(real, **new) if new else real


def require_unwritten(recording: Recording, call: Call) -> None:
    """Raise if a call changed an argument but has to run again, as its converter declined."""
    found = ((recording.memory.live.find(t), t) for t in call.given.tensors)
    if call.done and any(entry is not None and changed(entry, t) for entry, t in found):
        raise ConverterError(
            f"the converter of {call.choice.target} declined after the call had written to its "
            "arguments",
            why="op.result runs the call, and it cannot be run a second time",
            hint="decline before asking for op.result",
        )


def settle(recording: Recording, choice, given: Arguments, call: Call, real, outputs) -> None:
    """Bind the tensors of a real result to the values that the converter returned."""
    if not _bound_at_once(recording, call, real, outputs):
        _bind_each(recording, choice, given, call, real, outputs)
    if call.many is not None and isinstance(real, (list, tuple)):
        recording.memory.lengths.cut(recording.memory.live, call.many, real)
    if given.tensors:
        require_nothing_written(recording, choice, given)


def _bound_at_once(recording: Recording, call: Call, real: Any, out: Any) -> bool:
    """Bind a result that is one new tensor with its own memory, as most are, or return False."""
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
    live, storage = recording.memory.live, storage_key(real)
    if storage in live.families or live.find(real) is not None:
        return False
    live.bind(real, out, storage=storage)
    if call.given.tensors:
        note_possible_copy(recording, call.choice.target, call.given.tensors[0], real)
    return True


def _bind_each(recording: Recording, choice, given: Arguments, call: Call, real, outputs) -> None:
    """Bind each tensor of a result, and write to the arguments that the call changed."""
    if isinstance(real, torch.Tensor):
        pairs: Any = [((), real)]
    else:
        pairs = list(tensors_in(real))
        require_structure(choice, real, outputs)
        require_described(recording, choice, real)
    written: list[tuple[torch.Tensor, Value]] = []
    for path, tensor in pairs:
        out = _output_at(choice, outputs, path)
        if any(tensor is x for x in given.tensors):  # an argument that came back is bound already
            if tensor.layout is not torch.strided or tensor.is_nested:
                _hold_sparse(recording, choice, tensor, out)
            if tensor.is_quantized:
                out = quantized.rounded(recording.builder, out, tensor)
            entry = recording.memory.live.find(tensor)
            if entry is not None and changed(entry, tensor):
                written.append((tensor, _checked(recording, choice, tensor, out, path)))
        else:
            _bind_new(recording, choice, given, real, path, tensor, out)
    if given.tensors and isinstance(real, torch.Tensor):
        note_possible_copy(recording, choice.target, given.tensors[0], real)
    for old, new in call.assigned:
        for tensor, value in zip(given.tensors, given.values):
            if value is old:
                _require_apart(tensor)
                written.append((tensor, _checked(recording, choice, tensor, new, ("written",))))
                break
    for tensor, value in written:
        write(recording, tensor, value)


def _bind_new(
    recording: Recording, choice, given: Arguments, real, path: tuple, tensor: torch.Tensor, out
) -> None:
    """Bind a tensor of a result that is none of the arguments."""
    if tensor.layout is not torch.strided or tensor.is_nested:
        _hold_sparse(recording, choice, tensor, out)
    storage = storage_key(tensor)
    parent = parent_of(recording, storage, given)
    if tensor.is_quantized and parent is None:
        out = quantized.rounded(recording.builder, out, tensor)
    value = _checked(recording, choice, tensor, out, path)
    if given.traced and type(value) is Constant and not value.name:
        _compare_constant(recording, choice, value.tensor, tensor)
    live = recording.memory.live
    if _is_bound_to(recording, tensor, value):
        pass  # the converter returned a value from before: its memory is shared as it was
    elif parent is None:
        live.bind(tensor, value, storage=storage)
    elif value is parent.value and _same_place(tensor, parent()):
        live.alias(tensor, parent)
    else:
        step = step_of(choice, given, parent, path, real)
        live.bind(tensor, value, parent, step, storage)


def _output_at(choice, outputs: Any, path: tuple) -> Any:
    """The output of a converter at the path of a real tensor."""
    try:
        return pick(outputs, path) if path else outputs
    except (KeyError, IndexError, TypeError, AttributeError):
        raise ConverterError(
            f"the converter of {choice.target} ({choice.pack}) returned no value for "
            f"result{''.join(f'[{p!r}]' for p in path)}",
            why=f"converter: {choice.where}",
        ) from None


def _checked(recording: Recording, choice, tensor: torch.Tensor, out: Any, path: tuple) -> Value:
    """The value of a converter for a real tensor, after a comparison of both."""
    if is_as_recorded(out, tensor):
        return out
    if isinstance(out, Value) and out.dtype != tensor.dtype:
        out = autocast.result(recording, tensor, out)
    return check(choice, tensor, out, path)


def _hold_sparse(recording: Recording, choice, tensor: torch.Tensor, out: Any) -> None:
    """Forbid writes to the memory of a sparse result; raise if the graph cannot have it."""
    if tensor.is_nested or not isinstance(out, Value) or out.sparse is None:
        sparse_tensors.require_known(f"{choice.target} gives", tensor, recording.position.where())
    sparse_tensors.hold(recording, tensor)


def _compare_constant(recording: Recording, choice, said: torch.Tensor, real: torch.Tensor) -> None:
    """Note a constant that a converter returned, if it differs from the real result.

    The file is right if no node reads its elements. If the proof fails, it is the likely cause.
    """
    if said.is_meta or said.device != real.device or real.is_quantized:
        return
    if real.layout is not torch.strided:
        return
    if not bool(equal_numbers(said, real).all()):
        recording.findings.wrong_constants[
            f"the converter of {choice.target} ({choice.pack}) returned a constant, and the target "
            f"other numbers, at {recording.position.where()}; converter: {choice.where}"
        ] = None


def _is_bound_to(recording: Recording, tensor: torch.Tensor, value: Value) -> bool:
    """Return True if a tensor of a result is bound to this very value already."""
    entry = recording.memory.live.find(tensor)
    if entry is None or changed(entry, tensor):
        return False
    return value_of(recording, tensor) is value


def _same_place(tensor: torch.Tensor, other: torch.Tensor | None) -> bool:
    """Return True if two tensors show the same piece of memory in the same way."""
    return other is not None and geometry(tensor) == geometry(other)


def require_structure(choice, real, outputs) -> None:
    """Raise if a converter returned another number of results than the target."""
    if isinstance(real, (list, tuple)) and not (
        isinstance(outputs, (list, tuple)) and len(outputs) == len(real)
    ):
        got = len(outputs) if isinstance(outputs, (list, tuple)) else type(outputs).__name__
        raise ConverterError(
            f"the converter of {choice.target} ({choice.pack}) returned {got}, and the target "
            f"returns {type(real).__name__} of {len(real)}",
            why=f"converter: {choice.where}",
        )


def require_described(recording: Recording, choice, real: Any) -> None:
    """Raise if a result holds tensors in an object that no pack describes."""
    if isinstance(real, (list, tuple)):
        for each in real:
            require_described(recording, choice, each)
    elif isinstance(real, dict):
        for each in real.values():
            require_described(recording, choice, each)
    elif containers.of(real) is None and not dataclasses.is_dataclass(real):
        plain = real is None or isinstance(real, (torch.Tensor, torch.nn.Module, type))
        for _, tensor in () if plain else tensors_in(getattr(real, "__dict__", {})):
            if (
                recording.memory.live.find(tensor) is None
                and id(tensor) not in recording.model.names
            ):
                kind = type(real)
                raise ConverterError(
                    f"{choice.target} returns {with_article(real)}, which holds tensors, and no pack says how "
                    "to take it apart",
                    why=f"converter: {choice.where}",
                    hint=f'describe it: Container("{kind.__module__}.{kind.__qualname__}", ...) in '
                    "hx_containers() of the pack",
                )


def require_nothing_written(recording: Recording, choice, given: Arguments) -> None:
    """Raise if a call wrote to an argument and its converter assigned no new value to it."""
    entries = recording.memory.live.entries
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
            elsewhere = unrecorded_tensors.in_thread(recording)
            if elsewhere is not None:
                raise Unsupported(
                    "a tensor was written to in another thread, which a recording does not see",
                    where=elsewhere,
                    hint="write to it in the thread that calls the model",
                )
            raise Unsupported(
                f"{choice.target} wrote to an argument, and its converter assigns no new value to it",
                why=f"converter: {choice.where}",
                hint="assign it in the converter: op.assign(x, new_value)",
            )


def _require_apart(tensor: torch.Tensor) -> None:
    """Raise if two elements of a tensor that is written to share one place in memory."""
    size, stride, _ = geometry(tensor)
    if any(n > 1 and s == 0 for n, s in zip(size, stride)):
        raise Unsupported(
            "a part of an expanded tensor is written to, and with it every repetition of that part",
            why="expand (and broadcast_to, meshgrid) show one element at several places",
            hint="write to a copy: x.expand(...).clone()",
        )
