"""Packs import only the public API: hx, hx.contributions, hx.errors, hx.lazy and hx.testing."""

import ast
from pathlib import Path

import pytest

import hx

ROOT = Path(__file__).parents[2]
PUBLIC = {"hx.contributions", "hx.errors", "hx.lazy", "hx.testing"}
PACKS = [
    ROOT / "converters",
    *sorted(p.parent for p in ROOT.glob("plugins_example/*/pyproject.toml")),
]


def imported(code: str) -> set[str]:
    """The modules and names of hx that some code imports."""
    found = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            module = node.module or ""
            found |= {f"hx.{a.name}" for a in node.names} if module == "hx" else {module}
    return {name for name in found if name.split(".")[0] == "hx"}


def private(code: str) -> set[str]:
    names = {f"hx.{name}" for name in hx.__all__}
    return imported(code) - names - PUBLIC - {"hx"}


@pytest.mark.parametrize("pack", PACKS, ids=lambda pack: pack.name)
def test_packs_import_only_the_public_api(pack):
    files = sorted(pack.rglob("*.py"))
    assert files
    found = {str(f.relative_to(ROOT)): private(f.read_text()) for f in files}
    assert not {file: names for file, names in found.items() if names}


def test_private_imports_are_found():
    code = (
        "from hx import case, dtypes\nfrom hx.graph.op import Op\nimport hx.runtime\nimport hx.lazy"
    )
    assert private(code) == {"hx.dtypes", "hx.graph.op", "hx.runtime"}
