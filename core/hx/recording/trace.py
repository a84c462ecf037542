"""Results of one recording: plain records, without the model that was recorded."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from typing import Any

import torch

from ..errors import Unsupported, Where
from ..findings import Finding, Missing
from ..graph.batchnorm import Folds
from ..ir.dialect import Dialect
from ..ir.escapes import Escape
from ..ir.recipe import Recipe
from ..ir.sizes.size_polynomials import Poly
from ..ir.value import Constant, Node, Value
from ..ir.work import Work
from .calls import compiled_calls
from .reads.questions import Question
from .rounds.round_marks import RoundMarks


@dataclass
class Effects:
    """Effects of the model in a recording, beside its outputs."""

    changed_buffers: list[str] = field(default_factory=list)
    changed_parameters: list[str] = field(default_factory=list)
    touched: list[str] = field(
        default_factory=list
    )  # parameters that were written to, or only seem so
    keeps: list[str] = field(default_factory=list)  # attributes: what it has for its next call
    script_attributes: set[tuple[Any, str]] = field(
        default_factory=set
    )  # set by scripts, by object
    drew: bool = True  # random numbers of torch, as far as is known
    drew_outside: bool = False  # random numbers of Python or NumPy
    still: bool = False  # every generator that can be asked is as it was before
    compiled: list[compiled_calls.Compiled] = field(
        default_factory=list
    )  # called out of sight, maybe
    size_in_text: bool = False  # the model formatted a size
    knows_sizes: bool = True  # Python code of the model may know a size of a tensor
    # Constants of converters that differ from what the target returned (used as an ordered set).
    wrong_constants: dict[str, None] = field(default_factory=dict)
    # In a dry run: copies of tensors over memory that PyTorch does not own, and where they came in.
    outside_tensors: list[tuple[Where, torch.Tensor]] = field(default_factory=list)

    @property
    def draws(self) -> bool:
        """Random numbers of torch may be in the results. Dropout in eval mode draws none."""
        return self.drew and not self.still

    def add(self, other: Effects) -> None:
        """Add the effects of a recording that is merged."""
        self.compiled += [each for each in other.compiled if each not in self.compiled]
        self.script_attributes |= other.script_attributes
        self.knows_sizes |= other.knows_sizes
        self.drew |= other.drew
        self.still &= other.still
        self.drew_outside |= other.drew_outside
        self.changed_buffers = sorted({*self.changed_buffers, *other.changed_buffers})
        self.changed_parameters = sorted({*self.changed_parameters, *other.changed_parameters})
        self.touched = sorted({*self.touched, *other.touched})
        self.keeps = sorted({*self.keeps, *other.keeps})


@dataclass
class Merged:
    """Additions of a merge to the graph of a recording."""

    members: list[Trace] = field(default_factory=list)  # recordings on data that lead there
    forced_members: list[Trace] = field(default_factory=list)  # and with answers that are not true
    loop_sizes: set[str] = field(default_factory=set)  # names of sizes that loops go over
    # Numbers of rounds of loops that follow from named sizes, used as an ordered set.
    loop_lengths: dict[Poly, None] = field(default_factory=dict)
    may_run_zero_times: bool = False  # a loop may, because data choose its length
    # Sizes beside which formulas that were fitted turn, by name.
    turns: dict[str, list[int]] = field(default_factory=dict)


@dataclass
class RecordedGraph:
    """The nodes, and what a merge and the file need to write more: see `Builder.over`."""

    nodes: list[Node]
    dialect: Dialect
    folds: Folds = field(default_factory=Folds)
    # Constants over memory that may be written to, by the storage of their tensor.
    constants: dict[int, list[weakref.ref[Constant]]] = field(default_factory=dict)
    round_marks: RoundMarks | None = None  # of a recording whose rounds may become loops
    _counted: tuple[int, Work] | None = field(default=None, init=False)  # work of so many nodes

    @property
    def work(self) -> Work:
        """The work of the nodes, which is counted once."""
        if self._counted is None or self._counted[0] != len(self.nodes):
            self._counted = len(self.nodes), Work(self.nodes)
        return self._counted[1]


@dataclass
class CallCounts:
    """Counts of calls by target, and whether a converter answered them."""

    converted: dict[str, int] = field(default_factory=dict)
    declined: dict[str, int] = field(default_factory=dict)
    # Keyed by pack, target, and whether the converter declined.
    by_pack: dict[tuple[str, str, bool], int] = field(default_factory=dict)
    missing: dict[str, Missing] = field(default_factory=dict)


@dataclass
class Trace:
    """Everything that one recorded run of the model produced."""

    recipe: Recipe
    graph: RecordedGraph
    inputs: list[tuple[str, Value]]
    outputs: list[tuple[str, Any]]  # flat name -> Value; None where nodes are not known
    escapes: dict[tuple, Escape] = field(default_factory=dict)  # by kind and line
    questions: list[Question] = field(default_factory=list)  # that Python answered, in their order
    calls: CallCounts = field(default_factory=CallCounts)
    results: list[Any] = field(default_factory=list)  # the model's own, one for each output
    structure: Any = None  # the model's result, without the contents of its tensors
    effects: Effects = field(default_factory=Effects)
    merged: Merged = field(default_factory=Merged)
    findings: list[Finding] = field(default_factory=list)
    classes: dict[str, str] = field(default_factory=dict)  # of modules, by path
    name: str = "model"
    is_recorded: bool = True  # else it stands for a file whose nodes are not known

    @property
    def nodes(self) -> list[Node]:
        return self.graph.nodes

    def check_constants(self) -> None:
        """Check for constants that were written to after they were read, and would be stored
        wrong.
        """
        for over_one_memory in self.graph.constants.values():
            for held in list(over_one_memory):
                constant = held()
                # Parameters and buffers, which have names, were put back: they hold again what the
                # reader saw.
                if constant is None or constant.name or not constant.used:
                    continue
                if constant.written():
                    raise Unsupported(
                        "a constant was written to after it was used",
                        why="the write happened where hx could not see it coming",
                        hint="write to a clone of it",
                    )
