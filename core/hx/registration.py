"""Registration of converters: `@converter`, `case`, and the records they leave.

    from hx import case, converter

    @converter("torch.nn.functional.relu", cases=[case("float32[n,3]")])
    def relu(op, input, inplace=False):
        return op.Relu(input)

The function stays what it was: it can be called, tested and imported as before. Its registrations
hang on it as `__hx__`, one for each target, and are read by the registry when a pack is loaded.
Nothing is registered by being imported.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import FunctionType
from typing import Any, TypeVar

from hx.errors import UsageError, Where

OPSETS = range(13, 27)
ATTRIBUTE = "__hx__"

_TARGET = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*(::[^\W\d]\w*(\.[^\W\d]\w*)?)?")

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class Case:
    """Example call of a target. Tests, `hx packs check` and the coverage table come from it.

    Strings in the input grammar, anywhere in `args` and `kwargs`, stand for tensors, and words in
    them for dynamic dims: `"float32[batch,3,8,8]"`, `"int64[n,s]<100"`. A function without
    parameters stands for what it returns, for tensors that cannot be random.
    """

    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    init: tuple[Any, ...] = ()
    init_kwargs: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""
    opsets: tuple[int, ...] | None = None
    dtypes: tuple[str, ...] | None = None
    expect: tuple[str, ...] = ()


def case(
    *args: Any,
    init: Iterable[Any] = (),
    init_kwargs: Mapping[str, Any] | None = None,
    name: str = "",
    opsets: Iterable[int] | None = None,
    dtypes: Iterable[str] | None = None,
    expect: Iterable[str] = (),
    **kwargs: Any,
) -> Case:
    """Example call: the target is called with `*args, **kwargs`.

    `init` and `init_kwargs` construct the module first, when the target is a module's forward or
    a method. A function without parameters among the arguments stands for what it returns.
    `opsets` and `dtypes` narrow where the case runs (`dtypes` replaces the dtype of the
    floating-point tensors, one run for each). `expect` names operators that the graph must have.

        case("float32[batch,3,8,8]", init=(3, 4, 3), expect=["Conv"])
    """
    return Case(
        args=args,
        kwargs=kwargs,
        init=_several(init),
        init_kwargs=dict(init_kwargs or {}),
        name=name,
        opsets=None if opsets is None else tuple(opsets),
        dtypes=None if dtypes is None else _several(dtypes),
        expect=_several(expect),
    )


@dataclass(frozen=True)
class Registration:
    """Converter for one target, and the conditions under which it applies."""

    target: str
    function: Callable[..., Any]
    pack: str = ""
    since: int | None = None
    until: int | None = None
    requires: tuple[str, ...] = ()
    domain: str | None = None
    priority: int = 0
    overrides: tuple[str, ...] = ()
    complex: bool = False
    kept: bool = False
    optional: bool = False
    loss: float = 0.0
    cases: tuple[Case, ...] = ()
    written_at: tuple[str, int] = ("", 0)  # file and line

    @property
    def doc(self) -> str:
        return inspect.cleandoc(self.function.__doc__ or "")

    @property
    def file(self) -> str:
        return self.written_at[0]

    @property
    def line(self) -> int:
        return self.written_at[1]

    @property
    def name(self) -> str:
        return getattr(self.function, "__name__", repr(self.function))

    @property
    def where(self) -> Where:
        return Where(self.file, self.line, function=self.name)

    def covers(self, opset: int) -> bool:
        """Return True if the opset lies in this registration's window, both ends included."""
        return (self.since or 0) <= opset <= (self.until or opset)

    @property
    def window(self) -> str:
        """Opset window as people write it: `18+`, `13-17`, or nothing."""
        if self.since and self.until:
            return f"{self.since}-{self.until}"
        return f"{self.since}+" if self.since else f"-{self.until}" if self.until else ""


def converter(
    *targets: str,
    since: int | None = None,
    until: int | None = None,
    requires: str | Iterable[str] | None = None,
    domain: str | None = None,
    priority: int = 0,
    overrides: str | Iterable[str] | None = None,
    complex: bool = False,
    kept: bool = False,
    optional: bool = False,
    loss: float = 0.0,
    cases: Iterable[Case] | Case = (),
) -> Callable[[F], F]:
    """Declare that the decorated function is `targets` rewritten in ONNX.

    targets    dotted names of callables: `torch.nn.Conv2d.forward`, `torch.relu`, `mylib::op`
    since      first opset that the converter is for
    until      last opset that the converter is for
    requires   conditions on installed libraries, as pip writes them: `"spconv>=2"`
    domain     domain of the custom operators that it emits, for people to see in listings
    priority   among converters of one target that are otherwise equal, the highest is taken
    overrides  names of packs whose converters of these targets this one replaces
    complex    for calls with complex numbers among their arguments; other converters never see
               those, and this one sees no other
    kept       written also where it depends on no input, and is a constant otherwise: for what
               says how a weight is stored
    optional   used only where the user chooses it: `--use TARGET=PACK`
    loss       the largest error that it accepts by choice, as a share of the largest value of a
               result: where a runtime is told to round weights or activations. The proof reports
               the error, and refuses one that is larger
    cases      example calls, made with `case(...)`

    Decorators stack: each adds registrations to the same function.
    """
    _check(targets, since, until, priority)
    if not (isinstance(loss, (int, float)) and 0 <= loss < 1):
        raise UsageError(f"loss of {targets[0]} is {loss!r}; it has to be a share, as 0.01 is")
    needs, replaced = _several(requires), _several(overrides)
    for word, names in (("requires", needs), ("overrides", replaced)):
        if not all(isinstance(name, str) for name in names):
            raise UsageError(f"{word} of {targets[0]} is {names!r}: it has to be names")
    examples = (cases,) if isinstance(cases, Case) else tuple(cases)
    for example in examples:
        if not isinstance(example, Case):
            raise UsageError(
                f"cases of {targets[0]} holds {example!r}, which is not a case",
                hint='write cases=[case("float32[2,3]")], with case from hx',
            )

    def register(function: F) -> F:
        if not callable(function):
            raise UsageError(f"@converter({targets[0]!r}) decorates {function!r}, not a function")
        if isinstance(function, type):
            raise UsageError(
                f"@converter({targets[0]!r}) decorates the class {function.__qualname__}: a call "
                "would construct an instance",
                hint="decorate a function, or call the decorator with an object that can be called",
            )
        written_at = place(function)
        new = tuple(
            Registration(
                target=target,
                function=function,
                since=since,
                until=until,
                requires=needs,
                domain=domain,
                priority=priority,
                overrides=replaced,
                complex=complex,
                kept=kept,
                optional=optional,
                loss=loss,
                cases=examples,
                written_at=written_at,
            )
            for target in targets
        )
        setattr(function, ATTRIBUTE, (*registrations(function), *new))
        return function

    return register


def registrations(thing: Any) -> tuple[Registration, ...]:
    """Return the registrations of a function; for a module, of all functions made in it.

    Functions that a module keeps in a list, tuple or dict count too, for converters that are made
    from a table.
    """
    if not inspect.ismodule(thing):
        return _of_object(thing)
    found: dict[int, Registration] = {}
    for value in vars(thing).values():
        several = value.values() if isinstance(value, dict) else value
        for one in several if isinstance(value, (list, tuple, dict)) else (value,):
            if inspect.ismodule(one):
                continue  # its contents belong to it
            if getattr(one, "__module__", thing.__name__) == thing.__name__:
                found.update((id(each), each) for each in _of_object(one))
    return tuple(found.values())


def _of_object(thing: Any) -> tuple[Registration, ...]:
    return tuple(getattr(thing, "__dict__", {}).get(ATTRIBUTE, ()))


def place(function: Any) -> tuple[str, int]:
    """Return file and line of a function, or of an object's call; ('', 0) without one."""
    if type(function) is FunctionType and not function.__dict__:  # as nearly all are
        return function.__code__.co_filename, function.__code__.co_firstlineno
    inner = inspect.unwrap(getattr(function, "func", function))
    called = inner if hasattr(inner, "__code__") or not callable(inner) else type(inner).__call__
    code = getattr(called, "__code__", None)
    return (code.co_filename, code.co_firstlineno) if code else ("", 0)


def _several(value: str | Iterable[Any] | None) -> tuple[Any, ...]:
    if value is None:
        return ()
    return tuple(value) if isinstance(value, Iterable) and not isinstance(value, str) else (value,)


def _check(targets: tuple[Any, ...], since: Any, until: Any, priority: Any) -> None:
    if not targets or callable(targets[0]):
        raise UsageError(
            "@converter needs the name of what is converted",
            hint='write @converter("torch.nn.functional.relu") above the function',
        )
    for target in targets:
        if not isinstance(target, str) or not _TARGET.fullmatch(target):
            raise UsageError(
                f"{target!r} is not the name of a target",
                hint='a target is a dotted name such as "torch.nn.Conv2d.forward", or an operator '
                'such as "torchvision::nms"',
            )
    for word, opset in (("since", since), ("until", until)):
        if opset is not None and opset not in OPSETS:
            raise UsageError(
                f"{word}={opset!r} of {targets[0]} is not an opset that hx writes",
                hint=f"opsets go from {OPSETS[0]} to {OPSETS[-1]}",
            )
    if since and until and since > until:
        raise UsageError(f"{targets[0]}: since={since} is after until={until}, so it is never used")
    if not isinstance(priority, int):
        raise UsageError(f"priority of {targets[0]} is {priority!r}; it has to be an int")
