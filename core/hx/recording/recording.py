"""One run of the model that hx records.

A call of the model arrives at one of three doors, and the outermost that knows it wins:

1. *callables*: module forwards and functions of other libraries, hooked by `patching`;
2. *torch functions*: seen through PyTorch's own override protocol (`doors.FunctionDoor`);
3. *ATen operators*: what runs beneath a torch function that nobody converts, and what reaches
   PyTorch from code that no other door can see (`doors.OperatorDoor`).

At each door a converter is asked. If it declines (returns NotImplemented), the original body runs,
and the calls inside are asked instead. `routes` decides which way a call takes.

This module holds the state alone; the functions around it are in the modules of their theme.
"""

from __future__ import annotations

import threading

from ..graph.batchnorm import Folds
from ..graph.builder import Builder
from ..graph.op import Op
from .calls.choices import Choices
from .reads.questions import Questions
from .records import (
    CodeMet,
    Draws,
    Findings,
    HolderPaths,
    Memory,
    ModelParts,
    Position,
    Running,
    Switches,
    Tallies,
)

_local = threading.local()


def current() -> Recording | None:
    """The recording of this thread, while a model runs in one."""
    return getattr(_local, "recording", None)


class Recording:
    """The state of one recording: the graph so far, and a record for each theme."""

    def __init__(
        self,
        choices: Choices,
        builder: Builder,
        switches: Switches | None = None,
        model: ModelParts | None = None,
    ) -> None:
        self.choices = choices
        self.builder = builder
        self.switches = switches or Switches()
        self.model = model or ModelParts()
        self.folds = Folds()
        self.questions = Questions(builder.nodes, Op(builder))
        self.memory = Memory()
        self.findings = Findings()
        self.tallies = Tallies()
        self.code = CodeMet()
        self.position = Position()
        self.draws = Draws()
        self.running = Running()

    def let_go(self) -> None:
        """Break the reference cycles when the trace is complete.

        What only the recording holds is then freed with it, without a garbage collection.
        """
        self.running.doors = ()
        self.builder.end_recording()
        memory, model = self.memory, self.model
        memory.live.let_go()
        memory.possible_copies, memory.doubted = [], {}
        model.holders = HolderPaths()  # the model and its attributes are in it
        model.guard, model.attributes, model.stacked_weights = None, [], {}
