"""Trials of sizes: which axes of one call may change, and which of them only together.

The model runs on inputs that are one larger. A bounded number of runs decides, and what no run was
left for stays fixed. The proof of the file has the last word.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

import torch

from ..budget import BUDGET
from ..errors import HxError, is_environment_error
from ..ir.dynamic_axes import Axes
from ..ir.proposed_sizes import Axis, Proposal, names_for, proposal_of
from ..ir.recipe import Recipe
from ..ir.sizes.comparisons import At
from ..recording.runner import ModelRunner
from ..recording.runs.known_results import Returned
from ..samples.sizes import at, sizes_of


def tried_sizes(runner: ModelRunner) -> Proposal:
    """Return the axes of the recorded inputs that the model accepts at other sizes."""
    trials = _Trials(runner)
    by_size: dict[int, list[Axis]] = {}
    for name, tensor in runner.recipe.inputs.items():
        for axis, n in enumerate(tensor.shape):
            by_size.setdefault(n, []).append((name, axis))
    groups: list[list[Axis]] = []
    steps: dict[Axis, int] = {}
    for n, axes in by_size.items():
        groups += _of_one_size(trials, axes, n)
    for place in _spatial(runner.recipe.inputs):
        n = runner.recipe.inputs[place[0]].shape[place[1]]
        if not any(place in group for group in groups):
            step = _step(trials, place, n)
            if step:
                steps[place] = step
                groups.append([place])
    return _named(groups, steps, runner.recipe.inputs)


def _named(
    groups: list[list[Axis]], steps: Mapping[Axis, int], inputs: Mapping[str, torch.Tensor]
) -> Proposal:
    order = {axis: i for i, axis in enumerate(_all_axes(inputs))}
    groups = sorted(sorted(group, key=order.__getitem__) for group in groups)
    groups.sort(key=lambda group: order[group[0]])
    names = names_for(groups, {name: tensor.shape for name, tensor in inputs.items()})
    return proposal_of(
        {
            f"{name}%{steps[group[0]]}" if group[0] in steps else name: group
            for name, group in zip(names, groups)
        }
    )


def _all_axes(inputs: Mapping[str, torch.Tensor]) -> list[Axis]:
    return [(name, axis) for name, tensor in inputs.items() for axis in range(tensor.dim())]


def _spatial(inputs: Mapping[str, torch.Tensor]) -> list[Axis]:
    """Return the axes of pictures and volumes, whose sizes many models halve again and again."""
    return [
        (name, axis)
        for name, tensor in inputs.items()
        if tensor.dim() in (4, 5) and tensor.is_floating_point()
        for axis in range(2, tensor.dim())
    ]


def _by_axis(axes: Iterable[Axis]) -> list[list[Axis]]:
    """Group axes by their number: the first axes of several inputs often belong together."""
    found: dict[int, list[Axis]] = {}
    for name, axis in axes:
        found.setdefault(axis, []).append((name, axis))
    return list(found.values())


def _of_one_size(trials: _Trials, axes: Sequence[Axis], n: int) -> list[list[Axis]]:
    """Return groups among axes of one size: of several inputs together, alone, or all together."""
    groups: list[list[Axis]] = []
    left = list(axes)
    for group in _by_axis(axes):
        if len(group) > 1 and trials.accept(dict.fromkeys(group, n + 1)):
            groups += _apart(trials, group, n)
            left = [axis for axis in left if axis not in group]
    alone = [axis for axis in left if trials.accept({axis: n + 1})]
    groups += [[axis] for axis in alone]
    left = [axis for axis in left if axis not in alone]
    if len(_by_axis(left)) > 1 and trials.accept(dict.fromkeys(left, n + 1)):
        groups.append(left)
    return groups


def _apart(trials: _Trials, group: list[Axis], n: int) -> list[list[Axis]]:
    """Return the axes each alone that may differ from the others of their group, and the rest.

    The others have no size of 1 meanwhile, which may only be broadcast. Of many inputs, such as
    the keys and values of all layers, the first speaks for all.
    """
    asked = group if len(group) <= 4 else group[:1]
    ways = [(n + 1, n + 2), (n + 2, n + 1)]  # larger than the others, and smaller
    alone = [
        axis
        for axis in asked
        if all(
            trials.accept({**dict.fromkeys(group, more), axis: own}, hiding=True)
            for more, own in ways
        )
    ]
    rest = [axis for axis in group if axis not in alone]
    return [*([axis] for axis in alone), *([rest] if rest else [])]


def _step(trials: _Trials, axis: Axis, n: int) -> int:
    """Return the number whose multiples a size may be, or 0."""
    steps = (step for step in (2, 4, 8, 16, 32, 64) if n % step == 0)
    return next((step for step in steps if trials.accept({axis: n + step})), 0)


class _Trials:
    """Runs of the model at other sizes, of which there are only so many."""

    def __init__(self, runner: ModelRunner) -> None:
        self.runner = runner
        work = runner.trace.graph.work.at(At(sizes_of(runner.recipe)))
        heavy = work > BUDGET.work.longer_run
        self.left = BUDGET.proposals.trials // 4 if heavy else BUDGET.proposals.trials

    def accept(self, sizes: Mapping[Axis, int], hiding: bool = False) -> bool:
        """Return True if the model runs where these axes have other sizes.

        With `hiding`, it has to run with masks that hide something as well: a mask that hides
        nothing may be ignored, whatever its sizes are.
        """
        if self.left <= 0:
            return False
        self.left -= 1
        recipe, wanted = _renamed(self.runner.recipe, sizes)
        first, second = at(recipe, wanted), at(recipe, wanted, counted=False)
        ran = self._runs(first)
        if not ran and any(not _equal(first[key], second[key]) for key in first):
            first, ran = second, self._runs(second)
        masks = {key: _hiding(tensor) for key, tensor in first.items() if _hides_nothing(tensor)}
        return ran and (not (hiding and masks) or self._runs({**first, **masks}))

    def _runs(self, feeds: dict[str, torch.Tensor]) -> bool:
        try:
            return isinstance(self.runner.run(feeds), Returned)
        except HxError as problem:  # sys.exit() in the model, or a converter's container
            if is_environment_error(problem) and not isinstance(problem.__cause__, SystemExit):
                raise
            return False


def _hides_nothing(tensor: torch.Tensor) -> bool:
    """Return True for what may be a mask of ones."""
    return tensor.numel() > 1 and not tensor.is_complex() and bool((tensor == 1).all())


def _hiding(tensor: torch.Tensor) -> torch.Tensor:
    """Return a mask that hides its last place."""
    mask = tensor.clone()
    mask[(-1,) * mask.dim()] = 0
    return mask


def _equal(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.is_complex() or torch.equal(a, b)


def _renamed(recipe: Recipe, sizes: Mapping[Axis, int]) -> tuple[Recipe, dict[str, int]]:
    """Return the recipe with a name for each of these sizes, and the sizes by name."""
    axes, wanted = Axes(), {}
    for (name, axis), n in sizes.items():
        word = f"s{recipe.inputs[name].shape[axis]}_{n}"
        axes.setdefault(name, {})[axis] = word
        wanted[word] = n
    request = dataclasses.replace(recipe.request, sizes=axes)
    return dataclasses.replace(recipe, request=request), wanted
