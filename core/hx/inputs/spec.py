"""Loading of a model and its example inputs from a SPEC on the command line.

    package.module:name      file.py:name      scheme:name

`name` may be a module (the `nn.Module` kind), a class of them that needs no arguments, or a
function that returns a module or `(module, inputs)`. A scheme is a model source of some pack:
`torchvision:resnet50`.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from hx.contributions import ModelSource
from hx.errors import HxError, PackError, SpecError, Where
from hx.inputs.misread_specs import meant_spec, misread, not_a_module
from hx.packs.guarded import failed_to_import, guarded, importing, making
from hx.text import did_you_mean
from hx.weights.tensor_files import absent, near_file

if TYPE_CHECKING:
    from torch import nn

HINT = "a SPEC is package.module:name, file.py:name, or scheme:name such as torchvision:resnet50"


@dataclass
class Loaded:
    """Model, and the call that it is exported with."""

    model: nn.Module
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    weights: Path | None = None  # the file of the weights, if the model has none itself


def load(spec: str, sources: Iterable[ModelSource] = (), hollow: bool = False) -> Loaded:
    """Load the model that SPEC names, with its own example inputs if it has some.

    With `hollow`, it is made without memory for its weights.
    """
    if hollow:
        from hx.inputs.meta_models import hollow as without_memory
        from hx.torchworld.modes.absent_weights import emptied

        with without_memory():
            loaded = load(spec, sources)
        emptied(loaded.model)
        return loaded
    if (other := misread(spec)) is not None:
        raise other
    place, colon, name = spec.rpartition(":")
    if not colon or not place or not name:
        raise SpecError(f"{spec!r} does not name a model", hint=_completed(spec, sources))
    with _alone(place):
        return _load(spec, place, name, sources)


@contextlib.contextmanager
def _alone(place: str) -> Iterator[None]:
    """Hide the words of the command from code that reads sys.argv."""
    before, sys.argv = sys.argv, [place]
    try:
        yield
    finally:
        sys.argv = before


def _load(spec: str, place: str, name: str, sources: Iterable[ModelSource]) -> Loaded:
    if (source := _source(place, sources)) is not None:
        told = f"the model source {place!r} ({source.pack})"
        hint = "see whether its library works by itself, and fits your torch; --debug shows more"
        try:
            with guarded(f"{told} fails:", hint=hint):
                made = source.load(name)
                made = _loaded(_called(made, spec) if isinstance(made, type) else made, spec, told)
                with contextlib.suppress(NotImplementedError):  # from torch.export programs
                    made.model.eval()  # libraries make models in training mode
                return made
        except HxError as problem:
            if problem.__cause__ is not None:  # the source's own message needs no other hint
                near = "" if failed_to_import(problem.__cause__) else _misspelt(source, name)
                problem.hint = near or problem.hint
            raise
    if place.endswith(".py") or "/" in place:
        module = _module_by_path(Path(place), name)
    else:
        module = _module_by_name(place, spec, [source.scheme for source in sources])
    loaded = _loaded(_called(_attribute(module, name, spec), spec), spec)
    _require_forward(loaded.model, spec)
    return loaded


def _completed(spec: str, sources: Iterable[ModelSource]) -> str:
    """Return a hint: how to complete a SPEC that names only a file, or only a name."""
    path = Path(spec)
    if path.is_file() and path.suffix == ".py":
        with _alone(spec):
            return f"{_candidates(_module_by_path(path, 'NAME'))}: say which, as {spec}:NAME"
    return meant_spec(spec, sources, HINT)


def _module_by_path(path: Path, name: str) -> ModuleType:
    try:
        return module_from_file(path)
    except HxError as problem:
        if "attempted relative import" in problem.what:
            problem.hint = f"it is part of a package: {_in_package(path)}:{name}"
        raise


def _in_package(path: Path) -> str:
    """Return a hint: the dotted name of a file inside a package, `pkg.m` for `pkg/m.py`."""
    path = path.resolve()
    parts, folder = [path.parent.name, path.stem], path.parent.parent
    while (folder / "__init__.py").is_file():
        parts, folder = [folder.name, *parts], folder.parent
    start = "" if folder == Path.cwd() else f"from {folder}, "
    return f"{start}name it as {'.'.join(parts)}"


def _source(scheme: str, sources: Iterable[ModelSource]) -> ModelSource | None:
    found = [each for each in sources if each.scheme == scheme]
    if len(found) > 1:
        packs = [each.pack for each in found]
        raise PackError(
            f"the model source {scheme!r} is given by {' and '.join(packs)}, and neither comes "
            "first",
            hint=f"leave one of them out: {' or '.join(f'--no-pack {each}' for each in packs)}",
        )
    return found[0] if found else None


def _misspelt(source: ModelSource, name: str) -> str:
    """Return a hint: similar names of a source that lists its names and lacks this one."""
    known: list[str] = []
    with contextlib.suppress(Exception):  # there is an error to report already
        known = list(source.names() if source.names is not None else ())
    near = [] if name in known else difflib.get_close_matches(name, known, 3)
    return (
        f"did you mean {' or '.join(f'{source.scheme}:{each}' for each in near)}?" if near else ""
    )


def module_from_file(path: Path, hint: str = HINT) -> ModuleType:
    """Import the module in a loose file; its folder is on the path, as with `python file.py`."""
    if not path.is_file():
        raise SpecError(absent(path), hint=near_file(path) or hint)
    path = path.resolve()
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    found = importlib.util.spec_from_file_location(path.stem, path)
    if found is None or found.loader is None:
        raise SpecError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(found)
    before = sys.modules.get(path.stem)
    sys.modules[path.stem] = module
    try:
        with importing(path.name):
            found.loader.exec_module(module)
    except BaseException:
        if before is None:
            del sys.modules[path.stem]
        else:
            sys.modules[path.stem] = before
        raise
    return module


def _module_by_name(name: str, spec: str, schemes: list[str]) -> ModuleType:
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        with importing(name):
            return importlib.import_module(name)
    except HxError as problem:
        cause = problem.__cause__
        if isinstance(cause, ModuleNotFoundError) and name.startswith(cause.name or " "):
            near = difflib.get_close_matches(name, schemes, 1)
            raise SpecError(
                f"{spec!r}: there is no module {cause.name!r}, and no model source {name!r}",
                why=f"model sources are {', '.join(sorted(schemes)) or 'not installed'}",
                hint=f"did you mean {near[0]}:{spec.rpartition(':')[2]}?" if near else HINT,
            ) from None
        raise


def _attribute(module: ModuleType, name: str, spec: str) -> Any:
    thing: Any = module
    for part in name.split("."):
        try:
            thing = getattr(thing, part)
        except AttributeError:
            known = [each for each in dir(thing) if not each.startswith("_")]
            where = getattr(thing, "__name__", type(thing).__name__)
            raise SpecError(
                f"{spec!r}: {where} has no {part!r}",
                hint=did_you_mean(part, known, _candidates(module), 3),
            ) from None
    return thing


def _candidates(module: ModuleType) -> str:
    """Return a hint: the names in a module that could be exported."""
    names = [
        name
        for name, value in vars(module).items()
        if not name.startswith("_")
        and (_is_module(value) or getattr(value, "__module__", "") == module.__name__)
    ]
    return f"it has {', '.join(names[:8])}" if names else "it has nothing that could be exported"


def _is_module(thing: Any) -> bool:
    from torch import nn

    return isinstance(thing, nn.Module)


def _is_exported(thing: Any) -> bool:
    """Return whether a thing is a program of torch.export, with a module and example inputs."""
    import torch

    return isinstance(thing, torch.export.ExportedProgram)


def _called(thing: Any, spec: str) -> Any:
    """Return what a class or a factory makes; return anything else unchanged."""
    if _is_module(thing) or not callable(thing):
        return thing
    needed = []
    with contextlib.suppress(TypeError, ValueError):
        needed = [
            p.name
            for p in inspect.signature(thing).parameters.values()
            if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
        ]
    if needed:
        kind = "class" if isinstance(thing, type) else "function"
        name = thing.__name__ if thing.__name__.isidentifier() else spec.rpartition(":")[2]
        call = f"{name}({', '.join(f'{each}=...' for each in needed)})"
        hint = f"write a function, and name that: def build(): return {call}"
        if kind == "function":
            hint += "; if it is the model itself, wrap it in a module: hx explain HX202"
        raise SpecError(
            f"{spec!r}: the {kind} {name!r} needs {', '.join(needed)}",
            where=_place(thing),
            hint=hint,
        )
    with making(spec):
        return thing()


def _loaded(result: Any, spec: str, source: str = "") -> Loaded:
    first, *inputs_given = result if isinstance(result, tuple) and result else (result,)
    if isinstance(first, type) and inputs_given:
        raise SpecError(
            f"{spec!r} gives a class with inputs, not a model", hint=f"make one: {first.__name__}()"
        )
    if _is_exported(first):
        given = inputs_given or first.example_inputs
        result = (first.module(), *given) if given else first.module()
    if isinstance(result, tuple) and len(result) in (2, 3) and _is_module(result[0]):
        model, inputs = result[0], result[1]
        if len(result) == 3:
            return Loaded(model, _as_args(inputs), dict(result[2]))
        if isinstance(inputs, Mapping):
            return Loaded(model, (), dict(inputs))
        return Loaded(model, _as_args(inputs))
    if isinstance(result, tuple) and callable(first) and not _is_module(first):
        name = getattr(first, "__name__", "function")
        called = name if name.isidentifier() else "the_function"
        raise SpecError(
            f"{spec!r} gives a function with inputs, not a torch.nn.Module with inputs",
            why="hx exports modules",
            hint="wrap it:  class Model(torch.nn.Module):\n"
            f"{' ' * 23}def forward(self, *inputs): return {called}(*inputs)",
        )
    if not _is_module(result):
        raise not_a_module(spec, result, source)
    return _own_inputs(result)


def _require_forward(model: Any, spec: str) -> None:
    """Raise if the class of a model defines no forward, or misspells it."""
    from torch import nn

    kind = type(model)
    defined = inspect.getattr_static(kind, "forward", None)  # a property, in TorchScript
    own_call = kind.__call__ is not nn.Module.__call__
    if defined is nn.Module.forward and "forward" not in vars(model) and not own_call:
        raise SpecError(
            f"{spec!r}: {kind.__name__} has no forward",
            where=_place(kind),
            hint="define `forward(self, ...)` in the class, indented as its other methods",
        )


def _own_inputs(model: Any) -> Loaded:
    """Return the example inputs that models of some libraries carry."""
    for name in ("example_inputs", "example_input_array", "dummy_inputs"):
        inputs = None
        with contextlib.suppress(Exception):
            inputs = getattr(model, name, None)
            inputs = inputs() if callable(inputs) and not _is_module(inputs) else inputs
        if isinstance(inputs, Mapping):
            return Loaded(model, (), dict(inputs))
        if inputs is not None and not _is_module(inputs):
            return Loaded(model, _as_args(inputs))
    return Loaded(model)


def _as_args(inputs: Any) -> tuple[Any, ...]:
    return tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)


def _place(thing: Any) -> Where | None:
    try:
        return Where(inspect.getsourcefile(thing) or "", inspect.getsourcelines(thing)[1])
    except (OSError, TypeError):
        return None
