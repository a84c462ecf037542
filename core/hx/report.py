"""What happened during an export, for people and for programs."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import UsageError, Where
from .sizes.asked import Asked

if TYPE_CHECKING:
    from .program import Program

SCHEMA = 1
FORMS = ("html", "json", "md")
ANSWERS = ("branch", "lookup", "layout")  # kinds of escapes: which way the model went
DETOURS = ("numpy", "array", "from_numpy", "tolist", "data_ptr", "dlpack")  # kinds of escapes


@dataclass
class Escape:
    """A traced value that left the graph: from there on it is a number of the recording."""

    kind: str  # item, bool, numpy, branch, layout, int, ...
    where: Where
    detail: str
    count: int = 1
    carried: bool = False  # it came back as a number that the graph computes
    # Of sizes, as far as known.
    asked: dict[Asked, None] = field(default_factory=dict, repr=False)
    beyond: str = ""  # what the proof saw of sizes at which the answer is another one
    through: Where | None = None  # where the function begins that the module calls on the way there

    def __str__(self) -> str:
        times = f" ({self.count} times)" if self.count > 1 else ""
        beyond = f"; {self.beyond}" if self.beyond else ""
        if self.detail.startswith(f"{self.kind} of "):  # `item of one value`
            return f"{self.detail} at {self.where}{times}{beyond}"
        return f"{self.kind} at {self.where}{times}: {self.detail}{beyond}"

    def told(self) -> str:
        """A sentence, for when it did harm."""
        if self.kind == "branch":
            what = "a size"
            if self._of_values():
                read = "item(" in self.detail or any(asked.read() for asked in self.asked)
                what = "a value" if read else "a size that the run alone knows"
            return (
                f"the branch at {self.where} depends on {what}, {self.detail}: it is taken for good"
            )
        if self.kind == "bool":
            what = "sizes, in a way that is not known" if self.asked else "a value"
            return f"a branch depends on {what}, {self}: it is taken for good"
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
        """Whether values may lead the model another way, which is not in the graph."""
        asks = self.kind in ("bool", "item", "is_nonzero", "caught")
        if self.kind == "branch":
            asks = self._of_values() or any(asked.of_values() for asked in self.asked)
        return asks and not self.carried

    def _of_values(self) -> bool:
        """Whether what is told of it says so: the first that was asked there, of several."""
        first = next(iter(self.asked), None)
        return "item(" in self.detail or (first is not None and first.of_values())


@dataclass
class Missing:
    """A target that nobody converts, and every place that calls it."""

    target: str
    detail: str = ""
    count: int = 0
    places: list[Where] = field(default_factory=list)
    inputs: list[list[str]] = field(default_factory=list)
    nearest: list[str] = field(default_factory=list)  # targets of like names that are converted
    declined: str = ""  # the converter that it has, which declined: its pack and place

    def add(self, where: Where, inputs: list, detail: str = "") -> None:
        self.count += 1
        if detail and detail not in self.detail:
            self.detail = f"{self.detail}, {detail}" if self.detail else detail
        if where not in self.places:
            self.places.append(where)
            self.inputs.append([f"{str(d).removeprefix('torch.')}{list(s)}" for d, s in inputs])

    def copy(self) -> Missing:
        return replace(self, places=list(self.places), inputs=list(self.inputs))

    @property
    def command(self) -> str:
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
    """The command that writes a pack with a converter for each that has none."""
    targets = [f"--target {each.target}" for each in missing if not each.declined]
    return " ".join(["hx packs new my-pack", *targets]) if targets else ""


@dataclass
class Report:
    """What an export did. `to_json()` for programs; `str()` is the summary for people."""

    name: str = "model"
    nodes: int = 0
    initializers: int = 0
    size: int = 0
    opset: int = 0
    path: str | None = None
    data_path: str | None = None
    inputs: list[dict[str, Any]] = field(default_factory=list)
    outputs: list[dict[str, Any]] = field(default_factory=list)
    converters: dict[str, int] = field(default_factory=dict)
    packs: dict[str, int] = field(default_factory=dict)
    declined: dict[str, int] = field(default_factory=dict)
    # Calls by pack and target, and whether its converter declined.
    by_pack: dict[tuple[str, str, bool], int] = field(default_factory=dict)
    missing: list[Missing] = field(default_factory=list)
    escapes: list[Escape] = field(default_factory=list)
    changed_buffers: list[str] = field(default_factory=list)
    # Of dynamic sizes, by name, those that the file is right for, where it is wrong at others.
    promised: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    timings: dict[str, float] = field(default_factory=dict)
    proof: Any = None
    node_table: Any = None  # a nodes.NodeTable, when every node was checked
    baked: list[str] = field(default_factory=list)  # what changed when sizes did, and should not
    why: list[str] = field(default_factory=list)  # of a proof that failed: where, and what did it
    failed: str = ""  # what was said when the export ended without a file
    installed: list[dict[str, str]] = field(default_factory=list)  # packs, sound or not
    made: Any = field(default=None, repr=False)  # what an export made

    def __str__(self) -> str:
        from .summary import text

        return text(self)

    @property
    def covered(self) -> bool:
        return not self.missing

    def to_dict(self) -> dict[str, Any]:
        def where(w: Where) -> dict[str, Any]:
            return {"file": w.file, "line": w.line, "scope": w.scope, "function": w.function}

        return {
            "schema": SCHEMA,
            "name": self.name,
            "path": self.path,
            "data_path": self.data_path,
            "opset": self.opset,
            "nodes": self.nodes,
            "initializers": self.initializers,
            "size": self.size,
            "inputs": self.inputs,
            "outputs": self.outputs,
            "converters": self.converters,
            "packs": self.packs,
            "declined": self.declined,
            "missing": [
                {
                    "target": m.target,
                    "detail": m.detail,
                    "count": m.count,
                    "places": [
                        {**where(w), "inputs": i} for w, i in zip(m.places, m.inputs)
                    ],
                    "nearest": m.nearest,
                    "declined": m.declined,
                    "command": m.command,
                }
                for m in self.missing
            ],
            "escapes": [
                {"kind": e.kind, **where(e.where), "detail": e.detail, "count": e.count,
                 "carried": e.carried, "beyond": e.beyond}
                for e in self.escapes
            ],
            "changed_buffers": self.changed_buffers,
            "promised": self.promised,
            "notes": self.notes,
            "baked": self.baked,
            "why": self.why,
            "failed": self.failed,
            "timings": {k: round(v, 6) for k, v in self.timings.items()},
            "proof": None if self.proof is None else self.proof.to_dict(),
            "node_checks": None if self.node_table is None else self.node_table.to_dict(),
        }  # fmt: skip

    def to_json(self, indent: int | None = 2) -> str:
        return json.dumps(self.to_dict(), indent=indent)

    def to_html(self, path: str | os.PathLike) -> None:
        """One page that needs nothing else: the graph, its modules, errors, what is to be told."""
        self.write(path, "html")

    def to_markdown(self) -> str:
        from .page import data, markdown

        return markdown.text(self._whole(data))

    def write(self, path: str | os.PathLike, form: str = "") -> None:
        """As a page, as Markdown or as data: .html, .md or .json.

        Errors by node are a part of it: where they were not worked out yet, the model is recorded
        and the graph is run once more.
        """
        target = Path(path)
        form = form or target.suffix.lstrip(".").lower()
        if form not in FORMS:
            raise UsageError(
                f"a report is not written as {target.name!r}",
                hint="give it a name that ends in .html, .json or .md",
            )
        from .page import data

        found = self._whole(data)
        if form == "html":
            from .page import html

            text = html.page(found)
        elif form == "md":
            from .page import markdown

            text = markdown.text(found)
        else:
            text = json.dumps(found, indent=2) + "\n"
        from .saving.save import write_text

        write_text(text, target)

    @property
    def program(self) -> Program | None:
        """The program that it tells of, if an export got as far as that."""
        from .program import Program

        return None if self.made is None else Program(self.made, self)

    def _whole(self, data: Any) -> dict[str, Any]:
        program = self.program
        if program is None:
            return data.gather(self)
        return program.examined(lambda: data.gather(self))
