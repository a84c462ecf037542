"""One recorded call: its arguments as values, its converter, its real result, and their match."""

from __future__ import annotations

import dataclasses
import re
from builtins import len  # their own: `world` hooks those of the model
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch

from ..errors import ConverterError, HxError, Where
from ..packs import containers
from ..sizes import dims, floats, lists
from ..sizes.asked import Asked
from ..sizes.polynomials import Atom, Poly
from ..tensors import dtypes
from ..tensors.values import Value

if TYPE_CHECKING:
    from ..registration import Registration
    from .recording import Recording

_LEAF_TYPES = frozenset(
    {int, float, bool, str, bytes, complex, type(None), type(Ellipsis), torch.dtype, torch.device,
     torch.memory_format, torch.layout}
)  # fmt: skip


@dataclasses.dataclass(slots=True)
class Arguments:
    """The arguments of a call with tensors lifted to values, and what was met on the way."""

    args: tuple
    kwargs: dict
    tensors: list[torch.Tensor]
    values: list[Value]
    traced: bool  # some value, or some size, is only known at run time
    sized: bool = False  # a size that may vary is among them
    complex: bool = False  # a complex number, or a tensor of them
    recording: Any = None  # which knows what arrays and lists of the model are
    whole: bool = False  # whether a list as long as a size is taken as one tensor
    joined: bool = False  # whether the call joins tensors: how often they repeat is asked
    untold: Any = None  # what is to be told of a list that repeats, while nobody has asked that

    def number(self, value: Value) -> Any:
        """What came as a tensor with one number in it that no input changes; None for another."""
        for tensor, of in zip(self.tensors, self.values):
            if of is value and of.fixed and tensor.numel() == 1 and not tensor.is_meta:
                return tensor.item()
        return None

    def size(self, number: Value) -> Any:
        """What came as a tensor with one number in it, as a size; None where it was none of these."""
        for tensor, value in zip(self.tensors, self.values):
            if value is number and tensor.numel() == 1:
                found = int(tensor)
                return found if value.fixed else dims.dim(Poly.of(Atom("item", (value,), found)))
        return None

    def baked(self) -> dict[Asked, None]:
        """Each size that may vary among them, and of their tensors."""
        sizes: list[Any] = [n for value in self.values for n in value.shape or ()]
        waiting: list[Any] = [self.args, self.kwargs]
        while waiting:
            x = waiting.pop()
            if isinstance(x, (dims.Dim, floats.DimFloat)):
                sizes.append(x)
            elif isinstance(x, slice):
                waiting += x.start, x.stop, x.step
            elif isinstance(x, (list, tuple, dict)):
                waiting += x.values() if isinstance(x, dict) else x
        return dims.baked(sizes)


def lift(
    recording: Recording, args, kwargs, whole: bool = False, joined: bool = False
) -> Arguments:
    """The arguments with values in place of tensors, and of lists that are taken as a whole.

    No closure that calls itself: such a cycle would keep every argument of the model alive until
    the next garbage collection.
    """
    found = Arguments((), {}, [], [], False, recording=recording, whole=whole, joined=joined)
    value_of = recording.value_of if recording.live.keep is None else _looked(recording)
    found.args = tuple([_lifted(a, found, value_of) for a in args])
    if kwargs:
        found.kwargs = {k: _lifted(v, found, value_of) for k, v in kwargs.items()}
    return found


def _looked(recording: Recording) -> Callable:
    """The value of a tensor, whose contents are held against those that it had."""

    def value_of(tensor: torch.Tensor) -> Value:
        value = recording.value_of(tensor)
        recording.live.keep.look(value, tensor, recording.where(), recording.frames.user())
        return value

    return value_of


def _lifted(x: Any, found: Arguments, value_of: Callable) -> Any:
    kind = type(x)
    if kind in _LEAF_TYPES:
        found.complex |= kind is complex
        return x
    if kind is dims.Dim or kind is floats.DimFloat:
        found.traced = found.sized = True
        return x
    if isinstance(x, torch.Tensor):
        value = value_of(x)
        found.tensors.append(x)
        found.values.append(value)
        if not value.fixed:
            found.traced = True
        found.complex |= x.dtype.is_complex
        return value
    if kind is tuple or kind is list:
        return kind([_lifted(v, found, value_of) for v in x])
    if kind is torch.Size:
        return tuple([_lifted(v, found, value_of) for v in x])
    if isinstance(x, dict):
        return {k: _lifted(v, found, value_of) for k, v in x.items()}
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return kind(*[_lifted(v, found, value_of) for v in x])
    if kind is lists.Whole and found.joined and x.times is not None and x.same():
        found.traced, found.untold = True, x.left
        return lists.Given([_lifted(v, found, value_of) for v in x], x.length, x.times)
    if kind is lists.Whole and (value := found.recording.of_list(x, found.whole)) is not None:
        found.traced = True
        return value
    if isinstance(x, (list, tuple)):
        items = [_lifted(v, found, value_of) for v in x]
        return lists.Given(items, x.length) if isinstance(x, lists.Whole) else items
    if kind is slice:
        parts = (_lifted(v, found, value_of) for v in (x.start, x.stop, x.step))
        return slice(*parts)
    if kind.__module__ == "numpy" or hasattr(kind, "__array_function__"):
        return _of_numpy(x, found)
    container = containers.of(x)
    if container is not None:
        named, context = container.flatten(x)
        inside = {k: _lifted(v, found, value_of) for k, v in named.items()}
        return container.unflatten(inside, context)
    return x


def _of_numpy(x: Any, found: Arguments) -> Any:
    """Numbers and arrays of NumPy as the numbers and tensors that torch makes of them."""
    import numpy

    if isinstance(x, numpy.generic):
        return x.item()
    if isinstance(x, numpy.ndarray) and x.dtype.kind in "biufc":
        tensor, value = found.recording.of_array(x)
        if tensor is not None:
            found.tensors.append(tensor)
            found.values.append(value)
            found.traced |= not value.fixed
        return value
    return x


@dataclasses.dataclass(slots=True)
class Spec:
    """What a converter may know of a real result: sizes are those of the recording."""

    dtype: torch.dtype
    shape: tuple[int, ...]

    @property
    def rank(self) -> int:
        return len(self.shape)

    ndim = rank


def describe(x) -> Any:
    """The structure of a result, with a Spec for each tensor."""
    if isinstance(x, torch.Tensor):
        return Spec(torch.float32 if x.is_quantized else x.dtype, tuple(x.shape))
    if isinstance(x, (list, tuple)):
        if hasattr(x, "_fields"):
            return tuple(map(describe, x))
        return tuple(describe(v) for v in x)
    if isinstance(x, dict):
        return {k: describe(v) for k, v in x.items()}
    return x


def quietly(run: Callable[[], Any]) -> Any:
    """Runs what no door of torch is to see."""
    with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
        return run()


class ModelRaised(Exception):
    """The model's own call raised while a converter asked for its result."""


@dataclasses.dataclass(slots=True, frozen=True)
class Instead:
    """What a converter returns to have a function run in place of the target's own body."""

    function: Callable[..., Any]

    def run(self, recording: Recording, door: Any, args: tuple, kwargs: Mapping[str, Any]) -> Any:
        """Its result, with its calls seen as the model's are."""
        recording.busy = False
        try:
            with door:
                return self.function(*args, **kwargs)
        finally:
            recording.busy = True


class Call:
    """A call on its way from the model to the graph. The real one runs once, when first needed."""

    __slots__ = ("_real", "_run", "_spec", "assigned", "choice", "done", "error", "given")

    def __init__(self, choice: Registration, given: Arguments, run: Callable[[], Any]) -> None:
        self.choice = choice
        self.given = given
        self._run = run
        self._real: Any = None
        self._spec: Any = None
        self.done = False
        self.error: BaseException | None = None
        self.assigned: list[tuple[Value, Value]] = []

    def real(self) -> Any:
        if not self.done:
            try:
                self._real = self._run()
            except BaseException as e:  # also an interrupt: `real` is not asked again
                self.error = e
                raise
            self.done = True
        return self._real

    def result(self) -> Any:
        if self._spec is None:
            try:
                real = self.real()
            except Exception as e:  # the model's own, that the caller hears as it is
                raise ModelRaised from e
            self._spec = describe(real)
        return self._spec

    def assign(self, x: Value, value: Value) -> None:
        self.assigned.append((x, value))


@dataclasses.dataclass(slots=True)
class Numbers:
    """What the tensors of one number were among the arguments of a call whose tensors are gone."""

    each: list[tuple[Value, Any]]

    @staticmethod
    def among(given: Arguments, but: Value) -> Numbers:
        whole = [
            value
            for tensor, value in zip(given.tensors, given.values)
            if value is not but and tensor.numel() == 1 and not tensor.is_meta
            and not (tensor.is_floating_point() or tensor.is_complex())
        ]  # fmt: skip
        if not whole:
            return _NONE
        with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
            return Numbers([(value, given.size(value)) for value in whole])

    def size(self, value: Value) -> Any:
        return next((size for of, size in self.each if of is value), None)


_NONE = Numbers([])


class Replayed:
    """Stands in for a Call when a view is worked out again from other contents."""

    __slots__ = ("assigned", "numbers", "spec")
    replayed = True

    def __init__(self, spec: Any, numbers: Numbers) -> None:
        self.spec, self.numbers = spec, numbers
        self.assigned: list = []

    def result(self) -> Any:
        return self.spec

    def assign(self, x: Value, value: Value) -> None:
        raise ConverterError("a view was said to write to its base")


@dataclasses.dataclass(slots=True, eq=False)
class Step:
    """How a view came from another tensor: the call, and which argument and output they were."""

    choice: Any
    args: tuple
    kwargs: dict
    parent: Value
    output: tuple
    spec: Any
    fixed: bool  # nothing but the contents of the parent may differ at another run
    numbers: Numbers


def substitute(x, old: Value, new: Value):
    if x is old:
        return new
    if type(x) in (list, tuple):
        return type(x)([substitute(v, old, new) for v in x])
    if isinstance(x, dict):
        return {k: substitute(v, old, new) for k, v in x.items()}
    return x


def pick(tree, path: tuple):
    for key in path:
        container = containers.of(tree)
        if container is not None:
            tree, _ = container.flatten(tree)
        fields = dataclasses.is_dataclass(tree) and not isinstance(tree, (type, dict))
        tree = getattr(tree, key) if fields else tree[key]
    return tree


def retyped(spec, dtype):
    if isinstance(spec, Spec):
        return Spec(dtype, spec.shape)
    if isinstance(spec, tuple):
        return tuple(retyped(s, dtype) for s in spec)
    return spec


def tensors_in(tree, path: tuple = ()):
    """(path, tensor) of every tensor in a result."""
    if isinstance(tree, torch.Tensor):
        yield path, tree
    elif isinstance(tree, (list, tuple)):
        for i, v in enumerate(tree):
            yield from tensors_in(v, (*path, i))
    elif isinstance(tree, dict):
        for k, v in tree.items():
            yield from tensors_in(v, (*path, k))
    elif dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        for f in dataclasses.fields(tree):
            yield from tensors_in(getattr(tree, f.name), (*path, f.name))
    elif (container := containers.of(tree)) is not None:
        yield from tensors_in(container.flatten(tree)[0], path)


def has_complex(args: Any, kwargs: Any) -> bool:
    """Whether a tensor of complex numbers is among arguments."""
    return any(tensor.is_complex() for _, tensor in tensors_in([args, kwargs]))


def check(choice: Registration, real: torch.Tensor, out: Any, path: tuple) -> Value:
    """The value that a converter returned for one real tensor, after comparing the two."""
    spot = "".join(f"[{p!r}]" for p in path)
    if not isinstance(out, Value):
        raise _mismatch(choice, f"result{spot} should be a value, and is {type(out).__name__}")
    kind = torch.float32 if real.is_quantized else real.dtype
    if out.dtype is None:
        out.dtype = kind
    if out.dtype != kind:
        raise _mismatch(
            choice,
            f"result{spot} should be {dtypes.name(kind)}, and is {dtypes.name(out.dtype)}",
            hint="cast it: op.cast(x, op.result.dtype)",
        )
    shape = measured(out, real)
    if tuple(map(dims.plain, shape)) != tuple(real.shape):
        raise _mismatch(
            choice,
            f"result{spot} should have the shape {list(real.shape)}, and has "
            f"{[dims.plain(n) for n in shape]}",
        )
    for size in shape:
        if type(size) is dims.Dim:
            size.poly.counts = True
    return out


def measured(out: Value, real: torch.Tensor) -> tuple[int, ...]:
    """The sizes of a value; those that only a run can tell are as its real tensor has them."""
    if out.shape is None:
        out.shape = tuple(
            dims.Dim.leaf(out, i, n) if out.dynamic else n for i, n in enumerate(real.shape)
        )
    elif len(out.shape) == real.ndim:
        for axis, (old, n) in enumerate(zip(out.shape, real.shape)):
            if type(old) is dims.Dim and old.poly.unsure:
                new = dims.found(old, out, axis, n)
                out.shape = (*out.shape[:axis], new, *out.shape[axis + 1 :])
    return out.shape


def is_as_recorded(out: Any, real: torch.Tensor) -> bool:
    """Whether a value is what a real tensor is, in sizes that are all known for sure."""
    if not isinstance(out, Value) or out.dtype != real.dtype or out.shape is None:
        return False
    recorded = real.shape
    if len(out.shape) != len(recorded):
        return False
    for n, size in zip(out.shape, recorded):
        if type(n) is dims.Dim:
            if n.poly.unsure or n.poly.hint != size:
                return False
            n.poly.counts = True
        elif n != size:
            return False
    return True


def _mismatch(choice: Registration, what: str, hint: str = "") -> ConverterError:
    return ConverterError(
        f"the converter of {choice.target} ({choice.pack}) does not return what the target does: "
        + what,
        why=f"converter: {choice.file}:{choice.line}",
        hint=hint,
    )


def blame(choice: Registration, error: BaseException, where: Where, by_hand: bool) -> HxError:
    """The error of a converter, with its own line, its pack and the user's line."""
    if isinstance(error, HxError):
        if error.where is None:
            error.where = where
        if isinstance(error, ConverterError) and not error.why:
            error.why = (
                f"converter of {choice.target} ({choice.pack}) at {_own_line(choice, error)}"
            )
        return error
    raised = ConverterError(
        f"the converter of {choice.target} ({choice.pack}) raised {_told(error)}",
        where=where,
        why=f"at {_own_line(choice, error)}",
        hint=_of_values(error)
        or ("" if by_hand else "it can be tried alone: hx converters try FILE SPEC"),
    )
    raised.__cause__ = error
    return raised


def _of_values(error: BaseException) -> str:
    """What to do where a converter computed with a Value as if it were a tensor."""
    kinds = (TypeError, AttributeError)
    if not isinstance(error, kinds) or not re.search(r"\b(Value|Constant)\b", str(error)):
        return ""
    return (
        "a converter has values of the graph, and no tensors: op.Mul(x, y) in place of x * y, of "
        "torch.mul(x, y) and of x.mul(y)"
    )


def _told(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return f"sys.exit({error.code!r})"
    return f"{type(error).__name__}: {error}"


def _own_line(choice: Registration, error: BaseException) -> str:
    """The innermost line of the traceback that lies in the converter's own file."""
    line, trace = choice.line, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == choice.file:
            line = trace.tb_lineno
        trace = trace.tb_next
    return f"{choice.file}:{line}"
