"""Messages for the user about an export, each with a level and a source line."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from .errors import Where

Level = Literal["open", "checked", "followed"]
# The file contains a number or an answer from the recording; other inputs may need a different one.
OPEN: Level = "open"
# Fixed as recorded, and proved or promised for the sizes that the file states.
CHECKED: Level = "checked"
# Python lost track of it, but the graph computes it.
FOLLOWED: Level = "followed"
LEVELS: tuple[Level, ...] = (OPEN, CHECKED, FOLLOWED)


@dataclass(frozen=True)
class Finding:
    """Message for the user: how serious it is, where it comes from, and what to do about it."""

    level: Level
    text: str
    where: Where | None = None
    hint: str = ""
    differs: bool = False  # it says on which inputs the file and the model differ: always shown

    def __str__(self) -> str:
        place = self.place
        shown = f"{place}: {self.text}" if place and place not in self.text else self.text
        return f"{shown}; {self.hint}" if self.hint else shown

    @property
    def place(self) -> str:
        """File and line, or "" if none is known."""
        return self.where.place if self.where is not None else ""

    def to_dict(self) -> dict[str, Any]:
        where = self.where or Where("", 0)
        return {"level": self.level, "text": self.text, **where.to_dict(), "hint": self.hint}


def by_level(findings: Iterable[Finding]) -> list[Finding]:
    """Return the findings without repetitions, open ones first."""
    return sorted(dict.fromkeys(findings), key=lambda each: LEVELS.index(each.level))


@dataclass
class Missing:
    """Target without a converter, and every place that calls it."""

    target: str
    detail: str = ""
    count: int = 0
    places: list[Where] = field(default_factory=list)
    inputs: list[list[str]] = field(default_factory=list)
    nearest: list[str] = field(default_factory=list)  # similar targets that have converters
    declined: str = ""  # pack and place of its converter, which declined

    def add(self, where: Where, inputs: list, detail: str = "") -> None:
        self.count += 1
        if detail and detail not in self.detail:
            self.detail = f"{self.detail}, {detail}" if self.detail else detail
        if where not in self.places:
            self.places.append(where)
            self.inputs.append([f"{str(d).removeprefix('torch.')}{list(s)}" for d, s in inputs])

    def copy(self) -> Missing:
        return replace(self, places=list(self.places), inputs=list(self.inputs))

    def to_dict(self) -> dict[str, Any]:
        return {
            "target": self.target,
            "detail": self.detail,
            "count": self.count,
            "places": [
                {**where.to_dict(), "inputs": inputs}
                for where, inputs in zip(self.places, self.inputs)
            ],
            "nearest": self.nearest,
            "declined": self.declined,
            "command": self.command,
        }

    @property
    def command(self) -> str:
        """Command that writes a pack with a converter for the target."""
        return scaffold([self] if not self.declined else [])

    def __str__(self) -> str:
        times = f"{self.count} call{'s' if self.count > 1 else ''}"
        because = f" ({self.detail})" if self.detail not in ("", self.target) else ""
        lines = [f"{self.target}{because}: {times}"]
        for where, inputs in list(zip(self.places, self.inputs))[:5]:
            lines.append(f"    {where}  {', '.join(inputs)}".rstrip())
        if len(self.places) > 5:
            lines.append(f"    and {len(self.places) - 5} more places")
        if self.declined:
            lines.append(f"    its converter ({self.declined}) declined this call")
            return "\n".join(lines)
        if self.nearest:
            lines.append(f"    the nearest:       {', '.join(self.nearest)}")
        lines.append(f"    write a converter: {self.command}")
        return "\n".join(lines)


def scaffold(missing: list[Missing]) -> str:
    """Return the command that writes a pack with converters for all missing targets."""
    targets = [f"--target {each.target}" for each in missing if not each.declined]
    return " ".join(["hx packs new my-pack", *targets]) if targets else ""
