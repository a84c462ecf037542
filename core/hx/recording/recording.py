"""Runs the model once and writes down what it does.

A call of the model arrives at one of three doors, and the outermost that knows it wins:

1. *callables*: module forwards and functions of other libraries, hooked by `patching`;
2. *torch functions*: seen through PyTorch's own override protocol (`doors.FunctionDoor`);
3. *ATen operators*: what runs beneath a torch function that nobody converts, and what reaches
   PyTorch from code that no other door can see (`doors.OperatorDoor`).

At each, a converter is asked. One that declines (returns NotImplemented) lets the original body
run, and the calls inside are asked instead. `routes` says which way a call takes.
"""

from __future__ import annotations

import functools
import sys
import threading
import weakref
from collections.abc import Callable, Iterable
from types import CodeType, FunctionType
from typing import Any

import torch

from ..errors import Unsupported, Where
from ..graph.batchnorm import Folds
from ..graph.builder import Builder
from ..graph.op import Op
from ..registration import Registration
from ..report import DETOURS, Escape, Missing
from ..sizes import dims, floats, leaving, lists
from ..sizes.asked import Asked
from ..tensors import accounts, dtypes, pairs, sparse
from ..tensors.holders import Holders
from ..tensors.liveness import COUNTED_LATER, Entry, Live, count, storage_key
from ..tensors.values import Constant, Origin, Value
from ..tensors.views import read_family
from ..weights.blend import Blend
from ..weights.slim import Slim
from ..world import carriers, patching, spellings
from . import heard, known
from .call import Arguments, quietly, tensors_in
from .choices import Choices
from .copies import Copies
from .origins import Frames
from .questions import Questions
from .raised import Raised

_local = threading.local()
# Where sizes are reckoned with on behalf of whoever called.
_CARRIERS = {
    module.__file__ for module in (carriers, dims, floats, leaving, lists, patching, spellings)
}


def current() -> Recording | None:
    return getattr(_local, "recording", None)


class Recording:
    """The state of one run: which values live, which nodes are written, what was noticed."""

    def __init__(
        self, choices: Choices, opset: int, guard: Any = None, slim: Slim | None = None
    ) -> None:
        self.builder = Builder(opset)
        self.builder.value_of, self.builder.kept = self.value_of, self.constant
        self.folds = Folds()
        self.choices = choices
        self.guard = guard
        self.slim = slim  # what is known of weights that are not there
        self.blend = Blend() if slim is not None and slim.hollow else None
        self.yes = heard.FIRST  # the questions of the model that are answered with yes
        self.asked: set[str] = set()  # those that it asked
        self.unnamed: list[FunctionType] = []  # what the model calls that no name leads to
        self.lost: set[CodeType] = set()  # in which a size became a plain number
        self.respelled: set[CodeType] = set()  # in whose place a copy ran
        self.dry = False  # nothing is going to be written: no contents are needed
        self.unfolded = self.counts = self.numbered = False  # see `Prepared`
        self.live = Live()
        self.frames = Frames()
        self.names: dict[int, str] = {}  # id of a parameter, buffer or attribute -> its name
        self.named: list[torch.Tensor] = []  # keeps those ids from being reused
        self.escapes: dict[tuple, Escape] = {}
        self.questions = Questions(self.builder.nodes, Op(self.builder))
        self.raised = Raised()
        self.missing: dict[str, Missing] = {}
        self.declined: dict[str, int] = {}
        self.decliners: dict[
            str, Registration
        ] = {}  # by the name that the call would be missing by
        self.converted: dict[str, int] = {}  # calls by target
        self.by_pack: dict[tuple[str, str, bool], int] = {}  # and by pack; True: declined
        self.notes: list[str] = []
        self.scopes: list[tuple[str, str]] = []
        self.model: Any = None
        self.modules: list[tuple[str, torch.nn.Module]] = []
        self.things: list[Any] = []  # what these have: `shallow.Thing`
        self.states: set[int] = set()  # ids of the attribute dicts of its modules
        self.holders = Holders()  # who holds the tensors that were there before
        # Those over memory that may be written to, by the tensor's storage.
        self.constants: dict[int, list[weakref.ref[Constant]]] = {}
        self.given: dict[str, torch.Tensor] = {}  # the inputs, as the model gets them
        self.copies = Copies()
        self.stacks: dict[tuple[int, ...], Value] = {}  # see `picked`, by the ids of the weights
        self.busy = False  # inside the engine, a converter, or a body that one speaks for
        self.aside = False  # inside such a body
        self.written: list[Any] = []  # families that the present call wrote to
        self.operators = 0  # how many ran beneath it under another name
        # The torch function whose operators are being asked.
        self.beneath: tuple[Any, Any] | None = None
        self.spelled = False  # whether a size was written in a text
        self.made_up: list[Any] = []  # operators whose decomposition runs
        self.reached: set[int] = set()  # ids of the tensors that these operators got
        self.sized = False  # whether that function was given a size that may vary
        self.operated: set[Where] = set()  # lines whose compiled code called operators
        self.sparse: dict[int, Any] = {}  # memory that sparse tensors hold
        self.exposed: dict[int, list[Any]] = {}  # what memory held as its address was given out
        self.arrays: list[torch.Tensor] = []  # those whose memory numpy has
        # In a dry run: tensors over memory that is not PyTorch's, as they were, and where they came in.
        self.brought: list[tuple[Where, torch.Tensor]] = []
        self.mistaken: dict[str, None] = {}  # constants that are not what the model had there
        self.seeded = False  # the model has seeded PyTorch's generator by itself
        self.own_draws = False  # a call was given a generator to draw from
        self.generators: dict[int, Any] = {}  # its own that it has seeded: see `seeds`
        self.made: list[torch.Generator] = []  # those that it made in this run
        self.unfilled = False  # compiled code got memory that it fills by itself
        self.actions: dict[Any, Callable] = {}
        self.opening: list[Any] = []
        self.script: Any = None  # what runs of TorchScript, which has lines and no frames
        self.set_by_scripts: set[tuple[Any, str]] = set()  # attributes of its objects
        self.wraps = False  # whether some tensors of the model hold others
        self.doors: tuple[Any, ...] = ()  # those of torch

    def let_go(self) -> None:
        """Breaks the circles in it, when all is written: what it holds, weights among it, goes
        with the last name of it then, and waits for no collector of garbage."""
        self.doors = ()
        self.live.let_go()
        self.builder.let_go()
        self.holders = Holders()  # the model and its attributes are in it
        self.guard, self.copies, self.constants, self.things = None, Copies(), {}, []
        self.stacks = {}
        del self.folds

    # Values.

    def value_of(self, tensor: torch.Tensor) -> Value:
        """The value that a real tensor stands for."""
        entry = self.live.entries.get(id(tensor))
        if entry is not None and entry() is not tensor:
            entry = None
        if self.exposed:
            accounts.unwritten(self, tensor)
        if entry is None:
            entry = self.account(tensor)
        else:
            if entry.version == COUNTED_LATER:
                count(entry, tensor)  # before this call writes once more
            if self.copies.doubted:
                self.copies.read(self, entry)
        if entry.generation != entry.family.generation:
            return self.live.read(entry, functools.partial(read_family, self))
        return entry.value

    def constant(
        self, tensor: torch.Tensor, name: str = "", storage: int | None = None
    ) -> Constant:
        """A constant over a tensor's memory, whose key is `storage` where the caller has it."""
        if tensor.is_meta:
            return self._elsewhere(tensor, name)
        if self.blend is not None:
            self.blend.require([tensor], "a constant")
        if tensor.layout is not torch.strided or tensor.is_nested:
            return sparse.constant(self, tensor, name)
        # Another name for the same memory: what is known of a tensor must not keep it alive.
        dequantized = tensor.is_quantized
        with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
            if dequantized:
                tensor = tensor.dequantize()
            else:
                there = self.guard.same_memory(tensor) if name and self.guard is not None else None
                tensor = tensor.detach() if there is None else there
            made = self.builder.constant(tensor, name)
        if not name and _is_corner(tensor):
            made.freeze()  # a view would keep all of the memory that it shows a corner of
        else:
            key = storage_key(tensor) if storage is None or dequantized else storage
            held = self.constants.setdefault(key, [])
            held.append(weakref.ref(made, held.remove))
        return made

    def of_array(self, array: Any) -> tuple[torch.Tensor | None, Value]:
        """The value of an array of numpy's among arguments."""
        taken = getattr(array, "taken", None)
        if taken is not None:
            self._not_taken("item", taken)
        with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
            return accounts.of_array(self, array)

    def of_list(self, items: lists.Whole, whole: bool) -> Value | None:
        """The value of a list that is used as one tensor; one used otherwise is told of."""
        value = None
        if whole and items.formula is not None and items.same():
            if items.left is not None:
                self._not_taken(items.left[0], items.taken)
            value = items.formula(Op(self.builder))
        elif items.left is not None:
            kind, detail, asked = items.left
            self.escape(kind, detail, asked=asked)
        return value

    def _not_taken(self, kind: str, taken: tuple[Any, int, int]) -> None:
        """Takes back what was told as the call that runs, on its way here, looked at a list, or an
        array."""
        code, step, count = taken
        frame, where = self.frames.user(), self.where()
        if frame is None or (frame.f_code, frame.f_lasti) != (code, step):
            return
        key = (kind, where.file, where.line)
        found = self.escapes.get(key)
        if found is not None:
            found.count -= count
            if found.count <= 0:
                del self.escapes[key]

    def _elsewhere(self, tensor: torch.Tensor, name: str) -> Constant:
        """A tensor without contents: they are elsewhere, or the graph cannot have it."""
        content = None if self.slim is None else self.slim.content(tensor)
        if content is None and not self.dry:
            what = f"the tensor {name!r}" if name else f"a tensor of shape {list(tensor.shape)}"
            raise Unsupported(
                f"{what} has a shape and no contents: it is on the meta device, and no weights "
                "are known for it",
                hint="make it on the CPU, or as a parameter or buffer that the weights have",
            )
        with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
            return self.builder.absent(tensor.detach(), content, name)

    def written_constant(self, tensor: torch.Tensor) -> Constant:
        """What a constant holds after a write; a buffer is put back when the recording ends."""
        made = self.constant(tensor)
        made.freeze()
        return made

    def as_output(self, x: Any) -> Value:
        """A result of the model as a value: tensors are, numbers and sizes become scalars."""
        if isinstance(x, Value):
            return pairs.pair(Op(self.builder), x) if x.dtype in dtypes.COMPLEX else x
        kind = (
            torch.bool
            if isinstance(x, bool)
            else torch.int64
            if isinstance(x, int)
            else torch.float32
        )
        return self.builder.number(x, kind)

    def name_tensor(self, tensor: torch.Tensor, name: str) -> None:
        """A tensor that was there before the recording: a parameter, buffer or attribute."""
        if id(tensor) not in self.names:
            self.names[id(tensor)] = name
            self.named.append(tensor)

    def account(self, tensor: torch.Tensor) -> Entry:
        """The entry of a tensor that no recorded call returned, if its origin is known."""
        entry = accounts.account(self, tensor)
        if self.live.around is not None:
            self.live.around.add(entry.family)
        return entry

    # Where we are.

    def where(self) -> Where:
        scope = self.scopes[-1][0] if self.scopes else ""
        if self.script is not None and (place := self.script.place()) is not None:
            return Where(place.file, place.line, scope)
        frame = self.frames.user(2)
        if frame is None:
            return Where("", 0, scope)
        return Where(frame.f_code.co_filename, frame.f_lineno, scope, frame.f_code.co_name)

    def tally(self, choice: Registration, declined: bool = False) -> None:
        """One more call that a converter spoke for, or declined to."""
        calls = self.declined if declined else self.converted
        calls[choice.target] = calls.get(choice.target, 0) + 1
        key = choice.pack, choice.target, declined
        self.by_pack[key] = self.by_pack.get(key, 0) + 1

    def origin(self, target: str, pack: str) -> Origin:
        # Not the line that asked for the export: a model is the same wherever that is done.
        scope, module = self.scopes[-1] if self.scopes else ("", "")
        if self.script is not None and (place := self.script.place()) is not None:
            return Origin(target, pack, scope, module, place.file, place.line)
        frame = self.frames.inside(3)
        if frame is None:
            return Origin(target, pack, scope, module, "", 0)
        code = frame.f_code
        return Origin(target, pack, scope, module, code.co_filename, frame.f_lineno, code.co_name)

    def escape(
        self, kind: str, detail: str, where: Where | None = None, asked: Iterable[Asked] = ()
    ) -> Where:
        """A traced value left the graph; `asked` is what that decided, where it was a size."""
        where = where or self.where()
        key = (kind, where.file, where.line)
        found = self.escapes.get(key)
        if found is None:
            found = self.escapes[key] = Escape(kind, where, detail)
            if kind in DETOURS and (frame := self.frames.called()) is not None:
                code = frame.f_code
                found.through = Where(code.co_filename, code.co_firstlineno, where.scope)
        else:
            found.count += 1
        asked = tuple(asked)
        found.asked.update(dict.fromkeys(asked))
        if asked and self.builder.lengths is not None:
            self.builder.lengths.ask(asked)
        return where

    def size_left(self, kind: str, detail: str, *asked: Asked) -> bool | None:
        """Notes it; gives what the model hears, if that is another answer than is true."""
        if kind is leaving.ROUND:
            if self.builder.lengths is not None:
                self.builder.lengths.begin()
            return None
        if kind is leaving.TEXT:
            self.spelled |= not (self.busy or self.aside)
            return None
        # PyTorch's own checks compare sizes all the time; a branch is one in the model's code. But
        # a plain number that it makes of a size is as lost as the model's, unless a converter
        # speaks for the call.
        if self.aside:
            return None  # in a body that a converter speaks for: what it asks changes no graph
        frame = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename in _CARRIERS:
            frame = frame.f_back  # type: ignore[assignment]
        spoken = kind in ("branch", "lookup") or self.busy
        if frame is None or (spoken and self.frames.machinery(frame.f_code)):
            return None
        where = self.escape(kind, detail, asked=asked)
        if kind != "branch":
            self.lost.add(frame.f_code)
        if kind == "branch" and len(asked) == 1:
            return self.questions.sizes(self.builder.nodes, where, asked[0])
        return None

    # Calls.

    def runner(self, key, func, args, kwargs, given: Arguments) -> Callable[[], Any]:
        """What runs the call itself, where the doors of torch are shut."""

        def run():
            if known.writes(key, func, args, kwargs):
                self.before_write(args, kwargs)
            outer, self.aside = self.aside, True
            try:
                return self.really(func, args, kwargs)
            finally:
                self.aside = outer

        return run

    def quietly(self, func, args, kwargs) -> Any:
        """Runs a body whose inner calls are not recorded."""
        return quietly(lambda: self.really(func, args, kwargs))

    def really(self, func, args, kwargs) -> Any:
        """The call itself, where the doors of torch are shut; on shapes alone, if there is no more."""
        if self.blend is not None:
            return self.blend.quietly(func, args, kwargs)
        return func(*args, **kwargs)

    def before_write(self, args, kwargs) -> None:
        """Keeps what readers of a constant saw, before its memory changes."""
        written = [args[0]] if args else []
        written.append(kwargs.get("out"))
        for _, tensor in tensors_in(written):
            key = storage_key(tensor)
            sparse.require_unheld(self, tensor, key)
            for held in list(self.constants.get(key, ())):
                constant = held()
                if constant is not None:
                    constant.freeze()
            if self.guard is not None:
                self.guard.before_write(tensor)


def _is_corner(tensor: torch.Tensor) -> bool:
    if tensor.is_meta or tensor.layout != torch.strided:
        return False
    return 4 * tensor.numel() * tensor.element_size() < tensor.untyped_storage().nbytes()
