"""`hx packs new`: a complete pack from templates, which passes its own tests unchanged.

A converter is written for each target with the target's own signature. It returns NotImplemented,
so that the pack can be installed at once: until it is written, hx converts the calls inside the
target, if there are any. If an example call can be found by trying, it becomes the first case.
"""

from __future__ import annotations

import contextlib
import keyword
import re
from pathlib import Path
from string import Template

from hx.errors import UsageError
from hx.registration import converter
from hx.scaffold.sketch import sketches

TEMPLATES = Path(__file__).parent / "templates"


def write(name: str, targets: list[str], folder: Path) -> tuple[Path, list[Path]]:
    """Write the pack into a new folder of its name; return the folder and the files in it."""
    if not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?", name):
        raise UsageError(f"{name!r} cannot be the name of a package", hint="such as hx-mylib")
    module = re.sub(r"[-.]+", "_", name).lower()
    if not module.isidentifier() or keyword.iskeyword(module):
        raise UsageError(f"{name!r} would make the module {module!r}, which Python cannot import")
    if module in ("hx", "hx_converters"):
        raise UsageError(f"{name!r} is taken by hx itself", hint="such as hx-mylib")
    converter(*targets)  # raises for an invalid target
    _require_there(targets)
    _require_free(module, name, targets)
    root = folder / name
    if root.is_dir() and any(root.iterdir()):
        raise UsageError(f"{root} exists and is not empty", hint="choose another name, or --in")
    found = sketches(targets)
    words = {
        "name": name,
        "module": module,
        "entry": module.removeprefix("hx_"),
        "targets": ", ".join(f"`{target}`" for target in dict.fromkeys(targets)),
        "first_target": found[0].target,
        "first_function": found[0].function,
        "imports": "case, converter" if any(each.case for each in found) else "converter",
        "converters": "\n\n".join(each.source for each in found).rstrip(),
    }
    try:
        return root, _filled(root, module, words)
    except OSError as problem:
        told = (problem.strerror or str(problem)).lower()
        raise UsageError(
            f"{root} cannot be written: {told}", hint="choose another folder with --in"
        ) from None


def _require_there(targets: list[str]) -> None:
    """Raise if an installed library lacks a target; a library that is absent cannot be checked."""
    from hx.packs.targets import NotImportable, NotInstalled, resolve

    for target in targets:
        with contextlib.suppress(NotImportable, NotInstalled):
            resolve(target, import_missing=True)


def _require_free(module: str, name: str, targets: list[str]) -> None:
    """Raise if a package of the same name exists: once installed, one would hide the other."""
    from importlib.util import find_spec

    found = find_spec(module)
    # A folder without an __init__.py is found, too, but a package of the name takes precedence.
    there = found is not None and found.origin is not None
    if there or module in {target.replace("::", ".").partition(".")[0] for target in targets}:
        whose = f"{module!r} is a module already"
        whose += f", in {found.origin}" if found is not None and found.has_location else ""
        raise UsageError(
            f"{name!r} would hide another package: {whose}",
            hint="give it a name of its own" + f", such as hx-{name}" * (module[:2] != "hx"),
        )


def _filled(root: Path, module: str, words: dict[str, str]) -> list[Path]:
    files = []
    for template in sorted(TEMPLATES.rglob("*.tmpl")):
        relative = template.relative_to(TEMPLATES).as_posix().removesuffix(".tmpl")
        path = Path(relative.replace("DOT", ".").replace("MODULE", module))
        text = Template(template.read_text(encoding="utf-8")).substitute(words)
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
        files.append(path)
    return files
