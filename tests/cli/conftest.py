"""The command, run as people run it: words in; exit code, stdout and stderr out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import warm_python

MODELS = '''
import torch
from torch import nn

torch.manual_seed(1)  # some of other numbers make a Line of zeros, on which every file is right


class Line(nn.Module):
    def __init__(self, size: int = 4) -> None:
        super().__init__()
        self.linear = nn.Linear(size, 3)

    def forward(self, x, scale=None):
        y = self.linear(x).relu()
        return y if scale is None else y * scale


class Several(nn.Module):
    def forward(self, ids, mask):
        return ids * mask


class Broken(nn.Module):
    def forward(self, x):
        raise ValueError("the model is not in the mood")


class Branches(nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x + 1
        return x.sum()  # with an axis less: no graph has both ways


class Wrong(nn.Module):
    """Gives another result when asked again, which no graph can."""
    calls = 0

    def forward(self, x):
        Wrong.calls += 1
        return x + float(Wrong.calls)


class Holder(nn.Module):
    example_inputs = (torch.ones(2, 4),)

    def forward(self, x):
        return x * 2


class Unknown(nn.Module):
    def forward(self, x):
        return torch.linalg.eig(x)[0].real


def line(): return Line()
def with_inputs(): return Line(), (torch.ones(2, 4),)
def with_names(): return Line(), {"x": torch.ones(2, 4), "scale": torch.ones(3)}
def needs(size): return Line(size)
def fails(): raise KeyError("no such weights")
def not_a_model(): return 42
def broken(): return Broken(), (torch.ones(1),)
def branches(): return Branches(), (torch.ones(3),)
def wrong(): return Wrong(), (torch.ones(3),)
def unknown(): return Unknown(), (torch.ones(3, 3),)

ready = Line()
number = 7
'''


@dataclass
class Done:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def told(self) -> str:
        return self.out + self.err


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "models.py").write_text(MODELS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = dict(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - set(before):
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def hx(folder, monkeypatch, capfd):
    """`hx("export", "models.py:line", ...)` -> Done."""
    from hx.cli import main, streams

    def run(*words: str) -> Done:
        capfd.readouterr()
        monkeypatch.setattr(sys, "argv", ["hx", *map(str, words)])
        try:
            with pytest.raises(SystemExit) as stopped:
                main()
        finally:
            streams.joined()
        out, err = capfd.readouterr()
        assert "Traceback" not in err, err
        return Done(int(stopped.value.code or 0), out, err)

    return run


@pytest.fixture
def shell(terminal, folder):
    """`shell("packs", "list", ...)` -> Done: a process of its own, which begins with torch."""

    def run(*words: str) -> Done:
        if not warm_python.is_for(*words):
            return terminal(*words)
        path = [str(folder / "site"), os.environ.get("PYTHONPATH", "")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, path))}
        done = warm_python.run("hx", *words, cwd=folder, env=environment)
        assert "Traceback" not in done.stderr, done.stderr
        return Done(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture
def terminal(folder):
    """The same with any settings of subprocess.run, and from the very beginning."""

    def run(*words: str, **settings: Any) -> Done:
        command = [sys.executable, "-m", "hx", *map(str, words)]
        environment = {**os.environ, **settings.pop("env", {})}
        environment["PYTHONPATH"] = os.pathsep.join(
            filter(None, [str(folder / "site"), environment.get("PYTHONPATH", "")])
        )
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL}
        done = subprocess.run(
            command, cwd=folder, env=environment, text=True, timeout=300, **{**pipes, **settings}
        )
        assert "Traceback" not in (done.stderr or ""), done.stderr
        return Done(done.returncode, done.stdout or "", done.stderr or "")

    return run


@pytest.fixture
def installed(folder):
    """`installed("hx-acme", plugin=...)` puts a pack where `shell` finds it."""

    def install(name: str, plugin: str) -> None:
        module = name.replace("-", "_")
        about = folder / "site" / f"{module}-1.0.dist-info"
        about.mkdir(parents=True)
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text(f"[hx]\nmain = {module}.plugin\n")
        package = folder / "site" / module
        package.mkdir()
        (package / "__init__.py").touch()
        (package / "plugin.py").write_text(f"HX_API = 1\n{plugin}")

    return install


@pytest.fixture
def warm_workers(monkeypatch):
    """The processes that lists and comparisons of models start begin with the large libraries."""
    from hx.batch import worker
    from hx.bench import child

    names = {**vars(subprocess), "Popen": warm_python.WarmProcess}
    for module in (worker, child):
        monkeypatch.setattr(module, "subprocess", SimpleNamespace(**names))
