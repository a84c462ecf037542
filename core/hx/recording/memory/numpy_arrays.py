"""Arrays of NumPy that remember a tensor with the same contents: each operation is repeated on it.

    torch.from_numpy(np.triu(np.ones((n, n)), k=1).astype("uint8"))     counts.numpy().cumsum(0)

An operation that is known here (see `numpy_in_torch`) is done by NumPy and, visibly to the recording,
by torch. If both agree in every number and in the dtype, the array stands for torch's result from
then on. Any other result is NumPy's alone, as computed in the recording. For functions that no two
libraries round alike (a sine), agreement to the last digits is enough.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from ... import tensor_bytes
from ...budget import BUDGET
from ...ir.sizes import dims, size_lists
from ..reads import size_questions
from ..reads.note_escapes import note_escape
from ..recording import Recording, current
from . import tensor_values
from .numpy_in_torch import FUNCTIONS, METHODS, ROUNDED, UFUNCS

LAST_DIGITS = 8  # times the step from one float to the next


class _Lost(Exception):
    """Marks an array that follows from a followed one in an unknown way."""


class Followed(np.ndarray):
    """An array over the memory of a tensor that a recording follows, or has lost."""

    held: tuple[Recording, torch.Tensor] | None = None  # None for one that is lost
    # The place where numbers were last taken out, and how many. PyTorch takes them from every index
    # on the way to its doors: these are not reported if the array turns out to be an index.
    taken: tuple[Any, int, int] | None = None

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method == "__call__" and kwargs.keys() == {"out"} and ufunc in UFUNCS:
            (there,) = kwargs["out"]
            if any(there is each for each in inputs) and _in_place(ufunc, there, inputs):
                return there
        out = kwargs.get("out")
        if out is not None:
            kwargs["out"] = tuple(map(_plain, out))
        result = getattr(ufunc, method)(*map(_plain, inputs), **kwargs)
        if method == "__call__" and not kwargs and ufunc in UFUNCS:
            return _both(result, ufunc, UFUNCS[ufunc], inputs, {}, alike=True)
        return _out_of_sight(ufunc.__name__, inputs, result)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if func in FUNCTIONS:
            result = func(*_arrays(args), **_arrays(kwargs))
            return _both(result, func, FUNCTIONS[func], args, kwargs)
        own = [kind for kind in types if issubclass(kind, np.ndarray)]  # sizes have a say, too
        result = super().__array_function__(func, own, numbers(args), numbers(kwargs))
        return _out_of_sight(func.__name__, args, result)

    def astype(self, dtype: Any, *args: Any, **kwargs: Any) -> Any:
        result = _plain(self).astype(dtype, *args, **kwargs)
        return _both(result, None, lambda x: x.to(kind(dtype)), (self,), {})

    def tolist(self) -> Any:
        tensor = _behind(self)
        return _plain(self).tolist() if tensor is None else tensor.tolist()

    def __len__(self) -> int:
        return self.shape[0] if self.ndim else len(_plain(self))  # which says what is wrong

    @property
    def shape(self) -> Any:
        """The shape, with sizes that remember where they came from."""
        tensor = _behind(self)
        return _plain(self).shape if tensor is None else (*tensor.shape,)

    @shape.setter
    def shape(self, shape: Any) -> None:
        own: Any = np.ndarray.shape  # a descriptor, which NumPy's stubs call a tuple
        own.__set__(self, numbers(shape))
        self.held = None  # the tensor is in the form that it had

    @property
    def size(self) -> Any:
        return math.prod(self.shape)

    @property
    def T(self) -> Any:
        return self.transpose()

    def __getitem__(self, index: Any) -> Any:
        result, tensor = _plain(self)[numbers(index)], _behind(self)
        if tensor is None:
            return _out_of_sight("ndarray.__getitem__", (self,), result)
        if isinstance(result, np.integer) and type(index) is int:
            if _plain(self).size > BUDGET.elements.listed:
                return result  # one by one, many would be a graph of their own
            frame = sys._getframe(1)
            while frame.f_globals.get("__name__", "").startswith("hx.") and frame.f_back:
                frame = frame.f_back  # how x[i] is respelled
            place, before = (frame.f_code, frame.f_lasti), self.taken or (None, None, 0)
            self.taken = (*place, before[2] + 1 if before[:2] == place else 1)
            return tensor[index].item()  # which remembers
        return _both(result, None, lambda x: _at(x, index), (self,), {})

    def __setitem__(self, index: Any, value: Any) -> None:
        tensor = _behind(self)
        if tensor is not None:
            try:
                tensor[index] = value if type(value) in (bool, int, float) else _given(value)
                return  # the same memory
            except (_Lost, TypeError, ValueError, RuntimeError, IndexError):
                pass  # torch does not say it in this way
        _plain(self)[numbers(index)] = _plain(value)

    def __iter__(self) -> Any:
        tensor = _behind(self)
        if tensor is not None and self.ndim == 1 and self.dtype.kind in "iu":
            found = tensor.tolist()  # as many rounds as there are numbers
            return found.gone_over() if type(found) is size_lists.Whole else iter(found)
        return (self[i] for i in range(len(_plain(self))))


def _method(name: str, form: Callable) -> Callable:
    def method(self: Followed, *args: Any, **kwargs: Any) -> Any:
        result = getattr(_plain(self), name)(*numbers(args), **numbers(kwargs))
        return _both(result, name, form, (self, *args), kwargs)

    return method


for _name, _form in METHODS.items():
    setattr(Followed, _name, _method(_name, _form))


def _reading(name: str) -> Callable:
    def method(self: Followed, *args: Any, **kwargs: Any) -> Any:
        result = getattr(_plain(self), name)(*_arrays(args), **_arrays(kwargs))
        return _out_of_sight(name, (self, *args), result)

    return method


# Methods that give numbers, or arrays, in ways that torch has not.
for (
    _name
) in """__bool__ __complex__ __contains__ __float__ __index__ __int__ choose compress diagonal
        item prod ptp searchsorted std take tobytes trace var""".split():
    if hasattr(np.ndarray, _name):
        setattr(Followed, _name, _reading(_name))


def _at(tensor: torch.Tensor, index: Any) -> torch.Tensor:
    """The tensor at an index of an array; torch has no negative steps, and flips an axis instead."""
    each = [*index] if isinstance(index, tuple) else [index]
    for axis, one in enumerate(each):
        if not isinstance(one, slice | int):
            break
        if isinstance(one, slice) and one.step is not None and one.step < 0:
            if (one.start, one.stop) != (None, None):
                raise _Lost
            axis -= sum(isinstance(before, int) for before in each[:axis])
            tensor, each[axis] = tensor.flip(axis), slice(None, None, -one.step)
    return tensor[tuple(each)]


def again(original: Callable, copies: bool, x: Followed, *args: Any, **kwargs: Any) -> Any:
    """The result of `np.array(x)` and `np.asarray(x, dtype)` for an array that is followed."""
    known = {"dtype": args[0]} if len(args) == 1 else {}
    known |= kwargs
    copies &= known.pop("copy", True) is not False
    dtype = known.pop("dtype", None)
    if len(args) > 1 or known:
        return _lost(original(_plain(x), *args, **kwargs))
    if dtype is not None and np.dtype(dtype) != x.dtype:
        return x.astype(dtype)
    return x.copy() if copies else x


def kind(dtype: Any) -> torch.dtype:
    """NumPy's dtype as torch has it."""
    return getattr(torch, np.dtype(dtype).name)


def numbers(x: Any) -> Any:
    """A copy of nested lists with plain numbers for sizes."""
    if type(x) is size_lists.Whole:
        return [*map(numbers, list.__iter__(x))]  # which is not told of
    if isinstance(x, (list, tuple)):
        as_given = tuple if isinstance(x, torch.Size) else type(x)
        return as_given(map(numbers, x)) if as_given in (list, tuple) else x
    if isinstance(x, slice):
        return slice(*map(dims.plain, (x.start, x.stop, x.step)))
    return {k: numbers(v) for k, v in x.items()} if isinstance(x, dict) else dims.plain(x)


def _arrays(x: Any) -> Any:
    """A copy of arguments with NumPy's own arrays and plain numbers only."""
    if type(x) in (list, tuple):
        return type(x)(map(_arrays, x))
    return {k: _arrays(v) for k, v in x.items()} if isinstance(x, dict) else _plain(numbers(x))


def _plain(x: Any) -> Any:
    return x.view(np.ndarray) if isinstance(x, Followed) else x


def _lost(result: Any) -> Any:
    """Mark an array that follows from a followed one in an unknown way: it is no constant."""
    return result.view(Followed) if type(result) is np.ndarray else result


def _out_of_sight(name: str, args: Sequence[Any], result: Any) -> Any:
    """The result of a function that torch does not have; a number that it gives leaves the graph."""
    if isinstance(result, np.ndarray):
        return _lost(result)
    tensors = [tensor for x in _all(args) if (tensor := _behind(x)) is not None]
    recording = current()
    if recording is None or recording.running.busy:
        return result
    if any(isinstance(x, Followed) and x.held is None for x in _all(args)):
        note_escape(recording, "numpy", f"numpy.{name}")
    elif tensors and isinstance(result, (bool, int, float, bytes, np.generic)):
        values = [tensor_values.value_of(recording, tensor) for tensor in tensors]
        of_sizes = all(map(size_questions.alone, values))
        asked = [size_questions.taken(value, result) for value in values] if of_sizes else []
        note_escape(recording, "numpy", f"numpy.{name}", asked=asked)
    return result


def _behind(x: Any) -> torch.Tensor | None:
    """The tensor behind an array, while that is followed."""
    if not isinstance(x, Followed) or x.held is None:
        return None
    recording, tensor = x.held
    return tensor if current() is recording and not recording.running.busy else None


def _given(x: Any) -> Any:
    """The argument for torch in place of one for NumPy."""
    if isinstance(x, Followed):
        tensor = _behind(x)
        if tensor is None:
            raise _Lost
        return tensor
    if isinstance(x, np.ndarray):
        if x.dtype.kind not in "biuf":
            raise _Lost
        return torch.tensor(x)
    if isinstance(x, (list, tuple)):
        return [*map(_given, x)] if isinstance(x, list) else tuple(map(_given, x))
    return x.item() if isinstance(x, np.generic) else x


def follow(recording: Recording, tensor: torch.Tensor, array: np.ndarray) -> np.ndarray:
    """A view of an array over the memory of a tensor that remembers the tensor."""
    found = array.view(Followed)
    found.held = recording, tensor
    return found


def made(recording: Recording, make: Callable, maker: Callable) -> Any:
    """An array that NumPy makes of sizes, followed if torch makes the same."""
    return _agreed(recording, make(), maker, rounded=True)


def listed(recording: Recording, original: Callable, items: Any, *args: Any, **kwargs: Any) -> Any:
    """An array that NumPy makes of a list with sizes in it, followed if torch makes the same."""
    result = original(numbers(items), *args, **kwargs)
    return _agreed(recording, result, lambda: torch.tensor(items, dtype=kind(result.dtype)))


def called(
    recording: Recording, original: Callable, func: Any, args: Sequence[Any], kwargs: dict
) -> Any:
    """The result of a NumPy function that torch has too, if no argument but a size is followed."""
    result = original(*_arrays(args), **_arrays(kwargs))
    return _both(result, func, FUNCTIONS[func], args, kwargs, recording=recording)


def beside(recording: Recording, ufunc: Any, inputs: Sequence[Any]) -> Any:
    """The result of a ufunc on sizes and arrays; None if torch does not make the same."""
    if recording.running.busy or ufunc not in UFUNCS:
        return None
    if not any(isinstance(x, np.ndarray) for x in inputs):
        return None
    result = ufunc(*(_plain(dims.plain(x)) for x in inputs))
    found = _both(result, ufunc, UFUNCS[ufunc], inputs, {}, alike=True, recording=recording)
    return found if _behind(found) is not None else None


def _both(
    result: Any,
    func: Any,
    form: Callable,
    args: Sequence[Any],
    kwargs: dict,
    alike: bool = False,
    recording: Recording | None = None,
) -> Any:
    """NumPy's result, and what torch makes of the tensors behind the arguments."""
    if recording is None:
        held = (x.held for x in _all(args) if _behind(x) is not None)
        recording = next((each[0] for each in held if each is not None), None)
    name = getattr(func, "__name__", str(func))
    if recording is None:
        return _out_of_sight(name, args, result)

    def compute() -> Any:
        given = [*map(_given, args)]
        if alike and result.dtype != np.bool_:  # NumPy computes with what comes out
            as_result = kind(result.dtype)
            given = [x.to(as_result) if isinstance(x, torch.Tensor) else x for x in given]
        return form(*given, **{k: _given(v) for k, v in kwargs.items()})

    found = _agreed(recording, result, compute, rounded=func in ROUNDED)
    return _out_of_sight(name, args, result) if found is result else found


def _all(args: Any) -> Any:
    for x in args:
        yield from _all(x) if isinstance(x, (list, tuple)) else (x,)


def _agreed(recording: Recording, result: Any, compute: Callable, rounded: bool = False) -> Any:
    try:
        found = compute()
    except (_Lost, TypeError, ValueError, RuntimeError, AttributeError, IndexError):
        return _lost(result)  # torch does not say it in this way
    if isinstance(result, (list, tuple)) and isinstance(found, (list, tuple)):
        pairs = zip(result, found)
        return type(result)([_one(recording, *pair, rounded) for pair in pairs])
    return _one(recording, result, found, rounded)


def _one(recording: Recording, result: Any, tensor: Any, rounded: bool) -> Any:
    if isinstance(result, np.generic) and isinstance(tensor, torch.Tensor) and not tensor.dim():
        number = tensor.item()  # that remembers
        same = np.asarray(dims.plain(number), result.dtype)
        return number if _agree(same, np.asarray(result), rounded) else result
    if not isinstance(tensor, torch.Tensor) or not isinstance(result, np.ndarray):
        return _lost(result)
    with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
        same = tensor_bytes.as_numpy(tensor.detach())
        if same.dtype != result.dtype or not _agree(same, result, rounded):
            return _lost(result)
        busy, recording.running.busy = recording.running.busy, True
        try:
            tensor_values.hand_to_numpy(recording, tensor)
        finally:
            recording.running.busy = busy
        return follow(recording, tensor, tensor.detach().numpy())


def _agree(a: np.ndarray, b: np.ndarray, rounded: bool) -> bool:
    if np.array_equal(a, b):
        return True
    if not rounded or a.dtype.kind != "f" or a.shape != b.shape:
        return False
    last = LAST_DIGITS * float(np.finfo(a.dtype).eps)
    # Terms that nearly cancel leave the last digits of the largest ones.
    return bool(np.allclose(a, b, rtol=last, atol=last * np.abs(b).max(initial=0)))


def _in_place(ufunc: Any, there: np.ndarray, inputs: Sequence[Any]) -> bool:
    """Write the result of a ufunc to the tensor behind an array; return False if impossible."""
    tensor = _behind(there)
    if tensor is None:
        return False
    result = ufunc(*(_plain(dims.plain(x)) for x in inputs))
    if result.shape != there.shape or not np.can_cast(result.dtype, there.dtype, "same_kind"):
        return False
    found = _both(result, ufunc, UFUNCS[ufunc], inputs, {}, alike=True)
    now = _behind(found)
    if now is None:
        return False
    tensor.copy_(now)
    return True
