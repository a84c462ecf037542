"""State that a model carries from call to call beside its modules, restored where it matters.

A model may write to variables around its functions for two reasons: to compute with them later, or
to tell somebody what it did. Its results show which: after the first run, it runs with this state
as it was before, and as it is now. If the results differ, each run begins with the state of the
first. Else the state stays as the model left it, as a log for whoever reads it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from ...ir.request import Call
from ...torchworld.state.function_state import FunctionState

T = TypeVar("T")


class CarriedState:
    """State beside the modules of one model; whether it matters is known after the first run."""

    def __init__(self) -> None:
        self.matters: bool | None = None
        self.names: list[str] = []  # of what matters
        self.first: FunctionState | None = None

    def run(self, call: Call, body: Callable[[], T]) -> T:
        """Run the model in `body`, and restore the state after it if it matters."""
        if self.matters is False:
            return body()
        if not self.matters:
            if self.first is None:
                self.first = FunctionState(call.model, call.root)
            return body()
        state = FunctionState(call.model, call.root)
        try:
            return body()
        finally:
            state.restore()

    def settle(self, names: list[str]) -> None:
        """Decide what matters: the state of these names, or none of it."""
        self.matters, self.names, self.first = bool(names), names, None
