"""Report of an export, for people and for programs."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ..errors import UsageError
from ..saving.save import write_text
from . import summary
from .report_data import ReportData

if TYPE_CHECKING:
    from ..page.data import Examined

FORMS = ("html", "json", "md")


class Exported(Protocol):
    """Graph of a report, if an export got so far."""

    def examine(self, report: Report) -> Examined: ...


@dataclass
class Report(ReportData):
    """Report of one export. `to_json()` is for programs; `str()` is the summary for people."""

    made: Exported | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return summary.text(self)

    def _repr_html_(self) -> str:
        """Summary for a notebook."""
        return summary.html(self)

    def to_json(self, indent: int | None = 2) -> str:
        return json.dumps(self.to_dict(), indent=indent)

    def to_html(self, path: str | os.PathLike) -> None:
        """Write one page that needs no other file: findings, proof, modules and graph."""
        self.write(path, "html")

    def to_markdown(self) -> str:
        from ..page import markdown

        return markdown.text(self.details())

    def write(self, path: str | os.PathLike, form: str = "") -> None:
        """Write the report as a page, as Markdown or as data: .html, .md or .json.

        It includes the error of each node. If these are not known yet, the model is recorded and
        the graph is run once more.
        """
        target = Path(path)
        form = form or target.suffix.lstrip(".").lower()
        if form not in FORMS:
            raise UsageError(
                f"a report is not written as {target.name!r}",
                hint="give it a name that ends in .html, .json or .md",
            )
        from ..page import html, markdown

        found = self.details()
        if form == "html":
            text = html.page(found)
        elif form == "md":
            text = markdown.text(found)
        else:
            text = json.dumps(found, indent=2) + "\n"
        write_text(text, target)

    def details(self) -> dict[str, Any]:
        """Contents of a page, as plain data."""
        from ..page import data

        examined = None if self.made is None else self.made.examine(self)
        found = self.to_dict()
        found.pop("node_checks")
        return data.gather({**found, "packs_installed": self.calls.installed}, examined)
