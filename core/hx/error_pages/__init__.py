"""Pages about errors in Markdown, one for each code in `hx.errors`."""

from __future__ import annotations

from pathlib import Path

from hx.errors import UsageError

FOLDER = Path(__file__).parent


def titles() -> dict[str, str]:
    """Return the title of each page by its code."""
    return {
        path.stem: path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        for path in sorted(FOLDER.glob("HX*.md"))
    }


def page(code: str) -> str:
    """Return the page of a code, as Markdown."""
    if code not in titles():
        raise UsageError(f"there is no error {code!r}", hint="hx explain lists all codes")
    return (FOLDER / f"{code}.md").read_text(encoding="utf-8")
