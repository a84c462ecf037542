"""Pages of the site: what is in its menu, what its links become, and what is made from the code."""

from __future__ import annotations

from tests.docs import error_reference, python_reference
from tests.docs.site_pages import MADE, ROOT, linked, nav_files, write_pages

import hx
from hx.error_pages import titles


def test_each_page_is_in_the_menu_once_and_exists():
    names = nav_files()
    assert len(set(names)) == len(names)
    for name in names:
        assert name in MADE or (ROOT / name).is_file(), name
    written = [*ROOT.glob("core/docs/**/*.md"), *ROOT.glob("core/hx/*/README.md")]
    written += ROOT.glob("plugins_example/**/README.md")
    assert {path.relative_to(ROOT).as_posix() for path in written} <= set(names)


def test_pages_keep_their_places(tmp_path):
    write_pages(tmp_path)
    assert all((tmp_path / name).is_file() for name in nav_files())


def test_links_to_folders_lead_to_their_readme_and_other_files_have_none():
    names = ["README.md", "core/docs/tutorial.md", "plugins_example/hx-ort/README.md"]
    text = "[a](plugins_example/hx-ort) [b](core/docs/tutorial.md#run-it) [c](LICENSE) [d](gone.md)"
    assert linked(text, "README.md", names) == (
        "[a](plugins_example/hx-ort/README.md) [b](core/docs/tutorial.md#run-it) c [d](gone.md)"
    )
    code = "```md\n[c](LICENSE)\n```"
    assert linked(code, "README.md", names) == code


def test_the_reference_has_each_public_name():
    page = python_reference.markdown()
    shown = {name for names in python_reference.GROUPS.values() for name in names} | {"hookimpl"}
    rest = set(hx.__all__) - shown
    assert all(issubclass(getattr(hx, name), hx.HxError) for name in rest)
    assert all(name in page for name in hx.__all__)
    assert " object at 0x" not in page


def test_columns_of_a_docstring_become_a_table():
    def document():
        """Head of it.

        first   text that goes
                on here
        second, third
                more | text

            code()
        """

    lines = list(python_reference.docstring(document))
    assert lines[:2] == ["Head of it.", ""]
    assert "| `first` | text that goes on here |" in lines
    assert "| `second, third` | more \\| text |" in lines
    assert lines[-4:] == ["```python", "code()", "```", ""]


def test_each_error_has_a_section():
    page = error_reference.markdown()
    for code, title in titles().items():
        assert f"## {code}: {title} {{ #{code.lower()} }}" in page
