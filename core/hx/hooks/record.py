"""`hx.record`: the inputs and outputs of modules and functions."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from ..errors import UsageError
from ..packs import nesting
from ..text import did_you_mean
from ..torchworld import gradient_hooks
from ..torchworld.stage import Session, Watcher
from ..torchworld.watched_places import Places, find, split
from .keeping import Keeper


class NotRecorded(UsageError, KeyError):
    """Error: a record does not contain what it was asked for."""


class Call:
    """Record of one call: its arguments, its output, and the gradient of that output."""

    def __init__(self, args: tuple, kwargs: dict[str, Any], unwrap: bool) -> None:
        self.args, self.kwargs = args, kwargs
        self.output: Any = None
        self._unwrap = unwrap
        self._gradients: dict[int, Any] = {}
        self._outputs = 0
        self._shape: Callable[[list[Any]], Any] = tuple

    @property
    def inputs(self) -> Any:
        """The argument, when there is one; else all of them. `(args, kwargs)` if not unwrapped."""
        if not self._unwrap:
            return self.args, self.kwargs
        listed = (*self.args, *self.kwargs.values())
        return listed[0] if len(listed) == 1 else listed

    @property
    def gradient(self) -> Any:
        """The gradient of the output, nested like the output; None where none arrived."""
        return self._shape([self._gradients.get(i) for i in range(self._outputs)])

    def __repr__(self) -> str:
        return f"Call(inputs={_told(self.inputs)}, output={_told(self.output)})"


class Place:
    """Record of one place. `inputs`, `output` and `gradient` belong to the last call."""

    def __init__(self, name: str, limit: int | None) -> None:
        self.name = name
        self.count = 0  # calls that ran, kept or not
        self._calls: deque[Call] = deque(maxlen=limit)

    @property
    def calls(self) -> list[Call]:
        return list(self._calls)

    @property
    def last(self) -> Call:
        if not self._calls:
            raise NotRecorded(
                f"{self.name or 'the model'} did not run",
                hint="it may be left out in this mode, or its forward is called directly",
            )
        return self._calls[-1]

    @property
    def inputs(self) -> Any:
        return self.last.inputs

    @property
    def output(self) -> Any:
        return self.last.output

    @property
    def outputs(self) -> list[Any]:
        return [call.output for call in self._calls]

    @property
    def gradient(self) -> Any:
        return self.last.gradient

    @property
    def gradients(self) -> list[Any]:
        return [call.gradient for call in self._calls]

    def __repr__(self) -> str:
        calls = "1 call" if self.count == 1 else f"{self.count} calls"
        return f"<{self.name or 'the model'}: {calls}{_told_output(self)}>"


class Record(Session, Mapping[Any, Place]):
    """Recorded places by name, in the order they ran; also by module, function or tensor."""

    _watcher: _Recorder

    def __getitem__(self, what: Any) -> Place:
        watcher = self._watcher
        name = watcher.places.name_of(what)
        if name is not None and name in watcher.ran:
            return watcher.ran[name]
        if name is not None and name in watcher.known():
            return Place(name, 0)
        raise NotRecorded(
            f"{what!r} is not recorded",
            hint=did_you_mean(str(what), watcher.known(), "name it in hx.record(...)", 3),
        )

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._watcher.ran))

    def __len__(self) -> int:
        return len(self._watcher.ran)

    def __contains__(self, what: Any) -> bool:
        return self._watcher.places.name_of(what) in self._watcher.ran

    def tensor(self, name: str, tensor: torch.Tensor) -> torch.Tensor:
        """Record a tensor that belongs to no module under a name; return it."""
        self._watcher.one(name, tensor)
        return tensor

    def clear(self) -> None:
        """Remove all records so far."""
        self._watcher.ran.clear()

    def __repr__(self) -> str:
        return "\n".join(map(repr, self._watcher.ran.values())) or "<nothing recorded>"


def record(
    *what: Any,
    but: Any = (),
    inputs: bool = True,
    outputs: bool = True,
    gradients: bool = False,
    unwrap: bool = True,
    detach: bool = True,
    clone: bool = True,
    device: Any = None,
    reduce: Callable[[torch.Tensor], Any] | None = None,
    limit: int | None = None,
) -> Record:
    """`with hx.record(model, "layer4", "avgpool") as rec:` keeps what goes in and comes out.

    what       the model, then places: names, globs, classes, modules, functions (`F.relu`,
               `torch.Tensor.__add__`, your own), tensors; without places, all modules inside
    but        places to leave out
    inputs, outputs, gradients
               what to keep; gradients are those of outputs, parameters and tensors, and come when
               `backward` runs inside of the block
    unwrap     `.inputs` is the argument itself when there is one; else always `(args, kwargs)`
    detach     without the graph behind it
    clone      later writes in place do not reach it
    device     where to: "cpu"
    reduce     applied to each tensor on the fly; what it returns is kept instead
    limit      only so many calls of each place, the last ones

    The recorded values are those that the caller gets, after all rewrites.
    """
    model, wanted = split(what)
    if limit is not None and limit < 1:
        raise UsageError(f"limit={limit} keeps nothing")
    watcher = _Recorder(
        find(model, wanted, but),
        Keeper(detach, clone, device, reduce),
        (inputs, outputs, gradients),
        unwrap,
        limit,
    )
    return Record(watcher)


class _Recorder(Watcher):
    def __init__(
        self,
        places: Places,
        keeper: Keeper,
        parts: tuple[bool, bool, bool],
        unwrap: bool,
        limit: int | None,
    ) -> None:
        super().__init__(places)
        self.keeper, self.unwrap, self.limit = keeper, unwrap, limit
        self.inputs, self.outputs, self.gradients = parts
        self.ran: dict[str, Place] = {}

    def known(self) -> list[str]:
        places = self.places
        names = [each.name for each in places.functions]
        return [*places.modules, *places.parameters, *places.tensors, *names]

    def start(self) -> None:
        for name, tensor in {**self.places.parameters, **self.places.tensors}.items():
            self.one(name, tensor)

    def one(self, name: str, tensor: torch.Tensor) -> None:
        """Record a single tensor as the output of a call without inputs."""
        call = Call((), {}, self.unwrap)
        self.leave(name, call, tensor, gradient_hooks.NAMED)

    def enter(self, name: str, args: tuple, kwargs: dict) -> tuple[tuple, dict, Call]:
        call = Call((), {}, self.unwrap)
        if self.inputs:
            call.args = self.keep(args)
            call.kwargs = self.keep(kwargs) if kwargs else {}
        self.ran.setdefault(name, Place(name, self.limit))
        return args, kwargs, call

    def leave(self, name: str, token: Call, output: Any, visit: object) -> None:
        if self.outputs:
            token.output = self.keep(output)
        if self.gradients:
            self._await(token, output, visit)
        place = self.ran.setdefault(name, Place(name, self.limit))
        place.count += 1
        place._calls.append(token)

    def failed(self, name: str, token: Call) -> None:
        if name in self.ran and not self.ran[name].count:
            del self.ran[name]

    def keep(self, thing: Any) -> Any:
        return self.keeper.keep(thing)

    def _await(self, call: Call, output: Any, visit: object) -> None:
        """Collect gradients, which come later if at all, in the call's own list, by position."""
        gradients = call._gradients
        leaves = [leaf for _, leaf in nesting.leaves(output)]
        for i, leaf in enumerate(leaves):
            if isinstance(leaf, torch.Tensor) and leaf.requires_grad:

                def came(gradient: torch.Tensor, i: int = i) -> None:
                    gradients[i] = self.keeper.keep(gradient)

                gradient_hooks.on(leaf, visit, self.owner, came)
        call._outputs, call._shape = len(leaves), _shape_of(output)


def _shape_of(output: Any) -> Callable[[list[Any]], Any]:
    """Return a function that nests a flat list like the output, without holding the output."""
    bare = nesting.replace(output, lambda name, leaf: None)

    def build(flat: list[Any]) -> Any:
        left = iter(flat)
        return nesting.replace(bare, lambda name, leaf: next(left))

    return build


def _told(thing: Any) -> str:
    from .describe import described

    return described(thing)


def _told_output(place: Place) -> str:
    return f", {_told(place.output)}" if place._calls else ""
