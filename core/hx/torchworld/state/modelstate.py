"""A guard that runs a model and restores it: modules, parameters, buffers, gradients, RNGs, flags.

Objects are remembered, not copied. Contents of tensors are copied where that is cheap (buffers) or
before an announced write (`before_write`); other changes are reported.
"""

from __future__ import annotations

import contextlib
import functools
import operator
import random
import threading
import warnings
from collections.abc import Callable, Collection, Iterable
from typing import Any

import torch

from ...budget import BUDGET
from ...errors import ExportError
from ...tensor_bytes import storage_key
from ..modes import modes
from . import model_locks, nested_state, shallow
from .iterator_state import Positions
from .kept_tensor import KeptTensor, same_contents, version_of
from .numpy_generator import NumpyGenerator
from .whole_state import Attributes, Untouched


class Draws:
    """A flag that the model draws random numbers (an object, as `preserved` would be in a cycle)."""

    seen = True  # until the next look finds none


def _rewind(draws: Draws, state: torch.Tensor) -> None:
    """Restore the generator if the model drew, or no other thread can have drawn from it."""
    if draws.seen or threading.active_count() == 1:
        torch.set_rng_state(state)


class preserved:
    """Context manager that puts a model in eval mode, and tracks and undoes its changes."""

    _undo: list[Callable[[], Any]]
    _open = False

    def __init__(self, model: torch.nn.Module, writes: Collection[str] = ()) -> None:
        """`writes` names parameters that the model is known to write to."""
        self.model = model
        self.writes = set(writes)
        self._token = object()
        self._undo = []
        self.draws = Draws()
        self._forget()

    def _forget(self) -> None:
        self._together: tuple[Attributes, Untouched] | None = None
        self._tensors: dict[int, KeptTensor] = {}
        self._attributes: list[tuple[str, shallow.Shallow]] = []
        self._held: list[nested_state.State] = []  # below these
        self._buffers: dict[str, torch.Tensor] = {}  # by state_dict name, duplicates included
        self.modules: list[tuple[str, torch.nn.Module]] = []
        self.things: list[shallow.Thing] = []  # what these have
        self._by_storage: dict[int, list[KeptTensor]] | None = None
        self._changed: tuple[list[str], list[str]] | None = None

    def same_memory(self, tensor: torch.Tensor) -> torch.Tensor | None:
        """An older object for the memory of a tensor of the model; None where there is none."""
        kept = self._tensors.get(id(tensor))
        if kept is None or tensor.layout is not torch.strided or kept.rebound:
            return None
        return kept.alias

    def before_write(self, tensor: torch.Tensor) -> None:
        """Keep the contents of all that shares memory with `tensor`, which is about to change."""
        for kept in self._over(tensor):
            if kept.copy is None and version_of(kept.alias) == kept.version:
                kept.keep()

    def has_changed(self, tensor: torch.Tensor) -> bool:
        """Return True if the memory of `tensor` is the model's, and is going to be restored."""
        return any(kept.written for kept in self._over(tensor))

    def _over(self, tensor: torch.Tensor) -> list[KeptTensor]:
        if self._by_storage is None:
            table: dict[int, list[KeptTensor]] = {}
            for kept in self._tensors.values():
                table.setdefault(storage_key(kept.alias), []).append(kept)
            self._by_storage = table
        return self._by_storage.get(storage_key(tensor), [])

    @property
    def changed_buffers(self) -> list[str]:
        """The names of buffers whose contents differ from what they were on entry."""
        return self.changed()[0]

    @property
    def changed_parameters(self) -> list[str]:
        return self.changed()[1]

    def touched(self) -> list[str]:
        """The names of all tensors that were written to, also with the contents that they had."""
        return [kept.name for kept in self._tensors.values() if not kept.untouched]

    def kept(self) -> list[str]:
        """The names of attributes that the model keeps for its next call, beside its buffers."""
        attributes = [
            f"{path}.{name}" if path else name
            for path, was in self._attributes
            for name in was.changed()
        ]
        below = [name for thing in self._held for name in thing.changed()]
        kept = [k for k in self._tensors.values() if k.kind in ("attribute", "held")]
        return [*attributes, *below, *(k.name for k in kept if k.changed)]

    @property
    def trained(self) -> list[torch.nn.Module]:
        """The modules that were in training mode on entry."""
        held = [was for _, was in self._attributes]
        return [was.module for was in held if was.items.get("training", was.training)]

    def changed(self) -> tuple[list[str], list[str]]:
        """The names of changed buffers and parameters, looked at once when the model has run."""
        if self._changed is None:
            self._changed = self._differences(self._tensors.values())
        return self._changed

    def __enter__(self) -> preserved:
        try:
            self._open = True
            if not self._is_as_remembered():
                self._forget()
                model_locks.take(self._token, [module for _, module in shallow.walk(self.model)])
                self._globals()
                self._snapshot()
            for module in self._to_set:
                _set_training(module)
            return self
        except BaseException:
            self._restore()
            raise

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        try:
            lost = self._restore()
        except BaseException:
            self._restore()  # finish what an interrupt cut short
            raise
        if not lost:
            return
        what = f"the model changed {', '.join(lost[:5])} in a way that hx cannot undo"
        if error is not None:  # the first error matters more
            warnings.warn(what, RuntimeWarning, stacklevel=2)
            return
        raise ExportError(
            what,
            why="it was written to where no hook saw the write coming",
            hint="load the model again before using it, and export it from a copy",
        )

    def may_guard(self, model: torch.nn.Module, writes: Collection[str]) -> bool:
        """Return whether this guard may be entered for a run of a model with these writes."""
        return not self._open and self.model is model and self.writes == set(writes)

    def close(self) -> None:
        """Restore the rest, if an interrupt came before the first line of `__exit__`."""
        if self._open:
            self._restore()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # an error could not be reported from there
            self.close()

    # Remembering.

    def _is_as_remembered(self) -> bool:
        """Return whether a guard that is entered again need not remember anything anew."""
        if not self.modules:
            return False
        model_locks.take(self._token, [module for _, module in self.modules])
        if self._together is None:
            modules = [was for _, was in self._attributes]
            self._together = Attributes(modules), Untouched(self._tensors.values())
        attributes, tensors = self._together
        self._changed = None
        same = (
            attributes.are_same()
            and tensors.are_same()
            and all(was.is_same() for was in attributes.alone)
            and not any(
                kept.changed if kept.copy is not None else not kept.untouched
                for kept in tensors.alone
            )
            and not any(held.changed() for held in self._held)
        )
        if same:
            self._globals()
        return same

    @property
    def _to_set(self) -> Iterable[torch.nn.Module]:
        """The modules that may be in training mode."""
        if self._together is None:
            return (module for _, module in self.modules)
        attributes = self._together[0]
        return (*attributes.trained, *(was.module for was in attributes.alone))

    def _globals(self) -> None:
        """Random numbers, and the modes of torch that a forward may set."""

        def later(read: Callable[[], Any], write: Callable[[Any], Any], same: Callable) -> None:
            was = read()
            self._undo.append(lambda: None if same(read(), was) else write(was))

        later(torch.get_rng_state, functools.partial(_rewind, self.draws), torch.equal)
        later(random.getstate, random.setstate, operator.eq)
        self._undo.append(NumpyGenerator().put_back)
        if torch.cuda.is_initialized():
            later(torch.cuda.get_rng_state_all, torch.cuda.set_rng_state_all, lambda a, b: False)
        later(torch.is_grad_enabled, torch._C._set_grad_enabled, operator.eq)
        later(torch.get_default_dtype, torch.set_default_dtype, operator.eq)
        later(modes.functions, modes.set_functions, operator.eq)
        later(modes.default_device, modes.set_default_device, operator.eq)
        later(torch.get_num_threads, torch.set_num_threads, operator.eq)
        later(torch.get_float32_matmul_precision, torch.set_float32_matmul_precision, operator.eq)
        later(_deterministic, lambda was: torch.use_deterministic_algorithms(**was), operator.eq)
        later(torch.is_autocast_cache_enabled, torch.set_autocast_cache_enabled, operator.eq)
        for device in ("cpu", "cuda"):
            later(functools.partial(_autocast, device), _set_autocast, operator.eq)

    def _snapshot(self) -> None:
        self.modules = shallow.walk(self.model)
        for path, module in self.modules:
            was = shallow.Shallow(module)
            self._attributes.append((path, was))
            self.things += [(path, module, name, thing) for name, thing in was.own]
            for name, kind, tensor in was.tensors():
                self._add(f"{path}.{name}" if path else name, kind, tensor)
        known = {id(module) for _, module in self.modules}.union(self._tensors)
        own = [(kept.name, kept.tensor) for kept in self._tensors.values()]
        self._held, tensors = nested_state.below(
            self.things, own, known, [was for _, was in self._attributes]
        )
        for name, tensor in tensors:
            kind = "parameter" if isinstance(tensor, torch.nn.Parameter) else "held"
            self._add(name, kind, tensor)
        for kept in (*self._small("buffer", "attribute"), *self._small("held")):
            kept.keep()
        for kept in self._tensors.values():
            if kept.version is None or kept.name in self.writes:
                kept.keep()

    def _small(self, *kinds: str) -> list[KeptTensor]:
        """The tensors of these kinds if they are small altogether; none otherwise."""
        found = [kept for kept in self._tensors.values() if kept.kind in kinds]
        much = sum(k.alias.numel() * k.alias.element_size() for k in found) >= BUDGET.bytes.buffers
        return [] if much else found

    def _add(self, name: str, kind: str, tensor: torch.Tensor) -> None:
        if kind == "buffer":
            self._buffers[name] = tensor
        if id(tensor) in self._tensors or torch._C._functorch.is_functorch_wrapped_tensor(tensor):
            return  # a cached tensor of a vmap that has ended cannot be read
        if torch.nn.parameter.is_lazy(tensor):
            raise ExportError(
                f"{name} has no shape yet: it belongs to a lazy module",
                hint="call the model once on its inputs before the export",
            )
        self._tensors[id(tensor)] = KeptTensor(name, kind, tensor)
        grad = tensor.grad if tensor.is_leaf else None
        if grad is not None:
            self._tensors[id(grad)] = KeptTensor(f"{name}.grad", "parameter", grad)

    # Restoring.

    def _restore(self) -> list[str]:
        modules, tensors = self._may_have_changed()
        with contextlib.suppress(Exception):  # it can be restored without this value
            if self._changed is None:  # before it is put back, for those who ask afterwards
                self._changed = self._differences(tensors, bool(modules))
        lost, failed = [], None
        for kept in tensors:
            try:
                name = "" if kept.untouched else kept.put_back()
            except Exception as e:
                name = f"{kept.name} ({e})"
            if name:
                lost.append(name)
        remembered = (*modules, *self._held)
        for undo in reversed([*self._undo, *(each.restore for each in remembered)]):
            try:
                undo()
            except Exception as e:  # a module's own: the others still have to be restored
                failed = e
        self._undo.clear()
        model_locks.leave(self._token)
        self._open = False
        if failed is not None:
            raise failed
        return lost

    def _may_have_changed(self) -> tuple[list[shallow.Shallow], list[KeptTensor]]:
        """The modules and tensors to look at one by one."""
        modules = [was for _, was in self._attributes]
        if self._together is None:
            return modules, [*self._tensors.values()]
        attributes, tensors = self._together
        for module in attributes.trained:
            vars(module)["training"] = True
        # An iterator may be put back by another one, in what holds it.
        moved = any(isinstance(each, Positions) and each.changed() for each in self._held)
        return (
            attributes.alone if attributes.are_same() and not moved else modules,
            tensors.alone if tensors.are_same() else [*self._tensors.values()],
        )

    def _differences(
        self, tensors: Iterable[KeptTensor], rebound: bool = True
    ) -> tuple[list[str], list[str]]:
        """Names of changed buffers and parameters; modules may have other ones if `rebound`."""
        now: dict[str, torch.Tensor] = {} if rebound else self._buffers
        for path, module in self.modules if rebound else ():
            for name, tensor in shallow.buffers(module).items():
                now[f"{path}.{name}" if path else name] = tensor
        changed = [k for k in tensors if not k.untouched and k.changed]
        names = {k.name for k in changed if k.kind == "parameter"}
        written = {id(k.tensor) for k in changed}
        buffers = set(self._buffers.keys() ^ now.keys())  # gone, or new
        for name in self._buffers.keys() & now.keys():
            before, after = self._buffers[name], now[name]
            other = after is not before and not same_contents(
                after, self._tensors[id(before)].alias
            )
            if other or id(before) in written:
                buffers.add(name)
        return sorted(buffers), sorted(names)


def _set_training(module: torch.nn.Module) -> None:
    """Set the flag without eval() or train(), which models override with effects of their own."""
    if isinstance(module, torch.jit.ScriptModule):
        if hasattr(module, "training"):  # a frozen one has no mode
            module.training = False
    else:
        vars(module)["training"] = False


def _deterministic() -> dict[str, bool]:
    return {
        "mode": torch.are_deterministic_algorithms_enabled(),
        "warn_only": torch.is_deterministic_algorithms_warn_only_enabled(),
    }


def _autocast(device: str) -> tuple[str, bool, torch.dtype]:
    return device, torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)


def _set_autocast(was: tuple[str, bool, torch.dtype]) -> None:
    torch.set_autocast_enabled(was[0], was[1])
    torch.set_autocast_dtype(was[0], was[2])
