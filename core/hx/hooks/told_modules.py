"""`hx.watch`: a line for each module, as it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..torchworld.stage import Session, Watcher
from ..torchworld.watched_places import Places, find
from .describe import described


def watch(
    model: torch.nn.Module, *places: Any, but: Any = (), tell: Callable[[str], Any] = print
) -> Session:
    """`with hx.watch(model): model(x)` prints each child's name and what it returns.

    Without `places`, the named children of the model are watched; `"*"` means all modules inside.
    """
    children = [child for _, child in model.named_children()]
    return Session(_Teller(find(model, places, but, children or [model]), tell))


class _Teller(Watcher):
    def __init__(self, places: Places, tell: Callable[[str], Any]) -> None:
        super().__init__(places)
        self.tell = tell
        self.width = max(map(len, places.called), default=0)

    def leave(self, name: str, token: Any, output: Any, visit: object) -> None:
        self.tell(f"{(name or 'model').ljust(self.width)}  {described(output)}")
