"""Inspection of one run: each module's class, its output, its time and its memory."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef

from .. import dtypes, torch_facts
from ..packs import nesting, targets
from ..torchworld.stage import Session, Watcher
from ..torchworld.state.modelstate import preserved
from ..torchworld.watched_places import Places


@dataclass
class Cost:
    """Total cost of all calls of one module or function; the output is that of the last call."""

    name: str
    calls: int = 0
    seconds: float = 0.0
    memory: int = 0  # bytes of the activations made inside
    output: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class Layer(Cost):
    """One module; `name` is its path, "" for the model itself."""

    kind: str = ""
    depth: int = 0
    parameters: int = 0  # those of its children included
    parameter_bytes: int = 0
    own_seconds: float = 0.0  # without the modules that it calls
    order: int = -1  # when it first ran
    functions: dict[str, Cost] = field(default_factory=dict)


@dataclass
class Inspection:
    """All modules as a flattened tree: children follow their parent, in the order they ran."""

    layers: list[Layer]

    @property
    def root(self) -> Layer:
        return self.layers[0]


def inspect(
    model: torch.nn.Module,
    args: tuple = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    functions: bool = False,
    warmup: int = 1,
    tell: Callable[[Layer], Any] | None = None,
) -> Inspection:
    """Run the model in eval mode and without gradients, and restore its state.

    functions  note PyTorch's functions under the module that calls them
    warmup     how many runs to make before the one that counts
    tell       is called with each module when it has run
    """
    watcher = _Inspector(model, functions, tell)
    with preserved(model), torch.no_grad():
        for _ in range(warmup):
            model(*_copied(args), **_copied(kwargs or {}))
        given = _copied(args), _copied(kwargs or {})
        watcher.begin(*given)
        with Session(watcher):
            model(*given[0], **given[1])
    return Inspection(list(_tree(watcher.layers)))


def _copied(given: Any) -> Any:
    """Copy inputs, because a model may write to them."""
    return nesting.replace(
        given, lambda name, leaf: leaf.clone() if isinstance(leaf, torch.Tensor) else leaf
    )


class _Inspector(Watcher):
    def __init__(
        self, model: torch.nn.Module, functions: bool, tell: Callable[[Layer], Any] | None
    ) -> None:
        self.every_function = functions
        super().__init__(Places(model, modules=dict(model.named_modules())))
        self.tell = tell
        self.layers = {name: _layer(name, m) for name, m in self.places.modules.items()}
        self.stack: list[Layer] = []
        self.inside: list[float] = []  # seconds spent in modules that the running ones called
        self.seen: dict[int, StorageWeakRef] = {}  # weak, so that no address is used twice
        self.wait = _synchronizer(model)

    def begin(self, args: Any, kwargs: Any) -> None:
        """Note the tensors that exist before the run, so that they do not count as activations."""
        model = self.places.model
        assert model is not None
        self._made([*model.parameters(), *model.buffers(), args, kwargs])

    def enter(self, name: Any, args: tuple, kwargs: dict) -> tuple[tuple, dict, Any]:
        if isinstance(name, str):
            self._count(None, self._made([args, kwargs]))  # made by the caller's functions
            layer = self.layers[name]
            if layer.order < 0:
                layer.order = sum(each.order >= 0 for each in self.layers.values())
            self.stack.append(layer)
            self.inside.append(0.0)
        self.wait()
        return args, kwargs, time.perf_counter()

    def leave(self, name: Any, token: Any, output: Any, visit: object) -> None:
        self.wait()
        seconds = time.perf_counter() - token
        if not isinstance(name, str):
            self._function(name, seconds, output)
            return
        layer = self.layers[name]
        self._note(layer, seconds, output)
        self._count(None, self._made(output))
        layer.own_seconds += seconds - self.inside.pop()
        self.stack.pop()
        if self.inside:
            self.inside[-1] += seconds
        if self.tell is not None:
            self.tell(layer)

    def failed(self, name: Any, token: Any) -> None:
        if isinstance(name, str):  # the model may catch it and go on
            self.stack.pop()
            self.inside.pop()

    def _function(self, func: Any, seconds: float, output: Any) -> None:
        if not any(isinstance(leaf, torch.Tensor) for _, leaf in nesting.leaves(output)):
            return
        name = torch_facts.public_name(func, targets.identify(func))
        if name.endswith("__get__") or not self.stack:
            return
        cost = self.stack[-1].functions.setdefault(name, Cost(name))
        self._note(cost, seconds, output)
        self._count(cost, self._made(output))

    def _note(self, cost: Cost, seconds: float, output: Any) -> None:
        cost.calls += 1
        cost.seconds += seconds
        cost.output = [
            {"dtype": dtypes.name(leaf.dtype), "shape": list(leaf.shape)}
            for _, leaf in nesting.leaves(output)
            if isinstance(leaf, torch.Tensor)
        ]

    def _count(self, cost: Cost | None, size: int) -> None:
        for each in (*self.stack, *([cost] if cost else [])):
            each.memory += size

    def _made(self, thing: Any) -> int:
        """Count the bytes of tensor memory that was not seen before."""
        size = 0
        for _, leaf in nesting.leaves(thing):
            if isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided:
                storage = leaf.untyped_storage()
                if storage._cdata not in self.seen:
                    self.seen[storage._cdata] = StorageWeakRef(storage)
                    size += storage.nbytes()
        return size


def _layer(name: str, module: torch.nn.Module) -> Layer:
    parameters = list(module.parameters())
    return Layer(
        name,
        kind=type(module).__name__,
        depth=name.count(".") + 1 if name else 0,
        parameters=sum(p.numel() for p in parameters),
        parameter_bytes=sum(p.numel() * p.element_size() for p in parameters),
    )


def _synchronizer(model: torch.nn.Module) -> Callable[[], Any]:
    """Return a function that waits for the accelerator, so that its work counts where it starts."""
    devices = {p.device for p in [*model.parameters(), *model.buffers()] if p.device.type == "cuda"}

    def wait() -> None:
        for device in devices:
            torch.cuda.synchronize(device)

    return wait


def _tree(layers: Mapping[str, Layer], path: str = "") -> Iterator[Layer]:
    if path == "":
        yield layers[""]
    depth = layers[path].depth + 1
    start = f"{path}." if path else ""
    children = [x for x in layers.values() if x.depth == depth and x.name.startswith(start)]
    # In the order in which they ran; modules that did not run come last.
    for child in sorted(children, key=lambda x: (x.order < 0, x.order)):
        yield child
        yield from _tree(layers, child.name)
