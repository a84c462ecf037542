"""`hx.features`: a module that returns activations inside another one."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

from ..errors import UsageError
from ..torchworld.stage import Session, Watcher
from ..torchworld.watched_places import Places, find
from .keeping import Keeper


class Features(torch.nn.Module):
    """Module that runs `model` and returns the outputs of places, by name."""

    def __init__(self, model: torch.nn.Module, names: dict[str, str], places: list[Any]) -> None:
        super().__init__()
        self.model = model
        self.names = names  # path -> the name it is returned under
        self.places = places

    @property
    def forward(self) -> Callable[..., dict[str, Any]]:  # type: ignore[override]
        """Return a function with the signature of the model's own `forward`."""
        return functools.update_wrapper(functools.partial(self._run), self.model.forward)

    def _run(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        watcher = _Taker(find(self.model, self.places))
        with Session(watcher):
            self.model(*args, **kwargs)
        found = {}
        for name in watcher.places.called:
            if name not in watcher.taken:
                raise UsageError(f"{name or 'the model'} did not run: there is no output to take")
            found[self.names.get(name, name)] = watcher.taken[name]
        return found

    def extra_repr(self) -> str:
        return ", ".join(map(str, self.places))


def features(model: torch.nn.Module, places: Iterable[Any] | Mapping[str, str]) -> Features:
    """`hx.features(model, ["layer4", "avgpool"])(x)` is `{"layer4": ..., "avgpool": ...}`.

    `places` are names, globs, classes, modules or functions; or a dict from names to their names
    in the result. Gradients flow, and `hx.export` exports it. If a place runs several times, its
    last output counts.
    """
    names = dict(places) if isinstance(places, Mapping) else {}
    listed = [places] if isinstance(places, str) else list(places)
    if not listed:
        raise UsageError(
            "hx.features needs a place", hint='name places: hx.features(model, ["layer4"])'
        )
    find(model, listed)  # misspelt names raise now
    return Features(model, names, listed)


class _Taker(Watcher):
    def __init__(self, places: Places) -> None:
        super().__init__(places)
        # A copy, since the model may go on to write in place: ReLU(inplace=True).
        self.keeper = Keeper(detach=False)
        self.taken: dict[str, Any] = {}

    def leave(self, name: str, token: Any, output: Any, visit: object) -> None:
        self.taken[name] = self.keeper.keep(output)
