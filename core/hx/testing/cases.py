"""Runs of cases: at each opset and dtype, static and dynamic, through export and proof."""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from hx.contributions import Container, ReferenceKernel
from hx.errors import HxError
from hx.graph.file_nodes import operator_of
from hx.packs.installed import Pack
from hx.packs.registry import Registry
from hx.registration import OPSETS, Case, Registration

if TYPE_CHECKING:
    from hx.testing.calls import CaseCall
    from hx.testing.opsets_compared import OpsetsCompared

USUAL_OPSETS = (13, 20, 26)


class CaseFailure(AssertionError):
    """Error: a case fails; the message has everything needed to see why."""


class CaseSkipped(Exception):
    """Signal that a case cannot be run here, and why."""


@dataclass(frozen=True, eq=False)
class Tested:
    """Converters under test, their kernels and containers; all of their runs share one registry."""

    registrations: tuple[Registration, ...]
    kernels: tuple[ReferenceKernel, ...] = ()
    containers: tuple[Container, ...] = ()

    @functools.cached_property
    def opsets(self) -> OpsetsCompared:
        """Proofs that the runs of a case share."""
        from hx.testing.opsets_compared import OpsetsCompared

        return OpsetsCompared()

    @functools.cached_property
    def registry(self) -> Registry:
        """Registry of these and nothing else."""
        key = self.registrations[0].pack or "under test"
        mine = tuple(replace(each, pack=key) for each in self.registrations)
        chosen = {each.target: key for each in mine if each.optional}
        pack = Pack(key, "", "", "", registrations=mine)
        return Registry([replace(pack, kernels=self.kernels, containers=self.containers)], chosen)


@dataclass(frozen=True)
class CaseRun:
    """Run of a case at one opset and dtype, with its named sizes dynamic or fixed."""

    registration: Registration
    case: Case
    tested: Tested = field(repr=False)
    opset: int
    dtype: str | None = None
    dynamic: bool = False

    @property
    def id(self) -> str:
        """Short identifier, the same at every run; pytest shows it."""
        number = self.registration.cases.index(self.case)
        what = "complex-" if self.registration.complex else ""
        parts = [
            f"{what}{self.registration.target}",
            self.case.name or str(number),
            f"opset{self.opset}",
        ]
        return "-".join([*parts, *([self.dtype] if self.dtype else []), *self._mode])

    @property
    def _mode(self) -> list[str]:
        return ["dynamic"] if self.dynamic else []

    def __str__(self) -> str:
        made = _arguments(self.case.init, self.case.init_kwargs)
        call = _arguments(self.case.args, self.case.kwargs)
        return f"{self.registration.target}{f'({made})' if made else ''}({call})"

    def check(self) -> Any:
        """Export, prove and check: return the program, or raise CaseFailure or CaseSkipped."""
        _skip(self.registration)
        from hx.packs.containers import using
        from hx.testing.calls import attributes_of, call_of

        with using(self.tested.containers):
            call = self._guard("the call of the case cannot be made", call_of,
                               self.registration.target, self.case, self.dtype)  # fmt: skip
        before = list(attributes_of(self.registration.target))
        program = self._guard("the export fails", self._export, call)
        for owner, contents in before:
            if (changed := _changed(owner, contents)) is not None:
                self.fail(f"{owner.__name__}.{changed} was patched and is not as it was before")
        self._check_graph(program)
        return program

    def _export(self, call: CaseCall) -> Any:
        import hx

        def export(verify: bool) -> Any:
            return hx.export(
                call.model,
                call.tensors,
                None,
                dynamic=call.dynamic if self.dynamic else None,
                opset=self.opset,
                verify=verify,
                packs=self.tested.registry,
            )

        case, way = (self.registration, self.case), (self.dtype, self.dynamic)
        return self.tested.opsets.export(case, way, export)

    def _check_graph(self, program: Any) -> None:
        found = [operator_of(n) for n in program.parts.graph.node]
        for wanted in self.case.expect:
            if wanted not in found and wanted not in (name.rpartition("::")[2] for name in found):
                self.fail(f"the graph has no {wanted}", program)
        lost = [check for check in program.proof.cases if check.far and check.outside]
        if lost:
            self.fail(f"wrong at {lost[0].name}: it is right for {lost[0].outside} only", program)
        if self.registration.target in program.report.declined:
            self.fail("the converter declines (NotImplemented) its own case", program)

    def _guard(self, what: str, action: Callable[..., Any], *args: Any) -> Any:
        try:
            return action(*args)
        except HxError as problem:
            missing = getattr(problem, "missing", None)
            if missing and any(each.target == self.registration.target for each in missing):
                what = "the converter declines (NotImplemented) its own case"
            raise CaseFailure(self._explain(f"{what}\n{_indent(str(problem))}")) from None
        except (Exception, SystemExit) as problem:  # from the author's code or the runtime
            from hx.packs.pack_findings import brief, origin

            file, line = origin(problem)
            raise CaseFailure(
                self._explain(f"{what}: {brief(problem)}\n    at {file}:{line}")
            ) from problem

    def fail(self, what: str, program: Any = None) -> None:
        raise CaseFailure(self._explain(what, program))

    def _explain(self, what: str, program: Any = None) -> str:
        one = self.registration
        lines = [
            what,
            f"  converter  {one.name} at {one.where}",
            f"  case       {self}",
            f"  run        opset {self.opset}, {self.dtype or 'dtypes as written'}, "
            f"{'dynamic' if self.dynamic else 'static'}",
        ]
        if program is not None:
            lines += ["  graph", *(f"    {_node(node)}" for node in program.model.graph)]
        return "\n".join(lines)


def runs_of(
    registrations: Sequence[Registration],
    opsets: Iterable[int] | None = None,
    dtypes: Iterable[str] | None = None,
    kernels: Iterable[ReferenceKernel] = (),
    containers: Iterable[Container] = (),
) -> Iterator[CaseRun]:
    """List every run of every case, in a fixed order."""
    tested = Tested(tuple(registrations), tuple(kernels), tuple(containers))
    for registration in tested.registrations:
        for case in registration.cases:
            yield from runs_of_case(registration, case, tested, opsets, dtypes)


def runs_of_case(
    registration: Registration,
    case: Case,
    tested: Tested,
    opsets: Iterable[int] | None = None,
    dtypes: Iterable[str] | None = None,
) -> Iterator[CaseRun]:
    """List every run of one case; raise UsageError if the case is invalid."""
    for opset in _opsets(registration, case, opsets):
        for dtype in case.dtypes or tuple(dtypes or ()) or (None,):
            for dynamic in (False, True) if _has_words(case) else (False,):
                yield CaseRun(registration, case, tested, opset, dtype, dynamic)


def check(
    model: Any,
    args: Any = (),
    *,
    converters: Sequence[Any] = (),
    registry: Registry | None = None,
    dynamic: Any = None,
    opset: int = 20,
    expect: Iterable[str] = (),
    kwargs: Any = None,
) -> Any:
    """Export a model with these converters only, prove the graph, and return the program."""
    import hx

    registry = registry if registry is not None else Registry()
    for converter in converters:
        registry.add(converter)
    program = hx.export(
        model, args, None, kwargs=kwargs, dynamic=dynamic, opset=opset, packs=registry
    )
    found = [node.op_type for node in program.model.graph]
    for wanted in expect:
        if wanted not in found:
            raise CaseFailure(f"the graph has no {wanted}, but {', '.join(found)}")
    return program


def is_stub(registration: Registration) -> bool:
    """Return whether a converter is the scaffold's stub, which only returns NotImplemented."""
    code = getattr(registration.function, "__code__", None)
    stub = (lambda op: NotImplemented).__code__
    return code is not None and code.co_code == stub.co_code and code.co_names == stub.co_names


def _skip(registration: Registration) -> None:
    from hx.packs.requirements import unmet
    from hx.packs.targets import NotInstalled, resolve

    if is_stub(registration):
        raise CaseSkipped(f"{registration.name} is not written yet: it returns NotImplemented")
    for requirement in registration.requires:
        if reason := unmet(requirement):
            raise CaseSkipped(f"needs {requirement}, and {reason}")
    try:
        resolve(registration.target, import_missing=True)
    except NotInstalled as problem:
        raise CaseSkipped(str(problem).splitlines()[0]) from None


def _opsets(registration: Registration, case: Case, asked: Iterable[int] | None) -> list[int]:
    """Return the opsets of the case, or else usual ones and the ends of the converter's range."""
    wanted = list(case.opsets or asked or ())
    if not wanted:
        low, high = registration.since or OPSETS[0], registration.until or OPSETS[-1]
        wanted = sorted({*(each for each in USUAL_OPSETS if low <= each <= high), low, high})
    return [opset for opset in wanted if registration.covers(opset)]


def _has_words(case: Case) -> bool:
    from hx.ir.input_grammar import looks_like_spec, parse_spec

    def words(value: Any) -> bool:
        if looks_like_spec(value):
            return bool(parse_spec(value).dynamic)
        several = value.values() if isinstance(value, dict) else value
        return isinstance(value, (list, tuple, dict)) and any(words(each) for each in several)

    return words(list(case.args)) or words(dict(case.kwargs))


def _changed(owner: Any, before: dict[str, Any]) -> str | None:
    """Return the first attribute that changed; modules may have gained names."""
    now = vars(owner)
    if now.keys() == before.keys() and all(map(operator.is_, now.values(), before.values())):
        return None  # as nearly always
    gone = object()
    for name in before if inspect.ismodule(owner) else {*before, *now}:
        if name == "__slotnames__":
            continue  # what Python keeps of a class that is copied
        was, is_ = before.get(name, gone), now.get(name, gone)
        if was is not is_ and (isinstance(owner, type) or callable(was)):
            return name
    return None


def _node(node: Any) -> str:
    inputs = ", ".join(value.name if value is not None else "-" for value in node.inputs)
    attributes = ", ".join(f"{a.name}={a.value}" for a in node.attributes.values())
    outputs = ", ".join(f"{value.name}" for value in node.outputs)
    return f"{outputs} = {node.op_type}({inputs}){f' {{{attributes}}}' if attributes else ''}"


def _arguments(args: Iterable[Any], kwargs: Mapping[str, Any]) -> str:
    return ", ".join([*map(repr, args), *(f"{name}={value!r}" for name, value in kwargs.items())])


def _indent(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())
