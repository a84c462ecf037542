"""Results of a proof, as data and in words."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from hx.budget import BUDGET
from hx.errors import VerificationError, Where


@dataclass
class Difference:
    """Difference of two tensors; `problem` is empty when it is within tolerance."""

    problem: str = ""
    max_abs: float = 0.0
    max_rel: float = 0.0  # the largest error as a share of the largest value
    rms_rel: float = 0.0
    allowed: float = 0.0  # limit of max_rel
    worst: tuple[int, ...] | None = None
    got: Any = None
    want: Any = None
    only: str = ""  # the one number that was expected everywhere: the comparison shows little then


@dataclass(kw_only=True)
class OutputCheck(Difference):
    """Check of one output in one case; `problem` is empty when it is right."""

    name: str
    dtype: str
    shape: list[int]
    random: bool = False  # it holds random numbers: only its dtype and shape were compared
    as_near: bool = (
        False  # beyond tolerance, and as near to the model in float64 as the model itself
    )
    other_rank: bool = False  # the model's result has more axes, or fewer: a graph has either
    misdeclared: bool = False  # the numbers are right, but the file declares other sizes for them

    @property
    def is_small(self) -> bool:
        """True if the error is small beside the largest value, or beside 1.

        The second is for outputs that may be nothing but rounding: x - x.
        """
        return self.max_rel < 1e-2 or self.max_abs < 1e-4


@dataclass
class CaseCheck:
    """Check of one set of inputs; `problem` is the reason why it could not be compared at all."""

    name: str
    outputs: list[OutputCheck] = field(default_factory=list)
    problem: str = ""
    note: str = ""
    outside: str = ""  # wrong, at sizes outside of these promised limits
    far: bool = (
        False  # wrong only at sizes far larger than recorded, which the model never asked for
    )
    special: bool = False  # NaN, infinities or equal elements are in its inputs
    same_draws: bool = False  # the file ran with the random numbers that the model drew
    equal_draws: bool = False  # both ran with equal numbers in place of random ones
    by_runtime: str = ""  # the file is right, and the runtime computes something else
    by_parts: str = ""  # right part by part: where and why results differ; see `parts`
    parted: Where | None = None  # the line where they do
    seconds: float = 0.0

    @property
    def equal(self) -> bool:
        return not self.problem and not any(output.problem for output in self.outputs)

    @property
    def ok(self) -> bool:
        return self.equal or bool(self.by_parts or self.outside or self.by_runtime)

    @property
    def is_rounding(self) -> bool:
        """True if results differ by little at most."""
        wrong = [output for output in self.outputs if output.problem]
        return not self.problem and all(output.allowed and output.is_small for output in wrong)


@dataclass
class Proof:
    """Results of all checks of a file."""

    cases: list[CaseCheck] = field(default_factory=list)
    checker: str = ""  # the error of onnx's checker
    checked: bool = True  # whether onnx's checker has run
    problem: str = ""  # why the file could not run at all
    node: str = ""  # the name of a faulty node that is known without comparing
    plain: bool = False  # run without onnxruntime's optimisations, which need more memory
    depth: int = 0  # longest chain of operations, which the tolerance follows
    runtime: str = ""
    seconds: float = 0.0
    sizes: dict[str, tuple[int, int]] = field(default_factory=dict)  # least and most, by name

    @property
    def ok(self) -> bool:
        """True if nothing was wrong, and something was compared."""
        return bool(
            not self.checker
            and not self.problem
            and self.cases
            and all(case.ok for case in self.cases)
        )

    @property
    def wrong(self) -> bool:
        """True if an error was found, or nothing was compared."""
        return not self.ok

    @property
    def wrong_cases(self) -> list[CaseCheck]:
        return [case for case in self.cases if not case.ok]

    @property
    def worst(self) -> OutputCheck | None:
        equal = [case for case in self.cases if case.equal]
        outputs = [o for case in equal for o in case.outputs if not (o.random or o.as_near)]
        return max(outputs, key=lambda output: _strain(output), default=None)

    @property
    def random(self) -> list[str]:
        """Outputs that random numbers are in."""
        return sorted({o.name for case in self.cases for o in case.outputs if o.random})

    @property
    def untold(self) -> dict[str, str]:
        """Outputs that were one number everywhere in all cases, with this number."""
        seen: dict[str, list[OutputCheck]] = {}
        for case in (each for each in self.cases if not each.special):
            for output in case.outputs:
                seen.setdefault(output.name, []).append(output)
        return {
            name: each[0].only
            for name, each in seen.items()
            if len({output.only for output in each}) == 1 and not each[0].random
            and each[0].only and sum(math.prod(output.shape) for output in each) > 1
        }  # fmt: skip

    def summary(self) -> str:
        """Summarize the proof in one line."""
        if not self.ok:
            return f"not verified: {self._first_problem()}"
        chance = ", ".join(self.random)
        if chance and self.worst is None:
            how = "dtypes and shapes are" if len(self.random) > 1 else "its dtype and shape are"
            return f"run, and nothing compared: {chance} random, only {how} known to be right"
        equal = inputs_of([case.name for case in self.cases if case.equal])
        how = ", without onnxruntime's optimisations" if self.plain else ""
        told = (
            [f"on {equal}{how}: {'; '.join([self._error(), *self._evidence()])}"] if equal else []
        )
        for why in sorted({case.by_parts for case in self.cases if case.by_parts}):
            names = inputs_of([case.name for case in self.cases if case.by_parts == why])
            told.append(f"part by part on {names}, where {why}")
        for why in sorted({case.by_runtime for case in self.cases if case.by_runtime}):
            names = inputs_of([case.name for case in self.cases if case.by_runtime == why])
            told.append(f"on {names} {why}")
        outside = (case.outside.split(", ") for case in self.cases if case.outside)
        limits = sorted({limit for limits in outside for limit in limits})
        within = f" for {', '.join(limits)} only," if limits else ""
        return f"verified{within} {'; '.join(told)} ({self.seconds:.1f} s)"

    def _error(self) -> str:
        """Return the largest error, with what is allowed."""
        worst = self.worst
        if worst is None:
            return "no outputs to compare"
        if not worst.allowed:
            return "all equal"
        error = f"max error {_share(worst.max_rel)}" if worst.max_rel else "no error"
        return f"{error} (limit {_share(worst.allowed)})"

    def _evidence(self) -> list[str]:
        """Return how outputs were compared, if not with the model's own numbers alone."""
        told = []
        if self.random:
            told.append(f"{', '.join(self.random)} random: only dtype and shape compared")
        if any(case.same_draws for case in self.cases):
            told.append("on the random numbers that the model drew")
        if any(case.equal_draws for case in self.cases):
            told.append("on equal numbers in place of random ones")
        if near := sorted({o.name for case in self.cases for o in case.outputs if o.as_near}):
            told.append(f"{', '.join(near)} as near to what float64 gives as the model itself")
        if bare := ", ".join(f"{name} is {only}" for name, only in self.untold.items()):
            told.append(f"{bare} everywhere, which shows little: other inputs may show more")
        return told

    def explain(self) -> str:
        """Return the lines that say what is wrong, or the summary if nothing is."""
        if not self.wrong:
            return self.summary()
        lines = []
        if self.checker:
            lines += ["onnx's checker refuses the file:", _indented(self.checker)]
        if self.problem:
            lines += ["onnxruntime refuses the file:", _indented(self.problem)]
        wrong = self.wrong_cases
        for case in wrong[: BUDGET.shown.wrong_cases]:
            lines.append(f"{case.name} inputs: wrong")
            if case.problem:
                lines.append(_indented(case.problem))
            for output in case.outputs:
                lines += [_indented(line) for line in _told(output)]
            if case.note:
                lines.append(_indented(case.note))
        more = [case.name for case in wrong[BUDGET.shown.wrong_cases :]]
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
    """Return the share of its tolerance that an output uses."""
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
            f"  error {_share(output.max_rel)} (limit {_share(output.allowed)}) of the largest value; "
            f"{_share(output.rms_rel)} in the mean"
        )
    if output.worst is not None:
        lines.append(f"  at {list(output.worst)}: {output.got}, expected {output.want}")
    return lines


def inputs_of(names: Sequence[str]) -> str:
    """Name the inputs, as in `recorded, fresh inputs`; of many, name kinds and numbers."""
    if not names:
        return ""
    plain = [re.sub(r",? ?way \d+$", "", name) or "recorded" for name in names]
    kinds = list(dict.fromkeys(re.sub(r" at .*=.*$| \d+$", "", name) for name in plain))
    most = BUDGET.shown.cases
    if len(names) <= most:
        kinds = list(names)
    ways = {way[1] for name in names if (way := re.search(r"way (\d+)$", name))}
    shown = ", ".join(kind.replace(", ", " ") if "=" in kind else kind for kind in kinds[:most])
    if len(names) <= most:
        return f"{shown} inputs"
    more = f" and {len(kinds) - most} more kinds" if len(kinds) > most else ""
    along = f"; along {len(ways) + 1} ways through the model" if ways else ""
    return f"{len(names)} input sets ({shown}{more}{along})"


def _share(number: float) -> str:
    return f"{number:.1e}"


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
