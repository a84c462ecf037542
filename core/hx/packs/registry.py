"""The choice of a target's converter: one, or none, or an error that says how to settle it.

Order among several, never that of imports:

1. what was added by hand, and what the user chose (`--use TARGET=PACK`, `[tool.hx]`); TARGET may be
   a pattern (`--use "spconv.*=spconv-custom"`), and one that is named comes before those
2. a converter that declares that it overrides the other's pack
3. the higher priority
4. otherwise a tie, which is an error when the target is really met
"""

from __future__ import annotations

import contextlib
import difflib
import functools
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from types import ModuleType
from typing import Any, TypeVar

from hx.config import Settings, standing
from hx.contributions import Container, Executor, GraphPass, ModelSource, ReferenceKernel
from hx.errors import PackError, TargetError, UsageError
from hx.packs import installed as finder
from hx.packs.dunders import CANONICAL
from hx.packs.installed import Pack, plain
from hx.packs.requirements import unmet
from hx.registration import Registration, registrations
from hx.text import did_you_mean

LOCAL = "local"

_Given = TypeVar("_Given", Container, ReferenceKernel)


@dataclass(frozen=True)
class Choice:
    """The choice for one target: candidates, the best first, and the reason; or the problem."""

    target: str
    candidates: tuple[Registration, ...]
    reason: str
    problem: PackError | None = None

    @property
    def registration(self) -> Registration:
        if self.problem is not None:
            raise self.problem
        return self.candidates[0]

    @property
    def tie(self) -> bool:
        return self.problem is not None


_standing: dict[Any, Registry] = {}


@dataclass(frozen=True)
class Refusal:
    """A converter that exists but cannot be used here, and the reason."""

    registration: Registration
    reason: str


class Registry:
    """A registry of packs, and of functions added by hand: one answer for each target."""

    def __init__(self, packs: Iterable[Pack] = (), use: Mapping[str, str] | None = None) -> None:
        self.packs: tuple[Pack, ...] = tuple(packs)
        self.use = dict(use or {})
        self._added: list[Registration] = []
        self._hands: set[str] = set()  # names of the converters added by hand
        self._selected: dict[tuple[int, bool], dict[str, Choice]] = {}
        self._check_uses()

    @classmethod
    def installed(
        cls,
        only: Iterable[str] | None = None,
        without: Iterable[str] = (),
        use: Mapping[str, str] | None = None,
        require: Iterable[str] = (),
        strict: bool = False,
        config: Settings | None = None,
    ) -> Registry:
        """The installed packs. `config` replaces what pyproject and environment say."""
        settings = Settings(
            use=use or {},
            no_pack=tuple(without),
            only_packs=None if only is None else tuple(only),
            require=tuple(require),
            strict=strict or None,
        ).over(standing() if config is None else config)
        registry = cls(finder.classify(settings.only_packs, settings.no_pack), settings.use)
        for requirement in settings.require:
            registry.require(requirement)
        if settings.strict:
            registry.require_sound()
        return registry

    @classmethod
    def standing(cls) -> Registry:
        """The installed packs in their present state: earlier results are used again."""
        settings = standing()
        installed = finder.classify(settings.only_packs, settings.no_pack)
        key = (repr(settings), finder.installed_state(), *map(id, installed))
        if key not in _standing:
            _standing.clear()
            _standing[key] = cls.installed(config=settings)
        return _standing[key]

    @classmethod
    def of(cls, *things: Callable[..., Any] | ModuleType) -> Registry:
        """Make a registry of only these converters: functions, or modules. For tests and trials."""
        registry = cls()
        for thing in things:
            registry.add(thing)
        return registry

    def add(self, thing: Callable[..., Any] | ModuleType, pack: str = LOCAL) -> None:
        """Add a converter, or a module of them, by hand: it precedes those of packs."""
        new = registrations(thing)
        if not new:
            name = getattr(thing, "__name__", repr(thing))
            raise UsageError(f"{name} holds no converter", hint="decorate it with @converter(...)")
        self._hands.add(pack)
        self._added += (replace(registration, pack=pack) for registration in new)
        if isinstance(thing, ModuleType):
            self.packs = (*self.packs, finder.of_module(thing, pack))
        self._selected.clear()

    def is_by_hand(self, given: Registration | GraphPass) -> bool:
        return given.pack in self._hands

    # --- what there is ---

    @property
    def registrations(self) -> list[Registration]:
        return [*self._added, *(r for pack in self.packs for r in pack.registrations)]

    @property
    def sources(self) -> list[ModelSource]:
        return [each for pack in self.packs for each in pack.sources]

    @property
    def containers(self) -> list[Container]:
        """One container for each class; for a tie, one that raises when the class is met."""
        given = [each for pack in self.packs for each in pack.containers]
        return [
            first if tie is None else replace(first, flatten=tie, unflatten=tie)
            for first, tie in self._settled(given, "container of")
        ]

    @property
    def kernels(self) -> list[ReferenceKernel]:
        """One kernel for each operator; for a tie, one that raises when the operator runs."""
        given = [each for pack in self.packs for each in pack.kernels]
        return [
            first if tie is None else replace(first, run=tie)
            for first, tie in self._settled(given, "reference kernel of")
        ]

    @property
    def passes(self) -> list[GraphPass]:
        return [each for pack in self.packs for each in pack.passes]

    @property
    def executors(self) -> list[Executor]:
        return [each for pack in self.packs for each in pack.executors]

    def named(self, name: str) -> list[Pack]:
        """Return the packs called `name`: all packs of a distribution, or the pack of that name."""
        found = [pack for pack in self.packs if pack.answers_to(name)]
        if not found:
            raise finder.unknown_pack(name, self.packs)
        return found

    def pack(self, name: str) -> Pack:
        """The one pack that people mean by `name`."""
        found = self.named(name)
        if len(found) > 1:
            keys = " or ".join(pack.key for pack in found)
            raise UsageError(f"{name!r} is the name of several packs", hint=f"write {keys}")
        return found[0]

    # --- who converts what ---

    def select(self, opset: int, complex: bool = False) -> dict[str, Choice]:
        """One choice for each target text that has a converter at this opset.

        Converters of calls with complex numbers are chosen separately.
        """
        if (opset, complex) not in self._selected:
            usable, refused = self._sort(opset, complex)
            self._selected[opset, complex] = {
                target: self._choose(target, candidates, refused.get(target, []))
                for target, candidates in usable.items()
            }
        return self._selected[opset, complex]

    def choose(
        self, names: Sequence[str], opset: int, complex: bool = False
    ) -> tuple[Choice | None, list[Refusal]]:
        """Choose a converter for a target with all these names; also return the refused ones."""
        usable, refused = self._sort(opset, complex)
        candidates = [each for name in names for each in usable.get(name, ())]
        out = [each for name in names for each in refused.get(name, ())]
        return (self._choose(names[0], candidates, out) if candidates else None), out

    def names(self, meant: Hashable) -> list[str]:
        """All names that one thing (`Target.meant`) is converted under."""
        from hx.packs.targets import resolve

        found = []
        for text in sorted({each.target for each in self.registrations}):
            with contextlib.suppress(TargetError):
                if resolve(text).meant == meant:
                    found.append(text)
        return found

    def alike(self, target: str) -> bool:
        """Return True if another pack converts a target of the same last name."""
        own = _own_name(target)
        packs = {each.pack for each in self.registrations if _own_name(each.target) == own}
        return len(packs) > 1

    def nearest(self, target: str, most: int = 3) -> list[str]:
        """Converted targets with a last name like this one's."""
        names: dict[str, list[str]] = {}
        for each in self.registrations:
            if each.target != target:
                names.setdefault(_own_name(each.target), []).append(each.target)
        wanted = _own_name(target)
        near = difflib.get_close_matches(wanted, names, most, 0.8)
        near = [n for n in near if len(n) > 2 or n == wanted]  # two letters are too few to compare
        inside = [
            n for n in names if (len(n) > 3 and n in wanted) or (len(wanted) > 3 and wanted in n)
        ]
        inside.sort(key=lambda name: abs(len(name) - len(wanted)))
        near = list(dict.fromkeys([*near, *inside]))[:most]
        # The most similar of several targets with that name.
        return [difflib.get_close_matches(target, names[name], 1, 0.0)[0] for name in near]

    def refused(self, opset: int, complex: bool = False) -> dict[str, list[Refusal]]:
        """Converters that exist and cannot be used at this opset, or with what is installed."""
        return self._sort(opset, complex)[1]

    def pick(self, candidates: Sequence[Registration]) -> Registration:
        """Pick one among converters of the same callable, under whatever names they know it."""
        return self._choose(candidates[0].target, list(candidates), []).registration

    def _sort(
        self, opset: int, complex: bool
    ) -> tuple[dict[str, list[Registration]], dict[str, list[Refusal]]]:
        usable: dict[str, list[Registration]] = {}
        refused: dict[str, list[Refusal]] = {}
        for registration in self.registrations:
            if registration.complex != complex:
                continue
            if reason := _why_not(registration, opset) or self._not_chosen(registration):
                refused.setdefault(registration.target, []).append(Refusal(registration, reason))
            else:
                usable.setdefault(registration.target, []).append(registration)
        return usable, refused

    def _not_chosen(self, registration: Registration) -> str:
        if not registration.optional or registration.pack in self._hands:
            return ""
        chosen = self._chosen(registration.target, [registration])
        if chosen and self._from(registration, chosen):
            return ""
        name = self.label(registration.pack)
        return f"is used where it is chosen: --use {registration.target}={name}"

    def _choose(
        self, target: str, candidates: list[Registration], refused: list[Refusal]
    ) -> Choice:
        candidates = _distinct(candidates)
        chosen = self._chosen(target, [*candidates, *(each.registration for each in refused)])
        if chosen and not any(self._from(candidate, chosen) for candidate in candidates):
            for each in refused:
                if self._from(each.registration, chosen):
                    problem = PackError(
                        f"--use {target}={chosen}: its converter {each.reason}",
                        where=each.registration.where,
                        hint="choose another pack for it",
                    )
                    return Choice(target, tuple(candidates), "chosen, but refused", problem)
        if len(candidates) == 1:
            return Choice(target, tuple(candidates), "the only one")
        ranks: dict[int, tuple[Any, ...]] = {}
        above = self._above(candidates)
        for one in candidates:
            # Converters that override each other, even in a circle, are equal in this respect.
            loses = any(id(one) not in above[other] for other in above[id(one)])
            mine = bool(chosen) and self._from(one, str(chosen))
            ranks[id(one)] = (not mine, one.pack not in self._hands, loses, -one.priority)
        ordered = sorted(candidates, key=lambda r: (ranks[id(r)], r.pack, r.file, r.line))
        best, second = ranks[id(ordered[0])], ranks[id(ordered[1])]
        if best == second:
            level = [each for each in ordered if ranks[id(each)] == best]
            return Choice(target, tuple(ordered), "tie", self._tie(target, level))
        step = next(i for i in range(4) if best[i] != second[i])
        reason = ("chosen by the user", "added by hand", "overrides", "higher priority")[step]
        return Choice(target, tuple(ordered), reason)

    def _above(self, candidates: list[Registration]) -> dict[int, set[int]]:
        """Return the ids of the candidates that override each one, directly or through others."""
        above = {
            id(one): {id(other) for other in candidates if _overrides(other, one, self)}
            for one in candidates
        }
        for middle in above:
            for ones in above.values():
                if middle in ones:
                    ones |= above[middle]
        return above

    def _chosen(self, target: str, candidates: Iterable[Registration]) -> str | None:
        names = [target, *(candidate.target for candidate in candidates)]
        texts = [t for name in names for t in (name, name.removesuffix(".forward"))]
        named = (self.use[text] for text in texts if text in self.use)
        meant = (
            pack
            for pattern, pack in self.use.items()
            if any(fnmatchcase(t, pattern) for t in texts)
        )
        return next(named, None) or next(meant, None)

    def _from(self, given: Registration | Container | ReferenceKernel, name: str) -> bool:
        return plain(name) == plain(given.pack) or any(
            pack.key == given.pack and pack.answers_to(name) for pack in self.packs
        )

    def _tie(self, target: str, level: list[Registration]) -> PackError:
        names = [self.label(each.pack) for each in level]
        places = "\n         ".join(f"{n}: {r.where}" for n, r in zip(names, level))
        if len({each.pack for each in level}) == 1:
            return PackError(
                f"{target} is converted {len(level)} times by {names[0]}",
                why=places,
                hint="keep one of them, or separate them with since=, until= or priority=",
            )
        others = " or ".join(f"--use {target}={name}" for name in dict.fromkeys(names))
        return PackError(
            f"{target} is converted by {' and '.join(names)}, and neither comes first",
            why=places,
            hint=f"say which: {others}",
        )

    def label(self, key: str) -> str:
        """The shortest name of a pack that no other answers to."""
        for pack in self.packs:
            if pack.key == key:
                for name in (pack.distribution, pack.entry):
                    if sum(each.answers_to(name) for each in self.packs) == 1:
                        return name
        return key

    def place(self, target: str, pack: str, opset: int) -> str:
        """Return where a node's converter is written, as file:line; '' if not known."""
        for each in self.registrations:
            if (each.target, each.pack) == (target, pack) and each.covers(opset) and each.file:
                return each.where.place
        return ""

    def loss(self, target: str, pack: str) -> float:
        """The error that a pack's converter of a target accepts by choice; see `converter`."""
        by = (each for each in self.registrations if (each.target, each.pack) == (target, pack))
        return max((each.loss for each in by), default=0.0)

    def _settled(self, given: Sequence[_Given], what: str) -> Iterator[tuple[_Given, Any]]:
        """The first of the candidates for one thing, and the error if none is preferred."""
        alike: dict[str, list[_Given]] = {}
        for each in given:
            alike.setdefault(each.subject, []).append(each)
        for subject, several in alike.items():
            chosen = self.use.get(subject)
            several = [x for x in several if chosen and self._from(x, chosen)] or several
            several = [x for x in several if x.pack in self._hands] or several
            packs = list(dict.fromkeys(self.label(each.pack) for each in several))
            if len(several) == 1:
                yield several[0], None
                continue
            problem = PackError(
                f"the {what} {subject} is given by {' and '.join(packs)}, and neither comes first",
                hint="say which: " + " or ".join(f"--use {subject}={name}" for name in packs)
                if len(packs) > 1
                else "the pack gives it more than once: keep one of them",
            )
            yield several[0], functools.partial(_raise, problem)

    # --- what the user asked for ---

    def require(self, requirement: str) -> None:
        """A pack that has to be there, in a version, and sound: `"hx-spconv>=1.2"`."""
        from packaging.requirements import InvalidRequirement, Requirement

        try:
            asked = Requirement(requirement)
        except InvalidRequirement as problem:
            raise UsageError(
                f"--require {requirement!r}: {str(problem).splitlines()[0]}",
                hint='write it as pip does: --require "hx-spconv>=1.2"',
            ) from None
        found = [pack for pack in self.packs if pack.answers_to(asked.name)]
        if not found:
            unknown = finder.unknown_pack(asked.name, self.packs, f'--require "{requirement}"')
            unknown.hint += f'; pip install "{requirement}" installs it'
            raise unknown
        for pack in found:
            if not asked.specifier.contains(pack.version, prereleases=True):
                raise PackError(
                    f'--require "{requirement}": {pack.distribution} {pack.version} is installed',
                    hint=f'pip install "{requirement}"',
                )
            if pack.status != "ok":
                raise PackError(
                    f'--require "{requirement}": the pack is {pack.status}: {pack.error}',
                    hint=f"hx packs check {pack.distribution}",
                )

    def require_sound(self) -> None:
        """Raise PackError if an installed pack is broken; `--strict` asks for this."""
        for pack in self.packs:
            if pack.status in ("failed", "incompatible"):
                raise PackError(
                    f"the pack {pack.key} is {pack.status}: {pack.error}",
                    why="--strict requires that no installed pack is broken",
                    hint=f"see hx packs check {pack.distribution}, or leave it out: "
                    f"--no-pack {pack.distribution}",
                )

    def _check_uses(self) -> None:
        for target, name in self.use.items():
            pack = self.pack(name)
            if pack.status != "ok":
                raise PackError(f"--use {target}={name}: the pack is {pack.status}: {pack.error}")
            known = {each.target for each in pack.registrations}
            given: list[Container | ReferenceKernel] = [*pack.containers, *pack.kernels]
            if target in {each.subject for each in given}:
                continue
            if not any(
                fnmatchcase(text, p) for text in known for p in (target, f"{target}.forward")
            ):
                raise UsageError(
                    f"--use {target}={name}: the pack converts no {target}",
                    hint=did_you_mean(target, known, "see hx converters list", 3),
                )


def _own_name(target: str) -> str:
    """`eig` of torch.linalg.eig, `Conv2d` of torch.nn.Conv2d.forward, `nms` of torchvision::nms."""
    whole = target.removesuffix(".forward").removesuffix(".__get__")
    name = whole.replace("::", ".").rpartition(".")[2]
    name = CANONICAL.get(name, name)
    return name.removeprefix("linalg_").removeprefix("special_").strip("_")


def _why_not(registration: Registration, opset: int) -> str:
    if not registration.covers(opset):
        return f"is for opset {registration.window}, and this is opset {opset}"
    for requirement in registration.requires:
        if reason := unmet(requirement):
            return f"needs {requirement}, and {reason}"
    return ""


def _overrides(one: Registration, other: Registration, registry: Registry) -> bool:
    return any(registry._from(other, name) for name in one.overrides)


def _raise(problem: PackError, *args: Any, **kwargs: Any) -> Any:
    raise problem


def _distinct(candidates: Iterable[Registration]) -> list[Registration]:
    """Keep each function once: one that is registered under two names of a callable is no tie."""
    return list({(id(r.function), r.pack): r for r in reversed(list(candidates))}.values())[::-1]
