"""Facts about PyTorch's functions: which ones write, draw random numbers, read, or return views.

Keys name functions: `aten::add` for an operator, `Tensor.__getitem__` for another method.
"""

from __future__ import annotations

import functools
import sys
import types
from typing import Any

import torch

# Packages whose objects belong to the process, not to a model: other threads may use them.
LIBRARIES = frozenset((*sys.stdlib_module_names, "torch", "numpy", "hx", "hx_converters"))
# Functions that hand a tensor's contents to Python, with the name that messages use.
READS = {
    "aten::item": "item", "aten::tolist": "tolist", "aten::numpy": "numpy",
    "aten::__bool__": "bool", "aten::__int__": "int", "aten::__float__": "float",
    "aten::__complex__": "complex", "aten::__index__": "index", "aten::equal": "equal",
    "aten::allclose": "allclose", "aten::is_nonzero": "is_nonzero", "aten::data_ptr": "data_ptr",
    "aten::untyped_storage": "storage", "aten::is_same_size": "is_same_size",
    "aten::_local_scalar_dense": "item",
}  # fmt: skip
READING_METHODS = (
    "__bool__", "__int__", "__float__", "__complex__", "__index__", "item", "tolist", "numpy",
    "__array__", "__format__", "__dlpack__", "equal", "allclose", "is_nonzero",
    "data_ptr", "storage", "untyped_storage", "__reduce_ex__", "__nonzero__", "__repr__",
)  # fmt: skip
# Functions that give the address of a tensor's memory, to code that may write there.
GIVES_ADDRESS = ("data_ptr", "storage", "untyped_storage")
# Functions that give all of a tensor's memory to other code.
GIVES_MEMORY = {*GIVES_ADDRESS, "numpy", "from_numpy", "__array__", "__dlpack__"}

# Attributes and methods of tensors that are the same for all data and sizes, and their keys.
FIXED = {"dtype", "device", "layout", "ndim", "dim", "requires_grad", "is_leaf", "is_cuda",
         "is_floating_point", "is_complex", "is_sparse", "is_quantized"}  # fmt: skip
FIXED_KEYS = {key for name in FIXED for key in (f"aten::{name}", f"Tensor.{name}.__get__")}

# Functions whose result may share the memory of their argument.
VIEWS = {
    f"aten::{n}"
    for n in """t transpose permute view reshape unsqueeze squeeze expand expand_as flatten select
    narrow slice swapaxes swapdims movedim moveaxis detach alias contiguous view_as numpy_T adjoint
    mT to float half bfloat16 double clone unflatten split chunk unbind view_as_complex
    view_as_real""".split()
} | {"Tensor.__getitem__", "Tensor.T.__get__", "Tensor.mT.__get__", "Tensor.data.__get__"}


# Functions whose in-place form changes the geometry of a tensor, and none of its elements.
CHANGES_GEOMETRY = {
    f"aten::{n}" for n in "t transpose squeeze unsqueeze swapaxes swapdims detach".split()
}

# Functions that take a list of numbers for a tensor.
TAKES_LISTS = {"aten::tensor", "aten::as_tensor", "aten::asarray", "aten::new_tensor",
              "Tensor.__getitem__", "Tensor.__setitem__"}  # fmt: skip

# Functions that join a list of tensors.
JOINS = {"aten::cat", "aten::concat", "aten::concatenate", "aten::stack"}


def is_random(key: Any) -> bool:
    """Return whether a function draws from the random generator."""
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


def is_pure(key: Any, func: Any) -> bool:
    """Return whether a function of constants gives a constant: no Python code, not random."""
    return not isinstance(func, types.FunctionType) and not is_random(key)


def out_of_place(key: Any) -> str | None:
    """Return the function that an in-place function is a form of: `aten::add` for `aten::add_`."""
    if isinstance(key, str) and key.endswith("_") and not key.endswith("__"):
        return _OUT_OF_PLACE.get(key, key[:-1])
    return None


_OUT_OF_PLACE = {"aten::normal_": "aten::normal_functional"}


def writes(key: Any, func: Any, args: tuple, kwargs: dict) -> bool:
    """Return whether a call writes to its first argument or to `out`."""
    if "out" in kwargs or (isinstance(key, str) and _writes_by_name(key)):
        return True
    if type(func) is not types.FunctionType or "inplace" not in func.__code__.co_varnames:
        return False
    index, default = _inplace_parameter(func.__code__, func.__defaults__)
    given = args[index] if index < len(args) else kwargs.get("inplace", default)
    return given is not False


@functools.lru_cache(maxsize=512)
def _inplace_parameter(code: types.CodeType, defaults: tuple | None) -> tuple[int, Any]:
    """Return the index and the default of the parameter `inplace`."""
    index = code.co_varnames.index("inplace")
    from_end = code.co_argcount - index
    known = defaults is not None and 0 < from_end <= len(defaults)
    return index, defaults[-from_end] if known and defaults is not None else None


@functools.cache
def _writes_by_name(key: str) -> bool:
    if key == "Tensor.__setitem__" or key.endswith((".__set__", "batch_norm", "instance_norm")):
        return True
    return key.endswith("_") and not key.endswith("__")


def mutated(func: Any, args: tuple, kwargs: dict) -> list[torch.Tensor]:
    """List the tensors that an ATen operator writes to, according to its schema."""
    schema = getattr(func, "_schema", None)
    if schema is None:
        return []
    found: list[torch.Tensor] = []
    for i, argument in enumerate(schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            given = args[i] if i < len(args) else kwargs.get(argument.name)
            each = given if isinstance(given, (list, tuple)) else [given]
            found += [x for x in each if isinstance(x, torch.Tensor)]
    return found


def public_name(func: Any, key: Any) -> str:
    """Return the public name of a function: the target that a converter is registered for."""
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
