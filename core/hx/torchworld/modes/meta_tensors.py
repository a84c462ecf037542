"""Operators on a mix of tensors with contents and tensors on the meta device, without contents.

Results of inputs and constants alone are computed. A result of any tensor without contents has none
either, but its shape and dtype are right. So a model whose weights are elsewhere is recorded as if
they were there, and code that needs their contents is refused at its line. To the model, all
tensors are on the CPU.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._C import _pop_torch_dispatch_stack as pop_operators
from torch._C import _push_on_torch_dispatch_stack as push_operators
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode

from ... import torch_facts
from ...errors import Unsupported
from ...tensor_bytes import storage_key
from .. import torch_bodies
from .absent_weights import Slim, seen_as
from .operator_modes import OperatorMode

_C: Any = torch._C  # its stub leaves out some of what is used here
CPU = torch.device("cpu")
# The results of these do not depend on the contents of their argument.
_MAKES = {
    f"aten::{n}"
    for n in """zeros_like ones_like full_like empty_like rand_like randn_like randint_like
    new_zeros new_ones new_full new_empty new_empty_strided""".split()
}
_INDEXES = {"aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_"}
_RUN_TIME = (torch.Tag.dynamic_output_shape, torch.Tag.data_dependent_output)


class _Mode(OperatorMode):
    def run(self, func: Callable, args: tuple, kwargs: dict) -> Any:
        """Run a call with this mode on, and no other that sees its operators first."""
        with (
            _C.DisableTorchFunction(),
            _C._SetExcludeDispatchKeyGuard(_C.DispatchKey.Python, False),
        ):
            push_operators(self)
            try:
                return func(*args, **kwargs)
            finally:
                pop_operators(None)


class Blend(_Mode):
    """A mode for recording: an operator with any tensor without contents runs on shapes alone."""

    def __init__(self) -> None:
        super().__init__()
        # Memory that has contents which are not the model's: a write to it was left out.
        self._stale: dict[int, StorageWeakRef] = {}

    def unknown(self, tensor: torch.Tensor) -> bool:
        if tensor.is_meta:
            return True
        held = self._stale.get(storage_key(tensor)) if self._stale else None
        return held is not None and not held.expired()

    def require(self, tensors: Any, what: str) -> None:
        """Raise Unsupported unless the contents of all these tensors are known."""
        if any(map(self.unknown, tensors)):
            raise Unsupported(
                f"{what} asks for the contents of a tensor that follows from weights, "
                "which are not there while the model is recorded",
                why="the model is on the meta device, or its weights are cast or read as they are "
                "written",
                hint="compute with tensors instead of their contents, or export the model with "
                "its weights in memory",
            )

    def quietly(self, func: Callable, args: tuple, kwargs: dict) -> Any:
        func, args, kwargs = _in_place(func, args, kwargs)
        if torch.is_autocast_enabled("cpu") and any(map(self.unknown, _tensors((args, kwargs)))):
            raise Unsupported(
                "autocast does not see tensors without contents, and would cast them",
                why="the weights are elsewhere while the model is recorded",
                hint="turn autocast off, and export with dtype=, or with the weights in memory",
            )
        try:
            return self.run(func, args, kwargs)
        except RuntimeError:
            tensors = list(_tensors((args, kwargs)))
            unknown = [self.unknown(tensor) for tensor in tensors]
            if all(unknown) or not any(unknown) or not _may_run_again(func, args, kwargs):
                raise
        hollow = {id(t): t if t.is_meta else _hollow(t) for t in tensors}
        return self.run(func, *_replaced((args, kwargs), hollow))

    def __torch_dispatch__(self, func, kinds, args=(), kwargs=None):
        kwargs = kwargs or {}
        tensors = list(_tensors((args, kwargs)))
        name = func._schema.name
        if not any(map(self.unknown, tensors)):
            return func(*args, **_on(CPU, kwargs))
        if name in _MAKES:
            return func(*args, **{**kwargs, "device": CPU})
        if _views(func):
            return func(*args, **kwargs)
        if name in _INDEXES:
            args = (args[0], [p for i in args[1] for p in self._places(i)], *args[2:])
        elif any(tag in func.tags for tag in _RUN_TIME):
            self.require(tensors, name.partition("::")[2])
        hollow: dict[int, torch.Tensor] = {}
        back: dict[int, torch.Tensor] = {}
        for tensor in _tensors((args, kwargs)):
            if id(tensor) not in hollow:
                hollow[id(tensor)] = empty = tensor if tensor.is_meta else _hollow(tensor)
                back[id(empty)] = tensor
        given, named = _replaced((args, kwargs), hollow)
        written = torch_facts.mutated(func, args, kwargs)
        try:
            result = func(*given, **_on(torch.device("meta"), named))
        except RuntimeError as problem:
            if name.startswith("aten::") and not written:
                result = self._on_zeros(func, args, kwargs, problem)
                return _replaced(result, {id(t): _hollow(t) for t in _tensors(result)})
            if not isinstance(problem, NotImplementedError):
                raise
            raise Unsupported(
                f"{name} cannot run without contents: PyTorch knows no shape of its result",
                why=str(problem).strip().splitlines()[0],
                hint="export the model with its weights in memory",
            ) from problem
        for tensor in written:
            if not tensor.is_meta:
                storage = tensor.untyped_storage()
                self._stale[storage_key(tensor)] = StorageWeakRef(storage)
        return _replaced(result, back)

    def _on_zeros(self, func: Any, args: Any, kwargs: dict, problem: RuntimeError) -> Any:
        """Run on zeros: PyTorch cannot tell the shape of every result without computing it."""
        unknown = {id(t): t for t in _tensors((args, kwargs)) if self.unknown(t)}
        # Zeros that nobody writes take no memory, whatever their size.
        zeros = {
            key: torch.zeros(t.numel() or 1, dtype=t.dtype).as_strided(t.size(), t.stride())
            if _dense(t)
            else torch.empty_strided(t.size(), t.stride(), dtype=t.dtype).zero_()
            for key, t in unknown.items()
        }
        given, named = _replaced((args, kwargs), zeros)
        try:
            result = func(*given, **_on(CPU, named))
        except RuntimeError:
            raise problem from None
        if not any(True for _ in _tensors(result)):  # a number of zeros says nothing
            self.require(unknown.values(), func._schema.name)
        return result

    def _places(self, index: torch.Tensor | None) -> list[Any]:
        """The elements that a mask selects, along each of its axes, if it is known."""
        if index is None or index.dtype not in (torch.bool, torch.uint8):
            return [index]
        self.require([index], "indexing with a mask")
        return list(index.nonzero().unbind(1))


class Filled(_Mode):
    """A mode for running the model: an absent weight is read for each operator, and released."""

    def __init__(self, slim: Slim) -> None:
        super().__init__()
        self._slim = slim
        self._written: dict[int, torch.Tensor] = {}  # tensors written in this run, by memory

    def __torch_dispatch__(self, func, kinds, args=(), kwargs=None):
        kwargs = kwargs or {}
        if _views(func):
            return func(*args, **kwargs)
        real = self.loaded((args, kwargs), torch_facts.mutated(func, args, kwargs))
        back = {id(new): old for old, new in real}
        given, named = _replaced((args, kwargs), {id(old): new for old, new in real})
        return _replaced(func(*given, **_on(CPU, named)), back)

    def loaded(
        self, tree: Any, written: list[torch.Tensor] | None = None
    ) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Map the absent tensors of a call to tensors with their contents."""
        whole: dict[int, torch.Tensor] = {}
        found = {}
        for tensor in _tensors(tree):
            memory = storage_key(tensor)
            if not tensor.is_meta or id(tensor) in found or memory not in self._slim.absent:
                continue
            if memory not in whole:
                kept = self._written.get(memory)
                whole[memory] = self._slim.absent[memory][1].load() if kept is None else kept
            found[id(tensor)] = tensor, seen_as(whole[memory], tensor)
            if any(tensor is each for each in written or ()):
                self._written[memory] = whole[memory]
        return list(found.values())


class OnTheCPU(TorchFunctionMode):
    """A mode that tells the model that all of its tensors are on the CPU."""

    def __init__(self, filled: Filled) -> None:
        super().__init__()
        self._filled = filled

    def __torch_function__(self, func, kinds, args=(), kwargs=None):
        answer = device_answer(func, args)
        if answer is not None:
            return answer
        func, args, kwargs = _in_place(torch_bodies.handed(func), args, kwargs or {})
        try:
            return func(*args, **kwargs)
        except RuntimeError:
            if not _may_run_again(func, args, kwargs):
                raise
            real = {id(old): new for old, new in self._filled.loaded((args, kwargs))}
            if not real:
                raise
        given, named = _replaced((args, kwargs), real)
        return func(*given, **named)


def device_answer(func: Callable, args: tuple) -> Any:
    """Answer questions about the device of a meta tensor as if on the CPU; None for others."""
    name = getattr(getattr(func, "__self__", None), "__name__", "")
    if name not in ("device", "is_meta", "is_cpu") or not args:
        return None
    with _C.DisableTorchFunction():
        meta = isinstance(args[0], torch.Tensor) and args[0].is_meta
    return {"device": CPU, "is_meta": False, "is_cpu": True}[name] if meta else None


def _in_place(func: Callable, args: tuple, kwargs: dict) -> tuple[Callable, tuple, dict]:
    """Return x itself for `x.to(device)` if it is there already; here, everything is."""
    name = getattr(func, "__name__", "")
    if name == "cpu" and args and isinstance(args[0], torch.Tensor):
        return torch.Tensor.to, (args[0], args[0].device), {}
    if name != "to" or not args or not isinstance(args[0], torch.Tensor):
        return func, args, kwargs
    own = args[0].device

    def put(x: Any) -> Any:
        if isinstance(x, (torch.device, str)):
            return own
        return x.dtype if isinstance(x, torch.Tensor) else x

    rest = tuple(put(x) for x in args[1:])
    return (
        func,
        (args[0], *rest),
        {("dtype" if k == "other" else k): put(v) for k, v in kwargs.items()},
    )


def _may_run_again(func: Any, args: tuple, kwargs: dict) -> bool:
    """Return True if a call that failed has done nothing yet.

    Some of PyTorch's own functions compare the devices of their arguments before any operator runs.
    """
    return not isinstance(func, types.FunctionType) and not torch_facts.writes(
        "", func, args, kwargs
    )


def _views(func: Any) -> bool:
    """Return True if an operator only returns views of its argument's memory."""
    returns = func._schema.returns
    return bool(returns) and all(
        r.alias_info is not None and not r.alias_info.is_write for r in returns
    )


def _dense(tensor: torch.Tensor) -> bool:
    """Return True if its elements fill its memory without gaps, in any order."""
    last = sum((n - 1) * step for n, step in zip(tensor.size(), tensor.stride()))
    return last + 1 == tensor.numel()


def _on(device: torch.device, kwargs: dict) -> dict:
    return {**kwargs, "device": device} if kwargs.get("device") is not None else kwargs


def _hollow(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device="meta")


def _tensors(tree: Any) -> Iterator[torch.Tensor]:
    if isinstance(tree, torch.Tensor):
        yield tree
    elif isinstance(tree, (list, tuple)):
        for each in tree:
            yield from _tensors(each)
    elif isinstance(tree, dict):
        for each in tree.values():
            yield from _tensors(each)


def _replaced(tree: Any, new: dict[int, torch.Tensor]) -> Any:
    if isinstance(tree, torch.Tensor):
        return new.get(id(tree), tree)
    if isinstance(tree, (list, tuple)):
        return type(tree)([_replaced(each, new) for each in tree])
    if isinstance(tree, dict):
        return {key: _replaced(each, new) for key, each in tree.items()}
    return tree
