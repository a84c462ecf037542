"""Settings of the user: `[tool.hx]` in the nearest pyproject.toml, and the environment.

    [tool.hx]
    use = { "torch.nn.functional.silu" = "hx-fast" }
    no-pack = ["hx-old"]
    require = ["hx-spconv>=1.2"]
    strict = true

The same in the environment: `HX_USE=TARGET=PACK,...`, `HX_NO_PACK=A,B`, `HX_ONLY_PACKS=A,B`,
`HX_REQUIRE="A>=1.2; B"`, `HX_STRICT=1`. An option on the command line comes before the
environment, and that before the file.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hx.errors import UsageError
from hx.text import did_you_mean

KEYS = ("use", "no-pack", "only-packs", "require", "strict")


@dataclass(frozen=True)
class Settings:
    """Choices of the user: the packs that take part, and the pack that converts each target."""

    use: Mapping[str, str] = field(default_factory=dict)
    no_pack: tuple[str, ...] = ()
    only_packs: tuple[str, ...] | None = None
    require: tuple[str, ...] = ()
    strict: bool | None = None  # None: not set

    def over(self, below: Settings) -> Settings:
        """Return these settings where they are set, and those of `below` elsewhere."""
        return Settings(
            use={**below.use, **self.use},
            no_pack=(*below.no_pack, *self.no_pack),
            only_packs=below.only_packs if self.only_packs is None else self.only_packs,
            require=(*below.require, *self.require),
            strict=below.strict if self.strict is None else self.strict,
        )


def standing(start: Path | None = None, environ: Mapping[str, str] = os.environ) -> Settings:
    """Merge the settings of the environment and of the nearest pyproject.toml."""
    return from_environment(environ).over(from_pyproject(start))


def from_environment(environ: Mapping[str, str]) -> Settings:
    only = environ.get("HX_ONLY_PACKS")
    strict = environ.get("HX_STRICT", "").lower()
    return Settings(
        use=parse_uses(_split(environ.get("HX_USE", ""), ","), "HX_USE"),
        no_pack=_split(environ.get("HX_NO_PACK", ""), ","),
        only_packs=_split(only, ",") if only else None,
        require=_split(environ.get("HX_REQUIRE", ""), ";"),
        strict=strict not in ("0", "false", "no") if strict else None,
    )


def from_pyproject(start: Path | None = None) -> Settings:
    """Read `[tool.hx]` of the nearest pyproject.toml at or above `start`."""
    here = (start or Path.cwd()).resolve()
    for folder in (here, *here.parents):
        path = folder / "pyproject.toml"
        if path.is_file():
            return _read(path)
    return Settings()


def parse_uses(texts: Iterable[str], source: str = "--use") -> dict[str, str]:
    """Parse several `TARGET=PACK` into a dict."""
    uses: dict[str, str] = {}
    for text in texts:
        target, equals, pack = (part.strip() for part in text.partition("="))
        if not (target and equals and pack):
            raise UsageError(
                f"{source}: {text!r} is not TARGET=PACK",
                hint=f"write for example {source}{' ' if source.startswith('-') else '='}"
                "torch.nn.functional.relu=standard",
            )
        if uses.setdefault(target, pack) != pack:
            raise UsageError(f"{source}: {target} is given to both {uses[target]} and {pack}")
    return uses


def _read(path: Path) -> Settings:
    return _parsed(path, path.read_text(encoding="utf-8", errors="replace"))


@functools.lru_cache(maxsize=4)  # each export reads the same file
def _parsed(path: Path, text: str) -> Settings:
    if "tool.hx" not in text and "[tool" not in text:
        return Settings()
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        tool = tomllib.loads(text).get("tool", {})
    except tomllib.TOMLDecodeError as problem:
        if "tool.hx" not in text:
            return Settings()
        raise UsageError(f"{path} is not valid TOML: {problem}") from None
    table = tool.get("hx", {}) if isinstance(tool, dict) else {}
    if not isinstance(table, dict):
        raise UsageError(
            f"{path}: tool.hx is not a table", hint="write [tool.hx] above its settings"
        )
    return _settings({key.replace("_", "-"): value for key, value in table.items()}, path)


def _settings(table: dict[str, Any], path: Path) -> Settings:
    for key in table:
        if key not in KEYS:
            raise UsageError(
                f"{path}: [tool.hx] has no setting {key!r}",
                hint=did_you_mean(key, KEYS, f"settings are {', '.join(KEYS)}"),
            )
    use, strict = table.get("use", {}), table.get("strict")
    if not isinstance(use, dict) or not all(isinstance(pack, str) for pack in use.values()):
        raise UsageError(
            f"{path}: use of [tool.hx] is not a table of targets and packs",
            hint='write use = { "torch.nn.functional.relu" = "standard" }',
        )
    if not isinstance(strict, (bool, type(None))):
        raise UsageError(f"{path}: strict of [tool.hx] has to be true or false")
    lists: dict[str, tuple[str, ...] | None] = {}
    for key in ("no-pack", "only-packs", "require"):
        value = table.get(key)
        value = [value] if isinstance(value, str) else value
        if value is not None and not (
            isinstance(value, list) and all(isinstance(each, str) for each in value)
        ):
            raise UsageError(f"{path}: {key} of [tool.hx] has to be a list of strings")
        lists[key] = None if value is None else tuple(value)
    return Settings(
        use=use,
        no_pack=lists["no-pack"] or (),
        only_packs=lists["only-packs"],
        require=lists["require"] or (),
        strict=strict,
    )


def _split(text: str, separator: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(separator) if part.strip())
