"""A call that is about to be recorded: which model, with what, and how its inputs are called."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import CodeType, FunctionType
from typing import Any

import torch

from ..errors import UsageError
from ..sizes import dynamic as dynamic_axes
from ..tensors import structures
from ..weights.slim import Slim, plan
from ..world import shallow
from . import callables, heard, torchscript
from .questions import Pads, Until
from .roots import root_of
from .standin import StandIns


@dataclass
class Prepared:
    """Nested arguments, and their tensors by input name."""

    model: Any
    args: tuple
    kwargs: dict[str, Any]
    names: list[str]
    tensors: dict[str, torch.Tensor]
    dynamic: dynamic_axes.Axes
    root: torch.nn.Module  # the model, or what holds the modules that it reaches
    slim: Slim | None = None  # how it runs without its weights
    dry: bool = False  # nothing is going to be written
    # Where `tensors` are others: by name, what it was called with, and where other ways failed.
    given: dict[str, dict[str, torch.Tensor]] = field(default_factory=dict)
    failed: dict[str, dict[str, torch.Tensor]] = field(default_factory=dict)  # in a proof, so far
    wrong_at: list[dict[str, int]] = field(default_factory=list)  # sizes, in a proof of any way
    # See `both`: the other inputs that it is recorded on, and more like these; whether it is one of
    # several recordings that become one, and what it hears at its first questions whatever is true.
    also: list[dict[str, torch.Tensor]] = field(default_factory=list)
    alike: list[dict[str, torch.Tensor]] = field(default_factory=list)
    one_of: bool = False
    apart: str = ""  # why several that were recorded do not become one
    begun: bool = False  # a first round stands alone: what data pick may be none
    unfolded: bool = False  # what follows from zeros that it makes is computed in the graph, too
    counts: bool = False  # and so is what follows from a number that it makes a tensor of
    elsewhere: Any = None  # inputs of other sizes, which lead other ways: see proof.cases.elsewhere
    answers: tuple[bool, ...] = ()
    told: dict[tuple[str, int], bool] = field(default_factory=dict)  # by line, behind these
    pads: Pads | None = None  # it hears that sizes do not fit
    room: int | None = None  # nodes, after which this recording is of no use
    # What it does in rounds, as many as sizes say, is to be a loop: the numbers of a recording with
    # another number of them; see `rolled`.
    rolls: Any = None
    numbered: bool = False  # and the graph has the number of each round, which the model may ask of
    # Sizes to record it at as well, for numbers that follow from them out of sight; see `fitted`.
    follows: tuple[dict[str, int], ...] = ()
    until: Until | None = (
        None  # it goes round until what is in a tensor ends that; see `rolled.until`
    )
    counting: tuple[str, ...] = ()  # inputs with numbers that say how often it goes round
    recorded: Callable | None = None  # what is recorded in the model's place: see `derivatives`
    yes: heard.Yes = heard.FIRST  # the questions of the model that are answered with yes
    asked: set[str] = field(default_factory=set)  # those that it asked in any recording
    met: set[CodeType] = field(default_factory=set)  # the code that ran, as far as it was seen
    respelled: set[CodeType] = field(default_factory=set)  # the code that a copy ran for
    unnamed: list[FunctionType] = field(default_factory=list)  # of it, what no name leads to
    stand_ins: StandIns = field(default_factory=StandIns)

    @property
    def hollow(self) -> bool:
        """Whether some of its weights are elsewhere while it is recorded."""
        return self.slim is not None and self.slim.hollow

    @property
    def forced(self) -> bool:
        """Whether it hears what is not true, maybe."""
        return bool(self.answers or self.told)

    @property
    def truly(self) -> Prepared:
        """The same, where the model hears nothing but the truth."""
        return replace(self, answers=(), told={}, pads=None)

    @property
    def laid_out(self) -> bool:
        """Whether the nodes of the graph are put in another order than they were recorded in."""
        return self.one_of or self.rolls is not None or self.until is not None

    @property
    def size(self) -> int:
        """The bytes of the model's parameters."""
        return sum(
            tensor.numel() * tensor.element_size()
            for _, module in shallow.walk(self.root)
            for tensor in shallow.parameters(module).values()
        )

    def with_tensors(self, tensors: Mapping[str, torch.Tensor]) -> tuple[tuple, dict[str, Any]]:
        """The arguments with other tensors in place of the recorded ones."""
        left = iter(self.names)

        def put(name: str, leaf: Any) -> Any:
            return tensors[next(left)] if isinstance(leaf, torch.Tensor) else structures.own(leaf)

        args = tuple(structures.replace(a, put) for a in self.args)
        kwargs = {k: structures.replace(v, put) for k, v in self.kwargs.items()}
        return args, kwargs


def prepare(
    model: Any,
    args: Any,
    kwargs: Mapping[str, Any] | None,
    input_names: Sequence[str] | None,
    dynamic: Mapping[str, Any] | None,
    axes: Callable,
    *,
    weights: Any = None,
    dtype: Any = None,
    dry: bool = False,
) -> Prepared:
    _require_outside_of_transforms()
    model = _unwrapped(model)
    if not isinstance(args, (tuple, list)) or hasattr(args, "_fields"):
        args = (args,)
    args, kwargs = tuple(args), dict(kwargs or {})
    # A function may be given the modules that it calls.
    given = any(isinstance(x, torch.nn.Module) for x in (*args, *kwargs.values()))
    root = root_of(functools.partial(model, *args, **kwargs) if given else model)
    slim = plan(root, weights, dtype, whole=not dry)
    if slim is not None:
        args = tuple(structures.replace(a, slim.given) for a in args)
        kwargs = {k: structures.replace(v, slim.given) for k, v in kwargs.items()}
    pairs = _flat(model, args, kwargs)
    found = [(n, leaf) for n, leaf in pairs if isinstance(leaf, torch.Tensor)]
    names = structures.unique([n for n, _ in found])
    _require_contents(pairs, None if dry or slim is not None else "the meta device")
    if input_names is not None:
        if len(input_names) > len(names):
            raise UsageError(
                f"input_names has {len(input_names)} names, and the call has {len(names)} "
                f"tensors: {', '.join(names)}"
            )
        require_names("input_names", input_names)
        names = structures.unique([*input_names, *names[len(input_names) :]])
    tensors = {n: t for n, (_, t) in zip(names, found)}
    if isinstance(dynamic, torch.export.ShapesCollection):
        dynamic = dynamic.dynamic_shapes(model, args, kwargs)
    dynamic = dynamic_axes.of_tensors(dynamic, [isinstance(x, torch.Tensor) for _, x in pairs])
    dynamic = _by_inner_names(dynamic, model, args, kwargs)
    return Prepared(model, args, kwargs, names, tensors, axes(dynamic, tensors), root, slim, dry)


def _require_outside_of_transforms() -> None:
    """In `torch.func.grad`, `vmap` and the like each tensor stands for another, or for many."""
    if torch._C._functorch.maybe_current_level() is not None:
        raise UsageError(
            "an export cannot be made inside of torch.func.grad, vmap or the like",
            why="tensors have no contents of their own there",
            hint="export before or after that; a model that calls them itself can be exported",
        )


def require_names(what: str, names: Sequence[str]) -> None:
    """That each name is one, and stands for one thing."""
    wrong = [name for name in names if not isinstance(name, str) or not name]
    if wrong:
        raise UsageError(f"{what}: {wrong[0]!r} is no name")
    if len(set(names)) != len(names):
        raise UsageError(f"{what} repeats a name: {', '.join(names)}")


def _require_contents(pairs: list[tuple[str, Any]], meta: str | None) -> None:
    """That inputs are tensors with numbers in them."""
    alone = not any(isinstance(leaf, torch.Tensor) for _, leaf in pairs)
    for name, leaf in pairs:
        if isinstance(leaf, torch.Tensor):
            if type(leaf).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
                raise UsageError(
                    f"the input {name} is a {type(leaf).__name__}, whose class does the work of "
                    "operators itself: a graph has no such inputs",
                    hint="give the model plain tensors, and let it put them together",
                )
            if meta is not None and leaf.is_meta:
                raise UsageError(
                    f"the input {name} is on {meta}: it has a shape, and no numbers",
                    hint="the model is run once: give it an input with numbers",
                )
        elif alone and type(leaf).__module__ == "numpy" and hasattr(leaf, "__array_interface__"):
            raise UsageError(
                f"the input {name} is an array of numpy, which would be a constant",
                hint=f"torch.from_numpy({name})",
            )


def _unwrapped(model: Any) -> Any:
    """A compiled module is its original; one that has no weights yet cannot be run."""
    original = getattr(model, "_orig_mod", None)
    if isinstance(original, torch.nn.Module):
        model = original
    if isinstance(model, torch.export.ExportedProgram):
        model = model.module()
    if isinstance(model, type):
        raise UsageError(f"{model.__name__} is a class", hint=f"make one: {model.__name__}(...)")
    if not callable(model):
        raise UsageError(
            f"{type(model).__name__} cannot be called",
            hint="pass a torch.nn.Module or a function of tensors",
        )
    for path, module in shallow.walk(root_of(model)):
        if isinstance(module, torch.nn.modules.lazy.LazyModuleMixin) and (
            module.has_uninitialized_params()  # type: ignore[misc]
        ):
            raise UsageError(
                f"{path or 'the model'} has parameters that are not initialized yet",
                hint="run the model once on an example before exporting it",
            )
    return model


def flat_inputs(model: Any, args: tuple, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Every leaf of a call by its flat name, tensors and others."""
    pairs = _flat(model, args, kwargs)
    return dict(zip(structures.unique([n for n, _ in pairs]), (leaf for _, leaf in pairs)))


def _flat(model: Any, args: tuple, kwargs: Mapping[str, Any]) -> list[tuple[str, Any]]:
    pairs: list[tuple[str, Any]] = []
    for name, value in _named(parameters_of(model), args, dict(kwargs)):
        pairs.extend(structures.leaves(value, name))
    return pairs


def _by_inner_names(dynamic: Any, model: Any, args: tuple, kwargs: dict) -> Any:
    """`dynamic=` by the names that inputs have: where it says them by others, as torch.export does.

    A wrapper's by its own parameters (`inputs_0`), `*xs` and `**kw` as one each, and the fields of a
    named tuple in their order.
    """
    if not isinstance(dynamic, Mapping) or isinstance(dynamic, dynamic_axes.Axes):
        return dynamic
    own = _own_parameters_of(model)
    named = _named(parameters_of(model), args, kwargs)
    theirs = dict(named)
    said: dict[Any, Any] = {}
    for name, which in dynamic.items():
        kinds = [p.kind for p in own if p.name == name and name not in theirs]
        if kinds == [inspect.Parameter.VAR_POSITIONAL] and isinstance(which, (list, tuple)):
            said.update((f"{name}_{i}", each) for i, each in enumerate(which))
        elif kinds == [inspect.Parameter.VAR_KEYWORD] and isinstance(which, Mapping):
            said.update(which)
        else:
            said[name] = which
    if _is_open(own):
        both = zip(_named(own, args, kwargs), named)
        inner = {mine: other for (mine, _), (other, _) in both if other not in said}
        said = {inner.get(name, name): which for name, which in said.items()}
    return {name: dynamic_axes.by_fields(which, theirs.get(name)) for name, which in said.items()}


def parameters_of(model: Any) -> list[inspect.Parameter]:
    """Those of a model's forward; of one that takes whatever it is given, those of what it wraps."""
    found = _own_parameters_of(model)
    if isinstance(model, torch.nn.Module) and _is_open(found):
        inner = [module for module in model._modules.values() if module is not None]
        if len(inner) == 1:
            return parameters_of(inner[0]) or found
    return found


def _is_open(parameters: list[inspect.Parameter]) -> bool:
    """Whether they are `*args, **kwargs`: a wrapper's, which hands on all that it is given."""
    return [p.kind for p in parameters] == [
        inspect.Parameter.VAR_POSITIONAL,
        inspect.Parameter.VAR_KEYWORD,
    ]


def _own_parameters_of(model: Any) -> list[inspect.Parameter]:
    function = model.forward if isinstance(model, torch.nn.Module) else model
    function = callables.python_of(function) or function
    if isinstance(function, (torch._C.ScriptMethod, torch._C.ScriptFunction)):
        return torchscript.parameters_of(function)
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return []


def _named(parameters: list, args: tuple, kwargs: dict) -> list[tuple[str, Any]]:
    """Arguments with the names of forward's parameters."""
    out = []
    rest = None
    for i, value in enumerate(args):
        if rest is None and i < len(parameters):
            p = parameters[i]
            if p.kind is p.VAR_POSITIONAL:
                rest = (p.name, i)
            elif p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD):
                out.append((p.name, value))
                continue
        name, first = rest or ("input", 0)
        out.append((f"{name}_{i - first}", value))
    return out + list(kwargs.items())
