"""A section of a README that is made from the code, between `<!-- NAME -->` and `<!-- /NAME -->`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Section:
    name: str
    module: str  # that has this section and runs `main`
    markdown: Callable[[], str]

    def updated(self, text: str) -> str:
        """Replace the section in the text of a file."""
        first, last = f"<!-- {self.name} -->", f"<!-- /{self.name} -->"
        before, start, rest = text.partition(first)
        _, end, after = rest.partition(last)
        if not start or not end:
            raise SystemExit(f"the file has no {first} and {last}")
        return f"{before}{start}\n\n{self.markdown()}\n{end}{after}"

    def main(self) -> None:
        """Print the section; `--update FILE` writes it into FILE, and `--check FILE` compares it."""
        if len(sys.argv) != 3:
            print(self.markdown(), end="")
            return
        path = Path(sys.argv[2])
        text = path.read_text(encoding="utf-8")
        new = self.updated(text)
        if sys.argv[1] == "--update":
            path.write_text(new, encoding="utf-8")
        elif new != text:
            raise SystemExit(f"{path} is not up to date: python -m {self.module} --update {path}")
