"""The state of one recording, by theme: plain records that the functions of the recording fill.

`Recording` in `recording.py` holds one of each.
"""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any

import torch

from ..errors import Where
from ..findings import Finding, Missing
from ..ir.escapes import Escape
from ..ir.recipe import STANDARD, Answers, Line
from ..ir.value import Constant, Origin, Value
from ..registration import Registration
from ..torchworld.modes.absent_weights import Slim
from ..torchworld.modes.meta_tensors import Blend
from .memory.live_tensors import Entry, Family, Live, PossibleCopy
from .origins import Frames
from .reads.caught_exceptions import Raised
from .rounds.known_lengths import KnownLengths


@dataclasses.dataclass(frozen=True, slots=True)
class Switches:
    """Settings that the recipe makes for this recording."""

    answered_yes: Answers = STANDARD  # the model's questions about tracing
    dry: bool = False  # no file is written: contents of tensors are not needed
    unfolded: bool = False  # nodes for what follows from zeros that the model makes
    counts: bool = False  # nodes for what follows from a number that the model turns into a tensor
    numbered: bool = False  # the number of each round is a value of the graph
    selects: bool = False  # both sides of Ifs in loops are computed


@dataclasses.dataclass(slots=True)
class Memory:
    """The values of tensors, and the memory that tensors share."""

    live: Live = dataclasses.field(default_factory=Live)
    lengths: KnownLengths = dataclasses.field(default_factory=KnownLengths)
    # Calls that may copy or not, and tensors that may hold something else at other sizes.
    possible_copies: list[PossibleCopy] = dataclasses.field(default_factory=list)
    doubted: dict[int, tuple[Entry, Where]] = dataclasses.field(default_factory=dict)
    # Constants over memory that may be written to, by the storage of their tensor.
    constants: dict[int, list[weakref.ref[Constant]]] = dataclasses.field(default_factory=dict)
    sparse_storages: dict[int, Any] = dataclasses.field(default_factory=dict)
    # Contents of tensors when the address of their memory was given out, by storage.
    exposed: dict[int, list[Any]] = dataclasses.field(default_factory=dict)
    numpy_tensors: list[torch.Tensor] = dataclasses.field(default_factory=list)
    # In a dry run: copies of tensors over memory that PyTorch does not own, and where they came in.
    outside_tensors: list[tuple[Where, torch.Tensor]] = dataclasses.field(default_factory=list)
    written_families: list[Family] = dataclasses.field(default_factory=list)  # by this call
    unfilled: bool = False  # compiled code allocated memory that only it fills
    has_wrappers: bool = False  # some tensors of the model hold other tensors


@dataclasses.dataclass(slots=True)
class HolderPaths:
    """Paths to things that the model and its globals hold (see `memory.tensor_holders`).

    They are kept as ids, so that nothing lives longer for them. A later walk along such a path
    begins at an end that surely is there, and meets only what is held then.
    """

    above: dict[int, int] = dataclasses.field(default_factory=dict)  # id of a thing -> its holder's
    ends: dict[int, Any] = dataclasses.field(default_factory=dict)  # all below was there before
    near: set[str] = dataclasses.field(default_factory=set)  # modules whose classes are searched


@dataclasses.dataclass(slots=True)
class ModelParts:
    """The model and what it had before the recording."""

    function: Any = None  # the callable: the model, or code that replaces it
    modules: list[tuple[str, torch.nn.Module]] = dataclasses.field(default_factory=list)
    attributes: list[Any] = dataclasses.field(default_factory=list)  # of modules: `shallow.Thing`
    attribute_dicts: set[int] = dataclasses.field(default_factory=set)  # ids
    holders: HolderPaths = dataclasses.field(default_factory=HolderPaths)
    names: dict[int, str] = dataclasses.field(default_factory=dict)  # by id of the tensor
    # Keeps the ids in `names` from being reused.
    named_tensors: list[torch.Tensor] = dataclasses.field(default_factory=list)
    inputs: dict[str, torch.Tensor] = dataclasses.field(default_factory=dict)
    # Weights of several layers in one constant (see `picked`), by the ids of these weights.
    stacked_weights: dict[tuple[int, ...], Value] = dataclasses.field(default_factory=dict)
    guard: Any = None  # restores the state of the model
    slim: Slim | None = None  # weights that are stored elsewhere
    blend: Blend | None = None  # runs calls on such weights on shapes alone

    def searched(self) -> tuple[Any, list[torch.nn.Module], list[Any]]:
        """The function, modules and attributes that are searched for things to hook."""
        return self.function, [module for _, module in self.modules], self.attributes

    def name_tensor(self, tensor: torch.Tensor, name: str) -> None:
        """Name a tensor that existed before the recording; the first name counts."""
        if id(tensor) not in self.names:
            self.names[id(tensor)] = name
            self.named_tensors.append(tensor)


@dataclasses.dataclass(slots=True)
class Findings:
    """Findings for the user about this recording."""

    escapes: dict[tuple, Escape] = dataclasses.field(default_factory=dict)
    missing: dict[str, Missing] = dataclasses.field(default_factory=dict)
    messages: list[Finding] = dataclasses.field(default_factory=list)
    raised: Raised = dataclasses.field(default_factory=Raised)
    # Constants of converters that differ from what the target returned (used as an ordered set).
    wrong_constants: dict[str, None] = dataclasses.field(default_factory=dict)
    operator_lines: set[Where] = dataclasses.field(default_factory=set)  # of compiled code
    script_attributes: set[tuple[Any, str]] = dataclasses.field(
        default_factory=set
    )  # that were set
    size_in_text: bool = False  # the model formatted a size
    tracing_questions: set[str] = dataclasses.field(default_factory=set)  # that the model asked


@dataclasses.dataclass(slots=True)
class Tallies:
    """Counts of the calls that each converter answered."""

    converted: dict[str, int] = dataclasses.field(default_factory=dict)  # by target
    declined: dict[str, int] = dataclasses.field(default_factory=dict)  # by target
    # The last converter that declined, by the name under which the call would be missing.
    decliners: dict[str, Registration] = dataclasses.field(default_factory=dict)
    # Keyed by pack, target, and whether the converter declined.
    by_pack: dict[tuple[str, str, bool], int] = dataclasses.field(default_factory=dict)

    def count(self, choice: Registration, declined: bool = False) -> None:
        calls = self.declined if declined else self.converted
        calls[choice.target] = calls.get(choice.target, 0) + 1
        key = choice.pack, choice.target, declined
        self.by_pack[key] = self.by_pack.get(key, 0) + 1


@dataclasses.dataclass(slots=True)
class CodeMet:
    """Code of the model that ran."""

    unnamed_functions: list[FunctionType] = dataclasses.field(default_factory=list)
    selectable: dict[Line, bool] = dataclasses.field(default_factory=dict)  # Ifs in loops
    lost_sizes: set[CodeType] = dataclasses.field(default_factory=set)  # a size became a number
    respelled: set[CodeType] = dataclasses.field(default_factory=set)  # a rewritten copy ran


@dataclasses.dataclass(slots=True)
class Position:
    """The place in the model's code that runs now."""

    frames: Frames = dataclasses.field(default_factory=Frames)
    scopes: list[tuple[str, str]] = dataclasses.field(default_factory=list)  # modules that run
    script: Any = None  # the TorchScript that runs, which has lines and no frames

    def where(self) -> Where:
        """The user's line that runs."""
        scope = self.scopes[-1][0] if self.scopes else ""
        if self.script is not None and (place := self.script.place()) is not None:
            return Where(place.file, place.line, scope)
        frame = self.frames.user(2)
        if frame is None:
            return Where("", 0, scope)
        return Where(frame.f_code.co_filename, frame.f_lineno, scope, frame.f_code.co_name)

    def origin(self, target: str, pack: str) -> Origin:
        """The origin of nodes written now for a call of `target`.

        It leaves out the line that asked for the export: the file of a model is the same wherever
        it is exported.
        """
        scope, module = self.scopes[-1] if self.scopes else ("", "")
        if self.script is not None and (place := self.script.place()) is not None:
            return Origin(target, pack, scope, module, place.file, place.line)
        frame = self.frames.inside(3)
        if frame is None:
            return Origin(target, pack, scope, module, "", 0)
        code = frame.f_code
        return Origin(target, pack, scope, module, code.co_filename, frame.f_lineno, code.co_name)


@dataclasses.dataclass(slots=True)
class Draws:
    """Random numbers that the model draws with PyTorch."""

    seeded: bool = False  # the model seeded PyTorch's default generator
    own_generator: bool = False  # a call drew from a generator of its own
    seeded_generators: dict[int, Any] = dataclasses.field(default_factory=dict)  # by id
    new_generators: list[torch.Generator] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(slots=True)
class Running:
    """The call that runs now, and the doors that see the calls inside it."""

    doors: tuple[Any, ...] = ()
    actions: dict[Any, Callable] = dataclasses.field(default_factory=dict)  # by key and door
    busy: bool = False  # inside hx or a converter, or in a body that a converter answers for
    covered: bool = False  # inside such a body
    opened: list[Any] = dataclasses.field(default_factory=list)  # functions whose body runs
    decomposing: list[Any] = dataclasses.field(default_factory=list)  # operators
    # The torch function without a converter whose ATen operators are asked, and its key.
    asked_function: tuple[Any, Any] | None = None
    given_sizes: bool = False  # a size that may vary is among its arguments
    operators: int = 0  # that ran under another name
    told: bool = False  # the model may have learnt a size: some call gave it more than a tensor
    reached: set[int] = dataclasses.field(default_factory=set)  # ids of the tensors they got
