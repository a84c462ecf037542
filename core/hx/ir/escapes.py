"""Traced values that left the graph during a recording."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..errors import Where
from ..findings import CHECKED, FOLLOWED, OPEN, Finding, Level
from .sizes.comparisons import Asked

ANSWERS = ("branch", "lookup", "layout")  # kinds of escapes: which way the model went
DETOURS = ("numpy", "array", "from_numpy", "tolist", "data_ptr", "dlpack")  # kinds of escapes
_SENTENCES = (
    "branch",
    "bool",
    "range",
    "rounds",
    "caught",
    "raises",
    "draw",
    "layout",
    "thread",
    "baked",
)
# Effects of an escape on the file, with the other sizes or inputs that they concern, and hints.
_HAS_RECORDED = "a value left the graph: the file has that of the recording, also for {}"
_BRANCH = (
    "the file always takes the recorded branch, also for {}",
    "use torch.where, or torch.cond for a branch of its own",
)
_LOOP = (
    "the loop always runs as often as in the recording, also for {}",
    "compute all rounds at once, or use torch._higher_order_ops.while_loop or scan",
)
_EFFECTS = {
    **dict.fromkeys(("bool", "branch", "is_nonzero", "equal"), _BRANCH),
    **dict.fromkeys(("range", "rounds"), _LOOP),
    "caught": ("the file assumes that the error is, or is not, raised for {} too", ""),
    "raises": ("the file assumes that no error is raised for other inputs either", ""),
    "draw": ("the file contains random numbers from the recording", "draw with torch"),
    "layout": ("the file treats this tensor as a view, or a copy, also for {}", ""),
    "thread": (_HAS_RECORDED, ""),
}


@dataclass
class Escape:
    """A traced value that left the graph: from there on it is a number of the recording."""

    kind: str  # item, bool, numpy, branch, layout, int, ...
    where: Where
    detail: str
    count: int = 1
    carried: bool = False  # it came back as a number that the graph computes
    calculated: bool = False  # a number that the graph computes as long as Python only calculates
    raises: bool = False  # with the other answer, the model raises an error
    # Questions about sizes, as far as known.
    asked: dict[Asked, None] = field(default_factory=dict, repr=False)
    beyond: str = ""  # the proof's result at sizes where the answer differs
    through: Where | None = None  # start of the function that the module called to get there

    def __str__(self) -> str:
        times = f" ({self.count} times)" if self.count > 1 else ""
        beyond = f"; {self.beyond}" if self.beyond else ""
        if self.detail.startswith(f"{self.kind} of "):  # `item of one value`
            return f"{self.detail} at {self.where}{times}{beyond}"
        return f"{self.kind} at {self.where}{times}: {self.detail}{beyond}"

    def level(self, proved: bool) -> Level:
        """Return how serious it is, in a file that was proved or was not."""
        if self.carried:
            return FOLLOWED
        if not proved:
            return OPEN
        if self.calculated:
            return FOLLOWED
        if self.kind in ("format", "repr"):  # no text gets into a graph
            return CHECKED
        tried = self.by_sizes() and "not tried" not in self.beyond
        return CHECKED if tried or self.raises else OPEN

    def finding(self, proved: bool) -> Finding:
        level = self.level(proved)
        times = f", {self.count} times" if self.count > 1 else ""
        detail = self.detail
        if self.kind not in _SENTENCES and not detail.startswith(f"{self.kind} of "):
            detail = f"{self.kind}: {detail}"
        beyond = f"; {self.beyond}" if self.beyond else ""
        if level == FOLLOWED:
            return Finding(level, f"computed in the graph: {detail}{times}{beyond}", self.where)
        if level == CHECKED:
            return Finding(level, f"fixed as recorded: {detail}{times}{beyond}", self.where)
        what, hint = self._effect()
        return Finding(level, f"{what} ({detail}{times}{beyond})", self.where, hint)

    def _effect(self) -> tuple[str, str]:
        """Return its effect on the file, and a hint on what to do about it."""
        of_sizes = bool(self.asked) and not self.asks_of_values()
        what, hint = _EFFECTS.get(self.kind, (_HAS_RECORDED, "compute it with tensors"))
        return what.format("other sizes" if of_sizes else "other inputs"), hint

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            **self.where.to_dict(),
            "detail": self.detail,
            "count": self.count,
            "carried": self.carried,
            "beyond": self.beyond,
        }

    def told(self) -> str:
        """Describe an escape that made the file wrong, as a sentence for the user."""
        if self.kind == "branch":
            what = "a size"
            if self._of_values():
                read = "item(" in self.detail or any(asked.read() for asked in self.asked)
                what = "a value" if read else "a size that the run alone knows"
            return f"the branch at {self.where} depends on {what}, {self.detail}, and is fixed as recorded"
        if self.kind == "bool":
            what = "sizes, in a way that is not known" if self.asked else "a value"
            return f"a branch that depends on {what} is fixed as recorded: {self}"
        if self.kind == "draw":
            return f"at {self.where} {self.detail}; torch's own would be drawn by the graph"
        if self.kind == "range":
            instead = "leave that size out of dynamic=, or write it"
            if any(asked.read() for asked in self.asked):
                instead = (
                    "values decide how often that is: record it with the most rounds there may be, "
                    "where a mask leaves out the rest, compute it for all at once, or write it"
                )
            elif self._of_values():
                instead = (
                    "it follows from the inputs in a way that no rule of sizes tells: compute it for "
                    "all at once, or write it"
                )
            return (
                f"the loop at {self.where} runs as often as in the recording, {self.detail}: "
                f"{instead} as torch._higher_order_ops.while_loop or scan, which become Loop and "
                "Scan"
            )
        if self.kind == "rounds":
            return (
                f"the loop at {self.where} runs as often as in the recording, {self.detail}: "
                "other values may have more or fewer; go over all there may be (every expert, hit or "
                "not), or write it as torch._higher_order_ops.while_loop, which becomes Loop"
            )
        if self.kind == "caught":
            return f"at {self.where} {self.detail}: sizes or values decide whether it is raised"
        if self.kind == "layout":
            return (
                f"at {self.where} a tensor is written to that is a view or a copy of another, as "
                "sizes have it: it stays what it was in the recording"
            )
        return f"left the graph: {self}"

    def by_values(self) -> bool:
        """Return True if values may lead the model down another path, which is not in the graph."""
        asks = self.kind in ("bool", "item", "is_nonzero", "caught")
        if self.kind == "branch":
            asks = self._of_values() or self.asks_of_values()
        return asks and not self.carried

    def asks_of_values(self) -> bool:
        """Return True if a question that is known reads values."""
        return any(each.of_values() for each in self.asked)

    def by_sizes(self) -> bool:
        """Return True if named sizes decide it, and nothing else does."""
        return bool(self.asked) and all(each.is_of_named_sizes() for each in self.asked)

    def _of_values(self) -> bool:
        """Return True if its detail, or the first question asked there, reads values."""
        first = next(iter(self.asked), None)
        return "item(" in self.detail or (first is not None and first.of_values())


def noted(escapes: dict[tuple, Escape], new: Escape) -> Escape:
    """Add an escape, or count it with the one of its kind and line; return what is noted."""
    found = escapes.setdefault((new.kind, new.where.file, new.where.line), new)
    if found is not new:
        found.count += 1
        found.calculated &= new.calculated
    return found
