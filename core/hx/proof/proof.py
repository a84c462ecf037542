"""What a proof found, as data, and in words."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from hx.errors import VerificationError

TOLD = 1  # cases that are wrong and told in full
FEW = 8  # cases that are told by their names


@dataclass
class OutputCheck:
    """One output of one case; `problem` is empty when it is right."""

    name: str
    dtype: str
    shape: list[int]
    problem: str = ""
    max_abs: float = 0.0
    max_rel: float = 0.0  # the largest error as a share of the output's largest value
    rms_rel: float = 0.0
    allowed: float = 0.0  # what max_rel may be
    worst: tuple[int, ...] | None = None
    got: Any = None
    want: Any = None
    only: str = ""  # the one number that was expected everywhere, of those that are not whole
    random: bool = False  # random numbers are in it: only its dtype and shape were compared
    as_near: bool = (
        False  # beyond tolerance, and as near to the model in float64 as the model itself
    )
    other_rank: bool = False  # the model's has more axes, or fewer: a graph has either
    misdeclared: bool = False  # the numbers are right, and the file says other sizes of them


@dataclass
class CaseCheck:
    """One set of inputs; `problem` is what kept it from being compared at all."""

    name: str
    outputs: list[OutputCheck] = field(default_factory=list)
    problem: str = ""
    note: str = ""
    outside: str = ""  # wrong, at sizes that the file is not promised for: those that it is
    same_draws: bool = False  # the file ran on the random numbers that the model had drawn
    equal_draws: bool = False  # both ran on equal numbers in place of random ones
    by_parts: str = ""  # right part by part: what decides what comes out, and where; see `parts`
    seconds: float = 0.0

    @property
    def equal(self) -> bool:
        return not self.problem and not any(output.problem for output in self.outputs)

    @property
    def ok(self) -> bool:
        return self.equal or bool(self.by_parts or self.outside)


@dataclass
class Proof:
    """Everything that was checked of a file."""

    cases: list[CaseCheck] = field(default_factory=list)
    checker: str = ""  # onnx's complaint
    checked: bool = True  # whether onnx's checker was asked
    problem: str = ""  # why the file could not be run at all
    node: str = ""  # the name of one that is at fault, where it is known without comparing
    not_run: str = ""  # why onnxruntime was not asked at all: nothing is known but the check
    plain: bool = False  # run without onnxruntime's optimisations, which need more memory
    depth: int = 0  # operations one after the other, which the tolerance follows
    runtime: str = ""
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        """Nothing was wrong, and something was compared."""
        return bool(
            not self.checker
            and not self.problem
            and self.cases
            and all(case.ok for case in self.cases)
        )

    @property
    def wrong(self) -> bool:
        """Something was found, or nothing was compared without a reason."""
        return not self.ok and not (self.not_run and not self.checker and not self.problem)

    @property
    def worst(self) -> OutputCheck | None:
        equal = [case for case in self.cases if case.equal]
        outputs = [o for case in equal for o in case.outputs if not (o.random or o.as_near)]
        return max(outputs, key=lambda output: _strain(output), default=None)

    @property
    def random(self) -> list[str]:
        """The outputs that random numbers are in."""
        return sorted({o.name for case in self.cases for o in case.outputs if o.random})

    @property
    def untold(self) -> dict[str, str]:
        """The outputs that were one number everywhere in all cases, which shows little; and it."""
        seen: dict[str, list[OutputCheck]] = {}
        for case in self.cases:
            for output in case.outputs:
                seen.setdefault(output.name, []).append(output)
        return {
            name: each[0].only
            for name, each in seen.items()
            if len({output.only for output in each}) == 1 and not each[0].random
            and each[0].only and sum(math.prod(output.shape) for output in each) > 1
        }  # fmt: skip

    def summary(self) -> str:
        """One line."""
        if not self.wrong and self.not_run:
            checked = "right by onnx's checker; " if self.checked else ""
            return f"{checked}not run: {self.not_run}"
        if not self.ok:
            return f"not verified: {self._first_problem()}"
        equal = inputs_of([case.name for case in self.cases if case.equal])
        worst = self.worst
        error = "no outputs to compare"
        if worst is not None and worst.allowed:
            error = f"largest error {_share(worst.max_rel)}" if worst.max_rel else "no error"
            error += f"; {_share(worst.allowed)} of the largest value is allowed"
        elif worst is not None:
            error = "all equal"
        chance = self.random
        if chance and worst is None:
            how = (
                "only its dtype and shape are" if len(chance) == 1 else "only dtypes and shapes are"
            )
            return f"run, and nothing compared: {', '.join(chance)} random, {how} known to be right"
        if chance:
            error += f"; {', '.join(chance)} random: only dtype and shape compared"
        if any(case.same_draws for case in self.cases):
            error += "; on the random numbers that the model drew"
        if any(case.equal_draws for case in self.cases):
            error += "; on equal numbers in place of random ones"
        near = sorted({o.name for case in self.cases for o in case.outputs if o.as_near})
        if near:
            error += f"; {', '.join(near)} as near to what float64 gives as the model itself"
        if bare := ", ".join(f"{name} is {only}" for name, only in self.untold.items()):
            error += f"; {bare} everywhere, which shows little: other inputs may show more"
        how = ", without onnxruntime's optimisations" if self.plain else ""
        told = [f"on {equal}{how}: {error}"] if equal else []
        for why in sorted({case.by_parts for case in self.cases if case.by_parts}):
            names = inputs_of([case.name for case in self.cases if case.by_parts == why])
            told.append(f"part by part on {names}, where {why}")
        limits = sorted({case.outside for case in self.cases if case.outside})
        within = f" for {', '.join(limits)} only," if limits else ""
        return f"verified{within} {'; '.join(told)} ({self.seconds:.1f} s)"

    def explain(self) -> str:
        """As many lines as it takes to say what is wrong; the summary when nothing is."""
        if not self.wrong:
            return self.summary()
        lines = []
        if self.checker:
            lines += ["onnx's checker refuses the file:", _indented(self.checker)]
        if self.problem:
            lines += ["onnxruntime refuses the file:", _indented(self.problem)]
        wrong = [case for case in self.cases if not case.ok]
        for case in wrong[:TOLD]:
            lines.append(f"{case.name} inputs: wrong")
            if case.problem:
                lines.append(_indented(case.problem))
            for output in case.outputs:
                lines += [_indented(line) for line in _told(output)]
            if case.note:
                lines.append(_indented(case.note))
        more = [case.name for case in wrong[TOLD:]]
        if more:
            lines.append(f"{inputs_of(more)}: wrong, too")
        right = [case.name for case in self.cases if case.ok]
        if right:
            lines.append(f"{inputs_of(right)}: right")
        if not lines:
            lines.append("nothing was compared: there were no cases")
        return "\n".join(lines)

    def require(self) -> Proof:
        """Raise VerificationError unless all is well."""
        if not self.ok:
            raise VerificationError(
                "the graph does not compute what the model computes"
                if any(output.problem for case in self.cases for output in case.outputs)
                else "the graph could not be verified",
                why=self.explain().replace("\n", "\n         "),
                proof=self,
            )
        return self

    def to_dict(self) -> dict[str, Any]:
        return {"ok": self.ok, **asdict(self)}

    def _first_problem(self) -> str:
        for found in (self.checker, self.problem):
            if found:
                return found.splitlines()[0]
        for case in self.cases:
            if case.problem:
                return f"{case.name} inputs: {case.problem.splitlines()[0]}"
            for output in case.outputs:
                if output.problem:
                    return f"{case.name} inputs: {_told(output)[0]}"
        return "there were no cases"


def _strain(output: OutputCheck) -> float:
    """How much of its tolerance an output uses."""
    if output.allowed:
        return output.max_rel / output.allowed
    return float("inf") if output.problem else 0.0


def _told(output: OutputCheck) -> list[str]:
    head = f"{output.name} {output.dtype}{output.shape}"
    if not output.problem and output.random:
        return [f"{head}: random, of this dtype and shape"]
    if not output.problem:
        return [f"{head}: right (error {_share(output.max_rel)} of the largest value)"]
    lines = [f"{head}: {output.problem}"]
    if output.allowed:
        lines.append(
            f"  error {_share(output.max_rel)} of the largest value, {_share(output.allowed)} "
            f"allowed; {_share(output.rms_rel)} in the mean"
        )
    if output.worst is not None:
        lines.append(f"  at {list(output.worst)}: {output.got}, expected {output.want}")
    return lines


def inputs_of(names: Sequence[str]) -> str:
    """`recorded, fresh inputs`; of many the kinds, and how many there were."""
    if not names:
        return ""
    plain = [re.sub(r",? ?way \d+$", "", name) or "recorded" for name in names]
    kinds = list(dict.fromkeys(re.sub(r" at .*=.*$| \d+$", "", name) for name in plain))
    if len(names) <= FEW:
        kinds = list(names)
    ways = {way[1] for name in names if (way := re.search(r"way (\d+)$", name))}
    shown = ", ".join(kind.replace(", ", " ") if "=" in kind else kind for kind in kinds[:FEW])
    if len(names) <= FEW:
        return f"{shown} inputs"
    more = f" and {len(kinds) - FEW} more kinds" if len(kinds) > FEW else ""
    along = f"; along {len(ways) + 1} ways through the model" if ways else ""
    return f"{len(names)} sets of inputs ({shown}{more}{along})"


def _share(number: float) -> str:
    return f"{number:.1e}"


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
