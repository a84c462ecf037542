"""What the engine itself knows of PyTorch's functions, before any converter is asked.

Sizes are answered with Dims, numbers that leave the graph are noted, and a few sets say which
functions write, draw random numbers, or return views.
"""

from __future__ import annotations

import functools
import types
from builtins import len  # their own: `world` hooks those of the model
from typing import Any

import torch

from ..errors import Unsupported
from ..sizes import dims, floats, leaving, lists
from ..sizes.polynomials import Atom, Poly
from ..tensors import accounts
from . import sized
from .call import Arguments, tensors_in

# Functions that hand a tensor's contents to Python. All are escapes on a traced value.
READS = {
    "aten::item": "item", "aten::tolist": "tolist", "aten::numpy": "numpy",
    "aten::__bool__": "bool", "aten::__int__": "int", "aten::__float__": "float",
    "aten::__complex__": "complex", "aten::__index__": "index", "aten::equal": "equal",
    "aten::allclose": "allclose", "aten::is_nonzero": "is_nonzero", "aten::data_ptr": "data_ptr",
    "aten::untyped_storage": "storage", "aten::is_same_size": "is_same_size",
    "aten::_local_scalar_dense": "item",
}  # fmt: skip
READS_METHODS = (
    "__bool__", "__int__", "__float__", "__complex__", "__index__", "item", "tolist", "numpy",
    "__array__", "__contains__", "__format__", "__dlpack__", "equal", "allclose", "is_nonzero",
    "data_ptr", "storage", "untyped_storage", "__reduce_ex__", "__nonzero__", "__repr__",
)  # fmt: skip
# Of these, what gives the address of memory, to code that may write there.
ADDRESSES = ("data_ptr", "storage", "untyped_storage")
# Escapes that give all of a tensor to other code.
HANDS_MEMORY = {*ADDRESSES, "numpy", "from_numpy", "__array__", "__dlpack__"}

VIEWS = {
    f"aten::{n}"
    for n in """t transpose permute view reshape unsqueeze squeeze expand expand_as flatten select
    narrow slice swapaxes swapdims movedim moveaxis detach alias contiguous view_as numpy_T adjoint
    mT to float half bfloat16 double clone unflatten split chunk unbind view_as_complex
    view_as_real""".split()
} | {"Tensor.__getitem__", "Tensor.T.__get__", "Tensor.mT.__get__", "Tensor.data.__get__"}


# In place, these change how a tensor looks at its memory, and nothing in it.
TURNS = {f"aten::{n}" for n in "t transpose squeeze unsqueeze swapaxes swapdims detach".split()}

# What takes a list of numbers for a tensor.
TAKE_LISTS = {"aten::tensor", "aten::as_tensor", "aten::asarray", "aten::new_tensor",
              "Tensor.__getitem__", "Tensor.__setitem__"}  # fmt: skip

# And to these, one that repeats tensors.
JOIN = {"aten::cat", "aten::concat", "aten::concatenate", "aten::stack"}


def is_random(key: Any) -> bool:
    """Whether a function draws from the random generator."""
    return isinstance(key, str) and _is_random(key)


@functools.cache
def _is_random(key: str) -> bool:
    if not key.startswith("aten::"):
        return False
    packet = getattr(torch.ops.aten, key.removeprefix("aten::"), None)
    if packet is None:
        return False
    seeded = torch.Tag.nondeterministic_seeded
    return any(seeded in getattr(packet, o).tags for o in packet.overloads())


def is_fixed(key: Any, given: Arguments) -> bool:
    """Whether a function, behind a seed of the model's, draws the same numbers at every run."""
    if not is_random(key) or given.sized:
        return False
    if not given.traced:
        return True
    return key.endswith("_like") and not any(value.dynamic for value in given.values)


def is_pure(key: Any, func: Any) -> bool:
    """Whether running it on constants gives a constant: no Python body, no random numbers."""
    return not isinstance(func, types.FunctionType) and not is_random(key)


def in_place_base(key: Any) -> str | None:
    """`aten::add` for `aten::add_`."""
    if isinstance(key, str) and key.endswith("_") and not key.endswith("__"):
        return _IN_PLACE.get(key, key[:-1])
    return None


_IN_PLACE = {"aten::normal_": "aten::normal_functional"}


def writes(key: Any, func: Any, args: tuple, kwargs: dict) -> bool:
    """Whether a call is going to write to its first argument or to `out`."""
    if "out" in kwargs or (isinstance(key, str) and _writes_by_name(key)):
        return True
    if type(func) is not types.FunctionType or "inplace" not in func.__code__.co_varnames:
        return False
    place, default = _inplace(func.__code__, func.__defaults__)
    given = args[place] if place < len(args) else kwargs.get("inplace", default)
    return given is not False


@functools.lru_cache(maxsize=512)
def _inplace(code: types.CodeType, defaults: tuple | None) -> tuple[int, Any]:
    """Where a function has `inplace` among its arguments, and what that is by default."""
    place = code.co_varnames.index("inplace")
    behind = code.co_argcount - place  # where it is the last of its arguments, 1
    known = defaults is not None and 0 < behind <= len(defaults)
    return place, defaults[-behind] if known and defaults is not None else None


@functools.cache
def _writes_by_name(key: str) -> bool:
    if key == "Tensor.__setitem__" or key.endswith((".__set__", "batch_norm", "instance_norm")):
        return True
    return key.endswith("_") and not key.endswith("__")


def mutated(func: Any, args: tuple, kwargs: dict) -> list[torch.Tensor]:
    """The arguments that an ATen operator says it writes to."""
    schema = getattr(func, "_schema", None)
    if schema is None:
        return []
    places = []
    for i, argument in enumerate(schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            places.append(args[i] if i < len(args) else kwargs.get(argument.name))
    return [tensor for _, tensor in tensors_in(places)]


def spelled(func: Any, key: Any) -> str:
    """The public name of a function: what a converter would be registered for."""
    if isinstance(func, torch._ops.OpOverloadPacket):
        return func._qualified_op_name
    if isinstance(func, torch._ops.OpOverload):
        return str(func._schema.name)
    name = torch.overrides.resolve_name(func)
    if name:
        return str(name)
    if isinstance(key, str):
        return key
    return f"{getattr(func, '__module__', '')}.{getattr(func, '__qualname__', func)}"


# Sizes.


def _real(recording, func, args, kwargs):
    return recording.quietly(func, args, kwargs)


def _shape_of(recording, tensor) -> tuple | None:
    """The value's own sizes, when some of them may vary."""
    if not isinstance(tensor, torch.Tensor):
        return None
    if recording.live.find(tensor) is None and not accounts.is_another(recording, tensor):
        return None
    shape = recording.value_of(tensor).shape
    if shape is None or not any(map(dims.is_dynamic, shape)):
        return None
    return shape


def shape(recording, key, func, args, kwargs, door):
    sizes = _shape_of(recording, args[0])
    return _real(recording, func, args, kwargs) if sizes is None else torch.Size(sizes)


def size(recording, key, func, args, kwargs, door):
    sizes = _shape_of(recording, args[0])
    if sizes is None:
        return _real(recording, func, args, kwargs)
    axis = args[1] if len(args) > 1 else kwargs.get("dim")
    return torch.Size(sizes) if axis is None else sizes[axis]


def numel(recording, key, func, args, kwargs, door):
    sizes = _shape_of(recording, args[0] if args else kwargs.get("input"))
    if sizes is None:
        return _real(recording, func, args, kwargs)
    total: Any = 1
    for n in sizes:
        total = n * total
    return total


def length(recording, key, func, args, kwargs, door):
    """Python's own len() takes plain ints only; the hooked one never comes here."""
    sizes = _shape_of(recording, args[0])
    if sizes and isinstance(sizes[0], dims.Dim):
        told = f"len of a tensor whose first size is {sizes[0].poly}"
        recording.escape("len", told, asked=[dims.asked(int, sizes[0])])
    return _real(recording, func, args, kwargs)


def memory_order(tensor: torch.Tensor) -> list[int] | None:
    """The axes from the slowest to the fastest, where elements lie one after the other."""
    strides = tensor.stride()
    order = sorted(range(tensor.dim()), key=lambda a: (-strides[a], a))
    dense = tensor.permute(order).is_contiguous() and not tensor.storage_offset()
    return order if dense else None


def layout(recording, key, func, args, kwargs, door):
    """Strides follow from the sizes where nothing is skipped; else they are the recording's."""
    sizes = _shape_of(recording, args[0])
    if sizes is None:
        return _real(recording, func, args, kwargs)
    recording.escape("layout", f"{spelled(func, key).rpartition('.')[2]} of a resizable tensor")
    order = memory_order(args[0])
    if key not in ("aten::stride", "aten::sym_stride") or order is None:
        return _real(recording, func, args, kwargs)
    strides: list[Any] = list(order)
    step: Any = 1
    for axis in reversed(order):
        strides[axis], step = step, sizes[axis] * step
    axis = args[1] if len(args) > 1 else kwargs.get("dim")
    return tuple(strides) if axis is None else strides[axis]


# Numbers that leave.


def item(recording, key, func, args, kwargs, door):
    """The number in a tensor: it leaves the graph, and comes back where it is used as a number."""
    tensor = args[0]
    result = _real(recording, func, args, kwargs)
    value = recording.value_of(tensor)
    if value.fixed:
        return result
    if isinstance(result, bool):
        return tell_read(recording, "item", [tensor], result)
    known = sized.counted(value, result)
    if known is not None:
        return known
    recording.escape("item", f"{key.rpartition('::')[2]} of {shaped(tensor)}")
    if isinstance(result, complex):
        return result
    atom = Atom("item", (value,), result)
    return dims.Dim(Poly.of(atom)) if isinstance(result, int) else floats.DimFloat(atom)


def told(recording, key, func, args, kwargs, door):
    """The device: a tensor whose contents are elsewhere is, to the model, where all others are."""
    if recording.blend is not None:
        from ..weights.blend import told as answer

        found = answer(func, args)
        if found is not None:
            return found
    return _real(recording, func, args, kwargs)


MOST = 1024  # numbers that are read one by one


def listed(recording, key, func, args, kwargs, door):
    """The numbers in a tensor: how many go to each expert comes back as the sizes of a split, a row of
    a table as the corners of a box, and a list of means as a tensor."""
    tensor = args[0]
    value = recording.value_of(tensor)
    if recording.blend is not None:
        return reads(recording, key, func, args, kwargs, door)
    few = tensor.numel() <= MOST
    varies = value.shape is not None and any(map(dims.is_dynamic, value.shape))
    real = tensor.dtype is not torch.bool and not tensor.is_complex()
    rows = value.shape is not None and tensor.dim() and dims.is_dynamic(value.shape[0])
    if value.fixed or not tensor.dim() or not real or not (few or rows):
        return reads(recording, key, func, args, kwargs, door)
    told = f"tolist of {list(tensor.shape)}"
    result = _real(recording, func, args, kwargs)
    if not varies:
        recording.escape("tolist", told)
    return _numbers(recording.builder, value, result, told, few)


def _numbers(builder, value, result, told, few):
    """A list of what is in it along its first axis: numbers, or lists of them."""
    if value.rank == 0:
        atom = Atom("item", (value,), result)
        return floats.DimFloat(atom) if isinstance(result, float) else dims.Dim(Poly.of(atom))

    def part(i: int) -> Any:
        inner = builder.emit("Gather", [value, i], {"axis": 0})[0]
        return _numbers(builder, inner, result[i], told, few)

    def each(i: int) -> Any:
        leaving.begins()
        return part(i)

    def whole(op):
        return op.cast(value, torch.float64 if value.dtype.is_floating_point else torch.int64)

    length = value.shape[0]
    if dims.is_dynamic(length):  # a list of where something is, more often than one of numbers
        left, over = ("tolist", told, ()), None
        if few:  # each number is followed, however many there are
            kind, why = "range", f"{told}, over {dims.spelled(length)}"
            if not Poly.of(length).named():
                kind, why = "rounds", f"{told}, once for each that was found"
            over = (kind, why, (dims.asked(int, length),))
        return lists.Whole(result, whole, length, left, each if few else None, over)
    return [part(i) for i in range(len(result))] if few else result


def reads(recording, key, func, args, kwargs, door):
    tensors = [t for _, t in tensors_in(list(args))]
    if recording.blend is not None:
        recording.blend.require(tensors, spelled(func, key))
    name = getattr(func, "__name__", str(key)).strip("_")
    if name in ADDRESSES:
        for tensor in tensors:
            accounts.expose(recording, tensor, name)
    if name in ("numpy", "array"):
        accounts.hand_to_numpy(recording, tensors[0])
    result = _real(recording, func, args, kwargs)
    if name == "equal" and tensors[0] is tensors[-1]:
        return result  # whatever is in it
    if any(not recording.value_of(t).fixed for t in tensors):
        result = tell_read(recording, name, tensors, result)
    if name == "numpy" and result.base is not None and not recording.value_of(tensors[0]).fixed:
        from ..tensors import arrays

        return arrays.follow(recording, tensors[0], result)
    return result


def shaped(tensor) -> str:
    """What was read, in words."""
    return str(list(tensor.shape)) if tensor.dim() else "one value"


def tell_read(recording, name, tensors, result):
    """Notes what leaves; of a truth value of sizes, what it depends on, and of others, that it does.

    Gives what the model hears.
    """
    if recording.frames.checking():
        return result
    values = [recording.value_of(t) for t in tensors]
    truth = name in ("bool", "item", "is_nonzero", "nonzero")
    found = sized.answer(values[0]) if truth else None
    asked: Any = ()
    if found is not None and found.yes is result:
        if not found.asked:
            return result
        asked, sizes = found.asked, True
        where = recording.escape("branch", found.told, asked=asked)
    else:
        each = ", ".join(map(shaped, tensors))
        sizes = all(map(sized.alone, values))
        asked = [sized.unforeseen(value, result) for value in values] if sizes else []
        where = recording.escape(name, f"{name} of {each}", asked=asked)
    if truth and isinstance(result, bool):
        return recording.questions.value(
            recording.builder.nodes, where, result, values[0], not sizes, tuple(asked), name
        )
    return result


def fresh(recording, key, func, args, kwargs, door):
    """A tensor made from Python's or numpy's data."""
    result = _real(recording, func, args, kwargs)
    for _, tensor in tensors_in(result):
        if recording.live.find(tensor) is None:
            value = accounts.of_arrays(recording, tensor)
            if value is None:
                accounts.tell_outside(recording, tensor)
                value = recording.constant(tensor)
            recording.live.bind(tensor, value)
    return result


# What changes which memory a tensor looks at.


def data_set(recording, key, func, args, kwargs, door):
    """x.data = y: from now on x is another name for y's memory."""
    tensor, other = args
    recording.value_of(other)
    result = _real(recording, func, args, kwargs)
    recording.live.alias(tensor, recording.live.find(other))
    return result


def relaid(recording, key, func, args, kwargs, door):
    """resize_, set_, as_strided_: the elements are others, by where they happen to lie in memory."""
    tensors = [t for _, t in tensors_in([list(args), kwargs])]
    family = recording.live.family_of(tensors[0])
    if any(not recording.value_of(t).fixed for t in tensors) or (
        family is not None and any(m() is not tensors[0] for m in family.alive())
    ):
        raise Unsupported(
            f"{spelled(func, key)} gives a tensor other memory, or other places in it",
            where=recording.where(),
            why="a graph has values and no memory",
            hint="make a new tensor: torch.cat, F.pad, indexing or .clone() say what is meant",
        )
    recording.before_write(args, kwargs)
    result = _real(recording, func, args, kwargs)
    recording.live.bind(tensors[0], recording.written_constant(tensors[0]))
    return result


def _table() -> dict[Any, Any]:
    from ..packs.targets import identify
    from . import alike, higher

    table: dict[Any, Any] = {
        "Tensor.shape.__get__": shape,
        "aten::size": size,
        "aten::sym_size": size,
        "aten::sym_numel": numel,
        "aten::sym_stride": layout,
        "aten::numel": numel,
        "aten::nelement": numel,
        "aten::stride": layout,
        "aten::storage_offset": layout,
        "aten::item": item,
        "aten::lift_fresh": fresh,
        "aten::equal": alike.compared,
        "aten::allclose": alike.compared,
        "Tensor.device.__get__": told,
        "Tensor.is_meta.__get__": told,
        "Tensor.is_cpu.__get__": told,
        "Tensor.data.__set__": data_set,
        "aten::resize_": relaid,
        "aten::resize_as_": relaid,
        "aten::set_": relaid,
        "aten::as_strided_": relaid,
        identify(torch.Tensor.__len__): length,
    }
    table.update({key: higher.arrived(do) for key, do in higher.OPERATORS.items()})
    table[identify(torch.Tensor.tolist)] = listed
    for name in READS_METHODS:
        method = getattr(torch.Tensor, name, None)
        if method is not None:
            table.setdefault(identify(method), reads)
    for function in (torch.equal, torch.allclose, torch.is_nonzero, torch.numel):
        table.setdefault(identify(function), reads if function is not torch.numel else numel)
    return table


class _Special(dict):
    """Filled when first asked, since it needs every room of the engine."""

    def get(self, key, default=None):
        if not self:
            self.update(_table())
        return super().get(key, default)


SPECIAL: Any = _Special()
