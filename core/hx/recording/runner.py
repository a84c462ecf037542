"""Runs of the model on other inputs; its state is as before after each of them."""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Callable
from types import CodeType
from typing import Any, TypeAlias, TypeVar

import torch

from ..cleanup import run_inside
from ..errors import HxError, ModelFailed, Unsupported
from ..ir.recipe import Recipe
from ..ir.request import Inputs
from ..packs import nesting
from ..packs.pack_findings import brief, where_raised
from ..tensor_bytes import as_tensor
from ..torchworld.modes import modes
from ..torchworld.modes.line_limit import LineLimit, OutOfLines, RunGivenUp
from ..torchworld.modes.meta_tensors import Filled, OnTheCPU
from ..torchworld.modes.run_mode import NothingCompiled, RunMode, in_a_mode
from . import layers, torchscript
from .call_model import call_model
from .origins import is_machinery
from .prepare import arguments
from .recorder import Recorder
from .runs import other_generators
from .runs.cpu_stand_ins import on_the_cpu
from .runs.known_results import Key, Raised, Ran, Returned, Unfinished
from .runs.run_limits import line_limit, times_as_much
from .trace import Trace

Feeds: TypeAlias = Inputs
T = TypeVar("T")


@dataclasses.dataclass
class ModelRunner:
    """Runs of one model, as its recipe calls it."""

    recorder: Recorder
    recipe: Recipe
    trace: Trace
    gave_up: bool = False  # on some inputs, for which the model may never end
    stirred: int = 0  # random states outside of torch that runs began with

    @classmethod
    def of(cls, recorder: Recorder, trace: Trace) -> ModelRunner:
        return cls(recorder, trace.recipe, trace)

    def known(self, feeds: Feeds) -> Ran:
        """Return what the model gives, from an earlier run on equal inputs where there was one.

        Where the run matters, and not only its results, `run` makes a new one.
        """
        counted = self._limit() is not None
        key = self.key(feeds, counted)
        found = self.recorder.known.find(key)
        if found is None:
            found = self.run(feeds)
            self.recorder.known.add(key, found)
        self.gave_up |= isinstance(found, Unfinished)
        return found

    def known_results(self, feeds: Feeds) -> list[Any]:
        """Return the flat outputs that are `known`, or raise the model's error."""
        found = self.known(feeds)
        return found.results if isinstance(found, Returned) else self.results(feeds)

    def run(self, feeds: Feeds, seed: int | None = None, tap: RunMode | None = None) -> Ran:
        """Run the model; `tap` is entered around it. Errors of hx itself are raised."""
        limit = self._limit()
        try:
            return Returned(self._run(feeds, seed, tap, limit), 0 if limit is None else limit.lines)
        except RunGivenUp:
            self.gave_up = True
            return Unfinished()
        except HxError:
            raise
        except Exception as problem:
            return Raised(problem)

    def results(
        self, feeds: Feeds, seed: int | None = None, tap: RunMode | None = None
    ) -> list[Any]:
        """Return the model's flat outputs, or raise its error: of inputs like known ones."""
        try:
            return self._run(feeds, seed, tap, line_limit(self.trace, gave_up=False))
        except OutOfLines:
            raise Unsupported(
                "the model does not finish on inputs like the recorded ones"
            ) from None
        except HxError:
            raise
        except Exception as problem:  # the model's own error, of any kind
            raise ModelFailed(
                f"the model ran once, and raises {brief(problem)} when it runs again",
                where=where_raised(problem),
                why="it keeps something from call to call that hx cannot put back, or reads a clock",
                hint="let each call begin anew: make iterators, generators and files in forward",
            ) from problem

    def twice(self, feeds: Feeds) -> tuple[list[Any], list[Any]]:
        """Return the outputs of two runs on equal inputs."""
        return self.results(feeds), self.results(feeds)

    def in_a_row(self, function: Callable[[Callable[[Feeds], list[Any]]], T]) -> T:
        """Call a function with one that runs the model; only then restore the model's state."""
        return self._restored(lambda: function(lambda feeds: self._once(feeds, self._limit())))

    def code_run(self) -> set[CodeType]:
        """Return the code that runs on the recorded inputs: the model's, and its libraries'."""
        found: set[CodeType] = set()
        before = sys.getprofile()
        sys.setprofile(lambda frame, event, _: found.add(frame.f_code) if event == "call" else None)
        try:
            ran = self.run(dict(self.recipe.inputs))
        finally:
            sys.setprofile(None)
            if callable(before):
                sys.setprofile(before)
            elif before is not None:
                before.enable()  # that of cProfile, which is no function
        return {c for c in found if not is_machinery(c)} if isinstance(ran, Returned) else set()

    def on_cpu(self) -> ModelRunner | None:
        """Return the runner of a copy on the CPU, for a model on a GPU that runs there, too."""
        there = self.recorder.stand_ins.of(self.recipe)
        return None if there is None else dataclasses.replace(self, recipe=there)

    def results_on_cpu(self, feeds: Feeds, seed: int | None = None) -> list[Any] | None:
        """Return what the copy on the CPU gives; None if there is no copy, or it is too slow."""
        copied = self.on_cpu()
        found = None if copied is None else copied.run(on_the_cpu(feeds), seed)
        if isinstance(found, Raised):
            raise found.error
        return found.results if isinstance(found, Returned) else None

    def key(self, feeds: Feeds, counted: bool = False) -> Key | None:
        """Return the key of known results; None where equal inputs may have others."""
        merged = self.trace.merged
        recorded = (self.trace, *merged.members, *merged.forced_members)
        draws = not all(each.effects.still for each in recorded)
        settled = self.recorder.carried.matters is not None
        if draws or not settled or in_a_mode():  # a mode may see the run
            return None
        return self.recorder.known.key(self.recipe.call, counted, feeds)

    def _limit(self) -> LineLimit | None:
        return line_limit(self.trace, self.gave_up)

    def _run(
        self,
        feeds: Feeds,
        seed: int | None,
        tap: RunMode | None,
        limit: LineLimit | None,
    ) -> list[Any]:
        if self._are_made(feeds):
            self.results_on_cpu(feeds, seed)  # raises what might break the GPU

        def answer() -> list[Any]:
            if seed is not None:
                torch.random.default_generator.manual_seed(seed)
            return self._once(feeds, limit, tap)

        return self._restored(answer)

    def _are_made(self, feeds: Feeds) -> bool:
        """Return True unless the model is known to take these inputs."""
        known = self.recipe.inputs
        return any(name not in known or known[name] is not tensor for name, tensor in feeds.items())

    def _restored(self, function: Callable[[], T]) -> T:
        """Call a function that runs the model, in one thread; restore the state and scripts after it.

        With one thread, sums are the same on any machine.
        """

        def call() -> T:
            torch.set_num_threads(1)  # the guard restores this
            return function()

        effects = self.trace.effects
        # Nothing sees the writes of this run, so the guard copies what the recording saw written.
        guard = self.recorder.guard_of(self.recipe.call.root, effects.touched)
        guard.draws.seen = effects.drew
        scripts = torchscript.as_it_was(effects.script_attributes)
        return self.recorder.carried.run(
            self.recipe.call,
            lambda: run_inside(
                self.recorder.without_weights(),
                lambda _: run_inside(guard, lambda _: run_inside(scripts, lambda _: call())),
            ),
        )

    def _once(self, feeds: Feeds, limit: LineLimit | None, tap: RunMode | None = None) -> list[Any]:
        """Call the model once; weights stored elsewhere are read as operators need them."""
        slim = self.recorder.slim
        self.recorder.spending.run(times_as_much(self.trace, feeds))
        if slim is None or not slim.absent:
            return self._called(feeds, limit, tap)
        with Filled(slim) as filled, OnTheCPU(filled):
            return [
                torch.ops.aten.clone(leaf) if isinstance(leaf, torch.Tensor) else leaf
                for leaf in self._called(feeds, limit, tap)
            ]

    def _called(self, feeds: Feeds, limit: LineLimit | None, tap: RunMode | None) -> list[Any]:
        call, outputs = self.recipe.call, self.recorder.outputs
        copies = {k: t.detach().clone() for k, t in feeds.items()}
        args, kwargs = arguments(call, copies)
        asked: dict[str, Any] = {}
        torch._C._set_grad_enabled(False)  # the guard restores this and the hooks
        if self.trace.effects.drew_outside:
            self.stirred += 1
            other_generators.stir(self.stirred)
        for path in outputs or ():
            call.root.get_submodule(path).register_forward_hook(
                lambda m, i, o, path=path: asked.__setitem__(path, nesting.replace(o, _copied))
            )

        def answer(_: Any = None) -> Any:
            return modes.theirs(lambda: call_model(call.model, args, kwargs))

        around = NothingCompiled() if tap is None and in_a_mode() else tap
        # PyTorch does not check the indices of sparse tensors by default, and indices that are too large
        # write past the tensor's memory. Inputs that hx made may lead to such indices.
        invariants = torch.sparse.check_sparse_tensor_invariants
        made = self._are_made(feeds)
        checked: Any = invariants() if made else contextlib.nullcontext()
        with limit or contextlib.nullcontext(), checked:
            result = answer() if around is None else run_inside(around, answer)
        if outputs:
            layers.require_run(outputs, asked)
            result = {path: asked[path] for path in outputs}
        found = [as_tensor(leaf) for _, leaf in nesting.leaves(result)]
        return [
            leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf
            for leaf in found
            if isinstance(leaf, (torch.Tensor, bool, int, float))
        ]


def _copied(name: str, leaf: Any) -> Any:
    return leaf.clone() if isinstance(leaf, torch.Tensor) else leaf
