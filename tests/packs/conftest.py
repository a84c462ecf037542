"""Packs that are really built and installed, and `hx` run beside them as users run it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import warm_python

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "plugins_example"

PYPROJECT = """\
[build-system]
requires = ["hatchling>=1.27"]
build-backend = "hatchling.build"

[project]
name = "{name}"
version = "{version}"
{entry}
[tool.hatch.build.targets.wheel]
packages = ["{module}"]
"""


def write_pack(
    folder: Path, name: str, plugin: str, entry: str = "main", value: str = "", **modules: str
) -> Path:
    """The source of a distribution whose module `<name>.plugin` is `plugin`."""
    module = name.replace("-", "_")
    root = folder / name
    (root / module).mkdir(parents=True)
    point = (
        f'[project.entry-points.hx]\n{entry} = "{value or f"{module}.plugin"}"\n' if entry else ""
    )
    (root / "pyproject.toml").write_text(
        PYPROJECT.format(name=name, version="1.0", entry=point, module=module)
    )
    (root / module / "__init__.py").write_text("")
    for file, text in {"plugin": plugin, **modules}.items():
        (root / module / f"{file}.py").write_text(text)
    return root


def pip_install(target: Path, *sources: Path) -> None:
    flags = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--no-compile"]
    command = [sys.executable, "-m", "pip", "install", *flags, "--target", str(target)]
    done = subprocess.run([*command, *map(str, sources)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def new_python(*words: str, cwd: Path, env: dict[str, str]) -> subprocess.CompletedProcess:
    """Run a module as `warm_python.run` does, in a process that has imported nothing."""
    command = [sys.executable, "-m", *words]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=env, timeout=600)


@dataclass
class Shell:
    """Runs `hx` with the packs of some folders installed."""

    folders: list[Path]
    cwd: Path

    @property
    def environment(self) -> dict[str, str]:
        path = [*map(str, self.folders), os.environ.get("PYTHONPATH", "")]
        return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path))}

    def run(self, *args: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess:
        settings = {**self.environment, **(env or {})}
        run = warm_python.run if warm_python.is_for(*args) else new_python
        return run("hx", *args, cwd=self.cwd, env=settings)

    def json(self, *args: str) -> dict:
        done = self.run(*args, "--json")
        assert done.stdout, done.stderr
        return json.loads(done.stdout)

    def packs(self) -> dict[str, dict]:
        return {pack["key"]: pack for pack in self.json("packs", "list")["packs"]}


@pytest.fixture(scope="session")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library and both packs of plugins_example, built and installed."""
    target = tmp_path_factory.mktemp("examples")
    pip_install(target, *(EXAMPLES / name for name in ("acme-nn", "hx-hardswish", "hx-spline")))
    return target
