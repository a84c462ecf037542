"""Pages of the site: Markdown files at their places in the repository, and two that are made.

The site has the folders of the repository, so a link between two files works in both.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml
from tests.docs import error_reference, python_reference

ROOT = Path(__file__).parents[2]
CONFIG = ROOT / "core" / "docs" / "mkdocs.yml"
MADE: dict[str, Callable[[], str]] = {
    "core/docs/errors.md": error_reference.markdown,
    "core/docs/python.md": python_reference.markdown,
}
_FENCED = re.compile(r"^( *)(```+).*?^\1\2 *$", re.M | re.S)
_LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")


def nav_files() -> list[str]:
    """List the files of the site, as paths in the repository, in the order of its menu."""
    # The file may name Python objects (!!python/name:...), which are of no interest here.
    nav = yaml.load(CONFIG.read_text(encoding="utf-8"), yaml.BaseLoader)["nav"]
    return list(_leaves(nav))


def _leaves(node: Any) -> Iterator[str]:
    if isinstance(node, str):
        yield node
    else:
        for each in node.values() if isinstance(node, dict) else node:
            yield from _leaves(each)


def write_pages(folder: Path) -> None:
    """Write the Markdown of all pages, and the style sheet, into a folder."""
    names = nav_files()
    for name in names:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        text = MADE[name]() if name in MADE else (ROOT / name).read_text(encoding="utf-8")
        target.write_text(linked(text, name, names), encoding="utf-8")
    shutil.copy(CONFIG.with_name("site.css"), folder / "core" / "docs")


def linked(text: str, name: str, names: list[str]) -> str:
    """Adapt the links of a page: folders lead to their READMEs; files without a page lose theirs.

    A link to a file that does not exist stays, so that the build fails.
    """
    parts, end = [], 0
    for fence in _FENCED.finditer(text):
        parts += [_links(text[end : fence.start()], name, names), fence[0]]
        end = fence.end()
    return "".join([*parts, _links(text[end:], name, names)])


def _links(text: str, name: str, names: list[str]) -> str:
    def link(found: re.Match[str]) -> str:
        words, target = found.groups()
        path, hash_, heading = target.partition("#")
        if not path or ":" in path:
            return found[0]
        place = (ROOT / name).parent / path
        if place.is_dir():
            place, path = place / "README.md", f"{path.rstrip('/')}/README.md"
        if _in_repository(place) in names:
            return f"[{words}]({path}{hash_}{heading})"
        return words if place.exists() else found[0]

    return _LINK.sub(link, text)


def _in_repository(place: Path) -> str:
    place = place.resolve()
    return place.relative_to(ROOT).as_posix() if place.is_relative_to(ROOT) else ""
